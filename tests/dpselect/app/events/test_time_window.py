"""Which events are read, and what makes up an item: windows of time with stated zones, and several
columns as one label.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from event_oracle import AROUND_A_DAY, INSIDE, SECRET

import dpselect as dps
from dpselect import events
from dpselect.app.events.staging import split
from dpselect.app.events.time_window import Window, periods
from dpselect.errors import EventLogError, InvalidRequest

pytestmark = pytest.mark.usefixtures("shared_database")

DAY = {"since": "2024-10-27", "until": date(2024, 10, 28), "time_zone": "Europe/Berlin"}


def seen(source: Any, **options: Any) -> list[int]:
    return [
        int(label)
        for label in events.read(
            source, **{"user": "u", "item": "i", "time": "t", **options}
        ).labels
    ]


def frame(times: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"u": [1] * len(times), "i": list(range(len(times))), "t": times})


def test_text_is_an_instant_or_a_clock_on_the_wall(tmp_path: Path) -> None:
    """With an offset a time is an instant, without it is what a clock in the zone showed; from
    since, to before until.
    """
    table = frame(AROUND_A_DAY)
    table.write_csv(tmp_path / "t.csv")
    table.write_ndjson(tmp_path / "t.jsonl")
    for source in (table, tmp_path / "t.csv", tmp_path / "t.jsonl"):
        assert seen(source, **DAY) == INSIDE


def test_times_as_warehouses_export_them() -> None:
    """Zones as names, and offsets with and without a colon, are instants."""
    exported = [
        "2024-01-05 10:00:00 UTC",
        "2024-01-05 10:00:00.123456 UTC",
        "2024-01-05 03:00:00 -0700",
    ]
    exported += ["2024-01-05T12:00:00+02", "2024-01-05 15:30:00.5+05:30", "2024-01-05T10:00:00Z"]
    assert seen(frame(exported), since="2024-01-05T10:00Z", until="2024-01-05T10:01Z") == list(
        range(6)
    )


def test_typed_columns_are_read_by_their_type(tmp_path: Path) -> None:
    """Timestamps with a zone are instants, those without and dates are of the wall, and numbers are
    what is said.
    """
    instants = [datetime(2024, 10, 26, 21, 59, 59, tzinfo=UTC)]
    instants += [datetime(2024, 10, day, hour, tzinfo=UTC) for day, hour in ((26, 22), (27, 23))]
    walls = [datetime(2024, 10, 26, 23, 59, 59), datetime(2024, 10, 27), datetime(2024, 10, 28)]
    for source in (frame(instants), frame(walls)):
        typed = source.to_pandas()
        for one in (source, typed, typed.astype({"t": "category"})):
            assert seen(one, **DAY) == [1]
    assert seen(frame([moment.date() for moment in walls]), **DAY) == [1]
    for unit, size in (("s", 1), ("ms", 1000)):
        numbers = frame([size * int(moment.timestamp()) for moment in instants])
        numbers.write_csv(tmp_path / "numbers.csv")
        for one in (numbers, tmp_path / "numbers.csv"):
            assert seen(one, **DAY, time_unit=unit) == [1]


def test_an_end_may_be_missing_and_may_have_an_offset() -> None:
    """Either side may be open; an end with an offset of its own is that instant."""
    moments = ["2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"]
    assert seen(frame(moments), since="2024-01-01T01:00") == [1]
    assert seen(frame(moments), until="2024-01-01T01:00") == [0]
    assert seen(
        frame(moments), since=datetime(2024, 1, 1, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    ) == [1]


def test_events_without_a_time_are_left_out() -> None:
    """They are counted as such; the others outside the window are no events of this reading."""
    read = events.read(
        frame(["2024-01-01", None, "2025-01-01"]), user="u", item="i", time="t", until="2024-06-01"
    )
    assert (read.report.rows, read.report.rows_left_out) == (2, 1)


@pytest.mark.parametrize(
    ("row", "options", "words"),
    [
        ({"i": 7.5}, {}, "neither text nor whole numbers"),
        ({"i": 7.5}, {"null": "7.5", "where": "i = 7"}, "neither text nor whole numbers"),
        ({"i": 7, "v": SECRET}, {"value": "v", "value_clip": 5}, "not a finite number"),
    ],
)
def test_a_refusal_does_not_depend_on_the_window(
    row: Any, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """What is malformed is looked for in the whole log: all windows alike, whatever labels and rows
    are left out, before any period that the log is cut into.
    """
    log, said = tmp_path / "l.jsonl", set[str]()
    rows = [{"t": "2024-01-01", "u": 1, "i": 7, "v": 1}, {"t": "2024-02-01", "u": 1, **row}]
    log.write_text("\n".join(map(json.dumps, rows)))
    asked: dict[str, Any] = {"user": "u", "item": "i", **options}

    def cut(log: Path, since: str, **_: Any) -> None:
        with cut_by_day(log, since, "2024-01-03", **options) as parts:
            for part in parts.values():
                events.read(part, **asked)

    for since in ("2023-12-31", "2024-01-01", "2024-01-15", "2030-01-01"):
        for read in (cut, events.read, *([] if options else [events.hold])):
            if read is not cut or since < "2024-01-03":
                with pytest.raises(EventLogError, match=words) as refused:
                    read(log, since=since, **asked, time="t")
                said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.parametrize(
    "time",
    [SECRET, "2024-13-01", "20240101", "2024-01-01 10:00 Europe/Berlin", "1704067200", "infinity"],
)
def test_invalid_times_are_refused_without_the_row(time: str) -> None:
    """A zone by name, digits, or anything else: one error that shows the rule and not the row."""
    with pytest.raises(EventLogError, match=r"time='t' of .* is not a time") as caught:
        seen(frame(["2024-01-01", time]), since="2024-01-01")
    assert time not in str(caught.value)


def test_periods_are_named_as_a_ledger_names_them() -> None:
    """Whole days, ISO weeks and months of a zone; a day of 25 hours is one day."""

    def named(every: Any, since: str, until: str) -> list[tuple[str, float]]:
        whole = Window.between(since, until, "Europe/Berlin", None)
        hours = lambda start, end: (  # noqa: E731
            (end.astimezone(UTC) - start.astimezone(UTC)).total_seconds() / 3600
        )
        return [(name, hours(start, end)) for name, start, end in periods(whole, every)]

    assert named("day", "2024-10-26", "2024-10-29") == [
        ("2024-10-26", 24),
        ("2024-10-27", 25),
        ("2024-10-28", 24),
    ]
    assert [name for name, _ in named("month", "2024-11-01", "2025-02-01")] == [
        "2024-11",
        "2024-12",
        "2025-01",
    ]
    assert [name for name, _ in named("week", "2024-12-23", "2025-01-06")] == [
        "2024-W52",
        "2025-W01",
    ]
    with pytest.raises(InvalidRequest, match="since='2024-11-02' is not where a month starts"):
        named("month", "2024-11-02", "2025-02-01")
    with pytest.raises(InvalidRequest, match="more than 400"):
        named("day", "2020-01-01", "2024-01-01")


def test_files_without_an_event_in_any_period_are_cut_like_others(tmp_path: Path) -> None:
    """Were they refused, the first event in a period would tell of itself, for free. The labels of
    a public list are as it writes them, though the type of nobody's items is none.
    """
    files = [tmp_path / f"{number}.csv" for number in range(2)]
    for file in files:
        file.write_text("u,i,t\nann,zoo,2020-01-01\n")
    listed: list[Any] = ["1", 2]
    for source in (files, frame(["2020-01-01"])):
        with cut_by_day(source, "2024-01-01", "2024-01-02") as parts:
            (part,) = parts.values()
            scores = events.read(part, user="u", item="i").scores(listed)
            assert (scores.labels, scores.values.tolist()) == (("1", 2), [0, 0])
            with events.hold(part, user="u", item="i") as held:
                drawn = dps.OneshotTopK(k=2, noise="gumbel", scale=1.0).select(held.scores(listed))
                assert {*(drawn.labels or ())} == {*listed}


def cut_by_day(source: Any, since: str, until: str, zone: str = "UTC", **about: Any) -> Any:
    """The parts of a log, a day each."""
    reading = events.Reading(
        user="u", item="i", **about, time="t", since=since, until=until, time_zone=zone
    )
    assert reading.window is not None
    return split(source, reading, list(periods(reading.window, "day")))


def test_a_day_that_a_zone_skipped_is_no_period() -> None:
    """Samoa had no 30 December 2011: the first instant of the 31st is of the 31st, and a clock
    never showed the 30th.
    """
    times = [
        "2011-12-30T09:59:59Z",
        "2011-12-30T10:00:00Z",
        "2011-12-30T12:00:00",
        "2011-12-31T00:00:00",
    ]
    with cut_by_day(frame(times), "2011-12-29", "2012-01-01", "Pacific/Apia") as parts:
        found = {name: events.read(part, user="u", item="i").labels for name, part in parts.items()}
    assert found == {"2011-12-29": (0,), "2011-12-31": (1, 3)}


PAIRS = [
    (1, "DE", "Berlin"),
    (2, "DE", "Berlin"),
    (1, "a,b", "c"),
    (1, "a", "b,c"),
    (1, 'q"', "x"),
    (2, "DE", None),
    (3, "", "y"),
]


def test_a_list_names_an_item_of_several_columns_by_its_parts() -> None:
    """No two items are written alike: how they are is a law of test_neighbors.py."""
    log = pl.DataFrame(PAIRS, schema=["u", "a", "b"], orient="row")
    read = events.read(log, user="u", item=["a", "b"])
    assert read.scores(
        [("DE", "Berlin"), ("a", "b,c"), ("", "y"), ("FR", "Paris")]
    ).values.tolist() == [
        2,
        1,
        1,
        0,
    ]


def test_several_columns_are_one_user(tmp_path: Path) -> None:
    """No two users become one, "a,b" and "c" as little as "a" and "b,c"; nulls in any part make
    none, from every source; and the parts may be integers in one file and text in another.
    """
    asked: dict[str, Any] = {"user": ["a", "b"], "item": "i"}
    frame = pl.DataFrame([(a, b, "zoo") for _, a, b in PAIRS], schema=["a", "b", "i"], orient="row")
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_csv(tmp_path / "log.csv", quote_style="non_numeric")
    # in CSV "" is missing
    for source, users in ((frame, 5), (tmp_path / "log.parquet", 5), (tmp_path / "log.csv", 4)):
        assert events.read(source, **asked).counts.tolist() == [users]
    held = events.read(frame, **asked, max_items_per_user=1, salt="s")
    assert (held.counts.tolist(), held.report.rows_without_user) == ([5], 1)
    pl.DataFrame({"a": [1, 1], "b": [1, 2], "i": ["zoo", "zoo"]}).write_parquet(
        tmp_path / "whole.parquet"
    )
    (tmp_path / "text.csv").write_text("a,b,i\n1,2,zoo\n1,x,zoo\n")
    assert events.read(
        [tmp_path / "whole.parquet", tmp_path / "text.csv"], **asked
    ).counts.tolist() == [3]
    (tmp_path / "text.csv").write_text("a,b,i\n1,2.0,zoo\n")
    assert events.read(
        [tmp_path / "whole.parquet", tmp_path / "text.csv"], **asked
    ).counts.tolist() == [2]
    for wrong, words in (
        ([], "1 to 8"),
        (["a", None], "1 to 8"),
        (["a", "a"], "same column"),
        (["a", "c"], "user='c' is not"),
    ):
        with pytest.raises(EventLogError, match=words):
            events.read(frame, user=wrong, item="i")
    with pytest.raises(EventLogError, match="column of users"):
        events.read(frame, **asked, where="b = c")
