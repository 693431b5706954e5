"""A session of queries that are answered while they are stable."""

from __future__ import annotations

import math
from typing import NamedTuple, NoReturn, final

import numpy as np

from accounting import ForeignProcess
from accounting.kept import Kept
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.mechanisms.queries.stable_rule import StableRule
from dpselect.sampling import Sampler, Thresholds


class _State(NamedTuple):
    asked: int
    unstable: int
    thresholds: Thresholds | None
    """None while a query is tested, and for ever once a test has failed half-way."""


@final
class StableSession:
    """Queries asked one by one. Build it with `OnlineStableQueries.session`, after charging that mechanism's `curve`.

    A session holds the noise of the current threshold, which is private: it shows in no attribute or repr, and is not pickled.
    Threads may share a session; a fork of its process may not use it. A test that is interrupted ends the session.
    """

    __slots__ = ("_kept", "_most_unstable", "_rule")

    def __init__(self, rule: StableRule, *, most_unstable: int, source: Sampler) -> None:
        self._rule, self._most_unstable = rule, most_unstable
        self._kept = Kept(
            _State(0, 0, rule.thresholds(1, source)),
            owner="a session of stable queries",
            remedy="charge and open a session in each process",
        )

    @property
    def asked(self) -> int:
        """Queries asked so far."""
        return self._kept.value.asked

    @property
    def unstable(self) -> int:
        """Queries found unstable so far."""
        return self._kept.value.unstable

    @property
    def is_open(self) -> bool:
        """Whether another query may be asked."""
        try:
            with self._kept.turn() as state:  # after the query that another thread is asking
                return self._is_open(state)
        except ForeignProcess:
            return False

    def answer(self, distance: float) -> bool:
        """Whether the query may be answered exactly. True or False is a release, which the session's curve has paid for.

        Args:
            distance: private: how many users have to change before some neighbour answers the query differently, >= 0.

        Raises:
            InvalidScores: the distance is not a finite number >= 0.
            InvalidRequest: the session is over, or was closed by a failure.
            ForeignProcess: the session was opened before a fork.
        """
        if isinstance(distance, bool) or not isinstance(distance, int | float | np.number):
            raise InvalidScores(f"distance must be a number of users >= 0, not {type(distance).__name__}")
        if not 0 <= distance < math.inf:
            raise InvalidScores("distance must be a finite number of users >= 0: 0 means that some neighbour answers differently")
        with self._kept.turn() as state:
            thresholds = self._open(state)
            # Taken out until the test has ended well: whatever fails in between, this threshold is not asked again.
            self._kept.value = state._replace(thresholds=None)
            passed = bool(self._rule.passes(np.array([distance]), thresholds)[0])
            if not passed:
                thresholds.renew(np.zeros(1, dtype=np.int64))
            self._kept.value = _State(state.asked + 1, state.unstable + (not passed), thresholds)
        return passed

    def _is_open(self, state: _State) -> bool:
        return state.thresholds is not None and state.unstable < self._most_unstable

    def _open(self, state: _State) -> Thresholds:
        if state.unstable >= self._most_unstable:
            raise InvalidRequest(f"the session is over: c={self._most_unstable} queries were unstable; charge and open another")
        if state.thresholds is None:
            raise InvalidRequest("the session was closed by a query that failed half-way: charge and open another")
        return state.thresholds

    def __repr__(self) -> str:
        return f"StableSession(asked={self.asked}, unstable={self.unstable}, is_open={self._is_open(self._kept.value)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds private noise and is not pickled")
