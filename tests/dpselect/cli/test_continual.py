"""`dpselect continual`: start, close, show, and a whole log in one run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from spread import spread
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from dpselect.cli import app

HORIZON = ["--k", "2", "--epsilon", "4", "--delta", "1e-6", "--count", "running"]


@pytest.fixture
def paid(tmp_path: Path) -> list[str]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    acc.Ledger.open(url).create_dataset("visits", acc.Budget(epsilon=8.0, delta=1e-5), "add_remove")
    for day in (1, 2, 3):
        rows = "".join(f"{day * 1000 + n},place{day},2024-07-0{day}\n" for n in range(300))
        (tmp_path / f"{day}.csv").write_text("who,where,at\n" + rows)
    (tmp_path / "all.csv").write_text(
        "who,where,at\n" + "".join((tmp_path / f"{day}.csv").read_text().split("\n", 1)[1] for day in (1, 2, 3))
    )
    return ["--ledger", url, "--dataset", "visits", "--key", "july", "--state", str(tmp_path / "state")]


def told(*arguments: str, status: int = 0) -> Any:
    result = CliRunner().invoke(app, ["continual", *arguments])
    assert result.exit_code == status, result.output
    return json.loads(result.stdout) if "--json" in arguments and status == 0 else result.output


@pytest.mark.slow
def test_period_by_period(paid: list[str], tmp_path: Path) -> None:
    """`start` charges once; `close` releases, and again the same; outputs name period, count, promise and what is left."""
    started = told("start", *paid, *HORIZON, "--periods", "3", "--json")
    assert started["horizon"] == {"key": "july", "periods": 3, "periods_left": 3}
    columns = ["--user", "who", "--item", "where"]
    first = told("close", "1", str(tmp_path / "1.csv"), *paid, *columns, "--json")
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert told("close", "1", str(tmp_path / "1.csv"), *paid, *columns, "--json") == first
    text = told("close", "2", str(tmp_path / "2.csv"), *paid, *columns)
    for part in ("Period 2 of 3", "users of all periods so far", "for the whole horizon", "1 left", "place2"):
        assert part in text
    shown = told("show", *paid, "--json", "--output", str(tmp_path / "answer.json"))
    assert [one["period"] for one in shown["released"]] == [1, 2]
    assert json.loads((tmp_path / "answer.json").read_text()) == shown
    assert shown["count"] == "running"
    assert min(point["epsilon"] for point in shown["guarantee"]["points"] if point["epsilon"] is not None) <= 4.0
    assert "period" in told("close", "5", str(tmp_path / "3.csv"), *paid, *columns, status=2)


@pytest.mark.slow
def test_a_whole_log_in_one_run(paid: list[str], tmp_path: Path) -> None:
    """`run` closes every day of the log, and what was closed before is told again."""
    when = ["--time", "at", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-04"]
    asked = ["run", str(tmp_path / "all.csv"), *paid, *HORIZON, "--user", "who", "--item", "where", *when, "--json"]
    first = told(*asked)
    assert [one["name"] for one in first["released"]] == ["2024-07-01", "2024-07-02", "2024-07-03"]
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert first["horizon"]["periods_left"] == 0
    assert told(*asked) == first


@pytest.mark.slow
def test_topk_with_a_horizon_is_a_run(paid: list[str], tmp_path: Path) -> None:
    """The output and state of `continual run`, which goes on with it and draws nothing anew; what does not fit is refused."""
    when = ["--time", "at", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-04"]
    shared = [str(tmp_path / "all.csv"), *paid[:-2], *HORIZON, "--user", "who", "--item", "where", *when, "--json"]
    alike = ["topk", *shared, "--horizon", paid[-1]]
    refused = [("--mechanism", "sparse_histogram"), ("--max-items-per-user", "3"), ("--min-users", "5")]
    for more in refused:
        said = CliRunner().invoke(app, [*alike, *more])
        assert (said.exit_code, "horizon" in said.output) == (2, True), said.output
    assert not (tmp_path / "state").exists()
    assert acc.Ledger.open(paid[1]).total("visits").spent.main == 0
    first = CliRunner().invoke(app, [*alike, "--team", "maps", "--purpose", "weekly", "--actor", "ada"])
    assert first.exit_code == 0, first.output
    whole = next(entry for entry in acc.Ledger.open(paid[1]).entries("visits") if entry.curve is not None)
    assert (whole.team, whole.purpose, whole.actor) == ("maps", "weekly", "ada")
    assert json.loads(first.stdout)["released"][0]["selection"]["labels"] == ["place1"]
    assert told("run", *shared, *paid[-2:]) == json.loads(first.stdout)
    assert "--horizon" in CliRunner().invoke(app, ["topk", *shared]).output, "a count without a horizon"
    without = [word for word in alike if word not in ("--every", "day")]
    assert "--every" in CliRunner().invoke(app, without).output


WHEN = ["--time", "at", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-04"]
COLUMNS = ["--user", "who", "--item", "where"]


@pytest.mark.slow
def test_a_finished_horizon_answers_for_its_own_log_alone(paid: list[str], tmp_path: Path) -> None:
    """The same command on another log, or on none, is refused; `show` needs no log."""
    asked = [*paid, *HORIZON, *COLUMNS, *WHEN, "--json"]
    first = told("run", str(tmp_path / "all.csv"), *asked)
    (tmp_path / "other.csv").write_text((tmp_path / "all.csv").read_text().replace("place1", "place9"))
    assert "other events" in told("run", str(tmp_path / "other.csv"), *asked, status=2)
    assert "does not exist" in told("run", str(tmp_path / "nothing.csv"), *asked, status=1)
    assert [one["selection"] for one in told("show", *paid, "--json")["released"]] == [
        one["selection"] for one in first["released"]
    ]


@pytest.mark.slow
def test_a_charge_is_put_back_on_a_restored_ledger(paid: list[str], tmp_path: Path) -> None:
    """`recharge` charges what the state has released; without it the state is refused, with the command's name."""
    told("start", *paid, *HORIZON, "--periods", "3")
    first = told("close", "1", str(tmp_path / "1.csv"), *paid, *COLUMNS, "--json")
    (tmp_path / "ledger.db").unlink()
    acc.Ledger.open(paid[1]).create_dataset("visits", acc.Budget(epsilon=8.0, delta=1e-5), "add_remove")
    assert "continual recharge" in told("show", *paid, status=4)
    assert told("recharge", *paid, "--json")["released"][0]["selection"] == first["released"][0]["selection"]
    assert acc.Ledger.open(paid[1]).total("visits").spent.main > 0
    assert told("show", *paid, "--json")["horizon"]["periods_left"] == 2


