"""Every source: the same counts, row for row, whatever the log lies in; streams stay streams;
errors show nothing of the data.
"""

from __future__ import annotations

import io
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy
from event_oracle import SECRET, Sources, Stream, bounded, counted, distinct_users, refused

import accounting as acc
import dpselect as dps
from accounting.ledger import AlreadyCharged
from dpselect import events
from dpselect.app.events.sources import tables
from dpselect.errors import EventLogError

_RANDOM = random.Random(1)
LOG: list[tuple[Any, Any]] = [
    (
        f"user {_RANDOM.randrange(40)}",
        _RANDOM.choice(["a", "b,\"c'", "\\N", "it\nem", "é", "007", "7"]),
    )
    for _ in range(300)
] + [(None, "a"), ("user 1", None)]
READ = {"user": "who", "item": "Where ?"}


def counts(source: Any, **options: Any) -> events.EventCounts:
    return events.read(source, **{**READ, **options})


def test_standard_input_is_read_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its end, with the format that is stated."""
    log = Sources(tmp_path, list(READ.values())).csv(LOG).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    found = counts("-", format="csv")
    assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == distinct_users(LOG)
    assert (found.report.rows, found.report.rows_left_out) == (302, 2)


def test_an_error_names_no_category(tmp_path: Path) -> None:
    """The engine's type of an enumeration lists its values: errors say that it is one, and no
    more.
    """
    log = pd.DataFrame({"u": [1, 2], "i": ["a", "b"], "t": pd.Categorical([SECRET, "x"])})
    window = {"time": "t", "since": "2024-01-01", "until": "2024-02-01"}
    refused(log, "is not a time", **window)
    with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE log AS SELECT 1 AS u, 1 AS i, '{SECRET}'::ENUM('{SECRET}') AS t"
        )
    refused(f"duckdb:///{tmp_path / 'log.duckdb'}", "is of type ENUM:", table="log", **window)


def test_names_of_folders_are_columns(tmp_path: Path) -> None:
    """key=value on the way to a file is a column of text, its escapes undone; the null of
    partitions is a null.
    """
    for value, users in (("a%2Fb", [1, 2]), ("07", [1]), ("__HIVE_DEFAULT_PARTITION__", [3])):
        part = tmp_path / f"shop={value}"
        part.mkdir()
        pl.DataFrame({"u": users}).write_parquet(part / "x.parquet")
    for source in (tmp_path, str(tmp_path / "shop=*" / "x.parquet")):
        found = events.read(source, user="u", item="shop")
        assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == {"07": 1, "a/b": 2}
        assert found.report.rows_without_item == 1
    (tmp_path / "shop=1" / "town=2").mkdir(parents=True)
    pl.DataFrame({"u": [1]}).write_parquet(tmp_path / "shop=1" / "town=2" / "x.parquet")
    with pytest.raises(EventLogError, match="none in the files"):
        events.read(tmp_path / "shop=1", user="u", item="town") and events.read(
            f"{tmp_path}/*/*/*.parquet", user="shop", item="town"
        )


def test_pattern_reads_hidden_names_only_if_stated(tmp_path: Path) -> None:
    """A pattern matches a file that is still being written as little as a folder holds it."""
    for name, user in (("a", 1), (".b", 2), ("_c", 3), ("_temporary/d", 4)):
        path = tmp_path / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"u,i\n{user},{name}\n")
    for pattern, labels in (("*.csv", ["a"]), ("**/*.csv", ["a"]), ("_*.csv", ["_c"])):
        assert list(counted(f"{tmp_path}/{pattern}")) == labels
    assert list(counted(tmp_path, format="csv")) == ["a"]


def test_values_in_folders_names_are_data(tmp_path: Path) -> None:
    """What goes wrong in a file is reported without the values that stand in its path."""
    part = tmp_path / f"i={SECRET}"
    part.mkdir()
    (part / "x.parquet").write_text("no Parquet")
    (part / "y.csv.gz").write_text("not packed")
    refused(tmp_path, r"i=\.\.\./x\.parquet' is not a Parquet file")
    refused(f"{tmp_path}/*/*.csv.gz", r"i=\.\.\./y\.csv\.gz' is not a whole gzip")
    pl.DataFrame({"u": [1]}).write_parquet(part / "x.parquet")
    refused(tmp_path, r"'v' is not a column of parquet file .*i=\.\.\./x\.parquet", user="v")


def test_a_stream_is_never_whole_in_memory() -> None:
    """Batches of an Arrow stream are asked for one by one, and gone when the next comes."""
    import weakref

    alive: list[weakref.ref[Any]] = []
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(40):
            batch = pa.RecordBatch.from_pydict(
                {"u": list(range(number, number + 5000)), "i": ["a"] * 5000}
            )
            alive.append(weakref.ref(batch))
            most = max(most, sum(one() is not None for one in alive))
            yield batch

    schema = pa.schema([("u", pa.int64()), ("i", pa.string())])
    found = events.read(
        pa.RecordBatchReader.from_batches(schema, batches()), user="u", item="i", buckets=1
    )
    assert found.counts.tolist() == [5039]
    assert most <= 20


class Cramped:
    """A connection on which the first tables that are made do not fit; the event log has been read
    by then.
    """

    def __init__(self, connection: Any, failures: int) -> None:
        self._connection = connection
        self._failures = failures
        self.asked: list[str] = []

    def execute(self, sql: str, *more: Any) -> Any:
        made = sql.startswith("CREATE TABLE")
        if made or sql.startswith("SET memory_limit"):
            self.asked.append(sql.split(" AS ")[0])
        result = self._connection.execute(sql, *more)
        if made and self._failures:
            self._failures -= 1
            self._connection.execute(sql.split(" AS ")[0].replace("CREATE", "DROP"))
            raise duckdb.OutOfMemoryException("failed to allocate data")
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _cramped(monkeypatch: pytest.MonkeyPatch, failures: int) -> list[str]:
    """What is asked of a connection on which the first tables do not fit."""
    connection = Cramped(duckdb.connect(), failures)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: connection)
    return connection.asked


def test_a_grouping_that_does_not_fit_is_tried_with_less_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Engines begin a table that does not fit, where a lower limit would have spilled. Afterwards
    the limit is as before.
    """
    (tmp_path / "log.csv").write_text("u,i\n1,5\n2,5\n")
    with monkeypatch.context() as patch:
        asked = _cramped(patch, 2)
        found = events.read(
            tmp_path / "log.csv", user="u", item="i", clip=1.0, memory_limit="200MiB"
        )
    assert (found.labels, found.counts.tolist()) == (("5",), [2])
    limits = [f"SET memory_limit = '{limit}MiB'" for limit in ("170.0", "130.0", "100.0", "200")]
    made = "CREATE TABLE grouped"
    assert asked[:7] == [limits[0], made, limits[1], made, limits[2], made, limits[3]]
    with monkeypatch.context() as patch:
        asked = _cramped(patch, 3)
        refused(tmp_path / "log.csv", "did not fit", memory_limit="200MiB")
    assert asked.count(made) == 3
    assert asked[-1] == limits[3]


