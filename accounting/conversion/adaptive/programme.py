"""The dynamic programme: from the last step to the first, on one grid, an upper and a lower bound side by side."""

from __future__ import annotations

import math

import numpy as np

from accounting.conversion.adaptive.operators import Operator, PairOperator, RangeOperator, trimmed
from accounting.conversion.adaptive.solution import Solution
from accounting.conversion.adaptive.steps import Plan, RangeStep, Step
from accounting.conversion.pld.loss import Floats, Law, Loss

# A privacy loss on the grid of the dynamic programme, rounded up and rounded down (Theorems P2 and D4).

# How far cells are moved to the right of their ideal place, in intervals, so that their losses lie just above the grid.
_SLACKS = (1e-6, 1e-4, 1e-3, 1e-2)


def pair_operator(loss: Loss, interval: float, negligible: float) -> PairOperator:
    """The step's operator; tails of a mass below `negligible` are cut off, on the safe side of each bound."""
    pmf = loss.pmf(interval, negligible)
    low_up, up, cut = trimmed(pmf.low, pmf.mass, negligible)
    low_down, down = _rounded_down(loss, interval, negligible) if isinstance(loss, Law) else (0, np.zeros(0))
    # What a rounded-down law has at infinity is a mass that its cells leave out.
    lost = pmf.infinity if isinstance(loss, Law) and pmf.infinity > negligible else 0.0
    return PairOperator(interval, low_up, up, pmf.infinity + cut, low_down, down, lost * (1 - 1e-9))


def _rounded_down(law: Law, interval: float, negligible: float) -> tuple[int, Floats]:
    """Merging outcomes is post-processing: each cell becomes one atom at its own loss, which is rounded down to the grid."""
    cells = math.ceil(law.reach / interval) + 1
    place = np.arange(-cells, cells + 1.0)
    drift = _losses(law, _edges(place, np.zeros(len(place)), interval))[1] / interval - place
    drift = np.where(np.abs(drift) < 0.5, drift, 0.0)
    found = [_merged(law, _edges(place, drift - slack, interval), interval) for slack in _SLACKS]
    low, mass = max(found, key=lambda pair: float((pair[0] + np.arange(len(pair[1]))) @ pair[1]))
    heavy = np.flatnonzero(mass > negligible / len(mass))
    return low + int(heavy[0]), mass[heavy[0] : heavy[-1] + 1]


def _edges(place: Floats, drift: Floats, interval: float) -> Floats:
    """Edges half way between places, moved left by the drift; never on an atom, so that both directions see the same cells."""
    ends = np.concatenate([drift[:1], (drift[:-1] + drift[1:]) / 2, drift[-1:]])
    return (np.append(place, place[-1] + 1) - 0.5 - ends) * interval * (1 + 1e-13)


def _losses(law: Law, edges: Floats) -> tuple[Floats, Floats]:
    """Mass of every cell, and ln P/Q of it; nan where there is no mass to speak of."""
    mass, other = law.cell(edges[:-1], edges[1:]), law.cell(-edges[1:], -edges[:-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(mass) - np.log(other)
    return mass, np.where((mass > 1e-280) & (other > 1e-280), ratio, np.nan)


def _merged(law: Law, edges: Floats, interval: float) -> tuple[int, Floats]:
    mass, ratio = _losses(law, edges)
    known = np.isfinite(ratio)
    # An atom that lies on the grid stays there: losses are read to 1e-13 nats, which the factor below makes up for.
    place = np.floor((ratio[known] + min(1e-13, 1e-6 * interval)) / interval).astype(np.int64)
    low = int(place.min())
    merged = np.bincount(place - low, weights=mass[known] * (1 - 1e-10))
    return low, merged.astype(np.float64)


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
        known[step] = (
            RangeOperator(step.width, interval) if isinstance(step, RangeStep) else pair_operator(step.loss, interval, negligible)
        )
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
