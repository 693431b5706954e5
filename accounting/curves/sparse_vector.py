"""The sparse vector technique with Laplace noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

import numpy as np
from pydantic import Field

from accounting.curves.base import Floats, Undoubted
from accounting.curves.laplace import LaplaceDP
from accounting.curves.pure_dp import PureDP
from accounting.decimal_sum import decimal_sum
from accounting.frozen import Positive

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@final
class SparseVectorDP(Undoubted):
    """Comparisons with one noisy threshold, up to a stated number of them answered "above". Theorem V1.

    A pure guarantee of epsilon1 + epsilon2, and at every order also that of the threshold's Laplace noise plus the constant
    epsilon2.

    Args:
        epsilon1: shift of the threshold over the scale of its noise, nats, > 0.
        epsilon2: nats spent on all the answers "above" together, > 0.
    """

    kind: Literal["sparse_vector_dp"] = "sparse_vector_dp"
    epsilon1: Positive = Field(description="a finite epsilon1 > 0, in nats")
    epsilon2: Positive = Field(description="a finite epsilon2 > 0, in nats")

    def _rdp(self, orders: Floats) -> Floats:
        return np.minimum(self._pure._rdp(orders), self._threshold._rdp(orders) + self.epsilon2)

    @property
    def _pure(self) -> PureDP:
        return PureDP(epsilon=self.core_epsilon)

    @property
    def _threshold(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.epsilon1)

    @property
    def rho(self) -> float:
        # Both bounds over the order are largest as the order goes to 1, so their minimum is too.
        return min(self._pure.rho, decimal_sum([(1, self._threshold.rho), (1, self.epsilon2)]))

    @property
    def core_epsilon(self) -> float:
        return decimal_sum([(1, self.epsilon1), (1, self.epsilon2)])

    @property
    def table_orders(self) -> tuple[float, ...]:
        return ()

    def profile(self, epsilon: float) -> float:
        pure = self._pure.profile(epsilon)
        if epsilon < self.epsilon2:
            return pure
        # The difference is rounded down: the profile of the threshold falls.
        return min(pure, self._threshold.profile(np.nextafter(epsilon - self.epsilon2, -1.0).clip(0)))

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        return self._pure.pld(interval)
