"""`PrivacyOdometer`: a running total that holds at every moment at once, with no limit set beforehand."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import final

from accounting.accountant import Priced
from accounting.conversion import check_delta
from accounting.curves import Composed, Curve
from accounting.decimal_sum import exact, float_up
from accounting.errors import BudgetExceeded, InvalidArgument, Unaffordable
from accounting.filter_item import read_item
from accounting.filter_order import Order, rounded_down, waiting_cost
from accounting.filter_price import FAILURE_UNIT, MAIN_UNIT, NOTHING, Measure, Price, in_words, itemised
from accounting.relation import Relation, same_relation


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
        self._measure: Measure = "epsilon" if order == "inf" else float(order)
        self._start = Decimal(0) if order == "inf" else waiting_cost(_positive(delta), _above_one(order))
        self._failure = rounded_down(exact(check_delta(failure)), FAILURE_UNIT)
        self._relation = same_relation(None, relation)
        self._spent = NOTHING
        self._lock = threading.Lock()

    def charge(self, item: Curve | Priced, count: int = 1, *, relation: Relation | None = None) -> float:
        """Add `count` runs of a curve or mechanism; the running epsilon.

        Raises:
            Unaffordable: the curve has no finite cost at this order.
            BudgetExceeded: its delta0 does not fit into `failure`; nothing is charged.
            RelationMismatch: the relation differs from that of earlier charges.
        """
        curve, stated = read_item(item, relation)
        price = itemised(Composed.of([(count, curve)]), self._measure)
        if price is None:
            raise Unaffordable(f"{type(curve).__name__} has no finite {in_words(self._measure)}: choose another order")
        with self._lock:
            relation, total = same_relation(self._relation, stated), self._spent.plus(price)
            if total.failure > self._failure:
                raise self._refusal(curve, price)
            self._relation, self._spent = relation, total
        return self.epsilon

    def _refusal(self, curve: Curve, price: Price) -> BudgetExceeded:
        left = (self._failure - self._spent.failure) * FAILURE_UNIT
        return BudgetExceeded(
            f"{type(curve).__name__} may fail with probability {curve.delta0:g}, but only {left} of failure is left. Nothing was "
            "charged: give the odometer a larger failure, or lower the mechanism's delta.",
            requested=price,
            spent=self._spent,
        )

    @property
    def epsilon(self) -> float:
        """What the loss has not passed so far, in nats; rounded up. Before any charge it is 0."""
        return 0.0 if self._spent == NOTHING else float_up(self._spent.main, MAIN_UNIT, self._start)

    @property
    def spent(self) -> Price:
        """The sum of the prices so far."""
        return self._spent


def _positive(delta: float) -> float:
    if check_delta(delta) == 0:
        raise InvalidArgument("delta=0 needs order='inf': at a Renyi order the statement holds with probability below one")
    return delta


def _above_one(order: float) -> float:
    if not 1 < order < float("inf"):
        raise InvalidArgument(f"order={order!r} must be a number above 1, or 'inf' for the sum of pure epsilons")
    return float(order)
