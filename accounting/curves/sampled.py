"""Mechanisms on a secret Poisson sample, exactly: steps of DP-SGD, groups, and Laplace noise.

The privacy loss of removing a user differs from that of adding one. These curves also state how an
answer is made: by a sample, and then a mechanism of that curve. The cost of groups of users depends
on it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field

from accounting.convert.gaussian_cover import pure_mu_squared
from accounting.convert.pld.loss import Losses
from accounting.convert.pld.sampled_noise import Noise, Sampled
from accounting.curves.base import UnconditionalCurve
from accounting.curves.closed_form import LOG_ROOT_2PI, GaussianDP, LaplaceDP, PureDP
from accounting.frozen import Count, Positive
from accounting.numbers import Floats, product_up
from accounting.relations import Relation

MOST_EXACT = 16  # users of a group whose numbers on either side are all looked at


class _OnASample(UnconditionalCurve, ABC):
    """Noise on a secret Poisson sample. Theorem P11.

    No divergence is larger than that of the group in every sample.
    """

    @property
    @abstractmethod
    def _loss(self) -> Sampled:
        """The dominating pairs."""

    @property
    def _unsampled(self) -> GaussianDP | LaplaceDP:
        loss = self._loss
        shift = product_up(loss.group, loss.shift)
        return GaussianDP(mu=shift) if loss.noise == "gaussian" else LaplaceDP(epsilon=shift)

    @final
    def _rdp(self, orders: Floats) -> Floats:
        loss, bounds = self._loss, [self._unsampled._rdp(orders)]
        # of more no better bound is known than that of all of them in every sample
        if loss.group == 1:
            bounds.append(_renyi(loss.noise, loss.shift, loss.rate, orders))
        bounds += (
            []
            if math.isinf(self.core_epsilon)
            else [PureDP(epsilon=self.core_epsilon)._rdp(orders)]
        )
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
        each = (
            loss.shift
            if loss.shift > 700
            else math.log1p(loss.rate * math.expm1(loss.shift)) * (1 + 1e-14)
        )
        return min(product_up(loss.group, each), self._unsampled.core_epsilon)

    @final
    @property
    def mu_squared(self) -> float:
        return min(self._unsampled.mu_squared, pure_mu_squared(self.core_epsilon))

    @final
    @property
    def proved_for(self) -> Relation:
        return "add_remove"

    @final
    def profile(self, epsilon: float) -> float:
        least = 5e-324 if epsilon < self.core_epsilon else 0.0
        return max(float(self._loss.profile(np.array([epsilon]))[0]), least)

    @final
    def losses(self) -> Losses:
        """Return the dominating pairs, one for each number of users on either side."""
        return Losses(((1, self._loss),))


@final
class SampledGaussianDP(_OnASample):
    """Gaussian noise on a secret sample, for add_remove only. Theorems P10 and P11.

    Each user is in the sample with probability `rate`. rho and mu^2 are those of `GaussianDP(mu)`,
    and no smaller ones hold, whatever the rate: at large orders, and far out in the tail, the
    sample hides nothing. A budget that adds up rho or mu^2 therefore pays for all of the noise,
    while a budget of a Renyi order pays less.

    Example:
        >>> import accounting as acc
        >>> round((1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)).epsilon(1e-6), 2)
        2.12
    """

    kind: Literal["sampled_gaussian_dp"] = "sampled_gaussian_dp"
    mu: Annotated[Positive, Field(le=1e100)] = Field(
        description="a mu > 0, <= 1e100: sensitivity over standard deviation"
    )
    rate: Annotated[Positive, Field(lt=1)] = Field(description="a sampling probability in (0, 1)")

    @property
    def _loss(self) -> Sampled:
        return Sampled("gaussian", self.mu, self.rate)


@final
class SampledNoiseDP(_OnASample):
    """Laplace or Gaussian noise on a secret sample, for add_remove only. Theorem P11.

    The bound is for a group of users who may be on either side.

    Args:
        noise: "gaussian" or "laplace".
        shift: change of the answer by one user of the sample, over the scale of the noise (its
            standard deviation if Gaussian).
        rate: probability that a user is in the sample, in (0, 1).
        group: number of users who differ, from 1 to 16.

    Example:
        >>> import accounting as acc
        >>> one, four = (
        ...     acc.curves.SampledNoiseDP(noise="laplace", shift=0.5, rate=0.1, group=size)
        ...     for size in (1, 4)
        ... )
        >>> round((200 * one).epsilon(1e-6), 2), round((200 * four).epsilon(1e-6), 2)
        (3.13, 14.97)
    """

    kind: Literal["sampled_noise_dp"] = "sampled_noise_dp"
    noise: Noise = Field(description="'gaussian' or 'laplace'")
    shift: Annotated[Positive, Field(le=1e100)] = Field(
        description="a shift > 0, <= 1e100, over the scale of the noise"
    )
    rate: Annotated[Positive, Field(lt=1)] = Field(description="a sampling probability in (0, 1)")
    group: Annotated[Count, Field(le=MOST_EXACT)] = Field(
        default=1, description="a number of users, from 1 to 16"
    )

    @property
    def _loss(self) -> Sampled:
        return Sampled(self.noise, self.shift, self.rate, self.group)


def _renyi(noise: Noise, shift: float, rate: float, orders: Floats) -> Floats:
    """Return Renyi bounds of one user's mixture against the noise. Theorems P10 and P11.

    This direction is the larger one.
    """
    least = _LEAST_ORDERS[noise]
    return np.array(
        [_OF_ONE_USER[noise](shift, rate, max(order, least)) for order in orders.tolist()],
        dtype=np.float64,
    )


_CELLS, _LOG_2 = 8192, math.log(2)
# below, where rounding up weighs most, the bound of this order holds too
_LEAST_ORDERS = {"laplace": 1.1, "gaussian": 1 + 1e-6}


def _sampled_laplace_rdp(shift: float, rate: float, order: float) -> float:
    """Return a Renyi bound for Laplace noise, by trapezoids.

    They lie above the integrand, which is log-convex in the loss of the unsampled noise.
    """
    y = np.linspace(-shift, shift, _CELLS + 1)
    sampled = np.logaddexp(math.log1p(-rate), math.log(rate) + y)
    logs = order * sampled - (y + shift) / 2
    terms = np.append(
        np.logaddexp(logs[1:], logs[:-1]) + math.log(shift / _CELLS / 4),
        [logs[0] - _LOG_2, logs[-1] - _LOG_2],
    )
    return max(0.0, _log_sum(terms) * (1 + 1e-13) + 1e-12) / (order - 1)


_STRIP = 9.0  # at most, half the width of the complex strip on which the integrand is bounded
_ERROR = -80.0  # logarithm of the error of the trapezoid rule, over what bounds the integrand there
# standard deviations beyond which nothing is summed, and the logarithm of the mass there
_BEYOND, _LOG_BEYOND = 12.0, -75.0
_MOST_PLACES = 20_000
_FAR = 30.0  # a logarithm of the moment's integrand from which on it stands for what is integrated
_ROUNDED = 4e-15
_LEAST = 1e-300  # far less than the error of the rule


def _sampled_gaussian_rdp(mu: float, rate: float, order: float) -> float:
    """Return a Renyi bound for Gaussian noise, by the trapezoid rule with a proved error.

    The integrand is (1 + w)^order - 1 - order w, where w is the ratio less 1 and has mean 0.
    """
    strip = min(_STRIP, math.pi / mu)
    step = 2 * math.pi * strip / (strip * strip / 2 - _ERROR)
    last = order * mu + _BEYOND
    if not last + _BEYOND < _MOST_PLACES * step:
        return math.inf
    x = step * np.arange(math.floor(-_BEYOND / step), math.ceil(last / step) + 1)
    exact = x * mu - mu * mu / 2
    loss = exact + np.copysign(_ROUNDED * (np.abs(x) * mu + mu * mu), exact)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        w = np.maximum(rate * np.expm1(loss), -rate)
        log = np.where(
            loss < 1, np.log1p(w), np.logaddexp(math.log1p(-rate), math.log(rate) + loss)
        )
        power = order * log
        direct = (
            np.expm1(power)
            - order * w
            + _ROUNDED
            * (np.exp(power) * np.abs(power) + np.abs(np.expm1(power)) + order * np.abs(w))
        )
        taylor = (
            math.log(order * (order - 1) / 2) + 2 * np.log(np.abs(w)) + abs(order - 2) * np.abs(log)
        )
        logs = np.where(power > _FAR, power, np.minimum(np.log(np.maximum(direct, _LEAST)), taylor))
    logs += math.log(step) - LOG_ROOT_2PI - x * x / 2 + _ROUNDED * (1 + x * x + np.abs(power))
    left = math.log(order * rate) + _LOG_BEYOND
    right = order * (log[-1] - loss[-1]) + order * (order - 1) * mu * mu / 2 + _LOG_BEYOND
    missed = math.log(8 * (1 + order * rate)) + _ERROR
    total = _log_sum(np.array([*logs, left, right, missed]))
    return (
        float(np.logaddexp(0.0, total + _ROUNDED * (2 + abs(total)))) * (1 + _ROUNDED) / (order - 1)
    )


def _log_sum(logs: Floats) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


_OF_ONE_USER: dict[Noise, Callable[[float, float, float], float]] = {
    "gaussian": _sampled_gaussian_rdp,
    "laplace": _sampled_laplace_rdp,
}
