"""Parts of a log by time: one pass over the source writes each period's events to a folder, from which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from dpselect.errors import EventLogError
from dpselect.events.doors.base import SHORT, Given, Kinds, Rows, literal, parquet_in
from dpselect.events.private import NotPickled
from dpselect.events.time_window import instant

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

_NONE, _OUTSIDE = -1, -2  # the numbers of no period, and of what is outside the window
_MALFORMED = "v IS NOT NULL AND NOT coalesce(isfinite(TRY_CAST(v AS DOUBLE)), false)"


@final
@dataclass(frozen=True, slots=True, repr=False)
class PeriodEvents(NotPickled):
    """The events of one period, on disk while the block that made it lasts. It may hold none. **Private**."""

    relation: str
    size: int
    what: str
    kinds: Kinds

    def __repr__(self) -> str:
        return f"Part({self.what!r})"


def accepts(given: Given) -> bool:
    return isinstance(given.source, PeriodEvents)


def rows(engine: Engine, given: Given) -> Rows:  # noqa: ARG001 - a door's signature
    """Its events, perhaps none."""
    part: Any = given.source
    return Rows(f"SELECT * FROM {part.relation}", part.size, part.what, part.kinds, may_be_empty=True)


def cut(engine: Engine, log: Rows, given: Given, periods: Sequence[tuple[str, datetime, datetime]]) -> dict[str, PeriodEvents]:
    """The parts of a log, by the names of their periods, which follow each other without a gap; what is outside is in none."""
    assert given.window is not None, "a log is cut by time"
    assert all(instant(one[2]) == instant(other[1]) for one, other in pairwise(periods)), (
        "an event of a gap would fall to the period before it"
    )
    kind = "str" if callable(log.kinds) else log.kinds["time"]
    moment, wall = given.window.moment(kind)
    starts = [(place, given.window.wall(start), instant(start)) for place, (_, start, _) in enumerate(periods)]
    ends = {given.window.wall(end) for *_, end in periods} - {on_wall for _, on_wall, _ in starts}  # of a day that a zone skipped
    listed = ", ".join(
        [f"({place}, true, {on_wall}), ({place}, false, {utc})" for place, on_wall, utc in starts]
        + [f"({_NONE}, true, {on_wall})" for on_wall in ends]
    )
    engine.run(f"CREATE TABLE starts AS SELECT * FROM (VALUES {listed}) AS s(period, wall, moment)", what=log.what)
    bad = "false" if given.asked.value is None else _MALFORMED
    # A malformed value has no period: it refuses all of them, also from outside, so that no refusal tells where it is.
    timed = f"SELECT *, CASE WHEN NOT ({bad}) THEN {moment} END AS moment, {wall} AS wall FROM ({log.sql})"
    timed = f"SELECT * EXCLUDE (t), ({bad}) OR (t IS NOT NULL AND moment IS NULL) AS lost FROM ({timed})"
    inside = f"moment IS NULL OR ({given.window.holds('moment', 'wall')})"
    whole = callable(log.kinds)  # then the events outside are written too: what a log's values are is settled over all of it
    kept = f"SELECT *, {inside} AS inside FROM ({timed}){'' if whole else f' WHERE {inside}'}"
    period = f"CASE WHEN inside THEN coalesce(period, {_NONE}) ELSE {_OUTSIDE} END"
    joined = f"SELECT log.* EXCLUDE (inside), {period} AS period FROM ({kept}) AS log ASOF LEFT JOIN starts USING (wall, moment)"
    columns = engine.run(f"DESCRIBE SELECT * EXCLUDE (moment, wall, period) FROM ({joined})", what=log.what)
    folder = engine.path("periods")
    copy = f"COPY (SELECT * EXCLUDE (moment, wall) FROM ({joined})) TO {literal(str(folder))}"
    engine.run(f"{copy} (FORMAT parquet, PARTITION_BY (period))", what=log.what)
    _require_times(engine, folder / f"period={_NONE}", given, log.what)
    _require_values(engine, folder, given, log.what)
    kinds = _settled(engine, log, given, folder)
    nothing = f"(SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind, *_ in columns)} WHERE false)"
    return {
        name: _part(folder / f"period={place}", nothing, kinds, f"{log.what}, {name}") for place, (name, *_) in enumerate(periods)
    }


def _require_times(engine: Engine, aside: Path, given: Given, what: str) -> None:
    if aside.exists() and engine.run(f"SELECT bool_or(lost) FROM {parquet_in(aside)}", what=what)[0][0]:
        value = "" if given.asked.value is None else f", or value={given.asked.value!r} something that is not a finite number"
        raise EventLogError(f"time={given.asked.time!r} of {what} holds something that is not a time{value}: see events.read")


def _require_values(engine: Engine, folder: Path, given: Given, what: str) -> None:
    if given.asked.value is None or not any(folder.glob("*/*.parquet")):
        return
    if engine.run(f"SELECT bool_or({_MALFORMED}) FROM {parquet_in(folder, '*/*.parquet')}", what=what)[0][0]:
        raise EventLogError(f"value={given.asked.value!r} of {what} holds something that is not a finite number: clean it")


def _settled(engine: Engine, log: Rows, given: Given, folder: Path) -> Kinds:
    """The kinds of every part, once and of the whole log: no period's own rows decide how it is read."""
    settle, found, roles = log.kinds, any(folder.glob("*/*.parquet")), list(given.asked.columns)
    if callable(settle) and found:
        everything = parquet_in(folder, "*/*.parquet")
        held = [role for role in roles if role != "time"]
        counts = ", ".join(f"count({SHORT[role]})" for role in held)
        present = dict(zip(held, engine.run(f"SELECT {counts} FROM {everything}", what=log.what)[0], strict=True))
        present["time"] = sum(each.name != f"period={_NONE}" for each in folder.iterdir())
        kinds = settle(engine, everything, frozenset(role for role in roles if not present[role]))
    else:
        kinds = dict.fromkeys(roles, "str") if callable(settle) else settle
    return {role: kind for role, kind in kinds.items() if role != "time"}


def _part(folder: Path, nothing: str, kinds: Kinds, what: str) -> PeriodEvents:
    files = list(folder.glob("*.parquet"))
    size = 4 * sum(file.stat().st_size for file in files)  # Parquet is a few times smaller than text
    return PeriodEvents(parquet_in(folder) if files else nothing, size, what, kinds)
