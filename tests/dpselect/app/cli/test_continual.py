"""`dpselect continual`: start, close, show, and a whole log in one run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from shell import dpselect
from spread import spread

import accounting as acc
import dpselect as dps
from accounting.errors import OutputError
from dpselect.app.cli import app
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.continual.state import State
from dpselect.app.release import answer, series
from dpselect.app.release.answer import UNRECORDED, AnswerFile, Unrecorded, warn_unrecorded
from dpselect.errors import HorizonError, HorizonUnavailable, InvalidRequest

pytestmark = pytest.mark.usefixtures("shared_database")

URL = "sqlite:///ledger.db"
LEDGER = f"--ledger {URL} --dataset visits"
STATE = "--state state"
PAID = f"{LEDGER} --key july {STATE}"
KEPT: Any = {"dataset": "visits", "key": "july", "state": "state"}
HORIZON = "--k 2 --epsilon 4 --delta 1e-6 --count running"
START = f"start {PAID} {HORIZON} --periods 3"
COLUMNS = "--user who --item where"
DAYS = "--time at --every day --since 2024-07-01 --until"
WHEN = f"{DAYS} 2024-07-04"
ASKED = f"{HORIZON} {COLUMNS} {WHEN}"
HEAD = "who,where,at\n"


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger with a dataset of visits, made once."""
    file = tmp_path_factory.mktemp("declared") / "ledger.db"
    with acc.Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=8.0, delta=1e-5), "add_remove")
    return file.read_bytes()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bytes) -> Path:
    """The working folder: the ledger, logs of three days, and one of all of them."""
    monkeypatch.chdir(tmp_path)
    Path("ledger.db").write_bytes(declared)
    days = {
        day: "".join(f"{day * 1000 + n},place{day},2024-07-0{day}\n" for n in range(300))
        for day in (1, 2, 3)
    }
    for name, rows in {**days, "all": "".join(days.values())}.items():
        Path(f"{name}.csv").write_text(HEAD + rows)
    return tmp_path


def entries() -> list[tuple[str, str]]:
    with acc.Ledger.open(URL) as ledger:
        return [(entry.action, entry.key) for entry in ledger.entries("visits")]


def told(line: str, status: int = 0) -> Any:
    """What a command prints, of --json what it means."""
    result = dpselect(f"continual {line}")
    assert result.exit_code == status, result.output
    told = "--json" in line and status in (0, EXPLAINED)
    return json.loads(result.stdout) if told else result.output


@pytest.mark.slow
def test_horizon_commands_work_from_start_to_recharge(declared: bytes) -> None:
    """`start` charges once; `close` releases, and again the same; on a restored ledger `recharge`
    charges what was released; the functions of `dpselect.continual` take the same options and go on
    with it.
    """
    started = told(f"{START} --json")
    assert started["horizon"] == {"key": "july", "state": "state", "periods": 3, "periods_left": 3}
    close = f"close 1 1.csv {PAID} {COLUMNS} --json"
    first = told(close)
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert told(close) == first
    Path("ledger.db").write_bytes(declared)
    assert "continual recharge" in told(f"show {PAID}", 4)
    assert (
        told(f"recharge {PAID} --json")["released"][0]["selection"]
        == (first["released"][0]["selection"])
    )
    second = pd.read_csv("2.csv", dtype=str)
    with acc.Ledger.open(URL) as ledger:
        assert ledger.total("visits").spent.main > 0
        asked: Any = {**KEPT, "ledger": ledger, "user": "who", "item": "where"}
        assert dps.continual.close(2, second, **asked, dry_run=True).paid is not None
        found = dps.continual.close(2, second, **asked)
    assert (set(found.items), found.periods_left) == ({"place1", "place2"}, 1)
    for _ in range(2):
        shown = told(f"show {PAID} --json --output a.json")
        assert shown["released"][1:] == found.as_data()["released"]
        assert dps.continual.show(**KEPT, ledger=URL, output="shown.csv").items[0] == "place1"
    assert json.loads(Path("a.json").read_text())["released"] == shown["released"]
    assert Path("shown.csv").read_text().startswith("period,rank,item")


