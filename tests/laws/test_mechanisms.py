"""Every mechanism under the same laws."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, Case
from mechanism_laws import SAMPLES, curve_covers, epsilons_for, misfit, outcome, some_scores

import dpselect as dps
from dpselect import verify

# About 1,500 chi-square tests at 1e-10 each: the suite raises a false alarm with probability below 1e-6.
FALSE_ALARM = 1e-10


@pytest.mark.parametrize("case", CASES, ids=str)
def test_curve_covers_every_neighbouring_pair(case: Case) -> None:
    """On every box, exact Renyi, hockey-stick and pure divergences of all neighbouring pairs stay below the curve."""
    for candidates, highest in case.boxes:
        worst = verify.worst_case(
            case.mechanism, candidates=candidates, highest=highest, epsilons=epsilons_for(case.mechanism), domain=case.domain
        )
        assert curve_covers(case.mechanism, worst) == [], (candidates, highest)


@pytest.mark.parametrize("case", [c for c in CASES if c.tight], ids=str)
def test_exponential_noise_reaches_its_pure_epsilon(case: Case) -> None:
    """With exponential noise the pure guarantee is exact: some pair reaches it within 1e-6."""
    candidates, highest = case.boxes[-1]
    worst = verify.worst_case(case.mechanism, candidates=candidates, highest=highest)
    assert worst.pure_epsilon == pytest.approx(case.mechanism.curve.pure_epsilon, abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_probabilities_sum_to_one(case: Case) -> None:
    """The exact law of every mechanism is a probability distribution."""
    for candidates, _ in case.boxes:
        for scores in some_scores(case.mechanism, candidates, case.domain):
            law = case.mechanism.probabilities(scores)
            assert sum(law.values()) == pytest.approx(1, abs=1e-11)
            assert min(law.values()) >= 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_select_follows_the_law(case: Case) -> None:
    """Frequencies of `select` and `select_many` agree with the exact probabilities."""
    rng = np.random.default_rng(20261121)
    scores = some_scores(case.mechanism, case.boxes[-1][0], case.domain)[-1]
    law = case.mechanism.probabilities(scores)
    many = case.mechanism.select_many(np.tile(scores.dense(), (SAMPLES, 1)), rng=rng)
    singles = [outcome(case.mechanism.select(scores, rng=rng), law) for _ in range(2000)]
    assert misfit(singles, law) > FALSE_ALARM
    if case.domain == "public":
        assert misfit([outcome(s, law) for s in many], law) > FALSE_ALARM


@pytest.mark.parametrize("case", CASES, ids=str)
def test_json_round_trip(case: Case) -> None:
    """A mechanism and its curve survive JSON, equal and with equal hashes."""
    again = dps.Mechanism.from_json(case.mechanism.to_json())
    assert again == case.mechanism
    assert hash(again) == hash(case.mechanism)
    assert again.curve == case.mechanism.curve


@pytest.mark.parametrize("case", CASES, ids=str)
def test_traits_are_true(case: Case) -> None:
    """What a mechanism declares of itself is what it releases: order, values, how many, and for which relation and domain."""
    mechanism, scores = case.mechanism, some_scores(case.mechanism, case.boxes[-1][0], case.domain)[-1]
    released = mechanism.select(scores, rng=np.random.default_rng(20261121))
    assert released.ordered == mechanism.ordered
    assert (released.values is not None) == mechanism.releases_values
    assert mechanism.most_released is None or len(released) <= mechanism.most_released
    assert mechanism.relation in mechanism.traits.relations
    assert mechanism.takes_observed or case.domain == "public"
