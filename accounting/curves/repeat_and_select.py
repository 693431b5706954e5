"""The best of a random number of runs, of which nothing else is released."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from pydantic import Field

from accounting.conversion.pld.loss import Losses
from accounting.curves.base import AnyCurve, Curve, Floats
from accounting.curves.pure_dp import PureDP
from accounting.curves.runs import NumberOfRuns

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_ORDERS = 1 + np.geomspace(1e-2, 1e6, 81)


@final
class RepeatAndSelectDP(Curve):
    """Run what `base` describes a random number of times and release the best run only. Theorem W4.

    The better of the bound of Papernot and Steinke (2022) and, where `base` is pure outside its bad event, the exact pure
    epsilon; at every order also the bounds at larger orders.

    Args:
        base: the guarantee of one run.
        distribution: of the number of runs, which stays private: `TruncatedNegativeBinomial` or `PoissonRuns`.

    Example:
        >>> import accounting as acc
        >>> twenty = acc.TruncatedNegativeBinomial(eta=0.0, gamma=0.01)
        >>> round(acc.RepeatAndSelectDP(base=acc.PureDP(epsilon=0.5), distribution=twenty).pure_epsilon, 3)
        0.99
    """

    kind: Literal["repeat_and_select_dp"] = "repeat_and_select_dp"
    base: AnyCurve = Field(description="the curve of one run")
    distribution: NumberOfRuns = Field(description="a TruncatedNegativeBinomial or PoissonRuns")

    def _rdp(self, orders: Floats) -> Floats:
        at, least = self._larger
        bounds = np.minimum(self.distribution.renyi(self.base, orders), np.append(least, math.inf)[np.searchsorted(at, orders)])
        return bounds if self._pure is None else np.minimum(bounds, self._pure._rdp(orders))

    @cached_property
    def _larger(self) -> tuple[Floats, Floats]:
        """Orders, and at each the least bound at it or at a larger one: Renyi divergences rise with the order."""
        best = self.distribution.best_order(self.base)
        more = [order for order in (*self.base.table_orders, best) if order is not None and order > 1]
        orders = np.unique([*_ORDERS, *more])
        return orders, np.minimum.accumulate(self.distribution.renyi(self.base, orders)[::-1])[::-1]

    @property
    def _pure(self) -> PureDP | None:
        epsilon = self.core_epsilon
        return PureDP(epsilon=epsilon) if math.isfinite(epsilon) else None

    @property
    def rho(self) -> float:
        whole = math.inf if self._pure is None else self._pure.rho
        return min(whole, self.distribution.rho(self.base))

    @property
    def delta0(self) -> float:
        return min(1.0, self.distribution.mean * self.base.delta0 * (1 + 1e-13))

    @property
    def core_epsilon(self) -> float:
        epsilon = self.base.core_epsilon
        return self.distribution.pure(epsilon) if math.isfinite(epsilon) else math.inf

    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.base.table_orders

    def profile(self, epsilon: float) -> float | None:
        return None if self._pure is None else min(1.0, self._pure.profile(epsilon) + self.delta0)

    def losses(self) -> Losses | None:
        """Those of the pure epsilon, where there is one."""
        return None if self._pure is None or self.delta0 else self._pure.losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        return None if self._pure is None or self.delta0 else self._pure.pld(interval)
