"""How good a release is expected to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Frozen
from dpselect.errors import InvalidRequest
from dpselect.planning.estimate import Estimate
from dpselect.planning.levels import Indices, Levels

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may come out: independent simulated runs, or all outcomes of a known law. Every number is in [0, 1].

    Attributes:
        exact_set: whether, or how likely, all k items are there and right.
        recall: share of the k places that a right item fills.
        kept: sum of the released items' counts over that of the k best.
        released: number of released items over k.
        in_place: share of the k places that hold an item with the count of that rank; None if no order is released.
        weights: probability of each outcome; None for simulated runs.
    """

    exact_set: Floats
    recall: Floats
    kept: Floats
    released: Floats
    in_place: Floats | None = None
    weights: Floats | None = None

    @classmethod
    def of_counts(cls, counts: Floats, levels: Levels, *, ordered: bool) -> Self:
        """From (rounds, k) counts of the released items, NaN where there is none; in order of rank if `ordered`."""
        k, there = levels.k, ~np.isnan(counts)
        hits = (there & (counts >= levels.bar)).sum(axis=1)
        best = levels.value(np.arange(1, k + 1))
        return cls(
            exact_set=(hits == k).astype(np.float64),
            recall=hits / k,
            kept=share(np.where(there, counts, 0.0).sum(axis=1), levels.best),
            released=there.sum(axis=1) / k,
            in_place=(counts == best).sum(axis=1) / k if ordered else None,
        )

    @classmethod
    def of_tops(cls, sizes: Indices, chances: Floats, levels: Levels) -> Self:
        """From the law of how many of the highest are released; of more than k, k are drawn at random."""
        released = np.minimum(sizes, levels.k)
        part = released / np.maximum(sizes, 1)
        return cls(
            exact_set=((sizes >= levels.k) & (sizes <= levels.right)).astype(np.float64) + _lucky(sizes, levels),
            recall=part * np.minimum(sizes, levels.right) / levels.k,
            kept=share(part * levels.sums(sizes), levels.best),
            released=released / levels.k,
            weights=chances,
        )


def share(total: Floats, best: float) -> Floats:
    """`total` over `best`, within [0, 1]; all of it where there is nothing to gain."""
    return np.clip(total / best, 0.0, 1.0) if best > 0 else np.ones_like(total)


def _lucky(sizes: Indices, levels: Levels) -> Floats:
    """The chance that k random ones of more than `right` highest are all right."""
    wide = sizes > levels.right
    places = np.arange(levels.k)
    ratio = np.clip((levels.right - places) / np.maximum(sizes[:, None] - places, 1), 0.0, 1.0)
    return np.where(wide, ratio.prod(axis=1), 0.0)


@final
class Quality(Frozen):
    """What one release is expected to be like. With ties at rank k, any of the tied items counts as right.

    Args:
        exact_set: the probability that all k items are there and right.
        recall: the expected share of the k places that a right item fills.
        score_loss: by how much the released items' counts fall short of those of the k best, in users, summed over the items.
        relative_loss: the same as a share of the sum of the k best.
        released: how many items are released.
        in_place: the share of places that hold the right rank, where the order is released.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    exact_set: Estimate = Field(description="an Estimate")
    recall: Estimate = Field(description="an Estimate")
    score_loss: Estimate = Field(description="an Estimate")
    relative_loss: Estimate = Field(description="an Estimate")
    released: Estimate = Field(description="an Estimate")
    in_place: Estimate | None = Field(default=None, description="an Estimate, or None")

    @classmethod
    def of(cls, outcomes: Outcomes, levels: Levels, level: float) -> Self:
        """The quality that outcomes show, with intervals of this confidence."""

        def estimated(values: Floats) -> Estimate:
            if outcomes.weights is None:
                return Estimate.from_runs(values, level)
            return Estimate.exactly(min(1.0, float(outcomes.weights @ values)))

        loss = estimated(outcomes.kept).complement()
        return cls(
            exact_set=estimated(outcomes.exact_set),
            recall=estimated(outcomes.recall),
            score_loss=loss.scaled(levels.best),
            relative_loss=loss,
            released=estimated(outcomes.released).scaled(levels.k),
            in_place=None if outcomes.in_place is None else estimated(outcomes.in_place),
        )

    @classmethod
    def average(cls, parts: list[tuple[int, Self]]) -> Self:
        """The quality of a release on average over a schedule of (count, quality) parts."""

        def mean(name: str) -> Estimate:
            return Estimate.average([(count, getattr(quality, name)) for count, quality in parts])

        ordered = all(quality.in_place is not None for _, quality in parts)
        names = ("exact_set", "recall", "score_loss", "relative_loss", "released")
        return cls(**{name: mean(name) for name in names}, in_place=mean("in_place") if ordered else None)
