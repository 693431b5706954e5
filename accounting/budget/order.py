"""What an (epsilon, delta) filter adds up, Renyi divergence of one order or mu^2, and which is chosen. Theorems F2, F4 and F9."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.curves import Curve, GaussianDP
from accounting.decimal_sum import exact, float_down

Floats = NDArray[np.float64]
Order = float | Literal["inf", "gaussian"]

# Own contexts: the caller's may have any precision.
_PRECISE = Context(prec=60)
_DOWN = Context(prec=400, rounding=ROUND_FLOOR)
# Decimal's ln is correctly rounded to 60 digits; this covers the few operations around it.
_GUARD = Decimal("1e-40")
_ORDERS = 1 + np.geomspace(1e-4, 1e18, 177)
_ROUNDS, _POINTS = 4, 17
_MOST_MU = 2.0**13  # mu^2 beyond 9e6 is more than a price counts


def halved(delta: float) -> float:
    """Half of `delta`, never above it in decimal."""
    return float_down(_DOWN.divide(exact(delta), Decimal(2)))


def less(total: float, part: float) -> Decimal:
    """`total` - `part`, both as the decimals they print as, rounded down."""
    return _DOWN.subtract(exact(total), exact(part))


@lru_cache(maxsize=256)
def renyi_capacity(epsilon: float, delta: Decimal, order: float) -> Decimal:
    """The largest Renyi divergence of `order` that gives (epsilon, delta)-DP, rounded down; negative if there is none.

    Proposition 12 of Canonne, Kamath and Steinke (2020), solved for the divergence. Theorem F4.
    """
    a, one = exact(order), Decimal(1)
    gain = _PRECISE.ln(_PRECISE.subtract(one, _PRECISE.divide(one, a)))
    price = _PRECISE.divide(_PRECISE.ln(_PRECISE.multiply(delta, a)), _PRECISE.subtract(a, one))
    return _PRECISE.subtract(_PRECISE.add(_PRECISE.subtract(exact(epsilon), gain), price), _GUARD)


@lru_cache(maxsize=256)
def gaussian_capacity(epsilon: float, delta: float) -> Decimal:
    """The square of the largest mu for which GaussianDP(mu) is (epsilon, delta)-DP, rounded down; 0 if none is. Theorem F9."""
    low, high = 0.0, 1.0
    while high < _MOST_MU and GaussianDP(mu=high).profile(epsilon) <= delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if GaussianDP(mu=middle).profile(epsilon) <= delta else (low, middle)
    return _DOWN.multiply(Decimal(low), Decimal(low))


def waiting_cost(delta: float, order: float) -> Decimal:
    """ln(1/delta)/(order - 1): what a statement about all moments at once costs; rounded up. Theorem F6."""
    price = _PRECISE.divide(_PRECISE.ln(exact(delta)), _PRECISE.subtract(exact(order), Decimal(1)))
    return _PRECISE.subtract(_GUARD, price)


def default_order(epsilon: float, delta: float) -> Order:
    """The order that admits the most zCDP, four digits; "inf" if none admits any. It depends on the budget alone."""
    order, most = _argmax(lambda orders: _capacities(epsilon, delta, orders) / orders, ())
    return order if most > 0 and renyi_capacity(epsilon, exact(delta), order) > 0 else "inf"


def workload(epsilon: float, delta: float, curve: Curve) -> tuple[Order, int]:
    """At which order (epsilon, delta) pays for most charges of `curve`, bad events included, and for how many."""

    def at(count: float) -> tuple[Order, float]:
        left = delta - count * curve.delta0
        renyi, gaussian = _workload_order(epsilon, left, curve), float(gaussian_capacity(epsilon, left)) / curve.mu_squared
        return ("gaussian", gaussian) if gaussian > renyi[1] else renyi

    most = at(0)[1]
    count = most if curve.delta0 == 0 else _crossing(lambda n: at(n)[1], min(most, 0.999 * delta / curve.delta0))
    return at(int(count))[0], int(count)


def _crossing(falling: Callable[[float], float], most: float) -> float:
    """The greatest n in [0, most] with falling(n) >= n, to one part in 10^4 or 1/8."""
    if falling(most) >= most:
        return most
    low, high = 0.0, most
    while high - low > max(0.125, 1e-4 * high):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) >= middle else (low, middle)
    return low


def _workload_order(epsilon: float, delta: float, curve: Curve) -> tuple[float, float]:
    def repetitions(orders: Floats) -> Floats:
        cost = curve.rdp(orders)
        return np.divide(_capacities(epsilon, delta, orders), cost, out=np.zeros_like(cost), where=cost > 0)

    return _argmax(repetitions, curve.table_orders)


def rounded_down(value: Decimal, unit: Decimal) -> int:
    """`value` in whole units, rounded down, at least 0."""
    return max(0, int(_DOWN.divide(value, unit).to_integral_value(rounding=ROUND_FLOOR, context=_DOWN)))


def _capacities(epsilon: float, delta: float, orders: Floats) -> Floats:
    """`renyi_capacity` in floating point: it decides which order is chosen, never what that order may spend."""
    return np.maximum(0.0, epsilon - np.log1p(-1 / orders) + (math.log(delta) + np.log(orders)) / (orders - 1))


def _argmax(score: Callable[[Floats], Floats], table: tuple[float, ...]) -> tuple[float, float]:
    """The order of the greatest score, among the tabulated ones if there are any, and that score."""
    orders = np.array(table) if table else _ORDERS
    for _ in range(0 if table else _ROUNDS):
        top = int(np.argmax(score(orders)))
        low, high = orders[max(top - 1, 0)], orders[min(top + 1, len(orders) - 1)]
        orders = 1 + np.geomspace(low - 1, high - 1, _POINTS)
    scores = score(orders)
    best = float(orders[int(np.argmax(scores))])
    return (best if table else float(f"{1 + float(f'{best - 1:.4g}'):.15g}")), float(np.max(scores))
