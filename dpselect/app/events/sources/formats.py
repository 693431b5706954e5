"""Files of events in several formats: one file, a list, a pattern, a folder or standard input."""

from __future__ import annotations

import codecs
import contextlib
import csv
import glob
import importlib
import io
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TextIO, cast, final
from urllib.parse import unquote

from accounting.address import mask
from accounting.errors import missing_extra
from dpselect.app.events.engine import (
    UNDECODED,
    Engine,
    inner_suffix,
    not_encoded,
    path_of,
    plain,
    run_guarded,
)
from dpselect.app.events.file_options import FileOptions
from dpselect.app.events.sources.base import (
    BYTES_PER_ROW,
    LONGEST_LINE,
    OF_TEXT,
    SHORT,
    RoleColumns,
    Rows,
    SourceRequest,
    is_condition,
    is_label,
    literal,
    name_sql,
    path_sql,
    positions_by_name,
    positions_by_path,
    refusal,
    role_field,
    select_columns,
)
from dpselect.app.events.sources.conditions import evaluate_conditions
from dpselect.app.events.sources.logged_tables import require_whole
from dpselect.app.events.sources.workbooks import require_modest
from dpselect.errors import EventLogError

# of a workbook; one without values at its far end makes all those before it
_MOST_CELLS = 100_000_000
_MOST_COLUMNS = 10_000  # three seconds of the engine
_BLOCK = 1 << 16
_ESCAPED = re.compile(rb"\\[!-~]")  # whichever of these is the quote
_BLANK = re.compile(rb"\n\r?\n[^\r\n]")
DELIMITERS = (";", "\t", "|", "::")  # what a header may show in place of a comma
# for a delimiter of several characters, in Python's reader; no text that is decoded has it
_STAND_IN = "\ud800"


