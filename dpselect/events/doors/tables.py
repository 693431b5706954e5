"""Tables: pandas, Polars, DuckDB, and whatever offers an Arrow stream. None of them is imported unless the caller already did."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from accounting.errors import missing_extra
from dpselect.errors import EventLogError
from dpselect.events.doors.base import BYTES_PER_ROW, SHORT, Asked, Given, Rows, described, located, place_of, quoted, selected
from dpselect.events.engine import Engine, guarded

_Adapter = Callable[[Engine, Any, Asked, str], tuple[str, int]]
"""From a table to an SQL relation of its columns by their short names, and roughly its size in bytes as text."""
_UNKNOWN = 2**30  # bytes of a stream that does not tell how long it is: cut as if it were this
_EXTRA_KINDS = {
    "value": dict.fromkeys(("decimal", "floating", "integer", "mixed-integer-float"), "float64"),
    "time": dict.fromkeys(("date", "datetime", "datetime64"), "datetime"),
}
_OBJECT_KINDS = {"string": "string", "integer": "Int64", "empty": "string"}


def accepts(given: Given) -> bool:
    """A table: one of a known class, or one that offers an Arrow stream."""
    return _adapter(given.source) is not None


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of a table, matched by exact name. What can be streamed is, through a file of the reading or in batches."""
    source, asked = given.source, given.asked
    what, adapter = f"the {type(source).__module__.split('.')[0].lstrip('_')} table", _adapter(source)
    given.require_no_query()
    given.require_no_file("a table")
    assert adapter is not None, "a door reads what it accepts"
    relation, size = adapter(engine, source, asked, what)
    kinds = described(engine.run(f"DESCRIBE SELECT * FROM {relation}", what=what), asked.columns, what)
    names = {role: SHORT[role] for role in asked.columns}
    return Rows(sql=selected(relation, names, kinds), size=size, what=what, kinds=kinds, once=adapter is _arrow)


def _adapter(source: object) -> _Adapter | None:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(source).__mro__}
    known = next((adapter for name, adapter in _ADAPTERS.items() if name in names), None)
    return _arrow if known is None and hasattr(type(source), "__arrow_c_stream__") else known


def _short(asked: Asked, names: Sequence[object], what: str) -> dict[Any, str]:
    """The short names of the columns, each of which is there once."""
    for role, column in asked.columns.items():
        place_of(role, column, names, what)
    return {column: SHORT[role] for role, column in asked.columns.items()}


def _arrow(engine: Engine, source: Any, asked: Asked, what: str) -> tuple[str, int]:
    """An Arrow stream: pyarrow, Polars, Ibis and others, batch by batch."""
    if importlib.util.find_spec("pyarrow") is None:
        raise missing_extra(f"{what} is handed over through pyarrow", "arrow")
    arrow = importlib.import_module("pyarrow")
    stream = guarded(what, lambda: arrow.RecordBatchReader.from_stream(source))
    names = list(stream.schema.names)
    places = {short: names.index(column) for column, short in _short(asked, names, what).items()}
    schema = arrow.schema([stream.schema.field(place).with_name(short) for short, place in places.items()])

    def batches() -> Iterator[Any]:
        for batch in stream:
            yield arrow.RecordBatch.from_arrays([batch.column(place) for place in places.values()], schema=schema)

    engine.register("events", arrow.RecordBatchReader.from_batches(schema, batches()), what=what)
    return "events", len(source) * BYTES_PER_ROW if hasattr(source, "__len__") else _UNKNOWN


def _lazy(engine: Engine, source: Any, asked: Asked, what: str) -> tuple[str, int]:
    """A Polars LazyFrame, which its own streaming engine writes to a file of the reading."""
    short = _short(asked, guarded(what, lambda: source.collect_schema().names()), what)
    target = engine.path("table")
    guarded(what, lambda: source.select(list(short)).rename(short).sink_parquet(target))
    return _written(engine, target, what)


def _relation(engine: Engine, source: Any, asked: Asked, what: str) -> tuple[str, int]:
    """A relation of the caller's DuckDB, which its own engine writes to a file of the reading."""
    names = _short(asked, guarded(what, lambda: list(source.columns)), what)
    target = engine.path("table")
    columns = ", ".join(f"{quoted(name)} AS {short}" for name, short in names.items())
    guarded(what, lambda: source.project(columns).write_parquet(str(target)))
    return _written(engine, target, what)


def _written(engine: Engine, target: Path, what: str) -> tuple[str, int]:
    count = engine.run(f"SELECT sum(num_rows) FROM parquet_file_metadata({located(target)})", what=what)[0][0]
    return f"read_parquet({located(target)}, hive_partitioning = false)", int(count or 0) * BYTES_PER_ROW


def _pandas(engine: Engine, source: Any, asked: Asked, what: str) -> tuple[str, int]:
    short = _short(asked, list(source.columns), what)
    table = source[list(short)].set_axis(list(short.values()), axis="columns")
    for role, column in asked.columns.items():
        held = table[SHORT[role]]
        if held.dtype == object:
            table = table.assign(**{SHORT[role]: _object_column(held, role, column, what)})
        # Numbers that stand in memory from last to first, which the engine refuses; of instants with a zone pandas does not say.
        elif held.dtype.kind == "M" or (isinstance(held.dtype, np.dtype) and held.to_numpy().strides[0] < 0):
            table = table.assign(**{SHORT[role]: held.copy()})
    engine.register("events", table, what=what)
    return "events", len(table) * BYTES_PER_ROW


def _object_column(values: Any, field: str, column: object, what: str) -> Any:
    """A column of Python objects as one type; the engine would judge it by a sample, and take 7 and "7" for one label."""
    pandas = importlib.import_module("pandas")
    kind, converted = pandas.api.types.infer_dtype(values, skipna=True), None
    known = _OBJECT_KINDS | _EXTRA_KINDS.get(field, {})
    if kind in known:
        try:
            converted = pandas.to_datetime(values) if known[kind] == "datetime" else values.astype(known[kind])
        except (OverflowError, UnicodeError, ValueError, TypeError):
            converted = None
    if converted is None:
        raise EventLogError(
            f"{field}={column!r} of {what} holds Python objects of kind {kind!r}: users, items and groups must be integers of "
            "at most 64 bits throughout, or text throughout; cast the column to one of them"
        )
    return converted


_ADAPTERS: Final[dict[tuple[str, str], _Adapter]] = {
    ("pandas", "DataFrame"): _pandas,
    ("polars", "LazyFrame"): _lazy,
    ("_duckdb", "DuckDBPyRelation"): _relation,
    ("duckdb", "DuckDBPyRelation"): _relation,
}
