"""What is charged, a curve or anything that has one, and what a caller asks: checked before the store is opened."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, TypedDict

from accounting.arguments import checked_integer
from accounting.curves import Curve
from accounting.errors import InvalidArgument
from accounting.guarantee import read_item as priced
from accounting.ledger.errors import InvalidEntry, KeyConflict
from accounting.ledger.stored_text import LONGEST_JSON, checked_name, optional_name, optional_text, read_json
from accounting.relation import Relation

MOST_RUNS = 10**12
_LONGEST_WAIT = 366 * 86_400.0

Opening = Literal["charge", "reserve"]


class Chargeable(Protocol):
    """A mechanism: a curve, the relation it holds for, and JSON that describes it.

    The description is provenance and may grow with the version; a text under "binding" in it is part of what is charged.
    """

    @property
    def curve(self) -> Curve: ...
    @property
    def relation(self) -> Relation: ...
    def to_json(self) -> str: ...


class Terms(TypedDict, total=False):
    """Keywords of `Ledger.charge` and `Ledger.reserve`. Text is stored in clear: no private data in it.

    Attributes:
        count: how many times it runs, 1 by default.
        relation: of a bare curve, which does not know it: required there, and checked against the dataset's. A mechanism, and
            `n * mechanism`, state their own.
        key: idempotency key. A second call with it, the same curve, count and periods charges nothing and gives back the first
            one's receipt, marked `replayed`: it pays for one draw, so do not draw again.
        period: whose rows are read, where the dataset has a window; several are charged each.
        label: what for, in words.
        actor: on whose behalf; by default the operating system's user.
        fingerprint: of the rows; rows once charged to one dataset and period are refused under others. Not a plain hash of
            private data, which confirms guesses, but a snapshot's name or a keyed hash.
        salt: of the contribution bounding, as provenance. Never a seed of noise.
        team, purpose: whose work it is and what for, where quotas count by that (`Quota`).
    """

    count: int
    relation: Relation | None
    key: str | None
    period: str | Iterable[str] | None
    label: str | None
    actor: str | None
    fingerprint: str | None
    salt: str | None
    team: str | None
    purpose: str | None


def require_known(given: Iterable[str], known: type) -> None:
    """Refuse a keyword that the TypedDict `known` does not list: a mistyped `period` or `count` would be charged wrongly."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            raise InvalidArgument(f"{name} is no keyword here: there are {', '.join(names)}")


@dataclass(frozen=True)
class Item:
    """A curve, how often it runs, and the description of the mechanism that it came from, if any."""

    curve: Curve
    count: int
    relation: Relation | None
    curve_json: str
    mechanism_json: str | None

    @property
    def whole(self) -> Curve:
        """The composition of all runs: what is priced, as one item."""
        return self.count * self.curve


def read_item(item: Curve | Chargeable, count: int, relation: Relation | None) -> Item:
    """Check what is to be charged."""
    runs = checked_integer("count", count, "how many times the mechanism runs", most=MOST_RUNS, error=InvalidEntry)
    curve, stated = priced(item, relation)
    if isinstance(item, Curve):
        return Item(curve, runs, stated, _short("curve", curve.to_json()), None)
    if not hasattr(item, "to_json"):
        raise InvalidArgument(f"cannot charge a {type(item).__name__}: pass a Curve, or a mechanism that has one")
    mechanism = _short("mechanism", item.to_json())
    read_json(mechanism)
    return Item(curve, runs, stated, _short("curve", curve.to_json()), mechanism)


def binding_of(mechanism_json: str | None) -> str | None:
    """What a description binds its charge to: one job's draw, say, that no other job may make under the same key."""
    bound = None if mechanism_json is None else read_json(mechanism_json).get("binding")
    return bound if isinstance(bound, str) else None


def _short(field: str, text: str) -> str:
    if len(text) > LONGEST_JSON:
        raise InvalidEntry(f"the {field}'s JSON has {len(text):,} characters: at most {LONGEST_JSON:,} are stored")
    return text


def new_key() -> str:
    """A key for a charge whose caller has none."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Request:
    """What a caller asks to be charged; everything in it is checked already, apart from the relation and the period."""

    item: Item
    action: Opening
    key: str
    period: str | Iterable[str] | None
    label: str | None
    actor: str | None
    fingerprint: str | None
    salt: str | None
    team: str | None
    purpose: str | None
    expires: str | None


Reader = Callable[[Curve | Chargeable, int, Relation | None], Item]


def read_requests(
    action: Opening, charges: Iterable[tuple[Curve | Chargeable, Terms]], expires_in: float | None, now: datetime
) -> list[Request]:
    """What is asked, checked as far as that goes without the dataset; reservations lapse `expires_in` seconds after `now`."""
    read, expires = _reader(), _expiry(expires_in, now)
    found = [_read_request(action, item, terms, expires, read) for item, terms in charges]
    keys = [request.key for request in found]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise KeyConflict(f"key={twice!r} is given twice in one batch: each charge needs a key of its own. Nothing was charged")
    return found


def _read_request(action: Opening, item: Curve | Chargeable, terms: Terms, expires: str | None, read: Reader) -> Request:
    require_known(terms, Terms)
    key, period = terms.get("key"), terms.get("period")
    return Request(
        item=read(item, terms.get("count", 1), terms.get("relation")),
        action=action,
        key=new_key() if key is None else checked_name("key", key),
        period=tuple(period) if isinstance(period, Iterator) else period,  # it is read anew when a charge is tried again
        label=optional_text("label", terms.get("label")),
        actor=optional_name("actor", terms.get("actor")),
        fingerprint=optional_text("fingerprint", terms.get("fingerprint")),
        salt=optional_text("salt", terms.get("salt")),
        team=optional_name("team", terms.get("team")),
        purpose=optional_name("purpose", terms.get("purpose")),
        expires=expires,
    )


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


def _expiry(seconds: float | None, now: datetime) -> str | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_WAIT:
        raise InvalidEntry(f"expires_in={seconds!r} must be seconds above 0, at most {_LONGEST_WAIT:.0f} (a year)")
    return (now.astimezone(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