@final
@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format, as `FORMATS` lists them.

    It has the name for `format=`, file name endings in lower case, each of which may be followed by
    .gz, and a function that reads the columns of the one file `given.source`.
    """

    name: str
    suffixes: tuple[str, ...]
    rows: Callable[[Engine, SourceRequest], Rows]


@final
@dataclass(frozen=True, slots=True)
class Delimited:
    """A format of fields between delimiters. Without a `quote` a double quote is a character.

    Otherwise a double quote in a label could swallow the rows after it.
    """

    name: str
    suffixes: tuple[str, ...]
    delimiter: str
    quote: str
    escape: str = ""
    comment: str = ""

    def rows(self, engine: Engine, request: SourceRequest) -> Rows:
        """The columns of a delimited file.

        Unless `header` is stated, a file has one unless all columns are positions.
        """
        source, columns, title = (
            path_of(request.source),
            request.columns,
            request.title(self.name),
        )
        form = self.with_options(request.options)
        if request.unread and not form.has_header(columns, request.options.header):
            return request.unread_rows(title)  # its first line is an event
        path = plain(
            source,
            engine.fresh_path("source"),
            request.options.encoding,
            form.header_is_open if request.unread else None,
            form.comment,
        )
        if request.options.delimiter is None:
            form = form.sniff(path, columns, request.options.header, title)
        if form.comment or request.unread:
            most = 1 if request.unread else None
            path = form.copy_rows(path, engine.fresh_path("rows"), title, most)
            form = replace(form, quote=CSV.quote, escape="", comment="")
        if request.unread and UNDECODED in path.read_bytes():
            raise EventLogError(f"{title} {not_encoded(request.options.encoding)}")
        return form.read(path, columns, request.options.header, title, tells=engine.tells)

    @staticmethod
    def has_header(role_columns: RoleColumns, header: bool | None) -> bool:
        """True if the first line holds names."""
        return not role_columns.uses_positions() if header is None else header

    def with_options(self, options: FileOptions) -> Delimited:
        """A copy with the stated delimiter, quote, escape and comment."""
        quote = self.quote if options.quote is None else options.quote
        if options.escape and not quote:
            raise EventLogError(
                f"escape={options.escape!r} is for quoted fields, and this {self.name.upper()} has"
                " none. Leave it out, or state quote="
            )
        return replace(
            self,
            delimiter=options.delimiter or self.delimiter,
            quote=quote,
            escape=options.escape or "",
            comment=options.comment or "",
        )

    def copy_rows(self, path: Path, target: Path, title: str, most: int | None) -> Path:
        """`target`, a file of the first `most` records, or of all, with fields in double quotes.

        Comments are left out, and lines below the last of these records decide nothing.
        The engine would also cut a field at a comment character within it. A line within a quoted
        field is no comment.
        """

        def copy() -> bool:
            with (
                path.open(encoding="utf-8", errors="surrogateescape", newline="") as stream,
                target.open("x", encoding="utf-8", errors="surrogateescape", newline="") as rows,
            ):
                records = itertools.dropwhile(
                    lambda record: self.comment and not record, self.records(stream)
                )
                try:
                    for record in itertools.islice(records, most):
                        fields = (
                            f'"{field.replace(CSV.quote, CSV.quote * 2)}"' for field in record
                        )
                        rows.write(self.delimiter.join(fields) + "\n")
                except csv.Error:
                    return False
            return True

        if not run_guarded(title, copy):
            raise EventLogError(
                f"{title} cannot be read: it has a malformed row, such as a quote that is not"
                " closed, or one with a field longer than 128 KiB. It is refused whole. Correct it"
            )
        return target

    def records(self, stream: TextIO) -> Iterator[list[str]]:
        """The records of a file, without the comment lines between them.

        A quoted field that begins in a comment is malformed: its later lines would be rows, and one
        user's text could write those of others.
        """
        between = True

        def lines() -> Iterator[str]:
            nonlocal between
            while line := stream.readline(LONGEST_LINE):
                if between and self.comment and line.startswith(self.comment):
                    if self.is_open(line):
                        raise csv.Error
                else:
                    between = False
                    yield line

        for record in self.reader(lines()):
            yield record
            between = True

    def read(
        self,
        path: Path,
        role_columns: RoleColumns,
        header: bool | None,
        title: str,
        *,
        tells: bool = False,
    ) -> Rows:
        """The columns of a UTF-8 file in the reading's folder. With `tells`, errors show lines."""
        self.require_lines(path, title, tells=tells)
        has_header = self.has_header(role_columns, header)
        # a log of nothing, whose first line is an event like the others
        if not has_header and path.stat().st_size == 0:
            return _nothing(role_columns, title)
        first = self.first_record(path, title)
        if len(first) > _MOST_COLUMNS:
            raise EventLogError(
                f"{title} has {len(first):,} columns, and at most {_MOST_COLUMNS:,} are read. Write"
                " those needed to another file"
            )
        # A first line that was not said to be a header could hold private data, unless it names a
        # column that was asked for.
        listed = header is True or not set(role_columns.by_role.values()).isdisjoint(first)
        split = (
            title
            if self == _SHEET or (self.delimiter in ("\t", ",") and len(first) > 1)
            else f"{title} (split at {self.delimiter!r}; delimiter= states another)"
        )
        places = positions_by_name(role_columns, first, split, header=has_header, listed=listed)
        layout = f"{'with' if has_header else 'without'} a header line"
        if self != _SHEET:
            layout = f"fields split at {self.delimiter!r}, {layout}"
        types = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(len(first)))
        columns = ", ".join(
            f"nullif(c{place}, '') AS {SHORT[role]}" for role, place in places.items()
        )
        # Everything is stated and nothing detected: detection may skip lines, split on another
        # character or type a column.
        sql = (
            f"SELECT {columns} FROM read_csv({path_sql(path)}, auto_detect = false, columns ="
            f" {{{types}}}, header = {str(has_header).lower()}, delim = {literal(self.delimiter)},"
            f" quote = {literal(self.quote)}, escape = {literal(self.escape or self.quote)},"
            " nullstr = '', compression = 'none', strict_mode = true, null_padding = false,"
            " ignore_errors = false, hive_partitioning = false)"
        )
        return Rows(sql, path.stat().st_size, title, dict.fromkeys(places, "str"), layout=layout)

    def sniff(
        self, path: Path, role_columns: RoleColumns, header: bool | None, title: str
    ) -> Delimited:
        """A copy with the delimiter of the header, if it has one and commas are not stated.

        Without a header the first line is an event: one user's text must not decide how the others'
        rows are split.
        """
        names = [column for column in role_columns.by_role.values() if isinstance(column, str)]
        if self.delimiter == CSV.delimiter and self.has_header(role_columns, header):
            return self.sniff_delimiter(path, names, title)
        return self

    def sniff_delimiter(self, path: Path, names: Sequence[str], title: str) -> Delimited:
        """A copy with the only delimiter under which the header has all these names, or itself.

        If it has some of them, the copy refuses the others by their names. No row is looked at.
        """
        if not names or set(names) <= set(self.first_record(path, title, lenient=True)):
            return self
        firsts = [
            (form, set(form.first_record(path, title, lenient=True))) for form in self.candidates()
        ]
        for least in (len(set(names)), 1):
            fitting = [form for form, first in firsts if len(first.intersection(names)) >= least]
            if len(fitting) == 1:
                return fitting[0]
        return self

    def require_lines(self, path: Path, title: str, *, tells: bool = False) -> None:
        """Refuse a footnote, non-UTF-8 text, and a last line that the engine would silently drop.

        The engine detects bytes that are not UTF-8 too, but its threads may then wait for each
        other forever.
        """
        decoder, length, failure = codecs.getincrementaldecoder("utf-8")(), 0, ""
        lines, quotes, before, quote = 1, 0, b"", self.quote.encode() or b"\0"
        try:
            with path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    while self.escape and block.endswith(b"\\") and (rest := stream.read(1)):
                        block += rest  # so that no escaped quote is cut
                    if decoder.getstate()[0] or not block.isascii():
                        decoder.decode(block)
                    ends = [
                        place
                        for end in (b"\n", b"\r")
                        for place in (block.find(end), block.rfind(end))
                        if place >= 0
                    ]
                    if length + min(ends, default=len(block)) > LONGEST_LINE:
                        failure = (
                            "has a line longer than 2 MB, the most that is read. Leave its long"
                            " column out"
                        )
                        break
                    length = len(block) - 1 - max(ends) if ends else length + len(block)
                    if self.escape:
                        block = _ESCAPED.sub(b"__", block)
                    window = before + block
                    for blank in (
                        _BLANK.finditer(window) if b"\n\n" in window or b"\n\r\n" in window else ()
                    ):
                        head = window[: blank.end() - 1]
                        if (quotes + head.count(quote)) % 2 == 0:  # not inside a field
                            line = lines + head.count(b"\n")
                            place = f" (line {line})" if tells else ""
                            failure = (
                                f"has text below a blank line{place}: a footnote? Remove it, or the"
                                " blank line"
                            )
                            break
                    if failure:
                        break
                    before = window[-3:]
                    lines += window.count(b"\n") - before.count(b"\n")
                    quotes += window.count(quote) - before.count(quote)
                else:
                    decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            failure = not_encoded()
        if failure:
            raise EventLogError(f"{title} {failure}")

    def candidates(self) -> Iterator[Delimited]:
        """Return copies with each delimiter that a header may show."""
        for delimiter in (CSV.delimiter, *DELIMITERS):
            yield replace(self, delimiter=delimiter)

    def header_is_open(self, lines: str) -> bool:
        """True if a header may go on below these lines, with some delimiter."""
        return any(form.is_open(lines) for form in (self, *self.candidates()))

    def is_open(self, lines: str) -> bool:
        """True if a quoted field is open at the end of these lines."""
        *_, last = self.reader([*io.StringIO(lines, newline=""), "\n"], strict=False)
        return last != []  # of the blank line, unless it is within the field

    def reader(self, stream: Iterable[str], *, strict: bool = True) -> Iterator[list[str]]:
        """Records from Python's reader, whose delimiters have only one character."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        form: Any = {
            "quotechar": self.quote or None,
            "quoting": quoting,
            "escapechar": self.escape or None,
            "doublequote": not self.escape,
            "strict": strict,
        }
        if len(self.delimiter) == 1:
            return csv.reader(stream, delimiter=self.delimiter, **form)
        lines = (line.replace(self.delimiter, _STAND_IN) for line in stream)
        records = csv.reader(lines, delimiter=_STAND_IN, **form)
        return (
            [field.replace(_STAND_IN, self.delimiter) for field in record] for record in records
        )

    def first_record(self, path: Path, title: str, *, lenient: bool = False) -> list[str]:
        """The first record, or an empty list if it is unreadable and `lenient` is True."""
        failure = "has an empty first line. Remove it"
        try:
            with path.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
                records = (record for record in self.records(stream) if record or not self.comment)
                record = next(records, None)
        except csv.Error:
            record, failure = (
                [],
                (
                    f"has a malformed first line: it is not {self.name.upper()}. Say what it is"
                    " with format="
                ),
            )
        if lenient:
            return record or []
        if record is None:
            raise EventLogError(
                f"{title} is empty: it has no header. Write one, also where there is no event"
            )
        if not record:
            raise EventLogError(f"{title} {failure}")
        return record


CSV = Delimited("csv", (".csv", ".txt", ".dat"), delimiter=",", quote='"')
TSV = Delimited("tsv", (".tsv", ".tab"), delimiter="\t", quote="")
_SHEET = replace(CSV, name="xlsx")  # of a workbook, whose fields nobody split


def _excel(engine: Engine, request: SourceRequest) -> Rows:
    """The columns of a workbook of one sheet, as of the CSV that it would be saved as."""
    title = request.title("xlsx")
    request.refuse_options("xlsx", *(field for field in OF_TEXT if field != "header"))
    source = path_of(request.source)
    if request.unread and not CSV.has_header(request.columns, request.options.header):
        return request.unread_rows(title)
    path = workbook(source, engine.fresh_path("sheet"), title, rows=1 if request.unread else None)
    return _SHEET.read(path, request.columns, request.options.header, title)


def workbook(source: Path, target: Path, title: str, *, rows: int | None = None) -> Path:
    """`target`, made CSV with the cells of a workbook's one sheet, or of its first `rows`."""
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise missing_extra("Excel files are read by openpyxl", "excel") from None

    require_modest(source, title)

    def copy_sheet() -> bool:
        book = openpyxl.load_workbook(source, read_only=True, data_only=True)
        if len(book.worksheets) != 1:
            return False
        sheet, width, count = book.worksheets[0], 0, 0
        # what the file says of its size may be out of date: rows beyond it would be dropped
        sheet.reset_dimensions()
        with target.open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            for row in sheet.iter_rows(values_only=True, max_row=rows):
                if any(cell is not None for cell in row):
                    cells = [
                        (
                            ""
                            if cell is None
                            else cell.isoformat()
                            if hasattr(cell, "isoformat")
                            else str(cell)
                        )
                        for cell in row
                    ]
                    width = width or len(cells)
                    count += max(width, len(cells))
                    if count > _MOST_CELLS:
                        raise EventLogError(
                            f"{title} has more than {_MOST_CELLS:,} cells, the most that are read."
                            " Save it as CSV"
                        )
                    while len(cells) > width and not cells[-1]:
                        cells.pop()
                    writer.writerow([*cells, *[""] * (width - len(cells))])
        book.close()
        return True

    if not run_guarded(title, copy_sheet):
        raise EventLogError(
            f"{title} has several sheets. Save the one that holds the table as a file of its own"
        )
    return target


