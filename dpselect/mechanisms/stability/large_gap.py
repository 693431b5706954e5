"""Large gap: how many items to release, chosen where the ranking has a wide gap; with public preferences for some numbers."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from accounting import BoundedRange, Relation
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import count_blocks
from dpselect.mechanisms.stability.gaps import Rank, favoured, gap_shift, read_top, row_gaps
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import NoiseName, argmax_probabilities, by_name
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Floats, Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class ListedSizes(Frozen):
    """values[j - 1] counts are added to the gap below the top j. The list is public: never compute it from the scores.

    Args:
        values: (at least kbar,) finite numbers, in counts.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["listed"] = "listed"
    values: tuple[Real, ...] = Field(min_length=1, description="one finite number per size, in counts")

    def first(self, sizes: int) -> Floats:
        """(sizes,) what is added to the gaps below the top 1, ..., sizes; in counts."""
        return np.array(self.values[:sizes])

    @property
    def most(self) -> int:
        """The largest size that the regulariser knows."""
        return len(self.values)


@final
class TargetSize(Frozen):
    """`-penalty * |j - k|` counts are added to the gap below the top j.

    Args:
        k: the size aimed at, >= 1.
        penalty: counts per item more or fewer, >= 0.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["target_size"] = "target_size"
    k: Count = Field(description="an integer >= 1")
    penalty: NonNegative = Field(description="a finite penalty >= 0, in counts per item")

    def first(self, sizes: int) -> Floats:
        """(sizes,) what is added to the gaps below the top 1, ..., sizes; in counts."""
        return -self.penalty * np.abs(np.arange(1, sizes + 1) - self.k)

    @property
    def most(self) -> int:
        """The largest size that the regulariser knows."""
        return sys.maxsize


Regularizer = ListedSizes | TargetSize


def _from_array(data: Any) -> Any:
    """A bare public array is `ListedSizes`."""
    values = data.tolist() if isinstance(data, np.ndarray) else data
    return ListedSizes(values=tuple(values)) if isinstance(values, list | tuple) else data


AnyRegularizer = Annotated[Annotated[Regularizer, Field(discriminator="kind")], BeforeValidator(_from_array)]


class WidestGap(Mechanism, ABC):
    """What chooses a rank j, from 1 to kbar, by the largest of gap + regulariser + scale * noise. A member has these fields."""

    if TYPE_CHECKING:
        kbar: int
        regularizer: Regularizer | None
        neighbours: Relation

    @property
    @abstractmethod
    def _noise(self) -> tuple[NoiseName, float]:
        """The noise on every gap and its scale, in counts."""

    @model_validator(mode="after")
    def _knows_every_size(self) -> Self:
        most = None if self.regularizer is None else self.regularizer.most
        if most is not None and most < self.kbar:
            raise ValueError(f"the regularizer lists {most} sizes and kbar={self.kbar}: list one number per size up to kbar")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)

    def propose(self, gaps: Floats, source: Sampler) -> Indices:
        """(rows,) the ranks that are chosen for (rows, ranks) gaps: private until they are released."""
        noise, scale = self._noise
        return source.top_k_rows(self._preferred(gaps), by_name(noise), scale, 1)[:, 0] + 1

    def rank_law(self, gaps: Floats) -> Floats:
        """(ranks,) the probability that each rank is chosen, for (ranks,) gaps."""
        noise, scale = self._noise
        return argmax_probabilities(by_name(noise), scale, self._preferred(gaps))

    def _preferred(self, gaps: Floats) -> Floats:
        """(..., ranks) gaps plus what the regulariser adds."""
        return gaps if self.regularizer is None else favoured(gaps, self.regularizer.first(gaps.shape[-1]))


class GapRank(WidestGap, ABC):
    """What releases that rank: how many items lie above the gap."""

    def _check_stated(self) -> None:
        _ = self._noise  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        rank = int(self.propose(read_top(scores, self.kbar).gaps[None], source)[0])
        return Selection(indices=(rank,), ordered=True, requested=1)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        ranks = [self.propose(row_gaps(block, self.kbar), source) for block in count_blocks(matrix)]
        return Selections(np.concatenate(ranks)[:, None], ordered=True, requested=1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return dict(enumerate(self.rank_law(read_top(scores, self.kbar).gaps).tolist(), start=1))


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
