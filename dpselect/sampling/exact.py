"""The exact k largest of scores + scale * noise: which algorithm serves which shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import final

import numpy as np

from dpselect.errors import DpSelectError
from dpselect.noise.base import Noise
from dpselect.sampling.contest import Entries, RankingProblem, Shortlist, ranked
from dpselect.sampling.heights import LOWEST, Flags, Floats, Indices, Numbers, cut, estimates, heights
from dpselect.sampling.plain import largest_rows
from dpselect.sampling.sweep import Sweep, units

_CHUNKS, _SMALLEST, _LARGEST = 24, 10_000, 1 << 15  # how many parts noise is drawn in, within sizes that suit the cache
_DRAWN, _DRAWN_EACH = 80_000, 2000  # up to this many candidates, and this many more for each one asked for, a sweep takes longer
_SAMPLE = 4096
_MOST_BLOCK, _LEAST_BLOCK = 512, 16
_MOST_EXPANDED = 50_000_000
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference and quotient


class TooManyCandidates(DpSelectError):
    """Grouped scores imply more candidates than `constant_work` can draw noise for one by one. Nothing was drawn."""


def top_k(problem: RankingProblem) -> Entries:
    """The k largest, largest first."""
    return Swept(problem).top_k(problem.k) if worth_sweeping(problem) else drawn_all(problem)


def worth_sweeping(problem: RankingProblem) -> bool:
    """Whether a sweep is quicker than the noise of every candidate."""
    return len(problem.values) > _DRAWN + _DRAWN_EACH * problem.k


def drawn_all(problem: RankingProblem) -> Entries:
    """The same with the noise of every candidate drawn."""
    problem = problem.against(problem.values.max())
    shortlist, size = Shortlist(problem), len(problem.values)
    chunk = min(max(size // _CHUNKS, _SMALLEST), _LARGEST)
    for start in range(0, size, chunk):
        shortlist.offer(start, problem.words(min(chunk, size - start)))
    return shortlist.ranked()


def peeled(problem: RankingProblem) -> Indices:
    """(k,) positions in the order of k rounds, each the best of those left with fresh noise for all. Theorem X12.

    Scores are passed over once: a round draws noise for those taken too, which decides nothing, and asks for one candidate more.
    """
    scores, taken = Swept(problem), dict[int, None]()
    for place in range(problem.k):
        best = scores.top_k(place + 1).index.tolist()
        taken[next(i for i in best if i not in taken)] = None
    return np.array(list(taken), dtype=np.int64)


@final
class Swept:
    """Scores passed over once, for any number of independent sweeps over them."""

    def __init__(self, problem: RankingProblem) -> None:
        maxima = block_maxima(problem.values, problem.k)
        self._problem = problem.against(maxima.max())
        self._blocks = units(self._problem.heights(maxima))
        size = len(problem.values)
        self._sample = self._problem.heights(problem.values[:: max(1, size // _SAMPLE)])  # each stands for `share` of all others
        self._share = (size - len(maxima)) / len(self._sample)

    def top_k(self, k: int, threshold: float | None = None) -> Entries:
        """The k largest under fresh noise; `threshold` in noise units relative to the largest score, guessed if None."""
        if threshold is None:
            threshold = guess(self._problem.noise, self._blocks.height, None, self._sample, self._share, k)
        return Sweep(replace(self._problem, k=k)).blocks(self._blocks, threshold)


def grouped(problem: RankingProblem, multiplicities: Indices, *, threshold: float | None = None) -> Entries:
    """The k largest among groups of candidates with one score: `index` is the group, `member` which of its candidates.

    `threshold` in noise units relative to the largest score, guessed if None.
    """
    problem = problem.against(problem.values.max())
    groups = units(problem.heights(problem.values))
    if threshold is None:
        weights = multiplicities.astype(np.float64)
        threshold = guess(problem.noise, groups.height, weights, groups.height[:0], 0.0, problem.k)
    return Sweep(problem).groups(groups, multiplicities, threshold)


def grouped_reaching(problem: RankingProblem, multiplicities: Indices, level: float) -> Entries:
    """All members of groups that may exceed `level` (score units), and others; in no order. Theorem X14."""
    top = problem.values.max()
    problem = problem.against(top)
    groups = units(problem.heights(problem.values))
    return Sweep(problem).reaching(groups, multiplicities, _below(level, float(top), problem.scale))


def _below(level: float, top: float, scale: float) -> float:
    """(level - top) / scale in noise units, from below, or what is below every height."""
    with np.errstate(over="ignore"):
        distance = float(np.float64(level - top - _SLACK * (abs(level) + abs(top))) / scale)
    return min(max(distance - _SLACK * abs(distance), 1e5 * LOWEST), -LOWEST)


def grouped_drawn_all(
    problem: RankingProblem, multiplicities: Indices, drawn: Callable[[RankingProblem], Entries] = drawn_all
) -> Entries:
    """The same, with the noise of every candidate drawn."""
    require_drawable(int(multiplicities.sum(dtype=object)))
    group = np.repeat(np.arange(len(multiplicities)), multiplicities)
    chosen = drawn(problem.at(group))
    return chosen.split(group, np.cumsum(multiplicities) - multiplicities)


def require_drawable(candidates: int) -> None:
    """Raise `TooManyCandidates` where there are too many to draw the noise of each."""
    if candidates > _MOST_EXPANDED:
        raise TooManyCandidates(
            f"constant_work draws the noise of every candidate, at most {_MOST_EXPANDED:,}, and these grouped scores imply more: "
            "release them outside of constant_work, on a schedule if their timing can be observed"
        )


def block_maxima(values: Numbers, k: int) -> Numbers:
    """(n,) the maximum of each of n blocks: block i consists of candidates i, i + n, i + 2 n, ...

    Interleaved blocks because their maxima are found at the speed of memory, which those of consecutive ones are not. Their size
    balances the number of blocks against that of the candidates in about k blocks that are looked at one by one.
    """
    if values.dtype == np.int64:
        return _interleaved_maxima(values, k)
    # Floats that are not negative are ordered as the integers with the same bits, and integers are compared twice as fast.
    maxima = _interleaved_maxima(values.view(np.int64), k)
    return _interleaved_maxima(values, k) if maxima.min() < 0 else maxima.view(np.float64)


def _interleaved_maxima(values: Numbers, k: int) -> Numbers:
    size = len(values)
    block = min(max(math.isqrt(size // k), _LEAST_BLOCK), _MOST_BLOCK)
    count = size // block
    maxima: Numbers = values[: count * block].reshape(block, count).max(axis=0)
    rest = values[count * block :]
    for start in range(0, len(rest), count):
        part = rest[start : start + count]
        np.maximum(maxima[: len(part)], part, out=maxima[: len(part)])
    return maxima


# A threshold that somewhat more than k noisy scores exceed. A guess: it decides how fast the sweep is, never what it returns.

_BINS_PER_UNIT = 4.0
_BELOW, _ABOVE = 48.0, 112.0  # noise units around the k-th height that matter
_ROUNDS = 16


def guess(noise: Noise, heights: Floats, weights: Floats | None, sample: Floats, share: float, k: int) -> float:
    """A threshold in noise units, that about k candidates exceed.

    `heights` are the most important candidates', each standing for `weights` candidates (one if None); those of `sample`, drawn
    from all others, stand for `share` of them each.
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


