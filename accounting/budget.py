"""`Budget`: a limit on privacy cost in one of five forms, with the costs of a privacy filter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast, final

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, model_serializer, model_validator

from accounting.convert.bounds import best_epsilon
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, MOST, NOTHING, Cost
from accounting.curves import AnyCurve, Curve
from accounting.errors import InvalidArgument, InvalidBudget, Unaffordable
from accounting.frozen import Count, Frozen, NonNegative, Positive, in_full
from accounting.guarantee import HasCurve, curve_and_relation
from accounting.measures import (
    Measure,
    PureEpsilon,
    Releases,
    RenyiDivergence,
    Rho,
    SquaredMu,
    gaussian_capacity,
    renyi_capacity,
)
from accounting.numbers import (
    DOWN,
    Floats,
    exact,
    float_down,
    float_up,
    next_up,
    units_down,
    units_up,
)
from accounting.sections import Section, Sectioned
from accounting.wording import format_number

Order = float | Literal["inf", "gaussian"]

_ORDERS = 1 + np.geomspace(1e-4, 1e18, 177)
_ROUNDS, _POINTS = 4, 17
_SHORT = Context(prec=6, rounding=ROUND_FLOOR)
_MOST_RELEASES = 2**22 - 1  # in units of 10^-12 they are within what a cost counts
RECORDED = "recorded"  # the context in which what a ledger has recorded is read
_VERSIONS = 1.001  # by how much what was admitted may cost more by another version's conversion
_NEAR = 1.2  # no plan is known whose cost a thorough account lowers by more


def _order(value: object) -> object:
    if value is None or value in (math.inf, "inf", "gaussian"):
        return "inf" if value == math.inf else value
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not 1 < value < 1e300
    ):
        raise ValueError(
            "a Renyi order above 1, 'inf' for the sum of pure epsilons, or 'gaussian' for the sum"
            " of mu^2"
        )
    return float(value)


@final
class Budget(Frozen, Sectioned):
    """A limit on the privacy cost of a plan or a dataset.

    There are five forms. `Budget(epsilon=)` is pure and `Budget(epsilon=, delta=)` approximate.
    `Budget(rho=)` and `Budget(rho=, delta=)` are zero-concentrated, where `delta` is the most that
    the bad events (`Curve.delta0`) may add up to. `Budget(advantage=)` is an attacker's greatest
    gain (`Curve.advantage`), and `Budget(fpr=, tpr=)` the greatest true positive rate of an
    attacker with that false positive rate (`Curve.attack`, Theorems R1 and R2). These two serve to
    choose the noise of a plan, and no filter or ledger counts in them.

    `admits` judges a plan that is fixed in advance. `filter_cost`, `capacity` and `fits` form a
    privacy filter: charges may be chosen after seeing earlier answers, and a sequence of them is
    allowed while the sum of costs is at most the capacity. Theorems F1 to F3.

    The approximate form adds up one quantity, which is fixed here and never changes later:

    - Renyi divergence of one `order` (> 1), or pure epsilons at order "inf" (Theorems F2 and F4).
    - mu^2 at order "gaussian", for Gaussian releases (Theorem F9).
    - The number of releases of one declared curve, at most as many as one plan of them may have
      (Theorem F10). A charge of `release`, or of a smaller curve of its kind, counts as one, and
      any other curve is refused. `releases` records the number and is computed here.

    By default the order is the best one for zCDP charges; `for_workload` chooses one for other
    curves. `failure` is the part of delta that bad events may use: by default one half, or all of
    it at order "inf". The rest pays for the conversion.

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
    advantage: Annotated[Positive, Field(lt=1)] | None = Field(
        default=None, description="an advantage in (0, 1)"
    )
    fpr: Annotated[Positive, Field(lt=1)] | None = Field(
        default=None, description="a false positive rate in (0, 1)"
    )
    tpr: Annotated[Positive, Field(lt=1)] | None = Field(
        default=None, description="a true positive rate in (0, 1)"
    )
    order: Annotated[Order | None, BeforeValidator(_order)] = Field(
        default=None, description="a Renyi order above 1, 'inf' or 'gaussian'"
    )
    failure: NonNegative | None = Field(
        default=None, description="a probability from 0 up to delta"
    )
    release: AnyCurve | None = Field(default=None, description="the curve of one release")
    releases: Annotated[Count, Field(le=_MOST_RELEASES)] | None = Field(
        default=None, description="a number of releases"
    )

    @model_validator(mode="after")
    def _has_one_form(self, info: ValidationInfo) -> Self:
        if sum(amount is not None for amount in self._amounts) != 1:
            raise ValueError(
                "exactly one of epsilon, rho, advantage and the pair of fpr and tpr must be given"
                " (epsilon and rho with or without delta)"
            )
        if (self.fpr is None) != (self.tpr is None) or (
            self.fpr is not None and self.tpr is not None and self.fpr >= self.tpr
        ):
            raise ValueError(
                "fpr and tpr must be given together, with fpr < tpr. Raise tpr, because a guess"
                " without looking has a true positive rate of fpr"
            )
        if self.is_about_attacks and self.delta > 0:
            raise ValueError(
                "delta cannot be given with an advantage or a true positive rate, which include"
                " every failure. Leave delta out"
            )
        if self.release is None and self.releases is not None:
            raise ValueError(
                "releases needs a release, whose number it counts. Leave it out, because it is"
                " computed"
            )
        if self.form != "approximate" and (self.order, self.failure, self.release) != (
            None,
            None,
            None,
        ):
            raise ValueError(
                "order, failure and release need Budget(epsilon=, delta=) with delta > 0."
                " Leave them out"
            )
        if self.release is not None:
            if self.order is not None or self.failure is not None:
                raise ValueError(
                    "order and failure cannot be given with a release, because a plan of"
                    " releases has neither. Leave them out"
                )
            self._fix_releases(recorded=info.context == RECORDED)
        elif self.form == "approximate":
            self._fix_filter()
        return self

    def _fix_releases(self, *, recorded: bool) -> None:
        """Store the number of releases of a plan, so that later versions count the same number."""
        assert self.release is not None
        if self.releases is None:
            most = greatest(
                lambda count: self.admits(count * cast(Curve, self.release)), _MOST_RELEASES
            )
            if most == 0:
                raise ValueError(
                    f"the budget does not cover one release ({type(self.release).__name__})."
                    " Raise it, or add noise"
                )
            object.__setattr__(self, "releases", most)
        elif "capacity" in vars(self):  # validated before, and now as a field of another model
            return
        elif not (self.admitted_before if recorded else self.admits)(self.releases * self.release):
            raise ValueError(
                f"releases={self.releases} is more than the budget covers. Leave it out,"
                " because it is computed"
            )
        assert self.capacity.main > 0

    def _fix_filter(self) -> None:
        """Store the defaults in the fields, so that later versions cannot choose other ones."""
        if self.failure is None:
            half = float_down(DOWN.divide(exact(self.delta), Decimal(2)))
            object.__setattr__(self, "failure", self.delta if self.order == "inf" else half)
        if self.conversion_delta < 0 or (self.conversion_delta == 0 and self.order != "inf"):
            raise ValueError(
                f"failure={self.failure!r} leaves nothing of delta={self.delta!r} for the"
                " conversion. Lower it"
            )
        if self.order is None:
            # The order that admits the most zCDP, four digits; "inf" if none admits any. It depends
            # on the budget alone.
            epsilon, delta = self.limit, float(self.conversion_delta)
            order, most = _argmax(lambda orders: _capacities(epsilon, delta, orders) / orders, ())
            pays = most > 0 and renyi_capacity(epsilon, exact(delta), order) > 0
            object.__setattr__(self, "order", order if pays else "inf")
        if self.order == "gaussian" and units_down(self.measure.capacity(self), MAIN_UNIT) == 0:
            raise ValueError(
                "order='gaussian' leaves less than mu = 1e-6 to spend. Raise epsilon or delta"
            )
        if isinstance(self.order, float) and self.measure.capacity(self) <= 0:
            raise ValueError(
                f"order={self.order!r} converts to more than epsilon={self.epsilon!r} before"
                " anything is spent. Raise the order"
            )

    @model_serializer(mode="wrap")
    def _stated_only(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    @classmethod
    def for_workload(cls, *, epsilon: float, delta: float, curve: Curve | HasCurve) -> Self:
        """Return the (epsilon, delta) budget that pays for most separate charges of `curve`.

        It chooses the order and the failure probability. If the curve is Gaussian, or nearly, the
        budget adds up mu^2 and pays for as many charges as a plan would. Otherwise it adds up Renyi
        divergence. Any other curve may be charged too: the choice decides how far the budget goes,
        and never changes its guarantee.

        Raises:
            InvalidBudget: epsilon or delta is outside its domain, or no order pays for one charge
                of the curve.
            InvalidArgument: the curve has no Renyi cost.
        """
        plain, curve = cls(epsilon=epsilon, delta=delta), curve_and_relation(curve, None)[0]
        if plain.form != "approximate":
            raise InvalidBudget(
                "for_workload needs a delta > 0, because a pure budget has no order to choose"
            )
        if curve.core_epsilon == 0:
            raise InvalidArgument(
                f"{type(curve).__name__} has no Renyi cost. Use Budget(epsilon=, delta=,"
                " order='inf')"
            )
        order, count = _workload(plain.limit, plain.delta, curve)
        if count < 1:
            remedy = (
                "One release fits by its privacy losses. State"
                f" Budget(epsilon={epsilon!r}, delta={in_full(delta)}, release=curve), which"
                " counts releases of this curve."
                if plain.admits(curve)
                else "Raise them, or lower the cost of the mechanism."
            )
            raise InvalidBudget(
                f"no Renyi order admits one {type(curve).__name__} at epsilon={epsilon!r},"
                f" delta={format_number(delta)}. {remedy}"
            )
        failure = float_up(count * units_up(exact(curve.delta0), FAILURE_UNIT), FAILURE_UNIT)
        return cls(epsilon=epsilon, delta=delta, order=order, failure=failure)

    def sections(self) -> Iterator[Section]:
        """Return the fields that were stated."""
        yield Section("Budget", [(str(name), value) for name, value in self.__repr_args__()])

    @property
    def form(self) -> Literal["pure", "approximate", "zcdp", "advantage", "attack"]:
        """The form of the budget, one of five."""
        if self.advantage is not None:
            return "advantage"
        if self.tpr is not None:
            return "attack"
        if self.rho is not None:
            return "zcdp"
        return "approximate" if self.delta > 0 else "pure"

    @property
    def limit(self) -> float:
        """The bound on `cost`: epsilon or rho, in nats, an advantage, or a true positive rate."""
        return next(amount for amount in self._amounts if amount is not None)

    @property
    def is_about_attacks(self) -> bool:
        """True if the limit is on an attacker's gain, which serves plans and is never added up."""
        return self.form in ("advantage", "attack")

    @property
    def _amounts(self) -> tuple[float | None, ...]:
        return self.epsilon, self.rho, self.advantage, self.tpr

    @property
    def conversion_delta(self) -> Decimal:
        """The part of delta, exact, that pays for converting the sum of charges into epsilon."""
        return DOWN.subtract(exact(self.delta), exact(self.failure or 0.0))

    # -- a plan that is fixed in advance -----------------------------------------------------------

    def cost(self, curve: Curve | HasCurve, *, thorough: bool = False) -> float:
        """Return the cost of `curve`, as a fixed plan, in the unit of `limit`; inf if it has none.

        Args:
            curve: a curve or mechanism.
            thorough: True to try every conversion, as in `best_epsilon`.
        """
        curve = curve_and_relation(curve, None)[0]
        if self.form == "advantage":
            return curve.advantage
        if self.fpr is not None:
            return curve.attack(self.fpr)
        if self.form == "zcdp":
            return curve.rho if exact(curve.delta0) <= exact(self.delta) else math.inf
        return (
            curve.pure_epsilon
            if self.form == "pure"
            else best_epsilon(curve, self.delta, thorough=thorough).value
        )

    def admits(self, curve: Curve | HasCurve) -> bool:
        """Return True if the whole budget pays for `curve`, as a plan that is fixed in advance."""
        cost = self.cost(curve)
        return self.covers(
            self.cost(curve, thorough=True) if self.limit < cost <= _NEAR * self.limit else cost
        )

    def admitted_before(self, curve: Curve) -> bool:
        """Return True if another version may have admitted `curve`, with a tolerance of 0.1%."""
        cost = self.cost(curve, thorough=True)
        return cost <= self.limit * _VERSIONS

    def covers(self, cost: float) -> bool:
        """Return True if `cost` is at most `limit`, comparing both as printed decimals."""
        return math.isfinite(cost) and exact(cost) <= exact(self.limit)

    # -- a filter: charges chosen one after the other ----------------------------------------------

    @property
    def measure(self) -> Measure:
        """The quantity that main costs add up."""
        if self.rho is not None:
            return Rho()
        if self.release is not None:
            return Releases(self.release, self.releases or 0)
        if isinstance(self.order, float):
            return RenyiDivergence(self.order)
        return SquaredMu() if self.order == "gaussian" else PureEpsilon()

    @cached_property
    def capacity(self) -> Cost:
        """The largest allowed sum of costs, rounded down.

        Raises:
            InvalidBudget: the budget is an advantage or a true positive rate.
        """
        if self.is_about_attacks:
            raise InvalidBudget(
                f"{self!r} is for a plan that is charged as a whole. Calibrate with it, and state"
                " the budget of separate charges, a filter or a ledger as Budget(epsilon=, delta=)"
                " or Budget(rho=, delta=)"
            )
        # that of a release is part of its plan
        failure = self.failure if self.form == "approximate" else self.delta
        return Cost(
            min(MOST, units_down(self.measure.capacity(self), MAIN_UNIT)),
            units_down(exact(failure or 0.0), FAILURE_UNIT),
        )

    def filter_cost(self, curve: Curve | HasCurve) -> Cost:
        """Return the cost that the filter charges for `curve`, rounded up.

        A composition given as one curve is charged as one fixed plan. If the filter's own unit
        overrates a plan that `admits` allows, the plan costs the whole capacity, so it fits only
        when nothing else is charged before or after it. Theorem F5.

        Raises:
            Unaffordable: no budget of this form, order and delta can ever pay for the curve; the
                message says which one could.
        """
        curve = curve_and_relation(curve, None)[0]
        cost = self._item_cost(curve)
        whole = self.capacity
        if cost is not None and self.fits(NOTHING, cost):
            return cost
        if whole.main > 0 and self.admits(curve):
            return whole
        if cost is None:
            raise Unaffordable(self.measure.why_no_cost(curve, self))
        return cost

    def refund(self, whole: Curve, part: Curve) -> Cost:
        """Return the refund of `whole`'s cost after only `part` of it ran. Theorem F8.

        The refund is nothing if the cost was the whole capacity.
        """
        cost, used = self._item_cost(whole), self._item_cost(part)
        # A release holds its own chance of failure, which stays charged.
        if self.measure.is_counted or cost is None or used is None or not self.fits(NOTHING, cost):
            return NOTHING
        return Cost(max(0, cost.main - used.main), 0)

    def _item_cost(self, curve: Curve) -> Cost | None:
        cost = self.measure.filter_cost(curve)
        return None if cost is not None and cost.failure > 0 == self.capacity.failure else cost

    def cost_of_each(self, curve: Curve | HasCurve, charges: int | Fraction) -> float:
        """Return the filter's cost of `charges` separate charges of `curve`, in `limit`'s unit.

        The cost is at most `limit` if and only if `how_many` allows that many charges, and inf if
        their failure probabilities do not fit.
        """
        cost = self._item_cost(curve_and_relation(curve, None)[0])
        total = None if cost is None else cost.times(charges)
        if total is None or total.failure > self.capacity.failure or self.capacity.main == 0:
            return math.inf
        share = self.limit * (total.main / self.capacity.main)
        return (
            min(share, self.limit) if self.fits(NOTHING, total) else max(share, next_up(self.limit))
        )

    def failure_of_each(self, charges: int | Fraction) -> float:
        """Return the largest failure probability (`Curve.delta0`) of each of `charges` charges.

        It is rounded down to six digits, and is 0 if no failure is allowed.
        """
        return float(_SHORT.multiply(Decimal(self.capacity.failure // charges), FAILURE_UNIT))

    def fits(self, spent: Cost, cost: Cost) -> bool:
        """Return True if `cost` may be charged after `spent`.

        Raises:
            InvalidArgument: a cost is negative or not made of whole units.
        """
        spent.require_charge()
        cost.require_charge()
        total = spent.plus(cost)
        return total.main <= self.capacity.main and total.failure <= self.capacity.failure

    def can_afford(self, spent: Cost, curve: Curve | HasCurve) -> bool:
        """Return True if `curve` may be charged after `spent`.

        It is False also for a curve that this form can never pay for.
        """
        try:
            return self.fits(spent, self.filter_cost(curve))
        except Unaffordable:
            return False

    def how_many(self, curve: Curve | HasCurve, spent: Cost = NOTHING) -> int:
        """Return the number of separate charges of `curve` that fit after `spent`.

        A plan that is fixed now is often longer (see `calibrate_count`).

        Raises:
            InvalidArgument: the curve costs nothing, so any number fits.
            Unaffordable: this form can never pay for the curve.
        """
        cost = self.filter_cost(curve)
        if cost == NOTHING:
            raise InvalidArgument(
                f"{type(curve).__name__} costs nothing, so any number of charges fits"
            )
        return min(
            have // need
            for have, need in zip(self.capacity.minus(spent), cost, strict=True)
            if need > 0
        )


def greatest(admits: Callable[[int], bool], most: int) -> int:
    """Return the greatest count <= `most` that is admitted with all smaller ones, or 0."""
    low, high = 0, 1
    while high <= most and admits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


__all__ = ["NOTHING", "Budget", "Cost"]


def check_budget(budget: object) -> Budget:
    """Return `budget`, or raise InvalidArgument if it is not a Budget."""
    if not isinstance(budget, Budget):
        raise InvalidArgument(
            f"budget must be a Budget, not {type(budget).__name__}. State one, for example"
            " Budget(epsilon=1.0)"
        )
    return budget


_LEAST = 1e-290  # a squared shift by which a capacity is divided, without overflow


def _workload(epsilon: float, delta: float, curve: Curve) -> tuple[Order, int]:
    """Return the order that pays for most charges of `curve`, and the number of charges.

    The failure probabilities of the charges are paid for too.
    """

    def repetitions_at(count: float) -> tuple[Order, float]:
        remaining = delta - count * curve.delta0

        def repetitions(orders: Floats) -> Floats:
            cost = curve.rdp(orders)
            return np.divide(
                _capacities(epsilon, remaining, orders),
                cost,
                out=np.zeros_like(cost),
                where=cost > 0,
            )

        renyi, gaussian = (
            _argmax(repetitions, curve.table_orders),
            float(gaussian_capacity(epsilon, remaining)) / max(curve.mu_squared, _LEAST),
        )
        return ("gaussian", gaussian) if gaussian > renyi[1] else renyi

    most = repetitions_at(0)[1]
    count = (
        most
        if curve.delta0 == 0
        else _crossing(lambda n: repetitions_at(n)[1], min(most, 0.999 * delta / curve.delta0))
    )
    return repetitions_at(int(count))[0], int(count)


def _crossing(falling: Callable[[float], float], most: float) -> float:
    """Return the greatest n in [0, most] with falling(n) >= n, to one part in 10^4 or 1/8."""
    if falling(most) >= most:
        return most
    low, high = 0.0, most
    while high - low > max(0.125, 1e-4 * high):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) >= middle else (low, middle)
    return low


def _capacities(epsilon: float, delta: float, orders: Floats) -> Floats:
    """Approximate `renyi_capacity` in floating point, only to choose an order."""
    return np.maximum(
        0.0, epsilon - np.log1p(-1 / orders) + (math.log(delta) + np.log(orders)) / (orders - 1)
    )


def _argmax(score: Callable[[Floats], Floats], table: tuple[float, ...]) -> tuple[float, float]:
    """Return the order with the greatest score, and the score.

    If there are tabulated orders, only these are considered.
    """
    orders = np.array(table) if table else _ORDERS
    for _ in range(0 if table else _ROUNDS):
        top = int(np.argmax(score(orders)))
        low, high = orders[max(top - 1, 0)], orders[min(top + 1, len(orders) - 1)]
        orders = 1 + np.geomspace(low - 1, high - 1, _POINTS)
    scores = score(orders)
    best = float(orders[int(np.argmax(scores))])
    return (best if table else float(f"{1 + float(f'{best - 1:.4g}'):.15g}")), float(np.max(scores))
