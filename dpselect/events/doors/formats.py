"""Files of events: one, several (a list of paths, a pattern, a folder), or standard input; and how each format is read.

Names of folders may hold columns (day=2024-07-14).
"""

from __future__ import annotations

import codecs
import csv
import glob
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TextIO, cast, final
from urllib.parse import unquote

from accounting.address import masked
from dpselect.errors import EventLogError
from dpselect.events.doors.base import (
    BYTES_PER_ROW,
    SHORT,
    Asked,
    Given,
    Kind,
    Kinds,
    Rows,
    by_name,
    described,
    literal,
    located,
    place_of,
    quoted,
    selected,
)
from dpselect.events.engine import Engine, checked, plain

_MOST_COLUMNS = 10_000  # three seconds of the engine
_LONGEST_LINE = 2_000_000  # bytes, as the engine has it
_BLOCK = 1 << 16  # small enough for arrays of this size to be used again, not mapped anew


class FileFormat(Protocol):
    """A kind of file. `FORMATS` lists them: what `format=` may say, what its messages and help name, come from there."""

    @property
    def name(self) -> str:
        """What `format=` calls it."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of file names, with their dot, in lower case; each may be followed by .gz."""

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns of the one file `given.source`, as a door gives them."""


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

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns of a delimited file. Without `header`, a file has one unless all columns are positions."""
        source, asked, header = checked(given.source), given.asked, given.header
        what = given.called(self.name)
        path = plain(source, engine.unused("source"))
        self.require_lines(path, what)
        first = self.first_record(path, what)
        if len(first) > _MOST_COLUMNS:
            raise EventLogError(
                f"{what} has {len(first):,} columns, and at most {_MOST_COLUMNS:,} are read: write those needed to another file"
            )
        has_header = not asked.by_position() if header is None else header
        # A first line that was not said to be a header could hold private data, unless it names a column that was asked for.
        listed = header is True or not set(asked.columns.values()).isdisjoint(first)
        places = by_name(asked, first, what, header=has_header, listed=listed)
        return Rows(
            sql=self._sql(path, len(first), places, has_header=has_header),
            size=path.stat().st_size,
            what=what,
            kinds=dict.fromkeys(places, "str"),
        )

    def require_lines(self, path: Path, what: str) -> None:
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

    def reader(self, stream: TextIO) -> Any:
        """Python's reader of the same."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return csv.reader(stream, delimiter=self.delimiter, quoting=quoting, strict=True)

    def first_record(self, path: Path, what: str) -> list[str]:
        failure = "has an empty first line: remove it"
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                record = next(self.reader(stream), None)
        except UnicodeDecodeError:
            record, failure = [], "is not valid UTF-8: convert it to UTF-8 first"
        except csv.Error:
            record, failure = [], f"has a malformed first line: it is not {self.name.upper()}; say what it is with format="
        if record is None:
            raise EventLogError(f"{what} is empty: it needs at least one event")
        if not record:
            raise EventLogError(f"{what} {failure}")
        return record

    def _sql(self, path: Path, count: int, places: Mapping[str, int], *, has_header: bool) -> str:
        types = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(count))
        columns = ", ".join(f"nullif(c{place}, '') AS {SHORT[role]}" for role, place in places.items())
        # Everything is stated and nothing detected: detection may skip lines, split on another character or type a column.
        return (
            f"SELECT {columns} FROM read_csv({located(path)}, auto_detect = false, "
            f"columns = {{{types}}}, header = {str(has_header).lower()}, delim = {literal(self.delimiter)}, "
            f"quote = {literal(self.quote)}, escape = {literal(self.quote)}, nullstr = '', compression = 'none', "
            "strict_mode = true, null_padding = false, ignore_errors = false, hive_partitioning = false)"
        )


CSV = Delimited("csv", (".csv",), delimiter=",", quote='"')
TSV = Delimited("tsv", (".tsv", ".tab"), delimiter="\t", quote="")


_KINDS: dict[str, Kind] = {"UBIGINT": "digits", "BIGINT": "digits", "VARCHAR": "str"}
_VALUES: dict[str, Kind] = dict.fromkeys((*_KINDS, "DOUBLE", "HUGEINT", "UHUGEINT"), "str")


@final
@dataclass(frozen=True, slots=True)
class _JsonLines:
    """One JSON object on each line."""

    name: str = "jsonl"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The fields as text, beside the JSON type of each value (uk, ik, ...)."""
        original, asked = checked(given.source), given.asked
        what = given.called("jsonl")
        given.require_no_header("jsonl")
        path = plain(original, engine.unused("source"))
        names = _names(asked, what)
        if path.stat().st_size == 0:
            raise EventLogError(f"{what} is empty: it needs at least one event")
        fields = ", ".join(f"{literal(name)}: 'JSON'" for name in names.values())
        short = [SHORT[role] for role in names]
        source = (
            f"read_json({located(path)}, columns = {{{fields}}}, format = 'newline_delimited', records = true, "
            f"compression = 'none', ignore_errors = false, hive_partitioning = false) AS log({', '.join(short)})"
        )
        columns = ", ".join(f"{name} ->> '$' AS {name}, json_type({name}) AS {name}k" for name in short)

        labels = [role for role in names if role != "time"]

        def settle(engine: Engine, relation: str, missing: frozenset[str]) -> Kinds:
            _require_fields(path, asked, missing, what)
            kinds = [f"{SHORT[role]}k" for role in labels]
            distinct = ", ".join(f"list(DISTINCT {kind}) FILTER (WHERE {kind} IS NOT NULL)" for kind in kinds)
            found = engine.run(f"SELECT {distinct} FROM {relation}", what=what)[0]
            return {role: _kind_of(role, names[role], types, what) for role, types in zip(labels, found, strict=True)}

        return Rows(sql=f"SELECT {columns} FROM {source}", size=path.stat().st_size, what=what, kinds=settle)


