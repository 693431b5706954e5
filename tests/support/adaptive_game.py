"""The game of docs/theorems/adaptive.md as it is played: what adversaries reach whose pairs have
losses on a grid, and the library's bound of steps in a given order.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

import accounting as acc
from accounting.convert.pld.loss import Loss
from accounting.convert.recursion import is_range, solve
from accounting.convert.renyi import rdp_to_epsilon

Floats = NDArray[np.float64]


def reached(steps: list[tuple[str, int]], h: float, size: int) -> Floats:
    """(size,) divergences at 0, h, 2h, ...: the best of adversaries whose pairs have losses on this
    grid; nothing is rounded.

    Steps are ("range", cells) or ("pure", cells), the first one first: widths of so many h, at most
    size - 1.
    """
    values, g = np.zeros(size), np.arange(size) * h
    for kind, cells in reversed(steps):
        ahead = np.append(values, np.zeros(cells))
        behind = -np.expm1(-g[cells:0:-1]) + np.exp(-g[cells:0:-1]) * ahead[cells:0:-1]
        # row i: g + (i - cells) h
        moved = np.lib.stride_tricks.sliding_window_view(np.append(behind, ahead), size)
        if kind == "pure":
            p = 1 / (1 + math.exp(-cells * h))
            values = p * moved[0] + (1 - p) * moved[2 * cells]
        else:
            ways = ((math.expm1((t - cells) * h) / math.expm1(-cells * h), t) for t in range(cells))
            values = np.max(
                [values, *(p * moved[cells - t] + (1 - p) * moved[2 * cells - t] for p, t in ways)],
                axis=0,
            )
    return values


def program(steps: list[tuple[acc.Curve, int]], delta: float, cells: int = 32) -> float:
    """Epsilon of steps that run in this order, by the library's recursion on a grid with so many
    cells in the range, or twice the scale, of the steps that weigh most.
    """
    parts = [(count, losses) for curve, count in steps if (losses := curve.losses()) is not None]
    plan = tuple((count * n, loss) for count, losses in parts for n, loss in losses.steps)
    core = delta - sum(count * losses.added for count, losses in parts)
    whole = acc.curves.Composed.from_parts([(count, curve) for curve, count in steps])
    weights: Counter[Loss] = Counter()
    for count, loss in plan:
        scale = loss.period / 2 if is_range(loss) else loss.scale
        weights[loss] += count * scale**2  # type: ignore[assignment]
    main = max(weights, key=lambda loss: weights[loss])
    width = main.period if is_range(main) else 2 * main.scale
    period = max(filter(is_range, weights), key=lambda loss: weights[loss], default=main).period
    interval = period / math.ceil(period * cells / width) if period else width / cells
    reach = min(
        whole.core_epsilon, rdp_to_epsilon(whole.rdp, core * 1e-4, whole.table_orders).value
    )
    negligible = max(core * 1e-9 / sum(count for count, _ in plan), 1e-300)
    size = math.ceil(reach / interval) + 1
    return min(solve(plan, interval, negligible, size).epsilon_upper(core), whole.core_epsilon)
