"""What was spent of a budget and what is left, in the currencies that auditors ask for: numbers (`Equivalent`) and words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import final

from accounting.decimal_sum import exact, float_up
from accounting.spending.budget import Budget, Price
from accounting.spending.order import waiting_cost
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT, NOTHING

FAILURE = "failure probability (delta0)"
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


# -- words ------------------------------------------------------------------------------------------------------------


def currency(budget: Budget) -> str:
    """What a nat of the main part of a price is a nat of: at one order a nat of divergence is one of epsilon. Theorem F3."""
    if budget.form == "approximate":
        return f"epsilon (at delta {budget.delta:g})"
    return "rho" if budget.form == "zcdp" else "pure epsilon"


def left_in_words(budget: Budget, spent: Price) -> str:
    """Both parts of what is left, rounded down."""
    left, also = budget.remaining(spent), equivalent(budget, spent)
    words = f"{left.main:.6g} of {currency(budget)}"
    if budget.form == "zcdp" and also.epsilon_left is not None:
        words += f", that is {also.epsilon_left:.6g} of epsilon (at delta {also.delta:g}),"
    return f"{words} and {left.failure:.3g} of {FAILURE}"


def shortfall(budget: Budget, spent: Price, price: Price) -> str:
    """Which part of a price does not fit beside `spent`, by how much, and what to change.

    What is asked for is rounded up and what is left is rounded down, so that the two never print alike.
    """
    left = Price(*(max(0, have - used) for have, used in zip(budget.capacity, spent, strict=True)))
    short = list(_short(budget, left, price))
    enough = [of for asked, rest, of in zip(price, left, (currency(budget), FAILURE), strict=True) if 0 < asked <= rest]
    return "; ".join(short + [f"of {of} there is enough" for of in enough])


def _short(budget: Budget, left: Price, price: Price) -> Iterator[str]:
    if price.main > left.main:
        change = "add noise, or run fewer" if left.main else "it is spent, and no command adds to a budget"
        yield f"{_lacking(price.main, left.main, MAIN_UNIT, currency(budget))}: {change}"
    if price.failure > left.failure:
        most = _rounded(left.failure * FAILURE_UNIT, ROUND_FLOOR)
        change = f"lower the mechanism's delta to at most {most}" if left.failure else "choose a mechanism that never fails"
        lacking = _lacking(price.failure, left.failure, FAILURE_UNIT, FAILURE)
        yield f"{lacking}: {change} (more noise is no help; releases= or --releases gives each of so many an equal part)"


def _lacking(asked: int, left: int, unit: Decimal, of: str) -> str:
    needed, rest = _rounded(asked * unit, ROUND_CEILING), _rounded(left * unit, ROUND_FLOOR)
    return f"{needed} of {of} is needed and {rest} is left ({_rounded((asked - left) * unit, ROUND_CEILING)} too little)"


def _rounded(value: Decimal, rounding: str) -> str:
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(value)):.6g}"
