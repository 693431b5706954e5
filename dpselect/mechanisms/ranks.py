"""Scores by rank, and matrices of scores by row.

The values are sorted once, and positions are found for released ranks only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

import numpy as np

from accounting.numbers import Flags, Floats, Integers
from dpselect.errors import InvalidScores
from dpselect.sampling import Sampler
from dpselect.sampling.contest import differences
from dpselect.scores import Numbers, Scores


def centered(values: Numbers) -> Floats:
    """Return (m,) values minus their maximum as float64.

    Rankings do not depend on a common shift, and large integers keep their gaps.
    """
    return differences(values, values.max())


def half_below(values: Any, top: Any) -> Floats:
    """Return (values - top)/2 rounded once, for a top no smaller than any of them."""
    if values.dtype == np.int64:
        # Unsigned arithmetic wraps, so the difference is exact even where the signed one would
        # overflow.
        return np.asarray(
            -0.5 * (top.astype(np.uint64) - values.astype(np.uint64)).astype(np.float64)
        )
    return np.asarray(0.5 * values - 0.5 * top)


@final
class Ranked:
    """The scores of a public domain by rank, counted from 1 at the highest; ties by position.

    Ties are ordered as by `Scores.ranked`. Sorting values alone is an order of magnitude quicker
    than sorting positions.
    """

    def __init__(self, scores: Scores) -> None:
        self._values: Numbers = scores.dense()
        self._ascending: Numbers = np.sort(self._values)  # type: ignore[assignment]
        self.size: int = len(self._values)

    def below_top(self, ranks: Any) -> Floats:
        """Return the score of each rank minus the highest score; any shape."""
        picked = self._ascending[self.size - np.asarray(ranks)]
        return differences(picked, self._ascending[-1])

    def half_below_top(self, ranks: Any) -> Floats:
        """Return half the score of each rank minus the highest, rounded once, without overflow."""
        return half_below(self._ascending[self.size - np.asarray(ranks)], self._ascending[-1])

    def reaching_half(self, levels: Floats) -> Integers:
        """Number of values of `half_below_top` that are at least each level; any shape.

        Found by bisection, which copies no scores.
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
        """Return the exact score of a rank."""
        return self._ascending[self.size - rank].item()

    def reaching(self, value: float | int) -> int:
        """Number of scores that are at least this high."""
        return self.size - int(np.searchsorted(self._ascending, value, side="left"))

    def positions(self, ranks: Integers) -> Integers:
        """Return the candidate position of each rank, shape (k,)."""
        wanted = self._ascending[self.size - ranks]
        place = ranks - (self.size + 1 - np.searchsorted(self._ascending, wanted, side="right"))
        levels, level = np.unique(wanted, return_inverse=True)
        held = np.flatnonzero(self._values >= levels[0])
        values = self._values[held]
        if len(levels) <= _FEW_LEVELS:  # a pass for each takes less time than a search for all
            found = np.empty(len(ranks), dtype=np.int64)
            for at, value in enumerate(levels):
                chosen = level == at
                found[chosen] = held[np.flatnonzero(values == value)[place[chosen]]]
            return found
        near = np.searchsorted(levels, values, side="right") - 1
        equal = np.flatnonzero(levels[near] == values)
        # sorted by radix, which takes a tenth of the time, where the levels fit
        near = near[equal].astype(np.uint16 if len(levels) <= 2**16 else np.int64)
        held = held[equal[np.argsort(near, kind="stable")]]
        first = np.cumsum(np.bincount(near, minlength=len(levels)))
        return held[np.append(0, first)[level] + place]


_FEW_LEVELS = 64  # different scores among the chosen


# Counts, where a missing candidate has 0, and differences of counts that one user moves by no more
# than the counts.

_LARGEST = 2**53  # beyond it float64 skips integers
_SUMMED = 2.0**32  # numbers up to it, on a grid of 2^-20, have sums that float64 holds exactly
_GRID = 2.0**20


def read_counts(scores: Scores, count: int) -> tuple[Integers, Numbers]:
    """Return positions and values of the `count` highest counts, highest first.

    In an observed domain, candidates with count 0 are left out.
    """
    if scores.kind != "counts":
        raise InvalidScores(
            f"kind={scores.kind!r} must be 'counts', because this mechanism takes a missing"
            " candidate as one with count 0. For utilities use a mechanism for a public"
            " domain, for example PeelingTopK"
        )
    positions, counts = scores.ranked(count)
    if scores.domain == "observed":
        # An item that nobody touched may or may not be listed: the two must not differ.
        return positions[counts > 0], counts[counts > 0]
    return positions, counts


