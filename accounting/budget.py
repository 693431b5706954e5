"""`Budget`: what may be spent, in one of three forms."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self, final

from pydantic import Field, model_serializer, model_validator

from accounting.bounds import best_epsilon
from accounting.curves import Curve
from accounting.decimal_sum import steps
from accounting.errors import InvalidBudget
from accounting.frozen import Frozen, NonNegative, Positive

Form = Literal["pure", "approximate", "zcdp"]


@final
class Budget(Frozen):
    """What a plan or a dataset may spend.

    `Budget(epsilon=)` is pure, `Budget(epsilon=, delta=)` approximate, `Budget(rho=)` or `Budget(rho=, delta=)`
    zero-concentrated, `delta` then being the most that the bad events (`Curve.delta0`) may add up to.

    Args:
        epsilon: nats, > 0.
        delta: in [0, 1).
        rho: nats, > 0.

    Raises:
        InvalidBudget: no form or two forms are given, or a value is outside its domain.
    """

    error_class: ClassVar[type[InvalidBudget]] = InvalidBudget
    epsilon: Positive | None = Field(default=None, description="a finite epsilon > 0, in nats")
    delta: Annotated[NonNegative, Field(lt=1)] = Field(default=0.0, description="a delta in [0, 1)")
    rho: Positive | None = Field(default=None, description="a finite rho > 0, in nats")

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either epsilon (with or without delta) or rho (with or without delta), not both or none")
        return self

    @model_serializer(mode="wrap")
    def _stated_only(self, handler: Any) -> dict[str, float]:
        return {name: value for name, value in handler(self).items() if value is not None}

    @property
    def form(self) -> Form:
        """Which of the three forms this is."""
        if self.rho is not None:
            return "zcdp"
        return "approximate" if self.delta > 0 else "pure"

    @property
    def limit(self) -> float:
        """The number that `cost` is held against: epsilon or rho, in nats."""
        limit = self.epsilon if self.rho is None else self.rho
        assert limit is not None
        return limit

    def cost(self, curve: Curve) -> float:
        """What `curve` costs in the unit of `limit`, in nats; inf if no amount of this budget admits it."""
        if self.form == "zcdp":
            return curve.rho if steps(curve.delta0) <= steps(self.delta) else math.inf
        return curve.pure_epsilon if self.form == "pure" else best_epsilon(curve, self.delta).value

    def admits(self, curve: Curve) -> bool:
        """Whether the whole budget pays for `curve`, a plan that is fixed in advance."""
        cost = self.cost(curve)
        return math.isfinite(cost) and steps(cost) <= steps(self.limit)
