"""CSV and TSV: every field is text, so "007" and "7" stay two labels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from dpselect.errors import EventLogError
from dpselect.events.columns import Asked, by_name, by_position
from dpselect.events.rows import Rows, literal, located

Delimited = Literal["csv", "tsv"]

DELIMITERS: dict[Delimited, str] = {"csv": ",", "tsv": "\t"}
# TSV has no quoting: a double quote is a character. Read otherwise, one in a label could swallow the rows after it.
_QUOTES: dict[Delimited, str] = {"csv": '"', "tsv": ""}
QUOTING: dict[Delimited, Literal[0, 3]] = {"csv": csv.QUOTE_MINIMAL, "tsv": csv.QUOTE_NONE}
_MOST_COLUMNS = 10_000  # three seconds of the engine


def rows(path: Path, kind: Delimited, asked: Asked, *, header: bool | None, what: str) -> Rows:
    """The user and item columns of a delimited file. Without `header`, a file has one unless both columns are positions.

    Raises:
        EventLogError: empty or unreadable, or a column is not there.
    """
    first = first_record(path, kind, what)
    if len(first) > _MOST_COLUMNS:
        raise EventLogError(
            f"{what} has {len(first):,} columns, and at most {_MOST_COLUMNS:,} are read: write the two columns to another file"
        )
    has_header = not asked.by_position() if header is None else header
    user, item = _positions(asked, first, header=header, has_header=has_header, what=what)
    return Rows(
        sql=_sql(path, kind, len(first), (user, item), has_header=has_header),
        size=path.stat().st_size,
        what=what,
        kinds=("str", "str"),
    )


def first_record(path: Path, kind: Delimited, what: str) -> list[str]:
    """The fields of the first line.

    Raises:
        EventLogError: there is none, it is blank, or it is not UTF-8.
    """
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


def _positions(asked: Asked, first: list[str], *, header: bool | None, has_header: bool, what: str) -> tuple[int, int]:
    if not has_header:
        return by_position(asked, len(first), what)
    # A first line that was not said to be a header could hold private data, unless it names a column that was asked for.
    return by_name(asked, first, what, listed=header is True or not {asked.user, asked.item}.isdisjoint(first))


def _sql(path: Path, kind: Delimited, count: int, columns: tuple[int, int], *, has_header: bool) -> str:
    types = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(count))
    user, item = columns
    # Everything is stated and nothing detected: detection may skip lines, split on another character or type a column.
    return (
        f"SELECT nullif(c{user}, '') AS u, nullif(c{item}, '') AS i FROM read_csv({located(path)}, auto_detect = false, "
        f"columns = {{{types}}}, header = {str(has_header).lower()}, delim = {literal(DELIMITERS[kind])}, "
        f"quote = {literal(_QUOTES[kind])}, escape = {literal(_QUOTES[kind])}, nullstr = '', compression = 'none', "
        "strict_mode = true, null_padding = false, ignore_errors = false, hive_partitioning = false)"
    )
