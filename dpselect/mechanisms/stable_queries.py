"""Release query answers without noise, after a private test that no single user can change them.

The mechanisms answer the first stable query, all queries until c were unstable, or a stable top k.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Approximate, BoundedRange, Curve
from accounting.arguments import quote
from accounting.curves.sparse_vector import SparseVectorDP
from accounting.errors import ForeignProcess
from accounting.frozen import Count, NonNegative, Positive, Probability
from accounting.numbers import Flags, Floats, Integers, sum_up
from accounting.process_state import ProcessState
from accounting.relations import Relation
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.gaps import Rank, Top, gaps_below, read_top, top_set
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import blocks, count_blocks, first, heights, highest, margins
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import log1mexp, noise_of
from dpselect.sampling import Sampler, Thresholds, sampler
from dpselect.sampling.contest import numbers
from dpselect.sampling.ranked import rank_rows
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import (
    NoisyComparisons,
    mixture,
    require_enumerable,
    top_set_probabilities,
)

_REASON = "no query passed the stability test"
_EXACT = Context(prec=400)  # the caller's may have any precision
_MARGIN = 1e-12  # on the logarithm of a probability that is computed to 1e-14


@final
@dataclass(frozen=True)
class StableRule:
    """A noisy test of a distance to instability, which unstable answers hardly ever pass.

    A distance passes iff distance + Laplace(2/epsilon2) > T + Laplace(1/epsilon1). The noise of the
    threshold serves a whole run. Scales and T are in steps of distance. Theorem V3.
    """

    epsilon: float  # epsilon1 + epsilon2, nats
    split: float  # epsilon1/epsilon
    delta: float  # probability, over all tests, that one with distance 0 passes
    tests: int  # number of tests in the union bound

    @property
    def epsilon1(self) -> float:
        """Nats spent on the threshold."""
        return float(_EXACT.multiply(Decimal(repr(self.epsilon)), Decimal(repr(self.split))))

    @property
    def epsilon2(self) -> float:
        """Nats spent on the test that ends the run."""
        rest = float(_EXACT.subtract(Decimal(repr(self.epsilon)), Decimal(repr(self.epsilon1))))
        return rest if sum_up(self.epsilon1, rest) <= self.epsilon else math.nextafter(rest, 0.0)

    @property
    def curve(self) -> SparseVectorDP:
        """Cost of one run, unless an unstable answer passes.

        A distance moves by one step, which is half of what the cost of its noise allows for.
        """
        return SparseVectorDP(
            epsilon1=self.epsilon1,
            epsilon2=self.epsilon2,
            positives=1,
            alone=self.epsilon2 / 2 or None,
        )

    @property
    def scale(self) -> float:
        """Scale of the threshold's noise."""
        return ratio_up(1.0, self.epsilon1)

    @property
    def test_scale(self) -> float:
        """Scale of the noise of every test."""
        return ratio_up(2.0, self.epsilon2)

    @property
    def threshold(self) -> float:
        """The threshold T: ln(1/delta_q) * test_scale, with the paper's delta_q."""
        return self._height * self.test_scale

    def pass_probability(self, distance: float) -> float:
        """The chance that one distance (steps) passes, tested alone."""
        height = self._height - distance / self.test_scale
        tail = math.exp(log_failure(abs(height), self.test_scale / self.scale))
        return tail if height >= 0 else 1 - tail

    def least_distance(self, probability: float) -> float:
        """The smallest distance (steps) that passes with at least this probability, tested
        alone.
        """
        if not 0 < probability < 1:
            raise InvalidRequest(f"probability={quote(probability)} must lie between 0 and 1")
        low, high = 0.0, self.test_scale
        if self.pass_probability(low) >= probability:
            return low
        while self.pass_probability(high) < probability:
            low, high = high, 2 * high
        while low < (middle := (low + high) / 2) < high:
            if self.pass_probability(middle) < probability:
                low = middle
            else:
                high = middle
        return high

    def thresholds(self, rows: int, source: Sampler) -> Thresholds:
        """Draw (rows,) noise for the thresholds of as many runs, in steps of distance."""
        return source.thresholds(noise_of("laplace"), [self.scale], rows)

    def passes(self, distances: Numbers, thresholds: Thresholds) -> Flags:
        """Return (rows,) flags of distances that pass T and the noise of their thresholds, exactly.

        Each distance has fresh noise of its own.
        """
        return thresholds.passes(
            numbers(distances)[:, None], self.test_scale, [np.array([[self.threshold]])]
        )[:, 0]

    def first_passing(self, distances: Numbers, source: Sampler, less: float = 0.0) -> Integers:
        """Return (rows,) positions of each row's first distance to pass, or -1 if none does.

        `less` steps are taken off all distances.
        """
        minus = [np.array([[less]]), np.array([[self.threshold]])]
        return first(
            source.passing(
                distances, noise_of("laplace"), self.scale, self.test_scale, minus=minus
            ),
            1,
        )[:, 0]

    def first_law(self, above: Floats) -> Floats:
        """Return (m + 1,) probabilities that each of (m,) margins is the first to pass, or none."""
        return NoisyComparisons(
            above, noise_of("laplace"), self.scale, self.test_scale
        ).first_passing()

    @cached_property
    def _height(self) -> float:
        """The least T/test_scale that bounds all failures, rounded up."""
        ratio, target = (
            self.test_scale / self.scale,
            math.log(self.delta) - math.log(self.tests) - _MARGIN,
        )
        if log_failure(0.0, ratio) <= target:
            return 0.0
        low, high = 0.0, 1.0
        while log_failure(high, ratio) > target:
            low, high = high, 2 * high
        while high - low > 1e-15 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if log_failure(middle, ratio) > target else (low, middle)
        return high


