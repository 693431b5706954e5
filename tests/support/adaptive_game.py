"""The game of docs/theorems/adaptive.md as it is played: what adversaries reach whose pairs have
losses on a grid.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

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
