"""Uniformly random sequences in which place i takes one of the best allowed[i] ranks, no rank twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling import Sampler

Indices = NDArray[np.int64]


def draw_sequences(allowed: Indices, source: Sampler) -> Indices:
    """(rounds, k) ranks from 1, for (rounds, k) non-decreasing `allowed` with allowed[i] > i.

    What a place may take includes what earlier places may, so each place is uniform over what is left: the first swaps of a
    Fisher-Yates shuffle.
    """
    place = np.arange(allowed.shape[1])
    picks = source.below((allowed - place).ravel()).reshape(allowed.shape) + place
    return np.array([_swaps(row) for row in picks.tolist()], dtype=np.int64) + 1


def _swaps(picks: list[int]) -> list[int]:
    moved: dict[int, int] = {}
    for place, pick in enumerate(picks):
        moved[place], moved[pick] = moved.get(pick, pick), moved.get(place, place)
    return [moved[place] for place in range(len(picks))]
