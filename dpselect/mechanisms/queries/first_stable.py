"""FirstStable: the first of several queries whose answer no single user can change; and the test, shared by all that ask so."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import Approximate, Relation
from accounting.curves.sparse_vector import SparseVectorDP
from accounting.decimal_sum import decimal_sum
from accounting.frozen import Count, Positive, Probability
from dpselect.errors import InvalidScores
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.queries.above_threshold import Flags, NoisyComparisons, first, margins
from dpselect.mechanisms.ranks import blocks
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name
from dpselect.noise.base import log1mexp
from dpselect.sampling import Sampler, Thresholds
from dpselect.sampling.heights import Indices, numbers
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_REASON = "no query passed the stability test"
_EXACT = Context(prec=400)  # the caller's may have any precision
_MARGIN = 1e-12  # on the logarithm of a probability that is computed to 1e-14


@final
@dataclass(frozen=True)
class StableRule:
    """Distances to instability against one noisy threshold, high enough that what is unstable hardly ever passes. Theorem V3.

    Pass iff distance + Laplace(2/epsilon2) > T + Laplace(1/epsilon1); the latter noise serves a whole run.

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
        return float(_EXACT.multiply(Decimal(repr(self.epsilon)), Decimal(repr(self.split))))

    @property
    def epsilon2(self) -> float:
        """Nats for the test that ends the run."""
        rest = float(_EXACT.subtract(Decimal(repr(self.epsilon)), Decimal(repr(self.epsilon1))))
        return rest if decimal_sum([(1, self.epsilon1), (1, rest)]) <= self.epsilon else math.nextafter(rest, 0.0)

    @property
    def curve(self) -> SparseVectorDP:
        """What one run costs unless something unstable passes: a distance moves by one step, half of what its noise pays for."""
        return SparseVectorDP(epsilon1=self.epsilon1, epsilon2=self.epsilon2, positives=1, alone=self.epsilon2 / 2 or None)

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
        """T, in steps of distance: ln(1/delta_q) * test_scale, with the paper's delta_q."""
        return self._height * self.test_scale

    def thresholds(self, rows: int, source: Sampler) -> Thresholds:
        """(rows,) noise for the thresholds of as many runs, in steps of distance."""
        return source.thresholds(by_name("laplace"), [self.scale], rows)

    def passes(self, distances: Numbers, thresholds: Thresholds) -> Flags:
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


def log_failure(height: float, ratio: float) -> float:
    """ln P[X > height + Y] for Laplace X of scale 1 and Y of scale 1/ratio, height >= 0: ln delta_max, exact. Theorem V3.

    delta_max = (d^c - c^2 d)/(2 (1 - c^2)) with d = exp(-height) and c = ratio, written so that nothing cancels near c = 1.
    """
    x = (ratio - 1) * height
    size = abs(x)
    mean = float(log1mexp(size)) - math.log(size) if size > 1e-8 else -size / 2  # type: ignore[arg-type]  # ln((1 - exp(-size))/size)
    weight = -math.inf if height == 0 else math.log(height / (ratio + 1)) + max(-x, 0.0) + mean
    more = max(weight, 0.0) + math.log1p(math.exp(-abs(weight)))
    return -math.log(2) - height + more


class StableQueries(Mechanism, ABC):
    """What releases true answers to queries that no single user can change. Scores are distances to instability."""

    if TYPE_CHECKING:
        neighbours: Relation

    @property
    @abstractmethod
    def rule(self) -> StableRule:
        """The test by itself: its threshold and its noise."""

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(monotone=False, relation=self.neighbours)

    def _check_stated(self) -> None:
        _ = self.rule.threshold  # refused before a charge, not at the draw

    def _check_scores(self, scores: Scores) -> None:
        if np.any(scores.values < 0):
            raise InvalidScores("a distance is negative: a distance counts users, 0 where some neighbour answers differently")


@final
class FirstStable(StableQueries):
    """The first query found stable, whose exact answer may then be released at no further price (Carvalho et al. 2020).

    `select(scores)` takes as scores the distances to instability of queries f_1, f_2, ... in a fixed order that does not depend
    on the data: how many users have to change before a neighbour answers f_i differently, 0 if one of the neighbours does.
    `Selection.indices` is empty or names one query, whose true answer is then public. Guarantee, that answer included:
    Approximate(SparseVectorDP(split * epsilon, (1 - split) * epsilon), delta), Theorem V4.

    Args:
        epsilon: nats, > 0.
        delta: in (0, 1), the chance that an unstable answer passes.
        candidates: the public number of queries at most.
        split: share of epsilon for the threshold, in (0, 1).
        relation: what a neighbour is; the distances count steps of that kind.
    """

    kind: Literal["first_stable"] = "first_stable"
    traits: ClassVar[Traits] = Traits(answers="queries", noise=EPSILON, failure="delta", ordered=False, most=1, domain="public")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    candidates: Count = Field(description="a public number of queries, >= 1")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.rule.curve, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        return StableRule(self.epsilon, self.split, self.delta, self.candidates)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        found = self._rows(scores.dense()[None], source)[0]
        return release(scores, found[found >= 0], ordered=False, requested=1, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate([self._rows(block, source) for block in blocks(matrix)])
        return Selections(indices, ordered=False, requested=1, reason=_REASON)

    def _rows(self, matrix: Numbers, source: Sampler) -> Indices:
        rule = self.rule
        minus = [np.array([[rule.threshold]])]
        return first(source.passing(matrix, by_name("laplace"), rule.scale, rule.test_scale, minus=minus), 1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(scores.size, 1000)
        chances = first_law(margins(scores.dense(), self.rule.threshold), self.rule)
        return {frozenset([i] if i < scores.size else []): chance for i, chance in enumerate(chances.tolist())}


def first_law(above: Any, rule: StableRule) -> Any:
    """(m + 1,) the probability that each of (m,) margins is the first to pass; last, that none does."""
    return NoisyComparisons(above, by_name("laplace"), rule.scale, rule.test_scale).first_passing()
