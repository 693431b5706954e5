"""The time range of the events to read, with public ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, Self, final, get_args
from zoneinfo import ZoneInfo

from accounting.arguments import quote_setting
from dpselect.app.events.dialect import Dialect, matches
from dpselect.errors import DpSelectError, EventLogError, InvalidRequest

Moment = str | date | datetime
Unit = Literal["s", "ms", "us"]
Every = Literal["day", "week", "month"]
MICROSECONDS: dict[str, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EPOCH = datetime(1970, 1, 1)
_DAY, _TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?"
_CLOCK = f"{_DAY}(?:{_TIME})?"
_INSTANT = f"({_DAY}{_TIME}) ?(?:Z|UTC|([+-])([0-9]{{2}})(?::?([0-9]{{2}}))?)"
# Microseconds since 1970 of the first and the last moment that is a time.
FIRST, LAST = (
    (at - _EPOCH) // timedelta(microseconds=1) for at in (datetime(1900, 1, 1), datetime.max)
)
_MOST_DAYS = 36_525


@final
@dataclass(frozen=True, slots=True)
class Window:
    """A time range from `since` to before `until`, both with time zone; None for no end on a side.

    zone: time zone of the clock that showed times without a zone of their own. unit: unit of times
    that are numbers, since 1970 in UTC; None if there are none.
    """

    since: datetime | None
    until: datetime | None
    zone: ZoneInfo
    unit: Unit | None = None

    @classmethod
    def between(
        cls, since: Moment | None, until: Moment | None, zone: str, unit: Unit | None
    ) -> Self:
        """The time range between two stated times."""
        if since is None and until is None:
            raise EventLogError("time= needs since= or until=, or both: which events to read")
        try:
            where = ZoneInfo(zone)
        except (ValueError, OSError, TypeError, KeyError):
            raise EventLogError(
                f"time_zone={zone!r} is not known. Write it as 'UTC' or 'Europe/Berlin'"
            ) from None
        if unit is not None and unit not in get_args(Unit):
            raise EventLogError(
                f"time_unit={unit!r} must be one of {', '.join(get_args(Unit))}, of numbers since"
                " 1970; or None"
            )
        start, end = (
            None if moment is None else _moment(field, moment, where)
            for field, moment in (("since", since), ("until", until))
        )
        if start is not None and end is not None and start >= end:
            raise EventLogError(
                f"since={since!r} must be before until={until!r}: events from the one to before the"
                " other are read"
            )
        return cls(start, end, where, unit)

    def moment(self, kind: str, dialect: Dialect, form: str | None = None) -> tuple[str, str]:
        """SQL of a time t in microseconds (or null), and of whether it is a clock time.

        A text must be ISO 8601, or have the format `form` and lie in the years 1900 to 9999.
        """
        if form is not None:
            time = dialect.parse_format("t", form)
            return f"CASE WHEN {time} BETWEEN {FIRST} AND {LAST} THEN {time} END", "true"
        if self.unit is not None:
            return f"{dialect.integer('t')} * {MICROSECONDS[self.unit]}", "false"
        if kind == "wall":
            return dialect.clock("t"), "true"
        if kind == "instant":
            return dialect.instant("t"), "false"
        whole = dialect.literal(rf"\A{_INSTANT}\z")
        local, sign, *parts = (f"regexp_extract(t, {whole}, {number})" for number in (1, 2, 3, 4))
        hours, minutes = (f"CAST('0' || {part} AS BIGINT)" for part in parts)
        offset = f"CASE {sign} WHEN '-' THEN -1 ELSE 1 END * ({hours} * 60 + {minutes}) * 60000000"
        on_wall = matches("t", _CLOCK, dialect)
        either = (
            f"CASE WHEN {on_wall} THEN {dialect.clock('t')} ELSE {dialect.clock(local)} -"
            f" {offset} END"
        )
        return either, f"coalesce({on_wall}, true)"

    def holds(self, moment: str, wall: str) -> str:
        """SQL that is true if microseconds lie in the time range."""
        ends = [
            (end, sign) for end, sign in ((self.since, ">="), (self.until, "<")) if end is not None
        ]
        parts = [
            f"{moment} {sign} CASE WHEN {wall} THEN {self.wall(end)} ELSE {self.instant(end)} END"
            for end, sign in ends
        ]
        return " AND ".join(parts)

    def days(self) -> list[date]:
        """The days of a time range with two ends, by the clock on the wall."""
        if self.since is None or self.until is None:
            raise EventLogError("days are counted from since= to until=: give both")
        ends = (self.since, self.until - timedelta(microseconds=1))
        first, last = (moment.astimezone(self.zone).date().toordinal() for moment in ends)
        if last - first > _MOST_DAYS:
            raise EventLogError(
                "since= and until= are more than a century apart. Name a shorter window"
            )
        return list(map(date.fromordinal, range(first, last + 1)))

    def wall(self, moment: datetime) -> int:
        """Microseconds since 1970 on the clock on the wall."""
        return (moment.astimezone(self.zone).replace(tzinfo=None) - _EPOCH) // timedelta(
            microseconds=1
        )

    def day(self, moment: int, wall: bool) -> date:
        """The day of microseconds since 1970 on the wall clock or in UTC, by the wall clock."""
        instant = _EPOCH + timedelta(microseconds=moment)
        return instant.date() if wall else instant.replace(tzinfo=UTC).astimezone(self.zone).date()

    @staticmethod
    def instant(moment: datetime) -> int:
        """Microseconds since 1970 in UTC."""
        return (moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def periods(
    whole: Window, every: Every, *, partial: bool = False, most: int = 400
) -> Iterator[tuple[str, datetime, datetime]]:
    """Name, start and end of the days, ISO weeks or months of a time range with two ends.

    Names are those of a ledger. Periods that the zone skipped are left out. The last one may be cut
    short if `partial`. There are `most` at most.
    """
    if every not in get_args(Every):
        raise InvalidRequest(f"every={every!r} must be one of {', '.join(get_args(Every))}")
    if whole.since is None or whole.until is None:
        raise InvalidRequest(
            "every= needs since= and until=: which periods there are must be public, not read off"
            " the log"
        )
    begin, end = (
        moment.astimezone(whole.zone).replace(tzinfo=None) for moment in (whole.since, whole.until)
    )
    for field, moment in (("since", begin), ("until", end)):
        before = _start(moment, every)
        if moment != before and not (partial and field == "until"):
            raise InvalidRequest(
                f"{field}={iso_moment(moment)!r} is not where a {every} starts in {whole.zone.key}:"
                f" the nearest are {before:%Y-%m-%d} and {_following(before, every):%Y-%m-%d}"
                + ("; partial_last= ends the last one early" if field == "until" else "")
            )
    for _ in range(most):
        following = min(_following(begin, every), end)
        start, after = (moment.replace(tzinfo=whole.zone) for moment in (begin, following))
        # a zone that crosses the date line skips a day: nothing can happen on it
        if whole.instant(start) < whole.instant(after):
            yield _name(begin, every), start, after
        begin = following
        if begin >= end:
            return
    raise InvalidRequest(f"there are more than {most} periods. Ask for fewer at once")


def count_ended(
    periods: Sequence[tuple[str, datetime, datetime]], up_to: Moment | None, zone: ZoneInfo
) -> int:
    """Number of the periods that have ended by a time; None is now."""
    instant = Window.instant(
        datetime.now(UTC) if up_to is None else _moment("up_to", up_to, zone, InvalidRequest)
    )
    return sum(Window.instant(end) <= instant for *_, end in periods)


def iso_moment(moment: datetime) -> str:
    """The date if the moment begins a day, as all ends of periods but a last one cut short do."""
    return (
        f"{moment:%Y-%m-%d}" if moment.time() == time() else moment.replace(tzinfo=None).isoformat()
    )


def _following(start: datetime, every: Every) -> datetime:
    return _start(start + timedelta(days={"day": 1, "week": 7, "month": 31}[every]), every)


def _start(moment: datetime, every: Every) -> datetime:
    day = datetime(moment.year, moment.month, moment.day)
    return day - timedelta(days={"day": 0, "week": day.weekday(), "month": day.day - 1}[every])


def _name(start: datetime, every: Every) -> str:
    year, week, _ = start.isocalendar()
    return {"day": f"{start:%Y-%m-%d}", "week": f"{year:04}-W{week:02}", "month": f"{start:%Y-%m}"}[
        every
    ]


def _moment(
    field: str, moment: object, zone: ZoneInfo, error: type[DpSelectError] = EventLogError
) -> datetime:
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        parsed = None
    if isinstance(parsed, date) and not isinstance(parsed, datetime):
        parsed = datetime(parsed.year, parsed.month, parsed.day)
    if not isinstance(parsed, datetime):
        raise error(
            f"{field}={quote_setting(moment)} is not a date or time. Write it as '2024-07-14' or"
            " '2024-07-14T08:00+02:00'"
        )
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone)
