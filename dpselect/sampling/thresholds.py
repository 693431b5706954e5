"""Exact comparisons of noisy numbers: with a level, and with noisy thresholds, each kept until it is renewed.

Which of very many noisy scores exceed a level, without drawing the noise of each. Theorem X13.

A candidate far below the level exceeds it only if its uniform number V is below 2^-8, or a smaller power of two: which candidates
have so small a V is drawn directly, and the others are not looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.distributions import Noise
from dpselect.sampling import exact
from dpselect.sampling.contest import (
    Entries,
    Flags,
    Floats,
    Indices,
    LazyUniform,
    Numbers,
    RankingProblem,
    Term,
    Words,
    WordSource,
    contest_bounds,
    ranked,
    rational,
    sign_of_total,
)
from dpselect.sampling.discrete import successes
from dpselect.sampling.plain import NoiseDraw, noisy

_LEVEL, _RARE = 8, (24, 20, 16, 12)  # candidates that need a V below 2^-8 are pooled; where all do, by the rarest that holds
_SAMPLED, _MOST = 257, 0.1  # a sweep of all costs less than to pick out more than this share, of a sample
_SMALL = 1 << 14  # up to here pooling saves nothing
_CHUNK = 1 << 15  # candidates whose noise fits the cache
_STEPS = 64
_SLACK = 2.0**-45  # of every term: more than the roundings of their difference
WIDER = 2.0**-48  # of the size of every term: more than the few roundings of their sum
TINY = 2.0**-1000  # more than any underflow


def exceeds(values: Numbers, noise: Noise, scale: float, level: float, words: WordSource) -> Flags:
    """(count,) whether value + scale * Z > level, each with a draw of its own. Theorem X2."""
    return exceeding(values, noise, scale, level, Entries.at(np.arange(len(values)), words(len(values))), words)


def exceeding(values: Numbers, noise: Noise, scale: float, level: float, entries: Entries, words: WordSource) -> Flags:
    """(entries,) the same for (entries,) values and what is known of their noise already."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled(noise, scale, entries.words, entries.level)
        middle = values.astype(np.float64) - level
        result, unsure = _certain(low + middle, high + middle, np.abs(values.astype(np.float64)) + abs(level))
    for i in unsure.tolist():
        rest = rational(values[i].item()) - rational(level)
        result[i] = sign_of_total(rest, noise, [(rational(scale), entries.draw(i, words))]) > 0
    return result


def scaled(noise: Noise, scale: float, words: Words, level: Indices | None = None) -> tuple[Floats, Floats]:
    """Bounds on scale * isf(V) up to two roundings, for words of any shape; V = 2^-level * 0.w, of level 0 if None."""
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(noise, nothing, nothing.astype(np.int64) if level is None else level, words)
    return low * scale, high * scale


def _certain(low: Floats, high: Floats, sizes: Floats) -> tuple[Flags, Indices]:
    """Where the sum is certainly positive, and where its sign is not certain; `sizes` bounds the terms that are not in them."""
    positive = low > WIDER * (sizes + np.abs(low)) + TINY
    negative = high < -WIDER * (sizes + np.abs(high)) - TINY
    return positive, np.flatnonzero(~(positive | negative))


class Thresholds(ABC):
    """(rows,) thresholds, each the sum of scale * Y over a few scales with own draws Y of a noise. Private: never shown."""

    @abstractmethod
    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        """(rows, m) whether value - the sum of `minus` + answer_scale * Z > the row's threshold, with an own Z each.

        `values` (rows, m) and each of `minus` broadcast against one another; the difference is that of the real numbers.
        """

    @abstractmethod
    def renew(self, rows: Indices) -> None:
        """Draw the thresholds of these rows afresh."""

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}(<hidden>)"


