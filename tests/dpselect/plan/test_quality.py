"""How good a release is taken to be, by draws and by the quick formula, against the mechanism's own exact law.

Simulated means of 20,000 runs in [0, 1] are held to 0.0235: by Hoeffding's inequality a false alarm has probability 5e-10 each
and 1e-7 in all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spread import spread

import dpselect as dps
from dpselect.plan.candidates import SCREENS
from dpselect.plan.profile import Bounding, Levels, Profile
from dpselect.plan.quality import Outcomes, judged

COUNTS = np.array([9.0, 8, 8, 6, 6, 3, 1, 0])
ROUNDS = 20_000
TOLERANCE = math.sqrt(math.log(2 / 5e-10) / (2 * ROUNDS))
NUMBERS = ("exact_set", "recall", "kept", "released")
NOISES = ("gumbel", "exponential", "laplace", "logistic", "half_logistic", "gaussian")
K = 3

DRAWN: list[dps.Mechanism] = [
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
    dps.StableTopK(rho=1.0, kbar=3, failure_delta=0.1, regularizer=dps.mechanisms.TargetSize(k=3, penalty=1.0)),
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
    return means(Outcomes.of_items(released, levels(k)), np.array(list(law.values())))


def planned(mechanism: dps.Mechanism, k: int) -> dict[str, float]:
    """Means as a plan has them."""
    found = judged(mechanism, levels(k), runs=ROUNDS, seed=7)
    count = len(found.recall)
    return means(found, np.full(count, 1 / count) if found.weights is None else found.weights)


def levels(k: int) -> Levels:
    shape = Profile.of_counts(COUNTS, public=True)
    return Levels.of(shape.values, shape.multiplicities, k)


def means(found: Outcomes, weights: np.ndarray) -> dict[str, float]:
    return {name: float(weights @ getattr(found, name)) for name in NUMBERS}


@pytest.mark.parametrize(("mechanism", "k"), spread([*((one, K) for one in DRAWN), *((one, 1) for one in ONE)], 8), ids=repr)
def test_qualities_are_those_of_the_exact_law(mechanism: dps.Mechanism, k: int) -> None:
    """Quality by draws agrees with the enumerated law within its false alarm."""
    truth, found = expected(mechanism, k), planned(mechanism, k)
    assert {name: found[name] for name in truth} == pytest.approx(truth, abs=TOLERANCE)


WIDE = Profile.zipf(0.7, 600, 20_000, items_per_user=5).levels(10, None)
SCREENED: list[tuple[dps.Mechanism, float]] = [
    *((dps.OneshotTopK(k=10, noise=noise, scale=60.0, candidates=600), 0.02) for noise in NOISES),
    *((dps.PeelingTopK(k=10, noise=noise, scale=60.0, candidates=600), 0.03) for noise in NOISES),
    (dps.LimitedDomain(k=10, kbar=200, epsilon=0.02, delta=0.05), 0.05),
    (dps.SparseHistogram(k=10, scale=60.0, delta=1e-4, sensitivity=dps.Sensitivity.of_counts(items_per_user=4)), 0.02),
    (dps.JointTopK(k=10, epsilon=0.2), 0.03),
    *((dps.CanonicalTopK(k=10, epsilon=0.12, noise=noise), 0.05) for noise in ("gumbel", "exponential")),
    (dps.StableTopK(rho=0.002, kbar=10, failure_delta=0.1), 0.05),
    (dps.StableTopKFixed(k=10, rho=0.001, kbar=10, penalty=0.0, failure_delta=0.1), 0.05),
    (dps.TopStable(k=10, kbar=20, epsilon=0.3, delta=0.3), 0.05),
    (dps.StabilityTest(k=10, scale=20.0, failure_delta=0.1), 0.05),
]


@pytest.mark.parametrize(("mechanism", "off"), spread(SCREENED, 8), ids=repr)
def test_the_quick_formula_is_near_the_mechanisms_own_draws(mechanism: dps.Mechanism, off: float) -> None:
    """Within .02 for noise that is drawn once, .03 for peeling, and .05 where a threshold is noisy or draws are few."""
    screen = SCREENS[type(mechanism)]
    found = judged(mechanism, WIDE, runs=400, seed=3).mean("recall")
    assert screen(mechanism, WIDE) == pytest.approx(found, abs=off)


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("settings", [{}, {"taper": 2.5}, {"norm": 4.0, "mask": 3.0, "combine": 0.0}])
def test_two_rounds_are_forecast_as_they_are_drawn(settings: dict[str, Any], delta: float | None) -> None:
    """The quick formula follows what users spend on items that passed, be it less on those far ahead, for items of any domain."""
    covers = dps.Sensitivity.of_clipped(1.0, items_per_user=None if delta is None else 300)
    mechanism = dps.TwoRoundHistogram(k=10, scale=2.5, delta=delta, sensitivity=covers, **settings)
    levels = Profile.zipf(0.6, 2700, 1000, items_per_user=27.0).levels(10, Bounding(300, 1.0), known=delta is None)
    screen = SCREENS[type(mechanism)]
    found = judged(mechanism, levels, runs=150, seed=3).mean("recall")
    assert 0.2 < found < 0.98
    assert screen(mechanism, levels) == pytest.approx(found, abs=0.03)


def test_a_wrong_noise_would_be_seen() -> None:
    """The tolerance above tells twice the noise from the right one, so these tests can fail."""
    truth = expected(dps.OneshotTopK(k=K, noise="gumbel", scale=2.0), K)
    found = planned(dps.OneshotTopK(k=K, noise="gumbel", scale=4.0), K)
    assert abs(truth["recall"] - found["recall"]) > 2 * TOLERANCE


@pytest.mark.slow
def test_a_long_tail_is_not_forgotten() -> None:
    """With a hundred thousand hopeless items their maximum still matters: grouped draws agree with the mechanism's own."""
    counts = np.concatenate([[60.0, 50, 45], np.zeros(100_000)])
    mechanism = dps.OneshotTopK(k=3, noise="exponential", scale=4.0)
    shape = Profile.of_counts(counts, public=True)
    ranking = Levels.of(shape.values, shape.multiplicities, 3)
    ours = judged(mechanism, ranking, runs=1000, seed=3).exact_set.mean()
    rng = np.random.default_rng(11)
    theirs = np.mean(
        [
            set(mechanism.select(dps.Scores(counts, sensitivity=dps.Sensitivity()), rng=rng).indices) == {0, 1, 2}
            for _ in range(1000)
        ]
    )
    assert 0.05 < ours < 0.95
    assert abs(ours - theirs) < 0.12  # six standard deviations of the smaller sample


