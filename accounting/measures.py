"""Quantities that a budget may add up, one class each: cost, capacity, what a sum means, and words.

A budget has one of them (`Budget.measure`), and its filter, ledgers, reports and refusals ask it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Protocol, final

from accounting.convert.bounds import best_epsilon
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, MOST, Cost
from accounting.curves import (
    ZCDP,
    ApproxDP,
    Approximate,
    BoundedRange,
    Composed,
    Curve,
    GaussianDP,
    LaplaceDP,
    PureDP,
    RenyiTable,
)
from accounting.errors import InvalidCurve
from accounting.numbers import (
    DOWN,
    PRECISE,
    exact,
    float_down,
    float_up,
    multiple,
    times_up,
    units_up,
)
from accounting.wording import format_number, in_words

# Decimal's ln is correctly rounded to 60 digits; this covers the few operations around it.
_GUARD = Decimal("1e-40")
_MOST_MU = 2.0**13  # mu^2 beyond 9e6 is more than a cost counts
# a smaller parameter is a smaller guarantee
_ORDERED = (PureDP, BoundedRange, GaussianDP, LaplaceDP, ZCDP)
_DECLARED = "The budget of a declared dataset stays as it is."
_OTHER_FORM = "state a new budget as Budget(epsilon=, delta=)"


class Limits(Protocol):
    """A budget, as far as a measure asks for it."""

    @property
    def limit(self) -> float: ...
    @property
    def conversion_delta(self) -> Decimal: ...
    @property
    def capacity(self) -> Cost: ...


class Measure(ABC):
    """Base class of quantities that a budget adds up."""

    is_pure: ClassVar[bool] = False
    """True if the sum is an epsilon itself, so that shares of the budget are ratios of epsilons."""
    is_counted: ClassVar[bool] = False
    """True if charges are whole releases, whatever their noise, and nothing is refunded."""

    @property
    @abstractmethod
    def name(self) -> str | float:
        """The short name in data, which for Renyi divergence is the order."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The quantity in words, to complete "adds up ..."."""

    @property
    def unit(self) -> str:
        """The unit in words, in the plural."""
        return f"nats of {self.words}"

    @property
    def suits(self) -> str:
        """The releases that the budget was declared for, in words, to follow its amounts."""
        return ""

    @abstractmethod
    def filter_cost(self, curve: Curve) -> Cost | None:
        """Return the cost of `curve`, rounded up; None if it has none.

        Raises:
            InvalidCurve: a cost is NaN or negative, or delta0 is not a probability.
        """

    @abstractmethod
    def why_no_cost(self, curve: Curve, budget: Limits) -> str:
        """Return the reason why `budget` never pays for `curve`, and a remedy."""

    @abstractmethod
    def capacity(self, budget: Limits) -> Decimal:
        """Return the largest sum that implies the budget's guarantee, rounded down."""

    @abstractmethod
    def curve_of(self, total: float) -> Curve:
        """Return a curve for all sequences of charges that add up to `total`."""

    def epsilon(self, spent: int, budget: Limits) -> float:
        """Return an epsilon, rounded up, of all charges that add up to `spent` units."""
        return best_epsilon(
            self.curve_of(float_up(spent, MAIN_UNIT)),
            float_down(budget.conversion_delta),
            thorough=self.is_counted,
        ).value

    @abstractmethod
    def odometer(self, budget: Limits) -> tuple[Decimal, Decimal] | None:
        """Return the start of an odometer's epsilon and its increase per unit (Theorem F6).

        It is None if the budget has no delta for it, or if releases are counted.
        """

    @property
    @abstractmethod
    def mu_squared(self) -> float | None:
        """The mu^2 of a Gaussian release that costs 1; None if none of any size has a cost."""


class _Sum(Measure):
    """Base class of measures that add up a parameter of each charge's curve."""

    _margin: ClassVar[Decimal] = Decimal(1)
    _remedy: ClassVar[str]

    @abstractmethod
    def cost(self, curve: Curve) -> float:
        """Return the amount that `curve` adds to the sum; inf if it has no such guarantee."""

    @final
    def filter_cost(self, curve: Curve) -> Cost | None:
        main = self.cost(curve)
        if not (main >= 0 and 0 <= curve.delta0 <= 1):
            raise InvalidCurve(
                f"{type(curve).__name__} has no guarantee, because a cost is NaN or negative, or"
                " delta0 is not a probability"
            )
        if not math.isfinite(main):
            return None
        units = units_up(times_up(exact(main), self._margin), MAIN_UNIT)
        # A cost that underflows to 0 is not free: only a curve that reveals nothing is free.
        units = max(units, 1) if curve.core_epsilon > 0 else units
        return Cost(units, units_up(exact(curve.delta0), FAILURE_UNIT)) if units <= MOST else None

    @final
    def why_no_cost(self, curve: Curve, budget: Limits) -> str:
        name = type(curve).__name__
        if curve.delta0 > 0 and budget.capacity.failure == 0:
            return (
                f"{name} may fail with probability {format_number(curve.delta0)}, and {budget!r}"
                f" has no failure probability of at least {FAILURE_UNIT} to spend. Choose"
                " a mechanism without delta, or state a new budget with a delta (or a larger"
                f" failure). {_DECLARED}"
            )
        if math.isfinite(main := self.cost(curve)):
            return (
                f"{name} costs {main:g} nats, which offers no privacy and is more than a filter"
                " can count (9e6 nats). Add noise."
            )
        return (
            f"{name} has no finite {self.words}, which is what {budget!r} adds up. {self._remedy}"
            f" {_DECLARED}"
        )


