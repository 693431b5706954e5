"""Means over time of whole noisy vectors that are charged one by one: their best k are nearer to the truth. Theorem T7."""

from __future__ import annotations

from typing import Final, final

import numpy as np

from dpselect.continual.continual_top_k import Floats
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.noisy_max.oneshot import OneshotTopK
from dpselect.selection import Label, Selection

_RATES: Final = np.array([[0.0], [0.3], [0.5], [0.7], [0.85], [0.95], [1.0]])  # by what weights fall from release to release
_RANKING = 3  # the rate that says which items were close to rank k before
_VARIANCE: Final = {"gaussian": 1.0, "laplace": 2.0}  # of the noises whose values can be shown
_BORDER = 4  # they are the items from rank k + 1 to this many k


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
        values = np.empty(len(self._places))
        values[[self._places[label] for label in drawn.labels]] = drawn.values
        scores = self._means.add(values, mechanism.scale**2 * _VARIANCE[mechanism.noise])
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
    """Weighted means over time of noisy vectors, at a few rates at which weights fall."""

    def __init__(self, k: int) -> None:
        self._k, self._means, self._total = k, np.zeros((len(_RATES), 0)), np.zeros_like(_RATES)

    def add(self, values: Floats, variance: float) -> Floats:
        """(items,) means that include these noisy values, of the rate that fits best.

        Args:
            variance: of the noise of these values.
        """
        first = not self._means.size
        before = np.zeros(len(values)) if first else self._means[_RANKING]
        kept = _RATES * self._total
        self._total = kept + 1
        self._means = ((0.0 if first else kept * self._means) + values) / self._total
        border = np.argsort(-before, kind="stable")[self._k : _BORDER * self._k]
        if first or not len(border):
            return self._means[0]
        errors = np.square(self._means[:, border] - values[border]).mean(axis=1) + 2 * variance / self._total[:, 0]
        return np.asarray(self._means[int(np.argmin(errors))])
