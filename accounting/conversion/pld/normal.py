"""The Gaussian mechanism's loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from accounting.conversion.pld.loss import TINY, Floats, Pmf, grid_of, split

_FAR = 37.0  # standard deviations; a mass of 6e-300 lies beyond


@final
@dataclass(frozen=True)
class Normal:
    """L is normal with mean mu^2/2 and variance mu^2, mu > 0."""

    mu: float

    @property
    def scale(self) -> float:
        return self.mu

    @property
    def period(self) -> float:
        return 0.0

    @property
    def reach(self) -> float:
        return self.mu * self.mu / 2 + _FAR * self.mu

    def pmf(self, interval: float, tail: float) -> Pmf:
        centre, far = self.mu * self.mu / 2, -float(scipy.special.ndtri(max(tail, TINY))) * self.mu
        low, high = math.floor((centre - far) / interval), math.ceil((centre + far) / interval)
        grid = grid_of(low, high, interval)
        mass = np.zeros(len(grid))
        cells = self.cell(grid[:-1], grid[1:])
        split(mass, cells * (1 + self._error(grid, cells)), self._share(grid, cells, interval))
        mass[0] += float(scipy.special.ndtr(self._z(grid[0])))
        return Pmf(low, mass, float(scipy.special.ndtr(-self._z(grid[-1]))) * (1 + 1e-11))

    def profile(self, y: Floats) -> Floats:
        first, second = scipy.special.log_ndtr(self.mu / 2 - y / self.mu), y + scipy.special.log_ndtr(-self.mu / 2 - y / self.mu)
        pad = 4e-16 * (4 + np.abs(first) + np.abs(second) + np.abs(y))
        return np.minimum(1.0, np.exp(first) * (np.maximum(0.0, -np.expm1(np.minimum(0.0, second - first))) + pad))

    def cell(self, left: Floats, right: Floats) -> Floats:
        a, b = self._z(left), self._z(right)
        return np.where(a > 0, scipy.special.ndtr(-a) - scipy.special.ndtr(-b), scipy.special.ndtr(b) - scipy.special.ndtr(a))

    def _z(self, y: Floats) -> Floats:
        return y / self.mu - self.mu / 2

    def _error(self, grid: Floats, cells: Floats) -> Floats:
        """Relative error of `cell`: that of a tail, (4 + z^2) ulps, over the cell's share of it."""
        z = np.maximum(np.abs(self._z(grid[:-1])), np.abs(self._z(grid[1:])))
        tail = np.where(self._z(grid[:-1]) > 0, scipy.special.ndtr(-self._z(grid[:-1])), scipy.special.ndtr(self._z(grid[1:])))
        return 2.3e-16 * (4 + z * z) * np.minimum(tail / np.maximum(cells, 1e-307), 1e9)

    def _share(self, grid: Floats, cells: Floats, interval: float) -> Floats:
        """What moves right: by the two masses of the cell where they resolve it, else by the steepest slope in it."""
        flipped = -grid[::-1]
        other = self.cell(flipped[:-1], flipped[1:])
        ratio = np.exp(np.minimum(grid[:-1], 700.0)) * other[::-1] / np.maximum(cells, 1e-307)
        margin = self._error(grid, cells) + self._error(flipped, other)[::-1] + 1e-15 * (1 + np.abs(grid[:-1]))
        direct = (1 - ratio + margin) / -math.expm1(-interval)
        slope = (0.5 - grid[:-1] / self.mu**2) * interval
        steepest = mean_place(slope) * (interval / -math.expm1(-interval)) + 1e-13
        return np.clip(np.where(cells > 1e-300, np.minimum(direct, steepest), 1.0), 0.0, 1.0)


def mean_place(x: Floats) -> Floats:
    """Mean of t on [0, 1] under density e^(x t): 1/(1 - e^-x) - 1/x."""
    small = np.abs(x) < 1e-2
    safe = np.where(small, 1.0, x)
    with np.errstate(over="ignore"):
        far = -1 / np.expm1(-safe) - 1 / safe
    # The next term of the series is -x^3/720 < 2e-9.
    return np.where(small, 0.5 + x / 12 + 2e-9, far)
