"""The Gaussian mechanism on a secret Poisson sample, exactly: a step of private stochastic gradient descent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field

from accounting.arguments import Relation
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.conversion.pld.normal import SampledNormal
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
    def _loss(self) -> SampledNormal:
        return SampledNormal(self.mu, self.rate)

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
