"""What every kind of source becomes before it is counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

from dpselect.errors import EventLogError

Kind = Literal["int", "str", "digits"]
"""What a column holds: integers, text, or integers that are stored as text."""

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_TEXTS = re.compile(r'VARCHAR|UUID|ENUM\(.*\)|"NULL"', re.DOTALL)


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """One event per row.

    Attributes:
        sql: a query with columns u (user) and i (item); where the kinds are not known beforehand, u and i are text and the
            columns uk and ik hold the JSON type of each value.
        size: bytes it takes as text, roughly; decides the number of buckets.
        what: how messages name the source.
        kinds: what users and items are, or None if every value has to be looked at.
    """

    sql: str
    size: int
    what: str
    kinds: tuple[Kind, Kind] | None


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def located(path: Path) -> str:
    """An SQL string for this very file, whose folder (TMPDIR is the user's) may hold characters of a pattern."""
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", str(path)))


def described(columns: Sequence[tuple[Any, ...]], names: tuple[object, object], what: str) -> tuple[Kind, Kind]:
    """Kinds of the user and item columns from the first two rows of DESCRIBE; `names` is how the caller called them.

    Raises:
        EventLogError: a column is neither integers nor text.
    """
    user, item = columns[0][1], columns[1][1]
    return _kind("user", names[0], user, what), _kind("item", names[1], item, what)


def selected(relation: str, user: str, item: str, kinds: tuple[Kind, Kind]) -> str:
    """The query for two columns of `relation`: text of any storage as VARCHAR, integers as they are."""
    columns = [
        f"CAST({quoted(name)} AS VARCHAR) AS {short}" if kind == "str" else f"{quoted(name)} AS {short}"
        for name, short, kind in zip((user, item), ("u", "i"), kinds, strict=True)
    ]
    return f"SELECT {', '.join(columns)} FROM {relation}"


def _kind(field: str, name: object, stored: str, what: str) -> Kind:
    if stored in _INTEGERS:
        return "int"
    if _TEXTS.fullmatch(stored):
        return "str"
    shown = "STRUCT" if stored.startswith("STRUCT") else stored
    raise EventLogError(
        f"{field}={name!r} of {what} is of type {shown}: users and items must be integers of at most 64 bits or text; "
        "cast the column to one of them"
    )
