"""Least Gaussian shift that covers a pure, bounded-range or Laplace guarantee. Theorem F9.

Shifts are squared and rounded up.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from accounting.numbers import FEW_UP

_FAR = 1300.0  # nats: beyond, tails leave the floats, and R(z) <= exp(-z^2/2)/2 gives the bound
_ROOT_HALF, _ROOT_HALF_PI = math.sqrt(0.5), math.sqrt(math.pi / 2)


def pure_mu_squared(epsilon: float) -> float:
    """Squared shift (2 z)^2 with P[Z > z] = 1/(1 + e^epsilon), attained by randomized response."""
    if epsilon > _FAR / 2:
        return 8 * epsilon * FEW_UP
    return _squared_width(math.tanh(epsilon / 2), 1 / (1 + math.exp(epsilon)))


def laplace_mu_squared(epsilon: float) -> float:
    """Squared shift (2 z)^2 with P[Z > z] = exp(-epsilon/2)/2, attained by Laplace noise."""
    if epsilon > _FAR:
        return 4 * epsilon * FEW_UP
    return _squared_width(-math.expm1(-epsilon / 2), math.exp(-epsilon / 2) / 2)


def _squared_width(central: float, tail: float) -> float:
    """Return (2 z)^2 for the z with P[|Z| <= z] = central and P[Z > z] = tail.

    Both probabilities are accurate to a few ulps.
    """
    z = central * _ROOT_HALF_PI if central < 0.01 else -NormalDist().inv_cdf(tail)
    for _ in range(3):
        if central < 0.5:
            z += (central - math.erf(z * _ROOT_HALF)) * _ROOT_HALF_PI * math.exp(z * z / 2)
        else:
            reached = math.erfc(z * _ROOT_HALF) / 2
            z += math.log(reached / tail) * reached * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
    return 4 * z * z * FEW_UP
