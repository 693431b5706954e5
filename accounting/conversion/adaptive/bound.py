"""Optimal adaptive composition, as an upper and a lower bound: how much can an adversary learn who chooses every next pair?"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from accounting.conversion.adaptive.programme import Described, Plan, RangeStep, Step, read_plan, solve
from accounting.conversion.adaptive.solution import Solution
from accounting.conversion.pld.loss import Floats, Law
from accounting.conversion.renyi import check_delta, check_epsilon, rdp_to_delta, rdp_to_epsilon
from accounting.decimal_sum import exact
from accounting.errors import AccountingError, InvalidArgument

# Below, the far tails of a Gaussian step (6e-300) are no longer negligible.
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


@dataclass(frozen=True)
class DeltaBounds:
    """delta at each of `epsilons` lies in [lower, upper], bad events included; arrays of one shape. `interval` in nats."""

    epsilons: Floats
    upper: Floats
    lower: Floats
    delta0: float
    interval: float
    gap: float


_Bounds = TypeVar("_Bounds", AdaptiveBound, DeltaBounds)


def adaptive_composition(
    steps: Sequence[Described], delta: float, *, tolerance: float = 1e-3, interval: float | None = None
) -> AdaptiveBound:
    """The epsilon of steps run one after the other, each input and each bounded-range pair chosen after all earlier outcomes.

    Theorem D1. Bounded-range steps are treated as exactly that; any other step enters through its dominating pair, in its own
    place, as the order matters. Of a step that is itself a composition in an unknown order, the worst order counts.
    The plan (which curves, how many, in which order) is fixed in advance: this is no rule for stopping early.

    Args:
        steps: curves or (curve, count) pairs, the first one first.
        delta: in [0, 1).
        tolerance: widest acceptable gap between the bounds, relative to epsilon; the grid is refined until it is met.
        interval: grid step in nats; if None it is chosen. A given one is never refined.

    Raises:
        InvalidArgument: delta is out of range or below 1e-280, or a step has no dominating pair or no known order.
        GridTooCoarse: the tolerance cannot be met with the interval given, or within the allowance of work.
    """
    plan, target = read_plan(steps), check_delta(delta)
    kept = math.nextafter(target - plan.added, 0.0) if plan.added else target
    if not plan.blocks or kept <= 0:
        value = _without_grid(plan, target)
        return AdaptiveBound(value, value, target, plan.added, 0.0, 0.0)
    _check_tiny(kept)
    reach = _reach(plan, kept)

    def measured(solution: Solution) -> AdaptiveBound:
        upper, lower = solution.epsilon_upper(kept), solution.epsilon_lower(kept)
        gap = (upper - lower) / upper if 0 < upper < math.inf else float(upper > 0)
        return AdaptiveBound(upper, lower, target, plan.added, solution.interval, gap)

    return _refined(plan, reach, kept, tolerance, interval, measured, lambda bound: bound.gap)


def delta_bounds(
    steps: Sequence[Described], epsilons: ArrayLike, *, tolerance: float = 0.05, interval: float | None = None
) -> DeltaBounds:
    """The delta of steps run one after the other, at each of `epsilons` (nats, >= 0). Theorem D1; see `adaptive_composition`.

    Args:
        steps: curves or (curve, count) pairs, the first one first.
        epsilons: any shape.
        tolerance: widest acceptable gap relative to delta.
        interval: grid step in nats; if None it is chosen and refined.

    Raises:
        InvalidArgument: an epsilon is negative or not finite, or a step is refused as by `adaptive_composition`.
        GridTooCoarse: the tolerance cannot be met.
    """
    plan, at = read_plan(steps), _array(epsilons)
    given = [check_epsilon(epsilon) for epsilon in at.ravel().tolist()]
    closed = {epsilon: _near_the_sum(plan, epsilon) for epsilon in given}
    points = [epsilon for epsilon, found in closed.items() if found is None]
    if not points:
        return _stated(plan, at, [pair for epsilon in given if (pair := closed[epsilon])], 0.0)
    least = min(rdp_to_delta(plan.curve.rdp, epsilon, plan.curve.table_orders).value for epsilon in points) * _BEYOND
    _check_tiny(least)
    reach = max(*points, _reach(plan, least))

    def measured(solution: Solution) -> DeltaBounds:
        pairs = [closed[epsilon] or (solution.lower_at(epsilon), solution.upper_at(epsilon)) for epsilon in given]
        return _stated(plan, at, pairs, solution.interval)

    return _refined(plan, reach, least, tolerance, interval, measured, lambda bounds: bounds.gap)


def _stated(plan: Plan, at: Floats, pairs: list[tuple[float, float]], interval: float) -> DeltaBounds:
    lower, upper = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    gap = float(np.max((upper - lower) / np.maximum(upper, 1e-300), initial=0.0))
    upper = np.where(upper > 0, np.minimum(1.0, (upper + plan.added) * (1 + 1e-15)), plan.added)
    return DeltaBounds(at, upper.reshape(at.shape), (lower + plan.added).reshape(at.shape), plan.added, interval, gap)


def _near_the_sum(plan: Plan, epsilon: float) -> tuple[float, float] | None:
    """(lower, upper) delta, without bad events, at most one range below the sum of all, or beyond it; else None. Theorem D7."""
    if epsilon >= plan.curve.core_epsilon:
        return 0.0, 0.0
    widths: Counter[float] = Counter()
    for block in plan.blocks:
        for step, times in Counter(block.orders[0]).items():
            widths[step.width if isinstance(step, RangeStep) else 0.0] += block.count * times
    left = float(sum(n * Fraction(exact(width)) for width, n in widths.items()) - Fraction(exact(epsilon)))
    if not 0 < left <= min(widths):  # a pair's step counts as no range
        return None
    parts = 1 + sum(widths.values())
    terms = [(parts, math.log(-math.expm1(-left / parts))), *((-n, math.log(-math.expm1(-w))) for w, n in widths.items())]
    total, doubt = sum(n * log for n, log in terms), 1e-15 * sum(abs(n) * (1 + abs(log)) for n, log in terms)
    return math.exp(total - doubt), max(math.exp(total + doubt), 5e-324)


def _array(epsilons: ArrayLike) -> Floats:
    try:
        return np.asarray(epsilons, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgument("epsilons must be an array of finite numbers >= 0, in nats") from None


def _without_grid(plan: Plan, delta: float) -> float:
    if plan.added > delta:
        return math.inf
    if not plan.blocks:
        return 0.0
    return plan.curve.core_epsilon if plan.curve.delta0 <= delta else math.inf


def _check_tiny(delta: float) -> None:
    if delta < _LEAST_DELTA:
        raise InvalidArgument(f"delta={delta!r} must be at least {_LEAST_DELTA:g} here; Curve.epsilon serves smaller ones")


def _reach(plan: Plan, delta: float) -> float:
    """An epsilon beyond which no more than a small share of `delta` is left."""
    renyi = rdp_to_epsilon(plan.curve.rdp, delta * _BEYOND, plan.curve.table_orders).value
    return min(plan.curve.core_epsilon, renyi) if math.isfinite(renyi) else plan.curve.core_epsilon


def _refined(
    plan: Plan,
    reach: float,
    delta: float,
    tolerance: float,
    interval: float | None,
    measure: Callable[[Solution], _Bounds],
    gap: Callable[[_Bounds], float],
) -> _Bounds:
    """The first solution on ever finer grids whose gap is within the tolerance."""
    negligible = max(delta * _TAIL / sum(block.count * len(block.orders[0]) for block in plan.blocks), 1e-300)
    last = math.inf
    for step in _intervals(plan, reach, interval):
        found = measure(solve(plan, step, reach, negligible))
        last = gap(found)
        if last <= tolerance:
            return found
    raise GridTooCoarse(
        f"tolerance={tolerance!r} is not met: the bounds are still {last:.3g} apart, relative to the upper one. "
        "Raise the tolerance, pass a smaller interval, or use Curve.epsilon, which needs no grid. A step that is known "
        "by a profile only (GaussianMax, Tighter) has no lower bound: tolerance=math.inf accepts the upper one alone."
    )


def _intervals(plan: Plan, reach: float, interval: float | None) -> Iterator[float]:
    if interval is not None:
        yield _checked(interval)
        return
    start, period = _units(plan)
    for cells in itertools.accumulate(itertools.repeat(2), operator.mul, initial=_START):
        trial = start / cells
        trial = period / math.ceil(period / trial) if period > 0 else trial
        if cells > _START and _work(plan, reach, trial) > _WORK:
            return
        yield trial
        if not _has_lower_bound(plan):
            return


def _units(plan: Plan) -> tuple[float, float]:
    """The size of the steps that weigh most, and a length that the grid should divide: a range, or else a place of atoms."""
    totals: dict[Step, float] = defaultdict(float)
    for block in plan.blocks:
        for step in block.orders[0]:
            totals[step] += block.count * _scale(step) ** 2
    ranges = [step for step in totals if isinstance(step, RangeStep)]
    main = max(totals, key=lambda step: totals[step])
    return 2 * _scale(main), _period(max(ranges, key=lambda step: totals[step]) if ranges else main)


def _has_lower_bound(plan: Plan) -> bool:
    """Whether every step's law is known; a hull of profiles bounds a step from above only, so no finer grid helps."""
    steps = (step for block in plan.blocks for order in block.orders for step in order)
    return all(isinstance(step, RangeStep) or isinstance(step.loss, Law) for step in steps)


def _checked(interval: float) -> float:
    if not 0 < interval < math.inf:
        raise InvalidArgument(f"interval={interval!r} must be a finite number > 0, in nats")
    return float(interval)


def _scale(step: Step) -> float:
    return step.width / 2 if isinstance(step, RangeStep) else step.loss.scale


def _period(step: Step) -> float:
    return step.width if isinstance(step, RangeStep) else step.loss.period


def _work(plan: Plan, reach: float, interval: float) -> float:
    """Multiplications, roughly: 40 for every point and piece of a bounded-range step, one for every pair of points else."""
    size = reach / interval

    def of(step: Step) -> float:
        return 80 * step.width / interval if isinstance(step, RangeStep) else 40 * step.loss.scale / interval

    return size * sum(block.count * (20 + of(step)) for block in plan.blocks for order in block.orders for step in order)
