"""Gaps between neighbours in the ranking: what one user may do to them, and how they are read. Theorems S1 and S2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from dpselect.mechanisms.base import Positions
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import Sensitivity

Floats = NDArray[np.float64]


class Top(NamedTuple):
    """The top of a ranking.

    Attributes:
        positions: of the highest candidates, highest first; fewer than gaps where an observed domain has fewer items.
        gaps: gaps[j - 1] is the j-th highest count minus the next one, the count of a candidate that is not there being 0.
    """

    positions: Positions
    gaps: Floats


def gap_shift(relation: Relation) -> float:
    """The most that one user moves any one gap, in counts. Theorem S1."""
    return 1.0 if relation == "add_remove" else 2.0


def gap_sensitivity(relation: Relation) -> Sensitivity:
    """The gap vector as scores of its own: gaps go up and down under either relation, so the range is twice the shift."""
    return Sensitivity(linf=gap_shift(relation), monotone=False, relation=relation)


def read_top(scores: Scores, kbar: int) -> Top:
    """The first kbar gaps, from the kbar + 1 highest counts and nothing else.

    A public domain of m candidates has min(kbar, m) gaps. An observed one always has kbar: how many items it lists is private.
    """
    positions, counts = scores.ranked(kbar + 1)
    if scores.domain == "observed":
        # An item that nobody touched may or may not be listed: the two must not differ.
        positions, counts = positions[counts > 0], counts[counts > 0]
    found = gaps_below(counts[None])[0, :kbar]
    missing = kbar - len(found) if scores.domain == "observed" else 0
    return Top(positions[:kbar], np.pad(found, (0, missing)))


def top_set(top: Top, size: int) -> Positions:
    """Positions of the top `size`; none if an observed domain has fewer items than that."""
    return top.positions[:size] if len(top.positions) >= size else top.positions[:0]


def gaps_below(descending: Numbers) -> Floats:
    """(rows, ranks) each count minus the next of its row, the last one minus 0; from (rows, ranks) descending counts."""
    result = descending.astype(np.float64)
    # Unsigned arithmetic wraps, so an integer difference is exact even where the signed one would overflow.
    exact = descending.view(np.uint64) if descending.dtype == np.int64 else descending
    with np.errstate(over="ignore"):
        result[:, :-1] = exact[:, :-1] - exact[:, 1:]
    return result
