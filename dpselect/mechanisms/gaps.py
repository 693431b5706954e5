"""Gaps between neighbors in the ranking: their sensitivity, their computation, and wide ones."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from accounting import BoundedRange, Curve
from accounting.frozen import Count, Frozen, NonNegative, Positive, Real
from accounting.numbers import Floats, Integers
from accounting.relations import Relation
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up, winner_curve
from dpselect.mechanisms.ranks import add_public, count_blocks, heights, highest, read_counts
from dpselect.mechanisms.traits import EPSILON, SCALE, Traits
from dpselect.noise import NoiseName, noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import argmax_probabilities

Rank = Annotated[Count, Field(le=10_000_000)]
"""Number of the highest counts that are read.

Observed domains are padded up to this number, so it bounds time and memory.
"""


class Top(NamedTuple):
    """The top of a ranking."""

    # of the highest candidates, highest first; fewer than gaps where an observed domain has fewer
    # items
    positions: Integers
    # gaps[j - 1] is the j-th highest count minus the next one, that of a candidate that is not
    # there being 0
    gaps: Floats


def gap_shift(relation: Relation) -> float:
    """Largest change of any one gap by one user, in counts. Theorem S1."""
    return 1.0 if relation == "add_remove" else 2.0


def read_top(scores: Scores, kbar: int) -> Top:
    """Return the first kbar gaps, computed from the kbar + 1 highest counts alone.

    A public domain of m candidates has min(kbar, m) gaps. An observed one always has kbar, because
    the number of its items is private.
    """
    positions, counts = read_counts(scores, kbar + 1)
    gaps = gaps_below(counts[None])[0, :kbar]
    if scores.domain == "observed":
        # Zeros that are never touched take no memory.
        observed, gaps = gaps, np.zeros(kbar)
        gaps[: len(observed)] = observed
    return Top(positions[:kbar], gaps)


def top_set(top: Top, size: int) -> Integers:
    """Return positions of the top `size`, or none if an observed domain has fewer items."""
    return top.positions[:size] if len(top.positions) >= size else top.positions[:0]


def gaps_below(descending: Numbers) -> Floats:
    """Return each count minus the next of its row, and the last one minus 0.

    From (rows, ranks) descending counts >= 0, same shape.
    """
    below = np.zeros_like(descending)
    below[:, :-1] = descending[:, 1:]
    return heights(descending, below)


def row_gaps(block: Numbers, kbar: int) -> Floats:
    """Return the first gaps of every row, shape (rows, min(kbar, m))."""
    return gaps_below(highest(block, kbar + 1))[:, :kbar]


@final
class ListedSizes(Frozen):
    """A public list of preferences: values[j - 1] counts are added to the gap below the top j.

    Never compute the list from the scores.

    Args:
        values: (at least kbar,) finite numbers, in counts.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["listed"] = "listed"
    values: tuple[Real, ...] = Field(
        min_length=1, description="one finite number per size, in counts"
    )

    def first(self, sizes: int) -> Floats:
        """Return (sizes,) counts that are added to the gaps below the top 1, ..., sizes."""
        return np.array(self.values[:sizes])

    @property
    def most(self) -> int:
        """The largest size that the regularizer knows."""
        return len(self.values)


