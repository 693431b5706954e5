"""`Outcome`: what a release shows, as laws, audits and the command line read it, and as the columns of a table."""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting import MissingExtra
from dpselect.errors import InvalidRequest

Floats = NDArray[np.float64]
Cell = tuple[float, float]
Columns = dict[str, tuple[Any, ...]]


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
        lost: what a clip took away from all values together, with noise; None where that is not released.
    """

    items: tuple[int | str, ...]
    ordered: bool
    values: tuple[float, ...] | None = None
    groups: tuple[int | str, ...] | None = None
    lost: float | None = None

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

    def columns(self, margin: float | None) -> Columns:
        """Columns of one row per item, in their order; None where nothing was released. See `Selection.columns`."""
        nothing: tuple[Any, ...] = (None,) * len(self.items)
        ends = {"low": nothing, "high": nothing}
        if margin is not None:
            if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 < margin < math.inf:
                raise InvalidRequest(f"margin={margin!r} must be a finite number > 0, score units: WithValues.margin() gives one")
            if self.values is None:
                raise InvalidRequest(
                    "margin is of values, and this selection has none: release them, with WithValues for example"
                )
            half, values = float(margin), self.values or ()
            ends = {"low": tuple(value - half for value in values), "high": tuple(value + half for value in values)}
        return {
            **({} if self.groups is None else {"group": self.groups}),
            "rank": _ranks(self.groups or nothing) if self.ordered else nothing,
            "item": self.items,
            "value": nothing if self.values is None else self.values,
            **ends,
        }


def _ranks(groups: Sequence[object]) -> tuple[int, ...]:
    seen, ranks = Counter[object](), list[int]()
    for group in groups:
        seen[group] += 1
        ranks.append(seen[group])
    return tuple(ranks)


def table(held: Columns) -> Any:
    """A pyarrow Table of columns. See `Selection.to_arrow`."""
    arrow = needed("pyarrow", "arrow")
    types = {"rank": arrow.int64()} | dict.fromkeys(("value", "low", "high"), arrow.float64())
    return arrow.table(
        [arrow.array(cells, types[name]) if name in types else _named(arrow, cells, name) for name, cells in held.items()],
        names=list(held),
    )


def needed(module: str, extra: str) -> Any:
    """A library, or MissingExtra, which names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"this table needs {module}: install it with pip install 'dpselect[{extra}]'") from None


def _named(arrow: Any, names: tuple[int | str, ...], what: str) -> Any:
    """Labels as integers if all are, and as text otherwise."""
    fitting: Mapping[Any, tuple[int, int]] = {arrow.int64(): (-(2**63), 2**63), arrow.uint64(): (0, 2**64)}
    if names and all(isinstance(name, int) for name in names):
        for kind, (low, high) in fitting.items():
            if all(low <= int(name) < high for name in names):
                return arrow.array(names, kind)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(set(names)):
        raise InvalidRequest(f"{what} holds an integer and a text that are written alike: a table holds one type, use to_json")
    return arrow.array(texts, arrow.string())


def cells(edges: ArrayLike) -> tuple[Floats, list[Cell]]:
    """Checked edges and the cells [low, high) between them, the two unbounded ones included."""
    array = np.atleast_1d(np.asarray(edges, dtype=np.float64))
    if array.ndim != 1 or not np.isfinite(array).all() or (np.diff(array) <= 0).any():
        raise InvalidRequest("edges must be increasing finite numbers, in score units")
    return array, list(pairwise([-np.inf, *array.tolist(), np.inf]))


def cell_of(value: float, edges: Floats) -> Cell:
    """The cell [low, high) that a value lies in."""
    place = int(np.searchsorted(edges, value, side="right"))
    return (float(edges[place - 1]) if place else -np.inf, float(edges[place]) if place < len(edges) else np.inf)
