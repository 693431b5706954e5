"""Tables in memory: pyarrow, pandas, Polars. None of them is imported unless the caller already did."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from dpselect.errors import EventLogError
from dpselect.events.columns import Asked, ambiguous, no_column
from dpselect.events.doors.parquet import BYTES_PER_ROW
from dpselect.events.engine import Engine
from dpselect.events.rows import Rows, described, selected

_OBJECT_KINDS = {"string": "string", "integer": "Int64", "empty": "string"}


def is_table(source: object) -> bool:
    """Whether `source` is one of the tables that can be read."""
    return _adapter(source) is not None


def rows(engine: Engine, source: object, asked: Asked) -> Rows:
    """The user and item columns of a table in memory, matched by exact name.

    Raises:
        EventLogError: a column is not there, there twice, or of another type than integer or text.
    """
    what = f"the {type(source).__module__.split('.')[0]} table"
    adapter = _adapter(source)
    if adapter is None:
        raise unreadable(source)
    table = adapter(source, asked, what)
    engine.register("events", table, what=what)
    kinds = described(engine.run("DESCRIBE events", what=what), (asked.user, asked.item), what)
    return Rows(sql=selected("events", "u", "i", kinds), size=len(table) * BYTES_PER_ROW, what=what, kinds=kinds)


def unreadable(source: object) -> EventLogError:
    """The error for something that is neither a path nor a table."""
    return EventLogError(
        f"source is a {type(source).__module__}.{type(source).__qualname__}: give a path, a pyarrow Table, a pandas DataFrame or "
        "a Polars DataFrame (collect a LazyFrame first)"
    )


def _adapter(source: object) -> Callable[[Any, Asked, str], Any] | None:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(source).__mro__}
    return next((adapter for name, adapter in _ADAPTERS.items() if name in names), None)


def _arrow(source: Any, asked: Asked, what: str) -> Any:
    _require(asked, source.column_names, what)
    return source.select([asked.user, asked.item]).rename_columns(["u", "i"])


def _polars(source: Any, asked: Asked, what: str) -> Any:
    if importlib.util.find_spec("pyarrow") is None:
        raise EventLogError(f"{what} is handed over through pyarrow, which is not installed: pip install pyarrow")
    _require(asked, source.columns, what)
    return source.select([asked.user, asked.item]).rename({asked.user: "u", asked.item: "i"})


def _pandas(source: Any, asked: Asked, what: str) -> Any:
    _require(asked, list(source.columns), what)
    table = source[[asked.user, asked.item]].set_axis(["u", "i"], axis="columns")
    for short, field, column in (("u", "user", asked.user), ("i", "item", asked.item)):
        if table[short].dtype == object:
            table = table.assign(**{short: _object_column(table[short], field, column, what)})
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
            f"{field}={column!r} of {what} holds Python objects of kind {kind!r}: users and items must all be integers of at "
            "most 64 bits or all be text; cast the column to one of them"
        )
    return converted


def _require(asked: Asked, names: Sequence[object], what: str) -> None:
    for field, column in (("user", asked.user), ("item", asked.item)):
        if names.count(column) > 1:
            raise ambiguous(field, column, what)
        if column not in names:
            raise no_column(field, column, names, what)


_ADAPTERS: dict[tuple[str, str], Callable[[Any, Asked, str], Any]] = {
    ("pyarrow", "Table"): _arrow,
    ("pandas", "DataFrame"): _pandas,
    ("polars", "DataFrame"): _polars,
}
