"""`topk --every`: one release for each period, charged to it, from one pass over the log; stopped
anywhere, it goes on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from shell import dpselect
from typer.testing import Result

import accounting as acc
from dpselect.app.release import series

pytestmark = pytest.mark.usefixtures("shared_database")

URL = "sqlite:///p.db"
EPSILON = "300"  # with which a wrong winner is less likely than e^-100
# On each day another place has ten visitors, and the other two; nobody comes on 4 May.
VISITS = [
    (day, user, "zoo" if user < (10 if day % 2 else 2) else "pier")
    for day in (1, 2, 3)
    for user in range(12)
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder: a log, items, and a ledger with a budget for each day."""
    monkeypatch.chdir(tmp_path)
    rows = (f"{u},{i},2024-05-0{d}T1{d}:00:00,2.5\n" for d, u, i in VISITS)
    Path("log.csv").write_text("u,i,t,v\n" + "".join(rows))
    Path("items.csv").write_text("i\nzoo\npier\npark\n")
    with acc.Ledger.open(URL) as ledger:
        ledger.create_dataset("days", acc.Budget(epsilon=500), "add_remove", window="day")


def every(more: str = "", **changed: str) -> Result:
    """Run `topk --every day` on the first four days of May, charged to the budget of each."""
    asked = {"since": "2024-05-01", "until": "2024-05-05", "dataset": "days"}
    asked |= {"output": "top-{period}.json", **changed}
    stated = (f"--{name.replace('_', '-')} {value}" for name, value in asked.items())
    return dpselect(
        f"topk log.csv --user u --item i --k 1 --epsilon {EPSILON} --domain items.csv --time t"
        f" --every day --key daily --ledger {URL} --json",
        *stated,
        more,
    )


def states(result: Result) -> list[str]:
    return [line["state"] for line in json.loads(result.stdout)["periods"]]


def winner(day: int) -> str:
    answer = json.loads(Path(f"top-2024-05-0{day}.json").read_text())
    assert answer["ledger"]["period"] == [f"2024-05-0{day}"]
    assert answer["ledger"]["key"] == f"daily:2024-05-0{day}"
    (label,) = answer["selection"]["labels"]
    return str(label)


def files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().iterdir()}


def spent() -> dict[str, int]:
    """How often each period was charged."""
    with acc.Ledger.open(URL) as ledger:
        charged = [entry.period for entry in ledger.entries("days") if entry.action == "charge"]
    return {period: charged.count(period) for period in charged}


def test_every_day_is_released_once() -> None:
    """A day's answer is of its events alone, a day without events is released like any other, and a
    second run does nothing.
    """
    first = every()
    assert (first.exit_code, first.stderr.count("\n")) == (0, 1)  # what all days add up to
    assert states(first) == ["released"] * 4
    assert [winner(day) for day in (1, 2, 3)] == ["zoo", "pier", "zoo"]
    assert winner(4) in ("zoo", "pier", "park")
    before = files()
    again = every()
    assert (again.exit_code, states(again)) == (0, ["recorded"] * 4)
    assert files() == before
    assert spent() == {f"2024-05-0{day}": 1 for day in (1, 2, 3, 4)}


def test_a_dry_run_of_a_series_writes_nothing() -> None:
    """Not even a table that was lost, and nothing on the ledger: of a series that was begun it
    prices what is left.
    """
    table, two = {"output": "top-{period}.csv"}, {"until": "2024-05-03"}
    assert every(**table, **two).exit_code == 0
    Path("top-2024-05-01.csv").unlink()
    before, done = files(), every("--dry-run", **table)
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "once all of them are charged, for a user whose rows lie in all 4 days" in said
    assert '"left": [ "2024-05-03: days, 2024-05-03: budget' in said
    nothing = every("--dry-run", **table, **two)
    assert nothing.exit_code == 2
    assert "charged already. Leave --dry-run out" in " ".join(nothing.stderr.split())
    assert files() == before


@pytest.mark.slow
def test_a_gap_stays_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a day that is released already fall to no other day; a run reads the log once,
    and not where all is done.
    """
    days = {1: ("zoo", 5), 2: ("pier", 50), 3: ("zoo", 5), 4: ("park", 5)}
    rows = [f"{u},{item},2024-05-0{day}" for day, (item, many) in days.items() for u in range(many)]
    others = ["1,pier,", "1,pier,2024-05-05", "1,pier,2024-04-30"]
    Path("log.csv").write_text("\n".join(["u,i,t", *rows, *others]))
    monkeypatch.setattr(series, "split", split := Mock(side_effect=series.split))
    assert states(every(since="2024-05-02", until="2024-05-03")) == ["released"]
    assert states(every()) == ["released", "recorded", "released", "released"]
    assert [winner(day) for day in (1, 2, 3, 4)] == ["zoo", "pier", "zoo", "park"]
    every()
    assert split.call_count == 2


def test_a_malformed_row_refuses_every_period() -> None:
    """Whatever days are asked for, and nothing is charged: were one day refused alone, whose it is
    would be told for free.
    """
    log, sums = Path("log.csv"), "--value v --value-clip 5"
    good = log.read_text()
    log.write_text(good + "9,zoo,2024-05-02T10:00:00,SECRET42\n")
    for day in (1, 2, 4):
        refused = every(sums, since=f"2024-05-0{day}", until=f"2024-05-0{day + 1}")
        assert (refused.exit_code, "SECRET" in refused.stderr) == (1, False)
        assert "not a finite number" in " ".join(refused.stderr.split())
    log.write_text(good + "1,zoo,SECRET42,1\n")
    refused = every()
    assert (refused.exit_code, "SECRET" in refused.stderr) == (1, False)
    assert "is not a time" in refused.stderr
    assert spent() == {}


def test_periods_beyond_most_in_all_are_refused_unread() -> None:
    """A dataset's `most_in_all` refuses all periods of a run at once, before the log is opened and
    before any is charged.
    """
    Path("log.csv").unlink()
    with acc.Ledger.open(URL) as ledger:
        most: Any = {"window": "day", "most_in_all": 1000}
        ledger.create_dataset("capped", acc.Budget(epsilon=500), "add_remove", **most)
        refused = every(dataset="capped")
        assert refused.exit_code == 3
        said = " ".join(refused.stderr.split())
        assert "epsilon 1200 in all, and the dataset allows at most epsilon 1000 in all" in said
        assert ledger.totals("capped") == []
