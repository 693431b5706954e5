"""Filters and odometers in memory, for charges that are chosen along the way.

`PrivacyFilter` never passes its budget, and `PrivacyOdometer` keeps a running total.

`Ledger` keeps a filter in a file.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple, final

from accounting.arguments import check_integer
from accounting.budget import Budget, check_budget
from accounting.convert.renyi import check_delta
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, NOTHING, Cost
from accounting.curves import Composed, Curve
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import HasCurve, common_unit, curve_and_relation
from accounting.measures import Measure, PureEpsilon, RenyiDivergence, anytime_overhead
from accounting.numbers import exact, float_up, multiple, units_down
from accounting.process_state import ProcessState
from accounting.refusals import BudgetExceeded, refusal
from accounting.relations import Relation, common_relation, same_relation
from accounting.remaining import Remaining
from accounting.wording import format_number


@dataclass(frozen=True)
class Charge:
    """One line of a filter: the curve that ran, its count and label, and its cost."""

    curve: Curve
    count: int
    label: str | None
    cost: Cost


class _State(NamedTuple):
    relation: Relation | None
    unit: str | None = None
    spent: Cost = NOTHING
    number: int = 0


@final
class PrivacyFilter:
    """A filter that keeps adaptively chosen charges within `budget`. Theorems F1 to F3.

    Each mechanism may depend on all earlier answers, and the whole sequence satisfies the budget:
    pure or (epsilon, delta) differential privacy, or delta-approximate rho-zCDP. A filter is safe
    to share between threads. Charge first, and then draw the noise.

    Args:
        budget: limit on the total cost, in a form other than an advantage.
        relation: the neighboring relation; if None, the first mechanism states it.

    Raises:
        InvalidArgument: budget is not a Budget.

    Example:
        >>> import accounting as acc
        >>> spending = acc.PrivacyFilter(acc.Budget(epsilon=1.0))
        >>> _ = spending.charge(acc.PureDP(epsilon=0.7))
        >>> spending.charge(acc.PureDP(epsilon=0.7))
        Traceback (most recent call last):
            ...
        accounting.refusals.BudgetExceeded: ...
    """

    def __init__(self, budget: Budget, relation: Relation | None = None) -> None:
        self._budget = check_budget(budget)
        _ = self._budget.capacity  # refused here where it has none
        self._kept = ProcessState(
            _State(same_relation(None, relation)),
            owner="a PrivacyFilter",
            remedy=(
                "give each process a filter of its own with a part of the budget, or charge a"
                " Ledger"
            ),
        )
        self._charges: list[Charge] = []

    def charge(
        self,
        item: Curve | HasCurve,
        count: int = 1,
        label: str | None = None,
        *,
        relation: Relation | None = None,
    ) -> Cost:
        """Charge `count` runs of a curve or mechanism as one composition, and return the cost.

        Raises:
            BudgetExceeded: the cost does not fit, and nothing is charged. The error's attributes
                hold the requested, spent and remaining amounts.
            Unaffordable: the form of the budget can never pay for it; nothing is charged.
            RelationMismatch: the relation differs from that of earlier charges, or is stated for
                some of them only.
            InvalidArgument: count is not an integer >= 1, or item has no curve.
            ForeignProcess: the filter was made before a fork.
        """
        curve, item_relation = curve_and_relation(item, relation)
        count = check_integer("count", count, "how many runs are charged")
        cost = self._budget.filter_cost(Composed.from_parts([(count, curve)]))
        with self._kept.lock() as state:
            relation = common_relation(state.relation, item_relation, begun=state.number > 0)
            unit = common_unit(state.unit, item)
            if not self._budget.fits(state.spent, cost):
                raise refusal(Remaining(self._budget, state.spent, curve), count, "this filter")
            del self._charges[state.number :]  # of a charge that was interrupted
            self._charges.append(Charge(curve, count, label, cost))
            self._kept.value = _State(relation, unit, state.spent.plus(cost), state.number + 1)
        return cost

    @property
    def budget(self) -> Budget:
        """The budget that the filter keeps to."""
        return self._budget

    @property
    def relation(self) -> Relation | None:
        """The common neighboring relation; None until a charge states one."""
        return self._kept.value.relation

    @property
    def spent(self) -> Cost:
        """The sum of the costs so far."""
        return self._kept.value.spent

    @property
    def remaining(self) -> Remaining:
        """The state of the budget in three figures."""
        plan = Composed.from_parts([(charge.count, charge.curve) for charge in self.charges])
        return Remaining(self._budget, self.spent, charged=plan)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, in order."""
        return tuple(self._charges[: self._kept.value.number])

    def can_afford(self, item: Curve | HasCurve) -> bool:
        """Return True if one more run of a curve or mechanism fits."""
        same_relation(self.relation, curve_and_relation(item, None)[1])
        return self._budget.can_afford(self.spent, item)

    def how_many(self, item: Curve | HasCurve) -> int:
        """Return the number of further separate runs of a curve or mechanism that fit.

        Raises:
            InvalidArgument: the curve costs nothing, so any number fits.
            Unaffordable: the form of the budget can never pay for the curve.
        """
        same_relation(self.relation, curve_and_relation(item, None)[1])
        return self._budget.how_many(item, self.spent)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon (nats) at `delta` of the charges, as if they were a fixed plan.

        If the charges were chosen after seeing answers, this number is not a guarantee. The budget
        is one, and so is the running total of a `PrivacyOdometer`.
        """
        return Composed.from_parts(
            [(charge.count, charge.curve) for charge in self.charges]
        ).epsilon(delta)

    def __repr__(self) -> str:
        return (
            f"PrivacyFilter({self._budget!r}, relation={self.relation!r},"
            f" charges={self._kept.value.number})"
        )


@final
class PrivacyOdometer:
    """A running bound on the privacy loss that holds at all times. Theorem F6.

    With probability at least 1 - delta - failure, the loss is at most `epsilon` at all times.

    Mechanisms may be chosen after seeing answers, and so may the moment to stop. The loss is that
    of the transcript: the log of the ratio of its probabilities under two neighboring inputs.

    Args:
        delta: failure probability of the bound, in (0, 1); 0 is allowed at order "inf".
        order: the Renyi order (> 1) at which charges are added, or "inf" for the sum of pure
            epsilons; fixed here.
        failure: limit on the sum of the charges' `Curve.delta0`.
        relation: the neighboring relation; if None, the first mechanism states it.
    """

    def __init__(
        self,
        *,
        delta: float,
        order: float | Literal["inf"],
        failure: float = 0.0,
        relation: Relation | None = None,
    ) -> None:
        self._measure: Measure = PureEpsilon()
        self._start = Decimal(0)
        if order != "inf":
            if (
                isinstance(order, bool)
                or not isinstance(order, numbers.Real)
                or not 1 < order < 1e300
            ):
                raise InvalidArgument(
                    f"order={str(order)[:30]!r} must be a number above 1, or 'inf' for the sum of"
                    " pure epsilons"
                )
            self._measure = RenyiDivergence(float(order))
            if check_delta(delta) == 0:
                raise InvalidArgument(
                    "delta=0 needs order='inf', because the bound at a Renyi order holds with"
                    " a probability below one"
                )
            self._start = anytime_overhead(delta, float(order))
        self._failure = units_down(exact(check_delta(failure)), FAILURE_UNIT)
        self._kept = ProcessState(
            _State(same_relation(None, relation)),
            owner="a PrivacyOdometer",
            remedy="give each process its own and add their epsilons up, or charge a Ledger",
        )

    def charge(
        self, item: Curve | HasCurve, count: int = 1, *, relation: Relation | None = None
    ) -> float:
        """Add `count` runs of a curve or mechanism and return the running epsilon (nats).

        Raises:
            Unaffordable: the curve has no finite cost at this order.
            BudgetExceeded: its delta0 does not fit into `failure`; nothing is charged.
            RelationMismatch: the relation differs from that of earlier charges, or is stated for
                some of them only.
            ForeignProcess: the odometer was made before a fork.
        """
        curve, item_relation = curve_and_relation(item, relation)
        cost = self._measure.filter_cost(
            Composed.from_parts(
                [(check_integer("count", count, "how many runs are charged"), curve)]
            )
        )
        if cost is None:
            raise Unaffordable(
                f"{type(curve).__name__} has no finite {self._measure.words}. Choose another order"
            )
        with self._kept.lock() as state:
            relation = common_relation(state.relation, item_relation, begun=state.spent != NOTHING)
            unit, total = common_unit(state.unit, item), state.spent.plus(cost)
            if total.failure > self._failure:
                remaining = multiple(self._failure - state.spent.failure, FAILURE_UNIT)
                raise BudgetExceeded(
                    f"{type(curve).__name__} may fail with probability"
                    f" {format_number(curve.delta0)}, but only {remaining} of failure remains."
                    " Nothing was charged. Give the odometer a larger failure, or lower the"
                    " mechanism's delta.",
                    requested=cost,
                    spent=state.spent,
                )
            self._kept.value = _State(relation, unit, total)
            return self.epsilon

    @property
    def epsilon(self) -> float:
        """The bound on the loss so far, in nats, rounded up; 0 before any charge."""
        return 0.0 if self.spent == NOTHING else float_up(self.spent.main, MAIN_UNIT, self._start)

    @property
    def spent(self) -> Cost:
        """The sum of the costs so far."""
        return self._kept.value.spent
