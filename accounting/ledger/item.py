"""What is charged, a curve or anything that has one, and what a caller asks: checked before the store is opened."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, Self, TypedDict, get_args

from accounting.arguments import Relation, checked_integer
from accounting.curves import Curve
from accounting.errors import InvalidArgument, NoEquivalent, RelationMismatch
from accounting.group import group_privacy
from accounting.guarantee import read_item as priced
from accounting.ledger.errors import InvalidEntry, KeyConflict
from accounting.ledger.stored_text import (
    LONGEST_JSON,
    checked_name,
    checked_text,
    checked_zone,
    read_json,
)
from accounting.remaining import MOST_RUNS

TWICE = "two_changes"  # how an entry states that its curve is that of two changes
_LONGEST_WAIT = 366 * 86_400.0

Opening = Literal["charge", "reserve"]
Across = Literal["whole_counts"]


class Chargeable(Protocol):
    """A mechanism: a curve, the relation it holds for, and JSON that describes it.

    The description is provenance and may grow with the version; a text under "binding" in it is part of what is charged. An
    attribute `rests_on_linf` that is True declares that the curve holds for any scores that move by at most linf each, all in one
    direction, however many of them move: what `Terms.across` "whole_counts" needs. An attribute `unit` names the unit of privacy
    that the curve is about where that is not the dataset's own for certain: "record", or "teacher" for all that one teacher of a
    PATE ensemble holds.
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
        period: whose rows are read, where the dataset has a window; several are charged each, for what `across` says.
        across: of a charge that reads several periods under add_remove, why its curve covers a user whose rows of one period come
            or go while the others stay (Theorem F11). "whole_counts": every user was counted in full, and the curve rests on linf
            alone. None, where that is not known: it is charged as two changes (group privacy). An item that was proved for
            replace_one is charged at its own price.
        time_zone: whose days and months the periods are, "UTC" by default; it must be the dataset's.
        label: what for, in words.
        actor: on whose behalf; by default the operating system's user.
        fingerprint: of the rows; rows once charged to one dataset and period are refused under others. Not a plain hash of
            private data, which confirms guesses, but a snapshot's name or a keyed hash.
        salt: of the contribution bounding, as provenance. Never a seed of noise.
        team, purpose: whose work it is and what for, where quotas count by that (`Quota`).
        override: why a release may cost more than the dataset's `most_per_release`; recorded.
    """

    count: int
    relation: Relation | None
    key: str | None
    period: str | Iterable[str] | None
    across: Across | None
    time_zone: str | None
    label: str | None
    actor: str | None
    fingerprint: str | None
    salt: str | None
    team: str | None
    purpose: str | None
    override: str | None


def require_known(given: Iterable[str], known: type) -> None:
    """Refuse a keyword that the TypedDict `known` does not list: a mistyped `period` or `count` would be charged wrongly."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            raise InvalidArgument(f"unknown keyword {name}: expected one of {', '.join(names)}")


