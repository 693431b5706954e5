"""Many rounds a block at a time: counts in, columns of labels out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpselect.scores import Numbers

_CELLS = 1 << 16  # counts that fit the cache


def blocks(matrix: Numbers, cells: int = _CELLS) -> Iterator[Numbers]:
    """Consecutive rows, about `cells` counts at a time."""
    step = max(1, cells // matrix.shape[1])
    return (matrix[start : start + step] for start in range(0, len(matrix), step))


def columns(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(rows, most) the columns that are set in every row, ascending; -1 after the last one."""
    sizes = np.count_nonzero(flags, axis=1)
    result = np.full((len(flags), max(1, int(sizes.max()))), -1, dtype=np.int64)
    result[np.arange(result.shape[1]) < sizes[:, None]] = np.nonzero(flags)[1]
    return result


def joined(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Blocks of rows below each other, the narrower ones filled up with -1."""
    held = list(parts)
    widest = max(part.shape[1] for part in held)
    result = np.full((sum(map(len, held)), widest), -1, dtype=np.int64)
    start = 0
    for part in held:
        result[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return result
