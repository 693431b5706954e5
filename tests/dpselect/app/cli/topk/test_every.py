"""`topk --every`: one release for each period, charged to it, from one pass over the log; stopped
anywhere, it goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import accounting as acc
from dpselect.app.cli import app
from dpselect.app.release import series

EPSILON = "300"  # with which a wrong winner is less likely than e^-100
Every = Callable[..., Result]
# On each day another place has ten visitors, and the other two; nobody comes on 4 May.
VISITS = [
    (day, user, "zoo" if user < (10 if day % 2 else 2) else "pier")
    for day in (1, 2, 3)
    for user in range(12)
]


@pytest.fixture
def every(tmp_path: Path) -> Every:
    """Run `topk --every day` on the first five days of May, charged to a ledger with a budget per
    day.
    """
    (tmp_path / "log.csv").write_text(
        "u,i,t,v\n" + "".join(f"{u},{i},2024-05-0{d}T1{d}:00:00,2.5\n" for d, u, i in VISITS)
    )
    (tmp_path / "items.csv").write_text("i\nzoo\npier\npark\n")
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        ledger.create_dataset("days", acc.Budget(epsilon=500), "add_remove", window="day")
        ledger.create_dataset(
            "loose", acc.Budget(epsilon=900, delta=0.1), "add_remove", window="day"
        )
        ledger.create_dataset("whole", acc.Budget(epsilon=500), "add_remove")

    def run(*arguments: object, **changed: str) -> Result:
        given = {
            **{
                "--user": "u",
                "--item": "i",
                "--k": "1",
                "--epsilon": EPSILON,
                "--domain": f"{tmp_path}/items.csv",
            },
            **{
                "--time": "t",
                "--since": "2024-05-01",
                "--until": "2024-05-05",
                "--every": "day",
                "--key": "daily",
            },
            **{
                "--ledger": f"sqlite:///{tmp_path}/p.db",
                "--dataset": "days",
                "--output": f"{tmp_path}/top-{{period}}.json",
            },
            **{f"--{name.replace('_', '-')}": text for name, text in changed.items()},
        }
        words = [word for name, text in given.items() if text != "" for word in (name, text)]
        return CliRunner().invoke(
            app, ["topk", str(tmp_path / "log.csv"), *words, "--json", *map(str, arguments)]
        )

    return run


def states(result: Result) -> list[str]:
    return [line["state"] for line in json.loads(result.stdout)["periods"]]


def winner(folder: Path, day: int) -> str:
    answer = json.loads((folder / f"top-2024-05-0{day}.json").read_text())
    assert answer["ledger"]["period"] == [f"2024-05-0{day}"]
    assert answer["ledger"]["key"] == f"daily:2024-05-0{day}"
    (label,) = answer["selection"]["labels"]
    return str(label)


def spent(folder: Path) -> dict[str, int]:
    """How often each period was charged."""
    with acc.Ledger.open(f"sqlite:///{folder}/p.db") as ledger:
        charged = [entry.period for entry in ledger.entries("days") if entry.action == "charge"]
    return {period: charged.count(period) for period in charged}


def test_every_day_is_released_once(every: Every, tmp_path: Path) -> None:
    """A day's answer is of its events alone, a day without events is released like any other, and a
    second run does nothing.
    """
    first = every()
    assert (first.exit_code, first.stderr.count("\n")) == (0, 1)  # what all days add up to
    assert states(first) == ["released"] * 4
    assert [winner(tmp_path, day) for day in (1, 2, 3)] == ["zoo", "pier", "zoo"]
    assert winner(tmp_path, 4) in ("zoo", "pier", "park")
    before = {path: path.read_bytes() for path in tmp_path.glob("top-*")}
    again = every()
    assert (again.exit_code, states(again)) == (0, ["recorded"] * 4)
    assert {path: path.read_bytes() for path in tmp_path.glob("top-*")} == before
    assert spent(tmp_path) == {f"2024-05-0{day}": 1 for day in (1, 2, 3, 4)}


def test_a_dry_run_of_a_series_writes_nothing(every: Every, tmp_path: Path) -> None:
    """Not even a table that was lost, and nothing on the ledger: of a series that was begun it
    prices what is left.
    """
    assert every(until="2024-05-03", output=f"{tmp_path}/top-{{period}}.csv").exit_code == 0
    (tmp_path / "top-2024-05-01.csv").unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = every("--dry-run", output=f"{tmp_path}/top-{{period}}.csv")
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert (
        "once all of them are charged, for a user whose rows lie in all 4 days, the cost is epsilon"
        in said
    )
    assert '"left": [ "2024-05-03: days, 2024-05-03: budget' in said
    nothing = every("--dry-run", until="2024-05-03", output=f"{tmp_path}/top-{{period}}.csv")
    assert nothing.exit_code == 2
    assert "charged already. Leave --dry-run out" in " ".join(nothing.stderr.split())
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_the_last_day_may_be_cut_short(every: Every, tmp_path: Path) -> None:
    """An end inside a day is refused but with --partial-last; that day's key has then paid for what
    came before the end.
    """
    refused = every(until="2024-05-03T14:00:00")
    said = " ".join(refused.stderr.split())
    assert (
        "the nearest are 2024-05-03 and 2024-05-04; --partial-last ends the last one early" in said
    )
    assert not spent(tmp_path)
    assert states(every("--partial-last", until="2024-05-03T14:00:00")) == ["released"] * 3
    assert [winner(tmp_path, day) for day in (1, 2, 3)] == ["zoo", "pier", "zoo"]
    whole = every()
    assert whole.exit_code == 1
    assert "with another until" in " ".join(whole.stderr.split())
    assert spent(tmp_path) == {f"2024-05-0{day}": 1 for day in (1, 2, 3)}


@pytest.mark.slow
def test_a_gap_stays_a_gap(every: Every, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a day that is released already fall to no other day; a run reads the log once,
    and not where all is done.
    """
    days = {1: ("zoo", 5), 2: ("pier", 50), 3: ("zoo", 5), 4: ("park", 5)}
    rows = [
        f"{user},{item},2024-05-0{day}"
        for day, (item, users) in days.items()
        for user in range(users)
    ]
    (tmp_path / "log.csv").write_text(
        "\n".join(["u,i,t", *rows, "1,pier,", "1,pier,2024-05-05", "1,pier,2024-04-30"])
    )
    passes, split = [], series.split
    monkeypatch.setattr(series, "split", lambda *given: passes.append(1) or split(*given))
    assert states(every(since="2024-05-02", until="2024-05-03")) == ["released"]
    assert states(every()) == ["released", "recorded", "released", "released"]
    assert [winner(tmp_path, day) for day in (1, 2, 3, 4)] == ["zoo", "pier", "zoo", "park"]
    every()
    assert passes == [1, 1]


