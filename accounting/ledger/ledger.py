"""`Ledger`: a privacy budget that many processes can spend and an auditor can check.

What changes it is one transaction each: read the totals, hold them against the budget and the quotas, append; all or nothing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self, Unpack, cast, final, get_args

from sqlalchemy import Connection, bindparam, exists, func, select

from accounting.arguments import Relation
from accounting.budget import NOTHING, Budget, Price
from accounting.curves import Curve
from accounting.errors import InvalidBudget, RelationMismatch
from accounting.files import PRIVATE
from accounting.guarantee import common_relation
from accounting.ledger.book import Book, Step
from accounting.ledger.errors import ClaimConflict, InvalidEntry, InvalidTransition, KeyConflict, LedgerCorrupt, SharedRows
from accounting.ledger.heads import Head, Heads, SigningKey
from accounting.ledger.item import TWICE, Chargeable, Item, Opening, Request, Terms, read_item, require_known
from accounting.ledger.model import (
    Action,
    Clock,
    Dataset,
    Entry,
    Origin,
    Receipt,
    State,
    Total,
    Who,
    fewest,
    origin,
    price_in,
    returned,
    utc_now,
)
from accounting.ledger.quota import Quotas, Revision
from accounting.ledger.store import (
    Declared,
    Held,
    Store,
    all_datasets,
    all_totals,
    declare,
    entries,
    entries_of_keys,
    find_dataset,
    meta,
    select_entries,
    spent_in,
)
from accounting.ledger.stored_text import (
    Window,
    checked_name,
    checked_periods,
    checked_text,
    checked_window,
    checked_zone,
    optional_name,
    optional_text,
    read_json,
)
from accounting.ledger.summary import Summary
from accounting.ledger.verification import Problem, Verification, export_lines, import_lines, stream, verify
from accounting.remaining import BudgetExceeded, Remaining, in_all_in_words, over_periods, refusal, stated

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


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
    def open(cls, url: str, *, create: bool = True, timeout: float = 30.0, mode: int = PRIVATE, clock: Clock = utc_now) -> Self:
        """Open the ledger at `url`, `sqlite:///privacy.db` or `postgresql://user@host/name`.

        Args:
            create: make the file and the tables where they are missing. A new ledger has no dataset, so it allows no charge.
            timeout: seconds to wait for another process's transaction.
            mode: of a SQLite file that is made: by default only its owner may read it. A file that is there keeps its own.
            clock: for tests; an entry's time is informational.

        Raises:
            SchemaMismatch: the store holds something else, or a ledger of a later version.
        """
        return cls(Store.open(url, create=create, timeout=timeout, mode=mode), clock)

    # -- declarations -------------------------------------------------------------------------------------------------

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
        """Declare a dataset and its budget, once and for all.

        Args:
            budget: of all rows together, or of each period of `window`.
            relation: what neighbouring datasets differ by; every charge must be proved for it.
            unit: who is protected, in words; by default "user", with a window "user within one month" and so on.
            window: which rows share a budget. A charge then names the periods whose rows it reads.
            time_zone: where the days, months and so on of `window` begin and end, "UTC" or "Europe/Berlin" for example. A charge
                that reads rows by the clock of another zone is refused.
            data_period: which rows the dataset holds, in words.
            most_per_release: what a single charge may cost as a plan of its own. One that costs more is refused unless it states
                why (`Terms.override`), which is recorded.
            most_in_all: with a window, the epsilon that all periods together may cost somebody whose rows lie in all of them: a
                budget per period bounds each alone. A charge beyond it is refused, and `in_all` says where it stands.

        Raises:
            DatasetExists: the name is taken.
        """
        by = origin(actor, self._clock)
        dataset = _new_dataset(name, budget, relation, unit, window, time_zone, data_period, by)
        dataset = replace(dataset, **_limits(dataset, most_per_release, most_in_all))
        with self._store.writer() as connection:
            declare(connection, dataset.name, dataset.declaration())
        return dataset

    def datasets(self) -> list[Dataset]:
        """All declared datasets, in the order of declaration."""
        with self._store.reader() as connection:
            return [row.dataset for row in all_datasets(connection)]

    def dataset(self, name: str) -> Dataset:
        """One declaration.

        Raises:
            UnknownDataset: there is none.
        """
        with self._store.reader() as connection:
            return find_dataset(connection, name).dataset

    # -- spending -----------------------------------------------------------------------------------------------------

    def charge(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> Receipt:
        """Charge for a curve or mechanism before it runs. A charge is final. Keywords: see `Terms`.

        All runs together are one item at their composed curve. A bare curve comes with `relation=`, the one that it was proved
        for, checked against the dataset's; mechanisms and `n * mechanism` bring theirs.

        Raises:
            BudgetExceeded: it does not fit; the error says what would.
            Unaffordable: no budget of the dataset's form pays for such a curve.
            NoEquivalent: it reads several periods together, and nothing is known of its price for that: see `Terms.across`.
            RelationMismatch, KeyConflict, SharedRows, UnknownDataset, InvalidEntry: as named.
        """
        return self._open("charge", dataset, [(item, terms)])[0]

    def charge_all(self, dataset: str, charges: Iterable[tuple[Curve | Chargeable, Terms]]) -> list[Receipt]:
        """Charge several (item, terms) pairs in one transaction, or none; give each a key for retries. Raises as `charge`."""
        return self._open("charge", dataset, charges)

    def reserve(
        self, dataset: str, item: Curve | Chargeable, *, expires_in: float | None = None, **terms: Unpack[Terms]
    ) -> Receipt:
        """Set budget aside, as `charge` does, while no data are read yet: then `commit` and read them, or `void`.

        Args:
            expires_in: seconds after which it can no longer be committed, and is given back when somebody needs room (`expire`).
        """
        return self._open("reserve", dataset, [(item, terms)], expires_in)[0]

    def expire(self, dataset: str, *, actor: str | None = None) -> list[Receipt]:
        """Give back each reservation that was not committed in time. A charge that finds no room does so first."""
        by = origin(actor, self._clock)
        with self._store.writer_on(dataset) as (connection, declared):
            return _lapse(connection, declared, by)

    def check(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> None:
        """Raise as `charge` would if it were made now, without charging: before a long computation."""
        (request,) = Request.read_all("charge", [(item, terms)], None, self._clock())
        with self._store.reader_on(dataset) as (connection, declared):
            priced, periods = _due(declared.dataset, request)
            _Charging(connection, declared).require_room(priced, periods, self._who(terms), request.override)

    def charged_curve(self, dataset: str, item: Curve | Chargeable, **terms: Unpack[Terms]) -> Curve:
        """The curve of one run as a charge on these terms would price it: that of an exchange where `Terms.across` says so.

        Raises:
            RelationMismatch, InvalidEntry, NoEquivalent: as `charge`.
        """
        (request,) = Request.read_all("charge", [(item, {**terms, "count": 1})], None, self._clock())
        with self._store.reader_on(dataset) as (_, declared):
            priced, _ = _due(declared.dataset, request)
            common_relation(declared.dataset.relation, priced.relation, begun=True)
        return priced.curve

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
                the rest is given back (Theorem F8), unless several periods were charged as two changes (`Terms.across`).

        Raises:
            InvalidTransition: it is not committed; or `spent` is given without a reservation.
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
        self, action: _Following, dataset: str, key: str, label: str | None, actor: str | None, ran: Curve | None = None
    ) -> Receipt:
        item, by = None if ran is None else read_item(ran, 1, None), origin(actor, self._clock)
        with self._store.writer_on(dataset) as (connection, declared):
            return _follow(connection, declared, action, checked_name("key", key), label, by, item)

    def _open(
        self,
        action: Opening,
        dataset: str,
        charges: Iterable[tuple[Curve | Chargeable, Terms]],
        expires_in: float | None = None,
    ) -> list[Receipt]:
        """All in one transaction, or nothing. What finds no room is tried again once what has lapsed is void."""
        now = self._clock()
        by = cache(lambda actor: origin(actor, lambda: now))
        asked = [(request, by(request.actor)) for request in Request.read_all(action, charges, expires_in, now)]
        try:
            return self._written(dataset, asked)
        except BudgetExceeded:
            if not self.expire(dataset):
                raise
        return self._written(dataset, asked)

    def _written(self, dataset: str, asked: list[tuple[Request, Origin]]) -> list[Receipt]:
        with self._store.writer_on(dataset) as (connection, declared):
            charging = _Charging(connection, declared)
            charging.book.learn(request.key for request, _ in asked)
            receipts = [charging.charge(request, by) for request, by in asked]
            charging.book.close()
            return receipts

    def _who(self, terms: Terms) -> Who:
        team, purpose = (optional_name(name, terms.get(name)) for name in ("team", "purpose"))
        return Who(origin(terms.get("actor"), self._clock).actor, team, purpose)

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
            spent = spent_in(connection, declared.id, account)
        return Total(declared.dataset.name, account, declared.dataset.budget, spent)

    def totals(self, dataset: str) -> list[Total]:
        """Where every period stands that was charged, in order."""
        with self._store.reader_on(dataset) as (connection, declared):
            found = all_totals(connection, declared.id)
        name, budget = declared.dataset.name, declared.dataset.budget
        return [Total(name, period, budget, spent) for period, spent in found]

    def in_all(self, dataset: str, item: Curve | Chargeable | None = None, periods: Iterable[str] = ()) -> tuple[float, float]:
        """(epsilon, delta) that somebody faces whose rows lie in every period that was charged, or is about to be.

        Args:
            item: what each of `periods` is about to be charged, by itself: a budget per period bounds each alone, and this adds
                them up before anything is read. A bare curve is taken to hold for the dataset's relation.

        Raises:
            BudgetExceeded: the dataset declares less (`most_in_all`).
            InvalidEntry: the dataset has no window.
        """
        with self._store.reader_on(dataset) as (connection, declared):
            if declared.dataset.window == "whole":
                raise InvalidEntry(f"dataset={dataset!r} has one budget for all its rows, which is what everybody in it faces")
            book = Book(connection, declared)
            spent = book.totals()
            if item is not None:
                bare = declared.dataset.relation if isinstance(item, Curve) else None
                price = book.price(read_item(item, 1, bare))
                named = checked_periods(declared.dataset.window, list(periods))
                spent |= {period: spent.get(period, NOTHING).plus(price) for period in named}
            return _require_in_all(declared.dataset, spent)

    def room(self, dataset: str, **terms: Unpack[Terms]) -> list[Total]:
        """Where every account stands that a charge on these terms is held against: its periods', then those of quotas."""
        require_known(terms, Terms)
        with self._store.reader_on(dataset) as (connection, declared):
            periods = _periods(declared.dataset, terms.get("period"), checked_zone(terms.get("time_zone")))
            return _Charging(connection, declared).totals(periods, self._who(terms))

    def usage(self, receipt: Receipt) -> Remaining:
        """Where the account stands now that pays for the fewest more charges like this one: a period's, or a quota's."""
        opening, periods = receipt.entries[0], tuple(entry.period for entry in receipt.entries)
        item, who = opening.count * Curve.from_json(opening.curve or ""), opening.who
        with self._store.reader_on(receipt.dataset) as (connection, declared):
            totals = _Charging(connection, declared).totals(periods, who)
        return fewest(totals, item)

    def affordable(self, dataset: str, item: Curve | Chargeable | DpEvent, **terms: Unpack[Terms]) -> Remaining:
        """How many more releases like `item` fit, charged one by one on these terms, and what runs out first.

        Of a curve or an event of dp-accounting that states no relation, as its price under the dataset's own is.

        Raises:
            RelationMismatch, InvalidEntry, NoEquivalent: as `charge`.
        """
        if isinstance(item, Curve) or not hasattr(item, "curve"):  # which curves of curves have too
            relation = terms.get("relation") or self.dataset(dataset).relation
            if not isinstance(item, Curve):
                from accounting.dp_events import from_dp_event  # loads dp-accounting, which no other charge needs

                item = from_dp_event(cast(Any, item), relation)
            terms = {**terms, "relation": relation}
        return fewest(self.room(dataset, **terms), self.charged_curve(dataset, cast(Chargeable, item), **terms))

    def find(self, dataset: str, key: str) -> Receipt | None:
        """The charge under an idempotency key, in its present state; None if there is none."""
        with self._store.reader_on(dataset) as (connection, declared):
            (steps,) = entries_of_keys(connection, declared, [checked_name("key", key)]).values()
        return Receipt(declared.dataset.name, key, _state_of(steps), _openings(steps), replayed=True) if steps else None

    def last_claim(self, dataset: str, start: str, *, before: int | None = None) -> Entry | None:
        """The record of the latest release whose claim starts with this text; None if there is none.

        Args:
            before: an entry's number; only what was recorded before it counts.
        """
        start = checked_name("start", start)
        with self._store.reader_on(dataset) as (connection, declared):
            earlier = entries.c.seq <= (declared.seq if before is None else min(declared.seq, before - 1))
            claims = func.substr(entries.c.label, 1, len(start)) == start
            released = earlier, entries.c.action == "release", claims
            return next(iter(select_entries(connection, declared, *released, limit=1, latest=True)), None)

    def entries(self, dataset: str) -> Iterator[Entry]:
        """All entries so far, in order, a block at a time."""
        with self._store.reader_on(dataset) as (_, declared):
            pass
        for entry in stream(self._store, declared):
            if isinstance(entry, Problem):
                raise LedgerCorrupt(f"dataset={dataset!r}, entry {entry.seq}: {entry.message}")
            yield entry

    def latest(self, dataset: str, limit: int = 20) -> list[Entry]:
        """The last entries, latest first."""
        with self._store.reader_on(dataset) as (connection, declared):
            return select_entries(connection, declared, limit=limit, latest=True)

    def summary(self, dataset: str) -> Summary:
        """What reports need to know of a dataset, added up by the store."""
        with self._store.reader_on(dataset) as (connection, declared):
            return Summary.of(connection, declared)

    # -- evidence -----------------------------------------------------------------------------------------------------

    def heads(self) -> Heads:
        """Where every chain stands. Keep it where the ledger's writers cannot change it, and give it to `verify`."""
        with self._store.reader() as connection:
            identity, at = connection.execute(select(meta.c.ledger_id)).scalar_one(), origin(None, self._clock).at
            return Heads(identity, at, {row.dataset.name: Head(row.seq, row.head) for row in all_datasets(connection)})

    def verify(self, heads: Heads | None = None, key: str | None = None) -> Verification:
        """Re-derive everything from the entries.

        Args:
            heads: taken earlier and kept elsewhere: a tail that was cut off is found too.
            key: the public key of whoever must have signed the heads; compared where it is given.

        Raises:
            InvalidEntry: key is no public key, or is given without heads.
        """
        return verify(self._store, heads, key)

    def export(self, target: Path | str | IO[str], key: SigningKey | None = None) -> Heads:
        """Write all of the ledger as JSON lines, signed with `key` if there is one, and return its heads."""
        heads = self.heads()
        return export_lines(self._store, heads if key is None else key.sign(heads), target)

    def import_(self, source: Path | str | IO[str], key: str | None = None) -> int:
        """Add the datasets of an exported ledger, after checking all of it, and with a public `key` who signed it: its entries.

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
        return import_module("accounting.report").standings(repr(self), self.datasets, self.totals)


def _new_dataset(
    name: str,
    budget: Budget,
    relation: Relation,
    unit: str | None,
    window: str,
    time_zone: str,
    data_period: str | None,
    by: Origin,
) -> Dataset:
    """A checked declaration; InvalidBudget, RelationMismatch or InvalidEntry if a field is not what it should be."""
    if not isinstance(budget, Budget):
        raise InvalidBudget(f"budget must be an accounting.Budget, not {type(budget).__name__}")
    if relation not in get_args(Relation):
        raise RelationMismatch(f"relation={relation!r} must be one of {', '.join(get_args(Relation))}")
    rows = checked_window(window)
    default = "user" if rows == "whole" else f"user within one {rows}"
    return Dataset(
        name=checked_name("dataset", name),
        relation=relation,
        unit=checked_text("unit", default if unit is None else unit),
        budget=budget,
        window=rows,
        time_zone=checked_zone(time_zone),
        data_period=optional_text("data_period", data_period),
        uid=uuid.uuid4().hex,
        **vars(by),
    )


_SAID = (
    "action",
    "key",
    "label",
    "item",
    "fingerprint",
    "salt",
    "team",
    "purpose",
    "override",
    "expires",
)  # of a request, in its entries
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


class _Charging:
    """What one transaction charges: the book of a dataset that it has locked, and the quotas in force."""

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.book = Book(connection, declared)
        self._limits = Revision.in_force(connection, declared.id)

    def charge(self, request: Request, origin: Origin) -> Receipt:
        """Charge, or give back what the same key has charged before.

        Raises:
            BudgetExceeded, Unaffordable: the budget or a quota does not allow it; nothing is charged.
            RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
            KeyConflict: the key was used for something else.
            SharedRows: the rows were charged under another name.
        """
        book, dataset = self.book, self.book.dataset
        item, periods = _due(dataset, request)
        request = replace(request, item=item)
        if earlier := book.earlier[request.key]:
            common_relation(dataset.relation, request.item.relation, begun=True)
            return _replay(dataset, request, periods, earlier)
        who = Who(origin.actor, request.team, request.purpose)
        price, held = self.require_room(request.item, periods, who, request.override)
        if request.fingerprint is not None and not book.claims(request.fingerprint, periods):
            raise SharedRows(
                f"rows with this fingerprint were charged before, but not to dataset={dataset.name!r} with these periods: the "
                "same rows have one budget, so charge them under the name and periods they were first charged to"
            )
        said = {name: getattr(request, name) for name in _SAID} | {"across": request.item.across}
        written = book.append([Step(period=period, price=price, **said) for period in periods], origin)
        book.hold(held)
        return Receipt(dataset.name, request.key, _state_of(written), tuple(written), replayed=False)

    def require_room(self, item: Item, periods: tuple[str, ...], who: Who, override: str | None) -> tuple[Price, list[Held]]:
        """The item's price, if every period and quota can pay it, and how the quotas' accounts stand then. Raises as `charge`."""
        common_relation(self.book.dataset.relation, item.relation, begun=True)
        price = self.book.price(item)
        if override is None:
            _require_small(self.book.dataset, item)
        held: list[Held] = []
        for total in self._budgets(periods):
            _require_fit(total, price, item)
        for total, seq, account in self._quotas(periods, who):
            due = price_in(total.budget, item.curve_json, item.count)
            _require_fit(total, due, item)
            held.append(Held(seq, account, total.spent.plus(due)))
        if self.book.dataset.most_in_all is not None:
            spent = self.book.totals()
            _require_in_all(self.book.dataset, spent | {one: spent.get(one, NOTHING).plus(price) for one in periods})
        return price, held

    def totals(self, periods: tuple[str, ...], who: Who) -> list[Total]:
        """Where every account stands that a charge is held against: the periods, then the quotas' accounts."""
        return [*self._budgets(periods), *(total for total, _, _ in self._quotas(periods, who))]

    def _budgets(self, periods: tuple[str, ...]) -> Iterator[Total]:
        for period in periods:
            yield Total(self.book.dataset.name, period, self.book.dataset.budget, self.book.spent(period))

    def _quotas(self, periods: tuple[str, ...], who: Who) -> Iterator[tuple[Total, int, str]]:
        """Each account of a quota that limits the charge, with the quota's entry and the account's name."""
        name, window = self.book.dataset.name, self.book.dataset.window
        for (seq, quota, _), limit in self._limits:
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
            for account, spent in self.book.held(seq, quota.accounts(window, who, periods)):
                yield Total(name, quota.account_in_words(account), limit, spent, quota.name), seq, account


