"""Mechanisms on a secret Poisson sample, exactly: a step of private stochastic gradient descent; groups, and Laplace noise.

The privacy loss where users are removed is another one than where they are added. These curves say how an answer is made, a
sample and then a mechanism of that curve, and not only what two neighbours can tell apart: groups of users rest on that.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field

from accounting.arguments import Relation
from accounting.convert.gaussian_cover import pure_mu_squared
from accounting.convert.pld.loss import Losses
from accounting.convert.pld.sampled_noise import Noise, Sampled
from accounting.curves.base import Floats, Undoubted
from accounting.curves.closed_form import GaussianDP, LaplaceDP, PureDP
from accounting.curves.profile_table import RenyiTable
from accounting.decimal_sum import decimal_sum
from accounting.frozen import Count, Positive

_ORDERS = [*np.arange(1.1, 4.95, 0.1).round(1), *range(5, 65), *range(72, 129, 8), 160, 192, 256, 384, 512, 768, 1024]
# dp-accounting adds series in logarithms and stops where a term is below e^-30: far less than one part in 10^9, or 10^-10 nats.
_OUTWARD, _MORE = 1 + 1e-9, 1e-10
MOST_EXACT = 16  # users of a group whose numbers on either side are all looked at
_LEAST_MU = 1e-7  # below, the bound is less than what is added; dp-accounting's series overflow


class _OnASample(Undoubted, ABC):
    """Noise on a secret Poisson sample. Theorem P11: no divergence is larger than that of the group in every sample."""

    @property
    @abstractmethod
    def _loss(self) -> Sampled:
        """Its dominating pairs."""

    @property
    def _unsampled(self) -> GaussianDP | LaplaceDP:
        loss = self._loss
        shift = decimal_sum([(loss.group, loss.shift)])
        return GaussianDP(mu=shift) if loss.noise == "gaussian" else LaplaceDP(epsilon=shift)

    @property
    def _table(self) -> RenyiTable | None:
        """Of one user, by Mironov, Talwar and Zhang (2019); of groups no better bound is known than that of the whole."""
        loss = self._loss
        if loss.group > 1:
            return None
        made = _renyi_of_sampled_gaussian if loss.noise == "gaussian" else _renyi_of_sampled_laplace
        return made(loss.shift, loss.rate)

    @final
    def _rdp(self, orders: Floats) -> Floats:
        bounds = [self._unsampled._rdp(orders)]
        bounds += [] if self._table is None else [self._table._rdp(orders)]
        bounds += [] if math.isinf(self.core_epsilon) else [PureDP(epsilon=self.core_epsilon)._rdp(orders)]
        return np.asarray(np.min(bounds, axis=0))

    @final
    @property
    def rho(self) -> float:
        own = math.inf if math.isinf(self.core_epsilon) else PureDP(epsilon=self.core_epsilon).rho
        return min(own, self._unsampled.rho)

    @final
    @property
    def core_epsilon(self) -> float:
        loss = self._loss
        if loss.noise == "gaussian":
            return math.inf
        each = loss.shift if loss.shift > 700 else math.log1p(loss.rate * math.expm1(loss.shift)) * (1 + 1e-14)
        return min(decimal_sum([(loss.group, each)]), self._unsampled.core_epsilon)

    @final
    @property
    def mu_squared(self) -> float:
        return min(self._unsampled.mu_squared, pure_mu_squared(self.core_epsilon))

    @final
    @property
    def proved_for(self) -> Relation:
        return "add_remove"

    @final
    @property
    def table_orders(self) -> tuple[float, ...]:
        return () if self._table is None else self._table.orders

    @final
    def profile(self, epsilon: float) -> float:
        least = 5e-324 if epsilon < self.core_epsilon else 0.0
        return max(float(self._loss.profile(np.array([epsilon]))[0]), least)

    @final
    def losses(self) -> Losses:
        """Its dominating pairs, one for each number of users on either side."""
        return Losses(((1, self._loss),))


@final
class SampledGaussianDP(_OnASample):
    """Gaussian noise on a secret sample that each user is in with probability `rate`; add_remove only. Theorems P10 and P11.

    rho and mu^2 are those of `GaussianDP(mu)`, and no smaller ones hold, whatever the rate: at large orders, and far out in the
    tail, the sample hides nothing. A budget that adds up either pays for all of the noise; one of a Renyi order pays less.

    Example:
        >>> import accounting as acc
        >>> round((1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)).epsilon(1e-6), 2)
        2.12
    """

    kind: Literal["sampled_gaussian_dp"] = "sampled_gaussian_dp"
    mu: Annotated[Positive, Field(le=1e100)] = Field(description="a mu > 0, <= 1e100: sensitivity over standard deviation")
    rate: Annotated[Positive, Field(lt=1)] = Field(description="a sampling probability in (0, 1)")

    @property
    def _loss(self) -> Sampled:
        return Sampled("gaussian", self.mu, self.rate)


@final
class SampledNoiseDP(_OnASample):
    """Laplace or Gaussian noise on such a sample, for a group of users who may be on either side; add_remove only. Theorem P11.

    Args:
        noise: "gaussian" or "laplace".
        shift: what one user of the sample moves the answer by, over the scale of the noise (its standard deviation if Gaussian).
        rate: sampling probability, in (0, 1).
        group: how many users differ, from 1 to 16.

    Example:
        >>> import accounting as acc
        >>> one, four = (acc.curves.SampledNoiseDP(noise="laplace", shift=0.5, rate=0.1, group=size) for size in (1, 4))
        >>> round((200 * one).epsilon(1e-6), 2), round((200 * four).epsilon(1e-6), 2)
        (3.13, 14.97)
    """

    kind: Literal["sampled_noise_dp"] = "sampled_noise_dp"
    noise: Noise = Field(description="'gaussian' or 'laplace'")
    shift: Annotated[Positive, Field(le=1e100)] = Field(description="a shift > 0, <= 1e100, over the scale of the noise")
    rate: Annotated[Positive, Field(lt=1)] = Field(description="a sampling probability in (0, 1)")
    group: Annotated[Count, Field(le=MOST_EXACT)] = Field(default=1, description="a number of users, from 1 to 16")

    @property
    def _loss(self) -> Sampled:
        return Sampled(self.noise, self.shift, self.rate, self.group)


_CELLS, _LOG_2 = 8192, math.log(2)


@lru_cache(maxsize=256)
def _renyi_of_sampled_laplace(shift: float, rate: float) -> RenyiTable:
    """Of the mixture against the noise alone, which is the larger (Mironov, Talwar and Zhang 2019, Theorem 5); rounded up.

    The integrand is log-convex in the loss of the unsampled noise, so that trapezoids lie above it.
    """
    y = np.linspace(-shift, shift, _CELLS + 1)
    sampled, values = np.logaddexp(math.log1p(-rate), math.log(rate) + y), []
    for order in _ORDERS:
        logs = float(order) * sampled - (y + shift) / 2
        terms = np.append(np.logaddexp(logs[1:], logs[:-1]) + math.log(shift / _CELLS / 4), [logs[0] - _LOG_2, logs[-1] - _LOG_2])
        top = float(terms.max())
        total = top + math.log(float(np.exp(terms - top).sum()))
        values.append(max(0.0, total * (1 + 1e-13) + 1e-12) / (float(order) - 1))
    # What trapezoids add weighs most near order 1: a larger order's bound holds there too.
    return RenyiTable(orders=[float(order) for order in _ORDERS], values=np.minimum.accumulate(values[::-1])[::-1].tolist())


def _says_more(record: logging.LogRecord) -> bool:
    return "Excluding this order" not in record.getMessage()


@lru_cache(maxsize=256)
def _renyi_of_sampled_gaussian(mu: float, rate: float) -> RenyiTable:
    """dp-accounting's Renyi bound, rounded up; monotone, and without the orders at which it gives none."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders=_ORDERS)
    log = logging.getLogger("absl")
    log.addFilter(_says_more)  # a warning for each order at which dp-accounting gives no bound: those are left out below
    try:
        accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(1 / max(mu, _LEAST_MU))))
    finally:
        log.removeFilter(_says_more)
    # dp-accounting gives inf, or bounds that are too large, at some fractional orders: a larger order's bound holds there too.
    finite = np.isfinite(accountant.rdp)
    values = np.minimum.accumulate(np.maximum(accountant.rdp[finite], 0.0)[::-1])[::-1] * _OUTWARD + _MORE
    return RenyiTable(orders=np.array(_ORDERS, dtype=np.float64)[finite].tolist(), values=values.tolist())
