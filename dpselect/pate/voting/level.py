"""`LevelVote`: every label whose noisy count passes a public level."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from accounting import Relation
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.release import release
from dpselect.noise import by_name
from dpselect.pate.errors import InvalidBallots
from dpselect.pate.voting.blocks import blocks, columns, joined
from dpselect.pate.voting.coins import Coins
from dpselect.pate.voting.vote import BallotVote
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections


class LevelVote(BallotVote, ABC):
    """A vote on every label by itself: those whose count + N(0, sigma^2) exceeds the level. A member has the fields below."""

    if TYPE_CHECKING:
        sigma: float
        threshold: float | None
        teachers: int | None
        neighbours: Relation

    @model_validator(mode="after")
    def _has_a_public_level(self) -> Self:
        if self.neighbours == "add_remove" and (self.threshold is None or self.teachers is not None):
            raise ValueError(
                "under relation='add_remove' the number of teachers is private: "
                "state threshold= as a public number, and no teachers="
            )
        return self

    def with_teachers(self, teachers: int) -> Self:
        """The mechanism with that number of teachers, unless its threshold is stated.

        Raises:
            InvalidBallots: it is configured for another number.
        """
        if self.teachers not in (None, teachers):
            raise InvalidBallots(
                f"the mechanism is configured for teachers={self.teachers} and the ballots have {teachers}: state the same"
            )
        return self if self.threshold is not None else self.model_copy(update={"teachers": teachers})

    def _check_stated(self) -> None:
        _ = self._level

    @property
    def _level(self) -> float:
        """The level: as configured, else half of the teachers."""
        if self.threshold is not None:
            return self.threshold
        if self.teachers is None:
            raise InvalidRequest(
                "counts alone do not tell how many teachers voted: "
                "configure threshold= or teachers=, or pass dpselect.pate.Ballots"
            )
        return self.teachers / 2

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        passed = source.exceeds(scores.dense(), by_name("gaussian"), self.sigma, self._level)
        return release(scores, np.flatnonzero(passed).tolist(), ordered=False, requested=None)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        coins = Coins.of(matrix, self._level, self.sigma)
        return Selections(joined(_rows(matrix, coins, source)), ordered=False, requested=None)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(2.0**scores.size)  # labels are independent
        noise = by_name("gaussian")
        with np.errstate(over="ignore"):
            below = (self._level - np.asarray(scores.dense(), dtype=np.float64)) / self.sigma
        law: dict[Any, float] = {frozenset(): 1.0}
        for label, (passes, fails) in enumerate(zip(noise.sf(below).tolist(), noise.cdf(below).tolist(), strict=True)):
            law = {
                **{chosen: chance * fails for chosen, chance in law.items()},
                **{chosen | {label}: chance * passes for chosen, chance in law.items()},
            }
        return law


def _rows(matrix: Numbers, coins: Coins, source: Sampler) -> Iterator[NDArray[np.int64]]:
    for block in blocks(matrix):
        yield columns(coins.toss(block.ravel(), source).reshape(block.shape))