def log_failure(height: float, ratio: float) -> float:
    """Return ln P[X > height + Y] for Laplace X of scale 1, Y of scale 1/ratio, and height >= 0.

    This is ln delta_max, exactly: delta_max = (d^c - c^2 d)/(2 (1 - c^2)) with d = exp(-height) and
    c = ratio, written so that nothing cancels near c = 1. Theorem V3.
    """
    x = (ratio - 1) * height
    size = abs(x)
    # ln((1 - exp(-size))/size)
    mean = -size / 2
    if size > 1e-8:
        mean = float(log1mexp(size)) - math.log(size)  # type: ignore[arg-type]
    weight = -math.inf if height == 0 else math.log(height / (ratio + 1)) + max(-x, 0.0) + mean
    more = max(weight, 0.0) + math.log1p(math.exp(-abs(weight)))
    return -math.log(2) - height + more


class StableQueries(Mechanism, ABC):
    """Base class of mechanisms that release answers which no single user can change.

    Scores are distances to instability.

    Args:
        split: share of epsilon for the threshold, in (0, 1).
        relation: the neighboring relation. Distances count steps of that kind.
    """

    kind: str
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    neighbors: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )

    @property
    @abstractmethod
    def rule(self) -> StableRule:
        """The test alone: its threshold and its noise."""

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(monotone=False, relation=self.neighbors)

    def _check_stated(self) -> None:
        _ = self.rule.threshold  # refused before a charge, not at the draw

    def _check_scores(self, scores: Scores) -> None:
        if np.any(scores.values < 0):
            raise InvalidScores(
                "a distance is negative, but it is a number of users, 0 if some neighbor"
                " answers differently"
            )


