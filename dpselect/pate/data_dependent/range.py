"""The largest value of a table over many ranges at once."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@final
class RangeMax:
    """Maxima over ranges of a fixed table, by ranges of every power of two.

    Args:
        values: (n,) numbers, n >= 1.
    """

    def __init__(self, values: Floats) -> None:
        self._levels = [values]
        while 2 ** len(self._levels) <= len(values):
            last, half = self._levels[-1], 2 ** (len(self._levels) - 1)
            self._levels.append(np.maximum(last[:-half], last[half:]))

    @property
    def most(self) -> float:
        """The largest value of all."""
        return float(self._levels[0].max())

    def __call__(self, low: Integers, high: Integers) -> Floats:
        """(m,) maxima of values[low], ..., values[high], both clipped to the table."""
        last = len(self._levels[0]) - 1
        low, high = np.clip(low, 0, last), np.clip(high, 0, last)
        level = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        found = np.empty(len(low))
        for size in np.unique(level):
            at, width = np.flatnonzero(level == size), 2 ** int(size)
            found[at] = np.maximum(self._levels[size][low[at]], self._levels[size][high[at] + 1 - width])
        return found