@final
class LazyThresholds(Thresholds):
    """Exact: every bit of a threshold that one comparison had to draw is known to the next. Theorem X2."""

    def __init__(self, noise: Noise, scales: Sequence[float], rows: int, words: WordSource) -> None:
        self._noise, self._scales, self._source = noise, tuple(scales), words
        self._words = np.zeros((len(self._scales), rows), dtype=np.uint64)
        self._low, self._high, self._size = np.zeros(rows), np.zeros(rows), np.zeros(rows)
        self._lazy: dict[int, list[LazyUniform]] = {}
        self.renew(np.arange(rows))

    def renew(self, rows: Indices) -> None:
        words = self._source(len(self._scales) * len(rows)).reshape(len(self._scales), len(rows))
        self._words[:, rows] = words
        self._low[rows] = self._high[rows] = self._size[rows] = 0.0
        for scale, drawn in zip(self._scales, words, strict=True):
            low, high = scaled(self._noise, scale, drawn)
            self._low[rows] += low
            self._high[rows] += high
            self._size[rows] += np.maximum(np.abs(low), np.abs(high))
        for row in rows.tolist():
            self._lazy.pop(row, None)

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        with np.errstate(over="ignore", invalid="ignore"):
            middle = _subtracted(values, minus)
            answers = self._source(middle.size).reshape(middle.shape)
            low, high = scaled(self._noise, answer_scale, answers)
            low += middle - self._high[:, None]
            high += middle - self._low[:, None]
            sizes = _size_bound(middle, values, minus) + self._size[:, None]
            result, unsure = _certain(low.ravel(), high.ravel(), sizes.ravel())
        for i in unsure.tolist():
            row, column = divmod(i, middle.shape[1])
            own = (rational(answer_scale), LazyUniform(self._source, word=int(answers[row, column])))
            result[i] = self._sign(row, column, values, minus, own) > 0
        return result.reshape(middle.shape)

    def _sign(self, row: int, column: int, values: Numbers, minus: Sequence[Numbers], own: Term) -> int:
        shape = np.broadcast_shapes(values.shape, *(part.shape for part in minus))
        first, *others = (rational(np.broadcast_to(part, shape)[row, column].item()) for part in (values, *minus))
        if row not in self._lazy:
            self._lazy[row] = [LazyUniform(self._source, word=int(word)) for word in self._words[:, row]]
        kept = [(-rational(scale), draw) for scale, draw in zip(self._scales, self._lazy[row], strict=True)]
        return sign_of_total(first - sum(others), self._noise, [own, *kept])


@final
class PlainThresholds(Thresholds):
    """The same in float64, for simulation."""

    def __init__(self, draw: NoiseDraw, scales: Sequence[float], rows: int) -> None:
        self._draw, self._scales = draw, tuple(scales)
        self._level = self._fresh(rows)

    def renew(self, rows: Indices) -> None:
        self._level[rows] = self._fresh(len(rows))

    def passes(self, values: Numbers, answer_scale: float, minus: Sequence[Numbers] = ()) -> Flags:
        return np.asarray(noisy(_subtracted(values, minus), self._draw, answer_scale) > self._level[:, None])

    def _fresh(self, rows: int) -> Floats:
        return np.sum([scale * self._draw(rows) for scale in self._scales], axis=0)


def _subtracted(values: Numbers, minus: Sequence[Numbers]) -> Floats:
    """values less all of `minus`, as float64, up to a few roundings of what `size_bound` returns."""
    if _whole(values, minus):
        middle, minus = _whole_difference(values, minus[0]), minus[1:]
    else:
        middle = values.astype(np.float64)
    for part in minus:
        middle = middle - part
    return middle


def _size_bound(middle: Floats, values: Numbers, minus: Sequence[Numbers]) -> Floats:
    """What the roundings of `_subtracted` are relative to: the sum of the sizes of the terms."""
    parts = minus[1:] if _whole(values, minus) else (values, *minus)
    return np.asarray(np.abs(middle) + 2.0 * sum(np.abs(part.astype(np.float64)) for part in parts))


def _whole(values: Numbers, minus: Sequence[Numbers]) -> bool:
    return len(minus) > 0 and values.dtype == np.int64 and minus[0].dtype == np.int64


def _whole_difference(values: NDArray[Any], minus: NDArray[Any]) -> Floats:
    """The difference of 64-bit integers, rounded once: by halves, which do not overflow."""
    half, low = np.int64(32), np.int64(2**32 - 1)
    upper = ((values >> half) - (minus >> half)).astype(np.float64)
    return upper * 2.0**32 + ((values & low) - (minus & low)).astype(np.float64)


def above(problem: RankingProblem, level: float) -> Entries:
    """At most `problem.k` candidates: the largest values + scale * noise, of those that exceed `level`, largest first."""
    if len(problem.values) <= _SMALL:
        return drawn_all(problem, level)
    highest = problem.values.max()
    for bits in _RARE:
        if highest <= far_below(problem, level, bits):
            return _ranked(problem, _pooled(problem, level, np.empty(0, dtype=np.int64), bits))
    far = far_below(problem, level, _LEVEL)
    if exact.worth_sweeping(problem) and np.mean(problem.values[::_SAMPLED] > far) > _MOST:
        return _ranked(problem, _best(problem, level))
    near = np.flatnonzero(problem.values > far)
    found = [_best(problem.at(near), level).among(near), _pooled(problem, level, near, _LEVEL)]
    return _ranked(problem, Entries.concatenate(found))


