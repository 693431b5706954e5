"""One step of the dynamic programme on a grid, rounded up or down (Theorems D2 to D4).

A value array holds delta_j at g = 0, h, 2h, ... ; g < 0 follows from delta(-g) = 1 - e^-g + e^-g delta(g), as every class of
pairs here is symmetric. Beyond the last entry, delta_j is at most that entry and at least its limit, the probability of an
infinite loss.

An operator maps bounds on delta_j to bounds on delta_{j-1}: `upper` upper ones, and `lower` lower ones, `floor` being one for
every g; `lower_floor` gives the next `floor`, the limit at infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.conversion.pld.loss import Floats, Law, Loss

# A step costs a few roundings, each relative to positive terms.
UP, DOWN = 1 + 2.0**-42, 1 - 2.0**-42
_CACHED = 1 << 14  # numbers that are worked on at once
WIDEST = 100.0  # nats of one range: products of e^width and e^-width stay floats up to three times as much
NARROWEST = 1e-300  # below, one over a cell leaves the floats
# How far cells are moved to the right of their ideal place, in intervals, so that their losses lie just above the grid.
_SLACKS = (1e-6, 1e-4, 1e-3, 1e-2)


def extended(values: Floats, interval: float, left: int, right: int, beyond: float) -> Floats:
    """`values` with `left` entries before and `right` entries (of value `beyond`) after them."""
    ahead = np.concatenate([values, np.full(right, beyond)])
    reach = np.concatenate([ahead, np.full(max(0, left + 1 - len(ahead)), beyond)])[left:0:-1]
    g = np.arange(left, 0, -1) * interval
    return np.concatenate([-np.expm1(-g) + np.exp(-g) * reach, ahead])


@dataclass(frozen=True)
class _Pieces:
    """Losses t between two neighbouring breakpoints: g - t stays in one cell of the grid, and so does g - t + width. One a row.

    In u = e^-t: from `start` to start + length. The first cell starts `back` + 1 entries before g, at u = start - gap1; the
    second ends `ahead` entries after g and starts at u = start - gap2. The length of a cell in u is 1/slope, and `weight` is p
    at u = start. All but `back` and `ahead` are columns.
    """

    back: NDArray[np.int64]
    ahead: NDArray[np.int64]
    start: Floats
    length: Floats
    gap1: Floats
    gap2: Floats
    slope1: Floats
    slope2: Floats
    weight: Floats

    def block(self, rows: slice) -> _Pieces:
        """Some of them."""
        return _Pieces(*(getattr(self, part.name)[rows] for part in fields(self)))


@dataclass(frozen=True)
class RangeOperator:
    """A bounded-range step: the adversary picks t in [0, width]; the loss is t with probability p_t, else t - width."""

    width: float
    interval: float

    def upper(self, values: Floats) -> Floats:
        zero = math.ceil(self.width / self.interval) + 2
        padded = extended(values, self.interval, zero, zero, float(values[-1]))
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(values))
        best, count = values.copy(), max(1, _CACHED // len(values))
        for first in range(0, len(self._pieces.back), count):
            block = self._pieces.block(slice(first, first + count))
            np.maximum(best, self._raised(windows, block, zero).max(axis=0), out=best)
        return np.minimum(1.0, best * UP)

    @cached_property
    def _pieces(self) -> _Pieces:
        return _pieces(self.width, self.interval)

    def _raised(self, windows: Floats, piece: _Pieces, zero: int) -> Floats:
        """The exact maximum over each piece, where the mean is const - k1 u - k2/u (Theorem D2)."""
        low1, high1 = (windows[zero - piece.back - s] for s in (1, 0))
        low2, high2 = (windows[zero + piece.ahead - s] for s in (1, 0))
        slope1, slope2 = (high1 - low1) * piece.slope1, (high2 - low2) * piece.slope2
        a, b = -1 / math.expm1(-self.width), 1 / math.expm1(self.width)
        first, second = low1 + slope1 * piece.gap1, low2 + slope2 * piece.gap2
        k1 = b * slope2 - a * slope1
        k2 = b * (first - second - (slope1 - slope2) * piece.start)
        with np.errstate(all="ignore"):
            place = np.sqrt(np.maximum(k2, 0.0) / k1) - piece.start
        # Where k1 or k2 is not positive, the maximum is at an end: fmin reads nan as the far one, the near one is tried as well.
        place = np.maximum(np.fmin(place, piece.length), 0.0)
        weight = piece.weight + b * place / ((piece.start + place) * piece.start)
        inside = weight * (first + slope1 * place) + (1 - weight) * (second + slope2 * place)
        return np.maximum(inside, piece.weight * first + (1 - piece.weight) * second)

    def lower_floor(self, floor: float) -> float:
        return floor

    def lower(self, values: Floats, floor: float) -> Floats:
        cells = math.floor(self.width / self.interval * (1 + 4e-16))
        if cells == 0:
            return values
        padded = extended(values, self.interval, cells, cells, floor)
        best = values.copy()
        for back in range(cells):
            weight = math.expm1((back - cells) * self.interval) / math.expm1(-cells * self.interval)
            first, second = padded[cells - back :][: len(values)], padded[2 * cells - back :][: len(values)]
            np.maximum(best, weight * first + (1 - weight) * second, out=best)
        return best * DOWN


def _pieces(width: float, interval: float) -> _Pieces:
    steps = np.arange(math.ceil(width / interval) + 1) * interval
    breaks = np.unique(np.concatenate([[0.0, width], steps[steps < width], width - steps[steps < width]]))
    # Breakpoints that agree up to rounding are one: the sliver between them holds nothing that its ends do not.
    breaks = breaks[np.concatenate([[True], np.diff(breaks) > 1e-9 * interval])]
    breaks[-1] = width
    t0, t1 = breaks[:-1, None], breaks[1:, None]
    middle = (t0 + t1) / 2
    back, ahead = np.floor(middle / interval), np.ceil((width - middle) / interval)
    start, length = np.exp(-t1), -np.exp(-t0) * np.expm1(t0 - t1)
    low1, low2 = (back + 1) * interval, width - (ahead - 1) * interval
    cell = -math.expm1(-interval)
    return _Pieces(
        back[:, 0].astype(np.int64),
        ahead[:, 0].astype(np.int64),
        start,
        length,
        gap1=-start * np.expm1(t1 - low1),
        gap2=-start * np.expm1(t1 - low2),
        slope1=np.exp(back * interval) / cell,
        slope2=np.exp(low2 - interval) / cell,
        weight=np.expm1(t1 - width) / math.expm1(-width),
    )


@dataclass(frozen=True)
class PairOperator:
    """A step with one dominating pair: delta_{j-1}(g) = E delta_j(g - L), with L rounded up, or rounded down."""

    interval: float
    low_up: int
    up: Floats
    infinity_up: float
    low_down: int
    down: Floats
    infinity_down: float

    def upper(self, values: Floats) -> Floats:
        mean = _mean(values, self.interval, self.low_up, self.up, float(values[-1]))
        return np.minimum(1.0, (mean + self.infinity_up) * UP)

    def lower_floor(self, floor: float) -> float:
        return (floor * (1 - self.infinity_down) + self.infinity_down) * DOWN

    def lower(self, values: Floats, floor: float) -> Floats:
        if len(self.down) == 0:
            return values
        return (_mean(values, self.interval, self.low_down, self.down, floor) + self.infinity_down) * DOWN


def _mean(values: Floats, interval: float, low: int, mass: Floats, beyond: float) -> Floats:
    high = low + len(mass) - 1
    padded = extended(values, interval, max(high, 0), max(-low, 0), beyond)
    # Entry i needs g - L at i - high .. i - low, which starts max(high, 0) - high entries into the padded array.
    start = max(high, 0) - high
    return np.convolve(padded[start : start + len(values) + len(mass) - 1], mass, mode="valid")


def trimmed(low: int, mass: Floats, negligible: float) -> tuple[int, Floats, float]:
    """Cut the lower tail onto the first entry that is kept, and the upper tail off: its mass is returned."""
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])[::-1]
    first = int(np.searchsorted(below, negligible, side="right"))
    last = max(first, len(mass) - 1 - int(np.searchsorted(above[::-1], negligible, side="right")))
    kept = mass[first : last + 1].copy()
    kept[0] += float(np.sum(mass[:first]))
    return low + first, kept, float(np.sum(mass[last + 1 :])) * (1 + 1e-9)


Operator = RangeOperator | PairOperator


def pair_operator(loss: Loss, interval: float, negligible: float, *, both: bool = True) -> PairOperator:
    """The step's operator, for upper bounds alone unless `both`; tails below `negligible` are cut off, on the safe side."""
    law = loss if both and isinstance(loss, Law) else None
    pmf = loss.pmf(interval, negligible)
    low_up, up, cut = trimmed(pmf.low, pmf.mass, negligible)
    low_down, down = _rounded_down(law, interval, negligible) if law is not None else (0, np.zeros(0))
    # What a rounded-down law has at infinity is a mass that its cells leave out.
    lost = pmf.infinity if law is not None and pmf.infinity > negligible else 0.0
    return PairOperator(interval, low_up, up, pmf.infinity + cut, low_down, down, lost * (1 - 1e-9))