def _json_lines(engine: Engine, request: SourceRequest) -> Rows:
    """The columns of a file with one JSON object on each line, or with an array of them.

    Labels are text, either the digits of a number or the contents of a string.
    """
    original, role_columns = path_of(request.source), request.columns
    title = request.title("jsonl")
    request.refuse_options("jsonl", *(field for field in OF_TEXT if field != "encoding"))
    names = _names(role_columns, title)
    if request.unread:
        return request.unread_rows(title)
    path = plain(original, engine.fresh_path("source"), request.options.encoding)
    if path.stat().st_size == 0:
        return _nothing(role_columns, title)
    with path.open("rb") as stream:
        form = "array" if stream.read(_BLOCK).lstrip().startswith(b"[") else "newline_delimited"
    outer = _outer(names.values())
    short_names = {name.lower(): f"c{place}" for place, name in enumerate(outer)}
    source = _records(path, form, outer)
    if any(map(is_condition, names)):
        # The engine refuses a record that repeats a field, if that one is read. A condition refuses
        # nothing: the fields of the other roles are read alone, and of repeated ones the first is.
        alone = _outer(name for role, name in names.items() if not is_condition(role))
        engine.run(f"SELECT count(COLUMNS(*)) FROM {_records(path, form, alone)}", title=title)
        structure, whole = json.dumps(dict.fromkeys(outer, "JSON")), _records(path, form)
        source = f"(SELECT unnest(json_transform(record, {literal(structure)})) FROM {whole})"
    source += f" AS log({', '.join(short_names.values())})"
    fields = []
    for role, name in names.items():
        first, *path_within = name.split(".")
        value = short_names[name.lower()]
        if path_within:
            value = (
                f"coalesce(nullif({value}, 'null'),"
                f" {_json_within(short_names[first.lower()], path_within)})"
            )
        fields.append(f"{value} AS {SHORT[role]}")
    # An event per element where a label is a list. Elements of two lists are not paired, so such an
    # event stays nested and is refused below.
    labels = [SHORT[role] for role in names if is_label(role)]
    lists = " + ".join(f"(coalesce(json_array_length({column}), 0) > 1)::INT" for column in labels)
    sql = f"SELECT {', '.join(fields)} FROM {source}"
    sql = f"SELECT *, ({lists}) > 1 AS unpaired FROM ({sql})"
    for column in labels:
        spread = (
            f"CASE WHEN json_array_length({column}) > 0 THEN json_extract({column}, '$[*]') ELSE"
            " [NULL] END"
        )
        elements = (
            f"unnest(CASE WHEN json_type({column}) = 'ARRAY' AND NOT unpaired THEN {spread}"
            f" ELSE [{column}] END)"
        )
        sql = f"SELECT * REPLACE ({elements} AS {column}) FROM ({sql})"
    texts, bad = [], []
    for role in names:
        column = SHORT[role]
        texts.append(f"{column} ->> '$' AS {column}")
        if is_condition(role):  # what is nested satisfies none
            texts[-1] = (
                f"CASE WHEN json_type({column}) NOT IN ('OBJECT', 'ARRAY') THEN {column} ->> '$'"
                f" END AS {column}"
            )
        elif role != "time":
            fine = f"json_type({column}) IN ('VARCHAR', 'NULL', 'UBIGINT', 'BIGINT')"
            # The engine calls integers beyond 64 bits numbers with a fraction, and keeps their
            # digits.
            wide = f"json_type({column}) = 'DOUBLE'"
            if role != "value":
                wide = f"({wide} AND regexp_full_match({column} ->> '$', '-?[0-9]+'))"
            bad.append(f"WHEN NOT coalesce({fine} OR {wide}, true) THEN {refusal(role)}")
    mark = f"CASE {' '.join(bad)} END AS refused"
    text = f"SELECT {', '.join(texts)}, {mark} FROM ({sql})"
    return Rows(text, path.stat().st_size, title, dict.fromkeys(names, "str"), bad="refused")


