"""How the candidates of a pool of units are numbered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling.heights import Floats, Indices, Words

_POOL = 2.0**60  # candidates a pool may hold before its last unit, so that 64 bits number them all
Located = Callable[[Words], tuple[Indices, Indices]]


@final
@dataclass(frozen=True)
class Layout:
    """Units of `width` candidates each, `stride` apart in the values; of `multiplicities[start]` candidates if width is 0."""

    width: int
    stride: int
    size: int
    multiplicities: Indices

    @classmethod
    def blocks(cls, size: int, count: int) -> Self:
        """Block i holds candidates i, i + count, ... below `size`; all are counted as if they were as long as the longest."""
        return cls(-(-size // count), count, size, np.empty(0, dtype=np.int64))

    @classmethod
    def single(cls) -> Self:
        """One candidate a unit."""
        return cls(1, 0, 0, np.empty(0, dtype=np.int64))

    @classmethod
    def groups(cls, multiplicities: Indices) -> Self:
        """Group g holds `multiplicities[g]` candidates."""
        return cls(0, 0, 0, multiplicities)

    def lengths(self, start: Indices) -> Floats | None:
        """Candidates in each unit, for an estimate."""
        if self.width == 1:
            return None
        return np.full(len(start), float(self.width)) if self.width else self.multiplicities[start].astype(np.float64)

    def pools(self, same: Indices, start: Indices) -> list[Indices]:
        """Runs of units whose candidates 64 bits can number."""
        if self.width or len(same) == 0:
            return [same] if len(same) else []
        length = self.multiplicities[start[same]].astype(np.float64)
        before = np.cumsum(length) - length
        return np.split(same, np.flatnonzero(np.diff(before // _POOL)) + 1)

    def numbered(self, start: Indices) -> tuple[int, Located]:
        """How many candidates a pool holds, and a function from their numbers to (unit of the pool, offset in it)."""
        if self.width:
            return len(start) * self.width, self._divided
        length = self.multiplicities[start].astype(np.uint64)
        ends = np.cumsum(length)

        def located(number: Words) -> tuple[Indices, Indices]:
            unit = np.searchsorted(ends, number, side="right")
            return unit, (number - (ends[unit] - length[unit])).astype(np.int64)

        return int(ends[-1]), located

    def candidates(self, start: Indices, offset: Indices) -> tuple[Indices, Indices, NDArray[np.int64] | None]:
        """Their indices into the values, their members within a group, and which of them exist (None: all)."""
        if self.stride == 0:
            return start, offset, None
        index = start + self.stride * offset
        real = np.flatnonzero(index < self.size)
        return np.where(index < self.size, index, 0), np.zeros_like(offset), real

    def _divided(self, number: Words) -> tuple[Indices, Indices]:
        unit, offset = np.divmod(number.astype(np.int64), self.width)
        return unit, offset
