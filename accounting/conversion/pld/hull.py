"""A pair from a valid profile: the largest convex function below it is the divergence of some pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from accounting.conversion.pld.loss import MOST_CELLS, Floats, Loss, Pmf, grid_of

_ULP = 2.0**-52
_NOTHING = 1e-250  # an infinite loss this likely is no reason for a wider grid
MOST_REACH = 650.0  # nats: beyond, e^y leaves the floats, and the divergence there counts as infinite loss


@final
@dataclass(frozen=True)
class Hull:
    """The smallest of several valid profiles, made convex in e^y (Theorem P4).

    Args:
        bounds: (factor, added, loss): each says that the divergence at y >= 0 is at most factor * loss.profile(y) + added.
    """

    bounds: tuple[tuple[float, float, Loss], ...]

    @property
    def scale(self) -> float:
        return min(loss.scale for _, _, loss in self.bounds)

    @property
    def period(self) -> float:
        return 0.0

    @property
    def reach(self) -> float:
        return min(MOST_REACH, min((loss for _, _, loss in self.bounds), key=lambda loss: loss.scale).reach)

    def pmf(self, interval: float, tail: float) -> Pmf:
        reach = min(self._cells(interval, tail), int(MOST_REACH / interval))
        mass, infinity = masses(self.profile(grid_of(0, reach, interval)), interval)
        return Pmf(-reach, mass, infinity)

    def _cells(self, interval: float, tail: float) -> int:
        """How many cells the grid needs: those of the narrowest bound, if nothing of weight is left beyond them."""
        cells, least = 0, min(added for _, added, _ in self.bounds)
        for factor, added, loss in sorted(self.bounds, key=lambda bound: bound[2].scale):
            # A wider bound may be wider than memory; any grid is valid.
            if cells and loss.reach > MOST_CELLS * interval:
                break
            pmf = loss.pmf(interval, tail / factor)
            cells = max(cells, pmf.low + len(pmf.mass))
            if factor * pmf.infinity <= max(4 * tail, _NOTHING) and added <= least:
                break
        return cells

    def profile(self, y: Floats) -> Floats:
        ahead = [factor * loss.profile(np.abs(y)) + added for factor, added, loss in self.bounds]
        least = np.minimum(1.0, np.min(ahead, axis=0))
        down = np.minimum(y, 0.0)
        return np.where(y >= 0, least, -np.expm1(down) + np.exp(down) * least)


def masses(values: Floats, interval: float) -> tuple[Floats, float]:
    """Masses on -n..n and at infinity of the pair whose profile is the hull of `values` at 0..n times interval."""
    reach = len(values) - 1
    grid = grid_of(-reach, reach, interval)
    # The excess over (1 - e^y)_+ keeps its digits; slopes are those of the excess, and -1 more on the left of y = 0.
    excess = np.concatenate([np.exp(grid[:reach]) * values[:0:-1], values])
    kept = _lower_hull(np.exp(grid - grid[-1]), excess - np.expm1(np.minimum(grid, 0.0)))
    rise = np.diff(excess[kept]) + np.where((kept[:-1] < reach) & (kept[1:] > reach), np.expm1(grid[kept[:-1]]), 0.0)
    first = kept[0]
    edge = (excess[first] - (first > reach)) * np.exp(-grid[first]) + (first > reach)
    slopes = np.concatenate([[edge], rise / np.diff(np.exp(grid[kept])), [0.0]])
    left = np.concatenate([[True], kept[1:] <= reach, [False]])
    atoms = np.exp(grid[kept]) * (np.diff(slopes) - np.diff(left.astype(np.float64)))
    mass = np.zeros(2 * reach + 1)
    mass[kept] = np.maximum(0.0, atoms) + 8 * _ULP * (excess[kept] + 1e-300) / np.expm1(interval)
    return mass, float(values[-1])


def _lower_hull(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Indices of the lower convex hull of the points and (0, 1), which comes first and is not listed."""
    kept: list[tuple[int, float, float]] = [(-1, 0.0, 1.0)]
    for i, (right, height) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        while len(kept) >= 2:
            (_, a, fa), (_, b, fb) = kept[-2:]
            if (fb - fa) * (right - b) <= (height - fb) * (b - a):
                break
            kept.pop()
        kept.append((i, right, height))
    return np.array([i for i, _, _ in kept[1:]], dtype=np.intp)
