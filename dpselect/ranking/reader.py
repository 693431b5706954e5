"""Comparisons from the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpselect.ranking.comparisons import Comparisons
from dpselect.ranking.errors import InvalidComparisons
from dpselect.selection import Label


def read(table: Any, *, winner: str, loser: str, weight: str | None = None, items: Iterable[Label] | None = None) -> Comparisons:
    """Comparisons from a table of one row each: a pandas or polars frame, an Arrow table, or a mapping of columns.

    Args:
        table: anything whose `table[name]` is a column.
        winner, loser, weight: names of columns; no weight counts every comparison once.
        items: the public catalogue; None for all labels that occur.

    Raises:
        InvalidComparisons: a column is not there, or its contents are refused by `Comparisons`.
    """
    weights = None if weight is None else _column(table, weight)
    return Comparisons(_column(table, winner), _column(table, loser), weights, items=items)


def _column(table: Any, name: str) -> Any:
    try:
        return table[name]
    except Exception:  # every library has its own error for a missing column, and its text may quote data
        raise InvalidComparisons(f"the table has no column {name!r}: name the columns of winners and losers") from None
