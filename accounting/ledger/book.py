"""`Book`: a dataset's accounts and the end of its chain within one transaction, read when first asked for and written once.

Running sums of what was charged, by curve and label, are kept up by each charge, shown by reports and derived anew by `verify`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import islice
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from sqlalchemy import Connection, Dialect, Row, Select, Table, bindparam, select, update

from accounting.budget import NOTHING, Price
from accounting.curves import Composed, Curve
from accounting.ledger.errors import LedgerCorrupt
from accounting.ledger.item import Item
from accounting.ledger.model import ENTRY_FIELDS, Action, Dataset, Entry, Openings, Origin, Total
from accounting.ledger.store import (
    BLOCK,
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
    sums,
    totals,
)
from accounting.ledger.stored_text import canonical_json, digest
from accounting.price import FAILURE_UNIT, MAIN_UNIT

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

MOST_CURVES, MOST_POINTS, MOST_LABELS = 5_000, 240, 12  # that a summary lists
_DIGITS = 36  # text of equal length is in order of size, and an amount is below the prime
NO_RUNS = "0" * _DIGITS
_FIELD = 2**127 - 1  # a prime
_AMOUNT = re.compile(rf"\d{{{_DIGITS}}}|-\d{{{_DIGITS - 1}}}", re.ASCII)
_AT = select(sums).where(
    sums.c.dataset_id == bindparam("mine"),
    sums.c.kind.in_(("curve", "label")),
    sums.c.digest.in_(bindparam("wanted", expanding=True)),
)


class Place(NamedTuple):
    """Whose sum: a curve's within a period, or a label's over all of them."""

    kind: Literal["curve", "label"]
    period: str
    content: str | None


class Amounts(NamedTuple):
    """Runs, and prices in the units of `Entry`."""

    runs: int = 0
    main: int = 0
    failure: int = 0

    def plus(self, runs: int, main: int, failure: int) -> Amounts:
        """The sum."""
        return Amounts(self.runs + runs, self.main + main, self.failure + failure)


Counted = tuple[str, str | None, str | None]


def _counted(entry: Entry, opening: Entry) -> tuple[Counted, Amounts]:
    """Period, curve and label to which an entry adds, and what.

    A void takes back what `opening` added. What a release gives back lowers the cost, and not the runs: as a plan that is fixed
    in advance all of it was charged.
    """
    runs = {"void": -opening.count, "release": 0}.get(entry.action, opening.count)
    return (entry.period, opening.curve, opening.label), Amounts(runs, entry.main, entry.failure)


def _places(period: str, curve: str | None, label: str | None) -> tuple[Place, Place]:
    return Place("curve", period, curve), Place("label", "", label)


class Sums:
    """Changes to the sums of one dataset, which is locked: gathered, then written at once."""

    def __init__(self) -> None:
        self._changes: dict[Counted, Amounts] = defaultdict(Amounts)

    def add(self, entry: Entry, opening: Entry | None) -> None:
        """Note an entry, with the one that opened what it opens or takes back; None for a step that does neither."""
        if opening is not None:
            to, amounts = _counted(entry, opening)
            self._changes[to] = self._changes[to].plus(*amounts)

    def write(self, connection: Connection, dataset_id: int) -> None:
        """Add what was noted to what is stored."""
        changes: dict[Place, Amounts] = defaultdict(Amounts)
        for to, amounts in self._changes.items():
            for place in _places(*to):
                changes[place] = changes[place].plus(*amounts)
        self._changes.clear()
        for start in range(0, len(changes), BLOCK):
            part = list(islice(changes, start, start + BLOCK))
            wanted = connection.execute(_AT, {"mine": dataset_id, "wanted": [_digest(place) for place in part]})
            before = dict(map(_read_sum, wanted))
            _put(connection, sums, [_row(dataset_id, at, changes[at].plus(*before.get(at, Amounts()))) for at in part])


def _digest(place: Place) -> str:
    return digest(canonical_json([place.period, place.content]))


def _row(dataset_id: int, place: Place, amounts: Amounts) -> dict[str, Any]:
    numbers = {name: f"{value:0{_DIGITS}d}" for name, value in amounts._asdict().items()}
    return {"dataset_id": dataset_id, "digest": _digest(place), **place._asdict(), **numbers}


def _read_sum(row: Row[Any]) -> tuple[Place, Amounts]:
    """A row of the sums; LedgerCorrupt if it was edited."""
    texts = (row.runs, row.main, row.failure)
    place = Place(row.kind, row.period, row.content)
    if not all(isinstance(text, str) and _AMOUNT.fullmatch(text) for text in texts):
        raise LedgerCorrupt("a sum of what was charged is not a number: it was edited")
    if not isinstance(place.period, str) or not isinstance(place.content, str | None) or _digest(place) != row.digest:
        raise LedgerCorrupt("a sum of what was charged does not say of what: it was edited")
    return place, Amounts(*map(int, texts))


class Check:
    """Two sets of sums in one number each, in constant memory: a linear map with coefficients that nobody knew beforehand.

    Sets that differ have the same number with a probability of at most 2^-120, whoever chose them without the key.
    """

    def __init__(self) -> None:
        key = secrets.token_bytes(32)
        self._due = self._stored = 0

        @lru_cache(maxsize=4096)
        def coefficients(*places: Place) -> tuple[int, ...]:
            hashed = [blake2b(canonical_json(place).encode(), key=key, digest_size=60).digest() for place in places]
            return tuple(sum(int.from_bytes(one[at : at + 20]) for one in hashed) % _FIELD for at in (0, 20, 40))

        self._coefficients = coefficients

    def follow(self, entry: Entry, opening: Entry | None) -> None:
        """Count the next entry."""
        if opening is not None:
            to, amounts = _counted(entry, opening)
            self._due = (self._due + sum(map(mul, self._coefficients(*_places(*to)), amounts))) % _FIELD

    @property
    def differs(self) -> bool:
        """Whether what is stored is not what the entries make."""
        return self._due != self._stored

    @classmethod
    def of(cls, connection: Connection, dataset_id: int) -> Self:
        """What is stored for a dataset, before its entries are followed; LedgerCorrupt if it cannot be read."""
        check, query = cls(), select(sums).where(sums.c.dataset_id == dataset_id)
        # A cursor that an error leaves is closed.
        with connection.execute(query, execution_options={"yield_per": BLOCK}) as rows:
            for place, amounts in map(_read_sum, rows):
                check._stored = (check._stored + sum(map(mul, check._coefficients(place), amounts))) % _FIELD
        return check


@dataclass(frozen=True)
class _SpendingPoint:
    """An entry on the course of spending."""

    seq: int
    at: str
    spent: Price


@dataclass(frozen=True)
class LabelCost:
    """What one label was charged and did not get back: runs, nats of the budget's unit, failure probability."""

    label: str | None
    runs: int
    main: float
    failure: float