@final
class TargetSize(Frozen):
    """A public preference for size k: the gap below the top j gets `-penalty * |j - k|` counts.

    Args:
        k: the size aimed at, >= 1.
        penalty: counts per item more or fewer, >= 0.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["target_size"] = "target_size"
    k: Count = Field(description="an integer >= 1")
    penalty: NonNegative = Field(description="a finite penalty >= 0, in counts per item")

    def first(self, sizes: int) -> Floats:
        """Return (sizes,) counts that are added to the gaps below the top 1, ..., sizes."""
        return -self.penalty * np.abs(np.arange(1, sizes + 1) - self.k)

    @property
    def most(self) -> int:
        """The largest size that the regularizer knows."""
        return sys.maxsize


Regularizer = ListedSizes | TargetSize


def _from_array(data: Any) -> Any:
    """Convert a bare public array to `ListedSizes`."""
    values = data.tolist() if isinstance(data, np.ndarray) else data
    return ListedSizes(values=tuple(values)) if isinstance(values, list | tuple) else data


AnyRegularizer = Annotated[
    Annotated[Regularizer, Field(discriminator="kind")], BeforeValidator(_from_array)
]


class WidestGap(Mechanism, ABC):
    """Base class of mechanisms that choose the rank j with the widest noisy gap, from 1 to kbar.

    The width is gap + regularizer + scale * noise.
    """

    kind: str
    kbar: Rank = Field(description="an integer from 1 to 10,000,000")
    regularizer: AnyRegularizer | None = Field(
        default=None, description="a public array, a TargetSize, or None"
    )
    neighbors: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )

    @property
    @abstractmethod
    def _noise(self) -> tuple[NoiseName, float]:
        """The noise on every gap and its scale, in counts."""

    @model_validator(mode="after")
    def _knows_every_size(self) -> Self:
        most = None if self.regularizer is None else self.regularizer.most
        if most is not None and most < self.kbar:
            raise ValueError(
                f"the regularizer lists {most} sizes, fewer than kbar={self.kbar}. List one"
                " number per size up to kbar"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbors)

    @property
    def _of_gaps(self) -> Sensitivity:
        """Sensitivity of the gaps, taken as scores.

        Gaps go up and down under either relation, so their range is twice the shift.
        """
        return Sensitivity(linf=gap_shift(self.neighbors), monotone=False, relation=self.neighbors)

    def propose(self, gaps: Floats, source: Sampler) -> Integers:
        """Return (rows,) chosen ranks for (rows, ranks) gaps. They are private until released."""
        noise, scale = self._noise
        return source.top_k_rows(self._regularize(gaps), noise_of(noise), scale, 1)[:, 0] + 1

    def rank_law(self, gaps: Floats) -> Floats:
        """Return (ranks,) probabilities that each rank is chosen, for (ranks,) gaps."""
        noise, scale = self._noise
        return argmax_probabilities(noise_of(noise), scale, self._regularize(gaps))

    def _regularize(self, gaps: Floats) -> Floats:
        """Return gaps plus the values of the regularizer, shape (..., ranks)."""
        return (
            gaps
            if self.regularizer is None
            else add_public(gaps, self.regularizer.first(gaps.shape[-1]))
        )


gap_traits: partial[Traits] = partial(
    Traits,
    answers="gap",
    ordered=True,
    most=1,
    domain="unknown",
    reads=lambda mechanism: mechanism.kbar + 1,
)
"""Traits of a `GapRank`, to be completed with its noise."""


class GapRank(WidestGap, ABC):
    """Base class of mechanisms that release the chosen rank: the number of items above the gap."""

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
    """The rank j <= kbar with the largest h_(j) - h_(j+1) + regularizer(j) + Gumbel(2/epsilon).

    This is the algorithm of Zhu and Wang (2022).

    It releases the number j of items above the gap, not the items: `Selection.indices` is (j,), j
    from 1. It reads only the kbar + 1 highest counts, so the domain may be unknown. Guarantee:
    BoundedRange(epsilon) under add_remove, BoundedRange(2 epsilon) under replace_one, Theorem S3.

    Args:
        regularizer: public preference for some ranks: an array of at least kbar numbers,
            `TargetSize`, or None.

    Example:
        >>> import dpselect as dps
        >>> dps.LargeGap(epsilon=1.0, kbar=3).select(
        ...     dps.Scores([9000, 8990, 100, 90], sensitivity=dps.Sensitivity())
        ... ).indices
        (2,)
    """

    kind: Literal["large_gap"] = "large_gap"
    traits: ClassVar[Traits] = gap_traits(noise=EPSILON)
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=gap_shift(self.neighbors) * self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in counts, rounded up."""
        return ratio_up(2.0, self.epsilon)

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return "gumbel", self.scale


@final
class GaussianGap(GapRank):
    """The rank j <= kbar with the largest h_(j) - h_(j+1) + regularizer(j) + N(0, scale^2).

    It is released as by `LargeGap`.

    Guarantee: that of Gaussian report-noisy-max on kbar gaps, whose range is 2 (add_remove) or 4
    (replace_one) counts, Theorem S3. It is rarely better than `LargeGap`, because its cost grows
    with ln(kbar).
    """

    kind: Literal["gaussian_gap"] = "gaussian_gap"
    traits: ClassVar[Traits] = gap_traits(noise=SCALE)
    scale: Positive = Field(description="a finite scale > 0, in counts")

    @property
    def curve(self) -> Curve:
        return winner_curve("gaussian", self.scale, self._of_gaps, self.kbar)

    @property
    def _noise(self) -> tuple[NoiseName, float]:
        return "gaussian", self.scale
