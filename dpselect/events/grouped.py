"""Distinct users per group and item, with what one user may change about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.events.amounts import Measure
from dpselect.events.counting import PRESENT
from dpselect.events.counts import Measured, require_from_zero, signed
from dpselect.events.domain import named, places
from dpselect.events.report import ReadReport
from dpselect.mechanisms.combine.grouped_scores import GroupedScores
from dpselect.scores import Scores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity

# Stands for the items of a group that has none, and for the groups of a log that has none, with a count of 0: what nobody
# touched is never released.
NOTHING: Label = ""

Build = Callable[[slice], Scores]


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupCounts(Measured):
    """What `read` found where it was asked for groups. Immutable; its repr shows nothing that was read.

    Attributes:
        spans: where the cells of each group lie, by its name: every group that was listed, or those that were seen. **Private**
            unless listed.
        items: the items seen in any group, in order; or those that were asked for. **Private** unless asked for.
        place: (cells,) the place in `items` of each cell's item. **Private**.
        counts: (cells,) distinct users of each cell, after the bounds. **Private**.
        clipped: (clips, cells) sums of users' weights in units of 2^-20, one row per clip. **Private**.
        present: users of each group, each clipped to an l2 norm of 1 over the groups, in units of 2^-20, by name. **Private**.
        clips: what the rows are clipped to, in each group.
        max_items_per_user: the bound on one user's items in each group, or None.
        max_groups_per_user: the bound on one user's groups.
        salt: what chose the groups and items kept, to choose the same again.
        listed: whether the groups were asked for by name, and are no secret.
        public: whether the items were.
        integers: whether the log's type says that items are integers.
        report: what was read and what was left out, for the data's owner. **Private**.
    """

    spans: Mapping[Label, slice]
    items: tuple[Label, ...]
    place: NDArray[np.int64]
    counts: NDArray[np.int64]
    clipped: NDArray[np.int64]
    present: Mapping[Label, int]
    clips: tuple[Measure, ...]
    max_items_per_user: int | None
    max_groups_per_user: int
    salt: str
    listed: bool
    public: bool
    integers: bool
    report: ReadReport

    def scores(
        self,
        catalogue: Sequence[Label] | NDArray[np.generic] | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
    ) -> GroupedScores:
        """Scores of every group, for `PerGroup`; each group's are made when they are looked at.

        Items are those of `EventCounts.scores`: seen in the group, or a public catalogue for all groups. The sensitivity is what
        a user changes within one group: `max_items_per_user` and `clip` hold in each of the user's groups. A group that was
        listed has scores whether somebody was there or not. Without a list which groups there are is private, and the result
        also holds the users per group for the `discovery` of `PerGroup`: one of t groups adds 1/sqrt(t) to each, an l2 norm of
        at most 1.

        Raises:
            EventLogError, InvalidMechanism: as for `EventCounts.scores`.
        """
        sensitivity, values = self._sensitivity(clip, relation), self._values(clip)
        if catalogue is not None or self.public:
            names = self.items if catalogue is None else tuple(named(catalogue, integers=self.integers))
            build = self._of_all(values, sensitivity, names)
        else:
            require_from_zero(self.clips)
            build = self._seen(values, sensitivity)
        presence = None if self.listed else self._presence(relation)
        spans = self.spans or {NOTHING: slice(0, 0)}
        return GroupedScores(_Cells(spans, build), max_groups_per_user=self.max_groups_per_user, presence=presence)

    def _seen(self, values: NDArray[Any], sensitivity: Sensitivity) -> Build:
        """Of the items that were seen in a group."""

        def build(span: slice) -> Scores:
            labels = [self.items[place] for place in self.place[span].tolist()]
            counts = values[span] if labels else np.zeros(1, dtype=values.dtype)
            return Scores(counts, sensitivity=sensitivity, labels=labels or [NOTHING], domain="observed")

        return build

    def _of_all(self, values: NDArray[Any], sensitivity: Sensitivity, names: tuple[Label, ...]) -> Build:
        """Of the same public items in every group."""
        zeros = np.zeros(len(names), dtype=values.dtype)
        nobody = Scores(zeros, sensitivity=sensitivity, labels=names, kind="utilities" if signed(self.clips) else "counts")
        to = places(names, self.items)

        def build(span: slice) -> Scores:
            dense, at = np.zeros(len(names), dtype=values.dtype), to[self.place[span]]
            dense[at[at >= 0]] = values[span][at >= 0]
            return nobody.with_values(dense)

        return build

    def _presence(self, relation: Relation) -> Scores:
        """Users per group, for whoever discovers groups."""
        sensitivity = Sensitivity.of_clipped(PRESENT.clip, PRESENT.norm, relation, self.max_groups_per_user)
        present = self.present or {NOTHING: 0}
        units = np.array(list(present.values()), dtype=np.int64)
        return Scores(PRESENT.as_scores(units), sensitivity=sensitivity, labels=list(present), domain="observed")

    def __repr__(self) -> str:
        bounds = f"max_groups_per_user={self.max_groups_per_user}, max_items_per_user={self.max_items_per_user}"
        return f"GroupCounts(<private figures hidden>, {bounds}, salt={self.salt!r}, clips={[each.clip for each in self.clips]})"


@final
class _Cells(Mapping[Label, Scores]):
    """Scores by group, of which one at a time is in memory."""

    def __init__(self, spans: Mapping[Label, slice], build: Build) -> None:
        self._spans, self._build = spans, build

    def __getitem__(self, group: Label) -> Scores:
        return self._build(self._spans[group])

    def __iter__(self) -> Iterator[Label]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)
