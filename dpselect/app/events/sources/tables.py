"""Tables: pandas, Polars, DuckDB, and any object that offers an Arrow stream.

None of these libraries is imported unless the caller already did.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from accounting.errors import missing_extra
from dpselect.app.events.engine import Engine, run_guarded
from dpselect.app.events.sources.base import (
    BYTES_PER_ROW,
    OF_TEXT,
    SHORT,
    Rows,
    SourceRequest,
    is_condition,
    is_label,
    name_sql,
    path_sql,
    positions_by_path,
    select_columns,
)
from dpselect.app.events.where import Condition, comparable_text
from dpselect.errors import EventLogError

_Within = dict[str, tuple[str, ...]]
"""Names of the fields within each role's column that lead to its values."""
_Adapter = Callable[[Engine, Any, SourceRequest, str], tuple[str, int, _Within]]
"""A function from a table to an SQL relation of its columns by short name.

It also returns the rough size in bytes as text, and the fields within the columns.
"""
_UNKNOWN = 2**30  # bytes of a stream that does not tell how long it is: cut as if it were this
_EXTRA_KINDS = {
    "value": dict.fromkeys(("decimal", "floating", "integer", "mixed-integer-float"), "float64"),
    "time": {"integer": "Int64"} | dict.fromkeys(("date", "datetime", "datetime64"), "datetime"),
}
_LABEL_RULE = "users, items and groups must be integers throughout, or text throughout"
_RULES = {
    "value": "values must be numbers throughout, or text throughout",
    "time": (
        "times must be dates or timestamps of one zone, or without one, throughout, or text"
        " throughout"
    ),
}
_OBJECT_KINDS = {"string": "string", "empty": "string"}


def accepts(request: SourceRequest) -> bool:
    """True for a table of a known class, or an object that offers an Arrow stream."""
    return _adapter(request.source) is not None


def rows(engine: Engine, request: SourceRequest) -> Rows:
    """The columns of a table, matched by exact name, and streamed if the table can be."""
    source = request.source
    title, adapter = (
        f"the {type(source).__module__.split('.')[0].lstrip('_')} table",
        _adapter(source),
    )
    request.refuse_options("a table", "table", "query", "format", *OF_TEXT)
    assert adapter is not None, "a source reads what it accepts"
    if request.unread:
        if (source := _empty_table(source, adapter)) is None:
            return request.unread_rows(title)
        adapter = _adapter(source) or _arrow
    relation, size, within = adapter(engine, source, request, title)
    places = {role: (SHORT[role], fields) for role, fields in within.items()}
    return replace(
        select_columns(engine, relation, places, request.columns, title),
        size=size,
        once=adapter is _arrow,
    )


def _adapter(source: object) -> _Adapter | None:
    names = {(base.__module__.split(".")[0], base.__name__) for base in type(source).__mro__}
    match = next((adapter for name, adapter in _ADAPTERS.items() if name in names), None)
    return _arrow if match is None and hasattr(type(source), "__arrow_c_stream__") else match


def _empty_table(source: Any, adapter: _Adapter) -> Any:
    """A table with the same columns and no row, or None if only its rows tell its columns."""
    if adapter is _pandas:
        return source.iloc[:0]
    if adapter is _relation:
        return run_guarded("the table", lambda: source.limit(0))
    if adapter is _lazy or (
        type(source).__module__.split(".")[0] == "polars" and hasattr(source, "clear")
    ):
        return source.clear()
    if importlib.util.find_spec("pyarrow") is None:
        return source  # refused by its adapter
    arrow = importlib.import_module("pyarrow")
    schema = source.schema if isinstance(getattr(source, "schema", None), arrow.Schema) else None
    if schema is None and hasattr(type(source), "__arrow_c_schema__"):
        schema = run_guarded("the table", lambda: arrow.schema(source))
    return None if schema is None else schema.empty_table()


def _places(
    request: SourceRequest, names: Sequence[Any], title: str
) -> tuple[dict[str, int], _Within]:
    """Places of the columns by their short names, and the fields within them."""
    positions = positions_by_path(request.columns, names, title, positions=False)
    return {SHORT[role]: place for role, (place, _) in positions.items()}, {
        role: fields for role, (_, fields) in positions.items()
    }