@final
@dataclass(frozen=True)
class PureEpsilon(_Sum):
    """The sum of epsilons outside of bad events. Theorem F2."""

    name = "epsilon"
    words = "pure epsilon"
    is_pure = True
    mu_squared = None
    _remedy = f"Choose a mechanism with a pure epsilon, or {_OTHER_FORM} or Budget(rho=, delta=)."

    def cost(self, curve: Curve) -> float:
        return curve.core_epsilon

    def capacity(self, budget: Limits) -> Decimal:
        return exact(budget.limit)

    def curve_of(self, total: float) -> Curve:
        return PureDP(epsilon=total)

    def epsilon(self, spent: int, budget: Limits) -> float:
        return float_up(spent, MAIN_UNIT)

    def odometer(self, budget: Limits) -> tuple[Decimal, Decimal]:
        return Decimal(0), MAIN_UNIT


@final
@dataclass(frozen=True)
class Rho(_Sum):
    """The sum of zCDP parameters. Theorem F3."""

    name = "rho"
    words = "rho"
    mu_squared = 2.0
    _remedy = (
        f"Choose a mechanism with a finite rho, or {_OTHER_FORM}, whose filter needs one Renyi"
        " order only."
    )

    def cost(self, curve: Curve) -> float:
        return curve.rho

    def capacity(self, budget: Limits) -> Decimal:
        return exact(budget.limit)

    def curve_of(self, total: float) -> Curve:
        return ZCDP(rho=total)

    def odometer(self, budget: Limits) -> tuple[Decimal, Decimal] | None:
        delta = float_down(budget.conversion_delta)
        return _odometer_of_rho(delta, budget.limit, Decimal(1)) if delta else None


@final
@dataclass(frozen=True)
class SquaredMu(_Sum):
    """The sum of mu^2 of Gaussian releases, and of releases that are covered by one. Theorem F9."""

    name = "mu^2"
    words = unit = "mu^2 (Gaussian)"
    suits = ", for Gaussian noise (μ² is added up)"
    mu_squared = 1.0
    _remedy = (
        "Choose Gaussian noise, or state a new budget with a Renyi order: Budget(epsilon=, delta=)"
        " or Budget.for_workload(curve=)."
    )

    def cost(self, curve: Curve) -> float:
        return curve.mu_squared

    def capacity(self, budget: Limits) -> Decimal:
        return gaussian_capacity(budget.limit, float_down(budget.conversion_delta))

    def curve_of(self, total: float) -> Curve:
        return GaussianDP(mu=math.sqrt(total) * (1 + 1e-15))

    def odometer(self, budget: Limits) -> tuple[Decimal, Decimal]:
        rho = float(multiple(budget.capacity.main, MAIN_UNIT)) / 2
        return _odometer_of_rho(float_down(budget.conversion_delta), rho, Decimal("0.5"))


@final
@dataclass(frozen=True)
class RenyiDivergence(_Sum):
    """The sum of Renyi divergences of one order > 1. Theorem F4."""

    order: float
    # A Renyi bound is a handful of floating-point operations, good to a few ulps, and the laws
    # hold it to one part in 10^12.
    _margin = Decimal("1.000000000001")
    _remedy = (
        "Choose a mechanism whose Renyi divergence is finite there, or state a new budget by"
        " Budget.for_workload(curve=)."
    )

    @property
    def name(self) -> float:
        return self.order

    @property
    def words(self) -> str:
        return f"Renyi divergence of order {self.order:g}"

    @property
    def mu_squared(self) -> float:
        return 2 / self.order

    def cost(self, curve: Curve) -> float:
        return float(curve.rdp(self.order))

    def capacity(self, budget: Limits) -> Decimal:
        return renyi_capacity(budget.limit, budget.conversion_delta, self.order)

    def curve_of(self, total: float) -> Curve:
        return RenyiTable(orders=[self.order], values=[total])

    def epsilon(self, spent: int, budget: Limits) -> float:
        # each nat of divergence is a nat of epsilon: what is left of one is left of the other
        capacity = multiple(budget.capacity.main, MAIN_UNIT)
        return max(0.0, float_up(spent, MAIN_UNIT, PRECISE.subtract(exact(budget.limit), capacity)))

    def odometer(self, budget: Limits) -> tuple[Decimal, Decimal]:
        return anytime_overhead(float_down(budget.conversion_delta), self.order), MAIN_UNIT


