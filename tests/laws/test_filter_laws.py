"""The promise of a filter against every adaptive adversary on small mechanisms, by exact enumeration.

An adversary picks, after each answer, any mechanism of a menu that the filter still pays for, or stops. The divergence of the
worst adversary is a dynamic programme over (spent, likelihood under P, likelihood under Q); nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import laplace

from accounting.budget import NOTHING, Budget, Price
from accounting.curves import ApproxDP, BoundedRange, Curve, LaplaceDP, PureDP
from accounting.filter import PrivacyFilter, PrivacyOdometer

Pair = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Small:
    """A mechanism with few outcomes: its law under two neighbours, which may be swapped, and a curve that bounds it."""

    law: Pair
    curve: Curve


def randomised_response(epsilon: float) -> Small:
    p = 1 / (1 + math.exp(-epsilon))
    return Small(((p, 1 - p), (1 - p, p)), PureDP(epsilon=epsilon))


def exponential_mechanism(epsilon: float, share: float) -> Small:
    """Two candidates; the neighbour multiplies one weight by exp(epsilon)."""
    p = share / (share + (1 - share) * math.exp(-epsilon))
    return Small(((p, 1 - p), (share, 1 - share)), BoundedRange(epsilon=epsilon))


def leaky(epsilon: float, delta: float) -> Small:
    """Reveals the input with probability delta, else randomised response: the worst (epsilon, delta) pair."""
    p = (1 - delta) / (1 + math.exp(-epsilon))
    q = 1 - delta - p
    return Small(((delta, 0.0, p, q), (0.0, delta, q, p)), ApproxDP(epsilon=epsilon, delta=delta))


def rounded_laplace(epsilon: float) -> Small:
    """The Laplace mechanism with its answer cut into four cells."""
    cut = np.array([-np.inf, 0.0, 0.5, 1.0, np.inf])
    first, second = (np.diff(laplace(scale=1 / epsilon, loc=mean).cdf(cut)).tolist() for mean in (0, 1))
    return Small((tuple(first), tuple(second)), LaplaceDP(epsilon=epsilon))


def worst(budget: Budget, menu: list[Small], gain: Callable[[float, float], float]) -> float:
    """The largest sum over transcripts of gain(P, Q) that any adversary reaches under the filter."""

    prices = [budget.price(small.curve) for small in menu]
    laws = [[list(zip(*law, strict=True)) for law in (small.law, small.law[::-1])] for small in menu]
    seen: dict[tuple[Price, float, float], float] = {}

    def best(spent: Price, p: float, q: float) -> float:
        # Rounds commute: the same answers in another order lead to the same state, up to the last bits.
        state = (spent, float(f"{p:.12e}"), float(f"{q:.12e}"))
        if state not in seen:
            seen[state] = max(
                [gain(p, q), *(play(spent, p, q, i) for i, price in enumerate(prices) if budget.fits(spent, price))]
            )
        return seen[state]

    def play(spent: Price, p: float, q: float, choice: int) -> float:
        total = spent.plus(prices[choice])
        return max(sum(best(total, p * a, q * b) for a, b in law) for law in laws[choice])

    return best(NOTHING, 1.0, 1.0)


def hockey_stick(epsilon: float) -> Callable[[float, float], float]:
    return lambda p, q: max(0.0, p - math.exp(epsilon) * q)


def renyi(order: float) -> Callable[[float, float], float]:
    return lambda p, q: p**order * q ** (1 - order) if p > 0 else 0.0


MENU = [randomised_response(0.25), exponential_mechanism(0.5, 0.6), rounded_laplace(0.4)]
LEAKY = [leaky(0.3, 0.01), randomised_response(0.5)]


def test_pure_filter() -> None:
    """No adversary pushes any likelihood ratio above exp(budget), and some adversary reaches the budget exactly."""
    budget = Budget(epsilon=1.0)
    assert worst(budget, MENU, hockey_stick(1.0 + 1e-12)) == 0.0
    assert worst(budget, MENU, hockey_stick(1.0 - 1e-6)) > 0.0


@pytest.mark.parametrize("order", [1.1, 2.0, 5.0, 30.0])
def test_zcdp_filter(order: float) -> None:
    """No adversary has a Renyi divergence above order * rho, at any order."""
    budget = Budget(rho=0.11)
    divergence = math.log(worst(budget, MENU, renyi(order))) / (order - 1)
    assert 0 < divergence <= order * 0.11 * (1 + 1e-12)


@pytest.mark.parametrize("order", [3.5, 6.0, "inf"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.2, 0.05), (0.9, 0.2)])
def test_approximate_filter(epsilon: float, delta: float, order: float | str) -> None:
    """No adversary has a hockey-stick divergence above delta at epsilon, whatever order the filter was given."""
    failure = delta if order == "inf" else delta / 2
    budget = Budget.model_validate({"epsilon": epsilon, "delta": delta, "order": order, "failure": failure})
    reached = worst(budget, LEAKY, hockey_stick(epsilon))
    assert 0.0 < reached <= delta


def test_failures_alone_reach_their_share() -> None:
    """The failure probability is not idle caution: leaks alone get within a tenth of it."""
    budget = Budget(epsilon=1.0, delta=0.05, order="inf")
    assert 0.045 <= worst(budget, [leaky(0.0, 0.01)], hockey_stick(1.0)) <= 0.05


def test_renyi_filter_holds_at_its_order() -> None:
    """At the filter's own order no adversary passes the capacity, and some come within 40 percent of it."""
    budget = Budget(epsilon=1.0, delta=0.1, order=4.0, failure=0.0)
    divergence = math.log(worst(budget, MENU, renyi(4.0))) / 3.0
    assert 0.6 * budget.capacity.main * 1e-12 <= divergence <= budget.capacity.main * 1e-12


