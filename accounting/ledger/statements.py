"""The tables, the triggers that make them append-only, the statements on them, and rows as objects.

Prices are integers, JSON is text: no store may round or reorder what a hash covers. The triggers stop accidents and careless
hands; an owner of the store can drop them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Row,
    Select,
    String,
    Table,
    Text,
    bindparam,
    func,
    insert,
    select,
    update,
)

from accounting.arguments import Relation
from accounting.budget.budget import NOTHING, Budget, Price
from accounting.errors import AccountingError
from accounting.ledger.errors import DatasetExists, InvalidEntry, LedgerCorrupt, UnknownDataset
from accounting.ledger.model import ENTRY_FIELDS, Dataset, Entry
from accounting.ledger.stored_text import checked_text, checked_window, checked_zone, digest, read_json

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


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


def create_tables(connection: Connection) -> None:
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


_STORED = tuple(name for name in ENTRY_FIELDS if name != "dataset")
_COLUMNS = ("dataset_id", *_STORED)
_stored = attrgetter(*_STORED)
_SOUND: set[tuple[type, ...]] = set()  # the types of values that were found to be an entry's
_OPTIONAL = {column.name for column in entries.columns if column.nullable}
_NUMBERS = {column.name for column in entries.columns if column.type.python_type is int}


class Declared:
    """A dataset's row: its declaration, and where its chain stands."""

    __slots__ = ("dataset", "declaration", "genesis", "head", "id", "seq")

    def __init__(self, row: Row[Any]) -> None:
        checked_types({"seq": row.seq, "prev": row.genesis, "hash": row.head})
        self.id: int = row.id
        self.declaration: str = row.declaration
        self.dataset = read_declaration(row.declaration)
        self.genesis: str = row.genesis
        self.seq: int = row.seq
        self.head: str = row.head


@lru_cache(maxsize=256)
def read_declaration(text: str) -> Dataset:
    """The declaration that `text` holds; LedgerCorrupt if it holds none."""
    try:
        data = read_json(text)
        budget = Budget.model_validate(read_json(data.pop("budget")))
        dataset = Dataset(**data, budget=budget)
        checked_window(dataset.window)
        _check_fields(dataset)
    except (AccountingError, TypeError, KeyError):
        raise LedgerCorrupt("a dataset's declaration cannot be read: it was edited") from None
    return dataset


def _check_fields(dataset: Dataset) -> None:
    if dataset.relation not in get_args(Relation) or not (dataset.data_period is None or isinstance(dataset.data_period, str)):
        raise InvalidEntry("a field of the declaration has no such value")
    checked_zone(dataset.time_zone)
    for name in ("name", "unit", "actor", "host", "at", "package", "uid"):
        checked_text(name, getattr(dataset, name))


