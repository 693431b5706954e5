"""Files: one, several (a list of paths, a pattern, a folder), or what is on standard input. Names of folders may hold columns
(day=2024-07-14).
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import unquote

from dpselect.errors import EventLogError
from dpselect.events.doors.base import SHORT, FileFormat, Given, Kinds, Rows, literal
from dpselect.events.doors.delimited import CSV, TSV
from dpselect.events.doors.jsonl import JsonLines
from dpselect.events.doors.parquet import PARQUET
from dpselect.events.doors.paths import checked

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

FORMATS: Final[tuple[FileFormat, ...]] = (CSV, TSV, JsonLines(), PARQUET)

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal["auto", *(known.name for known in FORMATS)]
    """What `format=` may say: a format by its name, or "auto" for the one that the name of the file tells."""

STANDARD_INPUT = "-"
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
    if source == STANDARD_INPUT and isinstance(source, str):  # a file of that name is "./-"
        copied = spooled(engine.path("standard input"), given.format)
        given = replace(given, source=copied, name=f"{given.format} on standard input")
    elif _is_several(source):
        return _several(engine, given)
    return _format_of(given).rows(engine, given)


def _is_several(source: Any) -> bool:
    return isinstance(source, list | tuple) or ("\0" not in str(source) and (Path(source).is_dir() or _is_pattern(source)))


def suffix_format(path: Path) -> FileFormat | None:
    """The format that a name tells; None if it tells none."""
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    return next((known for known in FORMATS if suffix in known.suffixes), None)


def spooled(target: Path, format: Format) -> Path:
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
    known = suffix_format(path) if given.format == "auto" else names[given.format]
    if known is None:
        suffixes = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
        raise EventLogError(
            f"format='auto' cannot tell what {str(path)!r} is: the name must end in {suffixes} (and may add .gz); "
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
        untyped=parts[0].untyped,
    )


def _is_pattern(source: str | os.PathLike[str]) -> bool:
    return glob.has_magic(str(source)) and "://" not in str(source) and not os.path.lexists(source)


def _shown(source: object) -> str:
    return f"{len(source)} files" if isinstance(source, list | tuple) else repr(str(source))


def _found(given: Given) -> list[tuple[Path, dict[str, str | None]]]:
    """The files, and the columns that their folders' names hold."""
    source = given.source
    if isinstance(source, list | tuple):
        return [(Path(path), {}) for path in source]
    root = Path(cast(str, source))
    if root.is_dir():
        kind = PARQUET.name if given.format == "auto" else given.format
        found = (path for path in root.rglob("*") if (known := suffix_format(path)) is not None and known.name == kind)
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
    alone = replace(given, source=path, asked=asked)
    part = _opened(engine, alone, _masked(path, known))
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


def _masked(path: Path, known: Mapping[str, object]) -> str:
    parts = [part.split("=", 1)[0] + "=..." if known and "=" in part else part for part in path.parts[:-1]]
    return str(Path(*parts, path.name))


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
