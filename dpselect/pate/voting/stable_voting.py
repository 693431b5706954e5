"""StableVoting: as many labels as the votes make stable."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve, Relation
from accounting.frozen import Count, Positive, Probability
from dpselect.mechanisms.ranks import blocks, joined
from dpselect.mechanisms.stability.gaps import Rank
from dpselect.mechanisms.stability.large_gap import AnyRegularizer
from dpselect.mechanisms.stability.stability_test import NOT_PASSED
from dpselect.mechanisms.stability.stable_top_k import StableTopK
from dpselect.mechanisms.traits import RHO, Traits
from dpselect.pate.ballots import Vote
from dpselect.pate.voting import draws
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_CELLS = 1 << 20  # counts held as 64-bit numbers at a time


@final
class StableVoting(Vote):
    """The labels above a wide gap in the votes, their number chosen for every item, or nothing: `StableTopK` on ballots.

    From Zhu and Wang 2022, with the constants of replaced ballots. A ballot may hold any number of votes and need not be cut.
    Guarantee: Approximate(BoundedRange(2 sqrt(rho)) + GaussianDP(sqrt(rho)), failure_delta) a round, under either relation,
    Theorem P15: neither the number of labels nor that of the votes on a ballot has a price.

    Args:
        rho: zCDP parameter of a round, nats, > 0.
        failure_delta: in (0, 1), the chance that labels pass that a ballot could change; of one round.
        labels: the public number of labels.
        kbar: the most labels that an item may get; None for `labels`.
        regularizer: public preference for some numbers of labels: an array of at least kbar numbers, `TargetSize`, or None.
        relation: "replace_one" or "add_remove", of teachers.
    """

    kind: Literal["stable_voting"] = "stable_voting"
    traits: ClassVar[Traits] = Traits(
        answers="votes", noise=RHO, failure="failure_delta", ordered=False, most="labels", domain="public", zeros=True
    )
    rho: Positive = Field(description="a finite rho > 0, in nats")
    failure_delta: Probability = Field(description="a probability in (0, 1)")
    labels: Rank = Field(description="the public number of labels, from 1 to 10,000,000")
    kbar: Count | None = Field(default=None, description="an integer from 1 to labels, or None")
    regularizer: AnyRegularizer | None = Field(default=None, description="a public array, a TargetSize, or None")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @model_validator(mode="after")
    def _has_so_many_labels(self) -> Self:
        if self.kbar is not None and self.kbar > self.labels:
            raise ValueError(f"kbar={self.kbar} is more than labels={self.labels}: leave it out for all of them")
        _ = self.stable  # its own rules, the length of the regularizer among them
        return self

    @property
    def stable(self) -> StableTopK:
        """The mechanism that does the work: `expected_size` and `rule` are for planning."""
        return StableTopK(
            rho=self.rho,
            failure_delta=self.failure_delta,
            kbar=self.labels if self.kbar is None else self.kbar,
            regularizer=self.regularizer,
            relation=self.neighbours,
        )

    @property
    def covers(self) -> Sensitivity:
        return self.stable.covers

    @property
    def curve(self) -> Curve:
        return self.stable.curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self.stable._select(scores, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        stable = self.stable
        parts = [stable._select_many(draws.wide(block), source) for block in blocks(matrix, _CELLS)]
        indices, complete = joined(part.indices for part in parts), np.concatenate([part.complete for part in parts])
        return Selections(indices, ordered=False, requested=None, complete=complete, reason=NOT_PASSED)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return self.stable._probabilities(scores)
