"""Conversion of Renyi bounds to (epsilon, delta), with guards that dp-accounting lacks.

Searches try thousands of orders by Proposition 12 of Canonne, Kamath and Steinke, vectorized. Tests
compare the formula with dp-accounting's own `compute_epsilon`, which is among the figures that an
`Accountant` reports (`convert.reported`). That function returns 0 for a NaN bound and logs a
warning for a negative one, whereas here both are errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accounting.errors import InvalidArgument, InvalidCurve
from accounting.numbers import FEW_UP, SUM_UP, Floats

# dp-accounting ignores orders up to 1.01 in Proposition 12 of Canonne, Kamath and Steinke.
_LEAST, _MOST = 1.0101e-2, 1e10
_COARSE, _TABLE = 1 + np.geomspace(_LEAST, _MOST, 25), 1 + np.geomspace(_LEAST, _MOST, 49)
# An even number of inner points: the best one so far is then not among them, so that brackets keep
# shrinking.
_FINE_POINTS, _ROUNDS, _VERTICES = 8, 3, 3


class _Conversion(NamedTuple):
    """An epsilon or a delta, its Renyi order, and True if that order is the last one tried."""

    value: float
    order: float
    at_edge: bool


def check_delta(delta: float) -> float:
    """Return `delta` as a float.

    Raises:
        InvalidArgument: it is not in [0, 1).
    """
    value = _number("delta", delta)
    if not 0 <= value < 1:
        raise InvalidArgument(
            f"delta={value!r} must lie in [0, 1). Choose far less than one over the number of users"
        )
    return value


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float.

    Raises:
        InvalidArgument: it is not a finite number >= 0.
    """
    value = _number("epsilon", epsilon)
    if not 0 <= value < math.inf:
        raise InvalidArgument(f"epsilon={value!r} must be a finite number >= 0, in nats")
    return value


def rdp_to_epsilon(
    rdp: Callable[[Floats], Floats], delta: float, table_orders: tuple[float, ...] = ()
) -> _Conversion:
    """Return the smallest epsilon over the orders.

    Any order gives a valid bound, so the search decides tightness, never soundness.

    Args:
        rdp: maps Renyi orders to bounds in nats.
        delta: in (0, 1).
        table_orders: orders at which the bound is tabulated; empty for a closed form.
    """
    return _best(rdp, table_orders, lambda a, r: _epsilon_at(a, r, delta), FEW_UP)


def rdp_to_delta(
    rdp: Callable[[Floats], Floats], epsilon: float, table_orders: tuple[float, ...] = ()
) -> _Conversion:
    """Return the smallest delta over the orders, at most 1.

    Args:
        rdp: maps Renyi orders to bounds in nats.
        epsilon: nats, >= 0.
        table_orders: orders at which the bound is tabulated; empty for a closed form.
    """

    # Proposition 12 again, for the logarithm of delta: dp-accounting's compute_delta fails on
    # bounds below 1e-16.
    def log_delta(orders: Floats, bounds: Floats) -> Floats:
        logs = (orders - 1) * (bounds - epsilon + np.log1p(-1 / orders)) - np.log(orders)
        return np.where(np.isinf(bounds), 0.0, np.where(bounds > 0, logs, -np.inf))

    best = _best(rdp, table_orders, log_delta, 1.0)
    # An error of one part in 10^13 in epsilon is worth (order - 1) times as much in ln(delta).
    pad = 1e-13 * (1 + best.order * (1 + epsilon))
    result = _Conversion(math.exp(min(0.0, best.value + pad)), best.order, best.at_edge)
    # sqrt(1 - e^-KL) bounds every divergence (Bretagnolle and Huber); the least order bounds the
    # Kullback-Leibler divergence.
    bound = float(_check_bound(rdp(_COARSE[:1]))[0])
    variation = min(1.0, math.sqrt(-math.expm1(-bound)) * FEW_UP)
    return (
        _Conversion(variation, float(_COARSE[0]), at_edge=False)
        if variation < result.value
        else result
    )


