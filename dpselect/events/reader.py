"""`read`: from an event log to distinct users per item."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Unpack, overload

import numpy as np

from dpselect.events import spark
from dpselect.events.catalogue import Labels, aligned, places
from dpselect.events.contributions import Contributions
from dpselect.events.counting import CountedGroups, ItemCounts, among, count, counted_at_once
from dpselect.events.doors.base import Column
from dpselect.events.engine import opened
from dpselect.events.private import ReadReport
from dpselect.events.reading import Options, ProgressCallback, Reading, reading_of, require_items
from dpselect.events.staging import prepared
from dpselect.events.user_counts import NOTHING, EventCounts, GroupCounts


@overload
def read(
    source: object,
    *,
    user: Column,
    item: Column | Sequence[Column],
    group: None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> EventCounts: ...
@overload
def read(
    source: object,
    *,
    user: Column,
    item: Column | Sequence[Column],
    group: Column,
    groups: Labels | str | os.PathLike[str] | None = None,
    max_groups_per_user: int,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> GroupCounts: ...
@overload
def read(source: object, reading: Reading, *, progress: ProgressCallback | None = None) -> EventCounts | GroupCounts: ...
def read(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> EventCounts | GroupCounts:
    """Count the distinct users of every item in a log with one row per event, in any order, repeated pairs included.

    With `group`, of every item in every group, in the same pass: the most popular items of each city, country or day.

    Args:
        source: path to a file: CSV, TSV or JSON lines (UTF-8, each may be gzipped) or Parquet. CSV quotes as RFC 4180 does; in
            TSV a double quote is a character like any other. Several paths; a pattern (`*`, `?`, `[...]`, `**`), unless there is
            a file of that very name; a folder of Parquet (of others with `format`), where key=value in folders' names are columns
            of text; "-" for standard input, with `format`. A table: pandas, Polars (a LazyFrame is streamed), a DuckDB relation
            (streamed), or any object with `__arrow_c_stream__`, read once and in batches. A postgresql:// URL with `table` or
            `query`.
        reading: how it is read; or the fields of `Reading` as keywords, which are explained there: user, item, clip,
            max_items_per_user, group, value, time, within, format and others. An unknown one is refused.
        progress: called after the log was cut and after each part, with the steps done and the steps in all.

    Returns:
        The counts: `EventCounts`, or `GroupCounts` with `group`. Labels are int if the column's type is integer (Parquet, tables)
        or if all its values are whole numbers (JSON lines), and str otherwise: always in CSV and TSV, so that "007" and "7" stay
        apart. Those of a public list (`within`, `groups`, a catalogue) are as that list writes them, whatever was read.

    Users, items and groups must be integers of at most 64 bits or text (enumerations and UUIDs are text); fractions, booleans,
    dates, bytes and nested values are refused, and so is a column in which integers and text are mixed. Events with a null
    user, item or group (in CSV and TSV: or an empty one) are left out and counted in `.report`. A log with a malformed row is
    refused whole; blank lines, and empty fields after the last column, are not malformed.

    The pairs are held in memory for the time of the call. What `memory_limit` does not allow, and a copy of what is packed or
    streamed, lie in a temporary folder that only this user can read (TMPDIR). It goes with the call, also on SIGTERM and SIGHUP
    if nothing else handles them; a process that is killed leaves it behind.

    Raises:
        EventLogError: what was asked for is wrong or cannot be read, or no event can be counted. It never quotes the data.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text("who,where\\nann,zoo\\nann,zoo\\nbob,zoo\\nbob,pier\\n")
        >>> scores = dps.events.read("visits.csv", user="who", item="where").scores(["zoo", "pier", "park"])
        >>> scores.size, scores.domain
        (3, 'public')
    """
    reading = reading_of(reading, options)
    require_items(reading)
    if spark.accepts(source):
        log = spark.SparkPairs(source, reading, computed=False)
        try:
            return result(*log.counted(reading))
        finally:
            log.close()
    plain = reading.max_items_per_user is None and reading.group is None and not reading.measures
    with opened(reading.memory_limit) as engine:
        staged = prepared(engine, source, reading, progress, counted=plain)
        allowed = among(reading.contributions(), reading, staged.kinds)
        counted = counted_at_once(engine, staged, allowed, progress) if plain else count(engine, staged, allowed, progress)
    return result(staged.report(counted.pairs, int(counted.counts.sum())), counted, allowed, staged.kinds["item"] == "int")


def _grouped(report: ReadReport, counted: CountedGroups, allowed: Contributions, integers: bool) -> GroupCounts:
    groups, spans = counted.groups, [slice(start, end) for start, end in pairwise(counted.starts.tolist())]
    if allowed.listed is not None:
        groups = allowed.listed
        spans = [spans[at] if at >= 0 else slice(0, 0) for at in places(counted.groups, allowed.listed).tolist()]
    items, place = counted.items, counted.item
    if allowed.within is not None:
        items, place = allowed.within, places(allowed.within, counted.items)[place]
    for held in (place, counted.counts, counted.clipped):
        held.setflags(write=False)
    assert allowed.groups is not None, "groups were counted"
    return GroupCounts(
        spans=dict(zip(groups, spans, strict=True)),
        items=tuple(items),
        place=place,
        counts=counted.counts,
        clipped=counted.clipped,
        present=dict(zip(counted.groups, counted.present.tolist(), strict=True)),
        clips=allowed.clips,
        max_items_per_user=None if allowed.bound is None else allowed.bound.limit,
        max_groups_per_user=allowed.groups.limit,
        salt=allowed.groups.salt,
        listed=allowed.listed is not None,
        public=allowed.within is not None,
        integers=integers,
        report=report,
    )


def result(
    report: ReadReport, counted: ItemCounts | CountedGroups, allowed: Contributions, integers: bool
) -> EventCounts | GroupCounts:
    """What was counted, as it is handed out."""
    if isinstance(counted, CountedGroups):
        return _grouped(report, counted, allowed, integers)
    names, limited, counts, clipped = allowed.within, allowed.bound, counted.counts, counted.clipped
    if names is not None:
        counts, clipped = aligned(counted.labels, counts, names), aligned(counted.labels, clipped, names)
    labels = counted.labels if names is None else names
    if not labels:  # of a period without events
        labels, counts, clipped = [NOTHING], np.zeros(1, dtype=np.int64), np.zeros((len(allowed.clips), 1), dtype=np.int64)
    counts.setflags(write=False)
    clipped.setflags(write=False)
    return EventCounts(
        labels=tuple(labels),
        counts=counts,
        clipped=clipped,
        clips=allowed.clips,
        max_items_per_user=None if limited is None else limited.limit,
        salt=None if limited is None else limited.salt,
        public=names is not None,
        integers=integers,
        report=report,
    )
