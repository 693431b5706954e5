"""A public list of items, read from a file."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path

from dpselect.errors import EventLogError
from dpselect.events.columns import ambiguous, no_column
from dpselect.events.domain import joined, require_distinct
from dpselect.events.doors.delimited import DELIMITERS, QUOTING, Delimited, first_record
from dpselect.events.doors.files import checked, plain, temporary_folder
from dpselect.selection import Label

_INTEGER = re.compile(r"[+-]?[0-9]+")
# First lines of a one-column file that name the column rather than an item.
_HEADERS = frozenset({"item", "items", "item_id", "itemid", "id", "label", "labels", "name", "names"})


Names = str | Sequence[str]


def read_catalogue(path: str | os.PathLike[str], column: Names | None = None, *, item: Names | None = None) -> list[Label]:
    """Public item labels from a file, as text, in the file's order. UTF-8; may be gzipped.

    A file named .csv or .tsv (or so with .gz) with several columns has a header line, and the labels are in `column`, or else
    in the column called `item`, the name that the log's items go by. With one column and no `column` its first line is a header
    if it is `item` or a usual name of one (item, item_id, id, label, name, ...), or if it is the only line that is not an
    integer; otherwise it is an item. Any other file holds one label per line, and no header. Blank lines are skipped.

    Several columns give one label of each line, as several columns of `read` do one item.

    The catalogue must be public: made without looking at the log.

    Raises:
        EventLogError: the file cannot be read, has no such column, holds no label, an empty one, or one twice.
    """
    source = checked(path)
    what = f"catalogue {str(source)!r}"
    kind = _kind(source)
    with temporary_folder() as folder:
        copy = plain(source, folder / "catalogue")
        labels = _lines(copy, column, what) if kind is None else _read(copy, kind, column, item, what)
    if not labels:
        raise EventLogError(f"{what} holds no item: it must name at least one")
    require_distinct(labels, what)
    return labels


def _kind(path: Path) -> Delimited | None:
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    return {".csv": "csv", ".tsv": "tsv"}.get(suffix)  # type: ignore[return-value]


def _read(path: Path, kind: Delimited, column: Names | None, item: Names | None, what: str) -> list[Label]:
    several = column if column is not None else item
    if several is None or isinstance(several, str):
        return _column(path, kind, column if column is None else str(column), several, what)
    names = first_record(path, kind, what)
    parts = [_records(path, kind, _place(names, part, what), len(names), what) for part in several]
    return [joined(line) for line in zip(*parts, strict=True)]


def _lines(path: Path, column: Names | None, what: str) -> list[Label]:
    if column is not None:
        raise EventLogError(f"column={column!r} needs a file with a header, and {what} is not named .csv or .tsv: rename it")
    try:
        with path.open(encoding="utf-8") as stream:
            return [label for label in (line.rstrip("\n") for line in stream) if label]
    except UnicodeDecodeError:
        failure = f"{what} is not valid UTF-8: convert it to UTF-8 first"
    raise EventLogError(failure)


def _column(path: Path, kind: Delimited, column: str | None, item: str | None, what: str) -> list[Label]:
    names = first_record(path, kind, what)
    if column is None and len(names) > 1 and item in names:
        column = item
    place = _place(names, column, what)
    labels = _records(path, kind, place, len(names), what)
    return labels if column is not None or _is_header(names[0], labels, item) else [*names, *labels]


def _is_header(first: str, rest: list[Label], item: str | None) -> bool:
    if first == item or first.lower() in _HEADERS:
        return True
    return not _INTEGER.fullmatch(first) and bool(rest) and all(_INTEGER.fullmatch(str(label)) for label in rest)


def _records(path: Path, kind: Delimited, place: int, width: int, what: str) -> list[Label]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            records = csv.reader(stream, delimiter=DELIMITERS[kind], quoting=QUOTING[kind], strict=True)
            next(records)
            return [_label(record, place, width, what, records.line_num) for record in records if record]
    except UnicodeDecodeError:
        failure = "is not valid UTF-8: convert it to UTF-8 first"
    except csv.Error:
        failure = f"is not well-formed {kind.upper()}: check its quotes and separators"
    raise EventLogError(f"{what} {failure}")


def _place(names: list[str], column: str | None, what: str) -> int:
    if column is None and len(names) > 1:
        raise EventLogError(
            f"{what} has columns {', '.join(map(repr, names))}: say which holds the labels "
            "(column= in the library, --domain-column at the command line)"
        )
    if column is None:
        return 0
    if names.count(column) > 1:
        raise ambiguous("column", column, what)
    if column not in names:
        raise no_column("column", column, names, what)
    return names.index(column)


def _label(record: list[str], place: int, count: int, what: str, line: int) -> str:
    if len(record) != count:
        raise EventLogError(f"{what} has {len(record)} fields on line {line} and {count} in its header: correct the line")
    if not record[place]:
        raise EventLogError(f"{what} has an empty label on line {line}: give the item a name or remove the line")
    return record[place]
