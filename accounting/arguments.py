"""Checks of plain arguments.

NumPy's numbers are numbers, a bool is not, and a huge number is not printed.
"""

from __future__ import annotations

import numbers

from accounting.errors import AccountingError, InvalidArgument

MOST_COUNT = 10**18  # counts stay far from the limits of floats and of 64 bits
_LONGEST = 60  # longest configuration value that an error quotes
_INTEGERS = (int, numbers.Integral)  # the usual one first: an abstract class is slow to ask


def check_integer(
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
            f"{name}={quote(value)} must be an integer >= {least}, at most {largest}: {meaning}"
        )
    return number


def quote(value: object) -> str:
    """Return a number as short text, and only the type of any other value."""
    if (
        value is None
        or isinstance(value, bool | float)
        or (isinstance(value, numbers.Integral) and abs(int(value)) < 10**19)
    ):
        return repr(value)
    return f"<{'huge' if isinstance(value, numbers.Integral) else type(value).__name__}>"


def quote_setting(value: object) -> str:
    """Return a scalar as text, and only the type of anything larger.

    Scalars are configuration and may be quoted; anything larger could be data.
    """
    if isinstance(value, str):
        text = repr(value)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return quote(value)
