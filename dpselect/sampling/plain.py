"""Noisy rankings in float64, for simulation: the law of real-valued noise up to rounding and 52 random bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpselect.sampling.contest import Floats, Indices, Numbers, differences, largest_rows

_CHUNK = 1 << 16  # items whose noise fits the cache
NoiseDraw = Callable[[int], Floats]


def top_k(values: Numbers, draw: NoiseDraw, scale: float, k: int) -> Indices:
    """(k,) positions of the k largest values + scale * noise, largest first."""
    reference = values.max()

    def added(chunk: Numbers) -> Floats:
        noisy = draw(len(chunk))
        noisy *= scale
        noisy += differences(chunk, reference)
        return noisy

    return _best(added, values, k)[0]


def above(values: Numbers, draw: NoiseDraw, scale: float, level: float, k: int | None) -> tuple[Indices, Floats]:
    """Positions and noisy values of the k largest (all if None) that exceed `level`, largest first."""
    return _best(lambda chunk: noisy(chunk, draw, scale), values, len(values) if k is None else min(k, len(values)), level)


def noisy(values: Numbers, draw: NoiseDraw, scale: float) -> Floats:
    """values + scale * noise, of any shape."""
    return np.asarray(values + scale * draw(values.size).reshape(values.shape))


def top_k_rows(matrix: Numbers, draw: NoiseDraw, scale: float, k: int) -> Indices:
    """(rounds, k) the same for every row of a (rounds, m) matrix, a block of rows at a time."""
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


def _best(noised: Callable[[Numbers], Floats], values: Numbers, k: int, level: float = -np.inf) -> tuple[Indices, Floats]:
    """Positions and noisy values of the k largest that exceed `level`, a chunk at a time, largest first."""
    positions, best = np.empty(0, dtype=np.int64), np.empty(0)
    for start in range(0, len(values), _CHUNK):
        noisy = noised(values[start : start + _CHUNK])
        above = np.flatnonzero(noisy > level)
        positions, best = np.append(positions, above + start), np.append(best, noisy[above])
        if len(best) > 2 * k + 1024:
            kept = np.argpartition(best, len(best) - k)[len(best) - k :]
            positions, best = positions[kept], best[kept]
            level = float(best.min())
    order = np.argsort(-best, kind="stable")[:k]
    return positions[order], best[order]
