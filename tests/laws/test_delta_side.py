"""Delta, held from both sides: failures are paid for to the unit, and what is stated as a probability is attained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import accounting as acc
from accounting.budget.budget import NOTHING
from accounting.conversion.adaptive_composition import adaptive_composition, delta_bounds
from accounting.ledger import Ledger
from dpselect import pate
from dpselect.mechanisms.stability.stability_test import doubled_failure
from dpselect.pate.budgets import adaptive_epsilon

BUDGETS = [
    (acc.Budget(epsilon=1.0, delta=1e-6, order="inf"), 1e-6),
    (acc.Budget(epsilon=1.0, delta=1e-6), 5e-7),
    (acc.Budget(epsilon=1.0, delta=1e-6, order=30.0, failure=2e-7), 2e-7),
    (acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"), 5e-7),
    (acc.Budget(rho=0.1, delta=1e-8), 1e-8),
]


@pytest.mark.parametrize(("budget", "failure"), BUDGETS)
def test_failures_are_paid_for_to_the_unit(budget: acc.Budget, failure: float) -> None:
    """The capacity is the declared probability in units of 10^-18; twenty twentieths fit, and not one unit more."""
    units = round(failure * 1e18)
    assert budget.capacity.failure == units
    assert budget.fits(NOTHING, acc.Price(0, units))
    assert not budget.fits(NOTHING, acc.Price(0, units + 1))
    assert not budget.fits(acc.Price(0, 1), acc.Price(0, units))
    twentieth = acc.ApproxDP(epsilon=1e-5, delta=failure / 20)
    assert budget.how_many(twentieth) == 20
    assert math.isfinite(budget.cost_of_each(twentieth, 20))
    assert math.isinf(budget.cost_of_each(twentieth, 21))
    assert budget.failure_of_each(20) == pytest.approx(failure / 20, rel=1e-5)
    assert budget.remaining(acc.Price(0, units // 4)).failure == pytest.approx(0.75 * failure, rel=1e-12)
    kept = acc.PrivacyFilter(budget)
    kept.charge(twentieth, 20)
    with pytest.raises(acc.BudgetExceeded, match="failure"):
        kept.charge(acc.ApproxDP(epsilon=1e-5, delta=failure / 1000))


@pytest.mark.parametrize(("budget", "failure"), BUDGETS)
def test_a_ledger_pays_for_failures_to_the_unit(budget: acc.Budget, failure: float, tmp_path: Any) -> None:
    """As a filter does: twenty twentieths, then a thousandth is refused, in one charge or in several."""
    twentieth = acc.ApproxDP(epsilon=1e-5, delta=failure / 20)
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        ledger.create_dataset("visits", budget, "add_remove")
        for count in (1, 18, 1):
            ledger.charge("visits", twentieth, count=count, relation="add_remove")
        with pytest.raises(acc.BudgetExceeded, match="failure"):
            ledger.charge("visits", acc.ApproxDP(epsilon=1e-5, delta=failure / 1000), relation="add_remove")
        assert ledger.total("visits").spent.failure == round(failure * 1e18)
        assert ledger.verify().ok


def test_an_odometer_pays_for_failures_to_the_unit() -> None:
    """Twenty twentieths of the failure that it was given, and no more."""
    odometer = acc.PrivacyOdometer(delta=1e-6, order=8.0, failure=1e-6)
    odometer.charge(acc.ApproxDP(epsilon=1e-5, delta=5e-8), 20)
    with pytest.raises(acc.BudgetExceeded):
        odometer.charge(acc.ApproxDP(epsilon=1e-5, delta=1e-9))


RUNS = acc.TruncatedNegativeBinomial(eta=0.5, gamma=0.05)


@pytest.mark.parametrize(
    ("curve", "failure"),
    [
        (acc.ApproxDP(epsilon=0.5, delta=1e-4), 1e-4),
        (acc.Approximate(curve=acc.ApproxDP(epsilon=0.5, delta=1e-4), delta0=2e-4), 3e-4),
        (7 * acc.ApproxDP(epsilon=0.5, delta=1e-4) + acc.Approximate(curve=acc.ZCDP(rho=0.1), delta0=1e-5), 7.1e-4),
        (acc.Tighter(curves=(acc.ApproxDP(epsilon=0.5, delta=1e-4), acc.ApproxDP(epsilon=0.4, delta=2e-4))), 2e-4),
        (acc.RepeatAndSelectDP(base=acc.ApproxDP(epsilon=0.1, delta=1e-5), distribution=RUNS), RUNS.mean * 1e-5),
        (acc.RepeatAndSelectDP(base=acc.ApproxDP(epsilon=0.1, delta=1e-5), distribution=acc.PoissonRuns(mean=6.0)), 6e-5),
    ],
)
def test_the_failure_of_what_is_made_of_curves_is_its_closed_form(curve: acc.Curve, failure: float) -> None:
    """Sums, the larger one, or as many runs as are expected: rounded up, by no more than one part in 10^12."""
    assert failure <= curve.delta0 * (1 + 1e-15)
    assert curve.delta0 == pytest.approx(failure, rel=1e-12)


@pytest.mark.parametrize("mu", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("candidates", [2, 10, 1000])
def test_the_profile_of_a_gaussian_maximum_is_its_union_bound(mu: float, candidates: int) -> None:
    """Each candidate adds the profile of one Gaussian: equal to the quadrature-free closed form, not 5 % less."""
    curve = acc.GaussianMax(mu=mu, candidates=candidates)
    for epsilon in (0.5 * mu, 2 * mu, 4 * mu + 1):
        one = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert curve.profile(epsilon) == pytest.approx(min(1.0, candidates * one), rel=1e-6)
        assert curve.delta(epsilon) <= curve.profile(epsilon)
    at = curve.profile(4 * mu + 1)
    assert curve.losses().steps[0][1].profile(np.array([4 * mu + 1]))[0] == pytest.approx(at, rel=1e-6)


def test_a_tested_release_pays_for_the_release_and_the_labels() -> None:
    """At its order: the limit and the published bound's own price, to the last digit; the failure is the release's."""
    release = pate.SmoothRelease(order=4.0, beta=0.1, sigma=1.0, failure=1e-3)
    tested = release.tested(0.3)
    assert float(tested.rdp(4.0)) == pytest.approx(0.3 + release.rdp, rel=1e-12)
    assert tested.delta0 == 1e-3
    plain = acc.GaussianDP(mu=0.2)
    assert float(release.tested(0.3, plain).rdp(4.0)) == pytest.approx(float(plain.rdp(4.0)) + release.rdp, rel=1e-12)


@pytest.mark.parametrize("failure", [0.0, 1e-3, 0.4])
@pytest.mark.parametrize("count", [1, 3])
def test_both_bounds_of_delta_hold_the_truth_between_them(failure: float, count: int) -> None:
    """Randomised response, whose composition is a binomial, failures added: neither bound crosses it, nor each other."""
    steps = [(acc.Approximate(curve=acc.PureDP(epsilon=0.8), delta0=failure / count), count)]
    levels = np.array([0.0, 0.1, 0.4, 0.75, 0.9, 1.5, 2.3, 5.0])
    found = delta_bounds(steps, levels, tolerance=0.2)
    k, p = np.arange(count + 1), 1 / (1 + math.exp(-0.8))
    losses = (2 * k - count) * 0.8
    exact = [float(np.sum(binom.pmf(k, count, p) * np.maximum(0, -np.expm1(level - losses)))) for level in levels]
    stated = np.minimum(1.0, np.array(exact) + failure)
    assert np.all(found.lower <= found.upper)
    assert np.all(found.lower <= stated * (1 + 1e-12))
    assert np.all(found.upper >= stated * (1 - 1e-12))
    assert found.upper == pytest.approx(stated, rel=0.2)


def test_certain_failure_leaves_no_gap() -> None:
    """Bad events that are certain, and more: delta is 1, from below as from above."""
    steps = [(acc.Approximate(curve=acc.PureDP(epsilon=3.0), delta0=0.9), 2)]
    found = delta_bounds(steps, [0.5, 7.0], tolerance=0.2)
    assert found.upper.tolist() == [1.0, 1.0]
    assert np.all(found.lower <= found.upper)


@pytest.mark.parametrize(("rho", "failure", "delta"), [(0.05, 1e-7, 1e-5), (0.3, 0.0, 1e-3), (0.05, 2e-6, 1e-4)])
def test_the_adaptive_programme_prices_a_round_as_its_two_steps(rho: float, failure: float, delta: float) -> None:
    """A bounded-range choice of 2 sqrt(rho), then a Gaussian test of sqrt(rho), failures off delta: held from both sides."""
    mechanism = pate.StableVoting(rho=rho, failure_delta=failure or 1e-12, labels=3)
    steps = [acc.BoundedRange(epsilon=2 * math.sqrt(rho)), acc.GaussianDP(mu=math.sqrt(rho))] * 4
    found = adaptive_composition(steps, delta - 4 * mechanism.failure_delta)
    assert found.epsilon_lower * (1 - 1e-9) <= adaptive_epsilon(mechanism, delta, 4) <= found.epsilon_upper * (1 + 1e-6)


@pytest.mark.parametrize("epsilon0", [0.1, 1.0, 4.0])
def test_the_delta_of_laplace_noise_is_that_of_its_pair(epsilon0: float) -> None:
    """Two Laplace densities, one shifted by epsilon0 scales, integrated: 1 - exp((epsilon - epsilon0) / 2)."""
    at = np.linspace(-40.0, 40.0, 2_000_001)
    for epsilon in (0.0, 0.3 * epsilon0, 0.9 * epsilon0):
        above = np.maximum(0.0, np.exp(-np.abs(at)) / 2 - np.exp(epsilon - np.abs(at + epsilon0)) / 2)
        assert acc.LaplaceDP(epsilon=epsilon0).profile(epsilon) == pytest.approx(np.trapezoid(above, at), rel=1e-6)


def test_each_of_two_users_may_fail() -> None:
    """The failure of a curve is doubled, to the last digit; a certain one is none."""
    once = acc.Approximate(curve=acc.PureDP(epsilon=1.0), delta0=0.125)
    assert doubled_failure(once) == acc.Approximate(curve=acc.PureDP(epsilon=1.0), delta0=0.25)
    assert doubled_failure(acc.Approximate(curve=acc.PureDP(epsilon=1.0), delta0=0.5)) is None
