"""Large gap: how many items to release, chosen where the ranking has a wide gap."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import BoundedRange, Relation
from accounting.frozen import Positive
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.stability.gaps import Rank, as_law, gap_shift, pick_law, pick_rows, read_top
from dpselect.mechanisms.stability.many import count_blocks, row_gaps
from dpselect.mechanisms.stability.regularizer import AnyRegularizer, require_sizes
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class LargeGap(Mechanism):
    """The rank j <= kbar whose gap h_(j) - h_(j+1) + regularizer(j) + Gumbel(2/epsilon) is largest (Zhu, Wang 2022).

    Releases the number j of items above the gap, not the items: `Selection.indices` is (j,), j from 1. Reads the kbar + 1 highest
    counts only, so the domain may be unknown. Guarantee: BoundedRange(epsilon) under add_remove, BoundedRange(2 epsilon) under
    replace_one, Theorem S3.

    Args:
        epsilon: nats, > 0; the noise is Gumbel with scale 2/epsilon counts under either relation.
        kbar: the largest rank considered, from 1 to 10,000,000.
        regularizer: public preference for some ranks: an array of at least kbar numbers, `TargetSize`, or None.
        relation: what a neighbour is.

    Example:
        >>> import dpselect as dps
        >>> dps.LargeGap(epsilon=1.0, kbar=3).select(dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())).indices
        (2,)
    """

    kind: Literal["large_gap"] = "large_gap"
    traits: ClassVar[Traits] = Traits(
        answers="gap", noise=EPSILON, ordered=True, most=1, domain="unknown", reads=lambda mechanism: mechanism.kbar + 1
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
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
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=gap_shift(self.neighbours) * self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in counts, rounded up."""
        return ratio_up(2.0, self.epsilon)

    def _check_stated(self) -> None:
        _ = self.scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        gaps = read_top(scores, self.kbar).gaps
        rank = int(pick_rows(gaps[None], self.regularizer, "gumbel", self.scale, source)[0])
        return Selection(indices=(rank,), ordered=True, requested=1)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        ranks = [
            pick_rows(row_gaps(block, self.kbar), self.regularizer, "gumbel", self.scale, source)
            for block in count_blocks(matrix)
        ]
        return Selections(np.concatenate(ranks)[:, None], ordered=True, requested=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return as_law(pick_law(read_top(scores, self.kbar).gaps, self.regularizer, "gumbel", self.scale))
