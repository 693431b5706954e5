"""Points (epsilon, delta) of a curve's guarantee, and a curve from such points."""

from __future__ import annotations

import math

import numpy as np

from accounting.conversion.bounds import best_delta
from accounting.curves import ApproxDP, Curve, PureDP
from accounting.curves.profile_table import ProfileTable
from accounting.errors import NoEquivalent

_POINTS = 48
_LEAST_DELTA = 1e-18  # beyond delta0: smaller ones make the table longer, hardly tighter
_MOST_EPSILON, _MOST_TABLED = 100.0, 500.0

Points = list[tuple[float, float]]


def sampled_profile(curve: Curve) -> Points:
    """(epsilon, delta)-DP pairs of `curve`, epsilons increasing from 0; the last is the pure epsilon where there is one."""
    end = curve.core_epsilon if math.isfinite(curve.core_epsilon) else _far(curve)
    if end == 0:
        return [(0.0, curve.delta0)]
    epsilons = [0.0, *np.geomspace(end / 1000, end, _POINTS).tolist()]
    epsilons[-1] = end
    return [(epsilon, best_delta(curve, epsilon).value) for epsilon in epsilons]


def as_table(points: Points, name: str) -> Curve:
    """The curve that guarantees all `points`: dominated ones and deltas of 1 dropped.

    Raises:
        NoEquivalent: no point has a delta below 1.
    """
    kept: Points = []
    for epsilon, delta in sorted(points):
        if delta < 1 and epsilon <= _MOST_TABLED and (not kept or (delta < kept[-1][1] and epsilon > kept[-1][0])):
            kept.append((epsilon, delta))
    if not kept:
        raise NoEquivalent(f"{name} has no guarantee left below delta = 1: lower the cost of the mechanism first")
    if len(kept) == 1:
        epsilon, delta = kept[0]
        return ApproxDP(epsilon=epsilon, delta=delta) if delta > 0 else PureDP(epsilon=epsilon)
    return ProfileTable(epsilons=[e for e, _ in kept], deltas=[d for _, d in kept])


def _far(curve: Curve) -> float:
    """An epsilon at which delta is its bad event and little more."""
    epsilon = 0.01
    while epsilon < _MOST_EPSILON and best_delta(curve, epsilon).value > curve.delta0 + _LEAST_DELTA:
        epsilon *= 1.25
    return min(epsilon, _MOST_EPSILON)
