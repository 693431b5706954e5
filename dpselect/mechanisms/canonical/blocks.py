"""Blocks of classes, each with the largest noise among its sets, and how a block is split. Theorems M6 and M9."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpselect.mechanisms.canonical.classes import Classes
from dpselect.noise import by_name
from dpselect.sampling.categorical import picked_rows, refined
from dpselect.sampling.heights import Floats, Indices, Words, contest_bounds
from dpselect.sampling.lazy import WordSource

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


def _heirs(
    classes: Classes, row: Indices, edges: Indices, log_mass: tuple[Floats, Floats], words: WordSource
) -> NDArray[np.int64]:
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
