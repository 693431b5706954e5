"""A table or a query of PostgreSQL, by COPY. Needs the extra `dpselect[postgres]`.

The server sends the columns once, by COPY in a read-only transaction; users are bounded and clipped here. It
could bound them itself, but then a second dialect would have to keep the same items of a user, to the letter, and a log that is
large would be sorted on a server that has other work; COPY is one sequential scan. The stream lies on disk, not in memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from dpselect.events.engine import Engine
from dpselect.events.sources.base import SHORT, Given, Rows, by_name, kind_of, spooled
from dpselect.events.sources.formats import CSV

# Types by the object number that PostgreSQL has for them, as the engine's.
_NUMERIC = 1700
_TYPES: Mapping[int, str] = {
    **{16: "BOOLEAN", 17: "BLOB", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 25: "VARCHAR", 1042: "VARCHAR", 1043: "VARCHAR"},
    **{19: "VARCHAR", 2950: "UUID", 700: "FLOAT", 701: "DOUBLE", 1700: "DOUBLE"},
    **{1082: "DATE", 1114: "TIMESTAMP", 1184: "TIMESTAMP WITH TIME ZONE", 114: "JSON", 3802: "JSON"},
}


def copied(engine: Engine, given: Given, connection: Any, what: str) -> Rows:
    """The columns of `table` (perhaps schema.table), or of `query`, over a connection of psycopg."""
    sql, cursor = importlib.import_module("psycopg.sql"), connection.cursor()
    connection.read_only = True
    if given.table is not None:
        log = sql.SQL("SELECT * FROM {}").format(sql.Identifier(*given.table.split(".")))
    else:
        log = sql.SQL((given.query or "").rstrip().rstrip(";"))
    cursor.execute(sql.SQL("SELECT * FROM ({}\n) AS log LIMIT 0").format(log))
    names, types = [column.name for column in cursor.description], [column.type_code for column in cursor.description]
    places = by_name(given.asked, names, what)
    stored = {role: _stored(cursor, types[place]) for role, place in places.items()}
    # Decimals of labels are printed, with all their digits.
    stored |= {role: "VARCHAR" for role, place in places.items() if types[place] == _NUMERIC and role != "value"}
    kinds = {role: kind_of(role, given.asked.columns[role], kind, what) for role, kind in stored.items()}
    shown = [sql.SQL("{} AS {}").format(sql.Identifier(names[at]), sql.Identifier(SHORT[role])) for role, at in places.items()]
    columns = sql.SQL(", ").join(shown)
    target, quoted = engine.unused("database"), [SHORT[role] for role in places if stored[role] == "VARCHAR"]
    force = sql.SQL(", FORCE_QUOTE ({})").format(sql.SQL(", ").join(map(sql.Identifier, quoted))) if quoted else sql.SQL("")
    copy = sql.SQL("COPY (SELECT {} FROM ({}\n) AS log) TO STDOUT (FORMAT csv, ENCODING 'UTF8', NULL '\\N'{})")
    with cursor.copy(copy.format(columns, log, force)) as stream, target.open("xb") as file:
        for block in stream:
            file.write(block)
    CSV.require_lines(target, what)
    typed = ", ".join(
        f"{_text(SHORT[role], kind)} AS {SHORT[role]}" if kinds[role] == "str" else SHORT[role] for role, kind in stored.items()
    )
    return Rows(sql=f"SELECT {typed} FROM {spooled(target, stored)}", size=target.stat().st_size, what=what, kinds=kinds)


def _text(name: str, kind: str) -> str:
    """SQL of a column as text; the engine would hand on the t and f of the stream, where a cast is all there is."""
    return f"CASE {name} WHEN true THEN 'true' WHEN false THEN 'false' END" if kind == "BOOLEAN" else f"CAST({name} AS VARCHAR)"


def _stored(cursor: Any, number: int) -> str:
    """The engine's type for a column: an enumeration's values are text."""
    if number in _TYPES:
        return "VARCHAR" if _TYPES[number] == "UUID" else _TYPES[number]
    cursor.execute("SELECT typtype = 'e' FROM pg_type WHERE oid = %s", (number,))
    found = cursor.fetchone()
    return "VARCHAR" if found is not None and found[0] else f"number {number} of PostgreSQL"
