"""Means over time of whole noisy vectors that are charged one by one, and scores that lean on earlier periods. Theorem T7.

Order is a function of the measurements of public and of discovered items, and costs nothing (Theorems T1, T7 and T8).
"""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.continual_top_k import ContinualTopK, Floats
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.noisy_max import OneshotTopK
from dpselect.mechanisms.release import public_grid
from dpselect.selection import Label, Selection

RATES: Final = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)  # by what a period's weight falls from one period to the next
RANKING: Final = 3  # the place of the rate by which the last period's borderline items are found
_BORDER = 4  # they are the items from rank k + 1 to this many k


def columns(mechanism: ContinualTopK, period: int) -> Floats:
    """(columns, period) weights of the measurements so far, of which `order_by` takes the sums."""
    found = [_column(mechanism, period, rate)[::-1] for rate in RATES]
    before = _column(mechanism, max(period - 1, 1), RATES[RANKING])[::-1]
    return np.array([*found, np.append(before, 0.0)[-period:]])


def order_by(mechanism: ContinualTopK, period: int, scores: Floats, sums: Floats, groups: int = 1) -> Floats:
    """(items,) what orders items: a weighted mean of their scores in all periods so far, in any unit; `scores` at first.

    Of a few rates at which weights fall, the one with the least squared error is taken, by Stein's estimate of it, over items
    that were close to rank k in the period before.

    Args:
        sums: (columns, items) sums of measurements, in multiples of the public grid, for `columns` of this period.
        groups: in how many groups k items each are wanted.
    """
    k = mechanism.k * groups
    if period == 1 or len(scores) <= k:
        return scores
    means, earlier = sums[:-1], sums[-1]
    variance = (mechanism.scale / public_grid(mechanism.scale)) ** 2
    weights = columns(mechanism, period)
    return means[_closest(means, earlier, 2 * variance * (weights[:-1] @ weights[0])[:, None], k)]


def _closest(means: Floats, earlier: Floats, noise: Floats, k: int) -> int:
    """Which of a few (means, items) means over time has the least squared error, by Stein's estimate of it.

    Over items that were close to rank k before.

    Args:
        means: the first of them the last score by itself.
        earlier: (items,) scores before, by which items are ranked.
        noise: twice the covariance of each mean's noise with that of the last score; broadcasts to (means, items).
    """
    last = min(_BORDER * k, len(earlier))
    among = np.flatnonzero(earlier >= np.partition(earlier, -last)[-last]) if last else np.zeros(0, dtype=np.int64)
    # Equals in the order of their means: how items are numbered tells when they first existed, which nobody paid for.
    border = among[np.lexsort((*means[:, among], -earlier[among]))][k : _BORDER * k]
    if not len(border):
        return 0
    errors = np.square(means[:, border] - means[0, border]) + np.broadcast_to(noise, means.shape)[:, border]
    return int(np.argmin(errors.mean(axis=1)))


def _column(mechanism: ContinualTopK, period: int, rate: float) -> Floats:
    """(period,) weights of the measurements, the last one first, in a mean of scores whose weights fall by `rate`."""
    weights = rate ** np.arange(period)
    return np.asarray(np.convolve(weights / weights.sum(), mechanism.strategy.estimator)[:period])


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
        return np.asarray(means[_closest(means, self._earlier[shown], 2 * variance / weights, self._k)])
