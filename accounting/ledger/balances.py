"""`Balances`: the sums charged to the accounts of a dataset, and the cost for its users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, select

from accounting.cost import NOTHING, Cost
from accounting.ledger.errors import InvalidEntry, LedgerCorrupt
from accounting.ledger.quota import Place, Revision, active_revisions
from accounting.ledger.store import (
    IS_STEP,
    Declared,
    all_totals,
    entries,
    read_cost,
    scopes,
    totals,
    upsert,
)
from accounting.refusals import BudgetExceeded
from accounting.remaining import Remaining, periods_in_words, sum_periods

# Statements that every charge runs are built once: building them costs as much time as running
# them.
_MINE: BindParameter[Any] = bindparam("mine")
_LAST = (
    select(entries.c.spent_main.label("main"), entries.c.spent_failure.label("failure"))
    .where(entries.c.dataset_id == _MINE, entries.c.period == bindparam("period"), IS_STEP)
    .order_by(entries.c.seq.desc())
    .limit(1)
)
_NAMED: BindParameter[Any] = bindparam("names", expanding=True)
_PERIODS = select(totals.c.period.label("name"), totals.c.main, totals.c.failure).where(
    totals.c.dataset_id == _MINE, totals.c.period.in_(_NAMED)
)
_ACCOUNTS = select(scopes.c.account.label("name"), scopes.c.main, scopes.c.failure).where(
    scopes.c.dataset_id == _MINE, scopes.c.quota == bindparam("seq"), scopes.c.account.in_(_NAMED)
)


class Balances:
    """The sums charged to a dataset's accounts, read when first needed within one transaction.

    Changes are kept, and nothing is written before `write`. The account (0, period) is the
    dataset's own, and (n, account) is one of the quota that entry n declares.
    """

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.connection: Connection = connection
        self.declared: Declared = declared
        self._spent: dict[Place, Cost] = {}
        self._moved: set[Place] = set()

    def spent(self, quota: int, names: Sequence[str]) -> dict[Place, Cost]:
        """Return the sums charged to accounts.

        Args:
            quota: entry that declares the quota, or 0 for the dataset's own accounts.
            names: names of the accounts.

        Raises:
            LedgerCorrupt: a period's total is not that of its last entry.
        """
        if new := [name for name in names if (quota, name) not in self._spent]:
            parameters = {"mine": self.declared.id, "seq": quota, "names": new}
            sums = {
                row.name: read_cost(row)
                for row in self.connection.execute(_ACCOUNTS if quota else _PERIODS, parameters)
            }
            for name in new:
                self._spent[quota, name] = sums.get(name, NOTHING)
                if not quota:
                    self._require_last(name)
        return {(quota, name): self._spent[quota, name] for name in names}

    def _require_last(self, period: str) -> None:
        row = self.connection.execute(
            _LAST, {"mine": self.declared.id, "period": period}
        ).one_or_none()
        if read_cost(row) != self._spent[0, period]:
            raise LedgerCorrupt(
                "the running total of a period is not that of its last entry, so one of them"
                " was edited. Nothing was written, and nothing may be released. Run `dpselect"
                " ledger verify`"
            )

    def totals(self) -> dict[str, Cost]:
        """Return the sum charged to every period, including this transaction."""
        mine = {name: spent for (quota, name), spent in self._spent.items() if not quota}
        return all_totals(self.connection, self.declared.id) | mine

    def cost_over_periods(
        self, cost: Cost = NOTHING, periods: Iterable[str] = ()
    ) -> tuple[float, float]:
        """Return (epsilon, delta) for a user with rows in all periods.

        Args:
            cost: a further charge to each of `periods`.
            periods: names of these periods.

        Raises:
            BudgetExceeded: the dataset allows less.
        """
        dataset, spent = self.declared.dataset, self.totals()
        spent |= {period: spent.get(period, NOTHING).plus(cost) for period in periods}
        epsilon, delta = sum_periods(
            dataset.budget, [Remaining(dataset.budget, total) for total in spent.values()]
        )
        if dataset.most_in_all is not None and epsilon > dataset.most_in_all:
            raise BudgetExceeded(
                f"dataset={dataset.name!r}:"
                f" {periods_in_words(epsilon, delta, len(spent), dataset.window)}, and the"
                f" dataset allows at most epsilon {dataset.most_in_all:g} in all. Release fewer"
                " periods, or spend less on each. Nothing was charged, and nothing may be"
                " released."
            )
        return epsilon, delta

    @cached_property
    def quotas(self) -> list[Revision]:
        """Quotas that limit a charge now."""
        return active_revisions(self.connection, self.declared.id)

    def accounts(
        self, periods: tuple[str, ...], scope: Mapping[str, Any]
    ) -> Iterator[tuple[Place, str, Remaining]]:
        """Yield every account that a charge counts to, with its place, name in messages, and state.

        The dataset's periods come first, and then the accounts of quotas.
        """
        where = repr(self.declared.dataset.name)
        for place, spent in self.spent(0, periods).items():
            _, period = place
            remaining = Remaining(self.declared.dataset.budget, spent, account=period)
            yield place, where + (f", period={period!r}" if period else ""), remaining
        for revision in self.quotas:
            quota = revision.quota
            if quota.by is not None and quota.of is None and scope[quota.by] is None:
                raise InvalidEntry(
                    f"{quota.by} is missing, and quota={quota.name!r} limits each {quota.by}."
                    f" Name the {quota.by} of the charge"
                )
            if not quota.lists(scope):
                raise InvalidEntry(
                    f"{quota.by}={scope[str(quota.by)]!r} is not on the list of"
                    f" quota={quota.name!r}, which has {', '.join(quota.among)}. Name one of"
                    " them, or declare the quota again with this one (ledger quota --among)"
                )
            names = quota.accounts(self.declared.dataset.window, scope, periods)
            for place, spent in self.spent(revision.seq, names).items():
                words = quota.account_in_words(place[1])
                remaining = Remaining(
                    revision.limit, spent, account=f"quota {quota.name} ({words})"
                )
                yield place, f"{where}, quota={quota.name!r} ({words})", remaining

    def set(self, accounts: Mapping[Place, Cost]) -> None:
        """Set the sums of accounts, to be written by `write`."""
        self._spent |= accounts
        self._moved |= accounts.keys()

    def write(self) -> None:
        """Write the sums that were set, once."""
        mine = {"dataset_id": self.declared.id}
        for table in (totals, scopes):
            places = [place for place in sorted(self._moved) if (place[0] > 0) == (table is scopes)]
            accounts = [
                {"quota": quota, "account": name} if quota else {"period": name}
                for quota, name in places
            ]
            rows = [
                mine | account | self._spent[place]._asdict()
                for place, account in zip(places, accounts, strict=True)
            ]
            if rows:
                self.connection.execute(upsert(table), rows)
        self._moved.clear()
