"""What must hold of a ledger: from entry to entry (`Chain`), in one pass and little memory, and between rows (`cross_checks`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, or_, select

from accounting.budget.budget import NOTHING, Price
from accounting.curves import Curve
from accounting.errors import AccountingError
from accounting.ledger.ddl import datasets, entries, fingerprints
from accounting.ledger.lifecycle import SLACK, Openings, doubt, returned
from accounting.ledger.model import ACTIONS, Dataset, Entry

Kind = (
    Literal["declaration", "sequence", "link", "hash", "action", "price", "total", "overspent", "head"]
    | Literal["state", "rows", "missing", "corrupt", "identity", "signature", "quota"]
)


@dataclass(frozen=True)
class Problem:
    """What does not hold, and where: the dataset, and the entry's number if it is about one."""

    dataset: str
    seq: int | None
    kind: Kind
    message: str


@dataclass
class Chain:
    """A dataset's chain, checked entry by entry. Memory grows with periods and with reservations that are open.

    Attributes:
        seq, head: of the last entry seen.
        spent: the sum of every period, derived anew.
        opening: what opened the charge that the last entry opens, takes back or settles.
    """

    dataset: Dataset
    head: str
    seq: int = 0
    spent: dict[str, Price] = field(default_factory=dict)
    entries: int = 0
    opening: Entry | None = None
    _opened: Openings = field(default_factory=Openings)

    def __post_init__(self) -> None:
        budget = self.dataset.budget
        self._price = lru_cache(maxsize=4096)(lambda curve, count: budget.price(count * Curve.from_json(curve or "")))

    def follow(self, entry: Entry) -> Iterator[Problem]:
        """Check the next entry and step on to it, whatever is wrong with it."""
        self.opening = self._opened.of(entry)
        for kind, message in (*self._place(entry), *self._content(entry)):
            yield Problem(self.dataset.name, entry.seq, kind, message)
        if entry.action != "quota":
            self.spent[entry.period] = entry.spent
        self.seq, self.head = entry.seq, entry.hash
        self.entries += 1

    def _place(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.seq != self.seq + 1:
            yield "sequence", f"entry {self.seq + 1} is missing: a row was removed"
        elif entry.prev != self.head:
            yield "link", "the entry does not follow the one before it: a row was edited, replaced or reordered"
        if entry.dataset != self.dataset.name or entry.expected_hash() != entry.hash:
            yield "hash", "the entry's hash does not match its content: the row was edited"

    def _content(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action not in ACTIONS:
            yield "action", "the entry's action is unknown"
            return
        if (entry.action == "quota") != (entry.quota is not None):
            yield "quota", "the entry declares a quota without being one's declaration, or the other way round"
        if entry.action == "quota":
            if (entry.price, entry.spent) != (NOTHING, NOTHING):
                yield "price", "a quota charges nothing"
            return
        yield from self._charged(entry)
        total = self.spent.get(entry.period, NOTHING).plus(entry.price)
        if total != entry.spent:
            yield "total", "the running total is not the sum of the entries before it"
        if entry.action in ("charge", "reserve") and not self.dataset.budget.fits(NOTHING, entry.spent):
            yield "overspent", "the running total is beyond the budget"

    def _charged(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action == "release" and entry.curve is not None:
            yield from self._settled(entry, self.opening)
        elif entry.action in ("commit", "release") and entry.price != NOTHING:
            yield "price", "a commit or a release charges nothing"
        if entry.action in ("charge", "reserve"):
            yield from self._curve(entry)

    def _settled(self, entry: Entry, opening: Entry | None) -> Iterator[tuple[Kind, str]]:
        if opening is None:
            yield "price", "the release gives back a part of what no reservation set aside"
            return
        limit = self.dataset.budget
        try:
            most = returned(limit, opening, entry.curve, entry.package).main + doubt(limit, entry, opening)
        except AccountingError as error:
            yield "price", f"what the release says was used cannot be priced ({type(error).__name__})"
            return
        if entry.failure != 0 or not -most <= entry.main <= 0:
            yield "price", "the release gives back more than what it says was not used"

    def _curve(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        try:
            due = self._price(entry.curve, entry.count)
        except AccountingError as error:
            yield "price", f"the entry's curve cannot be priced ({type(error).__name__})"
            return
        if _less(entry.main, due.main) or _less(entry.failure, due.failure):
            yield "price", "the entry is charged less than its curve costs"


def _less(charged: int, due: int) -> bool:
    return charged < due - 1 - due // SLACK


_other = entries.alias("other")
_SAME_KEY = and_(_other.c.dataset_id == entries.c.dataset_id, _other.c.key == entries.c.key, _other.c.period == entries.c.period)


def cross_checks() -> Iterator[tuple[Select[Any], Kind, str]]:
    """Each rule between rows: the query that finds what breaks it, as (dataset name, entry number); its kind; what to say."""
    found, action = _found(), entries.c.action
    beyond = found.where(entries.c.seq > datasets.c.seq)
    yield beyond, "head", "the entry lies beyond the head that the dataset states: it was added by hand"
    yield found.where(datasets.c.id.is_(None)), "missing", "the entry belongs to no declared dataset"
    unreserved = and_(action.in_(("commit", "void")), ~_opened("reserve"))
    uncommitted = and_(action == "release", ~_opened("charge", "commit"))
    yield found.where(or_(unreserved, uncommitted)), "state", "the commit, release or void follows no charge that allows it"
    used = exists(select(_other.c.seq).where(_SAME_KEY, _other.c.action.in_(("charge", "commit"))))
    message = "the void follows a commit: data were read, and the charge cannot be taken back"
    yield found.where(action == "void", used), "state", message
    reserved = _found(entries.join(_other, and_(_SAME_KEY, _other.c.action == "reserve")))
    unequal = or_(entries.c.main != -_other.c.main, entries.c.failure != -_other.c.failure)
    yield reserved.where(action == "void", unequal), "price", "the void takes back another amount than was reserved"
    mine = and_(fingerprints.c.fingerprint == entries.c.fingerprint, fingerprints.c.dataset_id == entries.c.dataset_id)
    unclaimed = found.where(entries.c.fingerprint.is_not(None), ~exists(select(fingerprints.c.fingerprint).where(mine)))
    yield unclaimed, "rows", "the entry's fingerprint is not claimed by its dataset: the fingerprints were edited"


def _found(source: FromClause = entries) -> Select[Any]:
    return select(datasets.c.name, entries.c.seq).select_from(source.outerjoin(datasets, datasets.c.id == entries.c.dataset_id))


def _opened(*by: str) -> ColumnElement[bool]:
    return exists(select(_other.c.seq).where(_SAME_KEY, _other.c.action.in_(by), _other.c.seq < entries.c.seq))
