"""Propose, test, release: the rule that lets the top j out only where the gap below it hides every user. Theorem S4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting import Approximate, Curve, GaussianDP, LaplaceDP, Relation
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.stability.gaps import Floats, gap_shift
from dpselect.noise import by_name
from dpselect.sampling import Sampler

GapNoise = Literal["gaussian", "laplace"]

NOT_PASSED = "stability test did not pass"


@final
@dataclass(frozen=True)
class StabilityRule:
    """Pass iff max(gap, g) + scale * noise exceeds g + scale * (the noise's upper failure_delta quantile), g = `gap_shift`.

    Attributes:
        noise: name of the noise on the gap.
        scale: of that noise, in counts.
        failure_delta: the chance that a gap of g or less passes.
        relation: decides g.
    """

    noise: GapNoise
    scale: float
    failure_delta: float
    relation: Relation

    @property
    def curve(self) -> Curve:
        """What one test costs, the release of a set that passes included."""
        step = ratio_up(gap_shift(self.relation), self.scale)
        core = GaussianDP(mu=step) if self.noise == "gaussian" else LaplaceDP(epsilon=step)
        return Approximate(curve=core, delta0=self.failure_delta)

    @property
    def threshold(self) -> float:
        """How far, in units of the scale, the noisy gap has to exceed g."""
        quantile = float(by_name(self.noise).isf(self.failure_delta))
        # A few ulps up, so that rounding cannot let an unstable set pass more often than failure_delta.
        return quantile + 1e-15 * (1 + abs(quantile))

    def pass_probability(self, gaps: ArrayLike) -> Floats:
        """The chance that each gap (counts) passes."""
        return by_name(self.noise).sf(self.threshold - self._excess(gaps))

    def fail_probability(self, gaps: ArrayLike) -> Floats:
        """One minus `pass_probability`, accurate where that is near 1."""
        return by_name(self.noise).cdf(self.threshold - self._excess(gaps))

    def least_gap(self, probability: float) -> float:
        """The smallest gap (counts) that passes with at least this probability."""
        needed = self.threshold - float(by_name(self.noise).isf(probability))
        return gap_shift(self.relation) + self.scale * needed if needed > 0 else 0.0

    def passes(self, gaps: Floats, source: Sampler) -> NDArray[np.bool_]:
        """Draw: which of the gaps pass, each with fresh noise."""
        excess = np.maximum(gaps - gap_shift(self.relation), 0.0)
        # The public level is rounded up, and the comparison itself is exact.
        return source.exceeds(excess, by_name(self.noise), self.scale, math.nextafter(self.scale * self.threshold, math.inf))

    def _excess(self, gaps: ArrayLike) -> Floats:
        return np.maximum(np.asarray(gaps, dtype=np.float64) - gap_shift(self.relation), 0.0) / self.scale
