"""`Store`: a place that holds a ledger, and the two kinds of transaction on it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, final

from sqlalchemy import URL, Connection, Engine

from accounting.ledger.database import WRITES, checked_url, postgresql_engine, sqlite_engine
from accounting.ledger.errors import LedgerCorrupt, SchemaMismatch
from accounting.ledger.failures import translated
from accounting.ledger.migrations import STEPS, migrate, require_current, version_of


@final
class Store:
    """An engine, wrapped so that every transaction is of one of two kinds and every failure is the ledger's own.

    Args:
        engine: made by `sqlite_engine` or `postgresql_engine`.
        url: shown in messages, without the password.
    """

    def __init__(self, engine: Engine, url: URL) -> None:
        self._url = url
        weakref.finalize(self, _dispose, engine, os.getpid())
        self._writing = engine.execution_options(**{WRITES: True})
        self._reading = engine
        if engine.dialect.name == "postgresql":
            self._reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @classmethod
    def open(cls, url: str, *, create: bool, timeout: float) -> Self:
        """Open the store; with `create`, make the file and the tables where they are missing."""
        parsed = checked_url(url)
        if parsed.get_backend_name() == "postgresql":
            store = cls(postgresql_engine(parsed, timeout=timeout), parsed)
            store._prepare(create=create)
            return store
        cls._prepare_file(parsed, create=create, timeout=timeout)
        return cls(sqlite_engine(parsed, create=False, timeout=timeout), parsed)

    @classmethod
    def _prepare_file(cls, url: URL, *, create: bool, timeout: float) -> None:
        # Only this first step may create a file: later on, a file that is gone is an error and not an empty ledger.
        engine = sqlite_engine(url, create=create, timeout=timeout)
        cls(engine, url)._prepare(create=create)

    def _prepare(self, *, create: bool) -> None:
        with self.reader() as connection:
            version = version_of(connection)
        if version == 0 and not create:
            raise SchemaMismatch("there is no ledger here: run `dpselect ledger init`, or open it with create=True")
        if version < len(STEPS):
            with self._transaction() as connection:
                migrate(connection)

    @contextmanager
    def writer(self) -> Iterator[Connection]:
        """A transaction that holds the store's (SQLite) or takes rows' (PostgreSQL) write locks; durable when it returns."""
        with self._transaction() as connection:
            if self._url.get_backend_name() == "sqlite":
                _require_whole(connection, Path(str(self._url.database)))
            require_current(connection)  # a package that was upgraded meanwhile may have changed what a charge has to do
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with translated(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store and changes nothing."""
        with translated(), self._reading.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give connections back."""
        self._reading.dispose()

    def __repr__(self) -> str:
        return f"Store({self._url.render_as_string(hide_password=True)!r})"


def _require_whole(connection: Connection, file: Path) -> None:
    """Refuse a SQLite file that ends inside of a page that it counts: SQLite itself takes what is missing for zeros.

    The file is not opened for that: closing it would give up the locks that this process holds on it.

    Raises:
        LedgerCorrupt: it does.
    """
    pages, size = (int(connection.exec_driver_sql(f"PRAGMA page_{what}").scalar() or 0) for what in ("count", "size"))
    if file.stat().st_size < pages * size:
        raise LedgerCorrupt(
            "the ledger's file is cut short: nothing may be charged or released; restore a backup and hold it against an "
            "exported head"
        )


def _dispose(engine: Engine, process: int) -> None:
    """Close what nobody uses any more. A forked child leaves its parent's connections alone."""
    engine.dispose(close=os.getpid() == process)
