"""`PrivacyFilter`: charge what is chosen along the way and never pass the budget. In memory; `Ledger` keeps it in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from accounting.arguments import whole
from accounting.curves import Composed, Curve
from accounting.guarantee import Priced, joined, read_item
from accounting.kept import Kept
from accounting.relation import Relation, same_relation
from accounting.spending.budget import Budget, checked_budget
from accounting.spending.equivalent import shortfall
from accounting.spending.price import NOTHING, BudgetExceeded, Price, Remaining


@dataclass(frozen=True)
class Charge:
    """One line of a filter: what ran, how often, under which label, and its price."""

    curve: Curve
    count: int
    label: str | None
    price: Price


class _State(NamedTuple):
    relation: Relation | None
    spent: Price = NOTHING
    number: int = 0


@final
class PrivacyFilter:
    """Keeps a sequence of charges within `budget`, whatever made the caller choose them. Theorems F1 to F3.

    Each mechanism may depend on all earlier answers. The whole sequence satisfies the budget: pure or (epsilon, delta)
    differential privacy, or delta-approximate rho-zCDP. Safe to share between threads. Charge first, then draw the noise.

    Args:
        budget: what may be spent.
        relation: the neighbouring relation; if None, the first mechanism states it.

    Raises:
        InvalidArgument: budget is no Budget.

    Example:
        >>> import accounting as acc
        >>> spending = acc.PrivacyFilter(acc.Budget(epsilon=1.0))
        >>> _ = spending.charge(acc.PureDP(epsilon=0.7))
        >>> spending.charge(acc.PureDP(epsilon=0.7))
        Traceback (most recent call last):
            ...
        accounting.errors.BudgetExceeded: ...
    """

    def __init__(self, budget: Budget, relation: Relation | None = None) -> None:
        self._budget = checked_budget(budget)
        self._kept = Kept(
            _State(same_relation(None, relation)),
            owner="a PrivacyFilter",
            remedy="give each process a filter of its own with a part of the budget, or charge a Ledger",
        )
        self._charges: list[Charge] = []

    def charge(
        self, item: Curve | Priced, count: int = 1, label: str | None = None, *, relation: Relation | None = None
    ) -> Price:
        """Charge `count` runs of a curve or mechanism, reserved together and priced as one composition; the price.

        Raises:
            BudgetExceeded: it does not fit; nothing is charged. Its attributes say what was asked, spent and left.
            Unaffordable: the form of the budget can never pay for it; nothing is charged.
            RelationMismatch: the relation differs from that of earlier charges, or is stated for some of them only.
            InvalidArgument: count is not an integer >= 1, or item has no curve.
            ForeignProcess: the filter was made before a fork.
        """
        curve, stated = read_item(item, relation)
        count = whole("count", count, "how many runs are charged")
        price = self._budget.price(Composed.of([(count, curve)]))
        with self._kept.turn() as state:
            relation = joined(state.relation, stated, begun=state.number > 0)
            if not self._budget.fits(state.spent, price):
                raise self._refusal(curve, count, price)
            del self._charges[state.number :]  # of a charge that was interrupted
            self._charges.append(Charge(curve, count, label, price))
            self._kept.value = _State(relation, state.spent.plus(price), state.number + 1)
        return price

    def _refusal(self, curve: Curve, count: int, price: Price) -> BudgetExceeded:
        left, name = self._budget.remaining(self.spent), type(curve).__name__
        fit = min(count - 1, self._budget.how_many(curve, self.spent)) if count > 1 else 0
        return BudgetExceeded(
            f"{count} x {name} does not fit into what is left of {self._budget!r}; {fit} of them would "
            f"still fit. {shortfall(self._budget, self.spent, price)}. Nothing was charged.",
            requested=price,
            spent=self.spent,
            remaining=left,
            would_fit=fit,
        )

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        return self._budget

    @property
    def relation(self) -> Relation | None:
        """The common neighbouring relation; None while nothing has stated one."""
        return self._kept.value.relation

    @property
    def spent(self) -> Price:
        """The sum of the prices so far."""
        return self._kept.value.spent

    @property
    def remaining(self) -> Remaining:
        """What is left, in nats and failure probability, rounded down."""
        return self._budget.remaining(self.spent)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Every charge, in order."""
        return tuple(self._charges[: self._kept.value.number])

    def can_afford(self, item: Curve | Priced) -> bool:
        """Whether one run of a curve or mechanism may still be charged."""
        return self._budget.can_afford(self.spent, self._read(item))

    def how_many(self, item: Curve | Priced) -> int:
        """How many separate runs of a curve or mechanism still fit.

        Raises:
            Unaffordable: the form of the budget can never pay for it.
        """
        return self._budget.how_many(self._read(item), self.spent)

    def epsilon(self, delta: float) -> float:
        """The epsilon (nats) at `delta` of what was charged, read as a plan that had been fixed in advance.

        If the charges were chosen after seeing answers, this number is no guarantee: the budget is, and a `PrivacyOdometer`
        gives a running total that is.
        """
        return Composed.of([(charge.count, charge.curve) for charge in self.charges]).epsilon(delta)

    def _read(self, item: Curve | Priced) -> Curve:
        curve, stated = read_item(item, None)
        same_relation(self.relation, stated)
        return curve

    def __repr__(self) -> str:
        return f"PrivacyFilter({self._budget!r}, relation={self.relation!r}, charges={self._kept.value.number})"
