"""Quotas of a dataset at work: what a charge must pass besides the budget, in the same transaction, and the same derived anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, literal_column, select

from accounting.budget.budget import NOTHING, Budget, Price
from accounting.errors import AccountingError
from accounting.ledger.ddl import entries, scopes
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.lifecycle import Openings, doubt, price_in, returned
from accounting.ledger.model import Dataset, Entry
from accounting.ledger.quota import Quota, Who, read_quota
from accounting.ledger.statements import Declared, blocks, put, read_price


class Revision(NamedTuple):
    """A quota as entry `seq` declares it, in force until the entry that replaces it."""

    seq: int
    quota: Quota
    until: int | None = None


class Held(NamedTuple):
    """What an account of a revision has been charged."""

    seq: int
    account: str
    spent: Price


# Written out, as in the index of the quotas: SQLite takes that for no parameter.
_IS_QUOTA = entries.c.action == literal_column("'quota'")
_DECLARED = select(entries.c.seq, entries.c.quota).where(entries.c.dataset_id == bindparam("mine"), _IS_QUOTA)
_SPENT = select(scopes.c.account, scopes.c.main, scopes.c.failure).where(
    scopes.c.dataset_id == bindparam("mine"),
    scopes.c.quota == bindparam("revision"),
    scopes.c.account.in_(bindparam("accounts", expanding=True)),
)


def revisions(connection: Connection, dataset_id: int) -> list[Revision]:
    """Every quota that was ever declared, in order; InvalidEntry if one was edited and cannot be read."""
    found: list[Revision] = []
    latest: dict[str, int] = {}
    for seq, text in sorted(tuple(row) for row in connection.execute(_DECLARED, {"mine": dataset_id})):
        quota = read_quota(text)
        if quota.name in latest:
            before = latest[quota.name]
            found[before] = found[before]._replace(until=seq)
        latest[quota.name] = len(found)
        found.append(Revision(seq, quota))
    return found


def in_force(declared: Iterable[Revision]) -> list[tuple[Revision, Budget]]:
    """Those that limit a charge now."""
    return [(one, one.quota.limit) for one in declared if one.until is None and one.quota.limit is not None]


def spent_of(connection: Connection, dataset_id: int, revision: int, accounts: list[str]) -> dict[str, Price]:
    """What the accounts have been charged so far."""
    rows = connection.execute(_SPENT, {"mine": dataset_id, "revision": revision, "accounts": accounts})
    found = {row.account: read_price(row.main, row.failure) for row in rows}
    return {account: found.get(account, NOTHING) for account in accounts}


def all_held(connection: Connection, dataset_id: int) -> list[Held]:
    """Every account of every revision."""
    rows = connection.execute(select(scopes).where(scopes.c.dataset_id == dataset_id))
    return [Held(row.quota, row.account, read_price(row.main, row.failure)) for row in rows]


def hold(connection: Connection, dataset_id: int, held: list[Held]) -> None:
    """Write accounts as they stand from now on."""
    mine = {"dataset_id": dataset_id}
    put(connection, scopes, [{**mine, "quota": seq, "account": account, **spent._asdict()} for seq, account, spent in held])


def give_back(connection: Connection, declared: Declared, opening: tuple[Entry, ...], by: Entry) -> None:
    """Take a voided reservation, or what did not run of one, out of the accounts that it counts to; `by` says which."""
    periods = [entry.period for entry in opening]
    for revision, limit in in_force(revisions(connection, declared.id)):
        accounts = revision.quota.accounts(declared.dataset.window, who_of(opening[0]), periods)
        spent = spent_of(connection, declared.id, revision.seq, accounts)
        back = _moved(limit, by, opening[0])
        hold(connection, declared.id, [Held(revision.seq, account, spent[account].plus(back)) for account in accounts])


def who_of(entry: Entry) -> Who:
    """On whose behalf a charge was made."""
    return Who(entry.actor, entry.team, entry.purpose)


@dataclass
class _Account:
    spent: Price = NOTHING
    doubt: int = 0

    @property
    def least(self) -> Price:
        """What it may have stood at when another version of the package charged."""
        return Price(*(max(0, part - self.doubt) for part in self.spent))


@dataclass
class Replay:
    """The accounts of all revisions, derived anew from a dataset's entries in order.

    Memory grows with the accounts, not with the entries.
    """

    dataset: Dataset
    revisions: list[Revision]
    accounts: dict[tuple[int, str], _Account] = field(default_factory=lambda: defaultdict(_Account))
    _step: tuple[str, str] = ("", "")
    _touched: set[tuple[int, str]] = field(default_factory=set)

    def follow(self, entry: Entry, opening: Entry | None) -> Iterator[str]:
        """Count the next entry, with the one that opened what it opens or takes back; what does not hold, in words."""
        if opening is None or not self.revisions:
            return
        if (entry.key, entry.action) != self._step:  # a charge of several periods is several entries, and counts once
            self._step, self._touched = (entry.key, entry.action), set()
        for revision in self.revisions:
            if revision.until is None or entry.seq < revision.until:
                yield from self._count(revision, entry, opening)

    def _count(self, revision: Revision, entry: Entry, first: Entry) -> Iterator[str]:
        quota, limit = revision.quota, revision.quota.limit
        if limit is None:
            return
        try:
            new = [(revision.seq, one) for one in quota.accounts(self.dataset.window, who_of(first), [entry.period])]
            price, unsure = _moved(limit, entry, first), doubt(limit, entry, first)
        except (AccountingError, ValueError) as error:  # a period that is none, in an entry that was edited
            yield f"the charge cannot be counted to quota={quota.name!r} ({type(error).__name__})"
            return
        for place in set(new) - self._touched:
            account = self.accounts[place]
            account.spent, account.doubt = account.spent.plus(price), account.doubt + unsure
            if entry.action in ("charge", "reserve") and entry.seq > revision.seq and not limit.fits(NOTHING, account.least):
                yield f"the charge is beyond quota={quota.name!r}, {quota.account_in_words(place[1])}"
        self._touched |= set(new)

    def held(self) -> list[Held]:
        """The accounts as they stand."""
        return [Held(seq, name, account.spent) for (seq, name), account in self.accounts.items()]

    def differs(self, stored: Iterable[Held]) -> bool:
        """Whether what the store holds is something else, beyond what versions of the package may differ by."""
        given = {(one.seq, one.account): one.spent for one in stored}
        return given.keys() != self.accounts.keys() or any(
            abs(have - due) > account.doubt
            for place, account in self.accounts.items()
            for have, due in zip(given[place], account.spent, strict=True)
        )


def _moved(limit: Budget, entry: Entry, first: Entry) -> Price:
    """What an entry adds to an account, as it opens a charge, takes it back, or settles it."""
    if entry.action in ("void", "release"):
        return returned(limit, first, entry.curve, entry.package).times(-1)
    return price_in(limit, first.curve or "", first.count)


def replay(connection: Connection, declared: Declared, wanted: list[Revision]) -> Replay:
    """What the entries make of these revisions; InvalidEntry if one cannot be counted to one of them, or was beyond it."""
    book, opened = Replay(declared.dataset, wanted), Openings()
    for entry in chain.from_iterable(blocks(connection, declared)) if wanted else ():
        for problem in book.follow(entry, opened.of(entry)):
            raise InvalidEntry(f"dataset={declared.dataset.name!r}, entry {entry.seq}: {problem}")
    return book
