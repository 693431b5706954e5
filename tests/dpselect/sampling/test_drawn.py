"""Noisy numbers that are asked more than once: above a level, in order, and rounded, all about one
draw. Theorems X7 and X13.
"""

from __future__ import annotations

import inspect
from fractions import Fraction

import numpy as np
import pytest
from chance import equally_likely
from numpy.typing import NDArray
from scipy.stats import binomtest

from dpselect.noise import noise_of
from dpselect.sampling import ExactSampler, SeededSampler
from dpselect.sampling.base import _as_float, _nearest, nearest
from dpselect.sampling.contest import Entries, LazyUniform, RankingProblem, rational
from dpselect.sampling.thresholds import _draw_far, negligible_score

LIMIT = 1e-8  # about forty tests of fixed seeds: false alarm below 1e-6
NOISES = ["gaussian", "laplace"]


def _kinds() -> list[NDArray[np.int64] | NDArray[np.float64]]:
    rng = np.random.default_rng(1)
    return [
        rng.integers(-(2**20), 2**20, 300),
        rng.integers(2**60, 2**62, 300),
        rng.normal(0, 1e3, 300),
        rng.normal(0, 1e-3, 300),
        np.floor(rng.normal(0, 1e3, 300) * 2**20) / 2**20,
        np.array([5e-324, 0.0, -0.0, 1e300, -1e300, 2.0**52 + 1, -(2.0**53)] * 20),
    ]


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("grid", [2.0**-30, 2.0**-8, 0.5, 64.0])
def test_the_fast_way_of_rounding_is_that_of_the_bits(name: str, grid: float) -> None:
    """For the same words, every multiple of the grid is the one that Arb finds, at any size of
    score and known level of V.
    """
    noise, words = noise_of(name), ExactSampler(np.random.default_rng(2)).words  # type: ignore[arg-type]
    for values in _kinds():
        for level in (0, 9):
            entries = Entries.from_index(np.arange(len(values)), words(len(values)), level)
            fast = nearest(values, noise, 3.7, grid, entries, words)
            for i in range(0, len(values), 11):
                draw = entries.refined.get((i, 0)) or LazyUniform(
                    words, level=level, word=int(entries.words[i])
                )
                slow = _nearest(
                    rational(values[i].item()) / rational(grid),
                    rational(3.7) / rational(grid),
                    noise,
                    draw,
                )
                assert fast[i] == _as_float(slow * Fraction(grid))


