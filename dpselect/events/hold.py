"""`hold`: from an event log to counts that stay in the engine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, Unpack, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.errors import EventLogError
from dpselect.events import spark, staging
from dpselect.events.amounts import Measure, measures, summed
from dpselect.events.bounding import bounds
from dpselect.events.columns import asked_for
from dpselect.events.counting import Contributions, tally
from dpselect.events.counts import Measured, signed
from dpselect.events.domain import named, typed
from dpselect.events.engine import Engine, opened
from dpselect.events.held import HeldScores
from dpselect.events.prepared import prepared, reported, told
from dpselect.events.reader import Options
from dpselect.events.report import ReadReport
from dpselect.events.rows import Given, Kinds
from dpselect.events.staging import Staged
from dpselect.events.tally import Table, Tally
from dpselect.events.windows import window
from dpselect.selection import Label

_BUCKET = "CAST(hash(i) % 4096 AS BIGINT)"  # the embedded engine's own hash: where an item is looked for decides nothing


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldCounts(Measured):
    """What `hold` found, in the engine that found it. Use it in a `with` block: then the engine's tables go.

    Threads may share it, and release one after the other; a fork of its process may not use it. A release that fails or is
    interrupted closes it.

    Attributes:
        clips: what clipped counts, or sums, are clipped to.
        max_items_per_user: the bound on one user's items, or None.
        salt: what chose the items kept under the bound; None without a bound.
        within: the only items that were looked at, public; None for all.
    """

    tally: Tally
    clips: tuple[Measure, ...]
    max_items_per_user: int | None
    salt: str | None
    within: list[Label] | None

    @property
    def report(self) -> ReadReport:
        """What was read and what was left out, for the data's owner. **Private**."""
        return self.tally.report

    def scores(
        self,
        catalogue: Sequence[Label] | NDArray[np.generic] | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
    ) -> HeldScores:
        """Scores of the items seen, or of a public catalogue, as `EventCounts.scores` gives them; for one release or many.

        Args:
            catalogue: public labels. A `range` is never listed: 10^9 candidates that nobody touched cost nothing.
            relation: what a neighbour is.
            clip: one of those that `hold` was asked for: scores are the clipped counts.

        Raises:
            EventLogError: as for `EventCounts.scores`, or a range for items that are text, or the counts are closed.
            ForeignProcess: they were held before a fork.
        """
        sensitivity = self._sensitivity(clip, relation)
        place = self._place(clip)
        measure = None if place is None else self.clips[place]
        asked: Any = self.within if catalogue is None else catalogue
        names, listed = (None, "") if asked is None else self._listed(asked)
        return HeldScores(
            Table(self.tally, "n" if place is None else f"w{place}", measure, names, listed), sensitivity=sensitivity
        )

    def _listed(self, catalogue: Any) -> tuple[Sequence[Label], str]:
        if not isinstance(catalogue, range):
            names = named(catalogue, integers=self.tally.typed)
            with self.tally.turn():
                return names, self.tally.listing(names)
        if not self.tally.integers or not catalogue:
            raise EventLogError(f"catalogue={catalogue!r} must have a member, and the items of the log must be integers")
        return catalogue, ""

    def close(self) -> None:
        """Drop the engine's tables. Scores of them are of no use afterwards. In a fork it does nothing."""
        self.tally.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HeldCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user}, salt={self.salt!r})"


def hold(
    source: str | os.PathLike[str] | object, *, user: str | int, item: str | int | Sequence[str | int], **options: Unpack[Options]
) -> HeldCounts:
    """Count as `read` does, with the same arguments, and leave the counts in the engine: for more items than memory holds.

    A Spark DataFrame is counted and held on its cluster, anything else in the embedded engine, on disk (TMPDIR) beyond
    `memory_limit`. A release from `HeldCounts.scores` moves its candidates' counts, and little else, into this process.

    Raises:
        EventLogError: as for `read`; or groups, or sums that may be negative, are asked for.
        TypeError: there is no such argument.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text("who,where\\n" + "".join(f"{n},zoo\\n" for n in range(5000)))
        >>> mechanism = dps.LimitedDomain(k=1, kbar=10, epsilon=1.0, delta=1e-6)
        >>> with dps.events.hold("visits.csv", user="who", item="where") as held:
        ...     mechanism.select(held.scores()).labels
        ('zoo',)
    """
    _require_known(options)
    said = options.get("format", "auto"), options.get("header"), options.get("table"), options.get("query")
    value, norm = options.get("value"), options.get("clip_norm", "l2")
    weights = measures(options.get("clip"), norm, value, options.get("value_clip"))
    if signed(weights):
        raise EventLogError("sums that may be negative are for events.read: what stays in the engine is counted from 0 up")
    time, ends = options.get("time"), (options.get("since"), options.get("until"))
    stretch = window(time, *ends, options.get("time_zone", "UTC"), options.get("time_unit"))
    given = Given(source, asked_for(user, item, None, value, time), *said, amount=summed(weights), window=stretch)
    limited, _ = bounds(options.get("max_items_per_user"), None, options.get("salt"))
    allowed = Contributions(limited, weights)
    if spark.accepts(given):
        held, allowed = spark.tally(given, allowed, options.get("within"))
    else:
        held, allowed = _embedded(given, allowed, options)
    limit, salt = (None, None) if limited is None else (limited.limit, limited.salt)
    return HeldCounts(held, weights, limit, salt, allowed.within)


def _require_known(options: Mapping[str, object]) -> None:
    about = [name for name in ("group", "groups", "max_groups_per_user") if name in options]
    if about:
        raise EventLogError(
            f"{about[0]}= is for events.read, which counts groups in memory: a release of groups needs the counts of all of them"
        )
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"hold() got an unexpected keyword argument {min(unknown)!r}")


def _embedded(given: Given, allowed: Contributions, options: Options) -> tuple[Tally, Contributions]:
    buckets, progress, within = options.get("buckets"), options.get("progress"), options.get("within")
    staging.number_of_buckets(buckets, 0)
    with ExitStack() as stack:
        engine = stack.enter_context(opened(options.get("memory_limit")))
        staged, kinds, parts = prepared(engine, given, buckets, progress)
        names = None if within is None else named(within, integers=kinds["item"] == "int")
        asked = replace(allowed, within=names)
        pairs = tally(engine, staged, kinds, asked, buckets=parts, after=lambda number: told(progress, number + 2, parts + 1))
        held = _held(engine, staged, kinds, asked, pairs)
        return replace(held, drop=stack.pop_all().close), asked


def _held(engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, pairs: int) -> Tally:
    what, numbers = staged.what, itertools.count()
    sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
    engine.run(f"CREATE TABLE counted AS SELECT i, {sums} FROM totals GROUP BY i HAVING sum(n) > 0", what=what)
    engine.run("DROP TABLE totals", what=what)
    counted = int(engine.run("SELECT coalesce(sum(n), 0) FROM counted", what=what)[0][0])

    def listing(labels: Sequence[Label]) -> str:
        name = f"listed{next(numbers)}"
        stored = "VARCHAR" if kinds["item"] == "str" else "HUGEINT"
        known = typed(labels, integers=kinds["item"] != "str")
        engine.run(f"CREATE TABLE {name} AS SELECT CAST(unnest(?) AS {stored}) AS i", [known], what=what)
        return name

    return Tally(
        run=lambda sql: engine.run(sql, what=what),
        listing=listing,
        bucket=_BUCKET,
        relation="counted",
        integers=kinds["item"] != "str",
        typed=kinds["item"] == "int",
        report=reported(staged.rows, staged.without, staged.left_out, pairs, counted),
        drop=lambda: None,
    )