def _outer(names: Iterable[str]) -> list[str]:
    """Names of the outer fields of a record. Names that differ in case only count once."""
    outer = dict.fromkeys(part for name in names for part in (name, name.split(".")[0]))
    return list({name.lower(): name for name in reversed(outer)}.values())


def _records(path: Path, form: str, fields: Sequence[str] = ()) -> str:
    """SQL of the records of a JSON file by their fields, or each one as the column `record`."""
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in fields or ("record",))
    return (
        f"read_json({path_sql(path)}, columns = {{{columns}}}, format = '{form}', records ="
        f" {str(bool(fields)).lower()}, compression = 'none', ignore_errors = false,"
        " hive_partitioning = false)"
    )


def _nothing(role_columns: RoleColumns, title: str) -> Rows:
    """The columns of a file without any row."""
    columns = ", ".join(f"CAST(NULL AS VARCHAR) AS {SHORT[role]}" for role in role_columns.by_role)
    return Rows(
        f"SELECT {columns} WHERE false", 0, title, dict.fromkeys(role_columns.by_role, "str")
    )


def _json_within(column: str, fields: Sequence[str]) -> str:
    """SQL of a JSON value within another, for each element if lists lie on the way."""
    listed = f"[{column}]"
    for field in fields:
        # its own only one if no list
        elements = "CASE WHEN json_type(x) = 'ARRAY' THEN json_extract(x, '$[*]') ELSE [x] END"
        spread = f"flatten([{elements} for x in {listed}])"
        step = literal('$."' + field.replace('"', '\\"') + '"')
        listed = f"[json_extract(x, {step}) for x in {spread}]"
    return f"CASE WHEN len({listed}) = 1 THEN {listed}[1] ELSE to_json({listed}) END"


