"""TauVoting: a vote on every label by ballots of few votes."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from pydantic import Field

from accounting import Relation
from accounting.frozen import Count, Positive, Real
from dpselect.mechanisms.traits import SIGMA, Traits
from dpselect.pate.voting.binary_voting import LevelVote
from dpselect.sensitivity import Sensitivity


@final
class TauVoting(LevelVote):
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

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(l0=2 * self.tau if self.neighbours == "replace_one" else self.tau, relation=self.neighbours)
