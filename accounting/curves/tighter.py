"""The better of several curves that are all valid for one mechanism."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
from pydantic import Field, field_validator

from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.base import AnyCurve, Curve, Floats
from accounting.relation import Relation


@final
class Tighter(Curve):
    """At every order the smallest of several valid bounds. Theorem A2.

    Args:
        curves: two or more curves, each proved for the same mechanism.
    """

    kind: Literal["tighter"] = "tighter"
    curves: tuple[AnyCurve, ...] = Field(min_length=2, description="two or more different curves")

    @field_validator("curves", mode="after")
    @classmethod
    def _in_one_order(cls, curves: tuple[Curve, ...]) -> tuple[Curve, ...]:
        return tuple(sorted(set(curves), key=Curve.to_json))

    def _rdp(self, orders: Floats) -> Floats:
        return np.min([curve._rdp(orders) for curve in self.curves], axis=0)

    @property
    def rho(self) -> float:
        return min(curve.rho for curve in self.curves)

    @property
    def delta0(self) -> float:
        # Each member holds outside its own event; one delta0 for all has to be the largest.
        return max(curve.delta0 for curve in self.curves)

    @property
    def core_epsilon(self) -> float:
        return min(curve.core_epsilon for curve in self.curves)

    @property
    def mu_squared(self) -> float:
        return min(curve.mu_squared for curve in self.curves)

    @property
    def proved_for(self) -> Relation | None:
        return next((curve.proved_for for curve in self.curves if curve.proved_for), None)

    @property
    def table_orders(self) -> tuple[float, ...]:
        return tuple(sorted({order for curve in self.curves for order in curve.table_orders}))

    def profile(self, epsilon: float) -> float | None:
        known = [value for curve in self.curves if (value := curve.profile(epsilon)) is not None]
        return min(known, default=None)

    def losses(self) -> Losses | None:
        """Of single steps the hull of their profiles (Theorem P4), else the member's whose steps are the smallest."""
        known = [found for c in self.curves if (found := c.losses()) is not None]
        if len(known) < 2:
            return next(iter(known), None)
        if all(len(losses.steps) == 1 and losses.steps[0][0] == 1 for losses in known):
            return Losses(((1, Hull(tuple((1.0, losses.added, losses.steps[0][1]) for losses in known))),))
        return min(known, key=lambda losses: sum(n * loss.scale**2 for n, loss in losses.steps))

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        return next((pld for curve in self.curves if (pld := curve.pld(interval)) is not None), None)


def tighter(*curves: Curve) -> Curve:
    """The better of several curves, each valid for the same mechanism: at every order the smallest bound. Theorem A2.

    Raises:
        InvalidCurve: no curve is given.

    Example:
        >>> import accounting as acc
        >>> acc.tighter(acc.PureDP(epsilon=1.0), acc.ZCDP(rho=0.1)).rho
        0.1
    """
    distinct = tuple(dict.fromkeys(curves))
    return distinct[0] if len(distinct) == 1 else Tighter(curves=distinct)
