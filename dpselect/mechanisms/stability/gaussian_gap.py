"""Large gap with Gaussian noise."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve, Relation
from accounting.frozen import Positive
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import winner_curve
from dpselect.mechanisms.stability.gaps import Rank, as_law, gap_sensitivity, pick_law, pick_rows, read_top
from dpselect.mechanisms.stability.many import count_blocks, row_gaps
from dpselect.mechanisms.stability.regularizer import AnyRegularizer, require_sizes
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class GaussianGap(Mechanism):
    """The rank j <= kbar whose gap h_(j) - h_(j+1) + regularizer(j) + N(0, scale^2) is largest; released as by `LargeGap`.

    Guarantee: that of Gaussian report-noisy-max on kbar gaps, whose range is 2 (add_remove) or 4 (replace_one) counts, Theorem
    S3. Rarely better than `LargeGap`: its price grows with ln(kbar).

    Args:
        scale: standard deviation of the noise, in counts, > 0.
        kbar: the largest rank considered, from 1 to 10,000,000.
        regularizer: public preference for some ranks: an array of at least kbar numbers, `TargetSize`, or None.
        relation: what a neighbour is.
    """

    kind: Literal["gaussian_gap"] = "gaussian_gap"
    traits: ClassVar[Traits] = Traits(
        answers="gap", noise=SCALE, ordered=True, most=1, domain="unknown", reads=lambda mechanism: mechanism.kbar + 1
    )
    scale: Positive = Field(description="a finite scale > 0, in counts")
    kbar: Rank = Field(description="an integer from 1 to 10,000,000")
    regularizer: AnyRegularizer | None = Field(default=None, description="a public array, a TargetSize, or None")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _knows_every_size(self) -> Self:
        require_sizes(self.regularizer, self.kbar)
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)

    @property
    def curve(self) -> Curve:
        return winner_curve("gaussian", self.scale, gap_sensitivity(self.neighbours), self.kbar)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        gaps = read_top(scores, self.kbar).gaps
        rank = int(pick_rows(gaps[None], self.regularizer, "gaussian", self.scale, source)[0])
        return Selection(indices=(rank,), ordered=True, requested=1)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        ranks = [
            pick_rows(row_gaps(block, self.kbar), self.regularizer, "gaussian", self.scale, source)
            for block in count_blocks(matrix)
        ]
        return Selections(np.concatenate(ranks)[:, None], ordered=True, requested=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return as_law(pick_law(read_top(scores, self.kbar).gaps, self.regularizer, "gaussian", self.scale))
