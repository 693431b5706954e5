"""Sums that do what people expect of decimals: three charges of 0.1 are 0.3, and nothing is ever rounded down.

A float stands for the shortest decimal that prints it (Python's `repr`): 0.1 means one tenth, as the person who typed it meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal

_EXACT = Context(prec=400, rounding=ROUND_CEILING)
_UNITS = 10**24


def decimal_sum(terms: Iterable[tuple[int, float]]) -> float:
    """Sum of count * value as the least float that stands for at least it; inf if a value is."""
    total = Decimal(0)
    for count, value in terms:
        if value == math.inf:
            return math.inf
        if value:
            total = _EXACT.fma(Decimal(count), Decimal(repr(float(value))), total)
    return _up(total)


def steps(value: float) -> int:
    """`value` as a whole number of fixed-point steps of 10^-24, rounded up."""
    return int((Decimal(repr(float(value))) * _UNITS).to_integral_value(rounding=ROUND_CEILING, context=_EXACT))


def _up(total: Decimal) -> float:
    nearest = float(total)
    return nearest if Decimal(repr(nearest)) >= total else math.nextafter(nearest, math.inf)
