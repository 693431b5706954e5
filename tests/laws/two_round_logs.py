"""Logs as sets of users' items, with scores of a first round and weights of a second: the slow, plain reference."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import dpselect as dps

UNIT = 2**20
Log = Sequence[frozenset[int]]


def spent(items: Sequence[int], numbers: dict[int, int], norm: float) -> dict[int, int]:
    """What one user spends on the items that have a number, units of 2^-20, exactly: theorem H11."""
    among = [item for item in items if item in numbers]
    size = sum(numbers[item] ** 2 for item in among)
    squares = math.floor(Fraction(norm) ** 2 * UNIT**2)
    return {item: math.isqrt(min(squares * numbers[item] ** 2 // size, UNIT**2)) for item in among}


def kept(users: dict[str, set[str]], limit: int, salt: str) -> list[set[str]]:
    """Of every user the `limit` items with the smallest hash of user, item and salt: theorem H7."""

    def rank(user: str, item: str) -> tuple[str, str]:
        return hashlib.sha256(f"{len(user)}:{user}:{len(item)}:{item}:{salt}".encode()).hexdigest()[:16], item

    return [set(sorted(items, key=lambda item: rank(user, item))[:limit]) for user, items in users.items()]


def weighed(log: Log, numbers: dict[int, int], norm: float) -> dict[int, int]:
    """The sums over users."""
    total = dict.fromkeys(numbers, 0)
    for items in log:
        for item, weight in spent(sorted(items), numbers, norm).items():
            total[item] += weight
    return total


def first_round(log: Log, items: int, clip: float | None) -> NDArray[np.float64]:
    """(items,) counts of users, or of users clipped to an l2 norm."""
    seen = np.zeros(items)
    for one in log:
        seen[sorted(one)] += 1.0 if clip is None else min(1.0, clip / math.sqrt(len(one)))
    return seen


def scores(log: Log, items: int, sensitivity: dps.Sensitivity, clip: float | None, domain: str) -> dps.Scores:
    """What `TwoRoundHistogram` draws from, with a second look that weighs."""

    def weigh(labels: Sequence[int | str], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        found = weighed(log, {int(label): int(number) for label, number in zip(labels, numbers, strict=True)}, norm)
        return np.array([found[int(label)] for label in labels], dtype=np.int64)

    look = dps.SecondLook(
        lambda labels: dps.Scores([1] * len(labels), labels=labels, sensitivity=sensitivity), sensitivity, weigh=weigh
    )
    return dps.Scores(
        first_round(log, items, clip),
        sensitivity=sensitivity,
        labels=list(range(items)),
        domain=domain,  # type: ignore[arg-type]
        second=look,
    )
