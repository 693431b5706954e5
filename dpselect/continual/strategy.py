"""What one user may add to the counts of a whole horizon (Theorem T3), and how noise is shared between periods: what is
measured, C, and how the counts are estimated from it, B = A C^-1 (Theorem T2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Count, Frozen, Real
from dpselect.errors import InvalidMechanism
from dpselect.sensitivity import sqrt_up

UNIT = 2**20  # weights are whole multiples of 1/UNIT, rounded down
_SQUARE = UNIT**2
_BELOW_ONE = 1 - 2.0**-30  # more than the roundings of a thousand shares


@final
class HorizonClip(Frozen):
    """Scales down one user's contributions over all periods, so that their squares add up to at most 1. Theorem T3.

    The j-th cell of a user that is counted has a squared weight in proportion to j^-exponent; the `cells` first are counted.
    A cell is an (item, period) or, where each item of a user is counted once, an item. The cells of one period share theirs
    evenly. The default is never far behind the best on logs of light users; where users are many and heavy, an exponent of 1 or
    0 is better.

    Args:
        exponent: from 0 (all cells weigh the same) to 4; the larger, the more the first cells weigh.
        cells: how many cells of one user are counted at most, 1 to 1000.

    Raises:
        InvalidMechanism: a value is outside its domain.

    Example:
        >>> import dpselect as dps
        >>> round(dps.HorizonClip(exponent=1.5, cells=20).most, 3)
        0.679
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    exponent: Annotated[Real, Field(ge=0, le=4)] = Field(default=1.5, description="a number from 0 to 4")
    cells: Annotated[Count, Field(le=1000)] = Field(default=20, description="an integer from 1 to 1000")

    @property
    def most(self) -> float:
        """The greatest weight of a single cell, rounded up."""
        return (math.isqrt(self.squares[0]) + 1) / UNIT

    @property
    def squares(self) -> tuple[int, ...]:
        """The squared weights of a user's cells in order, multiples of UNIT^-2; none rises, and they add up to UNIT^2 at most."""
        return _squares(self.exponent, self.cells)

    def weights(self) -> NDArray[np.int64]:
        """(cells, cells + 1) weights, multiples of 1/UNIT: at [u, m] that of each of m new cells of a user who has had u."""
        return _weights(self.exponent, self.cells)

    def counted(
        self, users: NDArray[np.int64], used: NDArray[np.int16], coins: Callable[[NDArray[np.int64]], NDArray[np.uint64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of one period's new cells count, and for how much.

        Of a user with more cells than are left, those with the lowest of 128 bits of coins count: a choice that depends on
        nothing else.

        Args:
            users: (n,) whose each cell is, from 0.
            used: (users,) how many cells of each were counted before.
            coins: (2, n) words of 64 fair bits for the cells at (n,) positions.

        Returns:
            (m,) positions in `users`, and (m,) weights above 0, multiples of 1/UNIT.
        """
        room, new = self.cells - used[users].astype(np.int64), np.bincount(users, minlength=len(used))[users]
        crowded = np.flatnonzero((new > room) & (room > 0))
        crowded = crowded[np.lexsort((*coins(crowded), users[crowded]))]
        owner = users[crowded]
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)
        kept = np.concatenate([np.flatnonzero(new <= room), crowded[place < room[crowded]]])
        weights = self.weights()[self.cells - room[kept], np.minimum(new, room)[kept]]
        return kept[weights > 0], weights[weights > 0]


@lru_cache(maxsize=64)
def _squares(exponent: float, cells: int) -> tuple[int, ...]:
    shares = np.arange(1, cells + 1, dtype=np.float64) ** -exponent
    return tuple(int(one) for one in np.floor(shares / shares.sum() * (_SQUARE * _BELOW_ONE)))


@lru_cache(maxsize=8)
def _weights(exponent: float, cells: int) -> NDArray[np.int64]:
    sums = np.concatenate([[0], np.cumsum(np.array(_squares(exponent, cells), dtype=np.int64))])
    table = np.zeros((cells, cells + 1), dtype=np.int64)
    for used in range(cells):
        new = np.arange(1, cells - used + 1)
        squares = (sums[used + 1 :] - sums[used]) // new
        # The root of an integer below 2^41 is 2^-22 or more away from the next integer: its floor is exact in floats.
        table[used, 1 : len(new) + 1] = np.floor(np.sqrt(squares.astype(np.float64)))
    table.setflags(write=False)
    return table


Over = Literal["period", "running", "window"]
"""What a count is of: the events of one period, all so far, or those of the last few periods."""
_TABLE = 512  # cells of the range of weights on which a threshold is bounded
_HALVINGS = 48
_MEAN_UP = 1 + 1e-9  # above what B C, in floats, makes of a weight: |B C - A| stays below 1e-10 (a law holds it)
_TAIL_UP = 1 + 1e-9  # above the roundings of a tail of the normal law


@final
@dataclass(frozen=True, eq=False)
class Strategy:
    """C and B of a horizon, both Toeplitz and lower triangular. Theorem T2.

    Attributes:
        measured: (n,) the first column of C, n <= periods, multiples of 1/UNIT rounded down; what is left out is 0.
        estimator: (periods,) the first column of B.
        counted: (periods,) the first column of A: the periods that a count adds up.
        totals: (periods,) the first column of the estimator of totals, which add up all periods so far.
    """

    measured: NDArray[np.int64]
    estimator: NDArray[np.float64]
    counted: NDArray[np.int64]
    totals: NDArray[np.float64]

    @property
    def norm(self) -> float:
        """D: what a user whose squared weights add up to 1 moves the measurements by at most, in l2. Rounded up."""
        return sqrt_up(Fraction(sum(int(factor) ** 2 for factor in self.measured), UNIT**2))

    @property
    def deviations(self) -> NDArray[np.float64]:
        """(periods,) standard deviations of the estimates, in units of the noise."""
        return _deviations(self.estimator)

    @property
    def total_deviations(self) -> NDArray[np.float64]:
        """(periods,) standard deviations of the estimated totals, in units of the noise."""
        return _deviations(self.totals)

    @property
    def repeats(self) -> NDArray[np.int64]:
        """(periods,) how often a pair may have been counted at most: once in each count that it can stand in."""
        periods = np.arange(1, len(self.counted) + 1)
        return np.asarray(-(-periods // int(self.counted.sum())))


def _deviations(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.cumsum(column**2)))


@lru_cache(maxsize=64)
def strategy(count: Over, periods: int, window: int | None) -> Strategy:
    """The strategy of a count over a horizon of `periods`."""
    width = {"period": 1, "running": periods, "window": min(window or periods, periods)}[count]
    measured, counted = np.array(_root(width), dtype=np.int64), (np.arange(periods) < width).astype(np.int64)
    estimator, totals = _solved(measured, counted), _solved(measured, np.ones(periods, dtype=np.int64))
    for column in (measured, estimator, counted, totals):
        column.setflags(write=False)
    return Strategy(measured, estimator, counted, totals)


def _solved(measured: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """The first column of A C^-1, for the first columns of C and A."""
    factors, column = measured / UNIT, np.zeros(len(wanted))
    for t in range(len(wanted)):
        lags = factors[1 : t + 1]
        column[t] = wanted[t] - math.fsum(lags * column[t - len(lags) : t][::-1])
    return column


def _root(width: int) -> list[int]:
    """The first column of the square root of the lower triangle of ones: 1, 1/2, 3/8, ..., in units rounded down."""
    factor, column = Fraction(1), []
    for j in range(width):
        factor *= Fraction(2 * j - 1, 2 * j) if j else 1
        column.append(int(factor * UNIT))
    return column


@lru_cache(maxsize=256)
def thresholds(deviations: tuple[float, ...], most: float, cells: int, chance: float) -> tuple[float, ...]:
    """What estimates with each of these deviations must exceed, so that the items of one user alone pass with at most `chance`.

    Of a user's weights w, at most `cells` of them, each at most `most` and their squares adding up to at most 1, the sum of
    Q((threshold - w)/deviation) is at most `chance`: for every l >= 0 it is at most l + cells max_w [Q(...) - l w^2]
    (Theorem T4). The weights are cut into small intervals, and Q is taken at the upper end of each, w^2 at the lower.
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


def _most_passed(tails: NDArray[np.float64], squares: NDArray[np.float64], cells: int) -> NDArray[np.float64]:
    """(periods,) above the sum of `cells` tails whose squares add up to 1: the least bound found over l, sound for any."""

    def bound(multiplier: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """At these l, and its slope there."""
        gains = tails - multiplier[:, None] * squares
        return multiplier + cells * gains.max(axis=1), 1 - cells * squares[gains.argmax(axis=1)]

    # Convex in l, and no l above that of a single weight at the lower end of the last interval helps.
    low, high = np.zeros(len(tails)), tails[:, -1] / squares[-1]
    for _ in range(_HALVINGS // 2):
        middle = (low + high) / 2
        falls = bound(middle)[1] < 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return np.asarray(np.minimum(bound(low)[0], bound(high)[0]))
