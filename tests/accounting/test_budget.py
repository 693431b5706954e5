"""Budgets: three forms, exact prices, and a filter that is fixed when it is created."""

from __future__ import annotations

import math
from decimal import localcontext

import mpmath as mp
import numpy as np
import pytest

import accounting as acc
from accounting.budget import Budget
from accounting.cost import NOTHING
from accounting.curves import (
    ZCDP,
    ApproxDP,
    Approximate,
    BoundedRange,
    Curve,
    GaussianDP,
    LaplaceDP,
    PureDP,
    RenyiTable,
    zero,
)
from accounting.errors import InvalidBudget, Unaffordable

BUDGETS = [
    Budget(epsilon=1.0),
    Budget(epsilon=1.0, delta=1e-6),
    Budget(epsilon=1.0, delta=1e-6, order="inf"),
    Budget(epsilon=3.0, delta=1e-5, order=8, failure=0.0),
    Budget(rho=0.1),
    Budget(rho=0.1, delta=1e-6),
]
STABLE = Approximate(curve=BoundedRange(epsilon=0.05) + GaussianDP(mu=0.025), delta0=1e-9)
CURVES = [
    PureDP(epsilon=0.1),
    BoundedRange(epsilon=0.2),
    GaussianDP(mu=0.05),
    LaplaceDP(epsilon=0.1),
    ZCDP(rho=1e-3),
    STABLE,
]


@pytest.mark.parametrize("value", [1e-9, 0.1, 0.3, 1 / 3, 0.1 + 0.2, math.pi, 123.456, 1e3])
def test_exactly_the_budget_fits_and_more_does_not(value: float) -> None:
    """A charge equal to the budget fits whatever its digits, the next float above does not, and
    after it nothing fits.
    """
    above = math.nextafter(value, math.inf)
    for budget, curve, more in (
        (Budget(epsilon=value), PureDP(epsilon=value), PureDP(epsilon=above)),
        (Budget(rho=value), ZCDP(rho=value), ZCDP(rho=above)),
    ):
        price = budget.filter_cost(curve)
        assert budget.fits(NOTHING, price)
        assert not budget.can_afford(NOTHING, more)
        assert not budget.can_afford(price, curve)
        assert budget.how_many(curve, spent=price) == 0


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_budget_prints_as_people_write_it(budget: Budget) -> None:
    """1e-6 and not 1e-06, as text that makes the same budget again."""
    assert "e-0" not in repr(budget)
    assert eval(repr(budget), vars(acc.curves) | {"Budget": Budget}) == budget


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_plan_of_fitting_charges_is_admitted(budget: Budget) -> None:
    """As many separate charges as fit are admitted as one plan, one more does not fit; a plan costs
    at most its parts.
    """
    for curve in CURVES:
        for count in (1, 5, 100):
            assert budget.admits(count * curve) == budget.can_afford(NOTHING, count * curve)
        if budget.can_afford(NOTHING, curve):
            price, count = budget.filter_cost(curve), budget.how_many(curve)
            assert count >= 1
            assert budget.admits(count * curve)
            assert not budget.fits(price.times(count), price)
            if budget.fits(NOTHING, price.times(9)):
                assert all(
                    whole <= parts
                    for whole, parts in zip(
                        budget.filter_cost(9 * curve), price.times(9), strict=True
                    )
                )


