"""Votes that are counted: levels and numbers of every size, and rounds that follow each other."""

from __future__ import annotations

import numpy as np
import pytest
from ballot_pairs import Pair, neighbors
from exact import aligned, law_of

import dpselect as dps
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


SIX = neighbors(2, 0, 2, 6, "replace_one")


@pytest.mark.parametrize(
    ("mechanism", "delta", "pairs"),
    [
        (pate.StableVoting(rho=1.0, failure_delta=0.01, labels=2), 0.025, SIX),
        (pate.StableVoting(rho=0.2, failure_delta=0.05, labels=2), 0.125, SIX),
        (pate.GNMax(sigma=1.0, labels=2), 0.05, neighbors(2, 1, 1, 4, "replace_one")),
    ],
    ids=lambda value: value.kind if isinstance(value, dps.Mechanism) else "",
)
def test_the_curve_covers_two_adaptive_rounds(
    mechanism: dps.Mechanism, delta: float, pairs: frozenset[Pair]
) -> None:
    """The second round's ballots may depend on the first answer: the exact worst case of both is
    below that of the curve twice, and of a Gaussian above that of the curve once.
    """
    laws = aligned(law_of(mechanism, counts) for pair in sorted(pairs) for counts in pair)
    first, second = laws[::2], laws[1::2]

    def reached(epsilon: float) -> float:
        worst = 0.0
        for p, q in zip(first, np.exp(epsilon) * second, strict=True):
            after = p[:, None, None] * first - q[:, None, None] * second
            worst = max(worst, np.maximum(after, 0.0).sum(axis=2).max(axis=1).sum())
        return worst

    assert 0 < reached((2 * mechanism.curve).epsilon(delta)) <= delta
    if mechanism.kind == "gnmax":
        assert reached(mechanism.curve.epsilon(delta)) > delta
