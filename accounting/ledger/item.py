"""What is charged: a curve, or anything that has one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypedDict

from accounting.arguments import whole
from accounting.curves import Curve
from accounting.errors import InvalidArgument
from accounting.guarantee import read_item as priced
from accounting.ledger import canonical
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.stored_text import LONGEST_JSON
from accounting.relation import Relation

MOST_RUNS = 10**12


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
    """Refuse a keyword that nobody reads: a mistyped `period` or `count` would be charged wrongly.

    Raises:
        InvalidArgument: `known`, a TypedDict, does not list it.
    """
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
    """Check what is to be charged.

    Raises:
        InvalidArgument: it has no curve.
        InvalidEntry: the count is not an integer from 1 to 10^12, or the JSON is too long.
        RelationMismatch: the relation stated differs from the mechanism's.
    """
    runs = whole("count", count, "how many times the mechanism runs", most=MOST_RUNS, error=InvalidEntry)
    curve, stated = priced(item, relation)
    if isinstance(item, Curve):
        return Item(curve, runs, stated, _short("curve", curve.to_json()), None)
    if not hasattr(item, "to_json"):
        raise InvalidArgument(f"cannot charge a {type(item).__name__}: pass a Curve, or a mechanism that has one")
    mechanism = _short("mechanism", item.to_json())
    canonical.loads(mechanism)
    return Item(curve, runs, stated, _short("curve", curve.to_json()), mechanism)


def binding_of(mechanism_json: str | None) -> str | None:
    """What a description binds its charge to: one job's draw, say, that no other job may make under the same key."""
    bound = None if mechanism_json is None else canonical.loads(mechanism_json).get("binding")
    return bound if isinstance(bound, str) else None


def _short(field: str, text: str) -> str:
    if len(text) > LONGEST_JSON:
        raise InvalidEntry(f"the {field}'s JSON has {len(text):,} characters: at most {LONGEST_JSON:,} are stored")
    return text
