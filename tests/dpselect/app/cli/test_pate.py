"""`dpselect pate`: files in, labels and their price out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from typer.testing import Result

import accounting as acc
import dpselect as dps
from dpselect.app.labeling.labeling import Labeling

Run = Callable[..., Result]
ROUNDS, TEACHERS, LABELS = 7, 50, 4
# One vote per teacher, all but two for label (round mod 4): at sigma 1 the winner is beyond doubt.
BALLOTS = np.zeros((ROUNDS, TEACHERS, LABELS), dtype=np.uint8)
for _round in range(ROUNDS):
    BALLOTS[_round, :, _round % LABELS] = 1
    BALLOTS[_round, :2] = np.eye(LABELS, dtype=np.uint8)[(_round + 1) % LABELS]
WINNERS = [[number % LABELS] for number in range(ROUNDS)]
CURVE = dps.pate.GNMax(sigma=1.0, labels=LABELS).curve


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """A file of single votes."""
    np.savez_compressed(tmp_path / "votes.npz", votes=BALLOTS)
    return tmp_path / "votes.npz"


def _labels(path: Path) -> list[list[int]]:
    """The labels of each round, in a list; a single one is written as such."""
    held = [json.loads(line)["labels"] for line in path.read_text().splitlines()]
    return [one if isinstance(one, list) else [] if one is None else [one] for one in held]


def _ledger(folder: Path, budget: acc.Budget, **declared: Any) -> str:
    """The URL of a ledger whose dataset of teachers has the budget."""
    with acc.Ledger.open(url := f"sqlite:///{folder / 'l.db'}") as ledger:
        ledger.create_dataset("teachers", budget, **{"relation": "replace_one", **declared})
    return url


@pytest.fixture
def label(run: Run, tmp_path: Path) -> Run:
    """Run `dpselect pate` by gnmax into labels.jsonl."""

    def invoke(path: object, *arguments: object) -> Result:
        return run(
            "pate",
            path,
            "--output",
            tmp_path / "labels.jsonl",
            "--mechanism",
            "gnmax",
            "--sigma",
            1,
            *arguments,
        )

    return invoke


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "flags",
    [
        ("gnmax", "--sigma", 1),
        ("confident", "--sigma", 1, "--sigma-threshold", 1, "--threshold", 30),
        ("binary", "--epsilon", 4000, "--delta", 1e-6, "--threshold", 25),
        ("tau", "--epsilon", 4000, "--delta", 1e-6, "--tau", 1),
        ("stable", "--rho", 2.0, "--failure-delta", 1e-6, "--kbar", 2),
        ("top", "--scale", 1, "--k", 1),
    ],
)
def test_mechanisms(run: Run, votes: Path, tmp_path: Path, flags: tuple[object, ...]) -> None:
    """Every mechanism answers a clear vote, by stated noise and by a budget for the whole job,
    which it keeps.
    """
    result = run("pate", votes, "--output", tmp_path / "o.jsonl", "--json", "--mechanism", *flags)
    assert result.exit_code == 0
    assert _labels(tmp_path / "o.jsonl") == WINNERS
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


def test_long_ballots_are_cut(run: Run, tmp_path: Path) -> None:
    """Tau-voting cuts single votes by a public rule, and how many were cut is not told."""
    np.savez(tmp_path / "votes.npz", votes=np.ones((3, 20, 5), dtype=bool))
    arguments = ("--mechanism", "tau", "--tau", 2, "--sigma", 0.5, "--salt", "s", "--json")
    result = run("pate", tmp_path / "votes.npz", "--output", tmp_path / "o.jsonl", *arguments)
    assert result.exit_code == 0
    assert all(len(labels) == 2 for labels in _labels(tmp_path / "o.jsonl"))
    assert not re.search(r"\bcut", result.stdout)


@pytest.mark.slow
def test_labels_as_arrays(run: Run, tmp_path: Path) -> None:
    """Positions are written with the names to npz; a round without labels has none. Names in text:
    test_written_text.py.
    """
    np.savez(tmp_path / "v.npz", votes=BALLOTS, names=np.array(["a", "b", "c, d", "e"]))
    flags = ("--mechanism", "confident", "--sigma", 1, "--sigma-threshold", 1, "--threshold", 30)
    assert run("pate", tmp_path / "v.npz", "--output", tmp_path / "o.npz", *flags).exit_code == 0
    with np.load(tmp_path / "o.npz", allow_pickle=False) as file:
        assert file["labels"].tolist() == WINNERS
        assert file["answered"].all()
        assert file["names"].tolist() == ["a", "b", "c, d", "e"]
    result = run(
        "pate", tmp_path / "v.npz", "--output", tmp_path / "none.npz", *flags[:-1], 90, "--anyway"
    )
    assert "0 answered, 7 abstained" in " ".join(result.stdout.split())
    with np.load(tmp_path / "none.npz", allow_pickle=False) as file:
        assert file["labels"].tolist() == [[-1]] * 7


def test_resuming(label: Run, votes: Path, tmp_path: Path) -> None:
    """A finished job is resumed without a further charge, and writes its labels again where they
    are gone.
    """
    assert label(votes).exit_code == 0
    before = (tmp_path / "labels.jsonl").read_bytes()
    (tmp_path / "labels.jsonl").unlink()
    resumed = label(votes, "--resume", "--json")
    assert resumed.exit_code == 0
    assert (tmp_path / "labels.jsonl").read_bytes() == before
    assert json.loads(resumed.stdout)["ledger"]["rounds_left"] == 0


def test_a_dataset_of_records_that_come_and_go_pays_for_a_split_by_identifier(
    label: Run, votes: Path, tmp_path: Path
) -> None:
    """Under add_remove the command demands --split identifier before it charges, and then pays the
    price of a changed ballot.
    """
    paid_by = (
        "--ledger",
        url := _ledger(tmp_path, acc.Budget(rho=100.0), relation="add_remove"),
        "--dataset",
        "teachers",
    )
    result = label(votes, *paid_by)
    assert result.exit_code != 0
    assert "--split" in result.stderr
    with acc.Ledger.open(url) as ledger:
        assert list(ledger.entries("teachers")) == []
    assert label(votes, *paid_by, "--split", "identifier").exit_code == 0
    with acc.Ledger.open(url) as ledger:
        total = ledger.total("teachers")
        assert total.spent == total.budget.price(ROUNDS * CURVE)


def test_passwords_in_place_of_files_are_not_printed(
    label: Run, run: Run, votes: Path, tmp_path: Path
) -> None:
    """An address where a file is expected (votes, output, --votes) is shown without its
    password.
    """
    address = "postgresql://user:hunter2@host/db"
    asked = ("--epsilon", 6, "--delta", 1e-6)
    for result in (
        label(address),
        run("pate", votes, "--output", address, "--mechanism", "gnmax", "--sigma", 1),
        run("pate", votes, "--output", f"{address}.csv", "--mechanism", "gnmax", "--sigma", 1),
        run("plan", "--pate", "--votes", address, "--public-votes", *asked),
        label(votes, "--ledger", address, "--dataset", "d"),
    ):
        assert result.exit_code != 0
        assert "hunter2" not in result.stderr + result.stdout


def test_a_job_whose_ledger_is_gone_is_not_resumed(label: Run, votes: Path, tmp_path: Path) -> None:
    """A new ledger would pay a second time; nor is one that has paid removed when the record of its
    job is gone.
    """
    assert label(votes).exit_code == 0
    folder = tmp_path / "labels.jsonl.job"
    ledger = (folder / "ledger.db").rename(tmp_path / "aside.db")
    result = label(votes, "--resume")
    assert result.exit_code == 1
    assert "ledger.db" in result.stderr
    assert not (folder / "ledger.db").exists()
    ledger.rename(folder / "ledger.db")
    (folder / "job.json").rename(tmp_path / "job.json")
    (tmp_path / "labels.jsonl").unlink()
    result = label(votes)
    assert result.exit_code == 1
    assert "job.json" in result.stderr
    (tmp_path / "job.json").rename(folder / "job.json")
    assert label(votes, "--resume").exit_code == 0


def test_a_copied_job_with_its_own_ledger_is_not_resumed(
    label: Run, run: Run, votes: Path, tmp_path: Path
) -> None:
    """The copied ledger would pay again; a folder that was only moved goes on."""
    assert label(votes).exit_code == 0
    arguments = ("pate", votes, "--mechanism", "gnmax", "--sigma", 1, "--resume", "--output")
    shutil.copytree(tmp_path / "labels.jsonl.job", tmp_path / "copy.jsonl.job")
    result = run(*arguments, tmp_path / "copy.jsonl")
    assert result.exit_code == 2
    assert "copy of a job" in result.stderr
    (tmp_path / "labels.jsonl.job").rename(tmp_path / "moved.jsonl.job")
    assert run(*arguments, tmp_path / "moved.jsonl").exit_code == 0


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


def test_resealed_files_are_refused(label: Run, votes: Path, tmp_path: Path) -> None:
    """A file with a fitting checksum and other content is none of the job's; labels are held
    against the claim in the ledger.
    """
    assert label(votes).exit_code == 0
    for name, changes in RESEALED:
        path = tmp_path / "labels.jsonl.job" / name
        intact = path.read_bytes()
        _reseal(path, **changes)
        result = label(votes, "--resume")
        assert result.exit_code in (1, 2), changes
        assert "internal" not in result.stderr
        assert name in result.stderr or "were changed" in result.stderr
        path.write_bytes(intact)
    assert label(votes, "--resume").exit_code == 0


@pytest.mark.parametrize(
    "flags",
    [
        ("binary", "--sigma", 13),
        pytest.param(("stable", "--epsilon", 3.5, "--delta", 1e-6), marks=pytest.mark.slow),
        ("confident", "--sigma", 1, "--sigma-threshold", 1, "--threshold", 51),
    ],
)
def test_a_job_that_cannot_work_is_refused_before_it_is_charged(
    run: Run, votes: Path, tmp_path: Path, flags: tuple[object, ...]
) -> None:
    """Noise above half the threshold, or a unanimous label that fails every other time: refused,
    unless asked for anyway.
    """
    arguments = ("pate", votes, "--output", tmp_path / "o.csv", "--mechanism", *flags)
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "--anyway" in refused.stderr
    assert not (tmp_path / "o.csv.job").exists()
    assert run(*arguments, "--anyway").exit_code == 0


def test_a_job_that_runs_out_of_budget_says_what_it_has(
    label: Run, votes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else spends the budget meanwhile: what is charged and written is told, and that
    nothing else is.
    """
    url = _ledger(tmp_path, acc.Budget(rho=7.5 * CURVE.rho))
    select = dps.pate.GNMax.select_many

    def spend_and_select(self: dps.pate.GNMax, *arguments: object, **seeded: object) -> object:
        if seeded:  # of the outlook
            return select(self, *arguments, **seeded)  # type: ignore[arg-type]
        with acc.Ledger.open(url) as ledger:
            if len(list(ledger.entries("teachers"))) < 3:
                ledger.charge("teachers", self, count=3)
        return select(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dps.pate.GNMax, "select_many", spend_and_select)
    result = label(votes, "--ledger", url, "--dataset", "teachers", "--batch-size", 3)
    assert result.exit_code == 3
    assert "3 of 7 rounds are labeled, charged and in" in result.stderr
    assert "the other 4 were neither charged nor drawn" in result.stderr
    assert "othing was charged" not in result.stderr
    assert _labels(tmp_path / "labels.jsonl") == WINNERS[:3]


