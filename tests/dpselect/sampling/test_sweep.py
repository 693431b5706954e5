"""The threshold sweep: the noise it reveals is independent and uniform, and its answers have the
law of noise drawn for all.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from chance import equally_likely, fit
from scipy.stats import kstest
from slow_reference import widened

import dpselect as dps
from dpselect.noise import NoiseName, noise_of
from dpselect.sampling import ExactSampler, exact
from dpselect.sampling.contest import Entries, Numbers, RankingProblem, contest_bounds
from dpselect.sampling.exact import (
    Rounds,
    Sweep,
    SweepIndex,
    block_maxima,
    peel,
    rank_groups,
    units,
)

# About a hundred tests of fixed seeds at 1e-8 each: false alarm 1e-6.
LIMIT = 1e-8
NAMES = get_args(NoiseName)


def _problem(
    values: Numbers, name: str, scale: float, k: int, seed: int, by: float = 0.0
) -> RankingProblem:
    words = ExactSampler(np.random.default_rng(seed)).words
    bounds = widened(by) if by else contest_bounds
    return RankingProblem(values, noise_of(name), scale, k, words, bounds).against(values.max())  # type: ignore[arg-type]


def _uniform(entries: Entries) -> np.ndarray:
    return np.ldexp((entries.words >> np.uint64(11)).astype(float) + 0.5, -(53 + entries.level))


def _assert_uniform(v: np.ndarray) -> None:
    """Kolmogorov-Smirnov for the bulk, and a chi-square over the octaves, which is where a wrong
    condition would show.
    """
    assert kstest(v, "uniform").pvalue > LIMIT
    octaves = np.bincount(np.minimum(-np.floor(np.log2(v)).astype(int), 12), minlength=13)[1:]
    share = 2.0 ** -np.arange(1, 13)
    share[-1] *= 2
    assert fit(octaves, share) > LIMIT


@pytest.mark.parametrize("name", ["gumbel", "gaussian", "half_logistic"])
@pytest.mark.parametrize("threshold", [30.0, 9.0, 2.0, -1.0])
@pytest.mark.parametrize("scores", ["equal", "spread", "peaked"])
def test_lowering_the_threshold_reveals_independent_uniforms(
    name: str, threshold: float, scores: str
) -> None:
    """Once lowered to the bottom, each candidate of 30,011 has been entered exactly once, and their
    V are uniform.
    """
    rng, size = np.random.default_rng(11), 30_011
    values = {
        "equal": np.zeros(size),
        "spread": rng.normal(size=size) * 3,
        "peaked": np.floor(300 / (1 + rng.permutation(size))),
    }[scores]
    problem = _problem(values, name, 1.3, size, seed=5)
    maxima = block_maxima(values, 10)
    entries = Sweep(problem).blocks(units(problem.heights(maxima)), threshold)
    assert np.array_equal(np.sort(entries.index), np.arange(size))
    by_candidate = np.empty(size)
    by_candidate[entries.index] = _uniform(entries)
    _assert_uniform(by_candidate)
    high = values > np.median(values)
    if high.any():
        _assert_uniform(by_candidate[high])
    neighbors = np.corrcoef(by_candidate[1:], by_candidate[:-1])[0, 1]
    assert abs(neighbors) < 6 / np.sqrt(size)


@pytest.mark.parametrize("threshold", [30.0, 9.0, 2.0])
def test_groups_reveal_independent_uniforms(threshold: float) -> None:
    """The same for groups: each member of each group is entered exactly once."""
    values, multiplicities = np.array([0.0, 2.0, 5.0, 9.0]), np.array([20_000, 7_001, 800, 3])
    entries = Sweep(_problem(values, "gumbel", 1.0, 27_804, seed=6)).groups(
        units(values - 9.0), multiplicities, threshold
    )
    pairs = set(zip(entries.index.tolist(), entries.member.tolist(), strict=True))
    assert pairs == {
        (group, member)
        for group, count in enumerate(multiplicities.tolist())
        for member in range(count)
    }
    _assert_uniform(_uniform(entries))
    _assert_uniform(_uniform(entries)[entries.index == 0])


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [30, 62])
def test_tails_of_huge_groups_follow_the_closed_form(exponent: int) -> None:
    """2^exponent candidates far behind beat one ahead with the probability of the softmax: noise of
    tail 2^-62 is drawn right.
    """
    rng, count, rounds = np.random.default_rng(9), 2**exponent, 1500
    behind = exponent * np.log(2.0) + 0.5
    values, multiplicities = np.array([0.0, -behind]), np.array([1, count])
    wins, members = 0, []
    for _ in range(rounds):
        problem = RankingProblem(values, noise_of("gumbel"), 1.0, 1, ExactSampler(rng).words)
        chosen = rank_groups(problem, multiplicities)
        wins += int(chosen.index[0])
        members += [int(chosen.member[0]) / count] if chosen.index[0] else []
    chance = 1 / (1 + np.exp(0.5))
    assert abs(wins - rounds * chance) < 6 * np.sqrt(rounds * chance * (1 - chance))
    assert kstest(members, "uniform").pvalue > LIMIT


def test_more_candidates_than_64_bits_number_are_no_obstacle() -> None:
    """40 groups of 2^63 - 1 candidates each: every group is as likely, and the k choices differ."""
    rng = np.random.default_rng(10)
    values, multiplicities = np.zeros(40), np.full(40, 2**63 - 1)
    chosen = rank_groups(
        RankingProblem(values, noise_of("exponential"), 2.0, 2000, ExactSampler(rng).words),
        multiplicities,
    )
    assert len(set(zip(chosen.index.tolist(), chosen.member.tolist(), strict=True))) == 2000
    assert equally_likely(np.bincount(chosen.index, minlength=40)) > LIMIT
    assert kstest(chosen.member / 2.0**63, "uniform").pvalue > LIMIT


def _kinds(rng: np.random.Generator, size: int) -> list[Numbers]:
    return [
        rng.permutation(size).astype(np.int64) + 2**60,
        -rng.permutation(size).astype(np.int64) - 2**62,
        -rng.permutation(size).astype(np.float64) - 0.5,
        rng.permutation(size) - size / 2 + 0.25,
        np.where(rng.random(size) < 0.5, -0.0, 0.0) - rng.permutation(size),
        rng.permutation(size) * 5e-324,
        (rng.permutation(size) - size / 2) * 1e304,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [8193, 16_384],
)
def test_negligible_noise_keeps_the_score_ranking(size: int) -> None:
    """At a negligible scale any kind of number, negative ones and denormals included, comes back
    sorted.
    """
    rng = np.random.default_rng(size)
    for values in _kinds(rng, size):
        scale = 5e-324 if np.abs(values).max() < 1e-300 else 1e-3
        found = (
            SweepIndex(
                RankingProblem(values, noise_of("exponential"), scale, 7, ExactSampler(rng).words)
            )
            .top_k(7)
            .index
        )
        if scale > 1e-4:
            assert found.tolist() == np.argsort(values, kind="stable")[::-1][:7].tolist()
        else:
            assert (values[found] > (size - 200) * 5e-324).all()


def test_block_maxima_are_the_maxima() -> None:
    """Blocks are compared by their bits where no score is negative, and as numbers elsewhere, with
    the same result.
    """
    rng = np.random.default_rng(12)
    for size in (100, 1017, 5000):
        for values in [
            *_kinds(rng, size),
            np.full(size, -0.0),
            np.where(rng.random(size) < 0.5, -np.inf, -1.0),
        ]:
            maxima = block_maxima(values, 3)
            count = len(maxima)
            assert all(maxima[i] == values[i::count].max() for i in range(count))


def test_a_guess_of_any_height_ends() -> None:
    """A threshold absurdly high or low costs time and changes nothing: the far top is found from
    both.
    """
    values = np.zeros(20_000)
    values[777] = 1e12
    for threshold in (1e9, 100.0, -1e3):
        problem = RankingProblem(
            values, noise_of("laplace"), 1.0, 1, ExactSampler(np.random.default_rng(13)).words
        )
        assert SweepIndex(problem).top_k(problem.k, threshold).index.tolist() == [777]


@pytest.mark.parametrize("threshold", [30.0, 9.0, 2.0, -1.0])
def test_rounds_reveal_independent_uniforms(threshold: float) -> None:
    """Once lowered to the bottom, each pair of a candidate and a round has been entered exactly
    once, their V are uniform, and those of one candidate are not correlated.
    """
    rng, size, count = np.random.default_rng(12), 12_007, 3
    problem = _problem(rng.normal(size=size) * 3, "half_logistic", 1.3, 1, seed=7)
    winners = Rounds(problem, count, {})
    whole = units(problem.heights(block_maxima(problem.values, 10)))
    for _, fresh, *parts in Sweep(problem)._lower(whole, threshold, winners):
        winners.enter(fresh)
        if not any(part.depth.any() for part in parts):
            break
    entries, v = winners._entries, np.full((size, count), np.nan)
    assert len(entries) == v.size
    v[entries.index, entries.member] = _uniform(entries)
    _assert_uniform(v.ravel())
    _assert_uniform(v[problem.values > 2].ravel())
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert abs(np.corrcoef(v[:, one], v[:, other])[0, 1]) < 6 / np.sqrt(size)


@pytest.mark.parametrize(
    ("threshold", "together", "by"),
    [
        (None, 128, 0.0),
        pytest.param(8.0, 128, 0.0, marks=pytest.mark.slow),
        pytest.param(1.0, 2, 0.0, marks=pytest.mark.slow),
        pytest.param(-1.0, 1, 0.4, marks=pytest.mark.slow),
        pytest.param(3.0, 128, np.inf, marks=pytest.mark.slow),
    ],
)
def test_peeling_in_one_pass_has_the_law_of_rounds(
    threshold: float | None, together: int, by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rounds over scores that were passed over once release every ordered triple as rounds
    with fresh noise would, from whatever threshold, in how many sweeps, with any width of bounds.
    """
    monkeypatch.setattr(exact, "_TOGETHER", together)
    values = np.repeat([4, 3, 0], [1, 2, 27])
    counts = dps.Scores(values, sensitivity=dps.Sensitivity())
    law = dps.PeelingTopK(k=3, noise="laplace", scale=1.5).probabilities(counts)
    classes: dict[tuple[int, ...], float] = {}
    for items, chance in law.items():
        key = tuple(int(values[i]) for i in items)
        classes[key] = classes.get(key, 0.0) + chance
    if threshold is not None:
        begin = SweepIndex.peel
        monkeypatch.setattr(
            SweepIndex, "peel", lambda self, rounds, taken: begin(self, rounds, taken, threshold)
        )
    problem = _problem(values, "laplace", 1.5, 3, seed=17, by=by)
    drawn = [tuple(int(values[i]) for i in peel(problem)) for _ in range(250)]
    assert set(drawn) <= set(classes)
    assert fit([drawn.count(key) for key in classes], list(classes.values())) > LIMIT


