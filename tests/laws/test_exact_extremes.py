"""Exact draws at the ends of float64, on the smallest shapes, and where a count is no integer."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mechanism_laws import misfit
from noise_laws import NOISE_LAWS
from slow_reference import order

import dpselect as dps
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.gaps import gaps_below, read_top
from dpselect.noise import by_name
from dpselect.sampling import EntropySampler, ExactSampler
from dpselect.sampling.contest import RankingProblem
from dpselect.sampling.exact import drawn_all, top_k_rows

FALSE_ALARM = 1e-9
ANY = dps.Sensitivity()
VECTORS: list[Any] = [
    [5.0] * 4,
    [1.7e308, -1.7e308, 1.7e308, -1.7e308],
    [0.0, 5e-324, 1e-323, 0.0],
    [2**63 - 1, 2**63 - 2, -(2**63), 0],
]


def sampler(seed: int) -> ExactSampler:
    return ExactSampler(np.random.default_rng(seed))


def utilities(values: Any) -> dps.Scores:
    return dps.Scores(values, sensitivity=ANY, kind="utilities")


@pytest.mark.parametrize("name", NOISE_LAWS)
@pytest.mark.parametrize("cases", [50, pytest.param(400, marks=pytest.mark.slow)])
def test_scores_further_apart_than_any_float_keep_their_distance(name: str, cases: int) -> None:
    """Differences of 2e308 in units of 1e305 are 2,000, not infinite: the order is that of an all-Arb sort; 50 or 400 cases."""
    noise, rng = by_name(name), np.random.default_rng(1)  # type: ignore[arg-type]
    for case in range(cases):
        values = np.where(rng.random(12) < 0.5, 1e308, -1e308)
        scale, k = float(10.0 ** rng.uniform(298, 307.9)), int(rng.integers(1, 13))
        words = sampler(case).words(12) >> np.uint64(rng.integers(0, 40))
        words[::3] = ~words[::3]
        stream = iter([*words.tolist(), *sampler(case + 1).words(400).tolist()])
        source = lambda n, stream=stream: np.array([next(stream) for _ in range(n)], dtype=np.uint64)  # noqa: E731
        expected = order(noise, values.tolist(), scale, words.tolist(), k)
        assert drawn_all(RankingProblem(values, noise, scale, k, source)).index.tolist() == expected
        stream = iter([*words.tolist(), *sampler(case + 1).words(400).tolist()])
        source = lambda n, stream=stream: np.array([next(stream) for _ in range(n)], dtype=np.uint64)  # noqa: E731
        assert top_k_rows(RankingProblem(values[None], noise, scale, k, source))[0].tolist() == expected


@pytest.mark.fast(6)
@pytest.mark.parametrize("values", VECTORS)
@pytest.mark.parametrize("epsilon", [1e-308, 1e-300, 1e300, 1.7e308])
def test_canonical_and_joint_draws_end_at_any_scale(values: Any, epsilon: float) -> None:
    """Noise, levels and cells beyond the floats or below them are left to ball arithmetic: no draw fails."""
    for k in (1, 2, 4):
        for noise in ("gumbel", "laplace"):
            mechanism = dps.CanonicalTopK(k=k, epsilon=epsilon, noise=noise, top_set="gap")
            for seed in range(8):
                assert len(mechanism._select(utilities(values), sampler(seed)).indices) == k
            assert mechanism._select_many(np.array([values] * 8), sampler(1)).indices.shape == (8, k)
        for beta in (None, 0.1):
            joint = dps.JointTopK(k=k, epsilon=epsilon, beta=beta)
            assert len(joint._select(utilities(values), sampler(2)).indices) == k


@pytest.mark.slow
@pytest.mark.parametrize("values", [VECTORS[0], VECTORS[3]])
def test_at_no_price_canonical_and_joint_draws_are_uniform(values: Any) -> None:
    """At epsilon = 1e-308 the noise overflows float64 in every block, and the sets and sequences are uniform all the same."""
    scores = utilities(values)
    for mechanism in (dps.CanonicalTopK(k=2, epsilon=1e-308, noise="laplace"), dps.JointTopK(k=2, epsilon=1e-308)):
        many = [mechanism._select(scores, sampler(seed)).indices for seed in range(800)]
        drawn: list[object] = [tuple(chosen) if isinstance(mechanism, dps.JointTopK) else frozenset(chosen) for chosen in many]
        outcomes = mechanism.probabilities(utilities([1, 1, 1, 1]))
        assert misfit(drawn, dict.fromkeys(outcomes, 1 / len(outcomes))) > FALSE_ALARM


@pytest.mark.slow
def test_scores_and_scales_of_a_few_denormals_have_the_law_of_whole_numbers() -> None:
    """Scores of 0 to 9 times the least float under a range of 3 of them have the law of scores 0 to 9 under a range of 3."""
    whole = np.array([0, 9, 4, 4, 7])
    for noise, gamma in (("laplace", 0.5), ("gumbel", 0.75)):
        coarse, fine = (
            dps.CanonicalTopK(k=2, epsilon=1.0, gamma=gamma, noise=noise, sensitivity=dps.Sensitivity(linf=3 * unit))  # type: ignore[arg-type]
            for unit in (1.0, 5e-324)
        )
        law = coarse.probabilities(dps.Scores(whole, sensitivity=coarse.covers, kind="utilities"))
        scores = dps.Scores(whole * 5e-324, sensitivity=fine.covers, kind="utilities")
        rows = fine._select_many(np.tile(scores.values, (4000, 1)), sampler(3))
        single = [fine._select(scores, sampler(seed)) for seed in range(1000)]
        for selections in (rows, single):
            drawn: list[object] = [frozenset(chosen.indices) for chosen in selections]
            assert misfit(drawn, law) > FALSE_ALARM


def test_rates_beyond_the_floats_are_rounded_down_and_a_rate_of_zero_is_refused() -> None:
    """The rate is the largest float where epsilon over the range is beyond it; what rounds down to 0 is no rate."""
    assert dps.JointTopK(k=2, epsilon=1.0, sensitivity=dps.Sensitivity(linf=1e-320)).rate == sys.float_info.max
    with pytest.raises(InvalidMechanism, match="epsilon"):
        dps.JointTopK(k=2, epsilon=5e-324).rate  # noqa: B018


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e308, 1.79e308])
def test_released_values_are_floats_at_any_scale(scale: float) -> None:
    """Noise beyond the largest float is released as the largest float, and grids below the least one as that."""
    mechanism = dps.OneshotTopK(k=2, noise="gumbel", scale=1.0, value_scale=scale)
    values = [mechanism._select(utilities([3.0, 1.0, 2.0]), sampler(seed)).values or () for seed in range(60)]
    assert np.isfinite(values).all()
    if scale > 1e308:
        assert np.abs(values).max() == sys.float_info.max


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_runs_without_an_unstable_query_renew_nothing(rows: int) -> None:
    """A few rows of which none fails a test, so that no threshold is drawn afresh, are released like any others."""
    mechanism = dps.OnlineStableQueries(epsilon=2.0, delta=0.1, c=1)
    for source in (sampler(1), EntropySampler()):
        found = mechanism._select_many(np.full((rows, 3), 10**6), source)
        assert found.indices.tolist() == [[0, 1, 2]] * rows


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_sets_below_a_gap_wider_than_the_shift_are_those_of_the_raw_counts(relation: Any) -> None:
    """Counts on no grid, moved by real numbers up to 1: gaps move by at most g, and a wider one keeps the set and its items."""
    rng, shift = np.random.default_rng(2), 1.0 if relation == "add_remove" else 2.0
    wide = 0
    for case in range(3000):
        steps = rng.choice([0.0, 2.0**-21, 0.3, 1.0, 1 + 2.0**-21, 1 + 2.0**-20, 2 + 2.0**-20, 2.0**31], 6)
        before = np.cumsum(rng.permutation(steps))
        moves = rng.choice([0.0, 2.0**-22, 0.5, 1.0 - 2.0**-21, 1.0], 6)
        after = before + (moves * rng.choice([-1, 1], 6) if relation == "replace_one" else moves)
        after = np.maximum(after, 0.0)
        exactly = [abs(Fraction(a) - Fraction(b)) <= 1 for a, b in zip(after.tolist(), before.tolist(), strict=True)]
        if not all(exactly):
            continue
        names = [f"{i}" for i in rng.permutation(6)]
        tops = [
            read_top(dps.Scores(x, sensitivity=dps.Sensitivity(relation=relation), labels=names, domain="observed"), 6)
            for x in (before, after)
        ]
        assert np.abs(tops[0].gaps - tops[1].gaps).max() <= shift, case
        for size in (np.flatnonzero(tops[0].gaps > shift) + 1).tolist():
            wide += 1
            assert set(tops[0].positions[:size]) == set(tops[1].positions[:size])
            assert len(tops[1].positions) >= size
    assert wide > 1000


def test_rows_of_counts_have_the_gaps_of_single_ones() -> None:
    """A matrix of counts off the grid is read as its rows are one by one."""
    counts = np.random.default_rng(3).gamma(1.0, 3.0, (50, 5))
    descending = -np.sort(-counts, axis=1)
    for row, gaps in zip(counts, gaps_below(descending), strict=True):
        assert np.array_equal(read_top(dps.Scores(row, sensitivity=ANY), 5).gaps, gaps)
