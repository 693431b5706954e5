"""`dpselect demo`: the same path as `topk`, on made-up people."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from shell import dpselect

from dpselect.app.cli.demo import check_ins

SMALL = "demo --users 2000 --items 50 --k 3"


@pytest.mark.slow
def test_the_printed_command_does_the_same(tmp_path: Path) -> None:
    """A topk command that runs on the log that was kept, at the same price. Such a log is not
    written over, any other is deleted.

    With noise of scale 3/400 the answer is the true top: the gaps are above 10, so a miss has
    chance < e^-1000.
    """
    asked = f"{SMALL} --epsilon 400 --keep {tmp_path}"
    shown = json.loads(dpselect(asked, "--json").stdout)
    assert shown["selection"]["labels"] == shown["synthetic"]["true_top"]
    assert shown["synthetic"]["true_ranks"] == [1, 2, 3]
    repeated = json.loads(dpselect(shown["command"].removeprefix("dpselect "), "--json").stdout)
    assert repeated["selection"]["labels"] == shown["selection"]["labels"]
    alike = ("mechanism", "guarantee", "curve", "domain")
    assert {name: repeated[name] for name in alike} == {name: shown[name] for name in alike}
    before = (tmp_path / "checkins.csv").read_bytes()
    again = dpselect(asked)
    assert (again.exit_code, "checkins.csv" in again.stderr) == (2, True)
    assert (tmp_path / "checkins.csv").read_bytes() == before
    gone = json.loads(dpselect(SMALL, "--json").stdout)["command"]
    assert not Path(shlex.split(gone)[2]).exists()


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
