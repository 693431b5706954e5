"""Zero-concentrated differential privacy."""

from __future__ import annotations

import math
from typing import Literal, final

from pydantic import Field

from accounting.curves.base import Floats, OneParameter
from accounting.frozen import NonNegative


@final
class ZCDP(OneParameter):
    """Renyi divergence of every order a is at most a * rho. Theorem C5 (definition; no dominating pair is implied).

    Args:
        rho: nats, >= 0.

    Example:
        >>> import accounting as acc
        >>> (acc.ZCDP(rho=0.1) + acc.ZCDP(rho=0.2)).rho
        0.3
    """

    kind: Literal["zcdp"] = "zcdp"
    rho0: NonNegative = Field(alias="rho", description="a finite rho >= 0, in nats")

    @property
    def parameter(self) -> float:
        return self.rho0

    @staticmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        return parameter * orders

    @property
    def rho(self) -> float:
        return self.rho0

    @property
    def core_epsilon(self) -> float:
        return 0.0 if self.rho0 == 0 else math.inf
