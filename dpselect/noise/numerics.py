"""Elementary functions without cancellation or amplified rounding, shared by the distributions."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LN2 = float(np.log(2.0))
NATS_TO_BITS = 1.4426  # 1/ln 2 rounded down by 7e-5 of itself, which leaves room for rounding
_STEPS = 32  # table spacing 1/32: a remainder of at most 1/64 costs under one ulp in `exp_minus_exp`
_HIGHEST = 6.75  # exp(-exp(6.75)) is below the smallest subnormal
_GAUSS_GRID = 16.0
_GAUSS_HIGHEST = 40.0  # exp(-40**2 / 2) is below the smallest subnormal


def log1mexp(x: FloatArray) -> FloatArray:
    """log(1 - exp(-x)) for x >= 0, accurate at both ends."""
    return np.where(x <= LN2, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def exp_half_square(a: FloatArray) -> FloatArray:
    """exp(-a**2 / 2) for a >= 0; splitting a keeps the rounding of a**2 from being amplified by its size."""
    a = np.minimum(a, _GAUSS_HIGHEST)
    coarse = np.rint(a * _GAUSS_GRID) / _GAUSS_GRID
    return np.exp(-0.5 * coarse * coarse) * np.exp(-0.5 * (a - coarse) * (a + coarse))


def _exponential_table() -> tuple[FloatArray, FloatArray]:
    """exp(k / 32) as unevaluated sums of two doubles."""
    with localcontext() as context:
        context.prec = 50
        exact = [(Decimal(k) / _STEPS).exp() for k in range(int(_HIGHEST * _STEPS) + 2)]
        high = [float(value) for value in exact]
        low = [float(value - Decimal(top)) for value, top in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)


_EXP_HIGH, _EXP_LOW = _exponential_table()


def _far_exp_minus_exp(y: FloatArray) -> FloatArray:
    """exp(-exp(y)) for 0 <= y <= 6.75, with exp(y) carried in twice the working precision."""
    k = np.rint(np.nan_to_num(y) * _STEPS)
    cell = k.astype(np.intp)
    high = _EXP_HIGH[cell]
    rest = _EXP_LOW[cell] + high * np.expm1(y - k / _STEPS)
    return np.exp(-high) * np.exp(-rest)


def exp_minus_exp(y: FloatArray) -> FloatArray:
    """exp(-exp(y)); done naively, its relative error reaches exp(y) ulp, 1e-13 before it underflows."""
    near = np.exp(-np.exp(np.minimum(y, 0.0)))
    far = _far_exp_minus_exp(np.clip(y, 0.0, _HIGHEST))
    return np.where(y <= 0.0, near, far)


def as_floats(x: Any) -> FloatArray:
    """The argument as float64, copied only when it is something else."""
    return np.asarray(x, dtype=np.float64)
