"""The schema, as the steps that build it. A new ledger takes all of them, an older one those that it lacks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection, inspect, select, text

from accounting.ledger import tables, triggers
from accounting.ledger.errors import LedgerCorrupt, SchemaMismatch
from accounting.ledger.model import LATER
from accounting.ledger.rows import all_datasets
from accounting.ledger.sums import rebuild

Step = Callable[[Connection], None]

# Any number, the same for all processes: two of them may open an empty PostgreSQL database at once.
_ADVISORY_LOCK = 4_105_281_901


def _base(connection: Connection) -> None:
    tables.metadata.create_all(connection, tables=[tables.meta, tables.datasets, tables.totals, tables.entries])
    for statement in triggers.statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(tables.meta.insert().values(id=1, schema_version=1, ledger_id=uuid.uuid4().hex))


def _shared_rows(connection: Connection) -> None:
    """Version 2 refuses to charge the same rows under two names."""
    tables.metadata.create_all(connection, tables=[tables.fingerprints])


def _quotas(connection: Connection) -> None:
    """Version 3 has quotas, and reservations that lapse."""
    there = {column["name"] for column in inspect(connection).get_columns(tables.entries.name)}
    for name in (name for name in LATER if name not in there):
        kind = tables.entries.c[name].type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {tables.entries.name} ADD COLUMN {name} {kind}")
    for index in tables.PARTIAL:
        index.create(connection, checkfirst=True)
    tables.metadata.create_all(connection, tables=[tables.scopes])
    for statement in triggers.no_deletion(connection.dialect.name, tables.scopes.name):
        connection.exec_driver_sql(statement)


def _settled(connection: Connection) -> None:
    """Version 4 gives back what a reservation did not use, which earlier versions would take for an edited row."""


def _sums(connection: Connection) -> None:
    """Version 5 keeps the sums that reports show. Those of an older ledger are made from its entries, once."""
    tables.metadata.create_all(connection, tables=[tables.sums])
    for statement in triggers.no_deletion(connection.dialect.name, tables.sums.name):
        connection.exec_driver_sql(statement)
    for declared in all_datasets(connection):
        # An entry that was edited is for `verify` to name: a ledger that cannot be opened could not be looked at.
        with suppress(LedgerCorrupt):
            rebuild(connection, declared)


STEPS: tuple[Step, ...] = (_base, _shared_rows, _quotas, _settled, _sums)
_VERSION = select(tables.meta.c.schema_version)


def version_of(connection: Connection) -> int:
    """The schema version in the store; 0 if it is empty.

    Raises:
        SchemaMismatch: the store belongs to something else, or to a later version of this package.
    """
    names = set(inspect(connection).get_table_names())
    if tables.meta.name not in names:
        _require_ours(connection, names)
        return 0
    version = connection.execute(select(tables.meta.c.schema_version)).scalar()
    if not isinstance(version, int) or not 1 <= version <= len(STEPS):
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} and this package knows versions 1 to {len(STEPS)}: "
            "install the version of dpselect that wrote it, or a later one"
        )
    return version


def require_current(connection: Connection) -> None:
    """Check that the store has the schema that this package writes.

    Raises:
        SchemaMismatch: another package has upgraded it since it was opened, or an older copy was put in its place.
    """
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
        connection.execute(text(f"LOCK TABLE {tables.meta.name} IN ACCESS EXCLUSIVE MODE"))
    for version in range(found, len(STEPS)):
        STEPS[version](connection)
        connection.execute(tables.meta.update().values(schema_version=version + 1))


def _require_ours(connection: Connection, names: set[str]) -> None:
    # A PostgreSQL schema is often shared; a file that holds other tables is most likely a mistyped path.
    if names and connection.dialect.name == "sqlite":
        raise SchemaMismatch("this SQLite file holds tables but no ledger: check the URL, or give the ledger a file of its own")
