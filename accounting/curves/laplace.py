"""The scalar Laplace mechanism, exactly."""

from __future__ import annotations

import math
from typing import Literal, final

import numpy as np

from accounting.conversion.gaussian_cover import laplace_mu_squared
from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution, require_bearable
from accounting.curves.base import Floats, OneEpsilon

_SERIES_TERMS = 12  # below |z| = 1/2 the remainder is under 2^-53 of the sum


@final
class LaplaceDP(OneEpsilon):
    """No easier to tell apart than Laplace(0, 1/epsilon) from Laplace(1, 1/epsilon). Theorem C4 (exact).

    Args:
        epsilon: sensitivity over scale of the noise, nats, >= 0.

    Example:
        >>> import accounting as acc
        >>> round(acc.LaplaceDP(epsilon=1.0).delta(0.5), 4)
        0.2212
    """

    kind: Literal["laplace_dp"] = "laplace_dp"

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        up, down = (orders - 1) * parameter, orders * parameter
        weight = orders / (2 * orders - 1)
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.log1p(weight * _excess(up) + (orders - 1) / (2 * orders - 1) * _excess(-down))
        far = up + np.log(weight) + np.log1p((orders - 1) / orders * np.exp(-up - down))
        return np.where(up < 1, near, far) / (orders - 1)

    @property
    def rho(self) -> float:
        # The Kullback-Leibler divergence; that no order needs more is Theorem C4.
        return float(_excess(np.array(-self.epsilon0)))

    @property
    def mu_squared(self) -> float:
        return laplace_mu_squared(self.epsilon0)

    def profile(self, epsilon: float) -> float:
        return max(0.0, -math.expm1(min(0.0, epsilon - self.epsilon0) / 2))

    def losses(self) -> Losses:
        return Losses(((1, Banded.laplace(self.epsilon0)),)) if self.epsilon0 > 0 else Losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution

        require_bearable(self.epsilon0, interval)
        if self.epsilon0 == 0:
            return privacy_loss_distribution.identity(interval)
        return privacy_loss_distribution.from_laplace_mechanism(1 / self.epsilon0, value_discretization_interval=interval)


def _excess(z: Floats) -> Floats:
    """exp(z) - 1 - z, without cancellation near 0."""
    small = np.abs(z) < 0.5
    x = np.where(small, z, 0.0)
    series = np.ones_like(x)
    for n in range(_SERIES_TERMS + 2, 2, -1):
        series = 1 + x / n * series
    return np.where(small, x * x / 2 * series, np.expm1(z) - z)
