"""CSV and TSV: every field is text, so "007" and "7" stay two labels."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from dpselect.errors import EventLogError
from dpselect.events.doors.base import SHORT, Given, Rows, by_name, by_position, literal, located
from dpselect.events.doors.paths import checked, format_of, plain

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

Delimited = Literal["csv", "tsv"]

DELIMITERS: dict[Delimited, str] = {"csv": ",", "tsv": "\t"}
# TSV has no quoting: a double quote is a character. Read otherwise, one in a label could swallow the rows after it.
_QUOTES: dict[Delimited, str] = {"csv": '"', "tsv": ""}
QUOTING: dict[Delimited, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "tsv": csv.QUOTE_NONE}
_MOST_COLUMNS = 10_000  # three seconds of the engine


def accepts(given: Given) -> bool:
    return format_of(given.source, given.format) in DELIMITERS


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of a delimited file. Without `header`, a file has one unless all columns are positions."""
    source, asked, header = checked(given.source), given.asked, given.header
    kind = cast(Delimited, format_of(given.source, given.format))
    what = given.called(kind)
    path = plain(source, engine.unused("source"))
    first = first_record(path, kind, what)
    if len(first) > _MOST_COLUMNS:
        raise EventLogError(
            f"{what} has {len(first):,} columns, and at most {_MOST_COLUMNS:,} are read: write the few columns to another file"
        )
    has_header = not asked.by_position() if header is None else header
    # A first line that was not said to be a header could hold private data, unless it names a column that was asked for.
    listed = header is True or not set(asked.columns.values()).isdisjoint(first)
    places = by_name(asked, first, what, listed=listed) if has_header else by_position(asked, len(first), what)
    return Rows(
        sql=_sql(path, kind, len(first), places, has_header=has_header),
        size=path.stat().st_size,
        what=what,
        kinds=dict.fromkeys(places, "str"),
    )


def first_record(path: Path, kind: Delimited, what: str) -> list[str]:
    failure = "has an empty first line: remove it"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            record = next(csv.reader(stream, delimiter=DELIMITERS[kind], quoting=QUOTING[kind], strict=True), None)
    except UnicodeDecodeError:
        record, failure = [], "is not valid UTF-8: convert it to UTF-8 first"
    except csv.Error:
        record, failure = [], f"has a malformed first line: it is not {kind.upper()}; say what it is with format="
    if record is None:
        raise EventLogError(f"{what} is empty: it needs at least one event")
    if not record:
        raise EventLogError(f"{what} {failure}")
    return record


def _sql(path: Path, kind: Delimited, count: int, places: Mapping[str, int], *, has_header: bool) -> str:
    types = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(count))
    columns = ", ".join(f"nullif(c{place}, '') AS {SHORT[role]}" for role, place in places.items())
    # Everything is stated and nothing detected: detection may skip lines, split on another character or type a column.
    return (
        f"SELECT {columns} FROM read_csv({located(path)}, auto_detect = false, "
        f"columns = {{{types}}}, header = {str(has_header).lower()}, delim = {literal(DELIMITERS[kind])}, "
        f"quote = {literal(_QUOTES[kind])}, escape = {literal(_QUOTES[kind])}, nullstr = '', compression = 'none', "
        "strict_mode = true, null_padding = false, ignore_errors = false, hive_partitioning = false)"
    )
