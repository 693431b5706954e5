"""What is spent and left, as an auditor asks for it: the odometer's epsilon, and the Gaussian release that still fits."""

from __future__ import annotations

import math
from decimal import ROUND_UP, Decimal, Inexact, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accounting as acc
from accounting.page.spent import failure_up, main_up
from accounting.remaining import affordable, equivalent, left_in_words, shortfall

APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)
BUDGETS = [APPROXIMATE, acc.Budget(epsilon=3.0, delta=1e-5, order=8.0), acc.Budget(rho=0.2, delta=1e-7), acc.Budget(rho=0.2)]
NOTHING = acc.Price(0, 0)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(
    ("budget", "odometer"),
    [
        (APPROXIMATE, acc.PrivacyOdometer(delta=5e-7, failure=5e-7, order=23.26)),
        (acc.Budget(epsilon=1.0, delta=1e-6, order="inf"), acc.PrivacyOdometer(delta=0.0, failure=1e-6, order="inf")),
        (acc.Budget(epsilon=1.0), acc.PrivacyOdometer(delta=0.0, order="inf")),
    ],
)
def test_epsilon_is_the_odometers(budget: acc.Budget, odometer: acc.PrivacyOdometer, runs: int) -> None:
    """At the order and delta of the budget an odometer that is charged the same states the same epsilon, to the last digit."""
    assert equivalent(budget, NOTHING).epsilon == 0
    before, curve = odometer.spent, acc.PureDP(epsilon=0.03)
    stated = [odometer.charge(curve) for _ in range(runs)][-1]
    spent = before.plus(budget.price(curve).times(runs))
    assert equivalent(budget, spent).epsilon == stated


def test_rho_is_told_at_twice_its_delta() -> None:
    """Half pays for failures, half for the conversion, at the order that is best for the whole budget."""
    budget, curve = acc.Budget(rho=0.2, delta=1e-7), acc.ZCDP(rho=0.05)
    found = equivalent(budget, budget.price(curve))
    assert found.delta == 2e-7
    assert found.epsilon is not None
    odometers = [acc.PrivacyOdometer(delta=1e-7, order=1 + step / 100) for step in range(200, 3000, 20)]
    for odometer in odometers:
        odometer.charge(acc.ZCDP(rho=0.2))
    best = min(odometer.epsilon for odometer in odometers)
    whole = equivalent(budget, budget.capacity).epsilon
    assert whole == pytest.approx(best, rel=1e-3)
    assert equivalent(acc.Budget(rho=0.2), NOTHING).epsilon is None


@given(share=st.floats(0, 1))
@pytest.mark.parametrize("budget", [*BUDGETS[:3], acc.Budget(epsilon=1.0)])
def test_what_is_left_is_what_the_rest_adds(budget: acc.Budget, share: float) -> None:
    """Spending all that is left raises the running epsilon by epsilon_left and no more."""
    spent = acc.Price(1 + int(share * (budget.capacity.main - 1)), 0)
    now, end = equivalent(budget, spent), equivalent(budget, acc.Price(budget.capacity.main, 0))
    assert now.epsilon is not None
    assert end.epsilon is not None
    assert now.epsilon_left is not None
    assert end.epsilon - now.epsilon == pytest.approx(now.epsilon_left, abs=1e-9)
    assert end.epsilon_left == 0


@given(share=st.floats(0, 0.999))
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_gaussian_release_of_the_mu_left_fits(budget: acc.Budget, share: float) -> None:
    """One of that mu may be charged, one a twentieth larger may not."""
    spent = acc.Price(int(share * budget.capacity.main), 0)
    found = equivalent(budget, spent).mu_left
    assert found is not None
    assert budget.fits(spent, budget.price(acc.GaussianDP(mu=found)))
    # Past the first charge, where a plan for the whole budget has a price of its own.
    assert spent.main == 0 or not budget.can_afford(spent, acc.GaussianDP(mu=1.05 * found))
    assert equivalent(budget, budget.capacity).mu_left == 0


def test_pure_epsilon_has_no_mu() -> None:
    """No Gaussian release has a pure epsilon."""
    assert equivalent(acc.Budget(epsilon=1.0), NOTHING).mu_left is None


@given(st.integers(0, 8 * 10**18), st.integers(0, 5 * 10**17))
def test_what_is_left_is_never_more_than_what_is_left(main: int, failure: int) -> None:
    """Both floats stand for at most the whole units that are left, and the next float for more."""
    budget = acc.Budget(rho=8e6, delta=0.5)
    left = budget.remaining(acc.Price(main, failure))
    units = budget.capacity.minus(acc.Price(main, failure))
    for found, exact in ((left.main, Decimal(units.main).scaleb(-12)), (left.failure, Decimal(units.failure).scaleb(-18))):
        assert Decimal(repr(found)) <= exact
        assert Decimal(repr(math.nextafter(found, math.inf))) > exact


def _everything(budget: acc.Budget, spent: acc.Price) -> list[object]:
    curve = acc.GaussianDP(mu=0.7)
    fits = affordable(budget, spent, acc.GaussianDP(mu=0.01), most=10**9)
    words = [left_in_words(budget, spent), shortfall(budget, spent, budget.price(curve)), fits.reason, fits.remedy]
    return [budget.remaining(spent), equivalent(budget, spent), *words, main_up(spent.main), failure_up(-spent.main)]


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_is_left_ignores_the_callers_decimal_context(budget: acc.Budget) -> None:
    """A caller with two digits that are rounded up, or that traps whatever is inexact, is told the same of what is left."""
    spent = acc.Price(123456789123, 123456789)
    told = _everything(budget, spent)
    with localcontext() as context:
        context.prec, context.rounding = 2, ROUND_UP
        assert _everything(budget, spent) == told
        context.traps[Inexact] = True
        assert _everything(budget, spent) == told
