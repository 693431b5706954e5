"""Distinct users per item, with what one user may change about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.events.domain import aligned
from dpselect.events.private import NotPickled
from dpselect.events.report import ReadReport
from dpselect.scores import Scores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class EventCounts(NotPickled):
    """What `read` found. Immutable; its repr shows nothing that was read.

    Attributes:
        labels: (m,) the items seen, in order: integers by value, text by code point. **Private**.
        counts: (m,) distinct users of each, after the bound. **Private**.
        max_items_per_user: the bound on one user's items, or None.
        salt: what chose the items kept under the bound, to choose the same again; None without a bound.
        report: what was read and what was left out, for the data's owner. **Private**.
    """

    labels: tuple[Label, ...]
    counts: NDArray[np.int64]
    max_items_per_user: int | None
    salt: str | None
    report: ReadReport

    def scores(self, catalogue: Sequence[Label] | NDArray[np.generic] | None = None, relation: Relation = "add_remove") -> Scores:
        """Scores of the items seen, or of a public catalogue.

        Without a catalogue the domain is "observed", since which items occur is private, and items are in order of their
        labels. With one it is "public": one score per label in the catalogue's order, 0 for an item nobody touched, and
        items outside it left out. The labels of a catalogue are matched as the log's type: 7 and "7" mean the item 7 of a
        column of integers, and "7" of a column of text.

        The sensitivity is that of distinct-user counts (theory, conventions): one user changes every count by at most 1.
        Under "add_remove" all changes have one sign, and under a bound of L items at most L counts change. Under
        "replace_one" one user's items leave and another's come: not monotone, and at most 2 L counts change.

        Raises:
            EventLogError: the catalogue is empty, names an item twice, or holds something that cannot be an item of this log.
            InvalidMechanism: `relation` is neither "add_remove" nor "replace_one".
        """
        sensitivity = Sensitivity.of_counts(relation, self.max_items_per_user)
        if catalogue is None:
            return Scores(self.counts, sensitivity=sensitivity, labels=self.labels, domain="observed")
        names, values = aligned(self.labels, self.counts, catalogue)
        return Scores(values, sensitivity=sensitivity, labels=names, domain="public")

    def __repr__(self) -> str:
        return f"EventCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user}, salt={self.salt!r})"
