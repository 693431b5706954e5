"""`Quotas`: what limits a dataset's charges besides its budget; declared, replaced, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import final

from sqlalchemy import Connection

from accounting.budget.budget import NOTHING, Budget, Price, Remaining
from accounting.budget.price import MOST
from accounting.errors import InvalidArgument
from accounting.ledger.book import Step, append
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.model import Clock, Entry, origin
from accounting.ledger.quota import Quota
from accounting.ledger.scopes import Revision, all_held, hold, replay, revisions
from accounting.ledger.statements import Declared, entries_after
from accounting.ledger.store import Store
from accounting.ledger.stored_text import checked_name


@dataclass(frozen=True)
class Standing:
    """One account of a quota: whose or which rows', in words, and what it has been charged.

    `spent` is in the unit of the quota's own limit, whose `remaining` and `capacity` it is held against.
    """

    quota: Quota
    account: str
    spent: Price

    @property
    def limit(self) -> Budget:
        """What the account may spend; of a quota that is withdrawn there is no standing."""
        assert self.quota.limit is not None
        return self.quota.limit

    @property
    def remaining(self) -> Remaining:
        """What is left: nats of the limit's unit, and failure probability."""
        return self.limit.remaining(self.spent)


@final
class Quotas:
    """The quotas of one dataset. `Ledger.quotas` makes one.

    Example:
        >>> import accounting as acc
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> quotas = ledger.quotas("visits")
        >>> _ = quotas.declare(acc.ledger.Quota(name="interns", limit=acc.Budget(epsilon=0.2), by="team", of="interns"))
        >>> curve = acc.PureDP(epsilon=0.2)
        >>> _ = ledger.charge("visits", curve, relation="add_remove", team="interns")
        >>> [(one.account, one.quota.limit.remaining(one.spent).main) for one in quotas.standing()]
        [('interns', 0.0)]
    """

    def __init__(self, store: Store, clock: Clock, dataset: str) -> None:
        self._store, self._clock, self._dataset = store, clock, checked_name("dataset", dataset)

    def declare(self, quota: Quota, *, actor: str | None = None) -> Entry:
        """Declare a quota, or put another in the place of one of that name; what was charged before counts.

        Reads all entries of the dataset while charges on it wait. The same quota again changes nothing.

        Raises:
            InvalidArgument: it is no Quota.
            InvalidEntry: it does not fit the dataset's window, or a charge that was made cannot be counted in its unit.
        """
        if not isinstance(quota, Quota):
            raise InvalidArgument(f"quota must be an accounting.ledger.Quota, not {type(quota).__name__}")
        by = origin(actor, self._clock)
        with self._store.writer_on(self._dataset) as (connection, declared):
            quota.require_for(declared.dataset.window)
            present = _latest(connection, declared).get(quota.name)
            if present is not None and present.quota == quota:
                return entries_after(connection, declared, present.seq - 1, limit=1)[0]
            seq = declared.seq + 1
            held = replay(connection, declared, [] if quota.limit is None else [Revision(seq, quota)]).held()
            if any(part > MOST for one in held for part in one.spent):
                raise InvalidEntry(f"quota={quota.name!r}: what was charged so far is more than this limit's unit counts")
            step = Step("quota", f"{quota.name}#{seq}", "", NOTHING, None, quota=quota.model_dump_json())
            (entry,) = append(connection, declared, [step], by)
            hold(connection, declared.id, held)
        return entry

    def withdraw(self, name: str, *, actor: str | None = None) -> Entry:
        """Take a quota away, on record. The dataset's budget stays what it is.

        Raises:
            InvalidEntry: it has no such quota.
        """
        known = {quota.name: quota for quota in self.all()}
        if name not in known:
            raise InvalidEntry(f"quota={name!r} is not declared for dataset={self._dataset!r}: there is nothing to withdraw")
        return self.declare(known[name].model_copy(update={"limit": None}), actor=actor)

    def all(self) -> list[Quota]:
        """Those in force, in the order in which their names were declared first."""
        with self._store.reader_on(self._dataset) as (connection, declared):
            found = _latest(connection, declared)
        return [one.quota for one in found.values() if one.quota.limit is not None]

    def standing(self, most: int | None = None) -> list[Standing]:
        """Every account of the quotas in force that was charged; with `most`, each quota's fullest ones only."""
        with self._store.reader_on(self._dataset) as (connection, declared):
            known = {one.seq: one for one in _latest(connection, declared).values()}
            held = sorted(one for one in all_held(connection, declared.id) if one.seq in known)
        found: list[Standing] = []
        for seq, accounts in groupby(held, lambda one: one.seq):
            fullest = sorted(accounts, key=lambda one: one.spent, reverse=True)[:most]
            quota = known[seq].quota
            found += [Standing(quota, quota.account_in_words(one.account), one.spent) for one in sorted(fullest)]
        return found


def _latest(connection: Connection, declared: Declared) -> dict[str, Revision]:
    return {one.quota.name: one for one in revisions(connection, declared.id)}
