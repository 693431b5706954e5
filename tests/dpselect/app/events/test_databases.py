"""A table or a query of any database gives the counts of the same events in a file; passwords and
data are in no message.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy
from event_oracle import counted, refused

from dpselect.errors import EventLogError

ROWS = [("u1", 2**70), ("u2", 2**70), ("u2", 5), (None, 5), ("u3", None)]


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """A database file with a table whose name needs quotes."""
    with sqlite3.connect(tmp_path / "log.db") as connection:
        connection.execute('CREATE TABLE "visits 2024" (u TEXT, i TEXT, t TEXT)')
        rows = [
            (user, None if item is None else str(item), "2024-01-05 10:00:00")
            for user, item in ROWS
        ]
        connection.executemany('INSERT INTO "visits 2024" VALUES (?, ?, ?)', rows)
    connection.close()
    return f"sqlite:///{tmp_path / 'log.db'}"


def test_sqlite_files(sqlite: str) -> None:
    """By table and by query, as text and as SQLAlchemy's address, in a window."""
    expected = {str(2**70): 2, "5": 1}
    for source in (sqlite, sqlalchemy.make_url(sqlite)):
        assert counted(source, table="visits 2024") == expected
    assert counted(sqlite, query='SELECT u, i FROM "visits 2024";') == expected
    window = {"time": "t", "since": "2024-01-01", "until": "2024-02-01"}
    assert counted(sqlite, table="visits 2024", **window) == expected
    for more in ({}, {"where": "i = none"}):  # a fraction, whatever is selected
        fraction = "SELECT 1.5 AS u, 2 AS i"
        refused(sqlite, "neither text nor whole numbers", query=fraction, **more)
    refused(sqlite, "OperationalError", table="other")
    refused(sqlite, "OperationalError", query='DROP TABLE "visits 2024"')
    assert counted(sqlite, table="visits 2024") == expected
    refused(f"{sqlite}.none", "file does not exist", table="visits 2024")
    assert not Path(f"{sqlite}.none".removeprefix("sqlite:///")).exists()


def test_duckdb_files(tmp_path: Path) -> None:
    """The engine reads them itself, with the types that they have, and writes nothing."""
    with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (u VARCHAR, i HUGEINT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?)", ROWS)
    source = f"duckdb:///{tmp_path / 'log.duckdb'}"
    before = (tmp_path / "log.duckdb").read_bytes()
    assert (
        counted(source, table="visits")
        == counted(source, query="SELECT * FROM visits")
        == {
            str(2**70): 2,
            "5": 1,
        }
    )
    assert (tmp_path / "log.duckdb").read_bytes() == before
    refused(f"duckdb:///{tmp_path / 'none.duckdb'}", "does not exist", table="visits")


def test_unknown_addresses_get_one_sentence() -> None:
    """What has no driver, and what is no database, is said without the password."""
    for source, words in (
        ("mydb://me:SECRET@host/db", "mydb:// need SQLAlchemy's driver"),
        ("hdfs://me:SECRET@host/x.parquet", "addresses that begin with hdfs:// are not read"),
    ):
        with pytest.raises(EventLogError, match=words) as caught:
            counted(source, **({"table": "t"} if "mydb" in source else {}))
        assert "SECRET" not in str(caught.value)


def test_rows_are_asked_for_once_and_in_parts(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never all at once, and the query runs once, whatever is counted."""
    asked: list[int] = []
    fetched, executed = sqlalchemy.CursorResult.fetchmany, list[str]()

    def fetchmany(self: Any, size: int | None = None) -> Any:
        asked.append(size or 0)
        return fetched(self, size)

    monkeypatch.setattr(sqlalchemy.CursorResult, "fetchmany", fetchmany)
    monkeypatch.setattr("dpselect.app.events.sources.databases._AT_ONCE", 2)
    sqlalchemy.event.listen(
        sqlalchemy.Engine, "before_cursor_execute", seen := lambda *given: executed.append(given[2])
    )
    try:
        assert counted(sqlite, table="visits 2024", max_items_per_user=1, salt="s") in (
            {str(2**70): 2},
            {str(2**70): 1, "5": 1},
        )
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", seen)
    assert asked == [2, 2, 2, 2]
    assert sum("visits 2024" in sql for sql in executed) == 1


def test_duckdb_read_errors_name_their_cause(tmp_path: Path) -> None:
    """Another process that has it open, a table that is not there, and damage: each by its name,
    and none of them as another.
    """
    path = tmp_path / "log.duckdb"
    with duckdb.connect(path) as base:
        base.execute("CREATE TABLE log AS SELECT 'u' AS u, 'i' AS i")
        refused(f"duckdb:///{path}", "in use by another process or connection", table="log")
    refused(f"duckdb:///{path}", "names something that is not there", table="other")
    hold = (
        f"import duckdb; base = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(EventLogError, match="in use by another process") as caught:
            counted(f"duckdb:///{path}", table="log")
        other.communicate("\n")
    assert "damaged" not in str(caught.value)
    assert counted(f"duckdb:///{path}", table="log") == {"i": 1}
    path.write_bytes(b"DUCK" * 5000)
    refused(f"duckdb:///{path}", "damaged", table="log")
