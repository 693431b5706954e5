"""Gaussian differential privacy: exactly the Gaussian mechanism."""

from __future__ import annotations

import math
from typing import Literal, Self, final

import numpy as np
from pydantic import Field

from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution, require_bearable
from accounting.conversion.pld.normal import PAD, Normal
from accounting.curves.base import Floats, OneParameter
from accounting.decimal_sum import exact, float_up, times_up
from accounting.frozen import NonNegative

_ROOT_HALF, _LOG_ROOT_2PI = math.sqrt(0.5), math.log(2 * math.pi) / 2
# Beyond, the rounded argument of erfc weighs more than the rounded square, and Laplace's continued fraction is good to an ulp.
_FAR, _LEVELS = -4.0, 40
_LEAST_RHO = 1e-300  # more than what underflow takes off a sum of 10^18 squares


@final
class GaussianDP(OneParameter):
    """No easier to tell apart than N(0, 1) from N(mu, 1). Theorem C3 (exact).

    Args:
        mu: shift over standard deviation of the noise, >= 0.

    Example:
        >>> import accounting as acc
        >>> round(acc.GaussianDP(mu=1.0).epsilon(1e-6), 4)
        4.8866
    """

    kind: Literal["gaussian_dp"] = "gaussian_dp"
    mu: NonNegative = Field(description="a finite mu >= 0: sensitivity over standard deviation")

    @classmethod
    def of_rho(cls, rho: float) -> Self:
        """The mechanism with this zCDP parameter > 0, its mu rounded up; squares of tiny ones have underflowed."""
        return cls(mu=math.nextafter(math.sqrt(2 * max(rho, _LEAST_RHO)), math.inf))

    @property
    def parameter(self) -> float:
        return self.mu

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return orders * (parameter * parameter / 2)

    @property
    def rho(self) -> float:
        return self.mu * self.mu / 2

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.mu == 0 else math.inf

    @property
    def mu_squared(self) -> float:
        return float_up(1, times_up(exact(self.mu), exact(self.mu)))

    def profile(self, epsilon: float) -> float:
        if self.mu == 0:
            return 0.0
        first = _log_ndtr(self.mu / 2 - epsilon / self.mu)
        if first == -math.inf:
            return math.ulp(0.0)
        second = epsilon + _log_ndtr(-self.mu / 2 - epsilon / self.mu)
        # The two terms are rounded to a few ulps of their logarithms; the pad keeps the difference an upper bound.
        pad = PAD * (4 + abs(first) + abs(second) + epsilon)
        value = math.exp(first) * (max(0.0, -math.expm1(min(0.0, second - first))) + pad)
        # One up, for products below the normal floats, 0 among them: a Gaussian has no pure guarantee.
        return min(1.0, math.nextafter(value, 1.0))

    def losses(self) -> Losses:
        return Losses(((1, Normal(self.mu)),)) if self.mu > 0 else Losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        require_bearable(self.mu * (self.mu / 2 + 10), interval)
        if self.mu == 0:
            return privacy_loss_distribution.identity(interval)
        return privacy_loss_distribution.from_gaussian_mechanism(1 / self.mu, value_discretization_interval=interval)


def _log_ndtr(z: float) -> float:
    """Log P[Z <= z]; not by SciPy, which takes longer to import than most plans to price."""
    if z > 0:
        return math.log1p(-math.erfc(z * _ROOT_HALF) / 2)
    if z > _FAR:
        return math.log(math.erfc(-z * _ROOT_HALF) / 2)
    fraction = -z
    for numerator in range(_LEVELS, 0, -1):
        fraction = numerator / fraction - z
    return -z * z / 2 - math.log(fraction) - _LOG_ROOT_2PI
