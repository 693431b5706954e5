"""The exact k largest of candidates whose noise is known to some of its infinitely many bits.

The other bits are drawn on demand.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, Self, TypeVar, final

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from accounting.numbers import Flags, Floats, Integers
from dpselect.noise import Noise

T = TypeVar("T")
WordSource = Callable[[int], NDArray[np.uint64]]

_WORD = 64
_BEYOND = 4096  # a power of two that no float64 and no float64 times any noise ever drawn reaches
_GUARD = 64  # bits of precision beyond those drawn


_LOCK = [threading.RLock()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _LOCK.__setitem__(0, threading.RLock()))


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set Arb's working precision for the block.

    It belongs to the process, so only one thread at a time sets it.
    """
    with _LOCK[0], ctx.workprec(bits):
        yield


@final
class LazyUniform:
    """A uniform V = 2^-level * 0.b1 b2 b3 ... with independent fair bits, drawn on demand.

    The first `count` of them are known as an integer, `bits`.
    """

    __slots__ = ("_source", "bits", "count", "level")

    def __init__(self, source: WordSource, *, level: int = 0, word: int | None = None) -> None:
        self._source = source
        self.level: int = level
        self.bits: int = 0 if word is None else word
        self.count: int = 0 if word is None else _WORD

    def extend(self) -> None:
        """Draw one more word."""
        self.bits = self.bits << _WORD | int(self._source(1)[0])
        self.count += _WORD

    def ball(self) -> arb:
        """Return the closed cell in which V lies, at a precision that holds its ends exactly."""
        half = -(self.count + self.level + 1)
        return arb(arb((2 * self.bits + 1, half)), arb((1, half)))

    @property
    def precision(self) -> int:
        """A working precision at which the cell, not rounding, limits the accuracy."""
        return self.count + self.level + _GUARD

    def decide(self, answer: Callable[[arb], T | None], more: int = 0) -> T:
        """Return the first result of `answer` that is not None, for the cell of V.

        More bits of V are drawn while it is None. The working precision has `more` bits on top.
        """
        while True:
            with precision(self.precision + more):
                result = answer(self.ball())
            if result is not None:
                return result
            self.extend()

    def below(self, probability: Callable[[], arb]) -> bool:
        """True if V < p, for a p of which `probability()` is a ball.

        The ball shrinks to p as Arb's working precision grows. At level 0 it is True with the exact
        probability p. Theorem X4.
        """

        def answer(cell: arb) -> bool | None:
            bound = probability()
            return True if cell < bound else False if cell > bound else None

        return self.decide(answer)

    def column(self, weights: Callable[[], Sequence[arb]]) -> int:
        """Return the column on which V falls, if each has its share of all weights.

        `weights()` are balls, as for `below`.
        """

        def answer(cell: arb) -> int | None:
            balls = weights()
            place, upto = cell * sum(balls, arb(0)), arb(0)
            for column, weight in enumerate(balls):
                upto += weight
                if column == len(balls) - 1 or place < upto:
                    return column
                if not place > upto:
                    return None
            return None

        return self.decide(answer)

    @staticmethod
    def sign(number: Callable[[], arb], draws: Collection[LazyUniform]) -> int:
        """Return the sign of a real number, from balls around it.

        They shrink as the draws that it depends on are extended.
        """
        while True:
            with precision(max(draw.precision for draw in draws)):
                ball = number()
                sign = int(bool(ball > 0)) - int(bool(ball < 0))
            if sign:
                return sign
            for draw in draws:
                draw.extend()

    @staticmethod
    def sign_of_total(rest: fmpq, noise: Noise, terms: list[tuple[fmpq, LazyUniform]]) -> int:
        """Return the sign of rest + the sum of factor * isf(V) over the terms, with certainty.

        Bits are drawn until it is certain. The sum is zero with probability 0. Theorem X2.
        """

        def total() -> arb:
            return sum(
                (arb(factor) * noise.isf_ball(draw.ball()) for factor, draw in terms), arb(rest)
            )

        return LazyUniform.sign(total, [draw for _, draw in terms])


def rational(value: float | int) -> fmpq:
    """Return the exact value of a number as a rational.

    Minus infinity becomes a number so low that only another such candidate can lose to it.
    """
    if value == -math.inf:
        return fmpq(-(1 << _BEYOND))
    return fmpq(*Fraction(value).as_integer_ratio())


