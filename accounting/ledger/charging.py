"""What changes a ledger: a charge (read the total, hold it against the budget, append) and the steps that follow it.

All of it inside one transaction: all that is asked, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from sqlalchemy import Connection, bindparam, exists, select

from accounting.budget.budget import NOTHING, Budget, Price
from accounting.budget.price import BudgetExceeded
from accounting.budget.remaining import shortfall
from accounting.curves import Curve
from accounting.errors import InvalidArgument, Unaffordable
from accounting.guarantee import common_relation
from accounting.ledger.book import Book, Step, append
from accounting.ledger.ddl import entries
from accounting.ledger.errors import ClaimConflict, InvalidEntry, InvalidTransition, KeyConflict, SharedRows
from accounting.ledger.item import Chargeable, Item, Opening, Request, Terms, binding_of, read_item, read_requests, require_known
from accounting.ledger.lifecycle import Following, openings, price_in, require_state, returned, state_of
from accounting.ledger.model import Clock, Dataset, Entry, Origin, Receipt, Total, origin
from accounting.ledger.periods import checked_periods
from accounting.ledger.quota import Who
from accounting.ledger.scopes import Held, give_back
from accounting.ledger.statements import Declared, entries_of_keys
from accounting.ledger.store import Store
from accounting.ledger.stored_text import optional_name

_SAID = ("action", "key", "label", "item", "fingerprint", "salt", "team", "purpose", "expires")  # of a request, in its entries
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


def charge(book: Book, request: Request, origin: Origin) -> Receipt:
    """Charge, or give back what the same key has charged before. The book's dataset is locked.

    Raises:
        BudgetExceeded, Unaffordable: the budget or a quota does not allow it; nothing is charged.
        RelationMismatch: the item's guarantee is for another relation than the dataset's, or states none.
        KeyConflict: the key was used for something else.
        SharedRows: the rows were charged under another name.
    """
    periods = checked_periods(book.dataset.window, request.period)
    if earlier := book.earlier[request.key]:
        common_relation(book.dataset.relation, request.item.relation, begun=True)
        return _replay(book.dataset, request, periods, earlier)
    price, held = require_room(book, request.item, periods, Who(origin.actor, request.team, request.purpose))
    if request.fingerprint is not None and not book.claims(request.fingerprint, periods):
        raise SharedRows(
            f"rows with this fingerprint were charged before, but not to dataset={book.dataset.name!r} with these periods: the "
            "same rows have one budget, so charge them under the name and periods they were first charged to"
        )
    said = {name: getattr(request, name) for name in _SAID}
    written = book.append([Step(period=period, price=price, **said) for period in periods], origin)
    book.hold(held)
    return Receipt(book.dataset.name, request.key, state_of(written), tuple(written), replayed=False)


def require_room(book: Book, item: Item, periods: tuple[str, ...], who: Who) -> tuple[Price, list[Held]]:
    """The item's price, if every period and quota can pay it, and how the quotas' accounts stand then. Raises as `charge`."""
    common_relation(book.dataset.relation, item.relation, begun=True)
    price = book.price(item)
    held: list[Held] = []
    for total in _budgets(book, periods):
        _require_fit(total, price, item)
    for total, seq, account in _quotas(book, periods, who):
        due = price_in(total.budget, item.curve_json, item.count)
        _require_fit(total, due, item)
        held.append(Held(seq, account, total.spent.plus(due)))
    return price, held


def _budgets(book: Book, periods: tuple[str, ...]) -> Iterator[Total]:
    for period in periods:
        yield Total(book.dataset.name, period, book.dataset.budget, book.spent(period))


def _quotas(book: Book, periods: tuple[str, ...], who: Who) -> Iterator[tuple[Total, int, str]]:
    """Each account of a quota that limits the charge, with the quota's entry and the account's name."""
    for revision, limit in book.quotas:
        quota = revision.quota
        if quota.by is not None and quota.of is None and getattr(who, quota.by) is None:
            raise InvalidEntry(f"{quota.by} is missing: quota={quota.name!r} limits each {quota.by}, so name whose charge it is")
        for account, spent in book.held(revision.seq, quota.accounts(book.dataset.window, who, periods)):
            yield Total(book.dataset.name, quota.account_in_words(account), limit, spent, quota.name), revision.seq, account


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


def _require_fit(total: Total, price: Price, item: Item) -> None:
    budget, spent = total.budget, total.spent
    if budget.fits(spent, price):
        return
    part = f", quota={total.quota!r} ({total.period})" if total.quota else f", period={total.period!r}" if total.period else ""
    where = f"dataset={total.dataset!r}{part}"
    left, fit = budget.remaining(spent), _would_fit(budget, spent, item)
    raise BudgetExceeded(
        f"{where}: {item.count} run(s) do not fit into what is left, {fit} run(s) would fit. {shortfall(budget, spent, price)}. "
        "Nothing was charged, nothing may be released.",
        requested=price,
        spent=spent,
        remaining=left,
        would_fit=fit,
    )


def _would_fit(budget: Budget, spent: Price, item: Item) -> int:
    try:
        return min(item.count, budget.how_many(item.curve, spent=spent))
    except (InvalidArgument, Unaffordable):
        return 0


def open_charges(
    store: Store,
    clock: Clock,
    action: Opening,
    dataset: str,
    charges: Iterable[tuple[Curve | Chargeable, Terms]],
    expires_in: float | None = None,
) -> list[Receipt]:
    """Charge or reserve all in one transaction, or nothing. What finds no room is tried again once what has lapsed is void."""
    now = clock()
    by = cache(lambda actor: origin(actor, lambda: now))
    asked = [(request, by(request.actor)) for request in read_requests(action, charges, expires_in, now)]
    try:
        return _written(store, dataset, asked)
    except BudgetExceeded:
        if not expire(store, dataset, origin(None, clock)):
            raise
    return _written(store, dataset, asked)


def _written(store: Store, dataset: str, asked: list[tuple[Request, Origin]]) -> list[Receipt]:
    with store.writer_on(dataset) as (connection, declared):
        book = Book(connection, declared)
        book.learn(request.key for request, _ in asked)
        receipts = [charge(book, request, by) for request, by in asked]
        book.close()
        return receipts


def expire(store: Store, dataset: str, by: Origin) -> list[Receipt]:
    """Void what has lapsed."""
    with store.writer_on(dataset) as (connection, declared):
        return lapse(connection, declared, by)


def require_charge(store: Store, clock: Clock, dataset: str, item: Curve | Chargeable, terms: Terms) -> None:
    """Raise as a charge would that was made now."""
    require_known(terms, Terms)
    priced = read_item(item, terms.get("count", 1), terms.get("relation"))
    with store.reader_on(dataset) as (connection, declared):
        periods = checked_periods(declared.dataset.window, terms.get("period"))
        require_room(Book(connection, declared), priced, periods, _who(terms, clock))


def room(store: Store, clock: Clock, dataset: str, terms: Terms) -> list[Total]:
    """Where every account stands that a charge on these terms would be held against: the periods, then the quotas' accounts."""
    require_known(terms, Terms)
    with store.reader_on(dataset) as (connection, declared):
        book, periods = Book(connection, declared), checked_periods(declared.dataset.window, terms.get("period"))
        return [*_budgets(book, periods), *(total for total, _, _ in _quotas(book, periods, _who(terms, clock)))]


