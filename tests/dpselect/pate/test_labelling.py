"""Labelling jobs: what is charged, kept, resumed and refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import accounting as acc
from dpselect import pate
from dpselect.errors import InvalidRequest
from dpselect.pate.labelling import (
    Job,
    JobBusy,
    JobConflict,
    JobDamaged,
    Labelling,
    Labels,
    Payer,
    Progress,
    Spool,
    price_of,
)
from dpselect.pate.labelling import _draft as unfinished

COUNTS = np.random.default_rng(4).multinomial(60, [0.5, 0.3, 0.2], size=23)
MECHANISM = pate.ConfidentGNMax(threshold=28.0, sigma_threshold=6.0, sigma=5.0, labels=3)


@pytest.fixture
def payer(tmp_path: Path) -> Payer:
    """An ample ledger."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create_dataset("teachers", acc.Budget(rho=10.0), "replace_one")
    return Payer(ledger, "teachers")


def _job(payer: Payer, **changes: object) -> Job:
    known = {
        "key": "j",
        "mechanism": MECHANISM,
        "rounds": 23,
        "batch_size": 5,
        "ledger": payer.identity,
        "dataset": payer.dataset,
    }
    return Job.model_validate({**known, **changes})


def _run(folder: Path, payer: Payer, *, resume: bool = False, votes: str = "v", **changes: object) -> Progress:
    job, ballots = _job(payer, **changes), pate.Ballots(COUNTS, teachers=60)
    with Spool.held(folder):
        spool = (Spool.resumed if resume else Spool.begin)(folder, job, votes)
        return Labelling(spool, payer, ballots).run()


def _price(payer: Payer) -> acc.Price:
    return price_of(payer.total.budget, _job(payer), list(range(5)))


def test_a_job_costs_each_round_once(tmp_path: Path, payer: Payer) -> None:
    """All batches are charged before and released after, in order; the total is the price of all rounds; the ledger verifies."""
    done = _run(tmp_path / "job", payer)
    assert done.rounds == 23
    assert payer.total.spent == _price(payer)
    steps = [(entry.action, entry.key, entry.count) for entry in payer.ledger.entries("teachers")]
    assert steps == [step for b, n in enumerate([5, 5, 5, 5, 3]) for step in (("charge", f"j/{b}", n), ("release", f"j/{b}", 0))]
    assert payer.ledger.verify().ok


def test_a_job_pays_for_what_came_out(tmp_path: Path, payer: Payer) -> None:
    """Rounds that abstain cost their test; a job goes on while the next batch fits, and a resumed one settles what was open."""
    done = _run(tmp_path / "job", payer, pay="spent")
    due = 23 * MECHANISM.test_curve + done.answered * (acc.GaussianDP(mu=2**0.5 / 5.0))
    assert done.rounds == 23
    assert payer.total.spent.main == pytest.approx(payer.total.budget.price(due).main, rel=1e-9)
    assert payer.ledger.verify().ok
    assert _run(tmp_path / "job", payer, resume=True, pay="spent") == done
    with pytest.raises(JobConflict):
        _run(tmp_path / "job", payer, resume=True)
    small = acc.Budget(rho=15.01 * MECHANISM.curve.rho)  # room for the roundings of three batches that all answer
    payer.ledger.create_dataset("few", small, "replace_one")
    few = Payer(payer.ledger, "few")
    stopped = _run(tmp_path / "few", few, key="few", pay="spent")
    assert stopped.rounds >= 15
    assert small.fits(acc.Price(0, 0), few.total.spent)
    with pytest.raises(acc.BudgetExceeded):
        _run(tmp_path / "whole", Payer(payer.ledger, "few"), key="whole")
    with pytest.raises(InvalidRequest, match="costs the same"):
        _job(payer, mechanism=pate.GNMax(sigma=5.0, labels=3), pay="spent")


