"""The exact k largest of scores + scale * noise: which algorithm serves which shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpselect.sampling.contest import Entries, Problem
from dpselect.sampling.errors import TooManyCandidates
from dpselect.sampling.heights import Floats, Indices
from dpselect.sampling.shortlist import Shortlist
from dpselect.sampling.sweep import Sweep
from dpselect.sampling.threshold import guess
from dpselect.sampling.units import block_maxima, units

_CHUNKS, _SMALLEST, _LARGEST = 24, 10_000, 1 << 15  # how many parts noise is drawn in, within sizes that suit the cache
_DRAWN, _DRAWN_EACH = 80_000, 2000  # up to this many candidates, and so many more for each one asked for, a sweep takes longer
_SAMPLE = 4096
_MOST_EXPANDED = 50_000_000


def top_k(problem: Problem) -> Indices:
    """(k,) positions, largest first."""
    if len(problem.values) <= _DRAWN + _DRAWN_EACH * problem.k:
        return drawn_all(problem)
    return swept(problem)


def drawn_all(problem: Problem) -> Indices:
    """The same with the noise of every candidate drawn."""
    problem = problem.against(problem.values.max())
    shortlist, size = Shortlist(problem), len(problem.values)
    chunk = min(max(size // _CHUNKS, _SMALLEST), _LARGEST)
    for start in range(0, size, chunk):
        shortlist.offer(start, problem.words(min(chunk, size - start)))
    return shortlist.ranked()


def swept(problem: Problem, *, threshold: float | None = None) -> Indices:
    """The same by the threshold sweep; `threshold` in noise units relative to the largest score, guessed if None."""
    maxima = block_maxima(problem.values, problem.k)
    problem = problem.against(maxima.max())
    height = problem.heights(maxima)
    del maxima
    if threshold is None:
        sample, share = _sample(problem, len(height))
        threshold = guess(problem.noise, height, None, sample, share, problem.k)
    return Sweep(problem).blocks(units(np.arange(len(height)), height), threshold).index


def grouped(problem: Problem, multiplicities: Indices, *, threshold: float | None = None) -> Entries:
    """The k largest among groups of candidates with one score: `index` is the group, `member` which of its candidates.

    `threshold` in noise units relative to the largest score, guessed if None.
    """
    problem = problem.against(problem.values.max())
    groups = units(np.arange(len(multiplicities)), problem.heights(problem.values))
    if threshold is None:
        weights = multiplicities.astype(np.float64)
        threshold = guess(problem.noise, groups.height, weights, groups.height[:0], 0.0, problem.k)
    return Sweep(problem).groups(groups, multiplicities, threshold)


def grouped_drawn_all(problem: Problem, multiplicities: Indices) -> tuple[Indices, Indices]:
    """Groups and members of the same, with the noise of every candidate drawn.

    Raises:
        TooManyCandidates: there are more than 50,000,000.
    """
    require_drawable(int(multiplicities.sum(dtype=object)))
    group = np.repeat(np.arange(len(multiplicities)), multiplicities)
    chosen = drawn_all(replace(problem, values=problem.values[group]))
    first = np.cumsum(multiplicities) - multiplicities
    return group[chosen], chosen - first[group[chosen]]


def require_drawable(candidates: int) -> None:
    """Raise `TooManyCandidates` where there are too many to draw the noise of each."""
    if candidates > _MOST_EXPANDED:
        raise TooManyCandidates(
            f"constant_work draws the noise of every candidate, at most {_MOST_EXPANDED:,}, and these grouped scores imply more: "
            "release them outside of constant_work, on a schedule if their timing can be observed"
        )


def _sample(problem: Problem, maxima: int) -> tuple[Floats, float]:
    """Heights of candidates at regular distances, and how many others each stands for."""
    size = len(problem.values)
    sample = problem.heights(problem.values[:: max(1, size // _SAMPLE)])
    return sample, (size - maxima) / len(sample)
