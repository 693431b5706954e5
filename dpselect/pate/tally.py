"""From votes, or counts of them, to the counts of every round and what is known of its ballots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpselect.pate.cutting import Cut
from dpselect.pate.errors import InvalidBallots
from dpselect.pate.votes import Votes, as_array, as_rows

Counts = NDArray[np.int32]

_CELLS = 1 << 20  # counts checked at a time
_MOST_TEACHERS = 2**31 - 1


@final
@dataclass(frozen=True)
class Tally:
    """Counts of votes. All of it is private.

    Attributes:
        counts: (rounds, labels).
        most: the most votes on any ballot; None where single ballots are not known.
        empty: whether some ballot has no vote; None where single ballots are not known.
        cut: how many ballots lost votes to a cut.
    """

    counts: Counts
    most: int | None
    empty: bool | None
    cut: int = 0


def tally(votes: Votes, cut: Cut | None = None) -> Tally:
    """Add up votes, cut first if there is a rule.

    Raises:
        InvalidBallots: something is neither 0 nor 1.
    """
    counts = np.empty((votes.rounds, votes.labels), dtype=np.int32)
    most, least, lost = 0, votes.labels, 0
    for start, block in votes.blocks():
        kept, some = (block, 0) if cut is None else cut.apply(block, start)
        counts[start : start + len(kept)] = kept.sum(axis=1, dtype=np.int32)
        sizes = np.count_nonzero(kept, axis=2)
        most, least, lost = max(most, int(sizes.max())), min(least, int(sizes.min())), lost + some
    return Tally(counts, most, least == 0, lost)


def counted(matrix: Any, teachers: int) -> Tally:
    """Counts given as a (rounds, labels) array or sparse matrix.

    Raises:
        InvalidBallots: not a matrix of integers from 0 to `teachers`, or an empty one.
    """
    rows: Any = as_rows(matrix) if sparse.issparse(matrix) else as_array(matrix)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidBallots(f"counts must have shape (rounds, labels), both >= 1, not {rows.shape}")
    if rows.dtype.kind not in "iuf":
        raise InvalidBallots(f"counts have dtype {rows.dtype}: pass integers")
    counts = np.empty(rows.shape, dtype=np.int32)
    step = max(1, _CELLS // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        block = rows[start : start + step]
        counts[start : start + step] = _whole(block.toarray() if sparse.issparse(block) else block, teachers)
    return Tally(counts, None, None)


def _whole(block: NDArray[Any], teachers: int) -> Counts:
    # NaN compares false, so it is refused too; the conversion comes after the range is known.
    if not np.all((block >= 0) & (block <= teachers)):
        raise InvalidBallots(
            "counts contain a number below 0 or above the number of teachers (or NaN): a label has at most one vote each"
        )
    whole = block.astype(np.int32)
    if not np.array_equal(whole, block):
        raise InvalidBallots("counts contain a fraction: counts of votes are integers")
    return whole


def teachers_of(teachers: object) -> int:
    """A declared number of teachers.

    Raises:
        InvalidBallots: it is no integer from 1 to 2^31 - 1.
    """
    if isinstance(teachers, bool) or not isinstance(teachers, int | np.integer) or not 1 <= teachers <= _MOST_TEACHERS:
        raise InvalidBallots(f"teachers={teachers!r} must be an integer from 1 to {_MOST_TEACHERS:,}: how many teachers vote")
    return int(teachers)
