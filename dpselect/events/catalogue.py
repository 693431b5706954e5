"""Public lists of labels, given or read from a file, and how they are matched with those of a log."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.address import masked
from accounting.arguments import shown
from dpselect.errors import EventLogError
from dpselect.events.doors.base import described, located, place_of, quoted
from dpselect.events.doors.formats import CSV, PARQUET, TSV, Delimited
from dpselect.events.engine import checked, opened, plain, temporary_folder
from dpselect.selection import Label

DECIMAL = re.compile(r"0|-?[1-9]\d{0,19}", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+")
# First lines of a one-column file that name the column rather than an item.
_HEADERS = frozenset({"item", "items", "item_id", "itemid", "id", "label", "labels", "name", "names"})
_Names = str | Sequence[str]
Labels = Sequence[Label] | NDArray[np.generic]
"""Public labels of items or groups: a list, a range or an array of them."""


def named(catalogue: Labels, *, integers: bool, what: str = "catalogue") -> list[Label]:
    """The labels of a catalogue of items, or of a list of groups, as it writes them and in their order.

    What is released is written as the public list has it, whatever was read: else its type would tell whether anything was.
    `integers` says that the log's type, not its values, is of integers; one that is none is refused, as is one named twice.
    """
    names = listed(catalogue, what)
    if integers:
        for name in names:
            _require_integer(name, what)
    _require_distinct([str(name) for name in names], what)
    return names


def _joined(parts: tuple[object, ...]) -> str:
    """One label of several: a record of CSV, quoted where it has to be, so that no two are written alike."""
    texts = map(str, parts)
    return ",".join('"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text for text in texts)


def aligned(labels: Sequence[Label], sums: NDArray[Any], names: Sequence[Label]) -> NDArray[Any]:
    """(..., names) what (..., m) sums of items have for these names, 0 for a name that is not an item."""
    at = places(labels, names)
    found = np.zeros((*sums.shape[:-1], len(names)), dtype=sums.dtype)
    found[..., at >= 0] = sums[..., at[at >= 0]]
    return found


def places(labels: Sequence[Label], names: Sequence[Label]) -> NDArray[np.int64]:
    """(names,) where each stands among the labels, 7 and "7" being the same; -1 for one that is none."""
    place = {str(label): at for at, label in enumerate(labels)}
    return np.fromiter((place.get(str(name), -1) for name in names), dtype=np.int64, count=len(names))


def _require_distinct(names: Sequence[Label], what: str) -> None:
    """Refuse a catalogue that names an item twice: it could be selected twice."""
    seen: set[Label] = set()
    for name in names:
        if name in seen:
            raise EventLogError(f"{what} names {name!r} more than once: every item must appear once; remove the repetitions")
        seen.add(name)


def listed(catalogue: Labels, what: str) -> list[Label]:
    """The labels of a public list as it writes them, each int or str; a tuple is one label of several parts."""
    if isinstance(catalogue, str):
        raise EventLogError(f"{what}={catalogue!r} is text, not labels: read a file of them with events.read_catalogue")
    given = catalogue.tolist() if isinstance(catalogue, np.ndarray) else catalogue
    if not isinstance(given, Iterable):
        raise EventLogError(f"{what} is one {type(given).__name__}: pass a list of labels")
    names = list(given)
    if not names:
        raise EventLogError(f"{what} is empty: it must name at least one; leave it out to use what is in the log")
    return [_plain(name, what) for name in names]


def _plain(name: object, what: str) -> Label:
    value = name.item() if isinstance(name, np.generic) else name
    if isinstance(value, tuple):
        return _joined(tuple(_plain(part, what) for part in value))
    if type(value) not in (int, str):
        raise EventLogError(f"{what} holds {value!r}, a {type(value).__name__}: labels must be int or str")
    return value  # type: ignore[return-value]


def _require_integer(name: Label, what: str) -> None:
    if isinstance(name, str) and not DECIMAL.fullmatch(name):
        raise EventLogError(
            f"{what} holds {name!r}, and those of this log are integers: write its labels as integers, without leading "
            "zeros or signs, or give the log's as text"
        )
    if not -(2**63) <= (number := int(name)) < 2**64:
        raise EventLogError(f"{what} holds {shown(number)}, and those of this log are integers of at most 64 bits")


def read_catalogue(path: str | os.PathLike[str], column: _Names | None = None, *, item: _Names | None = None) -> list[Label]:
    """Public item labels from a file, as text, in the file's order. Text in UTF-8, perhaps gzipped; or Parquet.

    A file named .csv or .tsv (or so with .gz) with several columns has a header line, and the labels are in `column`, or else
    in the column called `item`, the name that the log's items go by. With one column and no `column` its first line is a header
    if it is `item` or a usual name of one (item, item_id, id, label, name, ...), or if it is the only line that is not an
    integer; otherwise it is an item. Of a Parquet file (.parquet, .pq) with one column that column is meant; of one with several
    the same as of a CSV. Any other file holds one label per line, and no header. Blank lines are skipped.

    Several columns give one label of each line, as several columns of `read` do one item.

    The catalogue must be public: made without looking at the log.

    Raises:
        EventLogError: the file cannot be read, has no such column, holds no label, an empty one, or one twice.
    """
    source = checked(path)
    what = f"catalogue {masked(source)}"
    suffix = (source.with_suffix("") if source.suffix.lower() == ".gz" else source).suffix.lower()
    kind = next((kind for kind in (CSV, TSV) if suffix == f".{kind.name}"), None)
    if source.suffix.lower() in PARQUET.suffixes:
        labels = _columns(source, column, item, what)
    else:
        with temporary_folder() as folder:
            copy = plain(source, folder / "catalogue")
            labels = _lines(copy, column, what) if kind is None else _read(copy, kind, column, item, what)
    if not labels:
        raise EventLogError(f"{what} holds no item: it must name at least one")
    _require_distinct(labels, what)
    return labels


def _read(path: Path, kind: Delimited, column: _Names | None, item: _Names | None, what: str) -> list[Label]:
    names = kind.first_record(path, what)
    asked = item if column is None else column
    if asked is not None and not isinstance(asked, str):
        parts = [_records(path, kind, _place(names, part, what), len(names), what) for part in asked]
        return [_joined(line) for line in zip(*parts, strict=True)]
    stated = asked if column is not None or (len(names) > 1 and asked in names) else None
    labels = _records(path, kind, _place(names, stated, what), len(names), what)
    return labels if stated is not None or _is_header(names[0], labels, asked) else [*names, *labels]


def _columns(path: Path, column: _Names | None, item: _Names | None, what: str) -> list[Label]:
    """The labels of a Parquet file."""
    with opened() as engine:
        names = PARQUET.names(engine, path, what)
        asked = item if column is None and len(names) > 1 else column
        parts = [names[_place(names, name, what)] for name in ([asked] if asked is None or isinstance(asked, str) else asked)]
        relation = f"read_parquet({located(path)}, hive_partitioning = false, file_row_number = true)"
        types = engine.run(f"DESCRIBE SELECT {', '.join(map(quoted, parts))} FROM {relation}", what=what)
        for name, column_type in zip(parts, types, strict=True):
            described([column_type], {"column": name}, what)  # integers or text
        texts = ", ".join(f"CAST({quoted(name)} AS VARCHAR)" for name in parts)
        rows = engine.run(f"SELECT {texts} FROM {relation} ORDER BY file_row_number", what=what)
    if any(part is None or part == "" for row in rows for part in row):
        raise EventLogError(f"{what} has an empty label: give the item a name or remove the row")
    return [row[0] if len(parts) == 1 else _joined(row) for row in rows]


def _lines(path: Path, column: _Names | None, what: str) -> list[Label]:
    if column is not None:
        raise EventLogError(f"column={column!r} needs a file with a header, and {what} is not named .csv or .tsv: rename it")
    try:
        with path.open(encoding="utf-8") as stream:
            return [label for label in (line.rstrip("\n") for line in stream) if label]
    except UnicodeDecodeError:
        failure = f"{what} is not valid UTF-8: convert it to UTF-8 first"
    raise EventLogError(failure)


def _is_header(first: str, rest: list[Label], item: str | None) -> bool:
    if first == item or first.lower() in _HEADERS:
        return True
    return not _INTEGER.fullmatch(first) and bool(rest) and all(_INTEGER.fullmatch(str(label)) for label in rest)


def _records(path: Path, kind: Delimited, place: int, width: int, what: str) -> list[Label]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            records, labels = kind.reader(stream), list[Label]()
            next(records)
            for record in filter(None, records):
                if len(record) != width:
                    found = f"{len(record)} fields on line {records.line_num} and {width} in its header"
                    raise EventLogError(f"{what} has {found}: correct the line")
                if not record[place]:
                    line = records.line_num
                    raise EventLogError(f"{what} has an empty label on line {line}: give the item a name or remove the line")
                labels.append(record[place])
            return labels
    except UnicodeDecodeError:
        failure = "is not valid UTF-8: convert it to UTF-8 first"
    except csv.Error:
        failure = f"is not well-formed {kind.name.upper()}: check its quotes and separators"
    raise EventLogError(f"{what} {failure}")


def _place(names: list[str], column: str | None, what: str) -> int:
    if column is None and len(names) > 1:
        raise EventLogError(
            f"{what} has columns {', '.join(map(repr, names))}: say which holds the labels "
            "(column= in the library, --domain-column at the command line)"
        )
    if column is None:
        return 0
    return place_of("column", column, names, what)
