"""How good a release is expected to be, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Self, final

import numpy as np
import scipy
from pydantic import Field

from accounting.frozen import Probability, Real
from dpselect.planning.laws.base import Outcomes
from dpselect.planning.score_levels import Floats, Levels
from dpselect.planning.task import Stated

Method = Literal["exact", "quadrature", "clopper-pearson", "empirical-bernstein"]


@final
class Estimate(Stated):
    """An expected value and an interval around it.

    Args:
        value: the exact or the simulated mean.
        low, high: the interval; equal to `value` if the law is known exactly.
        level: the confidence of the interval, 1 if exact. It holds for any number of simulated runs, not just for many.
        method: how it was made: "exact", "quadrature" (the interval bounds the numerical error; nothing is sampled),
            "clopper-pearson" for what either happens or not, "empirical-bernstein" (Maurer and Pontil 2009, Theorem 4) for a
            bounded number.
    """

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
    def within(cls, value: float, error: float) -> Self:
        """A number in [0, 1] that is off by at most `error`, exact if that is 0."""
        if error == 0:
            return cls.exactly(value)
        return cls(value=value, low=max(0.0, value - error), high=min(1.0, value + error), method="quadrature")

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
        known = ("exact", "quadrature")
        inexact = sorted((estimate for _, estimate in parts if estimate.method != "exact"), key=lambda one: one.method in known)
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
        """Where the mean of `runs` fresh runs lies, for a number in [0, 1] that this estimates.

        No law on [0, 1] spreads more than the one that takes the values 0 and 1, so the binomial quantiles at either end of the
        interval are used.
        """
        tail = (1 - level) / 2
        low = _binomial_quantile(tail, runs, min(1.0, max(0.0, self.low))) / runs
        # The most that fail is what is left of the most that succeed: the tail keeps its digits.
        high = 1 - _binomial_quantile(tail, runs, 1 - min(1.0, max(0.0, self.high))) / runs
        return min(low, self.low), max(high, self.high)


def _binomial_quantile(tail: float, runs: int, chance: float) -> int:
    """The least number of successes that the binomial law exceeds with at most 1 - tail."""
    if chance in (0.0, 1.0):
        return int(chance) * runs
    count = max(0, math.ceil(float(scipy.special.bdtrik(tail, runs, chance))))
    return count - 1 if count and scipy.special.bdtr(count - 1, runs, chance) >= tail else count


def _interval(runs: Floats, mean: float, doubt: float) -> tuple[float, float, Method]:
    if np.isin(runs, (0.0, 1.0)).all():
        return *_clopper_pearson(int(runs.sum()), len(runs), doubt), "clopper-pearson"
    half = _bernstein(float(runs.var(ddof=1)), len(runs), doubt)
    return max(0.0, mean - half), min(1.0, mean + half), "empirical-bernstein"


def _clopper_pearson(hits: int, rounds: int, doubt: float) -> tuple[float, float]:
    low = 0.0 if hits == 0 else float(scipy.special.betaincinv(hits, rounds - hits + 1, doubt / 2))
    high = 1.0 if hits == rounds else float(scipy.special.betainccinv(hits + 1, rounds - hits, doubt / 2))
    return low, high


def _bernstein(variance: float, rounds: int, doubt: float) -> float:
    """Half the width of the interval of Maurer and Pontil (2009), Theorem 4, on both sides."""
    surprise = math.log(4 / doubt)
    return math.sqrt(2 * variance * surprise / rounds) + 7 * surprise / (3 * (rounds - 1))


@final
class Quality(Stated):
    """What one release is expected to be like. With ties at rank k, any of the tied items counts as right.

    Args:
        exact_set: the probability that all k items are there and right.
        recall: the expected share of the k places that a right item fills.
        score_loss: by how much the released items' counts fall short of those of the k best, in users, summed over the items.
        relative_loss: the same as a share of the sum of the k best.
        released: how many items are released.
        in_place: the share of places that hold the right rank, where the order is released.
    """

    exact_set: Estimate = Field(description="an Estimate")
    recall: Estimate = Field(description="an Estimate")
    score_loss: Estimate = Field(description="an Estimate")
    relative_loss: Estimate = Field(description="an Estimate")
    released: Estimate = Field(description="an Estimate")
    in_place: Estimate | None = Field(default=None, description="an Estimate, or None")

    @classmethod
    def of(cls, outcomes: Outcomes, levels: Levels, level: float) -> Self:
        """The quality that outcomes show, with intervals of this confidence."""

        def estimated(values: Floats) -> Estimate:
            if outcomes.weights is None:
                return Estimate.from_runs(values, level)
            return Estimate.within(min(1.0, float(outcomes.weights @ values)), outcomes.error)

        loss = estimated(outcomes.kept).complement()
        return cls(
            exact_set=estimated(outcomes.exact_set),
            recall=estimated(outcomes.recall),
            score_loss=loss.scaled(levels.best),
            relative_loss=loss,
            released=estimated(outcomes.released).scaled(levels.k),
            in_place=None if outcomes.in_place is None else estimated(outcomes.in_place),
        )

    @classmethod
    def average(cls, parts: Iterable[tuple[int, Self]]) -> Self:
        """The quality of a release on average over a schedule of (count, quality) parts; of a single one its own."""
        found = list(parts)

        def mean(name: str) -> Estimate:
            return Estimate.average([(count, getattr(quality, name)) for count, quality in found])

        if len(found) == 1:
            return found[0][1]
        ordered = all(quality.in_place is not None for _, quality in found)
        names = ("exact_set", "recall", "score_loss", "relative_loss", "released")
        return cls(**{name: mean(name) for name in names}, in_place=mean("in_place") if ordered else None)
