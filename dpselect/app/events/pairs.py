"""`read`, `hold` and `pairs`: users per item in memory, in the engine, and for several counts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, Self, Unpack, final, overload

from accounting.errors import ForeignProcess
from accounting.numbers import Integers
from accounting.process_state import ProcessState
from dpselect.app.events.catalog import Labels
from dpselect.app.events.contributions import Contributions, amount_of, has_signed_sums
from dpselect.app.events.counting import Count
from dpselect.app.events.engine_counts import HeldCounts
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.reading import (
    Options,
    ProgressCallback,
    Reading,
    ReadingKeywords,
    reading_of,
)
from dpselect.app.events.rows import engine_of, read_events
from dpselect.app.events.sources.base import Column
from dpselect.app.events.staging import prepare
from dpselect.app.events.user_counts import EventCounts, GroupCounts
from dpselect.errors import EventLogError
from dpselect.scores import Weigh
from dpselect.selection import Label


@overload
def read(
    source: object,
    *,
    user: Column | Sequence[Column],
    item: Column | Sequence[Column],
    group: None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> EventCounts: ...
@overload
def read(
    source: object,
    *,
    user: Column | Sequence[Column],
    item: Column | Sequence[Column],
    group: Column,
    groups: Labels | str | os.PathLike[str] | None = None,
    max_groups_per_user: int,
    progress: ProgressCallback | None = None,
    **options: Unpack[Options],
) -> GroupCounts: ...
@overload
def read(
    source: object, reading: Reading, *, progress: ProgressCallback | None = None
) -> EventCounts | GroupCounts: ...
def read(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> EventCounts | GroupCounts:
    """Count the distinct users of every item in a log with one row per event.

    Events may be in any order, and pairs may repeat. With `group`, the same pass counts every item
    in every group, for example the most popular items of each city, country or day.

    Args:
        source: path to a file: CSV, TSV or JSON (UTF-8, each may be gzipped) or Parquet. CSV quotes
            as RFC 4180 does; in TSV a double quote is a character like any other. Several paths; a
            pattern (`*`, `?`, `[...]`, `**`), unless there is a file of that very name; a folder of
            Parquet (of others with `format`), where key=value in folders' names are columns of
            text; "-" for standard input, with `format`. A table: pandas, Polars (a LazyFrame is
            streamed), a DuckDB relation (streamed), or any object with `__arrow_c_stream__`, read
            once and in batches. A postgresql:// URL with `table` or `query`.
        reading: options of the reading; or the fields of `Reading` as keywords, which are explained
            there: user, item, clip, max_items_per_user, group, value, time, within, format and
            others. An unknown one is refused.
        progress: called after the log was cut and after each part, with the steps done and the
            steps in all.

    Returns:
        The counts, an `EventCounts`, or a `GroupCounts` with `group`. Labels are int if the
        column's type is one of integers of at most 64 bits (Parquet, tables, databases), and str
        otherwise: always in CSV, TSV, JSON lines and Excel, so that "007" and "7" stay apart.
        Labels of a public list (`within`, `groups`, a catalog) are as that list writes them,
        whatever was read.

    pandas chooses the type of a column by its rows unless one is stated. One row with a text, or an
    integer of more than 64 bits, then makes the labels of all others text. To avoid this, state
    `dtype=str` or `dtype="Int64"` when you make or read the frame.

    Users, items and groups must be integers or text. Wider integers, decimals, enumerations and
    UUIDs are printed. Fractions, booleans, dates and bytes are refused, and so is a column of
    objects that mixes integers and text. Events with a null user, item or group (in CSV and TSV: or
    an empty one) are left out and counted in `.report`. A log with a malformed row is refused
    whole. Blank lines, and empty fields after the last column, are not malformed. A log, a time
    range or a group in which nothing can be counted is read like any other, and so is a column of
    nothing, whatever its type. Fields of JSON lines that no row has are such columns.
    `dpselect check` reports them to people who may see the data.

    The pairs are held in memory during the call. Pairs beyond `memory_limit`, and a copy of a
    packed or streamed source, lie in a temporary folder that only this user can read (TMPDIR). It
    goes with the call, also on SIGTERM and SIGHUP if nothing else handles them. A process that is
    killed leaves it behind.

    Raises:
        EventLogError: an option is wrong, or the log cannot be read. It never quotes the data.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text(
        ...     "who,where\\nann,zoo\\nann,zoo\\nbob,zoo\\nbob,pier\\n"
        ... )
        >>> scores = dps.events.read("visits.csv", user="who", item="where").scores(
        ...     ["zoo", "pier", "park"]
        ... )
        >>> scores.size, scores.domain
        (3, 'public')
    """
    with Pairs(source, reading_of(reading, options), progress, once=True) as log:
        return log.read()


def hold(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Unpack[ReadingKeywords],
) -> HeldCounts:
    """Count as `read` does, and leave the counts in the engine, for more items than memory holds.

    The arguments are those of `read`. A Spark DataFrame is counted and held on its cluster, and
    anything else in the embedded engine, on disk (TMPDIR) beyond `memory_limit`. A release from
    `HeldCounts.scores` moves its candidates' counts, and little else, into this process.

    Raises:
        EventLogError: as for `read`, and for groups or sums that may be negative.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text(
        ...     "who,where\\n" + "".join(f"{n},zoo\\n" for n in range(5000))
        ... )
        >>> mechanism = dps.LimitedDomain(k=1, kbar=10, epsilon=1.0, delta=1e-6)
        >>> with dps.events.hold("visits.csv", user="who", item="where") as held:
        ...     mechanism.select(held.scores()).labels
        ('zoo',)
    """
    log = Pairs(source, _holdable(reading_of(reading, dict(options))), progress, once=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        counts = log.hold()
        stack.pop_all()
    return counts


def _holdable(reading: Reading) -> Reading:
    """Refuse groups and sums that may be negative, which need counts in memory."""
    if reading.group is not None:
        raise EventLogError(
            "group= is for events.read: a release of groups needs the counts of all of them in"
            " memory"
        )
    if has_signed_sums(reading.measures):
        raise EventLogError(
            "sums that may be negative are for events.read: what stays in the engine is counted"
            " from 0 up"
        )
    return reading


_CLOSED = (
    "the pairs of the log are closed. Count them inside the with block, or read the log again with"
    " events.pairs"
)
_FAILED = (
    "the pairs of the log were closed by a count that failed half-way. Read the log again with"
    " events.pairs"
)
# What may differ from one count of the same pairs to the next.
_MAY_DIFFER: Final = frozenset(
    {
        "max_items_per_user",
        "salt",
        "clip",
        "clip_norm",
        "within",
        "groups",
        "max_groups_per_user",
        "cells",
    }
)


@final
class Pairs(NotPickled):
    """The distinct user-item pairs of a log, in the engine that read it. A `with` block drops them.

    Every count of the pairs is one that `read` gives for the same log: clipped in several ways,
    within several lists, bounded or not. Threads may share the pairs and count one after the other,
    but a fork of their process may not use them. A count that fails or is interrupted closes them.

    Each method takes as `look` the fields of `Reading` that differ in this count
    (max_items_per_user, salt, clip, clip_norm, within, groups, max_groups_per_user, cells). The
    others were settled when the log was read. It raises EventLogError as `read` does, or if the
    pairs are closed, and ForeignProcess if they were made before a fork.

    Attributes:
        reading: options of the reading, and of every count that does not change them.
    """

    __slots__ = ("_once", "_stack", "_staged", "_state", "_tables", "reading")

    def __init__(
        self,
        source: object,
        reading: Reading,
        progress: ProgressCallback | None,
        *,
        once: bool = False,
    ) -> None:
        self.reading: Reading = reading
        self._once = once
        self._state = ProcessState(
            "", owner="the pairs of a log", remedy="read the log in each process with events.pairs"
        )
        with ExitStack() as stack:
            engine = stack.enter_context(engine_of(source, reading.memory_limit))
            self._tables, staged = prepare(engine, source, reading, progress)
            if not once:
                staged.report_progress(1, 1)
                staged = replace(staged, progress=None)
            self._staged, self._stack = staged, stack.pop_all()

    def read(self, **look: Unpack[ReadingKeywords]) -> EventCounts | GroupCounts:
        """Counts in memory, as from `dpselect.events.read`."""
        with self._count(self._contributions(look)) as count:
            return count.read()

    def hold(self, **look: Unpack[ReadingKeywords]) -> HeldCounts:
        """Counts in the engine, as from `dpselect.events.hold`, until the pairs are closed."""
        with self._count(self._contributions(look, in_engine=True)) as count, ExitStack() as stack:
            tables = self._tables.another()
            stack.callback(tables.close)
            relation, _, report = count.totals(tables)
            stack.pop_all()
            if self._once:
                self._tables.close()
            counts = HeldCounts(tables, relation, count.kind, count.allowed, report)
            self._stack.callback(counts.drop)
        # another object: what is forgotten unclosed goes at once, and not with a cycle
        return replace(counts, end=self.close) if self._once else counts

    @property
    def integers(self) -> frozenset[str]:
        """Roles of the columns ("user", "item", "group") whose type in the source is an integer."""
        return frozenset(role for role, kind in self._staged.kinds.items() if kind == "int")

    def second_round(self, counts: EventCounts | GroupCounts | HeldCounts) -> Weigh:
        """Return the function that weighs users' items anew, for `SecondLook(weigh=)`.

        It takes labels and a norm, and returns (n,) sums over users in units of 2^-20, which are
        **private**. A user spends an l2 norm of at most that on those of its items that are among
        these, the same on each, and at most 1. A user's items are those that were kept for the
        counts, by their bound and salt and among their list, so an item that occurs in one pass
        occurs in the other (Theorem H13).

        Args:
            counts: counts of the same pairs, read with or without a clip; of cells, if there are
                groups.

        Raises:
            EventLogError: the counts are of groups or sum a column up; or they are clipped without
                a bound on items or a public list of them, so that a user with many items adds 0 to
                each.
        """
        allowed = counts.allowed
        if allowed.groups is not None:
            raise EventLogError("group= is for counts: items of groups are not weighed anew")
        if amount_of(allowed.clips) is not None:
            raise EventLogError(
                "value= sums up a column, and a user may add 0 to an item that it has: such items"
                " are not weighed anew"
            )
        if allowed.clips and allowed.bound is None and allowed.within is None:
            raise EventLogError(
                "clip= leaves 0 of each item of a user with very many, and what nobody adds to does"
                " not occur. State max_items_per_user=, or a public list of items (within=)"
            )

        def weigh(labels: Sequence[Label], norm: float) -> Integers:
            with self._count(allowed) as count:
                return count.weigh(labels, norm)

        return weigh

    def close(self) -> None:
        """Drop the pairs and all counts held of them. In a fork it does nothing."""
        with suppress(ForeignProcess), self._state.lock():
            self._state.value = _CLOSED
            self._stack.close()

    def _contributions(self, look: ReadingKeywords, *, in_engine: bool = False) -> Contributions:
        if unknown := sorted(set(look) - _MAY_DIFFER):
            raise EventLogError(
                f"{unknown[0]}= was settled when the pairs were made. State it in events.pairs"
            )
        reading = self.reading.model_copy(update=look) if look else self.reading
        return (_holdable(reading) if in_engine else reading).contributions()

    @contextmanager
    def _count(self, allowed: Contributions) -> Iterator[Count]:
        with self._state.lock() as ended:
            if ended:
                raise EventLogError(ended)
            self._state.value = _FAILED
            with closing(self._tables.another()) as tables:
                yield Count(self._staged, tables, allowed, self.reading.buckets)
            self._state.value = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Pairs(<private figures hidden>)"


def pairs(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Unpack[ReadingKeywords],
) -> Pairs:
    """Read a log once, and keep its distinct pairs for several counts.

    The counts may be those of a first and a second pass, or have different clips. A Spark DataFrame
    is read and kept on its cluster. Anything else stays in the embedded engine: in memory, and
    beyond `memory_limit` in a temporary folder that only this user can read, which is removed as
    the one of `read` is.

    Args:
        source, reading, progress: as for `read`.

    Raises:
        EventLogError: as for `read`.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text("who,where\\nann,zoo\\nann,pier\\nbob,zoo\\n")
        >>> with dps.events.pairs("visits.csv", user="who", item="where") as visits:
        ...     every, zoo = visits.read(clip=1.0), visits.read(clip=1.0, within=["zoo"])
        >>> every.scores(["zoo"], clip=1.0).values.item() < zoo.scores(clip=1.0).values.item()
        True
    """
    return Pairs(source, reading_of(reading, dict(options)), progress)


def require_columns(source: object, reading: Reading) -> None:
    """Check the public part of a log: the options and the source's existence, header or schema.

    No row is read. The check looks at the header of CSV and TSV (without unpacking more), at the
    footer of Parquet, at a table's columns and types, and at a database's description of its table
    or query. JSON lines, standard input and delimited text without a header have their columns in
    their rows, so the check only opens them. A stream that can be read only once is not checked.

    Raises:
        EventLogError: a release of this log would be refused for what is public, as by `read`.
    """
    with engine_of(source, reading.memory_limit) as engine:
        read_events(engine, replace(reading.request(source), unread=True))
