"""`dpselect check`: for whoever holds the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpselect import events


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("who;where\nann;007\nbob;008\ncy;\n")
    (tmp_path / "items.csv").write_text("where\n7\n8\n")
    return tmp_path / "log.csv"


@pytest.mark.slow
def test_the_command_says_it_in_words_and_in_json(run: Any, log: Path) -> None:
    """Marked private, with the options of topk; no file is made."""
    before = set(log.parent.iterdir())
    asked = ("check", log, "--user", "who", "--item", "where", "--domain", "items.csv")
    said = run(*asked).stdout
    assert said.startswith("PRIVATE.")
    for words in ("split at ';'", "0 of 2 listed items occur", "1 without item", "zeros in front"):
        assert words in " ".join(said.split())
    held = json.loads(run(*asked, "--json").stdout)
    assert held["private"] is True
    assert (held["users"], held["catalog"]["occurring"], held["how"]) == (
        2,
        0,
        "fields split at ';', with a header line",
    )
    assert set(log.parent.iterdir()) == before
    assert events.read(log, user="who", item="where").report.rows == held["rows"]


def test_the_command_spells_remedies_as_options(run: Any, tmp_path: Path) -> None:
    """What to state is an option, not a keyword; a log with groups and several columns is checked
    as topk reads it.
    """
    (tmp_path / "log.csv").write_text("who,a,b,g\nann,x,NULL,NULL\nbob,x,y,w\n")
    said = run(
        "check", tmp_path / "log.csv", "--user", "who", "--item", "a,b", "--group", "g"
    ).stdout
    assert "--missing='NULL'" in said
    assert "in 2 groups" in said
