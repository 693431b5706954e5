"""Public lists of labels, in memory or in a file, and their match with a log's labels."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Unpack, cast, final

import numpy as np
from numpy.typing import NDArray

from accounting.address import mask
from accounting.arguments import quote_setting
from accounting.numbers import Integers
from dpselect.app.events.engine import (
    Engine,
    inner_suffix,
    not_encoded,
    open_engine,
    path_of,
    plain,
    temporary_folder,
)
from dpselect.app.events.file_options import FileKeywords, FileOptions, normalize_label
from dpselect.app.events.rows import read_events
from dpselect.app.events.sources.base import RoleColumns, SourceRequest, place_of, role_of
from dpselect.app.events.sources.formats import (
    CSV,
    DELIMITERS,
    EXCEL,
    PARQUET,
    TSV,
    Delimited,
    FileFormat,
    format_of,
    names_in_parquet,
    workbook,
)
from dpselect.errors import EventLogError
from dpselect.selection import TOO_MANY_DIGITS, Label, is_writable

_SURROGATE = re.compile("[\ud800-\udfff]")
# First lines of a one-column file that name the column rather than an item.
_HEADERS = frozenset(
    {"item", "items", "item_id", "itemid", "id", "label", "labels", "name", "names"}
)
_Names = str | Sequence[str]
Labels = Sequence[Label] | NDArray[np.generic]
"""Public labels of items or groups: a list, a range or an array of them."""

NULLS: Final = frozenset(
    {
        "null",
        "\\n",
        "n/a",
        "#n/a",
        "na",
        "nan",
        "nat",
        "<na>",
        "none",
        "nil",
        "undefined",
        "(null)",
        "-",
        "--",
        "?",
        "unknown",
    }
)
"""Labels, in lower case, that look like a missing value."""


def catalog_labels(
    catalog: Labels, *, title: str = "catalog", normalize: Sequence[str] = ()
) -> list[Label]:
    """Labels of a catalog of items, or of a list of groups, in the catalog's order.

    A released label is always written as the public list has it, or as `normalize` writes it,
    whatever was read. Otherwise its type would tell whether anything was. A repeated label is
    refused. If the log's labels are integers, a label that is not one stands for an item that
    nobody has, because rows may have decided the log's type.
    """
    names = list(normalize_labels(list_labels(catalog, title), normalize))
    _require_distinct(list(map(str, names)), title)
    return names


def _join_parts(parts: Sequence[object]) -> str:
    """One label of several parts, written as a CSV record with quotes where needed."""
    texts = map(str, parts)
    return ",".join(
        '"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text
        for text in texts
    )


def align_sums(labels: Sequence[Label], sums: NDArray[Any], names: Sequence[Label]) -> NDArray[Any]:
    """Sums (..., m) of items rearranged to (..., names), with 0 for a name that is not an item."""
    positions = places(labels, names)
    result = np.zeros((*sums.shape[:-1], len(names)), dtype=sums.dtype)
    result[..., positions >= 0] = sums[..., positions[positions >= 0]]
    return result


def places(labels: Sequence[Label], names: Sequence[Label]) -> Integers:
    """Index of each name among the labels, (names,), with 7 equal to "7" and -1 if missing."""
    place = {str(label): index for index, label in enumerate(labels)}
    return np.fromiter(
        (place.get(str(name), -1) for name in names), dtype=np.int64, count=len(names)
    )


def _require_distinct(names: Sequence[Label], title: str) -> None:
    """Refuse a catalog that names an item twice, because it could be selected twice."""
    earlier: set[Label] = set()
    for name in names:
        if name in earlier:
            raise EventLogError(
                f"{title} names {name!r} more than once, and every item must appear once. Remove"
                " the repetitions"
            )
        earlier.add(name)


def list_labels(catalog: Labels, title: str) -> list[Label]:
    """Labels of a public list as written, each an int or str. A tuple is one label of parts."""
    if isinstance(catalog, str):
        raise EventLogError(
            f"{title}={catalog!r} is text, not labels. Read a file of them with events.read_catalog"
        )
    labels = catalog.tolist() if isinstance(catalog, np.ndarray) else catalog
    if not isinstance(labels, Iterable) or _is_table(labels):
        raise EventLogError(f"{title} is one {type(labels).__name__}. Pass a list of labels")
    names = list(labels)
    if not names:
        raise EventLogError(
            f"{title} is empty, and must name at least one. Leave it out to use the labels in"
            " the log"
        )
    return [_plain(name, title) for name in names]


def _is_table(source: object) -> bool:
    """True if iterating over the source would give columns, or their names."""
    return hasattr(type(source), "columns")  # polars warns who asks a lazy frame


def normalize_labels(names: Sequence[Label], forms: Sequence[str]) -> tuple[Label, ...]:
    """Labels in the form in which a log's labels are compared."""
    return tuple(normalize_label(name, forms) if isinstance(name, str) else name for name in names)


