"""Curve combinators: approximate, for one relation, composed, pointwise minimum and maximum.

Only `Composed` counts repetitions.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, cast, final

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from accounting.arguments import MOST_COUNT, check_integer
from accounting.convert.pld.hull import Hull, Largest, RenyiLoss
from accounting.convert.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.base import CURVES, AnyCurve, Curve, OneParameter, common_relation, counts_up
from accounting.curves.closed_form import GaussianDP
from accounting.errors import InvalidCurve
from accounting.frozen import Count, NonNegative
from accounting.numbers import Floats, decimal_sum, next_up, sum_up
from accounting.relations import Relation


class DelegatingCurve(Curve, ABC):
    """A curve that has the bounds of another one outside its bad event."""

    kind: str
    curve: AnyCurve

    @final
    def _rdp(self, orders: Floats) -> Floats:
        return self.curve._rdp(orders)

    @final
    @property
    def rho(self) -> float:
        return self.curve.rho

    @final
    @property
    def core_epsilon(self) -> float:
        return self.curve.core_epsilon

    @final
    @property
    def mu_squared(self) -> float:
        return self.curve.mu_squared

    @final
    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.curve.table_orders


@final
class Approximate(DelegatingCurve):
    """A curve that holds for a mechanism which agrees outside an event of probability delta0.

    This is "identical until bad". Theorem A1.

    The event has that probability under every input, and the curve's own `delta0` is added to it.

    Example:
        >>> import accounting as acc
        >>> both = 2 * acc.Approximate(curve=acc.PureDP(epsilon=0.5), delta0=1e-7)
        >>> both.delta0, both.epsilon(1e-6) <= 1.0
        (2e-07, True)
    """

    kind: Literal["approximate"] = "approximate"
    added: Annotated[NonNegative, Field(lt=1)] = Field(
        alias="delta0", description="a probability in [0, 1)"
    )

    @property
    def delta0(self) -> float:
        return min(1.0, sum_up(self.curve.delta0, self.added))

    @property
    def proved_for(self) -> Relation | None:
        return self.curve.proved_for

    def profile(self, epsilon: float) -> float | None:
        inner = self.curve.profile(epsilon)
        return None if inner is None else min(1.0, inner + self.added)

    def losses(self) -> Losses | None:
        """Return the inner curve's losses, with delta0 added to their divergence. Theorem P1."""
        inner = self.curve.losses()
        return None if inner is None else Losses(inner.steps, sum_up(inner.added, self.added))


