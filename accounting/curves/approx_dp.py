"""Approximate differential privacy at one (epsilon, delta) point."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from accounting.conversion.pld.banded import Banded, two_atoms
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.base import Curve, Floats
from accounting.curves.pure_dp import PureDP
from accounting.frozen import NonNegative


@final
class ApproxDP(Curve):
    """(epsilon, delta)-DP and nothing more: with probability 1 - delta an epsilon-pure pair, else anything. Theorem C6.

    Args:
        epsilon: nats, >= 0.
        delta: in [0, 1).

    Example:
        >>> import accounting as acc
        >>> acc.ApproxDP(epsilon=1.0, delta=1e-6).epsilon(1e-6)
        1.0
    """

    kind: Literal["approx_dp"] = "approx_dp"
    epsilon0: NonNegative = Field(alias="epsilon", description="a finite epsilon >= 0, in nats")
    failure: Annotated[NonNegative, Field(lt=1)] = Field(alias="delta", description="a delta in [0, 1)")

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

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        return two_atoms(Banded.pure(self.epsilon0, self.failure), interval)
