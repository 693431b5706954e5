"""`Votes`: 0/1 votes of every teacher, read a few rounds at a time whatever holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.errors import InvalidBallots

Flags = NDArray[np.bool_]

MOST_TEACHERS = 2**31 - 1  # counts are 32-bit integers
_CELLS = 1 << 22  # votes held at a time
_RULE = "a ballot has one number per label, 1 for a vote and 0 for none"


@final
@dataclass(frozen=True)
class Votes:
    """Votes of `teachers` teachers on `labels` labels in `rounds` rounds.

    Attributes:
        read: (start, stop) -> the votes of these rounds, (stop - start, teachers, labels) of any numeric type.
        first: number of the first round, in the ballots that these are some rounds of.

    Raises:
        InvalidBallots: no round, no teacher, or no label, or more teachers than counts can hold.
    """

    rounds: int
    teachers: int
    labels: int
    read: Callable[[int, int], Any]
    first: int = 0

    def __post_init__(self) -> None:
        if 0 in (shape := (self.rounds, self.teachers, self.labels)):
            raise InvalidBallots(f"votes need at least one round, one teacher and one label, not {shape}")
        if self.teachers > MOST_TEACHERS:
            raise InvalidBallots(f"votes of {self.teachers:,} teachers are more than the {MOST_TEACHERS:,} that counts can hold")

    def block(self, start: int, stop: int) -> Flags:
        """(stop - start, teachers, labels) checked votes."""
        return flags(self.read(start, stop))

    def blocks(self) -> Iterator[tuple[int, Flags]]:
        """All rounds in order, with the number of the first one of each block."""
        step = max(1, _CELLS // (self.teachers * self.labels))
        for start in range(0, self.rounds, step):
            yield start, self.block(start, min(start + step, self.rounds))

    def between(self, start: int, stop: int) -> Votes:
        """The votes of some rounds."""
        number = self.first + start
        return Votes(stop - start, self.teachers, self.labels, lambda a, b: self.read(start + a, start + b), number)


def flags(block: Any) -> Flags:
    """A copy of votes as booleans: what is checked is what is counted, whoever else writes to the caller's memory."""
    array = np.asarray(block)
    if array.dtype == np.bool_:
        return array.copy()
    if array.dtype.kind not in "iuf":
        raise InvalidBallots(f"votes have dtype {array.dtype}: {_RULE}")
    cast = array != 0
    if not np.array_equal(array, cast):
        raise InvalidBallots(f"votes contain a number other than 0 and 1 (or NaN): {_RULE}")
    return cast


def single(votes: Any) -> Votes | None:
    """The votes of every teacher, from any form of them; None if these are counts. InvalidBallots if they are neither."""
    if scipy.sparse.issparse(votes):
        return _deep(votes) if votes.ndim == 3 else None
    if isinstance(votes, list | tuple) and any(scipy.sparse.issparse(one) for one in votes):
        return _listed(votes)
    array = as_array(votes)
    if array.ndim == 3:
        rounds, teachers, labels = array.shape
        return Votes(rounds, teachers, labels, lambda start, stop: array[start:stop])
    if array.ndim == 2:
        return None
    raise InvalidBallots(
        f"votes must have shape (rounds, teachers, labels), or (rounds, labels) for counts, not {array.shape}: for one round use "
        "votes[None]"
    )


def _deep(votes: Any) -> Votes:
    """Of a three-dimensional sparse array."""
    rounds, teachers, labels = votes.shape
    if 0 in votes.shape:
        raise InvalidBallots(f"votes need at least one round, one teacher and one label, not {votes.shape}")
    return stacked(votes.reshape((rounds * teachers, labels)), teachers)


def stacked(votes: Any, teachers: int) -> Votes:
    """Votes of a (rounds * teachers, labels) array or sparse matrix, round after round; InvalidBallots unless all are whole."""
    matrix = rows_of(votes)
    if matrix.ndim != 2 or matrix.shape[0] % teachers:
        raise InvalidBallots(
            f"stacked votes must be a (rounds * teachers, labels) matrix, and a shape of {matrix.shape} is no whole number of "
            f"rounds of teachers={teachers}: give every teacher a row in every round"
        )

    def read(start: int, stop: int) -> Any:
        return unpacked(matrix[start * teachers : stop * teachers]).reshape(stop - start, teachers, -1)

    return Votes(matrix.shape[0] // teachers, teachers, matrix.shape[1], read)


def _listed(votes: Sequence[Any]) -> Votes:
    """Of one (teachers, labels) array or sparse matrix per round."""
    rounds = [rows_of(one) for one in votes]
    shapes = {one.shape for one in rounds}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise InvalidBallots(
            "every round needs votes of one shape (teachers, labels), and they differ: a teacher or a label is missing from a "
            "round; give the missing teacher a row of zeros, and pass missing='allow'"
        )
    teachers, labels = rounds[0].shape
    return Votes(len(rounds), teachers, labels, lambda start, stop: np.stack([unpacked(one) for one in rounds[start:stop]]))


def rows_of(matrix: Any) -> Any:
    """An array, or a sparse matrix whose rows can be sliced, its repeated entries added up."""
    if not scipy.sparse.issparse(matrix):
        return as_array(matrix)
    if matrix.ndim != 2:
        raise InvalidBallots(f"a sparse matrix must have two dimensions, not shape {matrix.shape}")
    if matrix.dtype.kind in "iu" and matrix.dtype.itemsize < 8:
        matrix = matrix.astype(np.int64)  # sums of small integers wrap around: one vote more than 255 would be 0
    rows = scipy.sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def unpacked(rows: Any) -> Any:
    """What `rows_of` gave, or some rows of it, as an array."""
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def as_array(data: Any) -> NDArray[np.generic]:
    """Numbers as an array. InvalidBallots where rows have different lengths, or parts of the array are masked."""
    parts = data if isinstance(data, list | tuple) else [data]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise InvalidBallots("votes are a masked array, whose mask would be lost: fill in or leave out what is masked first")
    try:
        return np.asarray(data)
    except ValueError:
        raise InvalidBallots(
            "votes must have one shape in every round, and here they differ: a teacher or a label is missing from a round; give "
            "the missing teacher zeros, and pass missing='allow'"
        ) from None
