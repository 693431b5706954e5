"""Steps that follow a reservation or a charge, each a new entry."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, bindparam, exists, select

from accounting.ledger.book import Step, append
from accounting.ledger.errors import ClaimConflict, InvalidTransition
from accounting.ledger.item import Item
from accounting.ledger.model import Entry, Receipt
from accounting.ledger.origin import Origin
from accounting.ledger.rows import Declared, entries_of_key
from accounting.ledger.scopes import give_back
from accounting.ledger.settling import returned
from accounting.ledger.states import is_done, openings, require, state_of
from accounting.ledger.tables import entries
from accounting.spending.budget import NOTHING, Price

Following = Literal["commit", "release", "void"]
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
    earlier = entries_of_key(connection, declared, key)
    if not earlier:
        raise InvalidTransition(f"key={key!r} has no charge in dataset={declared.dataset.name!r}: reserve or charge it first")
    if action == "commit" and any(entry.action == "release" and entry.curve is not None for entry in earlier):
        raise InvalidTransition(f"key={key!r} was settled, and what it did not use given back: nothing more is drawn under it")
    if is_done(action, earlier):
        done = tuple(entry for entry in earlier if entry.action == action)
        if action == "release" and not _is_same(done[0], label, ran):
            raise ClaimConflict(
                f"key={key!r} has paid for a result that was handed out already (entry {done[0].seq}), and this is another one: "
                "forget it, and use the first"
            )
        return Receipt(declared.dataset.name, key, state_of(earlier), done, replayed=True)
    require(action, state_of(earlier), key)
    if action == "commit":
        _require_in_time(earlier[0], origin)
    opening = openings(earlier)
    if ran is not None and opening[0].action != "reserve":
        raise InvalidTransition(f"key={key!r} was charged for good: what did not run is given back of a reservation only")
    prices = [_price(declared, action, one, ran, origin.package) for one in opening]
    steps = [Step(action, key, one.period, due, label, ran, opening=one) for one, due in zip(opening, prices, strict=True)]
    written = append(connection, declared, steps, origin)
    if action == "void" or ran is not None:
        give_back(connection, declared, opening, written[0])
    return Receipt(declared.dataset.name, key, state_of(written), tuple(written), replayed=False)


def _require_in_time(opening: Entry, origin: Origin) -> None:
    if opening.expires is not None and origin.at >= opening.expires:
        raise InvalidTransition(
            f"key={opening.key!r} was reserved until {opening.expires} and not committed by then: read no data, reserve again"
        )


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
