"""Parts of a log by time: one pass over the source writes each period's events to a folder, from which they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from dpselect.errors import EventLogError
from dpselect.events.private import NotPickled
from dpselect.events.rows import Given, Kinds, Rows, Settle, literal, located
from dpselect.events.windows import boundaries

if TYPE_CHECKING:
    from dpselect.events.engine import Engine

_NONE = -1  # the number of no period


@final
@dataclass(frozen=True, slots=True, repr=False)
class Part(NotPickled):
    """The events of one period, on disk while the block that made it lasts. It may hold none. **Private**."""

    relation: str
    size: int
    what: str
    kinds: Kinds | Settle

    def __repr__(self) -> str:
        return f"Part({self.what!r})"


def accepts(given: Given) -> bool:
    """A part."""
    return isinstance(given.source, Part)


def rows(engine: Engine, given: Given) -> Rows:  # noqa: ARG001 - a door's signature
    """Its events, perhaps none."""
    part: Any = given.source
    return Rows(f"SELECT * FROM {part.relation}", part.size, part.what, part.kinds, may_be_empty=True)


def cut(engine: Engine, log: Rows, given: Given, periods: Sequence[tuple[str, datetime, datetime]]) -> dict[str, Part]:
    """The parts of a log, by the names of their periods, which follow each other without a gap; what is outside is in none.

    Raises:
        EventLogError: it cannot be read, or a time is none.
    """
    assert given.window is not None, "a log is cut by time"
    assert all(one[2] == other[1] for one, other in pairwise(periods)), "an event of a gap would fall to the period before it"
    kind = "str" if callable(log.kinds) else log.kinds["time"]
    moment, wall = given.window.moment(kind)
    starts = [(place, *ends) for place, (_, *ends) in enumerate(boundaries(given.window, periods))]
    listed = ", ".join(f"({place}, true, {on_wall}), ({place}, false, {utc})" for place, on_wall, utc in starts)
    engine.run(f"CREATE TABLE starts AS SELECT * FROM (VALUES {listed}) AS s(period, wall, moment)", what=log.what)
    timed = f"SELECT *, {moment} AS moment, {wall} AS wall FROM ({log.sql})"
    timed = f"SELECT * EXCLUDE (t), t IS NOT NULL AND moment IS NULL AS lost FROM ({timed})"
    kept = f"SELECT * FROM ({timed}) WHERE moment IS NULL OR ({given.window.holds('moment', 'wall')})"
    joined = f"SELECT log.*, coalesce(period, {_NONE}) AS period FROM ({kept}) AS log ASOF LEFT JOIN starts USING (wall, moment)"
    columns = engine.run(f"DESCRIBE SELECT * EXCLUDE (moment, wall, period) FROM ({joined})", what=log.what)
    folder = engine.path("periods")
    copy = f"COPY (SELECT * EXCLUDE (moment, wall) FROM ({joined})) TO {literal(str(folder))}"
    engine.run(f"{copy} (FORMAT parquet, PARTITION_BY (period))", what=log.what)
    _require_times(engine, folder / f"period={_NONE}", given, log.what)
    nothing = f"(SELECT {', '.join(f'CAST(NULL AS {kind}) AS {name}' for name, kind, *_ in columns)} WHERE false)"
    return {name: _part(folder / f"period={place}", nothing, log, name) for place, (name, *_) in enumerate(periods)}


def _require_times(engine: Engine, aside: Path, given: Given, what: str) -> None:
    if aside.exists() and engine.run(f"SELECT bool_or(lost) FROM {_within(aside)}", what=what)[0][0]:
        raise EventLogError(f"time={given.asked.time!r} of {what} holds something that is no time: see time= of events.read")


def _part(folder: Path, nothing: str, log: Rows, name: str) -> Part:
    files = list(folder.glob("*.parquet"))
    size = 4 * sum(file.stat().st_size for file in files)  # Parquet is a few times smaller than text
    settle, what = log.kinds, f"{log.what}, {name}"
    kinds: Kinds | Settle = _untimed(settle) if not callable(settle) else lambda *given: _untimed(settle(*given))
    return Part(_within(folder) if files else nothing, size, what, kinds)


def _untimed(kinds: Kinds) -> Kinds:
    return {role: kind for role, kind in kinds.items() if role != "time"}


def _within(folder: Path) -> str:
    return f"read_parquet({located(folder)[:-1]}/*.parquet', hive_partitioning = false)"
