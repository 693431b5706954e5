"""Gaps between neighbours in the ranking: what one user may do to them, and how they are read. Theorems S1 and S2."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from accounting import Relation
from accounting.frozen import Count
from dpselect.errors import InvalidScores
from dpselect.mechanisms.ranks import highest
from dpselect.sampling.heights import Floats, Indices
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import Sensitivity

Rank = Annotated[Count, Field(le=10_000_000)]
"""How many of the highest counts are looked at. Observed domains are padded up to it, so it bounds time and memory."""

_LARGEST = 2**53  # beyond it float64 skips integers
_SUMMED = 2.0**32  # numbers up to it, on a grid of 2^-20, have sums that float64 holds exactly
_GRID = 2.0**20


class Top(NamedTuple):
    """The top of a ranking.

    Attributes:
        positions: of the highest candidates, highest first; fewer than gaps where an observed domain has fewer items.
        gaps: gaps[j - 1] is the j-th highest count minus the next one, the count of a candidate that is not there being 0.
    """

    positions: Indices
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
    positions, counts = read_counts(scores, kbar + 1)
    gaps = gaps_below(counts[None])[0, :kbar]
    if scores.domain == "observed":
        # Zeros that are never touched take no memory.
        found, gaps = gaps, np.zeros(kbar)
        gaps[: len(found)] = found
    return Top(positions[:kbar], gaps)


def read_counts(scores: Scores, count: int) -> tuple[Indices, Numbers]:
    """Positions and values of the `count` highest counts, highest first, without those that nobody touched if observed."""
    if scores.kind != "counts":
        raise InvalidScores(
            f"kind={scores.kind!r} is refused: this mechanism takes a candidate that is not there as one with count 0, so it "
            "needs kind='counts'; for utilities use a mechanism for a public domain, Peeling for example"
        )
    positions, counts = scores.ranked(count)
    if scores.domain == "observed":
        # An item that nobody touched may or may not be listed: the two must not differ.
        return positions[counts > 0], counts[counts > 0]
    return positions, counts


def top_set(top: Top, size: int) -> Indices:
    """Positions of the top `size`; none if an observed domain has fewer items than that."""
    return top.positions[:size] if len(top.positions) >= size else top.positions[:0]


def gaps_below(descending: Numbers) -> Floats:
    """(rows, ranks) each count minus the next of its row, the last one minus 0; from (rows, ranks) descending counts >= 0."""
    below = np.zeros_like(descending)
    below[:, :-1] = descending[:, 1:]
    return heights(descending, below)


def heights(counts: Numbers, below: Numbers) -> Floats:
    """Counts minus counts below them, both >= 0, as float64 without any rounding of the difference. Theorem X11.

    Differences of integers are clamped to 2^53. Counts that are floats are clamped to 2^32 and rounded down to a multiple of
    2^-20 beforehand: neither stretches what a user does, where a rounded difference would move by more than the counts do.
    """
    if np.issubdtype(counts.dtype, np.floating):
        return _on_grid(counts) - _on_grid(below)
    return np.minimum(counts - below, _LARGEST).astype(np.float64)


def _on_grid(counts: Numbers) -> Floats:
    return np.asarray(np.floor(np.minimum(counts, _SUMMED) * _GRID) / _GRID)


def favoured(counts: Floats, public: Floats) -> Floats:
    """Differences of counts plus public numbers that break up their order, as float64 without any rounding of the sum.

    Both are clamped to 2^32 and the public ones are rounded to a multiple of 2^-20 beforehand: the sums then move as the counts
    do, where rounded sums would move by up to one count more.
    """
    return np.minimum(counts, _SUMMED) + np.round(np.clip(public, -_SUMMED, _SUMMED) * _GRID) / _GRID


def row_gaps(block: Numbers, kbar: int) -> Floats:
    """(rows, min(kbar, m)) the first gaps of every row."""
    return gaps_below(highest(block, kbar + 1))[:, :kbar]
