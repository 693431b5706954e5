"""From what was given to distinct pairs in the engine: its source reads it, it is shaped to what is counted, one pass groups it.

Or one pass over the source writes each period's events to a folder, from which they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, final

from dpselect.errors import EventLogError
from dpselect.events.contributions import summed
from dpselect.events.engine import Engine, opened
from dpselect.events.file_options import normalized
from dpselect.events.private import Figures, NotPickled
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.sources import databases, formats, postgresql, tables
from dpselect.events.sources.base import LABELS, SHORT, Asked, Given, Kind, Kinds, Rows, is_label, literal, located, not_split
from dpselect.events.where import NUMBER


class Source(Protocol):
    """A module (or object) that reads one kind of source. `SOURCES` lists them; the first that accepts reads."""

    def accepts(self, given: Given) -> bool:
        """Whether this is its kind, by type or name: no row is read, and nothing heavy is imported to tell."""

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The columns that were asked for, as SQL of the engine; whatever an engine raises passes `engine.guarded`.

        Raises:
            EventLogError: it cannot be read, or does not have these columns.
        """


# The narrower before the wider: an address is text, as a path is. A new kind of file goes into `formats.FORMATS` instead.
SOURCES: Final[tuple[Source, ...]] = (postgresql, databases, formats, tables)

_REFUSED = "refused"  # a column: the role whose value is malformed, for events that refuse the log
# The bit of events outside the window, above those of the at most five roles that an event may lack.
OUTSIDE = 32


def rows(engine: Engine, given: Given) -> Rows:
    """The columns of whatever was given, by the first source that accepts it; the events of a period have them already."""
    if isinstance(given.source, PeriodEvents):
        part = given.source
        outside = "beyond" if given.where else ""
        return Rows(f"SELECT * FROM {part.relation}", part.size, part.what, part.kinds, in_memory=True, outside=outside)
    for known in SOURCES:
        if known.accepts(given):
            return _written_alike(engine, _judged(engine, known.rows(engine, given), given), given)
    kind = type(given.source)
    raise EventLogError(
        f"source is a {kind.__module__}.{kind.__qualname__}: give a path or several, a folder or a pattern, a table (pandas, "
        "Polars, DuckDB, or whatever offers an Arrow stream), a postgresql:// address, or '-'"
    )


def _judged(engine: Engine, log: Rows, given: Given) -> Rows:
    """The same events with `kept`, whether one satisfies all conditions, in place of the columns that these are about.

    What cannot be compared as asked is malformed, and refuses the log wherever it stands.
    """
    tests, bad = given.tests(), ""
    if not tests:
        return log
    if log.absent is not None:  # nothing else tells a field that no event has from one that never fits
        shown = ", ".join(f"count({SHORT[role]})" for role in tests)
        present = engine.run(f"SELECT {shown} FROM ({log.sql})", what=log.what)[0]
        log.absent(frozenset(role for role, count in zip(tests, present, strict=True) if count == 0))
    holding = list[str]()
    for role, conditions in tests.items():
        kind = log.kinds[role]
        name = _present(SHORT[role], kind, given)
        text = f"nullif(CAST({name} AS VARCHAR), '')"
        number = f"CASE WHEN regexp_full_match({text}, {literal(NUMBER)}) THEN TRY_CAST({text} AS DOUBLE) END"
        number = f"TRY_CAST({name} AS DOUBLE)" if kind in ("int", "number") else number
        given.require_comparable(role, kind, log.what)
        for one in conditions:
            compared = f"{text} {one.sign} {literal(one.value)}" if one.as_text else f"{number} {one.sign} {one.number!r}::DOUBLE"
            holding.append(f"coalesce({compared}, false)")
        if not all(one.as_text for one in conditions):
            bad += f"WHEN {text} IS NOT NULL AND NOT coalesce(isfinite({number}), false) THEN {literal(role)} "
    left_out = [SHORT[role] for role in tests]
    if bad and log.checked:
        bad, left_out = f"WHEN {_REFUSED} IS NOT NULL THEN {_REFUSED} {bad}", [*left_out, _REFUSED]
    refused = f", CASE {bad}END AS {_REFUSED}" if bad else ""
    sql = f"SELECT * EXCLUDE ({', '.join(left_out)}), {' AND '.join(holding)} AS kept{refused} FROM ({log.sql})"
    kinds = {role: kind for role, kind in log.kinds.items() if role not in tests}
    return replace(log, sql=sql, kinds=kinds, complete=None, checked=log.checked or bool(bad))