@pytest.mark.slow
def test_zones_move_the_days(every: Every, tmp_path: Path) -> None:
    """A time without a zone is of the zone that is stated, one with a zone is where that instant
    falls.
    """
    log = tmp_path / "log.csv"
    log.write_text(
        "u,i,t\n"
        + "".join(
            f"{u},zoo,2024-05-01T23:30:00Z\n{u + 100},pier,2024-05-01T23:30:00\n" for u in range(30)
        )
    )
    refused = every(time_zone="Asia/Tokyo")
    assert (refused.exit_code, "'UTC'" in refused.stderr) == (1, True)  # "days" has the days of UTC
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'p.db'}") as ledger:
        ledger.create_dataset(
            "tokyo", acc.Budget(epsilon=500), "add_remove", window="day", time_zone="Asia/Tokyo"
        )
    assert every(time_zone="Asia/Tokyo", dataset="tokyo").exit_code == 0
    assert (winner(tmp_path, 1), winner(tmp_path, 2)) == ("pier", "zoo")
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'p.db'}") as ledger:
        assert ledger.totals("days") == []
        labels = {entry.label for entry in ledger.latest("tokyo") if entry.action == "charge"}
    assert labels == {"dpselect topk, times without a zone in Asia/Tokyo"}


@pytest.mark.slow
def test_other_ways_to_count_go_with_it(every: Every, tmp_path: Path) -> None:
    """Sums, several columns, JSON lines, times of a stated format and an unknown domain."""
    assert every("--value", "v", "--value-clip", "3", until="2024-05-02").exit_code == 0
    assert winner(tmp_path, 1) == "zoo"
    log = tmp_path / "log.csv"
    log.write_text(
        "\n".join(json.dumps({"u": u, "i": i, "n": d, "t": f"0{d}.05.2024"}) for d, u, i in VISITS)
    )
    words = ("--format", "jsonl", "--time-format", "%d.%m.%Y", "--mechanism", "limited_domain")
    done = every(*words, since="2024-05-03", item="i,n", domain="", delta="1e-3", dataset="loose")
    assert (done.exit_code, done.stderr.count("\n")) == (0, 1)
    assert states(done) == ["released"] * 2


