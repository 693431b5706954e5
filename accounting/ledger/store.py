"""`Store`: a place that holds a ledger, the steps that build its schema, and the two kinds of transaction on it."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, final

from sqlalchemy import URL, Connection, Engine, inspect, select, text

from accounting.ledger import ddl
from accounting.ledger.database import WRITES, checked_url, postgresql_engine, sqlite_engine, translated
from accounting.ledger.errors import LedgerCorrupt, SchemaMismatch
from accounting.ledger.model import LATER
from accounting.ledger.statements import Declared, all_datasets, find_dataset, lock_dataset
from accounting.ledger.stored_text import checked_name
from accounting.ledger.sums import rebuild


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


def _base(connection: Connection) -> None:
    ddl.metadata.create_all(connection, tables=[ddl.meta, ddl.datasets, ddl.totals, ddl.entries])
    ddl.append_only_ledger(connection)
    connection.execute(ddl.meta.insert().values(id=1, schema_version=1, ledger_id=uuid.uuid4().hex))


def _shared_rows(connection: Connection) -> None:
    """Version 2 refuses to charge the same rows under two names."""
    ddl.metadata.create_all(connection, tables=[ddl.fingerprints])


def _quotas(connection: Connection) -> None:
    """Version 3 has quotas, and reservations that lapse."""
    there = {column["name"] for column in inspect(connection).get_columns(ddl.entries.name)}
    for name in (name for name in LATER if name not in there):
        kind = ddl.entries.c[name].type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {ddl.entries.name} ADD COLUMN {name} {kind}")
    for index in ddl.PARTIAL:
        connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS {index}")
    ddl.metadata.create_all(connection, tables=[ddl.scopes])
    ddl.no_deletion(connection, ddl.scopes)


def _settled(connection: Connection) -> None:
    """Version 4 gives back what a reservation did not use, which earlier versions would take for an edited row."""


def _sums(connection: Connection) -> None:
    """Version 5 keeps the sums that reports show. Those of an older ledger are made from its entries, once."""
    ddl.metadata.create_all(connection, tables=[ddl.sums])
    ddl.no_deletion(connection, ddl.sums)
    for declared in all_datasets(connection):
        # An entry that was edited is for `verify` to name: a ledger that cannot be opened could not be looked at.
        with suppress(LedgerCorrupt):
            rebuild(connection, declared)


# The schema: a new ledger takes all of these steps, an older one those that it lacks.
STEPS: tuple[Callable[[Connection], None], ...] = (_base, _shared_rows, _quotas, _settled, _sums)
_VERSION = select(ddl.meta.c.schema_version)


def version_of(connection: Connection) -> int:
    """The schema version in the store; 0 if it is empty. A store of something else or of a later package is refused."""
    names = inspect(connection).get_table_names()
    if ddl.meta.name not in names:
        # A PostgreSQL schema is often shared; a file that holds other tables is most likely a mistyped path.
        if names and connection.dialect.name == "sqlite":
            raise SchemaMismatch(
                "this SQLite file holds tables but no ledger: check the URL, or give the ledger a file of its own"
            )
        return 0
    version = connection.execute(_VERSION).scalar()
    if not isinstance(version, int) or not 1 <= version <= len(STEPS):
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} and this package knows versions 1 to {len(STEPS)}: "
            "install the version of dpselect that wrote it, or a later one"
        )
    return version


def require_current(connection: Connection) -> None:
    """Refuse a store that another package has upgraded since it was opened, or in whose place an older copy was put."""
    version = connection.execute(_VERSION).scalar()
    if version != len(STEPS):
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} by now, and this package writes {len(STEPS)}: nothing was charged; "
            "install the version of dpselect that upgraded it, and open it again"
        )


def migrate(connection: Connection) -> None:
    """Bring the store to the current version, in the transaction of `connection`."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    found = version_of(connection)
    if connection.dialect.name == "postgresql" and 0 < found < len(STEPS):
        # Every writer has read the version first: those of the old one are waited for, and later ones find the new one.
        connection.execute(text(f"LOCK TABLE {ddl.meta.name} IN ACCESS EXCLUSIVE MODE"))
    for version in range(found, len(STEPS)):
        STEPS[version](connection)
        connection.execute(ddl.meta.update().values(schema_version=version + 1))
