"""Scores by rank: one sort of the values, and positions only for the ranks that are released; and
matrices of scores by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidScores
from dpselect.sampling import Sampler
from dpselect.sampling.contest import Flags, Floats, Indices, differences
from dpselect.scores import Numbers, Scores


def centered(values: Numbers) -> NDArray[np.float64]:
    """(m,) values minus their maximum as float64: rankings do not see a common shift, and large
    integers keep their gaps.
    """
    return differences(values, values.max())


def half_below(values: Any, top: Any) -> Floats:
    """(values - top)/2 rounded once, for a top no smaller than any of them."""
    if values.dtype == np.int64:
        # Unsigned arithmetic wraps, so the difference is exact even where the signed one would
        # overflow.
        return np.asarray(
            -0.5 * (top.astype(np.uint64) - values.astype(np.uint64)).astype(np.float64)
        )
    return np.asarray(0.5 * values - 0.5 * top)


@final
class Ranked:
    """The scores of a public domain, ranks counted from 1 at the highest; ties by position, as
    `Scores.ranked` has them.

    Sorting values alone is an order of magnitude quicker than sorting positions.
    """

    def __init__(self, scores: Scores) -> None:
        self._values: Numbers = scores.dense()
        self._ascending: Numbers = np.sort(self._values)  # type: ignore[assignment]
        self.size: int = len(self._values)

    def below_top(self, ranks: Any) -> Floats:
        """Score of each rank minus the highest score; any shape."""
        picked = self._ascending[self.size - np.asarray(ranks)]
        return differences(picked, self._ascending[-1])

    def half_below_top(self, ranks: Any) -> Floats:
        """Half of that, which no scores make overflow, rounded once."""
        return half_below(self._ascending[self.size - np.asarray(ranks)], self._ascending[-1])

    def reaching_half(self, levels: Floats) -> Indices:
        """How many of the numbers of `half_below_top` are at least each level; any shape. A
        bisection, which copies no scores.
        """
        low, high = np.zeros(levels.shape, dtype=np.int64), np.full(levels.shape, self.size)
        while (low < high).any():
            middle = (low + high) // 2
            reached = (
                half_below(self._ascending[np.minimum(middle, self.size - 1)], self._ascending[-1])
                >= levels
            )
            low, high = (
                np.where(reached | (low == high), low, middle + 1),
                np.where(reached, middle, high),
            )
        return self.size - low

    def value(self, rank: int) -> float | int:
        """The score of a rank, as it is."""
        return self._ascending[self.size - rank].item()

    def reaching(self, value: float | int) -> int:
        """How many scores are at least this high."""
        return self.size - int(np.searchsorted(self._ascending, value, side="left"))

    def positions(self, ranks: Indices) -> Indices:
        """Candidate position of each rank, shape (k,)."""
        wanted = self._ascending[self.size - ranks]
        place = ranks - (self.size + 1 - np.searchsorted(self._ascending, wanted, side="right"))
        levels, level = np.unique(wanted, return_inverse=True)
        near = np.searchsorted(levels, self._values, side="right") - 1
        # below the lowest level `near` is -1, the highest level
        held = np.flatnonzero(levels[near] == self._values)
        held = held[np.argsort(near[held], kind="stable")]
        return held[np.searchsorted(near[held], level) + place]


# Counts, of which a candidate that is not there has 0, and differences of theirs that one user
# moves as the counts do.

_LARGEST = 2**53  # beyond it float64 skips integers
_SUMMED = 2.0**32  # numbers up to it, on a grid of 2^-20, have sums that float64 holds exactly
_GRID = 2.0**20


def read_counts(scores: Scores, count: int) -> tuple[Indices, Numbers]:
    """Positions and values of the `count` highest counts, highest first, without those that nobody
    touched if observed.
    """
    if scores.kind != "counts":
        raise InvalidScores(
            f"kind={scores.kind!r} is refused: this mechanism takes a candidate that is not there"
            " as one with count 0, so it needs kind='counts'; for utilities use a mechanism for a"
            " public domain, Peeling for example"
        )
    positions, counts = scores.ranked(count)
    if scores.domain == "observed":
        # An item that nobody touched may or may not be listed: the two must not differ.
        return positions[counts > 0], counts[counts > 0]
    return positions, counts


def heights(counts: Numbers, below: Numbers) -> Floats:
    """Counts minus counts below them, both >= 0, as float64 without any rounding of the difference.
    Theorem X11.

    Differences of integers are clamped to 2^53. Counts that are floats are clamped to 2^32 and
    rounded down to a multiple of 2^-20 beforehand: neither stretches what a user does, where a
    rounded difference would move by more than the counts do.
    """
    if np.issubdtype(counts.dtype, np.floating):
        return _on_grid(counts) - _on_grid(below)
    return np.minimum(counts - below, _LARGEST).astype(np.float64)


def _on_grid(counts: Numbers) -> Floats:
    return np.asarray(np.floor(np.minimum(counts, _SUMMED) * _GRID) / _GRID)


def favored(counts: Floats, public: Floats) -> Floats:
    """Differences of counts plus public numbers that break up their order, as float64 without any
    rounding of the sum.

    Both are clamped to 2^32 and the public ones are rounded to a multiple of 2^-20 beforehand: the
    sums then move as the counts do, where rounded sums would move by up to one count more.
    """
    return (
        np.minimum(counts, _SUMMED) + np.round(np.clip(public, -_SUMMED, _SUMMED) * _GRID) / _GRID
    )


def margins(scores: Numbers, threshold: float) -> Floats:
    """Scores minus the threshold in float64, for laws; scores are clamped to +-2^53, beyond which
    float64 skips integers.
    """
    return np.clip(scores, -_LARGEST, _LARGEST).astype(np.float64) - threshold


# Uniformly random sequences in which place i takes one of the best allowed[i] ranks, no rank twice.


def draw_sequences(allowed: Indices, source: Sampler) -> Indices:
    """(rounds, k) ranks from 1, for (rounds, k) non-decreasing `allowed` with allowed[i] > i.

    What a place may take includes what earlier places may, so each place is uniform over what is
    left: the first swaps of a Fisher-Yates shuffle.
    """
    place = np.arange(allowed.shape[1])
    picks = source.below((allowed - place).ravel()).reshape(allowed.shape) + place
    return np.array([_swaps(row) for row in picks.tolist()], dtype=np.int64) + 1


def _swaps(picks: list[int]) -> list[int]:
    moved: dict[int, int] = {}
    for place, pick in enumerate(picks):
        moved[place], moved[pick] = moved.get(pick, pick), moved.get(place, place)
    return [moved[place] for place in range(len(picks))]


# Many score vectors at once: the rows of a matrix, a block of them at a time.


def blocks(matrix: Numbers, cells: int = 1 << 16) -> Iterator[Numbers]:
    """Consecutive rows, about `cells` scores at a time: by default as many as fit the cache."""
    step = max(1, cells // matrix.shape[1])
    return (matrix[start : start + step] for start in range(0, len(matrix), step))


def count_blocks(matrix: Numbers) -> Iterator[Numbers]:
    """The `blocks` of a matrix of counts."""
    if np.any(matrix < 0):
        raise InvalidScores(
            "matrix contains a negative number: this mechanism takes a candidate that is not there"
            " as one with count 0, so it needs counts >= 0; for utilities use a mechanism for a"
            " public domain, Peeling for example"
        )
    return blocks(matrix)


def highest(block: Numbers, count: int) -> Numbers:
    """(rows, min(count, m)) the highest scores of every row, descending."""
    best, columns = block.copy(), block.shape[1]
    if 2 * count < columns:
        best.partition(columns - count, axis=1)
        best = best[:, columns - count :]
    best.sort(axis=1)
    return best[:, ::-1][:, :count]


def ranked_rows(block: Numbers) -> Indices:
    """(rows, m) positions of every row's scores, highest first, ties by position."""
    ascending = np.argsort(block[:, ::-1], axis=1, kind="stable")
    return block.shape[1] - 1 - ascending[:, ::-1]


def first(flags: Flags, most: int) -> Indices:
    """(rows, min(most, m)) positions of the first `most` set flags of every row, -1 where there are
    fewer.
    """
    place = np.cumsum(flags, axis=1)
    row, column = np.nonzero(flags & (place <= most))
    indices = np.full((len(flags), min(most, flags.shape[1])), -1, dtype=np.int64)
    indices[row, place[row, column] - 1] = column
    return indices


def columns(flags: Flags) -> Indices:
    """(rows, most) the columns that are set in every row, ascending; -1 after the last one."""
    sizes = np.count_nonzero(flags, axis=1)
    result = np.full((len(flags), max(1, int(sizes.max()))), -1, dtype=np.int64)
    result[np.arange(result.shape[1]) < sizes[:, None]] = np.nonzero(flags)[1]
    return result


def joined(parts: Iterable[Indices]) -> Indices:
    """Blocks of rows below each other, the narrower ones filled up with -1."""
    held = list(parts)
    widest = max(part.shape[1] for part in held)
    result = np.full((sum(map(len, held)), widest), -1, dtype=np.int64)
    start = 0
    for part in held:
        result[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return result
