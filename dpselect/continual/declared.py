"""What one user moves of a horizon's measurements, to be held against what its mechanism declares: for `verify.replay`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.continual.continual_top_k import ContinualTopK
from dpselect.continual.horizon import count_pairs
from dpselect.continual.state import Coins, Integers, grid_steps, in_memory, mixed, true_measurements
from dpselect.continual.strategy import UNIT
from dpselect.events.engine import opened
from dpselect.events.reading import Reading
from dpselect.scores import Scores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity, sqrt_up


def pipeline(
    mechanism: ContinualTopK,
    parts: Callable[[Path], Any],
    reading: Reading,
    items: Sequence[Label],
    users: Sequence[Label],
    salt: str,
) -> Callable[[Path], Scores]:
    """From a log to all measurements of a horizon without their noise, as `Session.continual` makes them.

    Args:
        parts: a context in which the events of each period can be read, in order, with `reading`.
        items, users: all of the whole log. They are numbered before, so that what chooses the items of a user who has too many is
            the same with and without another user.
        salt: of these choices.
    """

    def measured(log: Path) -> Scores:
        state, exact = in_memory(mechanism, items), []
        state.number_users(users)
        with parts(log) as periods:
            for at, events in enumerate(periods, start=1):
                with opened(reading.memory_limit) as engine, state.transaction():
                    state.load(*count_pairs(engine, events, reading))
                    state.add_increment(state.take(at, _coins(salt, at)), 1)
                whole, rest = true_measurements(mechanism, at, len(items), state.increments(1, at))
                exact.append(whole * 2.0 ** grid_steps(mechanism) + rest / UNIT**2)
        return Scores(np.concatenate(exact), sensitivity=declared(mechanism))

    return measured


def declared(mechanism: ContinualTopK) -> Sensitivity:
    """What one user may move of all measurements together: Theorems T1 to T3."""
    one = mechanism.strategy.norm
    relation: Relation = mechanism.relation
    most = mechanism.users.cells * len(mechanism.strategy.measured)
    if relation == "add_remove":
        return Sensitivity(l2=one, linf=one, l0=most)
    return Sensitivity(l2=one * sqrt_up(Fraction(2)), linf=one, l0=2 * most, relation=relation, monotone=False)


def _coins(salt: str, period: int) -> Coins:
    """Words for a cell that depend on nothing but its user, its item and the period."""
    seed = hashlib.blake2b(f"{salt}/{period}".encode(), digest_size=16).digest()
    keys = np.frombuffer(seed, dtype=np.uint64)

    def words(users: Integers, items: Integers) -> NDArray[np.uint64]:
        cells = (users.astype(np.uint64) << np.uint64(32)) | items.astype(np.uint64)
        return np.array([mixed(cells ^ key) for key in keys], dtype=np.uint64)

    return words
