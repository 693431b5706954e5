"""One draw of canonical top-k by branch and bound: exact, and quick because whole blocks of classes are bounded at once.

A block is a run of classes of one row. The largest noise over all its sets is drawn first; it decides how well any set of the
block can do at best and at worst, as scores fall with the rank. Blocks that cannot win are settled by that: nothing is dropped.
The others are split. The child with the largest noise is chosen in proportion to the children's sizes; in the other children the
largest noise is drawn anew, below the parent's. That is the joint law of the maxima (as in A* sampling, Maddison et al. 2014).
Theorem M6. float64 enclosures decide what they can, more bits and ball arithmetic the rest: Theorem M9.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpselect.mechanisms.canonical.classes import Chosen, Classes, totals
from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.noise.numerics import log1mexp
from dpselect.sampling import Sampler
from dpselect.sampling.categorical import picked_rows, refined
from dpselect.sampling.heights import Floats, Indices, Words, contest_bounds
from dpselect.sampling.lazy import LazyUniform, WordSource, rational
from dpselect.sampling.race import Runner, Wait, winner

# The largest of many draws of a noise, however many: a Gumbel draw plus a logarithm, mapped to the noise.
#
# If F is the noise's distribution function, g = -ln(-ln F) at the largest of M draws is a standard Gumbel draw plus ln M, for any
# F. It stays finite where F itself rounds to one, at M = C(10^6, 1000) for example.

_FAR = 36.0  # from here ln(1 - exp(-exp(-g))) = -g to the last bit
_MIDDLE = 0.3665  # exp(-exp(-g)) is one half
_MAP_ALLOWANCE = 2.0**-40  # of 1 + |z|: thousands of times the error of the map


def noise_at(noise: Noise, g: Floats) -> Floats:
    """The z with -ln(-ln F(z)) = g, elementwise; non-decreasing."""
    if noise.name == "gumbel":
        return g
    upper = g > _MIDDLE
    z = np.empty_like(g)
    z[upper] = noise.log_isf(np.where(g[upper] > _FAR, -g[upper], log1mexp(np.exp(-np.minimum(g[upper], _FAR)))))
    z[~upper] = noise.log_quantile(-np.exp(-g[~upper]))
    return z


def noise_bounds(noise: Noise, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds on the z with low <= -ln(-ln F(z)) <= high. Theorem M9."""
    if noise.name == "gumbel":
        return low, high
    with np.errstate(all="ignore"):
        least, most = noise_at(noise, low), noise_at(noise, high)
    return least - _MAP_ALLOWANCE * (1.0 + np.abs(least)), most + _MAP_ALLOWANCE * (1.0 + np.abs(most))


# Blocks of classes, each with the largest noise among its sets, and how a block is split. Theorems M6 and M9.

_CHILDREN = 8
_FEW = 1024
_ALLOWANCE = 2.0**-45  # of 1 + |g|: above the roundings of a sum and of a logaddexp


class Blocks(NamedTuple):
    """Classes start <= t < stop of a row each.

    Attributes:
        low, high: bounds on -ln(-ln F) of the largest noise among the block's sets.
        word: the first bits of the block's own wait.
        parent: index of the block it was split off, in the blocks before.
        inherits: whether it has its parent's largest noise, and `word` is not used.
    """

    row: Indices
    start: Indices
    stop: Indices
    low: Floats
    high: Floats
    word: Words
    parent: Indices
    inherits: NDArray[np.bool_]


def roots(classes: Classes, words: WordSource) -> Blocks:
    """The blocks to begin with: whole rows, or single classes where there are few."""
    row, last = np.arange(classes.rows), classes.ranked.size + 1
    start, stop = np.full(len(row), classes.first), np.full(len(row), last)
    if len(row) * (last - classes.first) <= _FEW:
        lowest = np.arange(classes.first, last)
        start, row = np.tile(lowest, len(row)), np.repeat(row, len(lowest))
        stop = start + 1
    if classes.separate_top:
        row, start, stop = np.append(row, classes.top_row), np.append(start, classes.k), np.append(stop, classes.k + 1)
    drawn = words(len(row))
    low, high = luck(drawn, classes.log_mass(row, start, stop))
    return Blocks(row, start, stop, low, high, drawn, np.zeros_like(row), np.zeros(len(row), dtype=np.bool_))


def luck(words: Words, log_mass: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Bounds on -ln(-ln F) at the largest of exp(log_mass) draws, in which the words are the first bits of V."""
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(by_name("gumbel"), nothing, nothing.astype(np.int64), words)
    return _widened(low + log_mass[0], high + log_mass[1])


def split(classes: Classes, parents: Blocks, which: Indices, words: WordSource) -> Blocks:
    """Children of some blocks with the largest noise of each, given that of the whole block."""
    edges = _edges(parents.start[which], parents.stop[which], classes.first)
    start, stop = edges[:, :-1], edges[:, 1:]
    row = np.repeat(parents.row[which, None], _CHILDREN, axis=1)
    log_mass = classes.log_mass(row, start, stop)
    inherits = np.arange(_CHILDREN) == _heirs(classes, row[:, 0], edges, log_mass, words)[:, None]
    drawn = words(row.size).reshape(row.shape)
    low, high = (parents.low[which, None], parents.high[which, None])
    with np.errstate(invalid="ignore"):
        later = _widened(*(-np.logaddexp(-above, -own) for above, own in zip((low, high), luck(drawn, log_mass), strict=True)))
    low, high = (np.where(inherits, above, own) for above, own in zip((low, high), later, strict=True))
    parent = np.repeat(which[:, None], _CHILDREN, axis=1)
    held = stop > start
    return Blocks(row[held], start[held], stop[held], low[held], high[held], drawn[held], parent[held], inherits[held])


def _heirs(classes: Classes, row: Indices, edges: Indices, log_mass: tuple[Floats, Floats], words: WordSource) -> Indices:
    """(blocks,) the child that holds the largest noise, in proportion to the children's sizes."""
    drawn = words(len(row))
    heirs, certain = picked_rows(*log_mass, drawn)
    for i in np.flatnonzero(~certain).tolist():

        def sizes(i: int = i) -> list[arb]:
            ends = edges[i].tolist()
            return [classes.mass(int(row[i]), a, b) if b > a else arb(0) for a, b in pairwise(ends)]

        heirs[i] = refined(int(drawn[i]), sizes, words)
    return heirs


def _edges(start: Indices, stop: Indices, first: int) -> Indices:
    """(blocks, children + 1) where to cut: geometrically in the rank below the top, where scores fall fastest."""
    low, high = (start - first + 1)[:, None], (stop - first + 1)[:, None]
    step = np.arange(_CHILDREN + 1)
    spread = np.floor(low * (high / low) ** (step / _CHILDREN)).astype(np.int64)
    cuts = np.where(high - low <= _CHILDREN, np.minimum(low + step, high), np.clip(spread, low, high))
    cuts[:, 0], cuts[:, -1] = low[:, 0], high[:, 0]
    return cuts + first - 1


def _widened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return low - _ALLOWANCE * (1.0 + np.abs(low)), high + _ALLOWANCE * (1.0 + np.abs(high))


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
