"""Pairs with finitely many losses, as a table of guarantees has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from accounting.conversion.pld.loss import Floats, Pmf

_ULP = 2.0**-52
_UP = 1 + 2.0**-44  # a sum of some tens of positive terms, each good to a few ulps


@final
@dataclass(frozen=True)
class Atoms:
    """Losses `places` (nats, increasing) of probabilities `weights`, and an infinite one of probability `lost`. Theorem M1."""

    places: tuple[float, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def scale(self) -> float:
        places = np.array(self.places)
        return float(np.sqrt(np.minimum(places**2, 8 * np.abs(places)) @ np.array(self.weights)))

    @property
    def period(self) -> float:
        return 0.0

    @property
    def reach(self) -> float:
        return max(abs(self.places[0]), abs(self.places[-1]))

    def pmf(self, interval: float, tail: float) -> Pmf:
        places, weights = np.array(self.places), np.array(self.weights)
        left = np.floor(places / interval)
        slack = 4 * _ULP * (np.abs(places) + interval) / interval
        share = np.clip(np.expm1(left * interval - places) / np.expm1(-interval) + slack, 0.0, 1.0)
        low = int(left[0])
        cells = (left - low).astype(np.int64)
        mass = np.bincount(cells, weights * (1 - share), int(cells[-1]) + 2) + np.bincount(cells + 1, weights * share)
        return Pmf(low, np.asarray(mass * _UP, dtype=np.float64), self.lost * _UP)

    def profile(self, y: Floats) -> Floats:
        ahead = np.maximum(0.0, -np.expm1(np.subtract.outer(y, np.array(self.places)).clip(max=0.0)))
        return np.minimum(1.0, (ahead @ np.array(self.weights) + self.lost) * _UP)

    def cell(self, left: Floats, right: Floats) -> Floats:
        beyond = np.append(0.0, np.cumsum(self.weights))
        places = np.array(self.places)
        found: Floats = beyond[np.searchsorted(places, right, "right")] - beyond[np.searchsorted(places, left, "right")]
        return found
