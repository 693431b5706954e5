"""Votes that are counted: levels and numbers of every size, and rounds that follow each other."""

from __future__ import annotations

import numpy as np
import pytest
from ballot_pairs import neighbors

import dpselect as dps
from dpselect import pate
from dpselect.verify.divergences import hockey_stick


@pytest.mark.parametrize("sigma", [5e-324, 1.0, 1e300])
@pytest.mark.parametrize("threshold", [-1.7e308, 1e-320, 2.0**31])
def test_extreme_levels_have_laws_and_draws(sigma: float, threshold: float) -> None:
    """No level, noise or count overflows, warns or loses probability; where nothing is left to
    chance, draws are the law.
    """
    counts, teachers = np.array([[2**31 - 1, 70_000, 0]]), 2**31 - 1
    for mechanism in (
        pate.BinaryVoting(sigma=sigma, labels=3, threshold=threshold),
        pate.TauVoting(tau=3, sigma=sigma, labels=3, threshold=threshold),
    ):
        ballots = pate.Ballots(counts, teachers=teachers)
        law = mechanism.probabilities(ballots)
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        likely = {outcome for outcome, chance in law.items() if chance > 1e-30}
        assert frozenset(mechanism.select_many(ballots)[0].indices) in likely
        assert frozenset(mechanism.select(ballots).indices) in likely
    many = np.random.default_rng(8).permuted(np.tile(np.arange(20), (30, 1)), axis=1)
    drawn = pate.GNMax(sigma=sigma, labels=20).select_many(pate.Ballots(many, teachers=190))
    assert np.array_equal(drawn.indices[:, 0], many.argmax(axis=1)) == (sigma < 1e-10)


@pytest.mark.parametrize(("rho", "failure"), [(1.0, 0.01), (0.2, 0.05)])
def test_the_curve_covers_two_adaptive_rounds(rho: float, failure: float) -> None:
    """The second round's ballots may depend on the first answer: the exact worst case of both is
    below that of the curve.
    """
    mechanism = pate.StableVoting(rho=rho, failure_delta=failure, labels=2)
    delta = 2.5 * failure
    factor = np.exp((2 * mechanism.curve).epsilon(delta))
    pairs = sorted(neighbors(2, 0, 2, 6, "replace_one"))
    laws = {
        c: mechanism.probabilities(dps.Scores(c, sensitivity=mechanism.sensitivity_bound))
        for pair in pairs
        for c in pair
    }
    outcomes = sorted({outcome for law in laws.values() for outcome in law}, key=str)
    first, second = (
        np.array([[laws[pair[side]].get(o, 0.0) for o in outcomes] for pair in pairs])
        for side in (0, 1)
    )
    worst = 0.0
    for p, q in zip(first, second, strict=True):
        after = np.maximum(p[:, None, None] * first - factor * q[:, None, None] * second, 0.0).sum(
            axis=2
        )
        worst = max(worst, float(after.max(axis=1).sum()))
    assert 0 < worst <= delta
    single = np.array([mechanism.curve.epsilon(delta)])
    assert (
        max(hockey_stick(p, q, single)[0, 0] for p, q in zip(first, second, strict=True)) <= delta
    )
