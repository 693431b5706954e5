"""`dpselect demo`: the same path as `topk`, on made-up people."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpselect.app.cli import demo
from dpselect.app.cli.demo import check_ins
from dpselect.app.release import run as executor

SMALL = ("--users", 2000, "--items", 50, "--k", 3)


@pytest.mark.slow
def test_the_printed_command_does_the_same(run: Any, tmp_path: Path) -> None:
    """A topk command that runs on the log that was kept, at the same price. Such a log is not
    written over, any other is deleted.

    With noise of scale 3/400 the answer is the true top: the gaps are above 10, so a miss has
    chance < e^-1000.
    """
    asked = ("demo", *SMALL, "--epsilon", 400, "--keep", tmp_path)
    shown = json.loads(run(*asked, "--json").stdout)
    assert shown["selection"]["labels"] == shown["synthetic"]["true_top"]
    assert shown["synthetic"]["true_ranks"] == [1, 2, 3]
    repeated = json.loads(run(*shlex.split(shown["command"])[1:], "--json").stdout)
    assert repeated["selection"]["labels"] == shown["selection"]["labels"]
    alike = ("mechanism", "guarantee", "curve", "domain")
    assert {name: repeated[name] for name in alike} == {name: shown[name] for name in alike}
    before = (tmp_path / "checkins.csv").read_bytes()
    again = run(*asked)
    assert (again.exit_code, "checkins.csv" in again.stderr) == (2, True)
    assert (tmp_path / "checkins.csv").read_bytes() == before
    gone = json.loads(run("demo", *SMALL, "--json").stdout)["command"]
    assert not Path(shlex.split(gone)[2]).exists()


@pytest.mark.slow
def test_it_runs_the_path_of_topk(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release comes out of the function that topk calls; the smallest log shows nothing, but
    for a chance of delta.
    """
    questions: list[executor.Question] = []

    def watched(question: executor.Question, *about: Any) -> executor.Answer:
        questions.append(question)
        return executor.run(question, *about)

    assert vars(demo)["run"] is executor.run
    monkeypatch.setattr(demo, "run", watched)
    run("demo", *SMALL)
    assert [question.spec.k for question in questions] == [3]
    smallest = json.loads(
        run("demo", "--users", 1, "--items", 1, "--delta", 1e-12, "--json").stdout
    )
    assert smallest["selection"]["labels"] == []


def test_the_ranking_counts_distinct_users(tmp_path: Path) -> None:
    """The truth that the demo shows is the ranking of the file that it wrote, counted another
    way.
    """
    told = check_ins(tmp_path / "log.csv", 300, 20)
    with (tmp_path / "log.csv").open() as stream:
        rows = [(row["user_id"], row["item_id"]) for row in csv.DictReader(stream)]
    names, counts = np.unique([item for _, item in set(rows)], return_counts=True)
    ranking = sorted(zip(-counts, names, strict=True))
    assert list(told)[: len(ranking)] == [name for _, name in ranking]
    assert len(set(rows)) < len(rows)
