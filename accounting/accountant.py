"""`Accountant`: compose a plan that is fixed in advance, and read its price."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol, Self, final

from accounting import bounds
from accounting.bounds import Bound, Route
from accounting.curves import Composed, Curve
from accounting.errors import InvalidArgument
from accounting.relation import Relation, same_relation


class Priced(Protocol):
    """Anything with a curve and a neighbouring relation, a mechanism for example."""

    @property
    def curve(self) -> Curve: ...
    @property
    def relation(self) -> Relation: ...


@dataclass(frozen=True)
class Share:
    """One label's part of a plan: how many curves, and their share of the Renyi bound at the winning order (nats)."""

    label: str
    count: int
    rdp: float | None
    delta0: float


@dataclass(frozen=True)
class Breakdown:
    """What a plan costs: epsilon (nats) at delta, the route and order that proved it, and the share of every label."""

    epsilon: float
    delta: float
    route: Route
    order: float | None
    relation: Relation | None
    shares: tuple[Share, ...]


@final
class Accountant:
    """Adds up the curves of a plan fixed in advance and converts the total.

    The plan may repeat queries and choose inputs adaptively, but not its own length or noise: that needs a filter, see `Budget`.

    Args:
        relation: the neighbouring relation of the plan; if None, the first mechanism states it.
    """

    def __init__(self, relation: Relation | None = None) -> None:
        self._relation = same_relation(None, relation)
        self._counts: dict[str, Counter[Curve]] = {}

    def compose(
        self, item: Curve | Priced, count: int = 1, label: str | None = None, *, relation: Relation | None = None
    ) -> Self:
        """Add a curve or mechanism, `count` times, under `label` (its kind by default). Returns the accountant itself.

        Raises:
            RelationMismatch: the relation differs from what was composed before.
            InvalidArgument: count is not an integer >= 0, or item has no curve.
        """
        curve, stated = _read(item, relation)
        self._relation = same_relation(self._relation, stated)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InvalidArgument(f"count={count!r} must be an integer >= 0: how many times the mechanism runs")
        if count > 0:
            self._counts.setdefault(_kind(item) if label is None else label, Counter())[curve] += count
        return self

    @property
    def relation(self) -> Relation | None:
        """The common neighbouring relation; None while nothing has stated one."""
        return self._relation

    @property
    def curve(self) -> Curve:
        """The composition of everything so far."""
        return Composed.of([(n, curve) for counts in self._counts.values() for curve, n in counts.items()])

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon (nats) at `delta` in [0, 1)."""
        return self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at `epsilon` (nats) >= 0."""
        return self.curve.delta(epsilon)

    def breakdown(self, delta: float) -> Breakdown:
        """The price at `delta`, the bound that won, at which order, and what each label contributed."""
        won: Bound = bounds.best_epsilon(self.curve, delta)
        shares = tuple(_share(label, counts, won.order) for label, counts in self._counts.items())
        return Breakdown(won.value, delta, won.route, won.order, self._relation, shares)

    def __repr__(self) -> str:
        return f"Accountant(relation={self._relation!r}, labels={len(self._counts)})"


def _read(item: Curve | Priced, relation: Relation | None) -> tuple[Curve, Relation | None]:
    if isinstance(item, Curve):
        return item, relation
    if isinstance(getattr(item, "curve", None), Curve) and hasattr(item, "relation"):
        return item.curve, same_relation(relation, item.relation)
    raise InvalidArgument(f"cannot compose a {type(item).__name__}: pass a Curve, or a mechanism that has one")


def _kind(item: Curve | Priced) -> str:
    return str(getattr(item, "kind", type(item).__name__))


def _share(label: str, counts: Counter[Curve], order: float | None) -> Share:
    total = Composed.of([(n, curve) for curve, n in counts.items()])
    rdp = None if order is None else float(total.rdp(order))
    return Share(label, counts.total(), rdp, total.delta0)
