"""From what was given to buckets on disk: its door reads it, it is shaped to what is counted, and one pass cuts it by user."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, final

from dpselect.errors import EventLogError
from dpselect.events.contributions import Amount
from dpselect.events.doors import formats, parts, postgresql, tables
from dpselect.events.doors.base import SHORT, Asked, Given, Kind, Kinds, Rows, Settle, Source, literal, parquet_in
from dpselect.events.engine import Engine, opened
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.time_window import Window

# The narrower before the wider: an address is text, as a path is. A new kind of file goes into `formats.FORMATS` instead.
SOURCES: Final[tuple[Source, ...]] = (parts, tables, postgresql, formats)

REFUSED = "refused"  # a column: the role whose value is none, for events that make the log malformed
# At 5*10^7 events and 10^6 items: about 4*10^6 events, 0.5 GiB for integers and 0.9 GiB for 32-character texts.
_BYTES_PER_BUCKET = 64 * 2**20
_MOST_CHOSEN = 256
_LEFT_OUT, _OUTSIDE = -1, -2


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of whatever was given, by the first door that accepts it."""
    for door in SOURCES:
        if door.accepts(given):
            return door.rows(engine, given)
    kind = type(given.source)
    raise EventLogError(
        f"source is a {kind.__module__}.{kind.__qualname__}: give a path or several, a folder or a pattern, a table (pandas, "
        "Polars, DuckDB, or whatever offers an Arrow stream), a postgresql:// address, or '-'"
    )


@final
@dataclass(frozen=True, slots=True)
class Staged:
    """A log on disk as Parquet, one folder per bucket. Its figures are private.

    Attributes:
        buckets: how many there are, some of which may have no folder.
        rows, without, left_out: of the events to count: all, those without each role, those without any.
        scanned, missing, complete: of the whole log, also outside a window: events, roles in which none has a value, and whether
            some event has all of them. What is refused may depend on these, and not on the window.
    """

    folder: Path
    what: str
    buckets: int
    rows: int
    without: Mapping[str, int]
    left_out: int
    scanned: int
    missing: frozenset[str]
    complete: bool

    def bucket(self, number: int) -> str | None:
        """The SQL relation of one bucket, or None if no user fell into it."""
        folder = self.folder / f"bucket={number}"
        return parquet_in(folder) if folder.exists() else None

    def aside(self) -> str | None:
        """The SQL relation of the events that are left out, or None without any."""
        return self.bucket(_LEFT_OUT)

    def everything(self) -> str:
        """The SQL relation of all events, counted or not."""
        return parquet_in(self.folder, "*/*.parquet")


def prepared(
    engine: Engine, source: object, reading: Reading, progress: ProgressCallback | None, *, may_be_empty: bool = False
) -> tuple[Staged, Kinds]:
    """The log in buckets on disk, and what its labels are; without any event only if it `may_be_empty`."""
    given, asked = reading.given(source), reading.asked
    log = shaped(rows(engine, given), asked, given.amount, given.window)
    number = number_of_buckets(reading.buckets, log.size)
    told(progress, 0, number)
    staged = stage(engine, log, asked.roles, number)
    aside = staged.aside()
    if aside is not None and (asked.value is not None or asked.time is not None):
        found = engine.run(f"SELECT DISTINCT {REFUSED} FROM {aside}", what=staged.what)
        refuse_malformed({role for (role,) in found}, asked, staged.what)
    if not callable(log.kinds):
        kinds = log.kinds
    elif staged.scanned:
        kinds = log.kinds(engine, staged.everything(), staged.missing)
    else:
        kinds = dict.fromkeys(asked.roles, "str")
    if not (may_be_empty or log.may_be_empty):  # a field that no object has was named wrongly: that is said first
        require_events(staged.what, asked.roles, complete=staged.complete)
    told(progress, 1, number)
    return staged, kinds


@contextmanager
def split(source: object, reading: Reading, periods: Sequence[tuple[str, datetime, datetime]]) -> Iterator[dict[str, parts.Part]]:
    """The events of each period, from one pass over the log, to be read while the block lasts."""
    given = reading.given(source)
    with opened(reading.memory_limit) as engine:
        yield parts.cut(engine, rows(engine, given), given, periods)


