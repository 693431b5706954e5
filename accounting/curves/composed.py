"""Sequential composition: the only place that counts repetitions."""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

import numpy as np
from pydantic import BeforeValidator, Field

from accounting.arguments import MOST_COUNT, checked_integer
from accounting.conversion.pld.hull import RenyiLoss
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.approximate import Approximate
from accounting.curves.base import GET_FIELDS, SETTERS, AnyCurve, Curve, Floats, OneParameter, counts_up, from_data
from accounting.curves.gaussian import GaussianDP
from accounting.decimal_sum import decimal_sum
from accounting.errors import InvalidCurve
from accounting.frozen import Count

_SET_FIELDS, _SET_NAMES, _SET_EXTRA, _SET_PRIVATE = SETTERS
Part = tuple[int, Curve]
_TIMES = "how many times a curve is repeated"
_SUM, _NAMES = "sum", {"parts"}


def _normal_form(data: Any) -> Any:
    """Parts flattened, equal ones merged, zero ones dropped, sorted by their JSON: one composition has one value."""
    if not isinstance(data, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in data):
        raise InvalidCurve("Composed.parts must be pairs (count, curve)")
    counts: Counter[Curve] = Counter()
    for count, curve in data:
        _add(counts, checked_integer("Composed.parts: count", count, _TIMES, error=InvalidCurve), from_data(curve))
    if max(counts.values(), default=0) > MOST_COUNT:
        raise InvalidCurve("Composed.parts: a curve is repeated more than 10^18 times in all: use fewer repetitions")
    return tuple((counts[curve], curve) for curve in sorted(counts, key=_sort_key))


def _add(counts: Counter[Curve], count: int, curve: Curve) -> None:
    if isinstance(curve, Composed):
        for inner, part in curve.parts:
            counts[part] += count * inner
    else:
        counts[curve] += count


def _sort_key(curve: Curve) -> tuple[str, float, str]:
    if isinstance(curve, OneParameter):
        return (type(curve).__name__, curve.parameter, "")
    return (type(curve).__name__, 0.0, curve.to_json())


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
        parts = list(parts)
        if len(parts) == 2 and (both := _both(*parts)) is not None:
            return both
        found = _normal_form([(count, curve) for count, curve in parts if checked_integer("count", count, _TIMES, least=0) > 0])
        return found[0][1] if len(found) == 1 and found[0][0] == 1 else cls._made(parts=found)

    @classmethod
    def _made(cls, **fields: Any) -> Composed:
        """A composition of parts that are valid and in normal form, or of a `sum` of two curves whose form is found when used."""
        new = cls.__new__(cls)
        _SET_FIELDS(new, {"kind": "composed", **fields})
        _SET_NAMES(new, _NAMES)
        _SET_EXTRA(new, None)
        _SET_PRIVATE(new, None)
        return new

    # A sum in a loop would sort all its parts again in each round. So `a + b` keeps the two, and the parts take their normal form
    # when somebody asks for them, be it Python or pydantic's own code: both ask for `__dict__`.

    @property
    def __dict__(self) -> dict[str, Any]:
        fields: dict[str, Any] = GET_FIELDS(self)
        if "parts" not in fields:
            fields["parts"] = _settled(self)
            fields.pop(_SUM, None)
        return fields

    @__dict__.setter
    def __dict__(self, fields: dict[str, Any]) -> None:
        _SET_FIELDS(self, fields)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return self.__dict__["parts"] if name == "parts" else super().__getattr__(name)

    def _rdp(self, orders: Floats) -> Floats:
        families, others = _by_family(self.parts)
        total = np.zeros_like(orders)
        for family, members in families.items():
            parameters, counts = np.array(members, dtype=np.float64).T
            total += family.sum_rdp(parameters, counts, orders)
        counts = counts_up(np.array([count for count, _ in others], dtype=np.float64)).tolist()
        rest = (count * curve._rdp(orders) for count, (_, curve) in zip(counts, others, strict=True))
        return total + sum(rest, np.zeros_like(orders))

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
    def table_orders(self) -> tuple[float, ...]:
        return tuple(sorted({order for _, curve in self.parts for order in curve.table_orders}))

    def profile(self, epsilon: float) -> float | None:
        if self._gaussian is None:
            return None
        joint, failing = self._gaussian
        inner = joint.profile(epsilon)
        return min(1.0, math.nextafter(inner + failing, math.inf)) if failing else inner

    @cached_property
    def _largest(self) -> int:
        return max(count for count, _ in self.parts)

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
        rest = Composed.of([(count, curve) for count, curve, losses in found if losses is None])
        loss = RenyiLoss.of(rest._rdp, rest.table_orders) if known else None
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


def _both(first: Part, second: Part) -> Curve | None:
    """`a + b`; None where counts ask for another look."""
    if not (first[0] == second[0] == 1 and isinstance(first[1], Curve) and isinstance(second[1], Curve)):
        return None
    for (_, empty), (_, other) in ((first, second), (second, first)):
        if isinstance(empty, Composed) and not _sum_of(empty) and not empty.parts:
            return other
    most = _most(first[1]) + _most(second[1])
    return None if most > MOST_COUNT else Composed._made(**{_SUM: (first[1], second[1], most)})


def _sum_of(curve: Curve) -> tuple[Curve, Curve, int] | None:
    """The two curves that a sum keeps, and no less than any part of it is repeated; None if its parts are known."""
    return GET_FIELDS(curve).get(_SUM) if isinstance(curve, Composed) else None


def _most(curve: Curve) -> int:
    if (kept := _sum_of(curve)) is not None:
        return kept[2]
    return curve._largest if isinstance(curve, Composed) else 1


def _settled(curve: Composed) -> tuple[Part, ...]:
    """The parts of a sum in normal form, however deeply it is nested."""
    terms: list[Curve] = []
    waiting: list[Curve] = [curve]
    while waiting:
        one = waiting.pop()
        kept = _sum_of(one)
        if kept is None:
            terms.append(one)
        else:
            waiting += kept[1], kept[0]
    for long, single in (terms, terms[::-1]) if len(terms) == 2 else ():
        if isinstance(long, Composed) and not isinstance(single, Composed):
            return _inserted(long.parts, single)
    found: tuple[Part, ...] = _normal_form([(1, term) for term in terms])
    return found


def _inserted(parts: tuple[Part, ...], curve: Curve) -> tuple[Part, ...]:
    """Parts in normal form and one curve more, without looking at every part again."""
    key = _sort_key(curve)
    place = bisect.bisect_left(parts, key, key=lambda part: _sort_key(part[1]))
    if place < len(parts) and _sort_key(parts[place][1]) == key:
        return (*parts[:place], (parts[place][0] + 1, parts[place][1]), *parts[place + 1 :])
    return (*parts[:place], (1, curve), *parts[place:])


def _joined(parts: Sequence[tuple[int, Losses]]) -> Losses:
    steps = tuple((count * n, loss) for count, losses in parts for n, loss in losses.steps)
    return Losses(steps, decimal_sum((count, losses.added) for count, losses in parts))


def _by_family(parts: Sequence[Part]) -> tuple[dict[type[OneParameter], list[tuple[float, int]]], list[Part]]:
    families: dict[type[OneParameter], list[tuple[float, int]]] = defaultdict(list)
    others: list[Part] = []
    for count, curve in parts:
        if isinstance(curve, OneParameter):
            families[type(curve)].append((curve.parameter, count))
        else:
            others.append((count, curve))
    return families, others


def zero() -> Composed:
    """The identity of composition: nothing is spent."""
    return Composed()
