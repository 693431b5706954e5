"""Store of a ledger: tables, append-only triggers, rows, and two kinds of transaction.

Costs are integers and JSON is text, because no store may round or reorder content that a hash
covers. The triggers stop accidents and careless hands, but an owner of the store can drop them. A
transaction of a `Store` sees everything committed before and lets nobody in between, and its errors
say what to do. SQLAlchemy's own transactions are not enough: with them, eight processes overspent a
budget of 20 to 26 on SQLite, and to 25 on PostgreSQL.
"""

from __future__ import annotations

import os
import re
import sqlite3
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, final
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    and_,
    bindparam,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from accounting.address import hide_passwords, mask, reveal
from accounting.cost import NOTHING, Cost
from accounting.errors import missing_extra
from accounting.files import PRIVATE
from accounting.ledger.errors import (
    DatasetExists,
    InvalidEntry,
    LedgerCorrupt,
    LedgerError,
    LedgerUnavailable,
    SchemaMismatch,
    UnknownDataset,
)
from accounting.ledger.model import DECLARES, ENTRY_FIELDS, Dataset, Entry
from accounting.ledger.stored_text import digest

# -- tables ----------------------------------------------------------------------------------------

SCHEMA_VERSION = 2
metadata: MetaData = MetaData()

meta: Table = Table(
    "dpledger_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("ledger_id", String(64), nullable=False),
)

datasets: Table = Table(
    "dpledger_datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("declaration", Text, nullable=False),
    Column("genesis", String(64), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
)

totals: Table = Table(
    "dpledger_totals",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True),
    Column("period", String(16), primary_key=True),
    Column("main", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
)

_SIZES = {"period": 16, "action": 16, "across": 16, "at": 64, "expires": 64, "prev": 64, "hash": 64}


def _entry_column(name: str, kind: str) -> Column[Any]:
    """Return the column of an entry's field, from its annotation."""
    stored = BigInteger() if kind == "int" else String(_SIZES[name]) if name in _SIZES else Text()
    return Column(
        name, stored, nullable="None" in kind, primary_key=name == "seq", autoincrement=False
    )


entries: Table = Table(
    "dpledger_entries",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True, autoincrement=False),
    *(_entry_column(field.name, str(field.type)) for field in fields(Entry)[1:]),
    # One step of a charge happens once; a retried one finds itself here.
    Index("dpledger_entries_key", "dataset_id", "key", "period", "action", unique=True),
    # A charge holds a period's total against the last entry of it.
    Index("dpledger_entries_period", "dataset_id", "period", "seq"),
)

# Few rows of many: what every charge asks for, and what a refused one does. As text, which both
# databases read the same: given to SQLAlchemy as clauses they would load PostgreSQL's dialect, a
# twentieth of a short command's time, on SQLite too.
_PARTIAL = (
    (
        "dpledger_entries_fingerprints ON dpledger_entries (fingerprint, dataset_id) WHERE"
        " fingerprint IS NOT NULL"
    ),
    "dpledger_entries_quotas ON dpledger_entries (dataset_id, seq) WHERE action = 'quota'",
    "dpledger_entries_expiring ON dpledger_entries (dataset_id, expires) WHERE expires IS NOT NULL",
)

scopes: Table = Table(
    "dpledger_scopes",
    metadata,
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), primary_key=True),
    Column("quota", BigInteger, primary_key=True),
    Column("account", Text, primary_key=True),
    Column("main", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
)

fingerprints: Table = Table(
    "dpledger_fingerprints",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("dataset_id", Integer, ForeignKey(datasets.c.id), nullable=False),
    Column("periods", Text, nullable=False),
)

_MESSAGE = "the ledger is append-only"
_REFUSE = (
    "CREATE FUNCTION dpledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE"
    f" EXCEPTION '{_MESSAGE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
)


