"""`Accountant`: compose a plan that is fixed in advance, and read its price."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from accounting.arguments import Relation, checked_integer, same_relation
from accounting.convert import bounds
from accounting.convert.bounds import Bound, Bounded, Route
from accounting.curves import Composed, Curve, GaussianDP
from accounting.curves.base import Floats, OneParameter
from accounting.decimal_sum import decimal_sum
from accounting.guarantee import Priced, common_relation, read_item

_MOST_LABELS = 20  # in a notebook
_FEW = 4096  # distinct curves: beyond, building them one by one would dominate
_INT64 = 2**40  # counts above are added as Python integers: their sum could leave the 64 bits


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
        curve, stated = read_item(item, relation)
        count = checked_integer("count", count, "how many times the mechanism runs", least=0)
        with self._lock:
            if count > 0:
                if stated is not None or self._relation is not None:
                    self._relation = common_relation(self._relation, stated, begun=bool(self._flat))
                kind = str(getattr(item, "kind", type(item).__name__))
                self._flat.extend((kind if label is None else label, curve, count))
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
        return _Pool(self._curves, self._counts).curve

    @property
    def _priced(self) -> Bounded:
        """The plan as what converts it best: one curve, unless it has too many parts for building one to pay."""
        # As one `Composed` its parts may have a joint privacy loss distribution.
        pool = _Pool(self._curves, self._counts)
        return pool.curve if pool.size <= _FEW else pool

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon (nats) at `delta` in [0, 1), in whatever order the plan runs."""
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

    def __repr__(self) -> str:
        return f"Accountant(relation={self._relation!r}, labels={len(set(self._labels))})"

    def _repr_html_(self) -> str:
        from accounting.page.templates import card, priced  # notebooks only

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
        total = _Pool([self._curves[i] for i in places], counts)
        rdp = None if order is None else float(total.rdp(np.array([order]))[0])
        return Share(label, sum(counts), rdp, total.delta0)


@final
class _Pool:
    """Very many curves, merged without hashing each: it can be converted, and is no `Curve`.

    Of a kind that has one field, a number, curves are equal where that is, and stay in arrays.
    """

    def __init__(self, curves: Sequence[Curve], counts: Sequence[int]) -> None:
        times = np.array(counts, dtype=object if max(counts, default=0) > _INT64 else np.int64)
        kinds = set(map(type, curves))
        fields = {
            kind: [name for name in kind.model_fields if name != "kind"] for kind in kinds if issubclass(kind, OneParameter)
        }
        numbers = {kind: names[0] for kind, names in fields.items() if len(names) == 1}
        self._families: dict[type[OneParameter], tuple[Floats, NDArray[Any], list[OneParameter]]] = {}
        for kind, name in sorted(numbers.items(), key=lambda one: one[0].__name__):
            chosen, repeated = cast(Sequence[OneParameter], curves), times
            if len(kinds) > 1:
                places = [i for i, curve in enumerate(curves) if type(curve) is kind]
                chosen, repeated = [chosen[i] for i in places], times[places]
            given = np.fromiter(map(attrgetter(name), chosen), dtype=np.float64, count=len(chosen))
            _, first, group = np.unique(given, return_index=True, return_inverse=True)
            total = np.zeros(len(first), dtype=times.dtype)
            np.add.at(total, group, repeated)
            distinct = [chosen[place] for place in first.tolist()]
            self._families[kind] = np.array([curve.parameter for curve in distinct]), total, distinct
        rest = zip(counts, curves, strict=True) if len(numbers) < len(kinds) else ()
        self._others = Composed.of((count, curve) for count, curve in rest if type(curve) not in numbers)

    @property
    def size(self) -> int:
        """How many distinct curves lie in arrays."""
        return sum(len(parameters) for parameters, _, _ in self._families.values())

    @property
    def curve(self) -> Curve:
        """The composition as a curve."""
        return Composed.of([*self._merged(), (1, self._others)])

    def _merged(self) -> Iterator[tuple[int, Curve]]:
        return chain.from_iterable(zip(total.tolist(), curves, strict=True) for _, total, curves in self._families.values())

    def rdp(self, orders: Floats) -> Floats:
        """Sum of the Renyi bounds, in nats."""
        families = ((kind, found, total.astype(np.float64)) for kind, (found, total, _) in self._families.items())
        return sum((kind.sum_rdp(found, total, orders) for kind, found, total in families), self._others.rdp(orders))

    @property
    def delta0(self) -> float:
        """Sum of the probabilities of bad events; one-parameter members have none."""
        return self._others.delta0

    @cached_property
    def core_epsilon(self) -> float:
        """Sum of the pure epsilons outside the bad events."""
        return decimal_sum((count, curve.core_epsilon) for count, curve in chain([(1, self._others)], self._merged()))

    @property
    def table_orders(self) -> tuple[float, ...]:
        """Orders at which tabulated members are best read."""
        return self._others.table_orders

    def profile(self, epsilon: float) -> float | None:
        """Closed form where all members are Gaussian, as in `Composed`."""
        return None if self._gaussian is None else self._gaussian.profile(epsilon)

    @cached_property
    def _gaussian(self) -> GaussianDP | None:
        if self._others != Composed() or set(self._families) != {GaussianDP}:
            return None
        return GaussianDP.of_rho(decimal_sum((count, curve.rho) for count, curve in self._merged()))

    def profile_near(self, epsilon: float) -> Callable[[float], float | None]:
        return self.profile

    def inverse(self, delta: float) -> float | None:
        return None

    def losses(self) -> None:
        """None: too many different parts to compose as losses."""
        return
