"""Curves in closed form: pure, approximate, bounded range, zCDP, Laplace and Gaussian."""

from __future__ import annotations

import math
from abc import ABC
from typing import Annotated, Literal, Self, final

import numpy as np
from pydantic import Field

from accounting.convert.gaussian_cover import laplace_mu_squared, pure_mu_squared
from accounting.convert.pld.hull import Hull
from accounting.convert.pld.loss import PAD, Banded, Losses, Normal
from accounting.convert.renyi import response_divergence
from accounting.curves.base import Curve, OneParameter, UnconditionalCurve
from accounting.frozen import Count, NonNegative
from accounting.numbers import Floats, exact, float_up, next_up, times_up


class OneEpsilon(OneParameter, ABC):
    """A one-parameter curve whose parameter is its pure epsilon."""

    kind: str
    epsilon0: NonNegative = Field(alias="epsilon", description="a finite epsilon >= 0, in nats")

    @final
    @property
    def parameter(self) -> float:
        return self.epsilon0

    @final
    @property
    def core_epsilon(self) -> float:
        return self.epsilon0


@final
class PureDP(OneEpsilon):
    """Pure DP: no output's probability changes by more than a factor exp(epsilon).

    Theorem C1 (exact worst case).

    Example:
        >>> import accounting as acc
        >>> (3 * acc.PureDP(epsilon=0.5)).epsilon(0.0)
        1.5
    """

    kind: Literal["pure_dp"] = "pure_dp"

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        return response_divergence(parameter, orders)

    @property
    def rho(self) -> float:
        return self.epsilon0 * math.tanh(self.epsilon0 / 2)

    def profile(self, epsilon: float) -> float:
        return max(
            0.0, -math.expm1(min(0.0, epsilon - self.epsilon0)) / (1 + math.exp(-self.epsilon0))
        )

    def losses(self) -> Losses:
        return Losses(((1, Banded.pure(self.epsilon0)),)) if self.epsilon0 > 0 else Losses()


@final
class ApproxDP(Curve):
    """(epsilon, delta)-DP and nothing more. Theorem C6.

    With probability 1 - delta it is an epsilon-pure pair, and otherwise anything.

    Example:
        >>> import accounting as acc
        >>> acc.ApproxDP(epsilon=1.0, delta=1e-6).epsilon(1e-6)
        1.0
    """

    kind: Literal["approx_dp"] = "approx_dp"
    epsilon0: NonNegative = Field(alias="epsilon", description="a finite epsilon >= 0, in nats")
    failure: Annotated[NonNegative, Field(lt=1)] = Field(
        alias="delta", description="a delta in [0, 1)"
    )

    def _rdp(self, orders: Floats) -> Floats:
        return self._core._rdp(orders)

    @property
    def _core(self) -> PureDP:
        return PureDP(epsilon=self.epsilon0)

    @property
    def rho(self) -> float:
        return self._core.rho

    @property
    def delta0(self) -> float:
        return self.failure

    @property
    def core_epsilon(self) -> float:
        return self.epsilon0

    def profile(self, epsilon: float) -> float:
        return self.failure + (1 - self.failure) * self._core.profile(epsilon)

    def losses(self) -> Losses:
        if self.epsilon0 == 0:
            return Losses(added=self.failure)
        return Losses(((1, Banded.pure(self.epsilon0, self.failure)),))


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
    """Bounded range: log-probability ratios of neighboring outputs span at most epsilon.

    The span is over all outcomes. Theorem C2 (exact worst case).

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
            divergence = _rise(rest, parameter) + _rise(parameter, rest) / (orders - 1)
        # Where the floats end it is the pure epsilon, which no order exceeds.
        return np.where(np.isfinite(rest + parameter), divergence, parameter)

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
        # The square alone would underflow; the product does only where the least positive float is
        # an upper bound.
        return max(half / math.expm1(-self.epsilon0) * -half, 5e-324)

    def losses(self) -> Losses:
        return (
            Losses(((1, Banded.bounded_range(self.epsilon0)),)) if self.epsilon0 > 0 else Losses()
        )


def _rise(base: Floats, step: Floats) -> Floats:
    """Return h(base + step) - h(base) for h(z) = ln(sinh(z/2)/(z/2)), without cancellation."""
    base, step = np.broadcast_arrays(base, step)
    with np.errstate(all="ignore"):  # where the other branch is read
        far = step / 2 + np.log1p(-np.expm1(-step) / np.expm1(base)) - np.log1p(step / base)
    # Near 0 by the power series in z^2: a divided difference in Horner form, times (base + step)^2
    # - base^2.
    near = base + step <= 1
    base, step = np.where(near, base, 0.5), np.where(near, step, 0.5)
    u, v = (base + step) ** 2, base**2
    value, slope = np.zeros_like(u), np.zeros_like(u)
    for coefficient in reversed((0.0, *_SERIES)):
        slope = slope * u + value
        value = value * v + coefficient
    return np.where(near, slope * step * (2 * base + step), far)


_SERIES_TERMS = 12  # below |z| = 1/2 the remainder is under 2^-53 of the sum


@final
class LaplaceDP(OneEpsilon):
    """Laplace noise: no easier to tell apart than Laplace(0, 1/epsilon) from Laplace(1, 1/epsilon).

    Theorem C4 (exact).

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


