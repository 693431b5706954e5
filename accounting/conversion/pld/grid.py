"""The rounded losses of all steps of a plan on one grid, and how fine that grid is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from accounting.conversion.pld.loss import Floats, Losses, Pmf, grid_of

_TILTS, _TRIED, _REFINED = (-2.0, 2.5), 13, 9  # in units of 1/spread, as powers of ten


def choose_interval(losses: Losses, tolerance: float) -> float:
    """The interval (nats) whose rounding adds `tolerance` of the plan's squared scale."""
    counts, scales = _scales(losses)
    low, high = 0.0, 4 * float(scales.max())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _added(counts, scales, middle) <= tolerance else (low, middle)
    return high


def aligned(losses: Losses, interval: float) -> float:
    """An interval, at most halved, that divides the width of the heaviest step if that has atoms no closer than half of it."""
    main = max(losses.steps, key=lambda step: step[0] * step[1].scale ** 2)[1]
    return main.period / math.ceil(main.period / interval) if 2 * main.period > interval else interval


def inflation(losses: Losses, interval: float) -> float:
    """Estimated share of the squared scale that rounding to `interval` adds: interval^2/6 a step, less for tiny steps."""
    return _added(*_scales(losses), interval)


def _scales(losses: Losses) -> tuple[Floats, Floats]:
    return tuple(np.array([(n, loss.scale) for n, loss in losses.steps], dtype=np.float64).T)


def _added(counts: Floats, scales: Floats, interval: float) -> float:
    return float((counts * interval**2 * scales / (6 * scales + interval)).sum() / (counts * scales**2).sum())


@dataclass(frozen=True)
class Parts:
    """Rounded losses with their counts, and the cumulant generating function of the sum."""

    counts: tuple[int, ...]
    pmfs: tuple[Pmf, ...]
    interval: float

    @staticmethod
    def of(losses: Losses, interval: float, tail: float) -> Parts:
        """All steps of `losses` on multiples of `interval`, with tails of `tail` cut off each (see `Loss.pmf`)."""
        counts, single = zip(*losses.steps, strict=True)
        return Parts(counts, tuple(loss.pmf(interval, tail) for loss in single), interval)

    def cumulant(self, theta: float) -> float:
        """ln E[e^(theta S); S finite] for the sum S of all steps."""
        means = (_log_mean(logs, losses, theta) for logs, losses in zip(self._logs, self._losses, strict=True))
        return math.fsum(n * mean for n, mean in zip(self.counts, means, strict=True))

    def tilted(self, theta: float) -> list[Floats]:
        """Each step's finite law, weighted by e^(theta L) and scaled to sum to one."""
        both = zip(self._logs, self._losses, strict=True)
        return [np.exp(logs + theta * losses - _log_mean(logs, losses, theta)) for logs, losses in both]

    def spread(self, laws: list[Floats]) -> float:
        """Standard deviation of the sum under `laws`, no less than the interval."""
        values = (_variance(losses, law) for losses, law in zip(self._losses, laws, strict=True))
        return max(self.interval, math.sqrt(math.fsum(n * v for n, v in zip(self.counts, values, strict=True))))

    def weight(self, laws: list[Floats]) -> float:
        """Mean of the absolute losses under `laws`, added up over all steps."""
        means = (float((np.abs(losses) * law).sum()) for losses, law in zip(self._losses, laws, strict=True))
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
        return sum(n * (pmf.low + len(pmf.mass) - 1) for n, pmf in zip(self.counts, self.pmfs, strict=True))

    @property
    def infinity(self) -> float:
        """Probability that some step's loss is infinite, rounded up."""
        if any(pmf.infinity >= 1 for pmf in self.pmfs):
            return 1.0
        kept = math.fsum(n * math.log1p(-pmf.infinity) for n, pmf in zip(self.counts, self.pmfs, strict=True))
        return -math.expm1(kept) * (1 + 1e-12)

    @cached_property
    def _losses(self) -> list[Floats]:
        return [grid_of(pmf.low, pmf.low + len(pmf.mass) - 1, self.interval) for pmf in self.pmfs]

    @cached_property
    def _logs(self) -> list[Floats]:
        with np.errstate(divide="ignore"):
            return [np.log(pmf.mass) for pmf in self.pmfs]


def _log_mean(logs: Floats, losses: Floats, theta: float) -> float:
    # scipy's logsumexp with weights (b=) divides by the largest term's, which overflows at subnormal masses.
    exponents = logs + theta * losses
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


def best_tilt(parts: Parts, objective: Callable[[float], float], given: float | None) -> float:
    """The tilt with the least `objective`, between the scales on which the sum can vary, or else the given one."""
    if given is not None:
        return given
    unit = 1 / parts.spread(parts.tilted(0.0))
    tilts = [unit * 10**exponent for exponent in np.linspace(*_TILTS, _TRIED).tolist()]
    best = min(tilts, key=objective)
    ratio = tilts[1] / tilts[0]
    return min((best * ratio**share for share in np.linspace(-1, 1, _REFINED).tolist()), key=objective)


def _variance(values: Floats, law: Floats) -> float:
    mean = float((values * law).sum())
    return float(((values - mean) ** 2 * law).sum())
