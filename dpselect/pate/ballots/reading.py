"""What a caller has, votes or counts of them, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from dpselect.errors import InvalidScores
from dpselect.pate.ballots.tally import Tally, counted, tally, teachers_of
from dpselect.pate.ballots.votes import Votes, as_array, dense, listed, stacked
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
