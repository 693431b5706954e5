"""`dpselect pate`: files in, labels and their price out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from shell import dpselect
from typer.testing import Result

import accounting as acc
import dpselect as dps

ROUNDS, TEACHERS, LABELS = 7, 50, 4
# One vote per teacher, all but two for label (round mod 4): at sigma 1 the winner is beyond doubt.
BALLOTS = np.zeros((ROUNDS, TEACHERS, LABELS), dtype=np.uint8)
for _round in range(ROUNDS):
    BALLOTS[_round, :, _round % LABELS] = 1
    BALLOTS[_round, :2] = np.eye(LABELS, dtype=np.uint8)[(_round + 1) % LABELS]
WINNERS = [[number % LABELS] for number in range(ROUNDS)]
CURVE = dps.pate.GNMax(sigma=1.0, labels=LABELS).curve


@pytest.fixture
def votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of single votes, alone in the working folder."""
    monkeypatch.chdir(tmp_path)
    np.savez_compressed(path := tmp_path / "votes.npz", votes=BALLOTS)
    return path


def _labels(path: Path) -> list[list[int]]:
    """The labels of each round, in a list; a single one is written as such."""
    held = [json.loads(line)["labels"] for line in path.read_text().splitlines()]
    return [one if isinstance(one, list) else [] if one is None else [one] for one in held]


def _ledger(budget: acc.Budget, **declared: Any) -> str:
    """The URL of a ledger whose dataset of teachers has the budget."""
    with acc.Ledger.open(url := "sqlite:///l.db") as ledger:
        ledger.create_dataset("teachers", budget, **{"relation": "replace_one", **declared})
    return url


PAID = "--ledger sqlite:///l.db --dataset teachers"


def label(*more: object) -> Result:
    """Run `dpselect pate` by gnmax into labels.jsonl."""
    return dpselect("pate votes.npz --output labels.jsonl --mechanism gnmax --sigma 1", *more)


@pytest.mark.fast(1)
@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize(
    "flags",
    [
        "gnmax --sigma 1",
        "confident --sigma 1 --sigma-threshold 1 --threshold 30",
        "binary --epsilon 4000 --delta 1e-6 --threshold 25",
        "tau --epsilon 4000 --delta 1e-6 --tau 1",
        "stable --rho 2.0 --failure-delta 1e-6 --kbar 2",
        "top --scale 1 --k 1",
    ],
)
def test_mechanisms(flags: str) -> None:
    """Every mechanism answers a clear vote, by stated noise and by a budget for the whole job,
    which it keeps.
    """
    result = dpselect(f"pate votes.npz --output o.jsonl --json --mechanism {flags}")
    assert result.exit_code == 0
    assert _labels(Path("o.jsonl")) == WINNERS
    assert "a unanimous label" in result.stderr
    told = json.loads(result.stdout)
    assert told["rounds"] == {"asked": 7, "labeled": 7, "answered": 7, "abstained": 0}
    if "--epsilon" in flags:
        assert 3000 < told["guarantee"]["epsilon"] <= 4000
    mechanism = dps.mechanisms.base.Mechanism.from_json(json.dumps(told["mechanism"]))
    assert told["guarantee"]["epsilon"] == pytest.approx(
        (7 * mechanism.curve).epsilon(told["guarantee"]["delta"])
    )
    assert told["risk"]["advantage"] == pytest.approx((7 * mechanism.curve).advantage)


