"""Exact coin flips, exact comparisons with a level, exact rounding, and matrices of rounds."""

from __future__ import annotations

from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from chance import fit
from flint import arb, ctx, fmpq
from scipy.stats import binomtest

from dpselect.noise import NoiseName, noise_of
from dpselect.sampling import ExactSampler, SeededSampler, Thresholds
from dpselect.sampling.contest import LazyUniform, WordSource, exceeds
from dpselect.verify.quadrature import argmax_probabilities

LIMIT = 1e-8  # about sixty tests of fixed seeds: false alarm below 1e-6
NAMES = get_args(NoiseName)


def _words(*values: int) -> WordSource:
    stream = iter(values)
    return lambda count: np.array([next(stream) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("chance", [fmpq(1, 3), fmpq(1, 2**70), fmpq(2**70 - 1, 2**70), fmpq(5, 8)])
def test_coin_decision_is_exact_at_its_probability(chance: fmpq) -> None:
    """U one unit of the 128th bit below p gives True and one above gives False, however many words
    that takes.
    """
    digits = int(chance.p) * 2**128 // int(chance.q)
    for step, expected in ((-1, True), (1, False)):
        first, second = divmod(digits + step, 2**64)
        if 0 <= first < 2**64:
            assert LazyUniform(_words(first, second, 2**63)).below(lambda: arb(chance)) is expected


def test_a_wide_enclosure_draws_until_it_is_narrow() -> None:
    """An enclosure that is useless at low precision is asked again at a higher one."""
    asked = []

    def chance() -> arb:
        asked.append(ctx.prec)
        return arb(0.5, 1.0) if ctx.prec < 300 else arb(0.25)

    assert LazyUniform(_words(*[2**60] * 10)).below(chance) is True
    assert max(asked) >= 300


@pytest.mark.fast(12)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [-3.0, 0.0, 0.7, 6.0, 25.0])
def test_noise_exceeds_a_level_with_its_tail_probability(name: str, level: float) -> None:
    """scale Z > level happens sf(level / scale) of 400,000 times, far up the tail too."""
    noise, scale = noise_of(name), 1.7  # type: ignore[arg-type]
    for source in (ExactSampler(np.random.default_rng(2)), SeededSampler(np.random.default_rng(2))):
        hits = int(source.exceeds(np.full(400_000, -level), noise, scale, 0.0).sum())
        assert binomtest(hits, 400_000, float(noise.sf(level / scale))).pvalue > LIMIT


@pytest.mark.parametrize("name", NAMES)
def test_a_level_inside_the_first_word_is_refined(name: str) -> None:
    """A level within the error of the floats is compared by the bits: the answer is that of the
    sign of an Arb difference.
    """
    noise, rng = noise_of(name), np.random.default_rng(3)  # type: ignore[arg-type]
    for _ in range(50):
        word, scale = (
            int(rng.integers(2**58, 2**64 - 2**58, dtype=np.uint64)),
            float(10.0 ** rng.uniform(-9, 9)),
        )
        level = float(scale * noise.isf((word + 0.5) / 2.0**64))
        follow = int(rng.integers(0, 2**64, dtype=np.uint64))
        stream = _words(word, *[follow] * 10)
        draw = LazyUniform(_words(*[follow] * 10), word=word)
        ratio = fmpq(*Fraction(level).as_integer_ratio()) / fmpq(
            *Fraction(scale).as_integer_ratio()
        )
        expected = LazyUniform.sign_of_total(-ratio, noise, [(fmpq(1), draw)]) > 0
        assert bool(exceeds(np.zeros(1), noise, scale, level, stream)[0]) is expected


def test_ties_with_a_noisy_threshold_are_decided_by_bits_and_consistently() -> None:
    """Margins one unit of the last place apart that float64 cannot tell pass in their order: the
    level is one number.
    """
    noise, words = noise_of("laplace"), [2**62 + 5, *[2**62 + 5] * 3]
    margins = np.array([[-1e-17, 0.0, 1e-17]])
    for follow in range(40):
        rest = np.random.default_rng(follow)
        stream = iter(words)
        source = lambda n, stream=stream, rest=rest: np.array(  # noqa: E731
            [next(stream, int(rest.integers(0, 2**64, dtype=np.uint64))) for _ in range(n)],
            dtype=np.uint64,
        )
        flags = Thresholds(noise, [1.0], 1, source).passes(margins, 1.0)[0].tolist()
        assert flags[0] is False
        assert flags[2] is True


def test_integers_above_two_to_the_53_are_compared_exactly() -> None:
    """2^60 + 1 exceeds the level 2^60 under noise far smaller than 1, and 2^60 - 1 does not."""
    values = np.array([2**60 + 1, 2**60 - 1], dtype=np.int64)
    assert ExactSampler(np.random.default_rng(13)).exceeds(
        values, noise_of("laplace"), 0.01, 2.0**60
    ).tolist() == [True, False]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rows_have_the_law_of_quadrature(name: str, scale: float) -> None:
    """The winner of each of 100,000 rows, by the exact sampler and by the plain one: both have the
    law of quadrature.
    """
    noise, values = noise_of(name), np.array([0.0, 1.0, 1.0, 3.5]) * scale  # type: ignore[arg-type]
    law = argmax_probabilities(noise, scale, values)
    for source in (ExactSampler(np.random.default_rng(6)), SeededSampler(np.random.default_rng(6))):
        winners = source.top_k_rows(np.tile(values, (100_000, 1)), noise, scale, 1)[:, 0]
        assert fit(np.bincount(winners, minlength=4), law) > LIMIT


def test_rows_of_very_different_sizes_keep_their_gaps() -> None:
    """Each row is measured from its own maximum: a row near 2^62 does not round the gaps of a row
    near zero, nor the reverse.
    """
    matrix = np.array([[0, 3, 1], [2**62, 2**62 + 3, 2**62 + 1]], dtype=np.int64)
    for source in (ExactSampler(np.random.default_rng(8)), SeededSampler(np.random.default_rng(8))):
        assert source.top_k_rows(matrix, noise_of("gumbel"), 0.02, 3).tolist() == [[1, 2, 0]] * 2


def test_subsets_are_uniform() -> None:
    """Every ordered pair out of four is as likely as any other, and a source that repeats words is
    asked again.
    """
    source = ExactSampler(np.random.default_rng(10))
    pairs = np.array([source.subset(4, 2) for _ in range(12_000)])
    seen = np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16)
    assert fit(seen, (1 - np.eye(4)).ravel() / 12) > LIMIT
    assert (seen > 0).sum() == 12


@pytest.mark.parametrize("size", [10, 9_000, 100_000])
def test_constant_work_draws_one_word_per_candidate(size: int) -> None:
    """In constant-work mode as many words are drawn as there are candidates, whatever the
    scores.
    """
    drawn = []

    class Counting(np.random.Generator):
        def integers(self, *args: object, **kwargs: int) -> np.ndarray:
            drawn.append(kwargs["size"])
            return super().integers(*args, **kwargs)  # type: ignore[call-overload]

    for values in (np.zeros(size), np.arange(size) ** 2.0, np.r_[1e9, np.zeros(size - 1)]):
        drawn.clear()
        source = ExactSampler(Counting(np.random.PCG64(1)), constant_work=True)
        assert len(source.top_k(values, noise_of("gumbel"), 1.0, 3)) == 3
        assert sum(drawn) == size
