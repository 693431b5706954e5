"""Counts and scores that stay in the engine that read the log: a mechanism draws from what it needs of them. Theorem X14."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self, Unpack, cast, final

import numpy as np

from accounting import Relation
from dpselect.choose.second_look import SecondLook
from dpselect.errors import DomainMismatch, EventLogError, InvalidRequest, NoClosedForm
from dpselect.events import counting, spark, staging
from dpselect.events.catalogue import Labels, named
from dpselect.events.contributions import Contributions, Measure, summed
from dpselect.events.counting import Listed, Table, Tally
from dpselect.events.doors.base import Column
from dpselect.events.engine import opened
from dpselect.events.private import ReadReport
from dpselect.events.reading import Options, ProgressCallback, Reading, reading_of, require_items
from dpselect.events.user_counts import Measured, signed
from dpselect.mechanisms.base import Rounds
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Numbers, Scores
from dpselect.selection import Label, Selection, label_key
from dpselect.sensitivity import Sensitivity


@final
class HeldScores(Rounds):
    """Scores that stay in the engine: what a mechanism draws from where `HeldCounts.scores` stand for Scores. Immutable.

    Mechanisms for unknown domains get the highest counts (`LimitedDomain`, `TopStable`, gaps and stable sets) or how many items
    have each count (`SparseHistogram`); those for public domains that draw from groups (`OneshotTopK`, `PeelingTopK`,
    `ReportNoisyMax`, ...) the latter. The items that were drawn are then looked up. The law is that of the dense draw.

    Attributes:
        sensitivity: what one user may change.
        second: how to compute the scores of released candidates anew.
        sums: whether they add up amounts, instead of counting users.
    """

    __slots__ = ("_table", "second", "sensitivity", "sums")

    def __init__(
        self, table: Table, *, sensitivity: Sensitivity, second: SecondLook[Scores] | None = None, sums: bool = False
    ) -> None:
        self._table, self.sensitivity, self.second, self.sums = table, sensitivity, second, sums

    def with_second(self, second: SecondLook[Scores]) -> HeldScores:
        """The same scores with this `second`."""
        return HeldScores(self._table, sensitivity=self.sensitivity, second=second, sums=self.sums)

    def __len__(self) -> int:
        return 1  # a log is one round

    @property
    def domain(self) -> Domain:
        """Either "public" or "observed", as for Scores."""
        return self._table.domain

    @property
    def candidates(self) -> int:
        """Number of candidates.

        Raises:
            DomainMismatch: the domain is observed, where it is private.
        """
        if self._table.names is None:
            raise DomainMismatch("how many items a log has is private: state a public catalogue to count its candidates")
        return len(self._table.names)

    def check(self, mechanism: Any) -> None:
        """Raise unless the mechanism's guarantee covers these scores, and it draws from what the engine can tell.

        Raises:
            SensitivityMismatch, RelationMismatch, DomainMismatch: as for Scores.
            InvalidRequest: it looks at all scores one by one.
            EventLogError, ForeignProcess: the counts are closed, or were held before a fork.
        """
        with self._table.tally.locked():
            pass  # said before anything is charged
        mechanism.covers.require(self.sensitivity)
        if self.domain == "observed":
            mechanism._check_observed()
        choosing = mechanism.mechanism if _looks_again(mechanism) else mechanism
        first = choosing.discovery if hasattr(choosing, "continued") else choosing
        # Of items that are told by their counts neither their order nor the group that they belong to is known.
        if self._reads(first) is None and not (first.traits.ranks_counts and first.traits.of("groups", first)):
            raise InvalidRequest(
                f"{type(first).__name__} looks at all scores of a {self.domain} domain one by one, and these stay in the engine: "
                "read the log into memory, or choose LimitedDomain or SparseHistogram (unknown domain), OneshotTopK or "
                "PeelingTopK (public domain)"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        if self.domain == "public":
            mechanism._check_size(self.candidates)
        mechanism._check_stated()
        mechanism._check_scores(self._local([]))
        if source.constant_work and self._reads(mechanism) is None:
            with self._table.tally.locked():
                sizes = self._table.histogram()[1]
            source.require_drawable(int(sizes.sum()))

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """One selection, with labels and without positions."""
        if _looks_again(mechanism):
            selection = self.release(mechanism.mechanism, source)
            return cast(Selection, mechanism.valued(selection, self._local(selection.labels or ()), source))
        if not hasattr(mechanism, "continued"):
            return self._select(mechanism, source)
        found = self._select(mechanism.discovery, source).labels or ()
        return cast(Selection, mechanism.continued(self._local(found), list(range(len(found))), source))

    def _select(self, mechanism: Any, source: Sampler) -> Selection:
        reads = self._reads(mechanism)
        with self._table.tally.release():
            if reads is None:
                return self._grouped(mechanism, source)
            return cast(Selection, mechanism._select(self._scores(*self._table.highest(reads)), source))

    def _grouped(self, mechanism: Any, source: Sampler) -> Selection:
        values, sizes = self._table.histogram()
        drawn: Selection = mechanism._select(Scores.grouped(values, sizes, sensitivity=self.sensitivity), source)
        ends = list(itertools.accumulate(sizes.tolist(), initial=0))
        chosen = [(group := bisect_right(ends, place) - 1, place - ends[group]) for place in drawn.indices]
        labels = self._table.labels(chosen, values, source)
        order = range(len(labels)) if drawn.ordered else sorted(range(len(labels)), key=lambda at: label_key(labels[at]))
        kept = {"labels": tuple(labels[at] for at in order), "positions": None}
        noisy = None if drawn.values is None else tuple(drawn.values[at] for at in order)
        return drawn.model_copy(update={**kept, "values": noisy})

    def _local(self, labels: Listed) -> Scores:
        """The scores of a few released items."""
        with self._table.tally.locked():
            values = self._table.scores_of(labels)
        return self._scores(labels, values)

    def _scores(self, labels: Listed, values: Numbers) -> Scores:
        # An item with count 0 does not exist, and no mechanism for an observed domain releases it.
        names, numbers = (labels, values) if len(labels) else ([""], np.zeros(1, dtype=np.int64))
        return Scores(numbers, sensitivity=self.sensitivity, labels=names, domain="observed", second=self.second)

    def _reads(self, mechanism: Any) -> int | None:
        """How many of the highest counts the mechanism reads, where it reads no others."""
        return cast(int | None, mechanism.traits.of("reads", mechanism)) if self.domain == "observed" else None

    def law(self, mechanism: Any) -> NoReturn:
        raise NoClosedForm("exact probabilities are for scores in memory: read the log into memory")

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest("these scores stay in the engine: read the log into memory")

    def settled(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest("scores of one log are one round, released by select: select_many is for many")

    def __repr__(self) -> str:
        return f"HeldScores(<hidden>, domain={self.domain!r}, sensitivity={self.sensitivity!r})"


def _looks_again(mechanism: Any) -> bool:
    """Whether its values are counts of a second look: then what it selects can be drawn first."""
    return getattr(mechanism, "mechanism", None) is not None and getattr(mechanism, "clip", None) is not None


class HoldOptions(Options, total=False):
    """The fields of a `Reading` without groups."""

    user: Column
    item: Column | Sequence[Column]


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
        self, catalogue: Labels | None = None, relation: Relation = "add_remove", *, clip: float | None = None
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
        column, measure = ("n", None) if place is None else (f"w{place}", self.clips[place])
        asked: Any = self.within if catalogue is None else catalogue
        names, listed = (None, "") if asked is None else self._listed(asked)
        sums = summed(self.clips) is not None
        return HeldScores(Table(self.tally, column, measure, names, listed), sensitivity=sensitivity, sums=sums)

    def _listed(self, catalogue: Any) -> tuple[Sequence[Label], str]:
        if not isinstance(catalogue, range):
            names = named(catalogue, integers=self.tally.typed)
            with self.tally.locked():
                return names, self.tally.listing(names)
        if not self.tally.integers or not catalogue:
            raise EventLogError(f"catalogue={catalogue!r} must have a member, and the items of the log must be integers")
        return catalogue, ""

    def close(self) -> None:
        """Drop the engine's tables. Scores of them are of no use afterwards. In a fork it does nothing."""
        self.tally.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HeldCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user}, salt={self.salt!r})"


