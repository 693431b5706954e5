"""The top k of a growing log, at the end of every period of a horizon, with one budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from accounting import Approximate, Budget, Curve, GaussianDP
from accounting.arguments import check_integer
from accounting.frozen import Count, Frozen, Probability, Real
from accounting.numbers import ROOT_UP, Floats, Integers, next_up
from accounting.relations import Relation
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.release import check_intervals, public_grid
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.plan.fit import calibrate_mechanism
from dpselect.sensitivity import Sensitivity, sqrt_up

UNIT = 2**20  # weights are whole multiples of 1/UNIT, rounded down
MOST_PERIODS: Final = 4000
"""Most periods of a horizon."""
_MOST_CELLS = 1000
ITEMS_PER_PERIOD: Final = 3
"""Default number of released items of a user that count in a period."""
# Where C x is exact in 64-bit integers and the grid of values no finer than its units of 2^-40.
_LEAST, _MOST = 2.0**-10, 2.0**32
_BELOW_ONE = 1 - 2.0**-30  # more than the roundings of a thousand shares


@final
class HorizonClip(Frozen):
    """A clip that limits the sum of one user's squared weights over all periods to 1. Theorem T3.

    The j-th counted cell of a user has a squared weight in proportion to j^-exponent, and only the
    first `cells` are counted. A cell is an (item, period) or, if each item of a user is counted
    once, an item. The cells of one period share their weights evenly. The default is never far
    behind the best on logs of light users. If users are many and heavy, an exponent of 1 or 0 is
    better.

    Args:
        exponent: rate at which weights fall; with 0 all cells weigh the same.
        cells: most cells of one user that are counted.

    Example:
        >>> import dpselect as dps
        >>> round(dps.mechanisms.HorizonClip(exponent=1.5, cells=20).most, 3)
        0.679
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    exponent: Annotated[Real, Field(ge=0, le=4)] = Field(
        default=1.5, description="a number from 0 to 4"
    )
    cells: Annotated[Count, Field(le=_MOST_CELLS)] = Field(
        default=20, description="an integer from 1 to 1000"
    )

    @property
    def most(self) -> float:
        """The greatest weight of a single cell, rounded up."""
        return (math.isqrt(self.squares[0]) + 1) / UNIT

    @property
    def squares(self) -> tuple[int, ...]:
        """The squared weights of a user's cells in order, in multiples of UNIT^-2.

        They never rise, and add up to UNIT^2 at most.
        """
        return _weights(self.exponent, self.cells)[0]

    def weights(self) -> Integers:
        """Weights (cells, cells + 1) of new cells, in multiples of 1/UNIT.

        The entry at [u, m] is for each of m new cells of a user who already had u.
        """
        return _weights(self.exponent, self.cells)[1]

    def count(
        self,
        users: Integers,
        used: NDArray[np.int16],
        coins: Callable[[Integers], NDArray[np.uint64]],
    ) -> tuple[Integers, Integers]:
        """The new cells of a period that count, and their weights.

        A user with more cells than remain gets some of them, by `choose_cells`.

        Args:
            users: (n,) user of each cell, from 0.
            used: (users,) number of cells of each user that were counted before.
            coins: (2, n) words of 64 fair bits for the cells at (n,) positions.

        Returns:
            (m,) positions in `users`, and (m,) weights above 0, multiples of 1/UNIT.
        """
        remaining = self.cells - used[users].astype(np.int64)
        new = np.bincount(users, minlength=len(used))[users]
        cells = choose_cells(users, new, remaining, coins)
        weights = self.weights()[self.cells - remaining[cells], np.minimum(new, remaining)[cells]]
        return cells[weights > 0], weights[weights > 0]


def choose_cells(
    users: Integers,
    cells: Integers,
    most: Integers,
    coins: Callable[[Integers], NDArray[np.uint64]],
) -> Integers:
    """Positions of at most `most` cells of each user, those with the lowest of 128 bits of coins.

    Nothing else uses these coins.

    Args:
        users: (n,) user of each cell.
        cells, most: (n,) number of cells of that user, and the most that count.
        coins: (2, m) words of 64 fair bits for the cells at (m,) positions.
    """
    crowded = np.flatnonzero((cells > most) & (most > 0))
    crowded = crowded[np.lexsort((*coins(crowded), users[crowded]))]
    owner = users[crowded]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return np.concatenate([np.flatnonzero(cells <= most), crowded[place < most[crowded]]])


