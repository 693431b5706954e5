"""A curve that holds outside a bad event."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution, failing
from accounting.curves.base import AnyCurve, Curve, Floats
from accounting.decimal_sum import decimal_sum
from accounting.frozen import NonNegative
from accounting.relation import Relation


@final
class Approximate(Curve):
    """Identical until bad: `curve` holds for a mechanism that agrees outside an event of probability delta0. Theorem A1.

    Args:
        curve: the guarantee outside the event; its own `delta0` is added to this one.
        delta0: probability of the event under every input, in [0, 1).

    Example:
        >>> import accounting as acc
        >>> both = 2 * acc.Approximate(curve=acc.PureDP(epsilon=0.5), delta0=1e-7)
        >>> both.delta0, both.epsilon(1e-6) <= 1.0
        (2e-07, True)
    """

    kind: Literal["approximate"] = "approximate"
    curve: AnyCurve
    added: Annotated[NonNegative, Field(lt=1)] = Field(alias="delta0", description="a probability in [0, 1)")

    def _rdp(self, orders: Floats) -> Floats:
        return self.curve._rdp(orders)

    @property
    def rho(self) -> float:
        return self.curve.rho

    @property
    def delta0(self) -> float:
        return min(1.0, decimal_sum([(1, self.curve.delta0), (1, self.added)]))

    @property
    def core_epsilon(self) -> float:
        return self.curve.core_epsilon

    @property
    def mu_squared(self) -> float:
        return self.curve.mu_squared

    @property
    def proved_for(self) -> Relation | None:
        return self.curve.proved_for

    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.curve.table_orders

    def profile(self, epsilon: float) -> float | None:
        inner = self.curve.profile(epsilon)
        return None if inner is None else min(1.0, inner + self.added)

    def losses(self) -> Losses | None:
        """The losses of the inner curve, delta0 being added to their divergence (Theorem P1)."""
        inner = self.curve.losses()
        return None if inner is None else Losses(inner.steps, decimal_sum([(1, inner.added), (1, self.added)]))

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        inner = self.curve.pld(interval)
        # dp-accounting merges infinite masses a, b to a + b - ab; Theorem P1 needs a + b, hence the division.
        return None if inner is None else inner.compose(failing(min(1.0, self.added / (1 - self._lost) * (1 + 1e-9)), interval))

    @property
    def _lost(self) -> float:
        """Most that the inner distribution puts at infinity, dp-accounting's truncation included."""
        return min(self.curve.delta0 + 1e-9, 0.5 + self.curve.delta0 / 2)