def _arrow(
    engine: Engine, source: Any, request: SourceRequest, title: str
) -> tuple[str, int, _Within]:
    """Read an Arrow stream of pyarrow, Polars, Ibis and others, batch by batch."""
    if importlib.util.find_spec("pyarrow") is None:
        raise missing_extra(f"{title} is handed over through pyarrow", "arrow")
    arrow = importlib.import_module("pyarrow")
    stream = run_guarded(title, lambda: arrow.RecordBatchReader.from_stream(source))
    places, within = _places(request, list(stream.schema.names), title)
    schema = arrow.schema(
        [stream.schema.field(place).with_name(short) for short, place in places.items()]
    )

    def batches() -> Iterator[Any]:
        for batch in stream:
            yield arrow.RecordBatch.from_arrays(
                [batch.column(place) for place in places.values()], schema=schema
            )

    engine.register("events", arrow.RecordBatchReader.from_batches(schema, batches()), title=title)
    return "events", len(source) * BYTES_PER_ROW if hasattr(source, "__len__") else _UNKNOWN, within


def _lazy(
    engine: Engine, source: Any, request: SourceRequest, title: str
) -> tuple[str, int, _Within]:
    """Read a Polars LazyFrame, which its own streaming engine writes to a file of the reading."""
    names = run_guarded(title, lambda: list(source.collect_schema().names()))
    (short, within), column = _places(request, names, title), importlib.import_module("polars").col
    target = engine.path("table")
    columns = [column(names[place]).alias(alias) for alias, place in short.items()]
    run_guarded(title, lambda: source.select(columns).sink_parquet(target))
    return (*_write_parquet(engine, target, title), within)


def _relation(
    engine: Engine, source: Any, request: SourceRequest, title: str
) -> tuple[str, int, _Within]:
    """Read a relation of the caller's DuckDB, which writes it to a file of the reading itself."""
    names = run_guarded(title, lambda: list(source.columns))
    target, (short, within) = engine.path("table"), _places(request, names, title)
    columns = ", ".join(
        f"{_parquet_column(names[place], str(source.types[place]), title)} AS {alias}"
        for alias, place in short.items()
    )
    run_guarded(title, lambda: source.project(columns).write_parquet(str(target)))
    return (*_write_parquet(engine, target, title), within)


def _parquet_column(name: str, stored: str, title: str) -> str:
    """SQL of a column for a Parquet file, by the column's type alone.

    A value that no Parquet file holds must not refuse anything.
    """
    if stored == "INTERVAL":  # a negative one is not written, and no role reads one
        return "CAST(NULL AS INTERVAL)"
    if "INTERVAL" in stored:
        raise EventLogError(
            f"{name!r} of {title} holds intervals within. Select the fields that are asked for as"
            " columns"
        )
    # What is wider than 64 bits would be written to the file as a fraction.
    return (
        f"CAST({name_sql(name)} AS VARCHAR)"
        if stored in ("HUGEINT", "UHUGEINT")
        else name_sql(name)
    )


def _write_parquet(engine: Engine, target: Path, title: str) -> tuple[str, int]:
    count = engine.run(
        f"SELECT sum(num_rows) FROM parquet_file_metadata({path_sql(target)})", title=title
    )[0][0]
    return (
        f"read_parquet({path_sql(target)}, hive_partitioning = false)",
        int(count or 0) * BYTES_PER_ROW,
    )


def _pandas(
    engine: Engine, source: Any, request: SourceRequest, title: str
) -> tuple[str, int, _Within]:
    """Read a pandas frame, which infers types of columns from its rows if none is stated."""
    indexed = any(name is not None for name in source.index.names)
    named = f"{title} (reset_index() makes its index columns)" if indexed else title
    short, within = _places(request, list(source.columns), named)
    table = source.iloc[:, list(short.values())].set_axis(list(short), axis="columns")
    for role, column in request.columns.by_role.items():
        series = table[SHORT[role]]
        # what its categories are, rows decide
        if hasattr(series, "cat") and (request.unread or not is_label(role)):
            series = series.astype(object)
        if within[role] and not hasattr(series.dtype, "pyarrow_dtype"):
            fields, within[role] = within[role], ()
            series = series.astype(object).map(partial(_dug, fields=fields)).astype(object)
            series = (
                series.map(_print_numbers, na_action="ignore").astype(object)
                if is_label(role)
                else series
            )
        if is_condition(role) and not _is_compared(series.dtype):
            series = _comparable_values(series, request.tests()[role], request.missing())
        elif series.dtype == object and series.isna().all():  # the type of nothing is no type
            series = series.astype(object).where(series.notna(), None).astype("string")
        elif is_label(role) and hasattr(series, "cat"):  # as of objects
            renamed = _object_column(
                series.cat.categories.to_series().astype(object), role, column, title
            )
            series = series.cat.rename_categories(renamed.array)
        elif series.dtype == object:
            series = _object_column(series, role, column, title)
        # Numbers that stand in memory from last to first, which the engine refuses; of instants
        # with a zone pandas does not say.
        elif series.dtype.kind == "M" or (
            isinstance(series.dtype, np.dtype) and series.to_numpy().strides[0] < 0
        ):
            series = series.copy()
        table = table.assign(**{SHORT[role]: series})
    engine.register("events", table, title=title)
    return "events", len(table) * BYTES_PER_ROW, within


