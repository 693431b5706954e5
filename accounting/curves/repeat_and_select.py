"""Cost of releasing the best of a random number of runs, and distributions of that number.

Only the best run is released. Theorem W4.
"""

from __future__ import annotations

import math
import numbers
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting.arguments import quote
from accounting.convert.pld.loss import Losses
from accounting.convert.renyi import largest_over_order, rdp_to_delta
from accounting.curves.base import AnyCurve, Curve
from accounting.curves.closed_form import PureDP
from accounting.errors import InvalidCurve
from accounting.frozen import Frozen, Positive, Probability, Real
from accounting.numbers import FEW_UP, Floats
from accounting.relations import Relation

_ORDERS = 1 + np.geomspace(1e-2, 1e6, 81)
_MOST_RUNS = 1e6  # expected; beyond it nobody runs anything
_PAD = 16 * 2.0**-52  # of the largest term: a few sums, products and powers
_MOST_EXPONENT = 300.0  # beyond it the pure epsilon says as much
_HATS = 1 + np.geomspace(1e-2, 1e6, 161)


@final
class TruncatedNegativeBinomial(Frozen):
    """A distribution of at least one run.

    The probability of k runs is proportional to (1-gamma)^k Gamma(k+eta)/(k! Gamma(eta)).

    It is geometric at eta = 1 and logarithmic at eta = 0. Below 0, tails are heavier and the cost
    is lower. A smaller gamma means more runs.

    Raises:
        InvalidCurve: a value is outside its domain, or more than 10^6 runs are expected.

    Example:
        >>> import accounting as acc
        >>> round(acc.TruncatedNegativeBinomial(eta=1.0, gamma=0.05).mean, 9)
        20.0
    """

    error_class: ClassVar[type[InvalidCurve]] = InvalidCurve
    kind: Literal["truncated_negative_binomial"] = "truncated_negative_binomial"
    eta: Annotated[Real, Field(gt=-1, le=100)] = Field(
        default=0.0, description="a shape > -1, at most 100"
    )
    gamma: Probability = Field(description="a number in (0, 1)")

    @model_validator(mode="after")
    def _is_run(self) -> Self:
        if not self.mean <= _MOST_RUNS:
            raise ValueError(
                f"gamma={self.gamma} gives more than a million expected runs. Use a larger one"
            )
        return self

    @classmethod
    def of_mean(cls, mean: float, *, eta: float = 0.0) -> Self:
        """Return the distribution with this `eta` and `mean` expected runs, at most 10^6.

        Raises:
            InvalidCurve: the mean is not a number above 1 and up to 10^6, or eta is outside its
                domain.
        """
        if (
            isinstance(mean, bool)
            or not isinstance(mean, numbers.Real)
            or not 1 < mean <= _MOST_RUNS
        ):
            raise InvalidCurve(
                f"mean={quote(mean)} expected runs must be a number above 1 and at most 10^6"
            )
        eta = cls(eta=eta, gamma=0.5).eta  # refused here if it is none
        low, high = math.log(1e-300), -1e-15
        while high - low > 1e-15 * abs(low):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if _mean(eta, math.exp(middle)) > mean else (low, middle)
        return cls(eta=eta, gamma=math.exp(high))

    @property
    def mean(self) -> float:
        """Expected number of runs."""
        return _mean(self.eta, self.gamma)

    def pure(self, epsilon: float) -> float:
        """Return the pure epsilon (nats) of the best of runs with pure `epsilon`.

        It is exact, rounded up, and below (2 + eta) epsilon.
        """
        return (epsilon + (1 + self.eta) * self._gain(epsilon)) * FEW_UP

    def _gain(self, epsilon: float) -> float:
        """Largest change (nats) of ln(gamma + (1 - gamma) G) for a probability G of one run."""
        return math.log1p(
            -math.expm1(-epsilon) * (1 - self.gamma) / (self.gamma + math.exp(-epsilon))
        )

    def renyi(self, base: Curve, orders: Floats) -> Floats:
        """Return (n,) Renyi bounds (nats) at n orders. Theorem 2 of Papernot and Steinke (2022)."""
        return (
            base._rdp(orders) + self.shift(base) + math.log(self.mean * FEW_UP) / (orders - 1)
        ) * FEW_UP

    def moments(self, epsilon: float, a: Floats, b: Floats, rest: Floats) -> Floats:
        """Return (n,) upper bounds on E_P[(P/P')^rest] of the best of runs with pure `epsilon`.

        Requires x^-rest <= a - b x on the ratios x of a run. Theorem W4 (vi).
        """
        power = (1 + self.eta) * rest
        ratio = np.minimum(a * rest / (b * (1 + rest)), math.exp(self._gain(epsilon)))
        part = ratio**power
        less = b * (1 + self.eta) * (1 + rest) / (1 + power)
        more = b * self.eta / (1 + power)
        pad = _PAD * (part * (a + ratio * less) + abs(more)) * (1 + power + (1 + rest) * epsilon)
        return part * (a - ratio * less) + more + pad

    def shift(self, base: Curve) -> float:
        """Increase of the bound at every order, nats.

        It is (1 + eta) times the minimum over orders b of (1 - 1/b) rdp(b) + ln(1/gamma)/b.
        """
        hats = np.concatenate([_HATS, [order for order in base.table_orders if order > 1]])
        log = -math.log(self.gamma)
        bounds = (1 - 1 / hats) * base._rdp(hats) + log / hats
        return (1 + self.eta) * min(log, base.core_epsilon, float(bounds.min())) * FEW_UP

    def profile_shift(self, base: Curve) -> float:
        """Shift (1 + eta) e of the profile, nats, rounded up. W4 (v).

        e solves e^e - 1 = (1/gamma - 1) times the profile of `base` at e.
        """
        odds = (1 / self.gamma - 1) * FEW_UP
        low, high = 0.0, math.log1p(odds) * FEW_UP
        while low < (middle := (low + high) / 2) < high:
            low, high = (
                (low, middle)
                if math.expm1(middle) >= odds * (base.profile(middle) or 0.0) * FEW_UP
                else (middle, high)
            )
        return (1 + self.eta) * high * FEW_UP

    def rho(self, base: Curve) -> float:
        """Return a zCDP parameter from the bounds up to `best_order` and their slope beyond."""
        rest = math.log(self.mean * FEW_UP)
        return (
            (base.rho + self.shift(base) + 2 * math.sqrt(rest * base.rho)) * FEW_UP
            if math.isfinite(base.rho)
            else math.inf
        )

    def best_order(self, base: Curve) -> float | None:
        """Return the order whose bound serves all smaller ones; None unless `base` is zCDP."""
        rest = math.log(self.mean * FEW_UP)
        return 1 + math.sqrt(min(rest / base.rho, 1e300)) if 0 < base.rho < math.inf else None