def test_a_log_that_changed_goes_on() -> None:
    """A log that grows, of which somebody was erased and a row of a closed day came late: what was
    released stays, the next day is released from its own events, and the late row is in none; other
    rows are another question. The ledger notes who asked.
    """
    rows = [f"{n},place{day},2024-07-0{day}\n" for day in (1, 2, 3) for n in range(300)]
    kept = [row for row in rows if not row.startswith("7,")] + ["999,place1,2024-07-01\n"]
    fourth = [f"{n},place4,2024-07-04\n" for n in range(400)]
    Path("before.csv").write_text(HEAD + "".join(rows))
    Path("after.csv").write_text(HEAD + "".join([*kept, *fourth]))
    begun = f"run before.csv {PAID} {ASKED} --periods 4 --json"
    first = told(f"{begun} --team maps --purpose weekly --actor ada")["released"]
    with acc.Ledger.open(URL) as ledger:
        whole = next(entry for entry in ledger.entries("visits") if entry.curve is not None)
    assert (whole.team, whole.purpose, whole.actor) == ("maps", "weekly", "ada")
    assert [one["name"] for one in first] == ["2024-07-01", "2024-07-02", "2024-07-03"]
    for name in ("after", "before", "gone"):
        run = f"run {name}.csv {PAID} {HORIZON} {COLUMNS} {DAYS} 2024-07-05 --json"
        again = told(run)["released"]
        assert ([one["name"] for one in again[3:]], again[:3]) == (["2024-07-04"], first)
        assert "place4" in again[3]["selection"]["labels"]
    assert "was another then" in told(f"{begun} --where 'where = place1'", 2)


@pytest.mark.parametrize("paid", spread([LEDGER, PAID], 1))
def test_nightly_command_closes_only_ended_periods(
    place: Path, monkeypatch: pytest.MonkeyPatch, paid: str
) -> None:
    """--until is the end of the whole series: each night the same call closes what has ended by
    then and answers the rest from the state, under a stated key or a made one; --up-to takes the
    place of the clock, and closes nothing again.
    """
    asked = f"run all.csv {paid} {HORIZON} {COLUMNS} {DAYS} 2024-07-31 --json"
    nights, shown = [datetime(2024, 7, day, 3, tzinfo=UTC) for day in (2, 2, 5)], list[Any]()
    for night in nights:
        with monkeypatch.context() as patch:
            clock = type("Clock", (datetime,), {"now": lambda _, night=night: night})
            patch.setattr("dpselect.app.events.time_window.datetime", clock)
            shown.append(told(asked))
    shown.append(told(f"{asked} --up-to 2024-07-02"))
    released = [one["released"] for one in shown]
    assert [len(one) for one in released] == [1, 1, 4, 4]
    assert all(one == released[3][: len(one)] for one in released)
    assert [one["name"] for one in released[3]] == [f"2024-07-0{day}" for day in (1, 2, 3, 4)]
    assert {one["horizon"]["key"] for one in shown} == {shown[0]["horizon"]["key"]}
    assert shown[3]["horizon"]["periods_left"] == 26
    before = set(place.iterdir())
    early = told(f"{asked} --exponent 1 --up-to 2024-07-01T12:00", 2)
    assert "no period has ended by --up-to" in early
    assert "the first ends at 2024-07-02" in early
    assert "--up-to='noon' is not a date" in told(f"{asked} --exponent 1 --up-to noon", 2)
    assert set(place.iterdir()) == before


