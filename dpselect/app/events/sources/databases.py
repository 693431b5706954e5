"""A table or a query of any database: SQLite, drivers of SQLAlchemy, and DuckDB files.

Rows are read once and in parts, and lie on disk as text, with all digits of integers and decimals.
PostgreSQL sends its columns by COPY, which is faster, in a read-only transaction. It could bound
users itself, but then a second dialect would have to keep exactly the same items of a user, and a
large log would be sorted on a server that has other work.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

from accounting import AccountingError
from accounting.errors import missing_extra
from dpselect.app.events.engine import Engine
from dpselect.app.events.sources.base import (
    LONGEST_LINE,
    SHORT,
    Kind,
    Rows,
    SourceRequest,
    is_condition,
    kind_of,
    literal,
    name_sql,
    positions_by_name,
    positions_by_path,
    refusal,
    select_columns,
    spool_sql,
)
from dpselect.app.events.sources.formats import CSV
from dpselect.app.events.where import Condition, comparable_text
from dpselect.errors import EventLogError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(\+[A-Za-z0-9_]+)?://")
_POSTGRESQL = ("postgresql", "postgres")
_AT_ONCE = 50_000  # rows
_NO_FILE = (
    "the database's file does not exist. Write duckdb:///FILE or sqlite:///FILE, with a fourth"
    " slash from the root"
)
# Addresses of files, and of what DuckDB reads by extensions of its own.
_NOT_DATABASES = frozenset(
    {"s3", "gs", "gcs", "http", "https", "file", "ftp", "hdfs", "abfs", "abfss", "az", "r2"}
)


def accepts(request: SourceRequest) -> bool:
    """True for an address of a database, as text or as a SQLAlchemy URL."""
    return _scheme(request.source) is not None


def rows(engine: Engine, request: SourceRequest) -> Rows:
    """The columns of `table` (perhaps schema.table), or of `query`."""
    title = request.table_name()
    if _scheme(request.source) == "duckdb":
        return _read_duckdb(engine, request, title)
    return _fetch_rows(engine, request, title)


def _scheme(source: object) -> str | None:
    text = (
        source.render_as_string(hide_password=True)
        if hasattr(source, "render_as_string")
        else source
    )
    match = _SCHEME.match(text) if isinstance(text, str) else None
    return None if match is None or match[1].lower() in _NOT_DATABASES else match[1].lower()


def _read_duckdb(engine: Engine, request: SourceRequest, title: str) -> Rows:
    """Read a DuckDB file, with its own types, in the engine itself."""
    path = Path(str(request.source).split("://", 1)[1].removeprefix("/"))
    if not path.is_file():
        raise EventLogError(_NO_FILE)
    engine.run(f"ATTACH {literal(str(path))} AS source (READ_ONLY)", title="the DuckDB file")
    engine.run("USE source", title=title)
    try:
        relation = f"({_query(request, lambda name: '.'.join(map(name_sql, name.split('.'))))})"
        limit = " LIMIT 0" if request.unread else ""
        engine.run(
            f"CREATE OR REPLACE TEMP TABLE copied AS SELECT * FROM {relation}{limit}", title=title
        )
    finally:
        engine.run("USE memory", title=title)
        engine.run("DETACH source", title=title)
    names = [str(row[0]) for row in engine.run("DESCRIBE copied", title=title)]
    places = {
        role: (name_sql(names[place]), fields)
        for role, (place, fields) in positions_by_path(request.columns, names, title).items()
    }
    count = int(engine.run("SELECT count(*) FROM copied", title=title)[0][0])
    return replace(
        select_columns(engine, "copied", places, request.columns, title), size=20 * count
    )


def _query(request: SourceRequest, identifier: Any) -> str:
    if request.options.table is not None:
        return f"SELECT * FROM {identifier(request.options.table)}"
    return (request.options.query or "").rstrip().rstrip(";")


def _fetch_rows(engine: Engine, request: SourceRequest, title: str) -> Rows:
    try:
        sqlalchemy = importlib.import_module("sqlalchemy")
    except ImportError:
        raise missing_extra("databases are read by SQLAlchemy", "postgres") from None
    failure, target = "", engine.fresh_path("database")
    try:
        url = sqlalchemy.make_url(request.source)
        # it would be made
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            raise EventLogError(_NO_FILE)
        if _scheme(request.source) in _POSTGRESQL:
            url = url.set(drivername="postgresql+psycopg")
        database = sqlalchemy.create_engine(url)
        try:
            with database.connect() as connection:
                if _scheme(request.source) in _POSTGRESQL:
                    return _copy_columns(
                        engine, request, connection.connection.driver_connection, title
                    )
                identifier = database.dialect.identifier_preparer.quote_identifier
                query = _query(request, lambda name: ".".join(map(identifier, name.split("."))))
                if database.dialect.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                if request.unread:
                    query = f"SELECT * FROM ({query}\n) dpselect_log WHERE 1 = 0"
                streaming = connection.execution_options(
                    stream_results=True, max_row_buffer=_AT_ONCE
                )
                result = streaming.exec_driver_sql(query)
                names = list(result.keys())
                places = positions_by_name(request.columns, names, title)
                with target.open("x", encoding="utf-8", newline="") as file:
                    _write(file, result, list(places.items()), request, title)
        finally:
            database.dispose()
    except AccountingError as error:
        failure = str(error)
    except sqlalchemy.exc.NoSuchModuleError:
        failure = (
            f"addresses that begin with {_scheme(request.source)}:// need SQLAlchemy's driver for"
            " that database. Install it, or save the log to a file"
        )
    except ImportError as error:
        if _scheme(request.source) in _POSTGRESQL:
            raise missing_extra("PostgreSQL is read by psycopg", "postgres") from None
        failure = (
            f"the driver of {_scheme(request.source)}:// is not installed ({error.name}). Install"
            " it, or save the log to a file"
        )
    except Exception as error:  # a driver's own
        failure = (
            f"{title} cannot be read from the database: {type(error).__name__}. Check the address,"
            " the names, the permissions, and that no other process locks it"
        )
    if failure:
        raise EventLogError(failure)
    sql = f"SELECT * FROM {spool_sql(target, dict.fromkeys([*places, _REFUSED], 'VARCHAR'))}"
    sql = f"SELECT * REPLACE (CAST({_REFUSED} AS TINYINT) AS {_REFUSED}) FROM ({sql})"
    return Rows(sql, target.stat().st_size, title, dict.fromkeys(places, "str"), bad=_REFUSED)


_REFUSED = "refused"
_MOST_KEPT = 1000  # characters of a text that a condition compares, none of which is longer


def _write(
    file: Any, result: Any, places: list[tuple[str, int]], request: SourceRequest, title: str
) -> None:
    """Write all rows as CSV, with text in quotes and missing values without.

    Each row has the number of the role whose value refuses the log, if any.
    """
    tests, missing = request.tests(), request.missing()
    always_read = [at for at, (role, _) in enumerate(places) if not is_condition(role)]
    for row in chain.from_iterable(iter(lambda: result.fetchmany(_AT_ONCE), [])):
        fields, mark = [], "\\N"
        for role, place in places:
            value = row[place]
            text = (
                _cut(value, tests[role], missing) if is_condition(role) else _to_text(value, role)
            )
            if text is None and value is not None and not is_condition(role):
                text, mark = str(value), f'"{refusal(role)}"'
            fields.append("\\N" if text is None else '"' + text.replace('"', '""') + '"')
        # By the columns that are always read alone: what a condition's column holds refuses
        # nothing.
        if (
            sum(map(len, fields)) > LONGEST_LINE // 4
            and sum(len(fields[at].encode()) + 1 for at in always_read) > LONGEST_LINE
        ):
            raise EventLogError(
                f"{title} has a line longer than 2 MB, the most that is read. Leave its long"
                " column out"
            )
        file.write(",".join([*fields, mark]) + "\n")


def _cut(value: object, test: Condition, missing: Sequence[Condition]) -> str | None:
    """`comparable_text`, with a text too long for any match cut to a part that is no number."""
    text = comparable_text(value, test, missing)
    return text if text is None or len(text) <= _MOST_KEPT else text[:_MOST_KEPT] + "~"


def _to_text(value: object, role: str) -> str | None:
    """A value as text, or None if it is missing or not a label, number or time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str | int | UUID):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if role == "value" and isinstance(value, float):
        return repr(value)
    if role == "time" and isinstance(value, datetime | date):
        return value.isoformat()
    return None


