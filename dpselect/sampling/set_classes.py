"""Classes of equally scored sets, and the exact draw of one that wins, by branch and bound.

With ranks 1..m, class (h, t) holds the sets with the ranks 1..h, without rank h + 1, whose lowest
rank is t. All its C(t-h-2, k-h-1) members have the score gamma x_[t] - (1 - gamma) x_[h+1]. For
gamma = 1 the missing rank does not matter: class t has C(t-1, k-1). The true top set is a class of
its own: x_[k] takes the place of the missing score if `top_set` is "tied", x_[k+1] if it is "gap".
A row is the run of classes that share h, with t from `first` to m.

A block is a run of classes of one row. The largest noise over all its sets is drawn first, because
it bounds the scores of all of them. Blocks that cannot win are put aside, and the others are split.
The child with the largest noise is chosen in proportion to the children's sizes, and the noise of
the other children is drawn anew, below the parent's. This is the joint distribution of the maxima
(as in A* sampling, Maddison et al. 2014; Theorem M6). float64 enclosures decide most comparisons,
and ball arithmetic with more bits the rest (Theorem M9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, final

import numpy as np
from flint import arb, fmpq

from accounting.numbers import Flags, Floats, Integers
from dpselect.noise import Gumbel, Noise, log1mexp, noise_of, widen
from dpselect.sampling.base import Sampler
from dpselect.sampling.contest import (
    LazyUniform,
    Numbers,
    Words,
    WordSource,
    contest_bounds,
    estimates,
    rational,
)
from dpselect.sampling.discrete import pick_rows
from dpselect.sampling.log_binomials import (
    binomial_ball,
    log_binomial,
    log_binomial_bounds,
    log_difference_bounds,
)
from dpselect.sampling.ranked import Ranked, draw_sequences, half_below, rank_rows

TopSet = Literal["tied", "gap"]

# Bounds on half the noisy scores of sets; halves, because scores at both ends of float64 would
# overflow. Theorem M9.

_ROUNDING = 2.0**-50  # of the terms of a sum: above its roundings and those that its terms have had
_TINY = 2.0**-1000  # more than any underflow

Bounds = tuple[Floats, Floats]


def _half_scores(least: Floats, missing: Floats, gamma: float) -> Bounds:
    """Return bounds on gamma * least - (1 - gamma) * missing, for heights <= 0 rounded once."""
    middle = gamma * least - (1 - gamma) * missing
    slack = _ROUNDING * (gamma * np.abs(least) + (1 - gamma) * np.abs(missing)) + _TINY
    return middle - slack, middle + slack


def totals(scores: Bounds, noise: Bounds, scale: float) -> Bounds:
    """Return bounds on half of score + scale * noise, from bounds on half scores and noise."""
    half = 0.5 * scale
    with np.errstate(over="ignore", invalid="ignore"):
        (low, high), (least, most) = scores, (half * noise[0], half * noise[1])
        least = low + least - _ROUNDING * (np.abs(low) + np.abs(least))
        most = high + most + _ROUNDING * (np.abs(high) + np.abs(most))
    # Beyond the floats nothing is bounded.
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)


# If F is a noise's distribution function, g = -ln(-ln F) at the largest of M draws is a standard
# Gumbel draw plus ln M, finite where F itself rounds to one, at M = C(10^6, 1000) for example.

_FAR = 36.0  # from here ln(1 - exp(-exp(-g))) = -g to the last bit
_MIDDLE = 0.3665  # exp(-exp(-g)) is one half
_MAP_ALLOWANCE = 2.0**-40  # of 1 + |z|: thousands of times the error of the map


def noise_at(noise: Noise, g: Floats) -> Floats:
    """Return the z with -ln(-ln F(z)) = g, elementwise; non-decreasing."""
    if isinstance(noise, Gumbel):
        return g
    upper = g > _MIDDLE
    z = np.empty_like(g)
    z[upper] = noise.log_isf(
        np.where(g[upper] > _FAR, -g[upper], log1mexp(np.exp(-np.minimum(g[upper], _FAR))))
    )
    z[~upper] = noise.log_quantile(-np.exp(-g[~upper]))
    return z


def noise_bounds(noise: Noise, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds on the z with low <= -ln(-ln F(z)) <= high. Theorem M9."""
    if isinstance(noise, Gumbel):
        return low, high
    with np.errstate(all="ignore"):
        least, most = noise_at(noise, low), noise_at(noise, high)
    return widen(least, most, _MAP_ALLOWANCE)


