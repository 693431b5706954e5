"""Checks of plain arguments and of neighboring relations.

NumPy's numbers are numbers, a bool is not, and a huge number is not printed.

`add_remove` means that one user is added or removed. `replace_one` means that one user's data are
replaced, and the number of users is public. A guarantee holds for one relation only, so guarantees
under different relations are never mixed.
"""

from __future__ import annotations

import numbers
from typing import Literal

from accounting.errors import AccountingError, InvalidArgument, RelationMismatch

MOST_COUNT = 10**18  # counts stay far from the limits of floats and of 64 bits
_INTEGERS = (int, numbers.Integral)  # the usual one first: an abstract class is slow to ask


def checked_integer(
    name: str,
    value: object,
    meaning: str,
    *,
    least: int = 1,
    most: int = MOST_COUNT,
    error: type[AccountingError] = InvalidArgument,
) -> int:
    """Return `value`, an integer of any type, as an int from `least` to `most`.

    NumPy's integers are accepted, and a bool is not.

    Raises:
        InvalidArgument (or `error`): the value is not such an integer.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, _INTEGERS)
        or not least <= (number := int(value)) <= most
    ):
        power = len(str(most)) - 1
        largest = f"10^{power}" if power > 6 and most == 10**power else str(most)
        raise error(
            f"{name}={shown(value)} must be an integer >= {least}, at most {largest}: {meaning}"
        )
    return number


def shown(value: object) -> str:
    """Return a number as short text, and only the type of any other value."""
    if (
        value is None
        or isinstance(value, bool | float)
        or (isinstance(value, numbers.Integral) and abs(int(value)) < 10**19)
    ):
        return repr(value)
    return f"<{'huge' if isinstance(value, numbers.Integral) else type(value).__name__}>"


Relation = Literal["add_remove", "replace_one"]

WORDS: dict[Relation, str] = {
    "add_remove": "adding or removing any one user",
    "replace_one": "replacing any one user's data",
}


def same_relation(first: Relation | None, second: Relation | None) -> Relation | None:
    """Return the common relation of two statements, where None means "not stated"."""
    for stated in (first, second):
        if stated is not None and stated not in tuple(WORDS):
            raise InvalidArgument(f"relation={stated!r} must be one of {', '.join(WORDS)}")
    if first is not None and second is not None and first != second:
        raise RelationMismatch(
            f"relation={second!r} cannot be combined with relation={first!r}, because a"
            " guarantee holds for one neighboring relation only. Configure every mechanism of"
            f" one plan with relation={first!r}, or charge what is proved for {second!r} alone"
            " to a dataset that was declared with it"
        )
    return second if first is None else first
