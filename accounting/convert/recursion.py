"""Recursion over steps on a grid, rounded up (Theorem D2), with a short form for equal ranges.

A value array holds delta_j at g = 0, h, 2h, ... ; values at g < 0 follow from delta(-g) = 1 - e^-g
+ e^-g delta(g), because every class of pairs here is symmetric. Beyond the last entry, delta_j is
at most that entry. A step maps bounds on delta_j to bounds on delta_{j-1}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from accounting.convert.pld.compose import coarsen_losses
from accounting.convert.pld.hull import Hull
from accounting.convert.pld.loss import Atoms, Banded, Loss, Losses, Normal
from accounting.convert.renyi import rdp_to_epsilon
from accounting.numbers import ROOT_UP, SUM_UP, Floats, Integers

# A step costs a few roundings, each relative to positive terms.
UP = 1 + 2.0**-42
_CACHED = 1 << 14  # numbers that are worked on at once
# nats of one range: products of e^width and e^-width stay floats up to three times as much
WIDEST = 100.0
_NARROWEST = 1e-300  # below, one over a cell leaves the floats
# of the grid in one range: the variance of the loss grows by a share of 2/(3 cells^2)
_CELLS = (16, 8)
_QUICK, _MOST = 3e6, 1.5e7  # numbers worked on: some hundredths of a second, and half a second
# steps beside the ranges, and multiplications for all of them: half a second
_MOST_PAIRS, _PRODUCTS = 16, 6e8
_LEAST_SCALE = 1e-100  # of a step beside the ranges: squares are to stay floats
_LEAST = 1e-12  # the least delta that the grid is made for
_BEYOND = 1e-4  # share of it that is left beyond the grid
_TAIL = 1e-9  # share of it that cut-off tails may add in all


def _pad(values: Floats, interval: float, left: int, right: int) -> Floats:
    """Return `values` with `left` entries before and `right` entries after them."""
    padded = np.concatenate([values, np.full(right, values[-1])])
    reach = np.concatenate([padded, np.full(max(0, left + 1 - len(padded)), values[-1])])[left:0:-1]
    g = np.arange(left, 0, -1) * interval
    return np.concatenate([-np.expm1(-g) + np.exp(-g) * reach, padded])


class _Pieces(NamedTuple):
    """The losses t between neighboring breakpoints, one piece a row.

    Within a piece, g - t stays in one cell of the grid, and so does g - t + width. In u = e^-t the
    piece runs from `start` to start + length. The first cell starts `back` + 1 entries before g, at
    u = start - gap1; the second ends `forward` entries after g and starts at u = start - gap2. The
    length of a cell in u is 1/slope, and `weight` is p at u = start. All but `back` and `forward`
    are columns.
    """

    back: Integers
    forward: Integers
    start: Floats
    length: Floats
    gap1: Floats
    gap2: Floats
    slope1: Floats
    slope2: Floats
    weight: Floats


@dataclass(frozen=True)
class RangeStep:
    """A bounded-range step, whose pair the adversary chooses.

    The adversary picks t in [0, width]; the loss is t with probability p_t, else t - width.
    """

    width: float
    interval: float

    def upper(self, values: Floats) -> Floats:
        """Return bounds (n,) on delta_{j-1} from bounds (n,) on delta_j."""
        zero = math.ceil(self.width / self.interval) + 2
        padded = _pad(values, self.interval, zero, zero)
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(values))
        best, count = values.copy(), max(1, _CACHED // len(values))
        for first in range(0, len(self._pieces.back), count):
            block = _Pieces._make(part[first : first + count] for part in self._pieces)
            np.maximum(best, self._piece_maxima(windows, block, zero).max(axis=0), out=best)
        return np.minimum(1.0, best * UP)

    @cached_property
    def _pieces(self) -> _Pieces:
        return _pieces(self.width, self.interval)

    def _piece_maxima(self, windows: Floats, piece: _Pieces, zero: int) -> Floats:
        """Return the exact maximum over each piece. Theorem D2.

        The mean over a piece is const - k1 u - k2/u.
        """
        low1, high1 = (windows[zero - piece.back - s] for s in (1, 0))
        low2, high2 = (windows[zero + piece.forward - s] for s in (1, 0))
        slope1, slope2 = (high1 - low1) * piece.slope1, (high2 - low2) * piece.slope2
        a, b = -1 / math.expm1(-self.width), 1 / math.expm1(self.width)
        first, second = low1 + slope1 * piece.gap1, low2 + slope2 * piece.gap2
        k1 = b * slope2 - a * slope1
        k2 = b * (first - second - (slope1 - slope2) * piece.start)
        with np.errstate(all="ignore"):
            place = np.sqrt(np.maximum(k2, 0.0) / k1) - piece.start
        # Where k1 or k2 is not positive, the maximum is at an end: fmin reads nan as the far one,
        # the near one is tried as well.
        place = np.maximum(np.fmin(place, piece.length), 0.0)
        weight = piece.weight + b * place / ((piece.start + place) * piece.start)
        inside = weight * (first + slope1 * place) + (1 - weight) * (second + slope2 * place)
        return np.maximum(inside, piece.weight * first + (1 - piece.weight) * second)


def _pieces(width: float, interval: float) -> _Pieces:
    steps = np.arange(math.ceil(width / interval) + 1) * interval
    breaks = np.unique(
        np.concatenate([[0.0, width], steps[steps < width], width - steps[steps < width]])
    )
    # Breakpoints that agree up to rounding are one: the sliver between them holds nothing that its
    # ends do not.
    breaks = breaks[np.concatenate([[True], np.diff(breaks) > 1e-9 * interval])]
    breaks[-1] = width
    t0, t1 = breaks[:-1, None], breaks[1:, None]
    middle = (t0 + t1) / 2
    back, forward = np.floor(middle / interval), np.ceil((width - middle) / interval)
    start, length = np.exp(-t1), -np.exp(-t0) * np.expm1(t0 - t1)
    low1, low2 = (back + 1) * interval, width - (forward - 1) * interval
    cell = -math.expm1(-interval)
    return _Pieces(
        back[:, 0].astype(np.int64),
        forward[:, 0].astype(np.int64),
        start,
        length,
        gap1=-start * np.expm1(t1 - low1),
        gap2=-start * np.expm1(t1 - low2),
        slope1=np.exp(back * interval) / cell,
        slope2=np.exp(low2 - interval) / cell,
        weight=np.expm1(t1 - width) / math.expm1(-width),
    )


@dataclass(frozen=True)
class PairStep:
    """A step with one dominating pair.

    Its bound is delta_{j-1}(g) = E delta_j(g - L), with L rounded up.
    """

    interval: float
    low: int
    mass: Floats
    infinity: float

    @staticmethod
    def from_loss(loss: Loss, interval: float, negligible: float) -> PairStep:
        """Return the step of a loss whose tails below `negligible` are cut off.

        The lower tail is moved up, and the upper one counted as infinite.
        """
        pmf = loss.pmf(interval, negligible)
        below, above = np.cumsum(pmf.mass), np.cumsum(pmf.mass[::-1])
        first = int(np.searchsorted(below, negligible, side="right"))
        last = max(first, len(below) - 1 - int(np.searchsorted(above, negligible, side="right")))
        mass = pmf.mass[first : last + 1].copy()
        mass[0] += float(np.sum(pmf.mass[:first]))
        cut = float(np.sum(pmf.mass[last + 1 :])) * (1 + 1e-9)
        return PairStep(interval, pmf.low + first, mass, pmf.infinity + cut)

    def upper(self, values: Floats) -> Floats:
        """Return bounds (n,) on delta_{j-1} from bounds (n,) on delta_j."""
        high = self.low + len(self.mass) - 1
        padded = _pad(values, self.interval, max(high, 0), max(-self.low, 0))
        # Entry i needs g - L at i - high .. i - low, which starts max(high, 0) - high entries into
        # the padded array.
        start = max(high, 0) - high
        mean = np.convolve(
            padded[start : start + len(values) + len(self.mass) - 1], self.mass, mode="valid"
        )
        return np.minimum(1.0, (mean + self.infinity) * UP)


@dataclass(frozen=True)
class Solution:
    """The upper bounds on delta_0 at g = 0, h, 2h, ... without the plan's bad events."""

    interval: float
    upper: Floats

    @staticmethod
    def from_ranges(
        losses: Losses, rdp: Callable[[Floats], Floats], orders: tuple[float, ...]
    ) -> Solution | None:
        """Return upper bounds on delta without the plan's bad events, or None. Theorem D6.

        Args:
            losses: losses of the steps, with counts; all bounded ranges must have one width.
            rdp, orders: the Renyi bound of all steps together, and the orders at which it is
                tabulated. They only choose the grid.
        """
        ranges, pairs = _split(coarsen_losses(losses))
        fixed = all(
            isinstance(loss, Atoms | Banded | Hull | Normal) and loss.scale > _LEAST_SCALE
            for _, loss in pairs
        )
        if (
            len(ranges) != 1
            or ranges[0][0] < 2
            or not _NARROWEST <= ranges[0][1] <= WIDEST
            or not fixed
        ):
            return None
        (count, width), reach = ranges[0], rdp_to_epsilon(rdp, _LEAST * _BEYOND, orders).value
        times, widest = (
            sum(n for n, _ in pairs),
            max((loss.reach for _, loss in pairs), default=0.0),
        )
        sizes = [
            (cells, max(1.0, cells * reach / width), times * 2 * cells * widest / width)
            for cells in _CELLS
        ]
        most = {cells: _QUICK if cells > _CELLS[-1] else _MOST for cells in _CELLS}
        bearable = (
            n
            for n, size, more in sizes
            if count * 2.0 * n * size <= most[n] and more * size <= _PRODUCTS
        )
        if times > _MOST_PAIRS or (cells := next(bearable, None)) is None:
            return None
        size = math.ceil(cells * reach / width) + 1
        return solve(
            (*pairs[::-1], (count, Banded.bounded_range(width))),
            width / cells,
            _LEAST * _TAIL / _MOST_PAIRS,
            size,
        )

    def upper_at(self, epsilon: float) -> float:
        """Return an upper bound at epsilon >= 0, by the chord.

        The chord is a bound because delta_0 is convex in e^epsilon.
        """
        i = math.floor(epsilon / self.interval)
        if i + 1 >= len(self.upper):
            return float(self.upper[-1])
        share = math.expm1(max(0.0, epsilon - i * self.interval)) / math.expm1(self.interval)
        return float(self.upper[i] + (self.upper[i + 1] - self.upper[i]) * min(1.0, share)) * SUM_UP

    def epsilon_upper(self, delta: float) -> float:
        """Return the smallest epsilon that is proved for `delta`; inf if the grid ends first."""
        reached = np.flatnonzero(~(self.upper * SUM_UP <= delta))  # NaN proves nothing
        if len(reached) == 0:
            return 0.0
        if reached[-1] + 1 == len(self.upper):
            return math.inf
        low, high = (float(reached[-1] + j) * self.interval for j in (0, 1))
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if self.upper_at(middle) <= delta else (middle, high)
        return high


