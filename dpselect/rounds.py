"""`Rounds`: data of many releases that know more than a matrix of scores does, a vote's ballots for example."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

from typing_extensions import TypeVar

from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Selection, Selections

M = TypeVar("M", default=Any)  # the mechanisms that may draw: they know what rounds are, so rounds cannot know them


class Rounds(ABC, Generic[M]):
    """What every mechanism's `select_many`, and for a single round its `select`, accepts in place of a matrix or of Scores."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rounds, a public number."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of candidates, a public number."""

    @abstractmethod
    def check(self, mechanism: M) -> None:
        """Raise unless the mechanism's guarantee covers these rounds. Nothing is drawn."""

    @abstractmethod
    def only(self, mechanism: M) -> Scores:
        """The scores of the single round that these are, once `check` has passed; InvalidRequest if there are more."""

    @abstractmethod
    def settled(self, mechanism: M) -> Any:
        """The mechanism with what the rounds state publicly filled in where it leaves that open."""

    def require(self, mechanism: M, source: Sampler) -> None:
        """Raise as `release` would, without drawing anything."""
        whoever: Any = mechanism
        whoever._check_size(self.candidates)
        self.check(mechanism)
        self.settled(mechanism)._require(self.only(mechanism), source)

    def release(self, mechanism: M, source: Sampler) -> Selection:
        """The one selection that a single round is released as, once `require` has passed."""
        chosen: Selection = self.settled(mechanism)._select(self.only(mechanism), source)
        return chosen

    def law(self, mechanism: M) -> dict[Any, float]:
        """The exact law of `release`."""
        law: dict[Any, float] = self.settled(mechanism)._probabilities(self.only(mechanism))
        return law

    @abstractmethod
    def draw(self, mechanism: M, source: Sampler) -> Selections:
        """One selection per round, once `check` has passed."""
