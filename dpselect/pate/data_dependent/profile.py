"""What a round costs as a function of two numbers of its votes, and how much d teachers can change that. Theorems P21 to P24."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.pate.data_dependent.censored import censored_rdp, plain_rdp

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KNOTS = 16_000  # about how many knots a table has: fewer per vote where there are many teachers
_FEWEST, _MOST = 8, 128  # knots in two votes, what one teacher can move a gap by
_SLACK = 1e-6  # of a knot: more than a gap is off in floating point, so that rounding is downwards
_PAD, _ULPS = 1e-14, 1e-15  # on a logarithm of a sum near 1: absolute, and relative to the terms that were added up
_ROUNDED = 1 + 1e-9  # sums of many floats, and steps between table values that are only rounded up
_FLOOR = 2.0**-30  # of the most that a sensitivity can be: the public number that it is never below


@dataclass(frozen=True)
class Lattice:
    """Equivalent gaps from 0 to the number of teachers, a public number, in equal steps, for GNMax of noise sigma, in votes."""

    teachers: int
    labels: int
    sigma: float

    @property
    def per_move(self) -> int:
        """Steps in two votes."""
        return int(np.clip(_KNOTS // self.teachers, _FEWEST, _MOST))

    @property
    def reach(self) -> int:
        """The most steps that one teacher moves a gap by; one more than in exact arithmetic, for rounding to knots."""
        return self.per_move + 1

    @property
    def last(self) -> int:
        """The step of an unanimous vote."""
        return -(-self.teachers * self.per_move // 2)

    def steps(self, counts: Integers) -> Integers:
        """(rounds,) equivalent gaps in steps, rounded down, of (rounds, labels) counts."""
        log_share = np.minimum(log_disagreement(counts, self.sigma) - math.log(self.labels - 1), math.log(0.5))
        gaps = -scipy.special.ndtri_exp(log_share) * math.sqrt(2) * self.sigma
        return np.clip(np.floor(gaps * self.per_move / 2 - _SLACK), 0, self.last).astype(np.int64)

    def log_q(self, steps: Integers) -> Floats:
        """ln of the bound on the probability of another outcome at these steps, an upper end."""
        gaps = steps * 2 / self.per_move
        return math.log(self.labels - 1) + scipy.special.log_ndtr(-gaps / (math.sqrt(2) * self.sigma))


def log_disagreement(counts: Integers, sigma: float) -> Floats:
    """(rounds,) ln of a bound on P[GNMax does not return the most voted label], by the union over labels. Theorem P21."""
    rows = np.arange(len(counts))
    winners = counts.argmax(axis=1)
    gaps = (counts[rows, winners][:, None] - counts).astype(np.float64)
    beaten = scipy.special.log_ndtr(-gaps / (math.sqrt(2) * sigma))
    beaten[rows, winners] = -np.inf
    return np.asarray(np.logaddexp.reduce(beaten, axis=1), dtype=np.float64)


@final
class RangeMax:
    """Maxima over ranges of a fixed table of (n,) numbers, n >= 1, by ranges of every power of two."""

    def __init__(self, values: Floats) -> None:
        self._levels = [values]
        while 2 ** len(self._levels) <= len(values):
            last, half = self._levels[-1], 2 ** (len(self._levels) - 1)
            self._levels.append(np.maximum(last[:-half], last[half:]))

    @property
    def most(self) -> float:
        """The largest value of all."""
        return float(self._levels[0].max())

    def __call__(self, low: Integers, high: Integers) -> Floats:
        """(m,) maxima of values[low], ..., values[high], both clipped to the table."""
        last = len(self._levels[0]) - 1
        low, high = np.clip(low, 0, last), np.clip(high, 0, last)
        level = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        found = np.empty(len(low))
        for size in np.unique(level):
            at, width = np.flatnonzero(level == size), 2 ** int(size)
            found[at] = np.maximum(self._levels[size][low[at]], self._levels[size][high[at] + 1 - width])
        return found


class Threshold(NamedTuple):
    """The test of ConfidentGNMax: the count to reach, and the standard deviation of its noise, in votes."""

    level: float
    sigma: float


class States(NamedTuple):
    """Rounds by their largest count and their equivalent gap in steps. (rounds,) each; private."""

    largest: Integers
    gap: Integers


@dataclass(frozen=True)
class Profile:
    """The cost of a round at one order: fixed[v] + share[v] * gnmax[i], for the largest count v and the equivalent gap i.

    A function of configuration only. GNMax has fixed = 0 and share = 1.
    """

    order: float
    lattice: Lattice
    threshold: Threshold | None

    @cached_property
    def gnmax(self) -> Floats:
        """(last + 1,) nats of GNMax by the gap, non-increasing."""
        bound = censored_rdp(self.order, self.lattice.sigma, self.lattice.log_q(np.arange(self.lattice.last + 1)))
        return np.maximum.accumulate(bound[::-1])[::-1]

    @cached_property
    def fixed(self) -> Floats:
        """(teachers + 1,) nats that the test alone costs."""
        return self._behind(0.0)

    @cached_property
    def share(self) -> Floats:
        """(teachers + 1,) slope of the chord, by convexity an upper bound, in what GNMax behind the test costs."""
        if self.threshold is None:
            return np.ones(self.lattice.teachers + 1)
        most = plain_rdp(self.order, self.lattice.sigma)
        return np.maximum(self._behind(most) - self.fixed, 0.0) / most * (1 + 1e-14)

    @property
    def plain(self) -> float:
        """Nats of a round whatever the votes."""
        test = 0.0 if self.threshold is None else plain_rdp(self.order, math.sqrt(2) * self.threshold.sigma)
        return plain_rdp(self.order, self.lattice.sigma) + test

    def total(self, states: States) -> float:
        """Nats of all rounds, rounded up."""
        return self._sum(states, self.gnmax[states.gap])

    def quick_total(self, states: States) -> float:
        """`total` without making the table for all gaps; not what `smooth` belongs to, by rounding."""
        return self._sum(states, censored_rdp(self.order, self.lattice.sigma, self.lattice.log_q(states.gap)))

    def _sum(self, states: States, gnmax: Floats) -> float:
        return math.fsum(self.fixed[states.largest] + self.share[states.largest] * gnmax) * (1 + 1e-12)

    def smooth(self, states: States, beta: float) -> float:
        """A beta-smooth upper bound on what one teacher changes in `total`, in nats, not below a public floor. Theorem P24."""
        # How far it walks is fixed by configuration: beyond, nothing exceeds the floor. The time taken does not tell the votes.
        farthest = min(self.lattice.teachers, math.ceil(-math.log(_FLOOR) / beta))
        terms = (math.exp(-beta * distance) * self.local(states, distance) for distance in range(farthest + 1))
        return max(*terms, _FLOOR * len(states.gap) * self._steepest) * _ROUNDED

    def local(self, states: States, distance: int) -> float:
        """An upper bound on what one teacher changes in `total`, at votes that `distance` teachers may have changed before."""
        low, high = states.largest - distance - 1, states.largest + distance
        near, far = states.gap - (distance + 1) * self.lattice.reach, states.gap + distance * self.lattice.reach
        test = self._fixed_steps(low, high) + self._share_steps(low, high) * self.gnmax[np.maximum(near, 0)]
        return math.fsum(test + self._shares(low, high + 1) * self._drops(near, far))

    def _behind(self, cost: float) -> Floats:
        if self.threshold is None:
            return np.zeros(self.lattice.teachers + 1)
        return threshold_costs(self.order, self.threshold.level, self.threshold.sigma, self.lattice.teachers, cost)

    @cached_property
    def _drops(self) -> RangeMax:
        later = np.minimum(np.arange(len(self.gnmax)) + self.lattice.reach, self.lattice.last)
        return RangeMax(self.gnmax - self.gnmax[later])

    @cached_property
    def _fixed_steps(self) -> RangeMax:
        return RangeMax(np.abs(np.diff(self.fixed)))

    @cached_property
    def _share_steps(self) -> RangeMax:
        return RangeMax(np.abs(np.diff(self.share)))

    @cached_property
    def _shares(self) -> RangeMax:
        return RangeMax(self.share)

    @cached_property
    def _steepest(self) -> float:
        """More than `local` can be of one round."""
        tests = self._fixed_steps.most + self._share_steps.most * float(self.gnmax[0])
        return (tests + self._shares.most * self._drops.most) * _ROUNDED


def threshold_costs(order: float, threshold: float, sigma: float, teachers: int, behind: float) -> Floats:
    """(teachers + 1,) nats: a test of the largest count v = 0, 1, ... and, if it passes, a release that costs `behind`.

    The largest exact cost over counts within one vote of v, both ways round. `behind` is in nats and holds both ways round too;
    the threshold, that the largest noisy count must reach, and `sigma`, of the test's noise, are in votes.
    """
    above = (np.arange(teachers + 1) - threshold) / sigma
    here = scipy.special.log_ndtr(above), scipy.special.log_ndtr(-above)
    costs = []
    for step in (-1, 0, 1):
        there = np.roll(here[0], step), np.roll(here[1], step)
        costs.append(np.maximum(_divergence(order, here, there, behind), _divergence(order, there, here, behind)))
    costs[0][-1] = costs[2][0] = 0.0  # no count lies beyond the ends
    return np.maximum.reduce(costs)


def _divergence(order: float, p: tuple[Floats, Floats], q: tuple[Floats, Floats], behind: float) -> Floats:
    """From logarithms of the probabilities to pass and to fail, under P and under Q. Rounded up."""
    passed = order * p[0] + (1 - order) * q[0] + (order - 1) * behind
    failed = order * p[1] + (1 - order) * q[1]
    total = np.logaddexp(passed, failed)
    sizes = np.exp(passed - total) * (np.abs(order * p[0]) + np.abs(order * q[0]) + order * behind)
    sizes += np.exp(failed - total) * (np.abs(order * p[1]) + np.abs(order * q[1]))
    return np.maximum(total + _PAD + _ULPS * sizes, 0.0) / (order - 1) * (1 + 1e-14)
