"""One charge: read the total, hold it against the budget, append. All of it inside one transaction of the caller."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from accounting.curves import Curve
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import joined
from accounting.ledger.errors import KeyConflict, SharedRows
from accounting.ledger.item import Chargeable, Item, Terms, binding_of, read_item, require_known
from accounting.ledger.model import Action, Dataset, Entry, Receipt
from accounting.ledger.origin import Origin
from accounting.ledger.rows import (
    Declared,
    claim_rows,
    entries_of_key,
    insert_entries,
    set_head,
    set_total,
    spent_in,
)
from accounting.ledger.states import openings, state_of
from accounting.ledger.stored_text import checked_name, optional_text
from accounting.spending.budget import Budget, Price
from accounting.spending.equivalent import shortfall
from accounting.spending.price import BudgetExceeded

_NEVER = "0" * 64


Opening = Literal["charge", "reserve"]


@dataclass(frozen=True)
class Request:
    """What a caller asks to be charged; everything in it is checked already, apart from the periods and the relation."""

    dataset: str
    item: Item
    action: Opening
    key: str
    periods: tuple[str, ...]
    label: str | None
    fingerprint: str | None
    salt: str | None


def read_request(action: Opening, dataset: str, item: Curve | Chargeable, terms: Terms) -> Request:
    """What is asked, checked as far as that goes without the dataset; its periods are filled in when that is locked.

    Raises:
        InvalidArgument, InvalidEntry, RelationMismatch: a keyword is unknown, or a value is none that can be charged.
    """
    require_known(terms, Terms)
    key = terms.get("key")
    return Request(
        dataset=checked_name("dataset", dataset),
        item=read_item(item, terms.get("count", 1), terms.get("relation")),
        action=action,
        key=new_key() if key is None else checked_name("key", key),
        periods=(),
        label=optional_text("label", terms.get("label")),
        fingerprint=optional_text("fingerprint", terms.get("fingerprint")),
        salt=optional_text("salt", terms.get("salt")),
    )


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


def new_key() -> str:
    """A key for a charge whose caller has none."""
    return uuid.uuid4().hex


def require_distinct(keys: list[str]) -> None:
    """Refuse a key that pays for two charges of one batch.

    Raises:
        KeyConflict: there is one.
    """
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise KeyConflict(f"key={twice!r} is given twice in one batch: each charge needs a key of its own. Nothing was charged")


def charge(connection: Connection, declared: Declared, request: Request, origin: Origin) -> Receipt:
    """Charge, or give back what the same key has charged before. `declared` is locked.

    Raises:
        BudgetExceeded, Unaffordable: the budget does not allow it; nothing is charged.
        RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
        KeyConflict: the key was used for something else.
        SharedRows: the rows were charged under another name.
    """
    earlier = entries_of_key(connection, declared, request.key)
    if earlier:
        joined(declared.dataset.relation, request.item.relation, begun=True)
        return _replay(declared.dataset, request, earlier)
    price = require_room(connection, declared, request.item, request.periods)
    _claim(connection, declared, request)
    steps = [_first_step(request, period, price) for period in request.periods]
    written = append(connection, declared, steps, origin)
    return Receipt(request.dataset, request.key, state_of(written), tuple(written), replayed=False)


def require_room(connection: Connection, declared: Declared, item: Item, periods: tuple[str, ...]) -> Price:
    """The item's price, if every period can pay it.

    Raises:
        BudgetExceeded, Unaffordable, RelationMismatch: as `charge`.
    """
    joined(declared.dataset.relation, item.relation, begun=True)
    price = declared.dataset.budget.price(item.whole)
    for period in periods:
        _require_fit(declared.dataset, period, spent_in(connection, declared.id, period), price, item)
    return price


def append(connection: Connection, declared: Declared, steps: list[Step], origin: Origin) -> list[Entry]:
    """Chain the steps to the dataset's head and store them with the new totals. `declared` is locked."""
    written: list[Entry] = []
    seq, head = declared.seq, declared.head
    for step in steps:
        spent = spent_in(connection, declared.id, step.period).plus(step.price)
        entry = _entry(declared.dataset.name, seq + 1, step, spent, origin, head)
        set_total(connection, declared.id, step.period, spent)
        seq, head = entry.seq, entry.hash
        written.append(entry)
    insert_entries(connection, declared.id, written)
    set_head(connection, declared.id, seq, head)
    declared.seq, declared.head = seq, head  # where the transaction's next charge follows
    return written