def _names(role_columns: RoleColumns, title: str) -> dict[str, str]:
    """Names of fields by role, which the engine can tell apart."""
    names: dict[str, str] = {}
    for role, column in role_columns.by_role.items():
        if isinstance(column, int):
            raise EventLogError(
                f"{role_field(role)}={column!r} is a position, and {title} has names. Give the name"
                " of a field"
            )
        if not all(column.split(".")):  # the engine refuses it where there is a row
            raise EventLogError(
                f"{role_field(role)}={column!r} names no field of {title}: a part of it is empty."
                " Correct the name"
            )
        names[role] = column
    for first, second in itertools.combinations(names, 2):
        if names[first].lower() == names[second].lower() and not (
            is_condition(second) and names[first] == names[second]
        ):
            raise EventLogError(
                f"{first}={names[first]!r} and {second}={names[second]!r} of {title} differ in"
                " letter case only, which the engine does not tell apart. Rename one of them"
            )
    return names


_MAGIC = b"PAR1"
_MOST_RENAMED = 5_000  # columns: the engine takes time in the square of them to rename them


def parquet(engine: Engine, request: SourceRequest) -> Rows:
    """The columns of a Parquet file, which have types, by their names or positions."""
    source = path_of(request.source)
    require_whole(source)
    title = request.title("parquet")
    request.refuse_options("parquet", *OF_TEXT)
    path = plain(source, engine.fresh_path("source"))  # its footer tells the columns
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise EventLogError(f"{title} is not a Parquet file. Say what it is with format=")
    settings = f"{path_sql(path)}, hive_partitioning = false, filename = false"
    relation = f"read_parquet({settings})"
    names = names_in_parquet(engine, path, title)
    positions = positions_by_path(request.columns, names, title)
    engine_names = _engine_names(
        engine, relation, names, {role: place for role, (place, _) in positions.items()}, title
    )
    places = {
        role: (name_sql(engine_names[role]), fields) for role, (_, fields) in positions.items()
    }
    if any(map(is_condition, places)) and not request.unread and _replaces(engine, title):
        # The engine refuses text that is not UTF-8, in the columns that are read, and a condition
        # must refuse nothing: the columns of the other roles are read alone.
        alone = {role: place for role, place in places.items() if not is_condition(role)}
        rest = select_columns(
            engine, relation, alone, request.columns.without(places.keys() - alone), title
        )
        engine.run(f"SELECT bit_xor(hash(COLUMNS(*))) FROM ({rest.sql})", title=title)
        relation = f"read_parquet({settings}, utf8_validation = 'replace')"
    log = select_columns(engine, relation, places, request.columns, title)
    if "time" in positions:
        place, fields = positions["time"]
        if (place, tuple(map(str.lower, fields))) in _stamps(engine, path_sql(path), title):
            sql = (
                f"SELECT * REPLACE (make_timestamptz(epoch_us({SHORT['time']})) AS {SHORT['time']})"
                f" FROM ({log.sql})"
            )
            log = replace(log, sql=sql, kinds={**log.kinds, "time": "instant"})
    count = int(
        engine.run(
            f"SELECT sum(num_rows) FROM parquet_file_metadata({path_sql(path)})", title=title
        )[0][0]
        or 0
    )
    return replace(log, size=count * BYTES_PER_ROW)


