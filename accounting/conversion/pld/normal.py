"""The Gaussian mechanism's loss, and on a Poisson sample one for a user removed and another for a user added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from accounting.conversion.pld.hull import MOST_REACH, either_way, hulled
from accounting.conversion.pld.loss import TINY, Floats, Law, Loss, Losses, Pmf, grid_of, split

_FAR = 37.0  # standard deviations; a mass of 6e-300 lies beyond
PAD = 8e-16  # of the logarithms of two normal tails: a place, its square and their sums are rounded, each weighs z^2
_UP, _ULPS = 1 + 1e-11, 4e-16  # of sampled laws


@final
@dataclass(frozen=True)
class Normal(Law):
    """L is normal with mean mu^2/2 and variance mu^2, mu > 0."""

    mu: float

    @property
    def scale(self) -> float:
        return self.mu

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
        pad = PAD * (4 + np.abs(first) + np.abs(second) + np.abs(y))
        value = np.exp(first) * (np.maximum(0.0, -np.expm1(np.minimum(0.0, second - first))) + pad)
        return np.minimum(1.0, np.nextafter(value, 1.0))

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
        steepest = _mean_place(slope) * (interval / -math.expm1(-interval)) + 1e-13
        return np.clip(np.where(cells > 1e-300, np.minimum(direct, steepest), 1.0), 0.0, 1.0)


def _mean_place(x: Floats) -> Floats:
    """Mean of t on [0, 1] under density e^(x t): 1/(1 - e^-x) - 1/x."""
    small = np.abs(x) < 1e-2
    safe = np.where(small, 1.0, x)
    with np.errstate(over="ignore"):
        far = -1 / np.expm1(-safe) - 1 / safe
    # The next term of the series is -x^3/720 < 2e-9.
    return np.where(small, 0.5 + x / 12 + 2e-9, far)


@final
@dataclass(frozen=True)
class SampledNormal(Loss):
    """Both directions at once: the pair whose profile is the larger of the two (Theorem P10).

    Args:
        mu: shift over the standard deviation of the noise, > 0.
        rate: probability with which a user is sampled, in (0, 1).
    """

    mu: float
    rate: float

    @property
    def scale(self) -> float:
        square = math.expm1(min(self.mu**2, 50.0))
        return self.rate * math.sqrt(square) / (1 + self.rate * square**0.5)

    @property
    def reach(self) -> float:
        return self.mu * (self.mu / 2 + _FAR)

    def directions(self) -> tuple[Loss, Loss]:
        """The loss where the user is removed, and where the user is added."""
        return Directed(self.mu, self.rate, removed=True), Directed(self.mu, self.rate, removed=False)

    def pmf(self, interval: float, tail: float) -> Pmf:
        one = self.directions()[0].pmf(interval, tail)
        reach = min(one.low + len(one.mass), math.ceil(MOST_REACH / interval))
        return hulled(self.profile(grid_of(0, reach, interval)), interval)

    def profile(self, y: Floats) -> Floats:
        return either_way(y, np.max([one.profile(np.abs(y)) for one in self.directions()], axis=0))


@final
@dataclass(frozen=True)
class Directed(Loss):
    """One direction. With M = (1 - rate) N(0, 1) + rate N(mu, 1): M against N(0, 1) if removed, N(0, 1) against M if added."""

    mu: float
    rate: float
    removed: bool

    @property
    def scale(self) -> float:
        return SampledNormal(self.mu, self.rate).scale

    @property
    def reach(self) -> float:
        return SampledNormal(self.mu, self.rate).reach

    def pmf(self, interval: float, tail: float) -> Pmf:
        far = min(_FAR, -float(scipy.special.ndtri(max(tail, TINY))))
        ends = self._sign * self._loss(np.array([-far, far + self.mu]))
        low, high = math.floor(ends.min() / interval), math.ceil(ends.max() / interval)
        grid = grid_of(low, high, interval)
        places = self._place(grid)
        likely, error = self._cells(places, mixed=self.removed)
        other, _ = self._cells(places, mixed=not self.removed)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            kept = np.exp(grid[:-1]) * other / likely
            share = (1 - kept) / -math.expm1(-interval) + (2 * error + 8 * _ULPS) / interval
        share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
        mass = np.zeros(len(grid))
        mass[1:] += share * likely * (1 + error)
        mass[:-1] += (1 - share) * likely * (1 + error)
        mass[0] += float(self._beneath(places[0])) * _UP
        return Pmf(low, mass * _UP, float(self._tail(places[-1], mixed=self.removed)) * _UP)

    def profile(self, y: Floats) -> Floats:
        place = self._place(y)
        first, second = self._tail(place, mixed=self.removed), self._tail(place, mixed=not self.removed)
        gain = first - np.exp(np.minimum(y, 700.0)) * second
        return np.clip(gain + _ULPS * 16 * (4 + place * place) * first, 0.0, 1.0)

    @property
    def _sign(self) -> float:
        return 1.0 if self.removed else -1.0

    def _loss(self, x: Floats) -> Floats:
        """ln of the mixture's density over that of N(0, 1)."""
        return np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self.mu * x - self.mu**2 / 2)

    def _place(self, y: Floats) -> Floats:
        """Where the loss passes y; the end of the line where it never does."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            ratio = np.expm1(self._sign * y) + self.rate
            logs = np.where(self._sign * y > 30, self._sign * y, np.log(np.maximum(ratio, 0.0)))
            return np.clip((logs - math.log(self.rate) + self.mu**2 / 2) / self.mu, -_FAR - 1, _FAR + 1 + self.mu)

    def _tail(self, place: Floats, *, mixed: bool) -> Floats:
        """Probability of a loss above that of `place`, under the mixture or under N(0, 1)."""
        own = scipy.special.ndtr(-self._sign * place)
        return (1 - self.rate) * own + self.rate * scipy.special.ndtr(self._sign * (self.mu - place)) if mixed else own

    def _beneath(self, place: Floats) -> Floats:
        """Probability of a loss up to that of `place`, under the law that the loss is of."""
        own = scipy.special.ndtr(self._sign * place)
        return (1 - self.rate) * own + self.rate * scipy.special.ndtr(self._sign * (place - self.mu)) if self.removed else own

    def _cells(self, places: Floats, *, mixed: bool) -> tuple[Floats, Floats]:
        """Mass of every cell and a bound on its relative error, by differences of the smaller tails."""
        plain, plain_error = _between(places, 0.0)
        if not mixed:
            return plain, plain_error / np.maximum(plain, 1e-300)
        moved, moved_error = _between(places, self.mu)
        mass = (1 - self.rate) * plain + self.rate * moved
        return mass, ((1 - self.rate) * plain_error + self.rate * moved_error) / np.maximum(mass, 1e-300)


def _between(places: Floats, mean: float) -> tuple[Floats, Floats]:
    """Normal mass between neighbouring places, in either order, and a bound on its error."""
    a, b = np.minimum(places[:-1], places[1:]) - mean, np.maximum(places[:-1], places[1:]) - mean
    right = a > 0
    large = np.where(right, scipy.special.ndtr(-a), scipy.special.ndtr(b))
    small = np.where(right, scipy.special.ndtr(-b), scipy.special.ndtr(a))
    # A place is good to a few ulps of its size, which moves a tail by z^2 ulps of itself.
    return large - small, _ULPS * (4 + np.maximum(a * a, b * b)) * large


def directed(losses: Losses) -> tuple[Losses, ...]:
    """A plan as seen by a removed and by an added user, where that differs; else the plan itself. Theorem P10."""
    if not any(isinstance(loss, SampledNormal) for _, loss in losses.steps):
        return (losses,)
    ways = [(n, one.directions() if isinstance(one, SampledNormal) else (one, one)) for n, one in losses.steps]
    return tuple(Losses(tuple((n, pair[way]) for n, pair in ways), losses.added) for way in (0, 1))
