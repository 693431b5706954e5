"""Noisy rankings in float64, for simulation.

Their distribution is that of real-valued noise, up to rounding and 52 random bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.numbers import Floats, Integers
from dpselect.sampling.contest import Numbers, differences, largest_rows

_CHUNK = 1 << 16  # items whose noise fits the cache
NoiseDraw = Callable[[int], Floats]


def above(
    values: Numbers, draw: NoiseDraw, scale: float, level: float, k: int | None
) -> tuple[Integers, Floats]:
    """Return positions and noisy values of the k largest that exceed `level`, largest first.

    All of them if k is None.
    """
    noisy_values = noisy(values, draw, scale)
    passed = np.flatnonzero(noisy_values > level)
    order = passed[np.argsort(-noisy_values[passed], kind="stable")[:k]]
    return order, noisy_values[order]


def noisy(values: Numbers, draw: NoiseDraw, scale: float) -> Floats:
    """Return values + scale * noise, of any shape."""
    return np.asarray(values + scale * draw(values.size).reshape(values.shape))


def top_k_rows(matrix: Numbers, draw: NoiseDraw, scale: float, k: int) -> Integers:
    """Return (rounds, k) positions of the k largest scores + scale * noise of every row.

    The rows are those of a (rounds, m) matrix, and the largest comes first.
    """
    rounds, candidates = matrix.shape
    step = max(1, _CHUNK // candidates)
    result = np.empty((rounds, k), dtype=np.int64)
    for start in range(0, rounds, step):
        block = matrix[start : start + step]
        noisy = draw(block.size).reshape(block.shape)
        noisy *= scale
        noisy += differences(block, block.max(axis=1, keepdims=True))
        result[start : start + step] = largest_rows(noisy, k)
    return result
