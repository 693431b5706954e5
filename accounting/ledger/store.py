"""`Store`: a place that holds a ledger, and the two kinds of transaction on it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, final

from sqlalchemy import URL, Connection, Engine, inspect, select, text

from accounting.ledger import ddl
from accounting.ledger.database import WRITES, checked_url, postgresql_engine, sqlite_engine, translated
from accounting.ledger.errors import LedgerCorrupt, SchemaMismatch
from accounting.ledger.statements import Declared, find_dataset, lock_dataset
from accounting.ledger.stored_text import checked_name


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
        # Only this first step may create a file: later on, a file that is gone is an error and not an empty ledger.
        cls(sqlite_engine(parsed, create=create, timeout=timeout), parsed)._prepare(create=create)
        return cls(sqlite_engine(parsed, create=False, timeout=timeout), parsed)

    def _prepare(self, *, create: bool) -> None:
        with self.reader() as connection:
            if _has_ledger(connection):
                return
        if not create:
            raise SchemaMismatch("no ledger exists here: run `dpselect ledger init`, or open it with create=True")
        with self._transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
            if not _has_ledger(connection):  # another process may have been first
                ddl.create(connection)

    @contextmanager
    def writer(self) -> Iterator[Connection]:
        """A transaction that holds the store's (SQLite) or takes rows' (PostgreSQL) write locks; durable when it returns."""
        with self._transaction() as connection:
            if self._url.get_backend_name() == "sqlite":
                _require_whole(connection, Path(str(self._url.database)))
            _require_version(connection)  # the file may have been exchanged since it was opened
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

    @contextmanager
    def writer_on(self, dataset: object) -> Iterator[tuple[Connection, Declared]]:
        """A writer that holds a dataset's row against every other charge."""
        with self.writer() as connection:
            yield connection, lock_dataset(connection, checked_name("dataset", dataset))

    @contextmanager
    def reader_on(self, dataset: object) -> Iterator[tuple[Connection, Declared]]:
        """A reader, with a dataset's row."""
        with self.reader() as connection:
            yield connection, find_dataset(connection, checked_name("dataset", dataset))

    def close(self) -> None:
        """Give connections back."""
        self._reading.dispose()

    def __repr__(self) -> str:
        return f"Store({self._url.render_as_string(hide_password=True)!r})"


def _require_whole(connection: Connection, file: Path) -> None:
    """Refuse a SQLite file that ends inside of a page that it counts: SQLite itself takes what is missing for zeros.

    The file is not opened for that: closing it would give up the locks that this process holds on it.
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


# Any number, the same for all processes: two of them may open an empty PostgreSQL database at once.
_ADVISORY_LOCK = 4_105_281_901
_VERSION = select(ddl.meta.c.schema_version)


def _has_ledger(connection: Connection) -> bool:
    """Whether the tables are there; SchemaMismatch if the store holds something else or another version of the schema."""
    names = inspect(connection).get_table_names()
    if ddl.meta.name in names:
        _require_version(connection)
        return True
    # A PostgreSQL schema is often shared; a file that holds other tables is most likely a mistyped path.
    if names and connection.dialect.name == "sqlite":
        raise SchemaMismatch("this SQLite file holds tables but no ledger: check the URL, or give the ledger a file of its own")
    return False


def _require_version(connection: Connection) -> None:
    version = connection.execute(_VERSION).scalar()
    if version != ddl.SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} and this package reads and writes version {ddl.SCHEMA_VERSION} only: "
            "nothing was charged; use the version of dpselect that wrote it"
        )