@pytest.mark.parametrize("broken", ["commit", "release"])
def test_an_interrupted_batch_is_settled_when_it_is_resumed(
    tmp_path: Path, payer: Payer, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Stopped before the commit or before the release, the batch holds its whole price; resumed, it is settled as any other."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(acc.Ledger, broken, stop)
        with pytest.raises(KeyboardInterrupt):
            _run(tmp_path / "job", payer, pay="spent")
    assert payer.total.spent == payer.total.budget.price(5 * MECHANISM.curve)
    done = _run(tmp_path / "job", payer, resume=True, pay="spent")
    due = 23 * MECHANISM.test_curve + done.answered * (acc.GaussianDP(mu=2**0.5 / 5.0))
    assert payer.total.spent.main == pytest.approx(payer.total.budget.price(due).main, rel=1e-9)
    assert payer.ledger.verify().ok


def test_answers_are_those_of_the_mechanism(tmp_path: Path, payer: Payer) -> None:
    """Answered rounds have one label and the others none; clear rounds get their winner."""
    counts = np.array([[60, 0, 0], [20, 20, 20], [0, 60, 0]])
    mechanism = pate.ConfidentGNMax(threshold=40.0, sigma_threshold=1.0, sigma=1.0, labels=3)
    job = _job(payer, mechanism=mechanism, rounds=3, batch_size=2)
    with Spool.held(tmp_path / "job"):
        spool = Spool.begin(tmp_path / "job", job, "v")
        done = Labelling(spool, payer, pate.Ballots(counts, teachers=60)).run()
        assert (done.rounds, done.answered) == (3, 2)
        assert list(spool.finished(3)) == [(0, [0], True), (1, [], False), (2, [1], True)]


def test_resuming_a_finished_job_changes_nothing(tmp_path: Path, payer: Payer) -> None:
    """A second run with resume charges nothing and gives the same labels."""
    first = _run(tmp_path / "job", payer)
    files = {path: path.read_bytes() for path in (tmp_path / "job").glob("batch-*")}
    assert _run(tmp_path / "job", payer, resume=True) == first
    assert {path: path.read_bytes() for path in (tmp_path / "job").glob("batch-*")} == files
    assert payer.total.spent == _price(payer)


def test_a_job_is_not_begun_twice(tmp_path: Path, payer: Payer) -> None:
    """Without resume a folder with a job is refused; in another folder the key's charges are refused."""
    _run(tmp_path / "job", payer)
    with pytest.raises(JobConflict, match="--resume"):
        _run(tmp_path / "job", payer)
    with pytest.raises(acc.LedgerError, match="already paid"):
        _run(tmp_path / "other", payer)
    assert payer.total.spent == _price(payer)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 4},
        {"key": "k"},
        {"mechanism": MECHANISM.model_copy(update={"sigma": 6.0})},
        {"rounds": 22},
        {"ledger": "x"},
        {"dataset": "y"},
        {"period": "2024"},
        {"salt": "s"},
    ],
)
def test_a_changed_job_is_not_resumed(tmp_path: Path, payer: Payer, changes: dict[str, object]) -> None:
    """Whatever differs from what was begun is named and refused."""
    _run(tmp_path / "job", payer)
    with pytest.raises(JobConflict, match=next(iter(changes))):
        _run(tmp_path / "job", payer, resume=True, **changes)


def test_other_votes_are_not_resumed(tmp_path: Path, payer: Payer) -> None:
    """A file of votes with another digest is refused."""
    _run(tmp_path / "job", payer)
    with pytest.raises(JobConflict, match="votes"):
        _run(tmp_path / "job", payer, resume=True, votes="w")


def test_a_charged_batch_without_labels_is_drawn_under_its_charge(tmp_path: Path, payer: Payer) -> None:
    """Charged and never written: resume draws it and charges nothing more."""
    folder, job = tmp_path / "job", _job(payer)
    with Spool.held(folder):
        spool = Spool.begin(folder, job, "v")
        payer.ledger.charge("teachers", job.item(0, spool.state), count=5, key="j/0", label="dpselect pate")
    assert _run(folder, payer, resume=True).rounds == 23
    assert payer.total.spent == _price(payer)


