"""`Vote`: what ballots know of the mechanisms that count them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from dpselect.mechanisms.base import Mechanism


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
