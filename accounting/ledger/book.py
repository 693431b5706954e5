"""`Book`: a dataset's accounts and the end of its chain within one transaction, read when first asked for and written once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from accounting.budget.budget import NOTHING, Price
from accounting.ledger.item import Item
from accounting.ledger.lifecycle import moves
from accounting.ledger.model import Action, Entry, Origin
from accounting.ledger.statements import (
    Declared,
    Held,
    claim_rows,
    entries_of_keys,
    held_by,
    insert_entries,
    require_total,
    set_head,
    set_held,
    set_total,
    spent_in,
)
from accounting.ledger.stored_text import canonical_json, digest
from accounting.ledger.sums import Sums


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
    opening: Entry | None = None  # of the charge that it follows


class Book:
    """What a transaction knows of a dataset that it has locked. Nothing is in the store before `close`."""

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.connection, self.declared = connection, declared
        self.dataset = declared.dataset
        self._spent: dict[str, Price] = {}
        self._changed: set[str] = set()
        self._held: dict[tuple[int, str], Price] = {}
        self._moved: set[tuple[int, str]] = set()
        self.earlier: dict[str, list[Entry]] = {}
        self._claims: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._prices: dict[tuple[str, int], Price] = {}
        self._sums = Sums()
        self._waiting: list[Entry] = []

    def learn(self, keys: Iterable[str]) -> None:
        """Read the steps that were entered under these keys before, at once: they are `earlier`."""
        self.earlier |= entries_of_keys(self.connection, self.declared, list(keys))

    def spent(self, period: str) -> Price:
        """What a period has been charged so far."""
        if period not in self._spent:
            self._spent[period] = spent_in(self.connection, self.declared.id, period)
            require_total(self.connection, self.declared.id, period, self._spent[period])
        return self._spent[period]

    def held(self, revision: int, accounts: list[str]) -> list[tuple[str, Price]]:
        """What accounts of a quota have been charged so far."""
        new = [account for account in accounts if (revision, account) not in self._held]
        if new:
            found = held_by(self.connection, self.declared.id, revision, new)
            self._held |= {(revision, account): spent for account, spent in found.items()}
        return [(account, self._held[revision, account]) for account in accounts]

    def hold(self, held: Iterable[Held]) -> None:
        """Note how accounts stand from now on."""
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
        wanted = (fingerprint, periods)
        if wanted not in self._claims:
            self._claims[wanted] = claim_rows(self.connection, self.declared, fingerprint, periods)
        return self._claims[wanted]

    def append(self, steps: Iterable[Step], origin: Origin) -> list[Entry]:
        """Chain the steps to the dataset's head."""
        written = []
        for step in steps:
            spent = NOTHING
            if step.action != "quota":
                spent = self._spent[step.period] = self.spent(step.period).plus(step.price)
                self._changed.add(step.period)
            entry = _entry(self.dataset.name, self.declared.seq + 1, step, spent, origin, self.declared.head)
            self.declared.seq, self.declared.head = entry.seq, entry.hash
            self._sums.add(entry, moves(entry, step.opening))
            written.append(entry)
        self._waiting += written
        return written

    def close(self) -> None:
        """Write entries, totals, sums, quotas' accounts and the head, once."""
        if not self._waiting:
            return
        mine = self.declared.id
        insert_entries(self.connection, mine, self._waiting)
        for period in sorted(self._changed):
            set_total(self.connection, mine, period, self._spent[period])
        set_held(self.connection, mine, [Held(*place, self._held[place]) for place in sorted(self._moved)])
        self._sums.write(self.connection, mine)
        set_head(self.connection, mine, self.declared.seq, self.declared.head)


def append(connection: Connection, declared: Declared, steps: list[Step], origin: Origin) -> list[Entry]:
    """Chain the steps to the dataset's head and store them with the new totals. `declared` is locked."""
    book = Book(connection, declared)
    written = book.append(steps, origin)
    book.close()
    return written


def _entry(dataset: str, seq: int, step: Step, spent: Price, origin: Origin, prev: str) -> Entry:
    item = step.item
    fields = {
        **{"dataset": dataset, "seq": seq, "period": step.period, "action": step.action, "key": step.key, "label": step.label},
        "curve": item.curve_json if item else None,
        "mechanism": item.mechanism_json if item else None,
        "count": item.count if item else 0,
        **{"main": step.price.main, "failure": step.price.failure, "spent_main": spent.main, "spent_failure": spent.failure},
        **{"fingerprint": step.fingerprint, "salt": step.salt, "team": step.team, "purpose": step.purpose},
        **{"expires": step.expires, "quota": step.quota, "across": step.across, **vars(origin), "prev": prev},
    }
    return Entry(**fields, hash=digest(canonical_json(fields)))