@pytest.mark.parametrize("name", NOISES)
def test_scores_pass_a_level_with_their_tail_probability(name: str) -> None:
    """Of 60,000 scores, near the level and far below it, each kind passes as often as its tail
    says, and nothing else passes.
    """
    noise, scale, level = noise_of(name), 2.0, 11.0  # type: ignore[arg-type]
    kinds = np.array([13, 11, 9, 4, 1, -1000])
    values = np.repeat(kinds, 10_000)
    for source in (
        ExactSampler(np.random.default_rng(3)),
        ExactSampler(np.random.default_rng(4), constant_work=True),
        SeededSampler(np.random.default_rng(5)),
    ):
        seen = np.bincount(
            source.above(values, noise, scale, level).index // 10_000, minlength=len(kinds)
        )
        for kind, hits in zip(kinds.tolist(), seen.tolist(), strict=True):
            assert binomtest(hits, 10_000, float(noise.sf((level - kind) / scale))).pvalue > LIMIT


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("bits", [12, 16])
def test_far_scores_pass_with_their_tail_probability(name: str, bits: int) -> None:
    """Four million equal scores, each of which passes only with a V below 2^-bits; by 2^-8 and by
    2^-bits alike.
    """
    noise, source = noise_of(name), ExactSampler(np.random.default_rng(bits))  # type: ignore[arg-type]
    problem = RankingProblem(
        np.zeros(4_000_000, dtype=np.int64), noise, 2.0, 4_000_000, source.words
    )
    level = -negligible_score(problem, 0.0, bits)
    for power in (8, bits):
        hits = len(_draw_far(problem, level, np.empty(0, dtype=np.int64), power))
        assert binomtest(hits, 4_000_000, float(noise.sf(level / 2.0))).pvalue > LIMIT
    assert (
        binomtest(
            len(source.above(problem.values, noise, 2.0, level).index),
            4_000_000,
            float(noise.sf(level / 2.0)),
        ).pvalue
        > LIMIT
    )


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("k", [None, 40_000])
def test_group_members_pass_with_their_tail_probability(name: str, k: int | None) -> None:
    """Every group passes as often as its tail says, each of its members as often, and none twice;
    far groups cost nothing.
    """
    noise, scale, level = noise_of(name), 2.0, 11.0  # type: ignore[arg-type]
    values, sizes = (
        np.array([13, 11, 9, 4, -(2**40)]),
        np.array([10_000, 10_000, 10_000, 10_000, 2**61]),
    )
    for source in (
        ExactSampler(np.random.default_rng(7)),
        ExactSampler(np.random.default_rng(8), constant_work=True),
        SeededSampler(np.random.default_rng(9)),
    ):
        few = 4 if source.constant_work else 5
        drawn = source.above(values[:few], noise, scale, level, k, sizes[:few])
        seen = np.bincount(drawn.index, minlength=5)
        for size, value, hits in zip(sizes.tolist(), values.tolist(), seen.tolist(), strict=True):
            assert (
                binomtest(hits, size, float(noise.sf((level - value) / scale))).pvalue > LIMIT
                if value > 0
                else hits == 0
            )
        assert (
            equally_likely(np.bincount(drawn.member[drawn.index == 1] // 500, minlength=20)) > LIMIT
        )
        assert len(set(zip(drawn.index.tolist(), drawn.member.tolist(), strict=True))) == len(drawn)
        assert (np.diff(drawn.rounded(2.0**-20)) <= 0).all()


def test_top_draws_of_many_passing_scores_are_exact() -> None:
    """Where nearly all of 200,000 pass, the few largest are found by a sweep and have the law of
    the largest of all draws.
    """
    noise, values, seen = noise_of("gaussian"), np.full(200_000, 50), []
    for seed in range(60):
        seen.append(
            ExactSampler(np.random.default_rng(seed))
            .above(values, noise, 1.0, 10.0, 3)
            .rounded(2.0**-10)[0]
            - 50
        )
    # The largest of 200,000: uniform once its distribution function is applied.
    uniform = noise.cdf(np.array(seen)) ** 200_000
    assert equally_likely(np.histogram(uniform, bins=4, range=(0, 1))[0]) > LIMIT


def test_refined_bits_are_reused_for_released_values() -> None:
    """Candidates whose words agree are ranked by further bits, and the values shown are those of
    the same bits.
    """
    stream = np.random.default_rng(9)
    for seed in range(20):
        asked = [0]

        def words(count: int, asked: list[int] = asked) -> NDArray[np.uint64]:
            asked[0] += 1
            fresh = stream.integers(0, 2**64, count, dtype=np.uint64)
            return np.full(count, 2**61 + 12345, dtype=np.uint64) if asked[0] == 1 else fresh

        source = ExactSampler(np.random.default_rng(seed))
        source.words = words  # type: ignore[method-assign]
        drawn = source.ranking(np.zeros(6), noise_of("laplace"), 1.0, 6)
        numbers = drawn.rounded(2.0**-110)
        # All agree to 64 bits, so that as floats they are one; the largest noise has the smallest
        # V.
        refined = inspect.getclosurevars(drawn.rounded).nonlocals["entries"].refined
        exact = [
            Fraction(refined[int(i), 0].bits, 2 ** refined[int(i), 0].count) for i in drawn.index
        ]
        assert len(set(np.round(numbers, 9))) == 1
        assert exact == sorted(exact)
        assert len(set(exact)) == 6


def test_grouped_candidates_bring_their_noise() -> None:
    """Grouped scores rank and round without being expanded; a member belongs to its group."""
    drawn = ExactSampler(np.random.default_rng(11)).ranking(
        np.array([0, 30]), noise_of("gaussian"), 1.0, 4, np.array([10**12, 2])
    )
    assert sorted(drawn.index.tolist()) == [0, 0, 1, 1]
    assert sorted(drawn.member[drawn.index == 1].tolist()) == [0, 1]
    numbers = drawn.rounded(2.0**-10)
    assert (np.diff(numbers) <= 0).all()
    assert ((numbers > 20) == (drawn.index == 1)).all()
    assert repr(drawn) == "Drawn(<hidden>)"