def _cut_gzip(folder: Path) -> str:
    (folder / "cut.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes())[:-20])
    return "cut.csv.gz"


def _cut_parquet(folder: Path) -> str:
    pd.read_csv(folder / "all.csv").to_parquet(folder / "whole.parquet")
    (folder / "cut.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-50])
    return "cut.parquet"


def _with(text: str) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        (folder / "with.csv").write_text((folder / "all.csv").read_text() + text)
        return "with.csv"

    return made


def _written(name: str, content: bytes) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        (folder / name).write_bytes(content)
        return name

    return made


@pytest.fixture
def cities(paid: list[str], tmp_path: Path) -> list[str]:
    """A log in which everybody comes on each of three days: 300 users of x in de, 200 of y and 50 of z in fr."""
    people = [("de", "x")] * 300 + [("fr", "y")] * 200 + [("fr", "z")] * 50
    rows = [f"{n},{city},{item},2024-07-0{day}\n" for day in (1, 2, 3) for n, (city, item) in enumerate(people)]
    (tmp_path / "cities.csv").write_text("who,city,where,at\n" + "".join(rows))
    return ["run", str(tmp_path / "cities.csv"), *paid, *HORIZON[:6], *COLUMNS, *WHEN, "--group", "city"]


@pytest.mark.slow
def test_one_table_of_groups_weeks_and_counts(cities: list[str], tmp_path: Path) -> None:
    """One command gives the top k of each group in each period with numbers of users, as a table with their intervals."""
    told(*cities, "--with-counts", "--items-per-period", "1", "--output", str(tmp_path / "table.csv"))
    shown = told("show", *cities[2:10], "--output", str(tmp_path / "page.html"))
    assert "at least" in shown
    assert "<polygon" in (tmp_path / "page.html").read_text()
    rows = pd.read_csv(tmp_path / "table.csv")
    assert list(rows.columns) == ["period", "city", "rank", "item", "users", "low", "high"]
    found = rows[rows["rank"] == 1].pivot_table(index="period", columns="city", values="users")
    assert found.index.tolist() == ["2024-07-01", "2024-07-02", "2024-07-03"]
    assert (rows.low < rows.users).all()
    assert rows.high.isna().all()  # who holds two items of a day counts for one: at least so many
    assert (abs(found["de"] - 300) < 60).all()
    assert (abs(found["fr"] - 200) < 60).all()


@pytest.mark.slow
def test_topk_gives_the_same_table(cities: list[str], tmp_path: Path) -> None:
    """`topk --every --horizon` with groups and counts is that run; what it bounds users to is items of a period."""
    place = cities.index("--state")
    asked = ["topk", cities[1], *cities[2:place], "--horizon", *cities[place + 1 :], "--with-counts", "--max-items-per-user", "1"]
    first = CliRunner().invoke(app, [*asked, "--json"])
    assert first.exit_code == 0, first.output
    rows = json.loads(first.stdout)["table"]
    assert set(rows[0]) == {"period", "city", "rank", "item", "users", "low", "high"}
    assert json.loads(first.stdout)["mechanism"]["users"]["per_period"] == 1
    assert json.loads(first.stdout)["intervals"]["at_least"]
    assert "at least so many" in json.loads(first.stdout)["intervals"]["in_words"]
    assert told(*cities, "--with-counts", "--items-per-period", "1", "--json")["table"] == rows


@pytest.mark.slow
def test_a_number_without_a_unit_is_called_a_score(cities: list[str], tmp_path: Path) -> None:
    """Without --with-counts weights fall, and text, table and JSON say score; Parquet has the table of JSON."""
    text = told(*cities)
    assert "score" in text
    assert "do not estimate a number of users" in text
    shown = told(*cities, "--json", "--output", str(tmp_path / "table.parquet"))
    assert pd.read_parquet(tmp_path / "table.parquet").to_dict("records") == shown["table"]
    assert set(shown["table"][0]) == {"period", "city", "rank", "item", "score"}
    assert "--with-counts" in told(*cities, "--items-per-period", "2", status=2)


@pytest.mark.slow
def test_an_end_inside_a_period_is_refused_or_asked_for(paid: list[str], tmp_path: Path) -> None:
    """--until in the middle of a week names the two nearest ends; --partial-last cuts the last week short there."""
    week = ["--time", "at", "--every", "week", "--since", "2024-07-01", "--until", "2024-07-04"]
    asked = ["run", str(tmp_path / "all.csv"), *paid, *HORIZON, *COLUMNS, *week, "--json"]
    said = told(*asked, status=1)
    assert "the nearest are 2024-07-01 and 2024-07-08" in said
    assert [one["name"] for one in told(*asked, "--partial-last")["released"]] == ["2024-W27"]


# What is wrong with a log: a file, or other words of the command.
FAULTS: dict[str, Callable[[Path], str] | list[str]] = {
    "wrong user column": ["--user", "nobody"],
    "wrong item column": ["--item", "nothing"],
    "wrong time column": ["--time", "never"],
    "unknown time zone": ["--time-zone", "Mars/Olympus"],
    "unknown catalogue": ["--domain", "nothing.csv"],
    "no period's end": ["--until", "2024-07-03T12:00"],
    "missing file": lambda _: "missing.csv",
    "a folder": lambda folder: (folder / "folder").mkdir() or "folder",
    "unreadable time late in the log": _with("7,place1,yesterday\n"),
    "a row too long": _with("7,place1,2024-07-01,more,and more\n"),
    "an open quote": _with('7,"place1,2024-07-01\n'),
    "not UTF-8": _written("bytes.csv", b"who,where,at\n1,\xff\xfe,2024-07-01\n"),
    "truncated gzip": _cut_gzip,
    "truncated Parquet": _cut_parquet,
    "text called Parquet": _written("text.parquet", b"who,where,at\n"),
    "nothing but a header": _written("header.csv", b"who,where,at\n"),
    "times in another unit": _written("unit.csv", b"who,where,at\n1,a,99999-01-01\n"),
    "no content": _written("empty.csv", b""),
    "no folder for the state": ["--state", "no/folder/state"],
}


@pytest.mark.parametrize(("fault", "command"), spread([(fault, command) for command in ("run", "topk") for fault in FAULTS], 4))
def test_nothing_is_paid_for_a_log_that_fails(paid: list[str], tmp_path: Path, command: str, fault: str) -> None:
    """Whatever is wrong with the log or its description: an error, no charge, no reservation, no state."""
    wrong = FAULTS[fault]
    log = "all.csv" if isinstance(wrong, list) else wrong(tmp_path)
    state = ["--horizon" if command == "topk" else "--state", paid[-1]]
    whole = [*(["continual", "run"] if command == "run" else ["topk"]), *paid[:-2], *state, *HORIZON, *COLUMNS, *WHEN]
    asked = [*whole, str(tmp_path / log), *(wrong if isinstance(wrong, list) else [])]
    asked = [state[0] if word == "--state" else word for word in asked]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, SystemExit), result.output
    assert result.exit_code != 70
    ledger = acc.Ledger.open(paid[1])
    assert (ledger.total("visits").spent.main, list(ledger.entries("visits"))) == (0, [])
    assert not (tmp_path / "state").exists()
    if fault == "missing file":
        assert CliRunner().invoke(app, [*whole, str(tmp_path / "all.csv")]).exit_code == 0


@pytest.mark.parametrize(
    ("option", "value"),
    spread(
        [
            ("--state", "no/folder/state"),
            ("--k", "0"),
            ("--epsilon", "0"),
            ("--domain", "nothing.csv"),
            ("--dataset", "x"),
            ("--key", ""),
        ],
        1,
    ),
)
def test_a_start_that_fails_reserves_nothing(paid: list[str], tmp_path: Path, option: str, value: str) -> None:
    """No reservation, no state; the right command works afterwards."""
    asked = ["start", *paid, *HORIZON, "--periods", "3"]
    assert isinstance(CliRunner().invoke(app, ["continual", *asked, option, value]).exception, SystemExit)
    assert list(acc.Ledger.open(paid[1]).entries("visits")) == []
    assert not (tmp_path / "state").exists()
    assert told(*asked, "--json")["horizon"]["periods_left"] == 3


def test_a_run_with_too_few_periods_is_refused_before_it_is_charged(paid: list[str], tmp_path: Path) -> None:
    """The horizon would end in the middle of the log: the error names both numbers, and no state is made."""
    when = ["--time", "at", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-04", "--periods", "2"]
    said = told("run", str(tmp_path / "all.csv"), *paid, *HORIZON, "--user", "who", "--item", "where", *when, status=2)
    assert "--periods=2" in said
    assert acc.Ledger.open(paid[1]).total("visits").spent.main == 0
    assert not (tmp_path / "state").exists()


def test_a_state_that_is_not_there(paid: list[str], tmp_path: Path) -> None:
    """`close` and `show` need a horizon that was started; the error says so and nothing is charged."""
    assert "start the horizon first" in told("show", *paid, status=4)


MADE_UP = ["--shape", "zipf:1", "--items", "50", "--users", "500", "--items-per-user", "3", "--active", "0.5"]
PLAN = ["plan", "--k", "5", "--periods", "3", "--epsilon", "1", "--delta", "1e-6", "--unknown-domain"]


@pytest.mark.slow
def test_a_plan(tmp_path: Path) -> None:
    """Text names the way, the bound on users and the next step; JSON has a mechanism that can be opened; a log must be public."""
    text = CliRunner().invoke(app, [*PLAN, *MADE_UP, "--count", "window", "--window", "2"]).output
    for part in ("one horizon", "one by one", "HorizonClip(", "continual start --k 5 --periods 3 --count window --window 2"):
        assert part in text
    (tmp_path / "log.csv").write_text("u,i,t\n" + "".join(f"{n},{n % 7},{n}\n" for n in range(400)))
    log = ["--shape", str(tmp_path / "log.csv"), "--user", "u", "--item", "i", "--time", "t"]
    told = json.loads(CliRunner().invoke(app, [*PLAN, *log, "--public", "--json"]).output)
    assert len(told["recall"]["horizon"]) == len(told["recall"]["one_by_one"]) == 3
    assert dps.Mechanism.from_json(json.dumps(told["mechanism"])).curve.delta(1.0) <= 1e-6
    assert "--public" in CliRunner().invoke(app, [*PLAN, *log]).output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--releases", "3"], "--releases"),
        (["--user", "u"], "columns of a log"),
        (["--shape", "log.csv"], "--time"),
        (["--shape", "zipf:x"], "exponent"),
    ],
)
def test_what_cannot_be_planned(more: list[str], words: str) -> None:
    """Options that do not go together are refused in the words of the command."""
    result = CliRunner().invoke(app, [*PLAN, *MADE_UP, *more])
    assert result.exit_code == 2
    assert words in result.output


