"""What every kind of source becomes before it is counted, and what a door to one is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, final

from dpselect.errors import EventLogError
from dpselect.events.amounts import Amount
from dpselect.events.columns import SHORT, Asked
from dpselect.events.doors.files import Format
from dpselect.events.windows import Window

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

Kind = Literal["int", "str", "digits", "number", "wall", "instant"]
"""What a column holds: integers, text, or integers that are stored as text; of values, numbers; of times, those of a clock on the
wall or instants. Values and times may be text, too."""
Kinds = Mapping[str, Kind]
"""The kind of the column of every role."""
Settle = Callable[["Engine", str, frozenset[str]], Kinds]
"""Tells kinds that only the values show, from an SQL relation of all events and the roles in which no event has a value."""


@final
@dataclass(frozen=True, slots=True)
class Given:
    """What was given to `read`: the source itself, the columns, and what is said about a file or a database.

    Attributes:
        name: how messages name the source, where it is not by its path.
        amount, window: what is summed up, and which events are read, if that was asked for.

    Raises:
        EventLogError: `header` is neither True, False nor None.
    """

    source: object
    asked: Asked
    format: Format = "auto"
    header: bool | None = None
    table: str | None = None
    query: str | None = None
    name: str | None = None
    amount: Amount | None = None
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.header is not None and not isinstance(self.header, bool):
            raise EventLogError(f"header={self.header!r} must be True, False or None")

    def called(self, kind: str) -> str:
        """How messages name the file."""
        return self.name or f"{kind} file {str(self.source)!r}"

    def require_no_query(self) -> None:
        """Refuse the names of what is in a database for what is none."""
        for field, stated in (("table", self.table), ("query", self.query)):
            if stated is not None:
                raise EventLogError(f"{field}={stated!r} is for a database, and the source is none: leave it out")

    def require_no_format(self, what: str) -> None:
        """Refuse a format for what is no file."""
        if self.format != "auto":
            raise EventLogError(f"format={self.format!r} is for files: leave it out for {what}")

    def require_no_header(self, what: str) -> None:
        """Refuse a header for what is neither CSV nor TSV."""
        if self.header is not None:
            raise EventLogError(f"header={self.header!r} is for csv and tsv, and this is {what}: leave it out")


class Source(Protocol):
    """A door: a module (or object) that reads one kind of source. `source.SOURCES` lists them; the first that accepts reads."""

    def accepts(self, given: Given) -> bool:
        """Whether this is its kind, by type or name: no row is read, and nothing heavy is imported to tell."""

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns that were asked for, as SQL of the engine; whatever an engine raises passes `engine.guarded`.

        Raises:
            EventLogError: it cannot be read, or does not have these columns.
        """


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_NUMBERS = re.compile(r"FLOAT|DOUBLE|U?HUGEINT|DECIMAL\(.*\)")
_TEXTS = re.compile(r'VARCHAR|UUID|ENUM\(.*\)|"NULL"', re.DOTALL)


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """One event per row.

    Attributes:
        sql: a query with a column for each role, called by `SHORT`; and any others that `kinds` looks at.
        size: bytes it takes as text, roughly; decides the number of buckets.
        what: how messages name the source.
        kinds: what users, items and groups are, or what tells once every value can be looked at.
        may_be_empty: whether there may be no event to count: a period in which nobody did anything is released like any other.
        outside: SQL of whether an event is not among those to count, and only looked at for what refuses the log; "" if none is.
    """

    sql: str
    size: int
    what: str
    kinds: Kinds | Settle
    may_be_empty: bool = False
    outside: str = ""


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def located(path: Path) -> str:
    """An SQL string for this very file, whose folder (TMPDIR is the user's) may hold characters of a pattern."""
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", str(path)))


def described(columns: Sequence[tuple[Any, ...]], asked: Asked, what: str) -> Kinds:
    """Kinds from the rows of DESCRIBE, which are the columns that were asked for in their order.

    Raises:
        EventLogError: a column is neither integers nor text.
    """
    stated = asked.columns.items()
    judges = {"time": _time_kind}
    return {
        role: judges.get(role, _kind)(role, name, column[1], what) for (role, name), column in zip(stated, columns, strict=True)
    }


def selected(relation: str, names: Mapping[str, str], kinds: Kinds) -> str:
    """The query for columns of `relation`, named by role: text of any storage as VARCHAR, integers as they are."""
    columns = [
        f"CAST({quoted(name)} AS VARCHAR) AS {SHORT[role]}" if kinds[role] == "str" else f"{quoted(name)} AS {SHORT[role]}"
        for role, name in names.items()
    ]
    return f"SELECT {', '.join(columns)} FROM {relation}"


_WALL = re.compile(r"DATE|TIMESTAMP(_S|_MS|_NS)?")


def _time_kind(field: str, name: object, stored: str, what: str) -> Kind:
    if _WALL.fullmatch(stored):
        return "wall"
    if stored == "TIMESTAMP WITH TIME ZONE":
        return "instant"
    if stored in _INTEGERS:
        return "int"
    if stored in ("VARCHAR", '"NULL"'):
        return "str"
    raise EventLogError(f"{field}={name!r} of {what} is of type {stored[:40]}: times must be dates, timestamps or ISO 8601 text")


def _kind(field: str, name: object, stored: str, what: str) -> Kind:
    if stored in _INTEGERS:
        return "int"
    if field == "value" and _NUMBERS.fullmatch(stored):
        return "number"
    if _TEXTS.fullmatch(stored):
        return "str"
    shown = "STRUCT" if stored.startswith("STRUCT") else stored
    rule = "values must be numbers" if field == "value" else "users, items and groups must be integers of at most 64 bits"
    raise EventLogError(f"{field}={name!r} of {what} is of type {shown}: {rule} or text; cast the column to one of them")