def hold(
    source: str | os.PathLike[str] | object,
    reading: Reading | None = None,
    *,
    progress: ProgressCallback | None = None,
    **options: Unpack[HoldOptions],
) -> HeldCounts:
    """Count as `read` does, with the same arguments, and leave the counts in the engine: for more items than memory holds.

    A Spark DataFrame is counted and held on its cluster, anything else in the embedded engine, on disk (TMPDIR) beyond
    `memory_limit`. A release from `HeldCounts.scores` moves its candidates' counts, and little else, into this process.

    Raises:
        EventLogError: as for `read`; or groups, or sums that may be negative, are asked for.

    Example:
        >>> from pathlib import Path
        >>> import dpselect as dps
        >>> _ = Path("visits.csv").write_text("who,where\\n" + "".join(f"{n},zoo\\n" for n in range(5000)))
        >>> mechanism = dps.LimitedDomain(k=1, kbar=10, epsilon=1.0, delta=1e-6)
        >>> with dps.events.hold("visits.csv", user="who", item="where") as held:
        ...     mechanism.select(held.scores()).labels
        ('zoo',)
    """
    reading = reading_of(reading, dict(options))
    require_items(reading)
    require_holdable(reading)
    return held_counts(*(spark.tally(source, reading) if spark.accepts(source) else _embedded(source, reading, progress)))


def require_holdable(reading: Reading) -> None:
    """Refuse what only counts in memory serve."""
    if reading.group is not None:
        raise EventLogError("group= is for events.read: a release of groups needs the counts of all of them in memory")
    if signed(reading.measures):
        raise EventLogError("sums that may be negative are for events.read: what stays in the engine is counted from 0 up")


def held_counts(tally: Tally, allowed: Contributions) -> HeldCounts:
    """What was tallied under these bounds."""
    limit, salt = (None, None) if allowed.bound is None else (allowed.bound.limit, allowed.bound.salt)
    return HeldCounts(tally, allowed.clips, limit, salt, allowed.within)


def _embedded(source: object, reading: Reading, progress: ProgressCallback | None) -> tuple[Tally, Contributions]:
    with ExitStack() as stack:
        engine = stack.enter_context(opened(reading.memory_limit))
        staged = staging.prepared(engine, source, reading, progress)
        asked = counting.among(reading.contributions(), reading, staged.kinds)
        held = counting.held(engine, staged, asked, progress)
        for what in ("VIEW pairs", "TABLE grouped"):  # nobody asks for them again
            engine.run(f"DROP {what}", what=staged.what)
        return replace(held, drop=stack.pop_all().close), asked
