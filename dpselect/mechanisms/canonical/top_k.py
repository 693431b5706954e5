"""Canonical Lipschitz top-k: the whole set in one draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import BoundedRange, LaplaceDP
from accounting.frozen import Count, Positive, Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.canonical.classes import Classes, TopSet
from dpselect.mechanisms.canonical.draw import draw_class, draw_members
from dpselect.mechanisms.canonical.exact import set_probability, set_score
from dpselect.mechanisms.canonical.many import RowDraw, class_count, draw_rows
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import Ranked
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name
from dpselect.noise.quadrature import argmax_probabilities
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores, centred
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

LipschitzNoise = Literal["gumbel", "exponential", "laplace", "logistic", "half_logistic"]

_MOST_CLASSES = 4096  # per row of a matrix: more is slower than the draw of one row by blocks


@final
class CanonicalTopK(Mechanism):
    """The k-set S with the largest noisy score gamma * min of S - (1 - gamma) * max of the rest (Shekelyan and Loukides 2022).

    Releases a set. Its price does not grow with k: BoundedRange(epsilon) for gumbel, LaplaceDP(epsilon) for the others, both with
    noise of scale range/epsilon on the score of a set, which changes by at most the range of the scores (Theorems M5 and N7).

    Args:
        k: how many candidates to release, >= 1.
        epsilon: nats, > 0.
        gamma: in [1/2, 1]; 1/2 scores the gap between the set and the rest, 1 the set's least score only (cheaper to draw).
        noise: gumbel, exponential, laplace, logistic or half_logistic.
        top_set: how the true top set is scored: "tied" as in the paper, as if the best candidate left out were tied with the last
            one in; "gap" by the real gap, as all other sets are, which is more accurate at the same price.
        sensitivity: what one user may change; its range scales the noise.
    """

    kind: Literal["canonical_top_k"] = "canonical_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=EPSILON,
        ordered=False,
        most="k",
        domain="public",
        tried={"noise": ("gumbel", "exponential")},
        law="dpselect.planning.laws.canonical:canonical",
        variants="dpselect.planning.families:rules",
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    gamma: Annotated[Real, Field(ge=0.5, le=1)] = Field(default=0.5, description="a number from 1/2 to 1")
    noise: LipschitzNoise = Field(default="gumbel", description="gumbel, exponential, laplace, logistic or half_logistic")
    top_set: TopSet = Field(default="tied", description="'tied' or 'gap'")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    @property
    def curve(self) -> BoundedRange | LaplaceDP:
        return BoundedRange(epsilon=self.epsilon) if self.noise == "gumbel" else LaplaceDP(epsilon=self.epsilon)

    @property
    def least_candidates(self) -> int:
        return self.k

    @property
    def most_candidates(self) -> None:
        return None

    @property
    def scale(self) -> float:
        """Scale of the noise on the score of a set, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    def set_probability(self, scores: Scores, subset: Collection[int]) -> float:
        """The exact probability that `subset`, k candidate positions, is released; private, like the scores.

        With gumbel noise in O(m k) for any m; with the others by quadrature, for at most 50,000 classes.

        Raises:
            InvalidRequest: not k different positions.
            NoClosedForm: too many classes for the quadrature.
            DpSelectError: as for `select`.
        """
        self.check(scores)
        if len(set(subset)) != self.k or len(subset) != self.k or not all(0 <= i < scores.size for i in subset):
            raise InvalidRequest(f"subset must be k={self.k} different candidate positions")
        score = set_score(centred(scores.dense()), subset, self.gamma, self.top_set)
        return set_probability(Classes(Ranked(scores), self.k, self.gamma, self.top_set), by_name(self.noise), self.scale, score)

    def _check_stated(self) -> None:
        _ = self.scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        ranked = Ranked(scores)
        chosen = draw_class(Classes(ranked, self.k, self.gamma, self.top_set), by_name(self.noise), self.scale, source)
        positions = ranked.positions(draw_members(chosen, self.k, source))
        return release(scores, positions, ordered=False, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        if class_count(matrix.shape[1], self.k, self.gamma) <= _MOST_CLASSES:
            asked = RowDraw(self.k, self.gamma, self.top_set, by_name(self.noise), self.scale)
            best = draw_rows(matrix, asked, source)
            return Selections(best, ordered=False, requested=self.k)
        rows = [self._select(Scores(row, sensitivity=self.covers, kind="utilities"), source).indices for row in matrix]
        return Selections(np.array(rows, dtype=np.int64), ordered=False, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = centred(scores.dense())
        sets = math.comb(len(values), self.k)
        enumerable(sets, 2e5 if self.noise == "gumbel" else 128)
        # Report-noisy-max over all sets one by one: knows nothing of classes.
        subsets = list(itertools.combinations(range(len(values)), self.k))
        utility = np.array([set_score(values, subset, self.gamma, self.top_set) for subset in subsets])
        law = argmax_probabilities(by_name(self.noise), self.scale, utility)
        return {frozenset(subset): p for subset, p in zip(subsets, law.tolist(), strict=True)}