def test_a_malformed_row_refuses_every_period(every: Every, tmp_path: Path) -> None:
    """Whatever days are asked for, and nothing is charged: were one day refused alone, whose it is
    would be told for free.
    """
    log = (tmp_path / "log.csv").read_text()
    (tmp_path / "log.csv").write_text(log + "9,zoo,2024-05-02T10:00:00,SECRET42\n")
    for since, until in (
        ("2024-05-01", "2024-05-02"),
        ("2024-05-02", "2024-05-03"),
        ("2024-05-04", "2024-05-05"),
    ):
        refused = every(since=since, until=until, value="v", value_clip="5")
        assert (refused.exit_code, "SECRET" in refused.stderr) == (1, False)
        assert "not a finite number" in " ".join(refused.stderr.split())
    (tmp_path / "log.csv").write_text(log + "1,zoo,SECRET42,1\n")
    refused = every()
    assert (refused.exit_code, "SECRET" in refused.stderr, "is not a time" in refused.stderr) == (
        1,
        False,
        True,
    )
    assert spent(tmp_path) == {}


def test_events_of_a_day_are_charged_to_that_day(every: Every, tmp_path: Path) -> None:
    """A window of time is charged to the periods that it reads, neither to others nor to fewer;
    some hours cost their day.
    """
    for ends, days, told in (
        ({"until": "2024-05-02"}, ["2031-01-01"], "2024-05-01"),
        ({"until": "2024-05-03"}, ["2024-05-01"], "2024-05-01, 2024-05-02"),
        ({"until": "2024-05-02"}, ["2024-05-01", "2024-05-02"], "2024-05-01"),
        ({"until": ""}, ["2024-05-01"], "--until"),
    ):
        refused = every(
            *(word for day in days for word in ("--period", day)),
            **{"every": "", "output": "", "key": "", **ends},
        )
        assert (refused.exit_code, told in refused.stderr) == (2, True)
    assert spent(tmp_path) == {}
    done = every(
        "--period",
        "2024-05-01",
        every="",
        output="",
        key="",
        since="2024-05-01T08:00",
        until="2024-05-02",
    )
    assert done.exit_code == 0, done.stderr
    assert spent(tmp_path) == {"2024-05-01": 1}


@pytest.mark.slow
def test_what_all_periods_add_up_to_is_said_before_they_are_read(
    every: Every, tmp_path: Path
) -> None:
    """Somebody in all days faces the sum of what each is charged, earlier days included: on stderr
    first, and in the answer.
    """
    first = every(until="2024-05-03")
    assert "for a user whose rows lie in all 2 days, the cost is epsilon 600 in all" in first.stderr
    assert json.loads(first.stdout)["in_all"]["epsilon"] == pytest.approx(600)
    (tmp_path / "log.csv").rename(tmp_path / "away.csv")
    unread = every()
    assert unread.exit_code != 0
    assert (
        "to be released, 2 of 4 periods: for a user whose rows lie in all 4 days, the cost is"
        " epsilon 1200 in all" in unread.stderr
    )
    (tmp_path / "away.csv").rename(tmp_path / "log.csv")
    assert json.loads(every().stdout)["in_all"] == {
        **{"periods": 4, "epsilon": pytest.approx(1200), "delta": 0.0},
        "in_words": "for a user whose rows lie in all 4 days, the cost is epsilon 1200 in all",
    }
    assert "to be released" not in every().stderr


def test_periods_beyond_what_somebody_in_all_may_face_are_refused_unread(
    every: Every, tmp_path: Path
) -> None:
    """A dataset's `most_in_all` refuses all periods of a run at once, before the log is opened and
    before any is charged.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        ledger.create_dataset(
            "capped", acc.Budget(epsilon=500), "add_remove", window="day", most_in_all=1000
        )
    (tmp_path / "log.csv").unlink()
    refused = every(dataset="capped")
    assert refused.exit_code == 3
    said = " ".join(refused.stderr.split())
    assert (
        "lie in all 4 days, the cost is epsilon 1200 in all, and the dataset allows at most"
        " epsilon 1000 in all" in said
    )
    with acc.Ledger.open(f"sqlite:///{tmp_path}/p.db") as ledger:
        assert ledger.totals("capped") == []
