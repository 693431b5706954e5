"""The k largest of many noisy scores without drawing the noise of each: a threshold that is lowered until k exceed it.

Every candidate has a uniform number V, and its noise is isf(V): large noise is a small V. A candidate exceeds the threshold only
if V < 2^-j for a level j that its score gives. How many of a pool of candidates have V < 2^-j, and which, is drawn
directly; these are entered in the contest, with the remaining bits of V. Theorem X6: exact for every sequence of thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.sampling.contest import Contenders, Entries, RankingProblem
from dpselect.sampling.discrete import successes
from dpselect.sampling.heights import Floats, Indices, Words

Levels = NDArray[np.uint8]

HIGHEST_LEVEL = 56  # one word decides whether a uniform number is below 2^-56
UNKNOWN = 255
_ROUNDING = 2.0**-45  # of |threshold| + |height|: covers the rounding of the height and of the difference
_UNITS = 1 << 14  # units whose temporaries fit the cache


@final
@dataclass(frozen=True)
class Units:
    """Units of candidates.

    Attributes:
        start: index into the values of a unit's first candidate.
        height: a bound, at most 0, on the height of each candidate of a unit (up to 2^-50 of itself).
        known: the candidates that have not been entered are known to have V >= 2^-known; UNKNOWN if nothing is known.
    """

    start: Indices
    height: Floats
    known: Levels

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, kept: NDArray[np.bool_] | slice) -> Self:
        return type(self)(self.start[kept], self.height[kept], self.known[kept])

    def levels(self, noise: Noise, threshold: float) -> Levels:
        """(units,) levels j such that a candidate with V >= 2^-j certainly stays below the threshold. Theorem X3."""
        levels = np.empty(len(self), dtype=np.uint8)
        for start in range(0, len(self), _UNITS):
            part = slice(start, start + _UNITS)
            distance = self.height[part] * (_ROUNDING - 1.0)
            distance += threshold - _ROUNDING * abs(threshold)
            with np.errstate(over="ignore"):
                bits = noise.tail_bits(distance)
            levels[part] = np.minimum(np.maximum(bits, 0.0), HIGHEST_LEVEL).astype(np.uint8)
        return np.minimum(levels, self.known, out=levels)


def units(height: Floats) -> Units:
    """Units about which nothing is known, the first candidate of each in its place."""
    return Units(np.arange(len(height)), height, np.full(len(height), UNKNOWN, dtype=np.uint8))


def _joined(first: Units, second: Units) -> Units:
    """Both, in order."""
    columns = ("start", "height", "known")
    return Units(*(np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns))


def _split(hot: Units, count: int, problem: RankingProblem) -> Units:
    """Blocks, of `count` in all, taken apart into their candidates."""
    size = len(problem.values)
    index = (np.arange(0, size, count)[:, None] + hot.start).ravel()
    known = np.broadcast_to(hot.known, (-(-size // count), len(hot))).ravel()
    real = index < size
    if not real.all():
        index, known = index[real], known[real]
    return Units(index, problem.heights(problem.values[index]), known)


# How the candidates of a pool of units are numbered.

_POOL = 2.0**60  # candidates a pool may hold before its last unit, so that 64 bits number them all
Located = Callable[[Words], tuple[Indices, Indices]]


@final
@dataclass(frozen=True)
class Layout:
    """Units of `width` candidates each, `stride` apart in the values; of `multiplicities[start]` candidates if width is 0."""

    width: int
    stride: int
    size: int
    multiplicities: Indices

    @classmethod
    def blocks(cls, size: int, count: int) -> Self:
        """Block i holds candidates i, i + count, ... below `size`; all are counted as if they were as long as the longest."""
        return cls(-(-size // count), count, size, np.empty(0, dtype=np.int64))

    @classmethod
    def single(cls) -> Self:
        """One candidate a unit."""
        return cls(1, 0, 0, np.empty(0, dtype=np.int64))

    @classmethod
    def groups(cls, multiplicities: Indices) -> Self:
        """Group g holds `multiplicities[g]` candidates."""
        return cls(0, 0, 0, multiplicities)

    def lengths(self, start: Indices) -> Floats | None:
        """Candidates in each unit, for an estimate."""
        if self.width == 1:
            return None
        return np.full(len(start), float(self.width)) if self.width else self.multiplicities[start].astype(np.float64)

    def pools(self, same: Indices, start: Indices) -> list[Indices]:
        """Runs of units whose candidates 64 bits can number."""
        if self.width:
            return [same]
        length = self.multiplicities[start[same]].astype(np.float64)
        before = np.cumsum(length) - length
        return np.split(same, np.flatnonzero(np.diff(before // _POOL)) + 1)

    def numbered(self, start: Indices) -> tuple[int, Located]:
        """How many candidates a pool holds, and a function from their numbers to (unit of the pool, offset in it)."""
        if self.width:
            return len(start) * self.width, self._divided
        length = self.multiplicities[start].astype(np.uint64)
        ends = np.cumsum(length)

        def located(number: Words) -> tuple[Indices, Indices]:
            unit = np.searchsorted(ends, number, side="right")
            return unit, (number - (ends[unit] - length[unit])).astype(np.int64)

        return int(ends[-1]), located

    def candidates(self, start: Indices, offset: Indices) -> tuple[Indices, Indices, NDArray[np.int64] | None]:
        """Their indices into the values, their members within a group, and which of them exist (None: all)."""
        if self.stride == 0:
            return start, offset, None
        index = start + self.stride * offset
        real = np.flatnonzero(index < self.size)
        return np.where(index < self.size, index, 0), np.zeros_like(offset), real

    def _divided(self, number: Words) -> tuple[Indices, Indices]:
        unit, offset = np.divmod(number.astype(np.int64), self.width)
        return unit, offset


_SPLIT_LEVEL = 2  # blocks up to here are taken apart: beyond, to enter one candidate in eight costs less than to look at all
_FIRST_STEP = 1.5  # noise units
_FEW = 32.0  # candidates
_AT_ONCE = 2048  # entries whose bounds are computed at a time, for the sake of memory


@final
class Sweep:
    """One run over blocks of candidates, or over groups of candidates that share one score."""

    def __init__(self, problem: RankingProblem) -> None:
        self._problem = problem
        self._contest = Contenders(problem)
        self._entered: list[Entries] = []

    def blocks(self, whole: Units, threshold: float) -> Entries:
        """The k largest, largest first; block i of n holds candidates i, i + n, i + 2 n, ..."""
        count, size = len(whole), len(self._problem.values)
        blocks, single = Layout.blocks(size, count), Layout.single()
        parts = whole[:0]
        for level in _descending(threshold):
            whole, hot = self._taken_apart(whole, level)
            parts = _joined(parts, _split(hot, count, self._problem)) if len(hot) else parts
            whole, first = self._revealed(whole, level, blocks)
            parts, second = self._revealed(parts, level, single)
            self._enter([*first, *second])
            if self._decided(level, whole, parts):
                break
        return self._contest.ranked()

    def groups(self, groups: Units, multiplicities: Indices, threshold: float) -> Entries:
        """The k largest, largest first; unit g stands for `multiplicities[g]` candidates of one score."""
        layout = Layout.groups(multiplicities)
        for level in _descending(threshold):
            groups, fresh = self._revealed(groups, level, layout)
            self._enter(fresh)
            if self._decided(level, groups):
                break
        return self._contest.ranked()

    def reaching(self, groups: Units, multiplicities: Indices, threshold: float) -> Entries:
        """Every member that may exceed the threshold (noise units above the reference), and others; in no order."""
        return Entries.concatenate(self._revealed(groups, threshold, Layout.groups(multiplicities))[1])

    def _decided(self, threshold: float, *units: Units) -> bool:
        return self._contest.floor() >= threshold or not any(part.known.any() for part in units)

    def _taken_apart(self, whole: Units, threshold: float) -> tuple[Units, Units]:
        hot = whole.levels(self._problem.noise, threshold) <= _SPLIT_LEVEL
        return whole[~hot], whole[hot]

    def _revealed(self, units: Units, threshold: float, layout: Layout) -> tuple[Units, list[Entries]]:
        """The units with what is known after this round, and those of their candidates that have V < 2^-level."""
        level = units.levels(self._problem.noise, threshold)
        todo = np.flatnonzero(level < units.known)
        if len(todo) == 0:
            return units, []
        level[todo] = _pooled(level[todo], layout.lengths(units.start[todo]))
        todo = todo[np.argsort(level[todo], kind="stable")]
        cuts = np.flatnonzero(np.diff(level[todo])) + 1
        pools = [pool for same in np.split(todo, cuts) for pool in layout.pools(same, units.start)]
        entries = [self._drawn(pool, units, int(level[pool[0]]), layout) for pool in pools]
        return Units(units.start, units.height, level), entries

    def _drawn(self, pool: Indices, units: Units, level: int, layout: Layout) -> Entries:
        size, located = layout.numbered(units.start[pool])
        unit, offset = located(successes(size, level, self._problem.words))
        unit = pool[unit]
        kept, words = self._uniforms(units.known[unit], level)
        index, member, real = layout.candidates(units.start[unit[kept]], offset[kept])
        entries = Entries(index, member, np.full(len(index), level), words)
        return entries if real is None else entries[real]

    def _uniforms(self, known: Levels, level: int) -> tuple[Indices, Words]:
        """Words of V = 2^-level * 0.w under V >= 2^-known, and which candidates still have V < 2^-level under that condition."""
        draw = self._problem.words
        kept, words = np.arange(len(known)), draw(len(known))
        if (known == UNKNOWN).all():
            return kept, words
        shift = np.where(known == UNKNOWN, 0, 64 - known.astype(np.int64) + level).astype(np.uint64)
        bound = np.where(known == UNKNOWN, np.uint64(0), np.uint64(1) << shift)
        # V below 2^-known is refused: then all of V is drawn anew, and leaves this pool unless its first bits are zero again.
        while len(late := np.flatnonzero(words < bound)):
            again = np.ones(len(words), dtype=np.bool_)
            again[late] = (draw(len(late)) >> np.uint64(64 - level)) == 0 if level else True
            words[late] = draw(len(late))
            kept, words, bound = kept[again], words[again], bound[again]
        return kept, words

    def _enter(self, fresh: list[Entries]) -> None:
        if not fresh:
            return
        entries = Entries.concatenate(fresh)
        if self._entered:
            entries = entries[np.flatnonzero(~self._seen(entries))]
        self._entered.append(entries)
        for start in range(0, len(entries), _AT_ONCE):
            self._contest.offer(entries[start : start + _AT_ONCE])

    def _seen(self, entries: Entries) -> NDArray[np.bool_]:
        """Which candidates have been entered in an earlier round."""
        before = np.concatenate([old.index for old in self._entered])
        seen = np.isin(entries.index, before)
        if any(old.member.any() for old in self._entered) or entries.member.any():
            keys = {key for old in self._entered for key in _keys(old)}
            again = np.flatnonzero(seen)
            seen[again] = [key in keys for key in _keys(entries[again])]
        return seen


def _descending(threshold: float) -> Iterator[float]:
    step = _FIRST_STEP
    while True:
        yield threshold
        threshold -= step
        step *= 2.0


def _keys(entries: Entries) -> Iterator[tuple[int, int]]:
    return zip(entries.index.tolist(), entries.member.tolist(), strict=True)


def _pooled(level: Levels, length: Floats | None) -> Levels:
    """Levels lowered to those of fewer, larger pools, while that adds only a few candidates."""
    mass = np.bincount(level, weights=length, minlength=HIGHEST_LEVEL + 1)
    lowered = np.zeros(len(mass), dtype=np.uint8)
    top, pending = HIGHEST_LEVEL, 0.0
    for at, weight in reversed(list(enumerate(mass.tolist()))):
        pending += weight
        if pending * 2.0**-at >= _FEW:
            lowered[at : top + 1] = at
            top, pending = at - 1, 0.0
    return lowered[level]
