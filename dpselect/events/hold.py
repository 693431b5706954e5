"""`hold`: from an event log to counts that stay in the engine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.errors import EventLogError
from dpselect.events import spark, staging
from dpselect.events.bounding import bound
from dpselect.events.clipping import Norm, clips
from dpselect.events.columns import Asked
from dpselect.events.counting import Contributions, tally
from dpselect.events.counts import place_of, sensitivity_of
from dpselect.events.domain import named
from dpselect.events.doors.files import Format
from dpselect.events.engine import Engine, opened
from dpselect.events.held import HeldScores, Table, Tally
from dpselect.events.private import NotPickled
from dpselect.events.reader import ProgressCallback
from dpselect.events.report import ReadReport
from dpselect.events.rows import Given, Kinds
from dpselect.events.source import rows
from dpselect.events.staging import Staged
from dpselect.scores import Scores
from dpselect.second_look import SecondLook
from dpselect.selection import Label

_BUCKET = "CAST(hash(i) % 4096 AS BIGINT)"  # the embedded engine's own hash: where an item is looked for decides nothing


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldCounts(NotPickled):
    """What `hold` found, in the engine that found it. Use it in a `with` block: then the engine's tables go.

    Attributes:
        max_items_per_user: the bound on one user's items, or None.
        salt: what chose the items kept under the bound; None without a bound.
        report: what was read and what was left out, for the data's owner. **Private**.
    """

    _tally: Tally
    _allowed: Contributions

    @property
    def report(self) -> ReadReport:
        return self._tally.report

    @property
    def max_items_per_user(self) -> int | None:
        return None if self._allowed.bound is None else self._allowed.bound.limit

    @property
    def salt(self) -> str | None:
        return None if self._allowed.bound is None else self._allowed.bound.salt

    def scores(
        self,
        catalogue: Sequence[Label] | NDArray[np.generic] | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
        second: SecondLook[Scores] | None = None,
    ) -> HeldScores:
        """Scores of the items seen, or of a public catalogue, as `EventCounts.scores` gives them; for one release or many.

        Args:
            catalogue: public labels. A `range` is never listed: 10^9 candidates that nobody touched cost nothing.
            relation: what a neighbour is.
            clip: one of those that `hold` was asked for: scores are the clipped counts.
            second: how to compute the scores of released candidates anew.

        Raises:
            EventLogError: as for `EventCounts.scores`, or a range for items that are text.
        """
        sensitivity = sensitivity_of(self._allowed.clips, self.max_items_per_user, clip, relation)
        column = "n" if clip is None else f"w{place_of(self._allowed.clips, clip)}"
        asked: Any = self._allowed.within if catalogue is None else catalogue
        names, listed = (None, "") if asked is None else self._listed(asked)
        return HeldScores(Table(self._tally, column, names, listed), sensitivity=sensitivity, second=second)

    def _listed(self, catalogue: Any) -> tuple[Sequence[Label], str]:
        if not isinstance(catalogue, range):
            names = named(catalogue, integers=self._tally.integers)
            return names, self._tally.listing(names)
        if not self._tally.integers or not catalogue:
            raise EventLogError(f"catalogue={catalogue!r} must have a member, and the items of the log must be integers")
        return catalogue, ""

    def close(self) -> None:
        """Drop the engine's tables. Scores of them are of no use afterwards."""
        self._tally.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HeldCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user}, salt={self.salt!r})"


def hold(
    source: str | os.PathLike[str] | object,
    *,
    user: str | int,
    item: str | int,
    max_items_per_user: int | None = None,
    salt: str | None = None,
    clip: float | Sequence[float] | None = None,
    clip_norm: Norm = "l2",
    within: Sequence[Label] | NDArray[np.generic] | None = None,
    format: Format = "auto",
    header: bool | None = None,
    buckets: int | None = None,
    memory_limit: str | None = None,
    progress: ProgressCallback | None = None,
) -> HeldCounts:
    """Count as `read` does, with the same arguments, and leave the counts in the engine: for more items than memory holds.

    A Spark DataFrame is counted and held on its cluster, anything else in the embedded engine, on disk (TMPDIR) beyond
    `memory_limit`. A release from `HeldCounts.scores` moves its candidates' counts, and little else, into this process.

    Raises:
        EventLogError: as for `read`.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text("who,where\\n" + "".join(f"{n},zoo\\n" for n in range(5000)))
        >>> mechanism = dps.LimitedDomain(k=1, kbar=10, epsilon=1.0, delta=1e-6)
        >>> with dps.events.hold("visits.csv", user="who", item="where") as held:
        ...     mechanism.select(held.scores()).labels
        ('zoo',)
    """
    given = Given(source, Asked(user, item), format, header)
    allowed = Contributions(bound(max_items_per_user, salt), clips(clip, clip_norm))
    if spark.accepts(given):
        return HeldCounts(*spark.tally(given, allowed, within))
    staging.number_of_buckets(buckets, 0)
    with ExitStack() as stack:
        engine = stack.enter_context(opened(memory_limit))
        log = rows(engine, given)
        parts = staging.number_of_buckets(buckets, log.size)
        staged = staging.stage(engine, log, given.asked.columns, parts)
        kinds = log.kinds(engine, staged.everything(), staged.missing) if callable(log.kinds) else log.kinds
        staging.require_events(staged)
        names = None if within is None else named(within, integers=kinds["item"] != "str")
        allowed = replace(allowed, within=names)
        done = progress or (lambda *_: None)
        pairs = tally(engine, staged, kinds, allowed, buckets=parts, after=lambda number: done(number + 2, parts + 1))
        return HeldCounts(_embedded(engine, staged, kinds, allowed, pairs, stack.pop_all().close), allowed)


def _embedded(
    engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, pairs: int, close: Callable[[], None]
) -> Tally:
    what, numbers = staged.what, itertools.count()
    sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
    engine.run(f"CREATE TABLE counted AS SELECT i, {sums} FROM totals GROUP BY i HAVING sum(n) > 0", what=what)
    engine.run("DROP TABLE totals", what=what)
    counted = int(engine.run("SELECT coalesce(sum(n), 0) FROM counted", what=what)[0][0])

    def listing(labels: Sequence[Label]) -> str:
        name = f"listed{next(numbers)}"
        stored = "VARCHAR" if kinds["item"] == "str" else "HUGEINT"
        engine.run(f"CREATE TABLE {name} AS SELECT CAST(unnest(?) AS {stored}) AS i", [labels], what=what)
        return name

    return Tally(
        run=lambda sql: engine.run(sql, what=what),
        listing=listing,
        bucket=_BUCKET,
        relation="counted",
        integers=kinds["item"] != "str",
        report=ReadReport(
            rows=staged.rows,
            rows_without_user=staged.without["user"],
            rows_without_item=staged.without["item"],
            rows_left_out=staged.left_out,
            pairs=pairs,
            pairs_left_out=pairs - counted,
        ),
        close=close,
    )
