"""One charge: read the total, hold it against the budget, append. All of it inside one transaction of the caller."""

from __future__ import annotations

from collections.abc import Iterator

from accounting.curves import Curve
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import joined
from accounting.ledger.book import Book, Step
from accounting.ledger.errors import InvalidEntry, KeyConflict, SharedRows
from accounting.ledger.item import Item, binding_of
from accounting.ledger.model import Dataset, Entry, Receipt, Total
from accounting.ledger.origin import Origin
from accounting.ledger.quota import Quota, Who
from accounting.ledger.request import Request
from accounting.ledger.scopes import Held
from accounting.ledger.settling import price_in
from accounting.ledger.states import openings, state_of
from accounting.spending.budget import Budget, Price
from accounting.spending.equivalent import shortfall
from accounting.spending.price import BudgetExceeded


def charge(book: Book, request: Request, periods: tuple[str, ...], origin: Origin) -> Receipt:
    """Charge, or give back what the same key has charged before. The book's dataset is locked.

    Raises:
        BudgetExceeded, Unaffordable: the budget or a quota does not allow it; nothing is charged.
        RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
        KeyConflict: the key was used for something else.
        SharedRows: the rows were charged under another name.
    """
    earlier = book.earlier(request.key)
    if earlier:
        joined(book.dataset.relation, request.item.relation, begun=True)
        return _replay(book.dataset, request, periods, earlier)
    price, held = require_room(book, request.item, periods, Who(origin.actor, request.team, request.purpose))
    _claim(book, request, periods)
    written = book.append([_first_step(request, period, price) for period in periods], origin)
    book.hold(held)
    return Receipt(request.dataset, request.key, state_of(written), tuple(written), replayed=False)


def require_room(book: Book, item: Item, periods: tuple[str, ...], who: Who) -> tuple[Price, list[Held]]:
    """The item's price, if every period and every quota can pay it, and how the quotas' accounts stand then.

    Raises:
        BudgetExceeded, Unaffordable, RelationMismatch: as `charge`.
    """
    joined(book.dataset.relation, item.relation, begun=True)
    price = book.price(item)
    held: list[Held] = []
    for total in _budgets(book, periods):
        _require_fit(total, price, item)
    for total, seq, account in _quotas(book, periods, who):
        due = price_in(total.budget, item.curve_json, item.count)
        _require_fit(total, due, item)
        held.append(Held(seq, account, total.spent.plus(due)))
    return price, held


def rooms(book: Book, periods: tuple[str, ...], who: Who) -> list[Total]:
    """Where everything stands that a charge is held against: the periods, then the quotas' accounts."""
    return [*_budgets(book, periods), *(total for total, _, _ in _quotas(book, periods, who))]


def _budgets(book: Book, periods: tuple[str, ...]) -> Iterator[Total]:
    for period in periods:
        yield Total(book.dataset.name, period, book.dataset.budget, book.spent(period))


def _quotas(book: Book, periods: tuple[str, ...], who: Who) -> Iterator[tuple[Total, int, str]]:
    """Each account of a quota that limits the charge, with the quota's entry and the account's name."""
    for revision, limit in book.quotas:
        quota = revision.quota
        _require_named(quota, who)
        for account, spent in book.held(revision.seq, quota.accounts(book.dataset.window, who, periods)):
            yield Total(book.dataset.name, quota.account_in_words(account), limit, spent, quota.name), revision.seq, account


def _require_named(quota: Quota, who: Who) -> None:
    if quota.by is not None and quota.of is None and getattr(who, quota.by) is None:
        raise InvalidEntry(f"{quota.by} is missing: quota={quota.name!r} limits each {quota.by}, so name whose charge it is")


def _first_step(request: Request, period: str, price: Price) -> Step:
    names = ("action", "key", "label", "item", "fingerprint", "salt", "team", "purpose", "expires")
    return Step(period=period, price=price, **{name: getattr(request, name) for name in names})


def _replay(dataset: Dataset, request: Request, periods: tuple[str, ...], earlier: list[Entry]) -> Receipt:
    opening = openings(earlier)
    first, item = opening[0], request.item
    # Not the mechanism's JSON: a later version writes more into it, and a retry across an upgrade is still the same charge. The
    # relation is the dataset's, as of every item that comes here.
    asked = (request.action, item.count, periods, binding_of(item.mechanism_json))
    stored = (first.action, first.count, tuple(entry.period for entry in opening), binding_of(first.mechanism))
    if asked != stored or Curve.from_json(first.curve or "") != item.curve:
        raise KeyConflict(
            f"key={request.key!r} has already paid for a different charge of dataset={dataset.name!r} (entry {first.seq}): "
            "give every charge a key of its own, and a retried one the same arguments"
        )
    if (state := state_of(earlier)) == "void":
        raise KeyConflict(f"key={request.key!r} was voided in dataset={dataset.name!r}: charge again under another key")
    return Receipt(dataset.name, request.key, state, opening, replayed=True)


def _claim(book: Book, request: Request, periods: tuple[str, ...]) -> None:
    if request.fingerprint is None or book.claims(request.fingerprint, periods):
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
