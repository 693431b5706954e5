"""Which of n trials of probability 2^-j succeed."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from chance import equally_likely, fit
from scipy.stats import binom

from dpselect.sampling import ExactSampler
from dpselect.sampling.contest import LazyUniform
from dpselect.sampling.discrete import _table, binomial_counts, refine_count, successes

LIMIT = 1e-8


@pytest.mark.parametrize("level", [6, 8])
def test_the_table_is_the_exact_distribution_function(level: int) -> None:
    """Entries are the first 64 binary digits of the cdf, computed here in rational arithmetic."""
    trials, chance = 2 ** (level + 4), Fraction(1, 2**level)
    cdf = Fraction(0)
    for count, entry in enumerate(_table(level).tolist()):
        cdf += comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
        assert entry == min(int(cdf * 2**64), 2**64 - 1)


@pytest.mark.parametrize("level", [6, 20, 56])
def test_counts_are_binomial(level: int) -> None:
    """200,000 counts pass a chi-square test against the binomial law."""
    counts = binomial_counts(200_000, level, ExactSampler(np.random.default_rng(1)).words)
    law = binom.pmf(np.arange(60), 2 ** (level + 4), 2.0**-level)
    seen = np.bincount(np.clip(counts, 5, 29) - 5, minlength=25)
    expected = law[5:30].copy()
    expected[0], expected[-1] = law[:6].sum(), law[29:].sum()
    assert fit(seen, expected) > LIMIT


def test_an_undecided_word_is_decided_by_the_bits_that_follow() -> None:
    """A word equal to a table entry gives the count below or above it as its next word lies below
    or above the next digits.
    """
    entry = int(_table(8)[12])
    for follow, expected in ((0, 12), (2**64 - 1, 13)):
        draw = LazyUniform(lambda n, follow=follow: np.full(n, follow, dtype=np.uint64), word=entry)
        assert refine_count(8, draw) == expected
        words = iter([np.array([entry], dtype=np.uint64), np.array([follow], dtype=np.uint64)])
        assert binomial_counts(1, 8, lambda _, words=words: next(words)).tolist() == [expected]


def test_largest_words_end_the_count_search() -> None:
    """The largest words stand for a count in the far tail, never for a search without end."""
    words = iter([2**64 - 1, 2**64 - 1, 5])
    count = refine_count(
        7, LazyUniform(lambda _: np.array([next(words)], dtype=np.uint64), word=2**64 - 1)
    )
    assert 64 < count < 200


@pytest.mark.fast(3)
@pytest.mark.parametrize(("size", "level"), [(1000, 2), (1000, 5), (1000, 6), (5000, 7), (70, 10)])
def test_each_trial_succeeds_with_its_probability(size: int, level: int) -> None:
    """Over 3,000 runs: distinct places below the size, each as often as any other, in all as often
    as they should.
    """
    words = ExactSampler(np.random.default_rng(level)).words
    hits = np.zeros(size)
    for _ in range(3000):
        places = successes(size, level, words)
        assert len(np.unique(places)) == len(places)
        hits[places.astype(int)] += 1
    mean, chance = 3000 * size * 2.0**-level, 2.0**-level
    assert abs(hits.sum() - mean) < 6 * np.sqrt(mean * (1 - chance))
    halves = hits[: size // 2].sum(), hits[size - size // 2 :].sum()
    assert abs(halves[0] - halves[1]) < 6 * np.sqrt(mean)
    if mean / size > 20:
        assert equally_likely(hits) > LIMIT
    pairs = [len(successes(64, level, words)) for _ in range(2000)]
    assert abs(np.var(pairs) - 64 * chance * (1 - chance)) < 0.2 * 64 * chance + 0.1
