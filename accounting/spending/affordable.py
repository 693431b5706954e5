"""`Affordable`: how many more separate releases a budget pays for, what runs out first, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal, Self, final

from accounting.curves import Curve
from accounting.errors import Unaffordable
from accounting.spending.budget import Budget
from accounting.spending.equivalent import FAILURE, currency
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, Price

Part = Literal["divergence", "failure"]
_SPENT = "nothing: it is spent, and no command adds to a budget; rows that are new are a new dataset or period"


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
    left = Price(*(max(0, have - used) for have, used in zip(budget.capacity, spent, strict=True)))
    count = min(have // need for have, need in zip(left, price, strict=True) if need)
    # The part of which one release takes the greater share; compared as whole numbers.
    first: Part = "failure" if price.failure * left.main > price.main * left.failure else "divergence"
    reason = "; ".join(_reasons(left, price, budget)) + _alone(budget, price)
    remedy = _remedy(left, price, budget, 2 * count or 1)
    return Affordable(min(most, count), runs_out=first, reason=reason, remedy=remedy, period=period)


def _reasons(left: Price, price: Price, budget: Budget) -> Iterator[str]:
    for have, need, unit, of in _parts(left, price, budget):
        yield f"{_down(have * unit)} of {of} left, {_up(need * unit)} for each: enough for {have // need:,}"


def _alone(budget: Budget, price: Price) -> str:
    return " (it takes the whole budget, so it fits as the only charge)" if price == budget.capacity else ""


def _remedy(left: Price, price: Price, budget: Budget, goal: int) -> str:
    """What to change for `goal` releases: each part that does not last so long, and how much one release may take of it."""
    short = [(have // goal, unit, of) for have, need, unit, of in _parts(left, price, budget) if have // need < goal]
    if any(each == 0 for each, _, _ in short):
        return _SPENT
    words = {MAIN_UNIT: "add noise", FAILURE_UNIT: "lower its delta (noise is no help), as releases= does"}
    changes = [f"{words[unit]}: at most {_down(each * unit)} of {of} each" for each, unit, of in short]
    return f"{'; and '.join(changes)}; then {goal:,} fit"


def _parts(left: Price, price: Price, budget: Budget) -> Iterator[tuple[int, int, Decimal, str]]:
    units = ((MAIN_UNIT, currency(budget)), (FAILURE_UNIT, FAILURE))
    for have, need, (unit, of) in zip(left, price, units, strict=True):
        if need:
            yield have, need, unit, of


def _down(value: Decimal) -> str:
    return f"{Context(prec=4, rounding=ROUND_FLOOR).create_decimal(value).normalize():g}"


def _up(value: Decimal) -> str:
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(value).normalize():g}"
