"""Which column is meant: by name, or by position where there is no header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from dpselect.errors import EventLogError

Reference = str | int
_NUMBERED = re.compile(r"(?P<one>[1-9]\d*)|column(?P<zero>\d+)", re.ASCII)
_MOST_LISTED = 50


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """The columns a caller asked for.

    Raises:
        EventLogError: one is neither a name nor a position, or both are the same.
    """

    user: Reference
    item: Reference

    def __post_init__(self) -> None:
        for field, column in (("user", self.user), ("item", self.item)):
            if type(column) not in (str, int):
                raise EventLogError(f"{field}={column!r} is not a column: give its name, or its number from 1")
        if self.user == self.item:
            raise EventLogError(f"user and item are the same column, {self.user!r}: an event needs one of each")

    def by_position(self) -> bool:
        """Whether both are positions, so that no header is needed."""
        return position(self.user) is not None and position(self.item) is not None


def position(column: Reference) -> int | None:
    """0-based position meant by 1, "1" or "column0" (all three the first column), or None if it can only be a name."""
    if isinstance(column, int):
        return column - 1 if column >= 1 else None
    match = _NUMBERED.fullmatch(column)
    if match is None:
        return None
    return int(match["one"]) - 1 if match["one"] else int(match["zero"])


def by_position(asked: Asked, count: int, what: str) -> tuple[int, int]:
    """0-based positions in a file of `count` columns without a header.

    Raises:
        EventLogError: not a position, out of range, or both the same column.
    """
    user, item = _numbered("user", asked.user, count, what), _numbered("item", asked.item, count, what)
    return _different(user, item, what)


def by_name(asked: Asked, names: Sequence[str], what: str, *, listed: bool = True) -> tuple[int, int]:
    """0-based positions among `names`, which the error lists if `listed`. An integer is a position from 1, a string a name.

    Raises:
        EventLogError: no such column, several of that name, or both the same column.
    """
    user = _named("user", asked.user, names, what, listed=listed)
    return _different(user, _named("item", asked.item, names, what, listed=listed), what)


def no_column(field: str, column: object, names: Sequence[object], what: str) -> EventLogError:
    """The error for a column that is not there; it says which columns are."""
    shown = ", ".join(repr(name) for name in names[:_MOST_LISTED])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return EventLogError(f"{field}={column!r} is not a column of {what}: its columns are {shown}{more}")


def ambiguous(field: str, column: object, what: str) -> EventLogError:
    """The error for a name that several columns share."""
    return EventLogError(f"{field}={column!r} names more than one column of {what}: rename all but one of them")


def _numbered(field: str, column: Reference, count: int, what: str) -> int:
    found = position(column)
    if found is None or found >= count:
        raise EventLogError(
            f"{field}={column!r} is not a column of {what}, read without a header: it has {count} columns, so give a number "
            f"from 1 to {count} ('column0' to 'column{count - 1}' mean the same), or say that its first line "
            "has names (header=True, --header)"
        )
    return found


def _named(field: str, column: Reference, names: Sequence[str], what: str, *, listed: bool) -> int:
    if isinstance(column, int):
        return _numbered(field, column, len(names), what)
    if names.count(column) > 1:
        raise ambiguous(field, column, what)
    if column in names:
        return names.index(column)
    if listed:
        raise no_column(field, column, names, what)
    raise EventLogError(
        f"{field}={column!r} is not a column of {what}: its first line does not name it, and may be data, so is not shown; "
        f"without a header, give column numbers from 1 to {len(names)}; with one, say so (header=True, --header) to see its names"
    )


def _different(user: int, item: int, what: str) -> tuple[int, int]:
    if user == item:
        raise EventLogError(f"user and item are the same column of {what}, number {user + 1}: an event needs one of each")
    return user, item
