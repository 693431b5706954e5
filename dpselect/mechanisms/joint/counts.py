"""How many of the best ranks may stand in each place of a sequence whose loss is at most a given level.

Losses and levels are halved, so that no scores make them overflow. Place i may take the ranks r with x_[i] - x_[r] <= level.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
from flint import arb, fmpq

from dpselect.mechanisms.ranks import Ranked
from dpselect.sampling.heights import Floats, Indices
from dpselect.sampling.lazy import rational

_ROUNDING = 2.0**-49  # of |height| + level: above the roundings of a comparison
_TINY = 2.0**-1000  # more than any underflow


@final
class Counts:
    """Counts for one score vector and sequences of k."""

    def __init__(self, ranked: Ranked, k: int) -> None:
        self._ranked, self._size, self._k = ranked, ranked.size, k
        self._ascending = ranked.half_below_top(np.arange(ranked.size, 0, -1))
        self._top = self._ascending[::-1][:k]
        self.largest_loss = math.nextafter(float(-self._ascending[0]) + _TINY, math.inf)

    def between(self, low: Floats, high: Floats) -> tuple[Indices, Indices]:
        """(levels, k) bounds on the counts at every level from low to high, elementwise; (levels,) each. Theorem M10."""
        least = np.maximum(self._reaching(low, self._slack(low)), np.arange(1, self._k + 1))
        return least, self.most(high)

    def most(self, level: Floats) -> Indices:
        """(levels, k) upper bounds on the counts at each level."""
        return self._reaching(level, -self._slack(level))

    def margin(self, level: Floats) -> Floats:
        """(levels,) a distance in level that is certainly told apart from none."""
        return 8.0 * (_ROUNDING * np.abs(self._top[-1]) + _ROUNDING * level + _TINY)

    def jump(self, level: Floats) -> tuple[Floats, Floats]:
        """(levels,) the last level up to each at which a count rises, and the first one after it (inf if none); rounded."""
        count = self.most(level)
        last = (self._top - self._ascending[self._size - count]).max(axis=1)
        after = np.where(count < self._size, self._top - self._ascending[np.maximum(self._size - count - 1, 0)], np.inf)
        return last, after.min(axis=1)

    def at(self, level: arb, least: Indices, most: Indices) -> Indices | None:
        """(k,) the counts at a level, not halved, known as a ball, between these bounds; None where the ball does not tell."""
        counts = least.copy()
        for place in np.flatnonzero(least < most).tolist():
            count = self._rising(level, place, int(least[place]), int(most[place]))
            if count is None:
                return None
            counts[place] = count
        return counts

    def _rising(self, level: arb, place: int, count: int, most: int) -> int | None:
        best = rational(self._ranked.value(place + 1))
        while count < most:
            value = self._ranked.value(count + 1)
            loss: fmpq = best - rational(value)
            if level < arb(loss):
                return count
            if not level > arb(loss):
                return None
            count = self._ranked.reaching(value)
        return count

    def _reaching(self, level: Floats, slack: Floats) -> Indices:
        with np.errstate(over="ignore"):
            return self._size - np.searchsorted(self._ascending, self._top - level[:, None] + slack, side="left")

    def _slack(self, level: Floats) -> Floats:
        return np.asarray(_ROUNDING * np.abs(self._top) + _ROUNDING * level[:, None] + _TINY)
