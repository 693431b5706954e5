"""The exact k largest of scores + scale * noise: which algorithm serves which shape."""

from __future__ import annotations

from dataclasses import replace
from typing import final

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


def top_k(problem: Problem) -> Entries:
    """The k largest, largest first."""
    return swept(problem) if worth_sweeping(problem) else drawn_all(problem)


def worth_sweeping(problem: Problem) -> bool:
    """Whether a sweep is quicker than the noise of every candidate."""
    return len(problem.values) > _DRAWN + _DRAWN_EACH * problem.k


def drawn_all(problem: Problem) -> Entries:
    """The same with the noise of every candidate drawn."""
    problem = problem.against(problem.values.max())
    shortlist, size = Shortlist(problem), len(problem.values)
    chunk = min(max(size // _CHUNKS, _SMALLEST), _LARGEST)
    for start in range(0, size, chunk):
        shortlist.offer(start, problem.words(min(chunk, size - start)))
    return shortlist.ranked()


def swept(problem: Problem, *, threshold: float | None = None) -> Entries:
    """The same by the threshold sweep; `threshold` in noise units relative to the largest score, guessed if None."""
    return Swept(problem).top_k(problem.k, threshold)


def peeled(problem: Problem) -> Indices:
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

    def __init__(self, problem: Problem) -> None:
        maxima = block_maxima(problem.values, problem.k)
        self._problem = problem.against(maxima.max())
        self._blocks = units(np.arange(len(maxima)), self._problem.heights(maxima))
        self._sample, self._share = _sample(self._problem, len(maxima))

    def top_k(self, k: int, threshold: float | None = None) -> Entries:
        """The k largest under fresh noise, largest first; `threshold` as for `swept`."""
        if threshold is None:
            threshold = guess(self._problem.noise, self._blocks.height, None, self._sample, self._share, k)
        return Sweep(replace(self._problem, k=k)).blocks(self._blocks, threshold)


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


def grouped_drawn_all(problem: Problem, multiplicities: Indices) -> Entries:
    """The same, with the noise of every candidate drawn.

    Raises:
        TooManyCandidates: there are more than 50,000,000.
    """
    require_drawable(int(multiplicities.sum(dtype=object)))
    group = np.repeat(np.arange(len(multiplicities)), multiplicities)
    chosen = drawn_all(replace(problem, values=problem.values[group]))
    return chosen.split(group, np.cumsum(multiplicities) - multiplicities)


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
