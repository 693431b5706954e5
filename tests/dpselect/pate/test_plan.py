"""Labeling plans before a vote is cast: the noise of a budget, what noise does to votes, and what
is recommended.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import norm

import accounting as acc
from dpselect import pate
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.plan import calibrate_mechanism

BUDGET = acc.Budget(epsilon=2.0, delta=1e-6)
MODEL = pate.VotesModel(teachers=60, labels=8, votes_per_item=1.5, agreement=0.7)
COUNTED = pate.Ballots([[1, 2]], teachers=3)


# -- noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "settings"),
    [
        (pate.GNMax, {}),
        (pate.ConfidentGNMax, {"threshold": 150}),
        (pate.TauVoting, {"tau": 3}),
        pytest.param(pate.StableVoting, {}, marks=pytest.mark.slow),
        (pate.TopVotes, {"k": 2}),
    ],
)
@pytest.mark.parametrize(
    "budget", [BUDGET, acc.Budget(rho=0.05, delta=1e-6)], ids=["approximate", "zcdp"]
)
def test_fitted_spends_the_budget_and_no_more(
    member: type[Any], settings: dict[str, Any], budget: acc.Budget
) -> None:
    """600 items at the budget: the rounds fit, and one part in a million less noise (with D6 a
    thousand) does not.
    """
    mechanism = pate.fitted(member, budget, rounds=600, labels=22, **settings)
    assert budget.admits(600 * mechanism.curve)
    knob, factor = (
        ("rho", 1 + (1e-3 if budget.epsilon else 1e-6))
        if member is pate.StableVoting
        else ("sigma", 1 - 1e-6)
    )
    if member is pate.TopVotes:
        knob, factor = "scale", 1 - (1e-3 if budget.epsilon else 1e-6)
    louder = {knob: getattr(mechanism, knob) * factor}
    if isinstance(mechanism, pate.ConfidentGNMax):
        assert mechanism.sigma_threshold == 2 * mechanism.sigma
        louder["sigma_threshold"] = 2 * louder["sigma"]
    assert not budget.admits(600 * mechanism.model_copy(update=louder).curve)
    assert acc.calibration.calibrate_count(mechanism.curve, budget) == 600


def test_the_noise_of_the_test_may_be_stated() -> None:
    """ConfidentGNMax keeps a stated sigma_threshold, and the label's noise spends what the test
    leaves.
    """
    found = pate.fitted(
        "ConfidentGNMax", BUDGET, rounds=50, labels=3, threshold=9, sigma_threshold=40.0
    )
    assert found.model_dump()["sigma_threshold"] == 40.0
    assert acc.calibration.calibrate_count(found.curve, BUDGET) == 50


def fitting(kind: Any, budget: Any = BUDGET, **given: Any) -> Callable[[], Any]:
    """Fits a kind for three labels."""
    return partial(pate.fitted, kind, budget, labels=3, **given)


PURE, GNMAX = acc.Budget(epsilon=1.0), pate.GNMax(sigma=1.0, labels=3)
WRONG: list[tuple[type[Exception], Callable[[], Any]]] = [
    (InvalidRequest, fitting("stable_top_k")),
    (InvalidRequest, fitting(pate.GNMax, rounds=0)),
    (InvalidRequest, fitting(pate.StableVoting, rho=0.1)),
    (InvalidRequest, fitting(pate.GNMax, sigma=9.0)),
    (InvalidMechanism, fitting(pate.GNMax, tau=1)),
    (InvalidMechanism, fitting(pate.StableVoting, kbar=4)),
    (acc.AccountingError, fitting(pate.StableVoting, None)),
    (acc.errors.CalibrationError, fitting(pate.GNMax, PURE)),
    (InvalidRequest, fitting(pate.StableVoting, PURE)),
    (
        acc.AccountingError,
        lambda: calibrate_mechanism(lambda sigma: cast(Any, sigma), BUDGET, releases=600),
    ),
    (InvalidRequest, lambda: calibrate_mechanism(lambda _: GNMAX, BUDGET, releases=0)),
    (InvalidRequest, lambda: pate.outlook(GNMAX, teachers=0)),
    (InvalidRequest, lambda: pate.outlook(cast(Any, acc.PureDP(epsilon=1.0)), teachers=3)),
    (
        pate.InvalidBallots,
        lambda: pate.outlook(pate.BinaryVoting(sigma=1.0, labels=3, teachers=4), teachers=3),
    ),
    *(
        (InvalidRequest, partial(pate.VotesModel.model_validate, {**MODEL.model_dump(), **wrong}))
        for wrong in ({"labels": 1}, {"agreement": 1.0}, {"correlation": 1.0})
    ),
    (InvalidRequest, lambda: pate.simulate(MODEL.model_copy(update={"votes_per_item": 9.0}))),
    (InvalidRequest, lambda: pate.predict(pate.GNMax(sigma=1.0, labels=2), COUNTED, [[True]])),
    (InvalidRequest, lambda: pate.TrialVotes(COUNTED, np.ones((1, 2), dtype=bool))),
]


@pytest.mark.parametrize(("error", "ask"), WRONG)
def test_wrong_requests_are_named(error: type[Exception], ask: Callable[[], Any]) -> None:
    """Whatever is wrong raises an error of the library that says so, not that the budget is too
    small.
    """
    with pytest.raises(error):
        ask()


# -- what noise does to votes ----------------------------------------------------------------------


def test_level_votes_pass_with_the_chance_of_their_noise() -> None:
    """A unanimous label passes a threshold with the Gaussian's chance, one without votes with its
    complement at half.
    """
    found = pate.outlook(pate.TauVoting(tau=3, sigma=147.0, labels=100), teachers=200)
    assert (found.noise, found.threshold) == (147.0, 100.0)
    assert found.unanimous == pytest.approx(norm.sf(-100 / 147), abs=0.03)
    assert found.unvoted == pytest.approx(norm.sf(100 / 147), abs=0.005)
    assert found.wrong_labels == pytest.approx(99 * found.unvoted)
    assert not found.works


@pytest.mark.parametrize(
    ("mechanism", "works"),
    [
        (pate.BinaryVoting(sigma=25.0, labels=3), True),
        (pate.GNMax(sigma=4000.0, labels=10), False),
        (pate.ConfidentGNMax(sigma=4.0, sigma_threshold=31.0, threshold=60.0, labels=3), False),
        (pate.ConfidentGNMax(sigma=4.0, sigma_threshold=29.0, threshold=60.0, labels=3), True),
        (pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=5), False),
    ],
)
def test_outlook_detects_mechanisms_that_work(mechanism: Any, works: bool) -> None:
    """Noise of at most half the threshold, and a unanimous label that is released in half of the
    rounds, of 100 teachers.
    """
    assert pate.outlook(mechanism, teachers=100).works is works


def test_a_budget_that_leaves_noise_is_refused() -> None:
    """`fitted` with the number of teachers says in two lines what the noise would do, where it
    leaves little.
    """
    asked: dict[str, Any] = {"rounds": 10_000, "tau": 3, "labels": 100, "teachers": 200}
    with pytest.raises(
        pate.PoorOutlook,
        match=r"anyway=True.\nnoise of 160 votes against a threshold of 100\na unanimous label",
    ):
        pate.fitted(pate.TauVoting, acc.Budget(epsilon=8.0, delta=1e-6), **asked)
    assert pate.fitted(pate.TauVoting, BUDGET, **asked, anyway=True).teachers == 200  # type: ignore[attr-defined]
    assert pate.fitted(pate.GNMax, BUDGET, rounds=100, labels=10, teachers=200).kind == "gnmax"


@pytest.mark.parametrize(
    "mechanism",
    [
        pate.GNMax(sigma=6.0, labels=4),
        pate.ConfidentGNMax(sigma=6.0, sigma_threshold=9.0, threshold=10.0, labels=4),
        pate.BinaryVoting(sigma=6.0, labels=4),
        pate.TauVoting(tau=2, sigma=6.0, labels=4),
        pate.TopVotes(k=2, scale=4.0, labels=4),
        pate.StableVoting(rho=0.3, failure_delta=0.01, labels=4, kbar=3),
    ],
    ids=lambda one: one.kind,
)
def test_vote_forecast_matches_the_exact_distribution(mechanism: Any) -> None:
    """Labels, right labels and answers to expect are those of the exact law, within what 12,000
    seeded draws tell: .02.
    """
    counts = np.array([[11, 3, 2, 4], [6, 6, 5, 3], [0, 20, 0, 0]])
    truth = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=bool)
    labels = right = silent = 0.0
    for row in range(3):
        for outcome, chance in mechanism.probabilities(
            pate.Ballots(counts, teachers=20)[row : row + 1]
        ).items():
            chosen = {outcome} if isinstance(outcome, int) else set(outcome)
            labels += chance * len(chosen) / 3
            right += chance * sum(bool(truth[row, label]) for label in chosen) / 3
            silent += (
                chance / 3 * (not chosen and mechanism.kind in ("confident_gnmax", "stable_voting"))
            )
    many = pate.Ballots(np.tile(counts, (200, 1)), teachers=20)
    found = pate.predict(mechanism, many, np.tile(truth, (200, 1)))
    expected = (labels, right, 1 - silent, 2 * right / (labels + 5 / 3))
    assert (found.labels, found.right, found.answered, found.f1) == pytest.approx(
        expected, abs=0.02
    )
    assert found == pate.predict(mechanism, many, np.tile(truth, (200, 1)))


# -- votes that are made up ------------------------------------------------------------------------


def test_simulated_votes_have_the_stated_means() -> None:
    """Labels an item, agreement, stray votes and their correlation are those of the model, which a
    seed repeats.
    """
    model = pate.VotesModel(
        teachers=300, labels=40, votes_per_item=2.5, agreement=0.6, stray_votes=3.0, correlation=0.2
    )
    votes = pate.simulate(model, items=1000)
    shares = votes.ballots.counts / 300
    assert votes.truth.sum(axis=1).mean() == pytest.approx(2.5, abs=0.1)
    assert shares[votes.truth].mean() == pytest.approx(0.6, abs=0.03)
    assert shares[~votes.truth].sum() / 1000 == pytest.approx(3.0, abs=0.15)
    assert shares[votes.truth].var() == pytest.approx(0.6 * 0.4 * 0.2, rel=0.15)
    assert np.array_equal(pate.simulate(model, items=1000).ballots.counts, votes.ballots.counts)
    alike = pate.simulate(model.model_copy(update={"correlation": 0.0}), items=200)
    assert (alike.ballots.counts / 300)[alike.truth].std() < 0.04


# -- naming the most frequent labels ---------------------------------------------------------------


def test_the_constant_is_the_best_set_of_labels_for_all_items() -> None:
    """No set of labels, named for every item, has a higher micro-F1."""
    truth = np.random.default_rng(2).random((40, 5)) < [0.7, 0.1, 0.4, 0.3, 0.05]
    trial = pate.TrialVotes(
        pate.Ballots(truth.astype(int), teachers=1, missing="allow"), truth, public=True
    )
    best = max(
        (2 * truth[:, list(named)].sum() / (40 * len(named) + truth.sum()), len(named))
        for size in range(1, 6)
        for named in itertools.combinations(range(5), size)
    )
    assert trial.constant == (pytest.approx(best[0]), best[1])


# -- what is recommended ---------------------------------------------------------------------------


def test_every_planned_mechanism_fits_the_budget() -> None:
    """Each is admitted for all rounds by the curve that is charged, and not for a tenth more."""
    budget = acc.Budget(rho=0.2, delta=1e-6)
    model = pate.VotesModel(teachers=30, labels=4, votes_per_item=1, agreement=0.8)
    plan = pate.plan_votes(model, budget, rounds=20)
    assert len(plan.ranked) == 6
    assert plan.as_data()["risk"]["found"] == (20 * plan.recommended.mechanism.curve).attack(0.01)
    for planned in plan.ranked:
        curve = planned.mechanism.curve
        assert (budget.admits(20 * curve), budget.admits(22 * curve)) == (True, False)
