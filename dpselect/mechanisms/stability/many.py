"""The stability mechanisms over many rounds at once, a block of rows at a time; and what the gap mechanisms share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from accounting import Relation
from dpselect.errors import InvalidScores
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.stability.gaps import (
    NOT_PASSED,
    Floats,
    StabilityRule,
    as_law,
    gaps_below,
    pick_law,
    pick_rows,
    read_top,
)
from dpselect.mechanisms.stability.regularizer import Regularizer, require_sizes
from dpselect.noise import NoiseName
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

Choose = Callable[[Floats], NDArray[np.int64]]
"""(rows, ranks) gaps -> (rows,) proposed sizes."""
Flags = NDArray[np.bool_]

_BLOCK = 1 << 16  # scores that fit the cache


def blocks(matrix: Numbers) -> Iterator[slice]:
    """Consecutive rows whose scores fit the cache."""
    step = max(1, _BLOCK // matrix.shape[1])
    return (slice(start, start + step) for start in range(0, len(matrix), step))


def count_blocks(matrix: Numbers) -> Iterator[Numbers]:
    """The `blocks` of a matrix of counts.

    Raises:
        InvalidScores: the matrix contains a negative number, which is no count.
    """
    if np.any(matrix < 0):
        raise InvalidScores(
            "matrix contains a negative number: this mechanism takes a candidate that is not there as one with count 0, so it "
            "needs counts >= 0; for utilities use a mechanism for a public domain, Peeling for example"
        )
    return (matrix[rows] for rows in blocks(matrix))


def highest(block: Numbers, count: int) -> Numbers:
    """(rows, min(count, m)) the highest scores of every row, descending."""
    best, columns = block.copy(), block.shape[1]
    if 2 * count < columns:
        best.partition(columns - count, axis=1)
        best = best[:, columns - count :]
    best.sort(axis=1)
    return best[:, ::-1][:, :count]


def ranked_rows(block: Numbers) -> NDArray[np.int64]:
    """(rows, m) positions of every row's scores, highest first, ties by position."""
    ascending = np.argsort(block[:, ::-1], axis=1, kind="stable")
    return block.shape[1] - 1 - ascending[:, ::-1]


def row_gaps(block: Numbers, kbar: int) -> Floats:
    """(rows, min(kbar, m)) the first gaps of every row."""
    return gaps_below(highest(block, kbar + 1))[:, :kbar]


def tested(block: Numbers, kbar: int, choose: Choose, rule: StabilityRule, source: Sampler) -> tuple[Flags, Flags]:
    """(rows, m) membership of the sets that passed, empty where none did, and (rows,) whether one did."""
    top = highest(block, kbar + 1)
    gaps = gaps_below(top)[:, :kbar]
    sizes = choose(gaps)
    rows = np.arange(len(block))
    chosen = gaps[rows, sizes - 1]
    passed = rule.passes(chosen, source)
    members = (block >= top[rows, sizes - 1][:, None]) & passed[:, None]
    for row in np.flatnonzero(passed & (chosen == 0)):
        # More scores than asked for reach the level: ties go by position.
        members[row] = False
        members[row, ranked_rows(block[row : row + 1])[0, : sizes[row]]] = True
    return members, passed


def released(members: list[Flags], passed: list[Flags], requested: int | None) -> Selections:
    """The sets as Selections, from blocks of `tested`."""
    sizes = np.concatenate([block.sum(axis=1) for block in members])
    indices = np.full((len(sizes), max(1, int(sizes.max()))), -1, dtype=np.int64)
    columns = np.concatenate([np.nonzero(block)[1] for block in members])
    indices[np.arange(indices.shape[1]) < sizes[:, None]] = columns
    return Selections(indices, ordered=False, requested=requested, complete=np.concatenate(passed), reason=NOT_PASSED)


def release_rows(
    matrix: Numbers, kbar: int, choose: Choose, rule: StabilityRule, source: Sampler, *, requested: int | None
) -> Selections:
    """Choose a size, test the gap below it, release the set or nothing: for every row."""
    results = [tested(block, kbar, choose, rule, source) for block in count_blocks(matrix)]
    return released([members for members, _ in results], [passed for _, passed in results], requested)


class GapRank(Mechanism, ABC):
    """A rank: how many items lie above the largest noisy gap. A member has the fields below."""

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
        require_sizes(self.regularizer, self.kbar)
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(relation=self.neighbours)

    def _check_stated(self) -> None:
        _ = self._noise  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        rank = int(self._ranks(read_top(scores, self.kbar).gaps[None], source)[0])
        return Selection(indices=(rank,), ordered=True, requested=1)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        ranks = [self._ranks(row_gaps(block, self.kbar), source) for block in count_blocks(matrix)]
        return Selections(np.concatenate(ranks)[:, None], ordered=True, requested=1)

    def _ranks(self, gaps: Floats, source: Sampler) -> NDArray[np.int64]:
        return pick_rows(gaps, self.regularizer, *self._noise, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return as_law(pick_law(read_top(scores, self.kbar).gaps, self.regularizer, *self._noise))
