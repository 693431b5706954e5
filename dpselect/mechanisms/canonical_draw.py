"""One draw of canonical top-k by branch and bound: exact, and quick because whole blocks of classes are bounded at once.

A block is a run of classes of one row. The largest noise over all its sets is drawn first; it decides how well any set of the
block can do at best and at worst, as scores fall with the rank. Blocks that cannot win are settled by that: nothing is dropped.
The others are split. The child with the largest noise is chosen in proportion to the children's sizes; in the other children the
largest noise is drawn anew, below the parent's. That is the joint law of the maxima (as in A* sampling, Maddison et al. 2014).
Theorem M6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.canonical_classes import Chosen, Classes
from dpselect.mechanisms.canonical_noise import noise_at
from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_CHILDREN = 8
_FEW = 1024


class _Blocks(NamedTuple):
    """Classes start <= t < stop of a row each, and -ln(-ln F) of the largest noise among their sets."""

    row: Indices
    start: Indices
    stop: Indices
    g: Floats

    def where(self, kept: NDArray[np.bool_]) -> _Blocks:
        return _Blocks(self.row[kept], self.start[kept], self.stop[kept], self.g[kept])


class _Leader(NamedTuple):
    value: float
    chosen: Chosen


def draw_class(classes: Classes, noise: Noise, scale: float, source: Sampler) -> Chosen:
    """The class whose best set has the largest score + scale * noise over all sets."""
    leader = _Leader(-np.inf, classes.true_top())
    if classes.separate_top:
        leader = _Leader(classes.top + scale * float(source.noise(noise, 1)[0]), classes.true_top())
    blocks, level = _rows(classes, source), leader.value
    while len(blocks.row):
        luck = scale * noise_at(noise, blocks.g)
        least = classes.score(blocks.row, blocks.stop - 1) + luck
        most = classes.score(blocks.row, blocks.start) + luck
        level = max(level, float(least.max()))
        leader = _lead(classes, leader, blocks, least)
        blocks = _split(classes, blocks.where((most >= level) & (blocks.stop - blocks.start > 1)), source)
    return leader.chosen


def draw_members(chosen: Chosen, k: int, source: Sampler) -> Indices:
    """(k,) ranks of a uniformly random member of a class."""
    held = np.arange(1, chosen.held + 1)
    free = k - 1 - chosen.held
    return np.concatenate([held, _subset(chosen.lowest - chosen.free_from, free, source) + chosen.free_from, [chosen.lowest]])


def _rows(classes: Classes, source: Sampler) -> _Blocks:
    """The blocks to begin with: whole rows, or single classes where there are few."""
    row, last = np.arange(classes.rows), classes.ranked.size + 1
    start, stop = np.full(len(row), classes.first), np.full(len(row), last)
    if len(row) * (last - classes.first) <= _FEW:
        lowest = np.arange(classes.first, last)
        start, row = np.tile(lowest, len(row)), np.repeat(row, len(lowest))
        stop = start + 1
    return _Blocks(row, start, stop, classes.log_mass(row, start, stop) + source.noise(by_name("gumbel"), len(row)))


def _lead(classes: Classes, leader: _Leader, blocks: _Blocks, least: Floats) -> _Leader:
    """The better of the leader and the best class that has a block for itself."""
    alone = np.flatnonzero(blocks.stop - blocks.start == 1)
    if not len(alone):
        return leader
    best = alone[np.argmax(least[alone])]
    if least[best] < leader.value:
        return leader
    return _Leader(float(least[best]), classes.chosen(int(blocks.row[best]), int(blocks.start[best])))


def _split(classes: Classes, parents: _Blocks, source: Sampler) -> _Blocks:
    """Children of every block with the largest noise of each, given that of the whole block."""
    if not len(parents.row):
        return parents
    edges = _edges(parents, classes.first)
    start, stop = edges[:, :-1], edges[:, 1:]
    row = np.repeat(parents.row[:, None], _CHILDREN, axis=1)
    log_mass = classes.log_mass(row, start, stop)
    lucky = _pick(log_mass, source.uniform(len(parents.row)))
    fresh = source.noise(by_name("gumbel"), log_mass.size).reshape(log_mass.shape)
    g = -np.logaddexp(-parents.g[:, None], -(fresh + log_mass))
    g[np.arange(len(g)), lucky] = parents.g
    held = stop > start
    return _Blocks(row[held], start[held], stop[held], g[held])


def _edges(parents: _Blocks, first: int) -> Indices:
    """(blocks, children + 1) where to cut: geometrically in the rank below the top, where scores fall fastest."""
    low, high = (parents.start - first + 1)[:, None], (parents.stop - first + 1)[:, None]
    step = np.arange(_CHILDREN + 1)
    spread = np.floor(low * (high / low) ** (step / _CHILDREN)).astype(np.int64)
    cuts = np.where(high - low <= _CHILDREN, np.minimum(low + step, high), np.clip(spread, low, high))
    cuts[:, 0], cuts[:, -1] = low[:, 0], high[:, 0]
    return cuts + first - 1


def _pick(log_weight: Floats, uniform: Floats) -> Indices:
    """Column of each row with probability proportional to exp(log_weight)."""
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    sums = np.cumsum(weight, axis=1)
    return np.asarray((sums <= uniform[:, None] * sums[:, -1:]).sum(axis=1))


def _subset(size: int, count: int, source: Sampler) -> Indices:
    """(count,) distinct numbers below `size`, uniform over sets: the first swaps of a Fisher-Yates shuffle."""
    moved: dict[int, int] = {}
    picks = source.below(size - np.arange(count)) + np.arange(count) if count else np.empty(0, dtype=np.int64)
    for place, pick in enumerate(picks.tolist()):
        moved[place], moved[pick] = moved.get(pick, pick), moved.get(place, place)
    return np.array([moved[place] for place in range(count)], dtype=np.int64)
