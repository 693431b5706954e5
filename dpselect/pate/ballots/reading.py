"""What a caller has, votes or counts of them, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.errors import InvalidScores
from dpselect.pate.ballots.cutting import Cut
from dpselect.pate.ballots.votes import MOST_TEACHERS, Flags, Votes, as_array, as_rows, dense, listed, stacked
from dpselect.pate.errors import InvalidBallots
from dpselect.scores import Scores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity


def read(votes: Any, teachers: int | None) -> tuple[Votes | None, Tally, int]:
    """Single votes, None if these are counts; what is known of them; and the number of teachers.

    Raises:
        InvalidBallots: they are no ballots, or the number of teachers is missing or another one.
    """
    source = _votes(votes)
    if source is None:
        if teachers is None:
            raise InvalidBallots(
                "a (rounds, labels) matrix of counts needs teachers=: how many teachers vote; for the (teachers, labels) votes "
                "of one round use votes[None]"
            )
        number = teachers_of(teachers)
        return None, counted(votes, number), number
    if teachers is not None and teachers_of(teachers) != source.teachers:
        raise InvalidBallots(
            f"teachers={teachers} were declared and the votes have {source.teachers}: a teacher is missing, or teachers= is wrong"
        )
    return source, tally(source), source.teachers


def _votes(votes: Any) -> Votes | None:
    """Single votes; None if these are counts."""
    if scipy.sparse.issparse(votes):
        return _deep(votes) if votes.ndim == 3 else None
    if isinstance(votes, list | tuple) and any(scipy.sparse.issparse(one) for one in votes):
        return listed(votes)
    array = as_array(votes)
    if array.ndim == 3:
        return dense(array)
    if array.ndim == 2:
        return None
    raise InvalidBallots(
        f"votes must have shape (rounds, teachers, labels), or (rounds, labels) for counts, not {array.shape}: for one round use "
        "votes[None]"
    )


def _deep(votes: Any) -> Votes:
    """Votes of a three-dimensional sparse array."""
    rounds, teachers, labels = votes.shape
    if 0 in votes.shape:
        raise InvalidBallots(f"votes need at least one round, one teacher and one label, not {votes.shape}")
    return stacked(votes.reshape((rounds * teachers, labels)), teachers)


def read_names(names: Sequence[Label] | None, labels: int) -> tuple[Label, ...] | None:
    """Names as Scores take them.

    Raises:
        InvalidBallots: they are not one name per label, all different, int or str.
    """
    if names is None:
        return None
    if isinstance(names, str) or not hasattr(names, "__len__") or not hasattr(names, "__iter__"):
        raise InvalidBallots(f"names must be a sequence of one name per label, not {type(names).__name__}")
    if len(names) != labels:
        raise InvalidBallots(f"names must have one name per label, {labels} of them, not {len(names)}")
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    try:
        return Scores(np.zeros(labels), sensitivity=Sensitivity(), labels=plain).labels
    except InvalidScores as error:
        raise InvalidBallots(f"names become the labels of a Selection: {error}") from None


# From votes, or counts of them, to the counts of every round and what is known of its ballots.

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
