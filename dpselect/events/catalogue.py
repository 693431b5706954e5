"""Public lists of labels, given or read from a file, and how they are matched with those of a log."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack, cast, final

import numpy as np
from numpy.typing import NDArray

from accounting.address import masked
from dpselect.errors import EventLogError
from dpselect.events.engine import checked, not_encoded, opened, plain, temporary_folder, unpacked_suffix
from dpselect.events.file_options import FileOptions, FileSaid, normalized
from dpselect.events.sources.base import SHORT, Asked, Given, place_of, refused
from dpselect.events.sources.formats import (
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
from dpselect.selection import Label

_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# First lines of a one-column file that name the column rather than an item.
_HEADERS = frozenset({"item", "items", "item_id", "itemid", "id", "label", "labels", "name", "names"})
_Names = str | Sequence[str]
Labels = Sequence[Label] | NDArray[np.generic]
"""Public labels of items or groups: a list, a range or an array of them."""


def named(catalogue: Labels, *, what: str = "catalogue", normalize: Sequence[str] = ()) -> list[Label]:
    """The labels of a catalogue of items, or of a list of groups, in their order; as it writes them, or as `normalize` does.

    What is released is written as the public list has it, whatever was read: else its type would tell whether anything was. One
    named twice is refused; one that is no integer, where the log's are, stands for an item that nobody has: rows may have told
    the log's type.
    """
    names = list(written_alike(listed(catalogue, what), normalize))
    _require_distinct([str(name) for name in names], what)
    return names


def _joined(parts: Sequence[object]) -> str:
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


def written_alike(names: Sequence[Label], forms: Sequence[str]) -> tuple[Label, ...]:
    """Labels as those of a log are written before they are compared."""
    return tuple(normalized(name, forms) if isinstance(name, str) else name for name in names)


def _plain(name: object, what: str) -> Label:
    value = name.item() if isinstance(name, np.generic) else name
    if isinstance(value, tuple):
        return _joined(tuple(_plain(part, what) for part in value))
    if type(value) not in (int, str):
        raise EventLogError(f"{what} holds {value!r}, a {type(value).__name__}: labels must be int or str")
    if isinstance(value, str) and _SURROGATE.search(value):  # no file of an answer could hold it
        raise EventLogError(f"{what} holds {value!r}, in which half of a character is missing: correct the label")
    return value  # type: ignore[return-value]


@final
class ListOptions(FileOptions):
    """What is said about a file of labels."""


def public_list(stated: Any, column: _Names | None, item: _Names | None, options: FileOptions, what: str) -> tuple[Label, ...]:
    """The labels of a list, or of a file of them, written as those of the log that is read with these options.

    A file has the log's encoding and null texts, and its delimiter and quote unless it shows another, or has one label per line.
    """
    if not isinstance(stated, str | os.PathLike):
        return written_alike(listed(stated, what), options.normalize)
    split = column is not None or unpacked_suffix(Path(stated)) in (*CSV.suffixes[:1], *TSV.suffixes)
    names = ("encoding", "missing", "null", "normalize", *(("delimiter", "quote") if split else ()))
    return tuple(read_catalogue(stated, column, item=item, **cast(Any, {name: getattr(options, name) for name in names})))


def read_catalogue(
    path: str | os.PathLike[str], column: _Names | None = None, *, item: _Names | None = None, **said: Unpack[FileSaid]
) -> list[Label]:
    """Public item labels from a file, as text, in the file's order: of the formats of a log, with the same options.

    A file named .csv or .tsv (perhaps packed: .gz, .bz2, .zst) with several columns has a header line, and the labels are in
    `column`, or else in the column called `item`, the name that the log's items go by. With one column and no `column` its first
    line is a header if it is `item` or a usual name of one (item, item_id, id, label, name, ...), or if it is the only line that
    is not an integer; otherwise it is an item. Of Parquet, JSON lines and Excel with one column that column is meant; of several
    the same as of a CSV. Any other file holds one label per line, and no header. Blank lines are skipped.

    Several columns give one label of each line, as several columns of `read` do one item. `normalize` writes labels as it does
    those of a log; two that become one are refused. Labels that `missing` or `null` names are left out.

    The catalogue must be public: made without looking at the log.

    Raises:
        EventLogError: the file cannot be read, has no such column, holds no label, an empty one, or one twice.
    """
    if of_logs := sorted({"split", "table", "query"} & {name for name, stated in said.items() if stated is not None}):
        raise EventLogError(f"{of_logs[0]}= is for logs: leave it out for a list of labels")
    source, options = checked(path), ListOptions(**cast(Any, said))
    what, suffix = f"catalogue {masked(source)}", unpacked_suffix(source)
    kind, asked = format_of(source, options.format) or CSV, item if column is None else column
    if options.format == "auto" and kind is CSV and suffix != ".csv" and options.delimiter is None:
        labels = _lines(source, column, what, options)
    elif isinstance(kind, Delimited) or kind is EXCEL:
        labels = _fields(source, kind, column, asked, what, options)
    else:
        labels = _columns(source, kind, column, asked, what, options)
    found = [normalized(label, options.normalize) for label in labels if label not in (*options.missing, *options.null)]
    if not found:
        raise EventLogError(f"{what} holds no item: it must name at least one")
    if "" in found:
        raise EventLogError(f"{what} has an empty label: give the item a name or remove the line")
    _require_distinct(found, what)
    return list[Label](found)


def _lines(source: Path, column: _Names | None, what: str, options: FileOptions) -> list[str]:
    if column is not None:
        raise EventLogError(f"column={column!r} needs a file with a header, and {what} is not named .csv or .tsv: rename it")
    try:
        with temporary_folder() as folder:
            text = plain(source, folder / "catalogue", options.encoding).read_text(encoding="utf-8")
            return [label for label in text.split("\n") if label]
    except UnicodeDecodeError:
        failure = f"{what} {not_encoded()}"
    raise EventLogError(failure)


def _fields(
    source: Path, kind: FileFormat | Delimited, column: _Names | None, asked: _Names | None, what: str, options: FileOptions
) -> list[str]:
    """The labels of a file of fields between delimiters, or of a workbook, which has none of its own."""
    form = kind if isinstance(kind, Delimited) else CSV
    wanted = [] if asked is None else [asked] if isinstance(asked, str) else list(asked)
    failure = ""
    with temporary_folder() as folder:
        copy = folder / "catalogue"
        try:
            workbook(source, copy, what) if kind is EXCEL else plain(source, copy, options.encoding)
            stated, shown = form.stated(options.delimiter, options.quote), form.stated(None, options.quote)
            shown = shown.sniffed(copy, wanted, what)
            named_in = [set(wanted) <= set(one.first_record(copy, what, lenient=True)) for one in (stated, shown)]
            form = shown if options.delimiter is None or (named_in[1] and not named_in[0]) else stated
            names = form.first_record(copy, what)
            with copy.open(encoding="utf-8", newline="") as stream:
                records = [(number, record) for number, record in enumerate(form.reader(stream), start=1) if record][1:]
        except UnicodeDecodeError:
            failure = not_encoded(options.encoding)
        except csv.Error:
            failure = f"is not well-formed {form.name.upper()}: check its quotes and separators"
    if failure:
        raise EventLogError(f"{what} {failure}")
    meant = column is not None or not isinstance(asked, str) or (len(names) > 1 and asked in names)
    at = [_place(names, part, what) for part in (wanted if meant and wanted else [None])]
    for number, record in records:
        if len(record) != len(names):
            found = f"{len(record)} fields on line {number} and {len(names)} in its header"
            raise EventLogError(f"{what} has {found}: correct it, or state delimiter=")
        if not all(record[place] for place in at):
            raise EventLogError(f"{what} has an empty label on line {number}: give the item a name or remove the line")
    if len(at) > 1:
        return [_joined([record[place] for place in at]) for _, record in records]
    labels = [record[at[0]] for _, record in records]
    if len(names) == 1 and options.delimiter is None:
        _refuse_unsplit([names[0], *labels], what)
    first, integers = names[0], bool(labels) and all(map(_INTEGER.fullmatch, labels))
    is_header = bool(meant and wanted) or first == asked or first.lower() in _HEADERS
    is_header = is_header or (integers and not _INTEGER.fullmatch(first))
    if options.header is not None:
        is_header = options.header
    return labels if is_header else [*names, *labels]


def _refuse_unsplit(lines: list[str], what: str) -> None:
    """Refuse one column whose every line would fall into the same number of several at another delimiter."""
    for delimiter in DELIMITERS:
        if lines[0].count(delimiter) and len({line.count(delimiter) for line in lines}) == 1:
            raise EventLogError(
                f"{what} has one column, in which every line holds {delimiter!r}: state delimiter={delimiter!r} "
                "and the column, or delimiter=',' if labels are written so"
            )


def _columns(
    source: Path, kind: FileFormat, column: _Names | None, asked: _Names | None, what: str, options: FileOptions
) -> list[str]:
    """The labels of a file whose columns have names that the engine reads."""
    with opened() as engine:
        if kind is PARQUET and column is None:
            names = names_in_parquet(engine, source, what)
            asked = names[_place(names, None, what)] if len(names) == 1 or asked is None else asked
        if asked is None:
            raise EventLogError(f"{what} has fields: say which holds the labels (column=; domain_column= of a question)")
        columns = [asked] if isinstance(asked, str) else list(asked)
        given = Given(source, Asked.of(None, columns), options)
        engine.run("SET preserve_insertion_order = true", what=what)
        log = kind.rows(engine, given)
        if log.bad:
            found = engine.run(f"SELECT DISTINCT {log.bad} FROM ({log.sql}) WHERE {log.bad} < 0", what=what)
            given.asked.refuse_malformed({refused(number) for (number,) in found}, what, ", and no public list holds them")
        texts = ", ".join(f"CAST({SHORT[role]} AS VARCHAR)" for role in given.asked.columns)
        rows = engine.run(f"SELECT {texts} FROM ({log.sql})", what=what)
    if not all(part for row in rows for part in row):
        raise EventLogError(f"{what} has an empty label: give the item a name or remove the row")
    return [row[0] if len(columns) == 1 else _joined(row) for row in rows]


def _place(names: list[str], column: str | None, what: str) -> int:
    if column is None and len(names) > 1:
        raise EventLogError(
            f"{what} has columns {', '.join(map(repr, names))}: say which holds the labels "
            "(column=; domain_column= or groups_column= of a question)"
        )
    return 0 if column is None else place_of("column", column, names, what)