@final
class FirstStable(StableQueries):
    """The first query found stable, whose exact answer may then be released at no further cost.

    After Carvalho et al. (2020).

    `select(scores)` takes as scores the distances to instability of queries f_1, f_2, ... in a
    fixed order that does not depend on the data. A distance is the number of users who have to
    change before a neighbor answers f_i differently, 0 if one of the neighbors does.
    `Selection.indices` is empty or names one query, whose true answer is then public. Guarantee,
    that answer included: Approximate(SparseVectorDP(split * epsilon, (1 - split) * epsilon),
    delta), Theorem V4.

    Args:
        candidates: public upper bound on the number of queries.
    """

    kind: Literal["first_stable"] = "first_stable"
    traits: ClassVar[Traits] = Traits(
        answers="queries", noise=EPSILON, failure="delta", ordered=False, most=1, domain="public"
    )
    candidates: Count = Field(description="a public number of queries, >= 1")

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.rule.curve, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        return StableRule(self.epsilon, self.split, self.delta, self.candidates)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        places = self.rule.first_passing(scores.dense()[None], source)
        return release(scores, places[places >= 0], ordered=False, requested=1, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        places = np.concatenate(
            [self.rule.first_passing(block, source) for block in blocks(matrix)]
        )
        return Selections(places[:, None], ordered=False, requested=1, reason=_REASON)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        require_enumerable(scores.size, 1000)
        chances = self.rule.first_law(margins(scores.dense(), self.rule.threshold))
        return {
            frozenset([i] if i < scores.size else []): chance
            for i, chance in enumerate(chances.tolist())
        }


_STOPPED = "stopped after c unstable queries"


@final
class OnlineStableQueries(StableQueries):
    """Queries that are answered exactly while they are found stable, until c were found unstable.

    `session()` takes queries one by one, each chosen after the earlier outcomes. `select(scores)`
    takes the distances to instability of a fixed list. `Selection.indices` are the queries whose
    true answers may be released. The threshold's noise is drawn afresh after every unstable query,
    because no proof covers the printed algorithm, which keeps it. Guarantee, the true answers
    included and for any number of queries: Approximate(c * SparseVectorDP(split * epsilon, (1 -
    split) * epsilon), delta), Theorem V5. After Carvalho et al. (2020).

    Args:
        epsilon: nats for each of the c runs, > 0.
        c: number of unstable queries that end the session, >= 1.
    """

    kind: Literal["online_stable_queries"] = "online_stable_queries"
    traits: ClassVar[Traits] = Traits(
        answers="queries", noise=EPSILON, failure="delta", ordered=False, most=None, domain="public"
    )
    c: Count = Field(description="an integer >= 1")

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.c * self.rule.curve, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        # Each of c runs meets at most one test that could go wrong.
        return StableRule(self.epsilon, self.split, self.delta, self.c)

    def session(self, *, rng: np.random.Generator | None = None) -> StableSession:
        """Open a session of queries asked one by one. It costs `curve` in all, to be charged first.

        `rng` is as for `select`.
        """
        return StableSession(self.rule, most_unstable=self.c, source=sampler(rng))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        stable, unstable = self._rows(scores.dense()[None], source)
        positions = np.flatnonzero(stable[0]).tolist()
        return release(
            scores,
            positions,
            ordered=False,
            requested=None,
            complete=bool(unstable[0] < self.c),
            reason=_STOPPED,
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        parts = [self._rows(block, source) for block in blocks(matrix)]
        stable, unstable = (np.concatenate(part) for part in zip(*parts, strict=True))
        complete = np.asarray(unstable < self.c)
        return Selections(
            first(stable, stable.shape[1]),
            ordered=False,
            requested=None,
            complete=complete,
            reason=_STOPPED,
        )

    def _rows(self, matrix: Numbers, source: Sampler) -> tuple[Flags, Any]:
        """Return (rows, m) flags of answered queries, and (rows,) numbers of unstable ones."""
        rule = self.rule
        stable, unstable = (
            np.zeros(matrix.shape, dtype=np.bool_),
            np.zeros(len(matrix), dtype=np.int64),
        )
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
        require_enumerable(2.0**scores.size, 2**14)
        # A query fails iff T - distance + noise > threshold noise: both noises are symmetric.
        behind = -margins(scores.dense(), self.rule.threshold)
        ends = [self.rule.first_law(behind[start:]).tolist() for start in range(scores.size)]
        chances: dict[Any, float] = {}

        def run(start: int, failures: int, answered: frozenset[int], chance: float) -> None:
            if failures == 0 or start == scores.size:
                chances[answered] = chances.get(answered, 0.0) + chance
                return
            for length, probability in enumerate(ends[start]):
                stop = start + length
                run(
                    min(stop + 1, scores.size),
                    failures - 1,
                    answered | set(range(start, stop)),
                    chance * probability,
                )

        run(0, self.c, frozenset(), 1.0)
        return chances


# A session of queries that are answered while they are stable.


class _State(NamedTuple):
    queries: int
    unstable: int
    thresholds: Thresholds | None
    """None while a query is tested, and forever once a test has failed halfway."""


@final
class StableSession:
    """A session of queries asked one by one.

    Open it with `OnlineStableQueries.session`, after charging that mechanism's `curve`. A session
    holds the noise of the current threshold, which is private: it shows in no attribute or repr,
    and is not pickled. Threads may share a session, but a fork of its process may not use it. A
    test that is interrupted ends the session.
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
    def queries(self) -> int:
        """Number of queries asked so far."""
        return self._kept.value.queries

    @property
    def unstable(self) -> int:
        """Number of queries found unstable so far."""
        return self._kept.value.unstable

    @property
    def is_open(self) -> bool:
        """True if another query may be asked."""
        try:
            with self._kept.lock() as state:  # after the query that another thread is asking
                return self._is_open(state)
        except ForeignProcess:
            return False

    def answer(self, distance: float) -> bool:
        """True if the query may be answered exactly.

        Either result is a release, which the session's curve has paid for.

        Args:
            distance: **private** number of users who have to change before some neighbor answers
                the query differently, >= 0.

        Raises:
            InvalidScores: the distance is not a finite number >= 0.
            InvalidRequest: the session is over, or was closed by a failure.
            ForeignProcess: the session was opened before a fork.
        """
        if isinstance(distance, bool | np.timedelta64) or not isinstance(
            distance, int | float | np.integer | np.floating
        ):
            raise InvalidScores(
                f"distance must be a number of users >= 0, not {type(distance).__name__}"
            )
        if not 0 <= distance < math.inf or (isinstance(distance, int) and distance >= 2**63):
            raise InvalidScores(
                "distance must be a finite number of users >= 0, and below 2^63 as an integer. 0"
                " means that some neighbor answers differently"
            )
        with self._kept.lock() as state:
            thresholds = self._open(state)
            # Taken out until the test has ended well: whatever fails in between, this threshold is
            # not asked again.
            self._kept.value = state._replace(thresholds=None)
            passed = bool(self._rule.passes(np.array([distance]), thresholds)[0])
            if not passed:
                thresholds.renew(np.zeros(1, dtype=np.int64))
            self._kept.value = _State(state.queries + 1, state.unstable + (not passed), thresholds)
        return passed

    def close(self) -> Curve:
        """End the session and return the part of `OnlineStableQueries.curve` that it used up.

        That is every run that an unstable query ended, and one more. If the ledger holds a
        reservation of that curve, `Ledger.release(..., spent=session.close())` gives the rest back.
        Theorem F8.
        """
        with self._kept.lock() as state:
            self._kept.value = state._replace(thresholds=None)
            runs = min(state.unstable + 1, self._most_unstable)
        return Approximate(curve=runs * self._rule.curve, delta0=self._rule.delta)

    def _is_open(self, state: _State) -> bool:
        return state.thresholds is not None and state.unstable < self._most_unstable

    def _open(self, state: _State) -> Thresholds:
        if state.unstable >= self._most_unstable:
            raise InvalidRequest(
                f"the session is over, because c={self._most_unstable} queries were unstable."
                " Charge and open another"
            )
        if state.thresholds is None:
            raise InvalidRequest(
                "the session was closed, or a query failed halfway. Charge and open another"
            )
        return state.thresholds

    def __repr__(self) -> str:
        return (
            f"StableSession(queries={self.queries}, unstable={self.unstable},"
            f" is_open={self._is_open(self._kept.value)})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds private noise and is not pickled")


# Top-k over candidates that are not known in advance, at a cost that does not grow with k: the
# first stable gap of a ranking.

_FEWER = "fewer items than requested were found stable"


@final
class TopStable(Mechanism):
    """The top i for the first i <= kbar whose gap passes a stability test, or k of them if i > k.

    It reads only the kbar + 1 highest counts, so the domain may be unknown. It releases a set of at
    most k items, never their order. Guarantee for distinct-user counts under add_remove, whatever
    k: Approximate(SparseVectorDP(split * epsilon, (1 - split) * epsilon), delta), plus k *
    BoundedRange(epsilon_em) if that is not 0; Theorem V6. A replacement is two such steps:
    `group_privacy(curve, 2)`. After Carvalho et al. (2020).

    Args:
        epsilon: nats for the search, > 0.
        split: share of epsilon for the threshold, in (0, 1).
        epsilon_em: nats for each of k picks by the exponential mechanism out of a stable set of
            more than k. With 0 they are picked at random.
        search: order of the tests: "from_kbar" takes i = kbar, ..., 1; "from_k" takes k, ..., kbar,
            then k - 1, ..., 1.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.TopStable(k=2, kbar=3, epsilon=1.0, delta=1e-12)
        >>> sorted(
        ...     mechanism.select(
        ...         dps.Scores([9000, 8990, 10, 9], sensitivity=dps.Sensitivity())
        ...     ).indices
        ... )
        [0, 1]
    """

    kind: Literal["top_stable"] = "top_stable"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=EPSILON,
        failure="delta",
        ordered=False,
        most="k",
        domain="unknown",
        reads=lambda mechanism: mechanism.kbar + 1,
        relations=("add_remove",),
        usual=lambda _: {"search": "from_k"},
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    kbar: Rank = Field(description="an integer from k to 10,000,000")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    split: Probability = Field(default=0.37, description="a share in (0, 1)")
    epsilon_em: NonNegative = Field(default=0.0, description="a finite epsilon >= 0, in nats")
    search: Literal["from_kbar", "from_k"] = Field(
        default="from_kbar", description="from_kbar or from_k"
    )

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(
                f"kbar={self.kbar} is less than k={self.k}. Let at least k items compete"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity()

    @property
    def curve(self) -> Curve:
        core: Curve = self.rule.curve
        if self.epsilon_em > 0 and self.kbar > self.k:
            core = core + self.k * BoundedRange(epsilon=self.epsilon_em)
        return Approximate(curve=core, delta0=self.delta)

    @property
    def rule(self) -> StableRule:
        """The test alone: its threshold and its noise, in counts of the gap minus 1."""
        return StableRule(self.epsilon, self.split, self.delta, self.kbar)

    def least_gap(self, probability: float) -> float:
        """The smallest gap (counts) that passes with at least this probability where it is tested
        first. Theorem V3.

        Raises:
            InvalidRequest: probability is not between 0 and 1.

        Example:
            >>> import dpselect as dps
            >>> mechanism = dps.TopStable(k=10, kbar=20, epsilon=1.0, delta=5e-7)
            >>> round(mechanism.least_gap(0.9), 1)
            65.4
        """
        return 1 + self.rule.least_distance(probability)

    @property
    def _pick_scale(self) -> float:
        """Scale of the noise by which k of more stable items are picked.

        If they are picked at random, any scale will do.
        """
        return ratio_up(1.0, self.epsilon_em) if self.epsilon_em > 0 else 1.0

    def _check_stated(self) -> None:
        _ = self.rule.threshold, self._pick_scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        top = read_top(scores, self.kbar)
        size = int(self._sizes(top.gaps[None], source)[0])
        stable = top_set(top, size)
        if len(stable) > self.k:
            stable = stable[self._pick_rows(_relative(scores.rank(size)[1][None]), source)[0]]
        return release(scores, stable, ordered=False, requested=self.k, reason=_FEWER)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate([self._rows(block, source) for block in count_blocks(matrix)])
        return Selections(indices, ordered=False, requested=self.k, reason=_FEWER)

    def _rows(self, block: Numbers, source: Sampler) -> Integers:
        """Return released positions of every row, ascending, and -1 beyond the last.

        The shape is (rows, min(k, m)).
        """
        top = highest(block, self.kbar + 1)
        sizes, ranks = self._sizes(gaps_below(top)[:, : self.kbar], source), rank_rows(block)
        indices = np.full((len(block), min(self.k, block.shape[1])), -1, dtype=np.int64)
        for size in np.unique(sizes[sizes > 0]).tolist():
            rows = np.flatnonzero(sizes == size)
            stable = ranks[rows, :size]
            if size > self.k:
                stable = np.take_along_axis(
                    stable, self._pick_rows(_relative(top[rows, :size]), source), axis=1
                )
            stable.sort(axis=1)
            indices[rows, : stable.shape[1]] = stable
        return indices

    def search_order(self, ranks: int) -> Integers:
        """Return the sizes 1, ..., ranks in the order in which they are tested."""
        upwards = np.arange(1, ranks + 1)
        if self.search == "from_kbar":
            return upwards[::-1]
        return np.concatenate([upwards[self.k - 1 :], upwards[: self.k - 1][::-1]])

    def _order_gaps(self, gaps: Floats) -> Floats:
        """Return (rows, ranks) gaps in the order of the tests; each less 1 is a distance."""
        return gaps[:, self.search_order(gaps.shape[1]) - 1]

    def _sizes(self, gaps: Floats, source: Sampler) -> Integers:
        """Return (rows,) first sizes whose gap passes, or 0, from (rows, ranks) gaps."""
        places = self.rule.first_passing(self._order_gaps(gaps), source, less=1.0)
        return np.where(places >= 0, self.search_order(gaps.shape[1])[places], 0)

    def _pick_rows(self, relative: Floats, source: Sampler) -> Integers:
        """Pick (rows, k) places in stable sets of one size > k."""
        if self.epsilon_em == 0:
            # equal scores with independent noise: a set at random
            relative = np.zeros_like(relative)
        return source.top_k_rows(relative, noise_of("gumbel"), self._pick_scale, self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        top = read_top(scores, self.kbar)
        require_enumerable(
            sum(math.comb(size, min(size, self.k)) for size in range(len(top.gaps) + 1)), 2e4
        )
        *chances, nothing = self.rule.first_law(
            margins(self._order_gaps(top.gaps[None])[0] - 1, self.rule.threshold)
        ).tolist()
        sizes = self.search_order(len(top.gaps)).tolist()
        laws = [
            (chance, self._subsets(scores, top, size))
            for size, chance in zip(sizes, chances, strict=True)
        ]
        return mixture([(nothing, {frozenset(): 1.0}), *laws])

    def _subsets(self, scores: Scores, top: Top, size: int) -> dict[frozenset[int], float]:
        """Return the distribution of the released set, once the top `size` has passed."""
        stable = top_set(top, size)
        if len(stable) <= self.k:
            return {frozenset(stable.tolist()): 1.0}
        relative = self.epsilon_em * _relative(scores.rank(size)[1][None])[0]
        law = top_set_probabilities(noise_of("gumbel"), 1.0, relative, self.k)
        return {frozenset(stable[list(members)].tolist()): share for members, share in law.items()}


def _relative(descending: Numbers) -> Floats:
    """Return (rows, size) descending counts, each minus the lowest of its row."""
    return heights(descending, descending[:, -1:])