@dataclass(frozen=True)
class Summary:
    """A dataset as reports show it.

    Attributes:
        curves: for every period ("" without a window) the composition of what was charged and not voided, all of it where a part
            was given back, as a plan that is fixed in advance has to; None if there are more than 5,000 different curves in all.
        points: at most 240 entries, evenly spaced, the last one among them; declarations of quotas left out.
        shares: of the labels that were charged most.
    """

    dataset: Dataset
    entries: int
    head: str
    totals: tuple[Total, ...]
    curves: dict[str, Curve] | None
    points: tuple[_SpendingPoint, ...]
    shares: tuple[LabelCost, ...]

    @classmethod
    def of(cls, connection: Connection, declared: Declared) -> Self:
        """The summary of one dataset, from one state of the store."""
        budget, name = declared.dataset.budget, declared.dataset.name
        totals = tuple(Total(name, period, budget, spent) for period, spent in all_totals(connection, declared.id))
        curves = _curves(connection, declared, [total.period for total in totals])
        points, shares = _points(connection, declared), _shares(connection, declared)
        return cls(declared.dataset, declared.seq, declared.head, totals, curves, points, shares)


def _curves(connection: Connection, declared: Declared, periods: list[str]) -> dict[str, Curve] | None:
    # Sums of no runs, which somebody may have made up, are nothing to verify either.
    rows = connection.execute(_sums(declared, "curve").where(sums.c.runs != NO_RUNS).limit(MOST_CURVES + 1)).all()
    if len(rows) > MOST_CURVES:
        return None
    parts: dict[str, list[tuple[int, Curve]]] = {period: [] for period in periods}
    for place, amounts in map(_read_sum, rows):
        parts.setdefault(place.period, []).append((amounts.runs, Curve.from_json(place.content or "")))
    return {period: Composed.of(counted) for period, counted in sorted(parts.items())}


def _sums(declared: Declared, kind: str) -> Select[Any]:
    return select(sums).where(sums.c.dataset_id == declared.id, sums.c.kind == kind)


def _points(connection: Connection, declared: Declared) -> tuple[_SpendingPoint, ...]:
    step = max(1, -(-declared.seq // MOST_POINTS))
    wanted = sorted({*range(1, declared.seq + 1, step), declared.seq} - {0})
    columns = (entries.c.seq, entries.c.at, entries.c.spent_main, entries.c.spent_failure)
    mine = (entries.c.dataset_id == declared.id) & entries.c.seq.in_(wanted) & (entries.c.action != "quota")
    rows = connection.execute(select(*columns).where(mine).order_by(entries.c.seq))
    return tuple(_SpendingPoint(row.seq, row.at, Price(row.spent_main, row.spent_failure)) for row in rows)


def _shares(connection: Connection, declared: Declared) -> tuple[LabelCost, ...]:
    rows = connection.execute(_sums(declared, "label").order_by(sums.c.main.desc(), sums.c.digest).limit(MOST_LABELS))
    unit, chance = float(MAIN_UNIT), float(FAILURE_UNIT)
    return tuple(LabelCost(at.content, had.runs, had.main * unit, had.failure * chance) for at, had in map(_read_sum, rows))


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
    opening: Entry | None = None  # of the charge that it follows


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
        self._sums = Sums()
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
            self.enter(entry, Openings.between(entry, step.opening))
            written.append(entry)
        return written

    def enter(self, entry: Entry, opening: Entry | None) -> None:
        """Add an entry that follows the dataset's head, with the one that opened what it opens, takes back or settles."""
        if entry.action != "quota":
            self._spent[entry.period] = entry.spent
            self._changed.add(entry.period)
        self.declared.seq, self.declared.head = entry.seq, entry.hash
        self._sums.add(entry, opening)
        self.waiting.append(entry)

    def close(self) -> None:
        """Write entries, totals, sums, quotas' accounts and the head, once."""
        connection, mine = self.connection, self.declared.id
        if self.waiting:
            _insert_entries(connection, mine, self.waiting)
            totalled = ((period, self._spent[period]) for period in sorted(self._changed))
            _put(connection, totals, [{"dataset_id": mine, "period": period, **spent._asdict()} for period, spent in totalled])
            self._sums.write(connection, mine)
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
