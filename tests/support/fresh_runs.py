"""Where the mean of fresh runs lies, from what simulations say of one."""

from __future__ import annotations

import math

import scipy

from dpselect.plan import Estimate


def for_runs(estimate: Estimate, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Where the mean of `runs` fresh runs lies, for a number in [0, 1] that this estimates.

    No law on [0, 1] spreads more than the one that takes the values 0 and 1, so the binomial quantiles at either end of the
    interval are used.
    """
    tail = (1 - level) / 2
    low = _binomial_quantile(tail, runs, min(1.0, max(0.0, estimate.low))) / runs
    # The most that fail is what is left of the most that succeed: the tail keeps its digits.
    high = 1 - _binomial_quantile(tail, runs, 1 - min(1.0, max(0.0, estimate.high))) / runs
    return min(low, estimate.low), max(high, estimate.high)


def _binomial_quantile(tail: float, runs: int, chance: float) -> int:
    """The least number of successes that the binomial law exceeds with at most 1 - tail."""
    if chance in (0.0, 1.0):
        return int(chance) * runs
    count = max(0, math.ceil(float(scipy.special.bdtrik(tail, runs, chance))))
    return count - 1 if count and scipy.special.bdtr(count - 1, runs, chance) >= tail else count