def test_options_of_a_horizon_need_periods() -> None:
    """An option of a horizon without a number of periods is refused, and the missing one is named."""
    result = CliRunner().invoke(app, ["plan", "--k", "5", "--epsilon", "1", "--count", "running", *MADE_UP[:6]])
    assert result.exit_code == 2
    assert "--periods" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("counted", [["period"], pytest.param(["window", "--window", "2"], marks=pytest.mark.slow)])
def test_the_measurements_are_held_against_the_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[str]) -> None:
    """A replay reaches what is paid for, with choices among the items of heavy users; 5 % more of a weight is found."""
    rows = [(user, item, day) for user in (1, 2, 3) for item in range(4) for day in (1, 2)] + [(4, 1, 2)]
    (tmp_path / "log.csv").write_text("u,i,t\n" + "".join(f"{u},{i},2024-07-0{day}\n" for u, i, day in rows))
    when = ["--time", "t", "--every", "day", "--since", "2024-07-01", "--until", "2024-07-03", "--cells", "3", "--n-users", "2"]
    asked = ["verify", "horizon", str(tmp_path / "log.csv"), "--user", "u", "--item", "i", *when, "--count", *counted, "--json"]
    told = json.loads(CliRunner().invoke(app, asked).stdout)
    assert told["holds"]
    assert told["declared"]["l2"] * 0.999 < told["l2"] <= told["declared"]["l2"] * (1 + 1e-9)
    assert told["l0"] == told["declared"]["l0"]
    right = dps.continual.HorizonClip.counted

    def heavy(self: dps.continual.HorizonClip, *cells: Any) -> Any:
        kept, weights = right(self, *cells)
        return kept, weights * 21 // 20

    monkeypatch.setattr(dps.continual.HorizonClip, "counted", heavy)
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["broken"][-1] == "l2"