def invert_profile(profile: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon >= 0 with profile(epsilon) <= delta; inf if none is below 1e9.

    It is rounded up, by one part in 10^12. `profile` must be non-increasing.
    """
    if profile(0.0) <= delta:
        return 0.0
    high = 1e-12
    while profile(high) > delta:
        high *= 4
        if high > 1e9:
            return math.inf
    low = high / 4 if high > 1e-12 else 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if not low < middle < high:  # neighbors among the subnormal floats
            break
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidArgument(f"{name} must be a real number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidArgument(
            f"{name} is larger than the largest float. Pass a finite number"
        ) from None
    if math.isnan(number):
        raise InvalidArgument(f"{name}=nan must be a real number")
    return number


def _best(
    rdp: Callable[[Floats], Floats],
    table_orders: tuple[float, ...],
    convert: Callable[[Floats, Floats], Floats],
    outward: float,
) -> _Conversion:
    orders = np.unique(
        np.concatenate(
            [_TABLE if table_orders else _COARSE, [a for a in table_orders if a > 1 + _LEAST]]
        )
    )
    values = _convert(rdp, orders, convert)
    finite = np.flatnonzero(np.isfinite(values))
    edge = int(np.argmin(values)) in (0, int(finite[-1]) if len(finite) else len(values) - 1)
    for propose in () if table_orders else (_nearby_orders,) * _ROUNDS + (_vertex,) * _VERTICES:
        fine = propose(orders, values)
        orders, values = np.append(orders, fine), np.append(values, _convert(rdp, fine, convert))
        rank = np.argsort(orders, kind="stable")
        orders, values = orders[rank], values[rank]
    best = int(np.argmin(values))
    return _Conversion(float(values[best]) * outward, float(orders[best]), edge)


def _nearby_orders(orders: Floats, values: Floats) -> Floats:
    """Orders between the neighbors of the best one."""
    best = int(np.argmin(values))
    ends = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
    return 1 + np.geomspace(ends[0] - 1, ends[1] - 1, _FINE_POINTS)[1:-1]


def _vertex(orders: Floats, values: Floats) -> Floats:
    """Return the order at which a parabola in ln(order - 1) is least.

    The parabola passes through the best value and its neighbors.
    """
    best = min(max(int(np.argmin(values)), 1), len(orders) - 2)
    x, y = np.log(orders[best - 1 : best + 2] - 1), values[best - 1 : best + 2]
    with np.errstate(all="ignore"):
        left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
        place = (x[0] + x[1]) / 2 - left * (x[2] - x[0]) / 2 / (right - left)
    return 1 + np.exp([min(max(place, x[0]), x[2])]) if math.isfinite(place) else orders[:0]


def _convert(
    rdp: Callable[[Floats], Floats], orders: Floats, convert: Callable[[Floats, Floats], Floats]
) -> Floats:
    with np.errstate(all="ignore"):
        return convert(orders, _check_bound(rdp(orders)))


def _check_bound(bound: Floats) -> Floats:
    if np.any(np.isnan(bound)) or np.any(bound < 0):
        raise InvalidCurve(
            "a Renyi bound is NaN or negative, which is not a guarantee. Report the curve that"
            " produced it"
        )
    return bound


def _epsilon_at(orders: Floats, bounds: Floats, delta: float) -> Floats:
    """Epsilon by Proposition 12, rounded up; 0 if delta alone covers the divergence.

    The latter is the inequality of Bretagnolle and Huber.
    """
    epsilons = bounds + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    covered = delta**2 * (1 - 1e-15) + np.expm1(-bounds) > 0
    padded = epsilons + _pad(orders, bounds, delta)
    return np.where(np.isinf(bounds), np.inf, np.where(covered, 0.0, np.maximum(padded, 0.0)))


def _pad(
    orders: Floats | np.float64, bounds: Floats | np.float64, delta: float
) -> Floats | np.float64:
    # Three terms are added, of either sign: a few ulps of each.
    return 1e-15 * (bounds + 1 / orders + (abs(math.log(delta)) + np.log(orders)) / (orders - 1))


RHO_ORDERS = np.geomspace(1e-6, 1e12, 240)  # each less 1


def largest_over_order(divergences: Callable[[Floats], Floats], epsilon: float) -> float:
    """Return a zCDP parameter of a pure `epsilon` guarantee, from Renyi bounds. Theorem A6.

    It is the largest Renyi divergence over its order, from bounds at some orders.

    Between two orders the chord bounds it, because divergence times (order - 1) is convex in the
    order.
    """
    x, values = RHO_ORDERS, divergences(1 + RHO_ORDERS)
    moments = x * values
    slope = np.diff(moments) / np.diff(x)
    start = moments[:-1] - slope * x[:-1]  # of the chord, at order 1
    with np.errstate(invalid="ignore", divide="ignore"):
        highest = np.where(start < 0, (np.sqrt(start * (start - slope)) - start) / slope, 0.0)
    orders = np.clip(highest, x[:-1], x[1:])
    inside = float(((slope * orders + start) / (orders * (1 + orders))).max()) * SUM_UP
    return max(float(values[0]), inside, epsilon / float(x[-1]))


# sinh(x) sinh(y) stays far from overflow below this sum of arguments.
_DIRECT = 60.0


def response_divergence(parameter: Floats, orders: Floats) -> Floats:
    """Renyi divergence of randomized response with pure epsilon > 0 (C1), by broadcasting."""
    e, a = np.broadcast_arrays(parameter, orders)
    small = a * e < _DIRECT
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = 2 * np.sinh(a * e / 2) * np.sinh((a - 1) * e / 2) / np.cosh(e / 2)
        near = np.log1p(ratio) / (a - 1)
    far = e + (np.log1p(np.exp((1 - 2 * a) * e)) - np.log1p(np.exp(-e))) / (a - 1)
    return np.where(small, near, far)
