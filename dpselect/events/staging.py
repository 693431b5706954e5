"""From what was given to distinct pairs in the engine: its door reads it, it is shaped to what is counted, one pass groups it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, final

from dpselect.errors import EventLogError
from dpselect.events.contributions import Amount, summed
from dpselect.events.doors import formats, parts, postgresql, tables
from dpselect.events.doors.base import SHORT, Asked, Given, Kind, Kinds, Rows, Settle, Source, literal
from dpselect.events.engine import Engine, opened
from dpselect.events.private import ReadReport, reported
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.time_window import Window

# The narrower before the wider: an address is text, as a path is. A new kind of file goes into `formats.FORMATS` instead.
SOURCES: Final[tuple[Source, ...]] = (parts, tables, postgresql, formats)

REFUSED = "refused"  # a column: the role whose value is malformed, for events that refuse the log
_BYTES_PER_BUCKET = 64 * 2**20
_MOST_CHOSEN = 256
# The bits of events with other text than integers, and of those outside the window, above those of the roles that an event lacks.
_TEXT, _OUTSIDE = 32, 64
_WRITTEN = "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}"  # SQL: false or NULL of any other text
_LOOKED_AT = 1000  # events, before a log's text is taken for written integers


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
@dataclass(frozen=True, slots=True, repr=False)
class Staged:
    """A log in the engine, grouped once. Its figures are private.

    Attributes:
        what: how messages name the log.
        kinds: what its labels are.
        buckets: into how many parts, by user, it is cut where that saves memory.
        stated: whether that was asked for.
        rows, without, left_out: of the events to count: all, those without each role, those without any.
    """

    what: str
    kinds: Kinds
    buckets: int
    stated: bool
    rows: int
    without: Mapping[str, int]
    left_out: int

    def report(self, pairs: int, kept: int) -> ReadReport:
        """What was read, of which `kept` pairs are counted."""
        return reported(self.rows, self.without, self.left_out, pairs, kept)


def prepared(
    engine: Engine,
    source: object,
    reading: Reading,
    progress: ProgressCallback | None,
    *,
    counted: bool = False,
    may_be_empty: bool = False,
) -> Staged:
    """The log grouped in one pass, and what its labels are.

    Makes the view `pairs`: every distinct (u, i), or (u, g, i), that is to be counted; with a column summed up, s, the sum. If
    `counted`, makes the table `totals` (i, n) instead, from the same pass: pairs that nobody asks for again are not kept.

    A log without any event to count is refused unless it `may_be_empty`.

    The engine holds the groups in memory and spills what `memory_limit` does not allow, in files of this reading's own folder.
    """
    given, asked = reading.given(source), reading.asked
    log = shaped(rows(engine, given), asked, given.amount, given.window)
    number = number_of_buckets(reading.buckets, log.size)
    told(progress, 0, 1)
    if log.as_integers:
        log = replace(log, sql=log.as_integers, kinds=dict.fromkeys(asked.roles, "numeral"), untyped=False)
    numerals = _numerals(engine, log, asked)
    if numerals:  # which event has none of them is looked at event by event
        log = replace(log, complete=None)
    table = _grouped(engine, log, reading, numerals, counted=counted)
    figures = _Figures(engine, table, log, asked)
    if figures.text:  # after the events that were looked at: all of it is text
        numerals = frozenset()
        engine.run(f"DROP TABLE {table}", what=log.what)
        table = _grouped(engine, log, reading, numerals, counted=counted)
        figures = _Figures(engine, table, log, asked)
    refuse_malformed(figures.refused, asked, log.what)
    if not callable(log.kinds):
        kinds: Kinds = {**log.kinds, **dict.fromkeys(numerals, "numeral")}
    elif figures.scanned:
        kinds = log.kinds(engine, table, figures.missing)
    else:
        kinds = dict.fromkeys(asked.roles, "str")
    if not (may_be_empty or log.may_be_empty):  # a field that no object has was named wrongly: that is said first
        require_events(log.what, asked.roles, complete=figures.complete)
    if not counted:
        engine.run(f"CREATE VIEW pairs AS {_pairs(log, reading, kinds)}", what=log.what)
    return Staged(log.what, kinds, number, reading.buckets is not None, figures.rows, figures.without, figures.left_out)


def _numerals(engine: Engine, log: Rows, asked: Asked) -> frozenset[str]:
    """The roles whose text seems to be integers, each written as the engine writes it: half as long, and no text to compare."""
    roles = [role for role in asked.roles if role not in ("value", "time")]
    if not log.untyped:
        return frozenset()
    looks = ", ".join(f"bool_and({SHORT[role]} IS NULL OR coalesce({_WRITTEN.format(SHORT[role])}, false))" for role in roles)
    found = engine.run(f"SELECT {looks} FROM (SELECT * FROM ({log.sql}) LIMIT {_LOOKED_AT})", what=log.what)[0]
    return frozenset(role for role, written in zip(roles, found, strict=True) if written)


def _grouped(engine: Engine, log: Rows, reading: Reading, numerals: Collection[str], *, counted: bool) -> str:
    """The table of the groups, with how many events each has (m), and what they lack (apart; 0 for those to count).

    Events outside a window have no labels there, so that they are a handful of groups. A log whose figures are known is not
    counted by events: that takes a third of the time, and of the memory.
    """
    make = engine.run if log.once else engine.group
    asked, apart = reading.asked, _apart(log, reading.asked, numerals)
    labels = [SHORT[role] for role in asked.roles if role not in ("value", "time")]
    if log.complete is not None:
        whole = " AND ".join(f"{name} IS NOT NULL" for name in labels)
        sql = f"SELECT DISTINCT {', '.join(labels)} FROM ({log.sql}) WHERE {whole}"
        table, shown, by = ("totals", "i, count(*) AS n", " GROUP BY i") if counted else ("grouped", "*", "")
        make(f"CREATE TABLE {table} AS SELECT {shown}, CAST(0 AS TINYINT) AS apart FROM ({sql}){by}", what=log.what)
        return table
    others = [f"{SHORT[role]}k" for role in asked.columns if role != "time"] if callable(log.kinds) else []
    if asked.value is not None or asked.time is not None:
        others.append(REFUSED)
    amount = summed(reading.measures)
    total = "" if amount is None else f", sum({amount.fine()}) FILTER (apart = 0) AS s"
    blanked = [f"CASE WHEN apart = 0 THEN {name} END AS {name}" for name in labels] if log.outside else labels
    shown = ", ".join([*blanked, "apart", *others])
    if numerals:
        stored = ", ".join(f"TRY_CAST({SHORT[role]} AS BIGINT) AS {SHORT[role]}" for role in numerals)
        source = f"SELECT * REPLACE ({stored}), {apart} AS apart FROM ({log.sql})"
    else:
        source = f"SELECT *, {apart} AS apart FROM ({log.sql})"
    sql = f"SELECT {shown}, count(*) AS m{total} FROM ({source}) GROUP BY ALL"
    if not counted:
        make(f"CREATE TABLE grouped AS {sql}", what=log.what)
        return "grouped"
    kept = ", ".join(["i", "apart", *others])
    make(f"CREATE TABLE totals AS SELECT {kept}, count(*) AS n, sum(m) AS m FROM ({sql}) GROUP BY ALL", what=log.what)
    return "totals"


def _apart(log: Rows, asked: Asked, numerals: Collection[str]) -> str:
    """SQL of what keeps an event from being counted: a bit for each role that it lacks, and those of `_TEXT` and `_OUTSIDE`."""
    names = {role: SHORT[role] for role in asked.roles}
    fine = [_WRITTEN.format(name) if role in numerals else f"{name} IS NOT NULL" for role, name in names.items()]
    bits = [f"CASE WHEN {name} IS NULL THEN {1 << place} ELSE 0 END" for place, name in enumerate(names.values())]
    bits += [f"CASE WHEN {names[role]} IS NULL OR {_WRITTEN.format(names[role])} THEN 0 ELSE {_TEXT} END" for role in numerals]
    if log.outside:
        fine.append(f"NOT coalesce({log.outside}, false)")
        bits.append(f"CASE WHEN {log.outside} THEN {_OUTSIDE} ELSE 0 END")
    return f"CAST(CASE WHEN {' AND '.join(fine)} THEN 0 ELSE {' + '.join(bits)} END AS TINYINT)"


def _pairs(log: Rows, reading: Reading, kinds: Kinds) -> str:
    # Written numbers reach 2^64 - 1 and -2^63.
    named = ((SHORT[role], kinds[role]) for role in reading.asked.roles if role not in ("value", "time"))
    keys = ", ".join(f"CAST({name} AS HUGEINT) AS {name}" if kind == "digits" else name for name, kind in named)
    counted = "FROM grouped WHERE apart = 0"
    if summed(reading.measures) is None:
        return f"SELECT {keys} {counted}"
    if not callable(log.kinds):
        return f"SELECT {keys}, s {counted}"
    return f"SELECT {keys}, sum(s) AS s {counted} GROUP BY ALL"  # amounts of JSON lines were grouped by their types, too


class _Figures:
    """What the events of a table are, by what they lack; all of it private, or about the whole log.

    Attributes:
        rows, without, left_out: as `Staged` has them.
        scanned, missing, complete: of the whole log, also outside a window: events, roles in which none has a value, and whether
            some event has all of them. What is refused may depend on these, and not on the window.
        refused: roles in which some event is malformed.
        text: whether some event has text where integers were expected.
    """

    def __init__(self, engine: Engine, table: str, log: Rows, asked: Asked) -> None:
        if log.complete is not None:
            found = [(0, None, log.complete)] if log.complete else []
        else:
            refused = "NULL" if asked.value is None and asked.time is None else REFUSED
            found = engine.run(f"SELECT apart, {refused}, CAST(sum(m) AS BIGINT) FROM {table} GROUP BY ALL", what=log.what)
        inside = [(apart, count) for apart, _, count in found if apart < _OUTSIDE]
        bits = {role: 1 << place for place, role in enumerate(asked.roles)}
        self.rows = sum(count for _, count in inside)
        self.without = {role: sum(count for apart, count in inside if apart & bit) for role, bit in bits.items()}
        self.left_out = sum(count for apart, count in inside if apart)
        self.scanned = sum(count for *_, count in found)
        self.missing = frozenset(role for role, bit in bits.items() if all(apart & bit for apart, *_ in found))
        self.complete = any(apart % _OUTSIDE == 0 for apart, *_ in found)
        self.refused = {role for _, role, _ in found}
        self.text = any(apart & _TEXT for apart, *_ in found)


@contextmanager
def split(
    source: object, reading: Reading, periods: Sequence[tuple[str, datetime, datetime]]
) -> Iterator[dict[str, parts.PeriodEvents]]:
    """The events of each period, from one pass over the log, to be read while the block lasts."""
    given = reading.given(source)
    with opened(reading.memory_limit) as engine:
        yield parts.cut(engine, rows(engine, given), given, periods)


def told(progress: ProgressCallback | None, done: int, parts: int) -> None:
    """Say how far a reading is: nothing, or that the log was grouped and this many parts of it are counted."""
    if progress is not None:
        progress(done + (done > 0), parts + 1)


def number_of_buckets(asked: int | None, size: int) -> int:
    """How many buckets to cut; a function of size only, so that it does not change what is counted."""
    return min(max(1, -(-size // _BYTES_PER_BUCKET)), _MOST_CHOSEN) if asked is None else asked


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
        log,
        sql=f"SELECT {shown} REPLACE ({replaced}){refused} FROM ({sql})",
        kinds=_labels(log, asked),
        complete=None,
        as_integers="",
        outside=outside,
    )


def refuse_malformed(found: Collection[str | None], asked: Asked, what: str) -> None:
    """Say in which role some event's value is none."""
    if "time" in found:
        raise EventLogError(
            f"time={asked.time!r} of {what} holds something that is not a time: write times as in 2024-07-14T08:00:00, with Z or "
            "an offset where they have one; numbers since 1970 need time_unit="
        )
    if "value" in found:
        raise EventLogError(f"value={asked.value!r} of {what} holds something that is not a finite number: clean it")


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
