"""Budgets: three forms, exact prices, and a filter that is fixed when it is created."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import accounting as acc
from accounting.budget import Budget
from accounting.convert.bounds import best_epsilon
from accounting.convert.renyi import rdp_to_epsilon
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
from accounting.price import NOTHING, Price
from accounting.refusals import shortfall

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
DECIMALS = st.decimals(min_value="0.000000000001", max_value=100, places=12)


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


@pytest.mark.slow
@given(units=DECIMALS, count=st.integers(1, 1000), slack=st.integers(-1, 1))
@example(units=Decimal("0.1"), count=3, slack=0)
@example(units=Decimal("0.7"), count=3, slack=-1)
@settings(max_examples=300, deadline=None)
def test_decimals_do_what_people_expect(units: Decimal, count: int, slack: int) -> None:
    """n charges of a decimal fit exactly if n times it is at most the budget, in exact decimal
    arithmetic, one by one.
    """
    limit = count * units + slack * Decimal("1e-12")
    if limit <= 0 or Decimal(repr(float(limit))) != limit or Decimal(repr(float(units))) != units:
        return
    for budget, curve in (
        (Budget(epsilon=float(limit)), PureDP(epsilon=float(units))),
        (Budget(rho=float(limit)), ZCDP(rho=float(units))),
        (Budget(epsilon=float(limit), delta=1e-6, order="inf"), BoundedRange(epsilon=float(units))),
    ):
        if count == 1 and slack < 0 and budget.admits(curve):
            # at delta 1e-6 one application is a plan that costs less than its pure epsilon
            continue
        assert budget.fits(NOTHING, budget.price(curve).times(count)) == (slack >= 0)
        assert (budget.how_many(curve) >= count) == (slack >= 0)


def test_three_tenths() -> None:
    """Three charges of 0.1 fit into 0.3, a fourth does not; 0.30000000000000004 does not fit
    either.
    """
    budget, tenth = Budget(epsilon=0.3), Budget(epsilon=0.3).price(PureDP(epsilon=0.1))
    assert budget.how_many(PureDP(epsilon=0.1)) == 3
    assert not budget.can_afford(tenth.plus(tenth).plus(tenth), PureDP(epsilon=1e-300))
    assert not budget.can_afford(NOTHING, PureDP(epsilon=0.1 + 0.2))


@given(value=st.floats(1e-9, 1e3))
@settings(max_examples=200, deadline=None)
def test_exactly_the_budget_fits_and_more_does_not(value: float) -> None:
    """A charge equal to the budget fits whatever its digits, the next float above does not, and
    after it nothing fits.
    """
    for budget, curve, above in (
        (
            Budget(epsilon=value),
            PureDP(epsilon=value),
            PureDP(epsilon=math.nextafter(value, math.inf)),
        ),
        (Budget(rho=value), ZCDP(rho=value), ZCDP(rho=math.nextafter(value, math.inf))),
    ):
        price = budget.price(curve)
        assert budget.fits(NOTHING, price)
        assert not budget.can_afford(NOTHING, above)
        assert not budget.can_afford(price, curve)
        assert budget.how_many(curve, spent=price) == 0


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_what_fits_is_admitted_and_what_is_admitted_fits_alone(budget: Budget) -> None:
    """As many separate charges as fit are admitted as one plan, one more does not fit; a plan costs
    at most its parts.
    """
    for curve in CURVES:
        for count in (1, 5, 100):
            assert budget.admits(count * curve) == budget.can_afford(NOTHING, count * curve)
        if budget.can_afford(NOTHING, curve):
            price, count = budget.price(curve), budget.how_many(curve)
            assert count >= 1
            assert budget.admits(count * curve)
            assert not budget.fits(price.times(count), price)
            if budget.fits(NOTHING, price.times(9)):
                assert all(
                    whole <= parts
                    for whole, parts in zip(budget.price(9 * curve), price.times(9), strict=True)
                )


@pytest.mark.slow
@given(
    epsilon=st.floats(1e-3, 50),
    exponent=st.floats(-15, -1),
    split=st.floats(0, 0.99),
    order=st.floats(1.2, 1e4),
)
@settings(max_examples=200, deadline=None)
def test_renyi_capacity_is_the_inverse_of_the_conversion(
    epsilon: float, exponent: float, split: float, order: float
) -> None:
    """A Renyi divergence equal to the capacity converts to epsilon, to 30 digits: never above it,
    and not 1e-11 below it.
    """
    delta = 10**exponent
    try:
        budget = Budget(epsilon=epsilon, delta=delta, order=order, failure=split * delta)
    except InvalidBudget:
        return
    mp.mp.dps = 40
    a, d = mp.mpf(repr(order)), mp.mpf(repr(delta)) - mp.mpf(repr(split * delta))
    back = mp.mpf(budget.capacity.main) / 10**12 + mp.log1p(-1 / a) - mp.log(a * d) / (a - 1)
    assert back <= mp.mpf(repr(epsilon))
    assert back >= mp.mpf(repr(epsilon)) - mp.mpf("1.1e-12")


def test_prices_ignore_the_callers_decimal_context() -> None:
    """A caller with three digits of decimal precision gets the same order, capacity and prices."""
    budget, price = Budget(epsilon=1, delta=1e-6), Budget(epsilon=1, delta=1e-6).price(STABLE)
    with localcontext() as context:
        context.prec = 3
        again = Budget(epsilon=1, delta=1e-6)
        assert again == budget
        assert again.capacity == budget.capacity
        assert again.price(STABLE) == price
        assert Budget(epsilon=0.123456789, delta=1e-7, order=325.25).capacity.main > 0


def test_price_rounds_up() -> None:
    """Each part of a price, in nats, is at least the cost, and at most one unit and one part in
    10^12 above it.
    """
    budget = Budget(epsilon=4, delta=1e-6)
    for curve in CURVES:
        price, cost = budget.price(curve), float(curve.rdp(float(budget.order or 0)))
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
        assert budget.price(curve).main == 1
    assert Budget(epsilon=1.0).price(zero()) == NOTHING
    assert Budget(epsilon=1e-13).how_many(PureDP(epsilon=1e-13)) == 0  # of less than a unit


def test_costs_beyond_sixty_four_bits_are_refused() -> None:
    """Prices always fit a signed 64-bit integer; what would not is refused as unaffordable."""
    budget = Budget(epsilon=1e9)
    assert budget.capacity.main < 2**63
    with pytest.raises(Unaffordable, match="more than a filter can count"):
        Budget(epsilon=1e6).price(PureDP(epsilon=1e8))


def test_more_failures_than_certain_ones_do_not_fit() -> None:
    """Runs whose chances of failure add up to more than 1 are valid and too many: they are refused
    as runs that do not fit.
    """
    budget, curve = (
        acc.Budget(epsilon=1.0, delta=1e-6),
        acc.Approximate(curve=acc.PureDP(epsilon=1e-9), delta0=1e-7),
    )
    assert budget.price(20_000_000 * curve).failure == budget.price(10_000_000 * curve).failure
    with pytest.raises(
        acc.BudgetExceeded, match=r"a failure probability \(delta0\) of 1 from this filter"
    ):
        acc.PrivacyFilter(budget).charge(curve, count=20_000_000)
    likely = acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=0.9)
    assert acc.Approximate(curve=likely, delta0=0.9).delta0 == (3 * likely).delta0 == 1.0
    assert acc.Approximate(curve=likely, delta0=0.05).delta0 == pytest.approx(0.95)


def test_a_fixed_plan_takes_the_whole_budget() -> None:
    """A plan that only a tighter route proves costs the whole capacity, up to the edge, and fits
    alone.
    """
    budget, low, high = Budget(epsilon=1.0, delta=1e-6), 0.01, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if best_epsilon(GaussianDP(mu=middle), 1e-6).value <= 1.0
            else (low, middle)
        )
    assert not budget.can_afford(NOTHING, GaussianDP(mu=high * 1.000001))
    least = budget.price(PureDP(epsilon=1e-9))
    for plan in (PureDP(epsilon=1.0), GaussianDP(mu=low)):
        assert float(plan.rdp(float(budget.order or 0))) > budget.capacity.main * 1e-12
        assert budget.price(plan) == budget.capacity
        assert not budget.fits(least, budget.price(plan))
        assert not budget.fits(budget.price(plan), least)
        assert budget.fits(budget.price(plan), budget.price(zero()))


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
    with pytest.raises(InvalidBudget, match=r"Budget\(epsilon=1.0, delta=1e-6, release=curve\)"):
        Budget.for_workload(epsilon=1.0, delta=1e-6, curve=sampled)
    assert Budget(epsilon=1.0, delta=1e-6, release=sampled).how_many(sampled) >= 1
    with pytest.raises(InvalidBudget, match="lower the cost of the mechanism"):
        Budget.for_workload(epsilon=1.0, delta=1e-6, curve=acc.PureDP(epsilon=50.0))


def test_for_workload_is_near_the_fixed_plan() -> None:
    """For Gaussian-like steps the filter pays for as many, within one percent, as the best order
    found after the fact.
    """
    budget = Budget.for_workload(epsilon=2.0, delta=1e-6, curve=STABLE)
    count = budget.how_many(STABLE)
    best = next(
        n
        for n in range(count, 10**6)
        if rdp_to_epsilon((n * STABLE).rdp, 1e-6 - n * 1e-9).value > 2.0
    )
    assert best - 1 <= 1.01 * count + 1


def test_default_orders_over_the_whole_domain() -> None:
    """From epsilon 1e-12 to 1e6 and delta 1e-300 to 0.9 the default order exists, and its
    neighbors pay for no more zCDP.
    """
    for epsilon in np.geomspace(1e-12, 1e6, 7).tolist():
        for delta in (1e-300, 1e-20, 1e-6, 0.9):
            budget = Budget(epsilon=epsilon, delta=delta)
            assert budget.capacity.main >= 0
            if isinstance(budget.order, float) and budget.capacity.main > 1000:
                for factor in (0.8, 1.25):
                    order = 1 + factor * (budget.order - 1)
                    assert (
                        budget.capacity.main / budget.order * 1.0001
                        >= _capacity(budget, order) / order
                    )


def _capacity(budget: Budget, order: float) -> int:
    try:
        return Budget.model_validate({**budget.model_dump(), "order": order}).capacity.main
    except InvalidBudget:
        return 0


def test_a_refusal_says_which_part_is_short_and_by_how_much() -> None:
    """The part that does not fit is named with its remedy, and amounts that differ in the tenth
    digit do not print alike.
    """
    close = acc.PrivacyFilter(acc.Budget(epsilon=1.0))
    close.charge(acc.PureDP(epsilon=0.5))
    with pytest.raises(
        acc.BudgetExceeded,
        match=r"50\.0001% of the budget of this filter and 50% is left.* or more noise",
    ):
        close.charge(acc.PureDP(epsilon=0.5 + 1e-10))
    delta = acc.PrivacyFilter(acc.Budget(rho=5.0, delta=1e-6))
    with pytest.raises(
        acc.BudgetExceeded, match=r"because it needs a failure .*delta.* noise does not help"
    ):
        delta.charge(acc.Approximate(curve=acc.ZCDP(rho=0.1), delta0=2e-6))
    assert "a failure probability (delta0) of 2e-6 from here and 1e-6 is left" in shortfall(
        Budget(rho=5.0, delta=1e-6), NOTHING, Price(1, 2 * 10**12), "here"
    )
    budget = Budget(epsilon=1.0, delta=1e-6)
    words = shortfall(
        budget, budget.price(GaussianDP(mu=0.1)), budget.price(GaussianDP(mu=0.3)), "here"
    )
    assert "% of the budget of here and " in words
    assert "epsilon" not in words  # a share of what is added up is none of epsilon
    spent_pure = shortfall(Budget(epsilon=1.0), Budget(epsilon=1.0).capacity, Price(1, 0), "here")
    assert "1e-10% of the budget of here and 0% is left" in spent_pure


@pytest.mark.parametrize(
    ("budget", "curve", "remedy"),
    [
        (Budget(epsilon=1.0), ApproxDP(epsilon=0.1, delta=1e-9), "a new budget with a delta"),
        (
            Budget(epsilon=1.0),
            Approximate(curve=PureDP(epsilon=0.1), delta0=1e-9),
            "a new budget with a delta",
        ),
        (Budget(epsilon=1.0), GaussianDP(mu=0.1), r"Budget\(epsilon=, delta=\)"),
        (Budget(epsilon=1.0), ZCDP(rho=0.1), r"Budget\(epsilon=, delta=\)"),
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
        budget.price(curve)
    assert not budget.admits(curve)
    assert not budget.can_afford(NOTHING, curve)
    spender = acc.PrivacyFilter(budget)
    with pytest.raises(InvalidBudget, match=remedy):
        spender.charge(curve)
    assert spender.spent == NOTHING
