"""`Budget`: what may be spent, in one of three forms, and the price at which a filter charges for it."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self, cast, final

import numpy as np
from pydantic import BeforeValidator, Field, model_serializer, model_validator

from accounting.budget.declared_release import releases_in
from accounting.budget.order import Order, default_order, gaussian_capacity, halved, less, renyi_capacity, rounded_down, workload
from accounting.budget.price import FAILURE_UNIT, MAIN_UNIT, MOST, NOTHING, Measure, Price, Remaining, itemised, uncounted
from accounting.conversion.bounds import best_epsilon
from accounting.curves import AnyCurve, Curve
from accounting.decimal_sum import exact, float_down, float_up, of_unit, units_up
from accounting.errors import InvalidArgument, InvalidBudget, Unaffordable
from accounting.frozen import Frozen, NonNegative, Positive
from accounting.guarantee import Priced, read_item

_Form = Literal["pure", "approximate", "zcdp"]
_SHORT = Context(prec=6, rounding=ROUND_FLOOR)
_MOST_RELEASES = 2**22  # in units of 10^-12 they are within what a price counts
_NEAR = 1.2  # no plan is known whose cost a thorough account lowers by more


def _order(value: object) -> object:
    if value is None or value in (math.inf, "inf", "gaussian"):
        return "inf" if value == math.inf else value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not 1 < value < 1e300:
        raise ValueError("a Renyi order above 1, 'inf' for the sum of pure epsilons, or 'gaussian' for the sum of mu^2")
    return float(value)


@final
class Budget(Frozen):
    """What a plan or a dataset may spend.

    `Budget(epsilon=)` is pure, `Budget(epsilon=, delta=)` approximate, `Budget(rho=)` or `Budget(rho=, delta=)`
    zero-concentrated, `delta` then being the most that the bad events (`Curve.delta0`) may add up to.

    `admits` judges a plan that is fixed in advance. `price`, `capacity` and `fits` are a privacy filter: charges may be chosen
    after seeing earlier answers, and a sequence of them is allowed while the sum of prices is at most the capacity. Theorems
    F1 to F3. The approximate form adds up one thing, which is fixed here and never changed later: Renyi divergence of one
    `order`; mu^2, for Gaussian releases (Theorem F9); or the releases of one declared curve, as many as a plan of them may
    have (Theorem F10).

    Args:
        epsilon: nats, > 0.
        delta: in [0, 1).
        rho: nats, > 0.
        order: of the approximate form only: the Renyi order (> 1) that charges are added at, "inf" for the sum of pure epsilons,
            or "gaussian" for the sum of mu^2. By default the best one for zCDP charges; `for_workload` chooses for other curves.
        failure: of the approximate form only: the part of delta that bad events may use; the rest pays for the conversion.
            By default one half of delta, all of it at order "inf".
        release: of the approximate form only, without order and failure: the curve of one release. A charge of it, or of a
            smaller curve of its kind, is one release, and as many fit as `admits` allows in one plan; nothing else is paid for.

    Raises:
        InvalidBudget: no form or two forms are given, or a value is outside its domain.

    Example:
        >>> import accounting as acc
        >>> budget = acc.Budget(epsilon=1.0)
        >>> budget.how_many(acc.PureDP(epsilon=0.3))
        3
        >>> acc.Budget(epsilon=1.0, delta=1e-6).admits(30 * acc.BoundedRange(epsilon=0.08))
        True
    """

    error_class: ClassVar[type[InvalidBudget]] = InvalidBudget
    epsilon: Positive | None = Field(default=None, description="a finite epsilon > 0, in nats")
    delta: Annotated[NonNegative, Field(lt=1)] = Field(default=0.0, description="a delta in [0, 1)")
    rho: Positive | None = Field(default=None, description="a finite rho > 0, in nats")
    order: Annotated[Order | None, BeforeValidator(_order)] = Field(
        default=None, description="a Renyi order above 1, 'inf' or 'gaussian'"
    )
    failure: NonNegative | None = Field(default=None, description="a probability from 0 up to delta")
    release: AnyCurve | None = Field(default=None, description="the curve of one release")

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either epsilon (with or without delta) or rho (with or without delta), not both or none")
        if self.form != "approximate" and (self.order, self.failure, self.release) != (None, None, None):
            raise ValueError("order, failure and release belong to Budget(epsilon=, delta=) with delta > 0: leave them out")
        if self.release is not None:
            self._check_release(self.release)
        elif self.form == "approximate":
            self._fix_filter()
        return self

    def _check_release(self, release: Curve) -> None:
        if self.order is not None or self.failure is not None:
            raise ValueError("release says what is charged, and a plan of it has no order and no failure: leave them out")
        if not self.admits(release):
            raise ValueError(f"it does not pay for one release ({type(release).__name__}): raise it, or add noise")

    def _fix_filter(self) -> None:
        """Write the defaults into the fields, so that they are stored and no later version can choose others."""
        if self.failure is None:
            object.__setattr__(self, "failure", self.delta if self.order == "inf" else halved(self.delta))
        if self.conversion_delta < 0 or (self.conversion_delta == 0 and self.order != "inf"):
            raise ValueError(f"failure={self.failure!r} leaves nothing of delta={self.delta!r} for the conversion: lower it")
        if self.order is None:
            object.__setattr__(self, "order", default_order(self.limit, float(self.conversion_delta)))
        if self.order == "gaussian" and rounded_down(self._main_capacity, MAIN_UNIT) == 0:
            raise ValueError("order='gaussian' leaves less than mu = 1e-6 to spend: raise epsilon or delta")
        if isinstance(self.order, float) and renyi_capacity(self.limit, self.conversion_delta, self.order) <= 0:
            raise ValueError(
                f"order={self.order!r} converts to more than epsilon={self.epsilon!r} before anything is spent: raise the order"
            )

    @model_serializer(mode="wrap")
    def _stated_only(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    @classmethod
    def for_workload(cls, *, epsilon: float, delta: float, curve: Curve | Priced) -> Self:
        """The (epsilon, delta) budget whose order and failure probability pay for most separate charges of `curve`.

        Where that is Gaussian, or nearly, the budget adds up mu^2, and pays for as many as a plan would; else Renyi divergence.
        Any other curve may be charged too: the choice decides how far the budget goes, never what it promises.

        Raises:
            InvalidBudget: epsilon or delta is outside its domain, or no order pays for one charge of the curve.
            InvalidArgument: the curve has no Renyi cost.
        """
        plain, curve = cls(epsilon=epsilon, delta=delta), read_item(curve, None)[0]
        if plain.form != "approximate":
            raise InvalidBudget("for_workload needs a delta > 0: a pure budget has no order to choose")
        if curve.core_epsilon == 0:
            raise InvalidArgument(f"{type(curve).__name__} has no Renyi cost: take Budget(epsilon=, delta=, order='inf')")
        order, count = workload(plain.limit, plain.delta, curve)
        if count < 1:
            raise InvalidBudget(
                f"no Renyi order pays for one {type(curve).__name__} out of epsilon={epsilon!r}, delta={delta!r}: raise them, "
                "or lower the cost of the mechanism"
            )
        failure = float_up(count * units_up(exact(curve.delta0), FAILURE_UNIT), FAILURE_UNIT)
        return cls(epsilon=epsilon, delta=delta, order=order, failure=failure)

    @property
    def form(self) -> _Form:
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

    @property
    def conversion_delta(self) -> Decimal:
        """The part of delta that pays for turning the sum of charges into epsilon; exact."""
        return less(self.delta, self.failure or 0.0)

    # -- a plan that is fixed in advance ------------------------------------------------------------------------------

    def cost(self, curve: Curve | Priced, *, thorough: bool = False) -> float:
        """What `curve` costs in the unit of `limit`, in nats; inf if nothing admits it. `thorough`: as `best_epsilon`."""
        curve = read_item(curve, None)[0]
        if self.form == "zcdp":
            return curve.rho if exact(curve.delta0) <= exact(self.delta) else math.inf
        return curve.pure_epsilon if self.form == "pure" else best_epsilon(curve, self.delta, thorough=thorough).value

    def admits(self, curve: Curve | Priced) -> bool:
        """Whether the whole budget pays for `curve`, a plan that is fixed in advance."""
        cost = self.cost(curve)
        return self.covers(self.cost(curve, thorough=True) if self.limit < cost <= _NEAR * self.limit else cost)

    def covers(self, cost: float) -> bool:
        """Whether `cost`, in the unit of `limit`, is within it, both read as the decimals that they print as."""
        return math.isfinite(cost) and exact(cost) <= exact(self.limit)

    # -- a filter: charges chosen one after the other -----------------------------------------------------------------

    @property
    def measure(self) -> Measure:
        """What the main part of a price adds up: pure epsilon, rho, or Renyi divergence of the order given here."""
        if self.form == "zcdp":
            return "rho"
        if self.release is not None:
            return "release"
        return "mu^2" if self.order == "gaussian" else self.order if isinstance(self.order, float) else "epsilon"

    @cached_property
    def capacity(self) -> Price:
        """The most that prices may add up to, rounded down."""
        failure = self.failure if self.form == "approximate" else self.delta  # that of a release is part of its plan
        return Price(min(MOST, rounded_down(self._main_capacity, MAIN_UNIT)), rounded_down(exact(failure or 0.0), FAILURE_UNIT))

    @property
    def _main_capacity(self) -> Decimal:
        if self.release is not None:
            return Decimal(_most_releases(self))
        if isinstance(self.order, float):
            return renyi_capacity(self.limit, self.conversion_delta, self.order)
        if self.order == "gaussian":
            return gaussian_capacity(self.limit, float_down(self.conversion_delta))
        return exact(self.limit)

    def price(self, curve: Curve | Priced) -> Price:
        """What the filter charges for `curve`, rounded up; a composition given as one curve is a fixed plan, one item.

        A plan that the filter's own unit overrates, but that `admits` allows, costs the whole capacity: it fits when nothing
        else is charged before or after it. Theorem F5.

        Raises:
            Unaffordable: no budget of this form, order and delta can ever pay for the curve; the message says what could.
        """
        curve = read_item(curve, None)[0]
        price = self._itemised(curve)
        whole = self.capacity
        if price is not None and self.fits(NOTHING, price):
            return price
        if whole.main > 0 and self.admits(curve):
            return whole
        if price is None:
            raise Unaffordable(self._why_not(curve))
        return price

    def unused(self, whole: Curve, part: Curve) -> Price:
        """What is given back of `whole`'s price where `part` of it ran: nothing if that was all of the capacity. Theorem F8."""
        price, used = self._itemised(whole), self._itemised(part)
        # A release holds its own chance of failure, which stays charged.
        if self.release is not None or price is None or used is None or not self.fits(NOTHING, price):
            return NOTHING
        return Price(max(0, price.main - used.main), 0)

    def _itemised(self, curve: Curve) -> Price | None:
        if self.release is not None:
            count = releases_in(curve, self.release)
            return None if count is None else Price(int(count / MAIN_UNIT), 0)
        return None if curve.delta0 > 0 and self.capacity.failure == 0 else itemised(curve, self.measure)

    def _why_not(self, curve: Curve) -> str:
        if self.release is not None:
            return f"{type(curve).__name__} is not the declared release, nor smaller: {self!r} pays for {self.release!r} alone"
        if curve.delta0 > 0 and self.capacity.failure == 0:
            return (
                f"{type(curve).__name__} may fail with probability {curve.delta0:g}, and {self!r} has no failure probability of "
                f"at least {FAILURE_UNIT} to spend. Give the budget a delta (or a larger failure), or choose a mechanism "
                "without delta."
            )
        return uncounted(curve, self.measure, self)

    def cost_of_each(self, curve: Curve | Priced, charges: int | Fraction) -> float:
        """What `charges` separate charges of `curve` cost the filter together, in the unit of `limit`, nats.

        At most `limit` exactly where `how_many` counts as many; inf where their chances of failure do not fit.
        """
        price = self._itemised(read_item(curve, None)[0])
        total = None if price is None else price.times(charges)
        if total is None or total.failure > self.capacity.failure or self.capacity.main == 0:
            return math.inf
        share = self.limit * (total.main / self.capacity.main)
        return min(share, self.limit) if self.fits(NOTHING, total) else max(share, math.nextafter(self.limit, math.inf))

    def failure_of_each(self, charges: int | Fraction) -> float:
        """The chance of failure (`Curve.delta0`) that each of `charges` charges may have; six digits, rounded down; 0 if none."""
        return float(_SHORT.multiply(Decimal(self.capacity.failure // charges), FAILURE_UNIT))

    def fits(self, spent: Price, price: Price) -> bool:
        """Whether `price` may be charged after `spent`.

        Raises:
            InvalidArgument: one of them is negative or no price.
        """
        spent.require_charge()
        price.require_charge()
        total = spent.plus(price)
        return total.main <= self.capacity.main and total.failure <= self.capacity.failure

    def can_afford(self, spent: Price, curve: Curve | Priced) -> bool:
        """Whether `curve` may be charged after `spent`; False also for a curve that this form can never pay for."""
        try:
            return self.fits(spent, self.price(curve))
        except Unaffordable:
            return False

    def how_many(self, curve: Curve | Priced, spent: Price = NOTHING) -> int:
        """How many separate charges of `curve` fit after `spent`; a plan that is fixed now is often longer (`calibrate_count`).

        Raises:
            InvalidArgument: the curve costs nothing, so any number fits.
            Unaffordable: this form can never pay for the curve.
        """
        price = self.price(curve)
        if price == NOTHING:
            raise InvalidArgument(f"{type(curve).__name__} costs nothing: any number of charges fits")
        return min(have // need for have, need in zip(self.capacity.minus(spent), price, strict=True) if need > 0)

    def remaining(self, spent: Price) -> Remaining:
        """What is left after `spent`, rounded down, at least 0."""
        left = self.capacity.minus(spent)
        main, failure = of_unit(left.main, MAIN_UNIT), of_unit(left.failure, FAILURE_UNIT)
        return Remaining(float_down(main), float_down(failure), self.measure)


@lru_cache(maxsize=256)
def _most_releases(budget: Budget) -> int:
    """The length of the longest plan of the declared release that the search finds and the budget admits. Theorem F10."""
    least, most = 1, 2
    while most < _MOST_RELEASES and budget.admits(most * cast(Curve, budget.release)):
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if budget.admits(middle * cast(Curve, budget.release)) else (least, middle)
    return least


__all__ = ["NOTHING", "Budget", "Measure", "Price", "Remaining"]


def checked_budget(budget: object) -> Budget:
    """A budget, if it is one."""
    if not isinstance(budget, Budget):
        raise InvalidArgument(f"budget must be a Budget, not {type(budget).__name__}: state one, as Budget(epsilon=1.0)")
    return budget
