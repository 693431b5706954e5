"""`Accountant`: compose a plan that is fixed in advance, and read its cost as dp-accounting and the proved bound state it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self, cast, final

from accounting.arguments import Relation, checked_integer, same_relation
from accounting.convert import bounds
from accounting.convert.bounds import Route
from accounting.convert.reported import PlanConverter, Why
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
    """The cost of a plan, the two figures behind it, and the share of every label. Theorem A7.

    Attributes:
        epsilon: the reported epsilon (nats) at `delta`.
        proved: the proved bound (nats), with its route and Renyi order.
        dp_accounting: dp-accounting's figure (nats); None if it has none.
        why: which of the two is reported, and why: a key of `accounting.convert.reported.WHY`.
    """

    epsilon: float
    delta: float
    proved: float
    dp_accounting: float | None
    why: Why
    route: Route
    order: float | None
    relation: Relation | None
    shares: tuple[Share, ...]


@final
class Accountant:
    """Adds up the curves of a plan fixed in advance and converts the total through dp-accounting.

    The proved bound stands beside dp-accounting's figure: where they agree within 1% the larger is reported, and otherwise the
    proved bound (Theorem A7). The plan may repeat queries and choose inputs adaptively, but not its own length or noise: that
    needs a filter, see `Budget`.

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
        self._converter: PlanConverter | None = None

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
                self._converter = None
        return self

    @property
    def relation(self) -> Relation | None:
        """The common neighbouring relation; None while nothing has stated one."""
        return self._relation

    @property
    def curve(self) -> Curve:
        """The composition of everything so far."""
        return cast(Curve, self._plan().plan)

    def epsilon(self, delta: float) -> float:
        """The epsilon (nats) at `delta` in [0, 1), in whatever order the plan runs; never below the proved bound."""
        found = self._plan().epsilon(delta)
        bounds.announced(found.proved)
        return found.value

    def delta(self, epsilon: float) -> float:
        """The delta at `epsilon` (nats) >= 0; never below the proved bound."""
        found = self._plan().delta(epsilon)
        bounds.announced(found.proved)
        return found.value

    def breakdown(self, delta: float) -> Breakdown:
        """The cost at `delta`, dp-accounting's figure and the proved bound, and what each label contributed."""
        found = self._plan().epsilon(delta)
        order, shares = found.proved.order, []
        for label, count in self._labels().items():
            total = Composed.of((count, curve) for given, count, curve in self._items if given == label)
            rdp = None if order is None else float(total.rdp(order))
            shares.append(Share(label, count, rdp, total.delta0))
        return Breakdown(
            epsilon=found.value,
            delta=delta,
            proved=found.proved.value,
            dp_accounting=found.dp_accounting,
            why=found.why,
            route=found.proved.route,
            order=order,
            relation=self._relation,
            shares=tuple(shares),
        )

    def _plan(self) -> PlanConverter:
        """The plan so far with its conversions, made once until it grows."""
        with self._lock:
            if self._converter is None:
                self._converter = PlanConverter(Composed.of((count, curve) for _, count, curve in self._items))
            return self._converter

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
        return card("Accountant", facts=facts, **priced(lambda delta: self._plan().epsilon(delta).value))