def _plain(name: object, title: str) -> Label:
    value = name.item() if isinstance(name, np.generic) else name
    if isinstance(value, tuple):
        return _join_parts(tuple(_plain(part, title) for part in value))
    if type(value) not in (int, str):
        raise EventLogError(
            f"{title} holds {value!r}, a {type(value).__name__}: labels must be int or str"
        )
    if isinstance(value, int) and not is_writable(value):
        raise EventLogError(f"{title} holds an integer {TOO_MANY_DIGITS}")
    if isinstance(value, str) and _SURROGATE.search(value):  # no file of an answer could hold it
        raise EventLogError(
            f"{title} holds {value!r}, in which half of a character is missing. Correct the label"
        )
    return value  # type: ignore[return-value]


@final
class ListOptions(FileOptions):
    """Options for reading a public list of labels."""


def public_list(
    source: Any, column: _Names | None, item: _Names | None, options: FileOptions, title: str
) -> tuple[Label, ...]:
    """Labels of a list, table or file of labels, in the form of a log read with these options.

    A file is read with the log's encoding and null texts, and with its delimiter and quote unless
    its header shows another delimiter or it has one label per line.
    """
    names: tuple[str, ...] = ("missing", "null", "normalize")
    if isinstance(source, str | os.PathLike):
        split = column is not None or inner_suffix(Path(source)) in (
            *CSV.suffixes[:1],
            *TSV.suffixes,
        )
        names += (
            "encoding",
            *(("delimiter", "quote", "escape", "comment") if split else ()),
        )
    elif not _is_table(source):
        return normalize_labels(list_labels(source, title), options.normalize)
    return tuple(
        read_catalog(
            source, column, item=item, **cast(Any, {name: getattr(options, name) for name in names})
        )
    )


def read_catalog(
    source: Any,
    column: _Names | int | None = None,
    *,
    item: _Names | int | None = None,
    **keywords: Unpack[FileKeywords],
) -> list[Label]:
    """Read public item labels, as text and in order, from any kind of source that a log can have.

    The labels are in `column`, or else in the column called `item`, which is the name of the log's
    item column. Several columns make up one label per row, as for the items of `read`. If neither
    names a column, the file must have only one. In CSV, TSV and Excel its first line is then a
    label like the others, unless it is `item`, a usual name of a column (item, id, label, name,
    ...) or `header` is True. A file whose ending is not one of a log's, or a .txt or .dat file
    without a `delimiter`, holds one label per line and no header.

    `normalize` rewrites labels as it does in a log, and two labels that become equal are refused.
    Empty labels, and labels named by `missing` or `null`, are left out.

    The catalog must be public, which means made without looking at the log.

    Raises:
        EventLogError: the source cannot be read, has no such column, holds no label, or one twice.
    """
    options = ListOptions(**cast(Any, keywords))
    title = f"catalog {mask(source)}" if isinstance(source, str | os.PathLike) else "the catalog"
    at, item_name = (
        cast(Any, str(name) if isinstance(name, int) and is_writable(name) else name)
        for name in (column, item)
    )
    labels = labels_in(source, at, item_name, options, title)
    if not labels:
        raise EventLogError(f"{title} holds no item, and must name at least one")
    _require_distinct(labels, title)
    return list[Label](labels)


