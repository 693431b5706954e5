"""Data periods: which rows a charge reads, never when it is made.

A budget per period does not refresh: January's rows stay spent in February. A query over several periods is charged to each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from accounting.ledger.errors import InvalidEntry

Window = Literal["whole", "year", "quarter", "month", "week", "day"]

WHOLE = ""
_MOST_PERIODS = 400
_PER_YEAR = {"month": 12, "quarter": 4, "year": 1}
_SHAPES: dict[str, tuple[str, str]] = {
    "year": (r"\d{4}", "2024"),
    "quarter": (r"\d{4}-Q[1-4]", "2024-Q3"),
    "month": (r"\d{4}-(0[1-9]|1[0-2])", "2024-07"),
    "week": (r"\d{4}-W\d{2}", "2024-W28 (an ISO week)"),
    "day": (r"\d{4}-\d{2}-\d{2}", "2024-07-14"),
}


def checked_window(value: object) -> Window:
    """One of the windows; InvalidEntry if it is none."""
    for window in get_args(Window):
        if value == window:
            return window
    raise InvalidEntry(f"window={value!r} must be one of {', '.join(get_args(Window))}")


def checked_zone(value: object) -> str:
    """The name of a time zone, "UTC" if none is stated; InvalidEntry if the zone is unknown."""
    try:
        return ZoneInfo("UTC" if value is None else str(value)).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidEntry(f"time_zone={str(value)[:40]!r} is not known: write it as 'UTC' or 'Europe/Berlin'") from None


def checked_periods(window: Window, period: str | Iterable[str] | None) -> tuple[str, ...]:
    """The accounts that a charge is held against, in order: the periods whose rows it reads."""
    if window == "whole":
        if period is not None:
            raise InvalidEntry("period must be left out: this dataset has one budget for all its rows together")
        return (WHOLE,)
    given = [period] if isinstance(period, str) else list(period or ())
    if not given:
        raise InvalidEntry(
            f"period is missing: this dataset has a budget per {window}, so name the {window}(s) whose rows are read"
        )
    if len(set(given)) > _MOST_PERIODS:
        raise InvalidEntry(f"a charge names at most {_MOST_PERIODS} periods: use a longer window")
    return tuple(sorted({_checked(window, item) for item in given}))


def _checked(window: Window, period: object) -> str:
    pattern, example = _SHAPES[window]
    if not isinstance(period, str) or not re.fullmatch(pattern, period, re.ASCII) or not _exists(window, period):
        raise InvalidEntry(f"period={_shown(period)} is not a {window}: write it as {example}")
    return period


def _exists(window: Window, period: str) -> bool:
    if int(period[:4]) < 1:
        return False  # without dates no quota could count by them
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


def ordinal(window: Window, period: str) -> int:
    """The period's number among all of its window: consecutive periods have consecutive numbers."""
    year, rest = int(period[:4]), period[5:]
    if window == "day":
        return date.fromisoformat(period).toordinal()
    if window == "week":
        return date.fromisocalendar(year, int(rest[1:]), 1).toordinal() // 7 + 1
    return year * _PER_YEAR[window] + (int(rest.removeprefix("Q")) - 1 if rest else 0)


def period_at(window: Window, number: int) -> str:
    """The period of this number."""
    if window in ("day", "week"):
        return period_of(window, _first_day(window, number))
    year, rest = divmod(number, _PER_YEAR[window])
    return f"{year:04d}" + {"month": f"-{rest + 1:02d}", "quarter": f"-Q{rest + 1}", "year": ""}[window]


def enclosing(window: Window, period: str, wider: Window) -> str:
    """The period of a wider window that all of the period lies in. (Of weeks there is none: months and years cut them.)"""
    return period_of(wider, _first_day(window, ordinal(window, period)))


def _first_day(window: Window, number: int) -> date:
    if window in ("day", "week"):
        return date.fromordinal(number if window == "day" else number * 7 - 6)
    year, month = divmod(number * 12 // _PER_YEAR[window], 12)
    return date(year, month + 1, 1)


def period_of(window: Window, day: date) -> str:
    """The period that a day lies in."""
    iso = day.isocalendar()
    return {
        "year": f"{day.year:04d}",
        "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}",
        "month": f"{day.year:04d}-{day.month:02d}",
        "week": f"{iso.year:04d}-W{iso.week:02d}",
        "day": day.isoformat(),
    }[window]
