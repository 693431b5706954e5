"""A threshold that somewhat more than k noisy scores exceed. A guess: it decides how fast the sweep is, never what it returns."""

from __future__ import annotations

import math

import numpy as np

from dpselect.noise.base import Noise
from dpselect.sampling.heights import Floats

_BINS_PER_UNIT = 4.0
_BELOW, _ABOVE = 48.0, 112.0  # noise units around the k-th height that matter
_ROUNDS = 16


def guess(noise: Noise, heights: Floats, weights: Floats | None, sample: Floats, share: float, k: int) -> float:
    """A threshold in noise units.

    Args:
        noise: the noise.
        heights: the most important candidates', each standing for `weights` candidates (one if None).
        weights: as above.
        sample: heights of a sample of all others, each standing for `share` of them.
        share: as above.
        k: how many are to exceed it.
    """
    goal = k + 3.0 * math.sqrt(k) + 3.0
    origin = _around(heights, weights, goal)
    certain = _histogram(heights, weights, origin)
    sampled = _histogram(sample, None, origin)
    grid = np.arange(len(certain)) / _BINS_PER_UNIT - _BELOW
    low, high = -_BELOW, _BELOW + _ABOVE
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        chance = noise.sf(middle - grid)
        mean, square = float(sampled @ chance), float(sampled @ np.square(chance))
        # Two standard errors off: a sample that happens to hold one of few high scores must not count it for thousands.
        expected = float(certain @ chance) + share * max(0.0, mean - 2.0 * math.sqrt(square))
        low, high = (middle, high) if expected >= goal else (low, middle)
    return origin + low


def _around(heights: Floats, weights: Floats | None, goal: float) -> float:
    """About the goal-th height from the top, or the lowest."""
    if weights is None:
        place = max(0, len(heights) - math.ceil(goal))
        return float(np.partition(heights, place)[place])
    order = np.argsort(-heights)
    place = int(np.searchsorted(np.cumsum(weights[order]), goal))
    return float(heights[order[min(place, len(heights) - 1)]])


def _histogram(heights: Floats, weights: Floats | None, origin: float) -> Floats:
    bins = math.ceil((_BELOW + _ABOVE) * _BINS_PER_UNIT) + 1
    cell = (np.clip(heights - origin, -_BELOW, _ABOVE) + _BELOW) * _BINS_PER_UNIT
    return np.bincount(cell.astype(np.int64), weights=weights, minlength=bins).astype(np.float64)
