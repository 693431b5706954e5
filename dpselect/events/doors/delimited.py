"""CSV and TSV: every field is text, so "007" and "7" stay two labels."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from dpselect.errors import EventLogError
from dpselect.events.doors.base import SHORT, Given, Rows, by_name, by_position, literal, located
from dpselect.events.doors.paths import checked, plain

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

_MOST_COLUMNS = 10_000  # three seconds of the engine
_LONGEST_LINE = 2_000_000  # bytes, as the engine has it
_BLOCK = 1 << 20


@final
@dataclass(frozen=True, slots=True)
class Delimited:
    """Fields between delimiters. Without a `quote` a double quote is a character: read otherwise, one in a label could swallow
    the rows after it.
    """

    name: str
    suffixes: tuple[str, ...]
    delimiter: str
    quote: str

    @property
    def quoting(self) -> Literal[0, 3]:
        """The same for Python's reader."""
        return csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns of a delimited file. Without `header`, a file has one unless all columns are positions."""
        source, asked, header = checked(given.source), given.asked, given.header
        what = given.called(self.name)
        path = plain(source, engine.unused("source"))
        require_lines(path, what)
        first = first_record(path, self, what)
        if len(first) > _MOST_COLUMNS:
            raise EventLogError(
                f"{what} has {len(first):,} columns, and at most {_MOST_COLUMNS:,} are read: write those needed to another file"
            )
        has_header = not asked.by_position() if header is None else header
        # A first line that was not said to be a header could hold private data, unless it names a column that was asked for.
        listed = header is True or not set(asked.columns.values()).isdisjoint(first)
        places = by_name(asked, first, what, listed=listed) if has_header else by_position(asked, len(first), what)
        return Rows(
            sql=_sql(path, self, len(first), places, has_header=has_header),
            size=path.stat().st_size,
            what=what,
            kinds=dict.fromkeys(places, "str"),
            untyped=True,
        )


CSV = Delimited("csv", (".csv",), delimiter=",", quote='"')
TSV = Delimited("tsv", (".tsv", ".tab"), delimiter="\t", quote="")


def require_lines(path: Path, what: str) -> None:
    """Refuse what is not UTF-8, or has a line that the engine would drop without a word if it is the last one.

    The engine finds bytes that are not UTF-8, too, but its threads may then wait for each other for ever.
    """
    decoder, begun, failure = codecs.getincrementaldecoder("utf-8")(), 0, ""
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                if decoder.getstate()[0] or not block.isascii():
                    decoder.decode(block)
                ends = [place for end in (b"\n", b"\r") for place in (block.find(end), block.rfind(end)) if place >= 0]
                if begun + min(ends, default=len(block)) > _LONGEST_LINE:
                    failure = "has a line longer than 2 MB, the most that is read: leave its long column out"
                    break
                begun = len(block) - 1 - max(ends) if ends else begun + len(block)
            else:
                decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        failure = "is not valid UTF-8: convert it to UTF-8 first"
    if failure:
        raise EventLogError(f"{what} {failure}")


def first_record(path: Path, kind: Delimited, what: str) -> list[str]:
    failure = "has an empty first line: remove it"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            record = next(csv.reader(stream, delimiter=kind.delimiter, quoting=kind.quoting, strict=True), None)
    except UnicodeDecodeError:
        record, failure = [], "is not valid UTF-8: convert it to UTF-8 first"
    except csv.Error:
        record, failure = [], f"has a malformed first line: it is not {kind.name.upper()}; say what it is with format="
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
        f"columns = {{{types}}}, header = {str(has_header).lower()}, delim = {literal(kind.delimiter)}, "
        f"quote = {literal(kind.quote)}, escape = {literal(kind.quote)}, nullstr = '', compression = 'none', "
        "strict_mode = true, null_padding = false, ignore_errors = false, hive_partitioning = false)"
    )
