"""How noise is shared between periods: what is measured, C, and how the counts are estimated from it, B = A C^-1. Theorem T2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.horizon_clip import UNIT
from dpselect.sensitivity import sqrt_up

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