@pytest.mark.slow
def test_a_horizon_is_stated_by_a_file(paid: list[str], tmp_path: Path) -> None:
    """Tables say what options say, [continual] what is a horizon's own; a dry run of it charges nothing and makes no state."""
    toml, log = tmp_path / "july.toml", tmp_path / "all.csv"
    log.write_text(log.read_text().replace(",", ";").replace("place1", "PLACE1"))
    times = 'time = "at"\nsince = "2024-07-01"\nuntil = "2024-07-04"\n'
    toml.write_text(
        f'[data]\nuser = "who"\nitem = "where"\ndelimiter = ";"\nnormalize = ["casefold"]\n{times}'
        f'[ledger]\nurl = "{paid[1]}"\ndataset = "visits"\nkey = "july"\n'
        "[release]\nk = 2\n[budget]\nepsilon = 4.0\ndelta = 1e-6\n"
        f'[continual]\nstate = "{paid[-1]}"\nevery = "day"\ncount = "running"\n'
    )
    assert "epsilon 4" in told("run", str(log), "--config", str(toml), "--dry-run").replace("3.99999", "4")
    assert not (tmp_path / "state").exists()
    first = told("run", str(log), "--config", str(toml), "--json")
    assert first["released"][0]["selection"]["labels"] == ["place1"]
    assert (first["count"], first["mechanism"]["k"]) == ("running", 2)
    assert told("show", "--config", str(toml), "--json")["released"] == [one | {"name": None} for one in first["released"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--ledger is missing"),
        (
            ("--state", "s", "--ledger", "l.db", "--dataset", "d", "--key", "k", "--k", "1", "--epsilon", "1"),
            "--delta is missing",
        ),
    ],
)
def test_what_is_missing_is_named(words: tuple[str, ...], said: str) -> None:
    """An option that is needed, and neither typed nor in a file, is named with its words."""
    assert said in told("start", *words, status=2)