# Statements that every charge runs are built once: building them costs as much time as running them.
_DATASET = select(datasets).where(datasets.c.name == bindparam("name"))
# The dataset's row, held against every other charge. (SQLite has locked the file by then, and ignores FOR UPDATE.)
_LOCKED_DATASET = _DATASET.with_for_update()
_MINE = (totals.c.dataset_id == bindparam("mine")) & (totals.c.period == bindparam("account"))
_SPENT = select(totals.c.main, totals.c.failure).where(_MINE)
_LAST = (
    select(entries.c.spent_main, entries.c.spent_failure)
    .where(entries.c.dataset_id == bindparam("mine"), entries.c.period == bindparam("account"), entries.c.action != "quota")
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_SET_HEAD = (
    update(datasets).where(datasets.c.id == bindparam("mine")).values(seq=bindparam("new_seq"), head=bindparam("new_head"))
)
# Not ordered here: SQLite would walk all of the dataset in that order, and take a second for a million entries.
_CHARGES = select(entries).where(entries.c.dataset_id == bindparam("mine"), entries.c.action != "quota")
_OF_KEYS = _CHARGES.where(entries.c.key.in_(bindparam("wanted", expanding=True)))
BLOCK, _MOST_KEYS = 2_000, 500


def declare(connection: Connection, dataset: Dataset) -> None:
    """Store a declaration; DatasetExists if the name is taken."""
    wait_for_declarations(connection)
    if connection.execute(select(datasets.c.id).where(datasets.c.name == dataset.name)).first():
        raise DatasetExists(f"dataset={dataset.name!r} is already declared, and a declaration stays: choose another name")
    insert_dataset(connection, dataset.name, dataset.declaration())


def wait_for_declarations(connection: Connection) -> None:
    """Declare datasets one process at a time: in one order, and a name that is taken is refused in the ledger's own words."""
    connection.execute(select(meta).with_for_update())


def insert_dataset(connection: Connection, name: str, declaration: str) -> None:
    """Start a dataset's chain, at the hash of its declaration."""
    genesis = digest(declaration)
    connection.execute(insert(datasets).values(name=name, declaration=declaration, genesis=genesis, seq=0, head=genesis))


def lock_dataset(connection: Connection, name: str) -> Declared:
    """The dataset's row under its lock."""
    return find_dataset(connection, name, _LOCKED_DATASET)


def find_dataset(connection: Connection, name: str, query: Select[Any] = _DATASET) -> Declared:
    """The dataset's row; UnknownDataset if there is none."""
    row = connection.execute(query, {"name": name}).one_or_none()
    if row is None:
        raise UnknownDataset(f"dataset={name!r} is not declared in this ledger: declare it, or check the name")
    return Declared(row)


def all_datasets(connection: Connection) -> list[Declared]:
    """Every dataset, in the order of declaration."""
    return [Declared(row) for row in connection.execute(select(datasets).order_by(datasets.c.id))]


def spent_in(connection: Connection, dataset_id: int, period: str) -> Price:
    """What a period has been charged so far."""
    row = connection.execute(_SPENT, {"mine": dataset_id, "account": period}).one_or_none()
    return NOTHING if row is None else read_price(row.main, row.failure)


def require_total(connection: Connection, dataset_id: int, period: str, spent: Price) -> None:
    """Check that a total is what the last entry of its period states; LedgerCorrupt if one of them was edited."""
    row = connection.execute(_LAST, {"mine": dataset_id, "account": period}).one_or_none()
    if (NOTHING if row is None else read_price(row.spent_main, row.spent_failure)) != spent:
        raise LedgerCorrupt(
            "the running total of a period is not that of its last entry: one of them was edited. Nothing was charged, nothing "
            "may be released: run `dpselect ledger verify`"
        )


def all_totals(connection: Connection, dataset_id: int) -> list[tuple[str, Price]]:
    """(period, spent) for every period with a charge, in order."""
    rows = connection.execute(select(totals).where(totals.c.dataset_id == dataset_id))
    return sorted((str(row.period), read_price(row.main, row.failure)) for row in rows)


def read_price(main: int, failure: int) -> Price:
    """What a row of totals or of a quota's accounts has been charged."""
    return Price(**checked_types({"main": main, "failure": failure}))


def set_total(connection: Connection, dataset_id: int, period: str, spent: Price) -> None:
    """Write a period's running total."""
    put(connection, totals, [{"dataset_id": dataset_id, "period": period, **spent._asdict()}])


class Held(NamedTuple):
    """What an account of a quota has been charged; `seq` is the entry that declares the quota."""

    seq: int
    account: str
    spent: Price


_HELD = select(scopes.c.account, scopes.c.main, scopes.c.failure).where(
    scopes.c.dataset_id == bindparam("mine"),
    scopes.c.quota == bindparam("seq"),
    scopes.c.account.in_(bindparam("accounts", expanding=True)),
)


def held_by(connection: Connection, dataset_id: int, seq: int, accounts: list[str]) -> dict[str, Price]:
    """What the accounts of a quota have been charged so far."""
    rows = connection.execute(_HELD, {"mine": dataset_id, "seq": seq, "accounts": accounts})
    found = {row.account: read_price(row.main, row.failure) for row in rows}
    return {account: found.get(account, NOTHING) for account in accounts}


def all_held(connection: Connection, dataset_id: int) -> list[Held]:
    """Every account of every quota that was ever declared."""
    rows = connection.execute(select(scopes).where(scopes.c.dataset_id == dataset_id))
    return [Held(row.quota, row.account, read_price(row.main, row.failure)) for row in rows]


def set_held(connection: Connection, dataset_id: int, held: Iterable[Held]) -> None:
    """Write what accounts of quotas have been charged."""
    mine = {"dataset_id": dataset_id}
    put(connection, scopes, [{**mine, "quota": seq, "account": account, **spent._asdict()} for seq, account, spent in held])


def put(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write rows in the place of those with the same primary keys."""
    if rows:
        connection.execute(_put(table, connection.dialect.name), rows)


def _upserting(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    found: sqlite.Insert | postgresql.Insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    return found


@cache
def _put(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    statement = _upserting(table, dialect)
    new = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new)


def set_head(connection: Connection, dataset_id: int, seq: int, head: str) -> None:
    """Write where a dataset's chain stands."""
    connection.execute(_SET_HEAD, {"mine": dataset_id, "new_seq": seq, "new_head": head})


def insert_entries(connection: Connection, dataset_id: int, batch: Sequence[Entry]) -> None:
    """Append entries, past SQLAlchemy's handling of each parameter, which costs more than the rows do."""
    rows = [(dataset_id, *_stored(entry)) for entry in batch]
    sql = _insert(connection.dialect)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(sql, rows)
    else:
        connection.exec_driver_sql(sql, (json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows]),))


