"""Theorems P22 and P24: the confident test, local sensitivity at a distance, and its smoothing, by enumeration."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from exact_votes import Votes, all_votes, law, neighbours, within
from spread import spread

from dpselect.pate.unsanitised import Lattice, LossProfile, RangeMax, States, Threshold

PROFILES = [
    LossProfile(order, Lattice(teachers, labels, sigma), threshold)
    for teachers, labels, sigma in [(8, 2, 1.5), (6, 3, 2.0)]
    for order in (2.0, 10.0)
    for threshold in (None, Threshold(0.7 * teachers, 2.0))
]


def _states(profile: LossProfile, *rounds: Votes) -> States:
    counts = np.array(rounds)
    return States(counts.max(axis=1), profile.lattice.steps(counts))


def _votes(profile: LossProfile) -> list[Votes]:
    return all_votes(profile.lattice.teachers, profile.lattice.labels)


def _confident(votes: Votes, sigma: float, threshold: Threshold) -> list[mpmath.mpf]:
    passed = mpmath.ncdf((max(votes) - threshold.level) / threshold.sigma)
    return [1 - passed, *(passed * p for p in law(votes, sigma))]


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "labels"), [(8, 2), (4, 3)])
@pytest.mark.parametrize("order", spread([1.5, 4.0, 20.0], 2))
def test_confident_rounds_cost_at_least_the_exact_divergence(teachers: int, labels: int, order: float) -> None:
    """For all votes and neighbours, the cost of test and answer bounds the exact divergence both ways, within the plain price."""
    threshold = Threshold(0.7 * teachers, 2.0)
    profile = LossProfile(order, Lattice(teachers, labels, 1.5), threshold)
    with mpmath.workdps(30):
        for votes in all_votes(teachers, labels):
            cost = profile.total(_states(profile, votes))
            mine = _confident(votes, 1.5, threshold)
            for other in neighbours(votes):
                theirs = _confident(other, 1.5, threshold)
                for p, q in ((mine, theirs), (theirs, mine)):
                    moment = mpmath.fsum(a**order * b ** (1 - mpmath.mpf(order)) for a, b in zip(p, q, strict=True))
                    assert mpmath.log(moment) / (order - 1) <= cost
            assert cost <= profile.plain * (1 + 1e-9)
    sure_to_fail = LossProfile(8.0, Lattice(100, 10, 40.0), Threshold(80.0, 5.0))  # hardly pays for an answer, whatever the gap
    assert sure_to_fail.total(_states(sure_to_fail, (20, 20, *[10] * 4, *[5] * 4))) < 1e-3 * sure_to_fail.plain


@pytest.mark.parametrize("profile", PROFILES)
def test_local_sensitivity_at_a_distance(profile: LossProfile) -> None:
    """`local(votes, d)` is at least what one more teacher changes after any d have: all votes, d = 0, 1, 2."""
    cost = {votes: profile.total(_states(profile, votes)) for votes in _votes(profile)}
    change = {votes: max(abs(cost[votes] - cost[other]) for other in neighbours(votes)) for votes in cost}
    for votes in cost:
        for distance in range(3):
            exact = max(change[other] for other in within(votes, distance))
            assert exact <= profile.local(_states(profile, votes), distance) * (1 + 1e-9)


@pytest.mark.parametrize("profile", PROFILES[:4])
def test_local_sensitivity_of_several_rounds(profile: LossProfile) -> None:
    """One teacher's ballots in all rounds change the sum by at most `local` of these rounds, equal rounds counted or not."""
    rng = np.random.default_rng(3)
    votes = _votes(profile)
    for _ in range(30):
        first, second = (votes[i] for i in rng.integers(len(votes), size=2))
        here = profile.total(_states(profile, first, second))
        pairs = itertools.product([first, *neighbours(first)], [second, *neighbours(second)])
        exact = max(abs(here - profile.total(_states(profile, *pair))) for pair in pairs)
        assert exact <= profile.local(_states(profile, first, second), 0) * (1 + 1e-9)
    once, five = (_states(profile, *[votes[1]] * number) for number in (1, 5))
    assert profile.local(five, 1) == pytest.approx(5 * profile.local(once, 1))


@pytest.mark.parametrize("beta", [0.02, 0.3])
@pytest.mark.parametrize("profile", PROFILES)
def test_smoothing(profile: LossProfile, beta: float) -> None:
    """The smooth sensitivity is at least the local one, and one teacher changes it by a factor of at most e^beta."""
    smooth = {votes: profile.smooth(_states(profile, votes), beta) for votes in _votes(profile)}
    cost = {votes: profile.total(_states(profile, votes)) for votes in smooth}
    for votes, value in smooth.items():
        for other in neighbours(votes):
            assert abs(cost[votes] - cost[other]) <= value
            assert value <= math.exp(beta) * smooth[other] * (1 + 1e-12)


def test_smooth_sensitivity_is_the_largest_discounted_local_one() -> None:
    """The early end of the search over distances changes nothing."""
    profile = LossProfile(4.0, Lattice(30, 3, 3.0), Threshold(20.0, 2.0))
    states = _states(profile, (30, 0, 0), (12, 10, 8), (20, 9, 1))
    every = max(math.exp(-0.1 * distance) * profile.local(states, distance) for distance in range(31))
    assert profile.smooth(states, 0.1) == pytest.approx(every, rel=1e-8)


def test_range_maxima() -> None:
    """A range maximum is the largest value between its ends, both clipped to the table."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 64):
        values = rng.normal(size=size)
        low = rng.integers(-3, size + 3, size=200)
        high = low + rng.integers(0, size + 2, size=200)
        clipped = [values[min(max(a, 0), size - 1) : min(max(b, 0), size - 1) + 1].max() for a, b in zip(low, high, strict=True)]
        assert RangeMax(values)(low, high).tolist() == clipped
