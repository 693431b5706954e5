"""The laws of mechanisms on ballots: neighbors differ in one teacher's whole ballot, and draws of
a release follow the law.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from ballot_pairs import neighbors
from cases import NEIGHBORS
from exact import law_of, stated, worst

import accounting as acc
import dpselect as dps
from dpselect import pate, verify
from dpselect.pate.ballots import Unit
from dpselect.scores import Scores
from dpselect.verify.divergences import hockey_stick


@pytest.mark.parametrize(("unit", "relation"), NEIGHBORS)
@pytest.mark.parametrize(("labels", "votes"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)])
def test_boxes_contain_all_neighboring_ballots(
    labels: int, votes: int, unit: Unit, relation: acc.relations.Relation
) -> None:
    """What holds of `verify.worst_case` on boxes (cases.py) holds of ballots: it compares every
    change that one teacher's ballot can make, and more.
    """
    mechanism = pate.TauVoting(
        tau=votes, sigma=1.0, labels=labels, threshold=1.0, relation=relation, unit=unit
    )
    changes = set(verify.changes(mechanism.sensitivity_bound, labels))
    changes |= {tuple(-step for step in change) for change in changes}
    pairs = neighbors(labels, 0, votes, 3, "add_remove" if unit == "teacher" else "replace_one")
    assert {tuple(b - a for a, b in zip(*pair, strict=True)) for pair in pairs} <= changes


RECORDS = dict.fromkeys(range(21), 1)  # by identifier; 21 of 41 teachers hold one each


def voted(records: dict[int, int]) -> tuple[int, int]:
    """What 41 teachers vote for, of whom each says whether the sum of its records is odd: as bad as
    training can be.
    """
    sums = np.bincount([number % 41 for number in records], list(records.values()), minlength=41)
    odd = int((sums % 2).sum())
    return 41 - odd, odd


@pytest.mark.parametrize(
    ("relation", "near"),
    [("replace_one", {**RECORDS, 20: 0}), ("add_remove", dict.fromkeys(range(20), 1))],
    ids=["replaced", "gone"],
)
def test_record_change_attains_the_one_ballot_cost(
    relation: acc.relations.Relation, near: dict[int, int]
) -> None:
    """A record that goes, as one that is replaced, flips one ballot: the laws reach the curve, and
    5 % less would not do, nor the price of a teacher.
    """
    mechanism = pate.GNMax(sigma=2.0, labels=2, relation=relation)
    exact = hockey_stick(
        *(list(law_of(mechanism, voted(records)).values()) for records in (RECORDS, near)), [0.0]
    )[0, 0]
    assert exact == pytest.approx(mechanism.curve.delta(0.0), rel=1e-9)
    assert exact > acc.GaussianDP(mu=0.95 * mechanism.curve.mu).delta(0.0)
    assert exact > pate.GNMax(
        sigma=2.0, labels=2, relation="add_remove", unit="teacher"
    ).curve.delta(0.0)


def test_binary_voting_reaches_its_renyi_bound_no_further() -> None:
    """Every label flips at once, so c labels cost c times what one costs: the law factorizes."""
    one = pate.BinaryVoting(sigma=1.0, labels=1, threshold=1.5)
    three = pate.BinaryVoting(sigma=1.0, labels=3, threshold=1.5)
    single = worst([[law_of(one, [votes]) for votes in (1, 2)]])
    triple = worst([[law_of(three, [votes] * 3) for votes in (1, 2)]])
    assert triple.rdp == pytest.approx(3 * single.rdp, rel=1e-12)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_curve_of_top_votes_is_reached(scale: float) -> None:
    """P17: a ballot that leaves the winner for the other label moves two counts against each other:
    the logarithm of the ratio of probabilities ranges over 2/scale, up to what votes are too few
    for, and 5 % less would not do.
    """
    mechanism = pate.TopVotes(k=1, scale=scale, labels=2)
    first, second = (law_of(mechanism, counts) for counts in ((20, 21), (21, 20)))
    spread = math.log(first[1,] / second[1,]) - math.log(first[0,] / second[0,])
    assert spread == pytest.approx(2 / scale, rel=1e-9)
    assert mechanism.curve == acc.BoundedRange(epsilon=2 / scale)
    assert pate.TopVotes(k=3, scale=scale, labels=5).curve == 3 * acc.BoundedRange(
        epsilon=2 / scale
    )


def test_stable_voting_is_stable_top_k() -> None:
    """Law, curve and draws are those of StableTopK with the constants of replaced ballots, for kbar
    labels at most.
    """
    for kbar in (1, 2, None):
        mechanism = pate.StableVoting(rho=0.7, failure_delta=0.02, labels=3, kbar=kbar)
        twin = dps.StableTopK(rho=0.7, failure_delta=0.02, kbar=kbar or 3, relation="replace_one")
        scores = Scores([9, 4, 1], sensitivity=mechanism.sensitivity_bound)
        assert mechanism.curve == twin.curve
        assert mechanism.probabilities(scores) == twin.probabilities(scores)
        ours = mechanism.select_many(np.tile(scores.values, (500, 1)), rng=np.random.default_rng(1))
        theirs = twin.select_many(np.tile(scores.values, (500, 1)), rng=np.random.default_rng(1))
        assert list(ours) == list(theirs)


# -- exact draws -----------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [2, 3, 10])
def test_a_teacher_who_comes_moves_the_centered_votes_only(labels: int) -> None:
    """P9 for a teacher: the closed form; exact laws stay below it and for two labels reach it: 5 %
    less is too little.
    """
    mechanism = pate.GNMax(sigma=1.0, labels=labels, relation="add_remove", unit="teacher")
    assert mechanism.curve.mu == pytest.approx(np.sqrt(1 - 1 / labels), rel=1e-12)
    answers = pate.ConfidentGNMax(
        threshold=1.0,
        sigma_threshold=2.0,
        sigma=1.0,
        labels=labels,
        relation="add_remove",
        unit="teacher",
    )
    assert answers.curve == mechanism.curve + acc.GaussianDP(mu=0.5)
    votes = [np.array([lead + 4, *[4.0] * (labels - 1)]) for lead in np.linspace(-3, 3, 25)]
    pairs = [[law_of(mechanism, one) for one in (x, x + np.eye(labels)[0])] for x in votes]
    found = worst(pairs, [0.0, 0.2, 0.5, 1.0])
    assert (found.delta <= stated(mechanism.curve, found.epsilons) + 1e-12).all()
    if labels == 2:
        assert (
            found.delta > stated(acc.GaussianDP(mu=0.95 * mechanism.curve.mu), found.epsilons)
        ).all()
