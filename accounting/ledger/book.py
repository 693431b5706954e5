"""`Book`: a dataset within one transaction. What charges and steps ask of it, and what they write: all or nothing.

Whether an account can pay is asked and answered under the dataset's lock, and entries, totals, accounts and the head are written
once, when the book is closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal

from sqlalchemy import Connection, Table, bindparam, exists, select, text, update

from accounting.budget import NOTHING, Budget, Price
from accounting.curves import Curve
from accounting.guarantee import common_relation
from accounting.ledger.errors import ClaimConflict, InvalidEntry, InvalidTransition, KeyConflict, LedgerCorrupt, SharedRows
from accounting.ledger.item import TWICE, Item, Request
from accounting.ledger.model import (
    ENTRY_FIELDS,
    Action,
    Dataset,
    Entry,
    Origin,
    Receipt,
    State,
    Who,
    price_in,
    returned,
)
from accounting.ledger.quota import Revision, Total
from accounting.ledger.store import (
    Declared,
    Store,
    all_totals,
    datasets,
    entries,
    entries_of_keys,
    find_dataset,
    fingerprints,
    read_price,
    scopes,
    spent_in,
    totals,
)
from accounting.ledger.stored_text import canonical_json, checked_name, checked_periods, digest, read_json
from accounting.remaining import BudgetExceeded, in_all_in_words, over_periods, refusal, stated

Step = Literal["commit", "release", "void"]
Account = tuple[int, str]
"""An account of a quota: the entry that declares the quota, and the account's name."""

_AFTER: dict[Action, State] = {
    "reserve": "reserved",
    "charge": "committed",
    "commit": "committed",
    "release": "released",
    "void": "void",
}
_NEEDS: dict[Step, tuple[State, str]] = {
    "commit": ("reserved", "only a reserved charge is committed"),
    "release": ("committed", "only a committed charge is released: commit it before the data are read"),
    "void": ("reserved", "only a reserved charge whose data were not read is voided; a failed draw stays charged"),
}

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
_later = entries.alias("later")
_LAPSED = (
    select(entries.c.key, entries.c.expires)
    .distinct()
    .where(entries.c.dataset_id == bindparam("mine"), entries.c.expires <= bindparam("now"), entries.c.action == "reserve")
    .where(
        ~exists().where(
            _later.c.dataset_id == entries.c.dataset_id, _later.c.key == entries.c.key, _later.c.action.in_(("commit", "void"))
        )
    )
)


@contextmanager
def writing(store: Store, dataset: object) -> Iterator[Book]:
    """The book of a dataset whose row is held against every other charge; what it was told is written at the end."""
    with store.writer() as connection:
        book = Book(connection, find_dataset(connection, checked_name("dataset", dataset), locked=True))
        yield book
        book.close()


@contextmanager
def reading(store: Store, dataset: object) -> Iterator[Book]:
    """The book of a dataset, to look things up in."""
    with store.reader() as connection:
        yield Book(connection, find_dataset(connection, checked_name("dataset", dataset)))


