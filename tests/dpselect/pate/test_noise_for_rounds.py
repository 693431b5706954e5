"""From a budget to noise and to a number of rounds, by one accounting or another."""

from __future__ import annotations

import math
from typing import Any

import pytest

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.plan import calibrated
from dpselect.plan.voting_plan import adaptive_epsilon

BUDGET = acc.Budget(epsilon=2.0, delta=1e-6)
MEMBERS: list[Any] = [
    (pate.GNMax, {}),
    (pate.ConfidentGNMax, {"threshold": 150}),
    (pate.BinaryVoting, {}),
    (pate.TauVoting, {"tau": 3}),
    pytest.param(pate.StableVoting, {}, marks=pytest.mark.slow),
    (pate.TopVotes, {"k": 2}),
]


@pytest.mark.parametrize(("member", "settings"), MEMBERS)
@pytest.mark.parametrize("budget", [BUDGET, acc.Budget(rho=0.05, delta=1e-6)], ids=["approximate", "zcdp"])
def test_fitted_spends_the_budget_and_no_more(member: type[Any], settings: dict[str, Any], budget: acc.Budget) -> None:
    """600 items at the budget: the rounds fit, and one part in a million less noise (with D6 a thousand) does not."""
    mechanism = pate.fitted(member, budget, rounds=600, labels=22, **settings)
    assert budget.admits(600 * mechanism.curve)
    knob, factor = ("rho", 1 + (1e-3 if budget.epsilon else 1e-6)) if member is pate.StableVoting else ("sigma", 1 - 1e-6)
    if member is pate.TopVotes:
        knob, factor = "scale", 1 - (1e-3 if budget.epsilon else 1e-6)
    louder = {knob: getattr(mechanism, knob) * factor}
    if member is pate.ConfidentGNMax:
        assert mechanism.sigma_threshold == 2 * mechanism.sigma
        louder["sigma_threshold"] = 2 * louder["sigma"]
    assert not budget.admits(600 * mechanism.model_copy(update=louder).curve)
    assert pate.rounds_for(mechanism, budget) == 600


def test_gaussian_noise_is_calibrated_to_its_exact_profile() -> None:
    """GNMax on 600 items is one Gaussian mechanism of mu = sqrt(1200)/sigma, and its profile meets delta at epsilon."""
    mechanism = pate.fitted("gnmax", BUDGET, rounds=600, labels=10)
    assert isinstance(mechanism, pate.GNMax)
    mu = math.sqrt(1200) / mechanism.sigma
    assert acc.GaussianDP(mu=mu).profile(2.0) == pytest.approx(1e-6, rel=1e-6)


def test_calibrated_takes_any_family() -> None:
    """A family of one's own, with other settings, is fitted in the same way."""
    mechanism = calibrated(
        lambda sigma: pate.ConfidentGNMax(threshold=9, sigma_threshold=5 * sigma, sigma=sigma, labels=3), BUDGET, releases=50
    )
    assert isinstance(mechanism, pate.ConfidentGNMax)
    assert pate.rounds_for(mechanism, BUDGET) == 50
    twin = pate.fitted(pate.ConfidentGNMax, BUDGET, rounds=50, ratio=5, labels=3, threshold=9)
    assert isinstance(twin, pate.ConfidentGNMax)
    assert twin.sigma == pytest.approx(mechanism.sigma, rel=1e-8)
    fixed = pate.fitted(pate.ConfidentGNMax, BUDGET, rounds=50, sigma_threshold=40.0, labels=3, threshold=9)
    assert isinstance(fixed, pate.ConfidentGNMax)
    assert fixed.sigma_threshold == 40.0


@pytest.mark.slow
def test_the_split_of_delta_is_near_the_best() -> None:
    """No split of delta that was not tried lets gaps pass that are more than 1 % narrower."""
    chosen = pate.fitted(pate.StableVoting, BUDGET, rounds=600, labels=22)
    assert isinstance(chosen, pate.StableVoting)
    width = chosen.stable.rule.scale * chosen.stable.rule.threshold
    for share in (0.6, 0.15, 0.01):
        other = pate.fitted(pate.StableVoting, BUDGET, rounds=600, labels=22, failure_delta=share * 1e-6 / 600)
        assert isinstance(other, pate.StableVoting)
        assert width < 1.01 * other.stable.rule.scale * other.stable.rule.threshold


