"""`Book`: charges and their later steps, written all or nothing within one transaction.

Accounts are checked under the dataset's lock. Entries, balances and the chain head are written
once, when the book is closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import BindParameter, Connection, bindparam, exists, select, update

from accounting.address import mask
from accounting.budget import Budget
from accounting.cost import NOTHING, Cost
from accounting.curves import Curve
from accounting.ledger.balances import Balances
from accounting.ledger.errors import (
    ClaimConflict,
    DatasetMoved,
    InvalidTransition,
    KeyConflict,
    SharedRows,
)
from accounting.ledger.model import (
    DECLARES,
    ENTRY_FIELDS,
    Action,
    Dataset,
    Entry,
    Origin,
    Receipt,
    State,
    refund,
)
from accounting.ledger.quota import Place
from accounting.ledger.request import TWO_CHANGES, Request
from accounting.ledger.store import (
    STORED,
    Declared,
    Store,
    datasets,
    entries,
    entries_of_keys,
    find_dataset,
    fingerprints,
    stored,
    upsert,
)
from accounting.ledger.stored_text import canonical_json, check_name, digest
from accounting.refusals import BudgetExceeded, refusal
from accounting.remaining import Remaining, limits_in_words
from accounting.strict_json import read_json

Step = Literal["commit", "release", "void"]

_AFTER: dict[Action, State] = {
    "reserve": "reserved",
    "charge": "committed",
    "commit": "committed",
    "release": "released",
    "void": "void",
}
_NEEDS: dict[Step, tuple[State, str]] = {
    "commit": ("reserved", "only a reserved charge is committed"),
    "release": (
        "committed",
        "only a committed charge is released. Commit it before the data are read",
    ),
    "void": (
        "reserved",
        "only a reserved charge whose data were not read is voided. A failed draw stays charged",
    ),
}

# Statements that every charge runs are built once: building them costs as much time as running
# them.
_MINE: BindParameter[Any] = bindparam("mine")
_RETIRED = select(entries.c.seq, entries.c.label).where(
    entries.c.dataset_id == _MINE, entries.c.seq == bindparam("last"), entries.c.action == "retire"
)
_SET_HEAD = (
    update(datasets)
    .where(datasets.c.id == _MINE)
    .values(seq=bindparam("new_seq"), head=bindparam("new_head"))
)
_later = entries.alias("later")
_LAPSED = (
    select(entries.c.key, entries.c.expires)
    .distinct()
    .where(
        entries.c.dataset_id == bindparam("mine"),
        entries.c.expires <= bindparam("now"),
        entries.c.action == "reserve",
    )
    .where(
        ~exists().where(
            _later.c.dataset_id == entries.c.dataset_id,
            _later.c.key == entries.c.key,
            _later.c.action.in_(("commit", "void")),
        )
    )
)


@contextmanager
def writing(store: Store, dataset: object) -> Iterator[Book]:
    """Open the book of a dataset, with its row locked against every other charge.

    Changes are written at the end of the block.
    """
    with store.writer() as connection:
        book = Book(
            connection, find_dataset(connection, check_name("dataset", dataset), locked=True)
        )
        book.require_here()
        yield book
        book.close()


@contextmanager
def reading(store: Store, dataset: object) -> Iterator[Book]:
    """Open the book of a dataset for reading."""
    with store.reader() as connection:
        yield Book(connection, find_dataset(connection, check_name("dataset", dataset)))


class Book:
    """The charges of a dataset within one transaction, and the steps that follow them.

    Changes are kept, and nothing is written before `close`.
    """

    def __init__(self, connection: Connection, declared: Declared) -> None:
        self.connection: Connection = connection
        self.declared: Declared = declared
        self.dataset: Dataset = declared.dataset
        self.waiting: list[Entry] = []
        self.balances: Balances = Balances(connection, declared)
        self._earlier: dict[str, list[Entry]] = {}

    @property
    def moved_to(self) -> str | None:
        """The ledger that the dataset has moved to, as its last entry says; None if it has not."""
        parameters = {"mine": self.declared.id, "last": self.declared.seq}
        row = self.connection.execute(_RETIRED, parameters).one_or_none()
        return None if row is None else str(row.label)

    def require_here(self) -> None:
        """Refuse a charge to a dataset that has moved to another ledger."""
        if (place := self.moved_to) is not None:
            raise DatasetMoved(
                f"dataset={self.dataset.name!r} has moved to the ledger {mask(place)} (entry"
                f" {self.declared.seq}). Name that one with ledger=; nothing was written here"
            )

    def steps(self, *keys: str) -> list[Entry]:
        """Return the entries under idempotency keys, read at once, in order."""
        if new := [key for key in keys if key not in self._earlier]:
            self._earlier |= entries_of_keys(self.connection, self.declared, new)
        return [entry for key in keys for entry in self._earlier[key]]

    # -- charges -----------------------------------------------------------------------------------

    def charge_all(self, requests: Sequence[Request]) -> list[Receipt]:
        """Charge each request, or return the earlier receipt of its key.

        Raises:
            BudgetExceeded, Unaffordable: the budget or a quota does not allow it.
            RelationMismatch: the item's guarantee is for another relation than the dataset's, or
                states none.
            KeyConflict: the key was used for a different charge.
            SharedRows: the rows were charged under another name.
        """
        self.steps(*(request.key for request in requests))
        return [self._charge(request) for request in requests]

    def _charge(self, request: Request) -> Receipt:
        charge, periods = request.resolve_for(self.dataset)
        if earlier := self.steps(charge.key):
            return self._replay(charge, periods, earlier)
        after = self.require_room(charge, periods, claim=True)
        fields = charge.fields | charge.cost(self.dataset.budget)._asdict()
        written = self.append([fields | {"period": period} for period in periods], charge.by)
        self.balances.set(after)
        return self._receipt(written)

    def check(self, request: Request) -> Receipt | None:
        """Raise the errors of a charge without charging, or return the receipt of a paid key.

        Such a key needs no budget again. The result is None for a new key.
        """
        charge, periods = request.resolve_for(self.dataset)
        if earlier := self.steps(charge.key):
            return self._replay(charge, periods, earlier)
        self.require_room(charge, periods, claim=False)
        return None

    def require_room(
        self, charge: Request, periods: tuple[str, ...], *, claim: bool
    ) -> dict[Place, Cost]:
        """Return the sums of the accounts after a charge that each of them can pay for.

        Args:
            charge: the request, resolved for the dataset.
            periods: the periods that it reads.
            claim: True to claim its rows for the dataset.

        Raises:
            Error: as `charge_all`.
        """
        dataset, most = self.dataset, self.dataset.most_per_release
        # what no account of its form pays for is not asked to be smaller
        whole = charge.cost(dataset.budget)
        if (
            charge.entry_fields["override"] is None
            and most is not None
            and not _is_small(most, charge.entry_fields["curve"], charge.entry_fields["count"])
        ):
            raise BudgetExceeded(
                f"dataset={dataset.name!r} allows a single release at most"
                f" {limits_in_words(most)}, and this one costs more. Lower its cost, or state why"
                " it may cost more, which is recorded (override=REASON). Nothing was"
                " charged, and nothing may be released."
            )
        after = {}
        for place, where, remaining in self.balances.accounts(periods, charge.fields):
            cost = charge.cost(remaining.budget)
            require_fit(remaining, cost, charge, where)
            after[place] = remaining.spent.plus(cost)
        if dataset.most_in_all is not None:
            self.balances.cost_over_periods(whole, periods)
        if (rows := charge.entry_fields["fingerprint"]) is not None and not self.claims(
            rows, periods, write=claim
        ):
            raise SharedRows(
                "rows with this fingerprint were charged before, but not to"
                f" dataset={dataset.name!r} with these periods. The same rows have one budget,"
                " so charge them under the name and periods that they were first charged to"
            )
        return after

    def _replay(self, charge: Request, periods: tuple[str, ...], earlier: list[Entry]) -> Receipt:
        opening = openings(earlier)
        first, name = opening[0], self.dataset.name
        # Not the mechanism's JSON: a later version writes more into it, and a retry across an
        # upgrade is still the same charge. The relation is the dataset's, as of every item that
        # comes here.
        fields = (
            charge.action,
            charge.entry_fields["count"],
            periods,
            charge.across,
            _binding_of(charge.entry_fields["mechanism"]),
        )
        stored = (
            first.action,
            first.count,
            tuple(entry.period for entry in opening),
            first.across,
            _binding_of(first.mechanism),
        )
        if fields != stored or Curve.from_json(first.curve or "") != charge.curve:
            raise KeyConflict(
                f"key={charge.key!r} was already used for a different charge of"
                f" dataset={name!r} (entry {first.seq}). To repeat that one, use its arguments,"
                " which charges nothing more. For another release, use another key="
            )
        if state_of(earlier) == "void":
            raise KeyConflict(
                f"key={charge.key!r} was voided in dataset={name!r}. Charge again under another"
                " key="
            )
        return self._receipt(opening, earlier)

    def _receipt(self, batch: Sequence[Entry], steps: Sequence[Entry] = ()) -> Receipt:
        """Return the receipt for entries that a step made, now or earlier.

        `steps` are all entries of the key if the step was made earlier.
        """
        return Receipt(
            self.dataset.name,
            batch[0].key,
            state_of(steps or batch),
            tuple(batch),
            replayed=bool(steps),
        )

    def claims(self, fingerprint: str, periods: tuple[str, ...], *, write: bool = True) -> bool:
        """Return True if rows with this fingerprint are free or claimed for these periods.

        A claim belongs to a dataset and periods. With `write`, free rows are claimed now.
        """
        values = {
            "fingerprint": fingerprint,
            "dataset_id": self.declared.id,
            "periods": json.dumps(periods),
        }
        if write:
            self.connection.execute(upsert(fingerprints), values)
        row = self.connection.execute(_CLAIMED, {"rows": fingerprint}).one_or_none()
        return row is None or bool(row._asdict() == values)

    # -- what follows a charge ---------------------------------------------------------------------

    def follow(
        self, action: Step, key: str, label: str | None, step_origin: Origin, ran: str | None = None
    ) -> Receipt:
        """Take a step for every period of the key, or return the receipt of the same earlier step.

        Args:
            action: the step.
            key: idempotency key of the charge.
            label: reason of a void, or claim of a release.
            by: the fields about who takes the step, where and when.
            ran: for a release, the curve (JSON) of the rounds that ran according to its outcome.
                The others are refunded (F8).

        Raises:
            InvalidTransition: nothing was charged under the key, or its state does not allow the
                step.
            ClaimConflict: another result was released, by its label or by what it used.
            InvalidEntry: what ran is not part of what was reserved.
        """
        earlier = self.steps(key)
        if not earlier:
            raise InvalidTransition(
                f"key={key!r} has no charge in dataset={self.dataset.name!r}. Reserve or charge"
                " it first"
            )
        if action == "commit" and any(
            entry.action == "release" and entry.curve is not None for entry in earlier
        ):
            raise InvalidTransition(
                f"key={key!r} was settled and its unused part refunded, so nothing more may be"
                " drawn under it"
            )
        if earlier[0].across == TWO_CHANGES:
            # what two changes cost together is not a sum over rounds, so nothing is given back
            ran = None
        if repeated := [entry for entry in earlier if entry.action == action]:
            # A release without a claim is another one than that which has one: two draws may have
            # been made at once.
            is_same = repeated[0].label == label and (ran is None or repeated[0].curve == ran)
            if action == "release" and not is_same:
                raise ClaimConflict(
                    f"key={key!r} was charged for a result that was handed out already (entry"
                    f" {repeated[0].seq}), and this is another one. Forget it, and use the first"
                )
            return self._receipt(repeated, earlier)
        state, (required, rule) = state_of(earlier), _NEEDS[action]
        if state != required:
            raise InvalidTransition(f"key={key!r} is {state}, but {rule}")
        opening, expires = openings(earlier), earlier[0].expires
        if action == "commit" and expires is not None and step_origin.at >= expires:
            raise InvalidTransition(
                f"key={key!r} was reserved until {expires} and not committed by then. Read no"
                " data, and reserve again"
            )
        if ran is not None and opening[0].action != "reserve":
            raise InvalidTransition(
                f"key={key!r} was charged, not reserved, and only a reservation is refunded for"
                " rounds that did not run"
            )
        common_fields = {
            "action": action,
            "key": key,
            "label": label,
            **({} if ran is None else {"curve": ran, "count": 1}),
        }
        steps = []
        for entry in opening:
            back = entry.cost if action == "void" else NOTHING
            back = back if ran is None else refund(self.dataset.budget, entry, ran, step_origin)
            steps.append({**common_fields, "period": entry.period, **back.times(-1)._asdict()})
        written = self.append(steps, step_origin)
        if action == "void" or ran is not None:
            for revision in self.balances.quotas:
                back = refund(revision.limit, opening[0], ran, step_origin)
                names = revision.quota.accounts(
                    self.dataset.window, vars(opening[0]), [entry.period for entry in opening]
                )
                self.balances.set(
                    {
                        place: spent.minus(back)
                        for place, spent in self.balances.spent(revision.seq, names).items()
                    }
                )
        return self._receipt(written)

    def void_expired(self, step_origin: Origin) -> list[Receipt]:
        """Void every expired reservation.

        Nothing was drawn under them. Data are read only after a commit, and a commit and a void of
        one key exclude each other under the lock, whatever the clocks say. A clock that runs ahead
        refuses a late commit, and draws that were made stay charged.
        """
        rows = self.connection.execute(_LAPSED, {"mine": self.declared.id, "now": step_origin.at})
        expired = sorted((row.expires, row.key) for row in rows)
        return [
            self.follow("void", key, f"it was not committed before {expires}", step_origin)
            for expires, key in expired
        ]

    # -- writing -----------------------------------------------------------------------------------

    def append(self, steps: Iterable[Mapping[str, Any]], step_origin: Origin) -> list[Entry]:
        """Chain steps to the dataset's chain head and return them as entries.

        A step has the fields of an entry that are not None, apart from its place in the chain.
        """
        written = []
        for step in steps:
            fields: dict[str, Any] = {
                **_BLANK,
                **vars(step_origin),
                **step,
                "dataset": self.dataset.name,
            }
            if step["action"] not in DECLARES:
                (spent,) = self.balances.spent(0, [fields["period"]]).values()
                spent = spent.plus(Cost(fields["main"], fields["failure"]))
                fields |= {"spent_main": spent.main, "spent_failure": spent.failure}
            fields |= {"seq": self.declared.seq + 1, "prev": self.declared.head}
            written.append(Entry(**fields, hash=digest(canonical_json(fields))))
            self.enqueue_entry(written[-1])
        return written

    def enqueue_entry(self, entry: Entry) -> None:
        """Add an entry that follows the dataset's chain head."""
        if entry.action not in DECLARES:
            self.balances.set({(0, entry.period): entry.spent})
        self.declared.seq, self.declared.head = entry.seq, entry.hash
        self.waiting.append(entry)

    def close(self) -> None:
        """Write entries, totals, quotas' accounts and the chain head, once."""
        if self.waiting:
            _insert(self.connection, [(self.declared.id, *stored(entry)) for entry in self.waiting])
            head = {
                "mine": self.declared.id,
                "new_seq": self.declared.seq,
                "new_head": self.declared.head,
            }
            self.connection.execute(_SET_HEAD, head)
        self.balances.write()
        self.waiting.clear()


