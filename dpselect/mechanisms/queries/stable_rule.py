"""Distances to instability against one noisy threshold, high enough that what is unstable hardly ever passes. Theorem V3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from accounting.curves.sparse_vector import SparseVectorDP
from accounting.decimal_sum import decimal_sum
from dpselect.errors import InvalidScores
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.noise import by_name
from dpselect.noise.numerics import log1mexp
from dpselect.sampling import Sampler, Thresholds
from dpselect.sampling.heights import numbers
from dpselect.scores import Numbers

_MARGIN = 1e-12  # on the logarithm of a probability that is computed to 1e-14


@final
@dataclass(frozen=True)
class StableRule:
    """Pass iff distance + Laplace(2/epsilon2) > T + Laplace(1/epsilon1); the latter noise serves a whole run.

    Attributes:
        epsilon: epsilon1 + epsilon2, nats.
        split: epsilon1/epsilon.
        delta: the chance, over all tests, that one with distance 0 passes.
        tests: how many tests the union bound counts.
    """

    epsilon: float
    split: float
    delta: float
    tests: int

    @property
    def epsilon1(self) -> float:
        """Nats for the threshold."""
        return float(Decimal(repr(self.epsilon)) * Decimal(repr(self.split)))

    @property
    def epsilon2(self) -> float:
        """Nats for the test that ends the run."""
        rest = float(Decimal(repr(self.epsilon)) - Decimal(repr(self.epsilon1)))
        return rest if decimal_sum([(1, self.epsilon1), (1, rest)]) <= self.epsilon else math.nextafter(rest, 0.0)

    @property
    def curve(self) -> SparseVectorDP:
        """What one run costs unless something unstable passes."""
        return SparseVectorDP(epsilon1=self.epsilon1, epsilon2=self.epsilon2, positives=1)

    @property
    def scale(self) -> float:
        """Scale of the threshold's noise, in steps of distance."""
        return ratio_up(1.0, self.epsilon1)

    @property
    def test_scale(self) -> float:
        """Scale of the noise of every test, in steps of distance."""
        return ratio_up(2.0, self.epsilon2)

    @property
    def threshold(self) -> float:
        """T, in steps of distance: ln(1/delta_q) * test_scale."""
        return self._height * self.test_scale

    @property
    def delta_q(self) -> float:
        """exp(-T/test_scale), the parameter by which the paper states T."""
        return math.exp(-self._height)

    def thresholds(self, rows: int, source: Sampler) -> Thresholds:
        """(rows,) noise for the thresholds of as many runs, in steps of distance."""
        return source.thresholds(by_name("laplace"), [self.scale], rows)

    def passes(self, distances: Numbers, thresholds: Thresholds) -> NDArray[np.bool_]:
        """(rows,) which distances pass T and the noise of their thresholds, exactly, each with fresh noise of its own."""
        return thresholds.passes(numbers(distances)[:, None], self.test_scale, [np.array([[self.threshold]])])[:, 0]

    @cached_property
    def _height(self) -> float:
        """The least T/test_scale that bounds all failures, from the safe side."""
        ratio, target = self.test_scale / self.scale, math.log(self.delta) - math.log(self.tests) - _MARGIN
        if log_failure(0.0, ratio) <= target:
            return 0.0
        low, high = 0.0, 1.0
        while log_failure(high, ratio) > target:
            low, high = high, 2 * high
        while high - low > 1e-15 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if log_failure(middle, ratio) > target else (low, middle)
        return high


def require_distances(values: Numbers) -> None:
    """Refuse what is no distance, before a charge.

    Raises:
        InvalidScores: a distance is negative.
    """
    if np.any(values < 0):
        raise InvalidScores("a distance is negative: a distance counts users, 0 where some neighbour answers differently")


def log_failure(height: float, ratio: float) -> float:
    """ln P[X > height + Y] for Laplace X of scale 1 and Y of scale 1/ratio, height >= 0: ln delta_max, exact. Theorem V3.

    delta_max = (d^c - c^2 d)/(2 (1 - c^2)) with d = exp(-height) and c = ratio, written so that nothing cancels near c = 1.
    """
    x = (ratio - 1) * height
    weight = -math.inf if height == 0 else math.log(height / (ratio + 1)) + max(-x, 0.0) + _log_mean(abs(x))
    more = max(weight, 0.0) + math.log1p(math.exp(-abs(weight)))
    return -math.log(2) - height + more


def _log_mean(x: float) -> float:
    """ln((1 - exp(-x))/x), 0 at 0."""
    return float(log1mexp(x)) - math.log(x) if x > 1e-8 else -x / 2  # type: ignore[arg-type]
