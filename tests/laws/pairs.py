"""Pairs of laws that attain what curves promise, and their delta by other means than the curves':
the plain reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

Floats = np.ndarray[Any, Any]
Delta = Callable[[float], float]
"""delta at an epsilon, in nats."""


def response(epsilon: float, failure: float = 0.0) -> tuple[Floats, Floats]:
    """Randomized response: the bit, told with odds of epsilon; with the failure, its value is given
    away first and last.
    """
    high, low = (1 - failure) / (1 + math.exp(-epsilon)), (1 - failure) / (1 + math.exp(epsilon))
    p = np.array([failure, high, low, 0.0] if failure else [high, low])
    return p, np.array([0.0, low, high, failure]) if failure else p[::-1]


def spanning(epsilon: float, t: float) -> tuple[Floats, Floats]:
    """The pair on two points with log-ratios of t and t - epsilon."""
    q = -math.expm1(t - epsilon) / (math.exp(t) - math.exp(t - epsilon))
    second = np.array([q, 1 - q])
    return second * np.exp([t, t - epsilon]), second


def delta(p: Any, q: Any, epsilon: float) -> float:
    """The hockey-stick divergence."""
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0).sum())


def renyi(p: Any, q: Any, order: float) -> float:
    """The Renyi divergence, where both laws put something."""
    p, q = np.asarray(p)[p + q > 0], np.asarray(q)[p + q > 0]
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


def of_pair(p: Any, q: Any) -> Delta:
    """That of two laws on the same outcomes."""
    return lambda epsilon: delta(p, q, epsilon)


def of_densities(p: Callable[[Floats], Floats], q: Callable[[Floats], Floats]) -> Delta:
    """That of two laws of a real number."""
    at = np.linspace(-40.0, 40.0, 200_001)
    return lambda epsilon: float(np.trapezoid(np.maximum(p(at) - math.exp(epsilon) * q(at), 0), at))


def gaussian(mu: float) -> Delta:
    """That of a Gaussian shift."""
    return lambda epsilon: float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


def laplace(epsilon0: float) -> Delta:
    """That of a Laplace shift."""
    return of_densities(
        lambda x: np.exp(-np.abs(x)) / 2, lambda x: np.exp(-np.abs(x + epsilon0)) / 2
    )


def sampled_gaussian(mu: float, rate: float) -> Delta:
    """That of a Gaussian shift of a record that is in a sample at this rate, the worse way
    round.
    """

    def mixed(x: Floats) -> Floats:
        return np.asarray((1 - rate) * norm.pdf(x) + rate * norm.pdf(x - mu))

    sides = of_densities(mixed, norm.pdf), of_densities(norm.pdf, mixed)
    return lambda epsilon: max(side(epsilon) for side in sides)


def of_range(epsilon0: float) -> Delta:
    """The worst of all pairs on two points whose log-ratios are epsilon0 apart."""
    return lambda epsilon: (
        -minimize_scalar(
            lambda t: -delta(*spanning(epsilon0, t), epsilon),
            bounds=(epsilon, epsilon0),
            method="bounded",
            options={"xatol": 1e-10},
        ).fun
    )