def test_a_round_waits_for_what_it_cannot_rule_out() -> None:
    """A pair below the threshold wins nothing, and of two that bounds do not tell apart the one
    with the larger noise wins, taken candidates left out.
    """
    words = np.array([2**63 + 2**41, 2**63 + 2**40, 2**63], dtype=np.uint64)
    problem = _problem(np.zeros(20), "laplace", 1.0, 1, seed=22, by=0.4)
    winners = Rounds(problem, 2, {3: None})
    winners.enter([Entries.from_index(np.array([7, 5, 3]), words)])
    assert not winners.decided(0.0)
    assert list(winners.winners) == [3]
    assert not winners.decided(-0.5)  # of the second round nothing was entered
    assert list(winners.winners) == [3, 5]


def test_rounds_take_every_candidate_once() -> None:
    """As many rounds as fit several sweeps release no candidate twice, and with little noise the
    order of the scores.
    """
    values = np.random.default_rng(19).permutation(20_000).astype(float)
    best = np.argsort(-values)[:300]
    found = peel(_problem(values, "laplace", 1e-3, 300, seed=20))
    assert np.array_equal(found, best)
    assert len(set(peel(_problem(values, "laplace", 1e5, 300, seed=21)).tolist())) == 300


@pytest.mark.parametrize("sampled", [6, 35])
def test_winners_that_are_sampled_do_not_raise_the_guess(
    monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    """Few pairs are entered wherever the best scores lie, on the places that the sample takes too:
    a guess by those who win first falls past all of the others.
    """
    size, stride, entered = 170_001, 170_001 // 4096, []
    enter = exact.Rounds.enter

    def counted(self: exact.Rounds, fresh: list[Entries]) -> None:
        enter(self, fresh)
        entered.append(len(self._entries))

    monkeypatch.setattr(exact.Rounds, "enter", counted)
    values = np.ones(size, dtype=np.int64)
    values[np.arange(sampled) * stride] = 10_000
    values[np.arange(35 - sampled) * stride + 7] = 10_000
    words = ExactSampler(np.random.default_rng(3)).words
    exact.peel(RankingProblem(values, noise_of("exponential"), 1.0, 40, words))
    assert max(entered) < 40_000
