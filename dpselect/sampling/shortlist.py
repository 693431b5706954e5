"""The few of very many candidates that may be among the k largest, by estimates of their noisy heights. Theorem X10."""

from __future__ import annotations

from typing import final

import numpy as np

from dpselect.sampling.contest import Contest, Entries, Problem
from dpselect.sampling.estimates import cut, estimates
from dpselect.sampling.heights import Floats, Indices, Words

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

    def ranked(self) -> Indices:
        """(k,) the k largest, largest first."""
        self._prune()
        order = np.argsort(-self._estimate[0], kind="stable")
        if len(order) == self._problem.k and self._apart(self._estimate[0][order]):
            return self._index[0][order]
        nothing = np.zeros_like(self._index[0])
        contest = Contest(self._problem)
        contest.offer(Entries(self._index[0], nothing, nothing, self._words[0]))
        return contest.ranked().index

    def _apart(self, descending: Floats) -> bool:
        """Whether each estimate is certainly one of a greater number than the next."""
        return bool(descending[0] < np.inf and (descending[1:] < cut(descending[:-1], self._problem.margin)).all())

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
