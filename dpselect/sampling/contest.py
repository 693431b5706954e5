"""The exact k largest of candidates whose noise is known to some bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from typing import Self, final

import numpy as np

from dpselect.noise.base import Noise
from dpselect.sampling.heights import MARGIN, Floats, Indices, Numbers, Words, contest_bounds, cut, estimates, heights
from dpselect.sampling.lazy import LazyUniform, WordSource, rational, sign_of_total

_SPARE, _FEW_SPARE = 4096, 1024  # candidates held beyond 2k before the certain losers are dropped, by bounds and by estimates
Bounds = Callable[[Noise, Floats, Indices, Words], tuple[Floats, Floats]]


@final
@dataclass(frozen=True)
class RankingProblem:
    """What is asked: the k largest of values + scale * noise, with random words to be had from `words`.

    Attributes:
        values: (m,) exact scores.
        bounds: the float64 enclosure of a noisy height; tests widen it to force refinement.
        margin: how far estimates must be apart to be told apart, noise units; tests widen it too.
        reference: the largest score, from which heights are measured; None until it is known.
    """

    values: Numbers
    noise: Noise
    scale: float
    k: int
    words: WordSource
    bounds: Bounds = contest_bounds
    margin: float = MARGIN
    reference: np.int64 | np.float64 | None = None

    def heights(self, values: Numbers) -> Floats:
        """The scores in units of the noise, relative to the reference."""
        if self.reference is None:
            raise AssertionError("the reference score must be set first")
        return heights(values, self.reference, self.scale)

    def at(self, places: Indices | slice | int) -> Self:
        """The same question about some of the values."""
        return replace(self, values=self.values[places])

    def against(self, reference: np.int64 | np.float64) -> Self:
        """The same question with its reference score."""
        return replace(self, reference=reference)


@final
@dataclass(frozen=True)
class Entries:
    """Candidates: which value each has, which member of that value's group it is, and what is known of its noise.

    Attributes:
        refined: draws of which more than the word is known, by index and member. Shared by all entries cut from these, so that
            no bit is drawn twice.
    """

    index: Indices
    member: Indices
    level: Indices
    words: Words
    refined: dict[tuple[int, int], LazyUniform] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def at(cls, index: Indices, words: Words, level: int = 0) -> Self:
        """Candidates that stand for themselves, each with a word of its V = 2^-level * 0.w."""
        return cls(index, np.zeros_like(index), np.full_like(index, level), words)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, kept: Indices | slice) -> Self:
        return type(self)(self.index[kept], self.member[kept], self.level[kept], self.words[kept], self.refined)

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """All parts in order; without parts, an empty one."""
        parts = [cls.at(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)), *parts]
        columns = ("index", "member", "level", "words")
        index, member, level, words = (np.concatenate([getattr(part, name) for part in parts]) for name in columns)
        return cls(index, member, level, words, {key: draw for part in parts for key, draw in part.refined.items()})

    def split(self, group: Indices, first: Indices) -> Self:
        """The same where `index` was a place in the row of all members of all groups, those of group g from `first[g]` on."""
        refined = {(int(group[at]), int(at - first[group[at]])): draw for (at, _), draw in self.refined.items()}
        chosen = group[self.index]
        return type(self)(chosen, self.index - first[chosen], self.level, self.words, refined)

    def among(self, candidates: Indices) -> Self:
        """The same where `index` was a place among `candidates`."""
        refined = {(int(candidates[index]), member): draw for (index, member), draw in self.refined.items()}
        return type(self)(candidates[self.index], self.member, self.level, self.words, refined)

    def draw(self, place: int, words: WordSource) -> LazyUniform:
        """The V of one entry, with every bit of it that has been looked at."""
        key = int(self.index[place]), int(self.member[place])
        if key not in self.refined:
            self.refined[key] = LazyUniform(words, level=int(self.level[place]), word=int(self.words[place]))
        return self.refined[key]


@final
class Contenders:
    """Keeps every entry that may still be among the k largest."""

    def __init__(self, problem: RankingProblem) -> None:
        self._problem = problem
        self._entries: list[Entries] = []
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._held, self._dropped_below = 0, -np.inf

    def offer(self, entries: Entries) -> None:
        """Enter more candidates."""
        problem = self._problem
        height = problem.heights(problem.values[entries.index])
        low, high = problem.bounds(problem.noise, height, entries.level, entries.words)
        if self._dropped_below > -np.inf:
            kept = np.flatnonzero(high >= self._dropped_below)
            entries, low, high = entries[kept], low[kept], high[kept]
        self._entries.append(entries)
        self._low.append(low)
        self._high.append(high)
        self._held += len(entries)
        if self._held > 2 * problem.k + _SPARE:
            self._drop()

    def floor(self) -> float:
        """A number that at least k candidates certainly reach, in noise units above the reference; -inf if there is none."""
        k = self._problem.k
        if self._held < k:
            return -np.inf
        low = np.concatenate(self._low)
        return float(np.partition(low, len(low) - k)[len(low) - k])

    def ranked(self) -> Entries:
        """The k largest, largest first, certain of every comparison. Theorem X2."""
        self._drop()
        entries, low, high = self._entries[0], self._low[0], self._high[0]
        order = np.argsort(-low)
        entries, low, high = entries[order], low[order], high[order]
        order = np.arange(len(entries))
        for start, stop in _clusters(low, high, self._problem.k):
            order[start:stop] = start + self._sorted(entries[order[start:stop]])
        return entries[order[: self._problem.k]]

    def _drop(self) -> None:
        self._dropped_below = self.floor()
        entries, low, high = Entries.concatenate(self._entries), np.concatenate(self._low), np.concatenate(self._high)
        kept = np.flatnonzero(high >= self._dropped_below)
        self._entries, self._low, self._high, self._held = [entries[kept]], [low[kept]], [high[kept]], len(kept)

    def _sorted(self, entries: Entries) -> Indices:
        """Exact descending order of a few entries, as positions among them."""
        problem = self._problem
        scores = [rational(problem.values[i].item()) for i in entries.index]
        draws = [entries.draw(place, problem.words) for place in range(len(entries))]
        scale = rational(problem.scale)

        def descending(a: int, b: int) -> int:
            terms = [(rational(1), draws[b]), (rational(-1), draws[a])]
            return sign_of_total((scores[b] - scores[a]) / scale, problem.noise, terms)

        return np.array(sorted(range(len(draws)), key=cmp_to_key(descending)), dtype=np.int64)


def ranked(problem: RankingProblem, entries: Entries) -> Entries:
    """The k largest of the entries, largest first, certain of every comparison."""
    contest = Contenders(problem)
    contest.offer(entries)
    return contest.ranked()


def _clusters(low: Floats, high: Floats, k: int) -> Iterator[tuple[int, int]]:
    """Runs of two or more entries, in descending order of `low`, that the bounds leave undecided and that touch the first k."""
    if len(low) < 2:
        return
    reach = np.maximum.accumulate(high[::-1])[::-1]
    # Between i and i+1 all is decided if everything after i certainly stays below everything up to i.
    joined = reach[1:] >= low[:-1]
    ends = np.flatnonzero(~joined) + 1
    starts, stops = np.append(0, ends), np.append(ends, len(low))
    undecided = np.flatnonzero((stops - starts > 1) & (starts < k))
    yield from zip(starts[undecided].tolist(), stops[undecided].tolist(), strict=True)


# The few of very many candidates that may be among the k largest, by estimates of their noisy heights. Theorem X10.


@final
class Shortlist:
    """Candidates of which none that may be among the k largest is left out; each has a word, the first 64 bits of its V."""

    def __init__(self, problem: RankingProblem) -> None:
        self._problem, self._cut, self._held = problem, -np.inf, 0
        self._parts: list[tuple[Indices, Words, Floats]] = []

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
        if self._held > 2 * problem.k + _FEW_SPARE:
            self._prune()

    def ranked(self) -> Entries:
        """The k largest, largest first."""
        self._prune()
        index, words, high = self._parts[0]
        low = cut(np.where(high < np.inf, high, -np.inf), self._problem.margin)
        order = np.argsort(-low)
        entries, low, high = Entries.at(index[order], words[order]), low[order], high[order]
        # All at once: their bounds cost about the same for many as for two. Members of two clusters do not change places.
        contested = [np.arange(start, stop) for start, stop in _clusters(low, high, self._problem.k)]
        if contested:
            places = np.concatenate(contested)
            settled, order = ranked(replace(self._problem, k=len(places)), entries[places]), np.arange(len(entries))
            place_of = {index: place for place, index in zip(places.tolist(), entries.index[places].tolist(), strict=True)}
            order[places] = [place_of[index] for index in settled.index.tolist()]
            entries = replace(entries[order], refined=settled.refined)
        return entries[: self._problem.k]

    def _prune(self) -> None:
        index, words, estimate = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._cut = max(self._cut, self._cut_of(estimate))
        kept = np.flatnonzero(estimate >= self._cut)
        self._parts, self._held = [], 0
        self._hold(index[kept], words[kept], estimate[kept])

    def _cut_of(self, estimate: Floats) -> float:
        """What these let certainly be dropped below: that k of them are greater."""
        measured = estimate[estimate < np.inf] if np.isposinf(estimate).any() else estimate
        if len(measured) < self._problem.k:
            return -np.inf
        best = np.partition(measured, len(measured) - self._problem.k)[len(measured) - self._problem.k]
        return float(cut(best, self._problem.margin))

    def _hold(self, index: Indices, words: Words, estimate: Floats) -> None:
        self._parts.append((index, words, estimate))
        self._held += len(index)
