"""Text that the ledger stores: names, periods, and JSON in one form, so that hashes are stable.

Text is short, printable and the same on every store, and other text raises InvalidEntry. A period
says which rows a charge reads, never when it is made, so a budget per period does not refresh. A
query over several periods is charged to each.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from accounting.ledger.errors import InvalidEntry

LONGEST_NAME = 200
LONGEST_TEXT = 2_000
LONGEST_JSON = 1_000_000
_UNSTORED = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")  # Unicode's categories Cc and Cs
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)


def check_name(field: str, value: object) -> str:
    """Return a name after a check that no other name looks the same.

    A name has 1 to 200 printable characters in Unicode's composed form, and no outer spaces.
    """
    text = unicodedata.normalize("NFC", check_text(field, value, LONGEST_NAME))
    if not text.isprintable() or text != text.strip() or not text:
        raise InvalidEntry(
            f"{field} must be 1 to {LONGEST_NAME} printable characters without spaces at either end"
        )
    return text


def check_text(field: str, value: object, longest: int = LONGEST_TEXT) -> str:
    """Return text that is not too long and that every store can hold.

    It has no control characters or lone surrogates.
    """
    if not isinstance(value, str):
        raise InvalidEntry(f"{field} must be text, not {type(value).__name__}")
    if len(value) > longest:
        raise InvalidEntry(
            f"{field} has {len(value):,} characters, and at most {longest:,} are stored"
        )
    if _UNSTORED.search(value):
        raise InvalidEntry(f"{field} must not contain control characters or lone surrogates")
    return value


def optional_text(field: str, value: object) -> str | None:
    """Return `check_text`, or None for None."""
    return None if value is None else check_text(field, value)


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys, no spaces, ASCII only.

    Pass no floats, because their text could differ between versions.
    """
    return _ENCODER.encode(value)


def digest(text: str) -> str:
    """Return the SHA-256 of `text`, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


Window = Literal["whole", "year", "quarter", "month", "week", "day"]

WHOLE = ""
_MOST_PERIODS = 400
_EXAMPLES = {
    "year": "2024",
    "quarter": "2024-Q3",
    "month": "2024-07",
    "week": "2024-W28 (an ISO week)",
    "day": "2024-07-14",
}


def check_zone(value: object) -> str:
    """Return the name of a time zone, "UTC" by default.

    Raises:
        InvalidEntry: the zone is unknown.
    """
    try:
        return ZoneInfo("UTC" if value is None else str(value)).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidEntry(
            f"time_zone={str(value)[:40]!r} is not known. Write it like 'UTC' or 'Europe/Berlin'"
        ) from None


def check_periods(window: Window, period: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the periods whose rows a charge reads, in order: the accounts that it counts to."""
    if window == "whole":
        if period is not None:
            raise InvalidEntry(
                "period= must be left out, because this dataset has one budget for all its rows"
            )
        return (WHOLE,)
    several = isinstance(period, Iterable) and not isinstance(period, str)
    periods = [] if period is None else list(period) if several else [period]
    if not periods:
        raise InvalidEntry(
            f"period= is missing, and this dataset has a budget per {window}. Name the"
            f" {window}(s) whose rows are read"
        )
    if len(set(periods)) > _MOST_PERIODS:
        raise InvalidEntry(
            f"a charge must name at most {_MOST_PERIODS} periods. Use a longer window"
        )
    return tuple(sorted({_check_period(window, item) for item in periods}))


def _check_period(window: Window, period: object) -> str:
    """Return a period that exists and is spelled as the period of its own first day."""
    try:
        if isinstance(period, str) and period_of(window, first_day(window, period)) == period:
            return period
    except (ValueError, OverflowError):
        pass
    text = repr(period[:20]) if isinstance(period, str) else f"<{type(period).__name__}>"
    raise InvalidEntry(f"period={text} is not a {window}. Write it like {_EXAMPLES[window]}")


def first_day(window: Window, period: str) -> date:
    """Return the day on which a period begins.

    Raises:
        ValueError: there is no such period.
    """
    year, rest = int(period[:4]), period[5:]
    if window == "day":
        return date.fromisoformat(period)
    if window == "week":
        return date.fromisocalendar(year, int(rest[1:]), 1)
    return date(
        year,
        int(rest) if window == "month" else 3 * int(rest[1:]) - 2 if window == "quarter" else 1,
        1,
    )


def period_of(window: Window, day: date) -> str:
    """Return the period that a day lies in."""
    iso = day.isocalendar()
    return {
        "year": f"{day.year:04d}",
        "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}",
        "month": f"{day.year:04d}-{day.month:02d}",
        "week": f"{iso.year:04d}-W{iso.week:02d}",
        "day": day.isoformat(),
    }[window]


def periods_ending_at(window: Window, last: str, count: int) -> list[str]:
    """Return `count` consecutive periods up to `last`; fewer at the beginning of the calendar."""
    periods = [last]
    while len(periods) < count and (begins := first_day(window, periods[-1])) > date.min:
        periods.append(period_of(window, begins - timedelta(days=1)))
    return periods[::-1]
