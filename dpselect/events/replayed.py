"""A log of any kind without one of its users at a time, for `verify.replay` of the reader itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from dpselect.errors import InvalidRequest
from dpselect.events.doors.base import SHORT, Kind, literal
from dpselect.events.engine import Engine, opened
from dpselect.events.reading import Reading
from dpselect.events.staging import rows
from dpselect.selection import Label
from dpselect.verify.log_replay import EVERYBODY

_LOG = "the log"


@final
class ReplayedLog:
    """The columns of a log in a temporary folder that only this user can read; what is handed on is Parquet beside them.

    Its columns are called u, i and, where a group was asked for, g.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def users(self) -> Mapping[Label, int]:
        """How many events every user has, those without a user left out."""
        return dict(self._engine.run("SELECT u, count(*) FROM replayed WHERE u IS NOT NULL GROUP BY u ORDER BY u", what=_LOG))

    def without(self, user: Any) -> Path:
        """A file of the events of all others, or of everybody; the next one takes its place."""
        path, others = self._engine.path("without.parquet"), "SELECT * FROM replayed"
        where, parameters = ("", []) if user is EVERYBODY else (" WHERE u IS DISTINCT FROM ?", [user])
        self._engine.run(f"CREATE OR REPLACE TEMP TABLE others AS {others}{where}", parameters, what=_LOG)
        self._engine.run(f"COPY others TO {literal(str(path))} (FORMAT parquet)", what=_LOG)
        return path


@contextmanager
def replayed(source: object, reading: Reading) -> Iterator[ReplayedLog]:
    """The columns of the log as `read` would read them, for as long as the block lasts."""
    given = reading.given(source)
    with opened(reading.memory_limit) as engine:
        log = rows(engine, given)
        engine.run(f"CREATE TABLE loaded AS {log.sql}", what=log.what)
        short = {role: SHORT[role] for role in given.asked.columns}
        present = engine.run(f"SELECT {', '.join(f'count({name})' for name in short.values())} FROM loaded", what=log.what)[0]
        missing = frozenset(role for role, count in zip(short, present, strict=True) if count == 0)
        if missing:
            raise InvalidRequest(f"{log.what} has no event with a {' or a '.join(sorted(missing))}: check the columns meant")
        kinds = log.kinds(engine, "loaded", missing) if callable(log.kinds) else log.kinds
        columns = ", ".join(f"{_typed(engine, name, kinds[role], log.what)} AS {name}" for role, name in short.items())
        engine.run(f"CREATE TABLE replayed AS SELECT {columns} FROM loaded", what=log.what)
        engine.run("DROP TABLE loaded", what=log.what)
        yield ReplayedLog(engine)


def _typed(engine: Engine, name: str, kind: Kind, what: str) -> str:
    """Integers that were written as text as integers again, as the reader takes them."""
    if kind != "digits":
        return name
    signed = engine.run(f"SELECT coalesce(bool_or({name} LIKE '-%'), false) FROM loaded", what=what)[0][0]
    return f"CAST({name} AS {'BIGINT' if signed else 'UBIGINT'})"