def told(progress: ProgressCallback | None, done: int, buckets: int) -> None:
    """Say how far a reading is, to whom it may concern: it was cut, and then so many buckets were counted."""
    if progress is not None:
        progress(done, buckets + 1)


def number_of_buckets(asked: int | None, size: int) -> int:
    """How many buckets to cut; a function of size only, so that it does not change what is counted."""
    return min(max(1, -(-size // _BYTES_PER_BUCKET)), _MOST_CHOSEN) if asked is None else asked


def stage(engine: Engine, log: Rows, roles: Collection[str], buckets: int) -> Staged:
    """Write the log in buckets by user; events that lack a value in any of the roles go into a folder of their own.

    So do those outside what is to be counted, with a constant for each label: they are looked at for what refuses a log.

    The pass is made once because scanning the source once per bucket costs more. CPU seconds at 5*10^7 events, 16 buckets: CSV
    20 against 52, Parquet of texts 35 against 64; Parquet of integers, 8 buckets: 11 against 14. The engine's own hash
    serves here only: which bucket a user is in does not change any count.
    """
    folder = engine.path("staged")
    without = " OR ".join(f"{SHORT[role]} IS NULL" for role in roles)
    apart = f"WHEN {log.outside} THEN {_OUTSIDE} " if log.outside else ""
    bucket = f"CASE {apart}WHEN {without} THEN {_LEFT_OUT} ELSE CAST(hash(u) % {buckets} AS BIGINT) END"
    bucketed = f"SELECT {_blanked(log, roles)}, {bucket} AS bucket FROM ({log.sql}) AS log"
    options = "FORMAT parquet, COMPRESSION uncompressed, PARTITION_BY (bucket)"  # of texts compression is a third of the cost
    written = engine.run(f"COPY ({bucketed}) TO {literal(str(folder))} ({options})", what=log.what)
    total = int(written[0][0])
    without_inside, left_out, _ = _lacking(engine, folder / f"bucket={_LEFT_OUT}", roles, log.what)
    without_outside, lacking, outside = _lacking(engine, folder / f"bucket={_OUTSIDE}", roles, log.what)
    missing = frozenset(role for role in roles if without_inside[role] + without_outside[role] == total)
    complete = left_out + lacking < total
    return Staged(folder, log.what, buckets, total - outside, without_inside, left_out, total, missing, complete)


def _blanked(log: Rows, roles: Collection[str]) -> str:
    """SQL of the columns, where an event outside keeps of its labels only which it has."""
    if not log.outside:
        return "*"
    blank = "CASE WHEN {0} AND {1} IS NOT NULL THEN '0' ELSE {1} END AS {1}"  # of whatever type the column has
    return f"* REPLACE ({', '.join(blank.format(log.outside, SHORT[role]) for role in roles)})"


def _lacking(engine: Engine, folder: Path, roles: Collection[str], what: str) -> tuple[dict[str, int], int, int]:
    """How many events in a folder lack a value in each role, how many in any, and how many there are."""
    if not folder.exists():
        return dict.fromkeys(roles, 0), 0, 0
    lacks = [f"{SHORT[role]} IS NULL" for role in roles]
    counts = ", ".join(f"count_if({lack})" for lack in (*lacks, " OR ".join(lacks)))
    found = engine.run(f"SELECT {counts}, count(*) FROM {parquet_in(folder)}", what=what)[0]
    return dict(zip(roles, found[:-2], strict=True)), found[-2], found[-1]


def require_events(what: str, roles: Collection[str], *, complete: bool) -> None:
    """Refuse a log in which nothing can be counted."""
    if not complete:
        needed = "a user, an item and a group" if "group" in roles else "both a user and an item"
        columns = " and ".join(f"{role}=" for role in roles)
        raise EventLogError(f"{what} has no event with {needed}: check that {columns} name the columns meant")


def shaped(log: Rows, asked: Asked, amount: Amount | None, window: Window | None) -> Rows:
    """The same events: labels in u, i and g, an amount in v, in `refused` what is malformed, and which are not of the window.

    Those outside are still looked at for all that refuses a log: a refusal is free, and the window is the asker's.
    """
    if not asked.further and amount is None and window is None:
        return log
    columns, bad, sql = _joined(asked), "", log.sql
    if window is not None:
        moment, wall = window.moment(stated("str" if callable(log.kinds) else log.kinds["time"], asked, window, log.what))
        sql = f"SELECT *, {moment} AS moment, {wall} AS wall FROM ({sql})"
        sql = f"SELECT *, moment IS NOT NULL AND NOT ({window.holds('moment', 'wall')}) AS beyond FROM ({sql})"
        columns["t"] = "moment"
        bad = f"WHEN t IS NOT NULL AND moment IS NULL THEN {literal('time')} "
    if amount is not None:
        number = "TRY_CAST(v AS DOUBLE)"
        fits, most = f"coalesce(isfinite({number}), false)", f"{amount.most!r}::DOUBLE"
        columns["v"] = f"CASE WHEN {fits} THEN greatest(-{most}, least({most}, {number})) END"
        bad += f"WHEN v IS NOT NULL AND NOT {fits} THEN {literal('value')} "
    replaced = ", ".join(f"{column} AS {name}" for name, column in columns.items())
    left_out = [*_further(asked), *(() if window is None else ("moment", "wall"))]
    shown = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
    refused = f", CASE {bad}END AS {REFUSED}" if bad else ""
    outside = "" if window is None else f"beyond AND {REFUSED} IS NULL"
    return replace(
        log, sql=f"SELECT {shown} REPLACE ({replaced}){refused} FROM ({sql})", kinds=_labels(log, asked), outside=outside
    )


def refuse_malformed(found: Collection[str | None], asked: Asked, what: str) -> None:
    """Say in which role some event's value is none."""
    if "time" in found:
        raise EventLogError(
            f"time={asked.time!r} of {what} holds something that is no time: write them as in 2024-07-14T08:00:00, with Z or an "
            "offset where they have one; numbers since 1970 need time_unit="
        )
    if "value" in found:
        raise EventLogError(f"value={asked.value!r} of {what} holds something that is no finite number: clean it")


def _further(asked: Asked) -> list[str]:
    return [SHORT[f"item_{number}"] for number in range(2, 2 + len(asked.further))]


def _joined(asked: Asked) -> dict[str, str]:
    """SQL of the item, where it is more than one column."""
    if not asked.further:
        return {}
    names = ["i", *_further(asked)]
    return {"i": " || ',' || ".join(_record(f"CAST({name} AS VARCHAR)") for name in names)}


def _record(text: str) -> str:
    """SQL of a field of a record, as `catalogue.joined` writes it."""
    special, quote, twice = (literal(characters) for characters in ('[,"\r\n]', '"', '""'))
    inside = f"replace({text}, {quote}, {twice})"
    return f"(CASE WHEN {text} = '' OR regexp_matches({text}, {special}) THEN {quote} || {inside} || {quote} ELSE {text} END)"


def stated(kind: Kind, asked: Asked, window: Window, what: str) -> Kind:
    """The kind of the column of times."""
    if kind == "int" and window.unit is None:
        raise EventLogError(f"time={asked.time!r} of {what} holds numbers: say with time_unit= what they count since 1970")
    if kind in ("wall", "instant") and window.unit is not None:
        raise EventLogError(
            f"time_unit={window.unit!r} is for numbers, and time={asked.time!r} of {what} holds times: leave it out"
        )
    return kind


def _labels(log: Rows, asked: Asked) -> Kinds | Settle:
    """The kinds of the columns that hold labels; an item of several columns is text."""
    settle = log.kinds

    def chosen(kinds: Kinds) -> Kinds:
        found = {role: kind for role, kind in kinds.items() if role in ("user", "item", "group")}
        return {**found, "item": "str"} if asked.further else found

    if callable(settle):
        return lambda engine, relation, missing: chosen(settle(engine, relation, missing))
    return chosen(settle)
