"""Which of very many noisy scores exceed a level, without drawing the noise of each. Theorem X13.

A candidate far below the level exceeds it only if its uniform number V is below 2^-8: which candidates have so small a V is drawn
directly, and the others are not looked at.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling import exact
from dpselect.sampling.comparisons import exceeding, scaled
from dpselect.sampling.contest import Contest, Entries, Problem
from dpselect.sampling.heights import Floats, Indices, Words
from dpselect.sampling.successes import successes

_LEVEL = 8  # candidates that need a V below 2^-8 are pooled
_SMALL = 1 << 14  # up to here pooling saves nothing
_CHUNK = 1 << 15  # candidates whose noise fits the cache
_STEPS = 64
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference


def above(problem: Problem, level: float) -> Entries:
    """At most `problem.k` candidates: the largest values + scale * noise, of those that exceed `level`, largest first."""
    if len(problem.values) <= _SMALL:
        return drawn_all(problem, level)
    near = np.flatnonzero(problem.values > far_below(problem, level))
    if len(near) == len(problem.values):
        return _ranked(problem, _best(problem, level))
    found = [_best(replace(problem, values=problem.values[near]), level).among(near), _pooled(problem, level, near)]
    return _ranked(problem, Entries.concatenate(found))


def drawn_all(problem: Problem, level: float) -> Entries:
    """The same with the noise of every candidate drawn."""
    return _ranked(problem, _all(problem, level))


def grouped(problem: Problem, multiplicities: Indices, level: float) -> Entries:
    """The same among groups of candidates with one score: `index` is the group, `member` which of its candidates. Theorem X14."""
    if problem.k < int(multiplicities.sum(dtype=object)):
        best = exact.grouped(problem, multiplicities)
    else:
        best = exact.grouped_reaching(problem, multiplicities, level)
    return _ranked(problem, best[np.flatnonzero(_exceeding(problem, level, best))])


def grouped_drawn_all(problem: Problem, multiplicities: Indices, level: float) -> Entries:
    """The same with the noise of every candidate drawn.

    Raises:
        TooManyCandidates: there are more than 50,000,000.
    """
    exact.require_drawable(int(multiplicities.sum(dtype=object)))
    group = np.repeat(np.arange(len(multiplicities)), multiplicities)
    chosen = drawn_all(replace(problem, values=problem.values[group]), level)
    return chosen.split(group, np.cumsum(multiplicities) - multiplicities)


def rows(problem: Problem, level: float, listed: NDArray[np.bool_]) -> Indices:
    """(rounds, m) the same in every row of a matrix, of the `listed` candidates; -1 beyond the last."""
    step = max(1, _CHUNK // problem.values.shape[1])
    blocks = range(0, len(listed), step)
    return np.concatenate([_block(_part(problem, start, step), level, listed[start : start + step]) for start in blocks])


def in_order(numbers: Floats, kept: NDArray[np.bool_]) -> Indices:
    """(rounds, m) places of the numbers that are kept, largest first, then -1."""
    order = np.argsort(np.where(kept, -numbers, np.inf), axis=1, kind="stable")
    return np.where(np.take_along_axis(kept, order, axis=1), order, -1).astype(np.int64)


def _part(problem: Problem, start: int, step: int) -> Problem:
    return replace(problem, values=problem.values[start : start + step])


def _block(problem: Problem, level: float, listed: NDArray[np.bool_]) -> Indices:
    values, words = problem.values, problem.words(problem.values.size).reshape(problem.values.shape)
    low, high = scaled(problem.noise, problem.scale, words)
    floats = values.astype(np.float64)
    margin = _SLACK * (np.abs(floats) + np.maximum(np.abs(low), np.abs(high)) + abs(level))
    low, high = low + floats - margin, high + floats + margin
    kept = listed & (low > level)
    order = in_order(low, kept)
    lower, upper = (np.take_along_axis(part, np.maximum(order, 0), axis=1) for part in (low, high))
    untold = (order[:, 1:] >= 0) & (upper[:, 1:] >= lower[:, :-1])
    unsure = (listed & ~kept & (high >= level)).any(axis=1) | untold.any(axis=1)
    for row in np.flatnonzero(unsure).tolist():
        order[row] = _one(replace(problem, values=values[row]), level, np.flatnonzero(listed[row]), words[row])
    return order


def _one(problem: Problem, level: float, listed: Indices, words: Words) -> Indices:
    entries = Entries.at(listed, words[listed])
    best = _ranked(problem, entries[np.flatnonzero(_exceeding(problem, level, entries))]).index
    return np.concatenate([best, np.full(len(words) - len(best), -1, dtype=np.int64)])


def far_below(problem: Problem, level: float) -> float:
    """A score such that it and all lower ones exceed `level` only with a V below 2^-8. Theorem X3."""
    distance = problem.scale * _reach(problem.noise)
    return level - distance - _SLACK * (abs(level) + distance)


def _reach(noise: Noise) -> float:
    """A noise z that is exceeded with a chance of at most 2^-8, from above."""
    low, high = 0.0, 1024.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if float(noise.tail_bits(np.array(middle))) >= _LEVEL else (middle, high)
    return high


def _best(problem: Problem, level: float) -> Entries:
    """Those that exceed `level`: all, or at least the k largest of them."""
    if len(problem.values) <= problem.k or not exact.worth_sweeping(problem):
        return _all(problem, level)
    best = exact.top_k(problem)
    return best[np.flatnonzero(_exceeding(problem, level, best))]


def _all(problem: Problem, level: float) -> Entries:
    """All that exceed `level`, with the noise of every candidate drawn."""
    found = [Entries.at(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64))]
    for start in range(0, len(problem.values), _CHUNK):
        index = np.arange(start, min(start + _CHUNK, len(problem.values)))
        entries = Entries.at(index, problem.words(len(index)))
        found.append(entries[np.flatnonzero(_exceeding(problem, level, entries))])
    return Entries.concatenate(found)


def _pooled(problem: Problem, level: float, near: Indices) -> Entries:
    """Those that exceed `level` of the candidates that are not `near`."""
    small = successes(len(problem.values), _LEVEL, problem.words).astype(np.int64)
    small = small[np.searchsorted(near, small, side="right") == np.searchsorted(near, small, side="left")]
    entries = Entries.at(small, problem.words(len(small)), _LEVEL)
    return entries[np.flatnonzero(_exceeding(problem, level, entries))]


def _exceeding(problem: Problem, level: float, entries: Entries) -> NDArray[np.bool_]:
    return exceeding(problem.values[entries.index], problem.noise, problem.scale, level, entries, problem.words)


def _ranked(problem: Problem, entries: Entries) -> Entries:
    """The k largest, largest first."""
    if len(entries) == 0:
        return entries
    values = problem.values[entries.index]
    contest = Contest(replace(problem, k=min(problem.k, len(entries))).against(values.max()))
    contest.offer(entries)
    return contest.ranked()
