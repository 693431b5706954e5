"""Scores in units of the noise, relative to the largest one, as float64 numbers with known error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
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
        return _differences(values, reference)


def _differences(values: Numbers, reference: np.int64 | np.float64) -> Floats:
    if values.dtype == np.int64:
        # Unsigned arithmetic wraps, so the difference is exact even where the signed one would overflow.
        return -(reference.astype(np.uint64) - values.astype(np.uint64)).astype(np.float64)
    return np.asarray(values - reference, dtype=np.float64)


def heights(values: Numbers, reference: np.int64 | np.float64, scale: float) -> Floats:
    """(values - reference) / scale, at least `LOWEST`; within 2^-50 of itself where it is above. Theorem X1."""
    with np.errstate(over="ignore", invalid="ignore"):
        if scale > _WIDE and values.dtype != np.int64:
            result, scale = np.asarray(0.5 * values - 0.5 * reference), 0.5 * scale  # never beyond the floats
        else:
            result = _differences(values, reference)
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
