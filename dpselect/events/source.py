"""From whatever was given to `read` to rows."""

from __future__ import annotations

import os

from dpselect.errors import EventLogError
from dpselect.events.columns import Asked
from dpselect.events.doors import delimited as text
from dpselect.events.doors import jsonl, parquet, tables
from dpselect.events.doors.files import Format, checked, format_of, plain
from dpselect.events.engine import Engine
from dpselect.events.rows import Rows


def rows(engine: Engine, source: object, asked: Asked, *, format: Format, header: bool | None) -> Rows:
    """The user and item columns of a file or a table.

    Raises:
        EventLogError: it is neither, cannot be read, or does not have these columns.
    """
    if header is not None and not isinstance(header, bool):
        raise EventLogError(f"header={header!r} must be True, False or None")
    if isinstance(source, str | os.PathLike):
        return _file_rows(engine, source, asked, format, header)
    if not tables.is_table(source):
        raise tables.unreadable(source)
    if format != "auto":
        raise EventLogError(f"format={format!r} is for files: leave it out for a table")
    _require_no_header(header, "a table")
    return tables.rows(engine, source, asked)


def _file_rows(engine: Engine, source: str | os.PathLike[str], asked: Asked, format: Format, header: bool | None) -> Rows:
    path = checked(source)
    known = format_of(path, format)
    what = f"{known} file {str(path)!r}"
    if known == "csv" or known == "tsv":
        return text.rows(plain(path, engine.folder), known, asked, header=header, what=what)
    _require_no_header(header, known)
    copy = plain(path, engine.folder)
    return jsonl.rows(copy, asked, what=what) if known == "jsonl" else parquet.rows(engine, copy, asked, what=what)


def _require_no_header(header: bool | None, what: str) -> None:
    if header is not None:
        raise EventLogError(f"header={header!r} is for csv and tsv, and this is {what}: leave it out")