class SetClass(NamedTuple):
    """A class of sets: ranks 1..lead and `lowest` are in, and `free_from` to `lowest` - 1 free.

    All other ranks are out.
    """

    lead: int
    free_from: int
    lowest: int


@final
class Classes:
    """All classes for scores in rank order.

    `first` is the lowest t of every row, which is empty if there are fewer candidates.
    """

    def __init__(self, ranked: Ranked, k: int, gamma: float, top_set: TopSet) -> None:
        self.ranked: Ranked = ranked
        self.k: int = k
        self.gamma: float = gamma
        # With gamma = 1 the top set is class t = k of the only row.
        self.separate_top: bool = gamma < 1 or k == ranked.size
        rows = np.arange(k if gamma < 1 else 1)
        self.first: int = k + 1 if self.separate_top else k
        self._missing = np.append(rows + 1, min(k + 1, ranked.size) if top_set == "gap" else k)
        self._offset = np.append(rows + 2 if gamma < 1 else rows + 1, k)
        self._free = np.append(k - 1 - rows, 0)
        self._half_missing = ranked.half_below_top(self._missing)

    @property
    def top(self) -> float:
        """Score of the true top-k set minus the highest score, in score units.

        It is used if that set is a class of its own.
        """
        return float(self.score(self.top_row, self.k))

    @property
    def rows(self) -> int:
        """Number of rows, without that of the true top set."""
        return self.top_row if self.first <= self.ranked.size else 0

    @property
    def top_row(self) -> int:
        """The row whose only class, t = k, is the true top set, if that is a class of its own."""
        return len(self._missing) - 1

    def score(self, row: Any, lowest: Any) -> Floats:
        """Return the score of class (row, lowest), elementwise, rounded."""
        return self.gamma * self.ranked.below_top(lowest) - (
            1 - self.gamma
        ) * self.ranked.below_top(self._missing[row])

    def half_score(self, row: Any, lowest: Any) -> tuple[Floats, Floats]:
        """Return bounds on half the score of class (row, lowest)."""
        return _half_scores(self.ranked.half_below_top(lowest), self._half_missing[row], self.gamma)

    def exact_score(self, row: int, lowest: int) -> fmpq:
        """Return the score of class (row, lowest) as a rational, not relative to the highest."""
        gamma = rational(self.gamma)
        return gamma * rational(self.ranked.value(lowest)) - (1 - gamma) * rational(
            self.ranked.value(int(self._missing[row]))
        )

    def log_size(self, row: Any, lowest: Any) -> Floats:
        """Return ln of the number of sets in class (row, lowest), elementwise."""
        return log_binomial(np.asarray(lowest) - self._offset[row], self._free[row])

    def log_mass(self, row: Any, start: Any, stop: Any) -> tuple[Floats, Floats]:
        """Return bounds on ln of the number of sets in the classes start <= t < stop of a row.

        Both are -inf if there is none.
        """
        start, stop, offset, free = np.broadcast_arrays(
            start, stop, self._offset[row], self._free[row]
        )
        low, high = np.full(start.shape, -np.inf), np.full(start.shape, -np.inf)
        single, several = stop - start == 1, stop - start > 1
        low[single], high[single] = log_binomial_bounds((start - offset)[single], free[single])
        # Columns of Pascal's triangle: C(a, r) + ... + C(b-1, r) = C(b, r+1) - C(a, r+1).
        upper = log_binomial_bounds((stop - offset)[several], free[several] + 1)
        lower = log_binomial_bounds((start - offset)[several], free[several] + 1)
        low[several], high[several] = log_difference_bounds(upper, lower)
        return low, high

    def mass(self, row: int, start: int, stop: int) -> arb:
        """Return a ball around the number of sets in the classes start <= t < stop of a row.

        It shrinks to the number as Arb's working precision grows.
        """
        offset, free = int(self._offset[row]), int(self._free[row])
        if stop - start == 1:
            return binomial_ball(start - offset, free)
        return binomial_ball(stop - offset, free + 1) - binomial_ball(start - offset, free + 1)

    def set_class(self, row: int, lowest: int) -> SetClass:
        """Return class (row, lowest) in terms of ranks."""
        if row == self.top_row:
            return SetClass(self.k - 1, self.k, self.k)
        lead = row if self.gamma < 1 else 0
        return SetClass(lead, int(self._offset[row]), lowest)


