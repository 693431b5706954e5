"""Which of n independent trials of probability 2^-level succeed, at a cost that grows with their number and not with n."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dpselect.sampling.heights import Words
from dpselect.sampling.lazy import LazyUniform, WordSource, certain_integer

_DENSE = 5  # up to this level, one bit per trial and level is cheaper than drawing how many succeed
_MEAN_BITS = 4  # successes are counted in pieces of 2^(level + 4) trials, 16 successes on average
_TABLE_BITS = 64


def successes(size: int, level: int, words: WordSource) -> Words:
    """Distinct numbers below `size`, each of them in with probability exactly 2^-level, independently. Theorem X5."""
    if level == 0:
        return np.arange(size, dtype=np.uint64)
    return _by_bits(size, level, words) if level <= _DENSE else _by_counts(size, level, words)


def _by_bits(size: int, level: int, words: WordSource) -> Words:
    """A trial succeeds where `level` random bits are all set."""
    rows = words(level * (-(-size // 64))).reshape(level, -1)
    bits = np.bitwise_and.reduce(rows, axis=0)
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8))[:size]).astype(np.uint64)


def _by_counts(size: int, level: int, words: WordSource) -> Words:
    """Whole pieces of a power of two of trials, those beyond `size` discarded; in each a count, then that many places."""
    width = level + _MEAN_BITS
    counts = binomial_counts(-(-size >> width), level, words)
    places = _distinct(counts, width, words)
    return places[places < np.uint64(size)]


def binomial_counts(number: int, level: int, words: WordSource) -> NDArray[np.int64]:
    """(number,) draws of Binomial(2^(level + 4), 2^-level), by inversion of its exact distribution function."""
    table = _table(level)
    uniform = words(number)
    counts = np.searchsorted(table, uniform, side="right")
    # A word equal to an entry does not say on which side of the distribution function the uniform number lies.
    for i in np.flatnonzero(table[np.maximum(counts - 1, 0)] == uniform).tolist():
        counts[i] = refined_count(level, LazyUniform(words, word=int(uniform[i])))
    return counts.astype(np.int64)


def refined_count(level: int, draw: LazyUniform) -> int:
    """The count c with cdf(c - 1) <= U < cdf(c), drawing bits of U until that is certain."""
    count = 0
    while True:
        step = cumulative(level, count, draw.count)
        while draw.bits == step:
            draw.extend()
            step = cumulative(level, count, draw.count)
        if draw.bits < step:
            return count
        count += 1


def cumulative(level: int, count: int, bits: int) -> int:
    """The first `bits` binary digits of the cdf of Binomial(2^(level + 4), 2^-level) at `count`."""
    if count == 1 << (level + _MEAN_BITS):
        return 1 << bits
    return certain_integer(bits + 64, lambda: _cdf(level, count) * arb((1, bits)))


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
    """The cdf to 64 digits, until it has none left that are not 1; its last entry is 2^64 - 1, which refinement resolves."""
    steps: list[int] = []
    while not steps or steps[-1] < 2**_TABLE_BITS - 1:
        steps.append(cumulative(level, len(steps), _TABLE_BITS))
    return np.array(steps, dtype=np.uint64)


def _distinct(counts: NDArray[np.int64], width: int, words: WordSource) -> Words:
    """For every piece its count of distinct numbers of `width` bits, each set as likely as any other; prefixed by the piece."""
    kept = np.empty(0, dtype=np.uint64)
    missing = counts
    while missing.any():
        piece = np.repeat(np.arange(len(counts), dtype=np.uint64), missing)
        fresh = piece << np.uint64(width) | words(len(piece)) >> np.uint64(64 - width)
        # As many as are missing, so never one too many: the same as drawing one by one and throwing repetitions away.
        kept = np.unique(np.concatenate([kept, fresh]))
        missing = counts - np.bincount((kept >> np.uint64(width)).astype(np.int64), minlength=len(counts))
    return kept
