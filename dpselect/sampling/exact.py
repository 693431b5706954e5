"""The exact k largest of scores + scale * noise: which algorithm serves which shape."""

from __future__ import annotations

import numpy as np

from dpselect.sampling.contest import Contest, Entries, Problem
from dpselect.sampling.heights import Floats, Indices
from dpselect.sampling.sweep import Sweep
from dpselect.sampling.threshold import guess
from dpselect.sampling.units import block_maxima, units

_CHUNK = 1 << 14  # candidates whose noise fits the cache
_SMALL = 1 << 13  # up to here every candidate's noise is drawn
_CROWDED = 32  # from m/k down to here too
_SAMPLE = 4096


def top_k(problem: Problem) -> Indices:
    """(k,) positions, largest first."""
    size = len(problem.values)
    if size <= _SMALL or size < _CROWDED * problem.k:
        return drawn_all(problem)
    return swept(problem)


def drawn_all(problem: Problem, *, chunk: int = _CHUNK) -> Indices:
    """The same with the noise of every candidate drawn, `chunk` at a time."""
    problem = problem.against(problem.values.max())
    contest, size = Contest(problem), len(problem.values)
    for start in range(0, size, chunk):
        index = np.arange(start, min(start + chunk, size))
        none = np.zeros_like(index)
        contest.offer(Entries(index, none, none, problem.words(len(index))))
    return contest.ranked().index


def swept(problem: Problem, *, threshold: float | None = None) -> Indices:
    """The same by the threshold sweep; `threshold` in noise units relative to the largest score, guessed if None."""
    maxima = block_maxima(problem.values, problem.k)
    problem = problem.against(maxima.max())
    blocks = units(np.arange(len(maxima)), problem.heights(maxima))
    if threshold is None:
        sample, share = _sample(problem, len(maxima))
        threshold = guess(problem.noise, blocks.height, None, sample, share, problem.k)
    return Sweep(problem).blocks(blocks, threshold).index


def grouped(problem: Problem, multiplicities: Indices, *, threshold: float | None = None) -> Entries:
    """The k largest among groups of candidates with one score: `index` is the group, `member` which of its candidates."""
    problem = problem.against(problem.values.max())
    groups = units(np.arange(len(multiplicities)), problem.heights(problem.values))
    if threshold is None:
        weights = multiplicities.astype(np.float64)
        threshold = guess(problem.noise, groups.height, weights, groups.height[:0], 0.0, problem.k)
    return Sweep(problem).groups(groups, multiplicities, threshold)


def _sample(problem: Problem, maxima: int) -> tuple[Floats, float]:
    """Heights of candidates at regular distances, and how many others each stands for."""
    size = len(problem.values)
    sample = problem.heights(problem.values[:: max(1, size // _SAMPLE)])
    return sample, (size - maxima) / len(sample)
