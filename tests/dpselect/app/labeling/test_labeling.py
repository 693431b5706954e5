"""Labeling jobs: what is charged, kept, resumed and refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import in_child
from stopped import stopped_at

import accounting as acc
import dpselect as dps
from accounting import files
from dpselect import pate
from dpselect.app.labeling import labeling
from dpselect.app.labeling.labeling import (
    JobBusy,
    JobConflict,
    JobDamaged,
    Labeling,
    ProgressCallback,
    cost_of_batches,
    own_session,
)
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism, Pay

COUNTS = np.random.default_rng(4).multinomial(60, [0.5, 0.3, 0.2], size=23)
MECHANISM = pate.ConfidentGNMax(threshold=28.0, sigma_threshold=6.0, sigma=5.0, labels=3)
SIZES = [5, 5, 5, 5, 3]
AMPLE = acc.Budget(rho=10.0)
BALLOTS = pate.Ballots(COUNTS, teachers=60)


def _payer(path: Path, budget: acc.Budget = AMPLE, relation: Any = "replace_one") -> dps.Session:
    """A session of a new ledger."""
    ledger = acc.Ledger.open(f"sqlite:///{path}")
    ledger.create_dataset("teachers", budget, relation)
    return dps.Session(ledger, "teachers")


@pytest.fixture
def payer(tmp_path: Path) -> dps.Session:
    """An ample ledger."""
    return _payer(tmp_path / "l.db")


def _job(folder: Path, payer: dps.Session, **changes: Any) -> Labeling:
    known = {
        "mechanism": MECHANISM,
        "ballots": BALLOTS,
        "key": "j",
        "batch_size": 5,
        "votes": "v",
    }
    return Labeling(payer, folder=folder, **{**known, **changes})


def _run(
    folder: Path,
    payer: dps.Session,
    *,
    resume: bool = False,
    progress: ProgressCallback | None = None,
    **changes: Any,
) -> Labeling:
    job = _job(folder, payer, **changes)
    with Labeling.lock(folder, resume=resume):
        job.run(progress, resume=resume)
    return job


def _total(payer: dps.Session) -> acc.remaining.Remaining:
    return payer.totals()[0]


def _cost(payer: dps.Session) -> acc.cost.Cost:
    return cost_of_batches(_total(payer).budget, MECHANISM.curve, SIZES)


def _assert_paid(payer: dps.Session, done: Labeling) -> None:
    """Every round cost its test, and those that were answered, or all if their curve is paid, their
    winner.
    """
    rounds = len(done.answers)
    answered = rounds - (done.answers.count(None) if done.pay == "spent" else 0)
    due = rounds * MECHANISM.test_curve + answered * (acc.GaussianDP(mu=2**0.5 / 5.0))
    assert _total(payer).spent.main == pytest.approx(
        _total(payer).budget.filter_cost(due).main, rel=1e-9
    )
    assert payer.ledger.verify().ok


@pytest.mark.parametrize(
    "mechanism",
    [
        pate.ConfidentGNMax(threshold=12.0, sigma_threshold=6.0, sigma=9.0, labels=12),
        MECHANISM,
        pate.StableVoting(rho=0.07, failure_delta=1e-4, labels=12, kbar=3),
        pate.BinaryVoting(sigma=30.0, labels=12, unit="record"),
    ],
)
def test_no_file_of_labels_has_a_size_that_depends_on_the_draw(
    tmp_path: Path, mechanism: Any
) -> None:
    """A limit of bytes that one draw passes and another does not would pay for the best of many."""
    counts = np.random.default_rng(4).multinomial(60, [1 / mechanism.labels] * mechanism.labels, 5)
    counts[0] = [0] * (mechanism.labels - 2) + [30, 30]
    payer = _payer(tmp_path / "l.db", acc.Budget(rho=100.0, delta=0.1))
    drawn, sizes = set(), set()
    for turn in range(9):
        folder, ballots = tmp_path / str(turn), pate.Ballots(counts, teachers=60)
        done = _run(folder, payer, mechanism=mechanism, ballots=ballots, key=f"j{turn}")
        drawn.add(len(str(done.answers)))
        sizes.add((folder / "batch-000000.json").stat().st_size)
    assert len(drawn) > 1
    assert len(sizes) == 1


def test_a_job_costs_each_round_once(
    tmp_path: Path, payer: dps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All batches are charged before and released after, in order, each when its draft's name is on
    the disk; the total is the price of all rounds; the ledger verifies; the caller is told how far
    it is.
    """
    done: list[str] = []
    for owner, name in ((labeling, "write_draft"), (files, "sync_folder"), (acc.Ledger, "release")):
        real = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *a, real=real, name=name, **k: done.append(name) or real(*a, **k)
        )
    told: list[tuple[int, int]] = []
    assert (
        len(_run(tmp_path / "job", payer, progress=lambda *found: told.append(found)).answers) == 23
    )
    assert told == [(done, 23) for done in (5, 10, 15, 20, 23)]
    assert " ".join(done).count("write_draft sync_folder release") == done.count("release") == 5
    assert _total(payer).spent == _cost(payer)
    steps = [(entry.action, entry.key, entry.count) for entry in payer.ledger.entries("teachers")]
    assert steps == [
        step
        for b, n in enumerate([5, 5, 5, 5, 3])
        for step in (("charge", f"j/{b}", n), ("release", f"j/{b}", 0))
    ]
    assert payer.ledger.verify().ok


