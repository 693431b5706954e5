"""Scores by rank. The values are sorted once, and positions are found for released ranks only."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from accounting.numbers import Floats, Integers
from dpselect.sampling.base import Sampler
from dpselect.sampling.contest import Numbers, differences


def half_below(values: Any, top: Any) -> Floats:
    """Return (values - top)/2 rounded once, for a top no smaller than any of them."""
    if values.dtype == np.int64:
        return 0.5 * differences(values, top)
    return np.asarray(0.5 * values - 0.5 * top)


@final
class Ranked:
    """(m,) scores of a public domain by rank, counted from 1 at the highest; ties by position.

    Ties are ordered as by `Scores.rank`. Sorting values alone is an order of magnitude quicker
    than sorting positions.
    """

    def __init__(self, values: Numbers) -> None:
        self._values = values
        self._ascending: Numbers = np.sort(self._values)  # type: ignore[assignment]
        self.size: int = len(self._values)

    def below_top(self, ranks: Any) -> Floats:
        """Return the score of each rank minus the highest score; any shape."""
        picked = self._ascending[self.size - np.asarray(ranks)]
        return differences(picked, self._ascending[-1])

    def half_below_top(self, ranks: Any) -> Floats:
        """Return half the score of each rank minus the highest, rounded once, without overflow."""
        return half_below(self._ascending[self.size - np.asarray(ranks)], self._ascending[-1])

    def reaching_half(self, levels: Floats) -> Integers:
        """Number of values of `half_below_top` that are at least each level; any shape.

        Found by bisection, which copies no scores.
        """
        low, high = np.zeros(levels.shape, dtype=np.int64), np.full(levels.shape, self.size)
        while (low < high).any():
            middle = (low + high) // 2
            reached = (
                half_below(self._ascending[np.minimum(middle, self.size - 1)], self._ascending[-1])
                >= levels
            )
            low, high = (
                np.where(reached | (low == high), low, middle + 1),
                np.where(reached, middle, high),
            )
        return self.size - low

    def value(self, rank: int) -> float | int:
        """Return the exact score of a rank."""
        return self._ascending[self.size - rank].item()

    def reaching(self, value: float | int) -> int:
        """Number of scores that are at least this high."""
        return self.size - int(np.searchsorted(self._ascending, value, side="left"))

    def positions(self, ranks: Integers) -> Integers:
        """Return the candidate position of each rank, shape (k,)."""
        targets = self._ascending[self.size - ranks]
        place = ranks - (self.size + 1 - np.searchsorted(self._ascending, targets, side="right"))
        levels, level = np.unique(targets, return_inverse=True)
        if len(levels) <= _FEW_LEVELS:  # a pass for each takes less time than a search for all
            return self._pass_levels(levels, level, place)
        members = np.flatnonzero(self._values >= levels[0])
        values = self._values[members]
        near = np.searchsorted(levels, values, side="right") - 1
        equal = np.flatnonzero(levels[near] == values)
        # sorted by radix, which takes a tenth of the time, where the levels fit
        near = near[equal].astype(np.uint16 if len(levels) <= 2**16 else np.int64)
        members = members[equal[np.argsort(near, kind="stable")]]
        first = np.cumsum(np.bincount(near, minlength=len(levels)))
        return members[np.append(0, first)[level] + place]

    def _pass_levels(self, levels: Any, level: Integers, place: Integers) -> Integers:
        """Return the position of the place-th candidate, from 0, of each chosen level."""
        positions, values = np.empty(len(level), dtype=np.int64), self._values
        members: Integers | None = None  # of `values`; None for all candidates
        for number, value in enumerate(levels):
            if self.reaching(value) < len(values) // _SPARSE:
                kept = np.flatnonzero(values >= value)
                members, values = kept if members is None else members[kept], values[kept]
            in_level = level == number
            found = _places_of(value, values, place[in_level])
            positions[in_level] = found if members is None else members[found]
        return positions


_FEW_LEVELS = 64  # different scores among the chosen
_SPARSE = 8  # the passes go on with those that reach a level where they are fewer by this factor
_BLOCK = 2**14  # scores that are compared at once


def _places_of(value: float | int, values: Numbers, numbers: Integers) -> Integers:
    """Return the place of the n-th score of this value for each n of `numbers`, from 0.

    Only the blocks that hold one of them list their places. All others count them.
    """
    if len(values) <= _BLOCK:
        return np.flatnonzero(values == value)[numbers]
    blocks = [values[i : i + _BLOCK] for i in range(0, len(values), _BLOCK)]
    counts = [np.count_nonzero(block == value) for block in blocks]
    ends = np.cumsum(counts)
    chosen, choice = np.unique(np.searchsorted(ends, numbers, side="right"), return_inverse=True)
    places = np.empty(len(numbers), dtype=np.int64)
    for number, block in enumerate(chosen.tolist()):
        inside, earlier = choice == number, ends[block] - counts[block]
        listed = np.flatnonzero(blocks[block] == value)
        places[inside] = block * _BLOCK + listed[numbers[inside] - earlier]
    return places


def rank_rows(block: Numbers) -> Integers:
    """Return (rows, m) positions of every row's scores, highest first, ties by position."""
    ascending = np.argsort(block[:, ::-1], axis=1, kind="stable")
    return block.shape[1] - 1 - ascending[:, ::-1]


# Uniformly random sequences in which place i takes one of the best allowed[i] ranks, no rank twice.


def draw_sequences(allowed: Integers, source: Sampler) -> Integers:
    """Draw (rounds, k) ranks from 1, for (rounds, k) non-decreasing `allowed` with allowed[i] > i.

    A place may take every rank that earlier places may, so each place is uniform over the remaining
    ranks. These are the first swaps of a Fisher-Yates shuffle.
    """
    place = np.arange(allowed.shape[1])
    picks = source.below((allowed - place).ravel()).reshape(allowed.shape) + place
    return np.array([_swaps(row) for row in picks.tolist()], dtype=np.int64) + 1


def _swaps(picks: list[int]) -> list[int]:
    swap_of: dict[int, int] = {}
    for place, pick in enumerate(picks):
        swap_of[place], swap_of[pick] = swap_of.get(pick, pick), swap_of.get(place, place)
    return [swap_of[place] for place in range(len(picks))]
