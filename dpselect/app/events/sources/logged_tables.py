"""Tables with a log beside their files.

The log says which files and rows count, so the files alone are not the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, NoReturn, final

from accounting.address import mask
from dpselect.errors import EventLogError


@final
@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A format of tables with a log: the file pattern that marks its folder, and its readers."""

    name: str
    mark: str
    readers: str


_SPARK_STREAM = LoggedTable("Spark streaming", "_spark_metadata", "Spark")
LOGGED: Final[tuple[LoggedTable, ...]] = (
    LoggedTable("Delta", "_delta_log", "Polars' scan_delta, DuckDB's delta_scan or Spark"),
    LoggedTable(
        "Iceberg",
        "metadata/*.metadata.json*",
        "Polars' scan_iceberg, DuckDB's iceberg_scan or Spark",
    ),
    LoggedTable("Hudi", ".hoodie", "Spark or hudi's reader for Python"),
    LoggedTable("Paimon", "snapshot/snapshot-*", "Spark or pypaimon"),
    _SPARK_STREAM,
)
# which follows the log of its own streams
OTHERS_THAN_SPARK: Final = tuple(kind for kind in LOGGED if kind is not _SPARK_STREAM)
# its log is a database, which may lie anywhere
_DUCKLAKE = LoggedTable("DuckLake", "", "DuckDB's extension ducklake")
_DUCKLAKE_FILE = re.compile(r"ducklake-[0-9a-f-]{36}.*")
_VALUE = re.compile(r"(?<==)[^/\\]+")


def require_whole(path: Path) -> None:
    """Refuse a folder or a file, at any depth, that belongs to a table with a log."""
    if _DUCKLAKE_FILE.fullmatch(path.name):
        refuse(_DUCKLAKE, path.parent)
    place = path.absolute()
    for folder in dict.fromkeys((place, *place.parents, *path.resolve().parents)):
        for kind in LOGGED:
            if _has_mark(str(folder), kind.mark):
                refuse(kind, folder)


def _has_mark(folder: str, mark: str) -> bool:
    inner, _, pattern = mark.rpartition("/")
    if not inner:
        return os.path.lexists(f"{folder}/{mark}")
    try:
        with os.scandir(f"{folder}/{inner}") as entries:
            return any(fnmatchcase(entry.name, pattern) for entry in entries)
    except OSError:  # no such folder
        return False


def folders_of(address: str) -> Iterator[str]:
    """The folders above an address, the innermost first, as addresses."""
    start = re.match(r"(?:[A-Za-z][\w+.-]*:(?://[^/]*)?)?", address)
    assert start is not None, "it matches nothing, too"
    for folder in PurePosixPath(address[start.end() :]).parents:
        yield start[0] + str(folder).rstrip("/")


def refuse(kind: LoggedTable, folder: object) -> NoReturn:
    """Raise an error with the table's format and a reader, hiding values in names of folders."""
    table, article = (
        mask(_VALUE.sub("...", str(folder))),
        "an" if kind.name[0] in "AEIOU" else "a",
    )
    raise EventLogError(
        f"{table} is {article} {kind.name} table. Its files also hold rows that the table's log has"
        " deleted or replaced, so they are not read by themselves. Read the table with"
        f" {kind.readers} and pass the result, or write the result to a Parquet file outside the"
        " table's folder and name that file"
    )
