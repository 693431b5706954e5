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

from dpselect.mechanisms.canonical.classes import Chosen, Classes, Layout, RowDraw, half_scores, noise_at, noise_bounds, totals
from dpselect.mechanisms.ranks import draw_sequences, half_below, ranked_rows
from dpselect.noise import Noise, by_name
from dpselect.sampling import Sampler
from dpselect.sampling.discrete import picked_rows, refined
from dpselect.sampling.heights import Floats, Indices, Numbers, Words, contest_bounds, estimates
from dpselect.sampling.lazy import LazyUniform, Runner, Wait, WordSource, rational, winner

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
    between = np.full((1, k - 1 - chosen.held), chosen.lowest - chosen.free_from)
    free = draw_sequences(between, source)[0] - 1 + chosen.free_from
    return np.concatenate([held, free, [chosen.lowest]])


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


# Many score vectors over few candidates: every class of every row at once. Theorem M9.

_CELLS = 1 << 18
_LEAST = 2.0**-900  # scales below may lose scores to underflow
_MARGIN, _ROUNDING = 2.0**-14, 2.0**-44  # noise units, and of a height: estimates so far apart are in their numbers' order


def draw_rows(matrix: Numbers, asked: RowDraw, source: Sampler) -> Indices:
    """(rounds, k) positions in ascending order for a (rounds, m) matrix of scores."""
    step = max(1, _CELLS // max(asked.classes(matrix.shape[1]), matrix.shape[1]))
    return np.concatenate([_block(matrix[i : i + step], asked, source) for i in range(0, len(matrix), step)])


def _block(matrix: Numbers, asked: RowDraw, source: Sampler) -> Indices:
    order = ranked_rows(matrix)
    ranked: Numbers = np.take_along_axis(matrix, order, axis=1)  # type: ignore[assignment]
    layout = Layout(asked, matrix.shape[1])
    chosen = _winners(ranked, layout, asked, source.words)
    ranks = _members(matrix.shape, layout.held[chosen], layout.lowest[chosen], asked, source.words)
    return np.sort(np.take_along_axis(order, ranks, axis=1), axis=1)


def _winners(ranked: Numbers, layout: Layout, asked: RowDraw, words: WordSource) -> Indices:
    """(rounds,) the class that wins each row."""
    with np.errstate(all="ignore"):
        heights = half_below(ranked, ranked[:, :1]) / (0.5 * asked.scale)
    drawn = words(len(ranked) * len(layout.n))
    g, wide = estimates(by_name("gumbel"), drawn)
    shape = (len(ranked), len(layout.n))
    total = noise_at(asked.noise, g.reshape(shape) + layout.log_size())
    with np.errstate(all="ignore"):
        total += asked.gamma * heights[:, layout.lowest - 1] - (1 - asked.gamma) * heights[:, layout.missing - 1]
        chosen = np.argmax(total, axis=1)
        # The lowest score bounds the rounding of all.
        slack = _MARGIN + _ROUNDING * np.abs(heights[:, -1]) if asked.scale >= _LEAST else np.full(len(total), np.inf)
        rivals = (total >= (total[np.arange(len(total)), chosen] - slack)[:, None]).sum(axis=1) > 1
    rivals[wide // shape[1]] = True
    for row in np.flatnonzero(rivals | ~np.isfinite(slack)).tolist():
        chosen[row] = _settled(ranked[row], layout, asked, drawn.reshape(shape)[row], words)
    return chosen


def _settled(ranked: Numbers, layout: Layout, asked: RowDraw, drawn: Words, words: WordSource) -> int:
    """The winner of one row, whose words are drawn, certain of every comparison."""
    noise = noise_bounds(asked.noise, *luck(drawn, layout.log_size_bounds()))
    heights = half_below(ranked, ranked[0])
    scores = half_scores(heights[layout.lowest - 1], heights[layout.missing - 1], asked.gamma)
    low, high = totals(scores, noise, asked.scale)
    places = np.flatnonzero(high >= low.max()).tolist()
    runners = [_runner(ranked, layout, asked, place, drawn, words) for place in places]
    return places[winner(runners, asked.noise, rational(asked.scale))]


def _runner(ranked: Numbers, layout: Layout, asked: RowDraw, place: int, drawn: Words, words: WordSource) -> Runner:
    gamma = rational(asked.gamma)
    least, missing = (rational(ranked[int(ranks[place]) - 1].item()) for ranks in (layout.lowest, layout.missing))
    wait = Wait(partial(layout.size, place), LazyUniform(words, word=int(drawn[place])))
    return Runner(gamma * least - (1 - gamma) * missing, [wait])


def _members(shape: tuple[int, ...], held: Indices, lowest: Indices, asked: RowDraw, words: WordSource) -> Indices:
    """(rounds, k) ranks, from 0, of a uniformly random member of each row's class."""
    rank = np.arange(1, shape[1] + 1)
    inside = (rank <= held[:, None]) | (rank == lowest[:, None])
    outside = rank > lowest[:, None]
    if asked.gamma < 1:
        outside |= (rank == held[:, None] + 1) & ~inside
    ranks, late = np.empty((shape[0], asked.k), dtype=np.int64), np.arange(shape[0])
    while len(late):
        keys = words(len(late) * shape[1]).reshape(len(late), -1)
        keys[inside[late]], keys[outside[late]] = 0, ~np.uint64(0)
        ranks[late] = np.argpartition(keys, asked.k - 1, axis=1)[:, : asked.k]
        # Where keys are equal at the cut, no random bit says which rank is in: such rows are drawn again.
        cut = np.take_along_axis(keys, ranks[late], axis=1).max(axis=1, keepdims=True)
        late = late[(keys <= cut).sum(axis=1) != asked.k]
    return ranks
