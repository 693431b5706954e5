"""Optimal adaptive composition, as an upper and a lower bound: how much can an adversary learn who chooses every next pair?

A dynamic programme over a plan in its true order, from the last step to the first, both bounds side by side. Steps are of bounded
range, and an adversary chooses their pair, or have one dominating pair.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import mul

import numpy as np

from accounting.arguments import checked_integer
from accounting.convert.pld.loss import Banded, Floats, Law, Loss
from accounting.convert.recursion import WIDEST, Operator, RangeOperator, Solution, pair_operator
from accounting.convert.renyi import check_delta, rdp_to_epsilon
from accounting.curves import Approximate, BoundedRange, Composed, Curve, Tighter
from accounting.decimal_sum import decimal_sum
from accounting.errors import AccountingError, InvalidArgument

# Below, the far tails of a Gaussian step (6e-300) are not negligible.
_LEAST_DELTA = 1e-280
_START = 16  # cells in the widest step of the first grid
_WORK = 1.5e11  # multiplications: one or two minutes of one core
_TAIL = 1e-9  # share of delta that cut-off tails may add in all
_BEYOND = 1e-4  # share of delta that is left beyond the grid
# A curve that composes different parts does not say in which order they ran: up to this many orders, all are tried.
_MOST_ORDERS = 6


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
    place, as the order matters. Of a step that is itself a composition in an unknown order, the worst order counts.
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
    if not plan.blocks or kept <= 0:
        fails = plan.added > target or (plan.blocks and plan.curve.delta0 > target)
        value = math.inf if fails else plan.curve.core_epsilon if plan.blocks else 0.0
        return AdaptiveBound(value, value, target, plan.added, 0.0, 0.0)
    if kept < _LEAST_DELTA:
        raise InvalidArgument(f"delta={kept!r} must be at least {_LEAST_DELTA:g} here; Curve.epsilon serves smaller ones")
    reach, gap = _reach(plan, kept), math.inf
    negligible = max(kept * _TAIL / sum(block.count * len(block.orders[0]) for block in plan.blocks), 1e-300)
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
        if not all(isinstance(step, Law) for block in plan.blocks for order in block.orders for step in order):
            return  # a hull of profiles bounds a step from above only, so no finer grid helps


def _units(plan: _Plan) -> tuple[float, float]:
    """The size of the steps that weigh most, and a length that the grid should divide: a range, or else a place of atoms."""
    totals: dict[Loss, float] = defaultdict(float)
    for block in plan.blocks:
        for step in block.orders[0]:
            totals[step] += block.count * _scale(step) ** 2
    ranges, main = list(filter(_is_range, totals)), max(totals, key=lambda step: totals[step])
    return 2 * _scale(main), max(ranges, key=lambda step: totals[step], default=main).period


def _scale(step: Loss) -> float:
    return step.period / 2 if _is_range(step) else step.scale


def _is_range(step: Loss) -> bool:
    """Whether a step is any bounded-range pair of its width, chosen after all earlier outcomes, and not one dominating pair."""
    return isinstance(step, Banded) and step.is_range


def _work(plan: _Plan, reach: float, interval: float) -> float:
    """Multiplications, roughly: 40 for every point and piece of a bounded-range step, one for every pair of points else."""
    steps = ((block.count, step) for block in plan.blocks for order in block.orders for step in order)
    each = (n * (20 + (80 * step.period if _is_range(step) else 40 * step.scale) / interval) for n, step in steps)
    return reach / interval * sum(each)


_Order = tuple[Loss, ...]
_Described = Curve | tuple[Curve, int]


@dataclass(frozen=True)
class _Block:
    """`count` repetitions of steps that run in one of `orders`; which one is not known."""

    count: int
    orders: tuple[_Order, ...]


@dataclass(frozen=True)
class _Plan:
    """Blocks in their true order, the curve that they compose to, and the probability of the bad events left out."""

    blocks: tuple[_Block, ...]
    curve: Curve
    added: float


def _read_plan(steps: Sequence[_Described]) -> _Plan:
    """The plan that `steps` describe, first step first."""
    if isinstance(steps, Curve) or not isinstance(steps, Iterable):
        raise InvalidArgument(
            f"steps must be a list of curves or (Curve, count) pairs, not {type(steps).__name__}: put it in a list"
        )
    counted = []
    for item in steps:
        curve, count = item if isinstance(item, tuple) and len(item) == 2 else (item, 1)
        if not isinstance(curve, Curve):
            raise InvalidArgument(f"a step must be a Curve or a pair (Curve, count), not {type(item).__name__}")
        if checked_integer("count", count, "how many times a step is repeated", least=0) > 0:
            counted.append((int(count), curve))
    added = decimal_sum((n, _added(curve)) for n, curve in counted)
    blocks = [_Block(n, _orders(curve)) for n, curve in counted]
    return _Plan(tuple(block for block in blocks if any(block.orders)), Composed.of(counted), added)


def _added(curve: Curve) -> float:
    """Probability of the bad events that `curve` adds to whatever its steps lose."""
    if isinstance(curve, Approximate):
        return decimal_sum([(1, curve.added), (1, _added(curve.curve))])
    if isinstance(curve, Composed):
        return decimal_sum((n, _added(part)) for n, part in curve.parts)
    if isinstance(curve, Tighter) and (chosen := _range_member(curve)) is not None:
        return _added(chosen)
    losses = curve.losses()
    return 0.0 if losses is None else losses.added


def _orders(curve: Curve) -> tuple[_Order, ...]:
    """All orders in which the steps of `curve` may have run."""
    counts: Counter[Loss] = Counter()
    for n, step in _atoms(curve, 1):
        counts[step] += n
    if len(counts) == 1 or not any(map(_is_range, counts)):
        # Equal steps are in order whatever it is, and fixed pairs commute.
        return (tuple(counts.elements()),)
    found = tuple(order for order, _ in zip(_arrangements(counts), range(_MOST_ORDERS + 1), strict=False))
    if len(found) > _MOST_ORDERS:
        raise InvalidArgument(
            f"a composition of {counts.total()} steps does not say in which order they ran, and that matters for bounded-range "
            f"steps: pass its parts one by one, first step first (up to {_MOST_ORDERS} orders are tried)"
        )
    return found


def _arrangements(counts: Counter[Loss]) -> Iterator[_Order]:
    if not counts:
        yield ()
    for step in list(counts):
        rest = counts - Counter({step: 1})
        yield from ((step, *order) for order in _arrangements(rest))


def _atoms(curve: Curve, count: int) -> Iterator[tuple[int, Loss]]:
    if isinstance(curve, Approximate):
        yield from _atoms(curve.curve, count)
    elif isinstance(curve, Composed):
        for n, part in curve.parts:
            yield from _atoms(part, count * n)
    elif isinstance(curve, Tighter) and (chosen := _range_member(curve)) is not None:
        yield from _atoms(chosen, count)
    elif (losses := curve.losses()) is None:
        raise InvalidArgument(
            f"{curve!r} has no dominating pair: the dynamic programme takes bounded-range curves and curves with a privacy loss "
            "distribution; Curve.epsilon converts any curve"
        )
    else:
        for n, loss in losses.steps:
            if _is_range(loss) and loss.period > WIDEST:
                raise InvalidArgument(
                    f"a step has bounded range {loss.period:g}, and the recursion takes at most {WIDEST:g} nats: compose it as a "
                    "curve"
                )
            yield count * n, loss


def _range_member(curve: Tighter) -> Curve | None:
    return next((member for member in curve.curves if isinstance(member, BoundedRange)), None)


def _solve(plan: _Plan, interval: float, reach: float, negligible: float) -> Solution:
    """Bounds for g in [0, reach] on a grid of `interval` nats; tails below `negligible` are cut off on the safe side."""
    size = math.ceil(reach / interval) + 1
    upper, lower, floor = np.zeros(size), np.zeros(size), 0.0

    @cache
    def operator(step: Loss) -> Operator:
        return RangeOperator(step.period, interval) if _is_range(step) else pair_operator(step, interval, negligible)

    for block in reversed(plan.blocks):
        orders = [[operator(step) for step in reversed(order)] for order in block.orders]
        for _ in range(block.count):
            upper = np.max([reduce(lambda values, step: step.upper(values), order, upper) for order in orders], axis=0)
            found = [_lowered(order, lower, floor) for order in orders]
            lower, floor = np.max([values for values, _ in found], axis=0), found[0][1]
    return Solution(interval, upper, lower)


def _lowered(order: list[Operator], values: Floats, floor: float) -> tuple[Floats, float]:
    for operator in order:
        values, floor = operator.lower(values, floor), operator.lower_floor(floor)
    return values, floor
