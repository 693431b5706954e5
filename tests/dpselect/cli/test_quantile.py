"""`dpselect quantile`: what is released, charged first, kept and refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import accounting as acc
import dpselect as dps
from dpselect.cli.out import NotShown
from dpselect.cli.quantile import quantile
from dpselect.mechanisms import Mechanism

GRID = ("--low", 0, "--high", 100, "--step", 1)


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    """Six hundred users who paid twice: all but a few 20 each time, so that the sum is 40 beyond doubt."""
    path = tmp_path / "paid.csv"
    lines = [f"u{user},{20 if user > 5 else 1}" for user in range(600) for _ in range(2)]
    path.write_text("\n".join(["who,amount", *lines]) + "\n")
    return path


def test_json_and_the_file_say_the_same_and_the_ledger_is_charged(run: Any, paid: Path, tmp_path: Path) -> None:
    """Charged once, under a key that pays for no second draw; what does not fit is not read."""
    url, kept = f"sqlite:///{tmp_path / 'l.db'}", tmp_path / "answer.json"
    acc.Ledger.open(url).create_dataset("shop", acc.Budget(epsilon=1.0), "add_remove")
    asked = ("--user", "who", "--value", "amount", "--quantiles", "0.5", *GRID)
    given = ("quantile", paid, *asked, "--ledger", url, "--dataset", "shop")
    shown = run(*given, "--epsilon", 0.4, "--key", "job", "--salt", "s", "--output", kept, "--json")
    assert shown.exit_code == 0, shown.stderr
    answer = json.loads(shown.stdout)
    assert json.loads(kept.read_text()) == answer
    assert kept.stat().st_mode & 0o077 == 0
    assert answer["quantiles"][0]["quantile"] == 0.5
    assert 15 <= answer["quantiles"][0]["value"] <= 25
    assert answer["ledger"] == {"dataset": "shop", "period": [], "key": "job", "entry": 1}
    assert answer["one_number_per_user"] == {"rule": "pick", "salt": "s"}
    assert Mechanism.from_json(json.dumps(answer["mechanism"])).curve == acc.Curve.from_json(json.dumps(answer["curve"]))
    again = run(*given, "--epsilon", 0.4, "--salt", "s", "--key", "job")
    assert again.exit_code == 1
    assert "has paid for a draw" in again.stderr
    assert "no answer of it is stored" in again.stderr
    written = kept.read_bytes()
    tried = run(*given, "--epsilon", 0.4, "--key", "job", "--output", kept, "--dry-run")
    assert "nothing more would be charged" in " ".join(tried.stdout.split())
    in_the_way = run(*given, "--epsilon", 0.4, "--key", "other", "--output", kept, "--dry-run")
    assert (in_the_way.exit_code, "is not written over" in in_the_way.stderr) == (2, True)
    retried = run(*given, "--epsilon", 0.4, "--key", "job", "--output", kept, "--json")
    assert (retried.exit_code, retried.stdout.encode(), kept.read_bytes()) == (0, written, written), retried.stderr
    other = run(*("0.9" if part == "0.5" else part for part in given), "--epsilon", 0.4, "--key", "job", "--output", kept)
    assert other.exit_code != 0
    assert "has paid for another release" in other.stderr
    kept.write_text(written.decode().replace('"entry": 1', '"entry": 2'))
    foreign = run(*given, "--epsilon", 0.4, "--key", "job", "--output", kept)
    assert foreign.exit_code != 0
    assert foreign.stdout == ""
    late = run(*given, "--epsilon", 0.7)
    assert late.exit_code == 3
    assert "Nothing was charged" in late.stderr
    spent = run(*given, "--epsilon", 0.6, "--key", "rest")
    assert spent.exit_code == 0, spent.stderr
    broke = run(*given, "--epsilon", 0.6, "--key", "rest")
    assert "has paid for a draw" in broke.stderr, "a retry is no question of budget"
    entries = acc.Ledger.open(url).total("shop").spent.main - 600_000_000_000
    assert entries == 400_000_000_000


@pytest.mark.parametrize("named", [True, False])
def test_an_answer_that_cannot_be_printed_is_not_lost(
    run: Any, paid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """It lies in the file that was asked for, or else in one of its own; with no output at all nothing is charged."""

    def full(_: object) -> None:
        raise NotShown("standard output cannot be written")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpselect.cli.out.emit", full)
    acc.Ledger.open("sqlite:///l.db").create_dataset("shop", acc.Budget(epsilon=1.0), "add_remove")
    columns = {"user": "who", "value": "amount", "quantiles": ".5", "low": 0, "high": 100, "step": 1, "epsilon": 0.5}
    given = [part for name, value in columns.items() for part in (f"--{name}", value)]
    output = ("--output", "kept.json") if named else ()
    done = run("quantile", paid, *given, "--ledger", "sqlite:///l.db", "--dataset", "shop", "--key", "k", *output)
    (kept,) = tmp_path.glob("*.json")
    assert (done.exit_code, kept.name in done.stderr, named) == (1, True, kept.name == "kept.json")
    assert json.loads(kept.read_text())["ledger"]["key"] == "k"
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(dps.errors.InvalidRequest, match="closed"):
        quantile(str(paid), **columns, ledger="sqlite:///l.db", dataset="shop")  # type: ignore[arg-type]
    assert [entry.action for entry in acc.Ledger.open("sqlite:///l.db").entries("shop")] == ["charge", "release"]


def test_without_a_column_events_are_counted(run: Any, paid: Path, tmp_path: Path) -> None:
    """Everybody paid twice; what everybody paid in all is a sum; text goes to a file too."""
    kept, usual = tmp_path / "answer.txt", ("quantile", paid, "--user", "who", "--quantiles", "0.5", "--epsilon", 2, "--low", 0)
    shown = run(*usual, "--high", 9, "--step", 1, "--output", kept)
    assert shown.exit_code == 0, shown.stderr
    assert "0.5  2" in shown.stdout
    assert "0.5  2" in kept.read_text()
    assert "0.5  40" in run(*usual, "--value", "amount", "--rule", "sum", "--high", 100, "--step", 1).stdout


def test_a_files_budget_is_not_spent_on_quantiles(run: Any, paid: Path, tmp_path: Path) -> None:
    """What a file says of the log is read; its budget, which may have a delta and be for several releases, is not taken."""
    file = tmp_path / "plan.toml"
    file.write_text('[data]\nuser = "who"\n[budget]\nepsilon = 3.0\ndelta = 1e-6\n[plan]\nreleases = 3\n')
    ask = ("quantile", paid, "--config", file, "--quantiles", ".5", *GRID)
    refused = run(*ask)
    assert (refused.exit_code, "--epsilon is missing" in refused.stderr) == (2, True)
    done = run(*ask, "--epsilon", 1, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["curve"]["epsilon"] == 1.0
