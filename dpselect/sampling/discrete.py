"""Exact draws of whole numbers: one of many classes, and the successes among many rare trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from flint import arb, fmpq, fmpz

from accounting.numbers import Flags, Floats, Integers
from dpselect.sampling.contest import LazyUniform, Words, WordSource, precision, uniforms

_ROUNDING = 2.0**-50  # of the total, for every addition and product


def categorical(
    low: Floats, high: Floats, weights: Callable[[], Sequence[arb]], count: int, words: WordSource
) -> Integers:
    """Draw (count,) columns, with probabilities exactly in proportion to weights. Theorem X9."""
    first = words(count)
    column, certain = pick(low, high, first)
    for i in np.flatnonzero(~certain).tolist():
        column[i] = LazyUniform(words, word=int(first[i])).column(weights)
    return column


def pick_rows(low: Floats, high: Floats, words: Words) -> tuple[Integers, Flags]:
    """Return (rows,) the column on which a word falls, and flags of certain columns.

    From (rows, columns) bounds on ln(weight). A column of weight zero has both bounds -inf, and is
    never picked. Every row has a column of finite bounds. Theorem X9.
    """
    sums, slack = _cumulate(low, high)
    place = uniforms(words)[:, None] * sums[:, -1:]
    distance = np.abs(sums[:, :-1] - place).min(axis=1, initial=np.inf)
    return (sums[:, :-1] <= place).sum(axis=1), np.asarray(distance > slack)


def pick(low: Floats, high: Floats, words: Words) -> tuple[Integers, Flags]:
    """Do as `pick_rows` for (count,) words and one row of (columns,) bounds."""
    sums, slack = _cumulate(low[None], high[None])
    place = uniforms(words) * sums[0, -1]
    edges = np.concatenate([[-np.inf], sums[0, :-1], [np.inf]])
    column = np.searchsorted(edges, place, side="right") - 1
    return column, np.asarray(
        np.minimum(place - edges[column], edges[column + 1] - place) > slack[0]
    )


def _cumulate(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return (rows, columns) running sums of the weights, and (rows,) bounds on their errors.

    The sums are up to a factor a row.
    """
    weights = np.exp(high - high.max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        missing = (weights * np.where(high == -np.inf, 0.0, -np.expm1(low - high))).sum(axis=1)
    sums = np.cumsum(weights, axis=1)
    total = sums[:, -1]
    slack = 2.0 * missing + total * ((low.shape[1] + 16) * _ROUNDING)
    return sums, np.where(missing < 0.25 * total, slack, np.inf)


# The successes among n independent trials of probability 2^-level, in time that grows with their
# number and not with n.

_DENSE = 5  # up to this level, one bit per trial and level is cheaper than drawing their number
_MEAN_BITS = 4  # successes are counted in pieces of 2^(level + 4) trials, 16 successes on average
_TABLE_BITS = 64


def successes(size: int, level: int, words: WordSource) -> Words:
    """Draw a subset of the numbers below `size`, each with probability exactly 2^-level.

    Each is in independently of the others. Theorem X5.
    """
    if level == 0:
        return np.arange(size, dtype=np.uint64)
    if level <= _DENSE:  # a trial succeeds where `level` random bits are all set
        bits = np.bitwise_and.reduce(words(level * (-(-size // 64))).reshape(level, -1), axis=0)
        return np.flatnonzero(np.unpackbits(bits.view(np.uint8))[:size]).astype(np.uint64)
    # Whole pieces of a power of two of trials, those beyond `size` discarded; in each a count, then
    # that many places.
    width = level + _MEAN_BITS
    counts = binomial_counts(-(-size >> width), level, words)
    places = _distinct(counts, width, words)
    return places[places < np.uint64(size)]


def binomial_counts(number: int, level: int, words: WordSource) -> Integers:
    """Draw (number,) counts of Binomial(2^(level + 4), 2^-level), by exact inversion.

    The inverted function is its distribution function.
    """
    table = _table(level)
    uniform = words(number)
    counts = np.searchsorted(table, uniform, side="right")
    # A word equal to an entry does not say on which side of the distribution function the uniform
    # number lies.
    for i in np.flatnonzero(table[np.maximum(counts - 1, 0)] == uniform).tolist():
        counts[i] = refine_count(level, LazyUniform(words, word=int(uniform[i])))
    return counts.astype(np.int64)


def refine_count(level: int, draw: LazyUniform) -> int:
    """Return the count c with cdf(c - 1) <= U < cdf(c), drawing bits of U until that is certain."""
    count = 0
    while True:
        step = _cumulative(level, count, draw.count)
        while draw.bits == step:
            draw.extend()
            step = _cumulative(level, count, draw.count)
        if draw.bits < step:
            return count
        count += 1


def _cumulative(level: int, count: int, bits: int) -> int:
    """Return the first `bits` binary digits of a binomial cdf at `count`.

    It is that of Binomial(2^(level + 4), 2^-level).
    """
    if count == 1 << (level + _MEAN_BITS):
        return 1 << bits
    more = 64
    while True:  # no value of the cdf but 1 is a whole number of steps
        with precision(bits + more):
            floor: fmpz | None = (_cdf(level, count) * arb((1, bits))).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        more *= 2


def _cdf(level: int, count: int) -> arb:
    trials = 1 << (level + _MEAN_BITS)
    term = arb(1 - fmpq(1, 1 << level)) ** trials
    total = term
    for i in range(count):
        term = term * arb(trials - i) / arb((i + 1) * ((1 << level) - 1))
        total += term
    return total


@lru_cache(maxsize=64)
def _table(level: int) -> Words:
    """Return the cdf to 64 digits, up to the first value that is 1 to so many digits.

    Its last entry is 2^64 - 1, which refinement resolves.
    """
    steps: list[int] = []
    while not steps or steps[-1] < 2**_TABLE_BITS - 1:
        steps.append(_cumulative(level, len(steps), _TABLE_BITS))
    return np.array(steps, dtype=np.uint64)


def _distinct(counts: Integers, width: int, words: WordSource) -> Words:
    """Draw for every piece its count of distinct numbers of `width` bits, uniform over sets.

    The numbers are prefixed by the piece.
    """
    unique_words = np.empty(0, dtype=np.uint64)
    missing = counts
    while missing.any():
        piece = np.repeat(np.arange(len(counts), dtype=np.uint64), missing)
        fresh = piece << np.uint64(width) | words(len(piece)) >> np.uint64(64 - width)
        # As many as are missing, so never one too many: the same as drawing one by one and throwing
        # repetitions away.
        unique_words = np.sort(np.concatenate([unique_words, fresh]))
        unique_words = unique_words[
            np.append(True, unique_words[1:] != unique_words[:-1])
        ]  # np.unique takes twice as long
        missing = counts - np.bincount(
            (unique_words >> np.uint64(width)).astype(np.int64), minlength=len(counts)
        )
    return unique_words
