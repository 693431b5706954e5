"""Means over time of whole noisy vectors that are charged one by one: their best k are nearer to the truth. Theorem T7."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.continual_top_k import Floats
from dpselect.continual.smoothing import RANKING, RATES, closest
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.noisy_max.oneshot import OneshotTopK
from dpselect.selection import Label, Selection

VARIANCE: Final = {"gaussian": 1.0, "laplace": 2.0}  # of the noises whose values can be shown
_FALLS = np.array(RATES)[:, None]


@final
class Averages:
    """The best k items of a public domain, by means over time of noisy scores. It costs nothing: it looks at released values.

    Each release shows the noisy scores of all items: `OneshotTopK` with k the size of the domain and `values=True`. With Gaussian
    noise that costs what k items alone cost. Of a few rates at which the weights of earlier releases fall, each release takes
    the one with the least squared error, by Stein's estimate of it, over items close to rank k before.

    Args:
        k: how many items are wanted, >= 1.

    Raises:
        InvalidRequest: k is not an integer >= 1.

    Example:
        >>> import dpselect as dps
        >>> few = dps.Sensitivity.of_counts(items_per_user=3)
        >>> whole = dps.OneshotTopK(k=3, noise="gaussian", scale=8.0, values=True, sensitivity=few)
        >>> averages = dps.Averages(k=1)
        >>> for counts in ([9000, 500, 20], [70, 600, 30]):
        ...     day = dps.Scores(counts, labels=["zoo", "park", "pier"], sensitivity=few)
        ...     top = averages.read(whole, whole.select(day))
        >>> top.labels
        ('park',)
    """

    def __init__(self, k: int) -> None:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise InvalidRequest(f"k={k!r} must be an integer >= 1: how many items are wanted")
        self._k = int(k)
        self._places: dict[Label, int] = {}
        self._means = Means(self._k)

    def read(self, mechanism: OneshotTopK, drawn: Selection) -> Selection:
        """The best k by means of all releases so far, this one included, with their noisy scores of this one.

        Args:
            drawn: what `mechanism` has released of all items of the domain, which is that of the first call.

        Raises:
            InvalidRequest: scores have no labels, or are not those of all items, or the domain is another.
        """
        if drawn.labels is None or drawn.values is None or not isinstance(mechanism, OneshotTopK) or not mechanism.values:
            raise InvalidRequest(
                "averages are of noisy scores with labels: release an OneshotTopK with values=True and k the size of the domain"
            )
        if mechanism.k != len(drawn.labels) or (self._places and self._places.keys() != set(drawn.labels)):
            raise InvalidRequest(
                f"averages need the noisy scores of all items of one public domain, in every release: k={mechanism.k} must be "
                "its size, and the domain that of the first release"
            )
        if not self._places:
            self._places = {label: place for place, label in enumerate(sorted(drawn.labels, key=str))}
            self._means = Means(self._k, len(self._places))
        values = np.empty(len(self._places))
        values[[self._places[label] for label in drawn.labels]] = drawn.values
        self._means.add(values)
        scores = self._means.order(mechanism.scale**2 * VARIANCE[mechanism.noise])
        labels = list(self._places)
        best = [int(place) for place in np.argsort(-scores, kind="stable")[: self._k]]
        return Selection(
            ordered=True,
            requested=self._k,
            complete=len(best) == self._k,
            reason=None if len(best) == self._k else "the domain has fewer items than requested",
            values=tuple(float(values[place]) for place in best),
            labels=tuple(labels[place] for place in best),
        )


@final
class Means:
    """Means over time of noisy vectors, at the rates at which weights may fall.

    Args:
        k: how many items are wanted.
        items: how long the vectors are at first.
    """

    def __init__(self, k: int, items: int = 0) -> None:
        self._k = k
        self._sums, self._weights, self._earlier = np.zeros((len(RATES), items)), np.zeros((len(RATES), items)), np.zeros(items)

    @property
    def values(self) -> Floats:
        """(rates, items) the means."""
        return np.divide(self._sums, self._weights, out=np.zeros_like(self._sums), where=self._weights > 0)

    def grow(self, history: Floats) -> None:
        """Take in more items, whose noisy values so far are the (releases, items) `history`, the first release first."""
        more = Means(self._k, history.shape[1])
        for values in history:
            more.add(values)
        self._sums, self._weights = np.hstack([self._sums, more._sums]), np.hstack([self._weights, more._weights])

    def add(self, values: Floats) -> None:
        """Take in one more noisy vector."""
        self._earlier = self.values[RANKING]
        self._sums, self._weights = _FALLS * self._sums + values, _FALLS * self._weights + 1

    def order(self, variance: float, among: NDArray[np.bool_] | None = None) -> Floats:
        """(items,) means of the rate that fits best.

        Args:
            variance: of the noise of the last vector.
            among: which items may be looked at; None for all.
        """
        shown = slice(None) if among is None else among
        means, weights = self.values[:, shown], self._weights[:, shown]
        return np.asarray(means[closest(means, self._earlier[shown], 2 * variance / weights, self._k)])
