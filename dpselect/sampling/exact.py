"""The exact k largest of scores + scale * noise, by algorithms that suit the number of candidates.

The sweep draws the noise of only a few of them.

Every candidate has a uniform number V, and its noise is isf(V): large noise is a small V. A
candidate exceeds a threshold only if V < 2^-j for a level j that its score gives. The candidates of
a pool that have V < 2^-j are drawn directly. They are entered in the contest, with the remaining
bits of V, and the threshold is lowered until k exceed it. This is exact for every sequence of
thresholds (Theorem X6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import Flags, Floats, Integers
from dpselect.errors import DpSelectError
from dpselect.noise import Noise
from dpselect.sampling.contest import (
    LOWEST,
    Contenders,
    Entries,
    Numbers,
    RankingProblem,
    Words,
    estimates,
    heights,
    largest_rows,
    rank_entries,
)
from dpselect.sampling.discrete import successes

Levels = NDArray[np.uint8]

HIGHEST_LEVEL = 56  # one word decides whether a uniform number is below 2^-56
UNKNOWN = 255
# of |threshold| + |height|: covers the rounding of the height and of the difference
_ROUNDING = 2.0**-45
_UNITS = 1 << 14  # units whose temporaries fit the cache
# number of parts in which noise is drawn, within sizes that suit the cache
_CHUNKS, _SMALLEST, _LARGEST = 24, 10_000, 1 << 15
# up to this many candidates, and this many more for each one asked for, a sweep takes longer
_DRAWN, _DRAWN_EACH = 80_000, 2000
_SAMPLE = 4096
_MOST_BLOCK, _LEAST_BLOCK = 512, 16
_MOST_EXPANDED = 50_000_000
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference and quotient
# of a height: estimates that far apart are those of numbers in the same order
_OF_HEIGHT = 2.0**-46
# rounds swept together: of what is drawn a share grows with their square
_TOGETHER = 128
_WINNERS = 2  # in a round, of those left, for which its threshold is guessed
_BOUNDS_AT_ONCE = 1 << 15  # for the sake of memory
_SPARE = 1024  # candidates held beyond 2k before the certain losers are dropped


class TooManyCandidates(DpSelectError):
    """Error raised if grouped scores imply too many candidates to draw noise for one by one.

    `constant_work` would have to. Nothing was drawn.
    """


def top_k(problem: RankingProblem) -> Entries:
    """Return the k largest, largest first."""
    return SweepIndex(problem).top_k(problem.k) if should_sweep(problem) else draw_all(problem)


def should_sweep(problem: RankingProblem) -> bool:
    """True if a sweep is quicker than the noise of every candidate."""
    return len(problem.values) > _DRAWN + _DRAWN_EACH * problem.k


def draw_all(problem: RankingProblem) -> Entries:
    """Do as `top_k`, with the noise of every candidate drawn.

    Estimates find the candidates that may be among the k largest.
    """
    problem, size, k = problem.against(problem.values.max()), len(problem.values), problem.k
    chunk = min(max(size // _CHUNKS, _SMALLEST), _LARGEST)
    parts, total, least = list[tuple[Integers, Words, Floats]](), 0, -np.inf
    for start in range(0, size, chunk):
        words = problem.words(min(chunk, size - start))
        estimate, wide = estimates(problem.noise, words)
        estimate += problem.heights(problem.values[start : start + chunk])
        estimate[wide] = np.inf  # an estimate that says little: kept, and no measure for others
        places = np.flatnonzero(estimate >= least)
        parts.append((places + start, words[places], estimate[places]))
        total += len(places)
        if total > 2 * k + _SPARE or start + chunk >= size:
            index, words, estimate = (np.concatenate(column) for column in zip(*parts, strict=True))
            measured = estimate[estimate < np.inf]
            if len(measured) >= k:
                least = max(
                    least,
                    float(
                        _cut(
                            np.partition(measured, len(measured) - k)[len(measured) - k],
                            problem.margin,
                        )
                    ),
                )
            places = np.flatnonzero(estimate >= least)
            parts, total = [(index[places], words[places], estimate[places])], len(places)
    index, words, _ = parts[0]
    return rank_entries(problem, Entries.from_index(index, words))


def _cut(best: Floats, margin: float) -> Floats:
    """Return the estimate that a number needs not to be certainly below one with estimate `best`.

    Theorem X10.
    """
    return np.asarray(
        np.where(best > 0.5 * LOWEST, best - margin - _OF_HEIGHT * np.abs(best), -np.inf)
    )


def peel(problem: RankingProblem) -> Integers:
    """Return (k,) positions of the winners of k rounds, each with fresh noise for the rest.

    Scores are passed over once. Up to `_TOGETHER` rounds are swept together, in which a candidate
    has a draw for each round. Theorem X12.
    """
    scores, winners = SweepIndex(problem), dict[int, None]()
    for start in range(0, problem.k, _TOGETHER):
        scores.peel(min(_TOGETHER, problem.k - start), winners)
    return np.array(list(winners), dtype=np.int64)


@final
class SweepIndex:
    """Scores that were passed over once, for any number of independent sweeps over them."""

    def __init__(self, problem: RankingProblem) -> None:
        maxima = block_maxima(problem.values, problem.k)
        self._problem = problem.against(maxima.max())
        self._blocks = units(self._problem.heights(maxima))
        size = len(problem.values)
        # each stands for `share` of all others
        self._sample = self._problem.heights(problem.values[:: max(1, size // _SAMPLE)])
        self._share = (size - len(maxima)) / len(self._sample)

    def top_k(self, k: int, threshold: float | None = None) -> Entries:
        """Return the k largest under fresh noise.

        `threshold` is in noise units relative to the largest score, and guessed if None.
        """
        if threshold is None:
            threshold = _guess(
                self._problem.noise, self._blocks.height, None, self._sample, self._share, k
            )
        return Sweep(replace(self._problem, k=k)).blocks(self._blocks, threshold)

    def peel(self, rounds: int, order: dict[int, None], threshold: float | None = None) -> None:
        """Add to `order` the winners of more rounds, in their order; `threshold` as for `top_k`.
        Theorem X12.
        """
        if threshold is None:
            # As if the best of all were taken: of the sample too, in which one of them stands for
            # many that are not there. A guess that is far too high falls past all of the others.
            count = max(1, len(self._blocks) - len(order) - rounds)
            behind = np.partition(self._blocks.height, count - 1)[:count]
            sample = self._sample[self._sample <= behind.max()]
            threshold = _guess(self._problem.noise, behind, None, sample, self._share, _WINNERS)
        winners = Rounds(replace(self._problem, k=1), rounds, order)
        Sweep(winners.problem).rounds(self._blocks, threshold, winners)


def rank_groups(
    problem: RankingProblem, multiplicities: Integers, *, threshold: float | None = None
) -> Entries:
    """Return the k largest among groups of candidates with one score.

    `index` is the group, and `member` the place in it.
    """
    problem = problem.against(problem.values.max())
    groups = units(problem.heights(problem.values))
    if threshold is None:
        weights = multiplicities.astype(np.float64)
        threshold = _guess(problem.noise, groups.height, weights, groups.height[:0], 0.0, problem.k)
    return Sweep(problem).groups(groups, multiplicities, threshold)


def groups_reaching(problem: RankingProblem, multiplicities: Integers, level: float) -> Entries:
    """Return all members of groups that may exceed `level` (score units), and others, unordered.

    Theorem X14.
    """
    problem = problem.against(problem.values.max())
    groups, top = units(problem.heights(problem.values)), float(problem.values.max())
    with np.errstate(over="ignore"):
        distance = float(np.float64(level - top - _SLACK * (abs(level) + abs(top))) / problem.scale)
    # noise units, from below
    threshold = min(max(distance - _SLACK * abs(distance), 1e5 * LOWEST), -LOWEST)
    return Sweep(problem).reaching(groups, multiplicities, threshold)


def draw_all_groups(
    problem: RankingProblem,
    multiplicities: Integers,
    drawn: Callable[[RankingProblem], Entries] = draw_all,
) -> Entries:
    """Do as `rank_groups`, with the noise of every candidate drawn."""
    require_drawable(int(multiplicities.sum(dtype=object)))
    group = np.repeat(np.arange(len(multiplicities)), multiplicities)
    entries = drawn(problem.take(group))
    return entries.split(group, np.cumsum(multiplicities) - multiplicities)


def require_drawable(candidates: int) -> None:
    """Raise `TooManyCandidates` if there are too many to draw the noise of each."""
    if candidates > _MOST_EXPANDED:
        raise TooManyCandidates(
            f"constant_work draws the noise of every candidate, at most {_MOST_EXPANDED:,},"
            " but these grouped scores imply more. Release them outside of constant_work, on"
            " a schedule if their timing can be observed"
        )


def block_maxima(values: Numbers, k: int) -> Numbers:
    """Return (n,) maxima of n blocks: block i has candidates i, i + n, i + 2 n, ...

    The blocks are interleaved because their maxima are then found at the speed of memory, unlike
    those of consecutive ones. Their size balances the number of blocks against that of the
    candidates in about k blocks that are visited one by one.
    """
    size = len(values)
    block = min(max(math.isqrt(size // k), _LEAST_BLOCK), _MOST_BLOCK)
    count = size // block
    maxima: Numbers = values[: count * block].reshape(block, count).max(axis=0)
    rest = values[count * block :]
    for start in range(0, len(rest), count):
        part = rest[start : start + count]
        np.maximum(maxima[: len(part)], part, out=maxima[: len(part)])
    return maxima


_BINS_PER_UNIT = 4.0
_BELOW, _ABOVE = 48.0, 112.0  # noise units around the k-th height that matter
_ROUNDS = 16


def _guess(
    noise: Noise, heights: Floats, weights: Floats | None, sample: Floats, share: float, k: int
) -> float:
    """Return a threshold in noise units that somewhat more than k candidates exceed.

    It decides the speed of a sweep, and nothing else. `heights` are those of the most important
    candidates, each standing for `weights` candidates (one if None). The heights of `sample`, drawn
    from all others, stand for `share` of them each.
    """
    goal = k + 3.0 * math.sqrt(k) + 3.0
    origin = _height_at(heights, weights, goal)
    certain = _histogram(heights, weights, origin)
    sampled = _histogram(sample, None, origin)
    grid = np.arange(len(certain)) / _BINS_PER_UNIT - _BELOW
    low, high = -_BELOW, _BELOW + _ABOVE
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        chance = noise.sf(middle - grid)
        mean, square = float(sampled @ chance), float(sampled @ np.square(chance))
        # Two standard errors off: a sample that happens to hold one of few high scores must not
        # count it for thousands.
        expected = float(certain @ chance) + share * max(0.0, mean - 2.0 * math.sqrt(square))
        low, high = (middle, high) if expected >= goal else (low, middle)
    return origin + low


def _height_at(heights: Floats, weights: Floats | None, goal: float) -> float:
    """Return about the goal-th height from the top, or the lowest."""
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


# The exact k largest of every row of a matrix of scores.

_CHUNK = 1 << 14  # candidates whose noise fits the cache
_WIDE = 4096  # rows from here on are problems of their own


def top_k_rows(problem: RankingProblem, *, constant_work: bool = False) -> Integers:
    """Return (rounds, k) positions, largest first; `problem.values` is a (rounds, m) matrix."""
    rounds, candidates = problem.values.shape
    if candidates >= _WIDE:
        best = draw_all if constant_work else top_k
        return np.stack([best(problem.take(row)).index for row in range(rounds)])
    step = max(1, _CHUNK // candidates)
    return np.concatenate(
        [_block(problem.take(slice(start, start + step))) for start in range(0, rounds, step)]
    )


def _block(problem: RankingProblem) -> Integers:
    matrix = problem.values
    words = problem.words(matrix.size)
    estimate, wide = estimates(problem.noise, words)
    words, estimate = words.reshape(matrix.shape), estimate.reshape(matrix.shape)
    estimate += heights(matrix, matrix.max(axis=1, keepdims=True), problem.scale)
    best = largest_rows(estimate, problem.k)
    certain = _decided(estimate, best, problem.margin)
    certain[wide // matrix.shape[1]] = False
    for row in np.flatnonzero(~certain).tolist():
        row_problem = problem.take(row).against(matrix[row].max())
        best[row] = rank_entries(
            row_problem, Entries.from_index(np.arange(matrix.shape[1]), words[row])
        ).index
    return best


def _decided(estimate: Floats, best: Integers, margin: float) -> Flags:
    """Return flags of rows that the estimates rank beyond doubt.

    In them each of the k stays above everything after it. Theorem X10.
    """
    reached = np.take_along_axis(estimate, best, axis=1)
    cuts = _cut(reached, margin)
    rivals = (estimate >= cuts[:, -1:]).sum(axis=1)
    return np.asarray((rivals == best.shape[1]) & (reached[:, 1:] < cuts[:, :-1]).all(axis=1))


@final
@dataclass(frozen=True)
class Units:
    """Blocks of candidates, or groups that share one score."""

    start: Integers  # index into the values of a unit's first candidate
    # a bound, at most 0, on the height of each candidate of a unit (up to 2^-50 of itself)
    height: Floats
    # candidates that have not been entered are known to have V >= 2^-depth; UNKNOWN if nothing is
    # known
    depth: Levels

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, places: Flags | slice) -> Self:
        return type(self)(self.start[places], self.height[places], self.depth[places])

    def levels(self, noise: Noise, threshold: float) -> Levels:
        """Return (units,) levels j at which V >= 2^-j keeps a candidate below the threshold.

        Theorem X3.
        """
        levels = np.empty(len(self), dtype=np.uint8)
        for start in range(0, len(self), _UNITS):
            part = slice(start, start + _UNITS)
            distance = self.height[part] * (_ROUNDING - 1.0)
            distance += threshold - _ROUNDING * abs(threshold)
            with np.errstate(over="ignore"):
                bits = noise.tail_bits(distance)
            levels[part] = np.minimum(np.maximum(bits, 0.0), HIGHEST_LEVEL).astype(np.uint8)
        return np.minimum(levels, self.depth, out=levels)


def units(height: Floats) -> Units:
    """Return units about which nothing is known, the first candidate of each in its place."""
    return Units(np.arange(len(height)), height, np.full(len(height), UNKNOWN, dtype=np.uint8))


def _join(first: Units, second: Units) -> Units:
    """Concatenate two sets of units."""
    columns = ("start", "height", "depth")
    return Units(
        *(np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns)
    )


def _split(hot: Units, count: int, problem: RankingProblem) -> Units:
    """Take blocks apart into their candidates; `count` is the number of blocks in all."""
    size = len(problem.values)
    index = (np.arange(0, size, count)[:, None] + hot.start).ravel()
    depths = np.broadcast_to(hot.depth, (-(-size // count), len(hot))).ravel()
    real = index < size
    if not real.all():
        index, depths = index[real], depths[real]
    return Units(index, problem.heights(problem.values[index]), depths)


@final
class Rounds:
    """Winners of rounds, one after the other, each among the candidates that are not taken; the
    `member` of an entry is its round. Theorem X12.
    """

    def __init__(self, problem: RankingProblem, count: int, winners: dict[int, None]) -> None:
        self.problem, self.count, self.winners = problem, count, winners
        self._before = len(winners)
        self._is_taken = np.zeros(len(problem.values), dtype=np.bool_)
        self._is_taken[list(winners)] = True
        self._entries = Entries.concatenate([])
        self._low, self._high = np.empty(0), np.empty(0)

    def remaining(self, parts: Units) -> Units:
        """The units of one candidate each that is not taken."""
        return parts[~self._is_taken[parts.start]]

    def enter(self, fresh: list[Entries]) -> None:
        """Enter more pairs of a candidate and a round; those entered before are left out."""
        entries = Entries.concatenate(fresh)
        if len(self._entries):
            entries = entries[
                np.flatnonzero(~np.isin(self._keys(entries), self._keys(self._entries)))
            ]
        problem, bounds = self.problem, [(self._low, self._high)]
        for start in range(0, len(entries), _BOUNDS_AT_ONCE):
            part = entries[start : start + _BOUNDS_AT_ONCE]
            height = problem.heights(problem.values[part.index])
            bounds.append(problem.bounds(problem.noise, height, part.level, part.words))
        self._low, self._high = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
        self._entries = Entries.concatenate([self._entries, entries])

    def decided(self, threshold: float) -> bool:
        """Take winners while they certainly reach the threshold, which no pair that was not entered
        exceeds; True after the last round.
        """
        near = np.flatnonzero(self._high >= threshold)
        near = near[np.argsort(self._entries.member[near].astype(np.uint8), kind="stable")]
        index, low, high = self._entries.index[near], self._low[near], self._high[near]
        edges = np.searchsorted(self._entries.member[near], np.arange(self.count + 1)).tolist()
        for place in range(len(self.winners) - self._before, self.count):
            span = slice(edges[place], edges[place + 1])
            free = ~self._is_taken[index[span]]
            least = low[span].max(initial=-np.inf, where=free)
            if not free.any() or least < threshold:
                return False
            rivals = np.flatnonzero(free & (high[span] >= least))
            winner = int(index[span][rivals[0]])
            if len(rivals) > 1:
                winner = int(rank_entries(self.problem, self._entries[near[span][rivals]]).index[0])
            self.winners[winner] = None
            self._is_taken[winner] = True
        return True

    def _keys(self, entries: Entries) -> Integers:
        return entries.index * self.count + entries.member


# How the candidates of a pool of units are numbered.

_POOL = 2.0**60  # candidates a pool may hold before its last unit, so that 64 bits number them all
Located = Callable[[Words], tuple[Integers, Integers]]


@final
@dataclass(frozen=True)
class _Layout:
    """Numbering of `copies` of the candidates in units of `width` each, `stride` apart in the
    values.

    If width is 0, the units have `multiplicities[start]` candidates.
    """

    width: int
    stride: int = 0
    size: int = 0
    copies: int = 1
    multiplicities: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def lengths(self, start: Integers) -> Floats | None:
        """Return the number of candidates in each unit, for an estimate."""
        if self.width == 1:
            return None
        return (
            np.full(len(start), float(self.width))
            if self.width
            else self.multiplicities[start].astype(np.float64)
        )

    def pools(self, members: Integers, start: Integers) -> list[Integers]:
        """Return runs of units whose candidates 64 bits can number."""
        if self.width:
            return [members]
        length = self.multiplicities[start[members]].astype(np.float64)
        before = np.cumsum(length) - length
        return np.split(members, np.flatnonzero(np.diff(before // _POOL)) + 1)

    def number_candidates(self, start: Integers) -> tuple[int, Located]:
        """Return the number of candidates in a pool, and a function that finds them by number.

        It returns (unit of the pool, offset in it).
        """
        if self.width:
            return len(start) * self.width, lambda number: np.divmod(
                number.astype(np.int64), self.width
            )
        length = self.multiplicities[start].astype(np.uint64)
        ends = np.cumsum(length)

        def locate(number: Words) -> tuple[Integers, Integers]:
            unit = np.searchsorted(ends, number, side="right")
            return unit, (number - (ends[unit] - length[unit])).astype(np.int64)

        return int(ends[-1]), locate

    def candidates(
        self, start: Integers, offset: Integers
    ) -> tuple[Integers, Integers, Integers | None]:
        """Return indices into the values, members within a group, and places that exist.

        None if all exist.
        """
        if self.stride == 0:
            return start, offset, None
        place, member = np.divmod(offset, self.copies)
        index = start + self.stride * place
        real = np.flatnonzero(index < self.size)
        return np.where(index < self.size, index, 0), member, real


# blocks up to here are taken apart: beyond, to enter one candidate in eight costs less than to look
# at all
_SPLIT_LEVEL = 2
_FIRST_STEP = 1.5  # noise units
_FEW = 32.0  # candidates
_AT_ONCE = 2048  # entries whose bounds are computed at a time, for the sake of memory


@final
class Sweep:
    """One run over blocks of candidates, or over groups of candidates that share one score."""

    def __init__(self, problem: RankingProblem) -> None:
        self._problem = problem
        self._contest = Contenders(problem)
        self._entered: list[Entries] = []

    def blocks(self, whole: Units, threshold: float) -> Entries:
        """Return the k largest, largest first; block i of n has candidates i, i + n, ..."""
        for level, fresh, *parts in self._lower(whole, threshold):
            self._enter(fresh)
            if self._decided(level, *parts):
                break
        return self._contest.rank()

    def rounds(self, whole: Units, threshold: float, winners: Rounds) -> None:
        """The winner of every round, with a draw of each candidate for each; blocks as above."""
        for level, fresh, *parts in self._lower(whole, threshold, winners):
            winners.enter(fresh)
            if winners.decided(level if any(part.depth.any() for part in parts) else -np.inf):
                break

    def _lower(
        self, whole: Units, threshold: float, winners: Rounds | None = None
    ) -> Iterator[tuple[float, list[Entries], Units, Units]]:
        """Yield falling thresholds, the entries revealed at each, and the blocks and candidates."""
        count, size = len(whole), len(self._problem.values)
        copies = 1 if winners is None else winners.count
        # the shorter blocks counted as if they were whole
        width = -(-size // count) * copies
        blocks, single = _Layout(width, count, size, copies), _Layout(copies)
        parts = whole[:0]
        for level in _descending(threshold):
            dense = whole.levels(self._problem.noise, level) < _SPLIT_LEVEL + copies.bit_length()
            whole, hot = whole[~dense], whole[dense]
            if len(hot):
                split = _split(hot, count, self._problem)
                parts = _join(parts, split if winners is None else winners.remaining(split))
            whole, first = self._reveal(whole, level, blocks)
            parts, second = self._reveal(parts, level, single)
            yield level, [*first, *second], whole, parts

    def groups(self, groups: Units, multiplicities: Integers, threshold: float) -> Entries:
        """Return the k largest, largest first; unit g has `multiplicities[g]` equal candidates."""
        layout = _Layout(0, multiplicities=multiplicities)
        for level in _descending(threshold):
            groups, fresh = self._reveal(groups, level, layout)
            self._enter(fresh)
            if self._decided(level, groups):
                break
        return self._contest.rank()

    def reaching(self, groups: Units, multiplicities: Integers, threshold: float) -> Entries:
        """Return every member that may exceed the threshold, and others, unordered.

        The threshold is in noise units above the reference.
        """
        return Entries.concatenate(
            self._reveal(groups, threshold, _Layout(0, multiplicities=multiplicities))[1]
        )

    def _decided(self, threshold: float, *units: Units) -> bool:
        return self._contest.floor() >= threshold or not any(part.depth.any() for part in units)

    def _reveal(
        self, units: Units, threshold: float, layout: _Layout
    ) -> tuple[Units, list[Entries]]:
        """Return the units with their new levels, and their candidates with V < 2^-level."""
        level = units.levels(self._problem.noise, threshold)
        todo = np.flatnonzero(level < units.depth)
        if len(todo) == 0:
            return units, []
        level[todo] = _merge_pools(level[todo], layout.lengths(units.start[todo]))
        todo = todo[np.argsort(level[todo], kind="stable")]
        cuts = np.flatnonzero(np.diff(level[todo])) + 1
        pools = [pool for same in np.split(todo, cuts) for pool in layout.pools(same, units.start)]
        entries = [self._draw(pool, units, int(level[pool[0]]), layout) for pool in pools]
        return Units(units.start, units.height, level), entries

    def _draw(self, pool: Integers, units: Units, level: int, layout: _Layout) -> Entries:
        size, locate = layout.number_candidates(units.start[pool])
        unit, offset = locate(successes(size, level, self._problem.words))
        unit = pool[unit]
        places, words = self._uniforms(units.depth[unit], level)
        index, member, real = layout.candidates(units.start[unit[places]], offset[places])
        entries = Entries(index, member, np.full(len(index), level), words)
        return entries if real is None else entries[real]

    def _uniforms(self, depths: Levels, level: int) -> tuple[Integers, Words]:
        """Return places of candidates with V < 2^-level given V >= 2^-depth, and their words.

        V = 2^-level * 0.w.
        """
        draw = self._problem.words
        places, words = np.arange(len(depths)), draw(len(depths))
        if (depths == UNKNOWN).all():
            return places, words
        shift = np.where(depths == UNKNOWN, 0, 64 - depths.astype(np.int64) + level).astype(
            np.uint64
        )
        bound = np.where(depths == UNKNOWN, np.uint64(0), np.uint64(1) << shift)
        # V below 2^-depth is refused: then all of V is drawn anew, and leaves this pool unless its
        # first bits are zero again.
        while len(rejected := np.flatnonzero(words < bound)):
            again = np.ones(len(words), dtype=np.bool_)
            again[rejected] = (draw(len(rejected)) >> np.uint64(64 - level)) == 0 if level else True
            words[rejected] = draw(len(rejected))
            places, words, bound = places[again], words[again], bound[again]
        return places, words

    def _enter(self, fresh: list[Entries]) -> None:
        if not fresh:
            return
        entries = Entries.concatenate(fresh)
        if self._entered:
            entries = entries[np.flatnonzero(~self._seen(entries))]
        self._entered.append(entries)
        for start in range(0, len(entries), _AT_ONCE):
            self._contest.offer(entries[start : start + _AT_ONCE])

    def _seen(self, entries: Entries) -> Flags:
        """Return flags of candidates that were entered in an earlier round."""
        before = np.concatenate([old.index for old in self._entered])
        is_earlier = np.isin(entries.index, before)
        if any(old.member.any() for old in self._entered) or entries.member.any():
            keys = {key for old in self._entered for key in _keys(old)}
            again = np.flatnonzero(is_earlier)
            is_earlier[again] = [key in keys for key in _keys(entries[again])]
        return is_earlier


def _descending(threshold: float) -> Iterator[float]:
    step = _FIRST_STEP
    while True:
        yield threshold
        threshold -= step
        step *= 2.0


def _keys(entries: Entries) -> Iterator[tuple[int, int]]:
    return zip(entries.index.tolist(), entries.member.tolist(), strict=True)


def _merge_pools(level: Levels, length: Floats | None) -> Levels:
    """Lower levels so that pools are fewer and larger, for a few more candidates."""
    mass = np.bincount(level, weights=length, minlength=HIGHEST_LEVEL + 1)
    lowered = np.zeros(len(mass), dtype=np.uint8)
    top, pending = HIGHEST_LEVEL, 0.0
    for place, weight in reversed(list(enumerate(mass.tolist()))):
        pending += weight
        if pending * 2.0**-place >= _FEW:
            lowered[place : top + 1] = place
            top, pending = place - 1, 0.0
    return lowered[level]
