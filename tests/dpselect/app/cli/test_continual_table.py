"""One command for the top of each country, every week, with numbers of users, from one budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shell import dpselect

import accounting as acc

pytestmark = pytest.mark.usefixtures("shared_database")

COUNTRIES = ("DE", "FR", "UK")
FIRST = pd.Timestamp("2024-01-01")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def charts(rows: int, users: int, weeks: int, items: int, hits: int) -> pd.DataFrame:
    """Plays of songs: each user has one country for nearly all of them; in each, other songs are
    hits, with four plays of five.

    A row in twenty is a song that was skipped.
    """
    rng = np.random.default_rng(1)
    user = rng.integers(0, users, rows)
    home = rng.choice(3, users, p=[0.4, 0.33, 0.27])[user]
    country = np.where(rng.random(rows) < 0.97, home, rng.integers(0, 3, rows))
    popular = np.arange(1, hits + 1) ** -0.5
    shares = np.concatenate(
        [0.8 * popular / popular.sum(), np.full(items - hits, 0.2 / (items - hits))]
    )
    songs = np.array([rng.permutation(items) for _ in COUNTRIES])
    week = rng.integers(0, weeks, rows)
    return pd.DataFrame(
        {
            "user": user,
            "country": np.array(COUNTRIES)[country],
            "song": songs[country, rng.choice(items, rows, p=shares)],
            "at": (
                (FIRST + pd.to_timedelta(7 * week + rng.integers(0, 7, rows), unit="D")).strftime(
                    "%Y-%m-%d"
                )
            ),
            "what": np.where(rng.random(rows) < 0.05, "skip", "play"),
        }
    )


def table(log: pd.DataFrame, weeks: int, asked: str) -> Any:
    """What the command prints, in the working folder."""
    with acc.Ledger.open(url := "sqlite:///ledger.db") as ledger:
        ledger.create_dataset("plays", acc.Budget(epsilon=100.0, delta=1e-5), "add_remove")
    log.to_parquet("log.parquet")
    until = f"{FIRST + pd.Timedelta(weeks=weeks):%Y-%m-%d}"
    done = dpselect(
        "continual run log.parquet --user user --item song --group country --with-counts",
        f"--where 'what = play' --items-per-period 1 --delta 1e-6 --json {asked}",
        f"--time at --every week --since {FIRST:%Y-%m-%d} --until {until}",
        f"--ledger {url} --dataset plays --key charts --state state",
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def counts(log: pd.DataFrame) -> Any:
    """The true number of users of each song, by week and country."""
    days = (pd.to_datetime(log["at"]) - FIRST).dt.days
    played = log.assign(week=days // 7)[log["what"] == "play"].drop_duplicates(
        ["week", "country", "song", "user"]
    )
    return played.groupby(["week", "country", "song"]).size()


def judged(log: pd.DataFrame, told: Any, k: int) -> tuple[float, float]:
    """The share of the true top k on average over weeks and countries, and that of low ends that
    hold for the true numbers.
    """
    truth, weeks = counts(log), [one["name"] for one in told["released"]]
    rows = pd.DataFrame(told["table"]).assign(week=lambda shown: shown["period"].map(weeks.index))
    rows["song"] = rows["item"].astype(int)
    found = rows.set_index(["week", "country", "song"])
    right = truth[
        truth
        >= truth.groupby(level=["week", "country"]).transform(
            lambda of_one: of_one.nlargest(k).iloc[-1]
        )
    ]
    places = len(right.groupby(level=["week", "country"]).size()) * k
    held = found["low"] <= truth.reindex(found.index, fill_value=0)
    return float(found.index.isin(right.index).sum() / places), float(held.mean())


@pytest.mark.usefixtures("place")
def test_single_command_releases_groups_over_time_with_counts() -> None:
    """Three countries, two weeks, the rows of plays: the hits of each are found, and at least so
    many users played them.
    """
    log = charts(9_000, 3_000, 2, items=8, hits=2)
    told = table(log, 2, "--k 2 --epsilon 20")
    recall, held = judged(log, told, 2)
    assert (recall, told["intervals"]["at_least"]) == (1.0, True)
    assert held >= 0.6
    assert {row["high"] for row in told["table"]} == {None}
    assert told["horizon"]["periods_left"] == 0
    published = Path(__file__).resolve().parents[4] / "docs" / "_static"
    if not published.exists():
        return
    schemas = [
        json.loads((published / f"{name}.schema.json").read_text()) for name in ("series", "table")
    ]
    schemas[0]["properties"]["table"] = schemas[1]
    checker = pytest.importorskip("jsonschema").Draft202012Validator(schemas[0])
    assert list(checker.iter_errors(told)) == []
    assert list(checker.iter_errors({**told, "table": [{"period": 1, "rank": 0, "item": "a"}]}))


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_a_year_of_weekly_charts_of_three_countries() -> None:
    """15,000 users, 200,000 rows: .85 of each country's true top 20 or more; low ends hold for 95 %
    of what is shown.
    """
    log = charts(200_000, 15_000, 52, items=200, hits=20)
    told = table(log, 52, "--k 20 --epsilon 3")
    recall, held = judged(log, told, 20)
    assert recall >= 0.85
    assert held >= 0.95