def test_a_stream_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it gave before the memory ran out would be missing from the counts."""
    stream = Stream(pa.table({"u": [1, 2], "i": [5, 5]}))
    with monkeypatch.context() as patch:
        asked = _cramped(patch, 1)
        refused(stream, "did not fit")
    assert len(asked) == 1


@pytest.mark.slow
def test_a_lazy_frame_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame's own engine writes it out: nothing calls collect."""
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda *_, **__: pytest.fail("collected"))
    assert events.read(
        pl.LazyFrame({"u": [1, 2], "i": ["a", "a"]}), user="u", item="i"
    ).counts.tolist() == [2]


def test_arrow_streams_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the error says what to install."""
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(acc.errors.MissingExtra, match=r"\[arrow\]"):
        events.read(pl.DataFrame({"u": [1], "i": [1]}), user="u", item="i")


def test_errors_of_streams_show_no_row() -> None:
    """What a library says while it reads may quote a row, and is not passed on; the caller's
    relation may fail half-way.
    """
    bad = pl.LazyFrame({"u": [1], "i": [SECRET]}).with_columns(pl.col("i").cast(pl.Int64))
    refused(bad, "polars table cannot be read")
    refused(
        duckdb.connect().sql(f"SELECT 1 AS u, CAST('{SECRET}' AS INTEGER) AS i"),
        "duckdb table cannot be read",
    )
    schema = pa.schema([("u", pa.int64()), ("i", pa.string())])

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"u": [1], "i": ["a"]})
        raise ValueError(SECRET)

    refused(pa.RecordBatchReader.from_batches(schema, broken()), "pyarrow table cannot be read")
    refused(pa.chunked_array([[SECRET]]), "cannot be read")
    refused([], "holds no file")
    refused("-", "State format=")
    refused(pl.DataFrame({"u": [1], "i": [1]}), "table='x' is for a database", table="x")


@pytest.fixture(scope="module")
def server(postgres: str) -> str:
    """A database with the log as text and as integers, a domain, an enumeration, and a table nobody
    may read.
    """
    driver = sqlalchemy.make_url(postgres)
    with psycopg.connect(
        host=str(driver.query["host"]), user="postgres", dbname="postgres", autocommit=True
    ) as link:
        link.execute("DROP SCHEMA IF EXISTS logs CASCADE")
        # other tests on this server may come between those of this module
        link.execute("DROP TABLE IF EXISTS moods, nothing")
        link.execute("DROP TYPE IF EXISTS mood")
        link.execute("CREATE SCHEMA logs")
        link.execute(
            'CREATE TABLE logs.log (who text, "Where ?" text, whole bigint, kind double precision,'
            " price numeric)"
        )
        with link.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO logs.log VALUES (%s, %s, %s, 1.5, 2.50)",
                [(*event, number % 5) for number, event in enumerate(LOG)],
            )
            cursor.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
            cursor.execute("CREATE TABLE moods (u int, i mood)")
            cursor.execute("INSERT INTO moods VALUES (1, 'ok'), (2, 'ok'), (3, NULL)")
            cursor.execute("CREATE TABLE nothing (u int, i text)")
    return postgres


def test_postgresql_gives_the_same_counts(server: str) -> None:
    """A table, a query and an SQLAlchemy URL of a real server, text with quotes, line ends and a
    text \\N that is no null.
    """
    expected = dict(sorted(distinct_users(bounded(LOG, 2, "s")).items()))
    how = {"max_items_per_user": 2, "salt": "s"}
    for source, what in (
        (server, {"table": "logs.log"}),
        (sqlalchemy.make_url(server), {"query": 'SELECT "Where ?", who FROM logs.log;'}),
    ):
        found = counts(source, **how, **what)
        assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == expected
        assert (found.report.rows, found.report.rows_left_out) == (302, 2)
    numbers = counts(server, item="whole", table="logs.log")
    assert numbers.labels == (0, 1, 2, 3, 4)
    assert counts(server, item="price", table="logs.log").labels == ("2.50",)
    assert events.read(server, user="u", item="i", table="moods").scores(
        ["sad", "ok"]
    ).values.tolist() == [0, 2]


def test_postgresql_refusals(server: str) -> None:
    """What is missing, wrong or forbidden is named by its kind; the server's words, which may quote
    data, are not passed on.
    """
    refused(server, "table= or query=")
    refused(server, "not both", table="a", query="b")
    refused(server, "UndefinedTable", table="missing")
    refused(
        server, "'u' is not a column of table 'logs.log': its columns are 'who'", table="logs.log"
    )
    refused(server, "item='kind' of .* type DOUBLE", table="logs.log", user="who", item="kind")
    refused(
        server, "InvalidTextRepresentation", query=f"SELECT 1 AS u, CAST('{SECRET}' AS int) AS i"
    )
    refused(server, "ReadOnlySqlTransaction|SyntaxError", query="DELETE FROM moods RETURNING u, i")
    assert events.read(server, user="u", item="i", table="nothing").labels == ()
    # of which none can be read
    rows = "SELECT n AS u, 1 / (n - n) AS i FROM generate_series(1, 2) AS n"
    refused(server, "DivisionByZero", query=rows)
    events.require_columns(server, events.Reading(user="u", item="i", query=rows))
    for said, words in (
        ({"table": "logs.log"}, "its columns are 'who'"),
        ({"table": "missing"}, "UndefinedTable"),
    ):
        with pytest.raises(EventLogError, match=words):
            events.require_columns(server, events.Reading(user="u", item="i", **said))
    refused(server, "format='csv'", table="moods", format="csv")
    refused(
        server,
        "longer than 2 MB",
        query="SELECT 1 AS u, 'a' AS i UNION ALL SELECT 2, repeat('A', 40000000)",
    )
    refused("postgresql://nobody:SECRET42@/none?host=/nowhere", "OperationalError", table="t")
    refused(
        "mysql://ann:SECRET42@host/name?x=[1]", "the driver of mysql:// is not installed", table="t"
    )


def test_the_dbt_model_of_the_documentation_runs_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What dbt hands over is a relation of DuckDB, and what it takes back a table; the ledger is
    real.
    """
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
        if "def model(dbt, session)" in block
    )
    known: dict[str, Any] = {"dps": dps}
    exec(code, known)
    with acc.Ledger.open("sqlite:///privacy.db") as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=3.0, delta=1e-5), "add_remove")
    visits = duckdb.sql("SELECT n AS who, 'zoo' AS \"where\" FROM range(5000) AS t(n)")
    dbt = SimpleNamespace(config=lambda **_: None, ref={"visits": visits}.__getitem__)
    assert known["model"](dbt, None).column("item").to_pylist() == ["zoo"]
    with pytest.raises(AlreadyCharged):
        known["model"](dbt, None)