# The same for many score vectors over few candidates.


@final
class RowClasses:
    """The ranks of each class of a row, (classes,), and n and r of its size C(n, r).

    The true top set is last.
    """

    def __init__(self, candidates: int, k: int, gamma: float, top_set: TopSet) -> None:
        self.k: int = k
        self.gamma: float = gamma
        lead = np.repeat(np.arange(k if gamma < 1 else 1), candidates - k)
        lowest = np.tile(np.arange(k + 1, candidates + 1), k if gamma < 1 else 1)
        self.n: Integers = np.append(lowest - lead - 2 if gamma < 1 else lowest - 1, 0)
        self.r: Integers = np.append(k - lead - 1 if gamma < 1 else np.full(len(lowest), k - 1), 0)
        self.lead: Integers = np.append(lead, k)
        self.lowest: Integers = np.append(lowest, k)
        top = k if top_set == "tied" else min(k + 1, candidates)
        self.missing: Integers = np.append(lead + 1, top)

    def size(self, place: int) -> arb:
        """Return a ball around the number of sets in one class, at Arb's working precision."""
        return binomial_ball(int(self.n[place]), int(self.r[place]))


# Blocks of classes, each with the largest noise among its sets, and how a block is split.
# Theorems M6 and M9.

_CHILDREN = 8
_FEW = 1024
_BLOCK_ALLOWANCE = 2.0**-45  # of 1 + |g|: above the roundings of a sum and of a logaddexp


class Blocks(NamedTuple):
    """Blocks of classes start <= t < stop of a row each, with the largest noise of each block."""

    row: Integers
    start: Integers
    stop: Integers
    low: Floats  # bounds on -ln(-ln F) of the largest noise among the block's sets
    high: Floats
    word: Words  # the first bits of the block's own exponential clock
    parent: Integers  # index of the block it was split off, among the blocks before
    inherits: Flags  # True if it has its parent's largest noise, and `word` is unused


def roots(classes: Classes, words: WordSource) -> Blocks:
    """Return the blocks to begin with: whole rows, or single classes if there are few."""
    row, last = np.arange(classes.rows), classes.ranked.size + 1
    start, stop = np.full(len(row), classes.first), np.full(len(row), last)
    if len(row) * (last - classes.first) <= _FEW:
        lowest = np.arange(classes.first, last)
        start, row = np.tile(lowest, len(row)), np.repeat(row, len(lowest))
        stop = start + 1
    if classes.separate_top:
        top = classes.top_row, classes.k, classes.k + 1
        row, start, stop = (np.append(x, y) for x, y in zip((row, start, stop), top, strict=True))
    bits = words(len(row))
    low, high = max_gumbel_bounds(bits, classes.log_mass(row, start, stop))
    return Blocks(
        row,
        start,
        stop,
        low,
        high,
        bits,
        np.zeros_like(row),
        np.zeros(len(row), dtype=np.bool_),
    )


