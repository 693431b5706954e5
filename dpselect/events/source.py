"""The doors to events, in the order in which they are asked."""

from __future__ import annotations

from typing import Final

from dpselect.errors import EventLogError
from dpselect.events.doors import parts, postgresql, several, standard_input, tables
from dpselect.events.engine import Engine
from dpselect.events.rows import Given, Rows, Source

# The narrower before the wider: paths are told apart by what they are called, and by format=.
SOURCES: Final[tuple[Source, ...]] = (parts, tables, postgresql, standard_input, several, *several.FILES)


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of whatever was given, by the first door that accepts it.

    Raises:
        EventLogError: no door does, it cannot be read, or it does not have these columns.
    """
    for door in SOURCES:
        if door.accepts(given):
            return door.rows(engine, given)
    kind = type(given.source)
    raise EventLogError(
        f"source is a {kind.__module__}.{kind.__qualname__}: give a path or several, a folder or a pattern, a table (pandas, "
        "Polars, DuckDB, or whatever offers an Arrow stream), a postgresql:// address, or '-'"
    )
