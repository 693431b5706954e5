"""`Equivalent`: what was spent of a budget and what is left, in the currencies that auditors ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import final

from accounting.decimal_sum import exact, float_up
from accounting.spending.budget import Budget, Price
from accounting.spending.order import waiting_cost
from accounting.spending.price import MAIN_UNIT, NOTHING

# Prices of Gaussian charges are rounded outward by one part in 10^12 and up to the next unit: this covers both.
_INWARD = 1 - 1e-11


@final
@dataclass(frozen=True)
class Equivalent:
    """A period's standing as epsilon and as GDP mu.

    Attributes:
        epsilon: nats; with probability at least 1 - `delta` the loss of all charges so far is at most this, whenever one looks
            and however they were chosen: a `PrivacyOdometer` of the budget's order. Rounded up; None where no delta is declared
            that could pay for an epsilon.
        delta: of that statement: the budget's own, twice that of a zCDP budget, whose own is for failures.
        epsilon_left: nats; how much spending all that is left can still add to `epsilon`. Rounded down.
        mu_left: the greatest mu for which one more Gaussian release (`GaussianDP`) fits. Rounded down; None where the budget adds
            up pure epsilon, which no Gaussian release has.
    """

    epsilon: float | None
    delta: float
    epsilon_left: float | None
    mu_left: float | None


def equivalent(budget: Budget, spent: Price) -> Equivalent:
    """Where a budget stands after `spent`. Theorems F3 and F6: the order is fixed by the budget alone.

    At one order the epsilon is the sum of divergences and a constant, so a nat of divergence left is a nat of epsilon left.
    """
    left = max(0, budget.capacity.main - spent.main)
    if budget.measure == "epsilon":
        used = float_up(spent.main, MAIN_UNIT, Decimal(0))
        return Equivalent(used, budget.delta, _down(left * MAIN_UNIT), None)
    if budget.form == "zcdp":
        return _zcdp(budget, spent, left)
    assert isinstance(budget.order, float)
    start = waiting_cost(_down(budget.conversion_delta), budget.order)
    used = 0.0 if spent == NOTHING else float_up(spent.main, MAIN_UNIT, start)
    return Equivalent(used, budget.delta, _down(left * MAIN_UNIT), _mu(left, budget.order))


def _zcdp(budget: Budget, spent: Price, left: int) -> Equivalent:
    if budget.delta == 0:
        return Equivalent(None, 0.0, None, _mu(left, 1.0))
    # Least at the whole budget: a choice made before the first charge.
    order = 1 + float(f"{math.sqrt(math.log(1 / budget.delta) / budget.limit):.4g}")
    each, start = MAIN_UNIT * exact(order), waiting_cost(budget.delta, order)
    used = 0.0 if spent == NOTHING else float_up(spent.main, each, start)
    return Equivalent(used, 2 * budget.delta, _down(left * each), _mu(left, 1.0))


def _mu(left: int, order: float) -> float:
    """GaussianDP(mu) has rho mu^2/2, and order times that as its Renyi divergence."""
    return math.sqrt(2 * max(0.0, float((left - 1) * MAIN_UNIT)) / order) * _INWARD


def _down(value: Decimal) -> float:
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, 0.0)