Words = NDArray[np.uint64]
Numbers = Integers | Floats

# no noise makes up for lower heights: they are given this upper bound and no lower one
LOWEST = -1e300
_MODERATE = (1e-300, 1e300)  # scales whose inverses are normal floats
_WIDE = 1e8  # up to here a difference beyond the floats is a height below `LOWEST`
# three roundings, of the difference, of 1/scale and of the product, are below 2^-51
_RELATIVE = 2.0**-50
_CELL = 53  # bits that a float64 holds exactly


def numbers(values: NDArray[Any]) -> Numbers:
    """Return scores as int64 or float64 without a change of value.

    Minus infinity stands for a candidate that is left out.
    """
    if np.issubdtype(values.dtype, np.signedinteger):
        return values.astype(np.int64, copy=False)
    return values.astype(np.float64, copy=False)


def uniforms(words: Words) -> Floats:
    """Return the lower ends of the cells of 2^-53 in which the first bits put a uniform number."""
    return np.asarray((words >> np.uint64(64 - _CELL)).astype(np.float64) * 2.0**-_CELL)


def largest_rows(noisy: Floats, k: int) -> Integers:
    """Return (rounds, k) columns of the k largest numbers of every row, largest first."""
    if k == 1:
        return np.argmax(noisy, axis=1)[:, None]
    columns = noisy.shape[1]
    top = np.argpartition(noisy, columns - k, axis=1)[:, columns - k :]
    rank = np.argsort(-np.take_along_axis(noisy, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, rank, axis=1)


def differences(values: Numbers, reference: np.int64 | np.float64) -> Floats:
    """Return values - reference rounded once, for a reference no smaller than any of them.

    In score units.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype == np.int64:
            # Unsigned arithmetic wraps, so the difference is exact even where the signed one would
            # overflow.
            return np.asarray(
                -(reference.astype(np.uint64) - values.astype(np.uint64)).astype(np.float64)
            )
        return np.asarray(values - reference, dtype=np.float64)


def heights(values: Numbers, reference: np.int64 | np.float64, scale: float) -> Floats:
    """Return (values - reference) / scale, at least `LOWEST`.

    If it is above, its relative error is at most 2^-50. Theorem X1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if scale > _WIDE and values.dtype != np.int64:
            # never beyond the floats
            result, scale = np.asarray(0.5 * values - 0.5 * reference), 0.5 * scale
        else:
            result = differences(values, reference)
        if _MODERATE[0] < scale < _MODERATE[1]:
            result *= 1.0 / scale  # one rounding more, and several times faster
        else:
            result /= scale
    # minus infinity less minus infinity is NaN, and as low as can be
    return np.fmax(result, LOWEST, out=result)


def contest_bounds(
    noise: Noise, height: Floats, level: Integers, words: Words
) -> tuple[Floats, Floats]:
    """Return bounds on height + isf(V), where V = 2^-level * 0.w.

    The bits w are those of the word and all that follow. Theorem X1.
    """
    cell = (words >> np.uint64(64 - _CELL)).astype(np.float64)
    exponent = -(level + _CELL)
    low, high = noise.isf_bounds(np.ldexp(cell, exponent), np.ldexp(cell + 1.0, exponent))
    slack = _RELATIVE * np.abs(height)
    low += np.where(height > LOWEST, height - slack, -np.inf)
    high += height + slack
    return low, high


# Noise to about six digits in one pass: enough to find the few candidates that need bounds.
# Theorem X10.

MARGIN = 2.0**-20  # noise units; estimates that far apart are those of numbers in the same order
_SIGNIFICANT = np.uint64(12)  # the bits beyond the first 52 are not looked at
_UNIT_EXPONENT = np.uint64(0x3FF << 52)  # the exponent of floats from 1 to 2
_HALF_CELL = 1.0 - 2.0**-53
# nearer than this to 0 or 1 the cell of a uniform number is too wide for its center
_EDGE = 2.0**-28


def estimates(noise: Noise, words: Words) -> tuple[Floats, Integers]:
    """Return isf at the centers of the cells of 2^-52 in which V lies, and inaccurate places.

    The words give the cells. At all other places an estimate is within 2^-22 of isf(V).
    """
    bits = words >> _SIGNIFICANT
    if noise.rises:
        bits ^= np.uint64(2**52 - 1)  # the center's distance from 1
    bits |= _UNIT_EXPONENT
    uniform = bits.view(np.float64)
    uniform -= _HALF_CELL
    wide = np.empty(0, dtype=np.int64)
    if uniform.min() < _EDGE or uniform.max() > 1.0 - _EDGE:
        wide = np.flatnonzero((uniform < _EDGE) | (uniform > 1.0 - _EDGE))
    return noise.from_uniform(uniform), wide


_SPARE = 4096  # candidates held beyond 2k before the certain losers are dropped
Bounds = Callable[[Noise, Floats, Integers, Words], tuple[Floats, Floats]]


@final
@dataclass(frozen=True)
class RankingProblem:
    """A request for the k largest of values + scale * noise, with a source of random words."""

    values: Numbers
    noise: Noise
    scale: float
    k: int
    words: WordSource
    # the float64 enclosure of a noisy height; tests widen it to force refinement
    bounds: Bounds = contest_bounds
    # least distance of estimates in a certain order, noise units; tests widen it too
    margin: float = MARGIN
    # the largest score, from which heights are measured, once it is known
    reference: np.int64 | np.float64 | None = None

    def heights(self, values: Numbers) -> Floats:
        """Return the scores in units of the noise, relative to the reference."""
        if self.reference is None:
            raise AssertionError("the reference score must be set first")
        return heights(values, self.reference, self.scale)

    def take(self, places: Integers | slice | int) -> Self:
        """Return the problem restricted to some of the values."""
        return replace(self, values=self.values[places])

    def against(self, reference: np.int64 | np.float64) -> Self:
        """Return the problem with its reference score set."""
        return replace(self, reference=reference)


@final
@dataclass(frozen=True)
class Entries:
    """Candidates with the known bits of their noise.

    Each has an index into the values and a place in the group of that value.
    """

    index: Integers
    member: Integers
    level: Integers
    words: Words
    # Draws of which more than the word is known. Shared by all entries cut from these, so that no
    # bit is drawn twice.
    refined: dict[tuple[int, int], LazyUniform] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def from_index(cls, index: Integers, words: Words, level: int = 0) -> Self:
        """Return candidates that stand for themselves, each with a word of V = 2^-level * 0.w."""
        return cls(index, np.zeros_like(index), np.full_like(index, level), words)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Integers | slice) -> Self:
        return type(self)(
            self.index[rows], self.member[rows], self.level[rows], self.words[rows], self.refined
        )

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """Return all parts in order, or an empty one without parts."""
        parts = [cls.from_index(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)), *parts]
        columns = ("index", "member", "level", "words")
        index, member, level, words = (
            np.concatenate([getattr(part, name) for part in parts]) for name in columns
        )
        return cls(
            index,
            member,
            level,
            words,
            {key: draw for part in parts for key, draw in part.refined.items()},
        )

    def split(self, group: Integers, first: Integers) -> Self:
        """Return entries by group, if `index` is a place among all members of all groups.

        The members of group g begin at `first[g]`.
        """
        refined = {
            (int(group[entry]), int(entry - first[group[entry]])): draw
            for (entry, _), draw in self.refined.items()
        }
        members = group[self.index]
        return type(self)(members, self.index - first[members], self.level, self.words, refined)

    def among(self, candidates: Integers) -> Self:
        """Return entries by candidate, if `index` is a place among `candidates`."""
        refined = {
            (int(candidates[index]), member): draw for (index, member), draw in self.refined.items()
        }
        return type(self)(candidates[self.index], self.member, self.level, self.words, refined)

    def draw(self, place: int, words: WordSource) -> LazyUniform:
        """Return the V of one entry, with every bit of it that has been drawn."""
        key = int(self.index[place]), int(self.member[place])
        if key not in self.refined:
            self.refined[key] = LazyUniform(
                words, level=int(self.level[place]), word=int(self.words[place])
            )
        return self.refined[key]


