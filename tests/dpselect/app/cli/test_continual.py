"""`dpselect continual`: start, close, show, and a whole log in one run."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from spread import spread
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from accounting.errors import OutputError
from dpselect.app.cli import app
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.continual.state import State
from dpselect.app.release import answer, series
from dpselect.app.release.answer import UNRECORDED, AnswerFile, Unrecorded, warn_unrecorded
from dpselect.errors import HorizonError, HorizonUnavailable, InvalidRequest

HORIZON = ["--k", "2", "--epsilon", "4", "--delta", "1e-6", "--count", "running"]
WHEN = ["--time", "at", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-04"]
COLUMNS = ["--user", "who", "--item", "where"]


@pytest.fixture
def paid(tmp_path: Path) -> list[str]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    acc.Ledger.open(url).create_dataset("visits", acc.Budget(epsilon=8.0, delta=1e-5), "add_remove")
    for day in (1, 2, 3):
        rows = "".join(f"{day * 1000 + n},place{day},2024-07-0{day}\n" for n in range(300))
        (tmp_path / f"{day}.csv").write_text("who,where,at\n" + rows)
    (tmp_path / "all.csv").write_text(
        "who,where,at\n"
        + "".join((tmp_path / f"{day}.csv").read_text().split("\n", 1)[1] for day in (1, 2, 3))
    )
    return [
        "--ledger",
        url,
        "--dataset",
        "visits",
        "--key",
        "july",
        "--state",
        str(tmp_path / "state"),
    ]


def told(*arguments: str, status: int = 0) -> Any:
    result = CliRunner().invoke(app, ["continual", *arguments])
    assert result.exit_code == status, result.output
    return (
        json.loads(result.stdout)
        if "--json" in arguments and status in (0, EXPLAINED)
        else result.output
    )


@pytest.mark.slow
def test_a_horizon_from_its_start_to_another_ledger(paid: list[str], tmp_path: Path) -> None:
    """`start` charges once; `close` releases, and again the same; on a restored ledger `recharge`
    charges what was released; the functions of `dpselect.continual` take the same options and go on
    with it.
    """
    started = told("start", *paid, *HORIZON, "--periods", "3", "--json")
    assert started["horizon"] == {"key": "july", "state": paid[-1], "periods": 3, "periods_left": 3}
    first = told("close", "1", str(tmp_path / "1.csv"), *paid, *COLUMNS, "--json")
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert (
        min(
            point["epsilon"]
            for point in first["guarantee"]["points"]
            if point["epsilon"] is not None
        )
        <= 4.0
    )
    assert told("close", "1", str(tmp_path / "1.csv"), *paid, *COLUMNS, "--json") == first
    (tmp_path / "ledger.db").unlink()
    acc.Ledger.open(paid[1]).create_dataset(
        "visits", acc.Budget(epsilon=8.0, delta=1e-5), "add_remove"
    )
    assert "continual recharge" in told("show", *paid, status=4)
    assert (
        told("recharge", *paid, "--json")["released"][0]["selection"]
        == first["released"][0]["selection"]
    )
    assert acc.Ledger.open(paid[1]).total("visits").spent.main > 0
    kept: Any = dict(zip(("ledger", "dataset", "key", "state"), paid[1::2], strict=True))
    with acc.Ledger.open(paid[1]) as ledger:
        asked: Any = {**kept, "ledger": ledger, "user": "who", "item": "where"}
        assert (
            dps.continual.close(
                2, pd.read_csv(tmp_path / "2.csv", dtype=str), **asked, dry_run=True
            ).paid
            is not None
        )
        found = dps.continual.close(2, pd.read_csv(tmp_path / "2.csv", dtype=str), **asked)
    assert (set(found.items), found.periods_left) == ({"place1", "place2"}, 1)
    assert (
        told("show", *paid, "--json", "--output", str(tmp_path / "a.json"))["released"][1:]
        == found.as_data()["released"]
    )
    assert (
        told("show", *paid, "--json", "--output", str(tmp_path / "a.json"))["released"][1:]
        == found.as_data()["released"]
    )
    assert [one["period"] for one in json.loads((tmp_path / "a.json").read_text())["released"]] == [
        1,
        2,
    ]
    kept["output"] = tmp_path / "shown.csv"
    assert dps.continual.show(**kept).items[0] == "place1"
    assert kept["output"].read_text().startswith("period,rank,item")
    assert dps.continual.show(**kept).items[0] == "place1"


@pytest.mark.parametrize("changed", ["erased", "late"])
def test_a_log_that_changed_goes_on(paid: list[str], tmp_path: Path, changed: str) -> None:
    """A log that grows, of which somebody was erased or a row of a closed day came late: what was
    released stays, the next day is released from its own events, and the late row is in none; other
    rows are another question. The ledger notes who asked.
    """
    rows = [f"{n},place{day},2024-07-0{day}\n" for day in (1, 2, 3) for n in range(300)]
    kept = {
        "erased": [row for row in rows if not row.startswith("7,")],
        "late": [*rows, "999,place1,2024-07-01\n"],
    }[changed]
    (tmp_path / "before.csv").write_text("who,where,at\n" + "".join(rows))
    (tmp_path / "after.csv").write_text(
        "who,where,at\n" + "".join([*kept, *(f"{n},place4,2024-07-04\n" for n in range(400))])
    )
    asked = [*paid, *HORIZON, *COLUMNS, *WHEN[:-1], "2024-07-05", "--json"]
    begun = [
        "run",
        str(tmp_path / "before.csv"),
        *paid,
        *HORIZON,
        *COLUMNS,
        *WHEN,
        "--periods",
        "4",
        "--json",
    ]
    first = told(*begun, "--team", "maps", "--purpose", "weekly", "--actor", "ada")["released"]
    whole = next(
        entry for entry in acc.Ledger.open(paid[1]).entries("visits") if entry.curve is not None
    )
    assert (whole.team, whole.purpose, whole.actor) == ("maps", "weekly", "ada")
    assert [one["name"] for one in first] == ["2024-07-01", "2024-07-02", "2024-07-03"]
    for name in ("after.csv", "before.csv", "gone.csv"):
        again = told("run", str(tmp_path / name), *asked)["released"]
        assert ([one["name"] for one in again[3:]], again[:3]) == (["2024-07-04"], first)
        assert "place4" in again[3]["selection"]["labels"]
    assert "was another then" in told(*begun, "--where", "where = place1", status=2)


@pytest.mark.parametrize("named", [True, False])
def test_one_command_serves_every_night(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """--until is the end of the whole series: each night the same call closes what has ended by
    then and answers the rest from the state, under a stated key or a made one; --up-to takes the
    place of the clock, and closes nothing again.
    """
    monkeypatch.chdir(tmp_path)
    paid = paid if named else paid[:4]
    asked = ["run", "all.csv", *paid, *HORIZON, *COLUMNS, *WHEN[:-1], "2024-07-31", "--json"]
    nights, shown = [datetime(2024, 7, day, 3, tzinfo=UTC) for day in (2, 2, 4, 5)], list[Any]()
    for night in nights:
        monkeypatch.setattr(
            "dpselect.app.events.time_window.datetime",
            type("Clock", (datetime,), {"now": lambda _, night=night: night}),
        )
        shown.append(told(*asked))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    for day in ("2024-07-02", "2024-07-05"):
        shown.append(told(*asked, "--up-to", day))
    released = [one["released"] for one in shown]
    assert [len(one) for one in released] == [1, 1, 3, 4, 4, 4]
    assert all(one == released[3][: len(one)] for one in released)
    assert [one["name"] for one in released[3]] == [f"2024-07-0{day}" for day in (1, 2, 3, 4)]
    assert {one["horizon"]["key"] for one in shown} == {shown[0]["horizon"]["key"]}
    assert shown[3]["horizon"]["periods_left"] == 26
    before = set(tmp_path.iterdir())
    early = told(*asked, "--exponent", "1", "--up-to", "2024-07-01T12:00", status=2)
    assert (
        "no period has ended by --up-to, which is now unless it is stated: the first ends at"
        " 2024-07-02" in early
    )
    assert set(tmp_path.iterdir()) == before


def test_a_series_of_stated_length_takes_an_end_that_moves(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --periods the same state goes on when --until moves, by its made name too; without,
    --until is the end of the series, and another one is told by its name, with what to do and no
    setting of the mechanism.
    """
    monkeypatch.chdir(tmp_path)
    run = ["run", "all.csv", *HORIZON, *COLUMNS, *WHEN[:-1]]
    for more in (paid, paid[:4]):
        first, second = (
            told(*run, end, *more, "--periods", "9", "--json")
            for end in ("2024-07-03", "2024-07-04")
        )
        assert (first["horizon"]["key"], first["released"]) == (
            second["horizon"]["key"],
            second["released"][:2],
        )
        assert second["horizon"]["periods_left"] == 6
    said = told(*run, "2024-07-04", *paid, status=4)
    assert "it was opened with --periods=9, and --periods=3 is asked for now. Ask as then" in said
    assert "Keep --until at the end of the whole series, and state --up-to for how far" in said
    assert "scale" not in said


