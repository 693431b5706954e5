"""FirstStable: the first of several queries whose answer no single user can change."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import Approximate, Relation
from accounting.frozen import Count, Positive, Probability
from dpselect.mechanisms.base import Mechanism, Positions, enumerable
from dpselect.mechanisms.queries.stable_rule import StableRule, require_distances
from dpselect.mechanisms.queries.threshold_law import Comparisons, first, margins, passing, scaled
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.many import blocks
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_REASON = "no query passed the stability test"


@final
class FirstStable(Mechanism):
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
    def covers(self) -> Sensitivity:
        return Sensitivity(monotone=False, relation=self.neighbours)

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.rule.curve, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        """The test by itself: its threshold and its noise."""
        return StableRule(self.epsilon, self.split, self.delta, self.candidates)

    def _check_stated(self) -> None:
        _ = self.rule.threshold  # refused before a charge, not at the draw

    def _check_scores(self, scores: Scores) -> None:
        require_distances(scores.values)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        found = int(self._rows(scores.dense()[None], source)[0, 0])
        chosen = [found] if found >= 0 else []
        return release(scores, chosen, ordered=False, requested=1, complete=found >= 0, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate([self._rows(matrix[rows], source) for rows in blocks(matrix)])
        return Selections(indices, ordered=False, requested=1, complete=indices[:, 0] >= 0, reason=_REASON)

    def _rows(self, matrix: Numbers, source: Sampler) -> Positions:
        rule = self.rule
        return first(passing(matrix, rule.threshold, by_name("laplace"), rule.scale, rule.test_scale, source), 1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(scores.size, 1000)
        chances = first_law(margins(scores.dense(), self.rule.threshold), self.rule)
        return {frozenset([i] if i < scores.size else []): chance for i, chance in enumerate(chances.tolist())}


def first_law(above: Any, rule: StableRule) -> Any:
    """(m + 1,) the probability that each of (m,) margins is the first to pass; last, that none does."""
    laplace = by_name("laplace")
    return Comparisons(above, scaled(laplace, rule.scale), laplace, rule.test_scale).first_passing()
