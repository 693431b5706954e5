"""`Guarantee`: a curve with the neighboring relation that it was proved for, alone and in sums."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, cast, final

from accounting.arguments import check_integer
from accounting.curves import Composed, Curve
from accounting.curves.composed import Parallel
from accounting.errors import InvalidArgument, RelationMismatch
from accounting.relations import Relation, common_relation, same_relation


class HasCurve(Protocol):
    """Anything with a curve and a neighboring relation, a mechanism for example."""

    @property
    def curve(self) -> Curve: ...
    @property
    def relation(self) -> Relation: ...


class Summable:
    """Base class of objects with a curve and a relation that form sums: `n * a` and `a + b`.

    A sum is a Guarantee under the common relation. Nothing is drawn.
    """

    __slots__ = ()

    @final
    def __mul__(self: HasCurve, count: int) -> Guarantee:
        return Guarantee.from_parts([(count, self)])

    __rmul__ = __mul__

    @final
    def __add__(self: HasCurve, other: HasCurve) -> Guarantee:
        return Guarantee.from_parts([(1, self), (1, other)])

    @final
    def __radd__(self: HasCurve, other: object) -> Guarantee:
        # sum() starts from the integer 0; a bare curve is refused by `from_parts`.
        return Guarantee.from_parts(
            [(1, self)]
            if isinstance(other, int) and other == 0
            else [(1, cast(HasCurve, other)), (1, self)]
        )


@final
@dataclass(frozen=True)
class Guarantee(Summable):
    """A curve and the relation that it is proved for.

    `n * mechanism` and `mechanism + mechanism` give one, and a bare curve needs one to join them.

    Raises:
        InvalidArgument: curve is not a Curve, or relation is neither of the two.

    Example:
        >>> import accounting as acc
        >>> import dpselect as dps
        >>> month = 30 * dps.ExponentialMechanism(epsilon=0.05) + acc.guarantee.Guarantee(
        ...     acc.PureDP(epsilon=0.5), "add_remove"
        ... )
        >>> month.relation, round(month.epsilon(0.0), 6)
        ('add_remove', 2.0)
    """

    curve: Curve
    relation: Relation
    # (count, mechanism or curve): what it is composed of, as provenance.
    parts: tuple[tuple[int, Any], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.curve, Curve):
            raise InvalidArgument(
                f"a Guarantee needs a Curve and a relation, not a {type(self.curve).__name__}"
            )
        if same_relation(None, self.relation) is None:
            raise InvalidArgument(
                "relation=None must be the relation that the curve was proved for,"
                " 'add_remove' or 'replace_one'"
            )
        _check_relation(self.curve, self.relation)

    @property
    def uses_linf_only(self) -> bool:
        """True if every part is a mechanism that declares it.

        See `accounting.ledger.Chargeable`.
        """
        return bool(self.parts) and all(
            getattr(part, "uses_linf_only", False) is True for _, part in self.parts
        )

    @property
    def unit(self) -> str | None:
        """The unit of privacy that the parts state; None if they state none.

        See `accounting.ledger.Chargeable`.
        """
        return next(
            (unit for _, part in self.parts if (unit := getattr(part, "unit", None)) is not None),
            None,
        )

    @classmethod
    def from_parts(cls, items: Iterable[tuple[int, HasCurve]]) -> Self:
        """Return the composition of (count, mechanism or Guarantee) pairs.

        Raises:
            RelationMismatch: their relations or their units differ.
            InvalidArgument: an item is not a pair, a count is not an integer >= 1, or something has
                no curve and relation.
        """
        relation: Relation | None = None
        curves: list[tuple[int, Curve]] = []
        parts: list[tuple[int, Any]] = []
        for count, item in items:
            times = check_integer("count", count, "how many times a mechanism runs")
            curve, item_relation = curve_and_relation(item, None)
            relation = common_relation(relation, item_relation, begun=bool(curves))
            curves.append((times, curve))
            parts += [(times * n, part) for n, part in _parts(item)]
        if relation is None:
            raise InvalidArgument(
                "a composition needs at least one mechanism, or a Guarantee, because a bare"
                " curve states no relation"
            )
        unit: str | None = None
        for _, part in parts:
            unit = common_unit(unit, part)
        return cls(Composed.from_parts(curves), relation, tuple(parts))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon (nats) at `delta`; see `Curve.epsilon`.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        return self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon` (nats); see `Curve.delta`.

        Raises:
            InvalidArgument: epsilon is negative, NaN or infinite.
        """
        return self.curve.delta(epsilon)

    def to_json(self) -> str:
        """Return JSON of the parts, for the ledger."""
        kinds = (
            (n, "curve" if isinstance(part, Curve) else "mechanism", part)
            for n, part in _parts(self)
        )
        parts = [{"count": count, kind: json.loads(part.to_json())} for count, kind, part in kinds]
        return json.dumps({"kind": "schedule", "parts": parts})


