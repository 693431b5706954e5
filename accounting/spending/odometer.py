"""`PrivacyOdometer`: a running total that holds at every moment at once, with no limit set beforehand."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import final

from accounting.arguments import whole
from accounting.conversion.renyi import check_delta
from accounting.curves import Composed, Curve
from accounting.decimal_sum import exact, float_up
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import Priced, joined, read_item
from accounting.kept import Kept
from accounting.relation import Relation, same_relation
from accounting.spending.order import Order, rounded_down, waiting_cost
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT, NOTHING, BudgetExceeded, Measure, Price, in_words, itemised


@final
class PrivacyOdometer:
    """With probability at least 1 - delta - failure, the privacy loss is at most `epsilon` at all times. Theorem F6.

    Mechanisms may be chosen after seeing answers, and so may the moment to stop. The loss is that of the transcript: the log of
    the ratio of its probabilities under two neighbouring inputs.

    Args:
        delta: of the statement, in (0, 1); 0 is allowed at order "inf".
        order: the Renyi order (> 1) at which charges are added, or "inf" for the sum of pure epsilons; fixed here.
        failure: how much `Curve.delta0` may be charged in total.
        relation: the neighbouring relation; if None, the first mechanism states it.
    """

    def __init__(self, *, delta: float, order: Order, failure: float = 0.0, relation: Relation | None = None) -> None:
        self._measure: Measure = "epsilon" if order == "inf" else _above_one(order)
        self._start = Decimal(0) if order == "inf" else waiting_cost(_positive(delta), _above_one(order))
        self._failure = rounded_down(exact(check_delta(failure)), FAILURE_UNIT)
        self._kept: Kept[tuple[Relation | None, Price]] = Kept(
            (same_relation(None, relation), NOTHING),
            owner="a PrivacyOdometer",
            remedy="give each process its own and add their epsilons up, or charge a Ledger",
        )

    def charge(self, item: Curve | Priced, count: int = 1, *, relation: Relation | None = None) -> float:
        """Add `count` runs of a curve or mechanism; the running epsilon.

        Raises:
            Unaffordable: the curve has no finite cost at this order.
            BudgetExceeded: its delta0 does not fit into `failure`; nothing is charged.
            RelationMismatch: the relation differs from that of earlier charges, or is stated for some of them only.
            ForeignProcess: the odometer was made before a fork.
        """
        curve, stated = read_item(item, relation)
        price = itemised(Composed.of([(whole("count", count, "how many runs are charged"), curve)]), self._measure)
        if price is None:
            raise Unaffordable(f"{type(curve).__name__} has no finite {in_words(self._measure)}: choose another order")
        with self._kept.turn() as (common, spent):
            relation, total = joined(common, stated, begun=spent != NOTHING), spent.plus(price)
            if total.failure > self._failure:
                raise self._refusal(curve, price)
            self._kept.value = relation, total
            return self._epsilon(total)

    def _refusal(self, curve: Curve, price: Price) -> BudgetExceeded:
        left = (self._failure - self.spent.failure) * FAILURE_UNIT
        return BudgetExceeded(
            f"{type(curve).__name__} may fail with probability {curve.delta0:g}, but only {left} of failure is left. Nothing was "
            "charged: give the odometer a larger failure, or lower the mechanism's delta.",
            requested=price,
            spent=self.spent,
        )

    @property
    def epsilon(self) -> float:
        """What the loss has not passed so far, in nats; rounded up. Before any charge it is 0."""
        return self._epsilon(self.spent)

    @property
    def spent(self) -> Price:
        """The sum of the prices so far."""
        return self._kept.value[1]

    def _epsilon(self, spent: Price) -> float:
        return 0.0 if spent == NOTHING else float_up(spent.main, MAIN_UNIT, self._start)


def _positive(delta: float) -> float:
    if check_delta(delta) == 0:
        raise InvalidArgument("delta=0 needs order='inf': at a Renyi order the statement holds with probability below one")
    return delta


def _above_one(order: float) -> float:
    if isinstance(order, bool) or not isinstance(order, numbers.Real) or not 1 < order < 1e300:
        raise InvalidArgument(f"order={str(order)[:30]!r} must be a number above 1, or 'inf' for the sum of pure epsilons")
    return float(order)