def _replaces(engine: Engine, title: str) -> bool:
    """True if this version of the engine can read text of Parquet that is not UTF-8."""
    sql = "SELECT unnest(parameters) FROM duckdb_functions() WHERE function_name = 'read_parquet'"
    return ("utf8_validation",) in engine.run(sql, title=title)


def names_in_parquet(engine: Engine, path: Path, title: str) -> list[str]:
    """Names of the columns in the file; the engine would rename those it takes for equal."""
    nodes = engine.run(
        f"SELECT name, num_children FROM parquet_schema({path_sql(path)})", title=title
    )
    names, inside = list[str](), 0
    for name, children in nodes[1:]:
        if inside == 0:
            names.append(name)
        inside += int(children or 0) - (inside > 0)
    return names


Stamps = frozenset[tuple[int, tuple[str, ...]]]
"""Positions of columns, with the names of fields within them in lower case."""


def _stamps(engine: Engine, place: str, title: str) -> Stamps:
    """Positions of a Parquet file's instants that the engine takes for clock times.

    The format says that stamps without a logical type are instants in UTC, and Spark reads them so.
    These are INT96, which Spark writes by default, and TIMESTAMP_MILLIS and TIMESTAMP_MICROS of
    writers of Parquet 1.
    """
    old = "type = 'INT96' OR (logical_type IS NULL AND starts_with(converted_type, 'TIMESTAMP_'))"
    nodes = engine.run(
        f"SELECT lower(name), num_children, coalesce({old}, false) FROM parquet_schema({place})",
        title=title,
    )
    # above: fields that are still to come
    stamps, above, column = set[tuple[int, tuple[str, ...]]](), list[tuple[str, int]](), -1
    for name, children, is_old in nodes[1:]:
        while above and above[-1][1] == 0:
            above.pop()
        if above:
            outer, remaining = above.pop()
            above.append((outer, remaining - 1))
        else:
            column += 1
        if is_old:
            stamps.add((column, tuple([outer for outer, _ in above[1:]] + [name] * bool(above))))
        if children:
            above.append((name, int(children)))
    return frozenset(stamps)


def _engine_names(
    engine: Engine, relation: str, names: Sequence[str], places: Mapping[str, int], title: str
) -> dict[str, str]:
    """The engine's names of these columns.

    The engine ignores letter case, and renames all but the first of equal names.
    """
    engine_names = list(names)
    if len({name.lower() for name in names}) < len(names):
        if len(names) > _MOST_RENAMED:
            raise EventLogError(
                f"{title} has {len(names):,} columns, and names that differ in letter case only."
                " Write the few columns to a file of their own"
            )
        engine_names = [
            column[0] for column in engine.run(f"DESCRIBE SELECT * FROM {relation}", title=title)
        ]
        if len(engine_names) != len(names):
            raise EventLogError(
                f"{title} has columns whose names the engine cannot tell apart. Rename them"
            )
    return {role: engine_names[place] for role, place in places.items()}


PARQUET = FileFormat("parquet", (".parquet", ".pq"), parquet)
EXCEL = FileFormat("xlsx", (".xlsx",), _excel)
FORMATS: Final[tuple[FileFormat | Delimited, ...]] = (
    CSV,
    TSV,
    FileFormat("jsonl", (".jsonl", ".ndjson", ".json"), _json_lines),
    PARQUET,
    EXCEL,
)

_STANDARD_INPUT = "-"
_MOST_FILES = 10_000
_NULL = "__HIVE_DEFAULT_PARTITION__"


