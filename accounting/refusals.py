"""`BudgetExceeded`: the refusal of a charge that does not fit, with its reason and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR
from functools import lru_cache

from accounting.budget import Budget
from accounting.calibration import calibrate_count
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, Cost
from accounting.curves import Curve
from accounting.errors import AccountingError
from accounting.numbers import multiple
from accounting.remaining import Remaining, share_in_words
from accounting.wording import round_to


class BudgetExceeded(AccountingError):
    """Error raised if a charge does not fit into the rest of a budget. Nothing was charged.

    Attributes (None where the raiser did not say):
        requested: the cost that was refused.
        spent: the sum of the earlier costs.
        remaining: the state of the budget.
        would_fit: number of the requested runs that still fit.
    """

    def __init__(
        self,
        message: str,
        *,
        requested: Cost | None = None,
        spent: Cost | None = None,
        remaining: Remaining | None = None,
        would_fit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.requested, self.spent, self.remaining, self.would_fit = (
            requested,
            spent,
            remaining,
            would_fit,
        )


def refusal(remaining: Remaining, count: int, where: str) -> BudgetExceeded:
    """Return the error for `count` releases like `remaining.curve` that do not fit as one item.

    It says why, how many do fit, and what helps.
    """
    budget, spent, curve = remaining.budget, remaining.spent, remaining.curve
    assert curve is not None
    cost, fit = budget.filter_cost(count * curve), remaining.as_one_plan(count - 1)
    subject = "This release does not fit" if count == 1 else f"These {count:,} releases do not fit"
    short = f"the budget of {where} is used up"
    if spent.main < budget.capacity.main:
        short = (
            f"{'it needs' if count == 1 else 'they need'} {shortfall(budget, spent, cost, where)}"
        )
    message = (
        f"{subject} because {short}. {'. '.join(_remedies(remaining, cost, fit))}. Nothing was"
        " charged."
    )
    return BudgetExceeded(message, requested=cost, spent=spent, remaining=remaining, would_fit=fit)


def shortfall(budget: Budget, spent: Cost, cost: Cost, where: str) -> str:
    """Return the parts of a cost that do not fit after `spent`, to complete "it needs ...".

    `where` names the budget.

    Needs are rounded up and rests are rounded down, so that the two never print alike.
    """
    remaining, capacity = budget.capacity.minus(spent), budget.capacity
    short = []
    if cost.main > remaining.main and budget.measure.is_counted:
        need, rest = (f"{multiple(part, MAIN_UNIT):,.0f}" for part in (cost.main, remaining.main))
        short.append(f"{need} of the releases declared for {where} and {rest} are left")
    elif cost.main > remaining.main:
        need = share_in_words(cost.main, capacity.main, ROUND_CEILING)
        rest = share_in_words(remaining.main, capacity.main, ROUND_FLOOR)
        short.append(f"{need} of the budget of {where} and {rest} is left")
    if cost.failure > remaining.failure:
        need = round_to(multiple(cost.failure, FAILURE_UNIT), ROUND_CEILING, 4)
        rest = round_to(multiple(remaining.failure, FAILURE_UNIT), ROUND_FLOOR, 4)
        short.append(f"a failure probability (delta0) of {need} from {where} and {rest} is left")
    return "; and ".join(short)


def _remedies(remaining: Remaining, cost: Cost, fit: int) -> Iterator[str]:
    """Yield remedies for a cost that does not fit, each of which was checked to hold."""
    budget = remaining.budget
    unspent = budget.capacity.minus(remaining.spent)
    if fit:
        yield f"Ask for at most {fit:,} of them"
    if unspent.main and cost.main > unspent.main and not budget.measure.is_counted:
        most = share_in_words(unspent.main, budget.capacity.main, ROUND_FLOOR)
        yield f"Use a smaller epsilon or more noise: at most {most} of the budget in all"
    if unspent.main and cost.failure > unspent.failure:
        most = round_to(multiple(unspent.failure, FAILURE_UNIT), ROUND_FLOOR)
        yield (
            f"Lower the mechanism's delta to a failure probability of at most {most} in all."
            " More noise does not help, but releases=N gives each of N releases an equal part"
            if unspent.failure
            else "Use a mechanism that never fails"
        )
    if remaining.account.startswith("quota "):
        yield "Have a larger quota declared, within the dataset's budget (ledger quota)"
        return
    if not unspent.main:
        yield (
            "A declared budget cannot be raised, so declare another dataset, but only for new data"
        )
    if (new := _new_data_remedy(budget, remaining.curve)) is not None:
        yield new


@lru_cache(maxsize=64)
def _new_data_remedy(budget: Budget, curve: Curve | None) -> str | None:
    """Return the releases that a new dataset with the same (epsilon, delta) pays for, in words.

    It is stated one by one, as one plan, and for a budget declared for such releases.
    """
    if (
        curve is None
        or curve.core_epsilon == 0
        or budget.form != "approximate"
        or budget.measure.is_counted
    ):
        return None
    try:
        alone = budget.how_many(curve)
        plan = calibrate_count(curve, budget)
        order = Budget.for_workload(epsilon=budget.limit, delta=budget.delta, curve=curve).how_many(
            curve
        )
    except AccountingError:
        return None
    ways = [f"{alone:,} such release{'s' * (alone != 1)} one by one"]
    ways += (
        [f"{order:,} if it is declared for them (ledger init --mostly)"] if order > alone else []
    )
    ways += [f"{plan:,} as one plan that is fixed in advance"] if plan > max(alone, order) else []
    return f"For new data, a new dataset with this budget covers {', '.join(ways)}"
