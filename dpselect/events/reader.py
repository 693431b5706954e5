"""`read`: from an event log to distinct users per item."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict, Unpack, overload

import numpy as np

from dpselect.errors import EventLogError
from dpselect.events import spark, staging
from dpselect.events.catalogue import Labels, aligned, places, read_catalogue
from dpselect.events.contributions import Contributions, Norm, bounds, measures, summed
from dpselect.events.counting import Counted, CountedGroups, among, count
from dpselect.events.doors.base import Column, Given, asked_for
from dpselect.events.doors.paths import Format
from dpselect.events.engine import opened
from dpselect.events.private import ReadReport, reported
from dpselect.events.staging import ProgressCallback, prepared
from dpselect.events.time_window import Moment, Unit, window
from dpselect.events.user_counts import NOTHING, EventCounts, GroupCounts


class Options(TypedDict, total=False):
    """The options of every reading; see `read`."""

    max_items_per_user: int | None
    salt: str | None
    clip: float | Sequence[float] | None
    clip_norm: Norm
    value: str | int | None
    value_clip: float | tuple[float, float] | None
    time: str | int | None
    since: Moment | None
    until: Moment | None
    time_zone: str
    time_unit: Unit | None
    within: Labels | None
    format: Format
    header: bool | None
    table: str | None
    query: str | None
    buckets: int | None
    memory_limit: str | None
    progress: ProgressCallback | None


@overload
def read(
    source: object, *, user: Column, item: Column | Sequence[Column], group: None = None, **options: Unpack[Options]
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
    **options: Unpack[Options],
) -> GroupCounts: ...
def read(
    source: str | os.PathLike[str] | object,
    *,
    user: str | int,
    item: str | int | Sequence[str | int],
    group: str | int | None = None,
    groups: Labels | str | os.PathLike[str] | None = None,
    max_groups_per_user: int | None = None,
    max_items_per_user: int | None = None,
    salt: str | None = None,
    clip: float | Sequence[float] | None = None,
    clip_norm: Norm = "l2",
    value: str | int | None = None,
    value_clip: float | tuple[float, float] | None = None,
    time: str | int | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    time_zone: str = "UTC",
    time_unit: Unit | None = None,
    within: Labels | None = None,
    format: Format = "auto",
    header: bool | None = None,
    table: str | None = None,
    query: str | None = None,
    buckets: int | None = None,
    memory_limit: str | None = None,
    progress: ProgressCallback | None = None,
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
        user: the column of users: its exact name or, in CSV and TSV, its position (1, "1" and "column0" are the first).
        item: the column of items, likewise. Several columns (at most 8) make up one item: its label is a record of CSV,
            "DE,Berlin", with quotes where a part has a comma, a quote or a line end, or is empty; an event needs all parts.
        group: the column of groups, likewise; None to count the log as a whole.
        groups: the groups to look at, a public list, or a file of them for `read_catalogue`; what is elsewhere takes no place
            under the bound. None takes those of the log, which are private: `PerGroup` then needs a `discovery`.
        max_groups_per_user: keep at most so many groups of each user, chosen as items are, with the group in place of the item;
            needed with `group`. `max_items_per_user` and `clip` then hold within each of a user's groups.
        max_items_per_user: keep at most so many distinct items of each user: those with the smallest
            sha256(length(user) ":" user ":" length(item) ":" item ":" salt), lengths in code points, integers in decimal; ties
            by item. The choice for one user depends on no other user, nor on the order of the log.
        salt: text that makes that choice repeatable; a fresh random one if None. It is recorded in the result.
        clip: also sum up clipped counts, in the same reading: a user with t items (kept under the bound) adds
            min(1, clip/sqrt(t)) to each, so that all of a heavy user's items count in part and its vector has an l2 norm of at
            most `clip`; a number from 2^-10 to 2^11, or several. Weights are rounded down to multiples of 2^-20, sums are exact.
        clip_norm: "l2", or "l1" for weights min(1, clip/t), which pure budgets need.
        value: a column of numbers to sum up in place of counting users: a user's values of an item are added up, the sum is cut
            to `value_clip`, and these are added up over users. Numbers are read as doubles and become whole multiples of 2^-40
            of the largest power of two within the clip, a user's sum one of 2^-24, to the nearest; sums of these are exact.
            NaN, infinities and text that is no number are refused; single numbers beyond 2^40 times that power are cut to it.
        value_clip: C for sums from 0 to C (a user's negative sum counts as 0), or (low, high) with low <= 0 < high, score units.
        time: the column of times, of which only those in [since, until) are read: timestamps, dates, or ISO 8601 text. Those with
            an offset are instants; those without are what a clock in `time_zone` showed. A window without events is read as any
            other, since a refusal would tell: no item has a user. Events outside it are still checked for what is malformed.
        since, until: dates or times; in `time_zone` unless they have an offset. They must be public.
        time_zone: "UTC", "Europe/Berlin" and so on.
        time_unit: what times that are numbers count since 1970 in UTC: "s", "ms" or "us".
        within: look at these items only, public or released before: what a user has beyond them is neither counted nor takes a
            place under the bound. The result has one entry for each, in this order, 0 where nobody touched it.
        format: what a file is; "auto" goes by its name.
        header: whether the first line of CSV or TSV has names. None: it has, unless user and item are both positions.
        table, query: what to read of a database: a table (perhaps schema.table), or an SQL query.
        buckets: into how many parts, by user, the log is cut, 1 to 1024; None goes by size. Changes memory, never the result.
        memory_limit: what the engine may use before it spills to disk, such as "2GiB"; None is 1 GiB.
        progress: called after the log was cut and after each part.

    Returns:
        The counts: `EventCounts`, or `GroupCounts` with `group`. Labels are int if the column's type is integer (Parquet, tables)
        or if all its values are whole numbers (JSON lines), and str otherwise: always in CSV and TSV, so that "007" and "7" stay
        apart. Those of a public list (`within`, `groups`, a catalogue) are as that list writes them, whatever was read.

    Users, items and groups must be integers of at most 64 bits or text (enumerations and UUIDs are text); fractions, booleans,
    dates, bytes and nested values are refused, and so is a column in which integers and text are mixed. Events with a null
    user, item or group (in CSV and TSV: or an empty one) are left out and counted in `.report`. A log with a malformed row is
    refused whole; blank lines, and empty fields after the last column, are not malformed.

    A copy of the columns is held, for the time of the call, in a temporary folder that only this user can read (TMPDIR);
    a process that is killed leaves it behind.

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
    _require_bound(group, groups, max_groups_per_user)
    limited, grouped = bounds(max_items_per_user, max_groups_per_user, salt)
    weights = measures(clip, clip_norm, value, value_clip)
    stretch = window(time, since, until, time_zone, time_unit)
    asked = asked_for(user, item, group, value, time)
    given = Given(source, asked, format, header, table, query, amount=summed(weights), window=stretch)
    known = read_catalogue(groups, item=str(group)) if isinstance(groups, str | os.PathLike) else groups
    staging.number_of_buckets(buckets, 0)
    allowed = Contributions(limited, weights, groups=grouped)
    if spark.accepts(given):
        tally, allowed, collected = spark.count(given, allowed, within, known)
        return _result(tally.report, collected, allowed, integers=tally.integers)
    with opened(memory_limit) as engine:
        staged, kinds = prepared(engine, given, buckets, progress)
        allowed = among(allowed, within, known, kinds)
        counted = count(engine, staged, kinds, allowed, progress)
    report = reported(staged.rows, staged.without, staged.left_out, counted.pairs, int(counted.counts.sum()))
    return _result(report, counted, allowed, integers=kinds["item"] == "int")


def _require_bound(group: object, groups: object, most: int | None) -> None:
    if group is None and (groups is not None or most is not None):
        raise EventLogError("groups and max_groups_per_user are about the column group=: name it, or leave them out")
    if group is not None and most is None:
        raise EventLogError(
            "group= needs max_groups_per_user: a release costs so many times what it costs for one group, and a user in any "
            "number of groups could not be hidden"
        )


def _grouped(report: ReadReport, counted: CountedGroups, allowed: Contributions, *, integers: bool) -> GroupCounts:
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


def _result(
    report: ReadReport, counted: Counted | CountedGroups, allowed: Contributions, *, integers: bool
) -> EventCounts | GroupCounts:
    if isinstance(counted, CountedGroups):
        return _grouped(report, counted, allowed, integers=integers)
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