def _create_tables(connection: Connection) -> None:
    """Make the tables, indexes and triggers of a new ledger."""
    metadata.create_all(connection)
    for index in _PARTIAL:
        connection.exec_driver_sql(f"CREATE INDEX {index}")
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_REFUSE)
    for table in (meta, datasets, totals, entries, scopes, fingerprints):
        _refuse(connection, f"{table.name}_no_delete", f"DELETE ON {table.name}")
        if connection.dialect.name == "postgresql":
            _refuse(
                connection, f"{table.name}_no_truncate", f"TRUNCATE ON {table.name}", "STATEMENT"
            )
    for table in (entries, fingerprints):
        _refuse(connection, f"{table.name}_no_update", f"UPDATE ON {table.name}")
    _refuse(
        connection,
        f"{datasets.name}_no_update",
        f"UPDATE OF id, name, declaration, genesis ON {datasets.name}",
    )
    connection.execute(
        meta.insert().values(id=1, schema_version=SCHEMA_VERSION, ledger_id=uuid.uuid4().hex)
    )


def _refuse(connection: Connection, name: str, when: str, each: str = "ROW") -> None:
    action = f"FOR EACH {each} EXECUTE FUNCTION dpledger_refuse()"
    if connection.dialect.name == "sqlite":
        action = f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
    connection.exec_driver_sql(f"CREATE TRIGGER {name} BEFORE {when} {action}")


# -- rows ------------------------------------------------------------------------------------------

STORED: tuple[str, ...] = ENTRY_FIELDS[1:]  # all but the dataset's name
stored: Callable[[Any], tuple[Any, ...]] = attrgetter(*STORED)
_SOUND: set[tuple[type, ...]] = set()  # the types of values that were found to be an entry's
_OPTIONAL = {column.name for column in entries.columns if column.nullable}
_NUMBERS = {column.name for column in entries.columns if column.type.python_type is int}


class Declared:
    """A dataset's row: its declaration and its chain head."""

    __slots__ = ("dataset", "declaration", "genesis", "head", "id", "seq")

    def __init__(self, row: Row[Any]) -> None:
        check_types(
            {"seq": row.seq, "prev": row.genesis, "hash": row.head, "declaration": row.declaration}
        )
        self.id: int = row.id
        self.declaration: str = row.declaration
        self.dataset: Dataset = Dataset.from_declaration(row.declaration)
        self.genesis: str = row.genesis
        self.seq: int = row.seq
        self.head: str = row.head


_DATASET = select(datasets).where(datasets.c.name == bindparam("name"))
# The dataset's row, held against every other charge. (SQLite has locked the file by then, and
# ignores FOR UPDATE.)
_LOCKED_DATASET = _DATASET.with_for_update()
# Not ordered here: SQLite would walk all of the dataset in that order, and take a second for a
# million entries.
IS_STEP: ColumnElement[bool] = and_(*(entries.c.action != action for action in DECLARES))
"""Of an entry: it is a step of a charge, and no declaration."""
_CHARGES = select(entries).where(entries.c.dataset_id == bindparam("mine"), IS_STEP)
_OF_KEYS = _CHARGES.where(entries.c.key.in_(bindparam("wanted", expanding=True)))
BLOCK, _MOST_KEYS = 2_000, 500


def declare(connection: Connection, name: str, declaration: str) -> None:
    """Start a dataset's chain at the hash of its declaration.

    Raises:
        DatasetExists: the name is taken.
    """
    # One process at a time: in one order, and a name that is taken is refused in the ledger's own
    # words.
    connection.execute(select(meta).with_for_update())
    if connection.execute(select(datasets.c.id).where(datasets.c.name == name)).first():
        raise DatasetExists(
            f"dataset={name!r} is already declared, and declarations never change. Choose"
            " another name"
        )
    genesis = digest(declaration)
    connection.execute(
        insert(datasets).values(
            name=name, declaration=declaration, genesis=genesis, seq=0, head=genesis
        )
    )


def find_dataset(connection: Connection, name: str, *, locked: bool = False) -> Declared:
    """Return the dataset's row, under its lock if `locked`.

    Raises:
        UnknownDataset: the ledger declares no such dataset.
    """
    row = connection.execute(_LOCKED_DATASET if locked else _DATASET, {"name": name}).one_or_none()
    if row is None:
        raise UnknownDataset(
            f"dataset={name!r} is not declared in this ledger. Declare it, or check the name"
        )
    return Declared(row)


def all_datasets(connection: Connection) -> list[Declared]:
    """Return every dataset, in the order of declaration."""
    return [Declared(row) for row in connection.execute(select(datasets).order_by(datasets.c.id))]


def all_totals(connection: Connection, dataset_id: int) -> dict[str, Cost]:
    """Return the sum of every period with a charge, in order."""
    rows = connection.execute(select(totals).where(totals.c.dataset_id == dataset_id))
    return dict(sorted((str(row.period), read_cost(row)) for row in rows))