def _names(asked: Asked, what: str) -> dict[str, str]:
    """The names of fields, by role, which the engine can tell apart."""
    names: dict[str, str] = {}
    for role, column in asked.columns.items():
        if isinstance(column, int):
            raise EventLogError(f"{role}={column!r} is a position, and {what} has names: give the name of a field")
        names[role] = column
    for one, other in itertools.combinations(names, 2):
        if names[one].lower() == names[other].lower():
            raise EventLogError(
                f"{one}={names[one]!r} and {other}={names[other]!r} of {what} differ in letter case only, which the engine does "
                "not tell apart: rename one of them"
            )
    return names


def _kind_of(field: str, column: object, types: Iterable[str] | None, what: str) -> Kind:
    """The one kind that all values of a column have, from the JSON types that occur in it (None: every value is null)."""
    found = {(_VALUES if field == "value" else _KINDS).get(name) for name in types or ()}
    if None in found and field == "value":
        raise EventLogError(f"{field}={column!r} of {what} holds booleans, lists or objects where numbers belong")
    if None in found:
        raise EventLogError(
            f"{field}={column!r} of {what} holds values that are neither text nor whole numbers of at most 64 bits "
            "(fractions, booleans, lists or objects): write them as text"
        )
    if len(found) > 1:
        raise EventLogError(
            f'{field}={column!r} of {what} holds numbers and text: 7 and "7" would be counted apart; write all of them as one'
        )
    return "digits" if "digits" in found else "str"


def _require_fields(path: Path, asked: Asked, missing: frozenset[str], what: str) -> None:
    """Refuse a column in which no row had a value, unless the first object has it (then it is null, not missing)."""
    names = _first_names(path) if missing else []
    for role, column in asked.columns.items():
        if role in missing and names and column not in names:
            # In objects like {"ann": "zoo"} the names are private too; those of a log are known by the column that is there.
            if set(asked.columns.values()).isdisjoint(names):
                raise EventLogError(
                    f"{role}={column!r} is not a field of {what}: check the name; the fields' names may be data, so are not shown"
                )
            place_of(role, column, names, what)  # refuses it, and says which there are


def _first_names(path: Path) -> list[str]:
    """The names in the first object; none if it cannot be read here, though the engine, which looks at two fields only, can."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            try:
                value: Any = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                return []
            if isinstance(value, dict):
                return list(value)
    return []


_MAGIC = b"PAR1"
_MOST_RENAMED = 5_000  # columns: the engine takes time in the square of them to rename them


@final
@dataclass(frozen=True, slots=True)
class _Parquet:
    """A file of columns that have types."""

    name: str = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq")

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns of a Parquet file, by their names or positions."""
        source = checked(given.source)
        what = given.called("parquet")
        given.require_no_header("parquet")
        path = plain(source, engine.unused("source"))
        with path.open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise EventLogError(f"{what} is not a Parquet file: say what it is with format=")
        relation = f"read_parquet({located(path)}, hive_partitioning = false, filename = false)"
        names = self.names(engine, path, what)
        places = by_name(given.asked, names, what)
        known = _known_as(engine, relation, names, places, what)
        types = engine.run(f"DESCRIBE SELECT {', '.join(map(quoted, known.values()))} FROM {relation}", what=what)
        kinds = described(types, given.asked.columns, what)
        count = int(engine.run(f"SELECT sum(num_rows) FROM parquet_file_metadata({located(path)})", what=what)[0][0])
        complete = count if _without_nulls(engine, path, [names[place] for place in places.values()], what) else None
        return Rows(sql=selected(relation, known, kinds), size=count * BYTES_PER_ROW, what=what, kinds=kinds, complete=complete)

    def names(self, engine: Engine, path: Path, what: str) -> list[str]:
        """The names of the columns as the file has them; the engine would give those that it takes for equal other names."""
        nodes = engine.run(f"SELECT name, num_children FROM parquet_schema({located(path)})", what=what)
        names, inside = list[str](), 0
        for name, children in nodes[1:]:
            if inside == 0:
                names.append(name)
            inside += int(children or 0) - (inside > 0)
        return names


