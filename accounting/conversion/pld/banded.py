"""Pairs whose loss has atoms: two and a density between them (pure, bounded-range and Laplace pairs), or as many as a table."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import final

import numpy as np

from accounting.conversion.pld.loss import Floats, Law, Pmf, PrivacyLossDistribution, grid_of, on_grid, split

_ULP = 2.0**-52
# Masses are a handful of operations, each good to an ulp: this factor keeps them upper bounds.
_UP = 1 + 2.0**-46
_MANY_UP = 1 + 2.0**-44  # a sum of some tens of positive terms, each good to a few ulps


@final
@dataclass(frozen=True)
class Banded(Law):
    """Theorem P3: atoms at +-width, density proportional to e^(y/2) between them, and an infinite loss of probability `lost`.

    Args:
        width: nats, > 0.
        upper, middle, lower: masses of the atom at width, the density and the atom at -width = upper * e^-width; they sum to 1.
        lost: the masses above hold with probability 1 - lost.
    """

    width: float
    upper: float
    middle: float
    lower: float
    lost: float = 0.0

    @staticmethod
    def pure(width: float, lost: float = 0.0) -> Banded:
        """Randomised response: the worst pure pair."""
        return Banded(width, 1 / (1 + math.exp(-width)), 0.0, math.exp(-width) / (1 + math.exp(-width)), lost)

    @staticmethod
    def bounded_range(width: float) -> Banded:
        """The pair whose divergence is, at every y, the largest of all bounded-range pairs."""
        return Banded(width, 0.0, 1.0, 0.0)

    @staticmethod
    def laplace(width: float) -> Banded:
        """The Laplace mechanism."""
        return Banded(width, 0.5, -math.expm1(-width) / 2, math.exp(-width) / 2)

    @property
    def is_range(self) -> bool:
        """Whether this stands for any bounded-range pair of its width."""
        return self.upper == 0 and self.lost == 0

    @property
    def scale(self) -> float:
        ends, middle = min(self.width * self.width, 8 * self.width), min(self.width * self.width / 3, 4.0)
        return math.sqrt((1 - self.middle) * ends + self.middle * middle)

    @property
    def period(self) -> float:
        return self.width

    @property
    def reach(self) -> float:
        return self.width

    def pmf(self, interval: float, tail: float) -> Pmf:
        low, high = math.floor(-self.width / interval) - 1, math.ceil(self.width / interval) + 1
        grid = grid_of(low, high, interval)
        mass = np.zeros(len(grid))
        self._add_density(mass, grid, interval)
        for place, weight in self.atoms(interval).items():
            mass[place - low] += weight
        return Pmf(low, mass * ((1 - self.lost) * _UP), self.lost)

    def atoms(self, interval: float) -> dict[int, float]:
        """The two atoms, each split over the ends of its cell, given that the loss is finite."""
        found: dict[int, float] = defaultdict(float)
        for place, weight in ((self.width, self.upper), (-self.width, self.lower)):
            left = math.floor(place / interval)
            share = float(self._share(np.array([place - left * interval]), interval)[0])
            found[left] += (1 - share) * weight
            found[left + 1] += share * weight
        return found

    def _add_density(self, mass: Floats, grid: Floats, interval: float) -> None:
        ends = np.clip(grid, -self.width, self.width)
        cells = self.middle * self._density(ends[:-1], ends[1:])
        split(mass, cells, self._share((ends[:-1] - grid[:-1] + (ends[1:] - grid[:-1])) / 2, interval))

    def _share(self, place: Floats, interval: float) -> Floats:
        """What moves right from a cell whose mass lies `place` above its left end, on average in the sense of Theorem P2."""
        slack = 4 * _ULP * (self.width + interval) / interval
        return np.clip(np.expm1(-place) / math.expm1(-interval) + slack, 0.0, 1.0)

    def _density(self, left: Floats, right: Floats) -> Floats:
        return np.exp((right - self.width) / 2) * np.expm1((left - right) / 2) / math.expm1(-self.width)

    def profile(self, y: Floats) -> Floats:
        inside = np.clip(y, -self.width, self.width)
        atom = -self.upper * np.expm1(inside - self.width)
        band = self.middle * np.expm1((inside - self.width) / 2) ** 2 / -math.expm1(-self.width)
        finite = np.where(y < -self.width, -np.expm1(np.minimum(y, 0.0)), atom + band)
        return np.minimum(1.0, (self.lost + (1 - self.lost) * finite) * _UP)

    def cell(self, left: Floats, right: Floats) -> Floats:
        a, b = np.clip(left, -self.width, self.width), np.clip(right, -self.width, self.width)
        upper = self.upper * ((left < self.width) & (self.width <= right))
        lower = self.lower * ((left < -self.width) & (-self.width <= right))
        return (1 - self.lost) * (self.middle * self._density(a, b) + upper + lower)


def two_atoms(pair: Banded, interval: float) -> PrivacyLossDistribution:
    """A pair without a density as a pessimistic dp-accounting object, however wide it is."""
    masses = {place: weight * (1 - pair.lost) * _UP for place, weight in pair.atoms(interval).items() if weight > 0}
    return on_grid(masses, pair.lost, interval)


@final
@dataclass(frozen=True)
class Atoms(Law):
    """Losses `places` (nats, increasing) of probabilities `weights`, and an infinite one of probability `lost`. Theorem M1."""

    places: tuple[float, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def scale(self) -> float:
        places = np.array(self.places)
        return float(np.sqrt(np.minimum(places**2, 8 * np.abs(places)) @ np.array(self.weights)))

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
        return Pmf(low, np.asarray(mass * _MANY_UP, dtype=np.float64), self.lost * _MANY_UP)

    def profile(self, y: Floats) -> Floats:
        ahead = np.maximum(0.0, -np.expm1(np.subtract.outer(y, np.array(self.places)).clip(max=0.0)))
        return np.minimum(1.0, (ahead @ np.array(self.weights) + self.lost) * _MANY_UP)

    def cell(self, left: Floats, right: Floats) -> Floats:
        beyond = np.append(0.0, np.cumsum(self.weights))
        places = np.array(self.places)
        found: Floats = beyond[np.searchsorted(places, right, "right")] - beyond[np.searchsorted(places, left, "right")]
        return found
