"""A session of queries that are answered while they are stable."""

from __future__ import annotations

import math
from typing import NoReturn, final

import numpy as np

from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.mechanisms.stable_rule import StableRule
from dpselect.sampling import Sampler


@final
class StableSession:
    """Queries asked one by one. Build it with `OnlineStableQueries.session`, after charging that mechanism's `curve`.

    A session holds the noise of the current threshold, which is private: it shows in no attribute or repr, and is not pickled.
    """

    __slots__ = ("_asked", "_most_unstable", "_rule", "_thresholds", "_unstable")

    def __init__(self, rule: StableRule, *, most_unstable: int, source: Sampler) -> None:
        self._rule, self._most_unstable = rule, most_unstable
        self._asked = self._unstable = 0
        self._thresholds = rule.thresholds(1, source)

    @property
    def asked(self) -> int:
        """Queries asked so far."""
        return self._asked

    @property
    def unstable(self) -> int:
        """Queries found unstable so far."""
        return self._unstable

    @property
    def is_open(self) -> bool:
        """Whether another query may be asked."""
        return self._unstable < self._most_unstable

    def answer(self, distance: float) -> bool:
        """Whether the query may be answered exactly. True or False is a release, which the session's curve has paid for.

        Args:
            distance: private: how many users have to change before some neighbour answers the query differently, >= 0.

        Raises:
            InvalidScores: the distance is not a finite number >= 0.
            InvalidRequest: the session is over.
        """
        if isinstance(distance, bool) or not isinstance(distance, int | float | np.number):
            raise InvalidScores(f"distance must be a number of users >= 0, not {type(distance).__name__}")
        if not 0 <= distance < math.inf:
            raise InvalidScores("distance must be a finite number of users >= 0: 0 means that some neighbour answers differently")
        if not self.is_open:
            raise InvalidRequest(f"the session is over: c={self._most_unstable} queries were unstable; charge and open another")
        return self._test(distance)

    def _test(self, distance: float | int) -> bool:
        passed = bool(self._rule.passes(np.array([distance]), self._thresholds)[0])
        self._asked += 1
        if not passed:
            self._unstable += 1
            self._thresholds.renew(np.zeros(1, dtype=np.int64))
        return passed

    def __repr__(self) -> str:
        return f"StableSession(asked={self._asked}, unstable={self._unstable}, is_open={self.is_open})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds private noise and is not pickled")
