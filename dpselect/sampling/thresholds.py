"""Noisy scores above a level, found among very many without drawing the noise of each. Theorem X13.

A candidate far below the level exceeds it only if its uniform number V is below 2^-8, or a smaller
power of two. The candidates with so small a V are drawn directly, and the others are never visited.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from accounting.numbers import Flags, Floats, Integers
from dpselect.noise import Noise
from dpselect.sampling import exact
from dpselect.sampling.contest import Entries, RankingProblem, exceeds, rank_entries, scaled_bounds
from dpselect.sampling.discrete import successes

# candidates that need a V below 2^-8 are pooled; where all do, by the rarest that holds
_LEVEL, _RARE = 8, (24, 20, 16, 12)
# a sweep of all costs less than to pick out more than this share, of a sample
_SAMPLED, _MOST = 257, 0.1
_SMALL = 1 << 14  # up to here pooling saves nothing
_CHUNK = 1 << 15  # candidates whose noise fits the cache
_STEPS = 64
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference


def above(problem: RankingProblem, level: float) -> Entries:
    """Return the candidates whose values + scale * noise exceed `level`, largest first.

    They are at most the `problem.k` largest.
    """
    if len(problem.values) <= _SMALL:
        return draw_all(problem, level)
    highest = problem.values.max()
    for bits in _RARE:
        if highest <= negligible_score(problem, level, bits):
            return _rank(problem, _draw_far(problem, level, np.empty(0, dtype=np.int64), bits))
    far = negligible_score(problem, level, _LEVEL)
    if exact.should_sweep(problem) and np.mean(problem.values[::_SAMPLED] > far) > _MOST:
        return _rank(problem, _best(problem, level))
    near = np.flatnonzero(problem.values > far)
    parts = [_best(problem.take(near), level).among(near), _draw_far(problem, level, near, _LEVEL)]
    return _rank(problem, Entries.concatenate(parts))


def draw_all(problem: RankingProblem, level: float) -> Entries:
    """Do as `above`, with the noise of every candidate drawn."""
    return _rank(problem, _draw_all(problem, level))


def groups_above(problem: RankingProblem, multiplicities: Integers, level: float) -> Entries:
    """Do as `above`, among groups of candidates with one score.

    `index` is the group, and `member` the place in it. Theorem X14.
    """
    if problem.k < int(multiplicities.sum(dtype=object)):
        best = exact.rank_groups(problem, multiplicities)
    else:
        best = exact.groups_reaching(problem, multiplicities, level)
    return _rank(problem, _exceeding(problem, level, best))


def draw_all_groups(problem: RankingProblem, multiplicities: Integers, level: float) -> Entries:
    """Do as `groups_above`, with the noise of every candidate drawn.

    It raises as `exact.draw_all_groups`.
    """
    return exact.draw_all_groups(problem, multiplicities, lambda every: draw_all(every, level))


def rows(problem: RankingProblem, level: float, listed: Flags) -> Integers:
    """Return (rounds, m) places of `above` in every row of a matrix, and -1 beyond the last.

    Only the `listed` candidates take part.
    """
    step = max(1, _CHUNK // problem.values.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(listed), step)]
    return np.concatenate([_block(problem.take(part), level, listed[part]) for part in parts])


def sort_kept(numbers: Floats, flags: Flags) -> Integers:
    """Return (rounds, m) places of the numbers that are kept, largest first, then -1."""
    order = np.argsort(np.where(flags, -numbers, np.inf), axis=1, kind="stable")
    return np.where(np.take_along_axis(flags, order, axis=1), order, -1).astype(np.int64)


def _block(problem: RankingProblem, level: float, listed: Flags) -> Integers:
    values, words = problem.values, problem.words(problem.values.size).reshape(problem.values.shape)
    low, high = scaled_bounds(problem.noise, problem.scale, words)
    floats = values.astype(np.float64)
    margin = _SLACK * (np.abs(floats) + np.maximum(np.abs(low), np.abs(high)) + abs(level))
    low, high = low + floats - margin, high + floats + margin
    passing = listed & (low > level)
    order = sort_kept(low, passing)
    lower, upper = (np.take_along_axis(part, np.maximum(order, 0), axis=1) for part in (low, high))
    untold = (order[:, 1:] >= 0) & (upper[:, 1:] >= lower[:, :-1])
    unsure = (listed & ~passing & (high >= level)).any(axis=1) | untold.any(axis=1)
    for row in np.flatnonzero(unsure).tolist():
        row_problem, places = problem.take(row), np.flatnonzero(listed[row])
        best = _rank(
            row_problem,
            _exceeding(row_problem, level, Entries.from_index(places, words[row, places])),
        ).index
        order[row] = np.append(best, np.full(order.shape[1] - len(best), -1))
    return order


def negligible_score(problem: RankingProblem, level: float, bits: int) -> float:
    """Return a score such that it and all lower ones exceed `level` only with a V below 2^-bits.

    Theorem X3.
    """
    distance = problem.scale * _reach(problem.noise, bits)
    return level - distance - _SLACK * (abs(level) + distance)


@lru_cache(maxsize=64)
def _reach(noise: Noise, bits: int) -> float:
    """Return a noise z that is exceeded with probability at most 2^-bits, rounded up."""
    low, high = 0.0, 1024.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (
            (low, middle) if float(noise.tail_bits(np.array(middle))) >= bits else (middle, high)
        )
    return high


def _best(problem: RankingProblem, level: float) -> Entries:
    """Return all candidates that exceed `level`, or at least the k largest of them."""
    if len(problem.values) <= problem.k or not exact.should_sweep(problem):
        return _draw_all(problem, level)
    return _exceeding(problem, level, exact.top_k(problem))


def _draw_all(problem: RankingProblem, level: float) -> Entries:
    """Return all candidates that exceed `level`, with the noise of every candidate drawn."""
    parts = []
    for start in range(0, len(problem.values), _CHUNK):
        index = np.arange(start, min(start + _CHUNK, len(problem.values)))
        parts.append(
            _exceeding(problem, level, Entries.from_index(index, problem.words(len(index))))
        )
    return Entries.concatenate(parts)


def _draw_far(problem: RankingProblem, level: float, near: Integers, bits: int) -> Entries:
    """Return the candidates that exceed `level` and are not `near`."""
    small = successes(len(problem.values), bits, problem.words).astype(np.int64)
    small = small[
        np.searchsorted(near, small, side="right") == np.searchsorted(near, small, side="left")
    ]
    return _exceeding(problem, level, Entries.from_index(small, problem.words(len(small)), bits))


def _exceeding(problem: RankingProblem, level: float, entries: Entries) -> Entries:
    values = problem.values[entries.index]
    return entries[
        np.flatnonzero(exceeds(values, problem.noise, problem.scale, level, problem.words, entries))
    ]


def _rank(problem: RankingProblem, entries: Entries) -> Entries:
    """Return the k largest, largest first."""
    if len(entries) == 0:
        return entries
    return rank_entries(
        replace(problem, k=min(problem.k, len(entries))).against(
            problem.values[entries.index].max()
        ),
        entries,
    )
