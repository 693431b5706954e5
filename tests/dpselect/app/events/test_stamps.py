"""Stamps of Parquet without a logical type are instants in UTC, as its format and Spark have them:
one row has one day.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import counted, refused

pytestmark = pytest.mark.usefixtures("shared_database")

LATE = datetime(2024, 7, 14, 22, 30)  # half past midnight of the 15th in Berlin
TIMES = [LATE, datetime(2024, 7, 14, 12), datetime(2024, 7, 15, 12)]
DAYS: tuple[dict[str, Any], ...] = tuple(
    {"since": f"2024-07-{day}", "until": f"2024-07-{day + 1}", "time_zone": "Europe/Berlin"}
    for day in (14, 15)
)
WALL = [{"pier": 1, "zoo": 1}, {"pier": 1}]
INSTANT = [{"pier": 1}, {"pier": 1, "zoo": 1}]
# The logical type of a time of a clock in a footer: old files have none.
_LOGICAL = b"\x4c\x8c\x12\x1c\x2c\x00\x00\x00\x00"


def stamps(zone: str | None = None) -> pa.Table:
    """Events whose times are in a column and within others, after a list that holds the same
    name.
    """
    time = pa.array(TIMES, pa.timestamp("us", zone))
    lists = pa.array([[{"at": 1}], [], None])
    within = pa.StructArray.from_arrays([lists, time, pa.array([7, 8, 9])], ["at", "When", "more"])
    outer = pa.StructArray.from_arrays([pa.array([1, 2, 3]), within], ["one", "two"])
    columns = {
        "u": ["ann", "bob", "cleo"],
        "list": lists,
        "i": ["zoo", "pier", "pier"],
        "at": time,
        "in": within,
        "out": outer,
    }
    return pa.table(columns)


def written(path: Path, how: str) -> Path:
    """The events in a file whose stamps are of this kind."""
    pq.write_table(
        stamps("UTC" if how == "utc" else None),
        path,
        use_deprecated_int96_timestamps=how == "int96",
        store_schema=False,
    )
    if how == "parquet 1":
        content = path.read_bytes()
        assert content.count(_LOGICAL) == 3
        size = int.from_bytes(content[-8:-4], "little") - 3 * len(_LOGICAL)
        path.write_bytes(
            content[:-8].replace(_LOGICAL, b"") + size.to_bytes(4, "little") + content[-4:]
        )
    return path


def days(source: Any, time: object = "at") -> list[dict[Any, int]]:
    """The counts of each of the two days."""
    return [counted(source, time=time, **day) for day in DAYS]


@pytest.mark.parametrize("time", ["at", 4, "in.When", "out.two.When"])
@pytest.mark.parametrize(
    ("how", "found"), [("int96", INSTANT), ("parquet 1", INSTANT), ("utc", INSTANT), ("wall", WALL)]
)
def test_old_stamps_are_instants(
    tmp_path: Path, how: str, found: list[dict[Any, int]], time: object
) -> None:
    """Those of INT96 and of Parquet 1, by name, position and within others; those that say that
    they are of a clock are.
    """
    assert days(written(tmp_path / "log.parquet", how), time) == found


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", None])
def test_nanoseconds_are_never_rounded_into_the_next_day(tmp_path: Path, zone: str | None) -> None:
    """The last nanosecond of a day is of that day, in files and in tables; a time that never comes
    is refused.
    """
    midnight = datetime(2024, 7, 14, 22, tzinfo=UTC) if zone else datetime(2024, 7, 15, tzinfo=UTC)
    last = int(midnight.timestamp()) * 10**9 - 1
    time = pa.array([last, last + 1, None], pa.int64()).cast(pa.timestamp("ns", zone))
    table = pa.table({"u": ["ann", "bob", "cleo"], "i": ["zoo", "pier", "pier"], "at": time})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet", pl.from_arrow(table), table.to_pandas()):
        assert days(source) == [{"zoo": 1}, {"pier": 1}]
    if zone is None:
        eve = table.slice(0, 1).set_column(2, "at", pa.array([-1], time.type))
        assert counted(eve, time="at", since="1969-12-31", until="1970-01-01") == {"zoo": 1}
    kind = duckdb.from_arrow(table).types[2]
    never = duckdb.sql(f"SELECT 'ann' AS u, 'zoo' AS i, CAST('infinity' AS {kind}) AS at")
    refused(never, "time", time="at", **DAYS[0])


def test_files_of_old_and_new_instants_are_one_log(tmp_path: Path) -> None:
    """Of three writers; with times of a clock among them they are refused."""
    files = [written(tmp_path / f"{how}.parquet", how) for how in ("int96", "parquet 1", "utc")]
    assert days(files) == days(tmp_path) == INSTANT
    written(tmp_path / "wall.parquet", "wall")
    refused(tmp_path, "has other types in some of the files", time="at", **DAYS[0])
