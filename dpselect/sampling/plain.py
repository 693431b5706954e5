"""Noisy rankings in float64, for simulation: the law of real-valued noise up to rounding and 52 random bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpselect.sampling.contest import Floats, Indices, Numbers, differences, largest_rows

_CHUNK = 1 << 16  # items whose noise fits the cache
NoiseDraw = Callable[[int], Floats]


def top_k(values: Numbers, draw: NoiseDraw, scale: float, k: int) -> Indices:
    """(k,) positions of the k largest values + scale * noise, largest first."""
    best, reference = _Best(k), values.max()
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        noisy = draw(len(chunk))
        noisy *= scale
        noisy += differences(chunk, reference)
        best.offer(noisy, start)
    return best.ranked()[0]


def above(values: Numbers, draw: NoiseDraw, scale: float, level: float, k: int | None) -> tuple[Indices, Floats]:
    """Positions and noisy values of the k largest (all if None) that exceed `level`, largest first."""
    best = _Best(len(values) if k is None else min(k, len(values)), level)
    for start in range(0, len(values), _CHUNK):
        best.offer(noisy(values[start : start + _CHUNK], draw, scale), start)
    return best.ranked()


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


class _Best:
    """The k largest numbers offered so far, with their positions."""

    def __init__(self, k: int, level: float = -np.inf) -> None:
        self._k, self._level, self._held = k, level, 0
        self._values: list[Floats] = []
        self._positions: list[Indices] = []

    def offer(self, noisy: Floats, start: int) -> None:
        above = np.flatnonzero(noisy > self._level)
        self._values.append(noisy[above])
        self._positions.append(above + start)
        self._held += len(above)
        if self._held > 2 * self._k + 1024:
            self._prune()

    def _prune(self) -> None:
        values, positions = np.concatenate(self._values), np.concatenate(self._positions)
        kept = np.argpartition(values, len(values) - self._k)[len(values) - self._k :]
        self._values, self._positions, self._held = [values[kept]], [positions[kept]], self._k
        self._level = float(values[kept].min())

    def ranked(self) -> tuple[Indices, Floats]:
        values, positions = np.concatenate(self._values), np.concatenate(self._positions)
        order = np.argsort(-values, kind="stable")[: self._k]
        return positions[order], values[order]
