"""Bounded range: what the exponential mechanism (Gumbel noise) satisfies, strictly stronger than pure DP."""

from __future__ import annotations

import math
from typing import Literal, final

import numpy as np

from accounting.conversion.gaussian_cover import pure_mu_squared
from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution, failing, to_dp_accounting
from accounting.curves.base import Floats, OneEpsilon

# ln(sinh(z/2)/(z/2)) = sum over n >= 1 of B_2n z^2n / (2n (2n)!), used below |z| = 1.
_SERIES = (
    1 / 24,
    -1 / 2880,
    1 / 181440,
    -1 / 9676800,
    1 / 479001600,
    -691 / 15692092416000,
    1 / 1046139494400,
    -3617 / 170729965486080000,
    43867 / 91963695909076992000,
)


@final
class BoundedRange(OneEpsilon):
    """Log-probability ratios of neighbouring outputs span at most epsilon over all outcomes. Theorem C2 (exact worst case).

    Args:
        epsilon: nats, >= 0.

    Example:
        >>> import accounting as acc
        >>> round((10 * acc.BoundedRange(epsilon=1.0)).epsilon(1e-6), 3)
        7.734
    """

    kind: Literal["bounded_range"] = "bounded_range"

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            rest = (orders - 1) * parameter
            found = _rise(rest, parameter) + _rise(parameter, rest) / (orders - 1)
        # Where the floats end it is the pure epsilon, which no order exceeds.
        return np.where(np.isfinite(rest + parameter), found, parameter)

    @property
    def rho(self) -> float:
        e = self.epsilon0
        if e < 1:
            # z h'(z) + h(z) with h = ln(sinh(z/2)/(z/2)): the closed form would cancel.
            return sum((2 * n + 1) * c * e ** (2 * n) for n, c in enumerate(_SERIES, start=1))
        x = -e * math.exp(-e) / math.expm1(-e)
        return x - 1 - math.log(e) + e + math.log1p(-math.exp(-e))

    @property
    def mu_squared(self) -> float:
        return pure_mu_squared(self.epsilon0 / 2)

    def profile(self, epsilon: float) -> float:
        if epsilon >= self.epsilon0:
            return 0.0
        half = math.expm1((epsilon - self.epsilon0) / 2)
        # The square alone would underflow; the product does only where the least positive float is an upper bound.
        return max(half / math.expm1(-self.epsilon0) * -half, 5e-324)

    def losses(self) -> Losses:
        return Losses(((1, Banded.bounded_range(self.epsilon0)),)) if self.epsilon0 > 0 else Losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        """The pair of Theorem P3: every bounded-range pair is dominated by it, one fixed after the other (see `adaptive`)."""
        return to_dp_accounting(Banded.bounded_range(self.epsilon0), interval) if self.epsilon0 > 0 else failing(0.0, interval)


def _rise(base: Floats, step: Floats) -> Floats:
    """h(base + step) - h(base) for h(z) = ln(sinh(z/2)/(z/2)), without cancellation."""
    base, step = np.broadcast_arrays(base, step)
    with np.errstate(all="ignore"):  # where the other branch is read
        far = step / 2 + np.log1p(-np.expm1(-step) / np.expm1(base)) - np.log1p(step / base)
    return np.where(base + step <= 1, _series_rise(base, step), far)


def _series_rise(base: Floats, step: Floats) -> Floats:
    """The same by the power series in z^2: a divided difference in Horner form, times (base + step)^2 - base^2."""
    base, step = np.where(base + step <= 1, base, 0.5), np.where(base + step <= 1, step, 0.5)
    u, v = (base + step) ** 2, base**2
    value, slope = np.zeros_like(u), np.zeros_like(u)
    for coefficient in reversed((0.0, *_SERIES)):
        slope = slope * u + value
        value = value * v + coefficient
    return slope * step * (2 * base + step)
