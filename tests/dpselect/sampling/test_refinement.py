"""Exactness: whatever the floats leave undecided is decided as infinitely precise noise would
decide it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from noise_laws import NOISE_LAWS
from slow_reference import order, widened

from accounting.numbers import Floats
from dpselect.noise import Noise, noise_of
from dpselect.sampling import ExactSampler
from dpselect.sampling.contest import (
    MARGIN,
    Contenders,
    Entries,
    Integers,
    LazyUniform,
    RankingProblem,
    Words,
    WordSource,
    contest_bounds,
    estimates,
)
from dpselect.sampling.exact import HIGHEST_LEVEL, UNKNOWN, Sweep, draw_all, top_k_rows, units

NAMES = list(NOISE_LAWS)


def _cases(seed: int, count: int) -> Iterator[tuple[np.ndarray, float, int]]:
    """Scores of every awkward kind, with a scale and a k."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(2, 8))
        scale = float(10.0 ** rng.uniform(-9, 9))
        base = float(rng.normal() * 10.0 ** rng.integers(-3, 9))
        steps = rng.integers(0, 4, size)
        kind = int(rng.integers(9))
        values = (
            np.zeros(size),
            np.int64(2**60) + steps,
            np.int64(2**63 - 8) - steps * np.int64(2**60),
            base + scale * rng.normal(size=size),
            np.array([base + int(i) * np.spacing(base) for i in steps]),
            steps * 5e-324,
            scale * 1e3 * steps,
            *[np.where(steps % 2, -1e308, 1e308)] * 2,
        )[kind]
        if kind == 8:  # differences are no floats, and no more than a few thousand scales
            scale = float(10.0 ** rng.uniform(303, 307.9))
        elif rng.integers(9) == 0:
            scale = 5e-324 * 3
        yield values, scale, int(rng.integers(1, size + 1))


