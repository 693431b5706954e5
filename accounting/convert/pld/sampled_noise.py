"""Privacy loss of noise on a secret Poisson sample, for one user or a group (Theorem P11).

It is the loss between two mixtures of shifts of one distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, final

import numpy as np
import scipy

from accounting.convert.pld.hull import MOST_REACH, Profiled
from accounting.convert.pld.loss import FAR, TINY, Loss, Pmf, grid_of
from accounting.numbers import Floats

Noise = Literal["gaussian", "laplace"]
_UP, _ULPS = 1 + 1e-11, 4e-16
_TABLE = 4001  # places at which the loss is tabled, for Newton's method to start from
_NEWTON = 4


@final
@dataclass(frozen=True)
class Sampled(Profiled):
    """The loss of sampled noise in all directions at once.

    Its profile is the largest of the directions' profiles.

    Args:
        noise: "gaussian" (standard deviation 1) or "laplace" (scale 1).
        shift: change of the answer by one member of the sample, in units of the noise, > 0.
        rate: probability that a user is in the sample, in (0, 1).
        group: number of users who differ, any number of them on either side.
    """

    noise: Noise
    shift: float
    rate: float
    group: int = 1

    @property
    def scale(self) -> float:
        e = min(self.shift, 7.0)
        square = (
            math.expm1(e * e)
            if self.noise == "gaussian"
            else (2 * math.expm1(e) + math.expm1(-2 * e)) / 3
        )
        typical = self.rate * self.group * math.sqrt(square)
        return typical / (1 + typical)

    def reach_at(self, tail: float) -> float:
        return max(max(abs(end) for end in direction.ends(tail)) for direction in self.directions())

    def directions(self) -> tuple[_Direction, ...]:
        sides = range(self.group, -1, -1)
        return tuple(
            _Direction(self.noise, self.shift, self.rate, more, self.group - more) for more in sides
        )

    def pmf(self, interval: float, tail: float) -> Pmf:
        pmf = self.directions()[0].pmf(interval, tail)
        reach = min(pmf.low + len(pmf.mass), math.ceil(MOST_REACH / interval))
        return self.convex_hull(reach, interval)

    def hockey_stick(self, y: Floats) -> Floats:
        return np.asarray(np.max([direction.profile(y) for direction in self.directions()], axis=0))


@final
@dataclass(frozen=True)
class _Direction(Loss):
    """The loss if `more` users are only in the first input and `fewer` only in the second.

    The first distribution is a mixture of shifts by 0, 1, ..., `more` times `shift`, the second of
    shifts by 0, -1, ..., -`fewer` times it, each with binomial weights, so that their ratio grows
    with the place.
    """

    noise: Noise
    shift: float
    rate: float
    more: int
    fewer: int

    @property
    def scale(self) -> float:
        return Sampled(self.noise, self.shift, self.rate, self.more + self.fewer).scale

    @property
    def is_wide(self) -> bool:
        return True

    def reach_at(self, tail: float) -> float:
        return max(abs(end) for end in self.ends(tail))

    def ends(self, tail: float) -> tuple[float, float]:
        """Return the least and the largest loss, up to a probability of `tail` on either side."""
        ends = self._loss(np.array(self._edges(tail)))
        return float(ends[0]), float(ends[1])

    def pmf(self, interval: float, tail: float) -> Pmf:
        low, high = (
            side(end / interval)
            for side, end in zip((math.floor, math.ceil), self.ends(tail), strict=True)
        )
        grid = grid_of(low, high + 1, interval)
        places, missed = self._places(grid)
        masses, error = self._cells(places, self._first)
        other, other_error = self._cells(places, self._second)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            ratio = np.exp(grid[:-1]) * other / masses
            # What moves right: by the masses of the cell under both laws, with the errors of both
            # and of the places.
            share = (1 - ratio) / -math.expm1(-interval) + (
                error + other_error + missed + 8 * _ULPS
            ) / interval
        share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
        mass = np.zeros(len(grid))
        mass[1:] += share * masses * (1 + error)
        mass[:-1] += (1 - share) * masses * (1 + error)
        mass[0] += float(self._sum(self._first, places[:1], lower=True)[0]) * _UP
        infinity = float(self._sum(self._first, places[-1:], lower=False)[0]) * _UP
        return Pmf(low, mass * _UP, infinity + self._beyond)

    def profile(self, y: Floats) -> Floats:
        place, _ = self._places(np.atleast_1d(y))
        first, second = (self._sum(law, place, lower=False) for law in (self._first, self._second))
        gain = first - np.exp(np.minimum(np.atleast_1d(y), 700.0)) * second
        rounded = (
            _ULPS * 16 * (4 + np.minimum(np.abs(place), FAR + self.more * self.shift) ** 2) * first
        )
        return np.reshape(np.clip(gain + rounded, self._beyond, 1.0), np.shape(y))

    @cached_property
    def _first(self) -> list[tuple[float, float]]:
        return [
            (weight, j * self.shift) for j, weight in enumerate(_binomial(self.more, self.rate))
        ]

    @cached_property
    def _second(self) -> list[tuple[float, float]]:
        return [
            (weight, -j * self.shift) for j, weight in enumerate(_binomial(self.fewer, self.rate))
        ]

    @property
    def _beyond(self) -> float:
        """Probability of losses beyond all places that are looked at, rounded up."""
        return 2 * TINY if self.noise == "gaussian" and self.more else 0.0

    def _edges(self, tail: float) -> tuple[float, float]:
        """Return the places beyond which each distribution has at most `tail`.

        The loss of Laplace noise is constant beyond the last shift.
        """
        if self.noise == "laplace":
            return -self.fewer * self.shift, self.more * self.shift
        far = min(FAR, -float(scipy.special.ndtri(max(tail, TINY))))
        return -far - self.fewer * self.shift, far + self.more * self.shift

    def _loss(self, x: Floats) -> Floats:
        return self._log_density(self._first, x)[0] - self._log_density(self._second, x)[0]

    def _log_density(self, law: list[tuple[float, float]], x: Floats) -> tuple[Floats, Floats]:
        """Logarithm of a mixture's density over that of the noise, and its derivative.

        It keeps its digits at the smallest rates and shifts.
        """
        weights, shifts = (part[:, None] for part in np.array(law).T)
        if self.noise == "gaussian":
            logs, slope = shifts * (x - shifts / 2), shifts
        else:
            logs, slope = np.abs(x) - np.abs(x - shifts), np.sign(x) - np.sign(x - shifts)
        top = logs.max(axis=0)
        parts = weights * np.exp(logs - top)
        total = parts.sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            more = (weights * np.expm1(logs)).sum(axis=0)
        is_near = np.abs(more) < 0.5
        density = np.where(is_near, np.log1p(np.where(is_near, more, 0.0)), top + np.log(total))
        return density, (parts * slope).sum(axis=0) / total

    def _places(self, y: Floats) -> tuple[Floats, float]:
        """Return the places at which the loss passes y, and a bound on its error there.

        A place is an end of the line if the loss never passes y.
        """
        edges = np.array(self._edges(TINY))
        ends = self._loss(edges)
        inside = (y > ends[0]) & (y < ends[1])
        targets = y[inside]
        x = (
            np.clip(self._inverse(targets), *edges)
            if self.more + self.fewer == 1
            else self._search(targets)
        )
        missed = float(np.max(np.abs(self._loss(x) - targets), initial=0.0))
        beyond = (
            FAR + 1 + max(self.more, self.fewer) * self.shift
            if self.noise == "gaussian"
            else math.inf
        )
        places = np.where(y <= ends[0], -beyond, beyond)
        places[inside] = x
        return places, missed

    def _inverse(self, y: Floats) -> Floats:
        """Return the place at which one user's loss is y, in closed form.

        For an added user it is the removed one's, reflected.
        """
        sign, rate = self.more - self.fewer, self.rate
        small, large = np.minimum(sign * y, 1.0), np.maximum(sign * y, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.log1p(np.expm1(small) / rate)
        far = large + np.log1p((rate - 1) * np.exp(-large)) - math.log(rate)
        whole = np.where(sign * y < 1, np.nan_to_num(near, nan=-math.inf), far)
        return sign * (
            whole / self.shift + self.shift / 2
            if self.noise == "gaussian"
            else (whole + self.shift) / 2
        )

    def _search(self, y: Floats) -> Floats:
        """Return the place at which the loss is y, by Newton's method from a table."""
        nodes = np.unique(
            [
                *np.linspace(*self._edges(TINY), _TABLE),
                *(shift for _, shift in self._first + self._second),
            ]
        )
        table = self._loss(nodes)
        right = np.clip(np.searchsorted(table, y), 1, len(nodes) - 1)
        x = np.interp(y, table, nodes)
        for _ in range(_NEWTON if len(x) else 0):
            (first, rise), (second, fall) = (
                self._log_density(law, x) for law in (self._first, self._second)
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.nan_to_num((first - second - y) / (rise - fall), posinf=0.0, neginf=0.0)
            x = np.clip(x - step, nodes[right - 1], nodes[right])
        return x

    def _sum(self, law: list[tuple[float, float]], place: Floats, *, lower: bool) -> Floats:
        """Return the probability below each place, or above it."""
        tail = _TAILS[self.noise]
        return np.asarray(
            sum(weight * tail(place - shift if lower else shift - place) for weight, shift in law)
        )

    def _cells(self, places: Floats, law: list[tuple[float, float]]) -> tuple[Floats, Floats]:
        """Return the mass of every cell and a bound on its relative error.

        Masses are differences of the smaller tails.
        """
        mass, error = np.zeros(len(places) - 1), np.zeros(len(places) - 1)
        tail = _TAILS[self.noise]
        for weight, shift in law:
            a, b = places[:-1] - shift, places[1:] - shift
            right = a > 0
            large, small = np.where(right, tail(-a), tail(b)), np.where(right, tail(-b), tail(a))
            mass += weight * (large - small)
            # A place is good to a few ulps of its size, which moves a normal tail by z^2 ulps of
            # itself.
            far = np.where(right, np.abs(a), np.abs(b))
            error += weight * _ULPS * (4 + np.minimum(far, FAR) ** 2) * large
        return mass, error / np.maximum(mass, 1e-300)


def _binomial(size: int, rate: float) -> list[float]:
    return [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]


_TAILS: dict[Noise, Callable[[Floats], Floats]] = {
    "gaussian": lambda x: scipy.special.ndtr(x),
    "laplace": lambda x: np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2),
}