def test_labeling_job_charges_only_its_outcome_cost(tmp_path: Path, payer: dps.Session) -> None:
    """Rounds that abstain cost their test; a job goes on while the next batch fits, and a resumed
    one settles what was open.
    """
    done = _run(tmp_path / "job", payer, pay="spent")
    assert len(done.answers) == 23
    _assert_paid(payer, done)
    assert _run(tmp_path / "job", payer, resume=True, pay="spent").answers == done.answers
    with pytest.raises(JobConflict):
        _run(tmp_path / "job", payer, resume=True)
    # room for the roundings of three batches that all answer
    small = acc.Budget(rho=15.01 * MECHANISM.curve.rho)
    payer.ledger.create_dataset("few", small, "replace_one")
    few = dps.Session(payer.ledger, "few")
    stopped = _run(tmp_path / "few", few, key="few", pay="spent")
    assert len(stopped.answers) >= 15
    assert small.fits(acc.cost.Cost(0, 0), _total(few).spent)
    with pytest.raises(acc.BudgetExceeded):
        _run(tmp_path / "whole", few, key="whole")
    with pytest.raises(InvalidRequest, match="costs the same"):
        _job(tmp_path / "other", payer, mechanism=pate.GNMax(sigma=5.0, labels=3), pay="spent")


def test_a_job_is_begun_and_paid_once(tmp_path: Path, payer: dps.Session) -> None:
    """A finished job that is resumed keeps its labels and charges nothing; begun again it is
    refused, in another folder too. Answered rounds have one label and the others none.
    """
    mechanism = pate.ConfidentGNMax(threshold=40.0, sigma_threshold=1.0, sigma=1.0, labels=3)
    clear = pate.Ballots(np.array([[60, 0, 0], [20, 20, 20], [0, 60, 0]]), teachers=60)
    assert _run(
        tmp_path / "clear", payer, mechanism=mechanism, ballots=clear, key="clear"
    ).answers == [[0], None, [1]]
    before, first = _total(payer).spent, _run(tmp_path / "job", payer)
    files = {path: path.read_bytes() for path in (tmp_path / "job").glob("batch-*")}
    assert _run(tmp_path / "job", payer, resume=True).answers == first.answers
    assert {path: path.read_bytes() for path in (tmp_path / "job").glob("batch-*")} == files
    with pytest.raises(JobConflict, match="resume=True"):
        _run(tmp_path / "job", payer)
    with pytest.raises(
        JobConflict,
        match=r"was charged for another job \(entry [0-9]+ of .*Continue it where it was begun",
    ):
        _run(tmp_path / "other", payer)
    assert not Labeling.is_begun(tmp_path / "other")
    # by a process that looked at the ledger before the first job was charged
    _job(tmp_path / "other", payer)._begin()
    with pytest.raises(JobConflict, match="was charged for another job"):
        _run(tmp_path / "other", payer, resume=True)
    assert _total(payer).spent == before.plus(_cost(payer))


