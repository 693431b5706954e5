"""TauVoting: a vote on every label by ballots of few votes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from accounting import GaussianDP, Relation
from accounting.frozen import Count, Positive, Real
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.traits import SIGMA, Traits
from dpselect.pate.voting import level
from dpselect.pate.voting.vote import BallotVote, root_up
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class TauVoting(BallotVote):
    """`BinaryVoting` by ballots of at most `tau` votes each, which costs less: cut them by `Ballots.cut`.

    From Zhu et al. 2020 (Private-kNN). Guarantee under replace_one: GaussianDP(sqrt(min(2 tau, labels))/sigma), under
    add_remove GaussianDP(sqrt(min(tau, labels))/sigma), Theorem P12.

    Args:
        tau: votes on a ballot at most, >= 1.
        sigma: standard deviation of the noise on every count, in votes, > 0.
        labels: the public number of labels.
        threshold: votes that a noisy count has to exceed; None for half of the teachers.
        teachers: the public number of teachers; None takes it from the ballots. Counts alone do not tell it.
        relation: "replace_one", or "add_remove" of teachers, whose number is then private: state `threshold`.
    """

    kind: Literal["tau_voting"] = "tau_voting"
    traits: ClassVar[Traits] = Traits(answers="votes", noise=SIGMA, ordered=False, most="labels", domain="public", zeros=True)
    tau: Count = Field(description="an integer >= 1")
    sigma: Positive = Field(description="a finite sigma > 0, in votes")
    labels: Count = Field(description="the public number of labels, >= 1")
    threshold: Real | None = Field(default=None, description="a finite number of votes, or None for half of the teachers")
    teachers: Count | None = Field(default=None, description="the public number of teachers, or None")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @model_validator(mode="after")
    def _has_a_public_level(self) -> Self:
        level.require_level(self.threshold, self.teachers, self.neighbours)
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(l0=self._changed, relation=self.neighbours)

    @property
    def curve(self) -> GaussianDP:
        return GaussianDP(mu=ratio_up(root_up(min(self._changed, self.labels)), self.sigma))

    @property
    def _changed(self) -> int:
        return 2 * self.tau if self.neighbours == "replace_one" else self.tau

    def with_teachers(self, teachers: int) -> Self:
        """The mechanism with that number of teachers, unless its threshold is stated."""
        level.same_teachers(self.teachers, teachers)
        return self if self.threshold is not None else self.model_copy(update={"teachers": teachers})

    def _check_stated(self) -> None:
        level.level_of(self.threshold, self.teachers)

    @property
    def _level(self) -> float:
        return level.level_of(self.threshold, self.teachers)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return level.select(scores, self._level, self.sigma, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return level.select_many(matrix, self._level, self.sigma, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return level.probabilities(scores, self._level, self.sigma)
