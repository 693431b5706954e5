"""Large gap with Gaussian noise."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from pydantic import Field

from accounting import Curve, Relation
from accounting.frozen import Positive
from dpselect.mechanisms.noise_curves import winner_curve
from dpselect.mechanisms.stability.gaps import Rank, gap_sensitivity
from dpselect.mechanisms.stability.large_gap import AnyRegularizer, GapRank
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import NoiseName


@final
class GaussianGap(GapRank):
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

    @property
    def curve(self) -> Curve:
        return winner_curve("gaussian", self.scale, gap_sensitivity(self.neighbours), self.kbar)

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return "gaussian", self.scale
