"""Noise to about six digits in one pass of float64: enough to see which few candidates are worth bounds. Theorem X10."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpselect.noise.base import Noise
from dpselect.sampling.heights import LOWEST, Floats, Indices, Words

MARGIN = 2.0**-20  # noise units; estimates that far apart are those of numbers in the same order
_RELATIVE = 2.0**-46  # of a height, the same
_SIGNIFICANT = np.uint64(12)  # the bits beyond the first 52 are not looked at
_ONE = np.uint64(0x3FF << 52)  # the exponent of floats from 1 to 2
_HALF_CELL = 1.0 - 2.0**-53
_EDGE = 2.0**-28  # nearer than this to 0 or 1 the cell of a uniform number is too wide for its centre


def estimates(noise: Noise, words: Words) -> tuple[Floats, Indices]:
    """isf at the centres of the cells of 2^-52 in which the words put V, and the places where that says little.

    Elsewhere an estimate is within 2^-22 of isf(V).
    """
    bits = words >> _SIGNIFICANT
    if _rises(noise):
        bits ^= np.uint64(2**52 - 1)  # the centre's distance from 1
    bits |= _ONE
    uniform = bits.view(np.float64)
    uniform -= _HALF_CELL
    wide = np.empty(0, dtype=np.int64)
    if uniform.min() < _EDGE or uniform.max() > 1.0 - _EDGE:
        wide = np.flatnonzero((uniform < _EDGE) | (uniform > 1.0 - _EDGE))
    return noise.from_uniform(uniform, out=uniform), wide


def cut(best: Floats, margin: float) -> Floats:
    """What an estimate has to reach, for its number not to be certainly below that of an estimate of `best`."""
    return np.asarray(np.where(best > 0.5 * LOWEST, best - margin - _RELATIVE * np.abs(best), -np.inf))


@lru_cache(maxsize=16)
def _rises(noise: Noise) -> bool:
    """Whether `from_uniform` increases, so that a great uniform number is great noise."""
    low, high = noise.from_uniform(np.array([0.25, 0.75]))
    return bool(low < high)
