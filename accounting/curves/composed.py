"""Sequential composition: the only place that counts repetitions."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Annotated, Any, Literal, cast, final

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field

from accounting.arguments import MOST_COUNT, checked_integer
from accounting.conversion.pld.hull import RenyiLoss
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.approximate import Approximate
from accounting.curves.base import AnyCurve, Curve, Floats, OneParameter, counts_up, from_data
from accounting.curves.gaussian import GaussianDP
from accounting.decimal_sum import decimal_sum
from accounting.errors import InvalidCurve
from accounting.frozen import Count
from accounting.relation import Relation

Part = tuple[int, Curve]
_TIMES = "how many times a curve is repeated"


def _normal_form(data: Any) -> tuple[Part, ...]:
    """Parts flattened, equal ones merged, sorted: one composition has one value."""
    if not isinstance(data, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in data):
        raise InvalidCurve("Composed.parts must be pairs (count, curve)")
    counts: dict[Curve, int] = {}
    for count, curve in data:
        repeated = checked_integer("Composed.parts: count", count, _TIMES, error=InvalidCurve)
        for inner, part in _parts(from_data(curve)):
            counts[part] = counts.get(part, 0) + repeated * inner
    if max(counts.values(), default=0) > MOST_COUNT:
        raise InvalidCurve("Composed.parts: a curve is repeated more than 10^18 times in all: use fewer repetitions")
    keys: list[tuple[Any, ...]] = list(map(_short_key, counts))
    if len(set(keys)) < len(keys):  # JSON tells apart what differs in nothing else; to write it takes long
        keys = list(map(_sort_key, counts))
    return tuple((count, curve) for _, (curve, count) in sorted(zip(keys, counts.items(), strict=True), key=itemgetter(0)))


def _parts(curve: Curve) -> tuple[Part, ...]:
    return curve.parts if isinstance(curve, Composed) else ((1, curve),)


def _sort_key(curve: Curve) -> tuple[str, float, str]:
    return (*_short_key(curve), curve.to_json())


def _short_key(curve: Curve) -> tuple[str, float]:
    return type(curve).__name__, curve.parameter if isinstance(curve, OneParameter) else 0.0


def _one_more(parts: Sequence[Part]) -> tuple[Part, ...] | None:
    """The normal form of a composition and one other curve, found without sorting again: sums are often made in a loop."""
    if [count for count, _ in parts] != [1, 1]:
        return None
    for known, curve in ((parts[0][1], parts[1][1]), (parts[1][1], parts[0][1])):
        if isinstance(known, Composed) and known.parts and isinstance(curve, Curve) and not isinstance(curve, Composed):
            place = bisect.bisect_left(known.parts, _sort_key(curve), key=lambda part: _sort_key(part[1]))
            if place == len(known.parts) or known.parts[place][1] != curve:
                return (*known.parts[:place], (1, curve), *known.parts[place:])
    return None


@final
class Composed(Curve):
    """All parts, each repeated, run on the same data, adaptively chosen ones included. Theorem A3.

    Args:
        parts: pairs (count, curve); kept in a normal form, so that equal compositions are equal. No parts: the identity.

    Example:
        >>> import accounting as acc
        >>> acc.PureDP(epsilon=1.0) + acc.ZCDP(rho=0.1) == acc.ZCDP(rho=0.1) + acc.PureDP(epsilon=1.0)
        True
    """

    kind: Literal["composed"] = "composed"
    parts: Annotated[tuple[tuple[Count, AnyCurve], ...], BeforeValidator(_normal_form)] = Field(default=())

    @classmethod
    def of(cls, parts: Iterable[tuple[int, Curve]]) -> Curve:
        """The composition of (count, curve) pairs; a single curve once is that curve itself.

        Raises:
            InvalidArgument: a count is not an integer from 0 to 10^18.
        """
        counted = [(count, curve) for count, curve in parts if checked_integer("count", count, _TIMES, least=0) > 0]
        if (one_more := _one_more(counted)) is not None:
            return cls._of_normal_form(one_more)
        found = _normal_form(counted)
        return found[0][1] if len(found) == 1 and found[0][0] == 1 else cls._of_normal_form(found)

    @classmethod
    def _of_normal_form(cls, parts: tuple[Part, ...]) -> Composed:
        """Of parts that are valid and in normal form, which are not checked again."""
        return cast(Composed, BaseModel.model_construct.__func__(cls, {"parts"}, parts=parts))  # type: ignore[attr-defined]

    def _rdp(self, orders: Floats) -> Floats:
        families, others = self._by_family
        total = np.zeros_like(orders)
        for family, (parameters, counts) in families.items():
            total += family.sum_rdp(parameters, counts, orders)
        counts = counts_up(np.array([count for count, _ in others], dtype=np.float64)).tolist()
        rest = (count * curve._rdp(orders) for count, (_, curve) in zip(counts, others, strict=True))
        return total + sum(rest, np.zeros_like(orders))

    @cached_property
    def _by_family(self) -> tuple[dict[type[OneParameter], Floats], list[Part]]:
        """(2, n) parameters and counts of curves with one parameter, by class, and the other parts."""
        families: dict[type[OneParameter], list[tuple[float, int]]] = defaultdict(list)
        others: list[Part] = []
        for count, curve in self.parts:
            if isinstance(curve, OneParameter):
                families[type(curve)].append((curve.parameter, count))
            else:
                others.append((count, curve))
        return {family: np.array(members, dtype=np.float64).T for family, members in families.items()}, others

    @property
    def rho(self) -> float:
        return decimal_sum((count, curve.rho) for count, curve in self.parts)

    @property
    def delta0(self) -> float:
        return min(1.0, decimal_sum((count, curve.delta0) for count, curve in self.parts))

    @property
    def core_epsilon(self) -> float:
        return decimal_sum((count, curve.core_epsilon) for count, curve in self.parts)

    @property
    def mu_squared(self) -> float:
        return decimal_sum((count, curve.mu_squared) for count, curve in self.parts)

    @property
    def proved_for(self) -> Relation | None:
        return next((curve.proved_for for _, curve in self.parts if curve.proved_for), None)

    @property
    def table_orders(self) -> tuple[float, ...]:
        return tuple(sorted({order for _, curve in self.parts for order in curve.table_orders}))

    def profile(self, epsilon: float) -> float | None:
        if self._gaussian is None:
            return None
        joint, failing = self._gaussian
        inner = joint.profile(epsilon)
        return min(1.0, math.nextafter(inner + failing, math.inf)) if failing else inner

    @cached_property
    def _gaussian(self) -> tuple[GaussianDP, float] | None:
        """What Gaussian parts amount to: one whose squared mu is the sum (2 rho is mu^2) and their bad events (A1).

        None if a part is another curve.
        """
        if not all(map(_is_gaussian, (curve for _, curve in self.parts))) or not math.isfinite(rho := self.rho):
            return None
        return (GaussianDP.of_rho(rho) if self.core_epsilon else GaussianDP(mu=0.0)), self.delta0

    def losses(self) -> Losses | None:
        """The losses of all parts, each counted (Theorem P1); those without any enter as one, by their Renyi bounds (P8)."""
        found = [(count, curve, curve.losses()) for count, curve in self.parts]
        known = [(count, losses) for count, _, losses in found if losses is not None]
        if len(known) == len(found):
            return _joined(known)
        if not known:
            return None
        rest = Composed.of([(count, curve) for count, curve, losses in found if losses is None])
        loss = RenyiLoss.of(rest._rdp, rest.table_orders)
        return None if loss is None else _joined([*known, (1, Losses(((1, loss),), rest.delta0))])

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        from dp_accounting.pld import privacy_loss_distribution

        total = privacy_loss_distribution.identity(interval)
        for count, curve in self.parts:
            single = curve.pld(interval)
            if single is None:
                return None
            total = total.compose(single.self_compose(count))
        return total


def _is_gaussian(curve: Curve) -> bool:
    """Whether a curve is Gaussian outside a bad event whose probability is added to its divergence."""
    if isinstance(curve, Approximate):
        return _is_gaussian(curve.curve)
    return isinstance(curve, GaussianDP) or (isinstance(curve, Composed) and curve._gaussian is not None)


def _joined(parts: Sequence[tuple[int, Losses]]) -> Losses:
    steps = tuple((count * n, loss) for count, losses in parts for n, loss in losses.steps)
    return Losses(steps, decimal_sum((count, losses.added) for count, losses in parts))


def zero() -> Composed:
    """The identity of composition: nothing is spent."""
    return Composed()
