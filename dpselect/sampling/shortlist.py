"""The few of very many candidates that may be among the k largest, by estimates of their noisy heights. Theorem X10."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from dpselect.sampling.contest import Contest, Entries, Problem, clusters
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
