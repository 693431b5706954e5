"""The top k of every group from one selection of (group, item) cells.

One norm bounds a user's whole contribution to all cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count
from accounting.numbers import Floats
from dpselect.cells import parts_of
from dpselect.mechanisms.base import AnyMechanism
from dpselect.mechanisms.delegating import DelegatingMechanism, around_traits
from dpselect.mechanisms.gate import Between
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Label, Selection, Selections, label_key

REASON: Final = "fewer items than requested were found in a group"


@final
class TopOfGroups(DelegatingMechanism):
    """The k best items of every group, taken from one selection of all cells.

    Scores are those of cells, labeled by `dpselect.cells.cell(group, item)`, and one user is
    bounded over all groups together. `mechanism` releases cells, best first, and the k first of
    each group are kept. This is a function of the released cells, so that groups cost nothing,
    whatever their number and the number of a user's groups. A group in which no item was found does
    not show. Labels of no cells are items of the group "", and scores without labels are those of a
    single group. Guarantee: mechanism.curve, Theorem H12.

    Args:
        k: largest number of items of each group, >= 1.
        mechanism: the selection of cells, in order: a `SparseHistogram` with k=None for cells that
            are read off the log, a `RacingTopK` with cells=True and the same k, or one that
            releases as many as a public list has.
    """

    kind: Literal["top_of_groups"] = "top_of_groups"
    traits: ClassVar[Traits] = around_traits(
        answers="groups",
        level=3,
        ordered=True,
        most=None,  # as many as there are groups
        each=lambda mechanism: mechanism.k,
        cells=True,
    )
    k: Count = Field(description="an integer >= 1")
    mechanism: AnyMechanism = Field(description="a selection by scores that releases an order")

    @model_validator(mode="after")
    def _orders_cells(self) -> Self:
        if not (self.mechanism.traits.ranks_counts and self.mechanism.ordered):
            name = type(self.mechanism).__name__
            raise ValueError(
                f"mechanism={name} releases no order of items by their scores. Pass a"
                " SparseHistogram for example"
            )
        return self

    @property
    def curve(self) -> Curve:
        return self.mechanism.curve

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.mechanism.shared_group_curve

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        selection = self.mechanism._select(scores, source)
        cells = (
            [("", "")] * len(selection)
            if selection.labels is None
            else [parts_of(label) for label in selection.labels]
        )
        places = self._first_of_each([group for group, _ in cells])
        counts = Counter(cells[place][0] for place in places)
        complete = bool(places) and min(counts.values()) >= self.k
        return Selection(
            indices=None
            if selection.positions is None
            else tuple(selection.positions[place] for place in places),
            ordered=True,
            requested=self.k,
            complete=complete,
            reason=None if complete else REASON,
            values=None
            if selection.values is None
            else tuple(selection.values[place] for place in places),
            labels=None if selection.labels is None else tuple(cells[place][1] for place in places),
            groups=None if selection.labels is None else tuple(cells[place][0] for place in places),
        )

    def _first_of_each(self, groups: Iterable[Label]) -> list[int]:
        """Return places of the k first of each group, group by group in order of their names."""
        places = dict[Label, list[int]]()
        for place, group in enumerate(groups):
            places.setdefault(group, []).append(place)
        return [
            place for group in sorted(places, key=label_key) for place in places[group][: self.k]
        ]

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        batch = self.mechanism._select_many(matrix, source)
        values = None if batch.values is None else np.asarray(batch.values)[:, : self.k]
        return Selections(
            batch.indices[:, : self.k], ordered=True, requested=self.k, reason=REASON, values=values
        )

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        law = dict[Any, float]()
        for outcome, chance in self.mechanism._probabilities(scores).items():
            items, _ = self._keep_positions(
                scores, (outcome,) if isinstance(outcome, int) else tuple(outcome)
            )
            law[items] = law.get(items, 0.0) + chance
        return law

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        law = dict[Any, float]()
        for (outcome, seen), chance in self.mechanism._cell_probabilities(
            scores, edges, between
        ).items():
            items, places = self._keep_positions(scores, tuple(outcome))
            cells = items, tuple(seen[place] for place in places)
            law[cells] = law.get(cells, 0.0) + chance
        return law

    def _keep_positions(
        self, scores: Scores, order: tuple[int, ...]
    ) -> tuple[tuple[Any, ...], list[int]]:
        """Return the kept positions of this order, and the places where they stand in it.

        If there are groups, a position is a pair (group, position).
        """
        groups = (
            [""] * len(order)
            if scores.labels is None
            else [parts_of(scores.labels[place])[0] for place in order]
        )
        places = self._first_of_each(groups)
        return (
            tuple(
                order[index] if scores.labels is None else (groups[index], order[index])
                for index in places
            ),
            places,
        )