def made_up_log(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """600 users with 1 to 30 of 60 items, those of heavy users less popular; written as Parquet."""
    rng = np.random.default_rng(5)
    loads = np.minimum((1 / rng.random(600)).astype(np.int64), 30)
    users = np.repeat(np.arange(600), loads)
    heavy = np.repeat(loads, loads) > 8
    items = np.where(heavy, rng.integers(0, 60, len(users)), np.minimum(rng.geometric(0.08, len(users)) - 1, 59))
    users, items = np.unique(np.stack([users, items]), axis=1)
    pq.write_table(pa.table({"user": users, "item": items}), path)
    return users, items


def seen(users: np.ndarray, items: np.ndarray, clip: float) -> np.ndarray:
    """Counts of clipped users."""
    return np.bincount(items, np.minimum(1, clip / np.sqrt(np.maximum(1, np.bincount(users))))[users], 60)


@pytest.mark.slow
@pytest.mark.parametrize("again", [None, 2.0])
def test_two_steps_on_a_log_are_what_the_mechanism_does(tmp_path: Path, again: float | None) -> None:
    """Recall and number of items, planned on a log, agree with 800 draws of the mechanism on it, second look included.

    The deviation of one draw is below .2, so .05 is more than five standard errors of 800 draws and the .01 that it is worth to
    take the domain for the expected one.
    """
    users, items = made_up_log(tmp_path / "log.parquet")
    first = dps.Sensitivity.of_clipped(1.0, items_per_user=30)
    mechanism = dps.DiscoverThenSelect(
        discovery=dps.SparseHistogram(k=9, scale=3.0, delta=0.05, sensitivity=first),
        selection=dps.OneshotTopK(
            k=5, noise="gaussian", scale=4.0, sensitivity=first if again is None else dps.Sensitivity.of_clipped(again)
        ),
        candidates=9,
    )

    def look(labels: Sequence[int | str]) -> dps.Scores:
        kept = np.isin(items, labels)
        found = seen(users[kept], items[kept], 2.0)[list(map(int, labels))]
        return dps.Scores(found, labels=labels, sensitivity=dps.Sensitivity.of_clipped(2.0))

    second = None if again is None else dps.SecondLook(look, dps.Sensitivity.of_clipped(2.0))
    values = seen(users, items, 1.0)
    scores = dps.Scores(values, labels=list(range(60)), sensitivity=first, domain="observed", second=second)
    shape = Profile.of_log(tmp_path / "log.parquet", user="user", item="item", public=True)
    found = judged(mechanism, shape.levels(5, Bounding(30, 1.0)), runs=4000, seed=2)
    right, rng = np.bincount(items) >= np.sort(np.bincount(items))[-5], np.random.default_rng(3)
    drawn = [list(mechanism.select(scores, rng=rng).labels or ()) for _ in range(800)]
    assert found.recall.mean() == pytest.approx(np.mean([right[labels].sum() / 5 for labels in drawn]), abs=0.05)
    assert found.released.mean() == pytest.approx(np.mean([len(labels) / 5 for labels in drawn]), abs=0.05)
    assert 0.2 < found.recall.mean() < 0.95


def test_a_second_look_at_a_made_up_shape() -> None:
    """Where users' items lie among the candidates by chance, shares and deviations are those of a simulated crowd."""
    shape = Profile.zipf(1.0, 50, 10_000, items_per_user={1: 0.5, 8: 0.5})
    levels = shape.levels(5, Bounding(None, 1.0))
    assert levels.again is not None
    mean, spread = levels.again(10, 5, 2.0, "l2")
    counts = shape.dense()
    inside, rng = counts[:10].sum() / counts.sum(), np.random.default_rng(0)
    others = np.where(
        rng.random(100_000) < 8 / 9, rng.binomial(7, inside, 100_000), 0
    )  # eight in nine touches are of heavy users
    shares = np.minimum(1, 2 / np.sqrt(1 + others))
    assert mean == pytest.approx(counts[:5] * shares.mean(), rel=0.005)
    assert spread == pytest.approx(np.sqrt(counts[:5]) * shares.std(), rel=0.02)
