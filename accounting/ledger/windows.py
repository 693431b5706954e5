"""Data periods: which rows a charge reads, never when it is made.

A budget per period is no refresh: January's rows stay spent in February. A query over several periods is charged to each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Literal, get_args

from accounting.ledger.errors import InvalidEntry

Window = Literal["whole", "year", "quarter", "month", "week", "day"]

WHOLE = ""
_MOST_PERIODS = 400
_SHAPES: dict[str, tuple[str, str]] = {
    "year": (r"\d{4}", "2024"),
    "quarter": (r"\d{4}-Q[1-4]", "2024-Q3"),
    "month": (r"\d{4}-(0[1-9]|1[0-2])", "2024-07"),
    "week": (r"\d{4}-W\d{2}", "2024-W28 (an ISO week)"),
    "day": (r"\d{4}-\d{2}-\d{2}", "2024-07-14"),
}


def checked_window(value: object) -> Window:
    """One of the windows.

    Raises:
        InvalidEntry: it is none.
    """
    for window in get_args(Window):
        if value == window:
            return window
    raise InvalidEntry(f"window={value!r} must be one of {', '.join(get_args(Window))}")


def checked_periods(window: Window, period: str | Iterable[str] | None) -> tuple[str, ...]:
    """The accounts that a charge is held against, in order: the periods whose rows it reads.

    Raises:
        InvalidEntry: a period is missing, not of the window's form, or given although the budget covers all rows together.
    """
    if window == "whole":
        return _whole(period)
    given = [period] if isinstance(period, str) else list(period or ())
    if not given:
        raise InvalidEntry(
            f"period is missing: this dataset has a budget per {window}, so name the {window}(s) whose rows are read"
        )
    if len(set(given)) > _MOST_PERIODS:
        raise InvalidEntry(f"a charge names at most {_MOST_PERIODS} periods: use a longer window")
    return tuple(sorted({_checked(window, item) for item in given}))


def _whole(period: str | Iterable[str] | None) -> tuple[str, ...]:
    if period is not None:
        raise InvalidEntry("period must be left out: this dataset has one budget for all its rows together")
    return (WHOLE,)


def _checked(window: Window, period: object) -> str:
    pattern, example = _SHAPES[window]
    if not isinstance(period, str) or not re.fullmatch(pattern, period, re.ASCII) or not _exists(window, period):
        raise InvalidEntry(f"period={_shown(period)} is no {window}: write it as {example}")
    return period


def _exists(window: Window, period: str) -> bool:
    try:
        if window == "day":
            date.fromisoformat(period)
        if window == "week":
            date.fromisocalendar(int(period[:4]), int(period[6:]), 1)
    except ValueError:
        return False
    return True


def _shown(period: object) -> str:
    return repr(period[:20]) if isinstance(period, str) else f"<{type(period).__name__}>"
