"""Labeling through a session: charged before it is drawn, for as many rounds as the budget buys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from dpselect import pate
from dpselect.errors import InvalidBallots

ROUNDS, TEACHERS, LABELS = 20, 30, 5
RNG = np.random.default_rng(20261121)
VOTES = RNG.random((ROUNDS, TEACHERS, LABELS)) < np.linspace(0.9, 0.1, LABELS)
ONE_VOTE = np.eye(LABELS, dtype=bool)[RNG.integers(0, LABELS, (ROUNDS, TEACHERS))]
BUDGET = acc.Budget(epsilon=2.0, delta=1e-6)
VOTING: list[tuple[type[dps.Mechanism], dict[str, Any], pate.Ballots]] = [
    (pate.GNMax, {}, pate.Ballots(ONE_VOTE)),
    (pate.ConfidentGNMax, {"threshold": 10}, pate.Ballots(ONE_VOTE)),
    (pate.TauVoting, {"tau": 2}, pate.Ballots(VOTES).cut(2)),
    (pate.StableVoting, {}, pate.Ballots(VOTES)),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A data set of patients behind the teachers, with (2, 1e-6) under replace_one."""
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as opened:
        opened.create_dataset("patients", BUDGET, "replace_one")
        yield opened


@pytest.fixture
def session(ledger: Ledger) -> dps.Session:
    """A session on it."""
    return dps.Session(ledger, "patients")


@pytest.mark.parametrize(("kind", "settings", "ballots"), VOTING)
def test_a_budget_pays_for_whole_batches_and_ends_before_a_draw(
    session: dps.Session,
    kind: Any,
    settings: dict[str, Any],
    ballots: pate.Ballots,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One select_many is one charge of rounds * curve; `affordable` says how many rounds are left,
    that many are released, and one more is refused before anything is drawn.
    """
    mechanism = pate.fitted(kind, BUDGET, rounds=24, labels=LABELS, **settings)
    # a record that comes or goes costs the same
    other = mechanism.model_copy(update={"neighbors": "add_remove"})
    assert (other.relation, other.curve) == ("add_remove", mechanism.curve)
    assert dps.Mechanism.from_json(other.to_json()) == other
    assert session.affordable(mechanism) >= 24  # as one plan, which the whole budget pays for
    assert len(session.select_many(mechanism, ballots, label="monday")) == ROUNDS
    charge, release = session.ledger.entries("patients")
    assert (charge.count, charge.action, release.action) == (ROUNDS, "charge", "release")
    assert dps.Mechanism.from_json(charge.mechanism or "") == mechanism
    assert session.totals()[0].spent == BUDGET.filter_cost(ROUNDS * mechanism.curve)
    for size in iter(lambda: min(ROUNDS, session.affordable(mechanism)), 0):
        session.select_many(mechanism, ballots[:size])
    monkeypatch.setattr(type(mechanism), "_select_many", lambda *_: pytest.fail("it was drawn"))
    with pytest.raises(acc.BudgetExceeded):
        session.select_many(mechanism, ballots[:1])
    with pytest.raises(acc.BudgetExceeded):
        session.select(mechanism, ballots[:1])


def test_bad_ballots_cost_nothing(session: dps.Session) -> None:
    """What a mechanism refuses is refused before the charge: many votes, missing ones, other
    labels, no threshold; arrays that are votes of every teacher need no Ballots.
    """
    one = pate.GNMax(sigma=100.0, labels=LABELS)
    binary = pate.BinaryVoting(sigma=200.0, labels=LABELS)
    missing = ONE_VOTE.copy()
    missing[0, 0] = False
    attempts = [
        (one, VOTES),
        (one, missing),
        (one, VOTES[:, :, :3]),
        (binary, VOTES.sum(axis=1)),
        (binary, VOTES * 2),
    ]
    for mechanism, votes in attempts:
        with pytest.raises(dps.DpSelectError):
            session.select_many(mechanism, votes)
    bare = dps.Scores(VOTES[0].sum(axis=0), sensitivity=binary.sensitivity_bound)
    rounds = pate.Ballots(ONE_VOTE)
    for mechanism, scores in ((one, pate.Ballots(VOTES)[:1]), (one, rounds), (binary, bare)):
        with pytest.raises(dps.DpSelectError):
            session.select(mechanism, scores)
    assert list(session.ledger.entries("patients")) == []
    assert len(session.select_many(binary, VOTES)) == ROUNDS


def test_labels_and_dp_sgd_share_a_ledger_of_records(tmp_path: Path) -> None:
    """A dataset with the default unit under add_remove pays for DP-SGD and for labels of records
    split by identifier, each at its own price; a split by position, and the price of a teacher, are
    refused before anything is charged.
    """
    sgd = 100 * acc.SampledGaussianDP(mu=1 / 1.1, rate=0.01)
    with Ledger.open(f"sqlite:///{tmp_path / 'records.db'}") as ledger:
        ledger.create_dataset("records", acc.Budget(epsilon=6.0, delta=1e-5), "add_remove")
        ledger.charge("records", sgd, relation="add_remove", label="DP-SGD")
        session = dps.Session(ledger, "records")
        mechanism = pate.fitted(
            pate.GNMax, BUDGET, rounds=ROUNDS, labels=LABELS, relation="add_remove"
        )
        with pytest.raises(InvalidBallots, match="declare split='identifier'"):
            session.select_many(mechanism, pate.Ballots(ONE_VOTE))
        teacher = mechanism.model_copy(update={"unit": "teacher"})
        runs = acc.TruncatedNegativeBinomial(eta=0.0, gamma=0.5)
        best = dps.RepeatAndSelect(base=teacher, distribution=runs)
        for item in (teacher, 3 * teacher, best):
            with pytest.raises(acc.RelationMismatch, match="unit='record'"):
                ledger.charge("records", item)
        with pytest.raises(acc.RelationMismatch, match="unit='record'"):
            session.select_many(teacher, pate.Ballots(ONE_VOTE))
        with pytest.raises(acc.RelationMismatch, match="unit='record'"):
            _ = teacher + mechanism
        session.select_many(mechanism, pate.Ballots(ONE_VOTE, split="identifier"))
        budget = session.totals()[0].budget
        assert session.totals()[0].spent == budget.filter_cost(sgd).plus(
            budget.filter_cost(ROUNDS * mechanism.curve)
        )


def test_teacher_dataset_is_charged_the_teacher_cost(tmp_path: Path) -> None:
    """Its unit is named so. Where teachers come and go, the price of a record, for a public number
    of them, does not do.
    """
    with Ledger.open(f"sqlite:///{tmp_path / 'teachers.db'}") as ledger:
        for relation in ("add_remove", "replace_one"):
            ledger.create_dataset(
                relation, acc.Budget(epsilon=6.0, delta=1e-5), relation, unit="teacher"
            )
            record = pate.GNMax(sigma=100.0, labels=LABELS, relation=relation)
            ledger.charge(relation, record.model_copy(update={"unit": "teacher"}))
        ledger.charge("replace_one", pate.GNMax(sigma=100.0, labels=LABELS))
        with pytest.raises(acc.RelationMismatch, match="dataset of records"):
            ledger.charge(
                "add_remove", pate.GNMax(sigma=100.0, labels=LABELS, relation="add_remove")
            )
