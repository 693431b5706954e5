"""Directed rounding and array types.

Sums of floats are added up as decimals: three charges of 0.1 are 0.3, and no sum is rounded down.

A float stands for the shortest decimal that prints it (Python's `repr`), so that 0.1 means one
tenth, as the person who typed it meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Own contexts: the caller's may have any precision. No sum or product of floats is longer than 400
# digits, so that only quotients are rounded.
_EXACT = Context(prec=400, rounding=ROUND_CEILING)
DOWN = Context(prec=400, rounding=ROUND_FLOOR)
PRECISE = Context(prec=60)
_ZERO = Decimal(0)

# Factors that keep a bound an upper one after float64 arithmetic. An ulp is at most 2.2e-16 of a
# number, and libm's functions are good to a few.
ROOT_UP = 1 + 2.0**-50  # a root and a product, each rounded by half an ulp: 4 ulps
FEW_UP = 1 + 1e-13  # a handful of operations, functions or Newton's steps: 450 ulps
SUM_UP = 1 + 1e-12  # a sum of at most a few hundred such terms, all positive: 4500 ulps


def decimal_sum(terms: Iterable[tuple[int, float]]) -> float:
    """Return the least float that stands for at least the sum of count * value, or inf."""
    total = _ZERO
    for count, value in terms:
        if value == math.inf:
            return math.inf
        if value:
            total = _EXACT.fma(Decimal(count), exact(value), total)
    return _up(total)


def sum_up(*terms: float) -> float:
    """Return the least float that stands for at least the sum of `terms`, or inf."""
    return decimal_sum((1, term) for term in terms)


def product_up(count: int, value: float) -> float:
    """Return the least float that stands for at least count * value, or inf."""
    return decimal_sum([(count, value)])


def exact(value: float) -> Decimal:
    """Return the shortest decimal that prints `value`, as the person who typed it meant."""
    return Decimal(repr(float(value)))


def times_up(value: Decimal, factor: Decimal) -> Decimal:
    """Return `value` times `factor`, rounded up."""
    return _EXACT.multiply(value, factor)


def units_up(value: Decimal, unit: Decimal) -> int:
    """Return `value` as a whole number of `unit`, rounded up."""
    return int(_EXACT.divide(value, unit).to_integral_value(rounding=ROUND_CEILING, context=_EXACT))


def units_down(value: Decimal, unit: Decimal) -> int:
    """Return `value` as a whole number of `unit`, rounded down, at least 0."""
    return max(
        0, int(DOWN.divide(value, unit).to_integral_value(rounding=ROUND_FLOOR, context=DOWN))
    )


def float_up(units: int, unit: Decimal, more: Decimal = _ZERO) -> float:
    """Return the least float that stands for at least `units` of `unit` plus `more`."""
    return _up(_EXACT.fma(Decimal(units), unit, more))


def multiple(units: int, unit: Decimal) -> Decimal:
    """Return `units` of `unit`, exactly in every decimal context."""
    return _EXACT.multiply(Decimal(units), unit)


def float_down(value: Decimal) -> float:
    """Return the greatest float that stands for at most `value`, which must be >= 0."""
    nearest = float(value)
    return nearest if exact(nearest) <= value else next_down(nearest)


def next_up(value: float) -> float:
    """Return the least float above `value`."""
    return math.nextafter(value, math.inf)


def next_down(value: float) -> float:
    """Return the greatest float below `value`, which must be >= 0."""
    return math.nextafter(value, 0.0)


def _up(total: Decimal) -> float:
    nearest = float(total)
    return nearest if exact(nearest) >= total else next_up(nearest)
