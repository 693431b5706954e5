"""Distinct users per item, or per group and item, with their sensitivity to one user."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import Integers
from accounting.relations import Relation
from dpselect.app.events.catalog import Labels, align_sums, catalog_labels, places
from dpselect.app.events.contributions import (
    PRESENT,
    Contributions,
    Measure,
    Measured,
    ReadReport,
    amount_of,
    has_signed_sums,
)
from dpselect.errors import EventLogError
from dpselect.mechanisms.per_group import GroupedScores
from dpselect.scores import Domain, Kind, Scores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class EventCounts(Measured):
    """Counts from `read`, without groups. Immutable; its repr shows nothing that was read.

    Attributes:
        labels: (m,) the items seen, in order: integers by value, text by code point; or the listed
            items. **Private**.
        counts: (m,) distinct users of each, after the bound. **Private**.
        clipped: (clips, m) sums of users' weights in units of 2^-20, one row per clip; or (1, m)
            sums of users' amounts of a column, in units of `clips[0].unit`. **Private**.
        allowed: the contribution bounds of one user, and the listed items.
        report: figures of the reading, for the data's owner. **Private**.
    """

    labels: tuple[Label, ...]
    counts: Integers
    clipped: Integers
    allowed: Contributions
    report: ReadReport

    @classmethod
    def from_sums(
        cls,
        allowed: Contributions,
        report: ReadReport,
        labels: Sequence[Label],
        sums: Integers,
    ) -> Self:
        """Counts from the items in order, their users, and sums of weights (1 + clips, items)."""
        if allowed.within is not None:
            labels, sums = allowed.within, align_sums(labels, sums, allowed.within)
        sums.setflags(write=False)
        return cls(tuple(labels), sums[0], sums[1:], allowed, report)

    def scores(
        self,
        catalog: Labels | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
    ) -> Scores:
        """Scores of the items seen, or of a public catalog.

        Without a catalog the domain is "observed", because it is private which items occur, and
        items are in order of their labels. It is "public" if `read` was given the items to look at.
        With a catalog it is "public" too, with one score per label in the catalog's order, 0 for an
        item nobody touched, and items outside it left out. Labels are released as the catalog
        writes them, and matched as the log's type: 7 and "7" mean the item 7 of a column of
        integers, and "7" of a column of text. A label that is not an integer matches no item of a
        column of integers.

        The sensitivity of distinct-user counts is that one user changes every count by at most 1
        (theory, conventions). Under "add_remove" all changes have one sign, and under a bound of L
        items at most L counts change. Under "replace_one" one user's items leave and another's
        come: not monotone, and at most 2 L counts change. With `clip`, which must be a clip of the
        reading, scores are the clipped counts, and a user's change has at most that norm. If a log
        was read with `value`, scores are the clipped sums, and their sensitivity is
        `Sensitivity.of_sums`; sums that may be negative need a public domain.

        Raises:
            EventLogError: the catalog is empty, names an item twice, or holds something that is
                neither an integer nor text; the log was not read with this clip; or sums may be
                negative and the domain is not public.
            InvalidMechanism: `relation` is neither "add_remove" nor "replace_one".
        """
        values, sensitivity = self._values(clip), self._sensitivity(clip, relation)
        names = self.labels
        if catalog is not None:
            names = tuple(catalog_labels(catalog, normalize=self.allowed.normalize))
            values = align_sums(self.labels, values, names)
        domain: Domain = "public" if self.public or catalog is not None else "observed"
        if domain == "observed":
            _require_from_zero(self.clips)
        kind: Kind = "utilities" if has_signed_sums(self.clips) else "counts"
        sums = amount_of(self.clips) is not None
        return Scores(
            values, sensitivity=sensitivity, labels=names, domain=domain, kind=kind, sums=sums
        )

    def __repr__(self) -> str:
        options = f"max_items_per_user={self.max_items_per_user}, salt={self.salt!r}"
        clips = f", clips={[clip.clip for clip in self.clips]}" if self.clips else ""
        return f"EventCounts(<private figures hidden>, {options}{clips})"


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupCounts(Measured):
    """Counts from `read`, with groups. Immutable; its repr shows nothing that was read.

    Attributes:
        spans: slice of the cells of each group, by its name, for every listed group, or for the
            groups seen. **Private** unless listed.
        items: the items seen in any group, in order; or the listed items. **Private** unless
            listed.
        place: (cells,) the place in `items` of each cell's item. **Private**.
        counts, clipped: (cells,) and (clips, cells), as of `EventCounts`. **Private**.
        present: users of each group, each clipped to an l2 norm of 1 over the groups, in units of
            2^-20, by name. **Private**.
        allowed, report: as of `EventCounts`.
    """

    spans: Mapping[Label, slice]
    items: tuple[Label, ...]
    place: Integers
    counts: Integers
    clipped: Integers
    present: Mapping[Label, int]
    allowed: Contributions
    report: ReadReport

    @classmethod
    def from_sums(
        cls,
        allowed: Contributions,
        report: ReadReport,
        labels: tuple[list[Label], list[Label]],
        cells: tuple[Integers, Integers],
        sums: Integers,
        present: Integers,
    ) -> Self:
        """Counts from groups and items in order, cells' places and sums, and users per group."""
        (groups, items), (group, place) = labels, cells
        starts = np.searchsorted(group, np.arange(len(groups) + 1)).tolist()
        spans = dict(zip(groups, itertools.starmap(slice, itertools.pairwise(starts)), strict=True))
        if allowed.listed is not None:
            positions = places(groups, allowed.listed).tolist()
            spans = {
                name: spans[groups[index]] if index >= 0 else slice(0, 0)
                for name, index in zip(allowed.listed, positions, strict=True)
            }
        if allowed.within is not None:
            items, place = allowed.within, places(allowed.within, items)[place]
        for array in (place, sums):
            array.setflags(write=False)
        presence = dict(zip(groups, present.tolist(), strict=True))
        return cls(spans, tuple(items), place, sums[0], sums[1:], presence, allowed, report)

    @property
    def listed(self) -> bool:
        """True if the groups are public because the caller listed them."""
        return self.allowed.listed is not None

    @property
    def max_groups_per_user(self) -> int:
        """The bound on one user's groups."""
        assert self.allowed.groups is not None, "groups were counted"
        return self.allowed.groups.limit

    def scores(
        self,
        catalog: Labels | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
    ) -> GroupedScores:
        """Scores of every group, for `PerGroup`. A group's scores are made when they are looked at.

        Items are those of `EventCounts.scores`: seen in the group, or a public catalog for all
        groups. The sensitivity is a user's change within one group, because `max_items_per_user`
        and `clip` hold in each of the user's groups. A listed group has scores whether anybody was
        there or not. Without a list, it is private which groups there are, and the result also
        holds the users per group for the `discovery` of `PerGroup`. A user of t groups adds
        1/sqrt(t) to each, an l2 norm of at most 1.
        """
        sensitivity, names = self._sensitivity(clip, relation), None
        if catalog is not None or self.public:
            candidates = self.items if catalog is None else catalog
            names = tuple(catalog_labels(candidates, normalize=self.allowed.normalize))
        else:
            _require_from_zero(self.clips)
        presence = None
        if not self.listed:  # for whoever discovers groups
            units = PRESENT.as_scores(np.array(list(self.present.values()), dtype=np.int64))
            bound = Sensitivity.of_clipped(
                PRESENT.clip, PRESENT.norm, relation, self.max_groups_per_user
            )
            presence = Scores(
                units, sensitivity=bound, labels=list(self.present), domain="observed"
            )
        cells = _Cells(self, self._values(clip), sensitivity, names)
        most = self.max_groups_per_user
        return GroupedScores(
            cells, max_groups_per_user=most, presence=presence, nobody=cells.nobody
        )

    def __repr__(self) -> str:
        bounds = (
            f"max_groups_per_user={self.max_groups_per_user},"
            f" max_items_per_user={self.max_items_per_user}"
        )
        return (
            f"GroupCounts(<private figures hidden>, {bounds}, salt={self.salt!r},"
            f" clips={[each.clip for each in self.clips]})"
        )