@final
class ProvedFor(DelegatingCurve):
    """A curve whose proof holds for one neighboring relation only. Theorem G4.

    For example, a table for larger groups of sampled users does not say what it was proved for. If
    `curve` states a relation itself, it must be the same.
    """

    kind: Literal["proved_for"] = "proved_for"
    relation: Relation = Field(description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _is_of_one_relation(self) -> Self:
        if self.curve.proved_for not in (None, self.relation):
            raise ValueError(f"curve is proved for {self.curve.proved_for!r}. State that relation")
        return self

    @property
    def delta0(self) -> float:
        return self.curve.delta0

    @property
    def proved_for(self) -> Relation:
        return self.relation

    def profile(self, epsilon: float) -> float | None:
        return self.curve.profile(epsilon)

    def losses(self) -> Losses | None:
        """Return the losses of the inner curve."""
        return self.curve.losses()


class _OfSeveral(Curve, ABC):
    """A curve made of several curves, whose bounds are all combined in the same way."""

    @property
    @abstractmethod
    def _members(self) -> Sequence[Curve]:
        """The curves that it is made of."""

    @final
    @property
    def table_orders(self) -> tuple[float, ...]:
        return tuple(sorted({order for curve in self._members for order in curve.table_orders}))

    @abstractmethod
    def _joint(self, values: Sequence[float]) -> float:
        """Return one bound (rho, the pure epsilon, mu^2) from the members' bounds, in order."""

    @final
    @cached_property
    def rho(self) -> float:
        return self._joint([curve.rho for curve in self._members])

    @final
    @cached_property
    def core_epsilon(self) -> float:
        return self._joint([curve.core_epsilon for curve in self._members])

    @final
    @property
    def mu_squared(self) -> float:
        return self._joint([curve.mu_squared for curve in self._members])


Part = tuple[int, Curve]
_TIMES = "how many times a curve is repeated"


def _read(data: Any) -> tuple[Part, ...]:
    """Return parts, given or stored, in normal form."""
    if not isinstance(data, list | tuple) or not all(
        isinstance(p, list | tuple) and len(p) == 2 for p in data
    ):
        raise InvalidCurve("Composed.parts must be pairs (count, curve)")
    counts: dict[Curve, int] = defaultdict(int)
    for count, curve in data:
        times = check_integer("Composed.parts: count", count, _TIMES, error=InvalidCurve)
        counts[curve if isinstance(curve, Curve) else CURVES.build(curve)] += times
    return _normal_form(counts)


def _count_runs(parts: Iterable[Part]) -> dict[Curve, int]:
    """Return the number of runs of each curve, without curves that never run."""
    counts: dict[Curve, int] = defaultdict(int)
    for count, curve in parts:
        plain = type(count) is int and 0 < count <= MOST_COUNT  # asked first: parts may be many
        if times := count if plain else check_integer("count", count, _TIMES, least=0):
            counts[curve] += times
    return counts


def _normal_form(counts: dict[Curve, int]) -> tuple[Part, ...]:
    """Return parts flattened, merged and sorted, so that equal compositions have one value."""
    for curve in [curve for curve in counts if isinstance(curve, Composed)]:
        times = counts.pop(curve)
        for inner, part in curve.parts:
            counts[part] += times * inner
    common_relation(counts)
    if max(counts.values(), default=0) > MOST_COUNT:
        raise InvalidCurve(
            "Composed.parts: a curve must be repeated at most 10^18 times in all. Use fewer"
            " repetitions"
        )
    order = sorted(counts, key=_short_key)
    if any(_short_key(a) == _short_key(b) for a, b in pairwise(order)):
        # JSON tells apart what differs in nothing else; to write it takes long
        order.sort(key=_sort_key)
    return tuple([(counts[curve], curve) for curve in order])


def _sort_key(curve: Curve) -> tuple[str, float, str]:
    return (*_short_key(curve), curve.to_json())


def _short_key(curve: Curve) -> tuple[str, float]:
    return type(curve).__name__, curve.parameter if isinstance(curve, OneParameter) else 0.0


def _append_one(parts: Sequence[Part]) -> tuple[Part, ...] | None:
    """Return the normal form of a composition and one other curve, without sorting again.

    Sums are often made in a loop.
    """
    if [count for count, _ in parts] != [1, 1]:
        return None
    (_, first), (_, second) = parts
    for whole, curve in ((first, second), (second, first)):
        if isinstance(whole, Composed) and whole.parts and not isinstance(curve, Composed):
            place = bisect.bisect_left(
                whole.parts, _sort_key(curve), key=lambda part: _sort_key(part[1])
            )
            if place == len(whole.parts) or whole.parts[place][1] != curve:
                common_relation((first, second))
                return (*whole.parts[:place], (1, curve), *whole.parts[place:])
    return None


@final
class Composed(_OfSeveral):
    """A composition of parts, each repeated, that run on the same data. Theorem A3.

    Parts may be chosen adaptively.

    The parts, pairs (count, curve), are kept in a normal form, so that equal compositions are
    equal. A composition without parts is the identity.

    Example:
        >>> import accounting as acc
        >>> acc.PureDP(epsilon=1.0) + acc.ZCDP(rho=0.1) == acc.ZCDP(rho=0.1) + acc.PureDP(
        ...     epsilon=1.0
        ... )
        True
    """

    kind: Literal["composed"] = "composed"
    parts: Annotated[tuple[tuple[Count, AnyCurve], ...], BeforeValidator(_read)] = Field(default=())

    @classmethod
    def from_parts(cls, parts: Iterable[tuple[int, Curve]]) -> Curve:
        """Return the composition of (count, curve) pairs; one curve, once, is returned itself.

        Raises:
            InvalidArgument: a count is not an integer from 0 to 10^18.
        """
        normal_parts = (_append_one(parts) if isinstance(parts, list) else None) or _normal_form(
            _count_runs(parts)
        )
        if len(normal_parts) == 1 and normal_parts[0][0] == 1:
            return normal_parts[0][1]
        # What is valid and in normal form is not checked again.
        construct = BaseModel.model_construct.__func__  # type: ignore[attr-defined]
        return cast(Composed, construct(cls, {"parts"}, parts=normal_parts))

    def _rdp(self, orders: Floats) -> Floats:
        families, other_parts = self._by_family
        total = np.zeros_like(orders)
        for family, (parameters, counts) in families.items():
            total += family.sum_rdp(parameters, counts, orders)
        counts = counts_up(np.array([count for count, _ in other_parts], dtype=np.float64)).tolist()
        rest = (
            count * curve._rdp(orders)
            for count, (_, curve) in zip(counts, other_parts, strict=True)
        )
        return total + sum(rest, np.zeros_like(orders))

    @cached_property
    def _by_family(self) -> tuple[dict[type[OneParameter], Floats], list[Part]]:
        """The parameters of curves with one parameter, by class, and the other parts.

        The array of a class has shape (2, n): parameters and counts.
        """
        families: dict[type[OneParameter], list[tuple[float, int]]] = defaultdict(list)
        other_parts: list[Part] = []
        for count, curve in self.parts:
            if isinstance(curve, OneParameter):
                families[type(curve)].append((curve.parameter, count))
            else:
                other_parts.append((count, curve))
        return {
            family: np.array(members, dtype=np.float64).T for family, members in families.items()
        }, other_parts

    @property
    def proved_for(self) -> Relation | None:
        return common_relation(self._members)

    @cached_property
    def delta0(self) -> float:
        return min(1.0, decimal_sum((count, curve.delta0) for count, curve in self.parts))

    @property
    def _members(self) -> Sequence[Curve]:
        return [curve for _, curve in self.parts]

    def _joint(self, values: Sequence[float]) -> float:
        return decimal_sum(zip((count for count, _ in self.parts), values, strict=True))

    def profile(self, epsilon: float) -> float | None:
        if self._gaussian is None:
            return None
        joint, failing = self._gaussian
        inner = joint.profile(epsilon)
        return min(1.0, next_up(inner + failing)) if failing else inner

    @cached_property
    def _gaussian(self) -> tuple[GaussianDP, float] | None:
        """The joint Gaussian curve of all parts and their failure probability, or None.

        It is None if a part is another curve.

        Its squared mu is the sum (2 rho is mu^2), and the failures are the parts' bad events (A1).
        """
        if not all(map(_is_gaussian, (curve for _, curve in self.parts))) or not math.isfinite(
            rho := self.rho
        ):
            return None
        return (GaussianDP.of_rho(rho) if self.core_epsilon else GaussianDP(mu=0.0)), self.delta0

    def losses(self) -> Losses | None:
        """Return the losses of all parts, each counted (Theorem P1).

        Parts without losses enter as one, by their Renyi bounds (P8).
        """
        parts = [(count, curve, curve.losses()) for count, curve in self.parts]
        plans = [(count, losses) for count, _, losses in parts if losses is not None]
        if len(plans) == len(parts):
            return _join(plans)
        if not plans:
            return None
        rest = Composed.from_parts(
            [(count, curve) for count, curve, losses in parts if losses is None]
        )
        loss = RenyiLoss.from_rdp(rest._rdp, rest.table_orders)
        return None if loss is None else _join([*plans, (1, Losses(((1, loss),), rest.delta0))])

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        parts = [(count, curve.pld(interval)) for count, curve in self.parts]
        plds = [single.self_compose(count) for count, single in parts if single is not None]
        if len(plds) < len(parts):
            return None
        return reduce(
            lambda total, part: total.compose(part), plds, Losses().to_dp_accounting(interval)
        )


def _is_gaussian(curve: Curve) -> bool:
    """Return True if a curve is Gaussian outside a bad event.

    The probability of that event is added to its divergence.
    """
    if isinstance(curve, Approximate):
        return _is_gaussian(curve.curve)
    return isinstance(curve, GaussianDP) or (
        isinstance(curve, Composed) and curve._gaussian is not None
    )


def _join(parts: Sequence[tuple[int, Losses]]) -> Losses:
    steps = tuple((count * n, loss) for count, losses in parts for n, loss in losses.steps)
    return Losses(steps, decimal_sum((count, losses.added) for count, losses in parts))


def zero() -> Composed:
    """Return the identity of composition, which costs nothing."""
    return Composed()


@final
class Tighter(_OfSeveral):
    """The smallest of several valid bounds for one mechanism, at every order. Theorem A2."""

    kind: Literal["tighter"] = "tighter"
    curves: tuple[AnyCurve, ...] = Field(min_length=2, description="two or more different curves")

    @field_validator("curves", mode="after")
    @classmethod
    def _in_one_order(cls, curves: tuple[Curve, ...]) -> tuple[Curve, ...]:
        common_relation(curves)
        return tuple(sorted(set(curves), key=Curve.to_json))

    def _rdp(self, orders: Floats) -> Floats:
        return np.min([curve._rdp(orders) for curve in self.curves], axis=0)

    @property
    def proved_for(self) -> Relation | None:
        return common_relation(self._members)

    @property
    def delta0(self) -> float:
        # Each member holds outside its own event; one delta0 for all has to be the largest.
        return max(curve.delta0 for curve in self.curves)

    @property
    def _members(self) -> Sequence[Curve]:
        return self.curves

    def _joint(self, values: Sequence[float]) -> float:
        return min(values)

    def profile(self, epsilon: float) -> float | None:
        values = [value for curve in self.curves if (value := curve.profile(epsilon)) is not None]
        return min(values, default=None)

    def losses(self) -> Losses | None:
        """Return the convex hull of the profiles if all are single steps (Theorem P4).

        Otherwise return the losses of the member whose steps are the smallest.
        """
        members = [plan for c in self.curves if (plan := c.losses()) is not None]
        if len(members) < 2:
            return next(iter(members), None)
        if all(len(losses.steps) == 1 and losses.steps[0][0] == 1 for losses in members):
            return Losses(
                ((1, Hull(tuple((1.0, losses.added, losses.steps[0][1]) for losses in members))),)
            )
        return min(members, key=lambda losses: sum(n * loss.scale**2 for n, loss in losses.steps))


def tighter(*curves: Curve) -> Curve:
    """Return the smallest bound of several curves, each valid for the same mechanism. Theorem A2.

    The minimum is taken at every order.

    Raises:
        InvalidCurve: no curve is given, or something else than a curve.

    Example:
        >>> import accounting as acc
        >>> acc.tighter(acc.PureDP(epsilon=1.0), acc.ZCDP(rho=0.1)).rho
        0.1
    """
    if other := [type(curve).__name__ for curve in curves if not isinstance(curve, Curve)]:
        raise InvalidCurve(f"tighter takes curves, not <{other[0]}>. Pass the curve of a mechanism")
    distinct = tuple(dict.fromkeys(curves))
    return distinct[0] if len(distinct) == 1 else Tighter(curves=distinct)


@final
class Parallel(_OfSeveral):
    """The largest bound at every order, of mechanisms that run on disjoint parts of a log.

    Theorem W10.

    Each user is in one part, which that user's own data or public information decide. The list of
    parts is public, and a part without users takes part with scores of 0. The curve is proved for
    add_remove only, because a user who replaces another may change two parts.
    """

    kind: Literal["parallel"] = "parallel"
    curves: tuple[AnyCurve, ...] = Field(min_length=1, description="one or more curves")

    @field_validator("curves", mode="after")
    @classmethod
    def _in_one_order(cls, curves: tuple[Curve, ...]) -> tuple[Curve, ...]:
        if common_relation(curves) == "replace_one":
            raise ValueError(
                "parts of a log are proved for add_remove only. Pass the curves of mechanisms under"
                " relation='add_remove'"
            )
        return tuple(sorted(set(curves), key=Curve.to_json))

    def _rdp(self, orders: Floats) -> Floats:
        return np.max([curve._rdp(orders) for curve in self.curves], axis=0)

    @property
    def proved_for(self) -> Relation:
        return "add_remove"

    @property
    def delta0(self) -> float:
        return max(part.delta0 for part in self.curves)

    @property
    def _members(self) -> Sequence[Curve]:
        return self.curves

    def _joint(self, values: Sequence[float]) -> float:
        return max(values)

    def profile(self, epsilon: float) -> float | None:
        values = [curve.profile(epsilon) for curve in self.curves]
        return None if None in values else max(cast(list[float], values))

    def losses(self) -> Losses | None:
        """The largest of the profiles of single steps (Theorem W10).

        None if a part has none or is a composition, so that sums take the Renyi bounds.
        """
        members = [plan for curve in self.curves if (plan := curve.losses()) is not None]
        if len(members) < len(self.curves) or any(
            len(losses.steps) != 1 or losses.steps[0][0] != 1 for losses in members
        ):
            return None
        bounds = tuple((losses.added, losses.steps[0][1]) for losses in members)
        return Losses(((1, Largest(bounds)),))
