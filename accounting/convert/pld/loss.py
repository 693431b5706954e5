"""Dominating pairs (P, Q), given by the distribution of their privacy loss L = ln(P/Q) under P.

Every pair here is symmetric: -L under Q has the distribution of L under P, because guarantees hold
in both directions. The known losses are those with two atoms and a density between them (pure,
bounded-range and Laplace pairs), those with as many atoms as a table, and normal ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy

from accounting.errors import InvalidArgument
from accounting.numbers import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import (
        PrivacyLossDistribution as PrivacyLossDistribution,
    )
else:
    # only annotations name it, and dp-accounting takes a second to import
    PrivacyLossDistribution = Any

TINY = 1e-299  # the least tail that is cut off
_TAIL = 1e-22  # cut off of a law that dp-accounting is given, which itself cuts off e^-50
MOST_CELLS = 2**24  # of one law: 128 MiB


@dataclass(frozen=True)
class Pmf:
    """Upper bounds on the mass at (low + i) * interval for every i, and at infinity.

    Their sum may exceed 1 by rounding only.
    """

    low: int
    mass: Floats
    infinity: float


class Loss(ABC):
    """The privacy loss of one dominating pair."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Typical size of the loss in nats, used only to choose grids."""

    @property
    def period(self) -> float:
        """A loss that grids should hit because it has an atom; 0 if there is none."""
        return 0.0

    @property
    def is_wide(self) -> bool:
        """True if its tails are much longer than its scale and each cell takes long to compute."""
        return False

    @abstractmethod
    def reach_at(self, tail: float) -> float:
        """Return a bound on finite losses that holds up to a probability of about `tail`.

        It is used to check that a grid fits into memory.
        """

    @final
    @property
    def reach(self) -> float:
        """Bound on every finite loss whose probability matters."""
        return self.reach_at(TINY)

    @abstractmethod
    def pmf(self, interval: float, tail: float) -> Pmf:
        """Return the loss on multiples of `interval`, so that no divergence shrinks (Theorem P2).

        Up to a mass of `tail` is cut off on either side. It is counted as infinite above, and moved
        up to the lowest point below.
        """

    @abstractmethod
    def profile(self, y: Floats) -> Floats:
        """Hockey-stick divergence at every real y, rounded up."""

    def directions(self) -> tuple[Loss, ...]:
        """Return the loss in each direction in which inputs may differ; one if all are equal."""
        return (self,)

    def masses(self, interval: float) -> tuple[Mapping[int, float], float]:
        """Return `pmf` as a map from places to masses, and the mass at infinity, for dp-accounting.

        Raises:
            InvalidArgument: interval is so fine that the grid would be too large.
        """
        reach = max(self.period, 40 * self.scale)
        if not 2 * reach <= MOST_CELLS * interval:
            raise InvalidArgument(
                f"interval={interval!r} is too fine for losses of about {reach:.3g} nats: the grid"
                f" would have more than {MOST_CELLS:,} points. Take a larger interval, or read"
                " epsilon and delta of the curve, which need no grid"
            )
        pmf = self.pmf(interval, _TAIL)
        return {
            pmf.low + i: mass for i, mass in enumerate(pmf.mass.tolist()) if mass > 0
        }, pmf.infinity


