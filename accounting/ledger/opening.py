"""Charges as transactions of their own: all that is asked, or nothing; what has lapsed makes room first."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from accounting.curves import Curve
from accounting.ledger.book import Book
from accounting.ledger.charging import charge, require_room, rooms
from accounting.ledger.item import Chargeable, Item, Terms, read_item, require_known
from accounting.ledger.model import Receipt, Total
from accounting.ledger.origin import Clock, Origin, origin
from accounting.ledger.quota import Who
from accounting.ledger.request import Opening, Reader, Request, read_request, require_distinct, until
from accounting.ledger.rows import find_dataset, lock_dataset
from accounting.ledger.store import Store
from accounting.ledger.stored_text import checked_name, optional_name
from accounting.ledger.transitions import lapse
from accounting.ledger.windows import checked_periods
from accounting.relation import Relation
from accounting.spending.price import BudgetExceeded

Asked = list[tuple[Request, str | Iterable[str] | None, Origin]]


def open_charges(
    store: Store,
    clock: Clock,
    action: Opening,
    dataset: str,
    charges: Iterable[tuple[Curve | Chargeable, Terms]],
    expires_in: float | None = None,
) -> list[Receipt]:
    """Charge or reserve everything in one transaction. What finds no room is tried again after reservations that are over time.

    Raises:
        As `Ledger.charge`; nothing was charged.
    """
    asked, now, read = [], clock(), _reader()
    by = cache(lambda actor: origin(actor, lambda: now))
    for item, terms in charges:
        request = until(read_request(action, dataset, item, terms, read), expires_in, now)
        asked.append((request, terms.get("period"), by(optional_name("actor", terms.get("actor")))))
    require_distinct([request.key for request, _, _ in asked])
    try:
        return _written(store, dataset, asked)
    except BudgetExceeded:
        if not expire(store, dataset, origin(None, clock)):
            raise
    return _written(store, dataset, asked)


def _reader() -> Reader:
    """`read_item` that reads what a batch charges many times once; it keeps each object, so that no other takes its id."""
    known: dict[tuple[int, object, object], tuple[Curve | Chargeable, Item]] = {}

    def read(item: Curve | Chargeable, count: int, relation: Relation | None) -> Item:
        if type(count) is not int or not isinstance(relation, str | None):
            return read_item(item, count, relation)  # which says what is wrong with them
        if (place := (id(item), count, relation)) not in known:
            known[place] = item, read_item(item, count, relation)
        return known[place][1]

    return read


def _written(store: Store, dataset: str, asked: Asked) -> list[Receipt]:
    with store.writer() as connection:
        declared = lock_dataset(connection, checked_name("dataset", dataset))
        window, book = declared.dataset.window, Book(connection, declared)
        book.learn(request.key for request, _, _ in asked)
        receipts = [charge(book, request, checked_periods(window, period), by) for request, period, by in asked]
        book.close()
        return receipts


def expire(store: Store, dataset: str, by: Origin) -> list[Receipt]:
    """Void what has lapsed."""
    with store.writer() as connection:
        return lapse(connection, lock_dataset(connection, checked_name("dataset", dataset)), by)


def require_charge(store: Store, clock: Clock, dataset: str, item: Curve | Chargeable, terms: Terms) -> None:
    """Raise as a charge would that was made now."""
    require_known(terms, Terms)
    priced = read_item(item, terms.get("count", 1), terms.get("relation"))
    with store.reader() as connection:
        declared = find_dataset(connection, checked_name("dataset", dataset))
        periods = checked_periods(declared.dataset.window, terms.get("period"))
        require_room(Book(connection, declared), priced, periods, _who(terms, clock))


def room(store: Store, clock: Clock, dataset: str, terms: Terms) -> list[Total]:
    """The accounts that a charge on these terms would be held against."""
    require_known(terms, Terms)
    with store.reader() as connection:
        declared = find_dataset(connection, checked_name("dataset", dataset))
        periods = checked_periods(declared.dataset.window, terms.get("period"))
        return rooms(Book(connection, declared), periods, _who(terms, clock))


def _who(terms: Terms, clock: Clock) -> Who:
    team, purpose = (optional_name(name, terms.get(name)) for name in ("team", "purpose"))
    return Who(origin(terms.get("actor"), clock).actor, team, purpose)
