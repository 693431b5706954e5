"""`Quota`: a limit within a dataset's budget, for a person, a team, a purpose or a stretch of the data's time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, final

from pydantic import AfterValidator, Field, model_validator

from accounting.budget.budget import Budget
from accounting.errors import AccountingError
from accounting.frozen import Frozen
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.periods import WHOLE, Window, enclosing, ordinal, period_at
from accounting.ledger.stored_text import checked_name

Scope = Literal["actor", "team", "purpose"]

_WIDTHS: tuple[Window, ...] = ("day", "week", "month", "quarter", "year", "whole")
_MOST_ACCOUNTS = 4_000


class Who(NamedTuple):
    """On whose behalf and what for: names that the charging process states, not proofs of them."""

    actor: str
    team: str | None
    purpose: str | None


def _name(value: str | None) -> str | None:
    return None if value is None else checked_name("a quota's name", value)


@final
class Quota(Frozen):
    """The most that some of a dataset's charges may add up to. It never allows what the dataset's budget does not.

    Every charge of the dataset that falls in its scope counts, those before it was declared included. Each account of it is a
    privacy filter of its own (Theorems F1 to F3), with its own prices. So `limit` bounds what the releases in its scope tell
    about one unit's rows, in a window about those that lie in it, provided that each charge's curve holds for all that one unit
    has in the rows that it reads: a charge that reads several periods of a window counts there once.

    Args:
        name: of the quota within its dataset. Declaring it again replaces it; both stay on record.
        limit: in any form; None withdraws the quota.
        by: whose charges count: those of one actor, team or purpose. None counts everybody's together.
        of: the one actor, team or purpose that is limited; None limits each of them by this much.
        window: of the data's time, at least as wide as the dataset's: each period of it has the limit. "whole" is all rows.
        rolling: in place of a window, so many consecutive periods of the dataset's window: every such stretch has the limit.

    Raises:
        InvalidEntry: a name is none, `of` is given without `by`, or both a window and `rolling`.

    Example:
        >>> import accounting as acc
        >>> quota = acc.ledger.Quota(name="any 30 days", limit=acc.Budget(epsilon=1.0), rolling=30)
        >>> quota.in_words
        'in every 30 consecutive periods'
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    name: Annotated[str, AfterValidator(_name)]
    limit: Budget | None
    by: Scope | None = None
    of: Annotated[str | None, AfterValidator(_name)] = None
    window: Window = "whole"
    rolling: Annotated[int, Field(ge=2, le=400)] | None = None

    @model_validator(mode="after")
    def _has_one_scope(self) -> Self:
        if self.of is not None and self.by is None:
            raise ValueError("of names an actor, a team or a purpose: say which with by")
        if self.rolling is not None and self.window != "whole":
            raise ValueError("give either a window or rolling, not both: two limits are two quotas")
        return self

    @property
    def in_words(self) -> str:
        """Its scope, in words."""
        whose = "" if self.by is None else f"for {self.by} {self.of}" if self.of is not None else f"for each {self.by}"
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
            raise InvalidEntry(f"window={self.window!r} is narrower than the dataset's, {window!r}: charges do not say so much")

    def accounts(self, window: Window, who: Who, periods: Iterable[str]) -> list[str]:
        """The accounts that a charge counts to, in order; none if it is not limited here.

        Raises:
            InvalidEntry: it counts to more accounts than there should be.
        """
        name = WHOLE if self.by is None else getattr(who, self.by)
        if self.of is not None and name != self.of:
            return []
        found = {place for period in periods for place in self._places(window, period)}
        if len(found) > _MOST_ACCOUNTS:
            raise InvalidEntry(f"the charge counts to {len(found):,} accounts of quota={self.name!r}: name fewer periods at once")
        return [json.dumps([name, place]) for place in sorted(found)]

    def _places(self, window: Window, period: str) -> Iterable[str]:
        if self.rolling is not None:
            last = ordinal(window, period)
            return [period_at(window, first) for first in range(max(1, last - self.rolling + 1), last + 1)]
        if self.window == "whole":
            return (WHOLE,)
        return (period,) if self.window == window else enclosing(window, period, self.window)

    def account_in_words(self, account: str) -> str:
        """An account, as people read it."""
        name, place = json.loads(account)
        if self.rolling is not None:
            place = f"{self.rolling} periods from {place}"
        shown = [] if self.by is None else [name if name is not None else f"no {self.by}"]
        return ", ".join([*shown, *([place] if place else [])]) or "all rows"


@lru_cache(maxsize=256)
def read_quota(text: str | None) -> Quota:
    """The quota that an entry declares; InvalidEntry if it is none."""
    try:
        return Quota.model_validate_json(text or "")
    except AccountingError:
        raise InvalidEntry("a quota cannot be read: it was edited") from None