def _limits(dataset: Dataset, per_release: Budget | None, in_all: float | None) -> dict[str, Any]:
    """The limits of a declaration, checked; InvalidBudget if one is none."""
    if per_release is not None and not isinstance(per_release, Budget):
        raise InvalidBudget(f"most_per_release must be an accounting.Budget, not {type(per_release).__name__}")
    if in_all is None:
        return {"most_per_release": per_release}
    budget = dataset.budget
    if dataset.window == "whole" or (budget.epsilon is None and not budget.delta):
        raise InvalidBudget(
            "most_in_all is an epsilon over the periods of a window: declare a window, and a budget in epsilon or with a delta"
        )
    if isinstance(in_all, bool) or not isinstance(in_all, int | float) or not budget.limit <= in_all < math.inf:
        raise InvalidBudget(f"most_in_all={str(in_all)[:20]} must be a finite epsilon of at least one period's, {budget.limit:g}")
    return {"most_per_release": per_release, "most_in_all": float(in_all)}


def _require_small(dataset: Dataset, item: Item) -> None:
    """BudgetExceeded if a charge costs more as a plan of its own than a single one may."""
    most = dataset.most_per_release
    if most is not None and not _is_small(most, item.curve_json, item.count):
        raise BudgetExceeded(
            f"dataset={dataset.name!r} allows a single release at most {stated(most)}, and this one costs more. Make it "
            "smaller, or state why it may cost more, which is recorded (override=, --override REASON). Nothing was charged, "
            "nothing may be released."
        )