@dataclass(frozen=True)
class Losses:
    """The steps of a plan as (count, loss) pairs, which hold outside bad events.

    `added` is the probability of the bad events.
    """

    steps: tuple[tuple[int, Loss], ...] = ()
    added: float = 0.0

    def directions(self) -> tuple[Losses, ...]:
        """Return the plan in each direction in which two inputs may differ. Theorems P10 and P11.

        The direction is the same in all steps. Steps with equal numbers of directions share them;
        if their directions mean different things, they belong to different statements, and all
        pairs count.
        """
        steps = [(n, loss.directions()) for n, loss in self.steps]
        kinds = sorted({len(ways) for _, ways in steps})
        plans = []
        for chosen in product(*(range(size) for size in kinds)):
            way = dict(zip(kinds, chosen, strict=True))
            plans.append(Losses(tuple((n, ways[way[len(ways)]]) for n, ways in steps), self.added))
        return tuple(plans)

    def to_dp_accounting(self, interval: float) -> PrivacyLossDistribution | None:
        """Return all steps as one pessimistic dp-accounting object.

        None if inputs may differ in more than two directions.

        Raises:
            InvalidArgument: interval is not a finite number > 0, or is too fine.
        """
        from dp_accounting.pld import privacy_loss_distribution as pld
        from dp_accounting.pld.pld_pmf import create_pmf

        if (
            isinstance(interval, bool)
            or not isinstance(interval, int | float)
            or not 0 < interval < math.inf
        ):
            raise InvalidArgument(
                f"interval={str(interval)[:30]} must be a finite number > 0, in nats"
            )
        ways = self.directions()
        if len(ways) > 2:
            return None
        total, failing = pld.identity(interval), 0.0
        for each in zip(*(way.steps for way in ways), strict=True):
            pairs = [loss.masses(interval) for _, loss in each]
            pmfs = [
                create_pmf(masses, interval, infinity, pessimistic_estimate=True)
                for masses, infinity in pairs
            ]
            count = each[0][0]
            total = total.compose(_repeat(pld.PrivacyLossDistribution(*pmfs), count))
            failing += count * max(infinity for _, infinity in pairs)
        if not self.added:
            return total
        # dp-accounting merges infinite masses a, b to a + b - ab; Theorem P1 needs a + b (and
        # finite mass 1), hence the division.
        lost = min(failing + 1e-9, 0.5 + min(failing, 1.0) / 2)  # its truncation included
        more = create_pmf(
            {0: 1.0},
            interval,
            min(1.0, self.added / max(1 - lost, 1e-9) * (1 + 1e-9)),
            pessimistic_estimate=True,
        )
        return total.compose(pld.PrivacyLossDistribution(more))


# the tail that is cut off before the second stage repeats it
_MOST_AT_ONCE, _STAGE_TAIL = 10**5, 1e-21


