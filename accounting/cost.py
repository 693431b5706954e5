"""Costs of a filter in whole units, which add up exactly in any order, process or database."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from accounting.errors import InvalidArgument

MAIN_UNIT, FAILURE_UNIT = Decimal("1e-12"), Decimal("1e-18")
MOST = 9 * 10**18  # units of 10^-12 nats that a signed 64-bit integer holds


class Cost(NamedTuple):
    """A cost that a filter charges, in whole units that add up exactly.

    `main` counts 10^-12 of the budget's measure (nats, mu^2 or releases), and `failure` counts
    10^-18 of failure probability.
    """

    main: int
    failure: int

    def plus(self, other: Cost) -> Cost:
        """Return the sum of the two costs."""
        return Cost(self.main + other.main, self.failure + other.failure)

    def minus(self, other: Cost) -> Cost:
        """Return this cost less the other, at least 0."""
        return Cost(max(0, self.main - other.main), max(0, self.failure - other.failure))

    def require_charge(self) -> None:
        """Refuse a cost that would give budget back.

        Raises:
            InvalidArgument: a part is negative or no whole number.
        """
        if not all(type(part) is int and part >= 0 for part in self):
            raise InvalidArgument("a cost must be whole units >= 0")

    def times(self, count: int | Fraction) -> Cost:
        """Return the cost of `count` such charges, rounded up."""
        return Cost(math.ceil(count * self.main), math.ceil(count * self.failure))


NOTHING = Cost(0, 0)