@pytest.mark.parametrize("suffix", spread([".csv", ".html", ".json"], 1))
def test_outputs_are_renewed_in_their_place(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The same call renews the table or page that it has written before, and its readers stay; what
    is stopped between the two files is completed; what somebody else has written is in the way
    before anything is read.
    """
    out = tmp_path / f"top{suffix}"
    asked = [
        "run",
        str(tmp_path / "all.csv"),
        *paid,
        *HORIZON,
        *COLUMNS,
        *WHEN,
        "--output",
        str(out),
        "--up-to",
    ]
    told(*asked, "2024-07-02")
    first = out.read_bytes()
    out.chmod(0o644)
    written = answer._write
    if suffix != ".json":
        with monkeypatch.context() as patch:
            stopped = Mock(side_effect=[None, OutputError("stopped")])
            patch.setattr(
                answer,
                "_write",
                lambda path, content, over: (stopped(), written(path, content, over=over)),
            )
            assert "stopped" in told(*asked, "2024-07-03", status=1)
        assert out.read_bytes() == first
    for day in ("03", "04", "04"):
        told(*asked, f"2024-07-{day}")
    assert b"2024-07-03" in out.read_bytes()
    assert out.read_bytes() != first
    assert out.stat().st_mode & 0o777 == 0o644
    renewed = out.read_bytes()
    out.write_bytes(renewed.replace(b"2024-07-03", b"2024-07-99"))
    (tmp_path / "all.csv").unlink()
    assert "exists and is not overwritten" in told(*asked, "2024-07-04", status=2)
    out.write_bytes(renewed)
    told(*asked, "2024-07-04")


def test_of_two_runs_at_once_the_output_and_its_record_are_of_one(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is overtaken by one of the same state that releases more: the output keeps all of it,
    and later runs renew it. Output and record are written under the state's lock. An older copy of
    the state does not go on with the output.
    """
    out, state = tmp_path / "top.csv", tmp_path / "state"
    run = ["run", str(tmp_path / "all.csv"), *paid[-2:], *HORIZON, *COLUMNS, *WHEN]
    asked = [*run, "--output", str(out), "--up-to"]
    told(*asked, "2024-07-02")
    older = state.read_bytes()
    written, renewed, locked = series.KeptHorizon.written, AnswerFile.renew, []
    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(series.KeptHorizon, "written", written)
        told(*asked, "2024-07-04")
        return written(*given)

    def renewing(*given: Any) -> None:
        other = [sys.executable, "-c", code, str(state)]
        locked.append(subprocess.run(other, capture_output=True, check=False).returncode)
        renewed(*given)

    monkeypatch.setattr(series.KeptHorizon, "written", overtaken)
    monkeypatch.setattr(AnswerFile, "renew", renewing)
    told(*asked, "2024-07-03")
    assert b"2024-07-03" in out.read_bytes()
    told(*asked, "2024-07-04")
    assert locked == [1, 1]
    state.write_bytes(older)
    assert "exists and is not overwritten" in told(*asked, "2024-07-02", status=2)


def test_a_page_has_a_title_that_may_change(paid: list[str], tmp_path: Path) -> None:
    """--title heads the page, and another one renews it; without a page it is refused."""
    out = tmp_path / "top.html"
    run = ["run", str(tmp_path / "all.csv"), *paid, *HORIZON, *COLUMNS, *WHEN, "--output"]
    for title in ("Visits <1>", "Visits"):
        told(*run, str(out), "--title", title)
        assert f"<h1><bdi>{title.replace('<1>', '&lt;1&gt;')}</bdi></h1>" in out.read_text()
    said = told(*run, str(tmp_path / "top.csv"), "--title", "x", status=2)
    assert "--title is that of a page. Name an --output that ends in .html" in said


def test_a_link_to_an_output_stays_a_link(paid: list[str], tmp_path: Path) -> None:
    """An output that was moved to a web server's folder, with a link in its place: the file there
    is renewed as a whole, with its own permissions, and the link stays.
    """
    out, page = tmp_path / "top.csv", tmp_path / "www" / "page.csv"
    run = ["run", str(tmp_path / "all.csv"), *paid, *HORIZON, *COLUMNS, *WHEN]
    asked = [*run, "--output", str(out), "--up-to"]
    told(*asked, "2024-07-02")
    page.parent.mkdir()
    out.rename(page)
    page.chmod(0o644)
    out.symlink_to(Path("www") / "page.csv")
    told(*asked, "2024-07-03")
    assert out.is_symlink()
    assert b"2024-07-02" in page.read_bytes()
    assert page.stat().st_mode & 0o777 == 0o644
    assert list(page.parent.iterdir()) == [page]


def test_a_series_is_charged_to_the_quarter_that_it_lies_in(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a dataset with a budget for each quarter the range of the series says which one pays, once
    for all of it; the next quarter has a budget of its own. A series over two quarters, or by
    another clock, is refused before anything is charged; what was opened is shown, and charged
    again on a restored ledger, without naming the quarter.
    """
    monkeypatch.chdir(tmp_path)
    rows = [f"{n},place{n % 2},2024-{month}-30" for month in ("06", "09") for n in range(300)]
    (tmp_path / "two.csv").write_text("who,where,at\n" + "\n".join(rows) + "\n")
    ledger = acc.Ledger.open(paid[1])
    budget = acc.Budget(epsilon=4.0, delta=1e-5)
    ledger.create_dataset("plays", budget, "add_remove", window="quarter", time_zone="Asia/Tokyo")
    backup = (tmp_path / "ledger.db").read_bytes()
    pays = [*paid[:2], "--dataset", "plays"]
    clock = ["--time-zone", "Asia/Tokyo"]
    asked = ["run", "two.csv", *pays, *HORIZON, *COLUMNS, "--time", "at", "--every", "day"]
    ends = {"2024-Q2": ("2024-06-29", "2024-07-01"), "2024-Q3": ("2024-09-30", "2024-10-01")}
    for since, until, zone, words in (
        ("2024-06-30", "2024-07-02", clock, "2024-Q2 to 2024-Q3. State --since and --until within"),
        (*ends["2024-Q2"], [], "must be 'Asia/Tokyo', in which the quarters"),
    ):
        said = told(*asked, "--since", since, "--until", until, *zone, status=2 if zone else 1)
        assert words in said
    assert ledger.totals("plays") == []
    for quarter, (since, until) in ends.items():
        run = [*asked, "--since", since, "--until", until, *clock, "--state", quarter]
        run += ["--key", quarter, "--json"]
        first, again = (told(*run, *more) for more in (["--up-to", until], []))
        assert first["released"] == again["released"]
        assert first["budget"].startswith(f"plays, {quarter}: ")
    spent = {left.account: left.spent for left in ledger.totals("plays")}
    assert list(spent) == list(ends)
    assert all(price.main > 0 for price in spent.values())
    (tmp_path / "ledger.db").write_bytes(backup)
    held = [*pays, "--key", "2024-Q2", "--state", "2024-Q2", "--json"]
    for command in ("recharge", "show"):
        assert len(told(command, *held)["released"]) == 2
    assert {left.account: left.spent for left in ledger.totals("plays")} == {
        "2024-Q2": spent["2024-Q2"]
    }


def test_a_dry_run_says_which_key_and_state_are_meant(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are made of the log's name and the question, before anything is made; the run then
    has them.
    """
    monkeypatch.chdir(tmp_path)
    asked = ["run", "all.csv", *HORIZON, *COLUMNS, *WHEN]
    meant = told(*asked, "--dry-run", "--json")["horizon"]
    assert "key " + meant["key"] in " ".join(told(*asked, "--dry-run").split())
    assert not (tmp_path / meant["state"]).exists()
    done = told(*asked, "--json")["horizon"]
    assert {name: done[name] for name in meant} == meant


def test_a_run_without_a_ledger_is_named_by_its_log_and_question(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same question goes on with its state, by any spelling of the log's name; another
    question, or a key, has its own; and nothing is recorded, which is said. With a ledger the made
    name is the key of the charge.
    """
    monkeypatch.chdir(tmp_path)
    asked = [*HORIZON, *COLUMNS, *WHEN]
    first = told("run", "all.csv", *asked, "--json")
    assert re.fullmatch(r"all-[0-9a-f]{16}", first["horizon"]["key"])
    assert first["horizon"]["state"] == f"{first['horizon']['key']}.state"
    assert (first["budget"], first["notes"]) == (None, [UNRECORDED])
    again = told("run", "./all.csv", *asked, "--memory-limit", "1GiB", "--json")
    assert (again["horizon"], again["released"]) == (first["horizon"], first["released"])
    text = " ".join(told("run", "all.csv", *asked).split())
    assert first["horizon"]["state"] in text
    assert "is not recorded in a ledger" in text
    seen = {first["horizon"]["state"]}
    for more in (
        ["--k", "1"],
        ["--epsilon", "3"],
        ["--where", "where != zoo"],
        ["--periods", "5"],
        paid[:4],
        paid[:6],
    ):
        at = asked.index(more[0]) if more[0] in asked else len(asked)
        state = told("run", "all.csv", *asked[:at], *more, *asked[at + 2 :], "--json")["horizon"][
            "state"
        ]
        assert state not in seen
        seen.add(state)
    assert {key.split("-")[0] for action, key in _entries(paid) if action == "reserve"} == {
        "all",
        "july",
    }
    assert "--key is theirs" in " ".join(
        told("run", "all.csv", *asked, "--key", "july", status=2).split()
    )
    settings: Any = {
        "user": "who",
        "item": "where",
        "k": 2,
        "epsilon": 4.0,
        "delta": 1e-6,
        "time": "at",
        "every": "day",
    }
    settings |= {"since": "2024-07-01", "until": "2024-07-04"}
    table = pd.read_csv("all.csv")
    for log in (table, "-"):
        with pytest.raises(InvalidRequest, match="state= is missing: a log that is no file"):
            dps.continual.run(log, **settings)
    stated: dict[str, Any] = settings | {"state": "table.state"}
    once, again = (dps.continual.run(table, **stated).to_pandas() for _ in range(2))
    assert once.equals(again)
    with pytest.raises(dps.errors.HorizonError, match="it is not that of key="):
        # another question of the same state
        dps.continual.run(table, **stated | {"where": "where != zoo"})
    held: dict[str, Any] = stated | {"ledger": paid[1], "dataset": paid[3]}
    with pytest.raises(InvalidRequest, match="key= is missing: a log that is no file"):
        dps.continual.run(table, **held)
    warn_unrecorded.cache_clear()
    with pytest.warns(Unrecorded, match="is not recorded"):
        assert (
            dps.continual.run("all.csv", **settings, count="running").key == first["horizon"]["key"]
        )


def test_a_log_of_another_name_has_a_state_of_its_own(
    tmp_path: Path, paid: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it begins alike and is asked the same; a name that no file can have becomes one."""
    monkeypatch.chdir(tmp_path)
    asked, keys = [*HORIZON, *COLUMNS, *WHEN, "--json"], list[str]()
    for name in ("all.csv", "all.tsv", "-- a&b .csv"):
        (tmp_path / name).write_text((tmp_path / "all.csv").read_text())
        keys.append(told("run", *asked, "--delimiter", ",", "--", name)["horizon"]["key"])
    assert [key.rpartition("-")[0] for key in keys] == ["all", "all", "a-b"]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("ledger", [True, False])
def test_each_nights_log_may_have_a_name_of_its_own(
    paid: list[str], tmp_path: Path, ledger: bool
) -> None:
    """Under a stated state, and a stated key on a ledger, the output is renewed from the next log,
    and a closed period is answered as before.
    """
    out, paid = tmp_path / "top.csv", paid if ledger else paid[-2:]
    asked = [*paid, *HORIZON, *COLUMNS, *WHEN, "--json", "--output", str(out), "--up-to"]
    first = told("run", str(tmp_path / "1.csv"), *asked, "2024-07-02")
    second = told("run", str(tmp_path / "all.csv"), *asked, "2024-07-03")
    assert first["horizon"]["key"] == second["horizon"]["key"]
    assert second["released"][:1] == first["released"]
    assert "2024-07-02" in out.read_text()
    kept = json.loads((tmp_path / "top.csv.json").read_text())
    assert (kept["released"], kept["question"]) == (second["released"], second["question"])


def test_a_state_is_of_one_ledger_or_of_none(paid: list[str], tmp_path: Path) -> None:
    """What a ledger was charged for is not gone on with without it, and the other way round."""
    log, asked = str(tmp_path / "all.csv"), [*HORIZON, *COLUMNS, *WHEN]
    told("run", log, *asked, *paid)
    assert "it is not that of" in told("run", log, *asked, *paid[-2:], status=4)
    other = str(tmp_path / "other")
    told("run", log, *asked, "--state", other)
    assert "it is not that of --key='new' of" in told(
        "run", log, *asked, *paid[:4], "--key", "new", "--state", other, status=4
    )


@pytest.fixture
def cities(paid: list[str], tmp_path: Path) -> list[str]:
    """A log in which everybody comes on each of three days: 300 users of x in de, 200 of y and 50
    of z in fr.
    """
    people = [("de", "x")] * 300 + [("fr", "y")] * 200 + [("fr", "z")] * 50
    rows = [
        f"{n},{city},{item},2024-07-0{day}\n"
        for day in (1, 2, 3)
        for n, (city, item) in enumerate(people)
    ]
    (tmp_path / "cities.csv").write_text("who,city,where,at\n" + "".join(rows))
    return [
        "run",
        str(tmp_path / "cities.csv"),
        *paid,
        *HORIZON[:6],
        *COLUMNS,
        *WHEN,
        "--group",
        "city",
    ]


@pytest.mark.slow
def test_a_number_without_a_unit_is_called_a_score(cities: list[str], tmp_path: Path) -> None:
    """Without --with-counts weights fall, and text, table and JSON say score; Parquet has the table
    of JSON.
    """
    text = told(*cities)
    assert "score" in text
    assert "do not estimate a number of users" in text
    shown = told(*cities, "--json", "--output", str(tmp_path / "table.parquet"))
    assert pd.read_parquet(tmp_path / "table.parquet").to_dict("records") == shown["table"]
    assert set(shown["table"][0]) == {"period", "city", "rank", "item", "score"}
    assert "--with-counts" in told(*cities, "--items-per-period", "2", status=2)


@pytest.mark.slow
def test_an_end_inside_a_period_is_refused_or_asked_for(paid: list[str], tmp_path: Path) -> None:
    """--until in the middle of a week names the two nearest ends; --partial-last cuts the last week
    short there.
    """
    week = ["--time", "at", "--every", "week", "--since", "2024-07-01", "--until", "2024-07-04"]
    asked = ["run", str(tmp_path / "all.csv"), *paid, *HORIZON, *COLUMNS, *week, "--json"]
    said = told(*asked, status=1)
    assert "the nearest are 2024-07-01 and 2024-07-08" in said
    assert [one["name"] for one in told(*asked, "--partial-last")["released"]] == ["2024-W27"]


@pytest.mark.parametrize("suffix", spread([".json", ".csv", ".parquet"], 2))
def test_the_same_call_gives_the_answer_that_its_output_holds(
    paid: list[str], tmp_path: Path, suffix: str
) -> None:
    """`start`, `close` and `run` with the output that answers them: the kept answer, and no event
    is read. Another question, a file that was edited or a stranger's is in the way, before anything
    is read; a table that is lost is made up for.
    """
    out, other, log = tmp_path / f"a{suffix}", tmp_path / "b.json", tmp_path / "1.csv"
    started = told("start", *paid, *HORIZON, "--periods", "3", "--json", "--output", str(other))
    assert (
        told("start", *paid, *HORIZON, "--periods", "3", "--json", "--output", str(other))
        == started
    )
    asked = ["close", "1", str(log), *paid, *COLUMNS, "--json", "--output", str(out)]
    first, whole = told(*asked), {path: path.read_bytes() for path in tmp_path.glob("a.*")}
    assert len(whole) == (1 if suffix == ".json" else 2)
    log.rename(tmp_path / "moved.csv")
    assert told(*asked) == first
    if suffix != ".json":
        out.unlink()
        assert told(*asked) == first
    assert set(tmp_path.glob("a.*")) == set(whole)
    for another in ([*asked, "--where", "at = 2024-07-01"], [*asked[:-1], str(other)]):
        assert "exists and is not overwritten" in told(*another, status=2)
    assert told(*asked, "--memory-limit", "1GiB", "--actor", "ada") == first
    record = out if suffix == ".json" else out.with_name(f"{out.name}.json")
    record.write_text(record.read_text().replace("place1", "place9"))
    assert "exists and is not overwritten" in told(*asked, status=2)
    (tmp_path / "moved.csv").rename(log)
    whole_log = [
        "run",
        str(tmp_path / "all.csv"),
        *paid[:-3],
        "all",
        "--state",
        str(tmp_path / "all"),
        *HORIZON,
        *COLUMNS,
        *WHEN,
    ]
    ran = told(*whole_log, "--json", "--output", str(tmp_path / f"c{suffix}"))
    (tmp_path / "all.csv").unlink()
    assert told(*whole_log, "--json", "--output", str(tmp_path / f"c{suffix}")) == ran
    assert "exists and" in told(
        *whole_log, "--partial-last", "--output", str(tmp_path / f"c{suffix}"), status=2
    )


class _Closed:
    """A standard output that cannot be written."""

    def write(self, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    flush = isatty = fileno = write


def test_an_answer_that_cannot_be_printed_lies_somewhere(
    paid: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The error names its file; without one, the state, which prints it again for nothing."""
    told("start", *paid, *HORIZON, "--periods", "3")
    for more, words in (
        (["--output", str(tmp_path / "a.csv")], f"the answer lies in '{tmp_path / 'a.csv'}'"),
        ([], f"is kept in --state={paid[-1]!r}, and the same call prints it"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", _Closed())
            with pytest.raises(SystemExit):
                app(["continual", "close", "1", str(tmp_path / "1.csv"), *paid, *COLUMNS, *more])
        assert words in capfd.readouterr().err
    assert "place1" in (tmp_path / "a.csv").read_text()


def test_a_state_that_is_in_use_or_has_no_room_is_not_lost(
    paid: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 1: the same call again goes on. Status 4 says that the state is missing, damaged,
    another one's or too old.
    """
    told("start", *paid, *HORIZON, "--periods", "3")
    run = State._run
    for raised in (HorizonUnavailable("another process uses it"), HorizonError("it is damaged")):
        with monkeypatch.context() as patch:
            patch.setattr(State, "_run", Mock(side_effect=raised))
            told(
                "close",
                "1",
                str(tmp_path / "1.csv"),
                *paid,
                *COLUMNS,
                status=1 if type(raised) is HorizonUnavailable else 4,
            )
    assert State._run is run
    assert "place1" in told("close", "1", str(tmp_path / "1.csv"), *paid, *COLUMNS)


@pytest.mark.parametrize("suffix", spread([".csv", ".parquet", ".jsonl"], 2))
def test_a_file_without_an_event_closes_a_period(
    paid: list[str], tmp_path: Path, suffix: str
) -> None:
    """A header alone, a table without a row, no line at all: nobody came, and that is released like
    any other period.
    """
    told("start", *paid, *HORIZON, "--periods", "3")
    nobody = tmp_path / f"nobody{suffix}"
    nobody.write_text("who,where,at\n" if suffix == ".csv" else "")
    if suffix == ".parquet":
        pd.DataFrame({"who": [], "where": []}, dtype=object).to_parquet(nobody)
    first = told("close", "1", str(nobody), *paid, *COLUMNS, "--json", status=EXPLAINED)
    assert first["released"][0]["selection"]["labels"] == []
    assert "place1" in told("close", "2", str(tmp_path / "1.csv"), *paid, *COLUMNS)
    assert "place1" in told("close", "3", str(nobody), *paid, *COLUMNS)


def test_a_horizon_may_have_thousands_of_periods(paid: list[str], tmp_path: Path) -> None:
    """As many days as a horizon takes; one more is refused."""
    asked = [
        "run",
        str(tmp_path / "all.csv"),
        *paid,
        *HORIZON,
        *COLUMNS,
        "--time",
        "at",
        "--every",
        "day",
        "--dry-run",
    ]
    for end, status in (("2026-06-16", 0), ("2026-06-17", 1)):
        said = told(*asked, "--since", "2015-07-04", "--until", end, status=status)
    assert "more than 4000 periods" in said


def _with(text: str) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        (folder / "with.csv").write_text((folder / "all.csv").read_text() + text)
        return "with.csv"

    return made


def _cut_gzip(folder: Path) -> str:
    (folder / "cut.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes())[:-20])
    return "cut.csv.gz"


# What is wrong with a log: a file, or other words of the command.
FAULTS: dict[str, Callable[[Path], str] | list[str]] = {
    "wrong user column": ["--user", "nobody"],
    "unknown catalog": ["--domain", "nothing.csv"],
    "no period's end": ["--until", "2024-07-03T12:00"],
    "too few periods": ["--periods", "2"],
    "missing file": lambda _: "missing.csv",
    "unreadable time late in the log": _with("7,place1,yesterday\n"),
    "an open quote": _with('7,"place1,2024-07-01\n'),
    "truncated gzip": _cut_gzip,
    "no folder for the state": ["--state", "no/folder/state"],
}


@pytest.mark.parametrize("fault", spread(list(FAULTS), 2))
def test_nothing_is_paid_for_a_log_that_fails(paid: list[str], tmp_path: Path, fault: str) -> None:
    """Whatever is wrong with the log or its description: an error, no charge, no reservation, no
    state.
    """
    wrong = FAULTS[fault]
    log = "all.csv" if isinstance(wrong, list) else wrong(tmp_path)
    whole = ["continual", "run", *paid, *HORIZON, *COLUMNS, *WHEN]
    result = CliRunner().invoke(
        app, [*whole, str(tmp_path / log), *(wrong if isinstance(wrong, list) else [])]
    )
    assert isinstance(result.exception, SystemExit), result.output
    assert result.exit_code != 70
    assert (_entries(paid), (tmp_path / "state").exists()) == ([], False)
    if fault == "missing file":
        assert CliRunner().invoke(app, [*whole, str(tmp_path / "all.csv")]).exit_code == 0


def test_a_start_that_fails_reserves_nothing(paid: list[str], tmp_path: Path) -> None:
    """No reservation, no state; the right command works afterwards; what is missing is named."""
    asked = ["start", *paid, *HORIZON, "--periods", "3"]
    for option, value in (
        ("--state", "no/folder/state"),
        ("--k", "0"),
        ("--epsilon", "0"),
        ("--domain", "nothing.csv"),
        ("--dataset", "x"),
        ("--key", ""),
    ):
        assert isinstance(
            CliRunner().invoke(app, ["continual", *asked, option, value]).exception, SystemExit
        )
    assert (_entries(paid), (tmp_path / "state").exists()) == ([], False)
    assert "start the horizon first" in told("show", *paid, status=4)
    assert told(*asked, "--json")["horizon"]["periods_left"] == 3


MADE_UP = ["--shape", "zipf:1", "--items", "50", "--users", "500", "--items-per-user", "3"]
PLAN = [
    "plan",
    "--k",
    "5",
    "--periods",
    "3",
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
    "--unknown-domain",
]


def test_a_plan(tmp_path: Path) -> None:
    """Text says what each period should find; JSON has a mechanism that can be opened; a log must
    be public.
    """
    text = CliRunner().invoke(app, [*PLAN, *MADE_UP, "--count", "window", "--window", "2"]).output
    for part in (
        "3 periods of one budget, the top 5 of each",
        "ContinualTopK with gaussian noise",
        "epsilon 1 at delta 1e-6",
    ):
        assert part in text
    (tmp_path / "log.csv").write_text("u,i\n" + "".join(f"{n},{n % 7}\n" for n in range(400)))
    log = ["--shape", str(tmp_path / "log.csv"), "--user", "u", "--item", "i"]
    told = json.loads(CliRunner().invoke(app, [*PLAN, *log, "--public", "--json"]).output)
    assert len(told["by_period"]) == 3
    assert dps.Mechanism.from_json(json.dumps(told["mechanism"])).curve.delta(1.0) <= 1e-6
    assert "--public" in CliRunner().invoke(app, [*PLAN, *log]).output


@pytest.mark.slow
def test_a_horizon_is_stated_by_a_file(paid: list[str], tmp_path: Path) -> None:
    """Tables say what options say, [continual] what is a horizon's own; a dry run of it charges
    nothing and makes no state.
    """
    toml, log = tmp_path / "july.toml", tmp_path / "all.csv"
    log.write_text(log.read_text().replace(",", ";").replace("place1", "PLACE1"))
    times = 'time = "at"\nsince = "2024-07-01"\nuntil = "2024-07-04"\n'
    toml.write_text(
        f'[data]\nuser = "who"\nitem = "where"\ndelimiter = ";"\nnormalize = ["casefold"]\n{times}'
        f'[ledger]\nurl = "{paid[1]}"\ndataset = "visits"\nkey = "july"\n'
        "[release]\nk = 2\n[budget]\nepsilon = 4.0\ndelta = 1e-6\n"
        f'[continual]\nstate = "{paid[-1]}"\nevery = "day"\ncount = "running"\n'
    )
    assert "epsilon 4" in told("run", str(log), "--config", str(toml), "--dry-run").replace(
        "3.99999", "4"
    )
    assert not (tmp_path / "state").exists()
    first = told("run", str(log), "--config", str(toml), "--json")
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert (first["count"], first["mechanism"]["k"]) == ("running", 2)
    assert told("show", "--config", str(toml), "--json")["released"] == [
        one | {"name": None} for one in first["released"]
    ]


def _entries(paid: list[str]) -> list[tuple[str, str]]:
    with acc.Ledger.open(paid[1]) as ledger:
        return [(entry.action, entry.key) for entry in ledger.entries("visits")]


def test_a_dry_start_reserves_nothing(paid: list[str], tmp_path: Path) -> None:
    """`start --dry-run` states price, mechanism and what would be left, and leaves neither an entry
    nor a state.
    """
    asked = ["start", *paid, *HORIZON, "--periods", "3", "--dry-run"]
    before, found = _entries(paid), told(*asked, "--json")
    assert (found["dry_run"], found["mechanism"]["kind"]) == (True, "continual_top_k")
    assert any(point["epsilon"] <= 4.0 for point in found["guarantee"]["points"])
    assert "visits" in found["left"][0]
    assert "it would be charged" in told(*asked)
    assert (_entries(paid), (tmp_path / "state").exists()) == (before, False)
    assert "does not exist" in told(
        "close", "1", str(tmp_path / "1.csv"), *paid, "--user", "who", "--item", "where", status=4
    )
    too_much = [part.replace("4", "40") if part == "4" else part for part in asked]
    assert "budget" in told(*too_much, status=3)
    assert _entries(paid) == before


def test_a_dry_run_of_a_log_is_refused_as_the_run_would_be(paid: list[str], tmp_path: Path) -> None:
    """`run --dry-run` opens nothing anew: a horizon of another k, and one that was voided, are
    refused before the log is read.
    """
    told("start", *paid, *HORIZON, "--periods", "3")
    run = ["run", str(tmp_path / "nothing.csv"), *paid, *COLUMNS, *WHEN, "--dry-run", *HORIZON]
    assert "does not exist" in told(*run, status=1)
    assert "was opened with" in told(*("3" if word == "2" else word for word in run), status=4)
    with acc.Ledger.open(paid[1]) as ledger:
        ledger.void("visits", "july", actor="ada", reason="a mistake")
    assert "was voided" in told(*run, status=4)


@pytest.mark.slow
def test_a_dry_close_reads_no_event(paid: list[str], tmp_path: Path) -> None:
    """`close --dry-run` looks at the period and the columns alone; state and ledger are as before,
    and so is the draw.
    """
    told("start", *paid, *HORIZON, "--periods", "3")
    columns = ["--user", "who", "--item", "where"]
    close, before = ["close", "1", str(tmp_path / "1.csv"), *paid, *columns], _entries(paid)
    words = told(*close, "--dry-run")
    assert "nothing more would be charged" in words
    assert "No row was read" in words
    assert "column" in told(*close[:-1], "nowhere", "--dry-run", status=1)
    assert "period" in told("close", "3", *close[2:], "--dry-run", status=2)
    (tmp_path / "malformed.csv").write_text('who,where\n"a')
    assert told("close", "1", str(tmp_path / "malformed.csv"), *close[3:], "--dry-run") == words
    assert _entries(paid) == before
    assert told("show", *paid, "--json")["horizon"]["periods_left"] == 3
    assert told(*close, "--json")["released"][0]["selection"]["labels"] == ["place1"]
    assert "has released it" in told(*close, "--dry-run")
