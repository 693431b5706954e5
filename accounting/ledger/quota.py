"""Quotas: limits within a dataset's budget, for a person, a team, a purpose or a stretch of the data's time.

A `Quota`, its `Revision`s, where its accounts stand as the entries say (`AccountReplay`), and all of a dataset (`Quotas`).
A charge passes the quotas in `ledger`, in the same transaction as the budget.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from itertools import chain, groupby
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

from pydantic import AfterValidator, Field, model_validator
from sqlalchemy import Connection, bindparam, literal_column, select

from accounting.budget import NOTHING, Budget, Price
from accounting.errors import AccountingError, InvalidArgument
from accounting.frozen import Frozen
from accounting.ledger.book import Book, Step
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.model import Clock, Dataset, Entry, Openings, Who, doubt, origin, price_in, returned
from accounting.ledger.store import Declared, Held, Store, all_held, blocks, entries, select_entries
from accounting.ledger.stored_text import WHOLE, Window, checked_name, optional_name, period_of
from accounting.price import MOST
from accounting.remaining import Remaining

Scope = Literal["actor", "team", "purpose"]

_WIDTHS: tuple[Window, ...] = ("day", "week", "month", "quarter", "year", "whole")
_MOST_ACCOUNTS = 4_000


@final
class Quota(Frozen):
    """The most that some of a dataset's charges may add up to. It never allows what the dataset's budget does not.

    Every charge of the dataset that falls in its scope counts, those before it was declared included. Each account of it is a
    privacy filter of its own (Theorems F1 to F3), with its own prices; a charge that reads several periods of a window counts
    there once. With a window, `limit` bounds what the releases tell about one unit's rows that lie in it. By actor, team or
    purpose it bounds what the releases in its scope tell *given all others*: where a release outside of it decides which one
    inside is made, what both tell together is bounded by the dataset's budget and by no quota.

    Args:
        name: of the quota within its dataset. Declaring it again replaces it; both stay on record.
        limit: in any form; None withdraws the quota.
        by: whose charges count: those of one actor, team or purpose. None counts everybody's together.
        of: the one actor, team or purpose that is limited; None limits each of them by this much.
        among: with `by` and without `of`, the list of names that each have the limit: a charge by another name is refused.
        window: of the data's time, at least as wide as the dataset's: each period of it has the limit. "whole" is all rows.
        rolling: in place of a window, this many consecutive periods of the dataset's window: every such stretch has the limit.

    Raises:
        InvalidEntry: a name is not valid, `of` is given without `by`, or both a window and `rolling`.

    Example:
        >>> import accounting as acc
        >>> quota = acc.ledger.Quota(name="any 30 days", limit=acc.Budget(epsilon=1.0), rolling=30)
        >>> quota.in_words
        'in every 30 consecutive periods'
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    name: Annotated[str, AfterValidator(partial(optional_name, "name"))]
    limit: Budget | None
    by: Scope | None = None
    of: Annotated[str | None, AfterValidator(partial(optional_name, "name"))] = None
    among: tuple[Annotated[str, AfterValidator(partial(checked_name, "name"))], ...] = ()
    window: Window = "whole"
    rolling: Annotated[int, Field(ge=2, le=400)] | None = None

    @model_validator(mode="after")
    def _has_one_scope(self) -> Self:
        if self.of is not None and self.by is None:
            raise ValueError("of names an actor, a team or a purpose: say which with by")
        if self.among and (self.by is None or self.of is not None):
            raise ValueError("among lists actors, teams or purposes that each have the limit: say which with by, without of")
        if self.rolling is not None and self.window != "whole":
            raise ValueError("give either a window or rolling, not both: two limits are two quotas")
        return self

    @property
    def in_words(self) -> str:
        """Its scope, in words."""
        whose = "" if self.by is None else f"for {self.by} {self.of}" if self.of is not None else f"for each {self.by}"
        whose += f" of {', '.join(self.among)}" if self.among else ""
        if self.rolling is not None:
            return f"{whose} in every {self.rolling} consecutive periods".strip()
        when = "over all rows" if self.window == "whole" else f"in each {self.window}'s rows"
        return f"{whose} {when}".strip()

    def require_for(self, window: Window) -> None:
        """Check that a dataset with this window can be limited so.

        Raises:
            InvalidEntry: the quota's periods are not made up of the dataset's.
        """
        if window == "whole" and (self.rolling is not None or self.window != "whole"):
            raise InvalidEntry("charges of this dataset name no periods, so no quota counts by them: declare one with a window")
        if _WIDTHS.index(self.window) < _WIDTHS.index(window):
            raise InvalidEntry(f"window={self.window!r} is narrower than the dataset's, {window!r}: charges do not say enough")
        if window == "week" and self.window not in ("week", "whole"):
            raise InvalidEntry(
                f"window={self.window!r} is not made up of weeks: a week at its border lies in two, and a charge that reads it "
                "reads rows inside and outside. Declare the dataset by day, or the quota with rolling"
            )

    def lists(self, who: Who) -> bool:
        """Whether the one a charge is made for is on the quota's list, if it has one."""
        return not self.among or getattr(who, str(self.by)) in self.among

    def accounts(self, window: Window, who: Who, periods: Iterable[str]) -> list[str]:
        """The accounts that a charge counts to, in order; none if it is not limited here.

        Raises:
            InvalidEntry: it counts to more accounts than there should be.
        """
        self.require_for(window)
        name = WHOLE if self.by is None else getattr(who, self.by)
        if (self.of is not None and name != self.of) or not self.lists(who):
            return []
        found = {place for period in periods for place in self._places(window, period)}
        if len(found) > _MOST_ACCOUNTS:
            raise InvalidEntry(f"the charge counts to {len(found):,} accounts of quota={self.name!r}: name fewer periods at once")
        return [json.dumps([name, place]) for place in sorted(found)]

    def _places(self, window: Window, period: str) -> Iterable[str]:
        if self.rolling is not None:
            last = _ordinal(window, period)
            return [_period_at(window, first) for first in range(max(1, last - self.rolling + 1), last + 1)]
        if self.window == "whole":
            return (WHOLE,)
        # All of a period lies in one that is wider: `require_for` lets no week be cut.
        return (period if self.window == window else period_of(self.window, _first_day(window, _ordinal(window, period))),)

    def account_in_words(self, account: str) -> str:
        """An account, as people read it."""
        name, place = json.loads(account)
        if self.rolling is not None:
            place = f"{self.rolling} periods from {place}"
        shown = [] if self.by is None else [name if name is not None else f"no {self.by}"]
        return ", ".join([*shown, *([place] if place else [])]) or "all rows"