def accepts(request: SourceRequest) -> bool:
    """True for a path, a list or tuple of paths, a pattern, a folder, or the text "-"."""
    source = request.source
    if isinstance(source, list | tuple):
        return all(isinstance(path, str | os.PathLike) for path in source)
    return isinstance(source, str | os.PathLike)


def rows(engine: Engine, request: SourceRequest) -> Rows:
    """All rows of all files."""
    source = request.source
    request.refuse_options("a file (sqlite:///FILE names a database)", "table", "query")
    if source == _STANDARD_INPUT and isinstance(source, str):  # a file of that name is "./-"
        if request.options.format == "auto":
            names = ", ".join(f"'{form.name}'" for form in FORMATS)
            raise EventLogError(
                "format='auto' cannot tell what is on standard input. State format= as one of"
                f" {names}"
            )
        stream: Any = sys.stdin
        if stream is None:
            raise EventLogError("standard input is closed. Name a file in place of '-'")
        if request.unread:
            format_of(Path(), request.options.format)
            return request.unread_rows(f"{request.options.format} on standard input")
        # to its end: to tell malformed rows, and to be looked at twice
        copy_path = engine.path("standard input")
        with copy_path.open("xb") as copy:
            run_guarded("standard input", lambda: shutil.copyfileobj(stream.buffer, copy, 1 << 20))
        return _read_one(
            engine,
            replace(request, source=copy_path, name=f"{request.options.format} on standard input"),
        )
    path = str(source)
    # A folder, or a pattern that is not itself the name of a file.
    folder = False
    # of a name that is too long, which is refused where it is opened
    with contextlib.suppress(OSError):
        folder = "\0" not in path and (
            Path(path).is_dir()
            or (glob.has_magic(path) and "://" not in path and not os.path.lexists(path))
        )
    return (
        _several(engine, request)
        if folder or isinstance(source, list | tuple)
        else _read_one(engine, request)
    )


def _read_one(engine: Engine, request: SourceRequest) -> Rows:
    path = path_of(request.source)
    if (form := format_of(path, request.options.format)) is None:
        suffixes = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
        raise EventLogError(
            f"format='auto' cannot tell what {mask(path)} is: the name must end in {suffixes}"
            " (and may add .gz, .bz2 or .zst); or pass format= as one of"
            f" {', '.join(repr(each.name) for each in FORMATS)}. The file of a database is named as"
            " duckdb:///FILE or sqlite:///FILE"
        )
    return form.rows(engine, request)


def format_of(path: Path, name: str) -> FileFormat | Delimited | None:
    """Format of a file, as stated or by its name, or None if its name tells none."""
    suffix, names = inner_suffix(path), {form.name: form for form in FORMATS}
    if name != "auto" and name not in names:
        raise EventLogError(
            f"format={name!r} is unknown: it must be one of auto, {', '.join(names)}"
        )
    return names.get(name, next((form for form in FORMATS if suffix in form.suffixes), None))


def _several(engine: Engine, request: SourceRequest) -> Rows:
    """All rows of all files, in the order of the files' names.

    The files must have these columns and agree on their types. In a folder, the Parquet files (or
    those of the stated format) are read at any depth. Names that begin with a dot or an underscore
    are left out, unless the pattern states one. For a file in a folder or found by a pattern,
    key=value in the name of a folder on its way is a column of text.
    """
    name = (
        f"{len(request.source)} files"
        if isinstance(request.source, list | tuple)
        else mask(request.source)
    )
    files = _files(request)
    if not files:
        raise EventLogError(
            f"{name} holds no file to read: a folder of other files than Parquet needs format="
        )
    if len(files) > _MOST_FILES:
        raise EventLogError(
            f"{name} names {len(files):,} files, and at most {_MOST_FILES:,} are read. Join them"
        )
    title = f"{name} ({len(files):,} file{'s' if len(files) > 1 else ''})"
    parts = _unify_types(
        engine,
        [_file_rows(engine, request, path, in_folders, name) for path, in_folders in files],
        title,
    )
    return Rows(
        sql=" UNION ALL BY NAME ".join(part.sql for part in parts),
        layout="; ".join(dict.fromkeys(part.layout for part in parts if part.layout)),
        size=sum(part.size for part in parts),
        title=title,
        kinds=parts[0].kinds,
        nothing=frozenset.intersection(*(part.nothing for part in parts)),
        bad="refused" if any(part.bad for part in parts) else "",
        kept_column="kept" if request.where else "",
    )


