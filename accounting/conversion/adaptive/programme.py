"""The dynamic programme over a plan in its true order, from the last step to the first, both bounds side by side.

Steps are of bounded range, and an adversary chooses their pair, or have one dominating pair.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accounting.arguments import checked_integer
from accounting.conversion.adaptive.operators import WIDEST, Operator, RangeOperator, pair_operator
from accounting.conversion.adaptive.solution import Solution
from accounting.conversion.pld.loss import Floats, Loss
from accounting.curves import Approximate, BoundedRange, Composed, Curve, Tighter
from accounting.decimal_sum import decimal_sum
from accounting.errors import InvalidArgument

# A curve that composes different parts does not say in which order they ran: so many orders are all tried.
_MOST_ORDERS = 6


@dataclass(frozen=True)
class RangeStep:
    """Any bounded-range pair of this width (nats), chosen after seeing all earlier outcomes."""

    width: float


@dataclass(frozen=True)
class PairStep:
    """A step dominated by one pair, through its privacy loss."""

    loss: Loss


Step = RangeStep | PairStep
Order = tuple[Step, ...]
Described = Curve | tuple[Curve, int]


@dataclass(frozen=True)
class Block:
    """`count` repetitions of steps that run in one of `orders`; which one is not known."""

    count: int
    orders: tuple[Order, ...]


@dataclass(frozen=True)
class Plan:
    """Blocks in their true order, the curve that they compose to, and the probability of the bad events left out."""

    blocks: tuple[Block, ...]
    curve: Curve
    added: float


def read_plan(steps: Sequence[Described]) -> Plan:
    """The plan that `steps` describe, first step first."""
    if isinstance(steps, Curve) or not isinstance(steps, Iterable):
        raise InvalidArgument(
            f"steps must be a list of curves or (Curve, count) pairs, not {type(steps).__name__}: put it in a list"
        )
    counted = [(n, curve) for curve, n in (_counted(item) for item in steps) if n > 0]
    added = decimal_sum((n, _added(curve)) for n, curve in counted)
    blocks = [Block(n, _orders(curve)) for n, curve in counted]
    return Plan(tuple(block for block in blocks if any(block.orders)), Composed.of(counted), added)


def _counted(item: Described) -> tuple[Curve, int]:
    curve, count = item if isinstance(item, tuple) and len(item) == 2 else (item, 1)
    if not isinstance(curve, Curve):
        raise InvalidArgument(f"a step must be a Curve or a pair (Curve, count), not {type(item).__name__}")
    return curve, checked_integer("count", count, "how many times a step is repeated", least=0)


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


def _orders(curve: Curve) -> tuple[Order, ...]:
    """All orders in which the steps of `curve` may have run."""
    counts: Counter[Step] = Counter()
    for n, step in _atoms(curve, 1):
        counts[step] += n
    if len(counts) == 1 or not any(isinstance(step, RangeStep) for step in counts):
        # Equal steps are in order whatever it is, and fixed pairs commute.
        return (tuple(counts.elements()),)
    found = tuple(order for order, _ in zip(_arrangements(counts), range(_MOST_ORDERS + 1), strict=False))
    if len(found) > _MOST_ORDERS:
        raise InvalidArgument(
            f"a composition of {counts.total()} steps does not say in which order they ran, and that matters for bounded-range "
            f"steps: pass its parts one by one, first step first (up to {_MOST_ORDERS} orders are tried)"
        )
    return found


def _arrangements(counts: Counter[Step]) -> Iterator[Order]:
    if not counts:
        yield ()
    for step in list(counts):
        rest = counts - Counter({step: 1})
        yield from ((step, *order) for order in _arrangements(rest))


def _atoms(curve: Curve, count: int) -> Iterator[tuple[int, Step]]:
    if isinstance(curve, Approximate):
        yield from _atoms(curve.curve, count)
    elif isinstance(curve, Composed):
        for n, part in curve.parts:
            yield from _atoms(part, count * n)
    elif isinstance(curve, BoundedRange):
        yield from [(count, _range_step(curve.epsilon0))] if curve.epsilon0 > 0 else []
    elif isinstance(curve, Tighter) and (chosen := _range_member(curve)) is not None:
        yield from _atoms(chosen, count)
    else:
        yield from _pairs(curve, count)


def _range_step(width: float) -> RangeStep:
    if width > WIDEST:
        raise InvalidArgument(
            f"a step has bounded range {width:g}, and the recursion takes at most {WIDEST:g} nats: compose it as a curve"
        )
    return RangeStep(width)


def _range_member(curve: Tighter) -> Curve | None:
    return next((member for member in curve.curves if isinstance(member, BoundedRange)), None)


def _pairs(curve: Curve, count: int) -> Iterator[tuple[int, Step]]:
    losses = curve.losses()
    if losses is None:
        raise InvalidArgument(
            f"{curve!r} has no dominating pair: the dynamic programme takes bounded-range curves and curves with a privacy loss "
            "distribution; Curve.epsilon converts any curve"
        )
    for n, loss in losses.steps:
        yield count * n, PairStep(loss)


def solve(plan: Plan, interval: float, reach: float, negligible: float) -> Solution:
    """Bounds for g in [0, reach] on a grid of `interval` nats; tails below `negligible` are cut off on the safe side."""
    size = math.ceil(reach / interval) + 1
    upper, lower, floor = np.zeros(size), np.zeros(size), 0.0
    known: dict[Step, Operator] = {}
    for block in reversed(plan.blocks):
        orders = [[_operator(step, interval, negligible, known) for step in reversed(order)] for order in block.orders]
        for _ in range(block.count):
            upper = np.max([_apply_upper(order, upper) for order in orders], axis=0)
            lower = np.max([_apply_lower(order, lower, floor) for order in orders], axis=0)
            floor = _next_floor(orders[0], floor)
    return Solution(interval, upper, lower)


def _operator(step: Step, interval: float, negligible: float, known: dict[Step, Operator]) -> Operator:
    if step not in known:
        if isinstance(step, RangeStep):
            known[step] = RangeOperator(step.width, interval)
        else:
            known[step] = pair_operator(step.loss, interval, negligible)
    return known[step]


def _apply_upper(order: list[Operator], values: Floats) -> Floats:
    for operator in order:
        values = operator.upper(values)
    return values


def _apply_lower(order: list[Operator], values: Floats, floor: float) -> Floats:
    for operator in order:
        values, floor = operator.lower(values, floor), operator.lower_floor(floor)
    return values


def _next_floor(order: list[Operator], floor: float) -> float:
    for operator in order:
        floor = operator.lower_floor(floor)
    return floor
