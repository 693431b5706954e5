"""Dominating pairs made from valid profiles, such as conversions of Renyi bounds.

The largest convex function below the profiles is the divergence of some pair.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from accounting.convert.pld.loss import MOST_CELLS, TINY, Loss, Pmf, grid_of
from accounting.numbers import FEW_UP, Flags, Floats

_ULP = 2.0**-52
_NOTHING = 1e-250  # an infinite loss this likely does not call for a wider grid
_ORDERS = 1 + np.geomspace(1.0101e-2, 1e6, 160)
_BLOCK = 4096
# of a hull: each drops a half to all of what is left to drop, while there is much of it
_PASSES = 8
_POINTS = 1000  # of the hull of a Renyi bound, from loss 0 on
# nats: beyond, e^y leaves the floats, and the divergence there counts as infinite loss
MOST_REACH = 650.0


class Profiled(Loss, ABC):
    """A loss known by its divergences, not by its distribution."""

    @abstractmethod
    def hockey_stick(self, y: Floats) -> Floats:
        """Hockey-stick divergence at y >= 0, rounded up."""

    @final
    def profile(self, y: Floats) -> Floats:
        # The pair is symmetric.
        down = np.minimum(y, 0.0)
        divergence = self.hockey_stick(np.abs(y))
        return np.where(y >= 0, divergence, -np.expm1(down) + np.exp(down) * divergence)

    @final
    def convex_hull(self, reach: int, interval: float) -> Pmf:
        """Return the pair whose profile is the convex hull of this one on a grid.

        The grid points are 0..reach times `interval`; masses lie at -reach..reach and beyond.
        """
        values = self.hockey_stick(grid_of(0, reach, interval))
        grid = grid_of(-reach, reach, interval)
        # The excess over (1 - e^y)_+ keeps its digits; slopes are those of the excess, and -1 more
        # on the left of y = 0.
        excess = np.concatenate([np.exp(grid[:reach]) * values[:0:-1], values])
        corners = _lower_hull(np.exp(grid - grid[-1]), excess - np.expm1(np.minimum(grid, 0.0)))
        rise = np.diff(excess[corners]) + np.where(
            (corners[:-1] < reach) & (corners[1:] > reach), np.expm1(grid[corners[:-1]]), 0.0
        )
        first = corners[0]
        edge = (excess[first] - (first > reach)) * np.exp(-grid[first]) + (first > reach)
        slopes = np.concatenate([[edge], rise / np.diff(np.exp(grid[corners])), [0.0]])
        left = np.concatenate([[True], corners[1:] <= reach, [False]])
        atoms = np.exp(grid[corners]) * (np.diff(slopes) - np.diff(left.astype(np.float64)))
        mass = np.zeros(2 * reach + 1)
        mass[corners] = np.maximum(0.0, atoms) + 8 * _ULP * (excess[corners] + 1e-300) / np.expm1(
            interval
        )
        return Pmf(-reach, mass, float(values[-1]))


@final
@dataclass(frozen=True)
class Hull(Profiled):
    """The smallest of several valid profiles, made convex in e^y (Theorem P4).

    Args:
        bounds: triples (factor, added, loss). The divergence at y >= 0 is at most factor *
            loss.profile(y) + added for each of them.
    """

    bounds: tuple[tuple[float, float, Loss], ...]

    @property
    def scale(self) -> float:
        return min(loss.scale for _, _, loss in self.bounds)

    def reach_at(self, tail: float) -> float:
        return min(
            MOST_REACH, min((loss for _, _, loss in self.bounds), key=lambda loss: loss.scale).reach
        )

    def pmf(self, interval: float, tail: float) -> Pmf:
        reach = min(self._cells(interval, tail), int(MOST_REACH / interval))
        return self.convex_hull(reach, interval)

    def _cells(self, interval: float, tail: float) -> int:
        """Return the number of grid cells needed by the narrowest bound.

        If mass that matters lies beyond them, more are needed.
        """
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

    def hockey_stick(self, y: Floats) -> Floats:
        profiles = [factor * loss.profile(y) + added for factor, added, loss in self.bounds]
        return np.minimum(1.0, np.min(profiles, axis=0))


@final
@dataclass(frozen=True)
class Largest(Profiled):
    """The largest of several profiles, where one of them, unknown which, is valid (Theorems P4 and
    W10).

    Args:
        bounds: (added, loss): each has the divergence loss.profile(y) + added at y >= 0.
    """

    bounds: tuple[tuple[float, Loss], ...]

    @property
    def scale(self) -> float:
        return max(loss.scale for _, loss in self.bounds)

    def reach_at(self, tail: float) -> float:
        return min(MOST_REACH, max(loss.reach_at(tail) for _, loss in self.bounds))

    def pmf(self, interval: float, tail: float) -> Pmf:
        return self.convex_hull(max(1, math.ceil(self.reach_at(tail) / interval)), interval)

    def hockey_stick(self, y: Floats) -> Floats:
        profiles = [loss.profile(y) + added for added, loss in self.bounds]
        return np.minimum(1.0, np.max(profiles, axis=0))


@final
@dataclass(frozen=True)
class RenyiLoss(Profiled):
    """The pair whose profile is the convex hull of all conversions of a table of Renyi bounds.

    `values` are Renyi bounds (nats) at `orders` (Theorems P4 and P8).
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]

    @staticmethod
    def from_rdp(
        rdp: Callable[[Floats], Floats], table_orders: tuple[float, ...]
    ) -> RenyiLoss | None:
        """Return the pair of a bound known at any order; None if it is finite nowhere.

        It is read at `table_orders`, if there are any.
        """
        orders = np.unique(np.append(_ORDERS, table_orders))
        values = rdp(orders)
        finite = np.isfinite(values)
        if not finite.any() or not values[finite].any():
            return None
        return RenyiLoss(tuple(orders[finite].tolist()), tuple(values[finite].tolist()))

    @property
    def scale(self) -> float:
        return math.sqrt(2 * max(self.values[0] / self.orders[0], 1e-300))

    def reach_at(self, tail: float) -> float:
        return min(MOST_REACH, self._beyond(TINY))

    def pmf(self, interval: float, tail: float) -> Pmf:
        # A hull over every n-th grid point is a bound too, a little above; for one step it is worth
        # no more.
        far = min(MOST_REACH, self._beyond(tail))
        stride = max(1, math.floor(far / interval / _POINTS))
        reach = math.ceil(far / interval / stride)
        hull = self.convex_hull(reach, interval * stride)
        mass = np.zeros((len(hull.mass) - 1) * stride + 1)
        mass[::stride] = hull.mass
        return Pmf(-reach * stride, mass, hull.infinity)

    def _beyond(self, tail: float) -> float:
        """Return an epsilon at which the profile is at most `tail`, or `TINY` if that is more."""
        orders, values = np.array(self.orders), np.array(self.values)
        logs = math.log(max(tail, TINY)) + np.log(orders)
        return float(np.min(values + np.log1p(-1 / orders) - logs / (orders - 1)).clip(0.0))

    def hockey_stick(self, y: Floats) -> Floats:
        # Proposition 12 of Canonne, Kamath and Steinke at the best order, and the total variation;
        # rounded up.
        orders, values, least = np.array(self.orders), np.array(self.values), np.empty_like(y)
        for start in range(0, len(y), _BLOCK):
            at = y[start : start + _BLOCK, None]
            logs = (
                (orders - 1) * (values - at + np.log1p(-1 / orders))
                - np.log(orders)
                + 1e-13 * (1 + orders * (1 + at))
            )
            least[start : start + _BLOCK] = logs.min(axis=1)
        variation = math.sqrt(-math.expm1(-self.values[0])) * FEW_UP
        # One up: what underflows to 0 is not a bound.
        return np.nextafter(np.minimum(np.exp(np.minimum(0.0, least)), min(1.0, variation)), 1.0)


