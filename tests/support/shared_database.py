"""One DuckDB instance for all engines of a module's tests, each with a database of its own in it.

An instance takes 20 ms of a processor to start, because it registers 3,000 functions. Tests that
open hundreds of engines and states, and are about what is read and not about an engine's memory,
folder or end, ask for it by `pytestmark = pytest.mark.usefixtures("shared_database")`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from dpselect.app.events.engine import Engine


class Attached:
    """A connection whose database is detached with its end, as that of an instance would be."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self._connection, self._name = connection, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write a file's log into it and let go of it."""
        self._connection.execute(f"USE memory; DETACH {self._name}")
        self._connection.close()


@pytest.fixture(scope="module")
def shared_database() -> Iterator[None]:
    """Databases in memory and in files are attached to one instance, with the settings of the last
    that began.
    """
    connect, define_function, numbers = duckdb.connect, Engine.define, itertools.count()
    instances: list[duckdb.DuckDBPyConnection] = []

    def attach(
        path: str = ":memory:", read_only: bool = False, config: Any = None
    ) -> duckdb.DuckDBPyConnection:
        if not instances:
            instances.append(connect())
        connection, name = instances[0].cursor(), f"engine{next(numbers)}"
        mode = " (READ_ONLY)" if read_only else ""
        connection.execute(f"ATTACH '{path}' AS {name}{mode}; USE {name}")
        for setting, value in (config or {}).items():
            connection.execute(f"SET {setting} = {value!r}")
        return Attached(connection, name)  # type: ignore[return-value]

    def define(engine: Engine, name: str, function: Callable[[str], str]) -> None:
        instances.clear()  # it has the function from now on, which the next engine must not
        define_function(engine, name, function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", attach)
        patch.setattr(Engine, "define", define)
        yield
