"""What users spend on items in a later round, exactly and from its definition. Theorem H13."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

UNIT = 2**20


def spent(number: int, norm: float) -> int:
    """The weight of one user on each of so many items, in units of 2^-20."""
    squares = math.floor(Fraction(norm) ** 2 * UNIT**2)
    weight = math.isqrt(min(squares // number, UNIT**2))
    assert number * weight**2 <= squares  # no user spends more than the norm
    return weight


def weighed(log: Iterable[frozenset[int]], items: Sequence[int], norm: float) -> list[int]:
    """Sums of the weights of all users on these items, in their order."""
    total = dict.fromkeys(items, 0)
    for user in log:
        for item in (own := user & total.keys()):
            total[item] += spent(len(own), norm)
    return list(total.values())