def _who(terms: Terms, clock: Clock) -> Who:
    team, purpose = (optional_name(name, terms.get(name)) for name in ("team", "purpose"))
    return Who(origin(terms.get("actor"), clock).actor, team, purpose)


def follow(
    connection: Connection,
    declared: Declared,
    action: Following,
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
        InvalidEntry: what ran is no part of what was reserved.
    """
    earlier = entries_of_keys(connection, declared, [key])[key]
    if not earlier:
        raise InvalidTransition(f"key={key!r} has no charge in dataset={declared.dataset.name!r}: reserve or charge it first")
    if action == "commit" and any(entry.action == "release" and entry.curve is not None for entry in earlier):
        raise InvalidTransition(f"key={key!r} was settled, and what it did not use given back: nothing more is drawn under it")
    if done := tuple(entry for entry in earlier if entry.action == action):
        if action == "release" and not _is_same(done[0], label, ran):
            raise ClaimConflict(
                f"key={key!r} has paid for a result that was handed out already (entry {done[0].seq}), and this is another one: "
                "forget it, and use the first"
            )
        return Receipt(declared.dataset.name, key, state_of(earlier), done, replayed=True)
    require_state(action, state_of(earlier), key)
    opening, expires = openings(earlier), earlier[0].expires
    if action == "commit" and expires is not None and origin.at >= expires:
        raise InvalidTransition(
            f"key={key!r} was reserved until {expires} and not committed by then: read no data, reserve again"
        )
    if ran is not None and opening[0].action != "reserve":
        raise InvalidTransition(f"key={key!r} was charged for good: what did not run is given back of a reservation only")
    prices = [_price(declared, action, one, ran, origin.package) for one in opening]
    steps = [Step(action, key, one.period, due, label, ran, opening=one) for one, due in zip(opening, prices, strict=True)]
    written = append(connection, declared, steps, origin)
    if action == "void" or ran is not None:
        give_back(connection, declared, opening, written[0])
    return Receipt(declared.dataset.name, key, state_of(written), tuple(written), replayed=False)


def lapse(connection: Connection, declared: Declared, origin: Origin) -> list[Receipt]:
    """Void every reservation whose time is over. `declared` is locked.

    Nothing was drawn under them: data are read after a commit only, and a commit and a void of one key exclude each other under
    the lock, whatever the clocks say. A clock that runs ahead refuses a late commit; it never gives back what was drawn.
    """
    rows = connection.execute(_LAPSED, {"mine": declared.id, "now": origin.at})
    return [
        follow(connection, declared, "void", row.key, f"it was not committed before {row.expires}", origin)
        for row in sorted(rows, key=lambda row: (row.expires, row.key))
    ]


def _is_same(done: Entry, label: str | None, ran: Item | None) -> bool:
    return (label is None or done.label == label) and (ran is None or done.curve == ran.curve_json)


def _price(declared: Declared, action: Following, opening: Entry, ran: Item | None, by: str) -> Price:
    if ran is not None:
        return returned(declared.dataset.budget, opening, ran.curve_json, by).times(-1)
    return opening.price.times(-1) if action == "void" else NOTHING
