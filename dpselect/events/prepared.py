"""Rows as they are counted: several columns as one item, values as numbers, and only the events of a window of time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from dpselect.errors import EventLogError
from dpselect.events import staging
from dpselect.events.amounts import Amount
from dpselect.events.columns import SHORT, Asked
from dpselect.events.doors.parts import Part, cut
from dpselect.events.engine import Engine, opened
from dpselect.events.report import ReadReport
from dpselect.events.rows import Given, Kind, Kinds, Rows, Settle, literal
from dpselect.events.source import rows
from dpselect.events.staging import Staged
from dpselect.events.windows import Window

ProgressCallback = Callable[[int, int], None]
"""Called with (steps done, steps in all); nothing else about the data is handed over."""
REFUSED = "refused"  # a column: the role whose value is none, for events that make the log malformed


def prepared(engine: Engine, given: Given, buckets: int | None, progress: ProgressCallback | None) -> tuple[Staged, Kinds, int]:
    """The log in buckets on disk, what its labels are, and how many buckets there are.

    Raises:
        EventLogError: it cannot be read as asked, or has no event to count.
    """
    log = shaped(rows(engine, given), given.asked, given.amount, given.window)
    parts = staging.number_of_buckets(buckets, log.size)
    told(progress, 0, parts + 1)
    staged = staging.stage(engine, log, given.asked.roles, parts)
    _require_well_formed(engine, given.asked, staged)
    if callable(log.kinds):
        settled = log.kinds(engine, staged.everything(), staged.missing) if staged.scanned else _text(given.asked)
    else:
        settled = log.kinds
    if not log.may_be_empty:  # a field that no object has was named wrongly: that is said first
        staging.require_events(staged.what, staged.without, complete=staged.complete)
    told(progress, 1, parts + 1)
    return staged, settled, parts


@contextmanager
def split(
    given: Given, periods: Sequence[tuple[str, datetime, datetime]], memory_limit: str | None = None
) -> Iterator[dict[str, Part]]:
    """The events of each period, from one pass over the log, to be read while the block lasts.

    Raises:
        EventLogError: it cannot be read as asked, or a time is none.
    """
    with opened(memory_limit) as engine:
        yield cut(engine, rows(engine, given), given, periods)


def _text(asked: Asked) -> Kinds:
    """The kinds of nothing."""
    return dict.fromkeys(asked.roles, "str")


def told(progress: ProgressCallback | None, done: int, total: int) -> None:
    """Say how far a reading is, to whom it may concern."""
    if progress is not None:
        progress(done, total)


def reported(rows: int, without: Mapping[str, int], left_out: int, pairs: int, kept: int) -> ReadReport:
    """What was read, of which `kept` pairs are counted."""
    return ReadReport(
        rows=rows,
        rows_without_user=without["user"],
        rows_without_item=without["item"],
        rows_without_group=without.get("group", 0),
        rows_left_out=left_out,
        pairs=pairs,
        pairs_left_out=pairs - kept,
    )


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
    parts = [SHORT[f"item_{number}"] for number in range(2, 2 + len(asked.further))]
    left_out = [*parts, *(() if window is None else ("moment", "wall"))]
    shown = f"* EXCLUDE ({', '.join(left_out)})" if left_out else "*"
    refused = f", CASE {bad}END AS {REFUSED}" if bad else ""
    outside = "" if window is None else f"beyond AND {REFUSED} IS NULL"
    return replace(
        log, sql=f"SELECT {shown} REPLACE ({replaced}){refused} FROM ({sql})", kinds=_labels(log, asked), outside=outside
    )


def _require_well_formed(engine: Engine, asked: Asked, staged: Staged) -> None:
    """Refuse a log in which some event's value or time is none: the error names the column and the rule, never the value."""
    aside, what = staged.aside(), staged.what
    if aside is None or (asked.value is None and asked.time is None):
        return
    refuse_malformed({role for (role,) in engine.run(f"SELECT DISTINCT {REFUSED} FROM {aside}", what=what)}, asked, what)


def refuse_malformed(found: Collection[str | None], asked: Asked, what: str) -> None:
    """Say in which role some event's value is none.

    Raises:
        EventLogError: there is such a role.
    """
    if "time" in found:
        raise EventLogError(
            f"time={asked.time!r} of {what} holds something that is no time: write them as in 2024-07-14T08:00:00, with Z or an "
            "offset where they have one; numbers since 1970 need time_unit="
        )
    if "value" in found:
        raise EventLogError(f"value={asked.value!r} of {what} holds something that is no finite number: clean it")


def _joined(asked: Asked) -> dict[str, str]:
    """SQL of the item, where it is more than one column."""
    if not asked.further:
        return {}
    names = ["i", *(SHORT[f"item_{number}"] for number in range(2, 2 + len(asked.further)))]
    return {"i": " || ',' || ".join(_record(f"CAST({name} AS VARCHAR)") for name in names)}


def _record(text: str) -> str:
    """SQL of a field of a record, as `domain.joined` writes it."""
    special, quote, twice = (literal(characters) for characters in ('[,"\r\n]', '"', '""'))
    inside = f"replace({text}, {quote}, {twice})"
    return f"(CASE WHEN {text} = '' OR regexp_matches({text}, {special}) THEN {quote} || {inside} || {quote} ELSE {text} END)"


def stated(kind: Kind, asked: Asked, window: Window, what: str) -> Kind:
    """The kind of the column of times.

    Raises:
        EventLogError: it holds numbers and nobody says of what, or a unit is stated and it holds none.
    """
    if kind == "int" and window.unit is None:
        raise EventLogError(f"time={asked.time!r} of {what} holds numbers: say with time_unit= what they count since 1970")
    if kind in ("wall", "instant") and window.unit is not None:
        raise EventLogError(
            f"time_unit={window.unit!r} is for numbers, and time={asked.time!r} of {what} holds times: leave it out"
        )
    return kind


def _labels(rows: Rows, asked: Asked) -> Kinds | Settle:
    """The kinds of the columns that hold labels; an item of several columns is text."""
    settle = rows.kinds

    def chosen(kinds: Kinds) -> Kinds:
        found = {role: kind for role, kind in kinds.items() if role in ("user", "item", "group")}
        return {**found, "item": "str"} if asked.further else found

    if callable(settle):
        return lambda engine, relation, missing: chosen(settle(engine, relation, missing))
    return chosen(settle)