def _written_alike(engine: Engine, log: Rows, given: Given) -> Rows:
    """The same events with several items of one field apart, and labels without what stands for none, written as was asked."""
    if not (given.null or given.split or given.normalize):
        return log
    texts = [SHORT[role] for role, kind in log.kinds.items() if kind == "str"]
    if given.split is not None and "i" not in texts:
        raise not_split(given.split, log.what)
    if given.normalize:
        engine.define("normalized", lambda text: normalized(text, given.normalize))

    def written(sql: str) -> str:
        if given.split is not None:
            sql = f"SELECT * REPLACE (unnest(coalesce(string_split(i, {literal(given.split)}), [NULL])) AS i) FROM ({sql})"
        columns = []
        for role, kind in log.kinds.items():
            name = SHORT[role]
            label = _present(name, kind, given)
            if kind == "str":
                label = f"nullif({f'normalized({label})' if given.normalize and name not in ('v', 't') else label}, '')"
            columns.append(f"{label} AS {name}")
        return f"SELECT * REPLACE ({', '.join(columns)}) FROM ({sql})" if columns else sql

    return replace(log, sql=written(log.sql), complete=None, texts=tuple(written(text) for text in log.texts))


def _present(name: str, kind: Kind, given: Given) -> str:
    """SQL of the values of a column that do not stand for a missing one."""
    nulls = ", ".join(map(literal, given.null))
    if not nulls:
        return name
    if kind == "number":
        same = f"list_contains([TRY_CAST(x AS DOUBLE) for x in [{nulls}]], CAST({name} AS DOUBLE))"
        return f"CASE WHEN NOT coalesce({same}, false) THEN {name} END"
    return f"CASE WHEN CAST({name} AS VARCHAR) NOT IN ({nulls}) THEN {name} END"  # also of integers, as they are written


