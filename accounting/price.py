"""Prices of a filter in whole units, which add up exactly in any order, process or database."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

from accounting.curves import Curve
from accounting.errors import InvalidArgument, InvalidCurve
from accounting.numbers import exact, times_up, units_up

# a float is the order of a Renyi divergence
Measure = float | Literal["epsilon", "rho", "mu^2", "release"]

MAIN_UNIT, FAILURE_UNIT = Decimal("1e-12"), Decimal("1e-18")
MOST = 9 * 10**18  # units of 10^-12 nats that a signed 64-bit integer holds

# A Renyi bound is a handful of floating-point operations, good to a few ulps, and the laws hold it
# to one part in 10^12.
_OUTWARD = Decimal("1.000000000001")


class Price(NamedTuple):
    """A price that a filter charges, in whole units that add up exactly.

    `main` counts 10^-12 of the budget's measure (nats, mu^2 or releases), and `failure` counts
    10^-18 of failure probability.
    """

    main: int
    failure: int

    def plus(self, other: Price) -> Price:
        """Return the sum of the two prices."""
        return Price(self.main + other.main, self.failure + other.failure)

    def minus(self, other: Price) -> Price:
        """Return this price less the other, at least 0."""
        return Price(max(0, self.main - other.main), max(0, self.failure - other.failure))

    def require_charge(self) -> None:
        """Refuse a price that would give budget back.

        Raises:
            InvalidArgument: a part is negative or no whole number.
        """
        if not all(type(part) is int and part >= 0 for part in self):
            raise InvalidArgument("a price must be whole units >= 0")

    def times(self, count: int | Fraction) -> Price:
        """Return the price of `count` such charges, rounded up."""
        return Price(math.ceil(count * self.main), math.ceil(count * self.failure))


NOTHING = Price(0, 0)


_WORDS = {
    "epsilon": "pure epsilon",
    "rho": "rho",
    "mu^2": "mu^2 (Gaussian)",
    "release": "releases of the declared curve",
}


def in_words(measure: Measure) -> str:
    """Return `measure` in words, for messages."""
    if isinstance(measure, str):
        return _WORDS[measure]
    return f"Renyi divergence of order {measure:g}"


def unit_in_words(measure: Measure) -> str:
    """Return the unit of `measure` in words, in the plural."""
    return in_words(measure) if measure in ("mu^2", "release") else f"nats of {in_words(measure)}"


def main_cost(curve: Curve, measure: Measure) -> float:
    """Return the amount that `curve` adds to the sum; inf if it has no such guarantee.

    Releases of a declared curve are counted by `Budget`.
    """
    if measure == "release":
        return math.inf
    if measure == "rho":
        return curve.rho
    if measure == "mu^2":
        return curve.mu_squared
    return curve.core_epsilon if measure == "epsilon" else float(curve.rdp(measure))


def itemised(curve: Curve, measure: Measure) -> Price | None:
    """Return the price of `curve`, rounded up; None if it is infinite or too large for a price."""
    main = main_cost(curve, measure)
    if not (main >= 0 and 0 <= curve.delta0 <= 1):
        raise InvalidCurve(
            f"{type(curve).__name__} has no guarantee, because a cost is NaN or negative, or"
            " delta0 is not a probability"
        )
    if not math.isfinite(main):
        return None
    units = units_up(
        exact(main) if isinstance(measure, str) else times_up(exact(main), _OUTWARD), MAIN_UNIT
    )
    # A cost that underflows to 0 is not free: only a curve that reveals nothing is free.
    units = max(units, 1) if curve.core_epsilon > 0 else units
    return Price(units, units_up(exact(curve.delta0), FAILURE_UNIT)) if units <= MOST else None
