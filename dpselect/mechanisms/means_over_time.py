"""Means over time, at the rate that fits best, which order items of horizons or single releases.

The order is a function of the measurements of public and of discovered items, and costs nothing
(Theorems T1, T7 and T8).
"""

from __future__ import annotations

from typing import Final, final

import numpy as np

from accounting.numbers import Flags, Floats
from dpselect.mechanisms.continual_top_k import ContinualTopK
from dpselect.mechanisms.release import public_grid

# by what a period's weight falls from one period to the next
RATES: Final = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
RANKING: Final = 3  # the place of the rate by which the last period's borderline items are found
_BORDER = 4  # borderline items are those from rank k + 1 to this many k
_FALLS = np.array(RATES)[:, None]


def columns(mechanism: ContinualTopK, period: int) -> Floats:
    """Weights (columns, period) of the measurements so far, for the sums of `order_by`."""
    weights = [_column(mechanism, period, rate)[::-1] for rate in RATES]
    before = _column(mechanism, max(period - 1, 1), RATES[RANKING])[::-1]
    return np.array([*weights, np.append(before, 0.0)[-period:]])


def order_by(
    mechanism: ContinualTopK, period: int, scores: Floats, sums: Floats, groups: int = 1
) -> Floats:
    """Order (items,) as a weighted mean of scores in all periods so far, in any unit.

    In the first period it is `scores`. There are a few rates at which weights fall. The one with
    the least squared error is taken, by Stein's estimate, over items that were close to rank k in
    the period before.

    Args:
        sums: (columns, items) sums of measurements, in multiples of the public grid, for `columns`
            of this period.
        groups: number of groups with k items each.
    """
    k = mechanism.k * groups
    if period == 1 or len(scores) <= k:
        return scores
    means, earlier = sums[:-1], sums[-1]
    variance = (mechanism.scale / public_grid(mechanism.scale)) ** 2
    weights = columns(mechanism, period)
    return means[_closest(means, earlier, 2 * variance * (weights[:-1] @ weights[0])[:, None], k)]


def _closest(means: Floats, earlier: Floats, noise: Floats, k: int) -> int:
    """Index of the (means, items) means over time with the least squared error, by Stein.

    The error is Stein's estimate, over items that were close to rank k before.

    Args:
        means: means over time; the first of them is the last score by itself.
        earlier: (items,) scores before, by which items are ranked.
        noise: twice the covariance of each mean's noise with that of the last score; broadcasts to
            (means, items).
    """
    last = min(_BORDER * k, len(earlier))
    among = (
        np.flatnonzero(earlier >= np.partition(earlier, -last)[-last])
        if last
        else np.zeros(0, dtype=np.int64)
    )
    # Equals in the order of their means: how items are numbered tells when they first existed,
    # which nobody paid for.
    border = among[np.lexsort((*means[:, among], -earlier[among]))][k : _BORDER * k]
    if not len(border):
        return 0
    errors = (
        np.square(means[:, border] - means[0, border])
        + np.broadcast_to(noise, means.shape)[:, border]
    )
    return int(np.argmin(errors.mean(axis=1)))


def _column(mechanism: ContinualTopK, period: int, rate: float) -> Floats:
    """Weights (period,) of measurements, last first, for a mean whose weights fall by `rate`."""
    weights = rate ** np.arange(period)
    return np.asarray(np.convolve(weights / weights.sum(), mechanism.strategy.estimator)[:period])


@final
class Means:
    """Means over time of noisy vectors, at the rates at which weights may fall.

    Args:
        k: number of wanted items.
        items: length of the vectors at first.
    """

    def __init__(self, k: int, items: int = 0) -> None:
        self._k = k
        self._sums, self._weights, self._earlier = (
            np.zeros((len(RATES), items)),
            np.zeros((len(RATES), items)),
            np.zeros(items),
        )

    @property
    def values(self) -> Floats:
        """The means, (rates, items)."""
        return np.divide(
            self._sums, self._weights, out=np.zeros_like(self._sums), where=self._weights > 0
        )

    def grow(self, history: Floats) -> None:
        """Add more items.

        Args:
            history: (releases, items) their noisy values so far, the first release first.
        """
        more = Means(self._k, history.shape[1])
        for values in history:
            more.add(values)
        self._sums, self._weights = (
            np.hstack([self._sums, more._sums]),
            np.hstack([self._weights, more._weights]),
        )

    def add(self, values: Floats) -> None:
        """Add one more noisy vector."""
        self._earlier = self.values[RANKING]
        self._sums, self._weights = _FALLS * self._sums + values, _FALLS * self._weights + 1

    def order(self, variance: float, among: Flags | None = None) -> Floats:
        """Means (items,) at the rate that fits best.

        Args:
            variance: variance of the last vector's noise.
            among: items that may be looked at; None for all.
        """
        items = slice(None) if among is None else among
        means, weights = self.values[:, items], self._weights[:, items]
        return np.asarray(
            means[_closest(means, self._earlier[items], 2 * variance / weights, self._k)]
        )