class Book:
    """What a transaction knows of a dataset, read when first asked for, and all that it writes there: nothing before `close`."""

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.connection: Connection = connection
        self.declared: Declared = declared
        self.dataset: Dataset = declared.dataset
        self.waiting: list[Entry] = []
        self._spent: dict[str, Price] = {}
        self._changed: set[str] = set()
        self._held: dict[Account, Price] = {}
        self._moved: set[Account] = set()
        self._earlier: dict[str, list[Entry]] = {}
        self._claims: dict[tuple[str, tuple[str, ...]], bool] = {}

    # -- where accounts stand -----------------------------------------------------------------------------------------

    def spent(self, period: str) -> Price:
        """What a period has been charged so far; LedgerCorrupt if that is not what its last entry states."""
        if period not in self._spent:
            self._spent[period] = spent_in(self.connection, self.declared.id, period)
            self._require_last(period, self._spent[period])
        return self._spent[period]

    def _require_last(self, period: str, spent: Price) -> None:
        row = self.connection.execute(_LAST, {"mine": self.declared.id, "account": period}).one_or_none()
        if read_price(row) != spent:
            raise LedgerCorrupt(
                "the running total of a period is not that of its last entry: one of them was edited. Nothing was charged, "
                "nothing may be released: run `dpselect ledger verify`"
            )

    def totals(self) -> dict[str, Price]:
        """What every period has been charged so far, in this transaction too."""
        return all_totals(self.connection, self.declared.id) | self._spent

    def steps(self, key: str) -> list[Entry]:
        """What was entered under an idempotency key, in order."""
        self._learn([key])
        return self._earlier[key]

    def _learn(self, keys: Iterable[str]) -> None:
        """Read what was entered under these keys before, at once."""
        if new := [key for key in keys if key not in self._earlier]:
            self._earlier |= entries_of_keys(self.connection, self.declared, new)

    @cached_property
    def _limits(self) -> list[tuple[Revision, Budget]]:
        return Revision.in_force(self.connection, self.declared.id)

    def _accounts_of(self, revision: Revision, who: Who, periods: Iterable[str]) -> list[tuple[Account, Price]]:
        """The accounts of a quota that a charge counts to, and what each has been charged so far."""
        names = revision.quota.accounts(self.dataset.window, who, periods)
        if new := [name for name in names if (revision.seq, name) not in self._held]:
            rows = self.connection.execute(_HELD, {"mine": self.declared.id, "seq": revision.seq, "accounts": new})
            found = {row.account: read_price(row) for row in rows}
            self._held |= {(revision.seq, name): found.get(name, NOTHING) for name in new}
        return [((revision.seq, name), self._held[revision.seq, name]) for name in names]

    def accounts(self, periods: tuple[str, ...], who: Who) -> Iterator[tuple[Total, Account | None]]:
        """Where everything stands that a charge is held against: its periods, then its accounts of quotas."""
        name = self.dataset.name
        for period in periods:
            yield Total(name, period, self.dataset.budget, self.spent(period)), None
        for revision, limit in self._limits:
            quota = revision.quota
            if quota.by is not None and quota.of is None and getattr(who, quota.by) is None:
                raise InvalidEntry(
                    f"{quota.by} is missing: quota={quota.name!r} limits each {quota.by}, so name whose charge it is"
                )
            if not quota.lists(who):
                raise InvalidEntry(
                    f"{quota.by}={getattr(who, str(quota.by))!r} is not on the list of quota={quota.name!r}: it lists "
                    f"{', '.join(quota.among)}. Name one of them, or have the quota declared anew with this one (ledger quota "
                    "--among)"
                )
            for place, spent in self._accounts_of(revision, who, periods):
                yield Total(name, quota.account_in_words(place[1]), limit, spent, quota), place

    # -- charges ------------------------------------------------------------------------------------------------------

    def charge_all(self, asked: Sequence[tuple[Request, Origin]]) -> list[Receipt]:
        """Charge each, or give back what the same key has charged before.

        Raises:
            BudgetExceeded, Unaffordable: the budget or a quota does not allow it.
            RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
            KeyConflict: the key was used for something else.
            SharedRows: the rows were charged under another name.
        """
        self._learn(request.key for request, _ in asked)
        return [self._charge(request, origin) for request, origin in asked]

    def _charge(self, request: Request, origin: Origin) -> Receipt:
        name, said = self.dataset.name, request.said
        item, periods = self.due(request)
        if earlier := self.steps(request.key):
            return self._replay(request, item, periods, earlier)
        held = self.require_room(item, periods, Who(origin.actor, said["team"], said["purpose"]), said["override"])
        if (rows := said["fingerprint"]) is not None and not self.claims(rows, periods):
            raise SharedRows(
                f"rows with this fingerprint were charged before, but not to dataset={name!r} with these periods: the "
                "same rows have one budget, so charge them under the name and periods they were first charged to"
            )
        price = price_in(self.dataset.budget, item.curve_json, item.count)
        opened = {"action": request.action, "key": request.key, **price_of(price), **content_of(item), **said}
        written = self.append([opened | {"period": period, "across": item.across} for period in periods], origin)
        self.hold(held)
        return Receipt(name, request.key, state_of(written), tuple(written), replayed=False)

    def require_charge(self, request: Request, who: Who) -> Receipt | None:
        """Raise as a charge would, without one; the receipt of a key that has paid already, which needs no room again."""
        item, periods = self.due(request)
        if earlier := self.steps(request.key):
            return self._replay(request, item, periods, earlier)
        self.require_room(item, periods, who, request.said["override"])
        return None

    def due(self, request: Request) -> tuple[Item, tuple[str, ...]]:
        """What a request is charged for, if it is proved for the dataset's relation, and the periods whose rows it reads."""
        periods = self.periods(request.period, request.time_zone)
        request.item.require_unit(self.dataset.unit, self.dataset.relation)
        item = request.item.over(periods, self.dataset.relation, request.across)
        common_relation(self.dataset.relation, item.relation, begun=True)
        return item, periods

    def periods(self, period: str | Iterable[str] | None, time_zone: str) -> tuple[str, ...]:
        """The periods whose rows a charge reads, by the clock of the dataset's time zone."""
        dataset = self.dataset
        periods = checked_periods(dataset.window, period)
        if dataset.window != "whole" and time_zone != dataset.time_zone:
            raise InvalidEntry(
                f"time_zone={time_zone!r}: the {dataset.window}s of dataset={dataset.name!r} begin in {dataset.time_zone!r}, and "
                "rows at their borders would have two budgets: read them by that clock, and state it as time_zone (--time-zone)"
            )
        return periods

    def require_room(self, item: Item, periods: tuple[str, ...], who: Who, override: str | None) -> dict[Account, Price]:
        """How the quotas' accounts stand after the charge, if every period and quota can pay for it. Raises as `charge_all`."""
        dataset = self.dataset
        price = price_in(dataset.budget, item.curve_json, item.count)
        most = dataset.most_per_release
        if override is None and most is not None and not _is_small(most, item.curve_json, item.count):
            raise BudgetExceeded(
                f"dataset={dataset.name!r} allows a single release at most {stated(most)}, and this one costs more. Make it "
                "smaller, or state why it may cost more, which is recorded (override=, --override REASON). Nothing was charged, "
                "nothing may be released."
            )
        held = {}
        for total, place in self.accounts(periods, who):
            due = price_in(total.budget, item.curve_json, item.count)
            require_fit(total, due, item)
            if place is not None:
                held[place] = total.spent.plus(due)
        if dataset.most_in_all is not None:
            self.in_all(price, periods)
        return held

    def in_all(self, price: Price = NOTHING, periods: Iterable[str] = ()) -> tuple[float, float]:
        """What somebody faces whose rows lie in all periods, these charged a price more; BudgetExceeded if less is allowed."""
        dataset, spent = self.dataset, self.totals()
        spent |= {period: spent.get(period, NOTHING).plus(price) for period in periods}
        epsilon, delta = over_periods(dataset.budget, spent.values())
        if dataset.most_in_all is not None and epsilon > dataset.most_in_all:
            raise BudgetExceeded(
                f"dataset={dataset.name!r}: {in_all_in_words(epsilon, delta, len(spent), dataset.window)}, and the dataset "
                f"allows at most epsilon {dataset.most_in_all:g} in all. Release fewer periods, or less for each. Nothing was "
                "charged, nothing may be released."
            )
        return epsilon, delta

    def _replay(self, request: Request, item: Item, periods: tuple[str, ...], earlier: list[Entry]) -> Receipt:
        name, opening = self.dataset.name, openings(earlier)
        first = opening[0]
        # Not the mechanism's JSON: a later version writes more into it, and a retry across an upgrade is still the same charge.
        # The relation is the dataset's, as of every item that comes here.
        asked = (request.action, item.count, periods, item.across, _binding_of(item.mechanism_json))
        stored = (first.action, first.count, tuple(entry.period for entry in opening), first.across, _binding_of(first.mechanism))
        if asked != stored or Curve.from_json(first.curve or "") != item.curve:
            raise KeyConflict(
                f"key={request.key!r} has already paid for a different charge of dataset={name!r} (entry {first.seq}): "
                "give every charge a key of its own, and a retried one the same arguments"
            )
        if (state := state_of(earlier)) == "void":
            raise KeyConflict(f"key={request.key!r} was voided in dataset={name!r}: charge again under another key")
        return Receipt(name, request.key, state, opening, replayed=True)

    def claims(self, fingerprint: str, periods: tuple[str, ...]) -> bool:
        """Whether the rows with this fingerprint belong to the dataset and periods; unclaimed ones do from now on."""
        claim = (fingerprint, periods)
        if claim not in self._claims:
            values = {"fingerprint": fingerprint, "dataset_id": self.declared.id, "periods": json.dumps(periods)}
            self.connection.execute(_upsert(fingerprints), values)
            row = self.connection.execute(select(fingerprints).where(fingerprints.c.fingerprint == fingerprint)).one()
            self._claims[claim] = row._asdict() == values
        return self._claims[claim]

    # -- what follows a charge ----------------------------------------------------------------------------------------

    def follow(self, action: Step, key: str, label: str | None, origin: Origin, ran: Item | None = None) -> Receipt:
        """Take the step for every period of the key; one that was taken before is given back.

        Args:
            ran: of a release, the rounds of the reservation that its outcome says were run; the others are given back (F8).

        Raises:
            InvalidTransition: nothing was charged under the key, or the step may not follow its state.
            ClaimConflict: another result was released, by its label or by what it used.
            InvalidEntry: what ran is not part of what was reserved.
        """
        name, limit, earlier = self.dataset.name, self.dataset.budget, self.steps(key)
        if not earlier:
            raise InvalidTransition(f"key={key!r} has no charge in dataset={name!r}: reserve or charge it first")
        if action == "commit" and any(entry.action == "release" and entry.curve is not None for entry in earlier):
            raise InvalidTransition(
                f"key={key!r} was settled, and what it did not use given back: nothing more is drawn under it"
            )
        if earlier[0].across == TWICE:
            ran = None  # what two changes cost together is not a sum over rounds, so nothing is given back
        if done := tuple(entry for entry in earlier if entry.action == action):
            is_same = (label is None or done[0].label == label) and (ran is None or done[0].curve == ran.curve_json)
            if action == "release" and not is_same:
                raise ClaimConflict(
                    f"key={key!r} has paid for a result that was handed out already (entry {done[0].seq}), and this is another "
                    "one: forget it, and use the first"
                )
            return Receipt(name, key, state_of(earlier), done, replayed=True)
        state, (needed, rule) = state_of(earlier), _NEEDS[action]
        if state != needed:
            raise InvalidTransition(f"key={key!r} is {state}: {rule}")
        opening, expires = openings(earlier), earlier[0].expires
        if action == "commit" and expires is not None and origin.at >= expires:
            raise InvalidTransition(
                f"key={key!r} was reserved until {expires} and not committed by then: read no data, reserve again"
            )
        if ran is not None and opening[0].action != "reserve":
            raise InvalidTransition(f"key={key!r} was charged for good: what did not run is given back of a reservation only")
        steps = []
        for one in opening:
            back = one.price if action == "void" else NOTHING
            back = back if ran is None else returned(limit, one, ran.curve_json, origin)
            price = price_of(back.times(-1))
            steps.append({"action": action, "key": key, "period": one.period, "label": label, **price, **content_of(ran)})
        written = self.append(steps, origin)
        if action == "void" or ran is not None:
            periods = [one.period for one in opening]
            for revision, quota in self._limits:
                back = returned(quota, opening[0], written[0].curve, origin)
                accounts = self._accounts_of(revision, opening[0].who, periods)
                self.hold({place: spent.minus(back) for place, spent in accounts})
        return Receipt(name, key, state_of(written), tuple(written), replayed=False)

    def lapse(self, origin: Origin) -> list[Receipt]:
        """Void every reservation whose time is over.

        Nothing was drawn under them: data are read after a commit only, and a commit and a void of one key exclude each other
        under the lock, whatever the clocks say. A clock that runs ahead refuses a late commit; what was drawn stays charged.
        """
        rows = self.connection.execute(_LAPSED, {"mine": self.declared.id, "now": origin.at})
        return [
            self.follow("void", row.key, f"it was not committed before {row.expires}", origin)
            for row in sorted(rows, key=lambda row: (row.expires, row.key))
        ]

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, steps: Iterable[Mapping[str, Any]], origin: Origin) -> list[Entry]:
        """Chain steps to the dataset's head: fields of entries that say something, apart from their place in the chain."""
        written = []
        for step in steps:
            fields: dict[str, Any] = {**_BLANK, **vars(origin), **step, "dataset": self.dataset.name}
            if step["action"] != "quota":
                spent = self.spent(fields["period"]).plus(Price(fields["main"], fields["failure"]))
                fields |= {"spent_main": spent.main, "spent_failure": spent.failure}
            fields |= {"seq": self.declared.seq + 1, "prev": self.declared.head}
            written.append(Entry(**fields, hash=digest(canonical_json(fields))))
            self.enter(written[-1])
        return written

    def enter(self, entry: Entry) -> None:
        """Add an entry that follows the dataset's head."""
        if entry.action != "quota":
            self._spent[entry.period] = entry.spent
            self._changed.add(entry.period)
        self.declared.seq, self.declared.head = entry.seq, entry.hash
        self.waiting.append(entry)

    def hold(self, held: Mapping[Account, Price]) -> None:
        """Note how accounts of quotas stand from now on."""
        self._held |= held
        self._moved |= held.keys()

    def close(self) -> None:
        """Write entries, totals, quotas' accounts and the head, once."""
        connection, mine = self.connection, dict[str, Any](dataset_id=self.declared.id)
        if self.waiting:
            _insert(connection, [(self.declared.id, *_stored(entry)) for entry in self.waiting])
            spent = [mine | {"period": period} | price_of(self._spent[period]) for period in sorted(self._changed)]
            if spent:
                connection.execute(_upsert(totals), spent)
            head = {"new_seq": self.declared.seq, "new_head": self.declared.head}
            connection.execute(_SET_HEAD, {"mine": self.declared.id, **head})
        if self._moved:
            moved = sorted(self._moved)
            held = [mine | {"quota": seq, "account": name} | price_of(self._held[seq, name]) for seq, name in moved]
            connection.execute(_upsert(scopes), held)
        for done in (self.waiting, self._changed, self._moved):
            done.clear()


