"""`DiscreteGaussianDP`: one integer with discrete Gaussian noise."""

from __future__ import annotations

import math
from typing import Annotated, Literal, final

import numpy as np
from pydantic import Field

from accounting.convert.pld.loss import Atoms, Losses
from accounting.curves.base import UnconditionalCurve
from accounting.frozen import Count, Positive
from accounting.numbers import SUM_UP, Floats, next_up

LEAST_SIGMA, MOST_SIGMA = 1e-3, 1e3
_BEYOND = 40.0  # standard deviations, beyond which no place has a mass that a float can hold
# standard deviations: beyond, one answer tells all and its privacy losses fill no useful grid
_MOST_SHIFT = 20.0
_ROUNDED = 1e-15
_LEAST = 1e-300  # more than the mass beyond


@final
class DiscreteGaussianDP(UnconditionalCurve):
    """An integer with discrete Gaussian noise. Theorem G6 (exact).

    The noise x has a probability proportional to exp(-x^2/(2 sigma^2)).

    Example:
        >>> import accounting as acc
        >>> round(acc.curves.DiscreteGaussianDP(sigma=1.0, sensitivity=1).epsilon(1e-6), 2)
        4.5
    """

    kind: Literal["discrete_gaussian_dp"] = "discrete_gaussian_dp"
    sigma: Annotated[Positive, Field(ge=LEAST_SIGMA, le=MOST_SIGMA)] = Field(
        description="a sigma from 0.001 to 1000"
    )
    sensitivity: Count = Field(
        description="an integer >= 1, <= 10^18: the most by which the answer may move"
    )

    def _rdp(self, orders: Floats) -> Floats:
        return orders * self.rho

    @property
    def rho(self) -> float:
        return next_up((self.sensitivity / self.sigma) ** 2 / 2 * SUM_UP)

    @property
    def core_epsilon(self) -> float:
        return math.inf

    def profile(self, epsilon: float) -> float:
        # whose loss is about epsilon
        last = math.floor(self.sensitivity / 2 - epsilon * self.sigma**2 / self.sensitivity) + 1
        top, far = min(last, 0), self._far
        x = np.arange(top - far, min(last, far) + 1, dtype=np.float64)
        loss = self._loss(x)
        gain = -np.expm1(np.minimum(0.0, epsilon - loss - _ROUNDED * (np.abs(loss) + epsilon)))
        total = float(np.exp((top - x) * (top + x) / (2 * self.sigma**2)) @ gain)
        if total == 0:
            return _LEAST
        value = math.exp(math.log(total) - top * top / (2 * self.sigma**2) - math.log(self._total))
        return min(1.0, math.nextafter(value * SUM_UP, 1.0))

    def losses(self) -> Losses | None:
        """Return a loss with one atom for each integer; None if one answer reveals nearly all."""
        if self.sensitivity > _MOST_SHIFT * self.sigma:
            return None
        x = np.arange(self._far, -self._far - 1, -1, dtype=np.float64)  # by increasing loss
        weights = np.exp(-x * x / (2 * self.sigma**2)) / self._total
        is_kept = weights > _LEAST
        return Losses(
            (
                (
                    1,
                    Atoms(
                        tuple(self._loss(x[is_kept]).tolist()),
                        tuple((weights[is_kept] * SUM_UP).tolist()),
                        _LEAST,
                    ),
                ),
            )
        )

    @property
    def _far(self) -> int:
        return math.ceil(_BEYOND * self.sigma) + 1

    @property
    def _total(self) -> float:
        """The sum of exp(-x^2/(2 sigma^2)) over the integers."""
        x = np.arange(-self._far, self._far + 1, dtype=np.float64)
        return float(np.exp(-x * x / (2 * self.sigma**2)).sum())

    def _loss(self, x: Floats) -> Floats:
        return np.asarray(self.sensitivity * (self.sensitivity - 2 * x) / (2 * self.sigma**2))