def all_account_sums(connection: Connection, dataset_id: int) -> dict[tuple[int, str], Cost]:
    """Return the sum of every account of every quota ever declared.

    Keys are the entry that declares the quota, and the account's name.
    """
    rows = connection.execute(select(scopes).where(scopes.c.dataset_id == dataset_id))
    return {(row.quota, row.account): read_cost(row) for row in rows}


def read_cost(row: Any) -> Cost:
    """Return the sum charged to an account, a period's or a quota's; nothing if it has no row."""
    return (
        NOTHING if row is None else Cost(**check_types({"main": row.main, "failure": row.failure}))
    )


def _read_entry(dataset: str, row: Row[Any]) -> Entry:
    """Return a row as an entry, if its values have their types.

    SQLite accepts any value that an editor writes into a column.
    """
    values = stored(row)
    if (kinds := tuple(map(type, values))) not in _SOUND:
        check_types(dict(zip(STORED, values, strict=True)))
        _SOUND.add(kinds)  # integers of both stores have 64 bits
    return Entry(dataset, *values)


@cache
def upsert(table: Table) -> Any:
    """Return SQL that writes rows over those with the same primary keys; claimed rows stay.

    It is text because both stores read the same.
    """
    names, keys = [
        [column.name for column in columns]
        for columns in (table.columns, table.primary_key.columns)
    ]
    new = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    action = "NOTHING" if table is fingerprints else f"UPDATE SET {new}"
    values = ", ".join(f":{name}" for name in names)
    into = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({values})"
    return text(f"{into} ON CONFLICT ({', '.join(keys)}) DO {action}")


