"""A ranking of made-up counts by its levels: what the laws of quality are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.planning.shape import Shape

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Levels:
    """Distinct counts, highest first, how many items have each, and how many of the best are wanted.

    A released item is right if its count is at least that of rank k: with ties any of the tied items will do.

    Attributes:
        values: (levels,) counts, in users.
        multiplicities: (levels,) numbers of items.
        k: how many of the best are wanted, at most the number of items.
    """

    values: Floats
    multiplicities: Indices
    k: int

    @classmethod
    def of(cls, shape: Shape, k: int, *, known: bool = True) -> Self:
        """The levels of a shape; of an unknown domain (`known` False) only items that somebody touched exist."""
        kept = slice(None) if known else slice(0, int((shape.values > 0).sum()))
        return cls(shape.values[kept], shape.multiplicities[kept], k)

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.ends[-1]) if len(self.ends) else 0

    @cached_property
    def ends(self) -> Indices:
        """(levels,) rank of the last item of every level."""
        return np.cumsum(self.multiplicities)

    @cached_property
    def cumulated(self) -> Floats:
        """(levels + 1,) sum of the counts above every level."""
        return np.concatenate([[0.0], np.cumsum(self.values * self.multiplicities)])

    def value(self, rank: int | Indices) -> Floats:
        """Count of each rank, from 1; 0 beyond the last."""
        place = np.searchsorted(self.ends, rank, side="left")
        return np.append(self.values, 0.0)[np.minimum(place, len(self.values))]

    def sums(self, ranks: int | Indices) -> Floats:
        """Sum of the counts of the first `ranks` items, elementwise."""
        ranks = np.minimum(ranks, self.size)
        place = np.searchsorted(self.ends, ranks, side="left")
        before = np.concatenate([[0], self.ends])[place]
        return np.asarray(self.cumulated[place] + (ranks - before) * np.append(self.values, 0.0)[place])

    def gaps(self, count: int) -> Floats:
        """(count,) count of rank j minus that of rank j + 1, j from 1."""
        ranks = np.arange(1, count + 1)
        return np.asarray(self.value(ranks) - self.value(ranks + 1))

    @cached_property
    def bar(self) -> float:
        """The count of rank k, which a right item has at least."""
        return float(self.value(self.k))

    @cached_property
    def right(self) -> int:
        """How many items are right: k, or more with ties at rank k."""
        return int(self.multiplicities[self.values >= self.bar].sum())

    @cached_property
    def best(self) -> float:
        """The sum of the k highest counts."""
        return float(self.sums(self.k))

    def first(self, count: int) -> Levels:
        """The ranking cut off after `count` items."""
        return self._cut(0, min(count, self.size))

    def after(self, count: int) -> Levels:
        """The ranking without its first `count` items."""
        return self._cut(min(count, self.size), self.size)

    def _cut(self, start: int, stop: int) -> Levels:
        upto = np.clip(self.ends, start, stop)
        left = np.diff(np.concatenate([[start], upto]))
        kept = left > 0
        return Levels(self.values[kept], left[kept], self.k)