@pytest.mark.slow
def test_the_adaptive_programme_buys_less_noise_within_the_budget() -> None:
    """Knowing the true order buys a little more rho than the account of any order, and its own bound certifies the result."""
    budget = acc.Budget(epsilon=3.0, delta=1e-5)
    plain = pate.fitted(pate.StableVoting, budget, rounds=40, labels=5)
    sharp = pate.fitted(pate.StableVoting, budget, rounds=40, labels=5, adaptive=True)
    assert isinstance(plain, pate.StableVoting)
    assert isinstance(sharp, pate.StableVoting)
    assert sharp.rho > 1.002 * plain.rho
    assert 2.99 < adaptive_epsilon(sharp, 1e-5, 40) <= 3.0
    assert not budget.admits(40 * sharp.curve)


def test_prices_of_every_accounting() -> None:
    """Each accounting proves its number: the exact one is the least of Gaussian noise, the adaptive programme of StableVoting."""
    gaussian = pate.prices(pate.TauVoting(tau=2, sigma=100.0, labels=9), 1e-6, rounds=300)
    assert gaussian.pld is not None
    assert gaussian.best == pytest.approx(gaussian.pld, rel=1e-9)
    assert gaussian.best < gaussian.rdp
    assert gaussian.adaptive is None
    stable = pate.StableVoting(rho=0.001, failure_delta=1e-9, labels=9)
    found = pate.prices(stable, 1e-6, rounds=50)
    assert found.adaptive is not None
    assert found.pld is not None
    assert found.best == found.adaptive < min(found.rdp, found.pld)
    assert found.rdp >= (50 * stable.curve).epsilon(1e-6)
    assert pate.prices(stable, 1e-6, rounds=50, adaptive=False).adaptive is None


def test_failures_that_use_up_delta_have_no_price() -> None:
    """Where the rounds' failures alone exceed delta nothing is proved."""
    found = pate.prices(pate.StableVoting(rho=0.001, failure_delta=1e-6, labels=9), 1e-6, rounds=50)
    assert (found.rdp, found.pld, found.adaptive, found.best) == (math.inf, None, None, math.inf)


def test_more_rounds_ask_for_more_noise() -> None:
    """Noise grows as the square root of the rounds, and rounds_for inverts it."""
    few, many = (pate.fitted("binary_voting", BUDGET, rounds=rounds, labels=4) for rounds in (100, 400))
    assert isinstance(few, pate.BinaryVoting)
    assert isinstance(many, pate.BinaryVoting)
    assert many.sigma == pytest.approx(2 * few.sigma, rel=1e-8)
    assert pate.rounds_for(few, BUDGET) == 100
    assert pate.rounds_for(pate.GNMax(sigma=0.01, labels=2), BUDGET) == 0


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (InvalidRequest, {"member": "stable_top_k", "labels": 3}),
        (InvalidRequest, {"member": dps.StableTopK, "labels": 3}),
        (InvalidRequest, {"member": pate.GNMax, "labels": 3, "adaptive": True}),
        (InvalidRequest, {"member": pate.GNMax, "labels": 3, "rounds": 0}),
        (InvalidRequest, {"member": pate.GNMax, "labels": 3, "rounds": 2.0}),
        (InvalidMechanism, {"member": pate.GNMax, "labels": 3, "tau": 1}),
        (InvalidMechanism, {"member": pate.StableVoting, "labels": 0}),
        (InvalidMechanism, {"member": pate.StableVoting, "labels": 3, "kbar": 4}),
    ],
)
def test_wrong_requests_are_named(error: type[Exception], arguments: dict[str, Any]) -> None:
    """Unknown mechanisms and settings raise an error that says what is wrong, not that the budget is too small."""
    with pytest.raises(error):
        pate.fitted(**{"budget": BUDGET, **arguments})


def test_budgets_that_pay_for_nothing() -> None:
    """A pure budget pays for no Gaussian noise, and for no mechanism that can fail."""
    with pytest.raises(acc.errors.CalibrationError):
        pate.fitted(pate.GNMax, acc.Budget(epsilon=1.0), labels=3)
    with pytest.raises(InvalidRequest, match="delta"):
        pate.fitted(pate.StableVoting, acc.Budget(epsilon=1.0), labels=3)