def _entry(dataset: str, seq: int, step: Step, spent: Price, origin: Origin, prev: str) -> Entry:
    fields = {
        "dataset": dataset,
        "seq": seq,
        "period": step.period,
        "action": step.action,
        "key": step.key,
        "curve": step.item.curve_json if step.item else None,
        "mechanism": step.item.mechanism_json if step.item else None,
        "count": step.item.count if step.item else 0,
        "main": step.price.main,
        "failure": step.price.failure,
        "spent_main": spent.main,
        "spent_failure": spent.failure,
        "label": step.label,
        "actor": origin.actor,
        "host": origin.host,
        "at": origin.at,
        "package": origin.package,
        "fingerprint": step.fingerprint,
        "salt": step.salt,
        "prev": prev,
    }
    unsealed = Entry(**fields, hash=_NEVER)  # type: ignore[arg-type]
    return Entry(**fields, hash=unsealed.expected_hash())  # type: ignore[arg-type]


def _first_step(request: Request, period: str, price: Price) -> Step:
    return Step(request.action, request.key, period, price, request.label, request.item, request.fingerprint, request.salt)


def _replay(dataset: Dataset, request: Request, earlier: list[Entry]) -> Receipt:
    opening = openings(earlier)
    first, item = opening[0], request.item
    # Not the mechanism's JSON: a later version writes more into it, and a retry across an upgrade is still the same charge. The
    # relation is the dataset's, as of every item that comes here.
    asked = (request.action, item.count, request.periods, binding_of(item.mechanism_json))
    stored = (first.action, first.count, tuple(entry.period for entry in opening), binding_of(first.mechanism))
    if asked != stored or Curve.from_json(first.curve or "") != item.curve:
        raise KeyConflict(
            f"key={request.key!r} has already paid for a different charge of dataset={dataset.name!r} (entry {first.seq}): "
            "give every charge a key of its own, and a retried one the same arguments"
        )
    if (state := state_of(earlier)) == "void":
        raise KeyConflict(f"key={request.key!r} was voided in dataset={dataset.name!r}: charge again under another key")
    return Receipt(dataset.name, request.key, state, opening, replayed=True)


def _claim(connection: Connection, declared: Declared, request: Request) -> None:
    if request.fingerprint is None or claim_rows(connection, declared, request.fingerprint, request.periods):
        return
    raise SharedRows(
        f"rows with this fingerprint were charged before, but not to dataset={request.dataset!r} with these periods: the same "
        "rows have one budget, so charge them under the name and periods they were first charged to"
    )


def _require_fit(dataset: Dataset, period: str, spent: Price, price: Price, item: Item) -> None:
    budget = dataset.budget
    if budget.fits(spent, price):
        return
    left, fit = budget.remaining(spent), would_fit(budget, spent, item)
    where = f"dataset={dataset.name!r}" + (f", period={period!r}" if period else "")
    raise BudgetExceeded(
        f"{where}: {item.count} run(s) do not fit into what is left, {fit} run(s) would fit. {shortfall(budget, spent, price)}. "
        "Nothing was charged, nothing may be released.",
        requested=price,
        spent=spent,
        remaining=left,
        would_fit=fit,
    )


def would_fit(budget: Budget, spent: Price, item: Item) -> int:
    """How many of the item's runs the budget still pays for."""
    try:
        return min(item.count, budget.how_many(item.curve, spent=spent))
    except (InvalidArgument, Unaffordable):
        return 0
