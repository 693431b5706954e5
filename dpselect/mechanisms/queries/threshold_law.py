"""Exact laws of comparisons with one noisy threshold: which of them pass, in their fixed order.

All comparisons share the noise Y of the threshold, and comparison i passes iff margin_i + scale * Z_i > Y, with independent Z_i.
Given Y the comparisons are independent, so one integral over Y is left, by composite Gauss-Legendre between the kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.base import Positions
from dpselect.noise.adaptive import refine
from dpselect.noise.base import Noise, NoiseName
from dpselect.sampling import Sampler
from dpselect.scores import Numbers

# Comparisons with one noisy threshold, drawn: the sampling side of the sparse vector technique.

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LARGEST = 2.0**53  # beyond it a float64 is no longer every integer


def margins(scores: Numbers, threshold: float) -> Floats:
    """Scores minus the threshold in float64, for laws; scores are clamped to +-2^53, beyond which float64 skips integers."""
    return np.clip(scores, -_LARGEST, _LARGEST).astype(np.float64) - threshold


def passing(scores: Numbers, threshold: float, noise: Noise, scale: float, answer_scale: float, source: Sampler) -> Flags:
    """(rows, m) which scores pass, exactly: score + answer_scale * noise > threshold + scale * noise of the row's threshold."""
    return source.passing(scores, noise, scale, answer_scale, minus=[np.array([[threshold]])])


def first(flags: Flags, most: int) -> Positions:
    """(rows, min(most, m)) positions of the first `most` set flags of every row, -1 where there are fewer."""
    place = np.cumsum(flags, axis=1)
    row, column = np.nonzero(flags & (place <= most))
    indices = np.full((len(flags), min(most, flags.shape[1])), -1, dtype=np.int64)
    indices[row, place[row, column] - 1] = column
    return indices


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# Beyond this many units the density of either noise is below exp(-60).
_REACH: dict[NoiseName, float] = {"laplace": 60.0, "exponential": 60.0, "gaussian": 11.0}
_STEP = 4.0  # units of the narrower noise; halved at least once


@final
@dataclass(frozen=True)
class ThresholdNoise:
    """The noise Y of a threshold.

    Attributes:
        pdf: its density, smooth but for a kink at 0.
        unit: the least scale on which it varies, score units.
        reach: how far from 0 the density matters, score units.
    """

    pdf: Callable[[Floats], Floats]
    unit: float
    reach: float


def scaled(noise: Noise, scale: float) -> ThresholdNoise:
    """scale * Z for a standard Laplace, exponential or Gaussian Z."""
    return ThresholdNoise(lambda y: noise.pdf(y / scale) / scale, scale, _REACH[noise.name] * scale)


@final
@dataclass(frozen=True)
class Comparisons:
    """Margins (m,) in score units, the threshold's noise, and the noise of the comparisons with its scale."""

    margins: Floats
    threshold: ThresholdNoise
    noise: Noise
    scale: float

    def first_passing(self) -> Floats:
        """(m + 1,) the probability that comparison i is the first that passes; last, that none does."""

        def outcomes(fail: Floats, passing: Floats) -> Floats:
            before = np.cumprod(np.vstack([np.ones_like(fail[:1]), fail]), axis=0)
            return np.vstack([before[:-1] * passing, before[-1:]])

        return self._integrate(outcomes)

    def passing_sets(self, most: int) -> dict[frozenset[int], float]:
        """Probability of every set of comparisons that pass, when the run stops at the `most`-th."""
        sets = [frozenset[int]()]
        for i in range(len(self.margins)):
            sets += [s | {i} for s in sets if len(s) < most]

        def outcomes(fail: Floats, passing: Floats) -> Floats:
            chances = {frozenset[int](): np.ones(fail.shape[1])}
            for i, (failed, passed) in enumerate(zip(fail, passing, strict=True)):
                running = [s for s in chances if len(s) < most]
                chances |= {s | {i}: chances[s] * passed for s in running}
                chances |= {s: chances[s] * failed for s in running}
            return np.array([chances[s] for s in sets])

        return dict(zip(sets, self._integrate(outcomes).tolist(), strict=True))

    def _integrate(self, outcomes: Callable[[Floats, Floats], Floats]) -> Floats:
        """Integrals of the threshold's density times `outcomes` of (m, nodes) probabilities to fail and to pass."""
        unit = min(self.threshold.unit, self.scale)

        def level(step: float, _: NDArray[np.intp]) -> Floats:
            y, weight = self._nodes(step * unit)
            z = (y - self.margins[:, None]) / self.scale
            return (outcomes(self.noise.cdf(z), self.noise.sf(z)) @ (weight * self.threshold.pdf(y)))[:, None]

        return refine(level, 1, _STEP)[:, 0]

    def _nodes(self, step: float) -> tuple[Floats, Floats]:
        reach = self.threshold.reach
        cuts = np.unique(np.clip(np.append(self.margins, (-reach, 0.0, reach)), -reach, reach))
        pieces = [np.linspace(a, b, math.ceil((b - a) / step), endpoint=False) for a, b in pairwise(cuts)]
        edges = np.append(np.concatenate(pieces), reach)
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (1 + _NODES)).ravel(), (half * _WEIGHTS).ravel()
