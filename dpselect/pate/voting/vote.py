"""`Vote`: what mechanisms on teachers' ballots have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from dpselect.mechanisms.base import Mechanism
from dpselect.pate.ballots.votes import as_array, as_rows
from dpselect.rounds import Rounds
from dpselect.scores import Scores


class Vote(Mechanism, ABC):
    """A mechanism on counts of teachers' votes, of which one record changes one ballot per round. Theorem P8."""

    one_vote: ClassVar[bool] = False
    if TYPE_CHECKING:
        labels: int  # a field of every member

    @property
    def least_candidates(self) -> int:
        return self.labels

    @property
    def most_candidates(self) -> int:
        return self.labels

    @abstractmethod
    def with_teachers(self, teachers: int) -> Mechanism:
        """The mechanism for so many teachers, a public number.

        Raises:
            InvalidBallots: it is configured for another number of them.
        """

    @staticmethod
    def _read(data: Any) -> Any:
        from dpselect.pate.ballots.ballots import (
            Ballots,  # ballots know what a vote is, so a vote cannot know ballots when it loads
        )

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
