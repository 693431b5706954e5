"""What a caller asks to be charged, checked before the store is opened."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from accounting.curves import Curve
from accounting.ledger.errors import InvalidEntry, KeyConflict
from accounting.ledger.item import Chargeable, Item, Terms, read_item, require_known
from accounting.ledger.stored_text import checked_name, optional_name, optional_text
from accounting.relation import Relation

_LONGEST_WAIT = 366 * 86_400.0

Opening = Literal["charge", "reserve"]
Reader = Callable[[Curve | Chargeable, int, Relation | None], Item]


@dataclass(frozen=True)
class Request:
    """What a caller asks to be charged; everything in it is checked already, apart from the relation."""

    dataset: str
    item: Item
    action: Opening
    key: str
    label: str | None
    fingerprint: str | None
    salt: str | None
    team: str | None
    purpose: str | None
    expires: str | None = None


def read_request(action: Opening, dataset: str, item: Curve | Chargeable, terms: Terms, read: Reader = read_item) -> Request:
    """What is asked, checked as far as that goes without the dataset: its periods and relation are not.

    Raises:
        InvalidArgument, InvalidEntry, RelationMismatch: a keyword is unknown, or a value is none that can be charged.
    """
    require_known(terms, Terms)
    key = terms.get("key")
    return Request(
        dataset=checked_name("dataset", dataset),
        item=read(item, terms.get("count", 1), terms.get("relation")),
        action=action,
        key=new_key() if key is None else checked_name("key", key),
        label=optional_text("label", terms.get("label")),
        fingerprint=optional_text("fingerprint", terms.get("fingerprint")),
        salt=optional_text("salt", terms.get("salt")),
        team=optional_name("team", terms.get("team")),
        purpose=optional_name("purpose", terms.get("purpose")),
    )


def until(request: Request, seconds: float | None, now: datetime) -> Request:
    """The same as a reservation that lapses so many seconds from now; None for one that does not.

    Raises:
        InvalidEntry: the time is not above 0 and at most a year.
    """
    if seconds is None:
        return request
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_WAIT:
        raise InvalidEntry(f"expires_in={seconds!r} must be seconds above 0, at most {_LONGEST_WAIT:.0f} (a year)")
    end = now.astimezone(UTC) + timedelta(seconds=seconds)
    return replace(request, expires=end.isoformat(timespec="microseconds"))


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
