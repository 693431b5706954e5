"""`Book`: a dataset's accounts and the end of its chain within one transaction, read when first asked for and written once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Dialect, Table, bindparam, select, update

from accounting.budget import NOTHING, Price
from accounting.ledger.errors import LedgerCorrupt
from accounting.ledger.item import Item
from accounting.ledger.model import ENTRY_FIELDS, Action, Dataset, Entry, Origin
from accounting.ledger.store import (
    Declared,
    Held,
    all_totals,
    checked_types,
    datasets,
    entries,
    entries_of_keys,
    fingerprints,
    scopes,
    spent_in,
    totals,
)
from accounting.ledger.stored_text import canonical_json, digest

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


@dataclass(frozen=True)
class Step:
    """What an entry says, apart from its place in the chain."""

    action: Action
    key: str
    period: str
    price: Price
    label: str | None
    item: Item | None = None
    fingerprint: str | None = None
    salt: str | None = None
    team: str | None = None
    purpose: str | None = None
    expires: str | None = None
    quota: str | None = None
    across: str | None = None
    override: str | None = None


# Statements that every charge runs are built once: building them costs as much time as running them.
_LAST = (
    select(entries.c.spent_main.label("main"), entries.c.spent_failure.label("failure"))
    .where(entries.c.dataset_id == bindparam("mine"), entries.c.period == bindparam("account"), entries.c.action != "quota")
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_HELD = select(scopes.c.account, scopes.c.main, scopes.c.failure).where(
    scopes.c.dataset_id == bindparam("mine"),
    scopes.c.quota == bindparam("seq"),
    scopes.c.account.in_(bindparam("accounts", expanding=True)),
)
_SET_HEAD = (
    update(datasets).where(datasets.c.id == bindparam("mine")).values(seq=bindparam("new_seq"), head=bindparam("new_head"))
)


class Book:
    """What a transaction knows of a dataset that it has locked, and all that it writes there: nothing before `close`."""

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.connection: Connection = connection
        self.declared: Declared = declared
        self.dataset: Dataset = declared.dataset
        self._spent: dict[str, Price] = {}
        self._changed: set[str] = set()
        self._held: dict[tuple[int, str], Price] = {}
        self._moved: set[tuple[int, str]] = set()
        self.earlier: dict[str, list[Entry]] = {}
        self._claims: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._prices: dict[tuple[str, int], Price] = {}
        self.waiting: list[Entry] = []

    def learn(self, keys: Iterable[str]) -> None:
        """Read the steps that were entered under these keys before, at once: they are `earlier`."""
        self.earlier |= entries_of_keys(self.connection, self.declared, list(keys))

    def spent(self, period: str) -> Price:
        """What a period has been charged so far; LedgerCorrupt if that is not what its last entry states."""
        if period not in self._spent:
            self._spent[period] = spent_in(self.connection, self.declared.id, period)
            self._require_last(period, self._spent[period])
        return self._spent[period]

    def totals(self) -> dict[str, Price]:
        """What every period has been charged so far, in this transaction too."""
        return dict(all_totals(self.connection, self.declared.id)) | self._spent

    def _require_last(self, period: str, spent: Price) -> None:
        row = self.connection.execute(_LAST, {"mine": self.declared.id, "account": period}).one_or_none()
        if (NOTHING if row is None else Price(**checked_types(row._asdict()))) != spent:
            raise LedgerCorrupt(
                "the running total of a period is not that of its last entry: one of them was edited. Nothing was charged, "
                "nothing may be released: run `dpselect ledger verify`"
            )

    def held(self, revision: int, accounts: list[str]) -> list[tuple[str, Price]]:
        """What accounts of a quota have been charged so far."""
        if new := [account for account in accounts if (revision, account) not in self._held]:
            rows = self.connection.execute(_HELD, {"mine": self.declared.id, "seq": revision, "accounts": new})
            found = {account: Price(**checked_types({"main": main, "failure": failure})) for account, main, failure in rows}
            self._held |= {(revision, account): found.get(account, NOTHING) for account in new}
        return [(account, self._held[revision, account]) for account in accounts]

    def hold(self, held: Iterable[Held]) -> None:
        """Note how accounts of quotas stand from now on."""
        for one in held:
            self._held[one.seq, one.account] = one.spent
            self._moved.add((one.seq, one.account))

    def price(self, item: Item) -> Price:
        """What the dataset's budget charges for an item; Unaffordable if it can never pay for it."""
        known = (item.curve_json, item.count)
        if known not in self._prices:
            self._prices[known] = self.dataset.budget.price(item.whole)
        return self._prices[known]

    def claims(self, fingerprint: str, periods: tuple[str, ...]) -> bool:
        """Whether the rows with this fingerprint belong to the dataset and periods; unclaimed ones do from now on."""
        claim = (fingerprint, periods)
        if claim not in self._claims:
            values = {"fingerprint": fingerprint, "dataset_id": self.declared.id, "periods": json.dumps(periods)}
            insert = _upserting(fingerprints, self.connection.dialect.name).values(values)
            self.connection.execute(insert.on_conflict_do_nothing())
            row = self.connection.execute(select(fingerprints).where(fingerprints.c.fingerprint == fingerprint)).one()
            self._claims[claim] = row._asdict() == values
        return self._claims[claim]

    def append(self, steps: Iterable[Step], origin: Origin) -> list[Entry]:
        """Chain the steps to the dataset's head."""
        written = []
        for step in steps:
            spent = NOTHING if step.action == "quota" else self.spent(step.period).plus(step.price)
            entry = _entry(self.dataset.name, self.declared.seq + 1, step, spent, origin, self.declared.head)
            self.enter(entry)
            written.append(entry)
        return written

    def enter(self, entry: Entry) -> None:
        """Add an entry that follows the dataset's head."""
        if entry.action != "quota":
            self._spent[entry.period] = entry.spent
            self._changed.add(entry.period)
        self.declared.seq, self.declared.head = entry.seq, entry.hash
        self.waiting.append(entry)

    def close(self) -> None:
        """Write entries, totals, quotas' accounts and the head, once."""
        connection, mine = self.connection, self.declared.id
        if self.waiting:
            _insert_entries(connection, mine, self.waiting)
            totalled = ((period, self._spent[period]) for period in sorted(self._changed))
            _put(connection, totals, [{"dataset_id": mine, "period": period, **spent._asdict()} for period, spent in totalled])
            connection.execute(_SET_HEAD, {"mine": mine, "new_seq": self.declared.seq, "new_head": self.declared.head})
        held = ((seq, account, self._held[seq, account]) for seq, account in sorted(self._moved))
        _put(
            connection, scopes, [{"dataset_id": mine, "quota": seq, "account": to, **spent._asdict()} for seq, to, spent in held]
        )
        for done in (self.waiting, self._changed, self._moved):
            done.clear()


