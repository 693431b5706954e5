"""Pairwise comparisons, in which the pairs are public and the winners are private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, final

import numpy as np
import scipy

from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidComparisons
from dpselect.selection import Label, label_key


@final
class Comparisons:
    """Outcomes of comparisons between public items. Immutable; its repr shows no outcome.

    Neighboring inputs differ in the winner of some comparisons. The items, the pairs that were
    compared, the number of comparisons of each, and the weights are public, because they are the
    same in every neighbor.

    Args:
        winners: (n,) labels, int or str.
        losers: (n,) labels.
        weights: (n,) numbers from 1e-200 to 1e200; None for 1 each.
        items: the public catalog; None for all labels that occur, in order.

    Raises:
        InvalidComparisons: no comparisons, different lengths, missing or unusable labels or
            weights, an item compared with itself, or one that the catalog does not list.
    """

    __slots__ = ("_losers", "_weights", "_winners", "items")

    _losers: Integers
    _weights: Floats
    _winners: Integers
    items: tuple[Label, ...]

    def __init__(
        self,
        winners: Any,
        losers: Any,
        weights: Any = None,
        *,
        items: Iterable[Label] | None = None,
    ) -> None:
        won, lost = _labels(winners, "winners"), _labels(losers, "losers")
        if len(won) != len(lost) or not won:
            raise InvalidComparisons(
                "winners and losers must be two columns of the same length, with at least one"
                " comparison"
            )
        names = tuple(sorted({*won, *lost}, key=label_key)) if items is None else _check(items)
        place = {name: i for i, name in enumerate(names)}
        columns = {
            "_winners": _places(won, place),
            "_losers": _places(lost, place),
            "_weights": _weights(weights, len(won)),
        }
        for name, value in {"items": names, **columns}.items():
            object.__setattr__(self, name, value)
        if np.any(self._winners == self._losers):
            raise InvalidComparisons(
                "an item is compared with itself. Drop such rows at the source"
            )

    def restrict(self, items: Iterable[Label]) -> Comparisons:
        """Return only the comparisons among these items.

        The items have to be chosen without looking at outcomes.

        Raises:
            InvalidComparisons: an item is unknown or named twice, or no comparison is left.
        """
        names = _check(items)
        if not set(names) <= set(self.items):
            raise InvalidComparisons(
                "items names one that is not in the catalog of these comparisons"
            )
        listed = np.array([name in set(names) for name in self.items])
        is_inside = listed[self._winners] & listed[self._losers]
        labels = np.empty(len(self.items), dtype=object)
        labels[:] = self.items
        return Comparisons(
            labels[self._winners[is_inside]],
            labels[self._losers[is_inside]],
            self._weights[is_inside],
            items=names,
        )

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self.items)

    def wins(self) -> Any:
        """Return a sparse (m, m) matrix: the weight of comparisons that j won against i, at (i, j).

        It is **private**.
        """
        shape = (self.size, self.size)
        return scipy.sparse.csr_array(
            scipy.sparse.coo_array((self._weights, (self._losers, self._winners)), shape=shape)
        )

    def graph(self) -> Any:
        """Return a sparse, symmetric (m, m) matrix of total weights of each pair. Public."""
        wins = self.wins()
        return scipy.sparse.csr_array(wins + wins.T)

    def least_per_pair(self) -> float:
        """Return the paper's L: the least ratio of total weight to largest single weight of a pair.

        It is taken over the pairs that were compared, and public.
        """
        low, high = np.minimum(self._winners, self._losers), np.maximum(self._winners, self._losers)
        _, pair = np.unique(low * self.size + high, return_inverse=True)
        largest = np.zeros(int(pair.max()) + 1)
        np.maximum.at(largest, pair, self._weights)
        return float((np.bincount(pair, weights=self._weights) / largest).min())

    def largest_degree(self) -> int:
        """Largest number of others that any item was compared with. Public."""
        return int(np.diff(self.graph().indptr).max())

    def __len__(self) -> int:
        return len(self._winners)

    def __repr__(self) -> str:
        return f"Comparisons(<outcomes hidden>, comparisons={len(self)}, items={self.size})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Comparisons are immutable: {name!r} cannot be set")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Comparisons hold private data and are not pickled. Pass the source they are read from"
            " instead"
        )


def _labels(column: Any, name: str) -> list[Label]:
    values = np.asarray(column)
    if values.ndim != 1:
        raise InvalidComparisons(
            f"{name} must be one column of labels, not an array of shape {values.shape}"
        )
    labels = values.tolist()
    if not all(type(label) in (int, str) for label in labels):
        raise InvalidComparisons(
            f"{name} must be int or str with none missing. Drop or convert such rows at the source"
        )
    return labels


def _check(items: Iterable[Label]) -> tuple[Label, ...]:
    names = tuple(_labels(list(items), "items"))
    if len(set(names)) != len(names) or len(names) < 2:
        raise InvalidComparisons("items must name at least two items, each once")
    return names


def _places(labels: Sequence[Label], place: dict[Label, int]) -> Integers:
    if not all(label in place for label in labels):
        raise InvalidComparisons(
            "a comparison names an item that is not in items: list it, or drop the comparison at"
            " the source"
        )
    return np.array([place[label] for label in labels], dtype=np.int64)


def _weights(weights: Any, count: int) -> Floats:
    if weights is None:
        return np.ones(count)
    try:
        array = np.asarray(weights).astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidComparisons("weights must be numbers") from None
    # beyond, shares of wins would leave the floats for some winners and not for others
    if array.shape != (count,) or not np.all((array >= 1e-200) & (array <= 1e200)):
        raise InvalidComparisons("weights must be numbers from 1e-200 to 1e200, one per comparison")
    return array


def read(
    table: Any,
    *,
    winner: str,
    loser: str,
    weight: str | None = None,
    items: Iterable[Label] | None = None,
) -> Comparisons:
    """Read `Comparisons` from the named columns of a table.

    The table is a pandas or polars frame, an Arrow table, or a mapping of columns.

    Raises:
        InvalidComparisons: a column is missing, or its contents are refused.
    """
    weights = None if weight is None else _column(table, weight)
    return Comparisons(_column(table, winner), _column(table, loser), weights, items=items)


def _column(table: Any, name: str) -> Any:
    try:
        return table[name]
    # every library has its own error for a missing column, and its text may quote data
    except Exception:
        raise InvalidComparisons(
            f"the table has no column {name!r}. Name the columns of winners and losers"
        ) from None