_BLANK = {name: None for name in ENTRY_FIELDS if name != "hash"} | dict.fromkeys(
    ("count", "main", "failure", "spent_main", "spent_failure"), 0
)


def price_of(price: Price) -> dict[str, int]:
    """A price as fields of an entry or an account."""
    return price._asdict()


def content_of(item: Item | None) -> dict[str, Any]:
    """What ran, as fields of an entry."""
    return {} if item is None else {"curve": item.curve_json, "mechanism": item.mechanism_json, "count": item.count}


def openings(steps: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that opened the charge, one per period."""
    return tuple(entry for entry in steps if entry.opens)


def state_of(steps: Sequence[Entry]) -> State:
    """The state that the steps of one key, in order, have led to."""
    return _AFTER[steps[-1].action]


def require_fit(total: Total, price: Price, item: Item) -> None:
    """BudgetExceeded if an account cannot pay a price."""
    if total.budget.fits(total.spent, price):
        return
    part = f", period={total.period!r}" if total.period else ""
    part = part if total.quota is None else f", quota={total.quota.name!r} ({total.period})"
    raise refusal(replace(total.remaining, curve=item.curve), item.count, f"dataset={total.dataset!r}{part}")


@lru_cache(maxsize=1024)
def _is_small(most: Budget, curve: str, count: int) -> bool:
    return most.admits(count * Curve.from_json(curve))


def _binding_of(mechanism_json: str | None) -> str | None:
    """What a description binds its charge to: one job's draw, say, that no other job may make under the same key."""
    bound = None if mechanism_json is None else read_json(mechanism_json).get("binding")
    return bound if isinstance(bound, str) else None


@cache
def _upsert(table: Table) -> Any:
    """Write rows in the place of those with the same primary keys; what is claimed stays. As text: both stores read the same."""
    names, keys = [[column.name for column in columns] for columns in (table.columns, table.primary_key.columns)]
    new = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    then = "NOTHING" if table is fingerprints else f"UPDATE SET {new}"
    values = ", ".join(f":{name}" for name in names)
    into = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({values})"
    return text(f"{into} ON CONFLICT ({', '.join(keys)}) DO {then}")


_COLUMNS = ("dataset_id", *ENTRY_FIELDS[1:])
_stored = attrgetter(*ENTRY_FIELDS[1:])


def _insert(connection: Connection, rows: list[tuple[Any, ...]]) -> None:
    """Append entries, past SQLAlchemy's handling of each parameter, which costs more than the rows do."""
    names = ", ".join(f'"{name}"' for name in _COLUMNS)  # `key` and `count` mean something to one store or the other
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    values = ", ".join(mark for _ in _COLUMNS)
    connection.exec_driver_sql(f"INSERT INTO {entries.name} ({names}) VALUES ({values})", rows)