# Comparisons of noisy numbers with a level.

WIDER = 2.0**-48  # of the size of every term: more than the few roundings of their sum
TINY = 2.0**-1000  # more than any underflow


def exceeds(
    values: Numbers,
    noise: Noise,
    scale: float,
    level: float,
    words: WordSource,
    entries: Entries | None = None,
) -> Flags:
    """Return (count,) flags of value + scale * Z > level, given the known bits of each Z.

    Without `entries`, each Z is drawn. Theorem X2.
    """
    if entries is None:
        entries = Entries.from_index(np.arange(len(values)), words(len(values)))
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = scaled_bounds(noise, scale, entries.words, entries.level)
        middle = values.astype(np.float64) - level
        result, unsure = certain(
            low + middle, high + middle, np.abs(values.astype(np.float64)) + abs(level)
        )
    for i in unsure.tolist():
        rest = rational(values[i].item()) - rational(level)
        result[i] = (
            LazyUniform.sign_of_total(rest, noise, [(rational(scale), entries.draw(i, words))]) > 0
        )
    return result


def scaled_bounds(
    noise: Noise, scale: float, words: Words, level: Integers | None = None
) -> tuple[Floats, Floats]:
    """Return bounds on scale * isf(V) up to two roundings, for words of any shape.

    V = 2^-level * 0.w, of level 0 if None.
    """
    nothing = np.zeros(words.shape)
    low, high = contest_bounds(
        noise, nothing, nothing.astype(np.int64) if level is None else level, words
    )
    return low * scale, high * scale


