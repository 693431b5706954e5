"""A dominating pair for guarantees that are known by their Renyi divergences only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from accounting.conversion.pld.hull import MOST_REACH, masses
from accounting.conversion.pld.loss import TINY, Floats, Pmf, grid_of

_ORDERS = 1 + np.geomspace(1.0101e-2, 1e6, 160)
_BLOCK = 4096
_POINTS = 1000  # of the hull, from loss 0 on


@final
@dataclass(frozen=True)
class RenyiLoss:
    """The pair whose profile is the hull of all conversions of `values`, Renyi bounds (nats) at `orders` (Theorems P4 and P8)."""

    orders: tuple[float, ...]
    values: tuple[float, ...]

    @staticmethod
    def of(rdp: Callable[[Floats], Floats], table_orders: tuple[float, ...]) -> RenyiLoss | None:
        """The pair of a bound known at any order, best read at `table_orders`; None if it is finite nowhere."""
        orders = np.unique(np.append(_ORDERS, table_orders))
        values = rdp(orders)
        finite = np.isfinite(values)
        if not finite.any() or not values[finite].any():
            return None
        return RenyiLoss(tuple(orders[finite].tolist()), tuple(values[finite].tolist()))

    @property
    def scale(self) -> float:
        return math.sqrt(2 * max(self.values[0] / self.orders[0], 1e-300))

    @property
    def period(self) -> float:
        return 0.0

    @property
    def reach(self) -> float:
        """How far from 0 its losses lie, but for a chance of `TINY`."""
        return min(MOST_REACH, self._beyond(TINY))

    def pmf(self, interval: float, tail: float) -> Pmf:
        # A hull over every so many grid points is a bound too, a little above; for one step it is worth no more.
        far = min(MOST_REACH, self._beyond(tail))
        stride = max(1, math.floor(far / interval / _POINTS))
        reach = math.ceil(far / interval / stride)
        hull, infinity = masses(self.profile(grid_of(0, reach, interval * stride)), interval * stride)
        mass = np.zeros((len(hull) - 1) * stride + 1)
        mass[::stride] = hull
        return Pmf(-reach * stride, mass, infinity)

    def _beyond(self, tail: float) -> float:
        """An epsilon at which the profile is at most `tail`, or `TINY` if that is more."""
        orders, values = np.array(self.orders), np.array(self.values)
        return float(
            np.min(values + np.log1p(-1 / orders) - (math.log(max(tail, TINY)) + np.log(orders)) / (orders - 1)).clip(0.0)
        )

    def profile(self, y: Floats) -> Floats:
        ahead, down = self._ahead(np.abs(y)), np.minimum(y, 0.0)
        return np.where(y >= 0, ahead, -np.expm1(down) + np.exp(down) * ahead)

    def _ahead(self, y: Floats) -> Floats:
        blocks = [self._smallest(y[start : start + _BLOCK]) for start in range(0, len(y), _BLOCK)]
        return np.concatenate(blocks) if blocks else y

    def _smallest(self, y: Floats) -> Floats:
        """Proposition 12 of Canonne, Kamath and Steinke at the best order, and the total variation; rounded up."""
        orders, values = np.array(self.orders), np.array(self.values)
        logs = (orders - 1) * (values - y[:, None] + np.log1p(-1 / orders)) - np.log(orders)
        logs += 1e-13 * (1 + orders * (1 + y[:, None]))
        variation = math.sqrt(-math.expm1(-self.values[0])) * (1 + 1e-13)
        return np.minimum(np.exp(np.minimum(0.0, logs.min(axis=1))), min(1.0, variation))