def labels_in(
    source: Any, column: _Names | None, item: _Names | None, options: FileOptions, title: str
) -> list[str]:
    """Labels of a public source, read as `read_catalog` does, with repetitions."""
    file = _file(source)
    if file is not None and _has_one_per_line(file, options):
        if column is not None:
            raise EventLogError(
                f"column={quote_setting(column)} needs a file with a header, and {title} is not"
                " named .csv or .tsv. Rename it"
            )
        return _lines(path_of(file), options, title)
    with open_engine(tells=True) as engine:  # the list is public
        field = column if column is not None else item
        if file is not None and (kind := format_of(file, options.format)) is not None:
            field, options = _column(
                engine,
                kind,
                SourceRequest(source, RoleColumns.from_columns(None, "none"), options, title),
                column,
                item,
            )
        if field is None:
            if isinstance(source, str | os.PathLike):
                path_of(source)
            raise EventLogError(f"{title} has fields: {_WHICH}")
        request = SourceRequest(source, RoleColumns.from_columns(None, field), options, title)
        engine.run("SET preserve_insertion_order = true", title=title)
        log = read_events(engine, request)
        rows = engine.run(
            f"SELECT CAST(i AS VARCHAR), {log.apart} AS apart FROM ({log.sql})", title=title
        )
    request.columns.refuse_malformed(
        {role_of(apart) for _, apart in rows if apart < 0}, title, ", and no public list holds them"
    )
    return [label for label, apart in rows if apart == 0]


_WHICH = "say which holds the labels (column=; domain_column= or groups_column= of a question)"


def _file(source: Any) -> Path | None:
    """The path of a file, or None for any other source."""
    # of a name that is too long, which is refused where it is read
    with contextlib.suppress(OSError):
        return (
            Path(source)
            if isinstance(source, str | os.PathLike) and Path(source).is_file()
            else None
        )
    return None


def _has_one_per_line(path: Path, options: FileOptions) -> bool:
    is_plain = (
        format_of(path, options.format) in (None, CSV)
        and inner_suffix(path) not in CSV.suffixes[:1]
    )
    return is_plain and options.format == "auto" and options.delimiter is None


def _lines(source: Path, options: FileOptions, title: str) -> list[str]:
    try:
        with temporary_folder() as folder:
            text = plain(source, folder / "catalog", options.encoding).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = None
    suffix = inner_suffix(source)
    unread = suffix != "" and format_of(source, options.format) is None
    if unread and (text is None or "\0" in text):
        raise EventLogError(
            f"{title} is not a list of one label per line in UTF-8, and no format that is read has"
            f" names in {suffix!r}. Convert it to Parquet, CSV or such a list"
        )
    if text is None:
        raise EventLogError(f"{title} {not_encoded()}")
    labels = [label for label in text.split("\n") if label not in (*options.missing, *options.null)]
    normalized = (normalize_label(label, options.normalize) for label in labels)
    return [label for label in normalized if label]


def _column(
    engine: Engine,
    kind: FileFormat | Delimited,
    request: SourceRequest,
    column: _Names | None,
    item: _Names | None,
) -> tuple[_Names | None, FileOptions]:
    """The label column (or columns) of a file, and the options completed from the file's header."""
    source, options, title = (path_of(request.source), request.options, request.title(kind.name))
    field, head = item if column is None else column, engine.fresh_path("head")
    parts = [] if field is None else [field] if isinstance(field, str) else list(field)
    if kind is PARQUET:
        names = names_in_parquet(engine, plain(source, head), title)
    elif kind is EXCEL:
        names = CSV.first_record(workbook(source, head, title, rows=1), title)
    elif isinstance(kind, Delimited):
        form = kind.with_options(options)
        form = form.sniff_delimiter(
            plain(source, head, options.encoding, form.header_is_open, form.comment), parts, title
        )
        names, options = (
            form.first_record(head, title),
            options.model_copy(update={"delimiter": form.delimiter}),
        )
    else:
        return field, options
    if column is not None or (parts and set(parts) <= set(names)):
        if kind is not PARQUET and not RoleColumns.from_columns(None, parts).uses_positions():
            for part in parts:
                place_of("column", part, names, title)
        return field, options
    if len(names) > 1:
        raise EventLogError(f"{title} has columns {', '.join(map(repr, names))}: {_WHICH}")
    if (
        kind is PARQUET
        or options.header
        or (options.header is None and names[0].lower() in _HEADERS)
    ):
        return names[0], options
    if other := next((mark for mark in (CSV.delimiter, *DELIMITERS) if mark in names[0]), None):
        raise EventLogError(
            f"{title} has one column, and its first line holds {other!r}. State delimiter={other!r}"
            " and the column, or column=1 if every line is a label"
        )
    return "1", options
