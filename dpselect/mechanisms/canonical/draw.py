"""One draw of canonical top-k by branch and bound: exact, and quick because whole blocks of classes are bounded at once.

A block is a run of classes of one row. The largest noise over all its sets is drawn first; it decides how well any set of the
block can do at best and at worst, as scores fall with the rank. Blocks that cannot win are settled by that: nothing is dropped.
The others are split. The child with the largest noise is chosen in proportion to the children's sizes; in the other children the
largest noise is drawn anew, below the parent's. That is the joint law of the maxima (as in A* sampling, Maddison et al. 2014).
Theorem M6. float64 enclosures decide what they can, more bits and ball arithmetic the rest: Theorem M9.
"""

from __future__ import annotations

from functools import partial
from typing import final

import numpy as np

from dpselect.mechanisms.canonical.blocks import Blocks, roots, split
from dpselect.mechanisms.canonical.classes import Chosen, Classes
from dpselect.mechanisms.canonical.noise import noise_bounds
from dpselect.mechanisms.canonical.totals import totals
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Floats, Indices
from dpselect.sampling.lazy import LazyUniform, WordSource, rational
from dpselect.sampling.race import Runner, Wait, winner


def draw_class(classes: Classes, noise: Noise, scale: float, source: Sampler) -> Chosen:
    """The class whose best set has the largest score + scale * noise over all sets."""
    return _Draw(classes, noise, scale, source.words).chosen()


def draw_members(chosen: Chosen, k: int, source: Sampler) -> Indices:
    """(k,) ranks of a uniformly random member of a class."""
    held = np.arange(1, chosen.held + 1)
    free = k - 1 - chosen.held
    return np.concatenate([held, _subset(chosen.lowest - chosen.free_from, free, source) + chosen.free_from, [chosen.lowest]])


@final
class _Draw:
    """The generations of blocks, each split off the one before, and the single classes that may win."""

    def __init__(self, classes: Classes, noise: Noise, scale: float, words: WordSource) -> None:
        self._classes, self._noise, self._scale, self._words = classes, noise, scale, words
        self._generations: list[Blocks] = []
        self._drawn: dict[tuple[int, int], LazyUniform] = {}

    def chosen(self) -> Chosen:
        finalists = self._finalists()
        best = 0
        if len(finalists) > 1:
            best = winner([self._runner(*place) for place in finalists], self._noise, rational(self._scale))
        generation, i = finalists[best]
        blocks = self._generations[generation]
        return self._classes.chosen(int(blocks.row[i]), int(blocks.start[i]))

    def _finalists(self) -> list[tuple[int, int]]:
        """Generation and place in it of every single class that no other certainly beats."""
        blocks, floor = roots(self._classes, self._words), -np.inf
        alone: list[tuple[Indices, Floats]] = []
        while True:
            self._generations.append(blocks)
            least, most = self._totals(blocks)
            floor = max(floor, float(least.max()))
            single = blocks.stop - blocks.start == 1
            found = np.flatnonzero(single & (most >= floor))
            alone.append((found, most[found]))
            rivals = np.flatnonzero(~single & (most >= floor))
            if not len(rivals):
                break
            blocks = split(self._classes, blocks, rivals, self._words)
        return [(level, i) for level, (place, most) in enumerate(alone) for i in place[most >= floor].tolist()]

    def _totals(self, blocks: Blocks) -> tuple[Floats, Floats]:
        """Bounds on half the largest noisy score of every block."""
        (least, _), (_, most) = (self._classes.half_score(blocks.row, t) for t in (blocks.stop - 1, blocks.start))
        return totals((least, most), noise_bounds(self._noise, blocks.low, blocks.high), self._scale)

    def _runner(self, generation: int, i: int) -> Runner:
        blocks = self._generations[generation]
        score = self._classes.exact_score(int(blocks.row[i]), int(blocks.start[i]))
        waits = []
        for level in range(generation, -1, -1):
            blocks = self._generations[level]
            if not blocks.inherits[i]:
                size = partial(self._classes.mass, int(blocks.row[i]), int(blocks.start[i]), int(blocks.stop[i]))
                waits.append(Wait(size, self._lazy(level, i)))
            i = int(blocks.parent[i])
        return Runner(score, waits)

    def _lazy(self, level: int, i: int) -> LazyUniform:
        """The bits of a block's own wait: one object, so that all comparisons see the same bits."""
        if (level, i) not in self._drawn:
            self._drawn[level, i] = LazyUniform(self._words, word=int(self._generations[level].word[i]))
        return self._drawn[level, i]


def _subset(size: int, count: int, source: Sampler) -> Indices:
    """(count,) distinct numbers below `size`, uniform over sets: the first swaps of a Fisher-Yates shuffle."""
    moved: dict[int, int] = {}
    picks = source.below(size - np.arange(count)) + np.arange(count) if count else np.empty(0, dtype=np.int64)
    for place, pick in enumerate(picks.tolist()):
        moved[place], moved[pick] = moved.get(pick, pick), moved.get(place, place)
    return np.array([moved[place] for place in range(count)], dtype=np.int64)
