"""ConfidentGNMax: the winner, where enough teachers agree."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

import numpy as np
from pydantic import Field

from accounting import Curve, GaussianDP, Relation
from accounting.frozen import Count, Positive, Real
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.noise_curves import centred_gaussian, ratio_up
from dpselect.mechanisms.noisy_max import positions
from dpselect.mechanisms.ranks import blocks
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import SIGMA, Traits
from dpselect.noise import by_name
from dpselect.pate.ballots import Vote
from dpselect.pate.voting import draws
from dpselect.pate.voting.gnmax import one_vote
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_CELLS = 1 << 20  # counts of answered rounds copied at a time
ABSTAINED = "the largest noisy count did not reach the threshold"


@final
class ConfidentGNMax(Vote):
    """`GNMax`, with fresh noise, where the largest count + N(0, sigma_threshold^2) exceeds a threshold; else no label.

    From Papernot et al. 2018. Guarantee under replace_one: GaussianDP(1/sigma_threshold) + GaussianDP(sqrt(2)/sigma); under
    add_remove GaussianDP(sqrt(1 - 1/labels)/sigma) as the second part, Theorem P10. That is the price of every round, answered
    or not; `spent` is what a round costs that abstained, for a privacy filter that charges as it goes.

    Args:
        threshold: votes that the largest noisy count has to exceed.
        sigma_threshold: standard deviation of the noise of that test, in votes, > 0.
        sigma: standard deviation of the noise of the answer, in votes, > 0.
        labels: the public number of labels.
        relation: "replace_one" or "add_remove", of teachers.
    """

    kind: Literal["confident_gnmax"] = "confident_gnmax"
    traits: ClassVar[Traits] = Traits(answers="votes", noise=SIGMA, ordered=True, most=1, domain="public", zeros=True)
    one_vote: ClassVar[bool] = True
    threshold: Real = Field(description="a finite number of votes")
    sigma_threshold: Positive = Field(description="a finite sigma_threshold > 0, in votes")
    sigma: Positive = Field(description="a finite sigma > 0, in votes")
    labels: Count = Field(description="the public number of labels, >= 1")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @property
    def covers(self) -> Sensitivity:
        return one_vote(self.neighbours)

    @property
    def curve(self) -> Curve:
        return self.test_curve + centred_gaussian(self.sigma, self.covers, self.labels)

    @property
    def test_curve(self) -> GaussianDP:
        """What the test costs: the whole price of a round that abstains."""
        return GaussianDP(mu=ratio_up(1.0, self.sigma_threshold))

    def spent(self, selection: Selection) -> Curve:
        """What this round cost, given what it released: the test, and the winner if there is one. Theorem P10."""
        answered = selection.complete and len(selection) == 1
        abstained = not selection.complete and len(selection) == 0 and selection.reason == ABSTAINED
        if selection.requested != 1 or not (answered or abstained):
            raise InvalidRequest("spent takes a Selection that this mechanism released")
        return self.curve if selection.complete else self.test_curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        highest = scores.values.max(keepdims=True)
        if source.exceeds(highest, by_name("gaussian"), self.sigma_threshold, self.threshold)[0]:
            return positions.select(scores, by_name("gaussian"), self.sigma, source)
        return release(scores, (), ordered=True, requested=1, complete=False, reason=ABSTAINED)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        coins = draws.Coins.of(matrix, self.threshold, self.sigma_threshold)
        passed = np.concatenate([coins.toss(block.max(axis=1), source) for block in blocks(matrix)])
        labels = np.full((len(matrix), 1), -1, dtype=np.int64)
        for start in range(0, len(matrix), step := max(1, _CELLS // matrix.shape[1])):
            rows = start + np.flatnonzero(passed[start : start + step])
            if len(rows):
                labels[rows, 0] = draws.winners(matrix[rows], self.sigma, source)
        return Selections(labels, ordered=True, requested=1, complete=passed, reason=ABSTAINED)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        below = (self.threshold - float(scores.values.max())) / self.sigma_threshold
        noise = by_name("gaussian")
        winner = positions.probabilities(scores, noise, self.sigma)
        passes = float(noise.sf(below))
        return {(): float(noise.cdf(below)), **{(label,): passes * chance for label, chance in winner.items()}}
