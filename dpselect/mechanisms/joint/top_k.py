"""The joint exponential mechanism over ordered sequences."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting import BoundedRange
from accounting.frozen import Count, Positive, Probability
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism, Positions, enumerable
from dpselect.mechanisms.joint.levels import Levels
from dpselect.mechanisms.ranks import Ranked
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores, centred
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
        answers="top_k",
        noise=EPSILON,
        ordered=True,
        most="k",
        domain="public",
        law="dpselect.planning.laws.joint:joint",
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
    def rate(self) -> float:
        """Nats per score unit of loss: epsilon over the range of the loss, which is twice that of the scores if k > 1.

        Rounded down.

        Raises:
            InvalidMechanism: that is 0.
        """
        span = self.sensitivity.range * (1 if self.k == 1 else 2)
        quotient = min(self.epsilon / span, sys.float_info.max)
        fits = math.isfinite(span) and Fraction(quotient) * Fraction(span) <= Fraction(self.epsilon)
        rate = quotient if fits else math.nextafter(quotient, 0.0)
        if rate == 0.0:
            raise InvalidMechanism(f"epsilon={self.epsilon} beside a range of {span:g} is below the least float: raise it")
        return rate

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

    def _draw(self, scores: Scores, rounds: int, source: Sampler) -> Positions:
        """(rounds, k) positions, independent draws for one score vector."""
        ranked = Ranked(scores)
        levels = Levels(ranked, self.k, self.rate, self.cut(ranked.size))
        drawn = draw_sequences(levels.draw(rounds, source), source)
        ranks, place = np.unique(drawn, return_inverse=True)
        return ranked.positions(ranks)[place].reshape(drawn.shape)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = centred(scores.dense())
        enumerable(math.perm(len(values), self.k))
        sequences = list(itertools.permutations(range(len(values)), self.k))
        weights = np.exp(-self.rate * np.minimum(_losses(values, np.array(sequences)), self.cut(len(values))))
        return dict(zip(sequences, (weights / weights.sum()).tolist(), strict=True))


def _losses(values: NDArray[np.float64], sequences: Positions) -> NDArray[np.float64]:
    best = np.sort(values)[::-1][: sequences.shape[1]]
    return np.asarray((best - values[sequences]).max(axis=1))


# Uniformly random sequences in which place i takes one of the best allowed[i] ranks, no rank twice.

Indices = NDArray[np.int64]


def draw_sequences(allowed: Indices, source: Sampler) -> Indices:
    """(rounds, k) ranks from 1, for (rounds, k) non-decreasing `allowed` with allowed[i] > i.

    What a place may take includes what earlier places may, so each place is uniform over what is left: the first swaps of a
    Fisher-Yates shuffle.
    """
    place = np.arange(allowed.shape[1])
    picks = source.below((allowed - place).ravel()).reshape(allowed.shape) + place
    return np.array([_swaps(row) for row in picks.tolist()], dtype=np.int64) + 1


def _swaps(picks: list[int]) -> list[int]:
    moved: dict[int, int] = {}
    for place, pick in enumerate(picks):
        moved[place], moved[pick] = moved.get(pick, pick), moved.get(place, place)
    return [moved[place] for place in range(len(picks))]