def is_range(loss: Loss) -> bool:
    """Return True if a step is any bounded-range pair of its width.

    The adversary chooses the pair after all earlier outcomes. False for one dominating pair.
    """
    return isinstance(loss, Banded) and loss.is_range


def _split(losses: Losses) -> tuple[list[tuple[int, float]], list[tuple[int, Loss]]]:
    ranges = [(n, loss.period) for n, loss in losses.steps if is_range(loss)]
    rest = [(n, loss) for n, loss in losses.steps if not is_range(loss)]
    # Gaussians compose to one (C3); rounded up.
    return ranges, [
        (1, Normal(loss.mu * math.sqrt(n) * ROOT_UP)) if isinstance(loss, Normal) else (n, loss)
        for n, loss in rest
    ]


@lru_cache(maxsize=512)
def solve(
    plan: tuple[tuple[int, Loss], ...], interval: float, negligible: float, size: int
) -> Solution:
    """Return bounds at 0, ..., size - 1 intervals for steps in this order.

    Tails below `negligible` are cut off on the safe side.
    """

    @cache
    def make_step(loss: Loss) -> RangeStep | PairStep:
        return (
            RangeStep(loss.period, interval)
            if is_range(loss)
            else PairStep.from_loss(loss, interval, negligible)
        )

    values = np.zeros(size)
    for count, loss in reversed(plan):
        for _ in range(count):
            values = make_step(loss).upper(values)
    return Solution(interval, values)
