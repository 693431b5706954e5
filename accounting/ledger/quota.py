"""Quotas: limits within a dataset's budget, for a person, a team, a purpose or a span of time.

A `Quota` has `Revision`s, and `Accounts` derives the sums of its accounts from the entries. A
charge is checked against quotas in `book`, in the same transaction as the budget.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, final

from pydantic import BeforeValidator, Field, model_validator
from sqlalchemy import Connection, bindparam, literal_column, select

from accounting.budget import RECORDED, Budget
from accounting.cost import NOTHING, Cost
from accounting.errors import AccountingError
from accounting.frozen import Frozen
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.model import Dataset, Entry, cost_in, refund, rounding_tolerance
from accounting.ledger.store import Declared, check_types, entries, stream
from accounting.ledger.stored_text import (
    WHOLE,
    Window,
    check_name,
    first_day,
    period_of,
    periods_ending_at,
)

Scope = Literal["actor", "team", "purpose"]
Place = tuple[int, str]
"""Place of an account: the entry that declares its quota, and its name."""

_Name = Annotated[str, BeforeValidator(partial(check_name, "name"))]
_WIDTHS: tuple[Window, ...] = ("day", "week", "month", "quarter", "year", "whole")
_MOST_ACCOUNTS = 4_000


@final
class Quota(Frozen):
    """A limit on the sum of some of a dataset's charges, within the dataset's budget.

    Every charge of the dataset in the quota's scope counts, including charges before the
    declaration. Each account of a quota is a privacy filter of its own (Theorems F1 to F3), with
    its own costs. A charge that reads several periods of a window counts there once. With a
    window, `limit` bounds the privacy cost of the releases for one unit's rows within it. By actor,
    team or purpose, it bounds the cost of the releases in its scope *given all others*. If a
    release outside of it decides which one inside is made, their joint cost is bounded by the
    dataset's budget and by no quota.

    Args:
        name: name of the quota within its dataset. Declaring it again replaces it; both stay on
            record.
        limit: a budget in any form; None withdraws the quota.
        by: "actor", "team" or "purpose", to count charges by it; None counts all together.
        of: the one actor, team or purpose that is limited; None limits each of them by this much.
        among: with `by` and without `of`, the list of names that each have the limit. A charge by
            another name is refused.
        window: window of the data's time, at least as wide as the dataset's; each period of it has
            the limit. "whole" is all rows.
        rolling: instead of a window, a number of consecutive periods of the dataset's window. Every
            such span has the limit.

    Raises:
        InvalidEntry: a name is not valid, `of` is given without `by`, or both a window and
            `rolling`.

    Example:
        >>> import accounting as acc
        >>> quota = acc.ledger.Quota(name="any 30 days", limit=acc.Budget(epsilon=1.0), rolling=30)
        >>> quota.in_words
        'in every 30 consecutive periods'
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    name: _Name
    limit: Budget | None
    by: Scope | None = None
    of: _Name | None = None
    among: tuple[_Name, ...] = ()
    window: Window = "whole"
    rolling: Annotated[int, Field(ge=2, le=400)] | None = None

    @model_validator(mode="after")
    def _has_one_scope(self) -> Self:
        if self.of is not None and self.by is None:
            raise ValueError(
                "of is given without by. State by, which is 'actor', 'team' or 'purpose'"
            )
        if self.among and (self.by is None or self.of is not None):
            raise ValueError(
                "among needs by ('actor', 'team' or 'purpose') and excludes of. State by, and"
                " leave of out"
            )
        if self.rolling is not None and self.window != "whole":
            raise ValueError(
                "window and rolling cannot be given together. Declare two quotas for two limits"
            )
        return self

    @property
    def in_words(self) -> str:
        """The scope of the quota, in words."""
        whose = (
            ""
            if self.by is None
            else f"for {self.by} {self.of}"
            if self.of is not None
            else f"for each {self.by}"
        )
        whose += f" of {', '.join(self.among)}" if self.among else ""
        if self.rolling is not None:
            return f"{whose} in every {self.rolling} consecutive periods".strip()
        when = "over all rows" if self.window == "whole" else f"in each {self.window}'s rows"
        return f"{whose} {when}".strip()

    def require_for(self, window: Window) -> None:
        """Check that a dataset with this window can have this quota.

        Raises:
            InvalidEntry: the quota's periods are not made up of the dataset's.
        """
        if window == "whole" and (self.rolling is not None or self.window != "whole"):
            raise InvalidEntry(
                "charges of this dataset name no periods, so no quota can count by them."
                " Declare a dataset with a window"
            )
        if _WIDTHS.index(self.window) < _WIDTHS.index(window):
            raise InvalidEntry(
                f"window={self.window!r} is narrower than the dataset's, {window!r}, and"
                " charges do not state days or weeks that precisely"
            )
        if window == "week" and self.window not in ("week", "whole"):
            raise InvalidEntry(
                f"window={self.window!r} is not made up of weeks, because a week at its border"
                " lies in two of them. Declare the dataset by day, or the quota with rolling"
            )

    def lists(self, scope: Mapping[str, Any]) -> bool:
        """Return True if the quota has no list, or the charge's name is on it.

        `who` are the fields of the charge's entry.
        """
        return not self.among or scope[str(self.by)] in self.among

    def accounts(
        self, window: Window, scope: Mapping[str, Any], periods: Iterable[str]
    ) -> list[str]:
        """Return the accounts that a charge counts to, in order; none if it is out of scope.

        Raises:
            InvalidEntry: the charge counts to too many accounts.
        """
        self.require_for(window)
        name = WHOLE if self.by is None else scope[self.by]
        if (self.of is not None and name != self.of) or not self.lists(scope):
            return []
        places = {place for period in periods for place in self._places(window, period)}
        if len(places) > _MOST_ACCOUNTS:
            raise InvalidEntry(
                f"the charge counts to {len(places):,} accounts of quota={self.name!r}. Name"
                " fewer periods at once"
            )
        return [json.dumps([name, place]) for place in sorted(places)]

    def _places(self, window: Window, period: str) -> Iterable[str]:
        if self.rolling is not None:
            # where each stretch begins that the period lies in
            return periods_ending_at(window, period, self.rolling)
        # All of a period lies in one that is wider: `require_for` lets no week be cut.
        return (
            WHOLE if self.window == "whole" else period_of(self.window, first_day(window, period)),
        )

    def account_in_words(self, account: str) -> str:
        """Return the name of an account as people read it."""
        name, place = json.loads(account)
        if self.rolling is not None:
            place = f"{self.rolling} periods from {place}"
        words = [] if self.by is None else [name if name is not None else f"no {self.by}"]
        return ", ".join([*words, *([place] if place else [])]) or "all rows"


