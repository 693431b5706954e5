"""The exact k largest of scores + scale * noise: which algorithm serves which shape."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.sampling.contest import Contest, Entries, Problem, clusters
from dpselect.sampling.errors import TooManyCandidates
from dpselect.sampling.estimates import cut, estimates
from dpselect.sampling.heights import LOWEST, Floats, Indices, Words, heights
from dpselect.sampling.plain import largest_rows
from dpselect.sampling.sweep import Sweep, guess
from dpselect.sampling.units import block_maxima, units

_CHUNKS, _SMALLEST, _LARGEST = 24, 10_000, 1 << 15  # how many parts noise is drawn in, within sizes that suit the cache
_DRAWN, _DRAWN_EACH = 80_000, 2000  # up to this many candidates, and so many more for each one asked for, a sweep takes longer
_SAMPLE = 4096
_MOST_EXPANDED = 50_000_000
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference and quotient


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


def grouped_reaching(problem: Problem, multiplicities: Indices, level: float) -> Entries:
    """All members of groups that may exceed `level` (score units), and others; in no order. Theorem X14."""
    top = problem.values.max()
    problem = problem.against(top)
    groups = units(np.arange(len(multiplicities)), problem.heights(problem.values))
    return Sweep(problem).reaching(groups, multiplicities, _below(level, float(top), problem.scale))


def _below(level: float, top: float, scale: float) -> float:
    """(level - top) / scale in noise units, from below, or what is below every height."""
    with np.errstate(over="ignore"):
        distance = float(np.float64(level - top - _SLACK * (abs(level) + abs(top))) / scale)
    return min(max(distance - _SLACK * abs(distance), 1e5 * LOWEST), -LOWEST)


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


# The few of very many candidates that may be among the k largest, by estimates of their noisy heights. Theorem X10.

_SPARE = 1024  # candidates held beyond 2k before the certain losers are dropped


@final
class Shortlist:
    """Candidates of which none that may be among the k largest is left out; each has a word, the first 64 bits of its V."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._cut = problem, -np.inf
        self._index: list[Indices] = []
        self._words: list[Words] = []
        self._estimate: list[Floats] = []
        self._held = 0

    def offer(self, start: int, words: Words) -> None:
        """Enter candidates start, start + 1, ..., one a word."""
        problem = self._problem
        estimate, wide = estimates(problem.noise, words)
        estimate += problem.heights(problem.values[start : start + len(words)])
        estimate[wide] = np.inf  # an estimate that says little: kept, and no measure for others
        if self._cut == -np.inf and len(estimate) > 2 * problem.k:
            self._cut = self._cut_of(estimate)
        kept = np.flatnonzero(estimate >= self._cut)
        self._hold(kept + start, words[kept], estimate[kept])
        if self._held > 2 * problem.k + _SPARE:
            self._prune()

    def ranked(self) -> Entries:
        """The k largest, largest first."""
        self._prune()
        high = self._estimate[0]
        low = cut(np.where(high < np.inf, high, -np.inf), self._problem.margin)
        order = np.argsort(-low)
        entries, low, high = Entries.at(self._index[0][order], self._words[0][order]), low[order], high[order]
        # All at once: their bounds cost about the same for many as for two. Members of two clusters do not change places.
        contested = [np.arange(start, stop) for start, stop in clusters(low, high, self._problem.k)]
        if contested:
            places = np.concatenate(contested)
            settled, order = self._contested(entries[places]), np.arange(len(entries))
            place_of = {index: place for place, index in zip(places.tolist(), entries.index[places].tolist(), strict=True)}
            order[places] = [place_of[index] for index in settled.index.tolist()]
            entries = replace(entries[order], refined=settled.refined)
        return entries[: self._problem.k]

    def _contested(self, entries: Entries) -> Entries:
        """The same candidates, largest first, certain of every comparison."""
        contest = Contest(replace(self._problem, k=len(entries)))
        contest.offer(entries)
        return contest.ranked()

    def _prune(self) -> None:
        index, words, estimate = np.concatenate(self._index), np.concatenate(self._words), np.concatenate(self._estimate)
        self._cut = max(self._cut, self._cut_of(estimate))
        kept = np.flatnonzero(estimate >= self._cut)
        self._index, self._words, self._estimate, self._held = [], [], [], 0
        self._hold(index[kept], words[kept], estimate[kept])

    def _cut_of(self, estimate: Floats) -> float:
        """What these let certainly be dropped below: that k of them are greater."""
        measured = estimate[estimate < np.inf] if np.isposinf(estimate).any() else estimate
        if len(measured) < self._problem.k:
            return -np.inf
        best = np.partition(measured, len(measured) - self._problem.k)[len(measured) - self._problem.k]
        return float(cut(best, self._problem.margin))

    def _hold(self, index: Indices, words: Words, estimate: Floats) -> None:
        self._index.append(index)
        self._words.append(words)
        self._estimate.append(estimate)
        self._held += len(index)


# The exact k largest of every row of a matrix of scores.

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