_CLAIMED = select(fingerprints).where(fingerprints.c.fingerprint == bindparam("rows"))
_BLANK = {name: None for name in ENTRY_FIELDS if name != "hash"} | dict.fromkeys(
    ("count", "main", "failure", "spent_main", "spent_failure"), 0
)


def openings(steps: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries that opened a charge, one per period."""
    return tuple(entry for entry in steps if entry.opens)


def state_of(steps: Sequence[Entry]) -> State:
    """Return the state of a key after its steps, in order."""
    return _AFTER[steps[-1].action]


def require_fit(remaining: Remaining, cost: Cost, charge: Request, where: str) -> None:
    """Raise BudgetExceeded if an account cannot pay a cost; `where` names it in messages."""
    if not remaining.budget.fits(remaining.spent, cost):
        raise refusal(replace(remaining, curve=charge.curve), charge.entry_fields["count"], where)


@lru_cache(maxsize=1024)
def _is_small(most: Budget, curve: str, count: int) -> bool:
    return most.admits(count * Curve.from_json(curve))


def _binding_of(mechanism_json: str | None) -> str | None:
    """Return the text that a description binds its charge to, or None.

    For example, it names one job's draw, which no other job may make under the same key.
    """
    bound = None if mechanism_json is None else read_json(mechanism_json).get("binding")
    return bound if isinstance(bound, str) else None


def _insert(connection: Connection, rows: list[tuple[Any, ...]]) -> None:
    """Append entries, past SQLAlchemy's costly handling of each parameter."""
    columns = ("dataset_id", *STORED)
    # `key` and `count` mean something to one store or the other
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join("?" if connection.dialect.name == "sqlite" else "%s" for _ in columns)
    connection.exec_driver_sql(f"INSERT INTO {entries.name} ({names}) VALUES ({values})", rows)
