"""Simulated top-k selection among levels of equal counts, many runs at once.

Of the items that share a count only the largest noises matter, and those are drawn directly: the largest of M has the law of
F^-1(U^(1/M)), the next one of those left below it that of the same with the range cut, and so on. The runs therefore cost as many
draws as there are levels, not items, and have the law of the mechanisms' own draws (a test compares the two).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

import numpy as np

from dpselect.noise.base import Noise
from dpselect.planning.levels import Floats, Indices, Levels

_CHUNK = 1 << 18  # draws at once
_DROPPED = 1e-9  # most probability, per run, that an item that is left out would have been released
_LOWEST = 1e-12  # chance that a noise lies below where it is taken to lie at least


@final
class Race:
    """Draws for one ranking and one noise.

    Args:
        levels: who competes. Levels so low that any of their items is released with probability 1e-9 at most are left out.
        noise: the law of the noise.
        scale: of the noise, in users.
        rng: a seeded generator.
    """

    def __init__(self, levels: Levels, noise: Noise, scale: float, rng: np.random.Generator, *, picks: int) -> None:
        kept = relevant(levels, noise, scale, picks)
        self._values, self._multiplicities = levels.values[:kept], levels.multiplicities[:kept]
        self._noise, self._scale, self._rng = noise, scale, rng

    @property
    def width(self) -> int:
        """How many levels compete."""
        return len(self._values)

    def one_shot(self, picks: int, rounds: int) -> Indices:
        """(rounds, picks) levels of the largest noisy counts, largest first, all noise drawn once."""
        return self._in_chunks(rounds, lambda count: self._one_shot(picks, count))

    def peeled(self, picks: int, rounds: int) -> Indices:
        """(rounds, picks) levels of as many winners, each removed before the noise is drawn afresh."""
        return self._in_chunks(rounds, lambda count: self._peeled(picks, count))

    def _in_chunks(self, rounds: int, draw: Callable[[int], Indices]) -> Indices:
        return np.concatenate([draw(count) for count in chunks(rounds, len(self._values))])

    def _one_shot(self, picks: int, rounds: int) -> Indices:
        heads = self._first(np.broadcast_to(self._multiplicities, (rounds, len(self._values))))
        heights = self._values + self._scale * self._above(heads)
        # A level can only supply one of the highest if its own highest is among them.
        ahead = np.argpartition(-heights, picks - 1, axis=1)[:, :picks] if picks < heights.shape[1] else _all(heights)
        heads, heights = (np.take_along_axis(array, ahead, axis=1) for array in (heads, heights))
        left, row = self._multiplicities[ahead], np.arange(rounds)
        chosen = np.empty((rounds, picks), dtype=np.int64)
        for place in range(picks):
            best = np.argmax(heights, axis=1)
            chosen[:, place] = ahead[row, best]
            left[row, best] -= 1
            heads[row, best] += self._first(left[row, best])
            heights[row, best] = self._values[ahead[row, best]] + self._scale * self._above(heads[row, best])
        return chosen

    def _peeled(self, picks: int, rounds: int) -> Indices:
        left, row = np.tile(self._multiplicities, (rounds, 1)), np.arange(rounds)
        chosen = np.empty((rounds, picks), dtype=np.int64)
        for place in range(picks):
            heights = self._values + self._scale * self._above(self._first(left))
            chosen[:, place] = best = np.argmax(heights, axis=1)
            left[row, best] -= 1
        return chosen

    def _first(self, left: Indices) -> Floats:
        """ln U^(1/left), elementwise; -inf where none is left."""
        drawn = np.log1p(-self._rng.random(left.shape)) / np.maximum(left, 1)
        return drawn if left.all() else np.where(left > 0, drawn, -np.inf)

    def _above(self, log_cdf: Floats) -> Floats:
        """The noise whose log cdf this is."""
        if self._noise.name == "gumbel":
            return self._noise.log_quantile(log_cdf)
        return np.where(np.isneginf(log_cdf), -np.inf, self._noise.isf(-np.expm1(log_cdf)))


def chunks(rounds: int, width: int) -> Iterator[int]:
    """Numbers of runs whose draws, so many each, fit the cache."""
    step = max(1, _CHUNK // max(1, width))
    return (min(step, rounds - start) for start in range(0, rounds, step))


def relevant(levels: Levels, noise: Noise, scale: float, picks: int) -> int:
    """How many of the highest levels can matter for so many picks, but for a probability of 1e-9."""
    floor = float(noise.quantile(_LOWEST / picks)) if noise.lower == -np.inf else noise.lower
    lead = (float(levels.value(picks)) - levels.values) / scale + floor
    chances = picks * levels.multiplicities * noise.sf(lead)
    below = np.cumsum(chances[::-1])[::-1]
    return max(int((below > _DROPPED).sum()), int(np.searchsorted(levels.ends, picks)) + 1)


def _all(heights: Floats) -> Indices:
    return np.broadcast_to(np.arange(heights.shape[1]), heights.shape).copy()