_PER_YEAR = {"month": 12, "quarter": 4, "year": 1}


def _ordinal(window: Window, period: str) -> int:
    """The period's number among all of its window: consecutive periods have consecutive numbers."""
    year, rest = int(period[:4]), period[5:]
    if window == "day":
        return date.fromisoformat(period).toordinal()
    if window == "week":
        return date.fromisocalendar(year, int(rest[1:]), 1).toordinal() // 7 + 1
    return year * _PER_YEAR[window] + (int(rest.removeprefix("Q")) - 1 if rest else 0)


def _period_at(window: Window, number: int) -> str:
    """The period of this number."""
    if window in ("day", "week"):
        return period_of(window, _first_day(window, number))
    year, rest = divmod(number, _PER_YEAR[window])
    return f"{year:04d}" + {"month": f"-{rest + 1:02d}", "quarter": f"-Q{rest + 1}", "year": ""}[window]


def _first_day(window: Window, number: int) -> date:
    if window in ("day", "week"):
        return date.fromordinal(number if window == "day" else number * 7 - 6)
    year, month = divmod(number * 12 // _PER_YEAR[window], 12)
    return date(year, month + 1, 1)


# Written out, as in the index of the quotas: SQLite takes that for no parameter.
_IS_QUOTA = entries.c.action == literal_column("'quota'")
_DECLARED = select(entries.c.seq, entries.c.quota).where(entries.c.dataset_id == bindparam("mine"), _IS_QUOTA)


class Revision(NamedTuple):
    """A quota as entry `seq` declares it, in force until the entry that replaces it."""

    seq: int
    quota: Quota
    until: int | None = None

    @classmethod
    def all(cls, connection: Connection, dataset_id: int) -> list[Self]:
        """Every quota that was ever declared, in order; InvalidEntry if one was edited and cannot be read."""
        found: list[Self] = []
        latest: dict[str, int] = {}
        for seq, text in sorted(tuple(row) for row in connection.execute(_DECLARED, {"mine": dataset_id})):
            quota = _read_quota(text)
            if quota.name in latest:
                before = latest[quota.name]
                found[before] = found[before]._replace(until=seq)
            latest[quota.name] = len(found)
            found.append(cls(seq, quota))
        return found

    @classmethod
    def in_force(cls, connection: Connection, dataset_id: int) -> list[tuple[Self, Budget]]:
        """Those that limit a charge now, and their limits. Raises as `all`."""
        known = cls.all(connection, dataset_id)
        return [(one, one.quota.limit) for one in known if one.until is None and one.quota.limit is not None]


@lru_cache(maxsize=256)
def _read_quota(text: str | None) -> Quota:
    try:
        return Quota.model_validate_json(text or "")
    except AccountingError:
        raise InvalidEntry("a quota cannot be read: it was edited") from None


@dataclass
class _Account:
    spent: Price = NOTHING
    doubt: int = 0

    @property
    def least(self) -> Price:
        """What it may have stood at on another machine."""
        return Price(*(max(0, part - self.doubt) for part in self.spent))


@dataclass
class AccountReplay:
    """The accounts of all revisions, derived anew from a dataset's entries in order.

    Memory grows with the accounts, not with the entries.
    """

    dataset: Dataset
    revisions: list[Revision]
    accounts: dict[tuple[int, str], _Account] = field(default_factory=lambda: defaultdict(_Account))
    _step: tuple[str, str] = ("", "")
    _touched: set[tuple[int, str]] = field(default_factory=set)

    @classmethod
    def of(cls, connection: Connection, declared: Declared, wanted: list[Revision]) -> Self:
        """What the entries make of these revisions; InvalidEntry if one cannot be counted to one of them, or was beyond it."""
        book, opened = cls(declared.dataset, wanted), Openings()
        for entry in chain.from_iterable(blocks(connection, declared)) if wanted else ():
            for problem in book.follow(entry, opened.of(entry)):
                raise InvalidEntry(f"dataset={declared.dataset.name!r}, entry {entry.seq}: {problem}")
        return book

    def follow(self, entry: Entry, opening: Entry | None) -> Iterator[str]:
        """Count the next entry, with the one that opened what it opens or takes back; what does not hold, in words."""
        if opening is None or not self.revisions:
            return
        if (entry.key, entry.action) != self._step:  # a charge of several periods is several entries, and counts once
            self._step, self._touched = (entry.key, entry.action), set()
        for revision in self.revisions:
            if revision.until is None or entry.seq < revision.until:
                yield from self._count(revision, entry, opening)

    def _count(self, revision: Revision, entry: Entry, first: Entry) -> Iterator[str]:
        quota, limit = revision.quota, revision.quota.limit
        if limit is None:
            return
        if entry.opens and entry.seq > revision.seq and not quota.lists(first.who):
            yield f"the charge is by somebody whom quota={quota.name!r} does not list"
        try:
            new = [(revision.seq, one) for one in quota.accounts(self.dataset.window, first.who, [entry.period])]
            if not new:
                return  # the quota is not this charge's, and its budget need not be able to pay for it
            if entry.action in ("void", "release"):
                price = returned(limit, first, entry.curve, entry).times(-1)
            else:
                price = price_in(limit, first.curve or "", first.count)
            unsure = doubt(limit, entry, first)
        except (AccountingError, ValueError) as error:  # a period that is none, in an entry that was edited
            yield f"the charge cannot be counted to quota={quota.name!r} ({type(error).__name__})"
            return
        for place in set(new) - self._touched:
            account = self.accounts[place]
            account.spent, account.doubt = account.spent.plus(price), account.doubt + unsure
            if entry.opens and entry.seq > revision.seq and not limit.fits(NOTHING, account.least):
                yield f"the charge is beyond quota={quota.name!r}, {quota.account_in_words(place[1])}"
        self._touched |= set(new)

    def held(self) -> list[Held]:
        """The accounts as they stand."""
        return [Held(seq, name, account.spent) for (seq, name), account in self.accounts.items()]

    def differs(self, stored: Iterable[Held]) -> bool:
        """Whether what the store holds is something else, beyond what machines may differ by."""
        given = {(one.seq, one.account): one.spent for one in stored}
        return given.keys() != self.accounts.keys() or any(
            abs(have - due) > account.doubt
            for place, account in self.accounts.items()
            for have, due in zip(given[place], account.spent, strict=True)
        )


@dataclass(frozen=True)
class Standing:
    """One account of a quota: whose or which rows', in words, and what it has been charged.

    `spent` is in the unit of the quota's own limit, whose `remaining` and `capacity` it is held against.
    """

    quota: Quota
    account: str
    spent: Price

    @property
    def limit(self) -> Budget:
        """What the account may spend; a withdrawn quota has no such statement."""
        assert self.quota.limit is not None
        return self.quota.limit

    @property
    def remaining(self) -> Remaining:
        """Where the limit stands."""
        return Remaining(self.limit, self.spent, account=f"quota {self.quota.name} ({self.account})")


@final
class Quotas:
    """The quotas of one dataset. `Ledger.quotas` makes one.

    Example:
        >>> import accounting as acc
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> quotas = ledger.quotas("visits")
        >>> _ = quotas.declare(acc.ledger.Quota(name="interns", limit=acc.Budget(epsilon=0.2), by="team", of="interns"))
        >>> curve = acc.PureDP(epsilon=0.2)
        >>> _ = ledger.charge("visits", curve, relation="add_remove", team="interns")
        >>> [(one.account, one.remaining.main) for one in quotas.standing()]
        [('interns', 0.0)]
    """

    def __init__(self, store: Store, clock: Clock, dataset: str) -> None:
        self._store, self._clock, self._dataset = store, clock, checked_name("dataset", dataset)

    def declare(self, quota: Quota, *, actor: str | None = None) -> Entry:
        """Declare a quota, or put another in the place of one of that name; what was charged before counts.

        Reads all entries of the dataset while charges on it wait. The same quota again changes nothing.

        Raises:
            InvalidArgument: it is not a Quota.
            InvalidEntry: it does not fit the dataset's window, or a charge that was made cannot be counted in its unit.
        """
        if not isinstance(quota, Quota):
            raise InvalidArgument(f"quota must be an accounting.ledger.Quota, not {type(quota).__name__}")
        by = origin(actor, self._clock)
        with self._store.writer_on(self._dataset) as (connection, declared):
            quota.require_for(declared.dataset.window)
            present = _latest(connection, declared).get(quota.name)
            if present is not None and present.quota == quota:
                return select_entries(connection, declared, entries.c.seq == present.seq)[0]
            seq = declared.seq + 1
            replay = AccountReplay.of(connection, declared, [] if quota.limit is None else [Revision(seq, quota)])
            held = replay.held()
            if any(part > MOST for one in held for part in one.spent):
                raise InvalidEntry(f"quota={quota.name!r}: what was charged so far is more than this limit's unit counts")
            step = Step("quota", f"{quota.name}#{seq}", "", NOTHING, None, quota=quota.model_dump_json())
            book = Book(connection, declared)
            (entry,) = book.append([step], by)
            book.hold(held)
            book.close()
        return entry

    def withdraw(self, name: str, *, actor: str | None = None) -> Entry:
        """Take a quota away, on record. The dataset's budget stays what it is.

        Raises:
            InvalidEntry: it has no such quota.
        """
        known = {quota.name: quota for quota in self.all()}
        if name not in known:
            raise InvalidEntry(f"quota={name!r} is not declared for dataset={self._dataset!r}: there is nothing to withdraw")
        return self.declare(known[name].model_copy(update={"limit": None}), actor=actor)

    def all(self) -> list[Quota]:
        """Those in force, in the order in which their names were declared first."""
        with self._store.reader_on(self._dataset) as (connection, declared):
            found = _latest(connection, declared)
        return [one.quota for one in found.values() if one.quota.limit is not None]

    def standing(self, most: int | None = None) -> list[Standing]:
        """Every account of the quotas in force that was charged; with `most`, each quota's fullest ones only."""
        with self._store.reader_on(self._dataset) as (connection, declared):
            known = {one.seq: one for one in _latest(connection, declared).values()}
            held = sorted(one for one in all_held(connection, declared.id) if one.seq in known)
        found: list[Standing] = []
        for seq, accounts in groupby(held, lambda one: one.seq):
            fullest = sorted(accounts, key=lambda one: one.spent, reverse=True)[:most]
            quota = known[seq].quota
            found += [Standing(quota, quota.account_in_words(one.account), one.spent) for one in sorted(fullest)]
        return found


def _latest(connection: Connection, declared: Declared) -> dict[str, Revision]:
    return {one.quota.name: one for one in Revision.all(connection, declared.id)}
