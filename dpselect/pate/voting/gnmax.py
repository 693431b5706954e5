"""GNMax: the label with the largest noisy count."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

from pydantic import Field

from accounting import GaussianDP, Relation
from accounting.frozen import Count, Positive
from dpselect.mechanisms.noise_curves import centred_gaussian
from dpselect.mechanisms.noisy_max import positions
from dpselect.mechanisms.traits import SIGMA, Traits
from dpselect.noise import by_name
from dpselect.pate.ballots import Vote
from dpselect.pate.voting.draws import winners
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class GNMax(Vote):
    """The label of the largest count + N(0, sigma^2), where every teacher votes for one label (Papernot et al. 2018).

    Guarantee: GaussianDP(sqrt(2)/sigma) under replace_one, GaussianDP(sqrt(1 - 1/labels)/sigma) under add_remove,
    Theorem P9.

    Args:
        sigma: standard deviation of the noise, in votes, > 0.
        labels: the public number of labels.
        relation: "replace_one" replaces one teacher's ballots, which is what one private record does; "add_remove" adds or
            removes a teacher.
    """

    kind: Literal["gnmax"] = "gnmax"
    traits: ClassVar[Traits] = Traits(answers="votes", noise=SIGMA, ordered=True, most=1, domain="public", zeros=True)
    one_vote: ClassVar[bool] = True
    sigma: Positive = Field(description="a finite sigma > 0, in votes")
    labels: Count = Field(description="the public number of labels, >= 1")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @property
    def covers(self) -> Sensitivity:
        return one_vote(self.neighbours)

    @property
    def curve(self) -> GaussianDP:
        return centred_gaussian(self.sigma, self.covers, self.labels)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return positions.select(scores, by_name("gaussian"), self.sigma, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return Selections(winners(matrix, self.sigma, source)[:, None], ordered=True, requested=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return positions.probabilities(scores, by_name("gaussian"), self.sigma)


def one_vote(relation: Relation) -> Sensitivity:
    """What a ballot of at most one vote changes."""
    return Sensitivity(l0=2 if relation == "replace_one" else 1, relation=relation)
