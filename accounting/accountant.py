"""`Accountant` composes a plan that is fixed in advance.

It states the plan's cost as dp-accounting's figure and as the proved bound.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast, final

from accounting.arguments import check_integer
from accounting.convert import bounds
from accounting.convert.bounds import Route
from accounting.convert.renyi import rdp_to_epsilon
from accounting.convert.reported import WHY, PlanConverter, Why
from accounting.curves import Composed, Curve
from accounting.guarantee import HasCurve, common_unit, curve_and_relation
from accounting.relations import Relation, common_relation, same_relation
from accounting.sections import Section, Sectioned, cost_section
from accounting.wording import format_number, round_up

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent
    from matplotlib.axes import Axes

_MOST_LABELS = 20  # in a notebook


@dataclass(frozen=True)
class Share:
    """One label's number of curves, and their Renyi divergence at the breakdown's order (nats)."""

    label: str
    count: int
    rdp: float | None
    delta0: float


@dataclass(frozen=True, repr=False)
class Breakdown(Sectioned):
    """Cost of a plan, the two figures behind it, and each label's share. Theorem A7.

    `print` shows a breakdown as a table, and a notebook shows it as HTML.

    Attributes:
        epsilon: the reported epsilon (nats) at `delta`.
        proved: the proved bound (nats), by `route`.
        dp_accounting: dp-accounting's figure (nats); None if it has none.
        why: which of the two is reported, and why: a key of `accounting.convert.reported.WHY`.
        order: the Renyi order at which the plan converts best and shares are stated; None if there
            is no such order.
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

    @property
    def parts(self) -> tuple[float | None, ...]:
        """Each label's share of the plan's Renyi divergence, from 0 to 1; None if not finite."""
        total = math.fsum(share.rdp or 0.0 for share in self.shares)
        is_finite = total > 0 and math.isfinite(total)
        return tuple(
            share.rdp / total if is_finite and share.rdp is not None else None
            for share in self.shares
        )

    def _facts(self) -> list[tuple[str, str]]:
        theirs = "none" if self.dp_accounting is None else f"{self.dp_accounting:.6g}"
        return [
            ("epsilon", f"{round_up(self.epsilon, 6)} at delta {format_number(self.delta)}"),
            ("proved bound", f"{round_up(self.proved, 6)} by {self.route}"),
            ("dp-accounting", theirs),
            ("reported", WHY[self.why]),
            ("relation", self.relation or "not stated"),
        ]

    def _rows(self) -> list[tuple[str, int, str, str]]:
        """Table rows: label, count, share of the Renyi divergence, and failure probability."""
        both = zip(self.shares, self.parts, strict=True)
        return [
            (s.label, s.count, "-" if part is None else f"{part:.1%}", format_number(s.delta0))
            for s, part in both
        ]

    def __repr__(self) -> str:
        delta = format_number(self.delta)
        return (
            f"Breakdown(epsilon={self.epsilon:.6g}, {delta=!s}, why={self.why!r},"
            f" labels={len(self.shares)})"
        )

    def __str__(self) -> str:
        rows = [_HEADS, *([str(cell) for cell in row] for row in self._rows())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*(f"{name:<15}{value}" for name, value in self._facts()), "", *lines])

    def sections(self) -> Iterator[Section]:
        """Return the two figures, and each label's share."""
        yield Section("Breakdown", self._facts(), _HEADS, self._rows(), left=_HEADS[:1])


_HEADS = ("label", "count", "share", "failure")


