"""Counts and their differences, and matrices of scores by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from accounting.numbers import Flags, Floats, Integers
from dpselect.errors import InvalidScores
from dpselect.sampling.contest import differences
from dpselect.scores import Numbers, Scores


def center(values: Numbers) -> Floats:
    """Return (m,) values minus their maximum as float64.

    Rankings do not depend on a common shift, and large integers keep their gaps.
    """
    return differences(values, values.max())


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
    positions, counts = scores.rank(count)
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


def add_public(counts: Floats, public: Floats) -> Floats:
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


def join_rows(parts: Iterable[Integers]) -> Integers:
    """Concatenate blocks of rows, and fill up the narrower ones with -1."""
    pieces = list(parts)
    widest = max(part.shape[1] for part in pieces)
    result = np.full((sum(map(len, pieces)), widest), -1, dtype=np.int64)
    start = 0
    for part in pieces:
        result[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return result
