"""Tables in memory: pyarrow, pandas, Polars. None of them is imported unless the caller already did."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from dpselect.errors import EventLogError
from dpselect.events.columns import SHORT, Asked, ambiguous, no_column
from dpselect.events.doors.parquet import BYTES_PER_ROW
from dpselect.events.engine import Engine
from dpselect.events.rows import Given, Rows, described, selected

_OBJECT_KINDS = {"string": "string", "integer": "Int64", "empty": "string"}


def accepts(given: Given) -> bool:
    """A table of a known class."""
    return _adapter(given.source) is not None


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of a table in memory, matched by exact name.

    Raises:
        EventLogError: a column is not there, there twice, or of another type than integer or text.
    """
    source, asked = given.source, given.asked
    what, adapter = f"the {type(source).__module__.split('.')[0]} table", _adapter(source)
    given.require_no_format("a table")
    given.require_no_header("a table")
    assert adapter is not None, "a door reads what it accepts"
    table = adapter(source, asked, what)
    engine.register("events", table, what=what)
    kinds = described(engine.run("DESCRIBE events", what=what), asked, what)
    names = {role: SHORT[role] for role in asked.columns}
    return Rows(sql=selected("events", names, kinds), size=len(table) * BYTES_PER_ROW, what=what, kinds=kinds)


def _adapter(source: object) -> Callable[[Any, Asked, str], Any] | None:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(source).__mro__}
    return next((adapter for name, adapter in _ADAPTERS.items() if name in names), None)


def _short(asked: Asked) -> dict[Any, str]:
    return {column: SHORT[role] for role, column in asked.columns.items()}


def _arrow(source: Any, asked: Asked, what: str) -> Any:
    _require(asked, source.column_names, what)
    return source.select(list(_short(asked))).rename_columns(list(_short(asked).values()))


def _polars(source: Any, asked: Asked, what: str) -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise EventLogError(f"{what} is handed over through pyarrow, which is not installed: pip install pyarrow")
    _require(asked, source.columns, what)
    return source.select(list(_short(asked))).rename(_short(asked))


def _pandas(source: Any, asked: Asked, what: str) -> Any:
    _require(asked, list(source.columns), what)
    table = source[list(_short(asked))].set_axis(list(_short(asked).values()), axis="columns")
    for role, column in asked.columns.items():
        if table[SHORT[role]].dtype == object:
            table = table.assign(**{SHORT[role]: _object_column(table[SHORT[role]], role, column, what)})
    return table


def _object_column(values: Any, field: str, column: object, what: str) -> Any:
    """A column of Python objects as one type; the engine would judge it by a sample, and take 7 and "7" for one label."""
    kind = importlib.import_module("pandas").api.types.infer_dtype(values, skipna=True)
    converted = None
    if kind in _OBJECT_KINDS:
        try:
            converted = values.astype(_OBJECT_KINDS[kind])
        except (OverflowError, UnicodeError, ValueError, TypeError):
            converted = None
    if converted is None:
        raise EventLogError(
            f"{field}={column!r} of {what} holds Python objects of kind {kind!r}: users, items and groups must be integers of "
            "at most 64 bits throughout, or text throughout; cast the column to one of them"
        )
    return converted


def _require(asked: Asked, names: Sequence[object], what: str) -> None:
    for field, column in asked.columns.items():
        if names.count(column) > 1:
            raise ambiguous(field, column, what)
        if column not in names:
            raise no_column(field, column, names, what)


_ADAPTERS: dict[tuple[str, str], Callable[[Any, Asked, str], Any]] = {
    ("pyarrow", "Table"): _arrow,
    ("pandas", "DataFrame"): _pandas,
    ("polars", "DataFrame"): _polars,
}