def parallel(*parts: Curve | HasCurve) -> Curve:
    """Return the cost of mechanisms that run on disjoint parts of a log, one on each: the largest
    bound at every order. Theorem W10.

    Every user must be in one part only, such as a country of residence that is stated once per
    user. The list of parts must be public, and the mechanism of a part without users runs too, with
    scores of 0. If a user may be in at most G parts, the cost is `G * parallel(...)`. The result is
    proved for add_remove, and refused under replace_one, where a user may leave one part and
    another user join a second one. Repeat within a part first: `parallel(10 * a, 10 * b)` is at
    most `10 * parallel(a, b)`.

    Args:
        parts: a curve, or a mechanism under add_remove, for each part.

    Raises:
        RelationMismatch: a part is of replace_one, or states a unit of its own (`unit`).
        InvalidCurve: there is no part.

    Example:
        >>> import accounting as acc
        >>> countries = acc.parallel(acc.PureDP(epsilon=0.5), acc.PureDP(epsilon=0.3))
        >>> countries.epsilon(0.0), (2 * countries).epsilon(0.0)
        (0.5, 1.0)
    """
    for part in parts:
        if (unit := getattr(part, "unit", None)) is not None:
            raise RelationMismatch(
                f"{type(part).__name__} protects one {unit}, not a user of a part of a log. Add up"
                " its curve instead"
            )
    return Parallel(curves=tuple(curve_and_relation(part, "add_remove")[0] for part in parts))


def common_unit(unit: str | None, item: object) -> str:
    """Return the unit of privacy of a sum of `unit` (None if it has no item) and of a new item.

    Raises:
        RelationMismatch: the units differ.
    """
    of_item = getattr(item, "unit", None) or "record"
    if unit not in (None, of_item):
        raise RelationMismatch(
            f"guarantees for one {unit} and for one {of_item} do not add up, because their"
            " neighbors differ. Configure every mechanism with unit='record', whose cost covers a"
            " changed record"
        )
    return of_item


def curve_and_relation(
    item: Curve | HasCurve, relation: Relation | None
) -> tuple[Curve, Relation | None]:
    """Return the curve of `item`, and the relation stated by the item or the caller.

    Raises:
        RelationMismatch: the curve is not proved for that relation.
    """
    if isinstance(item, Curve):
        return item, None if relation is None else _check_relation(
            item, same_relation(None, relation)
        )
    if isinstance(getattr(item, "curve", None), Curve) and hasattr(item, "relation"):
        return item.curve, _check_relation(item.curve, same_relation(relation, item.relation))
    raise InvalidArgument(
        f"a {type(item).__name__} cannot be charged. Pass a Curve, or a mechanism that has one"
    )


def _check_relation(curve: Curve, relation: Relation | None) -> Relation | None:
    if relation is not None and curve.proved_for not in (None, relation):
        raise RelationMismatch(
            f"{type(curve).__name__} is proved for relation={curve.proved_for!r} only, not for"
            f" relation={relation!r}. Charge it where {curve.proved_for!r} is declared, or"
            f" charge a curve that is proved for {relation!r}"
        )
    return relation


def _parts(item: Any) -> tuple[tuple[int, Any], ...]:
    if isinstance(item, Guarantee):
        return item.parts or ((1, item.curve),)
    return ((1, item),)
