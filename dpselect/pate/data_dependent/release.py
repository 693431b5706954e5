"""Gaussian noise in proportion to a smooth sensitivity: what it costs, and the curve of a release that is tested first."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self, final

import scipy
from pydantic import Field, model_validator

from accounting import Approximate, Curve, Relation, RenyiTable
from accounting.frozen import Frozen, Positive, Real
from dpselect.errors import InvalidMechanism

_BETA_ERROR = 1e-9  # what rounding may add to the smoothness of a computed sensitivity


@final
class SmoothRelease(Frozen):
    """How a data-dependent bound is released: bound + S * sigma * (N(0, 1) + quantile), S its smooth sensitivity. Theorem P25.

    The quantile makes what is released too small with probability `failure` only. Configuration, chosen without looking at votes.

    Args:
        order: the Renyi order whose bound is released, above 1.
        beta: smoothness, in (0, ln(order / (order - 1)) / 2); None is two fifths of the way.
        sigma: noise per smooth sensitivity; None is `order`.
        failure: probability that the released number is below the true one, in (0, 0.5).

    Raises:
        InvalidMechanism: a value is outside its domain.
    """

    error_class = InvalidMechanism
    kind: Literal["smooth_release"] = "smooth_release"
    order: Real = Field(gt=1, description="a number above 1")
    beta: Positive = Field(description="a number above 0 and below ln(order / (order - 1)) / 2")
    sigma: Positive = Field(description="a number above 0")
    failure: Annotated[Real, Field(gt=0, lt=0.5)] = Field(description="a probability below one half")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        order = data.get("order")
        if not isinstance(order, int | float) or not order > 1:
            order = 2.0  # the order itself will be refused, and nothing else
        usual = {"beta": 0.2 * math.log(order / (order - 1)), "sigma": order}
        return {**data, **{name: value for name, value in usual.items() if data.get(name) is None}}

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        most = math.log(self.order / (self.order - 1)) / 2
        if self.beta + _BETA_ERROR >= most:
            raise ValueError(f"beta={self.beta!r} has no Renyi bound of order {self.order!r}: take less than {most:.6g}")
        return self

    @property
    def quantile(self) -> float:
        """The standard normal quantile of 1 - failure."""
        return -float(scipy.special.ndtri(self.failure)) * (1 + 1e-12)

    @property
    def rdp(self) -> float:
        """What the release costs at `order` whatever the data, in nats, rounded up. Theorem P25."""
        order, beta = self.order, self.beta + _BETA_ERROR
        move = 1 / self.sigma + self.quantile * math.expm1(beta)
        mean = order * move**2 / (2 * (1 - (order - 1) * math.expm1(2 * beta)))
        spread = (-order * beta - math.log1p(order * math.expm1(-2 * beta)) / 2) / (order - 1)
        return (mean + spread) * (1 + 1e-12)

    def tested(self, limit: float) -> Curve:
        """The curve, whatever the data, of: release the bound first, and the labels only if it is at most `limit`. Theorem P27.

        Args:
            limit: nats at `order`, fixed before anything was released.
        """
        return Approximate(curve=RenyiTable(orders=(self.order,), values=(limit + self.rdp,)), delta0=self.failure)

    @property
    def relation(self) -> Relation:
        """One teacher's ballots in all rounds are replaced."""
        return "replace_one"
