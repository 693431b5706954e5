"""`dpselect demo`: the same path as `topk`, on made-up people."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpselect.cli import demo
from dpselect.cli.demo import check_ins
from dpselect.release import run as executor

SMALL = ("--users", 2000, "--items", 50, "--k", 3)


@pytest.mark.slow
def test_the_printed_command_does_the_same(run: Any, tmp_path: Path) -> None:
    """The command in the output is a topk command, runs on the log that was kept, and has the same mechanism and price."""
    shown = json.loads(run("demo", *SMALL, "--epsilon", 50, "--keep", tmp_path / "new", "--json").stdout)
    again = run(*shlex.split(shown["command"])[1:], "--json")
    assert again.exit_code == 0, again.stderr
    repeated = json.loads(again.stdout)
    assert {name: repeated[name] for name in ("mechanism", "guarantee", "curve", "domain")} == {
        name: shown[name] for name in ("mechanism", "guarantee", "curve", "domain")
    }


@pytest.mark.slow
def test_it_runs_the_path_of_topk(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release comes out of the function that topk calls."""
    assert vars(demo)["run"] is executor.run
    questions: list[executor.Question] = []

    def watched(question: executor.Question, progress: Any) -> executor.Answer:
        questions.append(question)
        return executor.run(question, progress)

    monkeypatch.setattr(demo, "run", watched)
    run("demo", *SMALL)
    assert [question.spec.k for question in questions] == [3]


@pytest.mark.slow
def test_truth_is_marked_as_synthetic(run: Any) -> None:
    """The true ranks stand beside the answer, said to be possible for made-up people only."""
    shown = " ".join(run("demo", *SMALL, "--epsilon", 50).stdout.split())
    assert "truly number 1" in shown
    assert "because these people are made up" in shown
    assert "deleted" in shown


@pytest.mark.slow
def test_large_budgets_find_the_truth(run: Any) -> None:
    """With noise of scale 3/400 the answer is the true top: the gaps of this log are above 10, so a miss has chance < e^-1000."""
    shown = json.loads(run("demo", *SMALL, "--epsilon", 400, "--json").stdout)
    assert shown["selection"]["labels"] == shown["synthetic"]["true_top"]
    assert shown["synthetic"]["true_ranks"] == [1, 2, 3]


@pytest.mark.slow
def test_the_log_is_deleted_unless_kept(run: Any, tmp_path: Path) -> None:
    """Without --keep no file remains; with it the log does, and is not written over."""
    gone = json.loads(run("demo", *SMALL, "--json").stdout)["command"]
    assert not Path(shlex.split(gone)[2]).exists()
    assert run("demo", *SMALL, "--keep", tmp_path).exit_code == 0
    before = (tmp_path / "checkins.csv").read_bytes()
    again = run("demo", *SMALL, "--keep", tmp_path)
    assert again.exit_code == 2
    assert "checkins.csv" in again.stderr
    assert (tmp_path / "checkins.csv").read_bytes() == before


def test_the_folder_must_be_one(run: Any, tmp_path: Path) -> None:
    """A --keep that is a file is refused in one line."""
    (tmp_path / "file").write_text("")
    result = run("demo", *SMALL, "--keep", tmp_path / "file")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --keep=")


@pytest.mark.parametrize("arguments", [("--users", 0), ("--items", 0), ("--k", 0), ("--delta", 0), ("--epsilon", -1)])
def test_bad_options(run: Any, arguments: tuple[object, ...]) -> None:
    """Sizes below 1 and budgets outside their domain are refused."""
    result = run("demo", *arguments)
    assert result.exit_code == 2
    assert str(arguments[0]) in result.stderr


@pytest.mark.slow
def test_one_user_and_one_place(run: Any) -> None:
    """The smallest log that can be made up is read, and shows nothing, but for a chance of delta."""
    shown = json.loads(run("demo", "--users", 1, "--items", 1, "--delta", 1e-12, "--json").stdout)
    assert shown["selection"]["labels"] == []


def test_the_ranking_counts_distinct_users(tmp_path: Path) -> None:
    """The truth that the demo shows is the ranking of the file that it wrote, counted another way."""
    made_up = check_ins(300, 20)
    made_up.write(tmp_path / "log.csv")
    with (tmp_path / "log.csv").open() as stream:
        pairs = {(row["user_id"], row["item_id"]) for row in csv.DictReader(stream)}
    names, counts = np.unique([item for _, item in pairs], return_counts=True)
    ranking = sorted(zip(-counts, names, strict=True))
    assert list(made_up.ranking())[: len(ranking)] == [name for _, name in ranking]
    assert len(pairs) < len(made_up.users)