def test_a_changed_job_is_not_resumed(tmp_path: Path, payer: dps.Session) -> None:
    """Whatever differs from what was begun is named and refused: other votes, and another payer,
    who would pay a second time.
    """
    _run(tmp_path / "job", payer)
    payer.ledger.create_dataset("months", acc.Budget(rho=10.0), "replace_one", window="month")
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'other.db'}") as ledger:
        ledger.create_dataset("teachers", acc.Budget(rho=10.0), "replace_one")
        changes: list[tuple[str, dps.Session, dict[str, Any]]] = [
            ("batch_size", payer, {"batch_size": 4}),
            ("key", payer, {"key": "k"}),
            ("mechanism", payer, {"mechanism": MECHANISM.model_copy(update={"sigma": 6.0})}),
            ("rounds", payer, {"ballots": pate.Ballots(COUNTS[:22], teachers=60)}),
            ("salt", payer, {"salt": "s"}),
            ("pay", payer, {"pay": "spent"}),
            ("votes", payer, {"votes": "w"}),
            ("ledger", dps.Session(ledger, "teachers"), {}),
            ("dataset, period", dps.Session(payer.ledger, "months", period="2026-01"), {}),
        ]
        for named, who, changed in changes:
            with pytest.raises(JobConflict, match=named):
                _run(tmp_path / "job", who, resume=True, **changed)


def _flipped(content: bytes) -> bytes:
    """With the first round answered that abstained, or the other way round: which of them it is is
    drawn.
    """
    return re.sub(
        rb"null|\[[0-9]\]",
        lambda found: b"[0]" if found[0] == b"null" else b"null",
        content,
        count=1,
    )


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-20], _flipped, lambda _: b"", lambda _: b"\xff" * 9]
)
def test_labels_that_are_lost_damaged_or_of_another_batch_are_refused(
    tmp_path: Path, payer: dps.Session, damage: Callable[[bytes], bytes]
) -> None:
    """They may have been seen, so they are not drawn again: what is missing, does not match its
    checksum or belongs to another batch or job is named and refused, and so is a damaged record of
    the job.
    """
    _run(tmp_path / "job", payer)
    _run(tmp_path / "other", payer, key="k")
    folder = tmp_path / "job"
    path, record, intact = (
        folder / "batch-000001.json",
        folder / "job.json",
        (folder / "batch-000001.json").read_bytes(),
    )
    assert damage(intact) != intact
    for changed, content, words in (
        (path, damage(intact), "batch-000001"),
        (path, (folder / "batch-000002.json").read_bytes(), "another job or batch"),
        (path, (tmp_path / "other" / "batch-000001.json").read_bytes(), "another job or batch"),
        (path, None, "batch 1 .* their charge stays"),
        (record, damage(record.read_bytes()), r"job\.json"),
    ):
        before = changed.read_bytes()
        changed.unlink() if content is None else changed.write_bytes(content)
        with pytest.raises(JobDamaged, match=words):
            _run(folder, payer, resume=True)
        assert changed.exists() == (content is not None)
        changed.write_bytes(before)
    assert len(_run(folder, payer, resume=True).answers) == 23