def test_a_released_batch_without_labels_is_refused(tmp_path: Path, payer: Payer) -> None:
    """Marked as released and missing: it may have been seen, so it is not drawn again."""
    _run(tmp_path / "job", payer)
    (tmp_path / "job" / "batch-000002.json").unlink()
    with pytest.raises(JobDamaged, match=r"batch 2 .* another key"):
        _run(tmp_path / "job", payer, resume=True)
    assert not (tmp_path / "job" / "batch-000002.json").exists()


def _flipped(content: bytes) -> bytes:
    """With the first round answered that abstained, or the other way round: which of them it is is drawn."""
    return re.sub(rb"true|false", lambda found: b"true" if found[0] == b"false" else b"false", content, count=1)


@pytest.mark.parametrize("damage", [lambda b: b[:-20], _flipped, lambda _: b"", lambda _: b"\xff" * 9])
def test_damaged_labels_are_refused(tmp_path: Path, payer: Payer, damage: object) -> None:
    """Labels that do not match their checksum are refused, and so is a damaged record of the job."""
    _run(tmp_path / "job", payer)
    path = tmp_path / "job" / "batch-000001.json"
    intact = path.read_bytes()
    changed = damage(intact)  # type: ignore[operator]
    assert changed != intact
    path.write_bytes(changed)
    with pytest.raises(JobDamaged, match="batch-000001"):
        _run(tmp_path / "job", payer, resume=True)
    path.write_bytes(intact)
    (tmp_path / "job" / "job.json").write_bytes(damage(intact))  # type: ignore[operator]
    with pytest.raises(JobDamaged, match=r"job\.json"):
        _run(tmp_path / "job", payer, resume=True)


def test_foreign_labels_are_refused(tmp_path: Path, payer: Payer) -> None:
    """Labels of another batch or of another job, intact as they are, are refused."""
    _run(tmp_path / "job", payer)
    _run(tmp_path / "other", payer, key="k")
    for source in (tmp_path / "job" / "batch-000002.json", tmp_path / "other" / "batch-000001.json"):
        (tmp_path / "job" / "batch-000001.json").write_bytes(source.read_bytes())
        with pytest.raises(JobDamaged, match="another job or batch"):
            _run(tmp_path / "job", payer, resume=True)


def test_an_interrupted_writing_is_finished_or_forgotten(tmp_path: Path, payer: Payer) -> None:
    """A draw that is whole in the scratch file is kept, so that no second one is beside it; a partial one is removed."""
    folder = tmp_path / "job"
    _run(folder, payer)
    path = folder / "batch-000003.json"
    content = path.read_bytes()
    path.rename(unfinished(path))
    _run(folder, payer, resume=True)
    assert path.read_bytes() == content
    assert not unfinished(path).exists()
    path.unlink()
    unfinished(path).write_bytes(content[:50])
    with pytest.raises(JobDamaged):
        _run(folder, payer, resume=True)
    assert not unfinished(path).exists()


def test_labels_are_never_overwritten(tmp_path: Path, payer: Payer) -> None:
    """A draw that is kept later takes no settled labels' place."""
    with Spool.held(tmp_path / "job"):
        spool = Spool.begin(tmp_path / "job", _job(payer), "v")
        first = spool.draft(0, Labels([[1]] * 5, [True] * 5))
        spool.settle(0)
        assert spool.draft(0, first.labels).claim != first.claim
        spool.settle(0)
        assert spool.read(0) == first