def _entries(paid: list[str]) -> list[tuple[str, str]]:
    with acc.Ledger.open(paid[1]) as ledger:
        return [(entry.action, entry.key) for entry in ledger.entries("visits")]


def test_a_dry_start_reserves_nothing(paid: list[str], tmp_path: Path) -> None:
    """`start --dry-run` states price, mechanism and what would be left, and leaves neither an entry nor a state."""
    asked = ["start", *paid, *HORIZON, "--periods", "3", "--dry-run"]
    before, found = _entries(paid), told(*asked, "--json")
    assert (found["dry_run"], [one["kind"] for one in found["mechanisms"]]) == (True, ["continual_top_k"])
    assert any(point["epsilon"] <= 4.0 for point in found["guarantee"]["points"])
    assert "visits" in found["left"][0]
    assert "it would be charged" in told(*asked)
    assert (_entries(paid), (tmp_path / "state").exists()) == (before, False)
    assert "does not exist" in told("close", "1", str(tmp_path / "1.csv"), *paid, "--user", "who", "--item", "where", status=4)
    too_much = [part.replace("4", "40") if part == "4" else part for part in asked]
    assert "budget" in told(*too_much, status=3)
    assert _entries(paid) == before


@pytest.mark.slow
def test_a_dry_close_reads_and_forgets(paid: list[str], tmp_path: Path) -> None:
    """`close --dry-run` reads the events as a close does, with its errors; state and ledger are as before, and so is the draw."""
    told("start", *paid, *HORIZON, "--periods", "3")
    columns = ["--user", "who", "--item", "where"]
    close, before = ["close", "1", str(tmp_path / "1.csv"), *paid, *columns], _entries(paid)
    words = told(*close, "--dry-run")
    assert "nothing more would be charged" in words
    assert "place1" not in words
    assert "column" in told(*close[:-1], "nowhere", "--dry-run", status=1)
    assert "period" in told("close", "3", *close[2:], "--dry-run", status=2)
    assert _entries(paid) == before
    assert told("show", *paid, "--json")["horizon"]["periods_left"] == 3
    assert told(*close, "--json")["released"][0]["selection"]["labels"] == ["place1"]
    assert "has released it" in told(*close, "--dry-run")
    assert "with other events" in told("close", "1", str(tmp_path / "2.csv"), *close[3:], "--dry-run", status=2)