@final
class _Cells(Mapping[Label, Scores]):
    """Scores by group, one group in memory at a time, of items seen there or of public `names`."""

    def __init__(
        self,
        counts: GroupCounts,
        values: NDArray[Any],
        sensitivity: Sensitivity,
        names: tuple[Label, ...] | None,
    ) -> None:
        self._counts, self._values, self._public = counts, values, names is not None
        kind: Kind = "utilities" if self._public and has_signed_sums(counts.clips) else "counts"
        domain: Domain = "public" if self._public else "observed"
        zeros = np.zeros(len(names or ()), dtype=values.dtype)
        self.nobody: Scores = Scores(
            zeros,
            sensitivity=sensitivity,
            labels=names or (),
            domain=domain,
            kind=kind,
            sums=amount_of(counts.clips) is not None,
        )
        self._to = places(names or (), counts.items)

    def __getitem__(self, group: Label) -> Scores:
        span = self._counts.spans[group]
        place, values = self._counts.place[span], self._values[span]
        if self._public:
            cells = self._to[place]
            dense = np.zeros(len(self.nobody), dtype=values.dtype)
            dense[cells[cells >= 0]] = values[cells >= 0]
            return self.nobody.with_values(dense)
        labels = [self._counts.items[cells] for cells in place.tolist()]
        return Scores(
            values,
            sensitivity=self.nobody.sensitivity,
            labels=labels,
            domain="observed",
            sums=self.nobody.sums,
        )

    def __iter__(self) -> Iterator[Label]:
        return iter(self._counts.spans)

    def __len__(self) -> int:
        return len(self._counts.spans)


def _require_from_zero(clips: tuple[Measure, ...]) -> None:
    """Refuse sums that may be negative if the items are not public."""
    if has_signed_sums(clips):
        raise EventLogError(
            "sums that may be negative need a public catalog, because a threshold that hides a"
            " user's own item needs scores from 0 up"
        )
