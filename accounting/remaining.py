"""Where a budget stands: in the currencies that auditors ask for (`Equivalent`), in words, and in releases (`Affordable`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal, Self, final

from accounting.budget import Budget, Price, waiting_cost
from accounting.curves import Curve
from accounting.decimal_sum import exact, float_down, float_up, of_unit, times_up
from accounting.errors import Unaffordable
from accounting.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, in_words

FAILURE = "failure probability (delta0)"
# Prices of Gaussian charges are rounded outward by one part in 10^12 and up to the next unit: this covers both.
_INWARD = 1 - 1e-11
Part = Literal["divergence", "failure"]
_SPENT = "nothing: it is spent, and no command adds to a budget; rows that are new are a new dataset or period"


@final
@dataclass(frozen=True)
class Equivalent:
    """A period's standing as epsilon and as GDP mu.

    Attributes:
        epsilon: nats; with probability at least 1 - `delta` the loss of all charges so far is at most this, whenever one looks
            and however they were chosen: a `PrivacyOdometer`, at an order that the budget alone decides. Rounded up; None where
            no delta is declared that could pay for an epsilon, where releases are counted, and where all of the budget is spent,
            perhaps by a plan that another route admitted: the budget's own promise holds then, and no more is known.
        delta: of that statement: the budget's own, twice that of a zCDP budget, whose own is for failures.
        epsilon_left: nats; how much spending all that is left can still add to `epsilon`. Rounded down; None without a delta,
            and where releases are counted.
        mu_left: the greatest mu for which one more Gaussian release (`GaussianDP`) fits. Rounded down; None where the budget adds
            up pure epsilon, which no Gaussian release has, or counts releases.
    """

    epsilon: float | None
    delta: float
    epsilon_left: float | None
    mu_left: float | None


def equivalent(budget: Budget, spent: Price) -> Equivalent:
    """Where a budget stands after `spent`. Theorems F3, F6 and F9: the order is fixed by the budget alone.

    At one order the epsilon is the sum of divergences and a constant, so a nat of divergence left is a nat of epsilon left.
    """
    left, measure = budget.capacity.minus(spent).main, budget.measure
    if measure == "release":
        return Equivalent(None, budget.delta, None, None)
    if measure == "epsilon":
        found = Equivalent(float_up(spent.main, MAIN_UNIT), budget.delta, float_down(of_unit(left, MAIN_UNIT)), None)
    elif measure == "rho":
        found = (
            _odometer(budget.delta, budget.limit, Decimal(1), spent, left) if budget.delta else Equivalent(None, 0.0, None, 0.0)
        )
        return replace(found, delta=2 * budget.delta, mu_left=_mu(left, 2.0))
    elif measure == "mu^2":  # rho is mu^2/2
        rho = float(of_unit(budget.capacity.main, MAIN_UNIT)) / 2
        found = _odometer(float_down(budget.conversion_delta), rho, Decimal("0.5"), spent, left)
        found = replace(found, delta=budget.delta, mu_left=_mu(left, 1.0))
    else:
        start = waiting_cost(float_down(budget.conversion_delta), measure)
        used = 0.0 if spent == NOTHING else float_up(spent.main, MAIN_UNIT, start)
        found = Equivalent(used, budget.delta, float_down(of_unit(left, MAIN_UNIT)), _mu(left, 2 / measure))
    # A plan that another route admitted costs the whole capacity, and its real divergence may be larger.
    whole = budget.form == "approximate" and spent == budget.capacity
    return replace(found, epsilon=None) if whole else found


def _odometer(delta: float, rho: float, rho_of_unit: Decimal, spent: Price, left: int) -> Equivalent:
    """Of a sum of zCDP parameters, at the order that is best when all of `rho` is spent: a choice made before any charge."""
    order = 1 + float(f"{math.sqrt(math.log(1 / delta) / rho):.4g}")
    each, start = times_up(times_up(exact(order), rho_of_unit), MAIN_UNIT), waiting_cost(delta, order)
    used = 0.0 if spent == NOTHING else float_up(spent.main, each, start)
    return Equivalent(used, delta, float_down(of_unit(left, each)), None)


def _mu(left: int, mu_squared: float) -> float:
    """The mu of a Gaussian release that costs what is left, of which each nat costs a fixed multiple of mu^2."""
    return math.sqrt(mu_squared * float_down(of_unit(max(0, left - 1), MAIN_UNIT))) * _INWARD


# -- words ------------------------------------------------------------------------------------------------------------


def _currency(budget: Budget) -> str:
    """What the main part of a price counts: at one order a nat of divergence is one of epsilon. Theorem F3."""
    if budget.measure in ("mu^2", "release"):
        return in_words(budget.measure)
    if budget.form == "approximate":
        return f"epsilon (at delta {budget.delta:g})"
    return "rho" if budget.form == "zcdp" else "pure epsilon"


def left_in_words(budget: Budget, spent: Price) -> str:
    """Both parts of what is left, rounded down."""
    left, also = budget.remaining(spent), equivalent(budget, spent)
    words = f"{left.main:.6g} of {_currency(budget)}"
    if budget.form == "zcdp" and also.epsilon_left is not None:
        words += f", that is {also.epsilon_left:.6g} of epsilon (at delta {also.delta:g}),"
    return f"{words} and {left.failure:.3g} of {FAILURE}"


def shortfall(budget: Budget, spent: Price, price: Price) -> str:
    """Which part of a price does not fit beside `spent`, by how much, and what to change.

    What is asked for is rounded up and what is left is rounded down, so that the two never print alike.
    """
    left = budget.capacity.minus(spent)
    short = list(_short(budget, left, price))
    enough = [of for asked, rest, of in zip(price, left, (_currency(budget), FAILURE), strict=True) if 0 < asked <= rest]
    return "; ".join(short + [f"of {of} there is enough" for of in enough])


def _short(budget: Budget, left: Price, price: Price) -> Iterator[str]:
    if price.main > left.main:
        change = "add noise, or run fewer" if left.main else "it is spent, and no command adds to a budget"
        if budget.release is not None:
            asked, rest = (of_unit(part, MAIN_UNIT) for part in (price.main, left.main))
            yield f"{asked:,.0f} of the releases that were declared would be used, and {rest:,.0f} more fit: {change}"
        else:
            yield f"{_lacking(price.main, left.main, MAIN_UNIT, _currency(budget))}: {change}"
    if price.failure > left.failure:
        most = _rounded(of_unit(left.failure, FAILURE_UNIT), ROUND_FLOOR)
        change = f"lower the mechanism's delta to at most {most}" if left.failure else "choose a mechanism that never fails"
        lacking = _lacking(price.failure, left.failure, FAILURE_UNIT, FAILURE)
        yield f"{lacking}: {change} (more noise does not help; releases=N gives each of N releases an equal part)"


def _lacking(asked: int, left: int, unit: Decimal, of: str) -> str:
    needed, rest = _rounded(of_unit(asked, unit), ROUND_CEILING), _rounded(of_unit(left, unit), ROUND_FLOOR)
    return f"{needed} of {of} is needed and {rest} is left ({_rounded(of_unit(asked - left, unit), ROUND_CEILING)} too little)"


def _rounded(value: Decimal, rounding: str) -> str:
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(value)):.6g}"


# -- in releases ------------------------------------------------------------------------------------------------------


@final
class Affordable(int):
    """How many more releases fit, charged one by one and perhaps chosen after earlier answers: an int that knows why.

    Attributes:
        runs_out: what is used up first: "divergence" (of what the budget adds up) or "failure" (probability); None where the
            release is free, or no budget of this form pays for it.
        reason: what is left, what one release takes, and how many each part pays for.
        remedy: what to change so that twice as many fit (one, where none does).
        period: whose rows decide, where each period has a budget, or which quota; "" for all rows.
    """

    runs_out: Part | None
    reason: str
    remedy: str
    period: str

    def __new__(cls, count: int, *, runs_out: Part | None, reason: str, remedy: str, period: str = "") -> Self:
        """As `affordable` finds it."""
        made = super().__new__(cls, count)
        made.runs_out, made.reason, made.remedy, made.period = runs_out, reason, remedy, period
        return made

    def __repr__(self) -> str:
        return f"Affordable({int(self)}, runs_out={self.runs_out!r}, period={self.period!r})"


def affordable(budget: Budget, spent: Price, curve: Curve, *, most: int, period: str = "") -> Affordable:
    """How many separate charges of `curve` fit after `spent`, `most` at most: the filter's own arithmetic. Theorems F1 to F3."""
    try:
        price = budget.price(curve)
    except Unaffordable as error:
        remedy = "choose another mechanism: this dataset's budget never pays for it"
        return Affordable(0, runs_out=None, reason=str(error), remedy=remedy, period=period)
    if price == NOTHING:
        return Affordable(most, runs_out=None, reason="it costs nothing", remedy="nothing: any number fits", period=period)
    left = budget.capacity.minus(spent)
    count = min(have // need for have, need in zip(left, price, strict=True) if need)
    # The part of which one release takes the greater share; compared as whole numbers.
    first: Part = "failure" if price.failure * left.main > price.main * left.failure else "divergence"
    alone = " (it takes the whole budget, so it fits as the only charge)" if price == budget.capacity else ""
    reason = "; ".join(
        f"{_four(of_unit(have, unit), ROUND_FLOOR)} of {of} left, {_four(of_unit(need, unit), ROUND_CEILING)} for each: enough "
        f"for {have // need:,}"
        for have, need, unit, of in _parts(left, price, budget)
    )
    remedy = _remedy(left, price, budget, 2 * count or 1)
    return Affordable(min(most, count), runs_out=first, reason=reason + alone, remedy=remedy, period=period)


def _remedy(left: Price, price: Price, budget: Budget, goal: int) -> str:
    """What to change for `goal` releases: each part that does not last so long, and how much one release may take of it."""
    short = [(have // goal, unit, of) for have, need, unit, of in _parts(left, price, budget) if have // need < goal]
    if any(each == 0 for each, _, _ in short):
        return _SPENT
    words = {MAIN_UNIT: "add noise", FAILURE_UNIT: "lower its delta (noise does not help), as releases= does"}
    changes = [f"{words[unit]}: at most {_four(of_unit(each, unit), ROUND_FLOOR)} of {of} each" for each, unit, of in short]
    return f"{'; and '.join(changes)}; then {goal:,} fit"


def _parts(left: Price, price: Price, budget: Budget) -> Iterator[tuple[int, int, Decimal, str]]:
    units = ((MAIN_UNIT, _currency(budget)), (FAILURE_UNIT, FAILURE))
    for have, need, (unit, of) in zip(left, price, units, strict=True):
        if need:
            yield have, need, unit, of


def _four(value: Decimal, rounding: str) -> str:
    context = Context(prec=4, rounding=rounding)
    return f"{context.normalize(value):g}"
