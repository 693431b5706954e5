"""A first answer, then one of several mechanisms, chosen by it."""

from __future__ import annotations

import math
from typing import Literal, Self, final

import numpy as np
from pydantic import Field, field_validator, model_validator

from accounting.conversion.bounds import best_delta, best_epsilon
from accounting.curves.base import AnyCurve, Curve, Floats
from accounting.decimal_sum import decimal_sum
from accounting.relation import Relation


@final
class ChosenAfter(Curve):
    """`first`, then one of `options` on the same data, which one being chosen by what `first` released. Theorem A5.

    A sum of `first` and the dearest option at every order. Where `first` is pure, an (epsilon, delta) of every option gives one
    of the whole at epsilon more.

    Args:
        first: of the answer that the choice is made by; it leaves no bad event out.
        options: curves of all that may be chosen, in any order.

    Example:
        >>> import accounting as acc
        >>> options = (acc.GaussianDP(mu=0.2), acc.PureDP(epsilon=0.9))
        >>> learnt = acc.ChosenAfter(first=acc.PureDP(epsilon=0.05), options=options)
        >>> round(learnt.epsilon(1e-6), 3)
        0.95
    """

    kind: Literal["chosen_after"] = "chosen_after"
    first: AnyCurve
    options: tuple[AnyCurve, ...] = Field(min_length=1, description="one or more curves")

    @field_validator("options", mode="after")
    @classmethod
    def _in_one_order(cls, options: tuple[Curve, ...]) -> tuple[Curve, ...]:
        return tuple(sorted(set(options), key=Curve.to_json))

    @model_validator(mode="after")
    def _is_certain(self) -> Self:
        if self.first.delta0 > 0:
            raise ValueError("first may fail (delta0 > 0), which Theorem A5 leaves out: choose by an answer that never does")
        return self

    def _rdp(self, orders: Floats) -> Floats:
        return np.asarray(self.first._rdp(orders) + np.max([curve._rdp(orders) for curve in self.options], axis=0))

    @property
    def rho(self) -> float:
        return decimal_sum([(1, self.first.rho), (1, max(curve.rho for curve in self.options))])

    @property
    def delta0(self) -> float:
        return max(curve.delta0 for curve in self.options)

    @property
    def core_epsilon(self) -> float:
        return decimal_sum([(1, self.first.core_epsilon), (1, max(curve.core_epsilon for curve in self.options))])

    @property
    def mu_squared(self) -> float:
        return decimal_sum([(1, self.first.mu_squared), (1, max(curve.mu_squared for curve in self.options))])

    @property
    def proved_for(self) -> Relation | None:
        return next((curve.proved_for for curve in (self.first, *self.options) if curve.proved_for), None)

    @property
    def table_orders(self) -> tuple[float, ...]:
        return tuple(sorted({order for curve in (self.first, *self.options) for order in curve.table_orders}))

    def profile(self, epsilon: float) -> float | None:
        if math.isinf(self.first.core_epsilon):
            return None
        left = math.nextafter(epsilon - self.first.core_epsilon, -math.inf)
        return 1.0 if left < 0 else max(_profile(curve, left) for curve in self.options)

    def inverse(self, delta: float) -> float | None:
        if math.isinf(self.first.core_epsilon):
            return None
        dearest = max(best_epsilon(curve, delta, thorough=True).value for curve in self.options)
        return decimal_sum([(1, self.first.core_epsilon), (1, dearest)])


def _profile(curve: Curve, epsilon: float) -> float:
    closed = curve.profile(epsilon)
    return best_delta(curve, epsilon, thorough=True).value if closed is None else closed
