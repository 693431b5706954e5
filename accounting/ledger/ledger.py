"""`Ledger`: a privacy budget that many processes can spend and an auditor can check.

What changes it is one transaction each: read the totals, hold them against the budget and the
quotas, append; all or nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, Unpack, cast, final

from sqlalchemy import select

from accounting.address import masked, without_password
from accounting.arguments import Relation
from accounting.budget import Budget
from accounting.curves import Curve
from accounting.errors import InvalidArgument
from accounting.files import PRIVATE
from accounting.guarantee import curve_and_relation
from accounting.ledger.book import Book, Step, openings, reading, state_of, writing
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.export import export_lines, import_lines
from accounting.ledger.heads import Head, Heads, SigningKey
from accounting.ledger.item import Chargeable, Opening, Request, Terms, json_of
from accounting.ledger.model import Clock, Dataset, Entry, Receipt, origin, utc_now
from accounting.ledger.quota import Accounts, Quota, Revision, in_force, revisions
from accounting.ledger.store import (
    Store,
    all_datasets,
    all_held,
    declare,
    entries,
    find_dataset,
    meta,
    select_entries,
    stream,
)
from accounting.ledger.stored_text import (
    WHOLE,
    Window,
    checked_name,
    checked_periods,
    checked_text,
    optional_text,
)
from accounting.ledger.summary import Summary, charged_curves, curves_of_quota, is_a_sum, standing
from accounting.ledger.verification import Verification, verify
from accounting.price import MOST, Price
from accounting.remaining import BudgetExceeded, Remaining

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


@final
class Ledger:
    """Charges that outlive the process, on SQLite or PostgreSQL. Build one with `Ledger.open`.

    Every method that writes is one durable transaction: when it returns, the charge is on disk;
    when it raises, nothing may be released. Methods raise UnknownDataset for a name that is not
    declared, LedgerUnavailable where the store is locked, full, read-only or gone, and
    LedgerCorrupt where it is damaged.

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
        url: str,
        *,
        create: bool = True,
        timeout: float = 30.0,
        mode: int = PRIVATE,
        clock: Clock = utc_now,
    ) -> Self:
        """Open the ledger at `url`, `sqlite:///privacy.db` or `postgresql://user@host/name`.

        Args:
            create: make the file and the tables where they are missing. A new ledger has no
                dataset, so it allows no charge.
            timeout: seconds to wait for another process's transaction.
            mode: of a SQLite file that is made; one that is there keeps its own.
            clock: for tests; an entry's time is informational.

        Raises:
            SchemaMismatch: the store holds something else, or a ledger of a later version.
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
        """Declare a dataset and its budget, once and for all. Arguments: see `Dataset`.

        Raises:
            DatasetExists: the name is taken.
        """
        dataset = Dataset(
            name=checked_name("dataset", name),
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
        """All declared datasets, in the order of declaration."""
        with self._store.reader() as connection:
            return [row.dataset for row in all_datasets(connection)]

    def dataset(self, name: str) -> Dataset:
        """One declaration; UnknownDataset if there is none."""
        with self._store.reader() as connection:
            return find_dataset(connection, name).dataset

    def retire(self, dataset: str, to: str, *, actor: str | None = None) -> Entry:
        """State that a dataset has moved to the ledger at `to`, for good: from here on whatever
        would be written for it here is refused, with that address. Reading goes on.

        The other ledger has to have every entry of the dataset, by `export` and `import_` or as a
        copy, so that nothing that was charged is forgotten. Both are locked meanwhile.

        Raises:
            DatasetMoved: it has moved already.
            InvalidEntry: the other ledger is this one, or does not have every entry.
        """
        by = origin(actor, self._clock())
        with type(self).open(to, create=False) as other:
            if self._store.is_that_of(other._store):
                raise InvalidEntry("to= is this ledger itself: name the one that goes on")
            with writing(self._store, dataset) as book, writing(other._store, dataset) as copy:
                last = book.declared.seq
                same = select_entries(copy.connection, copy.declared, entries.c.seq == last)
                if book.declared.head != (same[0].hash if same else copy.declared.genesis):
                    raise InvalidEntry(
                        f"the ledger {masked(to)} does not have every entry of dataset={dataset!r}:"
                        " export this ledger again and import it into a new one, then retire it"
                    )
                step = {"action": "retire", "key": "retired", "period": WHOLE}
                (entry,) = book.append(
                    [step | {"label": checked_text("to", without_password(to))}], by
                )
        return entry

    def moved_to(self, dataset: str) -> str | None:
        """The ledger that a dataset has moved to, without a password; None if it has not."""
        with reading(self._store, dataset) as book:
            return book.moved_to

    # -- spending ----------------------------------------------------------------------------------

    def charge(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> Receipt:
        """Charge for a curve or mechanism before it runs. A charge is final. Keywords: see `Terms`.

        All runs together are one item at their composed curve. A bare curve comes with `relation=`,
        the one that it was proved for, checked against the dataset's; mechanisms and
        `n * mechanism` bring theirs.

        Raises:
            BudgetExceeded: it does not fit; the error says what would.
            Unaffordable: no budget of the dataset's form pays for such a curve.
            NoEquivalent: it reads several periods together, and nothing is known of its price for
                that: see `Terms.across`.
            RelationMismatch, KeyConflict, SharedRows, UnknownDataset, InvalidEntry: as named.
        """
        return self._open("charge", dataset, [(item, terms)])[0]

    def charge_all(
        self, dataset: str, charges: Iterable[tuple[Curve | Chargeable, Terms]]
    ) -> list[Receipt]:
        """Charge several (item, terms) pairs in one transaction, or none; give each a key for
        retries. Raises as `charge`.
        """
        return self._open("charge", dataset, charges)

    def reserve(
        self,
        dataset: str,
        item: Curve | Chargeable,
        *,
        expires_in: float | None = None,
        **terms: Unpack[Terms],
    ) -> Receipt:
        """Set budget aside, as `charge` does, while no data are read yet: then `commit` and read
        them, or `void`.

        Args:
            expires_in: seconds after which it can no longer be committed, and is given back when
                somebody needs room (`expire`).
        """
        return self._open("reserve", dataset, [(item, terms)], expires_in)[0]

    def expire(self, dataset: str, *, actor: str | None = None) -> list[Receipt]:
        """Give back each reservation that was not committed in time. A charge that finds no room
        does so first.
        """
        by = origin(actor, self._clock())
        with writing(self._store, dataset) as book:
            return book.lapse(by)

    def check(
        self,
        dataset: str,
        item: Curve | Chargeable,
        *,
        opening: Opening = "charge",
        **terms: Unpack[Terms],
    ) -> Receipt | None:
        """Raise as `charge` or `reserve` would if it were made now, without charging: before a long
        computation.

        Returns:
            The receipt of what the key has opened so before, which is not charged again; None where
            there is none.
        """
        request = Request.read(opening, item, terms, self._clock())
        with reading(self._store, dataset) as book:
            book.require_here()
            return book.check(request)

    def commit(self, dataset: str, key: str, *, actor: str | None = None) -> Receipt:
        """State that data are about to be read for a reservation, which cannot be voided from here
        on; InvalidTransition if it is not reserved.
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
            claim: names the result, by a hash for example. Of several processes that drew under one
                charge the first to release decides: the others are refused, and must forget what
                they drew.
            spent: of a reservation, the rounds that its result, and nothing else, says were run, as
                `mechanism.spent(selection)`; the rest is given back (Theorem F8), unless several
                periods were charged as two changes (`Terms.across`).

        Raises:
            InvalidTransition: it is not committed; or `spent` is given without a reservation.
            ClaimConflict: it was released before, with another claim or `spent`, or with none.
            InvalidEntry: `spent` is not made of rounds of what was reserved.
        """
        return self._follow("release", dataset, key, optional_text("claim", claim), actor, spent)

    def void(self, dataset: str, key: str, *, actor: str, reason: str) -> Receipt:
        """Give back a reservation for which no data were read, as a new entry by a named person;
        InvalidTransition if it was committed: a failed or interrupted draw stays charged.
        """
        return self._follow(
            "void", dataset, key, checked_name("reason", reason), checked_name("actor", actor)
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
        ran, by = (
            None if spent is None else json_of("curve", curve_and_relation(spent, None)[0]),
            origin(actor, self._clock()),
        )
        with writing(self._store, dataset) as book:
            return book.follow(action, checked_name("key", key), label, by, ran)

    def _open(
        self,
        action: Opening,
        dataset: str,
        charges: Iterable[tuple[Curve | Chargeable, Terms]],
        expires_in: float | None = None,
    ) -> list[Receipt]:
        """All in one transaction, or nothing. What finds no room is tried again once what has
        lapsed is void.
        """
        asked = Request.read_all(action, charges, expires_in, self._clock())
        try:
            with writing(self._store, dataset) as book:
                return book.charge_all(asked)
        except BudgetExceeded:
            if not self.expire(dataset):
                raise
        with writing(self._store, dataset) as book:
            return book.charge_all(asked)

    def quotas(self, dataset: str) -> Quotas:
        """The limits within the dataset's budget: per person, team, purpose, or stretch of the
        data's time.
        """
        return Quotas(self._store, self._clock, dataset)

    # -- reading -----------------------------------------------------------------------------------

    def total(self, dataset: str, period: str | None = None) -> Remaining:
        """What a dataset, or one period of it where it has a window, has spent and what is left."""
        with reading(self._store, dataset) as book:
            account, *others = checked_periods(book.dataset.window, period)
            if others:
                raise InvalidEntry(
                    f"period={period!r} names several, each with a budget of its own: name one, or"
                    " ask `totals`"
                )
            return _standing(book, {account: book.spent(0, [account])[0, account]})[0]

    def totals(self, dataset: str) -> list[Remaining]:
        """Where every period stands that was charged, in order."""
        with reading(self._store, dataset) as book:
            return list(_standing(book, book.totals()))

    def in_all(
        self, dataset: str, item: Curve | Chargeable | None = None, periods: Iterable[str] = ()
    ) -> tuple[float, float]:
        """(epsilon, delta) that somebody faces whose rows lie in every period that was charged, or
        is about to be: each of `periods` for `item` by itself. A bare curve is taken to hold for
        the dataset's relation.

        Raises:
            BudgetExceeded: the dataset declares less (`most_in_all`).
            InvalidEntry: the dataset has no window.
        """
        with reading(self._store, dataset) as book:
            declared = book.dataset
            if declared.window == "whole":
                raise InvalidEntry(
                    f"dataset={dataset!r} has one budget for all its rows, which is what everybody"
                    " in it faces"
                )
            if item is None:
                return book.in_all()
            curve, _ = curve_and_relation(
                item, declared.relation if isinstance(item, Curve) else None
            )
            return book.in_all(
                declared.budget.price(curve), checked_periods(declared.window, list(periods))
            )

    def room(
        self, dataset: str, item: Curve | Chargeable | DpEvent, **terms: Unpack[Terms]
    ) -> list[Remaining]:
        """Where every account stands that a charge on these terms is held against, its periods' and
        then those of quotas: in releases of the curve that would be charged, that of an exchange
        where `Terms.across` says so.

        Of a curve or an event of dp-accounting that states no relation, as its price under the
        dataset's own is.

        Raises:
            RelationMismatch, InvalidEntry, NoEquivalent: as `charge`.
        """
        if isinstance(item, Curve) or not hasattr(item, "curve"):  # which curves of curves have too
            relation = terms.get("relation") or self.dataset(dataset).relation
            if not isinstance(item, Curve):
                # loads dp-accounting, which no other charge needs
                from accounting.dp_events import from_dp_event

                item = from_dp_event(cast(Any, item), relation)
            terms = {**terms, "relation": relation}
        request = Request.read(
            "charge", cast(Chargeable, item), {**terms, "count": 1}, self._clock()
        )
        with reading(self._store, dataset) as book:
            book.require_here()
            due, periods = request.due(book.dataset)
            curves = {0: _charged(book, periods) or {}}
            for one in book.quotas:
                curves[one.seq] = curves_of_quota(book.connection, book.declared, one) or {}
            return [
                replace(left, curve=due.curve, charged=curves[quota].get(account))
                for (quota, account), _, left in book.accounts(periods, due.fields)
            ]

    def affordable(
        self, dataset: str, item: Curve | Chargeable | DpEvent, **terms: Unpack[Terms]
    ) -> Remaining:
        """How many more releases like `item` fit, charged one by one on these terms, and what runs
        out first: as the account says that pays for the fewest. `item` and errors: as `room`.
        """
        return min(self.room(dataset, item, **terms), key=lambda left: left.releases)

    def find(self, dataset: str, key: str) -> Receipt | None:
        """The charge under an idempotency key, in its present state; None if there is none."""
        with reading(self._store, dataset) as book:
            steps = book.steps(checked_name("key", key))
        return (
            Receipt(book.dataset.name, key, state_of(steps), openings(steps), replayed=True)
            if steps
            else None
        )

    def entries(self, dataset: str) -> Iterator[Entry]:
        """All entries so far, in order, a block at a time."""
        with reading(self._store, dataset) as book:
            pass
        yield from stream(self._store.reader, book.declared)

    def latest(self, dataset: str, limit: int = 20) -> list[Entry]:
        """The last entries, latest first."""
        with reading(self._store, dataset) as book:
            return select_entries(book.connection, book.declared, limit=limit, latest=True)

    def summary(self, dataset: str) -> Summary:
        """What reports need to know of a dataset, added up by the store."""
        with reading(self._store, dataset) as book:
            return Summary.of(book.connection, book.declared)

    # -- evidence ----------------------------------------------------------------------------------

    def heads(self) -> Heads:
        """Where every chain stands. Keep it where the ledger's writers cannot change it, and give
        it to `verify`.
        """
        with self._store.reader() as connection:
            identity, at = (
                connection.execute(select(meta.c.ledger_id)).scalar_one(),
                origin(None, self._clock()).at,
            )
            known = {
                row.dataset.name: Head(seq=row.seq, hash=row.head)
                for row in all_datasets(connection)
            }
            return Heads(ledger_id=identity, at=at, datasets=known, declared=len(known))

    def verify(self, heads: Heads | None = None, key: str | None = None) -> Verification:
        """Re-derive everything from the entries, and hold it against heads that were taken earlier
        and kept elsewhere: then a tail that was cut off is found too. With a public `key`, whoever
        holds it must have signed them.

        Raises:
            InvalidEntry: key is no public key, or is given without heads.
        """
        return verify(self._store, heads, key)

    def export(self, target: Path | str | IO[str], key: SigningKey | None = None) -> Heads:
        """Write all of the ledger as JSON lines, signed with `key` if there is one, and return its
        heads.
        """
        heads = self.heads()
        return export_lines(self._store, heads if key is None else key.sign(heads), target)

    def import_(self, source: Path | str | IO[str], key: str | None = None) -> int:
        """Add the datasets of an exported ledger, after checking all of it, and with a public `key`
        who signed it: its entries.

        Raises:
            ImportRefused: it does not verify, or a dataset of it exists here; nothing was imported.
        """
        return import_lines(self._store, source, key)

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
        return import_module("accounting.report").ledger_overview_html(
            repr(self), self.datasets, self.totals
        )


def _standing(book: Book, spent: Mapping[str, Price]) -> tuple[Remaining, ...]:
    return standing(book.declared, spent, _charged(book, spent))


def _charged(book: Book, periods: Collection[str]) -> dict[str, Curve] | None:
    """What was charged, read from all entries; None if it is a sum of epsilons already."""
    pure = is_a_sum(book.dataset.budget)
    return None if pure else charged_curves(book.connection, book.declared, periods)


@final
class Quotas:
    """The quotas of one dataset. `Ledger.quotas` makes one.

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
        self._store, self._clock, self._dataset = store, clock, checked_name("dataset", dataset)

    def declare(self, quota: Quota, *, actor: str | None = None) -> Entry:
        """Declare a quota, or put another in the place of one of that name; what was charged before
        counts.

        Reads all entries of the dataset while charges on it wait. The same quota again changes
        nothing.

        Raises:
            InvalidArgument: it is not a Quota.
            InvalidEntry: it does not fit the dataset's window, or a charge that was made cannot be
                counted in its unit.
        """
        if not isinstance(quota, Quota):
            raise InvalidArgument(
                f"quota must be an accounting.ledger.Quota, not {type(quota).__name__}"
            )
        by = origin(actor, self._clock())
        with writing(self._store, self._dataset) as book:
            quota.require_for(book.dataset.window)
            for one in revisions(book.connection, book.declared.id):
                if one.until is None and one.quota == quota:
                    return select_entries(book.connection, book.declared, entries.c.seq == one.seq)[
                        0
                    ]
            seq = book.declared.seq + 1
            held = Accounts.of(
                book.connection,
                book.declared,
                [] if quota.limit is None else [Revision(seq, quota)],
            )
            if any(part > MOST for spent in held.values() for part in spent):
                raise InvalidEntry(
                    f"quota={quota.name!r}: what was charged so far is more than this limit's unit"
                    " counts"
                )
            step = {
                "action": "quota",
                "key": f"{quota.name}#{seq}",
                "period": "",
                "quota": quota.model_dump_json(),
            }
            (entry,) = book.append([step], by)
            book.move(held)
        return entry

    def withdraw(self, name: str, *, actor: str | None = None) -> Entry:
        """Take a quota away, on record. The dataset's budget stays what it is.

        Raises:
            InvalidEntry: it has no such quota.
        """
        known = {quota.name: quota for quota in self.all()}
        if name not in known:
            raise InvalidEntry(
                f"quota={name!r} is not declared for dataset={self._dataset!r}: there is nothing to"
                " withdraw"
            )
        return self.declare(known[name].model_copy(update={"limit": None}), actor=actor)

    def all(self) -> list[Quota]:
        """Those in force, in the order in which they were declared."""
        with reading(self._store, self._dataset) as book:
            return [one.quota for one in in_force(book.connection, book.declared.id)]

    def standing(self, most: int | None = None) -> list[tuple[Quota, Remaining]]:
        """Every account of the quotas in force that was charged; with `most`, each quota's fullest
        ones only.
        """
        found: list[tuple[Quota, Remaining]] = []
        with reading(self._store, self._dataset) as book:
            held = all_held(book.connection, book.declared.id)
            for one in in_force(book.connection, book.declared.id):
                charged = curves_of_quota(book.connection, book.declared, one) or {}
                accounts = sorted(
                    (name, spent) for (of, name), spent in held.items() if of == one.seq
                )
                fullest = sorted(accounts, key=lambda account: account[1], reverse=True)[:most]
                for name, spent in sorted(fullest):
                    words, curve = one.quota.account_in_words(name), charged.get(name)
                    found.append((one.quota, Remaining(one.limit, spent, None, words, curve)))
        return found
