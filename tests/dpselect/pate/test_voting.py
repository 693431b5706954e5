"""Votes that are counted: levels and numbers of every size, and rounds that follow each other."""

from __future__ import annotations

import numpy as np
import pytest

from dpselect import pate


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
