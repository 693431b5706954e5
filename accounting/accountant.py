"""`Accountant`: compose a plan that is fixed in advance, and read its price."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self, final

from accounting.arguments import Relation, checked_integer, same_relation
from accounting.convert import bounds
from accounting.convert.bounds import Bound, Route
from accounting.curves import Composed, Curve
from accounting.guarantee import Priced, common_relation, read_item

_MOST_LABELS = 20  # in a notebook


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

    Example:
        >>> import accounting as acc
        >>> plan = acc.Accountant().compose(acc.BoundedRange(epsilon=0.05), 365, "daily top item")
        >>> round(plan.epsilon(1e-6), 3)
        2.16
    """

    def __init__(self, relation: Relation | None = None) -> None:
        self._relation = same_relation(None, relation)
        self._items: list[tuple[str, int, Curve]] = []
        self._lock = threading.Lock()

    def compose(
        self, item: Curve | Priced, count: int = 1, label: str | None = None, *, relation: Relation | None = None
    ) -> Self:
        """Add a curve or mechanism, `count` times, under `label` (its kind by default). Returns the accountant itself.

        Raises:
            RelationMismatch: the relation differs from what was composed before, or is stated for a part of the plan only: pass
                mechanisms, or `relation` with every bare curve.
            InvalidArgument: count is not an integer from 0 to 10^18, item has no curve, or relation is none of the two.
        """
        curve, stated = read_item(item, relation)
        count = checked_integer("count", count, "how many times the mechanism runs", least=0)
        with self._lock:
            if count > 0:
                if stated is not None or self._relation is not None:
                    self._relation = common_relation(self._relation, stated, begun=bool(self._items))
                kind = str(getattr(item, "kind", type(item).__name__))
                self._items.append((kind if label is None else label, count, curve))
        return self

    @property
    def relation(self) -> Relation | None:
        """The common neighbouring relation; None while nothing has stated one."""
        return self._relation

    @property
    def curve(self) -> Curve:
        """The composition of everything so far."""
        return Composed.of((count, curve) for _, count, curve in self._items)

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon (nats) at `delta` in [0, 1), in whatever order the plan runs."""
        return bounds.announced(self._won(delta))

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at `epsilon` (nats) >= 0."""
        return self.curve.delta(epsilon)

    def breakdown(self, delta: float) -> Breakdown:
        """The price at `delta`, the bound that won, at which order, and what each label contributed."""
        won = self._won(delta)
        shares = []
        for label, count in self._labels().items():
            total = Composed.of((count, curve) for given, count, curve in self._items if given == label)
            rdp = None if won.order is None else float(total.rdp(won.order))
            shares.append(Share(label, count, rdp, total.delta0))
        return Breakdown(won.value, delta, won.route, won.order, self._relation, tuple(shares))

    def _won(self, delta: float) -> Bound:
        plan = self.curve
        return bounds.confirmed(plan, delta, bounds.best_epsilon(plan, delta, thorough=True))

    def _labels(self) -> Counter[str]:
        """How many curves each label has, the first label first."""
        counts: Counter[str] = Counter()
        for label, count, _ in self._items:
            counts[label] += count
        return counts

    def __repr__(self) -> str:
        return f"Accountant(relation={self._relation!r}, labels={len(self._labels())})"

    def _repr_html_(self) -> str:
        from accounting.page.templates import card, priced  # notebooks only

        counts = self._labels()
        plan = ", ".join(f"{count:,} x {label}" for label, count in counts.most_common(_MOST_LABELS)) or "empty"
        more = f", and {len(counts) - _MOST_LABELS:,} more labels" if len(counts) > _MOST_LABELS else ""
        facts = [("relation", self._relation or "not stated"), ("plan", plan + more)]
        return card("Accountant", facts=facts, **priced(self.curve))