def test_a_series_of_stated_length_takes_an_end_that_moves() -> None:
    """With --periods the same state goes on when --until moves, by its made name too; without,
    --until is the end of the series, and another one is told by its name, with what to do and no
    setting of the mechanism.
    """
    run = f"run all.csv {HORIZON} {COLUMNS} {DAYS}"
    ends = [f"{run} 2024-07-0{day} --periods 9 --json" for day in (3, 4)]
    first, second = (told(f"{end} {PAID}") for end in ends)
    assert first["released"] == second["released"][:2]
    assert second["horizon"]["periods_left"] == 6
    made = [told(f"{end} {LEDGER} --dry-run")["horizon"]["key"] for end in ends]
    assert made[0] == made[1]
    said = told(f"{run} 2024-07-04 {PAID}", 4)
    assert "it was opened with --periods=9, and --periods=3 is asked for now" in said
    assert "state --up-to for how far" in said
    assert "scale" not in said
    for kept in ("", "--output top.csv"):  # under a made name
        told(f"{run} 2024-07-03 {kept}")
        assert "--periods=3 is asked for now" in told(f"{run} 2024-07-04 {kept}", 4)


@pytest.mark.parametrize("suffix", spread([".csv", ".html", ".json"], 1))
def test_outputs_are_renewed_in_their_place(monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """The same call renews the table or page that it has written before, and its readers stay; what
    is stopped between the two files is completed; what somebody else has written is in the way
    before anything is read.
    """
    out = Path(f"top{suffix}")
    asked = f"run all.csv {PAID} {ASKED} --output {out} --up-to"
    told(f"{asked} 2024-07-02")
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
            assert "stopped" in told(f"{asked} 2024-07-03", 1)
        assert out.read_bytes() == first
    for _ in range(2):
        told(f"{asked} 2024-07-04")
    renewed = out.read_bytes()
    assert b"2024-07-03" in renewed != first
    assert out.stat().st_mode & 0o777 == 0o644
    out.write_bytes(renewed.replace(b"2024-07-03", b"2024-07-99"))
    Path("all.csv").unlink()
    said = told(f"{asked} 2024-07-04", 2)
    assert "exists and is not overwritten" in said
    assert ("it was changed" in said) == (suffix != ".json")
    out.write_bytes(renewed)
    told(f"{asked} 2024-07-04")


def test_concurrent_runs_leave_output_and_record_consistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run is overtaken by one of the same state that releases more: the output keeps all of it,
    and later runs renew it. Output and record are written under the state's lock. An older copy of
    the state does not go on with the output.
    """
    out, state = Path("top.csv"), Path("state")
    asked = f"run all.csv {STATE} {ASKED} --output {out} --up-to"
    told(f"{asked} 2024-07-02")
    older = state.read_bytes()
    written, renewed, locked = series.KeptHorizon.write, AnswerFile.renew, []
    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(series.KeptHorizon, "write", written)
        told(f"{asked} 2024-07-04")
        return written(*given)

    def renewing(*given: Any) -> None:
        other = [sys.executable, "-c", code, str(state)]
        locked.append(subprocess.run(other, capture_output=True, check=False).returncode)
        renewed(*given)

    monkeypatch.setattr(series.KeptHorizon, "write", overtaken)
    monkeypatch.setattr(AnswerFile, "renew", renewing)
    told(f"{asked} 2024-07-03")
    assert b"2024-07-03" in out.read_bytes()
    told(f"{asked} 2024-07-04")
    assert locked == [1, 1]
    state.write_bytes(older)
    assert "exists and is not overwritten" in told(f"{asked} 2024-07-02", 2)


def test_a_page_has_a_title_that_may_change() -> None:
    """--title heads the page, and another one renews it; without a page it is refused."""
    run = f"run all.csv {PAID} {ASKED}"
    for title in ("Visits <1>", "Visits"):
        told(f"{run} --output top.html --title '{title}'")
        heading = f"<h1><bdi>{title.replace('<1>', '&lt;1&gt;')}</bdi></h1>"
        assert heading in Path("top.html").read_text()
    assert "--title is that of a page" in told(f"{run} --output top.csv --title x", 2)


def test_a_link_to_an_output_stays_a_link() -> None:
    """An output that was moved to a web server's folder, with a link in its place: the file there
    is renewed as a whole, with its own permissions, and the link stays.
    """
    out, page = Path("top.csv"), Path("www/page.csv")
    asked = f"run all.csv {PAID} {ASKED} --output {out} --up-to"
    told(f"{asked} 2024-07-02")
    page.parent.mkdir()
    out.rename(page)
    page.chmod(0o644)
    out.symlink_to(page)
    told(f"{asked} 2024-07-03")
    assert out.is_symlink()
    assert b"2024-07-02" in page.read_bytes()
    assert page.stat().st_mode & 0o777 == 0o644
    assert list(page.parent.iterdir()) == [page]


def test_a_series_is_charged_to_the_quarter_that_it_lies_in() -> None:
    """On a dataset with a budget for each quarter the range of the series says which one pays, once
    for all of it; the next quarter has a budget of its own. A series over two quarters, or by
    another clock, is refused before anything is charged; what was opened is shown, and charged
    again on a restored ledger, without naming the quarter.
    """
    rows = [f"{n},place{n % 2},2024-{month}-30\n" for month in ("06", "09") for n in range(300)]
    Path("two.csv").write_text(HEAD + "".join(rows))
    ledger, file = acc.Ledger.open(URL), Path("ledger.db")
    budget, tokyo = acc.Budget(epsilon=4.0, delta=1e-5), "Asia/Tokyo"
    ledger.create_dataset("plays", budget, "add_remove", window="quarter", time_zone=tokyo)
    backup, pays = file.read_bytes(), f"--ledger {URL} --dataset plays"
    asked = f"run two.csv {pays} {HORIZON} {COLUMNS} --time at --every day"
    clock = f"--time-zone {tokyo}"
    ends = {
        "2024-Q2": "--since 2024-06-29 --until 2024-07-01",
        "2024-Q3": "--since 2024-09-30 --until 2024-10-01",
    }
    both = told(f"{asked} --since 2024-06-30 --until 2024-07-02 {clock}", 2)
    assert "2024-Q2 to 2024-Q3. State --since and --until within" in both
    assert "must be 'Asia/Tokyo'" in told(f"{asked} {ends['2024-Q2']}", 2)
    assert ledger.totals("plays") == []
    for quarter, when in ends.items():
        run = f"{asked} {when} {clock} --state {quarter} --key {quarter} --json"
        assert told(run)["budget"].startswith(f"plays, {quarter}: ")
    assert len(told(f"{run} --up-to 2024-10-01")["released"]) == 1
    spent = {left.account: left.spent for left in ledger.totals("plays")}
    assert list(spent) == list(ends)
    assert all(price.main > 0 for price in spent.values())
    file.write_bytes(backup)
    for command in ("recharge", "show"):
        shown = told(f"{command} {pays} --key 2024-Q2 --state 2024-Q2 --json")
        assert len(shown["released"]) == 2
    charged = {left.account: left.spent for left in ledger.totals("plays")}
    assert charged == {"2024-Q2": spent["2024-Q2"]}


def test_a_run_without_a_ledger_is_named_by_its_log_and_question() -> None:
    """The same question goes on with its state, by any spelling of the log's name; another
    question, or a key, has its own; and nothing is recorded, which is said. With a ledger the made
    name is the key of the charge. A dry run says which key and state are meant, and makes neither.
    """
    meant = told(f"run all.csv {ASKED} --dry-run --json")["horizon"]
    assert "key " + meant["key"] in " ".join(told(f"run all.csv {ASKED} --dry-run").split())
    assert not Path(meant["state"]).exists()
    first = told(f"run all.csv {ASKED} --json")
    horizon = first["horizon"]
    assert {name: horizon[name] for name in meant} == meant
    assert re.fullmatch(r"all-[0-9a-f]{16}", horizon["key"])
    assert horizon["state"] == f"{horizon['key']}.state"
    assert (first["budget"], first["notes"]) == (None, [UNRECORDED])
    again = told(f"run ./all.csv {ASKED} --memory-limit 1GiB --json")
    assert (again["horizon"], again["released"]) == (horizon, first["released"])
    assert "is not recorded in a ledger" in " ".join(told(f"run all.csv {ASKED}").split())
    others = (
        ASKED.replace("--k 2", "--k 1"),
        ASKED.replace("--epsilon 4", "--epsilon 3"),
        f"{ASKED} --where 'where != zoo'",
        f"{ASKED} --periods 5",
        f"{ASKED} {LEDGER}",
        f"{ASKED} {LEDGER} --key july",
    )
    dry = (told(f"run all.csv {other} --dry-run --json")["horizon"] for other in others)
    assert len({one["state"] for one in dry} | {horizon["state"]}) == 7
    paid = told(f"run all.csv {ASKED} {LEDGER} --json")["horizon"]["key"]
    assert paid.startswith("all-")
    assert ("reserve", paid) in entries()
    assert "are missing, but stated: --key." in " ".join(
        told(f"run all.csv {ASKED} --key july", 2).split()
    )
    settings: Any = {"user": "who", "item": "where", "k": 2, "epsilon": 4.0, "delta": 1e-6}
    settings |= {"time": "at", "every": "day", "since": "2024-07-01", "until": "2024-07-04"}
    table = pd.read_csv("all.csv")
    for log in (table, "-"):
        with pytest.raises(InvalidRequest, match="state= is missing: a log that is no file"):
            dps.continual.run(log, **settings)
    stated: dict[str, Any] = settings | {"state": "table.state"}
    once, again = (dps.continual.run(table, **stated).to_pandas() for _ in range(2))
    assert once.equals(again)
    with pytest.raises(InvalidRequest, match="key= is missing: a log that is no file"):
        dps.continual.run(table, **stated, ledger=URL, dataset="visits")
    warn_unrecorded.cache_clear()
    with pytest.warns(Unrecorded, match="is not recorded"):
        made = dps.continual.run("all.csv", **settings, count="running")
    assert made.key == horizon["key"]


def test_a_log_of_another_name_has_a_state_of_its_own() -> None:
    """Though it begins alike and is asked the same; a name that no file can have becomes one."""
    keys = list[str]()
    for name in ("all.csv", "all.tsv", "-- a&b .csv"):
        Path(name).write_text(Path("all.csv").read_text())
        dry = told(f"run {ASKED} --json --dry-run --delimiter , -- '{name}'")
        keys.append(dry["horizon"]["key"])
    assert [key.rpartition("-")[0] for key in keys] == ["all", "all", "a-b"]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("kept", [PAID, STATE])
def test_each_nights_log_may_have_a_name_of_its_own(kept: str) -> None:
    """Under a stated state, and a stated key on a ledger, the output is renewed from the next log,
    and a closed period is answered as before.
    """
    asked = f"{kept} {ASKED} --json --output top.csv --up-to"
    first = told(f"run 1.csv {asked} 2024-07-02")
    second = told(f"run all.csv {asked} 2024-07-03")
    assert first["horizon"]["key"] == second["horizon"]["key"]
    assert second["released"][:1] == first["released"]
    assert "2024-07-02" in Path("top.csv").read_text()
    record = json.loads(Path("top.csv.json").read_text())
    assert (record["released"], record["question"]) == (second["released"], second["question"])


def test_moved_state_continues_its_series() -> None:
    """It has the status of a missing state, although the output lies in the way, and goes on where
    it is named. An option that makes another question is named too.
    """
    asked = f"run all.csv {ASKED} --output top.csv --up-to 2024-07-02"
    told(asked)
    (state,) = Path().glob("*.state")
    Path("moved").mkdir()
    for path in (state, state.with_name(f"{state.name}.key")):
        path.rename(Path("moved", path))
    assert f"--state='{state}' does not exist" in told(asked, 4)
    assert "with another --time-zone" in told(f"{asked} --time-zone Europe/Berlin", 2)
    assert told(f"{asked} --state moved/{state} --json")["horizon"]["periods_left"] == 2


def test_output_of_another_log_is_refused_before_a_draw() -> None:
    """Also where the series of this log has begun without an output."""
    told(f"run 1.csv {ASKED} --output top.csv --up-to 2024-07-02")
    before = told(f"run all.csv {ASKED} --json --up-to 2024-07-02")["horizon"]
    said = told(f"run all.csv {ASKED} --output top.csv --up-to 2024-07-03", 2)
    assert "exists and is not overwritten" in said
    with State.open(Path(before["state"])) as state:
        assert len(state.closed_periods()) == 1


@pytest.mark.parametrize("suffix", spread([".csv", ".json"], 1))
def test_repeated_call_returns_the_answer_in_its_output(place: Path, suffix: str) -> None:
    """`start`, `close` and `run` with the output that answers them: the kept answer, and no event
    is read. Another question, a file that was edited or a stranger's is in the way, before anything
    is read; a table that is lost is made up for.
    """
    out, log, taken = Path(f"a{suffix}"), Path("1.csv"), "exists and is not overwritten"
    start = f"{START} --json --output b.json"
    assert told(start) == told(start)
    close = f"close 1 1.csv {PAID} {COLUMNS} --json --output"
    asked = f"{close} {out}"
    first, whole = told(asked), {path: path.read_bytes() for path in place.glob("a.*")}
    assert len(whole) == (1 if suffix == ".json" else 2)
    log.rename("moved.csv")
    assert told(asked) == first
    if suffix != ".json":
        out.unlink()
        assert told(asked) == first
    assert set(place.glob("a.*")) == set(whole)
    for another in (f"{asked} --where 'at = 2024-07-01'", f"{close} b.json"):
        assert taken in told(another, 2)
    assert told(f"{asked} --memory-limit 1GiB --actor ada") == first
    record = out if suffix == ".json" else Path(f"{out}.json")
    record.write_text(record.read_text().replace("place1", "place9"))
    assert taken in told(asked, 2)
    run = f"run all.csv {LEDGER} --key all --state all {ASKED} --json --output c{suffix}"
    ran = told(run)
    Path("all.csv").unlink()
    assert told(run) == ran
    assert taken in told(f"{run} --partial-last", 2)


class _Closed:
    """A standard output that cannot be written."""

    def write(self, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    flush = isatty = fileno = write


def test_print_failure_names_where_the_answer_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The error names its file; without one, the state, which prints it again for nothing."""
    told(START)
    for more, words in (
        ("--output a.csv", "the answer lies in 'a.csv'"),
        ("", "is kept in --state='state', and the same call prints it"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", _Closed())
            with pytest.raises(SystemExit):
                app(f"continual close 1 1.csv {PAID} {COLUMNS} {more}".split())
        assert words in capfd.readouterr().err
    assert "place1" in Path("a.csv").read_text()


def test_a_state_that_is_in_use_or_has_no_room_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 1: the same call again goes on. Status 4 says that the state is missing, damaged,
    another one's or too old.
    """
    told(START)
    close = f"close 1 1.csv {PAID} {COLUMNS}"
    for raised, status in (
        (HorizonUnavailable("another process uses it"), 1),
        (HorizonError("it is damaged"), 4),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(State, "_run", Mock(side_effect=raised))
            told(close, status)
    assert "place1" in told(close)


def test_a_horizon_may_have_thousands_of_periods() -> None:
    """As many days as a horizon takes; one more is refused."""
    asked = f"run all.csv {PAID} {HORIZON} {COLUMNS} --time at --every day --since 2015-07-04"
    told(f"{asked} --until 2026-06-16 --dry-run")
    assert "more than 4000 periods" in told(f"{asked} --until 2026-06-17 --dry-run", 2)


# What is wrong: the words of the command that are others, or a line that the log has.
FAULTS: dict[str, tuple[str, str]] = {
    "wrong user column": ("--user who", "--user nobody"),
    "unknown catalog": (WHEN, f"{WHEN} --domain nothing.csv"),
    "no period's end": (WHEN, f"{DAYS} 2024-07-03T12:00"),
    "too few periods": (WHEN, f"{WHEN} --periods 2"),
    "missing file": ("all.csv", "missing.csv"),
    "unreadable time late in the log": ("", "7,place1,yesterday\n"),
    "an open quote": ("", '7,"place1,2024-07-01\n'),
    "no folder for the state": (STATE, "--state no/folder/state"),
}


@pytest.mark.parametrize("fault", spread(list(FAULTS), 2))
def test_invalid_log_causes_no_charge_or_state(fault: str) -> None:
    """Whatever is wrong with the log or its description: an error, no charge, no reservation, no
    state.
    """
    (right, other), good = FAULTS[fault], f"continual run all.csv {PAID} {ASKED}"
    if not right:
        with Path("all.csv").open("a") as log:
            log.write(other)
    result = dpselect(good.replace(right, other) if right else good)
    assert isinstance(result.exception, SystemExit), result.output
    assert result.exit_code != 70
    assert (entries(), Path("state").exists()) == ([], False)


@pytest.mark.slow
def test_a_horizon_is_stated_by_a_file() -> None:
    """Tables say what options say, [continual] what is a horizon's own; a dry run of it charges
    nothing and makes no state.
    """
    log = Path("all.csv")
    log.write_text(log.read_text().replace(",", ";").replace("place1", "PLACE1"))
    Path("july.toml").write_text(
        '[data]\nuser = "who"\nitem = "where"\ndelimiter = ";"\nnormalize = ["casefold"]\n'
        'time = "at"\nsince = "2024-07-01"\nuntil = "2024-07-04"\n'
        f'[ledger]\nurl = "{URL}"\ndataset = "visits"\nkey = "july"\n'
        "[release]\nk = 2\n[budget]\nepsilon = 4.0\ndelta = 1e-6\n"
        '[continual]\nstate = "state"\nevery = "day"\ncount = "running"\n'
    )
    told("run all.csv --config july.toml --dry-run")
    assert (entries(), Path("state").exists()) == ([], False)
    first = told("run all.csv --config july.toml --json")
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert (first["count"], first["mechanism"]["k"]) == ("running", 2)
    assert told("show --config july.toml --json")["released"] == [
        one | {"name": None} for one in first["released"]
    ]


def test_a_dry_run_of_a_log_is_refused_as_the_run_would_be() -> None:
    """`run --dry-run` opens nothing anew: a horizon of another k, and one that was voided, are
    refused before the log is read.
    """
    told(START)
    run = f"run nothing.csv {PAID} {ASKED} --dry-run"
    assert "does not exist" in told(run, 1)
    assert "--with-counts" in told(f"{run} --items-per-period 2", 2)
    assert "was opened with" in told(run.replace("--k 2", "--k 3"), 4)
    with acc.Ledger.open(URL) as ledger:
        ledger.void("visits", "july", actor="ada", reason="a mistake")
    assert "was voided" in told(run, 4)


@pytest.mark.slow
def test_a_dry_close_reads_no_event() -> None:
    """`close --dry-run` looks at the period and the columns alone; state and ledger are as before,
    and so is the draw.
    """
    told(START)
    close, before = f"close 1 1.csv {PAID} {COLUMNS}", entries()
    dry = f"{close} --dry-run"
    words = told(dry)
    assert "nothing more would be charged" in words
    assert "No row was read" in words
    assert "column" in told(dry.replace("--item where", "--item nowhere"), 1)
    assert "period" in told(dry.replace("close 1 1.csv", "close 3 1.csv"), 2)
    Path("malformed.csv").write_text('who,where\n"a')
    assert told(dry.replace("1.csv", "malformed.csv")) == words
    assert entries() == before
    assert told(f"show {PAID} --json")["horizon"]["periods_left"] == 3
    assert told(f"{close} --json")["released"][0]["selection"]["labels"] == ["place1"]
    assert "has released it" in told(dry)
