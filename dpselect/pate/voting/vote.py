"""`BallotVote`: what mechanisms on teachers' ballots have in common."""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np
import scipy

from dpselect.pate.ballots.ballots import Ballots
from dpselect.pate.ballots.vote import Vote
from dpselect.pate.ballots.votes import as_array, as_rows
from dpselect.rounds import Rounds
from dpselect.scores import Scores


class BallotVote(Vote, ABC):
    """A vote that takes ballots, counts of them, or votes in any form that ballots are made of."""

    @staticmethod
    def _read(data: Any) -> Any:
        if isinstance(data, Rounds | Scores):
            return data
        if scipy.sparse.issparse(data):
            return Ballots(data) if data.ndim == 3 else as_rows(data).toarray()
        if isinstance(data, list | tuple) and any(scipy.sparse.issparse(one) for one in data):
            return Ballots(data)
        array = as_array(data)
        return Ballots(array) if array.ndim == 3 else array


def root_up(square: int) -> float:
    """The least float that is not below the square root of an integer."""
    root = float(np.sqrt(square))
    numerator, denominator = root.as_integer_ratio()
    return root if numerator**2 >= square * denominator**2 else float(np.nextafter(root, np.inf))
