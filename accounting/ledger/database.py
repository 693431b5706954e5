"""Engines whose transactions do what the ledger needs: see everything committed before, and let nobody in between.

SQLAlchemy's own transactions do not: with them eight processes overspent a budget of 20 to 26 on SQLite, and to 25 on PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from accounting.ledger.errors import LedgerUnavailable

WRITES = "dpledger_writes"
# EXTRA also syncs the directory: a charge must survive a power cut, or its noise would be out without it.
_SETTINGS = ("synchronous = EXTRA", "foreign_keys = ON", "trusted_schema = OFF")


def checked_url(url: str) -> URL:
    """The parsed URL, with the driver that the ledger uses.

    Raises:
        LedgerUnavailable: not a URL of a SQLite file or a PostgreSQL database.
    """
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
    """An engine on PostgreSQL: READ COMMITTED, so that a row that was waited for is read as it is then.

    Raises:
        LedgerUnavailable: the driver is not installed.
    """
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
