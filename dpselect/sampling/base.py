"""`Sampler`: the one interface through which mechanisms use randomness. A member supplies random words and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_CHUNK = 1 << 16  # items whose noise fits the cache


class Sampler(ABC):
    """Noise, noisy rankings and coin flips from uniformly random 64-bit words.

    Noise is computed in float64 here, from 52 random bits a draw: the law is that of the real-valued noise up to rounding.
    """

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """(count,) independent uniformly random 64-bit words."""

    @final
    def uniform(self, count: int) -> Floats:
        """(count,) uniform numbers strictly between 0 and 1, centres of 2^52 equal cells."""
        words = self.words(count)
        words >>= np.uint64(12)
        numbers = words.astype(np.float64)
        numbers += 0.5
        numbers *= 2.0**-52
        return numbers

    @final
    def noise(self, noise: Noise, count: int) -> Floats:
        """(count,) draws of the standard noise."""
        uniform = self.uniform(count)
        return noise.from_uniform(uniform, out=uniform)

    @final
    def top_k(self, values: Floats, noise: Noise, scale: float, k: int) -> Indices:
        """(k,) positions of the k largest values + scale * noise, largest first; values (m,) with m >= k."""
        best = _Best(k)
        for start in range(0, len(values), _CHUNK):
            chunk = values[start : start + _CHUNK]
            noisy = self.noise(noise, len(chunk))
            noisy *= scale
            noisy += chunk
            best.offer(noisy, start)
        return best.ranked()

    @final
    def top_k_rows(self, matrix: Floats, noise: Noise, scale: float, k: int) -> Indices:
        """(rounds, k) the same for every row of a (rounds, m) matrix, a block of rows at a time."""
        rounds, candidates = matrix.shape
        step = max(1, _CHUNK // candidates)
        result = np.empty((rounds, k), dtype=np.int64)
        for start in range(0, rounds, step):
            block = matrix[start : start + step]
            noisy = self.noise(noise, block.size).reshape(block.shape)
            noisy *= scale
            noisy += block
            result[start : start + step] = _largest_rows(noisy, k)
        return result

    @final
    def subset(self, size: int, count: int) -> Indices:
        """(count,) distinct positions below `size`, uniform over sets, in random order."""
        return np.argsort(self.words(size), kind="stable")[:count].astype(np.int64)


class _Best:
    """The k largest numbers offered so far, with their positions."""

    def __init__(self, k: int) -> None:
        self._k, self._level, self._held = k, -np.inf, 0
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

    def ranked(self) -> Indices:
        values, positions = np.concatenate(self._values), np.concatenate(self._positions)
        return positions[np.argsort(-values, kind="stable")[: self._k]]


def _largest_rows(noisy: Floats, k: int) -> Indices:
    if k == 1:
        return np.argmax(noisy, axis=1)[:, None]
    columns = noisy.shape[1]
    kept = np.argpartition(noisy, columns - k, axis=1)[:, columns - k :]
    rank = np.argsort(-np.take_along_axis(noisy, kept, axis=1), axis=1, kind="stable")
    return np.take_along_axis(kept, rank, axis=1)
