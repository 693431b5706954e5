"""Guarantees known at some points only: tables of Renyi bounds or of (epsilon, delta) pairs."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting.convert.bounds import best_delta
from accounting.convert.pld.loss import Atoms, Losses
from accounting.curves.base import Curve, UnconditionalCurve
from accounting.curves.closed_form import ApproxDP, PureDP
from accounting.errors import NoEquivalent
from accounting.frozen import NonNegative, Real
from accounting.numbers import SUM_UP, Floats


@final
class RenyiTable(UnconditionalCurve):
    """A table of Renyi bounds (nats) at given orders. Theorem C7.

    Between two orders the larger one is used, and above the last order there is no bound.

    Example:
        >>> import accounting as acc
        >>> acc.RenyiTable(orders=(2.0, 8.0), values=(0.1, 0.4)).rdp([2.0, 3.0]).tolist()
        [0.1, 0.4]
    """

    kind: Literal["renyi_table"] = "renyi_table"
    orders: tuple[Real, ...] = Field(min_length=1, description="increasing orders above 1")
    values: tuple[NonNegative, ...] = Field(
        min_length=1, description="non-decreasing values >= 0, one per order"
    )

    @model_validator(mode="after")
    def _is_a_guarantee(self) -> Self:
        if len(self.orders) != len(self.values):
            raise ValueError(
                f"orders has {len(self.orders)} numbers and values has {len(self.values)}. Give"
                " one value per order"
            )
        if self.orders[0] <= 1 or any(a >= b for a, b in pairwise(self.orders)):
            raise ValueError(
                "orders must be above 1 and strictly increasing. Sort them, with their values"
            )
        if any(a > b for a, b in pairwise(self.values)):
            raise ValueError(
                "values must not decrease with the order, because Renyi divergence never does."
                " Check the source"
            )
        return self

    def _rdp(self, orders: Floats) -> Floats:
        return np.append(self.values, math.inf)[np.searchsorted(self.orders, orders, side="left")]

    @property
    def rho(self) -> float:
        return math.inf

    @property
    def core_epsilon(self) -> float:
        return math.inf

    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.orders


_RHO_ORDERS = 1 + np.geomspace(1e-6, 1e8, 3000)
_MOST_EXPONENT = 709.0  # nats: beyond, e^epsilon leaves the floats
_POINTS = 48  # of a table that stands for another curve
_LEAST_DELTA = 1e-18  # beyond delta0: smaller ones make the table longer, hardly tighter
_MOST_EPSILON, _MOST_TABLED = 100.0, 500.0

Points = list[tuple[float, float]]


@final
class ProfileTable(Curve):
    """A table of (epsilon, delta)-DP guarantees that all hold. Theorem M1.

    One pair of distributions dominates them, and it composes exactly.

    Args:
        epsilons: nats, >= 0, strictly increasing.
        deltas: delta at each epsilon, strictly decreasing, each in [0, 1). The last one is the
            probability of the event that `rdp` leaves out.
    """

    kind: Literal["profile_table"] = "profile_table"
    epsilons: tuple[NonNegative, ...] = Field(
        min_length=1, description="increasing epsilons >= 0, in nats"
    )
    deltas: tuple[Annotated[NonNegative, Field(lt=1)], ...] = Field(
        min_length=1, description="decreasing deltas in [0, 1)"
    )

    @model_validator(mode="after")
    def _is_a_profile(self) -> Self:
        if len(self.epsilons) != len(self.deltas):
            raise ValueError(
                f"epsilons has {len(self.epsilons)} numbers and deltas has {len(self.deltas)}."
                " Give one delta per epsilon"
            )
        if any(a >= b for a, b in pairwise(self.epsilons)) or any(
            a <= b for a, b in pairwise(self.deltas)
        ):
            raise ValueError(
                "epsilons must increase and deltas decrease strictly. Sort the points and drop"
                " the dominated ones"
            )
        return self

    def _rdp(self, orders: Floats) -> Floats:
        losses, weights = self._pair
        if self.core_epsilon == 0 or not len(losses):
            return np.zeros_like(orders)
        # With weights w on losses +-e, the moment is 1 + sum of 4 w exp(-e/2) sinh(a e/2)
        # sinh((a-1) e/2): nothing cancels.
        logs = _log_sinh(np.outer(orders, losses) / 2) + _log_sinh(np.outer(orders - 1, losses) / 2)
        logs += np.log(4 * weights / (1 - self.delta0)) - losses / 2
        top = logs.max(axis=1)
        excess = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        return np.minimum(np.logaddexp(0, excess) / (orders - 1) * SUM_UP, self.core_epsilon)

    @cached_property
    def rho(self) -> float:
        # Renyi divergence does not decrease with the order: between neighbors of the grid it is at
        # most that of the larger.
        values = self._rdp(_RHO_ORDERS)
        between = float(np.max(values / np.append(1.0, _RHO_ORDERS[:-1])))
        return min(
            max(between, self.core_epsilon / float(_RHO_ORDERS[-1])),
            PureDP(epsilon=self.core_epsilon).rho * SUM_UP,
        )

    @property
    def delta0(self) -> float:
        return self.deltas[-1]

    @property
    def core_epsilon(self) -> float:
        return self.epsilons[-1]

    def profile(self, epsilon: float) -> float:
        points = self._hull
        if epsilon >= points[-1][0]:
            return self.delta0
        place = next(i for i, (e, _) in enumerate(points) if e > epsilon)
        (low, first), (high, second) = points[place - 1], points[place]
        share = math.exp(epsilon - high) * (math.expm1(low - epsilon) / math.expm1(low - high))
        return min(first, (first + share * (second - first)) * SUM_UP)

    def losses(self) -> Losses:
        """Return the dominating pair as a privacy loss (Theorem M1).

        Each bad event is an infinite loss of its own.
        """
        losses, weights = self._pair
        if not len(losses):
            return Losses(added=self.delta0)
        unlikely = (weights * np.exp(-losses))[::-1]
        neutral = max(0.0, 1 - self.delta0 - float(weights.sum() + unlikely.sum()))
        places = (*(-losses[::-1]).tolist(), 0.0, *losses.tolist())
        return Losses(
            ((1, Atoms(places, (*unlikely.tolist(), neutral, *weights.tolist()), self.delta0)),)
        )

    @cached_property
    def _hull(self) -> list[tuple[float, float]]:
        """Vertices of the smallest convex bound in exp(epsilon), from epsilon 0 on."""
        at_zero = min(
            d + (1 - d) * math.tanh(e / 2) for e, d in zip(self.epsilons, self.deltas, strict=True)
        )
        hull = [(0.0, at_zero)]
        for point in zip(self.epsilons, self.deltas, strict=True):
            if point[0] == 0:
                continue
            while len(hull) > 1 and _slope_before(hull[-2], hull[-1]) >= _slope_after(
                hull[-1], point
            ):
                hull.pop()
            hull.append(point)
        return hull

    @cached_property
    def _pair(self) -> tuple[Floats, Floats]:
        """Losses e > 0 of a dominating pair, and their probabilities w.

        The loss -e has the probability w exp(-e), and 0 has the rest. The losses lie at the bound's
        kinks, and w is the change of slope there.
        """
        losses = np.array([e for e, _ in self._hull[1:]])
        before = np.array([_slope_before(a, b) for a, b in pairwise(self._hull)])
        after = np.array([_slope_after(a, b) for a, b in pairwise(self._hull[1:])] + [0.0])[
            : len(before)
        ]
        weights = after - before
        return losses[weights > 0], weights[weights > 0]


def _slope_before(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Slope of delta in exp(epsilon), times exp of the second epsilon."""
    return (second[1] - first[1]) / -math.expm1(first[0] - second[0])


