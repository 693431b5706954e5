"""`Ledger`: a privacy budget that many processes can spend and an auditor can check.

Every change is one transaction, all or nothing. It reads the totals, checks them against the budget
and the quotas, and appends.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, Unpack, cast, final

from sqlalchemy import select

from accounting.address import hide_passwords, mask
from accounting.budget import Budget
from accounting.cost import MOST, Cost
from accounting.curves import Curve
from accounting.errors import InvalidArgument, locate_errors
from accounting.files import PRIVATE
from accounting.guarantee import curve_and_relation
from accounting.ledger.book import Book, Step, openings, reading, state_of, writing
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.export import export_lines, import_lines
from accounting.ledger.heads import Head, Heads, SigningKey
from accounting.ledger.model import Clock, Dataset, Entry, Receipt, origin, utc_now
from accounting.ledger.quota import Accounts, Quota, Revision, active_revisions, revisions
from accounting.ledger.request import Chargeable, ChargeOptions, Opening, Request, json_of
from accounting.ledger.store import (
    Store,
    absolute_address,
    all_account_sums,
    all_datasets,
    declare,
    entries,
    meta,
    select_entries,
    stream,
)
from accounting.ledger.stored_text import (
    WHOLE,
    Window,
    check_name,
    check_periods,
    check_text,
    optional_text,
)
from accounting.ledger.summary import Summary, charged_curves, curves_of_quota, is_a_sum, standing
from accounting.ledger.verification import Verification, verify
from accounting.refusals import BudgetExceeded
from accounting.relations import Relation
from accounting.remaining import Remaining, Totals
from accounting.sections import Section, Sectioned

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


@final
class Ledger(Sectioned):
    """A durable record of charges on SQLite or PostgreSQL. Build one with `Ledger.open`.

    Every method that writes is one durable transaction. When it returns, the charge is on disk, and
    when it raises, nothing may be released. Methods raise UnknownDataset for a name that is not
    declared, LedgerUnavailable if the store is locked, full, read-only or gone, and LedgerCorrupt
    if it is damaged.

    Example:
        >>> import accounting as acc
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> ledger.charge(
        ...     "visits", acc.PureDP(epsilon=0.4), relation="add_remove", key="job-1"
        ... ).replayed
        False
        >>> ledger.verify().ok
        True
    """

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        *,
        create: bool = True,
        timeout: float = 30.0,
        mode: int = PRIVATE,
        clock: Clock = utc_now,
    ) -> Self:
        """Open the ledger at `url`, such as `sqlite:///privacy.db` or
        `postgresql://user@host/name`.

        Args:
            url: the URL, or the path of a SQLite file.
            create: True to make a missing file and missing tables. A new ledger has no dataset, so
                it allows no charge.
            timeout: seconds to wait for another process's transaction.
            mode: permissions of a new SQLite file; an existing one keeps its own.
            clock: source of the time, for tests. An entry's time is informational.

        Raises:
            InvalidEntry: it is neither such a URL nor a path.
            SchemaMismatch: the store holds other data, or a ledger of a later version.
        """
        return cls(Store.open(url, create=create, timeout=timeout, mode=mode), clock)

    # -- declarations ------------------------------------------------------------------------------

    def create_dataset(
        self,
        name: str,
        budget: Budget,
        relation: Relation,
        *,
        unit: str | None = None,
        window: Window = "whole",
        time_zone: str = "UTC",
        data_period: str | None = None,
        most_per_release: Budget | None = None,
        most_in_all: float | None = None,
        actor: str | None = None,
    ) -> Dataset:
        """Declare a dataset and its budget, which never change. Arguments: see `Dataset`.

        Raises:
            DatasetExists: the name is taken.
        """
        dataset = Dataset(
            name=check_name("dataset", name),
            relation=relation,
            unit=(
                ("user" if window == "whole" else f"user within one {window}")
                if unit is None
                else unit
            ),
            budget=budget,
            window=window,
            time_zone=time_zone,
            data_period=data_period,
            uid=uuid.uuid4().hex,
            most_per_release=most_per_release,
            most_in_all=most_in_all,
            **vars(origin(actor, self._clock())),
        )
        with self._store.writer() as connection:
            declare(connection, dataset.name, dataset.declaration())
        return dataset

    def datasets(self) -> list[Dataset]:
        """Return all declared datasets, in the order of declaration."""
        with self._store.reader() as connection:
            return [row.dataset for row in all_datasets(connection)]

    def dataset(self, name: str) -> Dataset:
        """Return the declaration of a dataset.

        Raises:
            UnknownDataset: the ledger declares no such dataset.
        """
        with reading(self._store, name) as book:
            return book.dataset

    def retire(self, dataset: str, to: str, *, actor: str | None = None) -> Entry:
        """State that a dataset has moved for good to the ledger at `to`.

        From now on every write for it is refused here, and the refusal names that address. Reading
        still works.

        The other ledger has to have every entry of the dataset, by `export` and `import_` or as a
        copy, so that nothing that was charged is forgotten. Both are locked meanwhile.

        Raises:
            DatasetMoved: it has moved already.
            InvalidEntry: the other ledger is this one, or does not have every entry.
        """
        step_origin = origin(actor, self._clock())
        with locate_errors("to"):
            opened = type(self).open(to, create=False)
        with opened as target:
            if self._store.is_that_of(target._store):
                raise InvalidEntry("to= is this ledger itself. Name the one that goes on")
            with writing(self._store, dataset) as book, writing(target._store, dataset) as copy:
                last = book.declared.seq
                last_entries = select_entries(copy.connection, copy.declared, entries.c.seq == last)
                if book.declared.head != (
                    last_entries[0].hash if last_entries else copy.declared.genesis
                ):
                    raise InvalidEntry(
                        f"the ledger {mask(to)} does not have every entry of dataset={dataset!r}."
                        " Export this ledger again and import it into a new one, then retire it"
                    )
                step = {"action": "retire", "key": "retired", "period": WHOLE}
                address = hide_passwords(absolute_address(to))
                (entry,) = book.append([step | {"label": check_text("to", address)}], step_origin)
        return entry

    def moved_to(self, dataset: str) -> str | None:
        """The ledger that a dataset has moved to, without a password; None if it has not."""
        with reading(self._store, dataset) as book:
            return book.moved_to

    # -- spending ----------------------------------------------------------------------------------

    def charge(
        self, dataset: str, item: Curve | Chargeable, **options: Unpack[ChargeOptions]
    ) -> Receipt:
        """Charge for a curve or mechanism before it runs. A charge is final.

        Keywords: see `ChargeOptions`.

        All runs together are one item with their composed curve. A bare curve needs `relation=`,
        the one that it was proved for, which must be the dataset's. Mechanisms and `n * mechanism`
        state their own.

        Raises:
            BudgetExceeded: the cost does not fit; the error says which one would.
            Unaffordable: no budget of the dataset's form pays for such a curve.
            NoEquivalent: the charge reads several periods together, and its cost for that is not
                known (see `ChargeOptions.across`).
            RelationMismatch, KeyConflict, SharedRows, UnknownDataset, InvalidEntry: as named.
        """
        return self._open("charge", dataset, [(item, options)])[0]

    def charge_all(
        self, dataset: str, charges: Iterable[tuple[Curve | Chargeable, ChargeOptions]]
    ) -> list[Receipt]:
        """Charge several (item, options) pairs in one transaction, or none of them.

        Give each a key for retries.

        Raises:
            Error: as `charge`.
        """
        return self._open("charge", dataset, charges)

    def reserve(
        self,
        dataset: str,
        item: Curve | Chargeable,
        *,
        expires_in: float | None = None,
        **options: Unpack[ChargeOptions],
    ) -> Receipt:
        """Reserve budget, as `charge` does, before any data are read.

        Afterwards `commit` it and read the data, or `void` it.

        Args:
            expires_in: seconds after which the reservation can no longer be committed, and is
                refunded when another charge needs the budget (`expire`).
        """
        return self._open("reserve", dataset, [(item, options)], expires_in)[0]

    def expire(self, dataset: str, *, actor: str | None = None) -> list[Receipt]:
        """Refund each reservation that was not committed in time.

        A charge that does not fit does so first.
        """
        step_origin = origin(actor, self._clock())
        with writing(self._store, dataset) as book:
            return book.void_expired(step_origin)

    def check(
        self,
        dataset: str,
        item: Curve | Chargeable,
        *,
        opening: Opening = "charge",
        **options: Unpack[ChargeOptions],
    ) -> Receipt | None:
        """Raise the errors of `charge` or `reserve` without charging, before a long computation.

        Returns:
            The receipt of the same charge under this key, which is not charged again; None if there
                is none.
        """
        request = Request.read(opening, item, options, self._clock())
        with reading(self._store, dataset) as book:
            book.require_here()
            return book.check(request)

    def commit(self, dataset: str, key: str, *, actor: str | None = None) -> Receipt:
        """State that data are about to be read for a reservation.

        The reservation can then no longer be voided.

        Raises:
            InvalidTransition: the charge is not reserved.
        """
        return self._follow("commit", dataset, key, None, actor)

    def release(
        self,
        dataset: str,
        key: str,
        *,
        actor: str | None = None,
        claim: str | None = None,
        spent: Curve | None = None,
    ) -> Receipt:
        """State that the result of a committed charge is handed out.

        Args:
            claim: name of the result, a hash for example. If several processes drew under one
                charge, the first to release decides. The others are refused, and must forget their
                results.
            spent: for a reservation, the rounds that ran according to its result and nothing else,
                as `mechanism.spent(selection)`. The rest is refunded (Theorem F8), unless several
                periods were charged as two changes (`ChargeOptions.across`).

        Raises:
            InvalidTransition: the charge is not committed, or `spent` is given without a
                reservation.
            ClaimConflict: it was released before, with another claim or `spent`, or with none.
            InvalidEntry: `spent` is not made of rounds of what was reserved.
        """
        return self._follow("release", dataset, key, optional_text("claim", claim), actor, spent)

    def void(self, dataset: str, key: str, *, actor: str, reason: str) -> Receipt:
        """Refund a reservation for which no data were read, as a new entry by a named person.

        Raises:
            InvalidTransition: the charge was committed; a failed or interrupted draw stays charged.
        """
        return self._follow(
            "void", dataset, key, check_name("reason", reason), check_name("actor", actor)
        )

    def _follow(
        self,
        action: Step,
        dataset: str,
        key: str,
        label: str | None,
        actor: str | None,
        spent: Curve | None = None,
    ) -> Receipt:
        ran, step_origin = (
            None if spent is None else json_of("curve", curve_and_relation(spent, None)[0]),
            origin(actor, self._clock()),
        )
        with writing(self._store, dataset) as book:
            return book.follow(action, check_name("key", key), label, step_origin, ran)

    def _open(
        self,
        action: Opening,
        dataset: str,
        charges: Iterable[tuple[Curve | Chargeable, ChargeOptions]],
        expires_in: float | None = None,
    ) -> list[Receipt]:
        """Open all charges in one transaction, or none.

        A charge that does not fit is tried again after expired reservations are void.
        """
        requests = Request.read_all(action, charges, expires_in, self._clock())
        try:
            with writing(self._store, dataset) as book:
                return book.charge_all(requests)
        except BudgetExceeded:
            if not self.expire(dataset):
                raise
        with writing(self._store, dataset) as book:
            return book.charge_all(requests)

    def quotas(self, dataset: str) -> Quotas:
        """Return the dataset's quotas, by person, team, purpose or span of the data's time."""
        return Quotas(self._store, self._clock, dataset)

    # -- reading -----------------------------------------------------------------------------------

    def total(self, dataset: str, period: str | None = None) -> Remaining:
        """Return the state of the budget of a dataset, or of one period if it has a window."""
        with reading(self._store, dataset) as book:
            account, *more = check_periods(book.dataset.window, period)
            if more:
                raise InvalidEntry(
                    f"period={period!r} names several, each with a budget of its own. Name one,"
                    " or use `totals`"
                )
            return _standing(book, {account: book.balances.spent(0, [account])[0, account]})[0]

    def totals(self, dataset: str) -> Totals:
        """Return the state of the budget of every period that was charged, in order."""
        with reading(self._store, dataset) as book:
            return Totals(_standing(book, book.balances.totals()))

    def cost_over_periods(
        self, dataset: str, item: Curve | Chargeable | None = None, periods: Iterable[str] = ()
    ) -> tuple[float, float]:
        """Return (epsilon, delta) for a user with rows in every period that was charged.

        Args:
            item: a further charge to each of `periods`, by itself. A bare curve is taken to hold
                for the dataset's relation.
            periods: names of these periods.

        Raises:
            BudgetExceeded: the dataset declares less (`most_in_all`).
            InvalidEntry: the dataset has no window.
        """
        with reading(self._store, dataset) as book:
            declared = book.dataset
            if declared.window == "whole":
                raise InvalidEntry(
                    f"dataset={dataset!r} has one budget for all its rows, so no cost is added"
                    " up over periods. Use `total`"
                )
            if item is None:
                return book.balances.cost_over_periods()
            curve, _ = curve_and_relation(
                item, declared.relation if isinstance(item, Curve) else None
            )
            return book.balances.cost_over_periods(
                declared.budget.filter_cost(curve), check_periods(declared.window, list(periods))
            )

    def room(
        self, dataset: str, item: Curve | Chargeable | DpEvent, **options: Unpack[ChargeOptions]
    ) -> list[Remaining]:
        """Return the state of every account that a charge with these options counts to.

        The periods come first, and then the quotas. Each counts further releases of the curve that
        would be charged, which may be that of an exchange (see `ChargeOptions.across`). A curve, or
        an event of dp-accounting, without a relation is charged under the dataset's.

        Raises:
            RelationMismatch, InvalidEntry, NoEquivalent: as `charge`.
        """
        if isinstance(item, Curve) or not hasattr(item, "curve"):  # which curves of curves have too
            relation = options.get("relation") or self.dataset(dataset).relation
            if not isinstance(item, Curve):
                # loads dp-accounting, which no other charge needs
                from accounting.dp_events import from_dp_event

                item = from_dp_event(cast(Any, item), relation)
            options = {**options, "relation": relation}
        request = Request.read(
            "charge", cast(Chargeable, item), {**options, "count": 1}, self._clock()
        )
        with reading(self._store, dataset) as book:
            book.require_here()
            charge, periods = request.resolve_for(book.dataset)
            curves = {0: _charges(book, periods) or {}}
            for revision in book.balances.quotas:
                curves[revision.seq] = (
                    curves_of_quota(book.connection, book.declared, revision) or {}
                )
            return [
                replace(remaining, curve=charge.curve, charged=curves[quota].get(account))
                for (quota, account), _, remaining in book.balances.accounts(periods, charge.fields)
            ]

    def affordable(
        self, dataset: str, item: Curve | Chargeable | DpEvent, **options: Unpack[ChargeOptions]
    ) -> Remaining:
        """Return the state of the account that pays for the fewest further releases like `item`.

        It says how many fit, charged one by one with these options, and what runs out first.

        Raises:
            RelationMismatch, InvalidEntry, NoEquivalent: as `charge`.
        """
        return min(self.room(dataset, item, **options), key=lambda remaining: remaining.releases)

    def find(self, dataset: str, key: str) -> Receipt | None:
        """Return the charge under an idempotency key, in its present state, or None."""
        with reading(self._store, dataset) as book:
            steps = book.steps(check_name("key", key))
        return (
            Receipt(book.dataset.name, key, state_of(steps), openings(steps), replayed=True)
            if steps
            else None
        )

    def entries(self, dataset: str) -> Iterator[Entry]:
        """Yield all entries so far, in order, a block at a time."""
        with reading(self._store, dataset) as book:
            pass
        yield from stream(self._store.reader, book.declared)

    def latest(self, dataset: str, limit: int = 20) -> list[Entry]:
        """Return the last entries, latest first."""
        with reading(self._store, dataset) as book:
            return select_entries(book.connection, book.declared, limit=limit, latest=True)

    def summary(self, dataset: str) -> Summary:
        """Return the facts that reports show of a dataset, added up by the store."""
        with reading(self._store, dataset) as book:
            return Summary.from_store(book.connection, book.declared)

    # -- evidence ----------------------------------------------------------------------------------

    def heads(self) -> Heads:
        """Return the chain heads of all datasets.

        Keep them where the ledger's writers cannot change them, and pass them to `verify`.
        """
        with self._store.reader() as connection:
            identity, at = (
                connection.execute(select(meta.c.ledger_id)).scalar_one(),
                origin(None, self._clock()).at,
            )
            heads = {
                row.dataset.name: Head(seq=row.seq, hash=row.head)
                for row in all_datasets(connection)
            }
            return Heads(ledger_id=identity, at=at, datasets=heads, declared=len(heads))

    def verify(self, heads: Heads | None = None, key: str | None = None) -> Verification:
        """Check the ledger by deriving everything anew from its entries.

        Args:
            heads: chain heads that were taken earlier and kept elsewhere. With them, entries that
                were cut off at the end are detected too.
            key: public key that must have signed the heads.

        Raises:
            InvalidEntry: key is not a public key, or is given without heads.
        """
        return verify(self._store, heads, key)

    def export(self, target: Path | str | IO[str], key: SigningKey | None = None) -> Heads:
        """Write the whole ledger as JSON lines, signed if `key` is given, and return its heads."""
        heads = self.heads()
        return export_lines(self._store, heads if key is None else key.sign(heads), target)

    def import_(self, source: Path | str | IO[str], key: str | None = None) -> int:
        """Add the datasets of an exported ledger and return the number of entries.

        All of it is checked first. With a public `key`, the export must have been signed by its
        holder.

        Raises:
            ImportRefused: the export does not verify, or one of its datasets exists here. Nothing
                was imported.
        """
        return import_lines(self._store, source, key)

    def close(self) -> None:
        """Close the connections. The ledger opens new ones when it is used again."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store!r})"

    def sections(self) -> Iterator[Section]:
        """Return every dataset, its budget, and the share spent."""
        yield import_module("accounting.report").ledger_overview(self)


