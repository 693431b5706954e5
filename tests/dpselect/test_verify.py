"""The checks we hand to users: exact worst cases, and lower bounds from samples that convict the wrong and clear the right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import dpselect as dps
from dpselect.verify.divergences import _limits, hockey_stick, log_ratio, renyi

S = dps.Sensitivity()


def test_divergences_of_a_known_pair() -> None:
    """Renyi, hockey-stick and log-ratio of two-point laws agree with their definitions, infinities included."""
    p, q = [0.75, 0.25], [0.5, 0.5]
    assert renyi(p, q, [2.0])[0, 0] == pytest.approx(np.log(0.75**2 / 0.5 + 0.25**2 / 0.5))
    assert hockey_stick(p, q, [0.0, 10.0])[:, 0] == pytest.approx([0.25, 0])
    assert log_ratio(p, q)[0] == pytest.approx(np.log(1.5))
    assert renyi([0.5, 0.5], [1.0, 0.0], [2.0])[0, 0] == np.inf
    assert log_ratio([0.5, 0.5], [1.0, 0.0])[0] == np.inf
    assert renyi([1.0, 0.0], [0.5, 0.5], [2.0])[0, 0] == pytest.approx(np.log(2))


def test_changes_are_those_of_the_relation() -> None:
    """Monotone changes are 0 or 1, others -1, 0 or 1, and no more than l0 scores move."""
    assert set(dps.verify.changes(S, 2)) == {(0, 1), (1, 0), (1, 1)}
    assert len(list(dps.verify.changes(dps.Sensitivity(relation="replace_one"), 3))) == 26
    assert set(dps.verify.changes(dps.Sensitivity(l0=1), 2)) == {(0, 1), (1, 0)}


@pytest.mark.parametrize(("norm", "both"), [("l2", 1.3), ("l1", 1.9)])
def test_two_replaced_users_have_a_norm_each(norm: str, both: float) -> None:
    """Shares of one user measure at most half of what two do: two whole items of one user are no neighbour, one of each are."""
    shares = dps.Sensitivity.of_clipped(both, norm, "replace_one", items_per_user=2)
    found = set(dps.verify.changes(shares, 3))
    assert (1, -1, 0) in found
    assert not {(1, 1, 0), (1, 1, -1), (-1, 0, -1)} & found
    histogram = dps.SparseHistogram(
        k=2, scale=3.5, delta=0.1, sensitivity=shares, noise="gaussian" if norm == "l2" else "laplace"
    )
    worst = dps.verify.worst_case(histogram, candidates=3, highest=1, domain="observed", epsilons=(30.0,))
    assert worst.delta[0] <= 0.1 * (1 + 1e-9)


def test_the_worst_case_of_the_exponential_mechanism() -> None:
    """For two candidates the worst pair is known: a log-odds shift of epsilon across the middle."""
    worst = dps.verify.worst_case(dps.ExponentialMechanism(epsilon=1.0), candidates=2, highest=6, epsilons=(0.0,))
    exact = 1 / (1 + np.exp(-1.0)) - 0.5
    assert worst.delta[0] == pytest.approx(exact)
    assert worst.pairs == 2 * (6 * 7 * 2 + 6 * 6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_a_sound_mechanism_is_cleared(epsilon: float) -> None:
    """The sampled lower bound stays below the true epsilon (false alarm 1e-6), and comes near it where the pair is bad enough."""
    first, second = dps.Scores([4, 0], sensitivity=S), dps.Scores([4, 1], sensitivity=S)
    mechanism = dps.PermuteAndFlip(epsilon=epsilon)
    found = dps.verify.lower_bound(mechanism, second, first, samples=20_000, rng=np.random.default_rng(7))
    assert found.epsilon <= epsilon
    if epsilon == 0.5:
        assert found.epsilon > 0.2


@pytest.mark.slow
def test_a_wrong_claim_is_convicted() -> None:
    """A mechanism with a quarter of the noise it should have is found out from samples alone."""
    first, second = dps.Scores([3, 3], sensitivity=S), dps.Scores([3, 2], sensitivity=S)
    claimed = 0.5
    found = dps.verify.lower_bound(
        dps.ExponentialMechanism(epsilon=4 * claimed), first, second, samples=20_000, rng=np.random.default_rng(8)
    )
    assert found.epsilon > claimed


def test_wrong_settings_are_refused() -> None:
    """Too few samples or a confidence outside (0, 1) raise InvalidRequest."""
    scores = dps.Scores([1, 2], sensitivity=S)
    with pytest.raises(dps.InvalidRequest):
        dps.verify.lower_bound(dps.PermuteAndFlip(epsilon=1), scores, scores, samples=5)
    with pytest.raises(dps.InvalidRequest):
        dps.verify.lower_bound(dps.PermuteAndFlip(epsilon=1), scores, scores, confidence=1.0)


def test_a_box_without_neighbours_is_refused() -> None:
    """Where l1 leaves no user a whole step of linf, no pair of the box says anything: that is said, not a bound of 0."""
    sensitivity = dps.Sensitivity(relation="replace_one", monotone=False, l1=1.0, uniform=True)
    with pytest.raises(dps.InvalidRequest, match="no user changes a score by linf=1 within"):
        dps.verify.worst_case(dps.PermuteAndFlip(epsilon=1.0, sensitivity=sensitivity))


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_each_limit_misses_half_as_often_as_the_statement(confidence: float) -> None:
    """Exactly: of 40 draws at the limit's chance, as many as were seen, or more (fewer), come with half of what may be missed."""
    low, high = _limits([30, 3], 40, confidence)
    assert binom.sf(29, 40, low) == pytest.approx((1 - confidence) / 2, rel=1e-9)
    assert binom.cdf(3, 40, high) == pytest.approx((1 - confidence) / 2, rel=1e-9)
    assert _limits([0, 40], 40, confidence) == (0.0, 1.0)