@lru_cache(maxsize=1024)
def _is_small(most: Budget, curve: str, count: int) -> bool:
    return most.admits(count * Curve.from_json(curve))


def _require_in_all(dataset: Dataset, spent: dict[str, Price]) -> tuple[float, float]:
    """What somebody faces whose rows lie in all of these periods; BudgetExceeded if the dataset allows less."""
    epsilon, delta = over_periods(dataset.budget, spent.values())
    if dataset.most_in_all is not None and epsilon > dataset.most_in_all:
        raise BudgetExceeded(
            f"dataset={dataset.name!r}: {in_all_in_words(epsilon, delta, len(spent), dataset.window)}, and the dataset allows at "
            f"most epsilon {dataset.most_in_all:g} in all. Release fewer periods, or less for each. Nothing was charged, nothing "
            "may be released."
        )
    return epsilon, delta


def _due(dataset: Dataset, request: Request) -> tuple[Item, tuple[str, ...]]:
    """What a request is charged for in this dataset, and the periods whose rows it reads."""
    periods = _periods(dataset, request.period, request.time_zone)
    request.item.require_unit(dataset.unit, dataset.relation)
    return request.item.over(periods, dataset.relation, request.across), periods


def _periods(dataset: Dataset, period: str | Iterable[str] | None, time_zone: str) -> tuple[str, ...]:
    """The periods whose rows a charge reads, by the clock of the dataset's time zone."""
    periods = checked_periods(dataset.window, period)
    if dataset.window != "whole" and time_zone != dataset.time_zone:
        raise InvalidEntry(
            f"time_zone={time_zone!r}: the {dataset.window}s of dataset={dataset.name!r} begin in {dataset.time_zone!r}, and "
            "rows at their borders would have two budgets: read them by that clock, and state it as time_zone (--time-zone)"
        )
    return periods


