"""From votes, or counts of them, to the counts of every round and what is known of its ballots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.pate.ballots.cutting import Cut
from dpselect.pate.ballots.votes import MOST_TEACHERS, Flags, Votes, as_array, as_rows
from dpselect.pate.errors import InvalidBallots

Counts = NDArray[np.int32]

_CELLS = 1 << 20  # counts checked at a time


@final
@dataclass(frozen=True, repr=False)
class Tally:
    """Counts of votes. All of it is private.

    Attributes:
        counts: (rounds, labels).
        most: (rounds,) the most votes on any ballot; None where single ballots are not known.
        empty: (rounds,) whether some ballot has no vote; None where single ballots are not known.
        cut: (rounds,) how many ballots lost votes to a cut; None for no cut.
    """

    counts: Counts
    most: Counts | None
    empty: Flags | None
    cut: Counts | None

    def between(self, start: int, stop: int) -> Tally:
        """What is known of some rounds."""
        rows = slice(start, stop)
        return Tally(
            self.counts[rows],
            None if self.most is None else self.most[rows],
            None if self.empty is None else self.empty[rows],
            None if self.cut is None else self.cut[rows],
        )


def tally(votes: Votes, cut: Cut | None = None) -> Tally:
    """Add up votes, cut first if there is a rule.

    Raises:
        InvalidBallots: something is neither 0 nor 1.
    """
    counts = np.empty((votes.rounds, votes.labels), dtype=np.int32)
    most, least, lost = np.zeros((3, votes.rounds), dtype=np.int32)
    for start, block in votes.blocks():
        rows = slice(start, start + len(block))
        kept, lost[rows] = (block, 0) if cut is None else cut.apply(block, start)
        counts[rows] = kept.sum(axis=1, dtype=np.int32)
        sizes = np.count_nonzero(kept, axis=2)
        most[rows], least[rows] = sizes.max(axis=1), sizes.min(axis=1)
    return Tally(counts, most, least == 0, None if cut is None else lost)


def counted(matrix: Any, teachers: int) -> Tally:
    """Counts given as a (rounds, labels) array or sparse matrix.

    Raises:
        InvalidBallots: not a matrix of integers from 0 to `teachers`, or an empty one.
    """
    rows: Any = as_rows(matrix) if scipy.sparse.issparse(matrix) else as_array(matrix)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidBallots(f"counts must have shape (rounds, labels), both >= 1, not {rows.shape}")
    if rows.dtype.kind not in "iuf":
        raise InvalidBallots(f"counts have dtype {rows.dtype}: pass integers")
    counts = np.empty(rows.shape, dtype=np.int32)
    step = max(1, _CELLS // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        block = rows[start : start + step]
        counts[start : start + step] = _whole(block.toarray() if scipy.sparse.issparse(block) else block, teachers)
    return Tally(counts, None, None, None)


def _whole(block: NDArray[Any], teachers: int) -> Counts:
    block = np.array(block)  # a copy: what is checked is what is counted
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
    if isinstance(teachers, bool) or not isinstance(teachers, int | np.integer) or not 1 <= teachers <= MOST_TEACHERS:
        raise InvalidBallots(f"teachers={teachers!r} must be an integer from 1 to {MOST_TEACHERS:,}: how many teachers vote")
    return int(teachers)