# Written out, as in the index of the quotas: SQLite takes that for no parameter.
_IS_QUOTA = entries.c.action == literal_column("'quota'")
_DECLARED = select(entries.c.seq, entries.c.quota).where(
    entries.c.dataset_id == bindparam("mine"), _IS_QUOTA
)


class Revision(NamedTuple):
    """A quota as entry `seq` declares it, in force until the entry that replaces it."""

    seq: int
    quota: Quota
    until: int | None = None

    @property
    def limit(self) -> Budget:
        """The limit of a quota that is not withdrawn."""
        assert self.quota.limit is not None
        return self.quota.limit


def revisions(connection: Connection, dataset_id: int) -> list[Revision]:
    """Return every quota that was ever declared, in order.

    Raises:
        InvalidEntry, LedgerCorrupt: a quota was edited and cannot be read.
    """
    history: list[Revision] = []
    latest: dict[str, int] = {}
    rows = connection.execute(_DECLARED, {"mine": dataset_id}).mappings()
    for seq, text in sorted(tuple(check_types(dict(row)).values()) for row in rows):
        quota = _read_quota(text)
        if (before := latest.get(quota.name)) is not None:
            history[before] = history[before]._replace(until=seq)
        latest[quota.name] = len(history)
        history.append(Revision(seq, quota))
    return history


def active_revisions(connection: Connection, dataset_id: int) -> list[Revision]:
    """Return the quotas that limit a charge now.

    Raises:
        InvalidEntry: a quota was edited and cannot be read.
    """
    return [
        revision
        for revision in revisions(connection, dataset_id)
        if revision.until is None and revision.quota.limit is not None
    ]