@pytest.mark.slow
def test_python_keeps_the_same_horizon(paid: list[str], tmp_path: Path) -> None:
    """The functions of `dpselect.continual` take the commands' options as keywords, and go on with what these have begun."""
    kept: Any = dict(zip(("ledger", "dataset", "key", "state"), paid[1::2], strict=True))
    columns: Any = {"user": "who", "item": "where"}
    dps.continual.start(**kept, k=2, epsilon=4.0, delta=1e-6, count="running", periods=3)
    with acc.Ledger.open(paid[1]) as ledger:
        dry = dps.continual.close(1, pd.read_csv(tmp_path / "1.csv"), **{**kept, "ledger": ledger}, **columns, dry_run=True)
        assert dry.paid is not None
        found = dps.continual.close(1, pd.read_csv(tmp_path / "1.csv"), **{**kept, "ledger": ledger}, **columns)
    assert (found.items, found.periods_left) == (("place1",), 2)
    assert told("show", *paid, "--json")["released"] == found.as_data()["released"]
    kept["output"] = tmp_path / "shown.csv"
    assert dps.continual.show(**kept).items == ("place1",)
    assert kept["output"].read_text().startswith("period,rank,item")
    with pytest.raises(acc.AccountingError, match="exists"):
        dps.continual.show(**kept)
