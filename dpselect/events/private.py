"""What objects that hold private counts have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from accounting.arguments import Relation
from dpselect.errors import EventLogError
from dpselect.events.contributions import Contributions, Measure, summed
from dpselect.sensitivity import Sensitivity


class NotPickled:
    """A mixin for values that must not be written out by accident."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private data and is not pickled: read the event log again instead")


@final
@dataclass(frozen=True, slots=True, repr=False)
class ReadReport(NotPickled):
    """Exact figures of one reading. **Every one of them is private**: for the data's owner, never for a release.

    Attributes:
        rows: events in the log.
        rows_without_user: events whose user is null (in CSV and TSV: null or empty).
        rows_without_item: events whose item is null (in CSV and TSV: null or empty).
        rows_without_group: events whose group is null, likewise; 0 where none was asked for.
        rows_left_out: events without any one of these; none of them is counted.
        pairs: distinct (user, item) pairs among the other events; or (user, group, item), of the groups that are looked at.
        pairs_left_out: those dropped by `max_groups_per_user` and `max_items_per_user`.
    """

    rows: int
    rows_without_user: int
    rows_without_item: int
    rows_without_group: int
    rows_left_out: int
    pairs: int
    pairs_left_out: int

    def __repr__(self) -> str:
        return "ReadReport(<private figures hidden>)"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Figures(NotPickled):
    """Of the events to count: how many there are, how many lack each role, and how many lack any. **Private**."""

    rows: int
    without: Mapping[str, int]
    left_out: int

    def report(self, pairs: int, kept: int) -> ReadReport:
        """What was read, of which `kept` of the `pairs` are counted."""
        return ReadReport(
            rows=self.rows,
            rows_without_user=self.without["user"],
            rows_without_item=self.without["item"],
            rows_without_group=self.without.get("group", 0),
            rows_left_out=self.left_out,
            pairs=pairs,
            pairs_left_out=pairs - kept,
        )


class Measured(NotPickled):
    """What was read under bounds and clips, as scores: which numbers, and what one user may change about them."""

    __slots__ = ()
    allowed: Contributions
    counts: NDArray[np.int64]
    clipped: NDArray[np.int64]

    @property
    def clips(self) -> tuple[Measure, ...]:
        """What clipped counts, or sums, are clipped to."""
        return self.allowed.clips

    @property
    def max_items_per_user(self) -> int | None:
        """The bound on one user's items (in each group, where there are groups), or None."""
        return None if self.allowed.bound is None else self.allowed.bound.limit

    @property
    def salt(self) -> str | None:
        """What chose the groups and items kept, to choose the same again; None without a bound."""
        return next((bound.salt for bound in (self.allowed.bound, self.allowed.groups) if bound is not None), None)

    @property
    def public(self) -> bool:
        """Whether the items were asked for by name, and are public."""
        return self.allowed.within is not None

    def _values(self, clip: float | None) -> NDArray[Any]:
        """Counts, clipped counts, or clipped sums, in score units."""
        place = self._place(clip)
        return self.counts if place is None else self.clips[place].as_scores(np.asarray(self.clipped[place]))

    def _sensitivity(self, clip: float | None, relation: Relation) -> Sensitivity:
        place = self._place(clip)
        if place is None:
            return Sensitivity.of_counts(relation, self.max_items_per_user)
        return self.clips[place].sensitivity(relation, self.max_items_per_user)

    def _place(self, clip: float | None) -> int | None:
        if clip is None:
            return None if summed(self.clips) is None else 0
        known = [each.clip for each in self.clips]
        if clip not in known:
            raise EventLogError(f"clip={clip!r} is none of those the log was read with, {known}: read it with clip={clip!r}")
        return known.index(clip)
