"""The planner's quality of a mechanism against the mechanism's own exact law.

Simulated means of 20,000 runs in [0, 1] are held to 0.0235: by Hoeffding's inequality a false alarm has probability 5e-10 each
and 1e-7 in all.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpselect as dps
from dpselect.planning.evaluate import outcomes
from dpselect.planning.levels import Levels
from dpselect.planning.quality import Outcomes
from dpselect.planning.runs import Runs
from dpselect.planning.shape import Shape

COUNTS = np.array([9.0, 8, 8, 6, 6, 3, 1, 0])
ROUNDS = 20_000
TOLERANCE = math.sqrt(math.log(2 / 5e-10) / (2 * ROUNDS))
NUMBERS = ("exact_set", "recall", "kept", "released")
NOISES = ("gumbel", "exponential", "laplace", "logistic", "half_logistic", "gaussian")
K = 3

EXACT: list[dps.Mechanism] = [
    *(dps.CanonicalTopK(k=K, epsilon=0.7, gamma=gamma, top_set=rule) for gamma in (0.5, 0.75, 1.0) for rule in ("tied", "gap")),
    dps.JointTopK(k=K, epsilon=1.0),
    dps.JointTopK(k=K, epsilon=30.0),
    *(
        dps.TopStable(k=K, kbar=kbar, epsilon=2.0, delta=0.3, search=search)
        for kbar in (3, 5)
        for search in ("from_k", "from_kbar")
    ),
    dps.StabilityTest(k=K, scale=1.0, failure_delta=0.1),
    dps.StabilityTest(k=K, noise="laplace", scale=1.0, failure_delta=0.1),
    dps.StableTopK(rho=1.0, kbar=3, failure_delta=0.1),
    dps.StableTopK(rho=1.0, kbar=3, failure_delta=0.1, regularizer=dps.TargetSize(k=3, penalty=1.0)),
]
SIMULATED: list[dps.Mechanism] = [
    *(dps.OneshotTopK(k=K, noise=noise, scale=2.0, candidates=8) for noise in NOISES),
    *(dps.PeelingTopK(k=K, noise=noise, scale=2.0, candidates=8) for noise in NOISES),
    *(dps.CanonicalTopK(k=K, epsilon=0.7, noise="exponential", gamma=gamma, top_set="gap") for gamma in (0.5, 1.0)),
    dps.LimitedDomain(k=K, kbar=3, epsilon=1.0, delta=0.05),
    dps.LimitedDomain(k=K, kbar=5, epsilon=1.0, delta=0.05, l0=2),
    dps.LimitedDomain(k=K, kbar=7, epsilon=0.3, delta=0.3),
    *(
        dps.StableTopKFixed(k=K, rho=1.0, kbar=kbar, penalty=penalty, failure_delta=0.1)
        for kbar in (3, 5)
        for penalty in (0.0, 2.0)
    ),
]
ONE: list[dps.Mechanism] = [
    dps.ExponentialMechanism(epsilon=1.0),
    dps.PermuteAndFlip(epsilon=1.0),
    *(dps.ReportNoisyMax(noise=noise, scale=2.0, candidates=8) for noise in NOISES),
    dps.LargeMargin(epsilon=1.0, delta=0.1),
]


def expected(mechanism: dps.Mechanism, k: int) -> dict[str, float]:
    """Means under the mechanism's own law, from released counts."""
    law = mechanism.probabilities(dps.Scores(COUNTS, sensitivity=mechanism.covers))
    released = np.full((len(law), k), -1)
    for row, outcome in enumerate(law):
        items = [outcome] if isinstance(outcome, int) else list(outcome)
        released[row, : len(items)] = np.searchsorted(-levels(k).values, -COUNTS[items])
    ordered = not any(isinstance(outcome, frozenset) for outcome in law)
    return means(Outcomes.of_items(released, levels(k), ordered=ordered), np.array(list(law.values())))


def planned(mechanism: dps.Mechanism, k: int) -> dict[str, float]:
    """Means as the planner has them."""
    found = outcomes(mechanism, levels(k), Runs(ROUNDS, seed=7))
    count = len(found.recall)
    return means(found, np.full(count, 1 / count) if found.weights is None else found.weights)


def levels(k: int) -> Levels:
    shape = Shape.counts(COUNTS, public=True)
    return Levels.of(shape.values, shape.multiplicities, k)


def means(found: Outcomes, weights: np.ndarray) -> dict[str, float]:
    numbers = {name: float(weights @ getattr(found, name)) for name in NUMBERS}
    return numbers | ({} if found.in_place is None else {"in_place": float(weights @ found.in_place)})


@pytest.mark.parametrize("mechanism", EXACT, ids=repr)
def test_exact_qualities_are_those_of_the_exact_law(mechanism: dps.Mechanism) -> None:
    """Quality in closed form agrees with the enumerated law to rounding."""
    truth, found = expected(mechanism, K), planned(mechanism, K)
    assert {name: found[name] for name in truth} == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("mechanism", SIMULATED, ids=repr)
def test_simulated_qualities_are_those_of_the_exact_law(mechanism: dps.Mechanism) -> None:
    """Simulated quality agrees with the enumerated law within its false alarm."""
    truth, found = expected(mechanism, K), planned(mechanism, K)
    assert {name: found[name] for name in truth} == pytest.approx(truth, abs=TOLERANCE)


@pytest.mark.parametrize("mechanism", ONE, ids=repr)
def test_mechanisms_for_one_item(mechanism: dps.Mechanism) -> None:
    """The same for mechanisms that release one item."""
    truth, found = expected(mechanism, 1), planned(mechanism, 1)
    assert {name: found[name] for name in truth} == pytest.approx(truth, abs=TOLERANCE)


def test_a_wrong_noise_would_be_seen() -> None:
    """The tolerance above tells twice the noise from the right one, so these tests can fail."""
    truth = expected(dps.OneshotTopK(k=K, noise="gumbel", scale=2.0), K)
    found = planned(dps.OneshotTopK(k=K, noise="gumbel", scale=4.0), K)
    assert abs(truth["recall"] - found["recall"]) > 2 * TOLERANCE


def test_a_long_tail_is_not_forgotten() -> None:
    """With a hundred thousand hopeless items their maximum still matters: grouped draws agree with the mechanism's own."""
    counts = np.concatenate([[60.0, 50, 45], np.zeros(100_000)])
    mechanism = dps.OneshotTopK(k=3, noise="exponential", scale=4.0)
    shape = Shape.counts(counts, public=True)
    ranking = Levels.of(shape.values, shape.multiplicities, 3)
    ours = outcomes(mechanism, ranking, Runs(4000, seed=3)).exact_set.mean()
    rng = np.random.default_rng(11)
    theirs = np.mean(
        [
            set(mechanism.select(dps.Scores(counts, sensitivity=dps.Sensitivity()), rng=rng).indices) == {0, 1, 2}
            for _ in range(1000)
        ]
    )
    assert 0.05 < ours < 0.95
    assert abs(ours - theirs) < 0.12  # six standard deviations of the smaller sample
