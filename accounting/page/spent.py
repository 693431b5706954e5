"""What was spent, as pages and terminals show it: budgets, prices and shares as text."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

from decimal import Decimal

from accounting.budget import Budget
from accounting.decimal_sum import of_unit
from accounting.page.wording import in_words, plain, rounded_down, rounded_up
from accounting.price import FAILURE_UNIT, MAIN_UNIT, Measure


def unit_of(measure: Measure) -> str:
    """The unit of a budget's main part, in words."""
    if measure in ("mu^2", "release"):
        return "μ²" if measure == "mu^2" else "releases"
    if measure == "epsilon":
        return "nats of pure ε"
    return "nats of ρ (zCDP)" if measure == "rho" else f"nats of Rényi divergence of order {measure:g}"


def budget_in_words(budget: Budget) -> str:
    """A budget as it was declared."""
    if budget.rho is not None:
        return f"ρ = {plain(budget.rho)}" + (f" with δ = {plain(budget.delta)}" if budget.delta else "")
    unit = ", for Gaussian noise (μ² is added up)" if budget.order == "gaussian" else ""
    if budget.release is not None:
        unit = f", for releases of {in_words(budget.release.to_json())}"
    return f"ε = {plain(budget.limit)}" + (f", δ = {plain(budget.delta)}" if budget.delta else "") + unit


def main_up(units: int) -> str:
    """A main price, in nats, rounded up (away from zero for what is given back)."""
    return _up(units, MAIN_UNIT)


def failure_up(units: int) -> str:
    """A failure price, as a probability, rounded up."""
    return _up(units, FAILURE_UNIT)


def _up(units: int, unit: Decimal) -> str:
    return "−" + rounded_down(of_unit(-units, unit)) if units < 0 else rounded_up(of_unit(units, unit))


def percent_up(share: float) -> str:
    """A share in percent, rounded up to a tenth; 100 % only where nothing is left."""
    if share >= 1:
        return "100 %"
    tenths = min(999, -int(-share * 1000 // 1))
    return f"{tenths / 10:.1f} %"