def certain(low: Floats, high: Floats, sizes: Floats) -> tuple[Flags, Integers]:
    """Return flags of sums that are certainly positive, and places where the sign is not certain.

    `sizes` bounds the terms that are not in them.
    """
    positive = low > WIDER * (sizes + np.abs(low)) + TINY
    negative = high < -WIDER * (sizes + np.abs(high)) - TINY
    return positive, np.flatnonzero(~(positive | negative))


@final
class Contenders:
    """A collection of every entry that may still be among the k largest."""

    def __init__(self, problem: RankingProblem) -> None:
        self._problem, self._entries = problem, Entries.concatenate([])
        self._low, self._high = np.empty(0), np.empty(0)

    def offer(self, entries: Entries) -> None:
        """Enter more candidates."""
        problem = self._problem
        height = problem.heights(problem.values[entries.index])
        low, high = problem.bounds(problem.noise, height, entries.level, entries.words)
        self._entries = Entries.concatenate([self._entries, entries])
        self._low, self._high = np.append(self._low, low), np.append(self._high, high)
        if len(self._low) > 2 * problem.k + _SPARE:
            self._keep(np.flatnonzero(self._high >= self.floor()))

    def floor(self) -> float:
        """Return a number that at least k candidates certainly reach, or -inf if there is none.

        In noise units above the reference.
        """
        place = len(self._low) - self._problem.k
        return float(np.partition(self._low, place)[place]) if place >= 0 else -np.inf

    def rank(self) -> Entries:
        """Return the k largest, largest first, certain of every comparison. Theorem X2."""
        self._keep(np.flatnonzero(self._high >= self.floor()))
        self._keep(np.argsort(-self._low))
        low, order = self._low, np.arange(len(self._low))
        reach = np.maximum.accumulate(self._high[::-1])[::-1]
        # Between i and i+1 all is decided if everything after i certainly stays below everything up
        # to i.
        joined = reach[1:] >= low[:-1]
        ends = np.flatnonzero(~joined) + 1
        starts, stops = np.append(0, ends), np.append(ends, len(low))
        undecided = np.flatnonzero((stops - starts > 1) & (starts < self._problem.k))
        for start, stop in zip(starts[undecided].tolist(), stops[undecided].tolist(), strict=True):
            order[start:stop] = start + self._sort(self._entries[start:stop])
        return self._entries[order[: self._problem.k]]

    def _keep(self, places: Integers) -> None:
        self._entries, self._low, self._high = (
            self._entries[places],
            self._low[places],
            self._high[places],
        )

    def _sort(self, entries: Entries) -> Integers:
        """Return the exact descending order of a few entries, as positions among them."""
        problem = self._problem
        scores = [rational(problem.values[i].item()) for i in entries.index]
        draws = [entries.draw(place, problem.words) for place in range(len(entries))]
        scale = rational(problem.scale)

        def descending(a: int, b: int) -> int:
            terms = [(rational(1), draws[b]), (rational(-1), draws[a])]
            return LazyUniform.sign_of_total((scores[b] - scores[a]) / scale, problem.noise, terms)

        return np.array(sorted(range(len(draws)), key=cmp_to_key(descending)), dtype=np.int64)


def rank_entries(problem: RankingProblem, entries: Entries) -> Entries:
    """Return the k largest of the entries, largest first, certain of every comparison."""
    contest = Contenders(problem)
    contest.offer(entries)
    return contest.rank()
