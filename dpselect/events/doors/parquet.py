"""Parquet: the file says what its columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dpselect.errors import EventLogError
from dpselect.events.doors.base import BYTES_PER_ROW, Given, Rows, by_name, described, literal, located, quoted, selected
from dpselect.events.doors.paths import checked, plain
from dpselect.events.engine import Engine

_MAGIC = b"PAR1"
_MOST_RENAMED = 5_000  # columns: the engine takes time in the square of them to rename them


@final
@dataclass(frozen=True, slots=True)
class Parquet:
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
        names = names_in(engine, path, what)
        places = by_name(given.asked, names, what)
        known = _known_as(engine, relation, names, places, what)
        types = engine.run(f"DESCRIBE SELECT {', '.join(map(quoted, known.values()))} FROM {relation}", what=what)
        kinds = described(types, given.asked, what)
        count = int(engine.run(f"SELECT sum(num_rows) FROM parquet_file_metadata({located(path)})", what=what)[0][0])
        complete = count if _without_nulls(engine, path, [names[place] for place in places.values()], what) else None
        return Rows(sql=selected(relation, known, kinds), size=count * BYTES_PER_ROW, what=what, kinds=kinds, complete=complete)


PARQUET = Parquet()


def names_in(engine: Engine, path: Path, what: str) -> list[str]:
    """The names of the columns as the file has them; the engine would give those that it takes for equal other names."""
    nodes = engine.run(f"SELECT name, num_children FROM parquet_schema({located(path)})", what=what)
    names, inside = list[str](), 0
    for name, children in nodes[1:]:
        if inside == 0:
            names.append(name)
        inside += int(children or 0) - (inside > 0)
    return names


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