def _entry(dataset: str, seq: int, step: Step, spent: Price, origin: Origin, prev: str) -> Entry:
    item = step.item
    fields = {
        **{"dataset": dataset, "seq": seq, "period": step.period, "action": step.action, "key": step.key, "label": step.label},
        "curve": item.curve_json if item else None,
        "mechanism": item.mechanism_json if item else None,
        "count": item.count if item else 0,
        **{"main": step.price.main, "failure": step.price.failure, "spent_main": spent.main, "spent_failure": spent.failure},
        **{"fingerprint": step.fingerprint, "salt": step.salt, "team": step.team, "purpose": step.purpose},
        **{
            "expires": step.expires,
            "quota": step.quota,
            "across": step.across,
            "override": step.override,
            **vars(origin),
            "prev": prev,
        },
    }
    return Entry(**fields, hash=digest(canonical_json(fields)))


def _put(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Write rows in the place of those with the same primary keys."""
    if rows:
        connection.execute(_replacing(table, connection.dialect.name), rows)


@cache
def _replacing(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    statement = _upserting(table, dialect)
    new = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new)


def _upserting(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    found: sqlite.Insert | postgresql.Insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    return found


_COLUMNS = ("dataset_id", *ENTRY_FIELDS[1:])
_stored = attrgetter(*ENTRY_FIELDS[1:])


def _insert_entries(connection: Connection, dataset_id: int, batch: Sequence[Entry]) -> None:
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
    numbers = {column.name for column in entries.columns if column.type.python_type is int}
    types = ", ".join(f"{quoted} {'bigint' if name in numbers else 'text'}" for name, quoted in zip(_COLUMNS, names, strict=True))
    return f"{into} SELECT {', '.join(names)} FROM json_to_recordset(%s::json) AS given ({types})"