def _is_compared(kind: Any) -> bool:
    """True if the engine compares a column of this type as `comparable_text` compares its values.

    All others are compared as objects, because rows decide their type, and it must refuse nothing.
    """
    if hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", "") == "pyarrow":
        return True
    if isinstance(kind, np.dtype):
        return kind.kind in "biu" or kind in (np.float32, np.float64)
    # whole numbers, some of which are missing
    return hasattr(kind, "numpy_dtype") and kind.kind in "biu"


def _comparable_values(values: Any, test: Condition, missing: Sequence[Condition]) -> Any:
    pandas = importlib.import_module("pandas")
    texts = [comparable_text(value, test, missing) for value in values.astype(object)]
    return pandas.Series(texts, index=values.index, dtype="string")


def _dug(value: Any, fields: Sequence[str]) -> Any:
    """A nested Python value, for each element if lists lie on the way, or None if it is missing."""
    for field in fields:
        if isinstance(value, list | tuple | np.ndarray):
            value = [inner.get(field) if isinstance(inner, dict) else None for inner in value]
        else:
            value = value.get(field) if isinstance(value, dict) else None
    return value


def _object_column(values: Any, field: str, column: object, title: str) -> Any:
    """Convert a column of Python objects to one type, looking at all values.

    The engine would infer the type from a sample, and take 7 and "7" for one label. Integers are
    printed, whatever their width, because the type of labels must not depend on the widest of them.
    """
    pandas = importlib.import_module("pandas")
    kind, converted = pandas.api.types.infer_dtype(values, skipna=True), None
    dtypes = _OBJECT_KINDS | _EXTRA_KINDS.get(field, {})
    try:
        if kind in dtypes:
            converted = (
                pandas.to_datetime(values)
                if dtypes[kind] == "datetime"
                else values.astype(dtypes[kind])
            )
        elif kind == "integer":
            converted = values.map(str, na_action="ignore").astype("string")
        elif kind == "decimal":
            converted = values.map(lambda value: format(value, "f"), na_action="ignore").astype(
                "string"
            )
        elif kind in ("mixed", "mixed-integer") and is_label(field):
            converted = _nested_values(values)
    except (OverflowError, UnicodeError, ValueError, TypeError):
        converted = None
    if converted is None:
        raise EventLogError(
            f"{field}={column!r} of {title} holds Python objects that are not read:"
            f" {_RULES.get(field, _LABEL_RULE)}; cast the column to one of them"
        )
    return converted


def _nested_values(values: Any) -> Any:
    """Lists and dictionaries as Arrow has them, with numbers as text; None for other objects."""
    present = values.dropna()
    if (
        importlib.util.find_spec("pyarrow") is None
        or not present.map(lambda value: isinstance(value, list | dict | np.ndarray)).all()
    ):
        return None
    arrow, pandas = importlib.import_module("pyarrow"), importlib.import_module("pandas")
    try:
        array = arrow.array(values.map(_print_numbers, na_action="ignore"), from_pandas=True)
    except (arrow.ArrowException, OverflowError):
        return None
    return pandas.Series(pandas.arrays.ArrowExtensionArray(array), index=values.index)


def _print_numbers(value: object) -> object:
    """A nested value with all whole numbers and decimals as text.

    Arrow would write each number as the widest of them all requires.
    """
    if isinstance(value, list | np.ndarray):
        return list(map(_print_numbers, value))
    if isinstance(value, dict):
        return {name: _print_numbers(element) for name, element in value.items()}
    if isinstance(value, Decimal):
        return format(value, "f")
    return (
        str(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else value
    )


_ADAPTERS: Final[dict[tuple[str, str], _Adapter]] = {
    ("pandas", "DataFrame"): _pandas,
    ("polars", "LazyFrame"): _lazy,
    ("_duckdb", "DuckDBPyRelation"): _relation,
    ("duckdb", "DuckDBPyRelation"): _relation,
}
