"""Many curves merged without hashing each of them: what `Accountant` converts when a plan has thousands of distinct curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from accounting.curves import Composed, Curve, GaussianDP
from accounting.curves.base import Floats, OneParameter
from accounting.decimal_sum import decimal_sum

_PARAMETER = attrgetter("parameter")
_FEW = 4096  # distinct curves: beyond, building them one by one would dominate
_INT64 = 2**40  # counts above are added as Python integers: their sum could leave the 64 bits


@dataclass(frozen=True)
class _Family:
    """Curves of one one-parameter kind: the parameters of the distinct ones, with their counts."""

    member: type[OneParameter]
    curves: Sequence[OneParameter]
    first: NDArray[np.intp]  # where each of them is met
    parameters: Floats
    counts: NDArray[Any]

    @staticmethod
    def of(member: type[OneParameter], curves: Sequence[OneParameter], counts: NDArray[Any]) -> _Family:
        given = np.fromiter(map(_PARAMETER, curves), dtype=np.float64, count=len(curves))
        parameters, first, group = np.unique(given, return_index=True, return_inverse=True)
        total = np.zeros(len(first), dtype=counts.dtype)
        np.add.at(total, group, counts)
        return _Family(member, curves, first, parameters, total)

    def parts(self) -> Iterator[tuple[int, OneParameter]]:
        """(count, curve) for every distinct curve."""
        return zip(self.counts.tolist(), map(self.curves.__getitem__, self.first.tolist()), strict=True)

    def rdp(self, orders: Floats) -> Floats:
        """Sum of count * rdp."""
        return self.member.sum_rdp(self.parameters, self.counts.astype(np.float64), orders)


@dataclass(frozen=True)
class Pool:
    """A composition whose one-parameter members stay in arrays; it answers what a conversion asks and is no `Curve`."""

    families: tuple[_Family, ...]
    others: Curve

    @staticmethod
    def of(curves: Sequence[Curve], counts: Sequence[int]) -> Pool:
        """Merge curves that are repeated `counts` times each."""
        times = np.array(counts, dtype=object if max(counts, default=0) > _INT64 else np.int64)
        types = set(map(type, curves))
        kinds = [kind for kind in types if issubclass(kind, OneParameter)]
        if len(kinds) == len(types) == 1:
            return Pool((_Family.of(kinds[0], cast(Sequence[OneParameter], curves), times),), Composed())
        families = tuple(
            _Family.of(kind, *_chosen(kind, curves, times)) for kind in sorted(kinds, key=lambda kind: kind.__name__)
        )
        rest = [(n, c) for c, n in zip(curves, counts, strict=True) if type(c) not in kinds]
        return Pool(families, Composed.of(rest))

    @property
    def is_small(self) -> bool:
        """Whether it is as well converted as one `Composed`, whose parts may have a joint privacy loss distribution."""
        return sum(len(family.parameters) for family in self.families) <= _FEW

    def curve(self) -> Curve:
        """The composition as a curve."""
        return Composed.of([*self._merged(), (1, self.others)])

    def _merged(self) -> Iterator[tuple[int, Curve]]:
        for family in self.families:
            yield from family.parts()

    def rdp(self, orders: Floats) -> Floats:
        """Sum of the Renyi bounds, in nats."""
        return sum((family.rdp(orders) for family in self.families), self.others.rdp(orders))

    @property
    def delta0(self) -> float:
        """Sum of the probabilities of bad events; one-parameter members have none."""
        return self.others.delta0

    @cached_property
    def core_epsilon(self) -> float:
        """Sum of the pure epsilons outside the bad events."""
        return decimal_sum((count, curve.core_epsilon) for count, curve in chain([(1, self.others)], self._merged()))

    @property
    def table_orders(self) -> tuple[float, ...]:
        """Orders at which tabulated members are best read."""
        return self.others.table_orders

    def profile(self, epsilon: float) -> float | None:
        """Closed form where all members are Gaussian, as in `Composed`."""
        if self.others != Composed() or any(family.member is not GaussianDP for family in self.families):
            return None
        return self._joint_gaussian.profile(epsilon)

    @cached_property
    def _joint_gaussian(self) -> GaussianDP:
        return GaussianDP.of_rho(decimal_sum((count, curve.rho) for count, curve in self._merged()))


def _chosen(kind: type[Curve], curves: Sequence[Curve], times: NDArray[Any]) -> tuple[Sequence[Any], NDArray[Any]]:
    """The curves of one kind, and their counts."""
    places = [i for i, curve in enumerate(curves) if type(curve) is kind]
    return (curves, times) if len(places) == len(curves) else ([curves[i] for i in places], times[places])
