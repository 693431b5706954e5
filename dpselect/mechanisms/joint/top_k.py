"""The joint exponential mechanism over ordered sequences."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import BoundedRange, Curve
from accounting.frozen import Count, Positive, Probability
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.joint.levels import AllowedRanks
from dpselect.mechanisms.noise_curves import rate_down
from dpselect.mechanisms.ranks import Ranked, draw_sequences, half_below
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class JointTopK(Mechanism):
    """One exponential mechanism over all sequences of k candidates; ordered (Gillenwater, Joseph, Munoz, Ribero 2022).

    The loss of a sequence is the largest of (i-th highest score - score in place i). A sequence has probability proportional to
    exp(-rate * loss). Guarantee: BoundedRange(epsilon), whatever k (Theorem M7).

    Args:
        k: how many candidates to release, >= 1.
        epsilon: nats, > 0.
        beta: None, or the failure probability of FastJoint: losses are cut at a level that depends on public numbers only, and
            beyond it, with probability at most beta, the sequence is uniformly random. Same guarantee. The exact mechanism
            is as quick here; the cut is for comparison with the published one.
        sensitivity: what one user may change; its range sets the rate.
    """

    kind: Literal["joint_top_k"] = "joint_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k", noise=EPSILON, ordered=True, most="k", domain="public", law="dpselect.planning.laws.joint:joint"
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    beta: Probability | None = Field(default=None, description="a probability in (0, 1), or None")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @property
    def rate(self) -> float:
        """Nats per score unit of loss: epsilon over the range of the loss, which is twice that of the scores if k > 1.

        Rounded down.

        Raises:
            InvalidMechanism: that is 0.
        """
        span = self.sensitivity.range * (1 if self.k == 1 else 2)
        return rate_down(self.epsilon, span)

    def cut(self, candidates: int) -> float:
        """The loss at which FastJoint cuts, score units, for a public number of candidates; inf without `beta`."""
        if self.beta is None:
            return math.inf
        sequences = math.fsum(math.log(candidates - place) for place in range(self.k))
        return (sequences - math.log(self.beta)) / self.rate

    def _check_stated(self) -> None:
        _ = self.rate  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return release(scores, self._draw(scores, 1, source)[0], ordered=True, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        rows, which = np.unique(matrix, axis=0, return_inverse=True)
        best = np.empty((len(matrix), self.k), dtype=np.int64)
        for place, row in enumerate(rows):
            chosen = np.flatnonzero(which.ravel() == place)
            best[chosen] = self._draw(Scores(row, sensitivity=self.covers, kind="utilities"), len(chosen), source)
        return Selections(best, ordered=True, requested=self.k)

    def _draw(self, scores: Scores, rounds: int, source: Sampler) -> Indices:
        """(rounds, k) positions, independent draws for one score vector."""
        ranked = Ranked(scores)
        levels = AllowedRanks(ranked, self.k, self.rate, self.cut(ranked.size))
        drawn = draw_sequences(levels.draw(rounds, source), source)
        ranks, place = np.unique(drawn, return_inverse=True)
        return ranked.positions(ranks)[place].reshape(drawn.shape)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        dense = scores.dense()
        values = half_below(dense, dense.max())
        enumerable(math.perm(len(values), self.k))
        sequences = list(itertools.permutations(range(len(values)), self.k))
        best = np.sort(values)[::-1][: self.k]
        half = (best - values[np.array(sequences)]).max(axis=1)
        with np.errstate(over="ignore"):
            weights = np.exp(-self.rate * np.minimum(2.0 * half, self.cut(len(values))))
        return dict(zip(sequences, (weights / weights.sum()).tolist(), strict=True))
