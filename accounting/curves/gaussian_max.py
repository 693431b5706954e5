"""Report-noisy-max with Gaussian noise, by a union over the candidates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, final

from pydantic import Field

from accounting.curves.base import Floats, Undoubted
from accounting.curves.gaussian import GaussianDP
from accounting.frozen import Count, NonNegative

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@final
class GaussianMax(Undoubted):
    """The winner among `candidates` scores with Gaussian noise: rdp = order mu^2/2 + ln(candidates)/(order - 1). Theorem C9.

    Args:
        mu: range of a change of the scores over the standard deviation, >= 0.
        candidates: number of scores, >= 1 (public).
    """

    kind: Literal["gaussian_max"] = "gaussian_max"
    mu: NonNegative = Field(description="a finite mu >= 0: range over standard deviation")
    candidates: Count = Field(description="the public number of candidates, >= 1")

    def _rdp(self, orders: Floats) -> Floats:
        if self.mu == 0:
            return 0 * orders
        return orders * (self.mu * self.mu / 2) + math.log(self.candidates) / (orders - 1)

    @property
    def rho(self) -> float:
        return self.mu * self.mu / 2 if self.candidates == 1 or self.mu == 0 else math.inf

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.mu == 0 else math.inf

    @property
    def table_orders(self) -> tuple[float, ...]:
        return ()

    def profile(self, epsilon: float) -> float:
        return min(1.0, self.candidates * GaussianDP(mu=self.mu).profile(epsilon))

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        return None
