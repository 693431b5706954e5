"""Scores in units of the noise, relative to the largest one, and noisy ones, as float64 numbers with known error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
Numbers = NDArray[np.int64] | NDArray[np.float64]

LOWEST = -1e300  # heights below are lost in the noise of nothing: they are given this upper bound and no lower one
_MODERATE = (1e-300, 1e300)  # scales whose inverses are normal floats
_WIDE = 1e8  # up to here a difference beyond the floats is a height below `LOWEST`
_RELATIVE = 2.0**-50  # three roundings, of the difference, of 1/scale and of the product, are below 2^-51
_CELL = 53  # bits that a float64 holds exactly


def numbers(values: NDArray[Any]) -> Numbers:
    """Scores as int64 or float64 without a change of value; minus infinity stands for a candidate that is left out."""
    if np.issubdtype(values.dtype, np.signedinteger):
        return values.astype(np.int64, copy=False)
    return values.astype(np.float64, copy=False)


def differences(values: Numbers, reference: np.int64 | np.float64) -> Floats:
    """values - reference rounded once, for a reference no smaller than any of them; score units."""
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype == np.int64:
            # Unsigned arithmetic wraps, so the difference is exact even where the signed one would overflow.
            return np.asarray(-(reference.astype(np.uint64) - values.astype(np.uint64)).astype(np.float64))
        return np.asarray(values - reference, dtype=np.float64)


def heights(values: Numbers, reference: np.int64 | np.float64, scale: float) -> Floats:
    """(values - reference) / scale, at least `LOWEST`; within 2^-50 of itself where it is above. Theorem X1."""
    with np.errstate(over="ignore", invalid="ignore"):
        if scale > _WIDE and values.dtype != np.int64:
            result, scale = np.asarray(0.5 * values - 0.5 * reference), 0.5 * scale  # never beyond the floats
        else:
            result = differences(values, reference)
        if _MODERATE[0] < scale < _MODERATE[1]:
            result *= 1.0 / scale  # one rounding more, and several times faster
        else:
            result /= scale
    return np.fmax(result, LOWEST, out=result)  # minus infinity less minus infinity is NaN, and as low as can be


def contest_bounds(noise: Noise, height: Floats, level: Indices, words: Words) -> tuple[Floats, Floats]:
    """Bounds on height + isf(V), where V = 2^-level * 0.w with w the bits of the word and of all that follow. Theorem X1."""
    cell = (words >> np.uint64(64 - _CELL)).astype(np.float64)
    exponent = -(level + _CELL)
    low, high = noise.isf_bounds(np.ldexp(cell, exponent), np.ldexp(cell + 1.0, exponent))
    slack = _RELATIVE * np.abs(height)
    low += np.where(height > LOWEST, height - slack, -np.inf)
    high += height + slack
    return low, high


# Noise to about six digits in one pass: enough to see which few candidates are worth bounds. Theorem X10.

MARGIN = 2.0**-20  # noise units; estimates that far apart are those of numbers in the same order
_OF_HEIGHT = 2.0**-46  # of a height, the same
_SIGNIFICANT = np.uint64(12)  # the bits beyond the first 52 are not looked at
_ONE = np.uint64(0x3FF << 52)  # the exponent of floats from 1 to 2
_HALF_CELL = 1.0 - 2.0**-53
_EDGE = 2.0**-28  # nearer than this to 0 or 1 the cell of a uniform number is too wide for its centre


def estimates(noise: Noise, words: Words) -> tuple[Floats, Indices]:
    """isf at the centres of the cells of 2^-52 in which the words put V, and the places where that says little.

    Elsewhere an estimate is within 2^-22 of isf(V).
    """
    bits = words >> _SIGNIFICANT
    if noise.rises:
        bits ^= np.uint64(2**52 - 1)  # the centre's distance from 1
    bits |= _ONE
    uniform = bits.view(np.float64)
    uniform -= _HALF_CELL
    wide = np.empty(0, dtype=np.int64)
    if uniform.min() < _EDGE or uniform.max() > 1.0 - _EDGE:
        wide = np.flatnonzero((uniform < _EDGE) | (uniform > 1.0 - _EDGE))
    return noise.from_uniform(uniform), wide


def cut(best: Floats, margin: float) -> Floats:
    """What an estimate has to reach, for its number not to be certainly below that of an estimate of `best`."""
    return np.asarray(np.where(best > 0.5 * LOWEST, best - margin - _OF_HEIGHT * np.abs(best), -np.inf))
