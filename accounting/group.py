"""Group privacy: guarantees for groups of users, or for users with several records.

A curve holds for inputs that differ by one neighboring step: one user added or removed, or one
replaced. Inputs that differ by `size` steps are easier to tell apart, and `group_privacy` bounds by
how much. It has two uses. One is a household of `size` users. The other is a user-level guarantee
from an event-level one, if a user holds at most `size` of the records that a step may change. That
bound on records per user must be enforced, not observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast, overload

import numpy as np

from accounting import curves
from accounting.arguments import check_integer
from accounting.curves.base import Curve
from accounting.curves.profile_table import as_table, sample_profile
from accounting.curves.sampled import MOST_EXACT
from accounting.errors import NoEquivalent
from accounting.guarantee import Guarantee, HasCurve, curve_and_relation
from accounting.numbers import SUM_UP, Floats, product_up
from accounting.relations import Relation
from accounting.wording import format_number

_ORDERS = 1 + np.geomspace(1e-2, 1e4, 281)
# of curves that have an integral at each order: the chain asks for 80,000
_KNOTS = 1 + np.geomspace(1e-2, 1e6, 1000)


@overload
def group_privacy(curve: Curve, size: int) -> Curve: ...
@overload
def group_privacy(curve: HasCurve, size: int) -> Guarantee: ...
def group_privacy(curve: Curve | HasCurve, size: int) -> Curve | Guarantee:
    """Return the guarantee of `curve` for inputs `size` neighboring steps apart. Theorems G1 to G4.

    It is exact for PureDP, BoundedRange, GaussianDP, LaplaceDP and ZCDP. Compositions are taken
    part by part. A curve that is proved for one relation only keeps it.

    Args:
        curve: a curve, or a mechanism, which gives a `Guarantee` under its own relation.
        size: number of neighboring steps.

    Raises:
        InvalidArgument: size is not an integer >= 1.
        NoEquivalent: no guarantee remains for a group of this size.

    Example:
        >>> import accounting as acc
        >>> acc.group_privacy(acc.PureDP(epsilon=0.5), 3).epsilon(0.0)
        1.5
    """
    size = check_integer("size", size, "how many neighboring steps apart the inputs are")
    if not isinstance(curve, Curve):
        inner, relation = curve_and_relation(curve, None)
        return Guarantee(group_privacy(inner, size), cast(Relation, relation))
    group, relation = (
        curve if size == 1 else _GROUPS.get(type(curve), _general)(curve, size),
        curve.proved_for,
    )
    # Tables and bounds in closed form are of no relation by themselves.
    return (
        group
        if relation in (None, group.proved_for)
        else curves.ProvedFor(curve=group, relation=relation)
    )


def _general(curve: Curve, size: int) -> Curve:
    """Return the group guarantee of any curve.

    A curve without a bad event is converted by its Renyi divergences and pure epsilon, and any
    other curve by its (epsilon, delta) guarantees.
    """
    if curve.delta0 > 0:
        return _group_profile(curve, size)
    guarantees: list[Curve] = (
        [] if math.isinf(curve.rho) else [curves.ZCDP(rho=product_up(size * size, curve.rho))]
    )
    if math.isfinite(curve.core_epsilon):
        guarantees.append(curves.PureDP(epsilon=product_up(size, curve.core_epsilon)))
    guarantees += [] if (chained := _chain(curve, size)) is None else [chained]
    if not guarantees:
        raise NoEquivalent(
            f"a group of {size} is beyond the orders of {type(curve).__name__}. Give it larger"
            " orders, or choose a smaller group"
        )
    return curves.tighter(*guarantees)


def _chain(curve: Curve, size: int) -> curves.RenyiTable | None:
    """Return Renyi bounds along the path, by the triangle inequality of Theorem G3.

    Every intermediate order lies on one grid.
    """
    orders = np.unique(np.append(_ORDERS, [a for a in curve.table_orders if a > 1.01]))
    if isinstance(curve, curves.SampledNoiseDP):
        curve = curves.RenyiTable(
            orders=_KNOTS.tolist(), values=np.maximum.accumulate(curve.rdp(_KNOTS)).tolist()
        )
    step = _step(curve, orders)
    total = curve.rdp(orders)
    # each takes a larger order: beyond this many, none is left
    for _ in range(min(size - 1, len(orders))):
        total = np.min(step + total[None, :], axis=1)
    finite = np.isfinite(total)
    # Renyi divergence does not decrease with the order: a smaller bound at a larger order holds at
    # the smaller one too.
    values = np.minimum.accumulate((total[finite] * SUM_UP ** min(size, len(orders)))[::-1])[::-1]
    return (
        curves.RenyiTable(orders=orders[finite].tolist(), values=values.tolist())
        if np.any(finite)
        else None
    )


def _step(curve: Curve, orders: Floats) -> Floats:
    """Return, at (i, j), the cost of one step at order i if the rest of the path has order j > i.

    It is inf elsewhere.
    """
    a, b = orders[:, None], orders[None, :]
    later = b > a
    share = np.where(later, (b - a) / (b - 1), 0.5)
    cost = curve.rdp(np.where(later, a / share, 2.0)) * (a - share) / (a - 1)
    return np.where(later, cost, np.inf)


def _group_profile(curve: Curve, size: int) -> Curve:
    points = [
        (product_up(size, epsilon), _group_delta(delta, epsilon, size))
        for epsilon, delta in sample_profile(curve)
    ]
    return as_table(points, f"{type(curve).__name__} x {size}")


def _group_delta(delta: float, epsilon: float, size: int) -> float:
    """Return delta (1 + e^epsilon + ... + e^((size - 1) epsilon)), rounded up."""
    if delta == 0:
        return 0.0
    if epsilon == 0:
        return delta * size * SUM_UP
    return (
        delta
        * (math.expm1(size * epsilon) / math.expm1(epsilon) if size * epsilon < 700 else math.inf)
        * SUM_UP
    )


def _approximate_dp(curve: curves.ApproxDP, size: int) -> Curve:
    delta = _group_delta(curve.failure, curve.epsilon0, size)
    if delta >= 1:
        raise NoEquivalent(
            f"a group of {size} has no guarantee from {curve!r}, because its delta grows to"
            f" {format_number(delta)}. Choose a smaller group"
        )
    return curves.ApproxDP(epsilon=product_up(size, curve.epsilon0), delta=delta)


def _group_sampled(curve: curves.SampledGaussianDP | curves.SampledNoiseDP, size: int) -> Curve:
    """Return Renyi bounds for a group of sampled users along the path of all of them.

    For up to 16 users they are the exact pairs of their number in a sample. For more users, the
    bound is the cost if all of them are in it.
    """
    loss = curve._loss
    single, users = (
        curves.SampledNoiseDP(noise=loss.noise, shift=loss.shift, rate=loss.rate),
        loss.group * size,
    )
    if users > MOST_EXACT:
        return curves.tighter(_general(single, users), group_privacy(single._unsampled, users))
    exact, along = single.model_copy(update={"group": users}), _chain(single, users)
    return exact if along is None else curves.tighter(along, exact)


_GROUPS: dict[type[Curve], Callable[[Any, int], Curve]] = {
    curves.PureDP: lambda curve, size: curves.PureDP(epsilon=product_up(size, curve.epsilon0)),
    curves.BoundedRange: lambda curve, size: curves.BoundedRange(
        epsilon=product_up(size, curve.epsilon0)
    ),
    curves.GaussianDP: lambda curve, size: curves.GaussianDP(mu=product_up(size, curve.mu)),
    curves.LaplaceDP: lambda curve, size: curves.LaplaceDP(
        epsilon=product_up(size, curve.epsilon0)
    ),
    curves.DiscreteGaussianDP: lambda curve, size: curves.DiscreteGaussianDP(
        sigma=curve.sigma, sensitivity=size * curve.sensitivity
    ),
    curves.ZCDP: lambda curve, size: curves.ZCDP(rho=product_up(size * size, curve.rho0)),
    curves.ApproxDP: _approximate_dp,
    curves.Approximate: _group_profile,
    curves.Composed: lambda curve, size: curves.Composed.from_parts(
        [(n, group_privacy(part, size)) for n, part in curve.parts]
    ),
    curves.ProvedFor: lambda curve, size: group_privacy(curve.curve, size),
    curves.SampledGaussianDP: _group_sampled,
    curves.SampledNoiseDP: _group_sampled,
    curves.Tighter: lambda curve, size: curves.tighter(
        *(group_privacy(member, size) for member in curve.curves)
    ),
}