def _repeat(single: PrivacyLossDistribution, count: int) -> PrivacyLossDistribution:
    """Compose `single` with itself `count` times, in two stages if `count` is large.

    In one stage, dp-accounting would make room for far more than a long sum spans.
    """
    if count <= _MOST_AT_ONCE:
        return single.self_compose(count)
    stage = math.isqrt(count)
    total = single.self_compose(stage, _STAGE_TAIL).self_compose(count // stage)
    return total.compose(single.self_compose(count % stage)) if count % stage else total


def grid_of(low: int, high: int, interval: float) -> Floats:
    """Grid points low, ..., high times `interval`."""
    grid: Floats = np.arange(low, high + 1, dtype=np.float64) * interval
    return grid


def on_cells(places: Floats, weights: Floats, interval: float) -> tuple[int, Floats]:
    """Split atoms at increasing places over the ends of their cells (Theorem P2).

    Returns:
        The first end, in intervals, and the masses.
    """
    left = np.floor(places / interval)
    slack = 4 * _ULP * (np.abs(places) + interval) / interval
    share = np.clip(np.expm1(left * interval - places) / np.expm1(-interval) + slack, 0.0, 1.0)
    cells = (left - left[0]).astype(np.int64)
    mass = np.bincount(cells, weights * (1 - share), int(cells[-1]) + 2) + np.bincount(
        cells + 1, weights * share
    )
    return int(left[0]), np.asarray(mass, dtype=np.float64)


def _split(mass: Floats, cell: Floats, share: Floats) -> None:
    """Add the mass of each cell to its two ends, `share` of it to the right one."""
    mass[1:] += share * cell
    mass[:-1] += (1 - share) * cell


_ULP = 2.0**-52
# Masses are a handful of operations, each good to an ulp: this factor keeps them upper bounds.
_UP = 1 + 2.0**-46
_MANY_UP = 1 + 2.0**-44  # a sum of some tens of positive terms, each good to a few ulps


@final
@dataclass(frozen=True)
class Banded(Loss):
    """A loss with atoms at +-width and a density between them. Theorem P3.

    The density is proportional to e^(y/2). The loss is infinite with probability `lost`.

    Args:
        width: nats, > 0.
        upper, middle, lower: masses of the atom at width, the density and the atom at -width =
            upper * e^-width; they sum to 1.
        lost: probability of an infinite loss; the masses above hold with probability 1 - lost.
    """

    width: float
    upper: float
    middle: float
    lower: float
    lost: float = 0.0

    @staticmethod
    def pure(width: float, lost: float = 0.0) -> Banded:
        """Loss of randomized response, the worst pure pair."""
        return Banded(
            width, 1 / (1 + math.exp(-width)), 0.0, math.exp(-width) / (1 + math.exp(-width)), lost
        )

    @staticmethod
    def bounded_range(width: float) -> Banded:
        """Loss whose divergence is, at every y, the largest of all bounded-range pairs."""
        return Banded(width, 0.0, 1.0, 0.0)

    @staticmethod
    def laplace(width: float) -> Banded:
        """Loss of the Laplace mechanism."""
        return Banded(width, 0.5, -math.expm1(-width) / 2, math.exp(-width) / 2)

    @property
    def is_range(self) -> bool:
        """True if this stands for any bounded-range pair of its width."""
        return self.upper == 0 and self.lost == 0

    @property
    def scale(self) -> float:
        ends, middle = (
            min(self.width * self.width, 8 * self.width),
            min(self.width * self.width / 3, 4.0),
        )
        return math.sqrt((1 - self.middle) * ends + self.middle * middle)

    @property
    def period(self) -> float:
        return self.width

    def reach_at(self, tail: float) -> float:
        return self.width

    def pmf(self, interval: float, tail: float) -> Pmf:
        low, high = math.floor(-self.width / interval) - 1, math.ceil(self.width / interval) + 1
        grid = grid_of(low, high, interval)
        mass = np.zeros(len(grid))
        ends = np.clip(grid, -self.width, self.width)
        a, b = ends[:-1], ends[1:]
        cells = self.middle * (
            np.exp((b - self.width) / 2) * np.expm1((a - b) / 2) / math.expm1(-self.width)
        )
        _split(
            mass, cells, self._share((ends[:-1] - grid[:-1] + (ends[1:] - grid[:-1])) / 2, interval)
        )
        for place, weight in self._atoms(interval).items():
            mass[place - low] += weight
        return Pmf(low, mass * ((1 - self.lost) * _UP), self.lost)

    def masses(self, interval: float) -> tuple[Mapping[int, float], float]:
        if self.middle > 0:
            return super().masses(interval)
        # Without a density the atoms are all there is: they need no grid, however wide they are.
        atoms = self._atoms(interval).items()
        return {
            place: weight * (1 - self.lost) * _UP for place, weight in atoms if weight > 0
        }, self.lost

    def _atoms(self, interval: float) -> dict[int, float]:
        """Return the two atoms, each split over the ends of its cell, given a finite loss."""
        atoms: dict[int, float] = defaultdict(float)
        for place, weight in ((self.width, self.upper), (-self.width, self.lower)):
            left = math.floor(place / interval)
            share = float(self._share(np.array([place - left * interval]), interval)[0])
            atoms[left] += (1 - share) * weight
            atoms[left + 1] += share * weight
        return atoms

    def _share(self, place: Floats, interval: float) -> Floats:
        """Share of a cell's mass that moves to the right end, on average (see Theorem P2).

        The mass lies `place` above the left end.
        """
        slack = 4 * _ULP * (self.width + interval) / interval
        return np.clip(np.expm1(-place) / math.expm1(-interval) + slack, 0.0, 1.0)

    def profile(self, y: Floats) -> Floats:
        inside = np.clip(y, -self.width, self.width)
        atom = -self.upper * np.expm1(inside - self.width)
        band = self.middle * np.expm1((inside - self.width) / 2) ** 2 / -math.expm1(-self.width)
        finite = np.where(y < -self.width, -np.expm1(np.minimum(y, 0.0)), atom + band)
        return np.minimum(1.0, (self.lost + (1 - self.lost) * finite) * _UP)


@final
@dataclass(frozen=True)
class Atoms(Loss):
    """A loss with atoms at `places` (nats, increasing) of probability `weights`. Theorem M1.

    The loss is infinite with probability `lost`.
    """

    places: tuple[float, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def scale(self) -> float:
        places = np.array(self.places)
        return float(np.sqrt(np.minimum(places**2, 8 * np.abs(places)) @ np.array(self.weights)))

    def reach_at(self, tail: float) -> float:
        return max(abs(self.places[0]), abs(self.places[-1]))

    def pmf(self, interval: float, tail: float) -> Pmf:
        low, mass = on_cells(np.array(self.places), np.array(self.weights), interval)
        return Pmf(low, mass * _MANY_UP, self.lost * _MANY_UP)

    def profile(self, y: Floats) -> Floats:
        gains = np.maximum(
            0.0, -np.expm1(np.subtract.outer(y, np.array(self.places)).clip(max=0.0))
        )
        return np.minimum(1.0, (gains @ np.array(self.weights) + self.lost) * _MANY_UP)


FAR = 37.0  # standard deviations; a mass of 6e-300 lies beyond
# of the logarithms of two normal tails: a place, its square and their sums are rounded, each weighs
# z^2
PAD = 8e-16


@final
@dataclass(frozen=True)
class Normal(Loss):
    """A normal loss with mean mu^2/2 and variance mu^2, mu > 0."""

    mu: float

    @property
    def scale(self) -> float:
        return self.mu

    def reach_at(self, tail: float) -> float:
        return self.mu * self.mu / 2 + FAR * self.mu

    def pmf(self, interval: float, tail: float) -> Pmf:
        center, far = self.mu * self.mu / 2, -float(scipy.special.ndtri(max(tail, TINY))) * self.mu
        low, high = math.floor((center - far) / interval), math.ceil((center + far) / interval)
        grid = grid_of(low, high, interval)
        mass = np.zeros(len(grid))
        cells = self._cell(grid[:-1], grid[1:])
        _split(mass, cells * (1 + self._error(grid, cells)), self._share(grid, cells, interval))
        mass[0] += float(scipy.special.ndtr(self._z(grid[0])))
        return Pmf(low, mass, float(scipy.special.ndtr(-self._z(grid[-1]))) * (1 + 1e-11))

    def profile(self, y: Floats) -> Floats:
        first, second = (
            scipy.special.log_ndtr(self.mu / 2 - y / self.mu),
            y + scipy.special.log_ndtr(-self.mu / 2 - y / self.mu),
        )
        pad = PAD * (4 + np.abs(first) + np.abs(second) + np.abs(y))
        value = np.exp(first) * (np.maximum(0.0, -np.expm1(np.minimum(0.0, second - first))) + pad)
        return np.minimum(1.0, np.nextafter(value, 1.0))

    def _cell(self, left: Floats, right: Floats) -> Floats:
        """Probability of left < L <= right, with a relative error of `_error`."""
        a, b = self._z(left), self._z(right)
        return np.where(
            a > 0,
            scipy.special.ndtr(-a) - scipy.special.ndtr(-b),
            scipy.special.ndtr(b) - scipy.special.ndtr(a),
        )

    def _z(self, y: Floats) -> Floats:
        return y / self.mu - self.mu / 2

    def _error(self, grid: Floats, cells: Floats) -> Floats:
        """Relative error of `_cell`: (4 + z^2) ulps of a tail, over the cell's share of it."""
        z = np.maximum(np.abs(self._z(grid[:-1])), np.abs(self._z(grid[1:])))
        tail = np.where(
            self._z(grid[:-1]) > 0,
            scipy.special.ndtr(-self._z(grid[:-1])),
            scipy.special.ndtr(self._z(grid[1:])),
        )
        return 2.3e-16 * (4 + z * z) * np.minimum(tail / np.maximum(cells, 1e-307), 1e9)

    def _share(self, grid: Floats, cells: Floats, interval: float) -> Floats:
        """Share of a cell's mass that moves to the right end.

        It is computed from the two masses of the cell if they resolve it, and otherwise from the
        steepest slope in the cell.
        """
        flipped = -grid[::-1]
        other = self._cell(flipped[:-1], flipped[1:])
        ratio = np.exp(np.minimum(grid[:-1], 700.0)) * other[::-1] / np.maximum(cells, 1e-307)
        margin = (
            self._error(grid, cells)
            + self._error(flipped, other)[::-1]
            + 1e-15 * (1 + np.abs(grid[:-1]))
        )
        direct = (1 - ratio + margin) / -math.expm1(-interval)
        # The mean of t on [0, 1] under density e^(x t) is 1/(1 - e^-x) - 1/x; the next term of the
        # series is -x^3/720 < 2e-9.
        x = (0.5 - grid[:-1] / self.mu**2) * interval
        small = np.abs(x) < 1e-2
        safe = np.where(small, 1.0, x)
        with np.errstate(over="ignore"):
            mean = np.where(small, 0.5 + x / 12 + 2e-9, -1 / np.expm1(-safe) - 1 / safe)
        steepest = mean * (interval / -math.expm1(-interval)) + 1e-13
        return np.clip(np.where(cells > 1e-300, np.minimum(direct, steepest), 1.0), 0.0, 1.0)