@final
@dataclass(frozen=True)
class Releases(Measure):
    """The number of releases of one declared curve, at most `most`. Theorem F10."""

    release: Curve
    most: int
    name = "release"
    words = unit = "releases of the declared curve"
    is_counted = True
    mu_squared = None

    @property
    def suits(self) -> str:
        return f", for releases of {in_words(self.release.to_json())}"

    def filter_cost(self, curve: Curve) -> Cost | None:
        count = _releases_in(curve, self.release)
        return None if count is None else Cost(int(count / MAIN_UNIT), 0)

    def why_no_cost(self, curve: Curve, budget: Limits) -> str:
        return (
            f"this {type(curve).__name__} does not fit a budget that was declared for"
            f" releases of {self.release!r} and smaller ones of that kind. Lower its cost,"
            " add the declared noise, or declare another dataset with a budget for it"
        )

    def capacity(self, budget: Limits) -> Decimal:
        return Decimal(self.most)

    def curve_of(self, total: float) -> Curve:
        return math.ceil(total) * self.release

    def odometer(self, budget: Limits) -> None:
        return None


def _releases_in(curve: Curve, release: Curve) -> int | None:
    """Return the least number of copies of `release` known to cover `curve`; None if there is none.

    A curve that is free counts 0.
    """
    if curve.core_epsilon == 0 and curve.delta0 == 0:
        return 0
    if _is_covered(curve, release):
        return 1
    if not isinstance(curve, Composed):
        return None
    if isinstance(release, Composed):  # a plan may be the release's own parts again and again
        count = -(-curve.parts[0][0] // release.parts[0][0])
        return count if Composed.from_parts([(count, release)]) == curve else None
    if all(_is_covered(part, release) for _, part in curve.parts):
        return sum(count for count, _ in curve.parts)
    return None


def _is_covered(curve: Curve, release: Curve) -> bool:
    """Return True if every mechanism that satisfies `curve` is seen to satisfy `release`.

    The two are equal, or of one kind with no larger parameter.
    """
    if curve == release:
        return True
    if isinstance(curve, Approximate) and isinstance(release, Approximate):
        return curve.added <= release.added and _is_covered(curve.curve, release.curve)
    if isinstance(curve, ApproxDP) and isinstance(release, ApproxDP):
        return curve.epsilon0 <= release.epsilon0 and curve.failure <= release.failure
    if isinstance(curve, _ORDERED) and isinstance(release, _ORDERED):
        return type(curve) is type(release) and curve.parameter <= release.parameter
    return False


@lru_cache(maxsize=256)
def renyi_capacity(epsilon: float, delta: Decimal, order: float) -> Decimal:
    """Return the largest Renyi divergence that implies (epsilon, delta)-DP, rounded down.

    It is negative if there is none. Proposition 12 of Canonne, Kamath and Steinke (2020), solved
    for the divergence. Theorem F4.
    """
    a, unity = exact(order), Decimal(1)
    gain = PRECISE.ln(PRECISE.subtract(unity, PRECISE.divide(unity, a)))
    cost = PRECISE.divide(PRECISE.ln(PRECISE.multiply(delta, a)), PRECISE.subtract(a, unity))
    return PRECISE.subtract(PRECISE.add(PRECISE.subtract(exact(epsilon), gain), cost), _GUARD)


@lru_cache(maxsize=256)
def gaussian_capacity(epsilon: float, delta: float) -> Decimal:
    """Return the square of the largest mu for which GaussianDP(mu) is (epsilon, delta)-DP.

    It is rounded down, and 0 if there is no such mu. Theorem F9.
    """
    low, high = 0.0, 1.0
    while high < _MOST_MU and GaussianDP(mu=high).profile(epsilon) <= delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (
            (middle, high) if GaussianDP(mu=middle).profile(epsilon) <= delta else (low, middle)
        )
    return DOWN.multiply(Decimal(low), Decimal(low))


def anytime_overhead(delta: float, order: float) -> Decimal:
    """Overhead ln(1/delta)/(order - 1), rounded up, of a guarantee at all times. Theorem F6."""
    cost = PRECISE.divide(PRECISE.ln(exact(delta)), PRECISE.subtract(exact(order), Decimal(1)))
    return PRECISE.subtract(_GUARD, cost)


def _odometer_of_rho(delta: float, rho: float, rho_of_unit: Decimal) -> tuple[Decimal, Decimal]:
    """Return the odometer of a sum of zCDP parameters that ends at `rho`.

    Its order is the best one when all of `rho` is spent: a choice made before any charge.
    """
    order = 1 + float(f"{math.sqrt(math.log(1 / delta) / rho):.4g}")
    return anytime_overhead(delta, order), times_up(times_up(exact(order), rho_of_unit), MAIN_UNIT)
