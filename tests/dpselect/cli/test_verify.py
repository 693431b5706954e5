"""`dpselect verify replay`: the reading is held against what it declares, and nobody is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import dpselect as dps
from dpselect.events import bounding

TOWNS = ("Rome", "Oslo", "Bern")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A log of users 1 to 12, of whom user n is in n % 3 + 1 towns with n % 4 + 1 items in each; and an event of nobody."""
    return written(tmp_path, "csv")


def written(folder: Path, suffix: str) -> Path:
    """That log as text or as JSON lines, where users are numbers."""
    rows = [(n, f"i{item}", town) for n in range(1, 13) for town in TOWNS[: n % 3 + 1] for item in range(n % 4 + 1)]
    path = folder / f"log.{suffix}"
    if suffix == "csv":
        path.write_text("who,where,town\n" + "".join(f"{who},{item},{town}\n" for who, item, town in [*rows, ("", "x", "Rome")]))
    else:
        path.write_text("\n".join(json.dumps(dict(zip(("who", "where", "town"), row, strict=True))) for row in rows))
    return path


def asked(run: Any, log: Path, *arguments: object) -> Any:
    """Run the replay on a log."""
    return run("verify", "replay", log, "--user", "who", "--item", "where", "--name-salt", "s", "--n-users", 3, *arguments)


@pytest.mark.parametrize(
    ("arguments", "reached"),
    [
        (("--max-items-per-user", 2), {"linf": 1, "l0": 2, "l1": 2, "groups": 0}),
        (
            ("--group", "town", "--max-groups-per-user", 2, "--max-items-per-user", 3, "--clip", 1.2),
            {"linf": 1, "l0": 3, "groups": 2},
        ),
        (("--group", "town", "--max-groups-per-user", 1, "--relation", "replace_one"), {"linf": 1, "groups": 2}),
    ],
)
def test_what_is_read_is_what_is_declared(run: Any, visits: Path, arguments: tuple[object, ...], reached: dict[str, int]) -> None:
    """Bounds of items and groups and clips hold, and the figures are reached; text and JSON say the same."""
    result = asked(run, visits, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["holds"], found["broken"], found["offender"]) == (True, [], None)
    assert {name: found[name] for name in reached} == reached
    assert all(bound is None or found[name] <= bound * (1 + 1e-9) for name, bound in found["declared"].items())


def test_the_text_says_whom_it_is_for(run: Any, tmp_path: Path) -> None:
    """Of a log of any kind: how many users were left out, what holds, and that all of it is private."""
    shown = asked(run, written(tmp_path, "jsonl"), "--max-items-per-user", 2)
    assert shown.exit_code == 0, shown.stderr
    assert "Replayed 3 users (add_remove)" in shown.stdout
    assert "The declaration holds" in shown.stdout
    assert "private" in shown.stdout


def test_a_reader_that_keeps_one_more_is_found_by_name(run: Any, visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 1, the field, and the first offender by the salted name that the data's keeper can look up."""
    kept = bounding.Bound.kept

    def more(self: bounding.Bound, *columns: str, **named: str) -> Any:
        return kept(dataclasses.replace(self, limit=self.limit + 1), *columns, **named)

    monkeypatch.setattr(bounding.Bound, "kept", more)
    result = asked(run, visits, "--max-items-per-user", 2, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["broken"] == ["l0", "l1", "l2"]
    assert found["offender"] in {dps.verify.salted_name(str(user), "s") for user in range(1, 13)}
    groups = asked(run, visits, "--group", "town", "--max-groups-per-user", 1)
    assert groups.exit_code == 1
    assert "max_groups_per_user" in groups.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--max-groups-per-user", 1), "--group: name it"),
        (("--group", "town"), "max_groups_per_user"),
        (("--domain-column", "x"), "give --domain too"),
        (("--clip-norm", "linf", "--clip", 1), "clip_norm"),
        (("--relation", "replace_one", "--n-users", 1), "at least 2"),
    ],
)
def test_wrong_questions_are_refused(run: Any, visits: Path, arguments: tuple[object, ...], words: str) -> None:
    """One line each, without data."""
    result = asked(run, visits, *arguments)
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert result.stdout == ""