def check_types(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry after a check of their types.

    Raises:
        LedgerCorrupt: a field has the wrong type.
    """
    for name, value in values.items():
        fits = (
            type(value) is int and -(2**63) <= value < 2**63
            if name in _NUMBERS
            else isinstance(value, str)
        )
        if not (fits or (value is None and name in _OPTIONAL)):
            raise LedgerCorrupt(
                f"field {name!r} of an entry, a dataset or a total has the wrong type, so it"
                " was edited"
            )
    return values


def entries_of_keys(
    connection: Connection, dataset: Declared, keys: list[str]
) -> dict[str, list[Entry]]:
    """Return all steps under each idempotency key, in order; an empty list for a new key."""
    steps_of: dict[str, list[Entry]] = {key: [] for key in keys}
    for start in range(0, len(keys), _MOST_KEYS):
        parameters = {"mine": dataset.id, "wanted": keys[start : start + _MOST_KEYS]}
        for row in connection.execute(_OF_KEYS, parameters):
            steps_of[row.key].append(_read_entry(dataset.dataset.name, row))
    return {key: sorted(steps, key=lambda entry: entry.seq) for key, steps in steps_of.items()}


def select_entries(
    connection: Connection,
    dataset: Declared,
    *conditions: ColumnElement[bool],
    limit: int | None = None,
    latest: bool = False,
) -> list[Entry]:
    """Return the dataset's entries that satisfy all conditions, at most `limit`.

    They are in order, or latest first.
    """
    order = entries.c.seq.desc() if latest else entries.c.seq
    rows = connection.execute(
        select(entries)
        .where(entries.c.dataset_id == dataset.id, *conditions)
        .order_by(order)
        .limit(limit)
    )
    return [_read_entry(dataset.dataset.name, row) for row in rows]


class TailRemoved(LedgerCorrupt):
    """Error raised if the entries end before the chain head that the dataset states."""


def stream(
    connect: Callable[[], AbstractContextManager[Connection]], declared: Declared
) -> Iterator[Entry]:
    """Yield the entries up to the dataset's chain head, in short transactions.

    No charge waits for them. `read` opens each transaction.

    Raises:
        TailRemoved: the entries end before the chain head.
    """
    seq = 0
    while seq < declared.seq:
        with connect() as connection:
            after = entries.c.seq > seq, entries.c.seq <= declared.seq
            batch = select_entries(connection, declared, *after, limit=BLOCK)
        if not batch:
            raise TailRemoved(
                "the entries end before the chain head that the dataset states, so the last"
                " ones were removed"
            )
        yield from batch
        seq = batch[-1].seq


# -- connections -----------------------------------------------------------------------------------

_WRITES = "dpledger_writes"
# EXTRA also syncs the directory: a charge must survive a power cut, or its noise would be out
# without it.
_SETTINGS = ("synchronous = EXTRA", "foreign_keys = ON", "trusted_schema = OFF")

_LOCKED = (
    "the ledger is locked by another process for longer than the timeout. Try again, or raise"
    " timeout="
)
_FULL = "the disk of the ledger is full. Free some space"
_READ_ONLY = (
    "the ledger is read-only. Get write permission on the file and its directory, or a writing role"
)
_MISSING = (
    "the ledger cannot be opened. Check that the file and its directory exist and may be read"
)
_WRITE = (
    "the ledger's disk failed to read or write. Check the disk and its quota, and then run verify"
)
_CORRUPT = (
    "the ledger's file is damaged or not a SQLite database. Restore a backup and verify it"
    " against an exported chain head"
)
_WRITE_AHEAD = (
    "the ledger's file is in WAL mode, in which a file that was cut short cannot be detected,"
    " and nothing was written to it. Switch it back while nobody uses it (sqlite3 FILE 'PRAGMA"
    " journal_mode=DELETE') and repeat this with the same key"
)
_UNREACHABLE = "the ledger's database server cannot be reached or ended the connection"
_REFUSED = "the database refused the operation"
# What to do: of a ledger that is opened for the first time, of one that was there when it was
# opened, and of a failed write. Only the first can know that nothing was charged so far.
_NOT_THERE = (
    ". This call has charged nothing. Check the name. If there has never been a ledger, make"
    " one with `dpselect ledger init`"
)
_GONE = (
    ". The file existed when the ledger was opened, and its charges stay charged. Put the file"
    " back before anything else"
)
_NOTHING = ". Nothing may be released. If the charge was being written, repeat it with the same key"

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


# Two letters at least: Windows has paths such as C:\privacy.db.
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:")


def parse_url(url: str | os.PathLike[str] | URL) -> URL:
    """Return the URL of a SQLite file or PostgreSQL database, with the driver that the ledger uses.

    What has no scheme is the path of a SQLite file.

    Raises:
        InvalidEntry: it is neither such a URL nor a path.
    """
    stated = reveal(url) if isinstance(url, str) else url
    if isinstance(stated, os.PathLike) or (
        isinstance(stated, str) and stated and not _SCHEME.match(stated)
    ):
        stated = URL.create("sqlite", database=os.fspath(stated))
    try:
        parsed = make_url(stated)
    except (ArgumentError, ValueError):
        raise InvalidEntry(
            "the ledger's address cannot be read. Name a SQLite file, such as privacy.db, or write"
            " postgresql://host/name"
        ).at("ledger") from None
    backend = (
        parsed.get_backend_name()
        if parsed.drivername in ("sqlite", "sqlite+pysqlite")
        else parsed.drivername
    )
    if backend == "sqlite":
        if (
            parsed.database in (None, "", ":memory:")
            or str(parsed.database).startswith("file:")
            or parsed.query
        ):
            raise InvalidEntry(
                "a ledger in memory is lost at exit. Name a file without options, for example"
                " privacy.db"
            ).at("ledger")
        return parsed.set(drivername="sqlite", database=str(Path(str(parsed.database)).absolute()))
    if backend in ("postgresql", "postgresql+psycopg", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidEntry(
        "a ledger's URL must be sqlite:///file or postgresql://host/name, not"
        f" {parsed.drivername}://"
    ).at("ledger")


def absolute_address(address: str) -> str:
    """The address, with the full path of an SQLite file in place of one from the current folder."""
    url = parse_url(address)
    if url.get_backend_name() != "sqlite":
        return address
    full = url.set(database=os.path.realpath(str(url.database)))
    return full.render_as_string(hide_password=False)


def _hide_password(url: URL) -> URL:
    query = {
        name: "***" if "***" in hide_passwords(f"{name}=secret") else value
        for name, value in url.query.items()
    }
    return url.set(password="***" if url.password else None, query=query)


def _sqlite_engine(url: URL, *, create: bool, timeout: float, mode: int) -> Engine:
    """Return an engine on a SQLite file, with transaction control taken over from the driver.

    No connection is kept, because it would follow a file that was moved away, or a fork. The
    journal has the file's permissions.
    """

    def open_file() -> sqlite3.Connection:
        if create:
            with suppress(OSError):  # it is there, or SQLite says why it cannot be made
                os.close(os.open(str(url.database), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        name = f"file:{quote(str(url.database))}?mode={'rwc' if create else 'rw'}"
        # isolation_level=None: the driver sends no BEGIN or COMMIT of its own.
        connection = sqlite3.connect(name, uri=True, timeout=timeout, isolation_level=None)
        try:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    engine = create_engine(url, creator=open_file, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "begin", begin)
    return engine


def _postgresql_engine(url: URL, *, timeout: float) -> Engine:
    """Return an engine on PostgreSQL with isolation level READ COMMITTED.

    At that level, a row that was waited for is read as it is after the wait.
    """

    def settle(connection: Any, _: Any) -> None:
        # A role or a database may have switched synchronous_commit off: then a crash could lose
        # charges.
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(f"SET lock_timeout = {max(1, int(timeout * 1000))}")
        connection.commit()

    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",
            hide_parameters=True,
            pool_size=2,
            pool_pre_ping=True,
        )
    except ModuleNotFoundError:
        raise missing_extra("PostgreSQL needs the driver psycopg", "postgres") from None
    event.listen(engine, "connect", settle)
    _OPEN.add(engine)
    return engine


_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


def _forget_inherited() -> None:
    """Drop inherited connections in a forked child.

    It must not talk on its parent's sockets, not even to ask whether they live.
    """
    for engine in list(_OPEN):
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_inherited)


@contextmanager
def _translate_errors(missing: str = _GONE) -> Iterator[None]:
    """Turn database errors into `LedgerUnavailable` or `LedgerCorrupt`.

    `missing` is the advice for a file that is not there.

    The original is emptied. Its text has statements, file names and sometimes credentials, its
    driver's error has the whole connection, and errors raised at the end of a block are chained to
    it.
    """
    try:
        yield
    except DBAPIError as error:
        explained = _explain(error, missing)
        _empty(error)
        raise explained from None
    except SQLAlchemyError as error:
        _empty(error)
        raise LedgerUnavailable(f"{_REFUSED} ({type(error).__name__}){_NOTHING}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        raise LedgerCorrupt(_CORRUPT + _NOTHING) from None


def _empty(error: SQLAlchemyError) -> None:
    vars(error).update(orig=None, statement=None, params=None, detail=[])
    error.args = (type(error).__name__,)
    error.__cause__ = error.__context__ = None


def _explain(error: DBAPIError, missing: str) -> LedgerError:
    name = type(error.orig).__name__
    if isinstance(error.orig, sqlite3.Error):
        # The low byte is the primary code; the extended ones only add where it happened.
        number, code = (
            getattr(error.orig, "sqlite_errorcode", 0) & 0xFF,
            getattr(error.orig, "sqlite_errorname", name),
        )
        # Text that is not UTF-8, which the driver refuses, was not written by it.
        reason = (
            _CORRUPT
            if not number and "decode" in str(error.orig)
            else _REASONS.get(number, _REFUSED)
        )
    else:
        state = getattr(error.orig, "sqlstate", None) or ""
        is_disconnected = not state and (error.connection_invalidated or name == "OperationalError")
        reason = (
            _UNREACHABLE
            if is_disconnected
            else _REASONS.get(state) or _REASONS.get(state[:2]) or _REFUSED
        )
        code = "no connection" if is_disconnected else state or name
    kind = LedgerCorrupt if reason == _CORRUPT else LedgerUnavailable
    return kind(f"{reason} ({code}){missing if reason == _MISSING else _NOTHING}")


@final
class Store:
    """An engine whose transactions are of one of two kinds and raise the ledger's own errors.

    Args:
        engine: engine on SQLite or PostgreSQL.
        url: URL for messages. Only the engine keeps the password.
    """

    def __init__(self, engine: Engine, url: URL) -> None:
        self._url = _hide_password(url)
        process = os.getpid()  # a forked child leaves its parent's connections alone
        weakref.finalize(self, lambda: engine.dispose(close=os.getpid() == process))
        self._writing = engine.execution_options(**{_WRITES: True})
        self._reading = engine
        if engine.dialect.name == "postgresql":
            self._reading = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    @classmethod
    def from_url(
        cls, url: str | os.PathLike[str], *, create: bool, timeout: float, mode: int = PRIVATE
    ) -> Self:
        """Return the store at `url`, without a check of its content.

        With `create`, a missing file is made when it is first used.
        """
        parsed = parse_url(url)
        if parsed.get_backend_name() == "postgresql":
            return cls(_postgresql_engine(parsed, timeout=timeout), parsed)
        return cls(_sqlite_engine(parsed, create=create, timeout=timeout, mode=mode), parsed)

    @classmethod
    def open(
        cls, url: str | os.PathLike[str], *, create: bool, timeout: float, mode: int = PRIVATE
    ) -> Self:
        """Return the store of a ledger. With `create`, make a missing file and missing tables."""
        store = cls.from_url(url, create=create, timeout=timeout, mode=mode)
        with _translate_errors(_NOT_THERE), store._reading.begin() as connection:
            exists = _has_ledger(connection)
        if not exists and not create:
            raise SchemaMismatch(
                "no ledger exists here. Run `dpselect ledger init`, or open it with create=True"
            )
        if not exists:
            with _translate_errors(_NOT_THERE), store._writing.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(
                        text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK}
                    )
                if not _has_ledger(connection):  # another process may have been first
                    _create_tables(connection)
        # Only this first step may create a file: later on, a file that is gone is an error and not
        # an empty ledger.
        return (
            store
            if store._url.get_backend_name() == "postgresql"
            else cls.from_url(url, create=False, timeout=timeout)
        )

    @contextmanager
    def writer(self) -> Iterator[Connection]:
        """Open a transaction with write locks, durable when the block ends.

        It locks the whole store (SQLite) or rows (PostgreSQL).
        """
        with _translate_errors(), self._writing.begin() as connection:
            if connection.dialect.name == "sqlite":
                _require_whole(connection, Path(str(self._url.database)))
            _require_version(connection)  # the file may have been exchanged since it was opened
            yield connection

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the store and changes nothing."""
        with _translate_errors(), self._reading.begin() as connection:
            yield connection

    def is_that_of(self, other: Store) -> bool:
        """True if another store lies under the same address."""
        mine, theirs = (
            os.path.realpath(str(url.database)) if url.get_backend_name() == "sqlite" else url
            for url in (self._url, other._url)
        )
        return mine == theirs

    def close(self) -> None:
        """Close the connections."""
        self._reading.dispose()

    def __repr__(self) -> str:
        return f"Store({mask(self._url.render_as_string(hide_password=False))})"


def _require_whole(connection: Connection, file: Path) -> None:
    """Refuse a SQLite file that ends before the last of its pages.

    SQLite itself takes missing pages for zeros. The file is not opened for the check, because
    closing it would give up the locks that this process holds on it. With a write-ahead log, some
    pages may lie in the log, so that a cut file cannot be told from a sound one.
    """
    if connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
        raise LedgerUnavailable(_WRITE_AHEAD)
    pages, size = (
        int(connection.exec_driver_sql(f"PRAGMA page_{column}").scalar() or 0)
        for column in ("count", "size")
    )
    if file.stat().st_size < pages * size:
        raise LedgerCorrupt(
            "the ledger's file is cut short, so nothing may be charged or released. Restore a"
            " backup and verify it against an exported chain head"
        )


_ADVISORY_LOCK = 4_105_281_901
_VERSION = select(meta.c.schema_version)


def _has_ledger(connection: Connection) -> bool:
    """Return True if the ledger's tables exist.

    Raises:
        SchemaMismatch: the store holds other data, or another version of the schema.
    """
    names = inspect(connection).get_table_names()
    if meta.name in names:
        _require_version(connection)
        return True
    # A PostgreSQL schema is often shared; a file that holds other tables is most likely a mistyped
    # path.
    if names and connection.dialect.name == "sqlite":
        raise SchemaMismatch(
            "this SQLite file has tables but no ledger. Check the URL, or give the ledger a"
            " file of its own"
        )
    return False


def _require_version(connection: Connection) -> None:
    version = connection.execute(_VERSION).scalar()
    if version != SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the ledger has schema version {version!r} and this package reads and writes"
            f" version {SCHEMA_VERSION} only. Nothing was written to it. Use the version of"
            " dpselect that wrote it"
        )
