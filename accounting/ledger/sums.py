"""Running sums of what was charged, by curve and by label: what reports show without reading every entry, derived by `verify`."""

from __future__ import annotations

import re
import secrets
from collections import defaultdict
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from operator import mul
from typing import Any, Literal, NamedTuple, Self

from sqlalchemy import Connection, Row, bindparam, select

from accounting.ledger import canonical
from accounting.ledger.errors import LedgerCorrupt
from accounting.ledger.model import Entry
from accounting.ledger.rows import Declared, entries_after, put
from accounting.ledger.states import Openings
from accounting.ledger.tables import sums

_BLOCK = 2_000
_DIGITS = 36  # text of equal length is in order of size, and an amount is below the prime
NO_RUNS = "0" * _DIGITS
_FIELD = 2**127 - 1  # a prime
_AMOUNT = re.compile(rf"\d{{{_DIGITS}}}|-\d{{{_DIGITS - 1}}}", re.ASCII)
_AT = select(sums).where(
    sums.c.dataset_id == bindparam("mine"),
    sums.c.kind.in_(("curve", "label")),
    sums.c.digest.in_(bindparam("wanted", expanding=True)),
)


class Place(NamedTuple):
    """Whose sum: a curve's within a period, or a label's over all of them."""

    kind: Literal["curve", "label"]
    period: str
    content: str | None


class Amounts(NamedTuple):
    """Runs, and prices in the units of `Entry`."""

    runs: int = 0
    main: int = 0
    failure: int = 0

    def plus(self, runs: int, main: int, failure: int) -> Amounts:
        """The sum."""
        return Amounts(self.runs + runs, self.main + main, self.failure + failure)


Counted = tuple[str, str | None, str | None]


def _counted(entry: Entry, opening: Entry) -> tuple[Counted, Amounts]:
    """Period, curve and label to which an entry adds, and what.

    A void takes back what `opening` added. What a release gives back lowers the cost, and not the runs: as a plan that is fixed
    in advance all of it was charged.
    """
    runs = {"void": -opening.count, "release": 0}.get(entry.action, opening.count)
    return (entry.period, opening.curve, opening.label), Amounts(runs, entry.main, entry.failure)


def _places(period: str, curve: str | None, label: str | None) -> tuple[Place, Place]:
    return Place("curve", period, curve), Place("label", "", label)


class Sums:
    """Changes to the sums of one dataset, which is locked: gathered, then written at once."""

    def __init__(self) -> None:
        self._changes: dict[Counted, Amounts] = defaultdict(Amounts)

    def add(self, entry: Entry, opening: Entry | None) -> None:
        """Note an entry, with the one that opened what it opens or takes back; None for a step that does neither."""
        if opening is not None:
            to, amounts = _counted(entry, opening)
            self._changes[to] = self._changes[to].plus(*amounts)

    def write(self, connection: Connection, dataset_id: int) -> None:
        """Add what was noted to what is stored."""
        changes: dict[Place, Amounts] = defaultdict(Amounts)
        for to, amounts in self._changes.items():
            for place in _places(*to):
                changes[place] = changes[place].plus(*amounts)
        self._changes.clear()
        for start in range(0, len(changes), _BLOCK):
            part = list(islice(changes, start, start + _BLOCK))
            wanted = connection.execute(_AT, {"mine": dataset_id, "wanted": [_digest(place) for place in part]})
            before = dict(map(read_sum, wanted))
            put(connection, sums, [_row(dataset_id, at, changes[at].plus(*before.get(at, Amounts()))) for at in part])


def _digest(place: Place) -> str:
    return canonical.digest(canonical.dumps([place.period, place.content]))


def _row(dataset_id: int, place: Place, amounts: Amounts) -> dict[str, Any]:
    numbers = {name: f"{value:0{_DIGITS}d}" for name, value in amounts._asdict().items()}
    return {"dataset_id": dataset_id, "digest": _digest(place), **place._asdict(), **numbers}


def read_sum(row: Row[Any]) -> tuple[Place, Amounts]:
    """A row of the sums.

    Raises:
        LedgerCorrupt: it was edited.
    """
    texts = (row.runs, row.main, row.failure)
    place = Place(row.kind, row.period, row.content)
    if not all(isinstance(text, str) and _AMOUNT.fullmatch(text) for text in texts):
        raise LedgerCorrupt("a sum of what was charged is no number: it was edited")
    if not isinstance(place.period, str) or not isinstance(place.content, str | None) or _digest(place) != row.digest:
        raise LedgerCorrupt("a sum of what was charged does not say of what: it was edited")
    return place, Amounts(*map(int, texts))


def rebuild(connection: Connection, declared: Declared) -> None:
    """Make the sums of a dataset that has none from its entries, a block at a time."""
    made, opened, seq = Sums(), Openings(), 0
    while batch := entries_after(connection, declared, seq, declared.seq, _BLOCK):
        for entry in batch:
            made.add(entry, opened.of(entry))
        made.write(connection, declared.id)
        seq = batch[-1].seq


class Check:
    """Two sets of sums in one number each, in constant memory: a linear map with coefficients that nobody knew beforehand.

    Sets that differ have the same number with a probability of at most 2^-120, whoever chose them without the key.
    """

    def __init__(self) -> None:
        key = secrets.token_bytes(32)
        self._due = self._stored = 0

        @lru_cache(maxsize=4096)
        def coefficients(*places: Place) -> tuple[int, ...]:
            hashed = [blake2b(canonical.dumps(place).encode(), key=key, digest_size=60).digest() for place in places]
            return tuple(sum(int.from_bytes(one[at : at + 20]) for one in hashed) % _FIELD for at in (0, 20, 40))

        self._coefficients = coefficients

    def follow(self, entry: Entry, opening: Entry | None) -> None:
        """Count the next entry."""
        if opening is not None:
            to, amounts = _counted(entry, opening)
            self._due = (self._due + sum(map(mul, self._coefficients(*_places(*to)), amounts))) % _FIELD

    @property
    def differs(self) -> bool:
        """Whether what is stored is not what the entries make."""
        return self._due != self._stored

    @classmethod
    def of(cls, connection: Connection, dataset_id: int) -> Self:
        """What is stored for a dataset, before its entries are followed.

        Raises:
            LedgerCorrupt: it cannot be read.
        """
        check, query = cls(), select(sums).where(sums.c.dataset_id == dataset_id)
        # A cursor that an error leaves is closed.
        with connection.execute(query, execution_options={"yield_per": _BLOCK}) as rows:
            for place, amounts in map(read_sum, rows):
                check._stored = (check._stored + sum(map(mul, check._coefficients(place), amounts))) % _FIELD
        return check
