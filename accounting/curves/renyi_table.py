"""A Renyi bound that is known at some orders only."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting.curves.base import Floats, Undoubted
from accounting.frozen import NonNegative, Real


@final
class RenyiTable(Undoubted):
    """Renyi bounds at given orders. Between them the next larger order is used, above the last there is none. Theorem C7.

    Args:
        orders: increasing, each above 1.
        values: nats, one per order, each >= 0, non-decreasing as Renyi divergence is.

    Example:
        >>> import accounting as acc
        >>> acc.RenyiTable(orders=(2.0, 8.0), values=(0.1, 0.4)).rdp([2.0, 3.0]).tolist()
        [0.1, 0.4]
    """

    kind: Literal["renyi_table"] = "renyi_table"
    orders: tuple[Real, ...] = Field(min_length=1, description="increasing orders above 1")
    values: tuple[NonNegative, ...] = Field(min_length=1, description="non-decreasing values >= 0, one per order")

    @model_validator(mode="after")
    def _is_a_guarantee(self) -> Self:
        if len(self.orders) != len(self.values):
            raise ValueError(f"{len(self.orders)} orders but {len(self.values)} values: give one value per order")
        if self.orders[0] <= 1 or any(a >= b for a, b in pairwise(self.orders)):
            raise ValueError("orders must be above 1 and strictly increasing: sort them, with their values")
        if any(a > b for a, b in pairwise(self.values)):
            raise ValueError("values must not decrease with the order: Renyi divergence never does; check the source")
        return self

    def _rdp(self, orders: Floats) -> Floats:
        return np.append(self.values, math.inf)[np.searchsorted(self.orders, orders, side="left")]

    @property
    def rho(self) -> float:
        return math.inf

    @property
    def core_epsilon(self) -> float:
        return math.inf

    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.orders
