"""The Gaussian mechanism on a secret Poisson sample, exactly: a step of private stochastic gradient descent.

Its privacy loss where the user is removed is another one than where the user is added.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, final

import numpy as np
import scipy
from pydantic import Field

from accounting.arguments import Relation
from accounting.convert.pld.hull import MOST_REACH, Profiled
from accounting.convert.pld.loss import FAR, TINY, Loss, Losses, Pmf, PrivacyLossDistribution, grid_of
from accounting.curves.base import Floats, Undoubted
from accounting.curves.profile_table import RenyiTable
from accounting.frozen import Positive

_ORDERS = [*np.arange(1.1, 4.95, 0.1).round(1), *range(5, 65), *range(72, 129, 8), 160, 192, 256, 384, 512, 768, 1024]
# dp-accounting adds series in logarithms and stops where a term is below e^-30: far less than one part in 10^9, or 10^-10 nats.
_OUTWARD, _MORE = 1 + 1e-9, 1e-10
_LEAST_MU = 1e-7  # below, the bound is less than what is added; dp-accounting's series overflow


@final
class SampledGaussianDP(Undoubted):
    """Gaussian noise on a secret sample that each user is in with probability `rate`; add_remove only. Theorem P10.

    Args:
        mu: shift over standard deviation of the noise for a user who is in the sample, > 0.
        rate: sampling probability, in (0, 1).

    Example:
        >>> import accounting as acc
        >>> round((1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)).epsilon(1e-6), 2)
        2.12
    """

    kind: Literal["sampled_gaussian_dp"] = "sampled_gaussian_dp"
    mu: Annotated[Positive, Field(le=1e100)] = Field(description="a mu > 0, <= 1e100: sensitivity over standard deviation")
    rate: Annotated[Positive, Field(lt=1)] = Field(description="a probability in (0, 1)")

    def _rdp(self, orders: Floats) -> Floats:
        return renyi_of_sampled_gaussian(self.mu, self.rate)._rdp(orders)

    @property
    def rho(self) -> float:
        return float("inf")

    @property
    def core_epsilon(self) -> float:
        return float("inf")

    @property
    def proved_for(self) -> Relation:
        return "add_remove"

    @property
    def table_orders(self) -> tuple[float, ...]:
        return renyi_of_sampled_gaussian(self.mu, self.rate).orders

    def profile(self, epsilon: float) -> float:
        return max(float(self._loss.profile(np.array([epsilon]))[0]), 5e-324)

    @property
    def _loss(self) -> _SampledNormal:
        return _SampledNormal(self.mu, self.rate)

    def losses(self) -> Losses:
        """Its two dominating pairs, one for each direction (Theorem P10)."""
        return Losses(((1, self._loss),))

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            1 / self.mu, sampling_prob=self.rate, value_discretization_interval=interval
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without dp-accounting's warning for each order at which it gives no bound: those orders are left out below."""
    log = logging.getLogger("absl")
    log.addFilter(_says_more)
    try:
        yield
    finally:
        log.removeFilter(_says_more)


def _says_more(record: logging.LogRecord) -> bool:
    return "Excluding this order" not in record.getMessage()


@lru_cache(maxsize=256)
def renyi_of_sampled_gaussian(mu: float, rate: float) -> RenyiTable:
    """dp-accounting's Renyi bound, rounded up; monotone, and without the orders at which it gives none."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders=_ORDERS)
    with _quiet():
        accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(1 / max(mu, _LEAST_MU))))
    # dp-accounting gives inf, or bounds that are too large, at some fractional orders: a larger order's bound holds there too.
    finite = np.isfinite(accountant.rdp)
    values = np.minimum.accumulate(np.maximum(accountant.rdp[finite], 0.0)[::-1])[::-1] * _OUTWARD + _MORE
    return RenyiTable(orders=np.array(_ORDERS, dtype=np.float64)[finite].tolist(), values=values.tolist())


_NORMAL_UP, _ULPS = 1 + 1e-11, 4e-16  # of sampled laws


@final
@dataclass(frozen=True)
class _SampledNormal(Profiled):
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
        return self.mu * (self.mu / 2 + FAR)

    def directions(self) -> tuple[Loss, Loss]:
        return _Directed(self.mu, self.rate, removed=True), _Directed(self.mu, self.rate, removed=False)

    def pmf(self, interval: float, tail: float) -> Pmf:
        one = self.directions()[0].pmf(interval, tail)
        reach = min(one.low + len(one.mass), math.ceil(MOST_REACH / interval))
        return self.hulled(reach, interval)

    def ahead(self, y: Floats) -> Floats:
        return np.asarray(np.max([one.profile(y) for one in self.directions()], axis=0))


@final
@dataclass(frozen=True)
class _Directed(Loss):
    """One direction. With M = (1 - rate) N(0, 1) + rate N(mu, 1): M against N(0, 1) if removed, N(0, 1) against M if added."""

    mu: float
    rate: float
    removed: bool

    @property
    def scale(self) -> float:
        return _SampledNormal(self.mu, self.rate).scale

    @property
    def reach(self) -> float:
        return _SampledNormal(self.mu, self.rate).reach

    def pmf(self, interval: float, tail: float) -> Pmf:
        far = min(FAR, -float(scipy.special.ndtri(max(tail, TINY))))
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
        mass[0] += float(self._beneath(places[0])) * _NORMAL_UP
        return Pmf(low, mass * _NORMAL_UP, float(self._tail(places[-1], mixed=self.removed)) * _NORMAL_UP)

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
            return np.clip((logs - math.log(self.rate) + self.mu**2 / 2) / self.mu, -FAR - 1, FAR + 1 + self.mu)

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