def max_gumbel_bounds(words: Words, log_mass: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return bounds on -ln(-ln F) at the largest of exp(log_mass) draws.

    The words are the first bits of V.
    """
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(noise_of("gumbel"), nothing, nothing.astype(np.int64), words)
    return widen(low + log_mass[0], high + log_mass[1], _BLOCK_ALLOWANCE)


def split(classes: Classes, parents: Blocks, indices: Integers, words: WordSource) -> Blocks:
    """Split some blocks, and draw each child's largest noise, given that of the whole block."""
    edges = _edges(parents.start[indices], parents.stop[indices], classes.first)
    start, stop = edges[:, :-1], edges[:, 1:]
    row = np.repeat(parents.row[indices, None], _CHILDREN, axis=1)
    log_mass = classes.log_mass(row, start, stop)
    inherits = (
        np.arange(_CHILDREN)
        == _draw_max_children(classes, row[:, 0], edges, log_mass, words)[:, None]
    )
    bits = words(row.size).reshape(row.shape)
    above = parents.low[indices, None], parents.high[indices, None]
    with np.errstate(invalid="ignore"):
        own = max_gumbel_bounds(bits, log_mass)
        least, most = (-np.logaddexp(-x, -y) for x, y in zip(above, own, strict=True))
        below = widen(least, most, _BLOCK_ALLOWANCE)
    low, high = (np.where(inherits, x, y) for x, y in zip(above, below, strict=True))
    parent = np.repeat(indices[:, None], _CHILDREN, axis=1)
    is_filled = stop > start
    every: tuple[Any, ...] = row, start, stop, low, high, bits, parent, inherits
    return Blocks(*(column[is_filled] for column in every))


def _draw_max_children(
    classes: Classes,
    row: Integers,
    edges: Integers,
    log_mass: tuple[Floats, Floats],
    words: WordSource,
) -> Integers:
    """Draw (blocks,) the child that holds the largest noise, by the children's sizes."""
    bits = words(len(row))
    children, certain = pick_rows(*log_mass, bits)
    for i in np.flatnonzero(~certain).tolist():

        def sizes(i: int = i) -> list[arb]:
            ends = edges[i].tolist()
            return [classes.mass(int(row[i]), a, b) if b > a else arb(0) for a, b in pairwise(ends)]

        children[i] = LazyUniform(words, word=int(bits[i])).column(sizes)
    return children


def _edges(start: Integers, stop: Integers, first: int) -> Integers:
    """Return (blocks, children + 1) cuts, geometric in the rank below the top.

    Scores fall fastest there.
    """
    low, high = (start - first + 1)[:, None], (stop - first + 1)[:, None]
    step = np.arange(_CHILDREN + 1)
    spread = np.floor(low * (high / low) ** (step / _CHILDREN)).astype(np.int64)
    cuts = np.where(
        high - low <= _CHILDREN, np.minimum(low + step, high), np.clip(spread, low, high)
    )
    cuts[:, 0], cuts[:, -1] = low[:, 0], high[:, 0]
    return cuts + first - 1


# Races: the best of contestants whose noise is the largest of many draws. If a set of M independent
# draws has the distribution function F, -ln F at the largest of them is E/M with E standard
# exponential; of subsets, a sum of such terms. Theorem X8.


class ExponentialClock(NamedTuple):
    """The waiting time E/M, with E = -ln(1 - V).

    `size()` is a ball around M that shrinks to it as Arb's working precision grows.
    """

    size: Callable[[], arb]
    draw: LazyUniform


class Contender(NamedTuple):
    """A contestant with score + scale * F^-1(exp(-t)), where t is the sum of the waits."""

    score: fmpq
    waits: Sequence[ExponentialClock]


def exact_argmax(runners: Sequence[Contender], noise: Noise, scale: fmpq) -> int:
    """Return the place of the best contestant, with bits drawn until every comparison is certain.

    Theorem X8.
    """
    best = 0
    for place in range(1, len(runners)):
        first, second = runners[place], runners[best]
        draws = {id(wait.draw): wait.draw for wait in (*first.waits, *second.waits)}.values()

        # zero with probability 0
        def lead(first: Contender = first, second: Contender = second) -> arb:
            return (
                arb((first.score - second.score) / scale)
                + _noise_of(first, noise)
                - _noise_of(second, noise)
            )

        if LazyUniform.sign(lead, draws) > 0:
            best = place
    return best


def _noise_of(runner: Contender, noise: Noise) -> arb:
    time = arb(0)
    for size, draw in runner.waits:
        time -= (-draw.ball()).log1p() / size()
    return noise.isf_ball(-(-time).expm1())


def draw_class(classes: Classes, noise: Noise, scale: float, source: Sampler) -> SetClass:
    """Draw the class whose best set has the largest score + scale * noise over all sets."""
    return _Draw(classes, noise, scale, source.words).set_class()


def draw_members(set_class: SetClass, k: int, source: Sampler) -> Integers:
    """Draw (k,) ranks of a uniformly random member of a class."""
    lead = np.arange(1, set_class.lead + 1)
    between = np.full((1, k - 1 - set_class.lead), set_class.lowest - set_class.free_from)
    free = draw_sequences(between, source)[0] - 1 + set_class.free_from
    return np.concatenate([lead, free, [set_class.lowest]])


@final
class _Draw:
    """A draw by generations of blocks, each split off the one before, and of candidate classes."""

    def __init__(self, classes: Classes, noise: Noise, scale: float, words: WordSource) -> None:
        self._classes, self._noise, self._scale, self._words = classes, noise, scale, words
        self._generations: list[Blocks] = []
        self._drawn: dict[tuple[int, int], LazyUniform] = {}

    def set_class(self) -> SetClass:
        finalists = self._finalists()
        best = 0
        if len(finalists) > 1:
            best = exact_argmax(
                [self._runner(*place) for place in finalists], self._noise, rational(self._scale)
            )
        generation, i = finalists[best]
        blocks = self._generations[generation]
        return self._classes.set_class(int(blocks.row[i]), int(blocks.start[i]))

    def _finalists(self) -> list[tuple[int, int]]:
        """Return generation and place of every single class that no other certainly beats."""
        blocks, floor = roots(self._classes, self._words), -np.inf
        alone: list[tuple[Integers, Floats]] = []
        while True:
            self._generations.append(blocks)
            least, most = self._totals(blocks)
            floor = max(floor, float(least.max()))
            single = blocks.stop - blocks.start == 1
            finalists = np.flatnonzero(single & (most >= floor))
            alone.append((finalists, most[finalists]))
            rivals = np.flatnonzero(~single & (most >= floor))
            if not len(rivals):
                break
            blocks = split(self._classes, blocks, rivals, self._words)
        return [
            (level, i)
            for level, (place, most) in enumerate(alone)
            for i in place[most >= floor].tolist()
        ]

    def _totals(self, blocks: Blocks) -> tuple[Floats, Floats]:
        """Return bounds on half the largest noisy score of every block."""
        (least, _), (_, most) = (
            self._classes.half_score(blocks.row, t) for t in (blocks.stop - 1, blocks.start)
        )
        return totals(
            (least, most), noise_bounds(self._noise, blocks.low, blocks.high), self._scale
        )

    def _runner(self, generation: int, i: int) -> Contender:
        blocks = self._generations[generation]
        score = self._classes.exact_score(int(blocks.row[i]), int(blocks.start[i]))
        waits = []
        for level in range(generation, -1, -1):
            blocks = self._generations[level]
            if not blocks.inherits[i]:
                size = partial(
                    self._classes.mass,
                    int(blocks.row[i]),
                    int(blocks.start[i]),
                    int(blocks.stop[i]),
                )
                # One object, so that all comparisons see the same bits.
                lazy = self._drawn.setdefault(
                    (level, i), LazyUniform(self._words, word=int(blocks.word[i]))
                )
                waits.append(ExponentialClock(size, lazy))
            i = int(blocks.parent[i])
        return Contender(score, waits)


# Many score vectors over few candidates: every class of every row at once. Theorem M9.

_CELLS = 1 << 18
_LEAST = 2.0**-900  # scales below may lose scores to underflow
# noise units, and of a height: estimates so far apart are in their numbers' order
_MARGIN, _HEIGHT_ROUNDING = 2.0**-14, 2.0**-44


def draw_rows(
    matrix: Numbers, layout: RowClasses, noise: Noise, scale: float, source: Sampler
) -> Integers:
    """Draw (rounds, k) positions in ascending order for a (rounds, m) matrix of scores."""
    step = max(1, _CELLS // max(len(layout.n), matrix.shape[1]))
    blocks = [matrix[i : i + step] for i in range(0, len(matrix), step)]
    return np.concatenate([_block(block, layout, noise, scale, source.words) for block in blocks])


def _block(
    matrix: Numbers, layout: RowClasses, noise: Noise, scale: float, words: WordSource
) -> Integers:
    order = rank_rows(matrix)
    ranked: Numbers = np.take_along_axis(matrix, order, axis=1)  # type: ignore[assignment]
    winners = _winners(ranked, layout, noise, scale, words)
    ranks = _members(matrix.shape, winners, layout, words)
    return np.sort(np.take_along_axis(order, ranks, axis=1), axis=1)


def _winners(
    ranked: Numbers, layout: RowClasses, noise: Noise, scale: float, words: WordSource
) -> Integers:
    """Draw (rounds,) the class that wins each row."""
    with np.errstate(all="ignore"):
        heights = half_below(ranked, ranked[:, :1]) / (0.5 * scale)
    bits = words(len(ranked) * len(layout.n))
    g, wide = estimates(noise_of("gumbel"), bits)
    shape = (len(ranked), len(layout.n))
    total = noise_at(noise, g.reshape(shape) + log_binomial(layout.n, layout.r))
    with np.errstate(all="ignore"):
        total += (
            layout.gamma * heights[:, layout.lowest - 1]
            - (1 - layout.gamma) * heights[:, layout.missing - 1]
        )
        winners = np.argmax(total, axis=1)
        # The lowest score bounds the rounding of all.
        slack = (
            _MARGIN + _HEIGHT_ROUNDING * np.abs(heights[:, -1])
            if scale >= _LEAST
            else np.full(len(total), np.inf)
        )
        rivals = (total >= (total[np.arange(len(total)), winners] - slack)[:, None]).sum(axis=1) > 1
    rivals[wide // shape[1]] = True
    for row in np.flatnonzero(rivals | ~np.isfinite(slack)).tolist():
        winners[row] = _find_winner(
            ranked[row], layout, noise, scale, bits.reshape(shape)[row], words
        )
    return winners


def _find_winner(
    ranked: Numbers,
    layout: RowClasses,
    noise: Noise,
    scale: float,
    bits: Words,
    words: WordSource,
) -> int:
    """Return the winner of one row with these words, certain of every comparison."""
    largest = noise_bounds(noise, *max_gumbel_bounds(bits, log_binomial_bounds(layout.n, layout.r)))
    heights = half_below(ranked, ranked[0])
    scores = _half_scores(heights[layout.lowest - 1], heights[layout.missing - 1], layout.gamma)
    low, high = totals(scores, largest, scale)
    places = np.flatnonzero(high >= low.max()).tolist()
    runners = [_runner(ranked, layout, place, bits, words) for place in places]
    return places[exact_argmax(runners, noise, rational(scale))]


def _runner(
    ranked: Numbers, layout: RowClasses, place: int, bits: Words, words: WordSource
) -> Contender:
    gamma = rational(layout.gamma)
    least, missing = (
        rational(ranked[int(ranks[place]) - 1].item()) for ranks in (layout.lowest, layout.missing)
    )
    wait = ExponentialClock(partial(layout.size, place), LazyUniform(words, word=int(bits[place])))
    return Contender(gamma * least - (1 - gamma) * missing, [wait])


def _members(
    shape: tuple[int, ...], winners: Integers, layout: RowClasses, words: WordSource
) -> Integers:
    """Draw (rounds, k) ranks, from 0, of a uniformly random member of each row's class."""
    rank, lead, lowest = np.arange(1, shape[1] + 1), layout.lead[winners], layout.lowest[winners]
    inside = (rank <= lead[:, None]) | (rank == lowest[:, None])
    outside = rank > lowest[:, None]
    if layout.gamma < 1:
        outside |= (rank == lead[:, None] + 1) & ~inside
    ranks, rejected = np.empty((shape[0], layout.k), dtype=np.int64), np.arange(shape[0])
    while len(rejected):
        keys = words(len(rejected) * shape[1]).reshape(len(rejected), -1)
        keys[inside[rejected]], keys[outside[rejected]] = 0, ~np.uint64(0)
        ranks[rejected] = np.argpartition(keys, layout.k - 1, axis=1)[:, : layout.k]
        # Where keys are equal at the cut, no random bit says which rank is in: such rows are drawn
        # again.
        cut = np.take_along_axis(keys, ranks[rejected], axis=1).max(axis=1, keepdims=True)
        rejected = rejected[(keys <= cut).sum(axis=1) != layout.k]
    return ranks
