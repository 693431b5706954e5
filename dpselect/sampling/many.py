"""The exact k largest of every row of a matrix of scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling.contest import Contest, Entries, Problem
from dpselect.sampling.estimates import cut, estimates
from dpselect.sampling.exact import drawn_all, top_k
from dpselect.sampling.heights import Floats, Indices, Words, heights
from dpselect.sampling.plain import largest_rows

_CHUNK = 1 << 14  # candidates whose noise fits the cache
_WIDE = 4096  # rows from here on are problems of their own


def top_k_rows(problem: Problem, *, constant_work: bool = False) -> Indices:
    """(rounds, k) positions, largest first; `problem.values` is a (rounds, m) matrix."""
    rounds, candidates = problem.values.shape
    if candidates >= _WIDE:
        ranked = drawn_all if constant_work else top_k
        return np.stack([ranked(_row(problem, row)).index for row in range(rounds)])
    step = max(1, _CHUNK // candidates)
    blocks = [replace(problem, values=problem.values[start : start + step]) for start in range(0, rounds, step)]
    return np.concatenate([_block(block) for block in blocks])


def _block(problem: Problem) -> Indices:
    matrix = problem.values
    words = problem.words(matrix.size)
    estimate, wide = estimates(problem.noise, words)
    words, estimate = words.reshape(matrix.shape), estimate.reshape(matrix.shape)
    estimate += heights(matrix, matrix.max(axis=1, keepdims=True), problem.scale)
    best = largest_rows(estimate, problem.k)
    certain = _decided(estimate, best, problem.margin)
    certain[wide // matrix.shape[1]] = False
    for row in np.flatnonzero(~certain).tolist():
        best[row] = _ranked(_row(problem, row), words[row])
    return best


def _decided(estimate: Floats, best: Indices, margin: float) -> NDArray[np.bool_]:
    """Which rows the estimates rank beyond doubt: each of the k stays above everything after it. Theorem X10."""
    reached = np.take_along_axis(estimate, best, axis=1)
    cuts = cut(reached, margin)
    rivals = (estimate >= cuts[:, -1:]).sum(axis=1)
    return np.asarray((rivals == best.shape[1]) & (reached[:, 1:] < cuts[:, :-1]).all(axis=1))


def _row(problem: Problem, row: int) -> Problem:
    return replace(problem, values=problem.values[row])


def _ranked(problem: Problem, words: Words) -> Indices:
    """The same for one row, whose words are drawn already."""
    contest = Contest(problem.against(problem.values.max()))
    index = np.arange(len(words))
    none = np.zeros_like(index)
    contest.offer(Entries(index, none, none, words))
    return contest.ranked().index
