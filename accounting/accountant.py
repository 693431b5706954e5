"""`Accountant`: compose a plan that is fixed in advance, and read its price."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self, cast, final

import numpy as np

from accounting.arguments import MOST_COUNT, whole
from accounting.conversion import bounds
from accounting.conversion.adaptive import AdaptiveBound, adaptive_composition
from accounting.conversion.bounds import Bound, Bounded, Route
from accounting.curves import Curve
from accounting.guarantee import Priced, joined, read_item
from accounting.pool import Pool
from accounting.relation import Relation, same_relation

_CURVE_TYPES: set[type] = set()
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
        # label, curve, count, label, ...: extended in one step, so that no interruption leaves part of an item. A tuple per item
        # would keep the garbage collector busy.
        self._flat: list[str | Curve | int] = []
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
        bare = relation is None and type(item) in _CURVE_TYPES
        curve, stated = (cast(Curve, item), None) if bare else _read(item, relation)
        if type(count) is not int or not 0 <= count <= MOST_COUNT:
            count = whole("count", count, "how many times the mechanism runs", least=0)
        with self._lock:
            if count > 0:
                if stated is not None or self._relation is not None:
                    self._relation = joined(self._relation, stated, begun=bool(self._flat))
                self._flat.extend((_kind(item) if label is None else label, curve, count))
        return self

    @property
    def _labels(self) -> list[str]:
        return cast(list[str], self._flat[0::3])

    @property
    def _curves(self) -> list[Curve]:
        return cast(list[Curve], self._flat[1::3])

    @property
    def _counts(self) -> list[int]:
        return cast(list[int], self._flat[2::3])

    @property
    def relation(self) -> Relation | None:
        """The common neighbouring relation; None while nothing has stated one."""
        return self._relation

    @property
    def curve(self) -> Curve:
        """The composition of everything so far."""
        return self._pool.curve()

    @property
    def _pool(self) -> Pool:
        return Pool.of(self._curves, self._counts)

    @property
    def _priced(self) -> Bounded:
        """The plan as what converts it best: one curve, unless it has so many parts that building one would dominate."""
        pool = self._pool
        return pool.curve() if pool.is_small else pool

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon (nats) at `delta` in [0, 1), in whatever order the plan runs; `adaptive` may be smaller."""
        return bounds.announced(self._won(delta))

    def _won(self, delta: float) -> Bound:
        plan = self._priced
        return bounds.confirmed(plan, delta, bounds.best_epsilon(plan, delta, thorough=True))

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at `epsilon` (nats) >= 0."""
        return bounds.announced(bounds.best_delta(self._priced, epsilon, thorough=True))

    def breakdown(self, delta: float) -> Breakdown:
        """The price at `delta`, the bound that won, at which order, and what each label contributed."""
        won = self._won(delta)
        shares = tuple(self._share(label, won.order) for label in dict.fromkeys(self._labels))
        return Breakdown(won.value, delta, won.route, won.order, self._relation, shares)

    def adaptive(self, delta: float, *, tolerance: float = 1e-3, interval: float | None = None) -> AdaptiveBound:
        """Optimal adaptive composition of the plan, in the order in which it was composed; slower than `epsilon`.

        See `adaptive_composition` for the arguments and for the errors that it raises.
        """
        steps = list(zip(self._curves, self._counts, strict=True))
        return adaptive_composition(steps, delta, tolerance=tolerance, interval=interval)

    def __repr__(self) -> str:
        return f"Accountant(relation={self._relation!r}, labels={len(set(self._labels))})"

    def _repr_html_(self) -> str:
        from accounting.page.card import card, priced  # notebooks only

        counts: Counter[str] = Counter()
        for label, count in zip(self._labels, self._counts, strict=True):
            counts[label] += count
        plan = ", ".join(f"{count:,} x {label}" for label, count in counts.most_common(_MOST_LABELS)) or "empty"
        more = f", and {len(counts) - _MOST_LABELS:,} more labels" if len(counts) > _MOST_LABELS else ""
        facts = [("relation", self._relation or "not stated"), ("plan", plan + more)]
        return card("Accountant", facts=facts, **priced(self._priced))

    def _share(self, label: str, order: float | None) -> Share:
        places = [i for i, given in enumerate(self._labels) if given == label]
        counts = [self._counts[i] for i in places]
        total = Pool.of([self._curves[i] for i in places], counts)
        rdp = None if order is None else float(total.rdp(np.array([order]))[0])
        return Share(label, sum(counts), rdp, total.delta0)


def _read(item: Curve | Priced, relation: Relation | None) -> tuple[Curve, Relation | None]:
    # Asking an abstract class is slow: the kinds of curve are few and are remembered.
    if type(item) in _CURVE_TYPES or isinstance(item, Curve):
        _CURVE_TYPES.add(type(item))
        return cast(Curve, item), same_relation(None, relation)
    return read_item(item, relation)


def _kind(item: Curve | Priced) -> str:
    return str(getattr(item, "kind", type(item).__name__))