@final
class Accountant(Sectioned):
    """An account of a plan fixed in advance, which adds up curves and converts the total.

    The conversion uses dp-accounting and the proved bound. If the two agree within 1%, the larger
    is reported, and otherwise the proved bound (Theorem A7). The plan may repeat queries and choose
    inputs adaptively, but not its own length or noise, which needs a filter (see `Budget`).

    Args:
        relation: the neighboring relation of the plan; if None, the first mechanism states it.

    Example:
        >>> import accounting as acc
        >>> plan = acc.Accountant().compose(acc.BoundedRange(epsilon=0.05), 365, "daily top item")
        >>> round(plan.epsilon(1e-6), 3)
        2.16
    """

    def __init__(self, relation: Relation | None = None) -> None:
        self._relation = same_relation(None, relation)
        self._unit: str | None = None
        self._items: list[tuple[str, int, Curve]] = []
        self._lock = threading.Lock()
        self._converter: PlanConverter | None = None

    def compose(
        self,
        item: Curve | HasCurve,
        count: int = 1,
        label: str | None = None,
        *,
        relation: Relation | None = None,
    ) -> Self:
        """Add a curve or mechanism `count` times and return the accountant itself.

        Args:
            label: name of the row in `breakdown`; the kind of the item by default.
            relation: neighboring relation of a bare curve.

        Raises:
            RelationMismatch: the relation differs from that of earlier items, or is stated for a
                part of the plan only. Pass mechanisms, or `relation` with every bare curve.
            InvalidArgument: count is not an integer from 0 to 10^18, item has no curve, or relation
                is not one of the two.
        """
        curve, item_relation = curve_and_relation(item, relation)
        count = check_integer("count", count, "how many times the mechanism runs", least=0)
        with self._lock:
            if count > 0:
                unit = common_unit(self._unit, item)
                if item_relation is not None or self._relation is not None:
                    self._relation = common_relation(
                        self._relation, item_relation, begun=bool(self._items)
                    )
                self._unit = unit
                kind = str(getattr(item, "kind", type(item).__name__))
                self._items.append((kind if label is None else label, count, curve))
                self._converter = None
        return self

    @property
    def relation(self) -> Relation | None:
        """The common neighboring relation; None until an item states one."""
        return self._relation

    @property
    def curve(self) -> Curve:
        """The composition of all items so far."""
        return cast(Curve, self._plan().plan)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon (nats) at `delta` in [0, 1), never below the proved bound.

        It holds for every processing order of the plan.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        result = self._plan().epsilon(delta)
        bounds.value_with_warning(result.proved)
        return result.value

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon` (nats) >= 0, never below the proved bound.

        Raises:
            InvalidArgument: epsilon is negative or not finite.
        """
        result = self._plan().delta(epsilon)
        bounds.value_with_warning(result.proved)
        return result.value

    def breakdown(self, delta: float) -> Breakdown:
        """Return the cost at `delta` by both accounts, with each label's share.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        result = self._plan().epsilon(delta)
        order, shares = self._best_order(delta), []
        for label, count in self._labels().items():
            total = Composed.from_parts(
                (count, curve) for item_label, count, curve in self._items if item_label == label
            )
            rdp = None if order is None else float(total.rdp(order))
            shares.append(Share(label, count, rdp, total.delta0))
        return Breakdown(
            epsilon=result.value,
            delta=delta,
            proved=result.proved.value,
            dp_accounting=result.dp_accounting,
            why=result.why,
            route=result.proved.route,
            order=order,
            relation=self._relation,
            shares=tuple(shares),
        )

    def _best_order(self, delta: float) -> float | None:
        """The Renyi order at which the plan converts best at `delta`."""
        plan = self.curve
        core_delta = delta - plan.delta0
        if core_delta <= 0 or plan.core_epsilon == 0:
            return None
        best = rdp_to_epsilon(plan.rdp, core_delta, plan.table_orders)
        return best.order if math.isfinite(best.value) else None

    def plot(
        self, axes: tuple[Axes, Axes, Axes] | None = None, *, delta: float = 1e-6
    ) -> tuple[Axes, Axes, Axes]:
        """Draw Renyi divergence by order, epsilon by delta, and each label's share at `delta`.

        Args:
            axes: three matplotlib axes to draw on; new ones if None.
            delta: the delta at which shares are stated.

        Returns:
            The three axes.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        from accounting.plots import plot_plan  # plots only

        costs = self.breakdown(delta)
        names = [f"{share.count:,} x {share.label}" for share in costs.shares]
        return plot_plan(
            self.curve, self.epsilon, delta, costs.order, zip(names, costs.parts, strict=True), axes
        )

    def to_dp_event(self) -> DpEvent:
        """Return the plan's dp-accounting event, which `accounting.from_dp_event` reads back.

        The event has to be read under the plan's relation.

        Raises:
            NoEquivalent: dp-accounting has no event that means a part of the plan.
        """
        return self.curve.to_dp_event(self._relation)

    def _plan(self) -> PlanConverter:
        """The plan so far with its conversions, cached until the plan grows."""
        with self._lock:
            if self._converter is None:
                self._converter = PlanConverter(
                    Composed.from_parts((count, curve) for _, count, curve in self._items)
                )
            return self._converter

    def _labels(self) -> Counter[str]:
        """Number of curves of each label, in order of first use."""
        counts: Counter[str] = Counter()
        for label, count, _ in self._items:
            counts[label] += count
        return counts

    def __repr__(self) -> str:
        return f"Accountant(relation={self._relation!r}, labels={len(self._labels())})"

    def sections(self) -> Iterator[Section]:
        """Return the plan, and its epsilons at usual deltas."""
        counts = self._labels()
        plan = (
            ", ".join(f"{count:,} x {label}" for label, count in counts.most_common(_MOST_LABELS))
            or "empty"
        )
        more = (
            f", and {len(counts) - _MOST_LABELS:,} more labels"
            if len(counts) > _MOST_LABELS
            else ""
        )
        facts = [("relation", self._relation or "not stated"), ("plan", plan + more)]
        yield cost_section("Accountant", facts, lambda delta: self._plan().epsilon(delta).value)