def _replay(dataset: Dataset, request: Request, periods: tuple[str, ...], earlier: list[Entry]) -> Receipt:
    opening = _openings(earlier)
    first, item = opening[0], request.item
    # Not the mechanism's JSON: a later version writes more into it, and a retry across an upgrade is still the same charge. The
    # relation is the dataset's, as of every item that comes here.
    asked = (request.action, item.count, periods, item.across, _binding_of(item.mechanism_json))
    stored = (first.action, first.count, tuple(entry.period for entry in opening), first.across, _binding_of(first.mechanism))
    if asked != stored or Curve.from_json(first.curve or "") != item.curve:
        raise KeyConflict(
            f"key={request.key!r} has already paid for a different charge of dataset={dataset.name!r} (entry {first.seq}): "
            "give every charge a key of its own, and a retried one the same arguments"
        )
    if (state := _state_of(earlier)) == "void":
        raise KeyConflict(f"key={request.key!r} was voided in dataset={dataset.name!r}: charge again under another key")
    return Receipt(dataset.name, request.key, state, opening, replayed=True)


def _binding_of(mechanism_json: str | None) -> str | None:
    """What a description binds its charge to: one job's draw, say, that no other job may make under the same key."""
    bound = None if mechanism_json is None else read_json(mechanism_json).get("binding")
    return bound if isinstance(bound, str) else None