def drawn_all(problem: RankingProblem, level: float) -> Entries:
    """The same with the noise of every candidate drawn."""
    return _ranked(problem, _all(problem, level))


def grouped(problem: RankingProblem, multiplicities: Indices, level: float) -> Entries:
    """The same among groups of candidates with one score: `index` is the group, `member` which of its candidates. Theorem X14."""
    if problem.k < int(multiplicities.sum(dtype=object)):
        best = exact.grouped(problem, multiplicities)
    else:
        best = exact.grouped_reaching(problem, multiplicities, level)
    return _ranked(problem, _exceeding(problem, level, best))


def grouped_drawn_all(problem: RankingProblem, multiplicities: Indices, level: float) -> Entries:
    """The same with the noise of every candidate drawn; raises as `exact.grouped_drawn_all`."""
    return exact.grouped_drawn_all(problem, multiplicities, lambda every: drawn_all(every, level))


def rows(problem: RankingProblem, level: float, listed: Flags) -> Indices:
    """(rounds, m) the same in every row of a matrix, of the `listed` candidates; -1 beyond the last."""
    step = max(1, _CHUNK // problem.values.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(listed), step)]
    return np.concatenate([_block(problem.at(part), level, listed[part]) for part in parts])


def in_order(numbers: Floats, kept: Flags) -> Indices:
    """(rounds, m) places of the numbers that are kept, largest first, then -1."""
    order = np.argsort(np.where(kept, -numbers, np.inf), axis=1, kind="stable")
    return np.where(np.take_along_axis(kept, order, axis=1), order, -1).astype(np.int64)


def _block(problem: RankingProblem, level: float, listed: Flags) -> Indices:
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
        order[row] = _one(problem.at(row), level, np.flatnonzero(listed[row]), words[row])
    return order


def _one(problem: RankingProblem, level: float, listed: Indices, words: Words) -> Indices:
    entries = Entries.at(listed, words[listed])
    best = _ranked(problem, _exceeding(problem, level, entries)).index
    return np.concatenate([best, np.full(len(words) - len(best), -1, dtype=np.int64)])


def far_below(problem: RankingProblem, level: float, bits: int) -> float:
    """A score such that it and all lower ones exceed `level` only with a V below 2^-bits. Theorem X3."""
    distance = problem.scale * _reach(problem.noise, bits)
    return level - distance - _SLACK * (abs(level) + distance)


@lru_cache(maxsize=64)
def _reach(noise: Noise, bits: int) -> float:
    """A noise z that is exceeded with a chance of at most 2^-bits, from above."""
    low, high = 0.0, 1024.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if float(noise.tail_bits(np.array(middle))) >= bits else (middle, high)
    return high


def _best(problem: RankingProblem, level: float) -> Entries:
    """Those that exceed `level`: all, or at least the k largest of them."""
    if len(problem.values) <= problem.k or not exact.worth_sweeping(problem):
        return _all(problem, level)
    return _exceeding(problem, level, exact.top_k(problem))


def _all(problem: RankingProblem, level: float) -> Entries:
    """All that exceed `level`, with the noise of every candidate drawn."""
    found = []
    for start in range(0, len(problem.values), _CHUNK):
        index = np.arange(start, min(start + _CHUNK, len(problem.values)))
        found.append(_exceeding(problem, level, Entries.at(index, problem.words(len(index)))))
    return Entries.concatenate(found)


def _pooled(problem: RankingProblem, level: float, near: Indices, bits: int) -> Entries:
    """Those that exceed `level` of the candidates that are not `near`."""
    small = successes(len(problem.values), bits, problem.words).astype(np.int64)
    small = small[np.searchsorted(near, small, side="right") == np.searchsorted(near, small, side="left")]
    return _exceeding(problem, level, Entries.at(small, problem.words(len(small)), bits))


def _exceeding(problem: RankingProblem, level: float, entries: Entries) -> Entries:
    values = problem.values[entries.index]
    return entries[np.flatnonzero(exceeding(values, problem.noise, problem.scale, level, entries, problem.words))]


def _ranked(problem: RankingProblem, entries: Entries) -> Entries:
    """The k largest, largest first."""
    if len(entries) == 0:
        return entries
    return ranked(replace(problem, k=min(problem.k, len(entries))).against(problem.values[entries.index].max()), entries)
