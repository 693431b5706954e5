"""Large gap: how many items to release, chosen where the ranking has a wide gap."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from pydantic import Field

from accounting import BoundedRange, Relation
from accounting.frozen import Positive
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.stability.gaps import Rank, gap_shift
from dpselect.mechanisms.stability.many import GapRank
from dpselect.mechanisms.stability.regularizer import AnyRegularizer
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import NoiseName


@final
class LargeGap(GapRank):
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

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=gap_shift(self.neighbours) * self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in counts, rounded up."""
        return ratio_up(2.0, self.epsilon)

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return "gumbel", self.scale