def heights(counts: Numbers, below: Numbers) -> Floats:
    """Return counts minus counts below them, both >= 0, as float64 without rounding the difference.

    Differences of integers are clamped to 2^53. Counts that are floats are first clamped to 2^32
    and rounded down to a multiple of 2^-20. Neither increases the effect of one user, whereas a
    rounded difference would move by more than the counts do. Theorem X11.
    """
    if np.issubdtype(counts.dtype, np.floating):
        return _on_grid(counts) - _on_grid(below)
    return np.minimum(counts - below, _LARGEST).astype(np.float64)


def _on_grid(counts: Numbers) -> Floats:
    return np.asarray(np.floor(np.minimum(counts, _SUMMED) * _GRID) / _GRID)


def favored(counts: Floats, public: Floats) -> Floats:
    """Return differences of counts plus public numbers as float64, without rounding the sum.

    Both are clamped to 2^32, and the public ones are first rounded to a multiple of 2^-20. The sums
    then move as the counts do, whereas rounded sums would move by up to one count more.
    """
    return (
        np.minimum(counts, _SUMMED) + np.round(np.clip(public, -_SUMMED, _SUMMED) * _GRID) / _GRID
    )


def margins(scores: Numbers, threshold: float) -> Floats:
    """Return scores minus the threshold in float64, for exact distributions.

    Scores are clamped to +-2^53, because float64 skips integers beyond.
    """
    return np.clip(scores, -_LARGEST, _LARGEST).astype(np.float64) - threshold


# Uniformly random sequences in which place i takes one of the best allowed[i] ranks, no rank twice.


def draw_sequences(allowed: Integers, source: Sampler) -> Integers:
    """Draw (rounds, k) ranks from 1, for (rounds, k) non-decreasing `allowed` with allowed[i] > i.

    A place may take every rank that earlier places may, so each place is uniform over the remaining
    ranks. These are the first swaps of a Fisher-Yates shuffle.
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
    """Iterate over consecutive rows, about `cells` scores at a time: by default one cache full."""
    step = max(1, cells // matrix.shape[1])
    return (matrix[start : start + step] for start in range(0, len(matrix), step))


def count_blocks(matrix: Numbers) -> Iterator[Numbers]:
    """Return the `blocks` of a matrix of counts."""
    if np.any(matrix < 0):
        raise InvalidScores(
            "matrix contains a negative number, but this mechanism needs counts >= 0, because"
            " it takes a missing candidate as one with count 0. For utilities use a mechanism"
            " for a public domain, for example PeelingTopK"
        )
    return blocks(matrix)


def highest(block: Numbers, count: int) -> Numbers:
    """Return the highest scores of every row, descending, shape (rows, min(count, m))."""
    best, columns = block.copy(), block.shape[1]
    if 2 * count < columns:
        best.partition(columns - count, axis=1)
        best = best[:, columns - count :]
    best.sort(axis=1)
    return best[:, ::-1][:, :count]


def ranked_rows(block: Numbers) -> Integers:
    """Return (rows, m) positions of every row's scores, highest first, ties by position."""
    ascending = np.argsort(block[:, ::-1], axis=1, kind="stable")
    return block.shape[1] - 1 - ascending[:, ::-1]


def first(flags: Flags, most: int) -> Integers:
    """Return positions of the first `most` set flags of every row, or -1 beyond the last flag.

    The shape is (rows, min(most, m)).
    """
    place = np.cumsum(flags, axis=1)
    row, column = np.nonzero(flags & (place <= most))
    indices = np.full((len(flags), min(most, flags.shape[1])), -1, dtype=np.int64)
    indices[row, place[row, column] - 1] = column
    return indices


def columns(flags: Flags) -> Integers:
    """Return the columns that are set in every row, ascending, and -1 after the last one.

    The shape is (rows, largest number of set columns).
    """
    sizes = np.count_nonzero(flags, axis=1)
    result = np.full((len(flags), max(1, int(sizes.max()))), -1, dtype=np.int64)
    result[np.arange(result.shape[1]) < sizes[:, None]] = np.nonzero(flags)[1]
    return result


def joined(parts: Iterable[Integers]) -> Integers:
    """Concatenate blocks of rows, and fill up the narrower ones with -1."""
    held = list(parts)
    widest = max(part.shape[1] for part in held)
    result = np.full((sum(map(len, held)), widest), -1, dtype=np.int64)
    start = 0
    for part in held:
        result[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return result
