"""From a source to distinct pairs in the engine: read, shape, and group in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from dpselect.app.events.contributions import ReadReport, amount_of
from dpselect.app.events.dialect import EMBEDDED, Tables
from dpselect.app.events.engine import EmbeddedTables, Engine, open_engine
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.reading import ProgressCallback, Reading
from dpselect.app.events.rows import OUTSIDE, PeriodEvents, read_events, rows, shape_events
from dpselect.app.events.sources.base import (
    LABELS,
    SHORT,
    Kinds,
    RoleColumns,
    Rows,
    SourceRequest,
    is_condition,
    is_label,
    literal,
    path_sql,
    refusal,
    role_of,
)
from dpselect.app.events.spark import Cluster

_BYTES_PER_BUCKET, _MOST_CHOSEN = 64 * 2**20, 256
_LISTED = 5  # examples
_DATES = (
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d-%b-%Y",
    "%d %b %Y",
)
_TIME_FORMATS = [
    date + clock
    for date in _DATES
    for clock in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
]


@final
@dataclass(frozen=True, slots=True, repr=False)
class Staged(NotPickled):
    """A log in an engine, grouped once. Its figures are private.

    Attributes:
        title: name of the log in messages.
        kinds: types of its labels.
        report: figures of the events to count; pairs are not counted yet.
        without: number of these events that lack each role.
        outside: number of events that the time range or the conditions leave out.
        pairs: SQL of every distinct (u, i), or (u, g, i), that is to be counted; with a
            column summed up, s, the sum. Without an item, every distinct (u), or (u, v), and m, the
            number of its events.
        buckets: number of parts, by user, into which it is cut if that saves memory.
        progress: the callback for the progress of a count.
        layout: how its fields are found, in words, if that is not plain.
        nothing: roles whose columns hold nothing by their types; see `Rows`.
    """

    title: str
    kinds: Kinds
    report: ReadReport
    without: Mapping[str, int]
    outside: int
    pairs: str
    buckets: int
    progress: ProgressCallback | None
    layout: str
    nothing: frozenset[str]

    @property
    def typed(self) -> Kinds:
        """Types of its labels, without columns that hold nothing and so have no type."""
        return {role: kind for role, kind in self.kinds.items() if role not in self.nothing}

    def report_progress(self, done: int, parts: int) -> None:
        """Report the progress, 0 or the grouping and the number of counted parts."""
        if self.progress is not None:
            self.progress(done + (done > 0), parts + 1)


def prepare(
    engine: Engine | Cluster, source: object, reading: Reading, progress: ProgressCallback | None
) -> tuple[Tables, Staged]:
    """The log, grouped in one pass, and the types of its labels.

    The embedded engine holds the groups in memory and spills groups beyond `memory_limit` to files
    in this reading's own folder. A cluster computes them once and keeps them.
    """
    request, amount = reading.request(source), amount_of(reading.measures)
    labels = [SHORT[role] for role in reading.role_columns.roles if is_label(role)]
    log = read_events(engine, request)
    if progress is not None:
        progress(0, 2)
    tables: Tables = EmbeddedTables(engine, log.title) if isinstance(engine, Engine) else engine
    # How many events each group has (m), and what keeps them from being counted (apart). Events
    # outside a window have no labels, so that they are a handful of groups; without one, what an
    # event lacks is among its labels: fewer columns to group by.
    names, by = ", ".join(labels), ", ".join(labels)
    if log.apart == "apart":
        names, by = (
            ", ".join(f"CASE WHEN apart = 0 THEN {name} END AS {name}" for name in labels),
            "ALL",
        )
    total = "" if amount is None else f", {amount.total(tables.dialect)} AS s"
    groups = tables.store_groups(
        f"SELECT {names}, {log.apart} AS apart, count(*) AS m{total} FROM ({log.sql}) GROUP BY"
        f" {by}",
        once=log.once,
    )
    counts = tables.run(f"SELECT apart, CAST(sum(m) AS BIGINT) FROM {groups} GROUP BY apart")
    if (
        isinstance(engine, Engine)
        and engine.tells
        and (bad := {role_of(apart) for apart, _ in counts if apart < 0})
    ):
        role = min(bad, key=list(SHORT).index)
        request.columns.refuse_malformed(
            {role}, log.title, "" if log.once or source == "-" else _examples(engine, request, role)
        )
    # A function of size alone, so that it does not change what is counted.
    buckets = reading.buckets or min(max(1, -(-log.size // _BYTES_PER_BUCKET)), _MOST_CHOSEN)
    columns = ", ".join(labels if amount is None else [*labels, "s"])
    report, without = _report(counts, log, request.columns)
    outside = sum(count for _, count in counts) - report.rows
    staged = Staged(
        log.title,
        log.kinds,
        report,
        without,
        outside,
        f"(SELECT {columns} FROM {groups} WHERE apart = 0)",
        buckets,
        progress,
        log.layout,
        log.nothing,
    )
    return tables, staged


def _examples(engine: Engine, request: SourceRequest, role: str) -> str:
    """Number of bad values of a role in the source, and some of them, for a data owner."""
    options = request.options.model_copy(
        update={"null": (), "split": None, "normalize": (), "where": ()}
    )
    role_columns = request.columns.without(
        [condition for condition in request.columns.by_role if is_condition(condition)]
    )
    plain = replace(request, options=options, columns=role_columns, where=())
    staged = rows(engine, plain)
    log = shape_events(staged, plain, EMBEDDED, role)
    events = f"SELECT apart, raw, row_number() OVER () AS place FROM ({log.sql})"
    sql = (
        f"SELECT raw, place, count(*) OVER () FROM ({events}) WHERE apart = {refusal(role)} ORDER"
        f" BY place LIMIT {_LISTED}"
    )
    engine.run("SET preserve_insertion_order = true", title=log.title)
    bad = engine.run(sql, title=log.title)
    if not bad:
        return ""
    examples = ", ".join(f"{text!r} in event {place:,}" for text, place, _ in bad)
    remedy = ""
    if request.window is not None and role == "time" and staged.kinds["time"] == "str":
        texts = f"SELECT DISTINCT raw AS t FROM ({log.sql}) WHERE raw IS NOT NULL"
        moments = (request.window.moment("str", EMBEDDED, form)[0] for form in _TIME_FORMATS)
        failing = ", ".join(f"count(*) FILTER (WHERE {moment} IS NULL)" for moment in moments)
        (failures,) = engine.run(f"SELECT {failing} FROM ({texts})", title=log.title)
        fitting = [
            form for form, number in zip(_TIME_FORMATS, failures, strict=True) if number == 0
        ]
        remedy = "".join(f"; time_format={form!r} reads all of them" for form in fitting)
    if (
        role == "value"
        and "fields split" in log.layout  # delimited text, which alone takes decimal=
        and all(re.fullmatch("[+-]?[0-9.]+,[0-9]+", text) for text, *_ in bad)
    ):
        remedy = "; decimal=',' reads a comma as the decimal point"
    return (
        f". These are {bad[0][2]:,} of its events, such as {examples}, counted from 1 below the"
        f" header{remedy}"
    )


def _report(
    counts: Sequence[tuple[Any, ...]], log: Rows, role_columns: RoleColumns
) -> tuple[ReadReport, dict[str, int]]:
    """Numbers of events read and left out, from the numbers of those `apart` for each reason.

    A log is refused for missing or malformed values, also outside the time range, because a refusal
    may not depend on it.
    """
    role_columns.refuse_malformed({role_of(apart) for apart, _ in counts if apart < 0}, log.title)
    bits = {role: 1 << place for place, role in enumerate(role_columns.roles)}
    inside = [(apart, count) for apart, count in counts if apart < OUTSIDE]
    without = {
        role: sum(count for apart, count in inside if apart & bit) for role, bit in bits.items()
    }
    report = ReadReport(
        rows=sum(count for _, count in inside),
        rows_left_out=sum(count for apart, count in inside if apart),
        pairs=0,
        pairs_left_out=0,
        **{f"rows_without_{role}": without.get(role, 0) for role in LABELS},
    )
    return report, without


# -- parts of a log by time ------------------------------------------------------------------------


_NONE = -1  # the number of no period


@contextmanager
def split(
    source: object, reading: Reading, periods: Sequence[tuple[str, datetime, datetime]]
) -> Iterator[dict[str, PeriodEvents]]:
    """The events of each period, from one pass over the log, readable during the block.

    Periods follow each other without a gap. Events outside belong to none.
    """
    request = reading.request(source)
    with open_engine(reading.memory_limit) as engine:
        log = read_events(engine, request)
        window = request.window
        assert window is not None, "a log is cut by time"
        assert all(
            window.instant(before[2]) == window.instant(after[1])
            for before, after in pairwise(periods)
        ), "an event of a gap would fall to the period before it"
        starts = [
            (place, window.wall(start), window.instant(start))
            for place, (_, start, _) in enumerate(periods)
        ]
        # of a day that a zone skipped
        ends = {window.wall(end) for *_, end in periods} - {on_wall for _, on_wall, _ in starts}
        listed = ", ".join(
            [
                f"({place}, true, {on_wall}), ({place}, false, {utc})"
                for place, on_wall, utc in starts
            ]
            + [f"({_NONE}, true, {on_wall})" for on_wall in ends]
        )
        engine.run(
            f"CREATE TABLE starts AS SELECT * FROM (VALUES {listed}) AS s(period, wall, t)",
            title=log.title,
        )
        # A malformed value has no period: it refuses all of them, also from outside, so that no
        # refusal tells where it is.
        unplaced = "(apart < 0 OR t IS NULL)"
        inside = f"SELECT * FROM ({log.sql}) WHERE {unplaced} OR ({window.holds('t', 'wall')})"
        columns = [*(SHORT[role] for role in request.columns.roles if role != "time"), "apart"]
        period = f"CASE WHEN {unplaced} THEN {_NONE} ELSE coalesce(period, {_NONE}) END AS period"
        query = (
            f"SELECT {', '.join(columns)}, {period} FROM ({inside}) AS log ASOF LEFT JOIN starts"
            " USING (wall, t)"
        )
        types = engine.run(f"DESCRIBE {query}", title=log.title)
        folder = engine.path("periods")
        engine.run(
            f"COPY ({query}) TO {literal(str(folder))} (FORMAT parquet, PARTITION_BY (period))",
            title=log.title,
        )
        relation = _parquet_in(folder, "*/*.parquet") if any(folder.glob("*/*.parquet")) else ""
        if relation:
            bad = engine.run(
                f"SELECT DISTINCT apart FROM {relation} WHERE apart < 0", title=log.title
            )
            request.columns.refuse_malformed({role_of(row[0]) for row in bad}, log.title)
        nothing = (
            f"(SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind, *_ in types)}"
            " WHERE false)"
        )
        parts = dict[str, PeriodEvents]()
        for place, (name, *_) in enumerate(periods):
            files = list((folder / f"period={place}").glob("*.parquet"))
            # Parquet is a few times smaller than text
            size = 4 * sum(file.stat().st_size for file in files)
            part_relation = _parquet_in(folder / f"period={place}") if files else nothing
            parts[name] = PeriodEvents(
                part_relation, size, f"{log.title}, {name}", log.kinds, log.nothing
            )
        yield parts


def _parquet_in(folder: Path, files: str = "*.parquet") -> str:
    """SQL relation of our own files in a folder, with a literal name but a pattern `files`."""
    return f"read_parquet({path_sql(folder)[:-1]}/{files}', hive_partitioning = false)"