@final
class PoissonRuns(Frozen):
    """A Poisson distribution of the number of runs; without a run, nothing is released."""

    error_class: ClassVar[type[InvalidCurve]] = InvalidCurve
    kind: Literal["poisson"] = "poisson"
    mean: Annotated[Positive, Field(le=_MOST_RUNS)] = Field(
        description="a number > 0, at most 10^6"
    )

    def pure(self, epsilon: float) -> float:
        """Return the exact pure epsilon (nats) of the best of pure runs, rounded up."""
        return (epsilon + self.mean * math.tanh(epsilon / 2)) * FEW_UP

    def renyi(self, base: Curve, orders: Floats) -> Floats:
        """Return (n,) Renyi bounds (nats) at n orders. Theorem 6 of Papernot and Steinke (2022).

        The probability of no run is included.
        """
        rest, log = orders - 1, math.log(self.mean)
        hats = np.log1p(1 / rest) * (1 - 1e-15)
        spent = rest * (
            base._rdp(orders)
            + self.mean * np.array([_core_delta(base, float(hat)) for hat in hats])
        )
        total = np.logaddexp(-self.mean, spent + log)
        return (total + 1e-15 * (1 + spent + abs(log) + self.mean)) / rest * FEW_UP

    def moments(self, epsilon: float, a: Floats, b: Floats, rest: Floats) -> Floats:
        """Return (n,) upper bounds on E_P[(P/P')^rest] of the best of runs with pure `epsilon`.

        Requires x^-rest <= a - b x on the ratios x of a run. Theorem W4 (vi).
        """
        none, chord = math.exp(-self.mean), b / rest
        power = self.mean * rest * math.tanh(epsilon / 2) * FEW_UP
        part = np.exp(power)
        excess = part * (a - b - chord) + chord
        return (
            none
            - math.expm1(-self.mean) * excess
            + _PAD * (part * (a + b + chord) + chord) * (1 + power + (1 + rest) * epsilon)
        )

    def profile_shift(self, base: Curve) -> float:
        """Return the mean times the profile of `base` at 0, nats, rounded up. W4 (v)."""
        return self.mean * (base.profile(0.0) or 0.0) * FEW_UP

    def rho(self, base: Curve) -> float:
        """Return inf, because no zCDP parameter is known."""
        return math.inf

    def best_order(self, base: Curve) -> None:
        """Return None, because no zCDP parameter is known."""
        return


NumberOfRuns = Annotated[TruncatedNegativeBinomial | PoissonRuns, Field(discriminator="kind")]


