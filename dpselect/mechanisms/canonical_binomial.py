"""Logarithms of binomial coefficients that keep their relative accuracy at any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpselect.noise.numerics import log1mexp

Floats = NDArray[np.float64]
_EXACT = 16  # below it the remainder of Stirling's formula is read from a table
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_binomial(n: Any, r: Any) -> Floats:
    """ln C(n, r) elementwise for integers n >= -1; -inf where r is not in 0..n. Relative error about 1e-14.

    The saddle-point form (Loader 2000): differences of log-gammas would lose n ln n / ln C(n, r) of the accuracy.
    """
    n, r = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(r, dtype=np.float64))
    rest = n - r
    inside = (r > 0) & (rest > 0)
    size, part, other = (np.where(inside, x, y) for x, y in ((n, 2.0), (r, 1.0), (rest, 1.0)))
    entropy = -part * np.log(part / size) - other * np.log1p(-part / size)
    spread = 0.5 * np.log(size / (2 * math.pi * part * other))
    found = entropy + spread + _remainder(size) - _remainder(part) - _remainder(other)
    edge = (r >= 0) & (rest >= 0)
    return np.where(inside, np.maximum(found, 0.0), np.where(edge, 0.0, -np.inf))


def log_difference(larger: Floats, smaller: Floats) -> Floats:
    """ln(exp(larger) - exp(smaller)) for larger >= smaller, larger finite."""
    with np.errstate(divide="ignore"):
        return larger + log1mexp(larger - smaller)


def _stirling_remainder(n: int) -> float:
    return float(gammaln(n + 1) - ((n + 0.5) * math.log(n) - n + 0.5 * math.log(2 * math.pi)))


_TABLE = np.array([0.0] + [_stirling_remainder(n) for n in range(1, _EXACT)])


def _remainder(n: Floats) -> Floats:
    """ln n! minus Stirling's formula, for n >= 1."""
    inverse = 1 / np.maximum(n, _EXACT)
    series = np.zeros_like(inverse)
    for coefficient in reversed(_SERIES):
        series = coefficient + series * inverse * inverse
    return np.where(n < _EXACT, _TABLE[np.minimum(n, _EXACT - 1).astype(np.int64)], series * inverse)