@final
class HorizonCounts(Frozen):
    """Counts of users beside the released items of a horizon, each with fresh noise. Theorem T10.

    Args:
        items: most items of one user that count in one period, among the released ones.
        scale: standard deviation of the noise of one count, in users.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    items: Annotated[Count, Field(le=_MOST_CELLS)] = Field(
        default=ITEMS_PER_PERIOD, description="an integer from 1 to 1000"
    )
    scale: Annotated[Real, Field(ge=_LEAST, le=_MOST)] = Field(
        description="a scale from 2^-10 to 2^32, in users"
    )


@lru_cache(maxsize=8)
def _weights(exponent: float, cells: int) -> tuple[tuple[int, ...], Integers]:
    """The squares of single cells, and the table of weights."""
    shares = np.arange(1, cells + 1, dtype=np.float64) ** -exponent
    single = tuple(
        int(square) for square in np.floor(shares / shares.sum() * (UNIT**2 * _BELOW_ONE))
    )
    sums = np.concatenate([[0], np.cumsum(np.array(single, dtype=np.int64))])
    table = np.zeros((cells, cells + 1), dtype=np.int64)
    for used in range(cells):
        new = np.arange(1, cells - used + 1)
        squares = (sums[used + 1 :] - sums[used]) // new
        # The root of an integer below 2^41 is 2^-22 or more away from the next integer: its floor
        # is exact in floats.
        table[used, 1 : len(new) + 1] = np.floor(np.sqrt(squares.astype(np.float64)))
    table.setflags(write=False)
    return single, table


Over = Literal["period", "running", "window"]
"""Events of a count: those of one period, all so far, or those of the last few periods."""
_TABLE = 512  # cells of the range of weights on which a threshold is bounded
_HALVINGS = 48
# above what B C, in floats, makes of a weight: |B C - A| stays below 1e-10 (a law holds it)
_MEAN_UP = 1 + 1e-9
_TAIL_UP = 1 + 1e-9  # above the roundings of a tail of the normal law


@final
@dataclass(frozen=True, eq=False)
class Strategy:
    """Correlated noise over periods: measurements C x, and estimates of counts A x by B = A C^-1.

    All three matrices are Toeplitz and lower triangular. Theorem T2.

    Attributes:
        measured: (n,) the first column of C, n <= periods, multiples of 1/UNIT rounded down; the
            rest is 0.
        estimator: (periods,) the first column of B.
        counted: (periods,) the first column of A: the periods that a count adds up.
        totals: (periods,) the first column of the estimator of totals, which add up all periods so
            far.
    """

    measured: Integers
    estimator: Floats
    counted: Integers
    totals: Floats

    @property
    def norm(self) -> float:
        """D, the most that a user moves the measurements in l2, rounded up.

        The user's squared weights add up to at most 1.
        """
        return sqrt_up(Fraction(sum(int(factor) ** 2 for factor in self.measured), UNIT**2))

    @property
    def deviations(self) -> Floats:
        """Standard deviations (periods,) of the estimates, in units of the noise."""
        return _deviations(self.estimator)

    @property
    def total_deviations(self) -> Floats:
        """Standard deviations (periods,) of the estimated totals, in units of the noise."""
        return _deviations(self.totals)

    @property
    def repeats(self) -> Integers:
        """Most times (periods,) that a pair was counted so far.

        It counts once in each run of periods that a count adds up.
        """
        periods = np.arange(1, len(self.counted) + 1)
        return np.asarray(-(-periods // int(self.counted.sum())))


def _deviations(column: Floats) -> Floats:
    return np.asarray(np.sqrt(np.cumsum(column**2)))


@lru_cache(maxsize=64)
def strategy(count: Over, periods: int, window: int | None) -> Strategy:
    """The strategy of a count over a horizon of `periods`."""
    width = {"period": 1, "running": periods, "window": min(window or periods, periods)}[count]
    # The square root of the lower triangle of ones: 1, 1/2, 3/8, ..., in units rounded down.
    factor, root = Fraction(1), [UNIT]
    for j in range(1, width):
        factor *= Fraction(2 * j - 1, 2 * j)
        root.append(int(factor * UNIT))
    measured, counted = (
        np.array(root, dtype=np.int64),
        (np.arange(periods) < width).astype(np.int64),
    )
    estimator, totals = (
        _solve(measured, counted),
        _solve(measured, np.ones(periods, dtype=np.int64)),
    )
    for column in (measured, estimator, counted, totals):
        column.setflags(write=False)
    return Strategy(measured, estimator, counted, totals)


def _solve(measured: Integers, first_column: Integers) -> Floats:
    """The first column of A C^-1, for the first columns of C and A."""
    factors, column = measured / UNIT, np.zeros(len(first_column))
    for t in range(len(first_column)):
        lags = factors[1 : t + 1]
        column[t] = first_column[t] - math.fsum(lags * column[t - len(lags) : t][::-1])
    return column


@lru_cache(maxsize=256)
def thresholds(
    deviations: tuple[float, ...], most: float, cells: int, chance: float
) -> tuple[float, ...]:
    """Thresholds that the items of one user alone pass with at most the probability `chance`.

    There is one for estimates with each of these deviations. For a user's weights w, at most
    `cells` of them, each at most `most` and their squares adding up to at most 1, the sum of
    Q((threshold - w)/deviation) is at most `chance`: for every l >= 0 it is at most l + cells max_w
    [Q(...) - l w^2] (Theorem T4). The weights are cut into small intervals, and Q is taken at the
    upper end of each, w^2 at the lower.
    """
    from scipy.special import ndtr

    deviation, ends = np.array(deviations), np.linspace(0.0, most, _TABLE + 1)
    upper, squares = ends[1:] * _MEAN_UP, ends[:-1] ** 2
    low = np.zeros(len(deviation))
    high = most * _MEAN_UP + deviation * 40.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tails = ndtr((upper - middle[:, None]) / deviation[:, None]) * _TAIL_UP
        passed = _most_passed(tails, squares, cells) <= chance
        high, low = np.where(passed, middle, high), np.where(passed, low, middle)
    return tuple(high.tolist())


def _most_passed(tails: Floats, squares: Floats, cells: int) -> Floats:
    """Upper bounds (periods,) on the sum of `cells` tails whose squares add up to 1.

    Each is the least bound found over l, and sound for any l.
    """

    def bound(multiplier: Floats) -> tuple[Floats, Floats]:
        """The bounds at these l, and their slopes."""
        gains = tails - multiplier[:, None] * squares
        return multiplier + cells * gains.max(axis=1), 1 - cells * squares[gains.argmax(axis=1)]

    # Convex in l, and no l above that of a single weight at the lower end of the last interval
    # helps.
    low, high = np.zeros(len(tails)), tails[:, -1] / squares[-1]
    for _ in range(_HALVINGS // 2):
        middle = (low + high) / 2
        falls = bound(middle)[1] < 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return np.asarray(np.minimum(bound(low)[0], bound(high)[0]))


# -- the mechanism ---------------------------------------------------------------------------------


_HALF = 0.5  # a count is an integer: how far it may lie from the sum of users and noise
# of a budget's delta for thresholds; the rest converts to epsilon
_SHARES: Final = (0.75, 0.9, 0.5, 0.25)
_COUNTED = 0.15  # of mu squared, for counts beside the items
_COMPARED = 16  # the most periods whose thresholds tell which share is best


@final
class ContinualTopK(Mechanism):
    """The k best items after each of `periods` periods, with noisy scores or counts, on one budget.

    An item's score is the sum of its users' weights (`users`), over the events of one period
    ("period"), of all periods so far ("running") or of the last `window` ("window"). A user's
    weights are bounded over the whole horizon, and noise is correlated over the periods.
    `dpselect.continual.open` draws from it, period by period; `select` does not, because it sees
    one table of scores. Under "running" each item of a user is counted once, and under "window"
    again only `window` or more periods later, so that a count of a window is a lower bound. An item
    of an unknown domain is discovered, and stays so, once its score passes a threshold, or its
    total over all periods so far does.

    With `counts` each released item has a noisy number of users in place of its score. They are
    counted once the items of a period are chosen, and among these alone, so that falling weights
    choose as well as they do without counts.

    A `grouped` horizon releases the k best items of each group. Its cells are (group, item): one
    user's weights are bounded over all groups together, so that groups cost nothing (Theorem T9).

    Guarantee: GaussianDP(D/scale) for a public domain and Approximate(GaussianDP(D/scale), delta)
    for an unknown one, where D is `strategy.norm`, Theorems T1 to T4; under replace_one sqrt(2) D.
    Counts add the square of sqrt(periods items)/scale to that of mu, Theorem T10.

    Args:
        periods: number of periods of the horizon. Public, and fixed: declare more rather than
            fewer.
        scale: standard deviation of the noise of a measurement, in weights.
        delta: the probability that items of one user alone pass the thresholds of a domain that is
            unknown; None for a public domain.
        candidates: the most items that the public domain has; None for any number, and for an
            unknown domain.
        users: contribution bounds of one user.
        counts: bounds and noise of the users counted beside the released items; None to release
            scores.

    Example:
        >>> import dpselect as dps
        >>> month = dps.ContinualTopK(k=10, periods=30, count="running", scale=6.0, delta=1e-6)
        >>> round(month.curve.epsilon(1e-5), 2)
        0.91
    """

    kind: Literal["continual_top_k"] = "continual_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="periods",
        noise=SCALE,
        failure="delta",
        ordered=True,
        most="k",
        domain=lambda mechanism: "public" if mechanism.delta is None else "unknown",
        values=True,
    )
    k: Count = Field(description="an integer >= 1")
    periods: Annotated[Count, Field(le=MOST_PERIODS)] = Field(
        description=f"an integer from 1 to {MOST_PERIODS}"
    )
    count: Over = Field(default="period", description="'period', 'running' or 'window'")
    window: Count | None = Field(default=None, description="an integer >= 1, or None")
    scale: Annotated[Real, Field(ge=_LEAST, le=_MOST)] = Field(
        description="a scale from 2^-10 to 2^32, in weights"
    )
    delta: Probability | None = Field(
        default=None, description="a delta in (0, 1), or None for a public domain"
    )
    candidates: Count | None = Field(default=None, description="an integer >= k, or None")
    users: HorizonClip = Field(default=HorizonClip(), description="a HorizonClip")
    counts: HorizonCounts | None = Field(default=None, description="a HorizonCounts, or None")
    grouped: bool = Field(default=False, description="True or False")
    own_relation: Relation = Field(
        default="add_remove", alias="relation", description="'add_remove' or 'replace_one'"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.count == "window") != (self.window is not None):
            raise ValueError(
                "window= is the number of periods of count='window'. State both, or neither"
            )
        if self.delta is not None and self.candidates is not None:
            raise ValueError(
                "delta= is for an unknown domain and candidates= for a public one. Leave one of"
                " them out"
            )
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(
                f"k={self.k} items cannot come out of candidates={self.candidates}. Ask for fewer"
            )
        return self

    @classmethod
    def fitted(
        cls, budget: Budget, *, unknown: bool = True, counted: int | None = None, **settings: Any
    ) -> Self:
        """The mechanism with these settings whose noise spends `budget`, for the whole horizon.

        A few splits of the budget's delta between thresholds and noise are tried, and the one with
        the lowest thresholds is kept. Counts take 15% of mu squared.

        Args:
            unknown: True if the items are read off the log; False for a public domain.
            counted: most items of one user that count in a period, beside the released items; None
                for no counts.
            settings: all fields but `scale`, `delta` and `counts`.

        Raises:
            CalibrationError: no amount of noise fits the budget, for example a pure one.
        """
        bracket = (_LEAST, _MOST)

        def make(scale: float, delta: float | None) -> Self:
            plain = cls(scale=scale, delta=delta, **settings)
            if counted is None:
                return plain
            ratio = plain._counts_moved(counted) / plain.strategy.norm * math.sqrt(1 / _COUNTED - 1)
            counts = HorizonCounts(items=counted, scale=min(max(ratio * scale, _LEAST), _MOST))
            return plain.model_copy(update={"counts": counts})

        if not unknown:
            mechanism: Any = calibrate_mechanism(lambda scale: make(scale, None), budget, bracket)
            return cls.model_validate(mechanism)
        candidates: list[Any] = []
        for share in _SHARES:
            delta = share * budget.delta
            fitted = partial(make, delta=delta)
            candidates.append(calibrate_mechanism(fitted, budget, bracket))
        some = slice(None, None, -(-candidates[0].periods // _COMPARED))
        return cls.model_validate(
            min(candidates, key=lambda mechanism: mechanism.thresholds(some).mean())
        )

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(relation=self.own_relation)

    @property
    def curve(self) -> Curve:
        core: Curve = GaussianDP(mu=ratio_up(self._l2_change(self.strategy.norm), self.scale))
        if self.counts is not None:
            core = core + GaussianDP(
                mu=ratio_up(
                    self._l2_change(self._counts_moved(self.counts.items)), self.counts.scale
                )
            )
        return core if self.delta is None else Approximate(curve=core, delta0=self.delta)

    @property
    def strategy(self) -> Strategy:
        """The measurements, and the estimators of counts."""
        return strategy(self.count, self.periods, self.window)

    @property
    def deviations(self) -> Floats:
        """Standard deviations (periods,) of the released scores, in weights."""
        return self.scale * self.strategy.deviations

    def _l2_change(self, norm: float) -> float:
        """Change in l2 under the stated relation, if adding one user changes at most `norm`."""
        return norm if self.own_relation == "add_remove" else next_up(sqrt_up(Fraction(2)) * norm)

    @property
    def _most_shown(self) -> int | None:
        """Most cells of one user that a period releases; None if groups may be any number."""
        return self.candidates if self.grouped else self.k

    def _counts_moved(self, items: int) -> float:
        """Change of all counts of the horizon in l2 by one user, rounded up.

        The user counts for at most `items` items in a period.
        """
        each = items if self._most_shown is None else min(items, self._most_shown)
        return sqrt_up(Fraction(self.periods * each))

    @property
    def in_part(self) -> bool:
        """True if a user may count for only some of the user's released items.

        Counts may then be too low (T10).
        """
        return (
            self.counts is None
            or self.count != "period"
            or self._most_shown is None
            or self._most_shown > self.counts.items
        )

    def margins(self, confidence: float = 0.95) -> Floats:
        """Half-widths (periods,) of intervals around a released count or score, for noise alone.

        They are in the unit of the count or score. The count or score without noise, from users'
        cells under the bound, lies within with this probability, for one item in one period. If
        users count `in_part`, more users than that may have the item, and only the low end is a
        bound on their number.

        Raises:
            InvalidRequest: `confidence` is not in (0, 1).
        """
        check_intervals(confidence)
        return self._half_widths((1 - confidence) / 2)

    def _half_widths(self, tail: float) -> Floats:
        """Half-widths (periods,) that noise exceeds on one side with probability `tail`."""
        quantile = -NormalDist().inv_cdf(tail)
        if self.counts is not None:
            return np.full(self.periods, self.counts.scale * quantile + _HALF)
        return self.deviations * quantile + self._rounding(self.strategy.estimator)

    def margin(self, period: int, among: int, confidence: float = 0.95) -> float:
        """Half-width at which all released values of all periods lie in their intervals.

        A union bound over the periods and over the `among` values that `period` (from 1) releases,
        given what it chose. Theorem T10.

        Raises:
            InvalidRequest: `confidence` is not in (0, 1), `among` is less than 1, or there is no
                such period.
        """
        check_intervals(confidence, among)
        check_integer(
            "period", period, "the number of a period", most=self.periods, error=InvalidRequest
        )
        tail = (1 - confidence) / 2 / (self.periods * among)
        return float(self._half_widths(tail)[period - 1])

    def thresholds(self, periods: slice = slice(None)) -> Floats:
        """Thresholds (periods,) of noisy scores to discover an item, in weights, rounded up.

        They are for an unknown domain. Computing each of the `periods` takes time.
        """
        rounding, once = self._rounding(self.strategy.estimator)[periods], self.count == "period"
        deviations = self.deviations[:1] if once else self.deviations[periods]
        chance = self._lone_chance / (1 if once else self.periods)
        return (
            np.asarray(
                thresholds(tuple(deviations.tolist()), self.users.most, self.users.cells, chance)
            )
            + rounding
        )

    def total_thresholds(self, periods: slice = slice(None)) -> Floats | None:
        """Thresholds of noisy totals of all periods so far, as from `thresholds`.

        None if scores are such totals themselves.
        """
        if not self._tests_totals:
            return None
        repeats = np.sqrt(np.minimum(self.strategy.repeats, self.users.cells))[periods] * ROOT_UP
        shared = self.scale * self.strategy.total_deviations[periods] / repeats
        bars = thresholds(
            tuple(shared.tolist()), 1.0, self.users.cells, self._lone_chance / self.periods
        )
        return repeats * np.array(bars) + self._rounding(self.strategy.totals)[periods]

    @property
    def _tests_totals(self) -> bool:
        return bool(self.strategy.counted.sum() < self.periods)

    @property
    def _lone_chance(self) -> float:
        """Probability that one user's items alone pass, for all tests of one kind together."""
        if self.delta is None:
            raise InvalidRequest("a public domain has no thresholds: all its items may be released")
        return (
            self.delta
            / (1 if self.own_relation == "add_remove" else 2)
            / (2 if self._tests_totals else 1)
        )

    def _rounding(self, estimator: Floats) -> Floats:
        """Most (periods,) that rounding measurements to the public grid raises an estimate."""
        return np.cumsum(np.abs(estimator)) * (public_grid(self.scale) / 2) * (1 + 1e-9)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidRequest(
            "ContinualTopK releases at the end of each period of a horizon, from the events of that"
            " period and a private state. Use dpselect.continual.open, which opens the horizon"
        )

    _check_scores = _select = _select_many = _probabilities = _refuse
