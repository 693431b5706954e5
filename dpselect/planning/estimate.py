"""Numbers that a plan predicts, with how sure it is of them."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self, final

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Frozen, Probability, Real
from dpselect.errors import InvalidRequest

Floats = NDArray[np.float64]
Method = Literal["exact", "clopper-pearson", "empirical-bernstein"]


@final
class Estimate(Frozen):
    """An expected value and an interval around it.

    Args:
        value: the exact or the simulated mean.
        low, high: the interval; equal to `value` if the law is known exactly.
        level: the confidence of the interval, 1 if exact. It holds for any number of simulated runs, not just for many.
        method: how it was made: "exact", "clopper-pearson" for what either happens or not, "empirical-bernstein" (Maurer and
            Pontil 2009, Theorem 4) for a bounded number.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    value: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")
    level: Real = Field(default=1.0, description="a confidence in (0, 1]")
    method: Method = Field(default="exact", description="how the interval was made")

    @classmethod
    def exactly(cls, value: float) -> Self:
        """A value known without doubt but for rounding."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def from_runs(cls, runs: Floats, level: float) -> Self:
        """The mean of (rounds,) independent numbers in [0, 1], with an interval of this confidence."""
        mean = float(runs.mean())
        low, high, method = _interval(runs, mean, 1 - level)
        return cls(value=mean, low=min(low, mean), high=max(high, mean), level=level, method=method)

    @classmethod
    def average(cls, parts: list[tuple[int, Self]]) -> Self:
        """The mean of estimates, each counted so often; the interval keeps the confidence only if there is one part that is not
        exact, and is the union bound's otherwise.
        """
        total = sum(count for count, _ in parts)
        inexact = [estimate for _, estimate in parts if estimate.method != "exact"]
        doubt = sum(1 - estimate.level for estimate in inexact)

        def mean(name: str) -> float:
            return float(sum(count * getattr(estimate, name) for count, estimate in parts) / total)

        method = inexact[0].method if inexact else "exact"
        return cls(value=mean("value"), low=mean("low"), high=mean("high"), level=max(0.0, 1 - doubt), method=method)

    def scaled(self, factor: float) -> Estimate:
        """The estimate of `factor` times the number, factor >= 0."""
        return self.model_copy(update={name: factor * getattr(self, name) for name in ("value", "low", "high")})

    def complement(self, whole: float = 1.0) -> Estimate:
        """The estimate of `whole` minus the number."""
        update = {"value": whole - self.value, "low": whole - self.high, "high": whole - self.low}
        return self.model_copy(update=update)

    def for_runs(self, runs: int, level: Probability = 0.95) -> tuple[float, float]:
        """Where the mean of so many fresh runs lies, for a number in [0, 1] that this estimates.

        No law on [0, 1] spreads more than the one that takes the values 0 and 1, so the binomial quantiles at either end of the
        interval are used.
        """
        tail = (1 - level) / 2
        low = float(scipy.stats.binom.ppf(tail, runs, min(1.0, max(0.0, self.low)))) / runs
        high = float(scipy.stats.binom.isf(tail, runs, min(1.0, max(0.0, self.high)))) / runs
        return min(low, self.low), max(high, self.high)


def _interval(runs: Floats, mean: float, doubt: float) -> tuple[float, float, Method]:
    if np.isin(runs, (0.0, 1.0)).all():
        return *_clopper_pearson(int(runs.sum()), len(runs), doubt), "clopper-pearson"
    half = _bernstein(float(runs.var(ddof=1)), len(runs), doubt)
    return max(0.0, mean - half), min(1.0, mean + half), "empirical-bernstein"


def _clopper_pearson(hits: int, rounds: int, doubt: float) -> tuple[float, float]:
    low = 0.0 if hits == 0 else float(scipy.stats.beta.ppf(doubt / 2, hits, rounds - hits + 1))
    high = 1.0 if hits == rounds else float(scipy.stats.beta.isf(doubt / 2, hits + 1, rounds - hits))
    return low, high


def _bernstein(variance: float, rounds: int, doubt: float) -> float:
    """Half the width of the interval of Maurer and Pontil (2009), Theorem 4, on both sides."""
    surprise = math.log(4 / doubt)
    return math.sqrt(2 * variance * surprise / rounds) + 7 * surprise / (3 * (rounds - 1))