def test_a_signal_to_terminate_explains_resume(
    label: Run, votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM ends the job with status 143 and the line that an interrupt has; --resume goes on,
    and the handler is restored.
    """
    before, select = signal.getsignal(signal.SIGTERM), dps.pate.GNMax.select_many

    def end_the_process(self: dps.pate.GNMax, *arguments: object, **seeded: object) -> object:
        if seeded:  # of the outlook
            return select(self, *arguments, **seeded)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGTERM)
        return select(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dps.pate.GNMax, "select_many", end_the_process)
    result = label(votes, "--batch-size", 3)
    assert result.exit_code == 143
    assert "terminated" in result.stderr
    assert "--resume goes on" in result.stderr
    assert signal.getsignal(signal.SIGTERM) is before
    monkeypatch.undo()
    assert label(votes, "--batch-size", 3, "--resume").exit_code == 0


def test_python_labels_as_the_command_does(label: Run, votes: Path, tmp_path: Path) -> None:
    """`pate.label` takes the fields of the spec, writes the same file and states the same price."""
    asked: dict[str, Any] = {"mechanism": "gnmax", "sigma": 1.0}
    dry = dps.pate.label(votes, output=tmp_path / "python.jsonl", **asked, dry_run=True)
    assert (dry.mechanism.sigma, dry.left) == (1.0, ())
    assert "GNMax" in label(votes, "--dry-run").stdout
    assert list(tmp_path.iterdir()) == [votes]  # no folder, no labels, no charge
    found = dps.pate.label(votes, output=tmp_path / "python.jsonl", **asked)
    told = json.loads(label(votes, "--json").stdout)
    assert _labels(tmp_path / "python.jsonl") == _labels(tmp_path / "labels.jsonl") == WINNERS
    here = found.as_data()
    assert [here[name] for name in ("guarantee", "mechanism", "rounds", "risk")] == [
        told[name] for name in ("guarantee", "mechanism", "rounds", "risk")
    ]
    with pytest.raises(dps.errors.InvalidRequest, match="resume"):
        dps.pate.label(votes, output=tmp_path / "python.jsonl", **asked)


def test_each_surface_has_its_own_spelling(label: Run, votes: Path, tmp_path: Path) -> None:
    """An error names options where the command was called, and keywords where Python was: nothing
    to look up.
    """
    asked: dict[str, Any] = {
        "mechanism": "gnmax",
        "sigma": 1.0,
        "output": tmp_path / "labels.jsonl",
    }

    def told(*options: str, **keywords: Any) -> tuple[str, str]:
        with pytest.raises(acc.AccountingError) as refused:
            dps.pate.label(votes, **{**asked, **keywords})
        return " ".join(label(votes, *options).stderr.split()), str(refused.value)

    (tmp_path / "labels.jsonl").write_text("precious")
    for (command, python), words, keywords in (
        (told(), "labels.jsonl' exists", "output "),
        (told("--resume", resume=True), "starts without --resume", "starts without resume="),
    ):
        assert words in command
        assert keywords in python
        assert "--" not in python
    assert (tmp_path / "labels.jsonl").read_text() == "precious"
    (tmp_path / "labels.jsonl").unlink()
    np.save(tmp_path / "classes.npy", BALLOTS.argmax(axis=2))
    assert f"--teachers={TEACHERS}" in label(tmp_path / "classes.npy", "--labels", LABELS).stderr
    assert label(votes).exit_code == 0
    command, python = told()
    assert "continue it with --resume, which charges nothing twice" in command
    assert "continue it with resume=True, which charges nothing twice" in python
    assert "--" not in python
    with Labeling.held(tmp_path / "labels.jsonl.job", resume=True):
        command, python = told("--resume", resume=True)
    assert "then give --resume" in command
    assert "then give resume=True" in python


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("votes", {}),
        ("counts", {"teachers": 9}),
        ("classes", {"labels": 4, "teachers": 9}),
        ("sparse", {"teachers": 9}),
        ("npy", {}),
    ],
)
def test_a_dry_run_looks_at_no_vote(tmp_path: Path, form: str, asked: dict[str, Any]) -> None:
    """The shape that a file states is public, and all that a price needs: no vote, nor one that is
    malformed, changes a word.
    """

    def dry(fill: int) -> Any:
        held = np.full(
            {"counts": (9, 4), "classes": (9, 9), "sparse": (9, 4)}.get(form, (9, 9, 4)), fill
        )
        path = tmp_path / ("votes.npy" if form == "npy" else "votes.npz")
        if form == "npy":
            np.save(path, held)
        elif form == "sparse":
            scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(held))
        else:
            np.savez_compressed(path, **{"classes" if form == "classes" else "votes": held})
        about: dict[str, Any] = {
            "mechanism": "gnmax",
            "sigma": 1.0,
            "output": tmp_path / "o.csv",
            "anyway": True,
            **asked,
        }
        return dps.pate.label(path, **about, dry_run=True).as_data(), path.unlink()

    told = [dry(fill) for fill in (0, 1, 77)]
    assert told[0] == told[1] == told[2]
    assert any("No row was read" in note for note in told[0][0]["notes"])
    with pytest.raises(dps.errors.InvalidRequest, match="cannot be read"):
        dps.pate.label(
            tmp_path / "none.npz",
            mechanism="gnmax",
            sigma=1.0,
            output=tmp_path / "o.csv",
            dry_run=True,
        )


def test_a_dataset_whose_days_begin_elsewhere_pays(label: Run, votes: Path, tmp_path: Path) -> None:
    """A period is one of the dataset's own calendar, whatever its zone: the votes carry no time
    that could differ from it.
    """
    url = _ledger(tmp_path, acc.Budget(rho=100.0), window="day", time_zone="Europe/Berlin")
    paid_by = ("--ledger", url, "--dataset", "teachers", "--period", "2026-01-05")
    assert label(votes, *paid_by, "--dry-run").exit_code == 0
    result = label(votes, *paid_by)
    assert (result.exit_code, result.stderr) == (0, "")
    with acc.Ledger.open(url) as ledger:
        assert ledger.total("teachers", "2026-01-05").spent.main > 0