def _require_fit(total: Total, price: Price, item: Item) -> None:
    if total.budget.fits(total.spent, price):
        return
    part = f", quota={total.quota!r} ({total.period})" if total.quota else f", period={total.period!r}" if total.period else ""
    raise refusal(replace(total.remaining, curve=item.curve), item.count, f"dataset={total.dataset!r}{part}")


_Following = Literal["commit", "release", "void"]

_AFTER: dict[Action, State] = {
    "reserve": "reserved",
    "charge": "committed",
    "commit": "committed",
    "release": "released",
    "void": "void",
}
_NEEDS: dict[_Following, tuple[State, str]] = {
    "commit": ("reserved", "only a reserved charge is committed"),
    "release": ("committed", "only a committed charge is released: commit it before the data are read"),
    "void": ("reserved", "only a reserved charge whose data were not read is voided; a failed draw stays charged"),
}


def _state_of(entries: Sequence[Entry]) -> State:
    """The state that the steps of one key, in order, have led to."""
    return _AFTER[entries[-1].action]


def _follow(
    connection: Connection,
    declared: Declared,
    action: _Following,
    key: str,
    label: str | None,
    origin: Origin,
    ran: Item | None = None,
) -> Receipt:
    """Take the step for every period of the key; one that was taken before is given back. `declared` is locked.

    Args:
        ran: of a release, the rounds of the reservation that its outcome says were run; the others are given back (F8).

    Raises:
        InvalidTransition: nothing was charged under the key, or the step may not follow its state.
        ClaimConflict: another result was released, by its label or by what it used.
        InvalidEntry: what ran is not part of what was reserved.
    """
    earlier = entries_of_keys(connection, declared, [key])[key]
    if not earlier:
        raise InvalidTransition(f"key={key!r} has no charge in dataset={declared.dataset.name!r}: reserve or charge it first")
    if action == "commit" and any(entry.action == "release" and entry.curve is not None for entry in earlier):
        raise InvalidTransition(f"key={key!r} was settled, and what it did not use given back: nothing more is drawn under it")
    if earlier[0].across == TWICE:
        ran = None  # what two changes cost together is not a sum over rounds, so nothing is given back
    if done := tuple(entry for entry in earlier if entry.action == action):
        is_same = (label is None or done[0].label == label) and (ran is None or done[0].curve == ran.curve_json)
        if action == "release" and not is_same:
            raise ClaimConflict(
                f"key={key!r} has paid for a result that was handed out already (entry {done[0].seq}), and this is another one: "
                "forget it, and use the first"
            )
        return Receipt(declared.dataset.name, key, _state_of(earlier), done, replayed=True)
    state, (needed, rule) = _state_of(earlier), _NEEDS[action]
    if state != needed:
        raise InvalidTransition(f"key={key!r} is {state}: {rule}")
    opening, expires = _openings(earlier), earlier[0].expires
    if action == "commit" and expires is not None and origin.at >= expires:
        raise InvalidTransition(
            f"key={key!r} was reserved until {expires} and not committed by then: read no data, reserve again"
        )
    if ran is not None and opening[0].action != "reserve":
        raise InvalidTransition(f"key={key!r} was charged for good: what did not run is given back of a reservation only")

    def due(one: Entry) -> Price:
        if ran is not None:
            return returned(declared.dataset.budget, one, ran.curve_json, origin).times(-1)
        return one.price.times(-1) if action == "void" else NOTHING

    book = Book(connection, declared)
    written = book.append([Step(action, key, one.period, due(one), label, ran) for one in opening], origin)
    if action == "void" or ran is not None:
        for (seq, quota, _), limit in Revision.in_force(connection, declared.id):
            back = returned(limit, opening[0], written[0].curve, origin)
            accounts = quota.accounts(declared.dataset.window, opening[0].who, [one.period for one in opening])
            book.hold(Held(seq, account, spent.minus(back)) for account, spent in book.held(seq, accounts))
    book.close()
    return Receipt(declared.dataset.name, key, _state_of(written), tuple(written), replayed=False)


def _openings(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that opened the charge, one per period."""
    return tuple(entry for entry in entries if entry.opens)


def _lapse(connection: Connection, declared: Declared, origin: Origin) -> list[Receipt]:
    """Void every reservation whose time is over. `declared` is locked.

    Nothing was drawn under them: data are read after a commit only, and a commit and a void of one key exclude each other under
    the lock, whatever the clocks say. A clock that runs ahead refuses a late commit; it never gives back what was drawn.
    """
    rows = connection.execute(_LAPSED, {"mine": declared.id, "now": origin.at})
    return [
        _follow(connection, declared, "void", row.key, f"it was not committed before {row.expires}", origin)
        for row in sorted(rows, key=lambda row: (row.expires, row.key))
    ]
