"""In which order the items of a horizon are released: by scores that lean on earlier periods as far as these help.

Order is a function of the measurements of public and of discovered items, and costs nothing (Theorem T1).
"""

from __future__ import annotations

import numpy as np

from dpselect.continual.continual_top_k import ContinualTopK, Floats
from dpselect.mechanisms.release import public_grid

_MEMORIES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)  # by what a period's weight falls from one period to the next
_RANKING = 0.7  # the memory of the order in which the last period's borderline items are found
_BORDER = 4  # they are the items from rank k + 1 to this many k


def columns(mechanism: ContinualTopK, period: int) -> Floats:
    """(columns, period) weights of the measurements so far, of which `order_by` takes the sums."""
    found = [_column(mechanism, period, memory)[::-1] for memory in _MEMORIES]
    before = _column(mechanism, max(period - 1, 1), _RANKING)[::-1]
    return np.array([*found, np.append(before, 0.0)[-period:]])


def order_by(mechanism: ContinualTopK, period: int, scores: Floats, sums: Floats) -> Floats:
    """(items,) what orders items: a weighted mean of their scores in all periods so far, in any unit; `scores` at first.

    Of a few rates at which weights fall, the one with the least squared error is taken, by Stein's estimate of it, over items
    that were close to rank k in the period before.

    Args:
        sums: (columns, items) sums of measurements, in multiples of the public grid, for `columns` of this period.
    """
    if period == 1 or len(scores) <= mechanism.k:
        return scores
    *means, earlier = sums
    # Equals in the order of their means: how items are numbered tells when they first existed, which nobody paid for.
    border = np.lexsort((*means, -earlier))[mechanism.k : _BORDER * mechanism.k]
    variance = (mechanism.scale / public_grid(mechanism.scale)) ** 2
    weights = columns(mechanism, period)
    errors = [
        np.square(mean[border] - means[0][border]).mean() + 2 * variance * float(column @ weights[0])
        for mean, column in zip(means, weights, strict=False)
    ]
    return means[int(np.argmin(errors))]


def _column(mechanism: ContinualTopK, period: int, memory: float) -> Floats:
    """(period,) weights of the measurements, the last one first, in a mean of scores whose weights fall by `memory`."""
    weights = memory ** np.arange(period)
    return np.asarray(np.convolve(weights / weights.sum(), mechanism.strategy.estimator)[:period])