@lru_cache(maxsize=256)
def _read_quota(text: str | None) -> Quota:
    try:
        return Quota.model_validate_json(text or "", context=RECORDED)
    except AccountingError:
        raise InvalidEntry("a quota cannot be read, so it was edited") from None


class Accounts:
    """The accounts of quotas, derived anew from a dataset's entries in order.

    Memory grows with the accounts and the reservations that are open, not with the entries.

    Attributes:
        opening: entry that opened the charge that the last entry opens, refunds, or settles at
            less; None if it does none of these.
        sums: sum charged to each account.
        tolerances: tolerance in units for sums that another machine computed.
    """

    def __init__(self, dataset: Dataset, quotas: Iterable[Revision] = ()) -> None:
        self.dataset: Dataset = dataset
        self.opening: Entry | None = None
        self.sums: dict[Place, Cost] = {}
        self.tolerances: Counter[Place] = Counter()
        self._quotas = [revision for revision in quotas if revision.quota.limit is not None]
        self._open: dict[tuple[str, str], Entry] = {}
        self._step: tuple[str, str] = ("", "")
        self._touched: set[Place] = set()

    @classmethod
    def from_entries(
        cls, connection: Connection, declared: Declared, quotas: list[Revision]
    ) -> dict[Place, Cost]:
        """Return the sums of these quotas' accounts, derived from the entries.

        Raises:
            InvalidEntry: an entry cannot be counted to one of the quotas, or exceeded it.
        """
        accounts = cls(declared.dataset, quotas)
        for entry in stream(lambda: nullcontext(connection), declared) if quotas else ():
            for problem in accounts.follow(entry):
                raise InvalidEntry(
                    f"dataset={declared.dataset.name!r}, entry {entry.seq}: {problem}"
                )
        return accounts.sums

    def follow(self, entry: Entry) -> Iterator[str]:
        """Count the next entry, and yield rules that do not hold, in words."""
        place = entry.key, entry.period
        if entry.action == "reserve":
            self._open[place] = entry
        self.opening = entry if entry.opens else None
        if entry.action in ("void", "release"):
            opening = self._open.pop(place, None)
            self.opening = opening if entry.action == "void" or entry.curve is not None else None
        if self.opening is None:
            return
        # a charge of several periods is several entries, and counts once
        if (entry.key, entry.action) != self._step:
            self._step, self._touched = (entry.key, entry.action), set()
        for revision in self._quotas:
            if revision.until is None or entry.seq < revision.until:
                yield from self._count(revision, entry, self.opening)

    def _count(self, revision: Revision, entry: Entry, first: Entry) -> Iterator[str]:
        quota, limit = revision.quota, revision.limit
        later = entry.opens and entry.seq > revision.seq
        if later and not quota.lists(vars(first)):
            yield f"the charge's name is not on the list of quota={quota.name!r}"
        try:
            new = {
                (revision.seq, account)
                for account in quota.accounts(self.dataset.window, vars(first), [entry.period])
            }
            if not new:
                # the quota is not this charge's, and its budget need not be able to pay for it
                return
            if entry.opens:
                cost = cost_in(limit, first.curve or "", first.count)
            else:
                cost = refund(limit, first, entry.curve, entry).times(-1)
            unsure = rounding_tolerance(limit, entry, first)
        # a period that is none, in an entry that was edited
        except (AccountingError, ValueError, OverflowError) as error:
            yield f"the charge cannot be counted to quota={quota.name!r} ({type(error).__name__})"
            return
        for place in new - self._touched:
            self.sums[place] = self.sums.get(place, NOTHING).plus(cost)
            self.tolerances[place] += unsure
            # What it may have stood at on another machine.
            least = Cost(*(max(0, part - self.tolerances[place]) for part in self.sums[place]))
            if later and not limit.fits(NOTHING, least):
                yield (
                    f"the charge exceeds quota={quota.name!r}, {quota.account_in_words(place[1])}"
                )
        self._touched |= new

    def differs(self, stored: Mapping[Place, Cost]) -> bool:
        """Return True if the stored sums differ by more than machines may."""
        return stored.keys() != self.sums.keys() or any(
            abs(have - expected) > self.tolerances[place]
            for place, spent in self.sums.items()
            for have, expected in zip(stored[place], spent, strict=True)
        )
