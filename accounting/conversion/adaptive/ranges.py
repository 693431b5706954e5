"""Plans of equal bounded-range steps, among some with a fixed pair, in whatever order: the recursion's upper bound, quickly."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from accounting.conversion.adaptive.operators import NARROWEST, WIDEST, PairOperator, RangeOperator, trimmed
from accounting.conversion.adaptive.solution import Solution
from accounting.conversion.pld import Atoms, Banded, Hull, Losses, Normal, condensed
from accounting.conversion.pld.loss import Floats, Loss
from accounting.conversion.renyi import rdp_to_epsilon

_CELLS = (16, 8)  # of the grid in one range: the variance of the loss grows by a share of 2/(3 cells^2)
_QUICK, _MOST = 3e6, 1.5e7  # numbers worked on: some hundredths of a second, and half a second
_MOST_PAIRS, _PRODUCTS = 16, 6e8  # steps beside the ranges, and multiplications for all of them: half a second
_LEAST_SCALE = 1e-100  # of a step beside the ranges: squares are to stay floats
_UP = 1 + 2.0**-50
LEAST = 1e-12  # the least delta that the grid is made for
_BEYOND = 1e-4  # share of it that is left beyond the grid
_TAIL = 1e-9  # share of it that cut-off tails may add in all


def range_solution(losses: Losses, rdp: Callable[[Floats], Floats], orders: tuple[float, ...]) -> Solution | None:
    """Upper bounds on the plan's delta without its bad events (Theorem D6); None where the recursion is not tried.

    Args:
        losses: of the steps, each counted; those of bounded range must have one width.
        rdp, orders: the Renyi bound of all steps together and where it is tabulated; they choose the grid, and prove nothing.
    """
    ranges, pairs = _parted(condensed(losses))
    fixed = all(isinstance(loss, Atoms | Banded | Hull | Normal) and loss.scale > _LEAST_SCALE for _, loss in pairs)
    if len(ranges) != 1 or ranges[0][0] < 2 or not NARROWEST <= ranges[0][1] <= WIDEST or not fixed:
        return None
    (count, width), reach = ranges[0], rdp_to_epsilon(rdp, LEAST * _BEYOND, orders).value
    times, widest = sum(n for n, _ in pairs), max((loss.reach for _, loss in pairs), default=0.0)
    sizes = [(cells, cells * reach / width, times * 2 * cells * widest / width) for cells in _CELLS]
    most = {cells: _QUICK if cells > _CELLS[-1] else _MOST for cells in _CELLS}
    bearable = (n for n, size, more in sizes if count * 2.0 * n * size <= most[n] and more * size <= _PRODUCTS)
    if times > _MOST_PAIRS or (cells := next(bearable, None)) is None:
        return None
    return _solved(count, width, tuple(pairs), cells, math.ceil(cells * reach / width) + 1)


def _parted(losses: Losses) -> tuple[list[tuple[int, float]], list[tuple[int, Loss]]]:
    ranges = [(n, loss.width) for n, loss in losses.steps if isinstance(loss, Banded) and loss.is_range]
    rest = [(n, loss) for n, loss in losses.steps if not (isinstance(loss, Banded) and loss.is_range)]
    # Gaussians compose to one (C3); rounded up.
    return ranges, [(1, Normal(loss.mu * math.sqrt(n) * _UP)) if isinstance(loss, Normal) else (n, loss) for n, loss in rest]


@functools.lru_cache(maxsize=512)
def _solved(count: int, width: float, pairs: tuple[tuple[int, Loss], ...], cells: int, size: int) -> Solution:
    interval, values = width / cells, np.zeros(size)
    step = RangeOperator(width, interval)
    for _ in range(count):
        values = step.upper(values)
    for times, loss in pairs:
        fixed = _upper(loss, interval, LEAST * _TAIL / _MOST_PAIRS)
        for _ in range(times):
            values = fixed.upper(values)
    return Solution(interval, values, np.zeros(1))


def _upper(loss: Loss, interval: float, negligible: float) -> PairOperator:
    pmf = loss.pmf(interval, negligible)
    low, mass, cut = trimmed(pmf.low, pmf.mass, negligible)
    return PairOperator(interval, low, mass, pmf.infinity + cut, 0, np.zeros(0), 0.0)
