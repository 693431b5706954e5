"""`Remaining`: the state of a budget in three figures.

They are the share used, the cost as charged, and the number of further releases.

Reports, terminals, refusals and answers show the same figures in the same order and words. The same
object also has shares of the budget, units that auditors ask for, the part that runs out first, and
what to change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any, Literal, final

from accounting.budget import Budget, greatest
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, NOTHING, Cost
from accounting.curves import ApproxDP, Approximate, Curve, PureDP, zero
from accounting.errors import Unaffordable
from accounting.measures import Measure
from accounting.numbers import (
    PRECISE,
    exact,
    float_down,
    float_up,
    multiple,
    product_up,
    sum_up,
    units_up,
)
from accounting.sections import Section, Sectioned
from accounting.wording import format_number, percent_up, round_to

MOST_RUNS = 10**12
_MAIN, _FAILURE = "the budget", "failure probability (delta0)"
# Costs of Gaussian charges are rounded outward by one part in 10^12 and up to the next unit: this
# covers both.
_INWARD = 1 - 1e-11
_SPENT = (
    "nothing. The budget is used up and cannot be raised, but new rows can be a new dataset or"
    " period"
)


@final
@dataclass(frozen=True, repr=False)
class Remaining(Sectioned):
    """The state of a budget after `spent`, and for how many more releases like `curve` it lasts.

    Args:
        budget: budget of a dataset, of a period, or of a quota.
        spent: the sum of the costs so far.
        curve: curve of one release, to count releases by; None to count none.
        account: the period or quota in words; "" for all rows.
        charged: composition of all charges; None if it is not known, so that only one of two bounds
            on their cost is available.

    Example:
        >>> import accounting as acc
        >>> budget, release = acc.Budget(epsilon=1.0), acc.PureDP(epsilon=0.3)
        >>> remaining = acc.remaining.Remaining(budget, budget.filter_cost(release), release)
        >>> remaining.releases, remaining.main
        (2, 0.7)
        >>> print(remaining)  # doctest: +NORMALIZE_WHITESPACE
        budget: epsilon 1; used: 30%; cost as charged: epsilon 0.3; left: 2 more releases like this
        one
    """

    budget: Budget
    spent: Cost
    curve: Curve | None = None
    account: str = ""
    charged: Curve | None = None

    # -- the three figures -------------------------------------------------------------------------

    @cached_property
    def so_far(self) -> tuple[float, float]:
        """The filter's bound on all charges as (epsilon, delta), rounded up.

        It holds for every way of charging that adds up to `spent`: it is the budget's filter with a
        capacity of `spent`, at the same order (Theorem F12). It starts at the overhead of the order
        and ends at the budget. If all of the budget is spent, perhaps by a plan that another route
        admitted, it is the budget itself. For a zCDP budget without a delta, which states no
        epsilon, it is (inf, 0).
        """
        most = math.inf if self.budget.epsilon is None else self.budget.epsilon
        if self.spent == NOTHING:
            return 0.0, 0.0
        if most < math.inf and self._rest.main == 0:
            return most, self.delta
        if most == math.inf and not self.delta:
            return math.inf, 0.0
        return min(most, self.measure.epsilon(self._units, self.budget)), self.delta

    @property
    def as_charged(self) -> tuple[float, float]:
        """The cost of all charges as (epsilon, delta), rounded up. Charges may depend on answers.

        It is the smaller of two bounds (Theorem F13). One is the sum of pure epsilons outside of
        the charges' bad events, whose probabilities add up to the delta. The other is the filter's,
        `so_far`. The cost grows with every charge and never exceeds the budget.
        """
        summed, whole = self.charged, self.so_far
        if summed is not None and summed.delta0 <= self.delta and summed.core_epsilon <= whole[0]:
            return summed.core_epsilon, summed.delta0
        return whole

    def after(self, curve: Curve) -> Remaining:
        """Return the state of the budget after a further charge of `curve`."""
        charged = None if self.charged is None else self.charged + curve
        return replace(self, spent=self.spent.plus(self.budget.filter_cost(curve)), charged=charged)

    @property
    def guarantee(self) -> Curve:
        """A curve for every way of charging that adds up to `spent` (Theorem F12).

        Use it for `Curve.attack`, for example.
        """
        if self.spent == NOTHING:
            return zero()
        if self.budget.form != "zcdp" and self._rest.main == 0:
            budget = self.budget
            return (
                ApproxDP(epsilon=budget.limit, delta=budget.delta)
                if budget.delta
                else PureDP(epsilon=budget.limit)
            )
        summed = self.measure.curve_of(float_up(self._units, MAIN_UNIT))
        failure = float_up(self.spent.failure, FAILURE_UNIT)
        return Approximate(curve=summed, delta0=failure) if failure else summed

    @property
    def figures(self) -> dict[str, str]:
        """The budget and the three figures in words.

        They are the share used, the cost as charged, and the rest in releases.
        """
        epsilon, delta = self.as_charged
        if self.spent == NOTHING:
            spent = "nothing"
        elif math.isfinite(epsilon):
            spent = f"epsilon {round_to(exact(epsilon), ROUND_CEILING, 4)}" + (
                f", delta {format_number(delta)}" if delta else ""
            )
        else:
            spent = f"rho {round_to(multiple(self._units, MAIN_UNIT), ROUND_CEILING, 4)}"
        return {
            "budget": limits_in_words(self.budget),
            "used": self.used_in_words(),
            "cost as charged": spent,
            "left": self.left_in_words(),
        }

    def used_in_words(self, whole: str = "") -> str:
        """Return the larger of the spent shares, which names the failure probability."""
        main, failure = self.used
        return percent_up(max(main, failure)) + (
            whole if failure <= main else f" of the {_FAILURE}"
        )

    @property
    def why_share(self) -> str:
        """The reason why the used share is not the ratio of two epsilons; "" if it is."""
        budget = self.budget
        if budget.epsilon is None or self.measure.is_pure or self.measure.is_counted:
            return ""
        small = budget.epsilon / 100
        share = percent_up(max(_shares(budget.filter_cost(PureDP(epsilon=small)), budget.capacity)))
        return (
            "Shares add up and epsilons do not. The budget is counted in"
            f" {self.measure.unit}, so a release of epsilon {format_number(small)}"
            f" uses {share} of epsilon {format_number(budget.epsilon)} and not 1%."
        )

    def __str__(self) -> str:
        return "; ".join(f"{name}: {words}" for name, words in self.figures.items())

    def __repr__(self) -> str:
        return f"Remaining({self})"

    def sections(self) -> Iterator[Section]:
        """Return the figures."""
        yield Section(self.account or "Remaining", list(self.figures.items()))

    def as_data(self) -> dict[str, Any]:
        """Return the three figures as plain data, and each bound by itself.

        "releases" is None without a curve.
        """
        budget = {
            "epsilon": self.budget.epsilon,
            "rho": self.budget.rho,
            "delta": self.budget.delta,
        }
        rho, bounds = {"rho": float_up(self._units, MAIN_UNIT)}, (self.as_charged, self.so_far)
        cost, by_filter = (
            {"epsilon": epsilon, "delta": delta} if math.isfinite(epsilon) else rho
            for epsilon, delta in bounds
        )
        return {
            "budget": {name: value for name, value in budget.items() if value is not None},
            "used": max(self.used),
            "cost": cost,
            "left": {"releases": None if self.curve is None else self.releases},
            "for_auditors": {
                "filter": by_filter,
                "odometer": {"epsilon": self.epsilon, "delta": self.delta},
            },
        }

    def left_in_words(self) -> str:
        """Return the number of further releases like `curve`, in words.

        Without a curve, return the share of the budget that remains.
        """
        if self.curve is None:
            shares = self.unused if self.budget.capacity.failure else self.unused[:1]
            part = "the budget" if min(shares) == shares[0] else f"the {_FAILURE}"
            return (
                "all of it"
                if self.spent == NOTHING
                else f"{math.floor(1000 * min(shares)) / 10:g}% of {part}"
            )
        if self.runs_out is None and self.releases:
            return "any number of releases like this one, because it costs nothing"
        return f"{self.releases:,} more release{'' if self.releases == 1 else 's'} like this one"

    # -- what is left of each part, and as epsilon and mu ------------------------------------------

    @cached_property
    def _rest(self) -> Cost:
        return self.budget.capacity.minus(self.spent)

    @property
    def _units(self) -> int:
        """Units of the measure that are spent, or all of the budget's if none are left, rounded up.

        A charge may equal a budget of more digits than a capacity holds (Theorem F7).
        """
        if self._rest.main > 0:
            return self.spent.main
        whole = units_up(self.measure.capacity(self.budget), MAIN_UNIT)
        return max(self.spent.main, whole)

    @property
    def measure(self) -> Measure:
        """The quantity that `main` is an amount of (see `Budget.measure`)."""
        return self.budget.measure

    @property
    def main(self) -> float:
        """The remaining amount of the budget's measure (nats, mu^2 or releases), rounded down."""
        return float_down(multiple(self._rest.main, MAIN_UNIT))

    @property
    def failure(self) -> float:
        """The remaining failure probability, rounded down."""
        return float_down(multiple(self._rest.failure, FAILURE_UNIT))

    @property
    def used(self) -> tuple[float, float]:
        """The spent shares of the budget's main part and failure probability, from 0 to 1."""
        return _shares(self.spent, self.budget.capacity)

    @property
    def unused(self) -> tuple[float, float]:
        """The remaining shares of both parts, from 0 to 1."""
        return _shares(self._rest, self.budget.capacity)

    @property
    def epsilon(self) -> float | None:
        """The odometer's bound (nats) on the loss of all charges so far, rounded up.

        With probability at least 1 - `delta`, the loss is at most this at all times, however the
        charges were chosen. It is a `PrivacyOdometer` at an order that the budget alone decides
        (Theorems F3, F6 and F9). None in three cases: no delta is declared that could pay for an
        epsilon; releases are counted; or all of the budget is spent, perhaps by a plan that another
        route admitted, in which case the budget's own guarantee holds.
        """
        # A plan that another route admitted costs the whole capacity, and its real divergence may
        # be larger.
        whole = self.budget.form == "approximate" and self.spent == self.budget.capacity
        odometer = self.measure.odometer(self.budget)
        if odometer is None or whole:
            return None
        start, each = odometer
        return 0.0 if self.spent == NOTHING else float_up(self._units, each, start)

    @property
    def epsilon_left(self) -> float | None:
        """The most (nats) that spending the rest can add to `epsilon`, rounded down.

        None if `epsilon` is not stated for this budget.
        """
        odometer = self.measure.odometer(self.budget)
        return None if odometer is None else float_down(multiple(self._rest.main, odometer[1]))

    @property
    def delta(self) -> float:
        """The delta of the statement about `epsilon`.

        It is the budget's own delta, or twice that of a zCDP budget, whose own delta is for
        failures.
        """
        return 2 * self.budget.delta if self.budget.form == "zcdp" else self.budget.delta

    @property
    def mu_left(self) -> float | None:
        """The greatest mu for which one more Gaussian release (`GaussianDP`) fits, rounded down.

        None if the budget counts releases, or adds up pure epsilon, which no Gaussian release has.
        """
        if (each := self.measure.mu_squared) is None:
            return None
        least = multiple(max(0, self._rest.main - 1), MAIN_UNIT)
        return math.sqrt(each * float_down(least)) * _INWARD

    # -- in releases -------------------------------------------------------------------------------

    @cached_property
    def _cost(self) -> Cost | str:
        """The cost of one release, or the reason why no budget of this form pays for it."""
        try:
            return NOTHING if self.curve is None else self.budget.filter_cost(self.curve)
        except Unaffordable as error:
            return str(error)

    @cached_property
    def releases(self) -> int:
        """Number of further releases like `curve` that fit, charged one by one; at most 10^12.

        Each may be chosen after earlier answers, by the filter's own arithmetic (Theorems F1 to
        F3).
        """
        if isinstance(self._cost, str):
            return 0
        counts = [have // need for have, need in zip(self._rest, self._cost, strict=True) if need]
        return min(MOST_RUNS, *counts) if counts else MOST_RUNS

    def as_one_plan(self, most: int = MOST_RUNS) -> int:
        """Return the number of releases like `curve` that fit as one item, at most `most`.

        The item is charged as a whole.
        """
        curve = zero() if self.curve is None else self.curve
        return greatest(lambda runs: self.budget.can_afford(self.spent, runs * curve), most)

    @property
    def runs_out(self) -> Literal["divergence", "failure"] | None:
        """The part that further releases use up first: "divergence" or "failure" (probability).

        "divergence" is the amount that the budget adds up. None if the release is free, or if no
        budget of this form pays for it.
        """
        if isinstance(self._cost, str) or self._cost == NOTHING:
            return None
        # The part of which one release takes the greater share; compared as whole numbers.
        rest, cost = self._rest, self._cost
        return "failure" if cost.failure * rest.main > cost.main * rest.failure else "divergence"

    @property
    def reason(self) -> str:
        """The amount of each part that remains, the need of one release, and the number."""
        if isinstance(self._cost, str):
            return self._cost
        if self._cost == NOTHING:
            return "it costs nothing"
        alone = (
            " (it takes the whole budget, so it fits as the only charge)"
            if self._cost == self.budget.capacity
            else ""
        )
        parts = (
            f"{_share(have, whole, part, ROUND_FLOOR)} left,"
            f" {_share(need, whole, part, ROUND_CEILING)} for each: enough for {have // need:,}"
            for have, need, whole, part in self._parts(self._cost)
        )
        return "; ".join(parts) + alone

    @property
    def remedy(self) -> str:
        """The change that lets twice as many releases fit, or one if none fits."""
        if isinstance(self._cost, str):
            return "choose another mechanism, because this dataset's budget never covers this one"
        if self._cost == NOTHING:
            return "nothing, because any number fits"
        goal = 2 * self.releases or 1
        short = [
            (have // goal, whole, part)
            for have, need, whole, part in self._parts(self._cost)
            if have // need < goal
        ]
        if any(each == 0 for each, _, _ in short):
            return _SPENT
        words = {
            _MAIN: "add noise",
            _FAILURE: "lower its delta (noise does not help), as releases= does",
        }
        changes = [
            f"{words[part]}: at most {_share(each, whole, part, ROUND_FLOOR)} each"
            for each, whole, part in short
        ]
        return f"{'; and '.join(changes)}; then {goal:,} fit"

    def _parts(self, cost: Cost) -> Iterator[tuple[int, int, int, str]]:
        for have, need, whole, part in zip(
            self._rest, cost, self.budget.capacity, (_MAIN, _FAILURE), strict=True
        ):
            if need:
                yield have, need, whole, part


@final
class Totals(list[Remaining], Sectioned):
    """List of the remaining budgets of several periods."""

    @property
    def fullest(self) -> Remaining | None:
        """The account with the largest share spent; None if there is none."""
        return max(self, key=lambda account: max(account.used), default=None)

    def __repr__(self) -> str:
        return f"Totals({len(self):,}, fullest={self.fullest!r})"

    def sections(self) -> Iterator[Section]:
        """Return the figures of each period."""
        rows = [(account.account or "all rows", *account.figures.values()) for account in self]
        heads = ("period", "budget", "used", "cost as charged", "left")
        yield Section("Totals", heads=heads, rows=rows, left=heads)


def limits_in_words(budget: Budget) -> str:
    """Return a budget in words, as it was declared: "epsilon 3, delta 1e-6"."""
    words = f"{'rho' if budget.epsilon is None else 'epsilon'} {format_number(budget.limit)}"
    return words + (f", delta {format_number(budget.delta)}" if budget.delta else "")


def _shares(part: Cost, whole: Cost) -> tuple[float, float]:
    main, failure = (
        min(1.0, max(0.0, amount / of)) if of else 0.0
        for amount, of in zip(part, whole, strict=True)
    )
    return main, failure


def _share(amount: int, whole: int, part: str, rounding: str) -> str:
    """Return an amount of one part in words.

    A failure probability is given as such, all else as a share of the budget, never of epsilon.
    """
    if part == _FAILURE:
        return f"{round_to(multiple(amount, FAILURE_UNIT), rounding, 4)} of {part}"
    return f"{share_in_words(amount, whole, rounding)} of {part}"


def share_in_words(amount: int, whole: int, rounding: str) -> str:
    """Return an amount as a share of the whole, in percent to three digits."""
    if whole == 0:
        return "none" if amount == 0 else "more than all"
    percent = PRECISE.divide(Decimal(100 * amount), Decimal(whole))
    if percent >= 1000:
        return f"{int(percent.to_integral_value(rounding)):,}%"
    return f"{round_to(percent, rounding, 3)}%"


# -- over periods ----------------------------------------------------------------------------------


def sum_periods(budget: Budget, totals: Iterable[Remaining]) -> tuple[float, float]:
    """Return (epsilon, delta), rounded up, for a user with rows in all periods.

    Each period has its own budget, of which `totals` states the use. The result is the smaller
    epsilon of two: one filter whose capacity is the sum of all charges (Theorem F12), or the sum of
    the periods' own costs. A period that is fully spent counts by its budget (see
    `Remaining.so_far`).
    """
    periods = [total for total in totals if total.spent != NOTHING]
    if not periods:
        return 0.0, 0.0
    epsilons, deltas = zip(*(total.as_charged for total in periods), strict=True)
    basic = sum_up(*epsilons), min(1.0, sum_up(*deltas))
    rest = [total for total in periods if budget.form != "approximate" or total._rest.main > 0]
    whole = len(periods) - len(rest)
    if not rest or math.inf in epsilons:
        return basic
    conversion = float_up(1, budget.conversion_delta)
    failures = float_up(sum(total.spent.failure for total in rest), FAILURE_UNIT)
    delta = sum_up(conversion, failures, product_up(whole, budget.delta)) if budget.delta else 0.0
    joint = budget.measure.epsilon(sum(total._units for total in rest), budget)
    return min(basic, (sum_up(joint, product_up(whole, budget.limit)), min(1.0, delta)))


def periods_in_words(epsilon: float, delta: float, periods: int, window: str) -> str:
    """Return the sum over periods as a sentence; `window` is the name of a period."""
    subject = f"all {periods:,} {window}s" if periods != 1 else f"the one {window}"
    if not math.isfinite(epsilon):
        return (
            f"for a user whose rows lie in {subject}, the rho of all of them adds up; no epsilon is"
            " stated without a delta"
        )
    words = (
        f"for a user whose rows lie in {subject}, the cost is epsilon"
        f" {round_to(exact(epsilon), ROUND_CEILING, 4)}"
    )
    return (
        words + (f", delta {round_to(exact(delta), ROUND_CEILING, 4)}" if delta else "") + " in all"
    )
