"""Dominating pairs (P, Q) through the law of their privacy loss L = ln(P/Q) under P.

Every pair here is symmetric: the law of -L under Q is that of L under P, as guarantees hold either way round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from accounting.errors import InvalidArgument

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Floats = NDArray[np.float64]
TINY = 1e-299  # the least tail that is cut off
MOST_CELLS = 2**24  # of one law: 128 MiB


@dataclass(frozen=True)
class Pmf:
    """Mass at (low + i) * interval for every i, and at infinity; each an upper bound. The sum may exceed 1 by rounding only."""

    low: int
    mass: Floats
    infinity: float


class Loss(Protocol):
    """The privacy loss of one dominating pair."""

    @property
    def scale(self) -> float:
        """A typical size of the loss in nats; it chooses grids and nothing else."""
        ...

    @property
    def period(self) -> float:
        """A loss that grids should hit, for its atoms; 0 if there is none."""
        ...

    @property
    def reach(self) -> float:
        """No finite loss of any weight lies beyond +-reach; it says whether a grid fits into memory."""
        ...

    def pmf(self, interval: float, tail: float) -> Pmf:
        """The loss on multiples of `interval`, rounded so that no divergence shrinks (Theorem P2).

        Up to a mass of `tail` is cut off on either side: counted as infinite above, moved up to the lowest point below.
        """
        ...

    def profile(self, y: Floats) -> Floats:
        """Hockey-stick divergence at every real y, rounded up."""
        ...


@runtime_checkable
class Law(Loss, Protocol):
    """A loss whose distribution function is known, so that it can be rounded down as well."""

    def cell(self, left: Floats, right: Floats) -> Floats:
        """P(left < L <= right), to 1e-12 relative."""
        ...


@dataclass(frozen=True)
class Losses:
    """The steps of a plan as (count, loss), and `added`, the probability of the bad events outside which they hold."""

    steps: tuple[tuple[int, Loss], ...] = ()
    added: float = 0.0


@runtime_checkable
class Dominated(Protocol):
    """A curve that may have a dominating pair."""

    def losses(self) -> Losses | None:
        """The pairs of all its steps; None if one of them has none."""
        ...


def to_dp_accounting(loss: Loss, interval: float) -> PrivacyLossDistribution:
    """`loss` as a pessimistic dp-accounting object on a grid of `interval` nats."""
    from dp_accounting.pld import privacy_loss_distribution

    require_bearable(max(loss.period, 40 * loss.scale), interval)
    pmf = loss.pmf(interval, TINY)
    masses = {pmf.low + i: mass for i, mass in enumerate(pmf.mass.tolist()) if mass > 0}
    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(masses, pmf.infinity, interval)


def require_bearable(reach: float, interval: float) -> None:
    """Refuse a grid that would fill the memory, losses reaching to about `reach` nats either way.

    Raises:
        InvalidArgument: the interval is no finite number > 0, or the losses span more than 2^24 of it.
    """
    if isinstance(interval, bool) or not isinstance(interval, int | float) or not 0 < interval < math.inf:
        raise InvalidArgument(f"interval={str(interval)[:30]} must be a finite number > 0, in nats")
    if not 2 * reach <= MOST_CELLS * interval:
        raise InvalidArgument(
            f"interval={interval!r} is too fine for losses of about {reach:.3g} nats: the grid would have more than "
            f"{MOST_CELLS:,} points. Take a larger interval, or read epsilon and delta of the curve, which need no grid"
        )


def failing(delta0: float, interval: float) -> PrivacyLossDistribution:
    """A dp-accounting object that loses nothing but, with probability `delta0`, everything; finite mass stays 1 (Theorem P1)."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability({0: 1.0}, delta0, interval)


def grid_of(low: int, high: int, interval: float) -> Floats:
    """low, ..., high times `interval`."""
    grid: Floats = np.arange(low, high + 1, dtype=np.float64) * interval
    return grid


def split(mass: Floats, cell: Floats, share: Floats) -> None:
    """Add the mass of every cell to its two ends, `share` of it to the right one."""
    mass[1:] += share * cell
    mass[:-1] += (1 - share) * cell