def test_renyi_capacity_is_the_inverse_of_the_conversion() -> None:
    """A Renyi divergence equal to the capacity converts to epsilon, to 30 digits: never above it,
    and not 1e-11 below it.
    """
    rng, held = np.random.default_rng(1), 0
    for _ in range(60):
        epsilon, order = np.exp(rng.uniform(np.log([1e-3, 1.2]), np.log([50, 1e4]))).tolist()
        delta, split = float(10 ** rng.uniform(-15, -1)), float(rng.uniform(0, 0.99))
        try:
            budget = Budget(epsilon=epsilon, delta=delta, order=order, failure=split * delta)
        except InvalidBudget:
            continue
        with mp.workdps(40):
            a, d = mp.mpf(repr(order)), mp.mpf(repr(delta)) - mp.mpf(repr(split * delta))
            paid = mp.mpf(budget.capacity.main) / 10**12
            back = paid + mp.log1p(-1 / a) - mp.log(a * d) / (a - 1)
            assert mp.mpf(repr(epsilon)) - mp.mpf("1.1e-12") <= back <= mp.mpf(repr(epsilon))
        held += 1
    assert held > 15


def test_prices_ignore_the_callers_decimal_context() -> None:
    """A caller with three digits of decimal precision gets the same order, capacity and prices."""
    budget, price = Budget(epsilon=1, delta=1e-6), Budget(epsilon=1, delta=1e-6).filter_cost(STABLE)
    with localcontext() as context:
        context.prec = 3
        again = Budget(epsilon=1, delta=1e-6)
        assert again == budget
        assert again.capacity == budget.capacity
        assert again.filter_cost(STABLE) == price
        assert Budget(epsilon=0.123456789, delta=1e-7, order=325.25).capacity.main > 0


def test_price_rounds_up() -> None:
    """Each part of a price, in nats, is at least the cost, and at most one unit and one part in
    10^12 above it.
    """
    budget = Budget(epsilon=4, delta=1e-6)
    for curve in CURVES:
        price, cost = budget.filter_cost(curve), float(curve.rdp(float(budget.order or 0)))
        assert cost <= price.main * 1e-12 <= cost * (1 + 2e-12) + 1e-12
        assert curve.delta0 <= price.failure * 1e-18 <= curve.delta0 + 1.1e-18


def test_tiny_costs_are_never_free() -> None:
    """A cost that underflows is still charged one unit, so no number of charges is unlimited; only
    the identity is free.
    """
    for budget, curve in (
        (Budget(rho=1.0), GaussianDP(mu=1e-200)),
        (Budget(epsilon=1.0, delta=1e-6), PureDP(epsilon=1e-300)),
        (Budget(epsilon=1.0), PureDP(epsilon=5e-324)),
        (Budget(epsilon=1.0, delta=1e-6), RenyiTable(orders=[1000.0], values=[0.0])),
    ):
        assert budget.filter_cost(curve).main == 1
    assert Budget(epsilon=1.0).filter_cost(zero()) == NOTHING
    assert Budget(epsilon=1e-13).how_many(PureDP(epsilon=1e-13)) == 0  # of less than a unit


def test_costs_beyond_sixty_four_bits_are_refused() -> None:
    """Prices always fit a signed 64-bit integer; what would not is refused as unaffordable."""
    budget = Budget(epsilon=1e9)
    assert budget.capacity.main < 2**63
    with pytest.raises(Unaffordable, match="more than a filter can count"):
        Budget(epsilon=1e6).filter_cost(PureDP(epsilon=1e8))


def test_more_failures_than_certain_ones_do_not_fit() -> None:
    """Runs whose chances of failure add up to more than 1 are valid and too many: they are refused
    as runs that do not fit.
    """
    curve = acc.Approximate(curve=acc.PureDP(epsilon=1e-9), delta0=1e-7)
    with pytest.raises(
        acc.BudgetExceeded, match=r"a failure probability \(delta0\) of 1 from this filter"
    ):
        acc.PrivacyFilter(Budget(epsilon=1.0, delta=1e-6)).charge(curve, count=20_000_000)
    likely = acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=0.9)
    assert acc.Approximate(curve=likely, delta0=0.9).delta0 == (3 * likely).delta0 == 1.0


