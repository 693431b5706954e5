"""Prices and shares as a page prints them."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

from accounting.ledger.words import rounded_down, rounded_up
from accounting.spending.budget import Budget, Price
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT, Measure


def unit_of(measure: Measure) -> str:
    """The unit of a budget's main part, in words."""
    if measure == "epsilon":
        return "nats of pure ε"
    return "nats of ρ (zCDP)" if measure == "rho" else f"nats of Rényi divergence of order {measure:g}"


def main_up(units: int) -> str:
    """A main price, in nats, rounded up (away from zero for what is given back)."""
    return "−" + rounded_down(-units * MAIN_UNIT) if units < 0 else rounded_up(units * MAIN_UNIT)


def failure_up(units: int) -> str:
    """A failure price, as a probability, rounded up."""
    return "−" + rounded_down(-units * FAILURE_UNIT) if units < 0 else rounded_up(units * FAILURE_UNIT)


def shares(budget: Budget, spent: Price) -> tuple[float, float]:
    """Spent parts of a budget's main capacity and of its failure capacity, in [0, 1]."""
    return _share(spent.main, budget.capacity.main), _share(spent.failure, budget.capacity.failure)


def _share(spent: int, capacity: int) -> float:
    return min(1.0, max(0.0, spent / capacity)) if capacity else 0.0


def percent_up(share: float) -> str:
    """A share in percent, rounded up to a tenth; 100 % only where nothing is left."""
    if share >= 1:
        return "100 %"
    tenths = min(999, -int(-share * 1000 // 1))
    return f"{tenths / 10:.1f} %"
