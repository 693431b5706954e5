"""OnlineStableQueries: answer every query that no single user can change, until c of them turn out unstable."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import Approximate, Relation
from accounting.frozen import Count, Positive, Probability
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.queries.online_stable_law import law
from dpselect.mechanisms.queries.online_stable_session import StableSession
from dpselect.mechanisms.queries.stable_rule import StableRule, require_distances
from dpselect.mechanisms.queries.threshold_run import Flags, first
from dpselect.mechanisms.release import release
from dpselect.mechanisms.stability.many import blocks
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler, sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_REASON = "stopped after c unstable queries"


@final
class OnlineStableQueries(Mechanism):
    """Every query is answered exactly while it is found stable; the c-th found unstable ends it (after Carvalho et al. 2020).

    `session()` takes queries one by one, each chosen after the earlier outcomes; `select(scores)` takes the distances to
    instability of a fixed list. `Selection.indices` are the queries whose true answers may be released. The threshold's noise is
    drawn afresh after every unstable query: the printed algorithm keeps it, and no proof covers that. Guarantee, the true answers
    included and however many queries are asked: Approximate(c * SparseVectorDP(split * epsilon, (1 - split) * epsilon), delta),
    Theorem V5.

    Args:
        epsilon: nats for each of the c runs, > 0.
        delta: in (0, 1), the chance that any unstable answer passes.
        c: how many unstable queries are let through before the end, >= 1.
        split: share of epsilon for the threshold, in (0, 1).
        relation: what a neighbour is; the distances count steps of that kind.
    """

    kind: Literal["online_stable_queries"] = "online_stable_queries"
    traits: ClassVar[Traits] = Traits(
        answers="queries", noise=EPSILON, failure="delta", ordered=False, most=None, domain="public"
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    c: Count = Field(description="an integer >= 1")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(monotone=False, relation=self.neighbours)

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.c * self.rule.curve, delta0=self.delta)

    @property
    def least_candidates(self) -> int:
        return 1

    @property
    def most_candidates(self) -> None:
        return None

    @property
    def rule(self) -> StableRule:
        """The test by itself: its threshold and its noise. Each of c runs meets at most one test that could go wrong."""
        return StableRule(self.epsilon, self.split, self.delta, self.c)

    def session(self, *, rng: np.random.Generator | None = None) -> StableSession:
        """Ask queries one by one. The price of the whole session is `curve`: charge it before the first query.

        Args:
            rng: None draws from the operating system's entropy; a seeded Generator is for simulation only.
        """
        return StableSession(self.rule, most_unstable=self.c, source=sampler(rng))

    def _check_stated(self) -> None:
        _ = self.rule.threshold  # refused before a charge, not at the draw

    def _check_values(self, values: Numbers) -> None:
        require_distances(values)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        stable, unstable = self._rows(scores.dense()[None], source)
        chosen = np.flatnonzero(stable[0]).tolist()
        return release(scores, chosen, ordered=False, requested=None, complete=bool(unstable[0] < self.c), reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        parts = [self._rows(matrix[rows], source) for rows in blocks(matrix)]
        stable, unstable = (np.concatenate(part) for part in zip(*parts, strict=True))
        complete = np.asarray(unstable < self.c)
        return Selections(first(stable, stable.shape[1]), ordered=False, requested=None, complete=complete, reason=_REASON)

    def _rows(self, matrix: Numbers, source: Sampler) -> tuple[Flags, Any]:
        """(rows, m) which queries were answered, and (rows,) how many turned out unstable."""
        rule = self.rule
        stable, unstable = np.zeros(matrix.shape, dtype=np.bool_), np.zeros(len(matrix), dtype=np.int64)
        thresholds = rule.thresholds(len(matrix), source)
        for column, distances in enumerate(matrix.T):
            passed = rule.passes(distances, thresholds)
            running = unstable < self.c
            stable[:, column] = passed & running
            ended = np.flatnonzero(running & ~passed)
            unstable[ended] += 1
            thresholds.renew(ended)
        return stable, unstable

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(2.0**scores.size, 2**14)
        return law(scores.dense(), self.rule, self.c)