def test_job_folder_is_private_and_locked(tmp_path: Path, payer: dps.Session) -> None:
    """It and its files are for their owner only, whatever the umask; one that is held is refused to
    everybody else.
    """
    _run(tmp_path / "job", payer)
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "job").iterdir())
    with (
        Labeling.lock(tmp_path / "job", resume=True),
        pytest.raises(JobBusy),
        Labeling.lock(tmp_path / "job", resume=True),
    ):
        pytest.fail("held twice")
    with Labeling.lock(tmp_path / "job", resume=True):
        pass


def test_a_job_is_labeled_by_the_process_that_began_it(tmp_path: Path, payer: dps.Session) -> None:
    """A fork in the middle of a job draws nothing: it has no lock of the folder, and its draft
    would stand in the place of its parent's, whose labels would be lost.
    """
    forked: list[str] = []
    job = _job(tmp_path / "job", payer)

    def progress(done: int, total: int) -> None:
        if not forked:
            forked.append(in_child(lambda: job.run(resume=True)))

    with Labeling.lock(job.folder):
        job.run(progress)
    assert forked[0].startswith("ForeignProcess")
    _assert_paid(payer, job)


def test_labeling_job_must_fit_the_budget_before_a_draw(tmp_path: Path, payer: dps.Session) -> None:
    """The budget and the team's quota are held before the first batch; the error says how many
    rounds would fit.
    """
    small = _payer(tmp_path / "small.db", acc.Budget(rho=12.5 * MECHANISM.curve.rho))
    with pytest.raises(acc.BudgetExceeded, match="allows 12 rounds"):
        _run(tmp_path / "job", small)
    assert list(small.ledger.entries("teachers")) == []
    limit = acc.Budget(rho=6 * MECHANISM.curve.rho)
    payer.ledger.quotas("teachers").declare(
        acc.ledger.Quota(name="vision", by="team", of="vision", limit=limit)
    )
    with pytest.raises(acc.BudgetExceeded, match="allows 5 rounds"):
        _run(tmp_path / "job", dps.Session(payer.ledger, "teachers", team="vision"))
    assert [entry.action for entry in payer.ledger.entries("teachers")] == ["quota"]
    _run(tmp_path / "job", dps.Session(payer.ledger, "teachers", team="text"))


@pytest.mark.parametrize(
    "mechanism",
    [
        MECHANISM,
        pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=3),
        pate.BinaryVoting(sigma=9.7, labels=3, teachers=60),
    ],
    ids=lambda m: m.kind,
)
def test_its_own_ledger_has_the_budget_of_the_job(tmp_path: Path, mechanism: pate.GNMax) -> None:
    """Without a ledger the job's own budget pays for every round and for nothing more."""
    with own_session(tmp_path / "own.db", mechanism, 23, 5, resume=False) as payer:
        _run(tmp_path / "job", payer, mechanism=mechanism)
        assert payer.affordable(mechanism, one_by_one=True).releases == 0
        assert _total(payer).main <= 1e-11
        assert _total(payer).failure <= 1e-17  # units of 10^-18, each rounded up
        with pytest.raises(acc.BudgetExceeded):
            payer.ledger.charge("votes", mechanism)


def test_another_relation_is_refused(tmp_path: Path) -> None:
    """A dataset under add_remove pays for a mechanism of that relation, at the same price, and for
    none of the other's.
    """
    payer = _payer(tmp_path / "l.db", relation="add_remove")
    with pytest.raises(acc.RelationMismatch):
        _run(tmp_path / "job", payer)
    ballots = pate.Ballots(COUNTS, teachers=60, split="identifier")
    other = MECHANISM.model_copy(update={"neighbors": "add_remove"})
    with pytest.raises(acc.RelationMismatch):
        _run(
            tmp_path / "job",
            payer,
            mechanism=other.model_copy(update={"unit": "teacher"}),
            ballots=ballots,
        )
    _run(tmp_path / "job", payer, mechanism=other, ballots=ballots)
    assert _total(payer).spent == _cost(payer)