@final
@dataclass(frozen=True, slots=True, repr=False)
class Staged:
    """A log in the engine, grouped once. Its figures are private.

    Attributes:
        what: how messages name the log.
        kinds: what its labels are.
        buckets: into how many parts, by user, it is cut where that saves memory.
        stated: whether that was asked for.
        counted: whether the table `totals` was made.
        figures: of the events to count.
        how: how its fields are found, in words, where that is not plain.
    """

    what: str
    kinds: Kinds
    buckets: int
    stated: bool
    counted: bool
    figures: Figures
    how: str


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

    Makes the view `pairs`: every distinct (u, i), or (u, g, i), that is to be counted; with a column summed up, s, the sum.
    Without an item, every distinct (u), or (u, v), and in how many events it is, m. If `counted`, makes the table `totals` (i, n)
    instead, from the same pass: pairs that nobody asks for again are not kept.

    A log without any event to count is refused unless it `may_be_empty`; a file without any row always is.

    The engine holds the groups in memory and spills what `memory_limit` does not allow, in files of this reading's own folder.
    """
    given, asked = reading.given(source), reading.asked
    log = shaped(rows(engine, given), given)
    report_progress(progress, 0, 1)
    counted = counted and len(log.texts) < 2  # whose users may be written in two ways
    table = _grouped(engine, log, reading, counted=counted)
    # A period in which nobody did anything is released like any other.
    figures = _figures(engine, table, log, asked, may_be_empty=may_be_empty or isinstance(source, PeriodEvents))
    if len(log.texts) > 1:
        refuse_two_spellings(engine, log, asked, table)
    if not counted:
        added = ["m"] if reading.item is None else [] if summed(reading.measures) is None else ["s"]
        engine.run(f"CREATE VIEW pairs AS SELECT {', '.join(_keys(reading) + added)} FROM grouped WHERE apart = 0", what=log.what)
    stated = reading.buckets is not None
    return Staged(log.what, log.kinds, log.buckets(reading.buckets), stated, counted, figures, log.how)


def _grouped(engine: Engine, log: Rows, reading: Reading, *, counted: bool) -> str:
    """The table of the groups, with how many events each has (m), and what they lack (apart; 0 for those to count).

    Events outside a window have no labels there, so that they are a handful of groups. A log whose figures are known is not
    counted by events: that takes a third of the time, and of the memory.
    """
    make = engine.run if log.once else engine.group
    apart, labels = _apart(log, reading.asked), _keys(reading)
    if log.complete is not None:
        whole = " AND ".join(f"{name} IS NOT NULL" for name in labels)
        sql = f"SELECT DISTINCT {', '.join(labels)} FROM ({log.sql}) WHERE {whole}"
        table, shown, by = ("totals", "i, count(*) AS n", " GROUP BY i") if counted else ("grouped", "*", "")
        make(f"CREATE TABLE {table} AS SELECT {shown}, CAST(0 AS TINYINT) AS apart FROM ({sql}){by}", what=log.what)
        return table
    others = [_REFUSED] if log.checked else []
    amount = summed(reading.measures)
    total = "" if amount is None else f", sum({amount.fine()}) FILTER (apart = 0) AS s"
    if log.outside or len(labels) < len(reading.asked.roles):
        blanked = [f"CASE WHEN apart = 0 THEN {name} END AS {name}" for name in labels] if log.outside else labels
        shown = ", ".join([*blanked, "apart", *others])
        sql = f"SELECT {shown}, count(*) AS m{total} FROM (SELECT *, {apart} AS apart FROM ({log.sql})) GROUP BY ALL"
    else:  # what an event lacks is among its labels: fewer columns to group by
        shown = ", ".join(labels + others)
        sql = f"SELECT *, {apart} AS apart FROM (SELECT {shown}, count(*) AS m FROM ({log.sql}) GROUP BY ALL)"
    if not counted:
        make(f"CREATE TABLE grouped AS {sql}", what=log.what)
        return "grouped"
    kept = ", ".join(["i", "apart", *others])
    make(f"CREATE TABLE totals AS SELECT {kept}, count(*) AS n, sum(m) AS m FROM ({sql}) GROUP BY ALL", what=log.what)
    return "totals"


def _apart(log: Rows, asked: Asked) -> str:
    """SQL of what keeps an event from being counted: a bit for each role that it lacks, and `OUTSIDE`."""
    lacks = [(f"{SHORT[role]} IS NULL", 1 << place) for place, role in enumerate(asked.roles)]
    lacks += [(f"coalesce({log.outside}, false)", OUTSIDE)] if log.outside else []
    return f"CAST({' + '.join(f'{bit} * CAST({lack} AS TINYINT)' for lack, bit in lacks)} AS TINYINT)"


def _keys(reading: Reading) -> list[str]:
    """The columns whose distinct values are counted."""
    return [SHORT[role] for role in reading.asked.roles if is_label(role) or (role == "value" and reading.item is None)]


_POINT_ZERO = "'-?[0-9]+[.]0+'"


def refuse_two_spellings(engine: Engine, log: Rows, asked: Asked, staged: str) -> None:
    """Refuse files of which one writes a label 1 and another 1.0: one user would be two.

    pandas writes integers so where one of their column is missing. Within one file they are two labels, as they are written. The
    files are looked at again only if what was `staged` of them has such a label.
    """
    for role in LABELS:
        if role not in asked.columns or log.kinds[role] != "str":
            continue
        name = SHORT[role]
        if not engine.run(f"SELECT coalesce(bool_or({name} LIKE '%.0%'), false) FROM {staged}", what=log.what)[0][0]:
            continue
        tagged = " UNION ALL ".join(f"SELECT {at} AS f, {name} AS l FROM ({sql})" for at, sql in enumerate(log.texts))
        engine.run(
            f"CREATE OR REPLACE TEMP TABLE spelt AS SELECT DISTINCT f, l, split_part(l, '.', 1) AS n FROM ({tagged}) "
            f"WHERE regexp_full_match(l, {_POINT_ZERO})",
            what=log.what,
        )
        if not engine.run("SELECT count(*) FROM spelt", what=log.what)[0][0]:
            continue
        both = f"SELECT 1 FROM ({tagged}) AS t JOIN spelt ON t.l = spelt.n AND t.f <> spelt.f LIMIT 1"
        if engine.run(both, what=log.what):
            raise EventLogError(
                f"{role}={asked.columns[role]!r} of {log.what} is written in two ways: one file has whole numbers, and another "
                "the same with .0, as pandas writes them where one is missing. Write them alike in all files: in pandas, cast "
                "the column to Int64 before it is written"
            )


def _figures(engine: Engine, table: str, log: Rows, asked: Asked, *, may_be_empty: bool) -> Figures:
    """Of the groups of a table; a log is refused by what the events lack and what is malformed, also outside a window: what is
    refused may not depend on that.
    """
    if log.complete is not None:
        found = [(0, None, log.complete)] if log.complete else []
    else:
        refused = _REFUSED if log.checked else "NULL"
        found = engine.run(f"SELECT apart, {refused}, CAST(sum(m) AS BIGINT) FROM {table} GROUP BY ALL", what=log.what)
    asked.refuse_malformed({role for _, role, _ in found}, log.what)
    bits = {role: 1 << place for place, role in enumerate(asked.roles)}
    if log.absent is not None and found:
        log.absent(frozenset(role for role, bit in bits.items() if all(apart & bit for apart, *_ in found)))
    if not (may_be_empty and (found or log.in_memory)):  # what has no column was said first
        asked.require_events(log.what, complete=any(apart % OUTSIDE == 0 for apart, *_ in found))
    inside = [(apart, count) for apart, _, count in found if apart < OUTSIDE]
    without = {role: sum(count for apart, count in inside if apart & bit) for role, bit in bits.items()}
    return Figures(sum(count for _, count in inside), without, sum(count for apart, count in inside if apart))


def report_progress(progress: ProgressCallback | None, done: int, parts: int) -> None:
    """Say how far a reading is: nothing, or that the log was grouped and this many parts of it are counted."""
    if progress is not None:
        progress(done + (done > 0), parts + 1)


def shaped(log: Rows, given: Given) -> Rows:
    """The same events: labels in u, i and g, a number in v, microseconds in t (of the clock on the `wall` or not), in `refused`
    what is malformed, and which are not to be counted: not of the window, or not as conditions want them.

    These are still looked at for all that refuses a log: a refusal is free, and the window and the conditions are the asker's.
    """
    asked, amount, window = given.asked, given.amount, given.window
    plain = asked.item is not None and not asked.further and asked.value is None and window is None and not given.where
    if plain or isinstance(given.source, PeriodEvents):
        return log
    beyond = ["NOT kept"] if given.where else []
    bad, further = "", [SHORT[f"item_{number}"] for number in range(2, 2 + len(asked.further))]
    columns, sql = dict[str, str](), log.sql
    if further:
        columns["i"] = " || ',' || ".join(_record(f"CAST({name} AS VARCHAR)") for name in ["i", *further])
    if window is not None:
        kind = log.kinds["time"]
        given.require_unit(kind, log.what)
        moment, wall = window.moment(kind)
        sql = f"SELECT *, {moment} AS moment, {wall} AS wall FROM ({sql})"
        beyond.append(f"(moment IS NOT NULL AND NOT ({window.holds('moment', 'wall')}))")
        columns["t"] = "moment"
        bad = f"WHEN t IS NOT NULL AND moment IS NULL THEN {literal('time')} "
    if asked.value is not None:
        number = "(TRY_CAST(v AS DOUBLE) + 0.0)"  # no negative zero
        fits, most = f"coalesce(isfinite({number}), false)", math.inf if amount is None else amount.most
        columns["v"] = f"CASE WHEN {fits} THEN greatest('-{most!r}'::DOUBLE, least('{most!r}'::DOUBLE, {number})) END"
        bad += f"WHEN v IS NOT NULL AND NOT {fits} THEN {literal('value')} "
    if beyond:
        sql = f"SELECT *, {' OR '.join(beyond)} AS beyond FROM ({sql})"
    replaced = f" REPLACE ({', '.join(f'{column} AS {name}' for name, column in columns.items())})" if columns else ""
    left_out = [*further, *([] if window is None else ["moment"]), *(["kept"] if given.where else [])]
    if log.checked:
        bad, left_out = f"WHEN {_REFUSED} IS NOT NULL THEN {_REFUSED} {bad}", [*left_out, _REFUSED]
    shown = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
    refused = f", CASE {bad}END AS {_REFUSED}" if bad else ""
    outside = (f"beyond AND {_REFUSED} IS NULL" if bad else "beyond") if beyond else ""
    return replace(
        log,
        sql=f"SELECT {shown}{replaced}{refused} FROM ({sql})",
        kinds={role: "str" if role == "item" and further else kind for role, kind in log.kinds.items() if role in LABELS},
        complete=None,
        checked=bool(bad),
        outside=outside,
    )


def _record(text: str) -> str:
    """SQL of a field of a record, as `catalogue.joined` writes it."""
    special, quote, twice = (literal(characters) for characters in ('[,"\r\n]', '"', '""'))
    inside = f"replace({text}, {quote}, {twice})"
    return f"(CASE WHEN {text} = '' OR regexp_matches({text}, {special}) THEN {quote} || {inside} || {quote} ELSE {text} END)"


# -- parts of a log by time ------------------------------------------------------------------------------------------------


_NONE = -1  # the number of no period


@final
@dataclass(frozen=True, slots=True, repr=False)
class PeriodEvents(NotPickled):
    """The `shaped` events of one period, on disk while the block that made it lasts. It may hold none. **Private**."""

    relation: str
    size: int
    what: str
    kinds: Kinds

    def __repr__(self) -> str:
        return f"PeriodEvents({self.what!r})"


@contextmanager
def split(
    source: object, reading: Reading, periods: Sequence[tuple[str, datetime, datetime]]
) -> Iterator[dict[str, PeriodEvents]]:
    """The events of each period, from one pass over the log, to be read while the block lasts."""
    given = reading.given(source)
    with opened(reading.memory_limit) as engine:
        yield _cut(engine, shaped(rows(engine, given), given), given, periods)


def _cut(engine: Engine, log: Rows, given: Given, periods: Sequence[tuple[str, datetime, datetime]]) -> dict[str, PeriodEvents]:
    """The parts of a log, by the names of their periods, which follow each other without a gap; what is outside is in none."""
    window = given.window
    assert window is not None, "a log is cut by time"
    assert all(window.instant(one[2]) == window.instant(other[1]) for one, other in pairwise(periods)), (
        "an event of a gap would fall to the period before it"
    )
    starts = [(place, window.wall(start), window.instant(start)) for place, (_, start, _) in enumerate(periods)]
    ends = {window.wall(end) for *_, end in periods} - {on_wall for _, on_wall, _ in starts}  # of a day that a zone skipped
    listed = ", ".join(
        [f"({place}, true, {on_wall}), ({place}, false, {utc})" for place, on_wall, utc in starts]
        + [f"({_NONE}, true, {on_wall})" for on_wall in ends]
    )
    engine.run(f"CREATE TABLE starts AS SELECT * FROM (VALUES {listed}) AS s(period, wall, t)", what=log.what)
    # A malformed value has no period: it refuses all of them, also from outside, so that no refusal tells where it is.
    lost = f"({_REFUSED} IS NOT NULL OR t IS NULL)"
    kept = f"SELECT * FROM ({log.sql}) WHERE {lost} OR ({window.holds('t', 'wall')})"
    columns = [*(SHORT[role] for role in given.asked.roles if role != "time"), *(["beyond"] if given.where else []), _REFUSED]
    period = f"CASE WHEN {lost} THEN {_NONE} ELSE coalesce(period, {_NONE}) END AS period"
    joined = f"SELECT {', '.join(columns)}, {period} FROM ({kept}) AS log ASOF LEFT JOIN starts USING (wall, t)"
    types = engine.run(f"DESCRIBE {joined}", what=log.what)
    folder = engine.path("periods")
    engine.run(f"COPY ({joined}) TO {literal(str(folder))} (FORMAT parquet, PARTITION_BY (period))", what=log.what)
    relation = _parquet_in(folder, "*/*.parquet") if any(folder.glob("*/*.parquet")) else ""
    if relation:
        given.asked.refuse_malformed(
            {row[0] for row in engine.run(f"SELECT DISTINCT {_REFUSED} FROM {relation}", what=log.what)}, log.what
        )
    # One with events outside its periods alone is read; one without a whole event is refused, as a reading of all of it is.
    whole = " AND ".join(f"{SHORT[role]} IS NOT NULL" for role in given.asked.roles if is_label(role))
    looked_at = [*([relation] if relation else []), *([] if log.once else [f"({log.sql})"])]
    complete = any(engine.run(f"SELECT 1 FROM {each} WHERE {whole} LIMIT 1", what=log.what) for each in looked_at)
    given.asked.require_events(log.what, complete=complete or log.once)
    if len(log.texts) > 1:
        refuse_two_spellings(engine, log, given.asked, relation)
    nothing = f"(SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind, *_ in types)} WHERE false)"
    parts = dict[str, PeriodEvents]()
    for place, (name, *_) in enumerate(periods):
        files = list((folder / f"period={place}").glob("*.parquet"))
        size = 4 * sum(file.stat().st_size for file in files)  # Parquet is a few times smaller than text
        held = _parquet_in(folder / f"period={place}") if files else nothing
        parts[name] = PeriodEvents(held, size, f"{log.what}, {name}", log.kinds)
    return parts


def _parquet_in(folder: Path, files: str = "*.parquet") -> str:
    """An SQL relation of our own files in this very folder: only its name is taken literally, what follows is a pattern."""
    return f"read_parquet({located(folder)[:-1]}/{files}', hive_partitioning = false)"
