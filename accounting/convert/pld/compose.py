"""Composition of privacy losses by one tilted Fourier transform (Theorem P5).

The result is a rigorous upper bound at any delta. Tilting by e^(theta L), with the best theta,
moves the mass to where delta is decided, so that the rounding error of the transform is small
against delta, however small delta is. Errors are always counted upwards:

- Mass that wraps around the transform's window is only ever counted too often.
- Mass that may lie above the window is added by Chernoff's bound.
- The rounding error of the transforms is added to every entry.

Before that, the plan is reduced to few distinct steps, and their rounded losses are put on one grid
of suitable fineness.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from accounting.convert.pld.hull import RenyiLoss
from accounting.convert.pld.loss import TINY, Banded, Loss, Losses, Normal, Pmf, grid_of
from accounting.numbers import ROOT_UP, SUM_UP, Floats

# Most runs of all steps together: beyond, the rounding of the powers is not small against the law
# of the sum, and the steps' own grid has too few cells for it.
_MOST_RUNS = 10**7
# Losses smaller than this are left to the other routes: their squares and the masses of their cells
# underflow.
_LEAST_SCALE = 1e-100
# Losses larger than this reveal nearly everything in one step, and e to their power leaves the
# floats.
_MOST_SCALE = 500.0
# The grid adds the share _FINE of the variance, so about as much of epsilon, or as little as some
# 2^16 cells permit; more cells, up to 2^20, are taken where it would add more than _COARSE; up to
# twice as many where they make a pure step's atoms exact.
_FINE, _COARSE, _LOOK = 1e-9, 1e-5, 1e-3  # the last is only looked at, for a tilt
_WIDE_CELLS = 2**18  # of one step's law, if it is slow to compute
_CELLS, _MOST_CELLS, _WORK = 2**16, 2**20, 2**22
# cells of one step's law on the coarsest grid, which is only looked at; of all of its tails
_MOST_READ, _QUICK = 2**22, 2**18
_ROUGH = 1e-40  # of a law's tail, which is not looked at where it is too wide
_TAIL = 1e-10  # share of delta that cut-off tails may add in all
# Mass left outside the window, in the tilted law: e^-32 on either side, found by Chernoff's bound
# at these multiples of 1/spread.
_CLEAR = 32.0
_MOVED = 1 / 128  # of the window, by the rounding to a coarser grid
_MULTIPLES = (1.0, 2.0, 4.0, 8.0, 16.0, 0.3, 0.1, 0.03, 0.01)
# A transform of n points errs by at most this times log2(n), relative in the 2-norm (Higham 2002,
# Theorem 24.2), twice over.
_FFT = 16 * 2.0**-53
_ULP = 2.0**-52
_FLOOR = 1e-140
_SPAN = 230.0  # nats that the powers of a running sum may fall before they start again from 1
_ODD = sorted(3**b * 5**c for b in range(14) for c in range(10))  # up to 2^22
_OUTWARD = 1e-11
# Most distinct steps: each needs a transform of its own.
MOST_STEPS = 128
_TILTS, _TRIED, _REFINED = (-2.0, 2.5), 13, 9  # in units of 1/spread, as powers of ten


def can_compose(losses: Losses) -> bool:
    """Return True if the transform can bound these losses; it depends on counts and scales only."""
    losses = losses.directions()[0]
    if (
        not 0 < len(losses.steps) <= MOST_STEPS
        or sum(count for count, _ in losses.steps) > _MOST_RUNS
    ):
        return False
    if not all(_LEAST_SCALE <= loss.scale <= _MOST_SCALE for _, loss in losses.steps):
        return False
    # A wide law whose bulk is narrow would need too many cells: its atoms decide, and the other
    # routes know them.
    interval = _choose_interval(losses, _COARSE)
    widest = max(
        4 * loss.reach if isinstance(loss, RenyiLoss) else loss.period for _, loss in losses.steps
    )
    return widest <= _MOST_CELLS * interval and _reach(losses, _ROUGH) <= _MOST_READ * interval


def _reach(losses: Losses, tail: float) -> float:
    return max(loss.reach_at(tail) for _, loss in losses.steps)


def _rough(losses: Losses) -> _Parts:
    """Return all steps on a coarse grid, on which a tilt is searched.

    If their tails are slow to evaluate, more of each is cut off.
    """
    interval = _choose_interval(losses, _LOOK)
    return _Parts.from_losses(
        losses, interval, TINY if _reach(losses, TINY) <= _QUICK * interval else _ROUGH
    )


@lru_cache(maxsize=512)
def pld_epsilon(losses: Losses, delta: float, theta: float | None = None) -> float:
    """Return an epsilon for `delta`; inf if the grid proves none.

    Args:
        losses: privacy losses that pass `can_compose`.
        delta: in (0, 1).
        theta: tilt > 0; if None the best one is found. It decides accuracy, never soundness.
    """
    rough = _rough(losses)
    tilt = _best_tilt(
        rough,
        lambda t: (rough.cumulant(t) - math.log(delta) - math.log1p(t)) / t - math.log1p(1 / t),
        theta,
    )
    return _compose(losses, tilt, delta).epsilon(delta)


@lru_cache(maxsize=512)
def pld_delta(losses: Losses, epsilon: float, theta: float | None = None) -> float:
    """Return a delta for `epsilon` >= 0, with the arguments of `pld_epsilon`."""
    return _best_near(losses, epsilon, theta).delta(epsilon)


def pld_deltas(losses: Losses, epsilon: float) -> Callable[[float], float]:
    """Return a function from epsilon >= 0 to delta, by one composition, best for `epsilon`."""
    return _best_near(losses, epsilon, None).delta


def _best_near(losses: Losses, epsilon: float, theta: float | None) -> _Total:
    rough = _rough(losses)

    def log_delta(t: float) -> float:
        return rough.cumulant(t) - t * (epsilon + math.log1p(1 / t)) - math.log1p(t)

    tilt = _best_tilt(rough, log_delta, theta)
    return _compose(losses, tilt, math.exp(min(0.0, log_delta(tilt))))


@dataclass(frozen=True)
class _Window:
    """The sums from low to low + size - 1 intervals, and a bound on the mass above them."""

    low: int
    size: int
    above: float


@dataclass(frozen=True)
class _Total:
    """Bounds on delta at the grid points y_i = (low + i) interval.

    delta(y_i) is e^(cumulant - theta y_i) gain_i + lost, and grows by slope_i within the cell
    below. `slack` covers the rounding of the tilted distributions in the logarithm of the first
    term.
    """

    interval: float
    theta: float
    cumulant: float
    slack: float
    low: int
    gain: Floats
    slope: Floats
    lost: float

    def _log_scale(self, y: Any) -> Any:
        """Logarithm of e^(cumulant - theta y), rounded up."""
        return (
            self.cumulant
            - self.theta * y
            + self.slack
            + _OUTWARD * (1 + abs(self.cumulant) + abs(self.theta * y))
        )

    @cached_property
    def _is_known(self) -> bool:
        """True if no number overflowed; a total with NaN or infinite entries proves nothing."""
        scalars = np.isfinite([self.theta, self.cumulant, self.slack, self.lost])
        return bool(
            scalars.all() and np.isfinite(self.gain).all() and np.isfinite(self.slope).all()
        )

    def epsilon(self, delta: float) -> float:
        if not self._is_known or not self.lost < delta:
            return math.inf
        if self.low + len(self.gain) <= 0:
            return 0.0
        grid = grid_of(self.low, self.low + len(self.gain) - 1, self.interval)
        with np.errstate(over="ignore"):
            target = np.exp(math.log(delta - self.lost) - self._log_scale(grid))
        start = max(0, -self.low)
        short = np.flatnonzero(~(self.gain[start:] <= target[start:]))  # NaN counts as short
        if len(short) == 0:
            return max(0.0, float(grid[start]))
        i = start + int(short[-1]) + 1
        if i == len(grid):
            return math.inf
        rise = (target[i] - self.gain[i]) / self.slope[i] if self.slope[i] > 0 else 0.0
        place = float(grid[i]) + math.log1p(-min(rise, -math.expm1(-self.interval)))
        return max(0.0, place * (1 + _OUTWARD))

    def delta(self, epsilon: float) -> float:
        if not self._is_known:
            return 1.0
        i = math.ceil(epsilon / self.interval) - self.low
        if i < 0:
            return 1.0
        if i >= len(self.gain):
            return min(1.0, self.lost)
        y = (self.low + i) * self.interval  # as on the grid
        inside = float(self.gain[i] - math.expm1(min(0.0, epsilon - y)) * self.slope[i])
        delta = math.exp(min(0.0, self._log_scale(y) + math.log(inside))) if inside > 0 else 0.0
        return min(1.0, delta + self.lost)


def _compose(losses: Losses, theta: float, delta: float) -> _Total:
    parts, window = _discretize(losses, theta, delta * _TAIL / sum(n for n, _ in losses.steps))
    laws = parts.tilt(theta)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by `_Total`
        density = _convolve(laws, parts, window)
    rate = theta * parts.interval
    slope = _discounted_sums(density[::-1], rate + parts.interval)
    # gain_i = sum over j >= i of density_j e^(-theta (y_j - y_i)) (1 - e^(y_i - y_j)), by a
    # recursion without differences.
    gain = _discounted_sums(
        np.append(0.0, -math.exp(-rate) * math.expm1(-parts.interval) * slope[:-1]), rate
    )
    lost = min(1.0, (parts.infinity + window.above + losses.added) * (1 + 4 * _ULP))
    error, slack = (
        1 + 4 * _ULP * (window.size + _SPAN),
        16 * _ULP * (4 * sum(parts.counts) + theta * parts.weight(laws)),
    )
    return _Total(
        parts.interval,
        theta,
        parts.cumulant(theta),
        slack,
        window.low,
        gain[::-1] * error,
        slope[::-1] * error,
        lost,
    )


def _discounted_sums(terms: Floats, rate: float) -> Floats:
    """Return y_i = terms_i + e^-rate y_(i-1), for terms >= 0, in pieces that do not underflow."""
    length = min(len(terms), max(1, int(_SPAN / rate)))
    keep, sums, last = np.exp(-rate * np.arange(length)), np.empty_like(terms), 0.0
    for start in range(0, len(terms), length):
        piece = terms[start : start + length]
        sums[start : start + length] = keep[: len(piece)] * (
            np.cumsum(piece / keep[: len(piece)]) + math.exp(-rate) * last
        )
        last = sums[start + len(piece) - 1]
    return sums


def _discretize(losses: Losses, theta: float, tail: float) -> tuple[_Parts, _Window]:
    """Return the steps and the window on the grid that the tolerances ask for.

    If that grid has too many cells, the finest one allowed is used.
    """
    widest = max((loss.reach_at(tail) for _, loss in losses.steps if loss.is_wide), default=0.0)
    finest, coarsest = (
        _choose_interval(losses, _FINE),
        max(_choose_interval(losses, _COARSE), 2 * widest / _WIDE_CELLS),
    )
    rough = _Parts.from_losses(losses, coarsest, tail)
    reach = _Reach.from_parts(rough, theta)
    # Cells are spent on the window of the sum, and on the steps' own laws.
    width = max(reach.cells(rough)[1], rough.size) * coarsest
    least = width / min(_MOST_CELLS, _WORK // len(losses.steps))
    interval = max(least, min(coarsest, max(finest, width / _CELLS)))
    interval = _on_atoms(losses, interval)
    parts = rough if interval == coarsest else _Parts.from_losses(losses, interval, tail)
    reach = (
        reach
        if interval <= coarsest and reach.holds(parts, theta)
        else _Reach.from_parts(parts, theta)
    )
    return parts, reach.window(parts, theta)


def _on_atoms(losses: Losses, interval: float) -> float:
    """Return an interval, at most halved, that divides the width of the heaviest step.

    It is returned unchanged if that step has atoms closer than half of it, or none.
    """
    period = max(losses.steps, key=lambda step: step[0] * step[1].scale ** 2)[1].period
    return period / math.ceil(period / interval) if 2 * period > interval else interval


def joint_interval(losses: Losses) -> float:
    """Return a grid interval (nats) for dp-accounting.

    Its rounding adds a share of 10^-5 to the variance, or more if _MOST_CELLS requires it.
    """
    spread = math.sqrt(math.fsum(count * loss.scale**2 for count, loss in losses.steps))
    width = 2 * _reach(losses, _ROUGH_JOINT) + _SPREADS * spread
    return _on_atoms(losses, max(_choose_interval(losses, _COARSE), width / _MOST_CELLS))


# where a step ends in that grid, and the standard deviations that the sum spans
_ROUGH_JOINT, _SPREADS = 1e-22, 20.0


@dataclass(frozen=True)
class _Reach:
    """The range (nats) of the tilted sum, up to e^-32 on either side.

    `step` is the tilt beyond theta that shows the top.
    """

    bottom: float
    top: float
    step: float
    cumulant: float

    @staticmethod
    def from_parts(parts: _Parts, theta: float) -> _Reach:
        base, spread = parts.cumulant(theta), parts.spread(parts.tilt(theta))
        steps = [multiple / spread for multiple in _MULTIPLES]
        top, step = min(((parts.cumulant(theta + s) - base + _CLEAR) / s, s) for s in steps)
        return _Reach(
            max(
                (base - parts.cumulant(theta - s) - _CLEAR) / s for s in (*steps, theta / 2, theta)
            ),
            top,
            step,
            base,
        )

    def holds(self, parts: _Parts, theta: float) -> bool:
        """Return True if the distribution on this finer grid has the same range.

        Rounding has moved the tilted sum by about twice the difference of cumulants over theta.
        """
        return self.cumulant - parts.cumulant(theta) <= theta * (self.top - self.bottom) * _MOVED

    def cells(self, parts: _Parts) -> tuple[int, int]:
        """Return the first cell and the number of cells, at least 1. Any cells are valid."""
        low = max(parts.least, math.floor(self.bottom / parts.interval))
        return low, max(1, min(parts.most, math.ceil(self.top / parts.interval)) - low + 1)

    def window(self, parts: _Parts, theta: float) -> _Window:
        """Return the cells to compute, with a bound on the mass above them on this very grid."""
        low, cells = self.cells(parts)
        least = min(cells, 2 * _MOST_CELLS)
        # The least 2^a 3^b 5^c that is not below: transforms of such a length are quick.
        size = min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in _ODD)
        if low + size > parts.most:
            return _Window(low, size, 0.0)
        beyond = theta + self.step
        cumulant = parts.cumulant(beyond)
        above = cumulant - beyond * (low + size - 1) * parts.interval
        return _Window(low, size, math.exp(min(0.0, above + _OUTWARD * (1 + abs(cumulant)))))


def _convolve(laws: list[Floats], parts: _Parts, window: _Window) -> Floats:
    """Return upper bounds on the tilted distribution of the sum, at every place of the window."""
    size, eta = window.size, _FFT * math.log2(max(2, window.size))
    half = size // 2 + 1
    angle, height, heights, norms = np.zeros(half), np.zeros(half), [], []
    for count, pmf, law in zip(parts.counts, parts.pmfs, laws, strict=True):
        folded = np.bincount((pmf.low + np.arange(len(law))) % size, weights=law, minlength=size)
        # Squares of subnormals are slow, and the floor only adds; a dot product of this length
        # would wait for threads.
        norm = math.sqrt(float(np.square(np.maximum(folded, _FLOOR)).sum()))
        norms.append(count * eta * norm)
        transform = np.fft.rfft(folded)
        # Every frequency errs by less than the 2-norm of all their errors.
        log_heights = np.log(np.abs(transform) + eta * math.sqrt(size) * norm)
        heights.append(log_heights)
        height += count * log_heights
        angle = np.remainder(angle + count * np.angle(transform), 2 * math.pi)
    error = _error(np.array(norms), heights, height, sum(parts.counts), size)
    error += eta * _root_mean(height, size)
    law = np.fft.irfft(np.exp(height + 1j * angle), n=size)
    return np.roll(np.maximum(law, 0.0) + error, -(window.low % size))


def _error(norms: Floats, heights: list[Floats], height: Floats, count: int, size: int) -> float:
    """Largest gain of the inverse transform from errors of the transforms and of their powers.

    It is bounded by the Cauchy-Schwarz inequality.
    """
    transforms = math.fsum(
        float(norm) * _root_mean(height - own, size)
        for norm, own in zip(norms, heights, strict=True)
    )
    return (
        2 * transforms
        + _ULP * float(np.mean(np.exp(height) * (8 * count + 4 * np.abs(height)))) * 2
    )


def _root_mean(log_height: Floats, size: int) -> float:
    """Root mean square over the whole spectrum of a half spectrum given by its logarithm."""
    return math.sqrt(2 * float(np.sum(np.exp(2 * log_height))) / size)


def coarsen_losses(losses: Losses) -> Losses:
    """Return a plan with few distinct steps and no smaller divergence. Theorem P9."""
    steps: Counter[Loss] = Counter()
    for count, loss in losses.steps:
        steps[loss] += count
    normals = [loss for loss in steps if isinstance(loss, Normal)]
    if sum(steps[loss] for loss in normals) > 1:
        steps[
            Normal(
                math.hypot(*(math.sqrt(steps.pop(loss)) * loss.mu for loss in normals)) * ROOT_UP
            )
        ] += 1
    coarse_steps: Counter[Loss] = Counter()
    families: dict[Callable[[float], Banded], Counter[float]] = defaultdict(Counter)
    for loss, count in steps.items():
        if isinstance(loss, Banded) and loss.lost == 0:
            flat = Banded.laplace if loss.upper > 0 else Banded.bounded_range
            families[Banded.pure if loss.middle == 0 else flat][loss.width] += count
        else:
            coarse_steps[loss] += count
    room, total = MOST_STEPS - len(coarse_steps), sum(map(len, families.values()))
    if len(steps) <= MOST_STEPS or room <= 0:
        return Losses(tuple((count, loss) for loss, count in steps.items()), losses.added)
    for make, widths in families.items():
        for width, count in _round_up_widths(widths, max(1, room * len(widths) // total)):
            coarse_steps[make(width)] += count
    return Losses(tuple((count, loss) for loss, count in coarse_steps.items()), losses.added)


def _round_up_widths(widths: Counter[float], levels: int) -> Iterable[tuple[float, int]]:
    """Return (width, count) pairs with at most about `levels` widths, each rounded up.

    The cheaper of two layouts is taken.
    """
    sizes = np.sort(np.array(list(widths)))
    times = np.array([float(widths[float(size)]) for size in sizes])
    # Where each width lies between 0 and 1: by its size, and by the part of all squared widths up
    # to it.
    weight = np.cumsum(times * sizes**2)
    by_size, by_weight = (sizes - sizes[0]) / max(sizes[-1] - sizes[0], 1e-300), weight / weight[-1]
    edges, layouts = np.linspace(0, 1, levels + 1)[1:], []
    for places in (by_size, by_weight):
        cells = np.minimum(np.searchsorted(edges, places), len(edges) - 1)
        # the last width in each one's cell
        layouts.append(sizes[np.searchsorted(cells, cells, "right") - 1])
    tops = min(layouts, key=lambda top: float((times * top**2).sum()))
    merged: Counter[float] = Counter()
    for size, top in zip(sizes.tolist(), tops.tolist(), strict=True):
        merged[top] += widths[size]
    return merged.items()


@lru_cache(maxsize=512)
def _choose_interval(losses: Losses, tolerance: float) -> float:
    """Return the interval h (nats) whose rounding adds `tolerance` of the plan's squared scale.

    A step adds h^2/6, and tiny steps add less.
    """
    counts, scales = np.array([(n, loss.scale) for n, loss in losses.steps], dtype=np.float64).T
    whole, low, high = float((counts * scales**2).sum()), 0.0, 4 * float(scales.max())
    for _ in range(60):
        middle = (low + high) / 2
        added = float((counts * middle**2 * scales / (6 * scales + middle)).sum() / whole)
        low, high = (middle, high) if added <= tolerance else (low, middle)
    return high


@dataclass(frozen=True)
class _Parts:
    """Rounded losses with their counts, and the cumulant generating function of the sum."""

    counts: tuple[int, ...]
    pmfs: tuple[Pmf, ...]
    interval: float

    @staticmethod
    def from_losses(losses: Losses, interval: float, tail: float) -> _Parts:
        """Return all steps of `losses` on multiples of `interval`, tails cut as in `Loss.pmf`."""
        counts, single = zip(*losses.steps, strict=True)
        return _Parts(counts, tuple(loss.pmf(interval, tail) for loss in single), interval)

    def cumulant(self, theta: float) -> float:
        """ln E[e^(theta S); S finite] for the sum S of all steps."""
        means = (
            _log_mean(logs, losses, theta)
            for logs, losses in zip(self._logs, self._losses, strict=True)
        )
        return math.fsum(n * mean for n, mean in zip(self.counts, means, strict=True))

    def tilt(self, theta: float) -> list[Floats]:
        """Return each step's finite distribution, weighted by e^(theta L) and normalized."""
        both = zip(self._logs, self._losses, strict=True)
        return [
            np.exp(logs + theta * losses - _log_mean(logs, losses, theta)) for logs, losses in both
        ]

    def spread(self, laws: list[Floats]) -> float:
        """Standard deviation of the sum under `laws`, no less than the interval."""
        both = list(zip(self._losses, laws, strict=True))
        means = (float((losses * law).sum()) for losses, law in both)
        values = (
            float(((losses - mean) ** 2 * law).sum())
            for (losses, law), mean in zip(both, means, strict=True)
        )
        return max(
            self.interval,
            math.sqrt(math.fsum(n * v for n, v in zip(self.counts, values, strict=True))),
        )

    def weight(self, laws: list[Floats]) -> float:
        """Mean of the absolute losses under `laws`, added up over all steps."""
        means = (
            float((np.abs(losses) * law).sum())
            for losses, law in zip(self._losses, laws, strict=True)
        )
        return math.fsum(n * mean for n, mean in zip(self.counts, means, strict=True))

    @property
    def size(self) -> int:
        """Number of cells of the largest law."""
        return max(len(pmf.mass) for pmf in self.pmfs)

    @property
    def least(self) -> int:
        """Smallest finite sum, in intervals."""
        return sum(n * pmf.low for n, pmf in zip(self.counts, self.pmfs, strict=True))

    @property
    def most(self) -> int:
        """Largest finite sum, in intervals."""
        return sum(
            n * (pmf.low + len(pmf.mass) - 1) for n, pmf in zip(self.counts, self.pmfs, strict=True)
        )

    @property
    def infinity(self) -> float:
        """Probability that some step's loss is infinite, rounded up."""
        if any(pmf.infinity >= 1 for pmf in self.pmfs):
            return 1.0
        log_finite = math.fsum(
            n * math.log1p(-pmf.infinity) for n, pmf in zip(self.counts, self.pmfs, strict=True)
        )
        return -math.expm1(log_finite) * SUM_UP

    @cached_property
    def _losses(self) -> list[Floats]:
        return [grid_of(pmf.low, pmf.low + len(pmf.mass) - 1, self.interval) for pmf in self.pmfs]

    @cached_property
    def _logs(self) -> list[Floats]:
        with np.errstate(divide="ignore"):
            return [np.log(pmf.mass) for pmf in self.pmfs]


def _log_mean(logs: Floats, losses: Floats, theta: float) -> float:
    # scipy's logsumexp with weights (b=) divides by the largest term's, which overflows at
    # subnormal masses.
    exponents = logs + theta * losses
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


def _best_tilt(parts: _Parts, objective: Callable[[float], float], tilt: float | None) -> float:
    """Return the tilt with the least `objective`, or the given one.

    The search covers the scales on which the sum can vary.
    """
    if tilt is not None:
        return tilt
    unit = 1 / parts.spread(parts.tilt(0.0))
    tilts = [unit * 10**exponent for exponent in np.linspace(*_TILTS, _TRIED).tolist()]
    best = min(tilts, key=objective)
    ratio = tilts[1] / tilts[0]
    return min(
        (best * ratio**share for share in np.linspace(-1, 1, _REFINED).tolist()), key=objective
    )
