"""Optimal adaptive composition, as an upper and a lower bound: how much can an adversary learn who chooses every next pair?

A dynamic programme over a plan in its true order, from the last step to the first, both bounds side by side. Steps are of bounded
range, and an adversary chooses their pair, or have one dominating pair.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import mul

import numpy as np

from accounting.arguments import checked_integer
from accounting.convert.pld.loss import Banded, Law, Loss, Losses
from accounting.convert.recursion import WIDEST, Operator, RangeOperator, Solution, pair_operator
from accounting.convert.renyi import check_delta, rdp_to_epsilon
from accounting.curves import Composed, Curve
from accounting.decimal_sum import decimal_sum
from accounting.errors import AccountingError, InvalidArgument

# Below, the far tails of a Gaussian step (6e-300) are not negligible.
_LEAST_DELTA = 1e-280
_START = 16  # cells in the widest step of the first grid
_WORK = 1.5e11  # multiplications: one or two minutes of one core
_TAIL = 1e-9  # share of delta that cut-off tails may add in all
_BEYOND = 1e-4  # share of delta that is left beyond the grid


class GridTooCoarse(AccountingError):
    """The finest grid that the allowance of work permits leaves a gap between the two bounds that is wider than asked for."""


@dataclass(frozen=True)
class AdaptiveBound:
    """The exact value of the dynamic programme at `delta` lies in [epsilon_lower, epsilon_upper], in nats.

    `epsilon_upper` is proved; `gap` is the width relative to it; `delta0`, the probability of the bad events, was taken off
    `delta` first; `interval` is the grid step in nats.
    """

    epsilon_upper: float
    epsilon_lower: float
    delta: float
    delta0: float
    interval: float
    gap: float


def adaptive_composition(
    steps: Sequence[_Described], delta: float, *, tolerance: float = 1e-3, interval: float | None = None
) -> AdaptiveBound:
    """The epsilon of steps run one after the other, each input and each bounded-range pair chosen after all earlier outcomes.

    Theorem D1. Bounded-range steps are treated as exactly that; any other step enters through its dominating pair, in its own
    place, as the order matters.
    The plan (which curves, how many, in which order) is fixed in advance: this is not a rule for stopping early.

    Args:
        steps: curves or (curve, count) pairs, the first one first.
        delta: in [0, 1).
        tolerance: widest acceptable gap between the bounds, relative to epsilon; the grid is refined until it is met.
        interval: grid step in nats; if None it is chosen. A given one is never refined.

    Raises:
        InvalidArgument: delta is out of range or below 1e-280, or a step has no dominating pair or no known order.
        GridTooCoarse: the tolerance cannot be met with the interval given, or within the allowance of work.
    """
    plan, target = _read_plan(steps), check_delta(delta)
    kept = math.nextafter(target - plan.added, 0.0) if plan.added else target
    if not plan.steps or kept <= 0:
        fails = plan.added > target or (plan.steps and plan.curve.delta0 > target)
        value = math.inf if fails else plan.curve.core_epsilon if plan.steps else 0.0
        return AdaptiveBound(value, value, target, plan.added, 0.0, 0.0)
    if kept < _LEAST_DELTA:
        raise InvalidArgument(f"delta={kept!r} must be at least {_LEAST_DELTA:g} here; Curve.epsilon serves smaller ones")
    reach, gap = _reach(plan, kept), math.inf
    negligible = max(kept * _TAIL / sum(count for count, _ in plan.steps), 1e-300)
    for step in _intervals(plan, reach, interval):
        solution = _solve(plan, step, reach, negligible)
        upper, lower = solution.epsilon_upper(kept), solution.epsilon_lower(kept)
        gap = (upper - lower) / upper if 0 < upper < math.inf else float(upper > 0)
        if gap <= tolerance:
            return AdaptiveBound(upper, lower, target, plan.added, step, gap)
    raise GridTooCoarse(
        f"tolerance={tolerance!r} is not met: the bounds are still {gap:.3g} apart, relative to the upper one. "
        "Raise the tolerance, pass a smaller interval, or use Curve.epsilon, which needs no grid. A step that is known "
        "by a profile only (GaussianMax, Tighter) has no lower bound: tolerance=math.inf accepts the upper one alone."
    )


def _reach(plan: _Plan, delta: float) -> float:
    """An epsilon beyond which no more than a small share of `delta` is left."""
    renyi = rdp_to_epsilon(plan.curve.rdp, delta * _BEYOND, plan.curve.table_orders).value
    return min(plan.curve.core_epsilon, renyi) if math.isfinite(renyi) else plan.curve.core_epsilon


def _intervals(plan: _Plan, reach: float, interval: float | None) -> Iterator[float]:
    if interval is not None:
        if not 0 < interval < math.inf:
            raise InvalidArgument(f"interval={interval!r} must be a finite number > 0, in nats")
        yield float(interval)
        return
    start, period = _units(plan)
    for cells in itertools.accumulate(itertools.repeat(2), mul, initial=_START):
        trial = start / cells
        trial = period / math.ceil(period / trial) if period > 0 else trial
        if cells > _START and _work(plan, reach, trial) > _WORK:
            return
        yield trial
        if not all(isinstance(step, Law) for _, step in plan.steps):
            return  # a hull of profiles bounds a step from above only, so no finer grid helps


def _units(plan: _Plan) -> tuple[float, float]:
    """The size of the steps that weigh most, and a length that the grid should divide: a range, or else a place of atoms."""
    totals: dict[Loss, float] = defaultdict(float)
    for count, step in plan.steps:
        totals[step] += count * _scale(step) ** 2
    ranges, main = list(filter(_is_range, totals)), max(totals, key=lambda step: totals[step])
    return 2 * _scale(main), max(ranges, key=lambda step: totals[step], default=main).period


def _scale(step: Loss) -> float:
    return step.period / 2 if _is_range(step) else step.scale


def _is_range(step: Loss) -> bool:
    """Whether a step is any bounded-range pair of its width, chosen after all earlier outcomes, and not one dominating pair."""
    return isinstance(step, Banded) and step.is_range


def _work(plan: _Plan, reach: float, interval: float) -> float:
    """Multiplications, roughly: 40 for every point and piece of a bounded-range step, one for every pair of points else."""
    each = (n * (20 + (80 * step.period if _is_range(step) else 40 * step.scale) / interval) for n, step in plan.steps)
    return reach / interval * sum(each)


_Described = Curve | tuple[Curve, int]


@dataclass(frozen=True)
class _Plan:
    """Steps in their true order, each so many times in a row, the curve of all, and the probability of what is left out."""

    steps: tuple[tuple[int, Loss], ...]
    curve: Curve
    added: float


def _read_plan(described: Sequence[_Described]) -> _Plan:
    """The plan that is described, first step first."""
    if isinstance(described, Curve) or not isinstance(described, Iterable):
        raise InvalidArgument(
            f"steps must be a list of curves or (Curve, count) pairs, not {type(described).__name__}: put it in a list"
        )
    counted, steps, added = [], [], []
    for item in described:
        curve, count = item if isinstance(item, tuple) and len(item) == 2 else (item, 1)
        if not isinstance(curve, Curve):
            raise InvalidArgument(f"a step must be a Curve or a pair (Curve, count), not {type(item).__name__}")
        if checked_integer("count", count, "how many times a step is repeated", least=0) > 0:
            losses = _losses(curve)
            counted.append((int(count), curve))
            added.append((int(count), losses.added))
            steps += [(count * n, loss) for n, loss in losses.steps]
    return _Plan(tuple(steps), Composed.of(counted), decimal_sum(added))


@lru_cache(maxsize=64)
def _losses(curve: Curve) -> Losses:
    """The losses of a step, which commute if they are several."""
    losses = curve.losses()
    if losses is None:
        raise InvalidArgument(
            f"{curve!r} has no dominating pair: the dynamic programme takes bounded-range curves and curves with a privacy loss "
            "distribution; Curve.epsilon converts any curve"
        )
    ranges = [loss for _, loss in losses.steps if _is_range(loss)]
    if ranges and len(losses.steps) > 1:
        raise InvalidArgument(
            "a composition does not say in which order its steps ran, and that matters for bounded-range steps: pass its parts "
            "one by one, first step first"
        )
    if any(loss.period > WIDEST for loss in ranges):
        raise InvalidArgument(
            f"a step has bounded range {ranges[0].period:g}, and the recursion takes at most {WIDEST:g} nats: compose it as a "
            "curve"
        )
    return losses


def _solve(plan: _Plan, interval: float, reach: float, negligible: float) -> Solution:
    """Bounds for g in [0, reach] on a grid of `interval` nats; tails below `negligible` are cut off on the safe side."""
    size = math.ceil(reach / interval) + 1
    upper, lower, floor = np.zeros(size), np.zeros(size), 0.0

    @cache
    def operator(step: Loss) -> Operator:
        return RangeOperator(step.period, interval) if _is_range(step) else pair_operator(step, interval, negligible)

    for count, step in reversed(plan.steps):
        made = operator(step)
        for _ in range(count):
            upper = made.upper(upper)
            lower, floor = made.lower(lower, floor), made.lower_floor(floor)
    return Solution(interval, upper, lower)
