"""Checks of plain arguments: numpy's numbers are numbers, a bool is none, and a huge one is not printed."""

from __future__ import annotations

import numbers

from accounting.errors import AccountingError, InvalidArgument

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
    """`value` as an int from `least` to `most`; of any integer type, numpy's included."""
    if isinstance(value, bool) or not isinstance(value, _INTEGERS) or not least <= (number := int(value)) <= most:
        raise error(f"{name}={shown(value)} must be an integer >= {least}, at most {_round(most)}: {meaning}")
    return number


def _round(number: int) -> str:
    power = len(str(number)) - 1
    return f"10^{power}" if power > 6 and number == 10**power else str(number)


def shown(value: object) -> str:
    """A number, short enough to read; of anything else only its type."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, numbers.Integral) and abs(int(value)) < 10**19):
        return repr(value)
    return f"<{'huge' if isinstance(value, numbers.Integral) else type(value).__name__}>"