def _lower_hull(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Return the indices of the lower convex hull of the points and (0, 1), without (0, 1).

    A point above the chord of its neighbors is no corner, whether they are corners or not. While
    there are many such points, all are removed at once, and then one by one, after which the
    neighbors of each are checked again.
    """
    places, a, b = np.arange(len(x) + 1), np.append(0.0, x), np.append(1.0, y)
    for _ in range(_PASSES):
        stays = ~_above(a, b)
        places, a, b = places[stays], a[stays], b[stays]
    right, height, before, after = (
        a.tolist(),
        b.tolist(),
        list(range(-1, len(a) - 1)),
        list(range(1, len(a) + 1)),
    )
    queue, stays = np.flatnonzero(_above(a, b)).tolist(), np.ones(len(a), dtype=np.bool_)
    while queue:
        i = queue.pop()
        low, high = before[i], after[i]
        if not stays[i] or low < 0 or high == len(right):
            continue
        if (height[i] - height[low]) * (right[high] - right[i]) > (height[high] - height[i]) * (
            right[i] - right[low]
        ):
            stays[i] = False
            after[low], before[high] = high, low
            queue += [low, high]
    return places[stays][1:] - 1


def _above(x: Floats, y: Floats) -> Flags:
    """Mask of the points above the chord of their neighbors, never the first or the last."""
    inside = np.diff(y[:-1]) * np.diff(x[1:]) > np.diff(y[1:]) * np.diff(x[:-1])
    return np.concatenate([[False], inside, [False]])