def _excess(z: Floats) -> Floats:
    """Return exp(z) - 1 - z, without cancellation near 0."""
    small = np.abs(z) < 0.5
    x = np.where(small, z, 0.0)
    series = np.ones_like(x)
    for n in range(_SERIES_TERMS + 2, 2, -1):
        series = 1 + x / n * series
    return np.where(small, x * x / 2 * series, np.expm1(z) - z)


@final
class ZCDP(OneParameter):
    """Zero-concentrated DP: Renyi divergence of every order a is at most a * rho. Theorem C5.

    This is a definition, and no dominating pair is implied.

    Example:
        >>> import accounting as acc
        >>> (acc.ZCDP(rho=0.1) + acc.ZCDP(rho=0.2)).rho
        0.3
    """

    kind: Literal["zcdp"] = "zcdp"
    rho0: NonNegative = Field(alias="rho", description="a finite rho >= 0, in nats")

    @property
    def parameter(self) -> float:
        return self.rho0

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        return parameter * orders

    @property
    def rho(self) -> float:
        return self.rho0

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.rho0 == 0 else math.inf


_ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), math.log(2 * math.pi) / 2
# Beyond, the rounded argument of erfc weighs more than the rounded square, and Laplace's continued
# fraction is good to an ulp.
_FAR, _LEVELS = -4.0, 40
_LEAST_RHO = 1e-300  # more than what underflow takes off a sum of 10^18 squares


@final
class GaussianDP(OneParameter):
    """Gaussian noise: no easier to tell apart than N(0, 1) from N(mu, 1). Theorem C3 (exact).

    Example:
        >>> import accounting as acc
        >>> round(acc.GaussianDP(mu=1.0).epsilon(1e-6), 4)
        4.8866
    """

    kind: Literal["gaussian_dp"] = "gaussian_dp"
    mu: NonNegative = Field(description="a finite mu >= 0: sensitivity over standard deviation")

    @classmethod
    def of_rho(cls, rho: float) -> Self:
        """Return the curve with this zCDP parameter > 0, with mu rounded up.

        The squares of tiny mu underflow.
        """
        return cls(mu=next_up(math.sqrt(2 * max(rho, _LEAST_RHO))))

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
        # The two terms are rounded to a few ulps of their logarithms; the pad keeps the difference
        # an upper bound.
        pad = PAD * (4 + abs(first) + abs(second) + epsilon)
        value = math.exp(first) * (max(0.0, -math.expm1(min(0.0, second - first))) + pad)
        # One up, for products below the normal floats, 0 among them: a Gaussian has no pure
        # guarantee.
        return min(1.0, math.nextafter(value, 1.0))

    def losses(self) -> Losses:
        return Losses(((1, Normal(self.mu)),)) if self.mu > 0 else Losses()


def _log_ndtr(z: float) -> float:
    """Return log P[Z <= z] without SciPy, which takes longer to import than most plans take."""
    if z > 0:
        return math.log1p(-math.erfc(z * _ROOT_HALF) / 2)
    if z > _FAR:
        return math.log(math.erfc(-z * _ROOT_HALF) / 2)
    fraction = -z
    for numerator in range(_LEVELS, 0, -1):
        fraction = numerator / fraction - z
    return -z * z / 2 - math.log(fraction) - LOG_ROOT_2PI


_MOST_ORDER = 1e300  # whose bound serves all smaller ones


@final
class GaussianMax(UnconditionalCurve):
    """The winner among `candidates` scores with Gaussian noise. Theorem C9.

    The Renyi bound is order mu^2/2 + ln(candidates)/(order - 1) from the order on at which this is
    smallest, and that smallest value below it.

    Example:
        >>> import accounting as acc
        >>> round(acc.curves.GaussianMax(mu=0.1, candidates=1000).epsilon(1e-6), 3)
        0.535
    """

    kind: Literal["gaussian_max"] = "gaussian_max"
    mu: NonNegative = Field(description="a finite mu >= 0: range over standard deviation")
    candidates: Count = Field(description="the public number of candidates, >= 1, <= 10^18")

    def _rdp(self, orders: Floats) -> Floats:
        if self.candidates == 1 or self.mu == 0:
            return 0 * orders
        # The union bound falls up to its best order; Renyi divergence never does, so the smallest
        # value holds below that order.
        reached = np.maximum(orders, self._best_order)
        return reached * (self.mu * self.mu / 2) + math.log(self.candidates) / (reached - 1)

    @property
    def _best_order(self) -> float:
        return 1 + min(math.sqrt(2 * math.log(self.candidates)) / self.mu, _MOST_ORDER)

    @property
    def rho(self) -> float:
        # rdp(order) / order is largest as the order goes to 1.
        return (
            0.0
            if self.candidates == 1 or self.mu == 0
            else float(self._rdp(np.array([self._best_order]))[0])
        )

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.candidates == 1 or self.mu == 0 else math.inf

    def profile(self, epsilon: float) -> float:
        single = GaussianDP(mu=0.0 if self.candidates == 1 else self.mu).profile(epsilon)
        return min(1.0, self.candidates * single)

    def losses(self) -> Losses:
        """Return the pair of the union bound (Theorem P4)."""
        return (
            Losses(((1, Hull(((float(self.candidates), 0.0, Normal(self.mu)),))),))
            if self.mu > 0
            else Losses()
        )
