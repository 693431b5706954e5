"""Every mechanism under the same laws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases import CASES, Case
from mechanism_laws import curve_covers, epsilons_for, misfit, outcome, outcomes, relabelled_covers, some_scores
from spread import spread

import dpselect as dps
from dpselect import verify
from dpselect.verify import divergences

# About 500 tests, each with a true p-value, at 1e-10: the suite raises a false alarm with probability below 1.5e-7.
FALSE_ALARM = 1e-10


KINDS = {kind: [case for case in CASES if case.mechanism.kind == kind] for kind in {case.mechanism.kind: None for case in CASES}}
# The first and the last case of each mechanism.
FAST = {cases[place] for cases in KINDS.values() for place in (0, -1)}
# Of these an eighth of the draws in the fast run; every case draws all in the slow one.
DRAWN = [
    *(pytest.param(case, case.rounds // 8, 250, id=f"{case}") for case in CASES if case in FAST),
    *(pytest.param(case, case.rounds, 500, marks=pytest.mark.slow, id=f"{case}-all draws") for case in CASES),
]


def _largest_box(case: Case) -> tuple[int, int]:
    return max(case.boxes, key=lambda box: (box[1] + 1) ** box[0])


def _covered(case: Case, candidates: int, highest: int) -> list[str]:
    mechanism, epsilons = case.mechanism, epsilons_for(case.mechanism)
    vectors = np.array(list(itertools.product(range(highest + 1), repeat=candidates)))
    laws = divergences._laws(mechanism, vectors, case.domain, np.arange(highest + 1.0) * mechanism.covers.linf)
    pairs = divergences._neighbours(mechanism.covers, vectors, highest)
    broken = curve_covers(mechanism, divergences._compare(laws, *pairs, verify.ORDERS, epsilons))
    return broken if mechanism.curve.delta0 == 0 else broken + relabelled_covers(mechanism, laws, pairs, verify.ORDERS)


@pytest.mark.parametrize("case", [case for case in CASES if case in FAST], ids=str)
def test_curve_covers_every_neighbouring_pair(case: Case) -> None:
    """Exact Renyi, hockey-stick and pure divergences of all neighbouring pairs of the largest box stay below the curve.

    Where there is a delta0, so do the Renyi divergences of the relabelled laws that the curve is about (Theorem A1).
    """
    candidates, highest = _largest_box(case)
    assert _covered(case, candidates, highest) == [], (candidates, highest)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if len(case.boxes) > 1 or case not in FAST], ids=str)
def test_curve_covers_every_neighbouring_pair_of_all_boxes(case: Case) -> None:
    """The same on every box of every case that is not enumerated above."""
    for candidates, highest in set(case.boxes) - ({_largest_box(case)} if case in FAST else set()):
        assert _covered(case, candidates, highest) == [], (candidates, highest)


@pytest.mark.parametrize("case", spread([c for c in CASES if c.tight], 5), ids=str)
def test_exponential_noise_reaches_its_pure_epsilon(case: Case) -> None:
    """With exponential noise the pure guarantee is exact: some pair reaches it within 1e-6."""
    candidates, highest = case.boxes[-1]
    worst = verify.worst_case(case.mechanism, candidates=candidates, highest=highest)
    assert worst.pure_epsilon == pytest.approx(case.mechanism.curve.pure_epsilon, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one(kind: str) -> None:
    """The exact law of every mechanism is a probability distribution."""
    for case in KINDS[kind]:
        for candidates, _ in case.boxes:
            for scores in some_scores(case.mechanism, candidates, case.domain):
                law = case.mechanism.probabilities(scores)
                assert sum(law.values()) == pytest.approx(1, abs=1e-11), case
                assert min(law.values()) >= 0, case


@pytest.mark.parametrize(("case", "rows", "singles"), DRAWN)
def test_select_follows_the_law(case: Case, rows: int, singles: int) -> None:
    """Frequencies of `select` and `select_many` agree with the exact probabilities."""
    rng = np.random.default_rng(20261121)
    scores = some_scores(case.mechanism, case.boxes[-1][0], case.domain)[-1]
    law = case.mechanism.probabilities(scores)
    assert misfit([outcome(case.mechanism.select(scores, rng=rng), law) for _ in range(min(singles, rows))], law) > FALSE_ALARM
    if case.domain == "public":
        many = case.mechanism.select_many(np.tile(scores.dense(), (rows, 1)), rng=rng)
        assert misfit(outcomes(many, law), law) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip(kind: str) -> None:
    """A mechanism and its curve survive JSON, equal and with equal hashes."""
    for case in KINDS[kind]:
        again = dps.Mechanism.from_json(case.mechanism.to_json())
        assert again == case.mechanism
        assert hash(again) == hash(case.mechanism), case
        assert again.curve == case.mechanism.curve, case


@pytest.mark.parametrize("kind", KINDS)
def test_traits_are_true(kind: str) -> None:
    """What a mechanism declares of itself is what it releases: order, values, how many, and for which relation and domain."""
    for case in KINDS[kind]:
        mechanism, scores = case.mechanism, some_scores(case.mechanism, case.boxes[-1][0], case.domain)[-1]
        released = mechanism.select(scores, rng=np.random.default_rng(20261121))
        assert released.ordered == mechanism.ordered, case
        assert (released.values is not None) == mechanism.releases_values, case
        assert mechanism.most_released is None or len(released) <= mechanism.most_released, case
        assert mechanism.relation in mechanism.traits.relations, case
        assert mechanism.takes_observed or case.domain == "public", case