def _standing(book: Book, spent: Mapping[str, Cost]) -> tuple[Remaining, ...]:
    return standing(book.declared, spent, _charges(book, spent))


def _charges(book: Book, periods: Collection[str]) -> dict[str, Curve] | None:
    """Return the composed charges of each period. None for a pure budget, a sum of epsilons."""
    pure = is_a_sum(book.dataset.budget)
    return None if pure else charged_curves(book.connection, book.declared, periods)


@final
class Quotas:
    """The quotas of one dataset, as returned by `Ledger.quotas`.

    Example:
        >>> import accounting as acc
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> quotas = ledger.quotas("visits")
        >>> _ = quotas.declare(
        ...     acc.ledger.Quota(
        ...         name="interns", limit=acc.Budget(epsilon=0.2), by="team", of="interns"
        ...     )
        ... )
        >>> curve = acc.PureDP(epsilon=0.2)
        >>> _ = ledger.charge("visits", curve, relation="add_remove", team="interns")
        >>> [(left.account, left.main) for _, left in quotas.standing()]
        [('interns', 0.0)]
    """

    def __init__(self, store: Store, clock: Clock, dataset: str) -> None:
        self._store, self._clock, self._dataset = store, clock, check_name("dataset", dataset)

    def declare(self, quota: Quota, *, actor: str | None = None) -> Entry:
        """Declare a quota, or replace the quota of the same name. Earlier charges count.

        It reads all entries of the dataset while charges on it wait. Declaring the same quota again
        changes nothing.

        Raises:
            InvalidArgument: quota is not a Quota.
            InvalidEntry: the quota does not fit the dataset's window, or an earlier charge cannot
                be counted in its unit.
        """
        if not isinstance(quota, Quota):
            raise InvalidArgument(
                f"quota must be an accounting.ledger.Quota, not {type(quota).__name__}"
            )
        step_origin = origin(actor, self._clock())
        with writing(self._store, self._dataset) as book:
            quota.require_for(book.dataset.window)
            for revision in revisions(book.connection, book.declared.id):
                if revision.until is None and revision.quota == quota:
                    return select_entries(
                        book.connection, book.declared, entries.c.seq == revision.seq
                    )[0]
            seq = book.declared.seq + 1
            sums = Accounts.from_entries(
                book.connection,
                book.declared,
                [] if quota.limit is None else [Revision(seq, quota)],
            )
            if any(part > MOST for spent in sums.values() for part in spent):
                raise InvalidEntry(
                    f"quota={quota.name!r} has more charges than its limit's unit can count"
                )
            step = {
                "action": "quota",
                "key": f"{quota.name}#{seq}",
                "period": "",
                "quota": quota.model_dump_json(),
            }
            (entry,) = book.append([step], step_origin)
            book.balances.set(sums)
        return entry

    def withdraw(self, name: str, *, actor: str | None = None) -> Entry:
        """Withdraw a quota, on record. The dataset's budget stays as it is.

        Raises:
            InvalidEntry: the dataset has no such quota.
        """
        quotas = {quota.name: quota for quota in self.all()}
        if name not in quotas:
            raise InvalidEntry(
                f"quota={name!r} is not declared for dataset={self._dataset!r}, so there is"
                " nothing to withdraw"
            )
        return self.declare(quotas[name].model_copy(update={"limit": None}), actor=actor)

    def all(self) -> list[Quota]:
        """Return the quotas in force, in the order of declaration."""
        with reading(self._store, self._dataset) as book:
            return [
                revision.quota for revision in active_revisions(book.connection, book.declared.id)
            ]

    def standing(self, most: int | None = None) -> list[tuple[Quota, Remaining]]:
        """Return every charged account of the quotas in force.

        With `most`, only each quota's fullest accounts are returned.
        """
        states: list[tuple[Quota, Remaining]] = []
        with reading(self._store, self._dataset) as book:
            sums = all_account_sums(book.connection, book.declared.id)
            for revision in active_revisions(book.connection, book.declared.id):
                curve_of = curves_of_quota(book.connection, book.declared, revision) or {}
                accounts = sorted(
                    (name, spent) for (seq, name), spent in sums.items() if seq == revision.seq
                )
                fullest = sorted(accounts, key=lambda account: account[1], reverse=True)[:most]
                for name, spent in sorted(fullest):
                    words, curve = revision.quota.account_in_words(name), curve_of.get(name)
                    states.append(
                        (revision.quota, Remaining(revision.limit, spent, None, words, curve))
                    )
        return states
