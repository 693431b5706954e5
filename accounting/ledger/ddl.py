"""The tables, and the triggers that make them append-only.

Prices are integers, JSON is text: no store may round or reorder what a hash covers. The triggers stop accidents and careless
hands; an owner of the store can drop them.
"""

from __future__ import annotations

import uuid

from sqlalchemy import BigInteger, Column, Connection, ForeignKey, Index, Integer, MetaData, String, Table, Text

SCHEMA_VERSION = 1
metadata = MetaData()

meta = Table(
    "dpledger_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("ledger_id", String(64), nullable=False),
)

datasets = Table(
    "dpledger_datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("declaration", Text, nullable=False),
    Column("genesis", String(64), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
)

totals = Table(
    "dpledger_totals",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True),
    Column("period", String(16), primary_key=True),
    Column("main", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
)

entries = Table(
    "dpledger_entries",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("period", String(16), nullable=False),
    Column("action", String(16), nullable=False),
    Column("key", Text, nullable=False),
    Column("curve", Text),
    Column("mechanism", Text),
    Column("count", BigInteger, nullable=False),
    Column("main", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
    Column("spent_main", BigInteger, nullable=False),
    Column("spent_failure", BigInteger, nullable=False),
    Column("label", Text),
    Column("actor", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("at", String(64), nullable=False),
    Column("package", Text, nullable=False),
    Column("team", Text),
    Column("purpose", Text),
    Column("fingerprint", Text),
    Column("salt", Text),
    Column("expires", String(64)),
    Column("quota", Text),
    Column("across", String(16)),
    Column("prev", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    # One step of a charge happens once; a retried one finds itself here.
    Index("dpledger_entries_key", "dataset_id", "key", "period", "action", unique=True),
    # A charge holds a period's total against the last entry of it.
    Index("dpledger_entries_period", "dataset_id", "period", "seq"),
)

# Few rows of many: what every charge asks for, and what a refused one does. As text, which both databases read the same: given to
# SQLAlchemy as clauses they would load PostgreSQL's dialect, a twentieth of a short command's time, on SQLite too.
_PARTIAL = (
    "dpledger_entries_fingerprints ON dpledger_entries (fingerprint, dataset_id) WHERE fingerprint IS NOT NULL",
    "dpledger_entries_quotas ON dpledger_entries (dataset_id, seq) WHERE action = 'quota'",
    "dpledger_entries_expiring ON dpledger_entries (dataset_id, expires) WHERE expires IS NOT NULL",
)

scopes = Table(
    "dpledger_scopes",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True),
    Column("quota", BigInteger, primary_key=True),
    Column("account", Text, primary_key=True),
    Column("main", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
)

# What reports show, kept up by every charge: see `Sums`. Integers as text, for what many periods add up to may leave 64 bits.
sums = Table(
    "dpledger_sums",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("period", String(16), nullable=False),
    Column("content", Text),
    Column("runs", Text, nullable=False),
    Column("main", Text, nullable=False),
    Column("failure", Text, nullable=False),
    sqlite_with_rowid=False,
)

fingerprints = Table(
    "dpledger_fingerprints",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), nullable=False),
    Column("periods", Text, nullable=False),
)

_MESSAGE = "the ledger is append-only"
_REFUSE = (
    "CREATE FUNCTION dpledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
)


def create(connection: Connection) -> None:
    """Make the tables, indexes and triggers of a new ledger."""
    metadata.create_all(connection)
    for index in _PARTIAL:
        connection.exec_driver_sql(f"CREATE INDEX {index}")
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_REFUSE)
    for table in (meta, datasets, totals, entries, scopes, sums, fingerprints):
        _no_deletion(connection, table)
    for table in (entries, fingerprints):
        _refuse(connection, f"{table.name}_no_update", f"UPDATE ON {table.name}")
    _refuse(connection, f"{datasets.name}_no_update", f"UPDATE OF id, name, declaration, genesis ON {datasets.name}")
    connection.execute(meta.insert().values(id=1, schema_version=SCHEMA_VERSION, ledger_id=uuid.uuid4().hex))


def append_only(connection: Connection, table: Table) -> None:
    """Make the triggers of one table of a database of its own, whose rows never change."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_REFUSE.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    _refuse(connection, f"{table.name}_no_update", f"UPDATE ON {table.name}")
    _no_deletion(connection, table)


def _no_deletion(connection: Connection, table: Table) -> None:
    _refuse(connection, f"{table.name}_no_delete", f"DELETE ON {table.name}")
    if connection.dialect.name == "postgresql":
        _refuse(connection, f"{table.name}_no_truncate", f"TRUNCATE ON {table.name}", "STATEMENT")


def _refuse(connection: Connection, name: str, when: str, each: str = "ROW") -> None:
    then = f"FOR EACH {each} EXECUTE FUNCTION dpledger_refuse()"
    if connection.dialect.name == "sqlite":
        then = f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
    connection.exec_driver_sql(f"CREATE TRIGGER {name} BEFORE {when} {then}")
