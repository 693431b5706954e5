"""In which order the items of a horizon are released: by scores that lean on earlier periods as far as these help.

Order is a function of the measurements of public and of discovered items, and costs nothing (Theorem T1).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpselect.continual.continual_top_k import ContinualTopK, Floats
from dpselect.continual.measurements import Block, Integers
from dpselect.mechanisms.release import public_grid

_MEMORIES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)  # by what a period's weight falls from one period to the next
_RANKING = 0.7  # the memory of the order in which the last period's borderline items are found
_BORDER = 4  # they are the items from rank k + 1 to this many k


def order_by(mechanism: ContinualTopK, period: int, items: Integers, scores: Floats, blocks: Iterable[Block]) -> Floats:
    """(items,) what orders these items: a weighted mean of their scores in all periods so far, in any unit; `scores` at first.

    Of a few rates at which weights fall, the one with the least squared error is taken, by Stein's estimate of it, over items
    that were close to rank k in the period before.
    """
    if period == 1 or len(items) <= mechanism.k:
        return scores
    columns = [_column(mechanism, period, memory) for memory in _MEMORIES]
    before = np.concatenate([[0.0], _column(mechanism, period - 1, _RANKING)])
    *means, earlier = _weighted([*columns, before], period, items, blocks)
    # Equals in the order of their means: how items are numbered tells when they first existed, which nobody paid for.
    border = np.lexsort((*means, -earlier))[mechanism.k : _BORDER * mechanism.k]
    variance = (mechanism.scale / public_grid(mechanism.scale)) ** 2
    errors = [
        np.square(mean[border] - means[0][border]).mean() + 2 * variance * float(column @ columns[0])
        for mean, column in zip(means, columns, strict=True)
    ]
    return means[int(np.argmin(errors))]


def _column(mechanism: ContinualTopK, period: int, memory: float) -> Floats:
    """(period,) weights of the measurements, the last one first, in a mean of scores whose weights fall by `memory`."""
    weights = memory ** np.arange(period)
    return np.asarray(np.convolve(weights / weights.sum(), mechanism.strategy.estimator)[:period])


def _weighted(columns: list[Floats], period: int, items: Integers, blocks: Iterable[Block]) -> list[Floats]:
    """For each column, (items,) weighted sums of measurements, in multiples of the public grid."""
    sums = [np.zeros(len(items)) for _ in columns]
    for block in blocks:
        place = (items >= block.first) & (items < block.first + len(block.values))
        values = block.values[items[place] - block.first].astype(np.float64)
        for total, column in zip(sums, columns, strict=True):
            total[place] += column[period - block.period] * values
    return sums
