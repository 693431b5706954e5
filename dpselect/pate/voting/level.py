"""Threshold voting: every label whose noisy count passes a public level. Shared by BinaryVoting and TauVoting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.release import release
from dpselect.noise import by_name
from dpselect.pate.errors import InvalidBallots
from dpselect.pate.voting.blocks import blocks, columns, joined
from dpselect.pate.voting.coins import Coins
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections


def require_level(threshold: float | None, teachers: int | None, relation: Relation) -> None:
    """Refuse a level that would depend on the number of teachers where that is private.

    Raises:
        ValueError: it would; pydantic turns it into the mechanism's own error.
    """
    if relation == "add_remove" and (threshold is None or teachers is not None):
        raise ValueError(
            "under relation='add_remove' the number of teachers is private: state threshold= as a public number, and no teachers="
        )


def level_of(threshold: float | None, teachers: int | None) -> float:
    """The level: as configured, else half of the teachers.

    Raises:
        InvalidRequest: neither is known.
    """
    if threshold is not None:
        return threshold
    if teachers is None:
        raise InvalidRequest(
            "counts alone do not tell how many teachers voted: configure threshold= or teachers=, or pass dpselect.pate.Ballots"
        )
    return teachers / 2


def same_teachers(configured: int | None, teachers: int) -> int:
    """The number of teachers of both.

    Raises:
        InvalidBallots: they differ.
    """
    if configured not in (None, teachers):
        raise InvalidBallots(
            f"the mechanism is configured for teachers={configured} and the ballots have {teachers}: state the same"
        )
    return teachers


def select(scores: Scores, level: float, sigma: float, source: Sampler) -> Selection:
    """The labels of one round."""
    passed = source.exceeds(scores.dense(), by_name("gaussian"), sigma, level)
    return release(scores, np.flatnonzero(passed).tolist(), ordered=False, requested=None)


def select_many(matrix: Numbers, level: float, sigma: float, source: Sampler) -> Selections:
    """The labels of every round."""
    coins = Coins.of(matrix, level, sigma)
    return Selections(joined(_rows(matrix, coins, source)), ordered=False, requested=None)


def _rows(matrix: Numbers, coins: Coins, source: Sampler) -> Iterator[NDArray[np.int64]]:
    for block in blocks(matrix):
        yield columns(coins.toss(block.ravel(), source).reshape(block.shape))


def probabilities(scores: Scores, level: float, sigma: float) -> dict[Any, float]:
    """The law of the released set: labels are independent."""
    enumerable(2.0**scores.size)
    noise = by_name("gaussian")
    with np.errstate(over="ignore"):
        below = (level - np.asarray(scores.dense(), dtype=np.float64)) / sigma
    law: dict[Any, float] = {frozenset(): 1.0}
    for label, (passes, fails) in enumerate(zip(noise.sf(below).tolist(), noise.cdf(below).tolist(), strict=True)):
        law = {
            **{chosen: chance * fails for chosen, chance in law.items()},
            **{chosen | {label}: chance * passes for chosen, chance in law.items()},
        }
    return law