PARQUET = _Parquet()


def _without_nulls(engine: Engine, path: Path, names: Sequence[str], what: str) -> bool:
    """Whether the file says of all these columns, and of every part of them, that they hold no null."""
    columns = ", ".join(literal(name) for name in names)
    found = engine.run(
        f"SELECT path_in_schema FROM parquet_metadata({located(path)}) WHERE path_in_schema IN ({columns}) "
        "GROUP BY ALL HAVING count(*) = count(stats_null_count) AND sum(stats_null_count) = 0",
        what=what,
    )
    return len(found) == len(set(names))


def _known_as(engine: Engine, relation: str, names: Sequence[str], places: Mapping[str, int], what: str) -> dict[str, str]:
    """What the engine calls these columns. It does not tell letter case apart, and renames all but the first of such names."""
    known = list(names)
    if len({name.lower() for name in names}) < len(names):
        if len(names) > _MOST_RENAMED:
            raise EventLogError(
                f"{what} has {len(names):,} columns, and names that differ in letter case only: write the few columns to a file "
                "of their own"
            )
        known = [column[0] for column in engine.run(f"DESCRIBE SELECT * FROM {relation}", what=what)]
        if len(known) != len(names):
            raise EventLogError(f"{what} has columns whose names the engine cannot tell apart: rename them")
    return {role: known[place] for role, place in places.items()}


FORMATS: Final[tuple[FileFormat, ...]] = (CSV, TSV, _JsonLines(), PARQUET)

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *(known.name for known in FORMATS)]
    """What `format=` may say: a format by its name, or "auto" for the one that the name of the file tells."""


_STANDARD_INPUT = "-"
_MOST_FILES = 10_000
_NULL = "__HIVE_DEFAULT_PARTITION__"


def accepts(given: Given) -> bool:
    """A path, a list or tuple of paths, a pattern that is not itself the name of a file, a folder, or the text "-"."""
    source = given.source
    if isinstance(source, list | tuple):
        return all(isinstance(path, str | os.PathLike) for path in source)
    return isinstance(source, str | os.PathLike)


def rows(engine: Engine, given: Given) -> Rows:
    """All rows of all files."""
    source = given.source
    given.require_no_query()
    if source == _STANDARD_INPUT and isinstance(source, str):  # a file of that name is "./-"
        copied = _spooled(engine.path("standard input"), given.format)
        given = replace(given, source=copied, name=f"{given.format} on standard input")
    elif isinstance(source, list | tuple) or _is_several(str(source)):
        return _several(engine, given)
    return _format_of(given).rows(engine, given)


def _is_several(path: str) -> bool:
    """Whether it is a folder, or a pattern that is not itself the name of a file."""
    if "\0" in path:
        return False
    return Path(path).is_dir() or (glob.has_magic(path) and "://" not in path and not os.path.lexists(path))


def _suffix_format(path: Path) -> FileFormat | None:
    """The format that a name tells; None if it tells none."""
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    return next((known for known in FORMATS if suffix in known.suffixes), None)


def _spooled(target: Path, format: Format) -> Path:
    """`target`, with what standard input holds; it is read to its end: to tell malformed rows, and to be looked at twice."""
    if format == "auto":
        names = ", ".join(f"'{known.name}'" for known in FORMATS)
        raise EventLogError(f"format='auto' cannot tell what is on standard input: state format= as one of {names} (--format)")
    stream: Any = sys.stdin
    if stream is None:
        raise EventLogError("standard input is closed: name a file in place of '-'")
    with target.open("xb") as copy:
        shutil.copyfileobj(stream.buffer, copy, 1 << 20)
    return target


def _format_of(given: Given) -> FileFormat:
    """The format of a file, from the name unless it is stated."""
    path = checked(given.source)
    names = {known.name: known for known in FORMATS}
    if given.format != "auto" and given.format not in names:
        raise EventLogError(f"format={given.format!r} is unknown: it must be one of auto, {', '.join(names)}")
    known = _suffix_format(path) if given.format == "auto" else names[given.format]
    if known is None:
        suffixes = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
        raise EventLogError(
            f"format='auto' cannot tell what {masked(path)} is: the name must end in {suffixes} (and may add .gz); "
            f"or pass format= as one of {', '.join(map(repr, names))}"
        )
    return known


