"""Candidates in bulk: units of many candidates under one bound on their heights, of whose noise the leading bits are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling.contest import Problem
from dpselect.sampling.heights import Floats, Indices, Numbers

Levels = NDArray[np.uint8]

HIGHEST_LEVEL = 56  # one word decides whether a uniform number is below 2^-56
UNKNOWN = 255
_ROUNDING = 2.0**-45  # of |threshold| + |height|: covers the rounding of the height and of the difference
_MOST_BLOCK, _LEAST_BLOCK = 512, 16
_CHUNK = 1 << 14  # units whose temporaries fit the cache


@final
@dataclass(frozen=True)
class Units:
    """Units of candidates.

    Attributes:
        start: index into the values of a unit's first candidate.
        height: a bound, at most 0, on the height of each candidate of a unit (up to 2^-50 of itself).
        known: the candidates that have not been entered are known to have V >= 2^-known; UNKNOWN if nothing is known.
    """

    start: Indices
    height: Floats
    known: Levels

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, kept: NDArray[np.bool_] | slice) -> Self:
        return type(self)(self.start[kept], self.height[kept], self.known[kept])

    def levels(self, noise: Noise, threshold: float) -> Levels:
        """(units,) levels j such that a candidate with V >= 2^-j certainly stays below the threshold. Theorem X3."""
        levels = np.empty(len(self), dtype=np.uint8)
        for start in range(0, len(self), _CHUNK):
            part = slice(start, start + _CHUNK)
            distance = self.height[part] * (_ROUNDING - 1.0)
            distance += threshold - _ROUNDING * abs(threshold)
            with np.errstate(over="ignore"):
                bits = noise.tail_bits(distance)
            levels[part] = np.minimum(np.maximum(bits, 0.0), HIGHEST_LEVEL).astype(np.uint8)
        return np.minimum(levels, self.known, out=levels)


def units(start: Indices, height: Floats) -> Units:
    """Units about which nothing is known."""
    return Units(start, height, np.full(len(start), UNKNOWN, dtype=np.uint8))


def joined(first: Units, second: Units) -> Units:
    """Both, in order."""
    columns = ("start", "height", "known")
    return Units(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns))


def block_maxima(values: Numbers, k: int) -> Numbers:
    """(n,) the maximum of each of n blocks: block i consists of candidates i, i + n, i + 2 n, ...

    Interleaved blocks because their maxima are found at the speed of memory, which those of consecutive ones are not. Their size
    balances the number of blocks against that of the candidates in about k blocks that are looked at one by one.
    """
    if values.dtype == np.int64:
        return _interleaved_maxima(values, k)
    # Floats that are not negative are ordered as the integers with the same bits, and integers are compared twice as fast.
    maxima = _interleaved_maxima(values.view(np.int64), k)
    return _interleaved_maxima(values, k) if maxima.min() < 0 else maxima.view(np.float64)


def _interleaved_maxima(values: Numbers, k: int) -> Numbers:
    size = len(values)
    block = min(max(math.isqrt(size // k), _LEAST_BLOCK), _MOST_BLOCK)
    count = size // block
    maxima: Numbers = values[: count * block].reshape(block, count).max(axis=0)
    rest = values[count * block :]
    for start in range(0, len(rest), count):
        part = rest[start : start + count]
        np.maximum(maxima[: len(part)], part, out=maxima[: len(part)])
    return maxima


def split(hot: Units, count: int, problem: Problem) -> Units:
    """Blocks, of `count` in all, taken apart into their candidates."""
    size = len(problem.values)
    index = (np.arange(0, size, count)[:, None] + hot.start).ravel()
    known = np.broadcast_to(hot.known, (-(-size // count), len(hot))).ravel()
    real = index < size
    if not real.all():
        index, known = index[real], known[real]
    return Units(index, problem.heights(problem.values[index]), known)