def test_a_plan_for_the_whole_budget_is_no_extra_chance() -> None:
    """With a plan on the menu that costs the whole budget, adversaries still cannot pass delta."""
    plan = randomised_response(1.0)
    budget = Budget(epsilon=1.0, delta=0.05, order=5.0)
    assert budget.price(plan.curve) == budget.capacity
    assert worst(budget, [plan, *LEAKY], hockey_stick(1.0)) <= 0.05


def loss_passes(odometer: Callable[[], PrivacyOdometer], choose: Callable[[float], Small], rounds: int) -> float:
    """Probability under P that the loss of an adversary's transcript ever passes the odometer, by enumeration."""

    def run(steps: tuple[Small, ...], p: float, q: float) -> float:
        reading = odometer()
        for small in steps:
            reading.charge(small.curve)
        loss = math.inf if q == 0 else math.log(p / q)
        if loss > reading.epsilon + 1e-12:
            return p
        if len(steps) == rounds:
            return 0.0
        small = choose(loss)
        return sum(run((*steps, small), p * a, q * b) for a, b in zip(*small.law, strict=True) if a > 0)

    return run((), 1.0, 1.0)


@pytest.mark.parametrize("order", [2.0, 8.0])
def test_odometer_holds_at_all_times(order: float) -> None:
    """An adversary that raises its stakes when it is losing passes the running total with probability at most delta + failure."""

    def choose(loss: float) -> Small:
        return leaky(0.8, 0.01) if loss < 0 else randomised_response(0.4)

    reached = loss_passes(lambda: PrivacyOdometer(delta=0.3, order=order, failure=0.2), choose, 6)
    assert 0.0 < reached <= 0.3 + 0.2


def test_odometer_of_pure_epsilons_is_sure() -> None:
    """At order inf the running total bounds the loss of every transcript, and equals the decimal sum of epsilons."""
    assert loss_passes(lambda: PrivacyOdometer(delta=0.0, order="inf"), lambda _: randomised_response(0.3), 6) == 0.0
    odometer = PrivacyOdometer(delta=0.0, order="inf")
    assert [odometer.charge(PureDP(epsilon=0.1)) for _ in range(3)] == [0.1, 0.2, 0.3]


def test_odometer_never_falls_below_the_filter() -> None:
    """A filter that stops where the odometer reads epsilon would stop no later than the budget's own filter at that order."""
    budget, odometer = Budget(epsilon=1.0, delta=1e-6, order=20.0, failure=0.0), PrivacyOdometer(delta=1e-6, order=20.0)
    spender = PrivacyFilter(budget)
    while odometer.charge(PureDP(epsilon=0.02)) <= 1.0:
        spender.charge(PureDP(epsilon=0.02))
    assert spender.can_afford(PureDP(epsilon=0.02))