@final
class RepeatAndSelectDP(Curve):
    """The best of a random number of runs, of which nothing else is released. Theorem W4.

    `base` is the curve of one run. The curve is the smallest of several bounds:

    - The bound of Papernot and Steinke (2022), at every order and at larger ones.
    - If `base` is pure outside its bad event, the exact pure epsilon, and at small orders little
      more than the cost of one run.
    - If `base` has a profile in closed form, a profile made of it.

    The number of runs stays private.

    Example:
        >>> import accounting as acc
        >>> twenty = acc.TruncatedNegativeBinomial(eta=0.0, gamma=0.01)
        >>> round(
        ...     acc.RepeatAndSelectDP(
        ...         base=acc.PureDP(epsilon=0.5), distribution=twenty
        ...     ).pure_epsilon,
        ...     3,
        ... )
        0.99
    """

    kind: Literal["repeat_and_select_dp"] = "repeat_and_select_dp"
    base: AnyCurve = Field(description="the curve of one run")
    distribution: NumberOfRuns = Field(description="a TruncatedNegativeBinomial or PoissonRuns")

    def _rdp(self, orders: Floats) -> Floats:
        larger_orders, least = self._larger
        bounds = np.minimum(
            self.distribution.renyi(self.base, orders),
            np.append(least, math.inf)[np.searchsorted(larger_orders, orders)],
        )
        return (
            bounds
            if self._pure is None
            else np.minimum(
                np.minimum(bounds, self._pure._rdp(orders)), self._pure_runs_rdp(orders)
            )
        )

    def _pure_runs_rdp(self, orders: Floats) -> Floats:
        """Bound for pure runs: little more than one run at small orders. Theorem W4 (vi).

        It is inf where its terms leave the floats.
        """
        epsilon, rest = self.base.core_epsilon, orders - 1
        result = np.full_like(orders, math.inf)
        fits = (orders * epsilon + rest * (self.core_epsilon - epsilon) < _MOST_EXPONENT) & (
            rest > 0
        )
        if epsilon > 0 and fits.any():
            a, b = (
                np.sinh(order * epsilon) / math.sinh(epsilon)
                for order in (orders[fits], rest[fits])
            )
            result[fits] = (
                np.log(self.distribution.moments(epsilon, a, b, rest[fits])) / rest[fits] * FEW_UP
            )
        return result

    @cached_property
    def _larger(self) -> tuple[Floats, Floats]:
        """Orders, and at each the least bound at it or at a larger one.

        Such a bound holds because Renyi divergences rise with the order.
        """
        best = self.distribution.best_order(self.base)
        more = [
            order for order in (*self.base.table_orders, best) if order is not None and order > 1
        ]
        orders = np.unique([*_ORDERS, *more])
        return orders, np.minimum.accumulate(self.distribution.renyi(self.base, orders)[::-1])[::-1]

    @property
    def _pure(self) -> PureDP | None:
        epsilon = self.core_epsilon
        return PureDP(epsilon=epsilon) if math.isfinite(epsilon) else None

    @cached_property
    def rho(self) -> float:
        if self._pure is None:
            return self.distribution.rho(self.base)
        return min(
            self._pure.rho,
            self.distribution.rho(self.base),
            largest_over_order(self._rdp, self.core_epsilon),
        )

    @property
    def delta0(self) -> float:
        return min(1.0, self.distribution.mean * self.base.delta0 * FEW_UP)

    @property
    def core_epsilon(self) -> float:
        epsilon = self.base.core_epsilon
        return self.distribution.pure(epsilon) if math.isfinite(epsilon) else math.inf

    @property
    def proved_for(self) -> Relation | None:
        return self.base.proved_for

    @property
    def table_orders(self) -> tuple[float, ...]:
        return self.base.table_orders

    def profile(self, epsilon: float) -> float | None:
        by_pure = (
            None if self._pure is None else min(1.0, self._pure.profile(epsilon) + self.delta0)
        )
        return min(
            (value for value in (by_pure, self._profile_of_base(epsilon)) if value is not None),
            default=None,
        )

    def _profile_of_base(self, epsilon: float) -> float | None:
        """Return the base's profile, shifted and times the mean number of runs: W4 (v).

        None if the base has no profile in closed form.
        """
        if (shift := self._shift) is None:
            return None
        if epsilon < shift:
            return 1.0
        base = self.base.profile(math.nextafter(epsilon - shift, -1.0) if epsilon > shift else 0.0)
        return None if base is None else min(1.0, self.distribution.mean * base * FEW_UP)

    @cached_property
    def _shift(self) -> float | None:
        return (
            None if self.base.profile(0.0) is None else self.distribution.profile_shift(self.base)
        )

    def losses(self) -> Losses | None:
        """Return the losses of the pure epsilon, or None if there is none."""
        return None if self._pure is None or self.delta0 else self._pure.losses()


def _mean(eta: float, gamma: float) -> float:
    log = math.log(gamma)
    place = eta * log
    if place > 700:  # gamma^eta would leave the floats, and 1 is nothing beside it
        return -eta / math.exp((1 + eta) * log)
    # below, a float has few digits left
    bent = math.expm1(place) / place if abs(place) > 1e-300 else 1.0
    return (1 - gamma) / (gamma * -log * bent)


def _core_delta(base: Curve, epsilon: float) -> float:
    """Return a hockey-stick divergence of `base` outside its bad event."""
    if base.core_epsilon <= epsilon:
        return 0.0
    profile = base.profile(epsilon) if base.delta0 == 0 else None
    return rdp_to_delta(base._rdp, epsilon, base.table_orders).value if profile is None else profile
