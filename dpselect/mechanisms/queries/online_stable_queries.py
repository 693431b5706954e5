"""OnlineStableQueries: answer every query that no single user can change, until c of them turn out unstable."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, final

import numpy as np
from pydantic import Field

from accounting import Approximate, Curve, ForeignProcess, Relation
from accounting.frozen import Count, Positive, Probability
from accounting.process_state import ProcessState
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.queries.above_threshold import Flags, first, margins
from dpselect.mechanisms.queries.first_stable import StableQueries, StableRule, first_law
from dpselect.mechanisms.ranks import blocks
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.sampling import Sampler, Thresholds, sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections

_REASON = "stopped after c unstable queries"


@final
class OnlineStableQueries(StableQueries):
    """Every query is answered exactly while it is found stable; the c-th found unstable ends it (after Carvalho et al. 2020).

    `session()` takes queries one by one, each chosen after the earlier outcomes; `select(scores)` takes the distances to
    instability of a fixed list. `Selection.indices` are the queries whose true answers may be released. The threshold's noise is
    drawn afresh after every unstable query: the printed algorithm keeps it, and no proof covers that. Guarantee, the true answers
    included and however many queries are asked: Approximate(c * SparseVectorDP(split * epsilon, (1 - split) * epsilon), delta),
    Theorem V5.

    Args:
        epsilon: nats for each of the c runs, > 0.
        delta: in (0, 1), the chance that any unstable answer passes.
        c: how many unstable queries are let through before the end, >= 1.
        split: share of epsilon for the threshold, in (0, 1).
        relation: what a neighbour is; the distances count steps of that kind.
    """

    kind: Literal["online_stable_queries"] = "online_stable_queries"
    traits: ClassVar[Traits] = Traits(
        answers="queries", noise=EPSILON, failure="delta", ordered=False, most=None, domain="public"
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    c: Count = Field(description="an integer >= 1")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.c * self.rule.curve, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        # Each of c runs meets at most one test that could go wrong.
        return StableRule(self.epsilon, self.split, self.delta, self.c)

    def session(self, *, rng: np.random.Generator | None = None) -> StableSession:
        """Ask queries one by one. The price of the whole session is `curve`: charge it before the first query.

        Args:
            rng: None draws from the operating system's entropy; a seeded Generator is for simulation only.
        """
        return StableSession(self.rule, most_unstable=self.c, source=sampler(rng))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        stable, unstable = self._rows(scores.dense()[None], source)
        chosen = np.flatnonzero(stable[0]).tolist()
        return release(scores, chosen, ordered=False, requested=None, complete=bool(unstable[0] < self.c), reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        parts = [self._rows(block, source) for block in blocks(matrix)]
        stable, unstable = (np.concatenate(part) for part in zip(*parts, strict=True))
        complete = np.asarray(unstable < self.c)
        return Selections(first(stable, stable.shape[1]), ordered=False, requested=None, complete=complete, reason=_REASON)

    def _rows(self, matrix: Numbers, source: Sampler) -> tuple[Flags, Any]:
        """(rows, m) which queries were answered, and (rows,) how many turned out unstable."""
        rule = self.rule
        stable, unstable = np.zeros(matrix.shape, dtype=np.bool_), np.zeros(len(matrix), dtype=np.int64)
        thresholds = rule.thresholds(len(matrix), source)
        for column, distances in enumerate(matrix.T):
            passed = rule.passes(distances, thresholds)
            running = unstable < self.c
            stable[:, column] = passed & running
            ended = np.flatnonzero(running & ~passed)
            unstable[ended] += 1
            thresholds.renew(ended)
        return stable, unstable

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(2.0**scores.size, 2**14)
        # A query fails iff T - distance + noise > threshold noise: both noises are symmetric.
        behind = -margins(scores.dense(), self.rule.threshold)
        ends = [first_law(behind[start:], self.rule).tolist() for start in range(scores.size)]
        chances: dict[Any, float] = {}

        def run(start: int, left: int, answered: frozenset[int], chance: float) -> None:
            if left == 0 or start == scores.size:
                chances[answered] = chances.get(answered, 0.0) + chance
                return
            for length, probability in enumerate(ends[start]):
                stop = start + length
                run(min(stop + 1, scores.size), left - 1, answered | set(range(start, stop)), chance * probability)

        run(0, self.c, frozenset(), 1.0)
        return chances


# A session of queries that are answered while they are stable.


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
        self._kept = ProcessState(
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
            with self._kept.locked() as state:  # after the query that another thread is asking
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
        with self._kept.locked() as state:
            thresholds = self._open(state)
            # Taken out until the test has ended well: whatever fails in between, this threshold is not asked again.
            self._kept.value = state._replace(thresholds=None)
            passed = bool(self._rule.passes(np.array([distance]), thresholds)[0])
            if not passed:
                thresholds.renew(np.zeros(1, dtype=np.int64))
            self._kept.value = _State(state.asked + 1, state.unstable + (not passed), thresholds)
        return passed

    def close(self) -> Curve:
        """End the session; what it used up of `OnlineStableQueries.curve`: every run that an unstable query ended, and one more.

        Where the ledger holds a reservation of that curve, `Ledger.release(..., spent=session.close())` gives the rest back.
        Theorem F8.
        """
        with self._kept.locked() as state:
            self._kept.value = state._replace(thresholds=None)
            runs = min(state.unstable + 1, self._most_unstable)
        return Approximate(curve=runs * self._rule.curve, delta0=self._rule.delta)

    def _is_open(self, state: _State) -> bool:
        return state.thresholds is not None and state.unstable < self._most_unstable

    def _open(self, state: _State) -> Thresholds:
        if state.unstable >= self._most_unstable:
            raise InvalidRequest(f"the session is over: c={self._most_unstable} queries were unstable; charge and open another")
        if state.thresholds is None:
            raise InvalidRequest("the session was closed, or a query failed half-way: charge and open another")
        return state.thresholds

    def __repr__(self) -> str:
        return f"StableSession(asked={self.asked}, unstable={self.unstable}, is_open={self._is_open(self._kept.value)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds private noise and is not pickled")
