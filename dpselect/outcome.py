"""`Outcome`: what a release shows, in the one form in which laws, audits and the command line read it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpselect.errors import InvalidRequest

Floats = NDArray[np.float64]
Cell = tuple[float, float]


@final
@dataclass(frozen=True)
class Outcome:
    """Items, whether their order was released, and their noisy values. Equal where nobody can tell two releases apart.

    Attributes:
        items: labels, or positions where there are none; best first if `ordered`, else in the candidates' own order.
        ordered: whether the order is part of the release.
        values: the noisy score of every item, in the order of `items` and on the mechanism's public grid (score units); None if
            none is released.
        groups: the group of every item, where a selection was released for each of many groups.
    """

    items: tuple[int | str, ...]
    ordered: bool
    values: tuple[float, ...] | None = None
    groups: tuple[int | str, ...] | None = None

    @property
    def chosen(self) -> tuple[Hashable, ...] | frozenset[Hashable]:
        """The items alone, as `Mechanism.probabilities` names them: a tuple where their order is released, else a set.

        Of many groups, pairs of group and item.
        """
        items: tuple[Hashable, ...] = self.items
        named = items if self.groups is None else tuple(zip(self.groups, items, strict=True))
        return named if self.ordered else frozenset(named)

    def seen(self, edges: Floats, places: tuple[int, ...]) -> Hashable:
        """The items, and for the values of some of them the cell between `edges` that each lies in."""
        if self.values is None or not places:
            return self.chosen
        held = [self.values[place] for place in places if place < len(self.values)]
        return self.chosen, tuple(cell_of(value, edges) for value in held)


def cells(edges: ArrayLike) -> tuple[Floats, list[Cell]]:
    """Checked edges and the cells [low, high) between them, the two unbounded ones included.

    Raises:
        InvalidRequest: the edges are no increasing finite numbers.
    """
    array = np.atleast_1d(np.asarray(edges, dtype=np.float64))
    if array.ndim != 1 or not np.isfinite(array).all() or (np.diff(array) <= 0).any():
        raise InvalidRequest("edges must be increasing finite numbers, in score units")
    return array, list(pairwise([-np.inf, *array.tolist(), np.inf]))


def cell_of(value: float, edges: Floats) -> Cell:
    """The cell [low, high) that a value lies in."""
    place = int(np.searchsorted(edges, value, side="right"))
    return (float(edges[place - 1]) if place else -np.inf, float(edges[place]) if place < len(edges) else np.inf)