@cache
def _insert(dialect: Dialect) -> str:
    names = [dialect.identifier_preparer.quote(name) for name in _COLUMNS]
    into = f"INSERT INTO {entries.name} ({', '.join(names)})"
    if dialect.name == "sqlite":
        return f"{into} VALUES ({', '.join('?' for _ in names)})"
    # One statement for all rows. Texts are not cast to the columns' lengths, which would cut them, but held against them.
    types = ", ".join(f"{name} {'bigint' if name in _NUMBERS else 'text'}" for name in names)
    return f"{into} SELECT {', '.join(names)} FROM json_to_recordset(%s::json) AS given ({types})"


def read_entry(dataset: str, row: Row[Any]) -> Entry:
    """A row as an entry, if its values have their types: SQLite does not mind what an editor writes into a column."""
    values = _stored(row)
    if (kinds := tuple(map(type, values))) not in _SOUND:
        checked_types(dict(zip(_STORED, values, strict=True)))
        _SOUND.add(kinds)  # integers of both stores have 64 bits
    return Entry(dataset, *values)


def checked_types(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an entry, each of its type; LedgerCorrupt if one is not."""
    for name, value in values.items():
        if not (_is_number(value) if name in _NUMBERS else isinstance(value, str) or (value is None and name in _OPTIONAL)):
            raise LedgerCorrupt(f"field {name!r} of an entry, a dataset or a total is of the wrong type: it was edited")
    return values


def _is_number(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def entries_of_keys(connection: Connection, dataset: Declared, keys: list[str]) -> dict[str, list[Entry]]:
    """All steps under each idempotency key, in order; an empty list for one that is new."""
    found: dict[str, list[Entry]] = {key: [] for key in keys}
    for start in range(0, len(keys), _MOST_KEYS):
        asked = {"mine": dataset.id, "wanted": keys[start : start + _MOST_KEYS]}
        for row in connection.execute(_OF_KEYS, asked):
            found[row.key].append(read_entry(dataset.dataset.name, row))
    return {key: sorted(steps, key=lambda entry: entry.seq) for key, steps in found.items()}


def entries_after(connection: Connection, dataset: Declared, seq: int, limit: int = BLOCK) -> list[Entry]:
    """At most `limit` entries with numbers above `seq`, up to the dataset's stated end, in order."""
    mine = (entries.c.dataset_id == dataset.id) & (entries.c.seq > seq) & (entries.c.seq <= dataset.seq)
    rows = connection.execute(select(entries).where(mine).order_by(entries.c.seq).limit(limit))
    return [read_entry(dataset.dataset.name, row) for row in rows]


def blocks(connection: Connection, dataset: Declared) -> Iterator[list[Entry]]:
    """All entries up to the dataset's stated end, in order, some thousands at a time."""
    seq = 0
    while batch := entries_after(connection, dataset, seq):
        yield batch
        seq = batch[-1].seq


def latest_entries(connection: Connection, dataset: Declared, limit: int) -> list[Entry]:
    """The last entries, latest first."""
    mine = select(entries).where(entries.c.dataset_id == dataset.id)
    rows = connection.execute(mine.order_by(entries.c.seq.desc()).limit(limit))
    return [read_entry(dataset.dataset.name, row) for row in rows]


def last_claim(connection: Connection, dataset: Declared, start: str, before: int | None) -> Entry | None:
    """The latest release whose claim starts so, of those before an entry; every release may be looked at."""
    released = (entries.c.dataset_id == dataset.id) & (entries.c.action == "release") & (entries.c.seq <= dataset.seq)
    mine = released & (func.substr(entries.c.label, 1, len(start)) == start)
    earlier = mine if before is None else mine & (entries.c.seq < before)
    row = connection.execute(select(entries).where(earlier).order_by(entries.c.seq.desc()).limit(1)).one_or_none()
    return None if row is None else read_entry(dataset.dataset.name, row)


def claim_rows(connection: Connection, dataset: Declared, fingerprint: str, periods: Iterable[str]) -> bool:
    """Whether the rows with this fingerprint belong to the dataset and periods; unclaimed ones do from now on."""
    wanted = json.dumps(list(periods))
    values = {"fingerprint": fingerprint, "dataset_id": dataset.id, "periods": wanted}
    connection.execute(_upserting(fingerprints, connection.dialect.name).values(values).on_conflict_do_nothing())
    row = connection.execute(select(fingerprints).where(fingerprints.c.fingerprint == fingerprint)).one()
    return bool(row.dataset_id == dataset.id and row.periods == wanted)
