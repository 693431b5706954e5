"""The rounded losses of all steps of a plan on one grid, and how fine that grid is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accounting.conversion.pld.loss import Floats, Losses, Pmf, grid_of

_TILTS, _TRIED, _REFINED = (-2.0, 2.5), 13, 9  # in units of 1/spread, as powers of ten


def choose_interval(losses: Losses, tolerance: float) -> float:
    """The interval (nats) whose rounding adds `tolerance` of the plan's squared scale."""
    low, high = 0.0, 4 * max(loss.scale for _, loss in losses.steps)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inflation(losses, middle) <= tolerance else (low, middle)
    return high


def aligned(losses: Losses, interval: float) -> float:
    """An interval, at most halved, that divides the width of the heaviest step if that has atoms no closer than half of it."""
    main = max(losses.steps, key=lambda step: step[0] * step[1].scale ** 2)[1]
    return main.period / math.ceil(main.period / interval) if 2 * main.period > interval else interval


def inflation(losses: Losses, interval: float) -> float:
    """Estimated share of the squared scale that rounding to `interval` adds: interval^2/6 a step, less for tiny steps."""
    added = math.fsum(n * interval**2 * loss.scale / (6 * loss.scale + interval) for n, loss in losses.steps)
    return added / math.fsum(n * loss.scale**2 for n, loss in losses.steps)


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
        return math.fsum(n * self._log_mean(pmf, theta) for n, pmf in zip(self.counts, self.pmfs, strict=True))

    def tilted(self, theta: float) -> list[Floats]:
        """Each step's finite law, weighted by e^(theta L) and scaled to sum to one."""
        return [np.exp(self._exponents(pmf, theta) - self._log_mean(pmf, theta)) for pmf in self.pmfs]

    def spread(self, laws: list[Floats]) -> float:
        """Standard deviation of the sum under `laws`, no less than the interval."""
        values = (_variance(self._losses(pmf), law) for pmf, law in zip(self.pmfs, laws, strict=True))
        return max(self.interval, math.sqrt(math.fsum(n * v for n, v in zip(self.counts, values, strict=True))))

    def weight(self, laws: list[Floats]) -> float:
        """Mean of the absolute losses under `laws`, added up over all steps."""
        means = (float(np.abs(self._losses(pmf)) @ law) for pmf, law in zip(self.pmfs, laws, strict=True))
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

    def _losses(self, pmf: Pmf) -> Floats:
        return grid_of(pmf.low, pmf.low + len(pmf.mass) - 1, self.interval)

    def _log_mean(self, pmf: Pmf, theta: float) -> float:
        # scipy's logsumexp with weights (b=) divides by the largest term's, which overflows at subnormal masses.
        exponents = self._exponents(pmf, theta)
        top = float(exponents.max())
        return top + math.log(float(np.exp(exponents - top).sum()))

    def _exponents(self, pmf: Pmf, theta: float) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(pmf.mass) + theta * self._losses(pmf)


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
    mean = float(values @ law)
    return float(((values - mean) ** 2) @ law)