@dataclass(frozen=True)
class Item:
    """A curve, how often it runs, and the description of the mechanism that it came from, if any.

    `rests_on_linf` and `unit` are what the mechanism declares (`Chargeable`), `across` why the curve covers several periods,
    where it does.
    """

    curve: Curve
    count: int
    relation: Relation | None
    curve_json: str
    mechanism_json: str | None
    rests_on_linf: bool = False
    across: str | None = None
    unit: str | None = None

    def require_unit(self, unit: str, relation: Relation) -> None:
        """Raise RelationMismatch unless the price covers the unit of privacy that a dataset of this relation protects.

        One teacher holds many records, and its joining costs less than a change of one of them. Where teachers come and go,
        their number is private, which the price of a changed record takes to be public.
        """
        of_teachers = unit.split()[:1] == ["teacher"]
        if self.unit == "teacher" and not of_teachers:
            raise RelationMismatch(
                f"the price is that of a whole teacher (unit='teacher'), and the dataset protects each {unit}: a changed record "
                "changes a teacher's ballot, which costs more. Configure the mechanism with unit='record'"
            )
        if self.unit == "record" and of_teachers and relation == "add_remove":
            raise RelationMismatch(
                f"the price is that of a changed record (unit='record') with a public number of teachers, and the dataset "
                f"protects each {unit} that comes or goes: charge it to a dataset of records"
            )

    def over(self, periods: tuple[str, ...], relation: Relation, across: Across | None) -> Item:
        """What is charged where these periods of a dataset with this relation are read together. Theorem F11.

        Raises:
            InvalidEntry: "whole_counts" is claimed for a curve that does not declare to rest on linf alone.
            NoEquivalent: nothing is known of two changes; state why the curve covers them, or charge each period by itself.
        """
        if len(periods) == 1 or relation != "add_remove":
            return self
        if self.relation == "replace_one":
            return replace(self, relation=relation, across="exchange")
        if across == "whole_counts" and not self.rests_on_linf:
            raise InvalidEntry(
                "across='whole_counts' needs a mechanism whose price rests on linf alone (no l0, l1 or l2, no users bounded), "
                "which this item does not declare: charge each period by itself, use relation='replace_one', or leave across out "
                "and pay for two changes"
            )
        if across is not None:
            return replace(self, across=across)
        try:  # an exchange, taken as two changes: some rows go, others come
            curve = group_privacy(self.curve, 2)
        except NoEquivalent as error:
            raise NoEquivalent(
                f"several periods are read together, which is charged as two changes: {error}. Charge each period by itself, or "
                "use a mechanism with relation='replace_one'"
            ) from None
        return replace(self, curve=curve, curve_json=_short("curve", curve.to_json()), across=TWICE)


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
    alone = getattr(item, "rests_on_linf", False) is True
    return Item(curve, runs, stated, _short("curve", curve.to_json()), mechanism, alone, unit=getattr(item, "unit", None))


def _short(field: str, text: str) -> str:
    return checked_text(f"the {field}'s JSON", text, LONGEST_JSON)


# How each text of the terms is checked.
_TEXTS = {
    **dict.fromkeys(("key", "actor", "team", "purpose", "override"), checked_name),
    **dict.fromkeys(("label", "fingerprint", "salt"), checked_text),
}


def texts_of(terms: Terms) -> dict[str, str | None]:
    """The texts that a caller states, checked; InvalidArgument if a keyword is none of `Terms`."""
    require_known(terms, Terms)
    return {name: None if (text := terms.get(name)) is None else check(name, text) for name, check in _TEXTS.items()}


@dataclass(frozen=True)
class Request:
    """What a caller asks to be charged; everything in it is checked already, apart from the relation and the period.

    `said` is what its entries repeat as it stands: label, fingerprint, salt, team, purpose, override and expires.
    """

    item: Item
    action: Opening
    key: str
    actor: str | None
    period: str | Iterable[str] | None
    across: Across | None
    time_zone: str
    said: dict[str, str | None]

    @classmethod
    def read_all(
        cls, action: Opening, charges: Iterable[tuple[Curve | Chargeable, Terms]], expires_in: float | None, now: datetime
    ) -> list[Self]:
        """What is asked, checked as far as that goes without the dataset; reservations lapse `expires_in` seconds after `now`."""
        expires = _expiry(expires_in, now)
        # What a batch charges many times is read once; each object is kept, so that no other takes its id.
        known: dict[tuple[int, ...], tuple[object, Item]] = {}
        found: dict[str, Self] = {}
        for item, terms in charges:
            texts, period, across = texts_of(terms), terms.get("period"), terms.get("across")
            if across is not None and across not in get_args(Across):
                raise InvalidEntry(f"across={across!r} must be one of {', '.join(get_args(Across))}, or left out")
            asked = item, terms.get("count", 1), terms.get("relation")
            if (place := tuple(map(id, asked))) not in known:
                known[place] = asked, read_item(*asked)
            key = texts.pop("key") or uuid.uuid4().hex
            if key in found:
                raise KeyConflict(
                    f"key={key!r} is given twice in one batch: each charge needs a key of its own. Nothing was charged"
                )
            period = tuple(period) if isinstance(period, Iterator) else period  # it is read anew when a charge is tried again
            found[key] = cls(
                *(known[place][1], action, key, texts.pop("actor"), period, across, checked_zone(terms.get("time_zone"))),
                said=texts | {"expires": expires},
            )
        return list(found.values())


def _expiry(seconds: float | None, now: datetime) -> str | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_WAIT:
        raise InvalidEntry(f"expires_in={seconds!r} must be seconds above 0, at most {_LONGEST_WAIT:.0f} (a year)")
    try:
        return (now.astimezone(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidEntry(f"expires_in={seconds!r} ends after the year 9999: set the host's clock") from None