def _several(engine: Engine, given: Given) -> Rows:
    """All rows of all files, which must have these columns and agree on their kinds; in the order of the files' names.

    Of a folder the Parquet files are read, at any depth, or those of the format stated; what begins with a dot or an underscore
    is left alone. For a file in a folder or found by a pattern, key=value in the name of a folder on its way is a column of text.
    """
    found = _found(given)
    if not found:
        raise EventLogError(f"{_shown(given.source)} holds no file to read: a folder of other files than Parquet needs format=")
    if len(found) > _MOST_FILES:
        raise EventLogError(f"{_shown(given.source)} names {len(found):,} files, and at most {_MOST_FILES:,} are read: join them")
    parts = [_one(engine, given, path, known) for path, known in found]
    what = f"{_shown(given.source)} ({len(parts):,} file{'s' if len(parts) > 1 else ''})"
    columns = ", ".join(SHORT[role] for role in given.asked.columns)
    whole = "*" if callable(parts[0].kinds) else columns
    sql = " UNION ALL BY NAME ".join(f"SELECT {whole} FROM ({part.sql})" for part in parts)
    known = [part.complete for part in parts if part.complete is not None]
    complete = sum(known) if len(known) == len(parts) else None
    return Rows(
        sql=sql,
        size=sum(part.size for part in parts),
        what=what,
        kinds=_agreed(parts),
        complete=complete,
    )


def _shown(source: object) -> str:
    return f"{len(source)} files" if isinstance(source, list | tuple) else masked(source)


def _found(given: Given) -> list[tuple[Path, dict[str, str | None]]]:
    """The files, and the columns that their folders' names hold."""
    source = given.source
    if isinstance(source, list | tuple):
        return [(Path(path), {}) for path in source]
    root = Path(cast(str, source))
    if root.is_dir():
        kind = PARQUET.name if given.format == "auto" else given.format
        found = (path for path in root.rglob("*") if (known := _suffix_format(path)) is not None and known.name == kind)
        files = [path for path in found if not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)]
    else:
        pattern, fixed = root, next(at for at, part in enumerate(root.parts) if glob.has_magic(part))
        root = Path(*pattern.parts[:fixed])
        files = list(root.glob(str(pattern.relative_to(root))))
    return [(path, _in_names(path.relative_to(root).parts[:-1])) for path in sorted(files) if not path.is_dir()]


def _in_names(folders: Iterable[str]) -> dict[str, str | None]:
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return {unquote(key): None if value == _NULL else unquote(value) for key, value in pairs}


def _one(engine: Engine, given: Given, path: Path, known: Mapping[str, str | None]) -> Rows:
    held = {role: known[str(column)] for role, column in given.asked.columns.items() if column in known}
    asked = replace(given.asked, elsewhere=frozenset(held))
    if not asked.columns:
        raise EventLogError(f"{_shown(given.source)}: all columns asked for stand in the names of folders, and none in the files")
    folders = (part.split("=", 1)[0] + "=..." if known and "=" in part else part for part in path.parts[:-1])
    part = _opened(engine, replace(given, source=path, asked=asked), str(Path(*folders, path.name)))
    if not held:
        return part
    if callable(part.kinds):
        raise EventLogError(
            f"{part.what} is JSON lines, which columns in the names of folders do not go with: use Parquet or CSV"
        )
    texts = {role: "NULL" if text is None else literal(text) for role, text in held.items()}
    columns = "".join(f", CAST({text} AS VARCHAR) AS {SHORT[role]}" for role, text in texts.items())
    kinds = {role: part.kinds.get(role, "str") for role in given.asked.columns}
    complete = None if None in held.values() else part.complete
    return replace(part, sql=f"SELECT *{columns} FROM ({part.sql})", kinds=kinds, complete=complete)


def _opened(engine: Engine, given: Given, shown: str) -> Rows:
    """The rows of one file, which messages call `shown`: the values in folders' names are data."""
    try:
        part = _format_of(given).rows(engine, given)
        return replace(part, what=part.what.replace(str(given.source), shown))
    except EventLogError as error:
        failure = str(error).replace(str(given.source), shown)
    raise EventLogError(failure)


def _agreed(parts: list[Rows]) -> Kinds:
    """The kinds that all files share, so that 7 and "7" stay two items."""
    first = parts[0]
    for other in parts[1:]:
        if callable(first.kinds) != callable(other.kinds) or not (callable(first.kinds) or first.kinds == other.kinds):
            raise EventLogError(
                f'{other.what} holds columns of other types than {first.what}, and 7 and "7" would be counted apart: give all '
                "files one format, and one type to each column"
            )
    return first.kinds  # type: ignore[return-value]
