"""Pure differential privacy."""

from __future__ import annotations

import math
from typing import Literal, final

import numpy as np

from accounting.conversion.pld.banded import Banded, two_atoms
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.base import Floats, OneEpsilon

# sinh(x) sinh(y) stays far from overflow below this sum of arguments.
_DIRECT = 60.0


@final
class PureDP(OneEpsilon):
    """No output's probability changes by more than a factor exp(epsilon). Theorem C1 (exact worst case).

    Args:
        epsilon: nats, >= 0.

    Example:
        >>> import accounting as acc
        >>> (3 * acc.PureDP(epsilon=0.5)).epsilon(0.0)
        1.5
    """

    kind: Literal["pure_dp"] = "pure_dp"

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        e, a = np.broadcast_arrays(parameter, orders)
        small = a * e < _DIRECT
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = 2 * np.sinh(a * e / 2) * np.sinh((a - 1) * e / 2) / np.cosh(e / 2)
            near = np.log1p(ratio) / (a - 1)
        far = e + (np.log1p(np.exp((1 - 2 * a) * e)) - np.log1p(np.exp(-e))) / (a - 1)
        return np.where(small, near, far)

    @property
    def rho(self) -> float:
        return self.epsilon0 * math.tanh(self.epsilon0 / 2)

    def profile(self, epsilon: float) -> float:
        return max(0.0, -math.expm1(min(0.0, epsilon - self.epsilon0)) / (1 + math.exp(-self.epsilon0)))

    def losses(self) -> Losses:
        return Losses(((1, Banded.pure(self.epsilon0)),)) if self.epsilon0 > 0 else Losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        # dp-accounting's from_privacy_parameters overflows at epsilon 710 and rounds atoms to the next grid point.
        return two_atoms(Banded.pure(self.epsilon0), interval)
