"""At most so many items or groups per user, chosen by a map that depends on nothing but the user, what is chosen and a salt."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import final

from accounting.arguments import shown
from dpselect.errors import EventLogError

# Every part is preceded by its length, so that no two (user, item) pairs are written alike, whatever characters they hold.
# Only functions that other engines have with the same result: length counts code points, sha256 is lower-case hexadecimal.
KEY = (
    "concat(CAST(length(CAST(u AS VARCHAR)) AS VARCHAR), ':', CAST(u AS VARCHAR), ':', "
    "CAST(length(CAST({0} AS VARCHAR)) AS VARCHAR), ':', CAST({0} AS VARCHAR), ':', CAST(? AS VARCHAR))"
)
_RANK = f"sha256({KEY})"
_MOST = 10**12


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """Keep, of every user, the `limit` items with the smallest sha256(user, item, salt); or so many groups, likewise.

    What is kept of one user does not depend on any other user, so neighbouring logs stay neighbours.
    """

    limit: int
    salt: str

    def kept(self, pairs: str, weighed: str, owner: str = "u", chosen: str = "i") -> tuple[str, list[object]]:
        """SQL of the rows of `pairs` that are kept, and its parameters; only owners with more than that are ranked.

        Args:
            pairs: relation of distinct owners and what is chosen, nothing else.
            weighed: relation of owners with their numbers t.
            owner: the columns whose every value keeps so many: users, or users within groups.
            chosen: the column that is chosen from.
        """
        every = f"SELECT {owner}, {chosen} FROM {pairs} SEMI JOIN"
        within = f"{every} (SELECT {owner} FROM {weighed} WHERE t <= {self.limit}) USING ({owner})"
        beyond = f"{every} (SELECT {owner} FROM {weighed} WHERE t > {self.limit}) USING ({owner})"
        place = f"row_number() OVER (PARTITION BY {owner} ORDER BY {_RANK.format(chosen)}, {chosen}) AS place"
        ranked = f"SELECT {owner}, {chosen}, {place} FROM ({beyond})"
        return f"{within} UNION ALL SELECT {owner}, {chosen} FROM ({ranked}) WHERE place <= {self.limit}", [self.salt]


def bounds(items: int | None, groups: int | None, salt: str | None) -> tuple[Bound | None, Bound | None]:
    """The bounds asked for, under one salt, a fresh one unless it is given; None where there is none.

    Raises:
        EventLogError: a limit is not an integer from 1 to 10^12, `salt` is no text, or there is a salt and nothing to choose.
    """
    if salt is not None and not isinstance(salt, str):
        raise EventLogError(f"salt={salt!r} must be text, or None for a fresh one")
    if items is None and groups is None and salt is not None:
        raise EventLogError(
            f"salt={salt!r} chooses which items are kept, and without max_items_per_user all are: set that too, or leave salt out"
        )
    fresh = secrets.token_hex(16) if salt is None else salt
    return _bound("max_items_per_user", items, fresh), _bound("max_groups_per_user", groups, fresh)


def _bound(field: str, limit: int | None, salt: str) -> Bound | None:
    if limit is None:
        return None
    if type(limit) is not int or not 1 <= limit <= _MOST:
        raise EventLogError(f"{field}={shown(limit)} must be a whole number >= 1, at most 10^12, or None for no bound")
    return Bound(limit, salt)
