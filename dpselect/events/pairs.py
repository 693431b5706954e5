"""`pairs`: a log that is read once, and counted as often as one release asks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, Self, TypedDict, Unpack, final

import numpy as np
from numpy.typing import NDArray

from accounting.errors import ForeignProcess
from accounting.process_state import ProcessState
from dpselect.errors import EventLogError
from dpselect.events import counting, spark
from dpselect.events.catalogue import Labels
from dpselect.events.contributions import Contributions, Norm
from dpselect.events.counting import CountedGroups, ItemCounts
from dpselect.events.doors.base import Column
from dpselect.events.engine import opened
from dpselect.events.held import HeldCounts, HoldOptions, held_counts, require_holdable
from dpselect.events.private import NotPickled, ReadReport
from dpselect.events.reader import result
from dpselect.events.reading import ProgressCallback, Reading, reading_of, require_items
from dpselect.events.staging import prepared, told
from dpselect.events.tally import Tally
from dpselect.events.user_counts import EventCounts, GroupCounts

_CLOSED = "the pairs of the log are closed: count them inside the with block, or read the log again with events.pairs"
_FAILED = "the pairs of the log were closed by a count that failed half-way: read the log again with events.pairs"


class Look(TypedDict, total=False):
    """What may differ from one count of the same pairs to the next: fields of `Reading`."""

    max_items_per_user: int | None
    salt: str | None
    clip: float | Sequence[float] | None
    clip_norm: Norm
    within: Labels | None
    groups: Labels | str | os.PathLike[str] | None
    max_groups_per_user: int | None


class _Options(HoldOptions, total=False):
    group: Column | None
    groups: Labels | str | os.PathLike[str] | None
    max_groups_per_user: int | None


_Rows = list[tuple[Any, ...]]
_MAY_DIFFER: Final = frozenset(Look.__annotations__)


class _Kept(Protocol):
    """The pairs in an engine, which whoever makes them closes."""

    def counted(self, reading: Reading) -> tuple[ReadReport, ItemCounts | CountedGroups, Contributions, bool]: ...

    def tally(self, reading: Reading) -> tuple[Tally, Contributions]: ...

    def items(self, reading: Reading) -> NDArray[np.float64]: ...

    def close(self) -> None: ...


@final
class _Embedded:
    """In the embedded engine: in its memory, and on disk what `memory_limit` does not allow."""

    def __init__(self, source: object, reading: Reading, progress: ProgressCallback | None) -> None:
        self._numbers = itertools.count()
        with ExitStack() as stack:
            self._engine = stack.enter_context(opened(reading.memory_limit))
            self._staged = prepared(self._engine, source, reading, progress)
            self._stack = stack.pop_all()
        told(progress, 1, 1)

    def counted(self, reading: Reading) -> tuple[ReadReport, ItemCounts | CountedGroups, Contributions, bool]:
        staged, allowed = self._staged, self._allowed(reading)
        found = counting.count(self._engine, staged, allowed, None)
        return staged.report(found.pairs, int(found.counts.sum())), found, allowed, staged.kinds["item"] == "int"

    def tally(self, reading: Reading) -> tuple[Tally, Contributions]:
        allowed = self._allowed(reading)
        return counting.held(self._engine, self._staged, allowed, None, number=next(self._numbers)), allowed

    def items(self, reading: Reading) -> NDArray[np.float64]:
        return counting.per_user(self._engine, self._staged, self._allowed(reading))

    def close(self) -> None:
        self._stack.close()

    def _allowed(self, reading: Reading) -> Contributions:
        return counting.among(reading.contributions(), reading, self._staged.kinds)


@final
class Pairs(NotPickled):
    """The distinct pairs of users and items of a log, in the engine that read it. Use it in a `with` block: then they go.

    Every count of them is one that `read` gives for the same log: clipped in several ways, within several lists, bounded or not.
    Threads may share it, and count one after the other; a fork of its process may not use it. A count that fails or is
    interrupted closes it.

    Attributes:
        reading: how the log was read, and how it is counted unless a count says otherwise.
    """

    __slots__ = ("_kept", "_state", "reading")

    def __init__(self, kept: _Kept, reading: Reading) -> None:
        self._kept, self.reading = kept, reading
        self._state = ProcessState("", owner="the pairs of a log", remedy="read the log in each process with events.pairs")

    def read(self, **look: Unpack[Look]) -> EventCounts | GroupCounts:
        """The counts, as `dpselect.events.read` gives them.

        Args:
            look: fields of `Reading` that differ in this count; others were settled when the log was read.

        Raises:
            EventLogError: as for `read`; or the pairs are closed.
            ForeignProcess: they were made before a fork.
        """
        reading = self._reading(look)
        with self._count():
            return result(*self._kept.counted(reading))

    def hold(self, **look: Unpack[Look]) -> HeldCounts:
        """The counts, as `dpselect.events.hold` gives them. They go with the pairs, if they are not closed before."""
        reading = self._reading(look)
        require_holdable(reading)
        with self._count():
            tally, allowed = self._kept.tally(reading)
        return held_counts(replace(tally, run=self._while_open(tally.run), drop=partial(self._drop, tally.drop)), allowed)

    def items_per_user(self, within: Labels | None = None) -> NDArray[np.float64]:
        """(users,) how many different items each user has, in rising order; of a list those that it names. **Private.**"""
        reading = self._reading({"within": within})
        with self._count():
            return np.sort(self._kept.items(reading))

    def close(self) -> None:
        """Drop the pairs. In a fork it does nothing."""
        with suppress(ForeignProcess), self._state.locked():
            self._state.value = _CLOSED
            self._kept.close()

    def _reading(self, look: Look) -> Reading:
        if unknown := sorted(set(look) - _MAY_DIFFER):
            raise EventLogError(f"{unknown[0]}= was settled when the pairs were made: state it in events.pairs")
        return self.reading.model_copy(update=look)

    @contextmanager
    def _count(self) -> Iterator[None]:
        with self._state.locked() as ended:
            if ended:
                raise EventLogError(ended)
            self._state.value = _FAILED
            yield
            self._state.value = ""

    def _while_open(self, run: Callable[[str], _Rows]) -> Callable[[str], _Rows]:
        def asked(sql: str) -> _Rows:
            if ended := self._state.value:
                raise EventLogError(ended)
            return run(sql)

        return asked

    def _drop(self, tables: Callable[[], None]) -> None:
        with suppress(ForeignProcess), self._state.locked() as ended:
            if ended != _CLOSED:
                tables()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Pairs(<private figures hidden>)"


def pairs(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Unpack[_Options],
) -> Pairs:
    """Read a log once, and keep its distinct pairs for several counts: of a first step and a second look, of several clips.

    A Spark DataFrame is read and kept on its cluster. Anything else stays in the embedded engine: in memory, and beyond
    `memory_limit` in a temporary folder that only this user can read, which goes as that of `read` does.

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
    reading = reading_of(reading, dict(options))
    require_items(reading)
    kept: _Kept = spark.SparkPairs(source, reading) if spark.accepts(source) else _Embedded(source, reading, progress)
    return Pairs(kept, reading)
