"""What a recursion finds, delta on a grid; and for equal bounded-range steps, among some others in any order, quickly found."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accounting.conversion.adaptive.operators import NARROWEST, WIDEST, RangeOperator, extended, pair_operator
from accounting.conversion.pld.banded import Atoms, Banded
from accounting.conversion.pld.grid import condensed
from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Floats, Loss, Losses
from accounting.conversion.pld.normal import Normal
from accounting.conversion.renyi import rdp_to_epsilon

_CELLS = (16, 8)  # of the grid in one range: the variance of the loss grows by a share of 2/(3 cells^2)
_QUICK, _MOST = 3e6, 1.5e7  # numbers worked on: some hundredths of a second, and half a second
_MOST_PAIRS, _PRODUCTS = 16, 6e8  # steps beside the ranges, and multiplications for all of them: half a second
_LEAST_SCALE = 1e-100  # of a step beside the ranges: squares are to stay floats
_UP = 1 + 2.0**-50
_LEAST = 1e-12  # the least delta that the grid is made for
_BEYOND = 1e-4  # share of it that is left beyond the grid
_TAIL = 1e-9  # share of it that cut-off tails may add in all


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


def range_solution(losses: Losses, rdp: Callable[[Floats], Floats], orders: tuple[float, ...]) -> Solution | None:
    """Upper bounds on the plan's delta without its bad events (Theorem D6); None where the recursion is not tried.

    Args:
        losses: of the steps, each counted; those of bounded range must have one width.
        rdp, orders: the Renyi bound of all steps together and where it is tabulated; they choose the grid, and prove nothing.
    """
    ranges, pairs = _parted(condensed(losses))
    fixed = all(isinstance(loss, Atoms | Banded | Hull | Normal) and loss.scale > _LEAST_SCALE for _, loss in pairs)
    if len(ranges) != 1 or ranges[0][0] < 2 or not NARROWEST <= ranges[0][1] <= WIDEST or not fixed:
        return None
    (count, width), reach = ranges[0], rdp_to_epsilon(rdp, _LEAST * _BEYOND, orders).value
    times, widest = sum(n for n, _ in pairs), max((loss.reach for _, loss in pairs), default=0.0)
    sizes = [(cells, cells * reach / width, times * 2 * cells * widest / width) for cells in _CELLS]
    most = {cells: _QUICK if cells > _CELLS[-1] else _MOST for cells in _CELLS}
    bearable = (n for n, size, more in sizes if count * 2.0 * n * size <= most[n] and more * size <= _PRODUCTS)
    if times > _MOST_PAIRS or (cells := next(bearable, None)) is None:
        return None
    return _solved(count, width, tuple(pairs), cells, math.ceil(cells * reach / width) + 1)


def _parted(losses: Losses) -> tuple[list[tuple[int, float]], list[tuple[int, Loss]]]:
    ranges = [(n, loss.width) for n, loss in losses.steps if isinstance(loss, Banded) and loss.is_range]
    rest = [(n, loss) for n, loss in losses.steps if not (isinstance(loss, Banded) and loss.is_range)]
    # Gaussians compose to one (C3); rounded up.
    return ranges, [(1, Normal(loss.mu * math.sqrt(n) * _UP)) if isinstance(loss, Normal) else (n, loss) for n, loss in rest]


@functools.lru_cache(maxsize=512)
def _solved(count: int, width: float, pairs: tuple[tuple[int, Loss], ...], cells: int, size: int) -> Solution:
    interval, values = width / cells, np.zeros(size)
    step = RangeOperator(width, interval)
    for _ in range(count):
        values = step.upper(values)
    for times, loss in pairs:
        fixed = pair_operator(loss, interval, _LEAST * _TAIL / _MOST_PAIRS, both=False)
        for _ in range(times):
            values = fixed.upper(values)
    return Solution(interval, values, np.zeros(1))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high