@pytest.mark.usefixtures("votes")
def test_long_ballots_are_cut() -> None:
    """Tau-voting cuts single votes by a public rule, and how many were cut is not told."""
    np.savez("votes.npz", votes=np.ones((3, 20, 5), dtype=bool))
    asked = "--output o.jsonl --mechanism tau --tau 2 --sigma 0.5 --salt s --json"
    result = dpselect("pate votes.npz", asked)
    assert result.exit_code == 0
    assert all(len(labels) == 2 for labels in _labels(Path("o.jsonl")))
    assert not re.search(r"\bcut", result.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("votes")
def test_labels_as_arrays() -> None:
    """Positions are written with the names to npz; a round without labels has none. Names in text:
    test_written_text.py.
    """
    np.savez("v.npz", votes=BALLOTS, names=np.array(["a", "b", "c, d", "e"]))
    asked = "pate v.npz --mechanism confident --sigma 1 --sigma-threshold 1 --threshold"
    assert dpselect(asked, "30 --output o.npz").exit_code == 0
    with np.load("o.npz", allow_pickle=False) as file:
        assert file["labels"].tolist() == WINNERS
        assert file["answered"].all()
        assert file["names"].tolist() == ["a", "b", "c, d", "e"]
    result = dpselect(asked, "90 --anyway --output none.npz")
    assert "0 answered, 7 abstained" in " ".join(result.stdout.split())
    with np.load("none.npz", allow_pickle=False) as file:
        assert file["labels"].tolist() == [[-1]] * 7


@pytest.mark.usefixtures("votes")
def test_add_remove_records_require_a_split_by_identifier() -> None:
    """Under add_remove the command demands --split identifier before it charges, and then pays the
    price of a changed ballot.
    """
    with acc.Ledger.open(_ledger(acc.Budget(rho=100.0), relation="add_remove")) as ledger:
        result = label(PAID)
        assert (result.exit_code != 0, "--split" in result.stderr) == (True, True)
        assert list(ledger.entries("teachers")) == []
        assert label(PAID, "--split identifier").exit_code == 0
        total = ledger.total("teachers")
        assert total.spent == total.budget.filter_cost(ROUNDS * CURVE)


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize(
    "asked",
    [
        "pate ADDRESS --output o.csv --mechanism gnmax --sigma 1",
        "pate votes.npz --output ADDRESS --mechanism gnmax --sigma 1",
        "pate votes.npz --output ADDRESS.csv --mechanism gnmax --sigma 1",
        "topk ADDRESS?host=/nowhere --table log --user u --item i --k 1 --epsilon 2 --delta 1e-6",
        "topk mysql://ann:hunter2@host/name --user u --item i --k 1 --epsilon 2 --delta 1e-6",
        "plan --pate --votes ADDRESS --public-votes --epsilon 6 --delta 1e-6",
        "pate votes.npz --output o.csv --mechanism gnmax --sigma 1 --ledger ADDRESS --dataset d",
    ],
)
def test_passwords_in_place_of_files_are_not_printed(asked: str) -> None:
    """An address where a file is expected (votes, output, --votes), or of a log that cannot be
    read, is shown without its password.
    """
    result = dpselect(asked.replace("ADDRESS", "postgresql://user:hunter2@host/db"))
    assert result.exit_code != 0
    assert "hunter2" not in result.stderr + result.stdout


@pytest.mark.usefixtures("votes")
def test_a_job_whose_ledger_is_gone_is_not_resumed() -> None:
    """A new ledger would pay a second time; nor is one that has paid removed when the record of its
    job is gone. One that was copied would pay again; a folder that was only moved goes on.
    """

    def resumed(output: str) -> Result:
        asked = f"pate votes.npz --output {output} --mechanism gnmax --sigma 1 --resume"
        return dpselect(asked)

    assert "starts without --resume" in " ".join(resumed("labels.jsonl").stderr.split())
    assert label().exit_code == 0
    folder = Path("labels.jsonl.job")
    ledger = (folder / "ledger.db").rename("aside.db")
    result = label("--resume")
    assert (result.exit_code, "ledger.db" in result.stderr) == (1, True)
    assert not (folder / "ledger.db").exists()
    ledger.rename(folder / "ledger.db")
    job, labels = (folder / "job.json").rename("job.json"), Path("labels.jsonl").rename("labels")
    result = label()
    assert (result.exit_code, "job.json" in result.stderr) == (1, True)
    job.rename(folder / "job.json")
    labels.rename("labels.jsonl")
    shutil.copytree(folder, "copy.jsonl.job")
    copied = resumed("copy.jsonl")
    assert (copied.exit_code, "copy of a job" in copied.stderr) == (2, True)
    folder.rename("moved.jsonl.job")
    assert resumed("moved.jsonl").exit_code == 0


def _reseal(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text().split("\n")[1]) | changes
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    path.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")


RESEALED: list[tuple[str, dict[str, object]]] = [
    *(
        ("batch-000000.json", {"answers": answers})
        for answers in ([[0]] * 6, [[4]] * 7, [[-1]] * 7, [[True]] * 7, [[1, 1]] * 7, 7, [[1]] * 7)
    ),
    ("batch-000000.json", {"version": 1}),
    *(
        ("job.json", changes)
        for changes in ({"version": 4}, {"state": 7}, {"job": []}, {"own": {"path": 1}})
    ),
]


@pytest.mark.usefixtures("votes")
def test_resealed_files_are_refused() -> None:
    """A file with a fitting checksum and other content is none of the job's; labels are held
    against the claim in the ledger. A finished job is resumed without a further charge, and writes
    its labels again where they are gone.
    """
    assert label().exit_code == 0
    before = Path("labels.jsonl").read_bytes()
    for name, changes in RESEALED:
        path = Path("labels.jsonl.job") / name
        intact = path.read_bytes()
        _reseal(path, **changes)
        result = label("--resume")
        assert result.exit_code in (1, 2), changes
        assert "internal" not in result.stderr
        assert name in result.stderr or "were changed" in result.stderr
        path.write_bytes(intact)
    Path("labels.jsonl").unlink()
    assert json.loads(label("--resume --json").stdout)["ledger"]["rounds_left"] == 0
    assert Path("labels.jsonl").read_bytes() == before


@pytest.mark.usefixtures("votes")
@pytest.mark.parametrize(
    "flags",
    [
        "binary --sigma 13",
        pytest.param("stable --epsilon 3.5 --delta 1e-6", marks=pytest.mark.slow),
        "confident --sigma 1 --sigma-threshold 1 --threshold 51",
    ],
)
def test_a_job_that_cannot_work_is_refused_before_it_is_charged(flags: str) -> None:
    """Noise above half the threshold, or a unanimous label that fails every other time: refused,
    unless asked for anyway.
    """
    asked = f"pate votes.npz --output o.csv --mechanism {flags}"
    refused = dpselect(asked)
    assert (refused.exit_code, "--anyway" in refused.stderr) == (2, True)
    assert not Path("o.csv.job").exists()
    assert dpselect(asked, "--anyway").exit_code == 0


@pytest.mark.usefixtures("votes")
def test_job_that_exhausts_the_budget_reports_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else spends the budget meanwhile: what is charged and written is told, and that
    nothing else is.
    """
    url = _ledger(acc.Budget(rho=7.5 * CURVE.rho))
    select = dps.pate.GNMax.select_many

    def spend_and_select(self: dps.pate.GNMax, *arguments: Any, **seeded: Any) -> object:
        if not seeded:  # those of the outlook are seeded
            with acc.Ledger.open(url) as ledger:
                if len(list(ledger.entries("teachers"))) < 3:
                    ledger.charge("teachers", self, count=3)
        return select(self, *arguments, **seeded)

    monkeypatch.setattr(dps.pate.GNMax, "select_many", spend_and_select)
    result = label(PAID, "--batch-size 3")
    assert result.exit_code == 3
    assert "3 of 7 rounds are labeled, charged and in" in result.stderr
    assert "the other 4 were neither charged nor drawn" in result.stderr
    assert "othing was charged" not in result.stderr
    assert _labels(Path("labels.jsonl")) == WINNERS[:3]


@pytest.mark.usefixtures("votes")
def test_a_signal_to_terminate_explains_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends the job with status 143 and the line that an interrupt has; --resume goes on,
    and the handler is restored.
    """
    before, select = signal.getsignal(signal.SIGTERM), dps.pate.GNMax.select_many

    def end_the_process(self: dps.pate.GNMax, *arguments: Any, **seeded: Any) -> object:
        if not seeded:  # those of the outlook are seeded
            os.kill(os.getpid(), signal.SIGTERM)
        return select(self, *arguments, **seeded)

    with monkeypatch.context() as patch:
        patch.setattr(dps.pate.GNMax, "select_many", end_the_process)
        result = label("--batch-size 3")
    assert result.exit_code == 143
    assert "terminated" in result.stderr
    assert "--resume goes on" in result.stderr
    assert signal.getsignal(signal.SIGTERM) is before
    assert label("--batch-size 3 --resume").exit_code == 0


def test_python_labels_as_the_command_does(votes: Path) -> None:
    """`pate.label` takes the fields of the spec, writes the same file and states the same price."""
    asked: dict[str, Any] = {"mechanism": "gnmax", "sigma": 1.0, "output": "python.jsonl"}
    dry = dps.pate.label(votes, **asked, dry_run=True)
    assert (dry.mechanism.sigma, dry.left) == (1.0, ())
    assert "GNMax" in label("--dry-run").stdout
    assert list(votes.parent.iterdir()) == [votes]  # no folder, no labels, no charge
    here, told = dps.pate.label(votes, **asked).as_data(), json.loads(label("--json").stdout)
    assert _labels(Path("python.jsonl")) == _labels(Path("labels.jsonl")) == WINNERS
    for name in ("guarantee", "mechanism", "rounds", "risk"):
        assert here[name] == told[name]


@pytest.mark.parametrize(
    ("form", "shape", "asked"),
    [
        ("votes", (9, 9, 4), {}),
        ("votes", (9, 4), {"teachers": 9}),
        ("classes", (9, 9), {"labels": 4, "teachers": 9}),
        ("sparse", (9, 4), {"teachers": 9}),
        ("npy", (9, 9, 4), {}),
    ],
)
def test_a_dry_run_looks_at_no_vote(
    tmp_path: Path, form: str, shape: tuple[int, ...], asked: dict[str, Any]
) -> None:
    """The shape that a file states is public, and all that a price needs: no vote, nor one that is
    malformed, changes a word.
    """
    path = tmp_path / ("votes.npy" if form == "npy" else "votes.npz")
    about: dict[str, Any] = {"mechanism": "gnmax", "sigma": 1.0, "output": tmp_path / "o.csv"}
    told = []
    for fill in (0, 1, 77):
        held = np.full(shape, fill)
        if form == "npy":
            np.save(path, held)
        elif form == "sparse":
            scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(held))
        else:
            np.savez_compressed(path, **{form: held})
        told.append(dps.pate.label(path, **about, **asked, anyway=True, dry_run=True).as_data())
    assert told[0] == told[1] == told[2]
    assert any("No row was read" in note for note in told[0]["notes"])
    path.unlink()
    with pytest.raises(dps.errors.InvalidRequest, match="cannot be read"):
        dps.pate.label(path, **about, dry_run=True)


@pytest.mark.usefixtures("votes")
def test_a_dataset_whose_days_begin_elsewhere_pays() -> None:
    """A period is one of the dataset's own calendar, whatever its zone: the votes carry no time
    that could differ from it.
    """
    url = _ledger(acc.Budget(rho=100.0), window="day", time_zone="Europe/Berlin")
    paid_by = f"{PAID} --period 2026-01-05"
    assert label(paid_by, "--dry-run").exit_code == 0
    result = label(paid_by)
    assert (result.exit_code, result.stderr) == (0, "")
    with acc.Ledger.open(url) as ledger:
        assert ledger.total("teachers", "2026-01-05").spent.main > 0
