"""Which column is meant: by name, or by position where there is no header."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

from dpselect.errors import EventLogError

Reference = str | int
# What `Rows.sql` calls the column of each role; further parts of an item are roles of their own.
SHORT = {"user": "u", "item": "i", "group": "g", **{f"item_{n}": f"i{n}" for n in range(2, 9)}, "value": "v", "time": "t"}
_NUMBERED = re.compile(r"(?P<one>[1-9]\d*)|column(?P<zero>\d+)", re.ASCII)
_MOST_LISTED = 50


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """The columns a caller asked for.

    Attributes:
        further: other columns that make up an item together with `item`.
        value: what is summed up, if anything is.
        time: when an event was, if only some are read.
        elsewhere: roles whose values do not stand in a column, but in the name of a file.

    Raises:
        EventLogError: one is neither a name nor a position, or two are the same.
    """

    user: Reference
    item: Reference | None
    group: Reference | None = None
    further: tuple[Reference, ...] = ()
    value: Reference | None = None
    time: Reference | None = None
    elsewhere: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for field, column in self.columns.items():
            if type(column) not in (str, int):
                raise EventLogError(f"{field}={column!r} is not a column: give its name, or its number from 1")
        for one, other in itertools.combinations(self.columns, 2):
            if self.columns[one] == self.columns[other]:
                raise EventLogError(f"{one} and {other} are the same column, {self.columns[one]!r}: an event needs one of each")

    @property
    def columns(self) -> dict[str, Reference]:
        """The column of every role that was asked for, in the order of `SHORT`."""
        further = {f"item_{number}": column for number, column in enumerate(self.further, start=2)}
        stated = {"user": self.user, "item": self.item, "group": self.group, **further, "value": self.value, "time": self.time}
        return {role: column for role, column in stated.items() if column is not None and role not in self.elsewhere}

    @property
    def roles(self) -> list[str]:
        """The roles in which an event needs a value, an item being one."""
        return [role for role in self.columns if not role.startswith("item_")]

    def without(self, roles: Iterable[str]) -> Self:
        """The same without these roles, whose values are known."""
        return replace(self, elsewhere=frozenset(roles))

    def by_position(self) -> bool:
        """Whether all are positions, so that no header is needed."""
        return all(position(column) is not None for column in self.columns.values())


def asked_for(
    user: Reference,
    item: Reference | Sequence[Reference],
    group: Reference | None,
    value: Reference | None,
    time: Reference | None,
) -> Asked:
    """The columns asked for, one or several of which make up an item.

    Raises:
        EventLogError: one is no column, two are the same, or an item has more than eight.
    """
    parts = [item] if isinstance(item, str) or not isinstance(item, Sequence) else list(item)
    if not 1 <= len(parts) <= 8 or None in parts or user is None:
        raise EventLogError(f"user={user!r}, item={item!r} is not a column, or for an item from 1 to 8 of them: give names")
    return Asked(user, parts[0], group, tuple(parts[1:]), value, time)


def position(column: Reference) -> int | None:
    """0-based position meant by 1, "1" or "column0" (all three the first column), or None if it can only be a name."""
    if isinstance(column, int):
        return column - 1 if column >= 1 else None
    match = _NUMBERED.fullmatch(column)
    if match is None:
        return None
    return int(match["one"]) - 1 if match["one"] else int(match["zero"])


def by_position(asked: Asked, count: int, what: str) -> dict[str, int]:
    """0-based positions, by role, in a file of `count` columns without a header.

    Raises:
        EventLogError: not a position, out of range, or two the same column.
    """
    return _different({role: _numbered(role, column, count, what) for role, column in asked.columns.items()}, what)


def by_name(asked: Asked, names: Sequence[str], what: str, *, listed: bool = True) -> dict[str, int]:
    """0-based positions, by role, among `names`, which the error lists if `listed`. An integer is a position from 1.

    Raises:
        EventLogError: no such column, several of that name, or two the same column.
    """
    return _different({role: _named(role, column, names, what, listed=listed) for role, column in asked.columns.items()}, what)


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


def _different(places: Mapping[str, int], what: str) -> dict[str, int]:
    for one, other in itertools.combinations(places, 2):
        if places[one] == places[other]:
            number = places[one] + 1
            raise EventLogError(f"{one} and {other} are the same column of {what}, number {number}: an event needs one of each")
    return dict(places)