@pytest.fixture
def tight(payer: dps.Session) -> dict[str, Any]:
    """A job whose noise is fitted to the whole budget of a dataset of its own."""
    budget = acc.Budget(epsilon=2.0, delta=1e-6)
    payer.ledger.create_dataset("tight", budget, "replace_one")
    mechanism = pate.fitted(pate.GNMax, budget, rounds=23, labels=3)
    return {"payer": dps.Session(payer.ledger, "tight"), "mechanism": mechanism}


def test_refusal_suggests_one_batch_when_only_that_fits(
    tmp_path: Path, tight: dict[str, Any]
) -> None:
    """Noise fitted to a budget fits it as one plan. Batches, charged one after the other, cost
    more: the remedy is true.
    """
    with pytest.raises(
        acc.BudgetExceeded, match=r"As one batch all of them fit.*State batch_size=23"
    ) as refused:
        _run(tmp_path / "job", **tight)
    assert not (tmp_path / "job" / "job.json").exists()
    assert refused.value.remaining is not None
    assert len(_run(tmp_path / "job", **tight, batch_size=23).answers) == 23
    with pytest.raises(
        acc.BudgetExceeded, match=r"Label fewer rounds, or add noise.*larger sigma="
    ):
        _run(tmp_path / "other", **tight, key="other")


def test_single_batch_remedy_is_omitted_if_quota_forbids_it(
    tmp_path: Path, tight: dict[str, Any]
) -> None:
    """The remedy holds for every account that pays, not for the first that does not."""
    ledger, limit = tight["payer"].ledger, acc.Budget(epsilon=1.0, delta=1e-6)
    quota = acc.ledger.Quota(name="vision", by="team", of="vision", limit=limit)
    ledger.quotas("tight").declare(quota)
    tight["payer"] = dps.Session(ledger, "tight", team="vision")
    with pytest.raises(acc.BudgetExceeded, match="Label fewer rounds"):
        _run(tmp_path / "job", **tight)


# -- failing at every step -------------------------------------------------------------------------

STEPS: list[tuple[object, str]] = [
    (acc.Ledger, "charge"),
    (acc.Ledger, "reserve"),
    (acc.Ledger, "commit"),
    (acc.Ledger, "release"),
    (Mechanism, "select_many"),
    (labeling, "write_draft"),
    (labeling, "settle"),
    (labeling, "new_file"),
]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("pay", "at"),
    [
        *(("curve", at) for at in range(9)),
        *(pytest.param("spent", at, marks=pytest.mark.slow) for at in range(11)),
    ],
)
def test_a_job_that_fails_at_any_step_is_completed_and_pays_once(
    payer: dps.Session, tmp_path: Path, at: int, pay: Pay, moment: str
) -> None:
    """Stopped around each step of two batches, one more run completes it: one charge a batch,
    finished labels as they were.
    """
    folder, ballots = tmp_path / "job", pate.Ballots(COUNTS[:8], teachers=60)
    with stopped_at(at, STEPS, moment):
        _run(folder, payer, ballots=ballots, pay=pay)
    before = {path.name: path.read_bytes() for path in folder.glob("batch-*.json")}
    claims = {
        entry.key: entry.label
        for entry in payer.ledger.entries("teachers")
        if entry.action == "release"
    }
    done = _run(folder, payer, resume=Labeling.is_begun(folder), ballots=ballots, pay=pay)
    assert len(done.answers) == 8
    after = {path.name: path.read_bytes() for path in folder.glob("batch-*.json")}
    assert before.items() <= after.items()
    assert len(after) == 2
    assert not list(folder.glob("*.new"))
    steps = [(entry.key, entry.action) for entry in payer.ledger.entries("teachers")]
    opening = "charge" if pay == "curve" else "reserve"
    assert sorted(key for key, action in steps if action == opening) == ["j/0", "j/1"]
    found = {
        entry.key: entry.label
        for entry in payer.ledger.entries("teachers")
        if entry.action == "release"
    }
    assert claims.items() <= found.items()
    assert sorted(found) == ["j/0", "j/1"]
    _assert_paid(payer, done)
