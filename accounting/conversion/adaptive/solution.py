"""What the dynamic programme found: delta on a grid, and epsilons and deltas read off it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accounting.conversion.adaptive.operators import extended
from accounting.conversion.pld.loss import Floats


@dataclass(frozen=True)
class Solution:
    """Bounds on delta_0 at g = 0, h, 2h, ... without the plan's bad events."""

    interval: float
    upper: Floats
    lower: Floats

    def upper_at(self, epsilon: float) -> float:
        """Upper bound at one epsilon >= 0: the chord, as delta_0 is convex in e^epsilon."""
        i = math.floor(epsilon / self.interval)
        if i + 1 >= len(self.upper):
            return float(self.upper[-1])
        share = math.expm1(max(0.0, epsilon - i * self.interval)) / math.expm1(self.interval)
        return float(self.upper[i] + (self.upper[i + 1] - self.upper[i]) * min(1.0, share)) * (1 + 1e-12)

    def lower_at(self, epsilon: float) -> float:
        """Lower bound at one epsilon: the next entry, or a chord of neighbouring cells extended, which convexity keeps below."""
        i = math.floor(epsilon / self.interval)
        if i + 2 >= len(self.lower):
            return 0.0
        x, a, b, c, d = (math.exp(v - epsilon) for v in (epsilon, *((i + j) * self.interval for j in (-1, 0, 1, 2))))
        before = extended(self.upper, self.interval, 1, 0, 0.0)[i]
        left = self.lower[i] + (self.lower[i] - before) * (x - b) / (b - a)
        right = self.lower[i + 1] + (self.lower[i + 1] - self.upper[i + 2]) * (c - x) / (d - c)
        return max(0.0, float(max(self.lower[i + 1], left, right)) * (1 - 1e-12))

    def epsilon_upper(self, delta: float) -> float:
        """Smallest epsilon that is proved for `delta`; inf if the grid ends before."""
        reached = np.flatnonzero(~(self.upper * (1 + 1e-12) <= delta))  # NaN proves nothing
        if len(reached) == 0:
            return 0.0
        if reached[-1] + 1 == len(self.upper):
            return math.inf
        return _bisect(lambda y: not self.upper_at(y) <= delta, *(float(reached[-1] + j) * self.interval for j in (0, 1)))[1]

    def epsilon_lower(self, delta: float) -> float:
        """Largest epsilon for which `delta` is proved too small; 0 if there is none."""
        reached = np.flatnonzero(self.lower > delta)
        if len(reached) == 0:
            return 0.0
        return _bisect(lambda y: self.lower_at(y) > delta, *(float(reached[-1] + j) * self.interval for j in (0, 1)))[0]


def _bisect(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high