@pytest.mark.fast(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_precision_gives_the_answer_of_the_slow_reference(name: str) -> None:
    """For the same bits the float path, a widened one and one that knows nothing agree with an
    all-Arb sort; 1,800 cases.
    """
    noise = noise_of(name)  # type: ignore[arg-type]
    for case, (values, scale, k) in enumerate(_cases(7, 300)):
        words = np.random.default_rng(case).integers(0, 2**64, size=len(values), dtype=np.uint64)
        expected = order(noise, values.tolist(), scale, words.tolist(), k)
        plain = RankingProblem(
            values, noise, scale, k, ExactSampler(np.random.default_rng(case)).words
        )
        for by in (0.0, 0.7, np.inf):
            asked = replace(
                plain,
                bounds=widened(by),
                margin=max(by, MARGIN),
                words=ExactSampler(np.random.default_rng(case)).words,
            )
            assert draw_all(asked).index.tolist() == expected
        rows = replace(
            plain, values=values[None], words=ExactSampler(np.random.default_rng(case)).words
        )
        assert top_k_rows(rows)[0].tolist() == expected


def test_many_close_estimates_are_ranked_together() -> None:
    """All of 3,000 candidates are asked for and estimates a unit apart tell nothing: the order is
    that of the bounds.
    """
    noise, words = noise_of("laplace"), ExactSampler(np.random.default_rng(9)).words(3000)
    asked = RankingProblem(
        np.zeros(3000), noise, 1.0, 3000, ExactSampler(np.random.default_rng(9)).words
    )
    low, high = contest_bounds(noise, np.zeros(3000), np.zeros(3000, dtype=np.int64), words)
    expected = np.argsort(-low)
    assert (low[expected[:-1]] > high[expected[1:]]).all()
    for margin in (MARGIN, 2.0**-12, 1.0):
        assert np.array_equal(
            draw_all(
                replace(asked, margin=margin, words=ExactSampler(np.random.default_rng(9)).words)
            ).index,
            expected,
        )


@pytest.mark.parametrize("name", NAMES)
def test_draws_from_far_up_the_tail_are_compared_by_all_their_bits(name: str) -> None:
    """Entries with V = 2^-level * 0.w, as the sweep makes them, are ranked as the slow reference
    ranks them; 240 cases.
    """
    noise, rng = noise_of(name), np.random.default_rng(6)  # type: ignore[arg-type]
    for _ in range(40):
        values, words = rng.normal(size=6) * 15, rng.integers(0, 2**64, 6, dtype=np.uint64)
        levels = rng.integers(0, 57, 6)
        expected = order(noise, values.tolist(), 0.8, words.tolist(), 4, levels.tolist())
        for by in (0.0, 0.7, np.inf):
            asked = RankingProblem(
                values, noise, 0.8, 4, ExactSampler(rng).words, widened(by)
            ).against(values.max())  # type: ignore[arg-type]
            contest = Contenders(asked)
            contest.offer(Entries(np.arange(6), np.zeros(6, dtype=np.int64), levels, words))
            assert contest.rank().index.tolist() == expected


@pytest.mark.parametrize("name", NAMES)
def test_excluded_candidate_ranks_below_every_score(name: str) -> None:
    """Minus infinity stands for a candidate that is left out: it comes after the least float,
    whatever the noise.
    """
    values = np.array([-np.inf, 0.0, -1.7e308])
    for seed in range(20):
        asked = RankingProblem(
            values, noise_of(name), 1.0, 3, ExactSampler(np.random.default_rng(seed)).words
        )  # type: ignore[arg-type]
        assert draw_all(asked).index.tolist() == [1, 2, 0]


def test_wide_interval_is_compared_with_every_overlap() -> None:
    """Half of the entries are known to a few units only: each is compared with all whose intervals
    it meets; 200 cases.
    """
    noise, rng = noise_of("gumbel"), np.random.default_rng(8)
    for _ in range(200):
        values, words = rng.normal(size=6), rng.integers(0, 2**64, 6, dtype=np.uint64)
        unknown = dict(zip(words.tolist(), rng.integers(0, 2, 6).tolist(), strict=True))

        def bounds(
            noise: Noise,
            height: Floats,
            level: Integers,
            words: Words,
            unknown: dict[int, int] = unknown,
        ) -> Any:
            low, high = contest_bounds(noise, height, level, words)
            by = 3.0 * np.array([unknown[word] for word in words.tolist()])
            return low - by, high + by

        asked = RankingProblem(values, noise, 0.8, 4, ExactSampler(rng).words, bounds).against(
            values.max()
        )
        contest = Contenders(asked)
        contest.offer(Entries.from_index(np.arange(6), words))
        assert contest.rank().index.tolist() == order(
            noise, values.tolist(), 0.8, words.tolist(), 4
        )


@pytest.mark.parametrize("name", NAMES)
def test_levels_promise_no_more_than_the_tail(name: str) -> None:
    """A candidate with V >= 2^-level stays below the threshold, few bits are given away, and large
    heights do not matter.
    """
    noise, rng = noise_of(name), np.random.default_rng(7)  # type: ignore[arg-type]
    for base in (0.0, -1e3, -1e15):
        height = base - rng.uniform(0, 1, 4000)
        threshold = base + float(rng.uniform(-3, 35))
        distance = np.subtract(threshold, height, dtype=np.longdouble).astype(np.float64)
        levels = units(height).levels(noise, threshold).astype(int)
        bits = -np.log2(noise.sf(distance))
        assert (levels <= bits).all()
        if base > -1e9 and threshold - base < 20:
            assert (np.minimum(bits, HIGHEST_LEVEL) - levels < 6).all()


@pytest.mark.parametrize("name", NAMES)
def test_float_bounds_contain_the_real_number(name: str) -> None:
    """The float64 enclosure contains the Arb ball of the same cell, from the deepest tail to the
    other end. Outside the places that are named, an estimate is within 2^-22 of isf at both ends.
    """
    noise, rng = noise_of(name), np.random.default_rng(1)  # type: ignore[arg-type]
    bulk = rng.integers(0, 2**64, 2000, dtype=np.uint64)
    edge = bulk[:700] >> rng.integers(0, 64, 700).astype(np.uint64)
    ends_of_words = [0, 1, 2**11 - 1, 2**36 - 1, 2**36, 2**63 - 1, 2**63, 2**64 - 2**36, 2**64 - 1]
    words = np.concatenate([bulk, edge, ~edge, np.array(ends_of_words, dtype=np.uint64)])
    level = np.where(rng.integers(0, 2, len(words)) > 0, rng.integers(0, 57, len(words)), 0)
    low, high = contest_bounds(noise, np.zeros(len(words)), level, words)
    found, wide = estimates(noise, words)
    assert not np.isnan([low, high]).any()
    assert set(np.flatnonzero(words < 2**35).tolist()) <= set(wide.tolist())
    near = (level == 0) & ~np.isin(np.arange(len(words)), wide)
    with ctx.workprec(300):
        for i, (word, at) in enumerate(zip(words.tolist(), level.tolist(), strict=True)):
            ends = [
                NOISE_LAWS[noise.name].inverse(arb((edge, -64 - at)))
                for edge in (word, word + 1)
                if 0 < edge < 2 ** (64 + at)
            ]
            assert all(low[i] < end < high[i] for end in ends)
            assert not near[i] or all(abs(found[i] - end) < 2.0**-22 for end in ends)


@pytest.mark.parametrize("name", NAMES)
def test_estimates_in_the_wrong_order_do_not_decide(name: str) -> None:
    """Two words at the ends of one cell of 2^-52, high up the tail: the estimate puts the one with
    the greater score first, and its noise is smaller by more than that.
    """
    noise, words = (
        noise_of(name),
        np.array([(2**24 + 9) << 12, ((2**24 + 9) << 12) + 4095], dtype=np.uint64),
    )  # type: ignore[arg-type]
    values = np.array([0.0, 2.0**-29])
    found, wide = estimates(noise, words)
    assert len(wide) == 0
    assert found[0] == found[1]
    assert order(noise, values.tolist(), 1.0, words.tolist(), 2) == [0, 1]
    for k in (1, 2):
        asked = RankingProblem(values, noise, 1.0, k, _words_then_zeros(words))
        assert draw_all(asked).index.tolist() == [0, 1][:k]
        rows = replace(asked, values=values[None], words=_words_then_zeros(words))
        assert top_k_rows(rows)[0].tolist() == [0, 1][:k]


def test_candidates_whose_cell_is_wide_are_never_dropped() -> None:
    """A word at either end of the line decides nothing by its estimate: the answer stays that of
    all its bits.
    """
    values = np.zeros(5000)
    for name in NAMES:
        for word, first in ((0, True), (2**64 - 1, False)):
            words = np.random.default_rng(4).integers(2**40, 2**64 - 2**40, 5000, dtype=np.uint64)
            words[1234] = word
            stream = _words_then_zeros(words)
            order = draw_all(
                RankingProblem(values, noise_of(name), 1.0, 5000 if not first else 1, stream)
            ).index  # type: ignore[arg-type]
            assert order[0 if first else -1] == 1234


def _words_then_zeros(words: np.ndarray) -> WordSource:
    given = list(words.tolist())

    def source(count: int) -> np.ndarray:
        taken = [given.pop(0) if given else 0 for _ in range(count)]
        return np.array(taken, dtype=np.uint64)

    return source


def _zeros_then_ones(zeros: int) -> WordSource:
    words = iter([0] * zeros)
    return lambda count: np.array([next(words, 2**64 - 1) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize("name", ["gumbel", "exponential", "laplace", "logistic"])
@pytest.mark.parametrize(("zeros", "wins"), [(22, False), (23, True)])
def test_distant_candidate_wins_when_its_bits_decide(name: str, zeros: int, wins: bool) -> None:
    """The tail is not cut off at 2^-53: 1,000 noise units take 1,443 zero bits, which are 22.5
    words, and no fewer.
    """
    behind = LazyUniform(_zeros_then_ones(zeros), level=0)
    ahead = LazyUniform(ExactSampler(np.random.default_rng(1)).words, word=2**63)
    assert (
        LazyUniform.sign_of_total(
            fmpq(-1000), noise_of(name), [(fmpq(1), behind), (fmpq(-1), ahead)]
        )
        > 0
    ) is wins  # type: ignore[arg-type]


@pytest.mark.parametrize(("known", "level"), [(5, 3), (4, 3), (9, 7)])
def test_a_candidate_that_is_revealed_twice_has_the_law_of_one_draw(known: int, level: int) -> None:
    """Of V < 2^-level those below 2^-known are known not to be: all of V is drawn again. False
    alarm: below 1e-8 in all.
    """
    many, source = 40_000, ExactSampler(np.random.default_rng(known)).words
    sweep = Sweep(RankingProblem(np.zeros(1), noise_of("gumbel"), 1.0, 1, source))
    kept, words = sweep._uniforms(np.repeat([known, UNKNOWN], many).astype(np.uint8), level)
    within = 2.0 ** (level - known)  # the chance of V < 2^-known, given V < 2^-level
    stays = (1 - within) / (1 - within * 2.0**-level)
    assert np.count_nonzero(kept < many) == pytest.approx(
        many * stays, abs=6.5 * np.sqrt(many * stays * (1 - stays))
    )
    assert kept[kept >= many].tolist() == list(range(many, 2 * many))
    share = words[kept < many].astype(np.float64) / 2.0**64
    assert share.min() >= within
    assert share.mean() == pytest.approx((1 + within) / 2, abs=6.5 / np.sqrt(12 * len(share)))