def _rounded_down(law: Law, interval: float, negligible: float) -> tuple[int, Floats]:
    """Merging outcomes is post-processing: each cell becomes one atom at its own loss, which is rounded down to the grid."""
    cells = math.ceil(law.reach / interval) + 1
    place = np.arange(-cells, cells + 1.0)
    drift = _losses(law, _edges(place, np.zeros(len(place)), interval))[1] / interval - place
    drift = np.where(np.abs(drift) < 0.5, drift, 0.0)
    found = [_merged(law, _edges(place, drift - slack, interval), interval) for slack in _SLACKS]
    low, mass = max(found, key=lambda pair: float((pair[0] + np.arange(len(pair[1]))) @ pair[1]))
    heavy = np.flatnonzero(mass > negligible / len(mass))
    return low + int(heavy[0]), mass[heavy[0] : heavy[-1] + 1]


def _edges(place: Floats, drift: Floats, interval: float) -> Floats:
    """Edges half way between places, moved left by the drift; never on an atom, so that both directions see the same cells."""
    ends = np.concatenate([drift[:1], (drift[:-1] + drift[1:]) / 2, drift[-1:]])
    return (np.append(place, place[-1] + 1) - 0.5 - ends) * interval * (1 + 1e-13)


def _losses(law: Law, edges: Floats) -> tuple[Floats, Floats]:
    """Mass of every cell, and ln P/Q of it; nan where there is no mass to speak of."""
    mass, other = law.cell(edges[:-1], edges[1:]), law.cell(-edges[1:], -edges[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(mass) - np.log(other)
    return mass, np.where((mass > 1e-280) & (other > 1e-280), ratio, np.nan)


def _merged(law: Law, edges: Floats, interval: float) -> tuple[int, Floats]:
    mass, ratio = _losses(law, edges)
    known = np.isfinite(ratio)
    # An atom that lies on the grid stays there: losses are read to 1e-13 nats, which the factor below makes up for.
    place = np.floor((ratio[known] + min(1e-13, 1e-6 * interval)) / interval).astype(np.int64)
    low = int(place.min())
    merged = np.bincount(place - low, weights=mass[known] * (1 - 1e-10))
    return low, merged.astype(np.float64)
