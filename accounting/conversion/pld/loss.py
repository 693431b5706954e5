"""Dominating pairs (P, Q) through the law of their privacy loss L = ln(P/Q) under P.

Every pair here is symmetric: the law of -L under Q is that of L under P, as guarantees hold either way round.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accounting.errors import InvalidArgument

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution as PrivacyLossDistribution
else:
    PrivacyLossDistribution = Any  # only annotations name it, and dp-accounting takes a second to import

Floats = NDArray[np.float64]
TINY = 1e-299  # the least tail that is cut off
MOST_CELLS = 2**24  # of one law: 128 MiB


@dataclass(frozen=True)
class Pmf:
    """Mass at (low + i) * interval for every i, and at infinity; each an upper bound. The sum may exceed 1 by rounding only."""

    low: int
    mass: Floats
    infinity: float


class Loss(ABC):
    """The privacy loss of one dominating pair."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """A typical size of the loss in nats; it chooses grids and nothing else."""

    @property
    def period(self) -> float:
        """A loss that grids should hit, for its atoms; 0 if there is none."""
        return 0.0

    @property
    @abstractmethod
    def reach(self) -> float:
        """No finite loss of any weight lies beyond +-reach; it says whether a grid fits into memory."""

    @abstractmethod
    def pmf(self, interval: float, tail: float) -> Pmf:
        """The loss on multiples of `interval`, rounded so that no divergence shrinks (Theorem P2).

        Up to a mass of `tail` is cut off on either side: counted as infinite above, moved up to the lowest point below.
        """

    @abstractmethod
    def profile(self, y: Floats) -> Floats:
        """Hockey-stick divergence at every real y, rounded up."""


class Law(Loss, ABC):
    """A loss whose distribution function is known, so that it can be rounded down as well."""

    @abstractmethod
    def cell(self, left: Floats, right: Floats) -> Floats:
        """P(left < L <= right), to 1e-12 relative."""


@dataclass(frozen=True)
class Losses:
    """The steps of a plan as (count, loss), and `added`, the probability of the bad events outside which they hold."""

    steps: tuple[tuple[int, Loss], ...] = ()
    added: float = 0.0


def to_dp_accounting(loss: Loss, interval: float) -> PrivacyLossDistribution:
    """`loss` as a pessimistic dp-accounting object on a grid of `interval` nats."""
    require_bearable(max(loss.period, 40 * loss.scale), interval)
    pmf = loss.pmf(interval, TINY)
    return on_grid({pmf.low + i: mass for i, mass in enumerate(pmf.mass.tolist()) if mass > 0}, pmf.infinity, interval)


def require_bearable(reach: float, interval: float) -> None:
    """Refuse a grid that would fill the memory, losses reaching to about `reach` nats either way."""
    if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 < interval < math.inf:
        raise InvalidArgument(f"interval={str(interval)[:30]} must be a finite number > 0, in nats")
    if not 2 * reach <= MOST_CELLS * interval:
        raise InvalidArgument(
            f"interval={interval!r} is too fine for losses of about {reach:.3g} nats: the grid would have more than "
            f"{MOST_CELLS:,} points. Take a larger interval, or read epsilon and delta of the curve, which need no grid"
        )


def failing(delta0: float, interval: float) -> PrivacyLossDistribution:
    """A dp-accounting object that loses nothing but, with probability `delta0`, everything; finite mass stays 1 (Theorem P1)."""
    return on_grid({0: 1.0}, delta0, interval)


def on_grid(masses: Mapping[int, float], infinity: float, interval: float) -> PrivacyLossDistribution:
    """A pessimistic dp-accounting object of these masses at multiples of `interval`, and at infinity."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(masses, infinity, interval)


def grid_of(low: int, high: int, interval: float) -> Floats:
    """low, ..., high times `interval`."""
    grid: Floats = np.arange(low, high + 1, dtype=np.float64) * interval
    return grid


def split(mass: Floats, cell: Floats, share: Floats) -> None:
    """Add the mass of every cell to its two ends, `share` of it to the right one."""
    mass[1:] += share * cell
    mass[:-1] += (1 - share) * cell
