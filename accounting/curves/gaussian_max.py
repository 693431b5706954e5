"""Report-noisy-max with Gaussian noise, by a union over the candidates."""

from __future__ import annotations

import math
from typing import Literal, final

import numpy as np
from pydantic import Field

from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Loss, Losses, PrivacyLossDistribution, failing, to_dp_accounting
from accounting.conversion.pld.normal import Normal
from accounting.curves.base import Floats, Undoubted
from accounting.curves.gaussian import GaussianDP
from accounting.frozen import Count, NonNegative

_MOST_ORDER = 1e300  # whose bound serves all smaller ones


@final
class GaussianMax(Undoubted):
    """The winner among `candidates` scores with Gaussian noise. Theorem C9.

    rdp = order mu^2/2 + ln(candidates)/(order - 1) from the order on where this is smallest; below it, that smallest value.

    Args:
        mu: range of a change of the scores over the standard deviation, >= 0.
        candidates: number of scores, >= 1 and at most 10^18 (public).

    Example:
        >>> import accounting as acc
        >>> round(acc.GaussianMax(mu=0.1, candidates=1000).epsilon(1e-6), 3)
        0.535
    """

    kind: Literal["gaussian_max"] = "gaussian_max"
    mu: NonNegative = Field(description="a finite mu >= 0: range over standard deviation")
    candidates: Count = Field(description="the public number of candidates, >= 1, <= 10^18")

    def _rdp(self, orders: Floats) -> Floats:
        if self.candidates == 1 or self.mu == 0:
            return 0 * orders
        # The union bound falls up to its best order; Renyi divergence never does, so the smallest value holds below that order.
        reached = np.maximum(orders, self._best_order)
        return reached * (self.mu * self.mu / 2) + math.log(self.candidates) / (reached - 1)

    @property
    def _best_order(self) -> float:
        return 1 + min(math.sqrt(2 * math.log(self.candidates)) / self.mu, _MOST_ORDER)

    @property
    def rho(self) -> float:
        # rdp(order) / order is largest as the order goes to 1.
        return 0.0 if self.candidates == 1 or self.mu == 0 else float(self._rdp(np.array([self._best_order]))[0])

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.candidates == 1 or self.mu == 0 else math.inf

    def profile(self, epsilon: float) -> float:
        one = GaussianDP(mu=0.0 if self.candidates == 1 else self.mu).profile(epsilon)
        return min(1.0, self.candidates * one)

    @property
    def _pair(self) -> Loss:
        """The pair of the union bound (Theorem P4)."""
        return Hull(((float(self.candidates), 0.0, Normal(self.mu)),))

    def losses(self) -> Losses:
        return Losses(((1, self._pair),)) if self.mu > 0 else Losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        return to_dp_accounting(self._pair, interval) if self.mu > 0 else failing(0.0, interval)