# -- PostgreSQL ------------------------------------------------------------------------------------

# Types by the object number that PostgreSQL has for them, as the engine's.
_NUMERIC = 1700
_PADDED = 1042  # text of a stated length, which loses its blanks in other types
_TYPES: Mapping[int, str] = {
    **{
        16: "BOOLEAN",
        17: "BLOB",
        20: "BIGINT",
        21: "SMALLINT",
        23: "INTEGER",
        25: "VARCHAR",
        1042: "VARCHAR",
        1043: "VARCHAR",
    },
    **{19: "VARCHAR", 2950: "UUID", 700: "FLOAT", 701: "DOUBLE", 1700: "DOUBLE"},
    **{
        1082: "DATE",
        1114: "TIMESTAMP",
        1184: "TIMESTAMP WITH TIME ZONE",
        114: "JSON",
        3802: "JSON",
    },
}


def _copy_columns(engine: Engine, request: SourceRequest, connection: Any, title: str) -> Rows:
    """The columns of `table` (perhaps schema.table), or of `query`, over psycopg."""
    sql, cursor = importlib.import_module("psycopg.sql"), connection.cursor()
    connection.read_only = True
    if request.options.table is not None:
        log = sql.SQL("SELECT * FROM {}").format(sql.Identifier(*request.options.table.split(".")))
    else:
        log = sql.SQL((request.options.query or "").rstrip().rstrip(";"))
    cursor.execute(sql.SQL("SELECT * FROM ({}\n) AS log LIMIT 0").format(log))
    names, types = (
        [column.name for column in cursor.description],
        [column.type_code for column in cursor.description],
    )
    places = positions_by_name(request.columns, names, title)
    stored = {role: _engine_type(cursor, types[place]) for role, place in places.items()}
    # Decimals of labels are printed, with all their digits.
    stored |= {
        role: "VARCHAR"
        for role, place in places.items()
        if types[place] == _NUMERIC and role != "value"
    }
    column_kinds = {
        role: kind_of(role, request.columns.by_role[role], kind, title)
        for role, kind in stored.items()
    }
    kinds: dict[str, Kind] = {role: kind or "str" for role, kind in column_kinds.items()}
    selections = []
    for role, index in places.items():
        form = "{0} AS {1}"
        if column_kinds[role] is None:  # nothing that a condition compares
            form = "NULL AS {1}"
        # as `_cut` does
        elif is_condition(role) and stored[role] == "VARCHAR" and types[index] != _PADDED:
            cut = f"left({{0}}::text, {_MOST_KEPT}) || '~'"
            form = (
                f"CASE WHEN length({{0}}::text) > {_MOST_KEPT} THEN {cut} ELSE {{0}}::text END AS"
                " {1}"
            )
        selections.append(
            sql.SQL(form).format(sql.Identifier(names[index]), sql.Identifier(SHORT[role]))
        )
    if request.unread:
        return Rows("", 0, title, kinds)
    stored |= {role: "VARCHAR" for role, kind in column_kinds.items() if kind is None}
    target, texts = (
        engine.fresh_path("database"),
        [SHORT[role] for role in places if stored[role] == "VARCHAR"],
    )
    force = (
        sql.SQL(", FORCE_QUOTE ({})").format(sql.SQL(", ").join(map(sql.Identifier, texts)))
        if texts
        else sql.SQL("")
    )
    copy = sql.SQL(
        "COPY (SELECT {} FROM ({}\n) AS log) TO STDOUT (FORMAT csv, ENCODING 'UTF8', NULL '\\N'{})"
    )
    with (
        cursor.copy(copy.format(sql.SQL(", ").join(selections), log, force)) as stream,
        target.open("xb") as file,
    ):
        for block in stream:
            file.write(block)
    CSV.require_lines(target, title)
    columns = []
    for role, kind in stored.items():
        text = short = SHORT[role]
        if column_kinds[role] is None:  # nothing that a condition compares
            text = "NULL"
        # the engine would hand on the t and f of the stream, where a cast is all there is
        elif kind == "BOOLEAN":
            text = f"CASE {short} WHEN true THEN 'true' WHEN false THEN 'false' END"
        columns.append(f"CAST({text} AS VARCHAR) AS {short}" if kinds[role] == "str" else short)
    log = f"SELECT {', '.join(columns)} FROM {spool_sql(target, stored)}"
    return Rows(sql=log, size=target.stat().st_size, title=title, kinds=kinds)


def _engine_type(cursor: Any, number: int) -> str:
    """The engine's type for a column. Values of an enumeration are text."""
    if number in _TYPES:
        return "VARCHAR" if _TYPES[number] == "UUID" else _TYPES[number]
    cursor.execute("SELECT typtype = 'e' FROM pg_type WHERE oid = %s", (number,))
    row = cursor.fetchone()
    return "VARCHAR" if row is not None and row[0] else f"number {number} of PostgreSQL"
