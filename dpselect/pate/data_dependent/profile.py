"""What a round costs as a function of two numbers, and how much any d teachers can change that. Theorems P22 and P24."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpselect.pate.data_dependent.bound import censored_rdp, plain_rdp
from dpselect.pate.data_dependent.lattice import Lattice
from dpselect.pate.data_dependent.range import RangeMax
from dpselect.pate.data_dependent.threshold import threshold_costs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDED = 1 + 1e-9  # sums of many floats, and steps between table values that are only rounded up


class Threshold(NamedTuple):
    """The test of ConfidentGNMax: the count to reach, and the standard deviation of its noise, in votes."""

    level: float
    sigma: float


class States(NamedTuple):
    """Rounds of the same kind: largest count, equivalent gap in steps, and how many rounds. (n,) each; private."""

    largest: Integers
    gap: Integers
    number: Integers


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
        costs = self.fixed[states.largest] + self.share[states.largest] * gnmax
        return math.fsum(costs * states.number) * (1 + 1e-12)

    def smooth(self, states: States, beta: float) -> float:
        """A beta-smooth upper bound on what one teacher changes in `total`, in nats. Theorem P24."""
        rounds, best, distance = int(states.number.sum()), 0.0, 0
        while math.exp(-beta * distance) * rounds * self._steepest > best and distance <= self.lattice.teachers:
            best = max(best, math.exp(-beta * distance) * self.local(states, distance))
            distance += 1
        return best * _ROUNDED

    def local(self, states: States, distance: int) -> float:
        """An upper bound on what one teacher changes in `total`, at votes that `distance` teachers may have changed before."""
        largest, gap, number = states
        test, weight, within = self._nearby(largest, gap, distance)
        return math.fsum(
            (test + weight * self.gnmax[within] + self._most_share(largest, distance) * self._drop(gap, distance)) * number
        )

    def _nearby(self, largest: Integers, gap: Integers, distance: int) -> tuple[Floats, Floats, Integers]:
        low, high = largest - distance - 1, largest + distance
        within = np.maximum(gap - (distance + 1) * self.lattice.reach, 0)
        return self._fixed_steps(low, high), self._share_steps(low, high), within

    def _most_share(self, largest: Integers, distance: int) -> Floats:
        return self._shares(largest - distance - 1, largest + distance + 1)

    def _drop(self, gap: Integers, distance: int) -> Floats:
        reach = self.lattice.reach
        return self._drops(gap - (distance + 1) * reach, gap + distance * reach)

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