# The exact k largest of every row of a matrix of scores.

_CHUNK = 1 << 14  # candidates whose noise fits the cache
_WIDE = 4096  # rows from here on are problems of their own


def top_k_rows(problem: RankingProblem, *, constant_work: bool = False) -> Indices:
    """(rounds, k) positions, largest first; `problem.values` is a (rounds, m) matrix."""
    rounds, candidates = problem.values.shape
    if candidates >= _WIDE:
        best = drawn_all if constant_work else top_k
        return np.stack([best(problem.at(row)).index for row in range(rounds)])
    step = max(1, _CHUNK // candidates)
    return np.concatenate([_block(problem.at(slice(start, start + step))) for start in range(0, rounds, step)])


def _block(problem: RankingProblem) -> Indices:
    matrix = problem.values
    words = problem.words(matrix.size)
    estimate, wide = estimates(problem.noise, words)
    words, estimate = words.reshape(matrix.shape), estimate.reshape(matrix.shape)
    estimate += heights(matrix, matrix.max(axis=1, keepdims=True), problem.scale)
    best = largest_rows(estimate, problem.k)
    certain = _decided(estimate, best, problem.margin)
    certain[wide // matrix.shape[1]] = False
    for row in np.flatnonzero(~certain).tolist():
        asked = problem.at(row).against(matrix[row].max())
        best[row] = ranked(asked, Entries.at(np.arange(matrix.shape[1]), words[row])).index
    return best


def _decided(estimate: Floats, best: Indices, margin: float) -> Flags:
    """Which rows the estimates rank beyond doubt: each of the k stays above everything after it. Theorem X10."""
    reached = np.take_along_axis(estimate, best, axis=1)
    cuts = cut(reached, margin)
    rivals = (estimate >= cuts[:, -1:]).sum(axis=1)
    return np.asarray((rivals == best.shape[1]) & (reached[:, 1:] < cuts[:, :-1]).all(axis=1))