def _slope_after(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Slope of delta in exp(epsilon), times exp of the first epsilon.

    On underflow it is 0, which lies above the slope.
    """
    gap = second[0] - first[0]
    return (second[1] - first[1]) / math.expm1(gap) if gap < _MOST_EXPONENT else 0.0


def _log_sinh(x: Floats) -> Floats:
    return x + np.log(-np.expm1(-2 * x)) - math.log(2)


def sample_profile(curve: Curve) -> Points:
    """Return (epsilon, delta) guarantees of `curve`, with epsilons increasing from 0.

    The last epsilon is the pure one, if there is one.
    """
    end = curve.core_epsilon
    if math.isinf(end):  # where delta is its bad event and little more
        end = 0.01
        while end < _MOST_EPSILON and best_delta(curve, end).value > curve.delta0 + _LEAST_DELTA:
            end *= 1.25
        end = min(end, _MOST_EPSILON)
    if end == 0:
        return [(0.0, curve.delta0)]
    epsilons = [0.0, *np.geomspace(end / 1000, end, _POINTS).tolist()]
    epsilons[-1] = end
    return [(epsilon, best_delta(curve, epsilon).value) for epsilon in epsilons]


def as_table(points: Points, name: str) -> Curve:
    """Return the curve that guarantees all `points`, without dominated ones and deltas of 1."""
    frontier: Points = []
    for epsilon, delta in sorted(points):
        if (
            delta < 1
            and epsilon <= _MOST_TABLED
            and (not frontier or (delta < frontier[-1][1] and epsilon > frontier[-1][0]))
        ):
            frontier.append((epsilon, delta))
    if not frontier:
        raise NoEquivalent(
            f"{name} has no guarantee below delta = 1. Lower the cost of the mechanism first"
        )
    if len(frontier) == 1:
        epsilon, delta = frontier[0]
        return ApproxDP(epsilon=epsilon, delta=delta) if delta > 0 else PureDP(epsilon=epsilon)
    return ProfileTable(epsilons=[e for e, _ in frontier], deltas=[d for _, d in frontier])
