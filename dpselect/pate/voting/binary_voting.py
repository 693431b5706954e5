"""BinaryVoting: a vote on every label by itself; and `LevelVote`, what it and TauVoting have in common."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import GaussianDP, Relation
from accounting.frozen import Count, Positive, Real
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import blocks, columns, joined
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import SIGMA, Traits
from dpselect.noise import by_name
from dpselect.pate.ballots import Vote
from dpselect.pate.voting import draws
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


class LevelVote(Vote, ABC):
    """A vote on every label by itself: those whose count + N(0, sigma^2) exceeds the level. A member has the fields below."""

    if TYPE_CHECKING:
        sigma: float
        threshold: float | None
        teachers: int | None
        neighbours: Relation

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(mu=ratio_up(self.covers.l2_of(self.labels), self.sigma))

    @model_validator(mode="after")
    def _has_a_public_level(self) -> Self:
        if self.neighbours == "add_remove" and (self.threshold is None or self.teachers is not None):
            raise ValueError(
                "under relation='add_remove' the number of teachers is private: state threshold= as a public number, "
                "and no teachers="
            )
        return self

    def with_teachers(self, teachers: int) -> Self:
        """The mechanism with that number of teachers, unless its threshold is stated; InvalidBallots if it has another number."""
        if self.teachers not in (None, teachers):
            raise InvalidBallots(
                f"the mechanism is configured for teachers={self.teachers} and the ballots have {teachers}: state the same"
            )
        return self if self.threshold is not None else self.model_copy(update={"teachers": teachers})

    def _check_stated(self) -> None:
        _ = self._level

    @property
    def _level(self) -> float:
        if self.threshold is not None:
            return self.threshold
        if self.teachers is None:
            raise InvalidRequest(
                "counts alone do not tell how many teachers voted: configure threshold= or teachers=, or pass "
                "dpselect.pate.Ballots"
            )
        return self.teachers / 2

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        passed = source.exceeds(scores.dense(), by_name("gaussian"), self.sigma, self._level)
        return release(scores, np.flatnonzero(passed).tolist(), ordered=False, requested=None)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        coins = draws.Coins.of(matrix, self._level, self.sigma)
        passed = (coins.toss(block.ravel(), source).reshape(block.shape) for block in blocks(matrix))
        return Selections(joined(map(columns, passed)), ordered=False, requested=None)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(2.0**scores.size)  # labels are independent
        noise = by_name("gaussian")
        with np.errstate(over="ignore"):
            below = (self._level - np.asarray(scores.dense(), dtype=np.float64)) / self.sigma
        law: dict[Any, float] = {frozenset(): 1.0}
        for label, (passes, fails) in enumerate(zip(noise.sf(below).tolist(), noise.cdf(below).tolist(), strict=True)):
            law = {
                **{chosen: chance * fails for chosen, chance in law.items()},
                **{chosen | {label}: chance * passes for chosen, chance in law.items()},
            }
        return law


@final
class BinaryVoting(LevelVote):
    """Every label whose count + N(0, sigma^2) exceeds a threshold, half of the teachers if none is stated.

    A ballot may hold any number of votes. Guarantee: GaussianDP(sqrt(labels)/sigma) under either relation, Theorem P11.

    Args:
        sigma: standard deviation of the noise on every count, in votes, > 0.
        labels: the public number of labels.
        threshold: votes that a noisy count has to exceed; None for half of the teachers.
        teachers: the public number of teachers; None takes it from the ballots. Counts alone do not tell it.
        relation: "replace_one", or "add_remove" of teachers, whose number is then private: state `threshold`.
    """

    kind: Literal["binary_voting"] = "binary_voting"
    traits: ClassVar[Traits] = Traits(answers="votes", noise=SIGMA, ordered=False, most="labels", domain="public", zeros=True)
    sigma: Positive = Field(description="a finite sigma > 0, in votes")
    labels: Count = Field(description="the public number of labels, >= 1")
    threshold: Real | None = Field(default=None, description="a finite number of votes, or None for half of the teachers")
    teachers: Count | None = Field(default=None, description="the public number of teachers, or None")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)
