"""Which of many numbers are among a few given ones, by hashing into cells: a search for each would cost more than a sort."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

_CELLS = 1 << 16


@final
class Lookup:
    """Finds the numbers that equal one of `levels`, ascending and all different."""

    def __init__(self, levels: NDArray[Any]) -> None:
        self._levels, self._low = levels, float(levels[0])
        spread = float(levels[-1]) - self._low
        # One cell for all where the spread is zero or overflows.
        self._per_unit = _CELLS / spread if 0 < spread < math.inf and math.isfinite(_CELLS / spread) else 0.0
        cells = self._cells(levels)
        self._table = np.full(_CELLS + 1, -1, dtype=np.int32)
        self._table[cells] = np.arange(len(levels))
        self._crowded = len(np.unique(cells)) < len(levels)

    def find(self, numbers: NDArray[Any]) -> tuple[Indices, Indices]:
        """Where in `numbers` there is one of the levels, ascending, and which one."""
        where = _places((numbers >= self._levels[0]) & (numbers <= self._levels[-1]))
        near = numbers[where]
        listed = self._table[self._cells(near)]
        likely = np.flatnonzero(listed >= 0)
        level = np.searchsorted(self._levels, near[likely], side="right") - 1 if self._crowded else listed[likely]
        exact = self._levels[level] == near[likely]
        return np.arange(len(numbers))[where][likely[exact]], level[exact].astype(np.int64)

    def _cells(self, numbers: NDArray[Any]) -> Indices:
        """The same cell for the same number; that suffices."""
        if self._per_unit == 0.0:
            return np.zeros(len(numbers), dtype=np.int64)
        return ((numbers.astype(np.float64) - self._low) * self._per_unit).astype(np.int64)


def _places(kept: NDArray[np.bool_]) -> Any:
    """An index for what is kept; a slice, which copies nothing, where that is all."""
    return slice(None) if kept.all() else np.flatnonzero(kept)
