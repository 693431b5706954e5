"""`Store`: a place that holds a ledger, and the two kinds of transaction on it.

These see everything committed before and let nobody in between, and their failures say what to do. SQLAlchemy's own
transactions do not: with them eight processes overspent a budget of 20 to 26 on SQLite, and to 25 on PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from accounting.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnavailable, SchemaMismatch
from accounting.ledger.statements import SCHEMA_VERSION, Declared, create_tables, find_dataset, lock_dataset, meta
from accounting.ledger.stored_text import checked_name

WRITES = "dpledger_writes"
# EXTRA also syncs the directory: a charge must survive a power cut, or its noise would be out without it.
_SETTINGS = ("synchronous = EXTRA", "foreign_keys = ON", "trusted_schema = OFF")

_LOCKED = "the ledger is locked by another process for longer than the timeout: try again, or raise timeout="
_FULL = "the disk that holds the ledger is full: free some space"
_READ_ONLY = "the ledger is read-only: charging needs write permission on the file and its directory, or a writing role"
_MISSING = "the ledger cannot be opened: check that the file and its directory exist and may be read"
_WRITE = "the ledger's disk failed to read or write: check the disk and its quota, then run verify"
_CORRUPT = "the ledger's file is damaged or no SQLite database: restore a backup and hold it against an exported head"
_UNREACHABLE = "the ledger's database server cannot be reached or ended the connection"
_REFUSED = "the database refused the operation"
_NOT_THERE = ". Nothing was charged: check its name, or make a new one with `dpselect ledger init`"
_NOTHING = ". Nothing may be released: if the charge was being written, repeat it with the same key"

# By SQLite's code, or by SQLSTATE or its class.
_CODES: dict[str, tuple[int | str, ...]] = {
    _LOCKED: (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03", "57014", "40P01"),
    _FULL: (sqlite3.SQLITE_FULL, "53"),
    _READ_ONLY: (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, "25006", "42501"),
    _MISSING: (sqlite3.SQLITE_CANTOPEN,),
    _WRITE: (sqlite3.SQLITE_IOERR, "58"),
    _CORRUPT: (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX"),
    _UNREACHABLE: ("08", "57", "28", "3D"),
}
_REASONS = {code: reason for reason, codes in _CODES.items() for code in codes}


def checked_url(url: str) -> URL:
    """The URL of a SQLite file or PostgreSQL database, with the driver that the ledger uses; LedgerUnavailable if it is none."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise LedgerUnavailable("the ledger's URL cannot be read: write sqlite:///privacy.db or postgresql://host/name") from None
    backend = parsed.get_backend_name() if parsed.drivername in ("sqlite", "sqlite+pysqlite") else parsed.drivername
    if backend == "sqlite":
        return _file(parsed)
    if backend in ("postgresql", "postgresql+psycopg", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise LedgerUnavailable(f"a ledger is kept in sqlite:///file or postgresql://host/name, not in {parsed.drivername}://")


def _file(url: URL) -> URL:
    if url.database in (None, "", ":memory:") or str(url.database).startswith("file:") or url.query:
        raise LedgerUnavailable("a ledger in memory forgets at exit: name a file, as in sqlite:///privacy.db, without options")
    return url.set(drivername="sqlite", database=str(Path(str(url.database)).absolute()))


def sqlite_engine(url: URL, *, create: bool, timeout: float) -> Engine:
    """An engine on a SQLite file, with transaction control taken over from the driver.

    No connection is kept: a kept one would follow a file that was moved away, or a fork.
    """
    mode = "rwc" if create else "rw"
    engine = create_engine(
        url, creator=_sqlite_opener(str(url.database), mode, timeout), poolclass=NullPool, hide_parameters=True
    )
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _sqlite_opener(path: str, mode: str, timeout: float) -> Callable[[], sqlite3.Connection]:
    def open_file() -> sqlite3.Connection:
        # isolation_level=None: the driver sends no BEGIN or COMMIT of its own.
        connection = sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, timeout=timeout, isolation_level=None)
        try:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    return open_file


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def postgresql_engine(url: URL, *, timeout: float) -> Engine:
    """An engine on PostgreSQL: READ COMMITTED, so that a row that was waited for is read as it is then."""
    try:
        engine = create_engine(url, isolation_level="READ COMMITTED", hide_parameters=True, pool_size=2, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise LedgerUnavailable("PostgreSQL needs the driver psycopg: pip install 'dpselect[postgres]'") from None
    event.listen(engine, "connect", _postgresql_settings(timeout))
    _OPEN.add(engine)
    return engine


def _postgresql_settings(timeout: float) -> Callable[[Any, Any], None]:
    def settle(connection: Any, _: Any) -> None:
        milliseconds = max(1, int(timeout * 1000))
        # A role or a database may have switched synchronous_commit off: then a crash could lose charges.
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(f"SET lock_timeout = {milliseconds}")
        connection.commit()

    return settle


_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


def _forget_inherited() -> None:
    """A forked child must not talk on its parent's sockets, not even to ask whether they live: it starts with none."""
    for engine in list(_OPEN):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)


@contextmanager
def translated() -> Iterator[None]:
    """Turn database errors into `LedgerUnavailable` or `LedgerCorrupt`.

    The original is dropped, because its text holds statements, file names and sometimes credentials.
    """
    try:
        yield
    except DBAPIError as error:
        raise _explained(error) from None
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"{_REFUSED} ({type(error).__name__}){_NOTHING}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        raise LedgerCorrupt(_CORRUPT + _NOTHING) from None


def _explained(error: DBAPIError) -> LedgerError:
    reason, code = _sqlite_reason(error.orig) if isinstance(error.orig, sqlite3.Error) else _postgresql_reason(error)
    kind = LedgerCorrupt if reason == _CORRUPT else LedgerUnavailable
    return kind(f"{reason} ({code}){_NOT_THERE if reason == _MISSING else _NOTHING}")


def _sqlite_reason(error: sqlite3.Error) -> tuple[str, str]:
    # The low byte is the primary code; the extended ones only add where it happened.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if not code and "decode" in str(error):  # the driver's own: text that is not UTF-8 was not written by it
        return _CORRUPT, type(error).__name__
    return _REASONS.get(code, _REFUSED), getattr(error, "sqlite_errorname", type(error).__name__)


def _postgresql_reason(error: DBAPIError) -> tuple[str, str]:
    state = getattr(error.orig, "sqlstate", None) or ""
    if not state and (error.connection_invalidated or type(error.orig).__name__ == "OperationalError"):
        return _UNREACHABLE, "no connection"
    return _REASONS.get(state) or _REASONS.get(state[:2]) or _REFUSED, state or type(error.orig).__name__


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
                create_tables(connection)

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
_VERSION = select(meta.c.schema_version)


def _has_ledger(connection: Connection) -> bool:
    """Whether the tables are there; SchemaMismatch if the store holds something else or another version of the schema."""
    names = inspect(connection).get_table_names()
    if meta.name in names:
        _require_version(connection)
        return True
    # A PostgreSQL schema is often shared; a file that holds other tables is most likely a mistyped path.
    if names and connection.dialect.name == "sqlite":
        raise SchemaMismatch("this SQLite file holds tables but no ledger: check the URL, or give the ledger a file of its own")
    return False


def _require_version(connection: Connection) -> None:
    version = connection.execute(_VERSION).scalar()
    if version != SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} and this package reads and writes version {SCHEMA_VERSION} only: "
            "nothing was charged; use the version of dpselect that wrote it"
        )
