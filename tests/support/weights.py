"""What users spend on items in a second round, exactly and from its definition. Theorem H11."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

UNIT = 2**20


def spent(items: Iterable[int], numbers: Mapping[int, int], norm: float) -> dict[int, int]:
    """The weights of one user on the items that have a number, units of 2^-20."""
    among = [item for item in items if item in numbers]
    size = sum(numbers[item] ** 2 for item in among)
    squares = math.floor(Fraction(norm) ** 2 * UNIT**2)
    weights = {
        item: math.isqrt(min(squares * numbers[item] ** 2 // size, UNIT**2)) for item in among
    }
    # no user spends more than the norm
    assert sum(weight**2 for weight in weights.values()) <= squares
    assert max(weights.values(), default=0) <= UNIT
    return weights


def weighed(
    log: Iterable[frozenset[int]], numbers: Mapping[int, int], norm: float
) -> dict[int, int]:
    """Sums of the weights of all users."""
    total = dict.fromkeys(numbers, 0)
    for items in log:
        for item, weight in spent(items, numbers, norm).items():
            total[item] += weight
    return total
