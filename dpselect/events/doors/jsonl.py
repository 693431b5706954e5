"""JSON lines: one object per line; a missing field is a null."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpselect.errors import EventLogError
from dpselect.events.columns import Asked, no_column
from dpselect.events.rows import Kind, Rows, literal, located

_KINDS: dict[str, Kind] = {"UBIGINT": "digits", "BIGINT": "digits", "VARCHAR": "str"}


def rows(path: Path, asked: Asked, *, what: str) -> Rows:
    """The user and item fields as text, beside the JSON type of each value.

    Raises:
        EventLogError: the file is empty, a column is a position, or the names differ in letter case only.
    """
    user, item = (_name(field, column, what) for field, column in (("user", asked.user), ("item", asked.item)))
    if user.lower() == item.lower():
        raise EventLogError(
            f"user={user!r} and item={item!r} of {what} differ in letter case only, which the engine does not tell apart: "
            "rename one of them"
        )
    if path.stat().st_size == 0:
        raise EventLogError(f"{what} is empty: it needs at least one event")
    fields = f"{{{literal(user)}: 'JSON', {literal(item)}: 'JSON'}}"
    source = (
        f"read_json({located(path)}, columns = {fields}, format = 'newline_delimited', records = true, "
        "compression = 'none', ignore_errors = false, hive_partitioning = false) AS log(u, i)"
    )
    sql = f"SELECT u ->> '$' AS u, i ->> '$' AS i, json_type(u) AS uk, json_type(i) AS ik FROM {source}"
    return Rows(sql=sql, size=path.stat().st_size, what=what, kinds=None)


def kind_of(field: str, column: object, types: Iterable[str] | None, what: str) -> Kind:
    """The one kind that all values of a column have, from the JSON types that occur in it (None: every value is null).

    Raises:
        EventLogError: integers and text together, or anything else.
    """
    found = {_KINDS.get(name) for name in types or ()}
    if None in found:
        raise EventLogError(
            f"{field}={column!r} of {what} holds values that are neither text nor whole numbers of at most 64 bits "
            "(fractions, booleans, lists or objects): write them as text"
        )
    if len(found) > 1:
        raise EventLogError(
            f'{field}={column!r} of {what} holds numbers and text: 7 and "7" would be counted apart; write all of them as one'
        )
    return "digits" if "digits" in found else "str"


def require_fields(path: Path, asked: Asked, missing: tuple[bool, bool], what: str) -> None:
    """Refuse a column in which no row had a value, unless the first object has it (then it is null, not missing).

    Raises:
        EventLogError: no such field.
    """
    if not any(missing):
        return
    names = _first_names(path)
    for field, column, absent in zip(("user", "item"), (asked.user, asked.item), missing, strict=True):
        if absent and names and column not in names:
            raise _no_field(field, column, names, what, listed=not {asked.user, asked.item}.isdisjoint(names))


def _name(field: str, column: str | int, what: str) -> str:
    if isinstance(column, int):
        raise EventLogError(f"{field}={column!r} is a position, and {what} has names: give the name of a field")
    return column


def _no_field(field: str, column: object, names: list[str], what: str, *, listed: bool) -> EventLogError:
    # In objects like {"ann": "zoo"} the names are private too; those of a log are known by the column that is there.
    if listed:
        return no_column(field, column, names, what)
    return EventLogError(
        f"{field}={column!r} is not a field of {what}: check the name; the fields' names may be data, so are not shown"
    )


def _first_names(path: Path) -> list[str]:
    """The names in the first object; none if it cannot be read here, though the engine, which looks at two fields only, can."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            try:
                value: Any = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                return []
            if isinstance(value, dict):
                return list(value)
    return []
