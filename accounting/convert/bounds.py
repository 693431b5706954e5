"""Conversion of a curve to (epsilon, delta) by every valid route, with the name of the best one.

Routes (Theorem A4):

- `pure` is the sum of pure epsilons.
- `basic` is the same sum outside the bad event.
- `rdp` converts the Renyi bound at the best order.
- `profile` is a closed-form hockey-stick divergence.
- `pld` is the composed privacy loss distribution (Theorem P6). It is tried where it can help and is
  cheap: the curve has no exact closed-form profile, some part has a dominating pair, many widths
  are rounded up to 128 (Theorem P9), and at most 10^7 parts run. It takes some ten milliseconds, or
  up to a second for hundreds of different parts, and the result is cached.
- `adaptive`, which is optional, is the optimal recursion for equal bounded-range parts among a few
  others, in any order (Theorem D6). It takes up to half a second, and the result is cached.

All routes hold for plans fixed in advance. Only `pure` is also a rule for stopping a plan early
(see `Budget`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from accounting.convert.pld.compose import (
    can_compose,
    coarsen_losses,
    pld_delta,
    pld_deltas,
    pld_epsilon,
)
from accounting.convert.pld.hull import Hull
from accounting.convert.pld.loss import Losses
from accounting.convert.recursion import Solution
from accounting.convert.renyi import (
    check_delta,
    check_epsilon,
    invert_profile,
    rdp_to_delta,
    rdp_to_epsilon,
)
from accounting.errors import GridEdgeWarning
from accounting.numbers import Floats

Route = Literal["pure", "basic", "rdp", "profile", "pld", "adaptive"]
_INSIDE = 0.9  # of the largest loss: a tilt beyond it is good for nothing below
# the least positive float: a divergence below the pure epsilon is positive even where it underflows
LEAST_DELTA = 5e-324
# Times the order: more than what underflow may take off a Renyi bound, whatever the counts.
_UNDERFLOW = 1e-290


class ConvertibleCurve(Protocol):
    """A curve as seen by a conversion: its bounds, failure probability and privacy losses."""

    @property
    def delta0(self) -> float: ...
    @property
    def core_epsilon(self) -> float: ...
    @property
    def table_orders(self) -> tuple[float, ...]: ...
    def rdp(self, orders: Floats) -> Floats: ...
    def profile(self, epsilon: float) -> float | None: ...
    def losses(self) -> Losses | None: ...


@dataclass(frozen=True)
class Bound:
    """A proved epsilon (nats) or delta, its route, and its Renyi order if it has one."""

    value: float
    route: Route
    order: float | None = None
    at_edge: bool = False


def best_epsilon(curve: ConvertibleCurve, delta: float, *, thorough: bool = False) -> Bound:
    """Return the smallest epsilon (nats) proved at `delta` over all routes; inf if there is none.

    Args:
        delta: in [0, 1).
        thorough: True to try the route `adaptive` too, which gains up to seven percent on repeated
            exponential mechanisms.

    Raises:
        InvalidArgument: delta is not in [0, 1).
    """
    best = _winner(_epsilons(curve, check_delta(delta)))
    if thorough and best.value > 0 and (recursion := _recursion(curve, delta)) is not None:
        return _winner(
            iter(
                (
                    best,
                    Bound(recursion[0].epsilon_upper(_round_down(delta, recursion[1])), "adaptive"),
                )
            )
        )
    return best


def best_delta(curve: ConvertibleCurve, epsilon: float, *, thorough: bool = False) -> Bound:
    """Return the smallest delta proved at `epsilon` over all routes, at most 1.

    Args:
        epsilon: nats, finite and >= 0.
        thorough: True to try the route `adaptive` too.

    Raises:
        InvalidArgument: epsilon is negative or not finite.
    """
    best = _winner(_deltas(curve, check_epsilon(epsilon)))
    if thorough and best.value > curve.delta0 and (recursion := _recursion(curve, 1.0)) is not None:
        value = (recursion[0].upper_at(epsilon) + recursion[1]) * (1 + 1e-15)
        return _winner(iter((best, Bound(max(LEAST_DELTA, value), "adaptive"))))
    return best


def deltas_near(curve: ConvertibleCurve, epsilon: float) -> Callable[[float], float]:
    """Return a function from epsilon to a proved delta that is quick, and tight near `epsilon`.

    It leaves out the route `rdp` if another one is available.
    """
    near = min(epsilon, _INSIDE * curve.core_epsilon)
    closed, losses, recursion = _closed_form(curve), _composable(curve), _recursion(curve, 1.0)
    composed = [] if losses is None else [pld_deltas(way, near) for way in losses.directions()]
    if closed is None and not composed:
        return lambda at: best_delta(curve, at).value

    def smallest(epsilon: float) -> float:
        deltas = [1.0] if closed is None else [closed(epsilon)]
        if curve.core_epsilon <= epsilon:
            return min(*deltas, curve.delta0)
        if composed:
            deltas.append(max(LEAST_DELTA, *(delta(epsilon) for delta in composed)))
        if recursion is not None:
            deltas.append(
                max(LEAST_DELTA, (recursion[0].upper_at(epsilon) + recursion[1]) * (1 + 1e-15))
            )
        return min(deltas)

    return smallest


def value_with_warning(bound: Bound) -> float:
    """Return the value of `bound`, with a GridEdgeWarning if more orders might lower it."""
    if bound.at_edge:
        warnings.warn(
            f"the best Renyi order {bound.order:g} is the last one tried, so the bound is valid"
            " but may be loose. Give a table more orders, or a plan less noise or a larger"
            " delta",
            GridEdgeWarning,
            stacklevel=3,
        )
    return bound.value


def _winner(candidates: Iterator[Bound]) -> Bound:
    proved = (bound for bound in candidates if bound.value >= 0)  # NaN proves nothing
    return min(proved, key=lambda bound: bound.value, default=Bound(math.inf, "basic"))


# The routes, each with its condition. Inside, where neither the bad events alone nor the pure
# epsilon alone decide, all may win; at the edges failures that are steps of their own are composed:
# n of chance d weigh 1 - (1 - d)^n, less than their sum.


def _epsilons(curve: ConvertibleCurve, delta: float) -> Iterator[Bound]:
    inside = curve.core_epsilon > 0 and delta > curve.delta0
    yield Bound(curve.core_epsilon if curve.delta0 <= delta else math.inf, _sum_of(curve))
    if inside:
        renyi = rdp_to_epsilon(_renyi(curve), _round_down(delta, curve.delta0), curve.table_orders)
        yield Bound(renyi.value, "rdp", renyi.order, renyi.at_edge)
    if delta > 0 and (losses := _composable(curve) if inside else _failing(curve)) is not None:
        yield Bound(max(pld_epsilon(way, delta) for way in losses.directions()), "pld")
    if curve.delta0 <= delta and (profile := _closed_form(curve)) is not None:
        yield Bound(invert_profile(profile, delta), "profile")


def _deltas(curve: ConvertibleCurve, epsilon: float) -> Iterator[Bound]:
    inside = curve.core_epsilon > epsilon
    yield Bound(1.0, "basic") if inside else Bound(curve.delta0, _sum_of(curve))
    if inside:
        renyi = rdp_to_delta(_renyi(curve), epsilon, curve.table_orders)
        value = max(LEAST_DELTA, min(1.0, curve.delta0 + renyi.value))
        yield Bound(value, "rdp", renyi.order, renyi.at_edge and value > LEAST_DELTA)
    if (losses := _composable(curve) if inside else _failing(curve)) is not None:
        yield Bound(
            max(LEAST_DELTA, *(pld_delta(way, epsilon) for way in losses.directions())), "pld"
        )
    if inside and (profile := _closed_form(curve)) is not None:
        yield Bound(profile(epsilon), "profile")


def _sum_of(curve: ConvertibleCurve) -> Route:
    return "pure" if curve.delta0 == 0 else "basic"


def _round_down(delta: float, delta0: float) -> float:
    return max(math.nextafter(delta - delta0, 0.0), 5e-324) if delta0 else delta


def _renyi(curve: ConvertibleCurve) -> Callable[[Floats], Floats]:
    """Return the Renyi bound of a curve that is not perfectly private.

    It is rounded up where it may have underflowed.
    """
    return lambda orders: curve.rdp(orders) + _UNDERFLOW * orders


def _composable(curve: ConvertibleCurve) -> Losses | None:
    """Return the plan's privacy losses if their composition is worth computing, else None.

    A closed-form profile is as good, unless it is a minimum of profiles, which the pair's convex
    hull beats.
    """
    curve_losses = curve.losses()
    if curve_losses is None or not can_compose(losses := coarsen_losses(curve_losses)):
        return None
    hulled = any(isinstance(loss, Hull) for _, loss in losses.steps)
    return losses if hulled or curve.profile(0.0) is None else None


def _failing(curve: ConvertibleCurve) -> Losses | None:
    """Return the plan's losses if its failures are part of them, else None."""
    if curve.delta0 == 0 or (losses := _composable(curve)) is None or losses.added >= curve.delta0:
        return None
    return losses if sum(count for count, _ in losses.steps) > 1 else None


def _recursion(curve: ConvertibleCurve, delta: float) -> tuple[Solution, float] | None:
    """Return the optimal recursion and the probability of bad events outside it; None if not tried.

    The recursion holds for every order of the steps.
    """
    losses = curve.losses()
    if losses is None or losses.added >= delta:
        return None
    solution = Solution.from_ranges(losses, _renyi(curve), curve.table_orders)
    return None if solution is None else (solution, losses.added)


def _closed_form(curve: ConvertibleCurve) -> Callable[[float], float] | None:
    """Return the curve's profile, or None if it has none."""
    if curve.profile(0.0) is None:
        return None

    pure = curve.core_epsilon

    def profile(epsilon: float) -> float:
        value = curve.profile(epsilon)
        least = LEAST_DELTA if epsilon < pure else 0.0
        return 1.0 if value is None else max(least, value)

    return profile