def test_everything_in_the_folder_is_private(tmp_path: Path, payer: Payer) -> None:
    """The folder and its files are for their owner only, whatever the umask."""
    _run(tmp_path / "job", payer)
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "job").iterdir())


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A folder that is held is refused to everybody else."""
    with Spool.held(tmp_path / "job"), pytest.raises(JobBusy), Spool.held(tmp_path / "job"):
        pytest.fail("held twice")
    with Spool.held(tmp_path / "job"):
        pass


def test_a_budget_that_is_too_small_draws_nothing(tmp_path: Path) -> None:
    """All that is left to label must fit before the first batch; the error says how many rounds would."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create_dataset("teachers", acc.Budget(rho=12.5 * MECHANISM.curve.rho), "replace_one")
    payer = Payer(ledger, "teachers")
    with pytest.raises(acc.BudgetExceeded, match="buys 12 rounds"):
        _run(tmp_path / "job", payer)
    assert list(ledger.entries("teachers")) == []


def test_a_budget_that_is_spent_meanwhile_keeps_what_is_done(tmp_path: Path) -> None:
    """If somebody else spends the budget between batches, the finished ones are kept, and the error is told."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create_dataset("teachers", acc.Budget(rho=24 * MECHANISM.curve.rho), "replace_one")
    payer = Payer(ledger, "teachers")

    def spend(done: int, _: int) -> None:
        if done == 10:
            ledger.charge("teachers", 8 * MECHANISM)

    with Spool.held(tmp_path / "job"):
        spool = Spool.begin(tmp_path / "job", _job(payer), "v")
        done = Labelling(spool, payer, pate.Ballots(COUNTS, teachers=60)).run(spend)
        assert done.rounds == 15
        assert isinstance(done.stopped, acc.BudgetExceeded)
        assert [row[0] for row in spool.finished(done.rounds)] == list(range(15))


@pytest.mark.parametrize(
    "mechanism",
    [MECHANISM, pate.StableVoting(rho=0.01, failure_delta=1e-9, labels=3), pate.BinaryVoting(sigma=9.7, labels=3, teachers=60)],
    ids=lambda m: m.kind,
)
def test_its_own_ledger_has_the_budget_of_the_job(tmp_path: Path, mechanism: pate.GNMax) -> None:
    """Without a ledger the job's own budget pays for every round and for nothing more."""
    payer = Payer.own(tmp_path / "own.db", mechanism, 23, 5)
    _run(tmp_path / "job", payer, mechanism=mechanism)
    assert payer.buys(mechanism) == 0
    assert payer.total.remaining.main <= 1e-11
    assert payer.total.remaining.failure <= 1e-17  # units of 10^-18, each rounded up
    with pytest.raises(acc.BudgetExceeded):
        payer.ledger.charge("votes", mechanism)


def test_another_relation_is_refused(tmp_path: Path) -> None:
    """A dataset whose budget is for add_remove does not pay for ballots that are replaced."""
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}")
    ledger.create_dataset("teachers", acc.Budget(rho=10.0), "add_remove")
    with pytest.raises(acc.RelationMismatch):
        _run(tmp_path / "job", Payer(ledger, "teachers"))


def test_a_job_is_told_by_what_it_states_and_by_its_kind() -> None:
    """Equal settings of two kinds are two jobs; a setting at its default, as a later version's new one is, changes nothing."""
    terms = {"key": "k", "rounds": 1, "batch_size": 1, "ledger": "l", "dataset": "d"}
    jobs = [Job(mechanism=kind(sigma=1.0, labels=3), **terms) for kind in (pate.GNMax, pate.BinaryVoting)]
    assert jobs[0].fingerprint != jobs[1].fingerprint
    assert Job(mechanism=pate.GNMax(sigma=1.0, labels=3, relation="replace_one"), salt="", **terms) == jobs[0]
    assert "relation" not in str(jobs[0].model_dump(mode="json", exclude_defaults=True))
    assert Job(mechanism=pate.GNMax(sigma=2.0, labels=3), **terms).fingerprint != jobs[0].fingerprint
