"""`Ledger`: a privacy budget that many processes can spend and an auditor can check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Self, Unpack, final

from sqlalchemy import select

from accounting.budget.budget import Budget
from accounting.curves import Curve
from accounting.ledger import statements
from accounting.ledger.charging import expire, follow, open_charges, require_charge, room
from accounting.ledger.ddl import meta
from accounting.ledger.errors import LedgerCorrupt
from accounting.ledger.export import export_lines, import_lines
from accounting.ledger.heads import Heads, SigningKey, Trust, heads_of
from accounting.ledger.item import Chargeable, Terms, read_item
from accounting.ledger.lifecycle import Following, openings, state_of
from accounting.ledger.model import Clock, Dataset, Entry, Receipt, Total, new_dataset, origin, utc_now
from accounting.ledger.periods import Window, checked_periods
from accounting.ledger.quotas import Quotas
from accounting.ledger.rules import Problem
from accounting.ledger.store import Store
from accounting.ledger.stored_text import checked_name, optional_text
from accounting.ledger.sums import Summary, summarise
from accounting.ledger.verification import Verification, stream, verify
from accounting.relation import Relation


@final
class Ledger:
    """Charges that outlive the process, on SQLite or PostgreSQL. Build one with `Ledger.open`.

    Every method that writes is one durable transaction: when it returns, the charge is on disk; when it raises, nothing may be
    released. Methods raise LedgerUnavailable where the store is locked, full, read-only or gone, and LedgerCorrupt where it is
    damaged.

    Example:
        >>> import accounting as acc
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> ledger.charge("visits", acc.PureDP(epsilon=0.4), relation="add_remove", key="job-1").replayed
        False
        >>> ledger.verify().ok
        True
    """

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def open(cls, url: str, *, create: bool = True, timeout: float = 30.0, clock: Clock = utc_now) -> Self:
        """Open the ledger at `url`, `sqlite:///privacy.db` or `postgresql://user@host/name`.

        Args:
            create: make the file and the tables where they are missing. A new ledger has no dataset, so it allows no charge.
            timeout: seconds to wait for another process's transaction.
            clock: for tests; an entry's time is informational.

        Raises:
            SchemaMismatch: the store holds something else, or a ledger of a later version.
        """
        return cls(Store.open(url, create=create, timeout=timeout), clock)

    # -- declarations -------------------------------------------------------------------------------------------------

    def create_dataset(
        self,
        name: str,
        budget: Budget,
        relation: Relation,
        *,
        unit: str | None = None,
        window: Window = "whole",
        data_period: str | None = None,
        actor: str | None = None,
    ) -> Dataset:
        """Declare a dataset and its budget, once and for all.

        Args:
            budget: of all rows together, or of each period of `window`.
            relation: what neighbouring datasets differ by; every charge must be proved for it.
            unit: who is protected, in words; by default "user", with a window "user within one month" and so on.
            window: which rows share a budget. A charge then names the periods whose rows it reads.
            data_period: which rows the dataset holds, in words.

        Raises:
            DatasetExists: the name is taken.
        """
        dataset = new_dataset(name, budget, relation, unit, window, data_period, origin(actor, self._clock))
        with self._store.writer() as connection:
            statements.declare(connection, dataset)
        return dataset

    def datasets(self) -> list[Dataset]:
        """All declared datasets, in the order of declaration."""
        with self._store.reader() as connection:
            return [row.dataset for row in statements.all_datasets(connection)]

    def dataset(self, name: str) -> Dataset:
        """One declaration.

        Raises:
            UnknownDataset: there is none.
        """
        with self._store.reader() as connection:
            return statements.find_dataset(connection, name).dataset

    # -- spending -----------------------------------------------------------------------------------------------------

    def charge(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> Receipt:
        """Charge for a curve or mechanism before it runs. There is no way back. Keywords: see `Terms`.

        All runs together are one item at their composed curve. A bare curve comes with `relation=`, the one that it was proved
        for, checked against the dataset's; mechanisms and `n * mechanism` bring theirs.

        Raises:
            BudgetExceeded: it does not fit; the error says what would.
            Unaffordable: no budget of the dataset's form pays for such a curve.
            RelationMismatch, KeyConflict, SharedRows, UnknownDataset, InvalidEntry: as named.
        """
        return open_charges(self._store, self._clock, "charge", dataset, [(item, terms)])[0]

    def charge_all(self, dataset: str, charges: Iterable[tuple[Curve | Chargeable, Terms]]) -> list[Receipt]:
        """Charge several (item, terms) pairs in one transaction, or none; give each a key for retries. Raises as `charge`."""
        return open_charges(self._store, self._clock, "charge", dataset, charges)

    def reserve(
        self, dataset: str, item: Curve | Chargeable, *, expires_in: float | None = None, **terms: Unpack[Terms]
    ) -> Receipt:
        """Set budget aside, as `charge` does, while no data are read yet: then `commit` and read them, or `void`.

        Args:
            expires_in: seconds after which it can no longer be committed, and is given back when somebody needs room (`expire`).
        """
        return open_charges(self._store, self._clock, "reserve", dataset, [(item, terms)], expires_in)[0]

    def expire(self, dataset: str, *, actor: str | None = None) -> list[Receipt]:
        """Give back each reservation that was not committed in time. A charge that finds no room does so first."""
        return expire(self._store, dataset, origin(actor, self._clock))

    def check(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> None:
        """Raise as `charge` would if it were made now, without charging: before a long computation."""
        require_charge(self._store, self._clock, dataset, item, terms)

    def commit(self, dataset: str, key: str, *, actor: str | None = None) -> Receipt:
        """State that data are about to be read for a reservation: from here on it cannot be voided.

        Raises:
            InvalidTransition: it is not reserved.
        """
        return self._follow("commit", dataset, key, None, actor)

    def release(
        self, dataset: str, key: str, *, actor: str | None = None, claim: str | None = None, spent: Curve | None = None
    ) -> Receipt:
        """State that the result of a committed charge is handed out.

        Args:
            claim: names the result, by a hash for example. Of several processes that drew under one charge the first to release
                decides: the others are refused, and must forget what they drew.
            spent: of a reservation, the rounds that its result, and nothing else, says were run, as `mechanism.spent(selection)`;
                the rest is given back (Theorem F8).

        Raises:
            InvalidTransition: it is not committed; or there is a `spent` and was no reservation.
            ClaimConflict: it was released before, with another claim or `spent`, or with none.
            InvalidEntry: `spent` is not made of rounds of what was reserved.
        """
        return self._follow("release", dataset, key, optional_text("claim", claim), actor, spent)

    def void(self, dataset: str, key: str, *, actor: str, reason: str) -> Receipt:
        """Give back a reservation for which no data were read, as a new entry by a named person.

        Raises:
            InvalidTransition: it was committed; a failed or interrupted draw stays charged.
        """
        return self._follow("void", dataset, key, checked_name("reason", reason), checked_name("actor", actor))

    def _follow(
        self, action: Following, dataset: str, key: str, label: str | None, actor: str | None, ran: Curve | None = None
    ) -> Receipt:
        item, by = None if ran is None else read_item(ran, 1, None), origin(actor, self._clock)
        with self._store.writer_on(dataset) as (connection, declared):
            return follow(connection, declared, action, checked_name("key", key), label, by, item)

    def quotas(self, dataset: str) -> Quotas:
        """The limits within the dataset's budget: per person, team, purpose, or stretch of the data's time."""
        return Quotas(self._store, self._clock, dataset)

    # -- reading ------------------------------------------------------------------------------------------------------

    def total(self, dataset: str, period: str | None = None) -> Total:
        """What a dataset, or one period of it, has spent and what is left.

        Raises:
            InvalidEntry: the dataset has a window and no single period is named, or the other way round.
        """
        with self._store.reader_on(dataset) as (connection, declared):
            (account,) = checked_periods(declared.dataset.window, period)
            spent = statements.spent_in(connection, declared.id, account)
        return Total(declared.dataset.name, account, declared.dataset.budget, spent)

    def totals(self, dataset: str) -> list[Total]:
        """Where every period stands that was charged, in order."""
        with self._store.reader_on(dataset) as (connection, declared):
            found = statements.all_totals(connection, declared.id)
        name, budget = declared.dataset.name, declared.dataset.budget
        return [Total(name, period, budget, spent) for period, spent in found]

    def room(self, dataset: str, **terms: Unpack[Terms]) -> list[Total]:
        """Where every account stands that a charge on these terms is held against: its periods', then those of quotas."""
        return room(self._store, self._clock, dataset, terms)

    def find(self, dataset: str, key: str) -> Receipt | None:
        """The charge under an idempotency key, in its present state; None if there is none."""
        with self._store.reader_on(dataset) as (connection, declared):
            (steps,) = statements.entries_of_keys(connection, declared, [checked_name("key", key)]).values()
        return Receipt(declared.dataset.name, key, state_of(steps), openings(steps), replayed=True) if steps else None

    def entries(self, dataset: str) -> Iterator[Entry]:
        """All entries so far, in order, a block at a time."""
        for entry in stream(self._store, self._declared(dataset)):
            if isinstance(entry, Problem):
                raise LedgerCorrupt(f"dataset={dataset!r}, entry {entry.seq}: {entry.message}")
            yield entry

    def latest(self, dataset: str, limit: int = 20) -> list[Entry]:
        """The last entries, latest first."""
        with self._store.reader_on(dataset) as (connection, declared):
            return statements.latest_entries(connection, declared, limit)

    def summary(self, dataset: str) -> Summary:
        """What reports need to know of a dataset, added up by the store."""
        with self._store.reader_on(dataset) as (connection, declared):
            return summarise(connection, declared)

    def _declared(self, dataset: str) -> statements.Declared:
        with self._store.reader_on(dataset) as (_, declared):
            return declared

    # -- evidence -----------------------------------------------------------------------------------------------------

    def heads(self) -> Heads:
        """Where every chain stands. Keep it where the ledger's writers cannot change it, and give it to `verify`."""
        with self._store.reader() as connection:
            identity = connection.execute(select(meta.c.ledger_id)).scalar_one()
            return heads_of(identity, origin(None, self._clock).at, statements.all_datasets(connection))

    def verify(self, heads: Heads | Sequence[Heads] | None = None, trust: Trust | None = None) -> Verification:
        """Re-derive everything from the entries; with `heads`, find also a tail cut off; with `trust`, check who signed them."""
        return verify(self._store, heads, trust)

    def export(self, target: Path | str | IO[str], key: SigningKey | None = None) -> Heads:
        """Write all of the ledger as JSON lines, signed with `key` if there is one, and return its heads."""
        heads = self.heads()
        return export_lines(self._store, heads if key is None else key.sign(heads), target)

    def import_(self, source: Path | str | IO[str], trust: Trust | None = None) -> int:
        """Add the datasets of an exported ledger, after checking all of it, and with `trust` who signed it. Returns its entries.

        Raises:
            ImportRefused: it does not verify, or a dataset of it exists here; nothing was imported.
        """
        return import_lines(self._store, source, trust)

    def close(self) -> None:
        """Give connections back. The ledger opens new ones when it is used again."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store!r})"

    def _repr_html_(self) -> str:
        return import_module("accounting.page.dataset").standings(repr(self), self.datasets, self.totals)
