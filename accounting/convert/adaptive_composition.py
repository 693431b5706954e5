"""Optimal adaptive composition of a plan in its true order.

It bounds an adversary who chooses every next pair after seeing the earlier outcomes.

A dynamic program from the last step to the first, on a grid and rounded up (Theorems D1 and D2). A
step either has bounded range, and the adversary chooses its pair, or it has one dominating pair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from accounting.arguments import check_integer
from accounting.convert.pld.loss import Loss, Losses
from accounting.convert.recursion import WIDEST, is_range, solve
from accounting.convert.renyi import check_delta, rdp_to_epsilon
from accounting.curves import Composed, Curve
from accounting.errors import InvalidArgument
from accounting.numbers import decimal_sum

# Below, the far tails of a Gaussian step (6e-300) are not negligible.
_LEAST_DELTA = 1e-280
_TAIL = 1e-9  # share of delta that cut-off tails may add in all
_BEYOND = 1e-4  # share of delta that is left beyond the grid


def adaptive_composition(
    steps: Sequence[Curve | tuple[Curve, int]], delta: float, *, cells: int = 32
) -> float:
    """Return the epsilon (nats) of steps that run one after the other. Theorem D1.

    Each input, and each bounded-range pair, may be chosen after all earlier outcomes. Bounded-range
    steps are treated as exactly that. Any other step enters through its dominating pair, in its own
    place, because the processing order matters. The plan (which curves, how many, in which order)
    is fixed in advance, so this is not a rule for stopping early.

    Args:
        steps: curves or (curve, count) pairs, the first one first.
        delta: in [0, 1).
        cells: number of grid cells in the range of the steps that weigh most. They add about 1/(3
            cells^2) of epsilon, and more in plans of few steps.

    Raises:
        InvalidArgument: delta is out of range or below 1e-280, cells is not an integer >= 1, or a
            step has no dominating pair or no known order.
    """
    if isinstance(steps, Curve) or not isinstance(steps, Iterable):
        raise InvalidArgument(
            "steps must be a list of curves or (Curve, count) pairs, not"
            f" {type(steps).__name__}. Put it in a list"
        )
    check_integer("cells", cells, "of the grid in one range")
    target, steps_of, plan, bad = check_delta(delta), [], [], []
    for item in steps:
        curve, count = item if isinstance(item, tuple) and len(item) == 2 else (item, 1)
        if not isinstance(curve, Curve):
            raise InvalidArgument(
                f"a step must be a Curve or a pair (Curve, count), not {type(item).__name__}"
            )
        if check_integer("count", count, "how many times a step is repeated", least=0) > 0:
            losses = _losses(curve)
            steps_of.append((int(count), curve))
            bad.append((int(count), losses.added))
            plan += [(count * n, loss) for n, loss in losses.steps]
    whole, added = Composed.from_parts(steps_of), decimal_sum(bad)
    core_delta = math.nextafter(target - added, 0.0) if added else target
    if not plan or core_delta <= 0:
        return math.inf if max(added, whole.delta0) > target else whole.core_epsilon
    if core_delta < _LEAST_DELTA:
        raise InvalidArgument(
            f"delta={core_delta!r} must be at least {_LEAST_DELTA:g} here. For smaller ones, use"
            " Curve.epsilon"
        )
    # An epsilon beyond which no more than a small share of delta is left.
    renyi = rdp_to_epsilon(whole.rdp, core_delta * _BEYOND, whole.table_orders).value
    reach = min(whole.core_epsilon, renyi) if math.isfinite(renyi) else whole.core_epsilon
    negligible = max(core_delta * _TAIL / sum(count for count, _ in plan), 1e-300)
    interval = _interval(plan, cells)
    epsilon = solve(
        tuple(plan), interval, negligible, math.ceil(reach / interval) + 1
    ).epsilon_upper(core_delta)
    return min(epsilon, whole.core_epsilon) if whole.delta0 <= target else epsilon


def _interval(plan: Sequence[tuple[int, Loss]], cells: int) -> float:
    """Grid interval for the heaviest steps; it divides a range, or else a place of atoms."""
    totals: dict[Loss, float] = defaultdict(float)
    for count, step in plan:
        totals[step] += count * _scale(step) ** 2
    ranges, main = list(filter(is_range, totals)), max(totals, key=lambda step: totals[step])
    trial, period = (
        2 * _scale(main) / cells,
        max(ranges, key=lambda step: totals[step], default=main).period,
    )
    return period / math.ceil(period / trial) if period > 0 else trial


def _scale(step: Loss) -> float:
    return step.period / 2 if is_range(step) else step.scale


@lru_cache(maxsize=64)
def _losses(curve: Curve) -> Losses:
    """Return the losses of a step, which commute if there are several."""
    losses = curve.losses()
    if losses is None:
        raise InvalidArgument(
            f"{curve!r} has no dominating pair, which every curve here needs unless it has"
            " bounded range. Use Curve.epsilon, which converts any curve"
        )
    ranges = [loss for _, loss in losses.steps if is_range(loss)]
    if ranges and len(losses.steps) > 1:
        raise InvalidArgument(
            "a composition does not say in which order its steps ran, which matters for"
            " bounded-range steps. Pass its parts one by one, first step first"
        )
    if any(loss.period > WIDEST for loss in ranges):
        raise InvalidArgument(
            f"a step's bounded range {ranges[0].period:g} must be at most {WIDEST:g} nats."
            " Compose it as a curve"
        )
    return losses