def _files(request: SourceRequest) -> list[tuple[Path | str, dict[str, str | None]]]:
    """The files, and the columns in the names of their folders."""
    source = request.source
    if isinstance(source, list | tuple):
        return [(path, {}) for path in source]
    root, hidden = Path(cast(str, source)), {".", "_"}
    if root.is_dir():
        require_whole(root)
        kind = PARQUET.name if request.options.format == "auto" else request.options.format
        files = [
            path
            for path in root.rglob("*")
            if (form := format_of(path, "auto")) is not None and form.name == kind
        ]
    else:
        pattern, depth = (
            root,
            next(index for index, part in enumerate(root.parts) if glob.has_magic(part)),
        )
        root = Path(*pattern.parts[:depth])
        rest = pattern.relative_to(root)
        files = list(root.glob(str(rest)))
        hidden -= {part[0] for part in rest.parts}
    result = list[tuple[Path | str, dict[str, str | None]]]()
    for path in sorted(path for path in files if not path.is_dir()):
        parts = path.relative_to(root).parts
        if any(part[0] in hidden for part in parts):  # such as a file that is still being written
            continue
        pairs = [folder.split("=", 1) for folder in parts[:-1] if "=" in folder]
        result.append(
            (
                path,
                {unquote(key): None if value == _NULL else unquote(value) for key, value in pairs},
            )
        )
    return result


def _file_rows(
    engine: Engine,
    request: SourceRequest,
    path: Path | str,
    in_folders: Mapping[str, str | None],
    all_files: str,
) -> Rows:
    """The rows of one file. Messages hide the values in names of its folders, which are data."""
    from_folders = {
        role: in_folders[str(column)]
        for role, column in request.columns.by_role.items()
        if column in in_folders
    }
    role_columns = request.columns.without(from_folders)
    if not role_columns.by_role:
        raise EventLogError(
            f"{all_files}: all columns asked for stand in the names of folders, and none in the"
            " files"
        )
    masked_path, failure = str(path), ""
    if in_folders:
        *folders, name = Path(path).parts
        masked_path = str(
            Path(
                *(part.split("=", 1)[0] + "=..." if "=" in part else part for part in folders), name
            )
        )
    try:
        part = _read_one(engine, replace(request, source=path, columns=role_columns))
    except EventLogError as error:
        failure = str(error).replace(str(path), masked_path)
    if failure:
        raise EventLogError(failure)
    part = replace(part, title=part.title.replace(str(path), masked_path))
    if not from_folders:
        return evaluate_conditions(part, request)
    texts = {role: "NULL" if text is None else literal(text) for role, text in from_folders.items()}
    columns = "".join(f", CAST({text} AS VARCHAR) AS {SHORT[role]}" for role, text in texts.items())
    kinds = {role: part.kinds.get(role, "str") for role in request.columns.by_role}
    sql = f"SELECT *{columns} FROM ({part.sql})"
    return evaluate_conditions(replace(part, sql=sql, kinds=kinds), request)


def _unify_types(engine: Engine, parts: list[Rows], title: str) -> list[Rows]:
    """The files' rows with one type for each column.

    Labels that are integers in one file and text in another are printed, and so are integers that
    need more than 64 bits together. A file whose column holds nothing agrees with all others.
    """
    if not all(part.sql for part in parts):  # unread
        return parts
    kinds = {
        role: {part.kinds[role] for part in parts if role not in part.nothing} or {"str"}
        for role in parts[0].kinds
    }
    for number, part in enumerate(parts):
        untyped = [role for role in part.nothing if kinds[role] != {"str"}]
        if untyped:
            sql = (
                f"SELECT * REPLACE ({', '.join(f'NULL AS {SHORT[role]}' for role in untyped)}) FROM"
                f" ({part.sql})"
            )
            parts[number] = replace(
                part, sql=sql, kinds={**part.kinds, **{role: min(kinds[role]) for role in untyped}}
            )
    mixed = [role for role, types in kinds.items() if len(types) > 1]
    for role in mixed:
        if role in ("value", "time"):
            raise EventLogError(
                f"the column of {role}s has other types in some of the files than in others. Give"
                " all files one type of it"
            )
    if len(parts) > 1 and not mixed:
        together = " UNION ALL BY NAME ".join(part.sql for part in parts)
        stored = {row[0]: row[1] for row in engine.run(f"DESCRIBE {together}", title=title)}
        mixed = [
            role
            for role in kinds
            if role not in ("value", "time") and stored[SHORT[role]] == "HUGEINT"
        ]
    if not mixed:
        return parts
    casts = ", ".join(f"CAST({SHORT[role]} AS VARCHAR) AS {SHORT[role]}" for role in mixed)
    converted = []
    for part in parts:
        sql = f"SELECT * REPLACE ({casts}) FROM ({part.sql})"
        converted.append(
            replace(part, sql=sql, kinds={**part.kinds, **dict.fromkeys(mixed, "str")})
        )
    return converted
