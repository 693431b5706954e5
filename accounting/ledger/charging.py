"""One charge: read the total, hold it against the budget, append. All of it inside one transaction of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from accounting.curves import Curve
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import joined
from accounting.ledger.errors import InvalidEntry, KeyConflict, SharedRows
from accounting.ledger.item import Item, binding_of
from accounting.ledger.model import Action, Dataset, Entry, Receipt, Total
from accounting.ledger.origin import Origin
from accounting.ledger.quota import Quota, Who
from accounting.ledger.request import Request
from accounting.ledger.rows import (
    Declared,
    claim_rows,
    entries_of_key,
    insert_entries,
    set_head,
    set_total,
    spent_in,
)
from accounting.ledger.scopes import Held, hold, in_force, price_in, revisions, spent_of
from accounting.ledger.states import openings, state_of
from accounting.spending.budget import NOTHING, Budget, Price
from accounting.spending.equivalent import shortfall
from accounting.spending.price import BudgetExceeded

_NEVER = "0" * 64


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


def charge(connection: Connection, declared: Declared, request: Request, origin: Origin) -> Receipt:
    """Charge, or give back what the same key has charged before. `declared` is locked.

    Raises:
        BudgetExceeded, Unaffordable: the budget or a quota does not allow it; nothing is charged.
        RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
        KeyConflict: the key was used for something else.
        SharedRows: the rows were charged under another name.
    """
    earlier = entries_of_key(connection, declared, request.key)
    if earlier:
        joined(declared.dataset.relation, request.item.relation, begun=True)
        return _replay(declared.dataset, request, earlier)
    who = Who(origin.actor, request.team, request.purpose)
    price, held = require_room(connection, declared, request.item, request.periods, who)
    _claim(connection, declared, request)
    steps = [_first_step(request, period, price) for period in request.periods]
    written = append(connection, declared, steps, origin)
    hold(connection, declared.id, held)
    return Receipt(request.dataset, request.key, state_of(written), tuple(written), replayed=False)


def require_room(
    connection: Connection, declared: Declared, item: Item, periods: tuple[str, ...], who: Who
) -> tuple[Price, list[Held]]:
    """The item's price, if every period and every quota can pay it, and how the quotas' accounts stand then.

    Raises:
        BudgetExceeded, Unaffordable, RelationMismatch: as `charge`.
    """
    joined(declared.dataset.relation, item.relation, begun=True)
    price = declared.dataset.budget.price(item.whole)
    held: list[Held] = []
    for total in _budgets(connection, declared, periods):
        _require_fit(total, price, item)
    for total, seq, account in _quotas(connection, declared, periods, who):
        due = price_in(total.budget, item.curve_json, item.count)
        _require_fit(total, due, item)
        held.append(Held(seq, account, total.spent.plus(due)))
    return price, held


def rooms(connection: Connection, declared: Declared, periods: tuple[str, ...], who: Who) -> list[Total]:
    """Where everything stands that a charge is held against: the periods, then the quotas' accounts."""
    return [*_budgets(connection, declared, periods), *(total for total, _, _ in _quotas(connection, declared, periods, who))]


def _budgets(connection: Connection, declared: Declared, periods: tuple[str, ...]) -> Iterator[Total]:
    for period in periods:
        yield Total(declared.dataset.name, period, declared.dataset.budget, spent_in(connection, declared.id, period))


def _quotas(connection: Connection, declared: Declared, periods: tuple[str, ...], who: Who) -> Iterator[tuple[Total, int, str]]:
    """Each account of a quota that limits the charge, with the quota's entry and the account's name."""
    for revision, limit in in_force(revisions(connection, declared.id)):
        quota = revision.quota
        _require_named(quota, who)
        accounts = quota.accounts(declared.dataset.window, who, periods)
        for account, spent in spent_of(connection, declared.id, revision.seq, accounts).items():
            words = quota.account_in_words(account)
            yield Total(declared.dataset.name, words, limit, spent, quota.name), revision.seq, account


def _require_named(quota: Quota, who: Who) -> None:
    if quota.by is not None and quota.of is None and getattr(who, quota.by) is None:
        raise InvalidEntry(f"{quota.by} is missing: quota={quota.name!r} limits each {quota.by}, so name whose charge it is")


def append(connection: Connection, declared: Declared, steps: list[Step], origin: Origin) -> list[Entry]:
    """Chain the steps to the dataset's head and store them with the new totals. `declared` is locked."""
    written: list[Entry] = []
    seq, head = declared.seq, declared.head
    for step in steps:
        if step.action == "quota":
            spent = NOTHING
        else:
            spent = spent_in(connection, declared.id, step.period).plus(step.price)
            set_total(connection, declared.id, step.period, spent)
        entry = _entry(declared.dataset.name, seq + 1, step, spent, origin, head)
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
        "team": step.team,
        "purpose": step.purpose,
        "expires": step.expires,
        "quota": step.quota,
    }
    unsealed = Entry(**fields, hash=_NEVER)  # type: ignore[arg-type]
    return Entry(**fields, hash=unsealed.expected_hash())  # type: ignore[arg-type]


def _first_step(request: Request, period: str, price: Price) -> Step:
    names = ("action", "key", "label", "item", "fingerprint", "salt", "team", "purpose", "expires")
    return Step(period=period, price=price, **{name: getattr(request, name) for name in names})


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


def _require_fit(total: Total, price: Price, item: Item) -> None:
    budget, spent = total.budget, total.spent
    if budget.fits(spent, price):
        return
    part = f", quota={total.quota!r} ({total.period})" if total.quota else f", period={total.period!r}" if total.period else ""
    where = f"dataset={total.dataset!r}{part}"
    left, fit = budget.remaining(spent), would_fit(budget, spent, item)
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
