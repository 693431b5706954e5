"""At most so many items per user, chosen by a map that depends on nothing but the user, the item and a salt."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import final

from accounting.arguments import shown
from dpselect.errors import EventLogError

# Every part is preceded by its length, so that no two (user, item) pairs are written alike, whatever characters they hold.
# Only functions that other engines have with the same result: length counts code points, sha256 is lower-case hexadecimal.
_RANK = (
    "sha256(concat(length(CAST(u AS VARCHAR)), ':', CAST(u AS VARCHAR), ':', "
    "length(CAST(i AS VARCHAR)), ':', CAST(i AS VARCHAR), ':', CAST(? AS VARCHAR)))"
)
_MOST = 10**12


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """Keep, of every user, the `limit` items with the smallest sha256(user, item, salt).

    What is kept of one user does not depend on any other user, so neighbouring logs stay neighbours.
    """

    limit: int
    salt: str

    def kept(self, pairs: str, weighed: str) -> tuple[str, list[object]]:
        """SQL (u, i, first) of the pairs that are kept, and its parameters; only users with more items than that are ranked.

        Args:
            pairs: relation of distinct (u, i).
            weighed: relation of users u with their numbers of items t.
        """
        within = f"SELECT u, i FROM {pairs} SEMI JOIN (SELECT u FROM {weighed} WHERE t <= {self.limit}) USING (u)"
        beyond = f"SELECT u, i FROM {pairs} SEMI JOIN (SELECT u FROM {weighed} WHERE t > {self.limit}) USING (u)"
        ranked = f"SELECT u, i, row_number() OVER (PARTITION BY u ORDER BY {_RANK}, i) AS place FROM ({beyond})"
        return f"{within} UNION ALL SELECT u, i FROM ({ranked}) WHERE place <= {self.limit}", [self.salt]


def bound(limit: int | None, salt: str | None) -> Bound | None:
    """The bound asked for, with a fresh salt unless one is given; None if there is none.

    Raises:
        EventLogError: `limit` is not an integer from 1 to 10^12, `salt` is no text, or there is a salt and nothing to choose.
    """
    if salt is not None and not isinstance(salt, str):
        raise EventLogError(f"salt={salt!r} must be text, or None for a fresh one")
    if limit is None:
        _require_no_salt(salt)
        return None
    if type(limit) is not int or not 1 <= limit <= _MOST:
        raise EventLogError(f"max_items_per_user={shown(limit)} must be a whole number >= 1, at most 10^12, or None for no bound")
    return Bound(limit, secrets.token_hex(16) if salt is None else salt)


def _require_no_salt(salt: str | None) -> None:
    if salt is not None:
        raise EventLogError(
            f"salt={salt!r} chooses which items are kept, and without max_items_per_user all are: set that too, or leave salt out"
        )