def test_for_workload_beats_the_default_order() -> None:
    """The order chosen for a curve lets at least as many of them through as the default, for some
    strictly more.
    """
    gains = []
    for curve in CURVES:
        chosen = Budget.for_workload(epsilon=2.0, delta=1e-6, curve=curve)
        assert chosen.admits(chosen.how_many(curve) * curve)
        gains.append(chosen.how_many(curve) - Budget(epsilon=2.0, delta=1e-6).how_many(curve))
    assert min(gains) >= 0
    assert max(gains) > 0
    # charged at one of its own orders
    table = RenyiTable(orders=[2, 8, 32], values=[0.1, 0.2, 0.5])
    assert Budget.for_workload(epsilon=3, delta=1e-6, curve=table).order in (2, 8, 32)


def test_for_workload_names_the_release_budget_that_a_curve_fits() -> None:
    """A sampled Gaussian that no Renyi order pays for fits a budget of releases, which the refusal
    names and which pays for it; a curve that fits neither is told to cost less.
    """
    sampled = acc.SampledGaussianDP(mu=1.0, rate=0.01)
    with pytest.raises(InvalidBudget, match=r"Budget\(epsilon=0.6, delta=1e-6, release=curve\)"):
        Budget.for_workload(epsilon=0.6, delta=1e-6, curve=sampled)
    assert Budget(epsilon=0.6, delta=1e-6, release=sampled).releases >= 1
    with pytest.raises(InvalidBudget, match="lower the cost of the mechanism"):
        Budget.for_workload(epsilon=0.6, delta=1e-6, curve=acc.PureDP(epsilon=50.0))


@pytest.mark.parametrize(
    ("budget", "curve", "remedy"),
    [
        (Budget(epsilon=1.0), ApproxDP(epsilon=0.1, delta=1e-9), "a new budget with a delta"),
        (Budget(epsilon=1.0), GaussianDP(mu=0.1), r"Budget\(epsilon=, delta=\)"),
        (Budget(rho=1.0), ApproxDP(epsilon=0.1, delta=1e-9), "a new budget with a delta"),
        (
            Budget(rho=1.0, delta=1e-6),
            RenyiTable(orders=[8.0], values=[0.1]),
            r"Budget\(epsilon=, delta=\)",
        ),
        (
            Budget(epsilon=1.0, delta=1e-6, failure=0.0),
            ApproxDP(epsilon=1.0, delta=1e-7),
            "a larger failure",
        ),
        (
            Budget(epsilon=1.0, delta=1e-6, order=50.0),
            RenyiTable(orders=[8.0], values=[0.1]),
            "for_workload",
        ),
        (
            Budget(epsilon=1.0, delta=1e-6, order="inf"),
            100 * GaussianDP(mu=0.1),
            "Choose a mechanism with a pure epsilon",
        ),
    ],
)
def test_budgets_refuse_what_their_form_cannot_admit(
    budget: Budget, curve: Curve, remedy: str
) -> None:
    """A price that no budget of the form can pay raises with the remedy; admits, can_afford are
    False; nothing is charged.
    """
    curve = 3 * curve
    with pytest.raises(Unaffordable, match=remedy):
        budget.filter_cost(curve)
    assert not budget.admits(curve)
    assert not budget.can_afford(NOTHING, curve)
    spender = acc.PrivacyFilter(budget)
    with pytest.raises(InvalidBudget, match=remedy):
        spender.charge(curve)
    assert spender.spent == NOTHING


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_json_round_trip(budget: Budget) -> None:
    """A budget read back from JSON is equal, with the same hash, capacity and order."""
    again = Budget.model_validate_json(budget.model_dump_json())
    assert again == budget
    assert hash(again) == hash(budget)
    assert again.capacity == budget.capacity
    # with its defaults, so that no later ones can replace them
    data = Budget(epsilon=1, delta=1e-6).model_dump()
    assert (data["failure"], data["order"]) == (5e-7, 23.26)
    assert Budget(epsilon=1, delta=1e-6, order=data["order"], failure=5e-7) == Budget(
        epsilon=1, delta=1e-6
    )
