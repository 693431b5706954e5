"""Draws decide as infinitely precise noise would: same bits, same answer, at the ends of float64
and beyond 2^53 too.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from exact import law_of, worst
from flint import arb, ctx
from mechanism_laws import misfit
from noise_laws import NOISE_LAWS
from slow_reference import BITS, exact
from spread import spread

import dpselect as dps
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms import joint as joint_levels
from dpselect.mechanisms.gaps import GaussianGap, LargeGap, gaps_below, read_top, row_gaps
from dpselect.mechanisms.joint import AllowedRanks, Counts
from dpselect.mechanisms.ranks import heights
from dpselect.mechanisms.stable_queries import TopStable
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.noise import LipschitzNoise, noise_of
from dpselect.sampling import EntropySampler, ExactSampler, base, contest, discrete, set_classes
from dpselect.sampling.contest import LazyUniform
from dpselect.sampling.discrete import pick, pick_rows
from dpselect.sampling.ranked import Ranked
from dpselect.sampling.set_classes import Classes, max_gumbel_bounds, noise_bounds
from dpselect.scores import Domain, Scores

FALSE_ALARM = 1e-9
ANY = dps.Sensitivity()
NOISES = get_args(LipschitzNoise)
ENDS = np.array([2**12, 2**63, 2**64 - 2**13], dtype=np.uint64)
Patch = pytest.MonkeyPatch


def sampler(seed: int) -> ExactSampler:
    return ExactSampler(np.random.default_rng(seed))


def utilities(values: Any) -> dps.Scores:
    return dps.Scores(values, sensitivity=ANY, kind="utilities")


def awkward(seed: int, count: int) -> Iterator[np.ndarray]:
    """Small vectors of every awkward kind: ties, huge integers, adjacent floats, denormals, both
    ends of float64.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(2, 7))
        steps, base = rng.integers(0, 4, size), float(rng.normal() * 10.0 ** rng.integers(-3, 9))
        yield (
            np.zeros(size),
            np.int64(2**60) + steps,
            np.int64(2**63 - 8) - steps * np.int64(2**61),
            base + rng.normal(size=size),
            np.array([base + int(i) * np.spacing(base) for i in steps]),
            steps * 5e-324,
            np.where(steps % 2, -1e308, 1e308),
            rng.integers(0, 20, size),
        )[int(rng.integers(8))]


def an_epsilon(rng: np.random.Generator, *ends: float) -> float:
    """A usual one or, once in ten, one at an end of the floats."""
    return float(10.0 ** rng.uniform(-2, 1) if rng.random() < 0.9 else rng.choice(ends))


def nowhere(_: Any, __: Any, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In place of a column that floats pick: none, and not certain."""
    return np.full(len(words), -1), np.zeros(len(words), dtype=np.bool_)


def cell(word: int) -> arb:
    return arb(arb((2 * word + 1, -65)), arb((1, -65)))


# -- canonical -------------------------------------------------------------------------------------


def canonical_reference(mechanism: dps.CanonicalTopK, values: np.ndarray, words: list[int]) -> int:
    """Which class wins, in the library's order of classes, by Arb at 2,600 bits from combinations
    counted one by one.
    """
    noise, k, gamma = noise_of(mechanism.noise), mechanism.k, exact(mechanism.gamma)
    x = [exact(v) for v in sorted(values.tolist(), reverse=True)]
    found: dict[tuple[int, int], int] = {}
    for ranks in itertools.combinations(range(1, len(x) + 1), k):
        held = next(h for h in range(k + 1) if h + 1 not in ranks)
        key = (min(held, k), max(ranks)) if mechanism.gamma < 1 or k == len(x) else (0, max(ranks))
        found[key] = found.get(key, 0) + 1
    top = found.pop((k, k), None)
    classes = sorted(found) + ([(k, k)] if top else [])
    totals = []
    for (held, lowest), word in zip(classes, words, strict=True):
        missing = (
            (k if mechanism.top_set == "tied" else min(k + 1, len(x))) if held == k else held + 1
        )
        size = top if held == k else found[held, lowest]
        time = -(1 - cell(word)).log() / size
        score = gamma * x[lowest - 1] - (1 - gamma) * x[missing - 1]
        totals.append(
            arb(score)
            + arb(exact(mechanism.scale)) * NOISE_LAWS[noise.name].inverse(1 - (-time).exp())
        )
    best = max(range(len(totals)), key=lambda i: totals[i].mid())
    assert all(totals[best] > total for i, total in enumerate(totals) if i != best), (
        "64 bits do not decide this case"
    )
    return best


def widened(bounds: Any, by: float) -> Any:
    def wide(*arguments: Any) -> Any:
        low, high = bounds(*arguments)
        with np.errstate(over="ignore"):
            return np.minimum(low, 1e308) - by, np.maximum(high, -1e308) + by

    return wide


@pytest.mark.parametrize("noise", NOISES)
def test_canonical_classes_are_decided_by_all_bits(noise: Any, monkeypatch: Patch) -> None:
    """For the same bits both draws, at their own precision, a low one and none, agree with an
    all-Arb reference; 40 cases, with scales and noise beyond the floats, or of a few denormals.
    """
    rng, real = np.random.default_rng(74), set_classes.totals
    for case, values in enumerate(awkward(5, 40)):
        k = int(rng.integers(1, len(values) + 1))
        epsilon = an_epsilon(rng, 1e-308, 1e-300, 1e300, 1.7e308)
        fine = 0 < values.max() < 1e-300 and epsilon < 10
        mechanism = dps.CanonicalTopK(
            k=k,
            epsilon=epsilon,
            sensitivity=dps.Sensitivity(linf=1.5e-323 if fine else 1.0),
            gamma=float(rng.choice([0.5, 0.7, 1.0])),
            noise=noise,
            top_set=str(rng.choice(["tied", "gap"])),  # type: ignore[arg-type]
        )
        classes = Classes(Ranked(values), k, mechanism.gamma, mechanism.top_set)
        count = classes.rows * (len(values) - classes.first + 1) + int(classes.separate_top)
        with ctx.workprec(BITS):
            expected = canonical_reference(mechanism, values, sampler(case).words(count).tolist())
        blocks = set_classes.roots(classes, sampler(case).words)
        chosen = classes.set_class(int(blocks.row[expected]), int(blocks.start[expected]))
        for by in (0.0, mechanism.scale, np.inf):
            monkeypatch.setattr(set_classes, "totals", widened(real, by))
            assert (
                set_classes.draw_class(classes, noise_of(noise), mechanism.scale, sampler(case))
                == chosen
            )
            if k == len(values) or mechanism.gamma < 1:
                held, lowest = rows_winner(mechanism, values, case)
                assert (held, lowest) == (chosen.lead + (chosen.lowest == k), chosen.lowest)


def rows_winner(mechanism: dps.CanonicalTopK, values: np.ndarray, seed: int) -> tuple[int, int]:
    """The class that the draw for matrices chooses."""
    layout, ordered, words = (
        set_classes.RowClasses(len(values), mechanism.k, mechanism.gamma, mechanism.top_set),
        np.sort(values)[::-1],
        sampler(seed).words,
    )
    asked = layout, noise_of(mechanism.noise), mechanism.scale
    winner = int(set_classes._winners(ordered[None], *asked, sampler(seed).words)[0])
    assert winner == set_classes._find_winner(ordered, *asked, words(len(layout.n)), words)
    return int(layout.lead[winner]), int(layout.lowest[winner])


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "noise"), [(0.8, "laplace"), (1.0, "exponential")])
def test_blocks_that_floats_never_decide_follow_the_law(
    gamma: float, noise: Any, monkeypatch: Patch
) -> None:
    """Split from whole rows, every heir picked and every winner found by ball arithmetic, the sets
    have their exact law.
    """
    monkeypatch.setattr(set_classes, "_FEW", 0)
    monkeypatch.setattr(set_classes, "_CHILDREN", 2)
    monkeypatch.setattr(set_classes, "totals", widened(set_classes.totals, np.inf))
    monkeypatch.setattr(set_classes, "pick_rows", nowhere)
    scores = dps.Scores([5, 3, 3, 2, 1, 0], sensitivity=ANY)
    mechanism = dps.CanonicalTopK(k=2, epsilon=1.5, gamma=gamma, noise=noise)
    drawn: list[object] = [
        frozenset(mechanism.select(scores, rng=np.random.default_rng(i)).indices)
        for i in range(500)
    ]
    assert misfit(drawn, mechanism.probabilities(scores)) > FALSE_ALARM


@pytest.mark.parametrize("noise", spread(NOISES, 2))
def test_max_gumbel_bounds_contain_the_exact_value(noise: Any) -> None:
    """The float64 enclosure of the largest of M draws contains Arb's, for M from 1 to exp(7000) and
    words from end to end.
    """
    law, rng = noise_of(noise), np.random.default_rng(1)
    words = np.append(rng.integers(0, 2**64, 30, dtype=np.uint64), ENDS)
    log_mass = np.where(rng.random(len(words)) < 0.3, 0.0, rng.uniform(0, 7000, len(words)))
    low, high = noise_bounds(law, *max_gumbel_bounds(words, (log_mass, log_mass)))
    with ctx.workprec(12_000):
        for i, (word, mass) in enumerate(zip(words.tolist(), log_mass.tolist(), strict=True)):
            for edge in {word, word + 1} - {0, 2**64}:
                time = -(1 - arb((edge, -64))).log() / arb(mass).exp()
                value = (
                    -time.log()
                    if noise == "gumbel"
                    else NOISE_LAWS[noise].inverse(1 - (-time).exp())
                )
                assert low[i] < value < high[i]


@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize(("k", "candidates"), [(1, 5), (3, 5), (5, 5)])
def test_planned_class_count_matches_the_row(k: int, candidates: int, gamma: float) -> None:
    """What a row takes of memory is planned by the count of its classes."""
    asked = dps.CanonicalTopK(k=k, epsilon=1.0, gamma=gamma, noise="laplace")
    assert asked.classes_of(candidates) == len(
        set_classes.RowClasses(candidates, k, gamma, "tied").n
    )


def test_class_sizes_are_enclosed() -> None:
    """Bounds on ln of the size of runs of classes contain Arb's, at any rank and k up to 10^6
    candidates.
    """
    rng = np.random.default_rng(2)
    ranked = Ranked(np.zeros(10**6))
    for k, gamma in itertools.product((1, 2, 37, 1000, 10**5), (0.5, 1.0)):
        classes = Classes(ranked, k, gamma, "tied")
        for _ in range(20):
            row = int(rng.integers(0, classes.rows))
            start = int(rng.integers(classes.first, 10**6))
            stop = min(10**6 + 1, start + int(10 ** rng.uniform(0, 6)))
            low, high = classes.log_mass(row, start, max(stop, start + 1))
            with ctx.workprec(400):
                assert (
                    arb(float(low))
                    <= classes.mass(row, start, max(stop, start + 1)).log()
                    <= arb(float(high))
                )


# -- weights ---------------------------------------------------------------------------------------


def test_columns_are_picked_by_all_bits() -> None:
    """A word next to a boundary is put on its side by ball arithmetic, not by floats; columns of
    weight zero are never picked.
    """
    weights = np.array([0.0, 3.0, 0.0, 1.0, 2.0, 0.0])
    with np.errstate(divide="ignore"):
        logs = np.log(weights)

    def by_balls(word: int) -> int:
        return LazyUniform(sampler(3).words, word=word).column(lambda: [*map(arb, weights)])

    for edge, left, right in ((2**63, 1, 3), (2**64 * 2 // 3, 3, 4)):
        for step in (-3, -2, -1, 1, 2, 3):
            word = np.array([edge + step], dtype=np.uint64)
            assert by_balls(int(word[0])) == (left if step < 0 else right)
            for _, certain in (pick(logs, logs, word), pick_rows(logs[None], logs[None], word)):
                assert not certain[0]
    words = sampler(2).words(100_000)
    column, certain = pick(logs, logs, words)
    assert certain.all()
    tiled = np.tile(logs, (len(words), 1))
    assert np.array_equal(column, pick_rows(tiled, tiled, words)[0])
    assert misfit(column.tolist(), dict(enumerate((weights / 6).tolist()))) > FALSE_ALARM
    assert column[:500].tolist() == [by_balls(word) for word in words[:500].tolist()]


# -- joint -----------------------------------------------------------------------------------------


def unsure(patch: Patch) -> None:
    """No float64 bound of the joint mechanism decides anything."""

    def anything(self: Counts, low: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(np.arange(1, self._k + 1), (len(low), 1)), np.full(
            (len(low), self._k), self._size
        )

    patch.setattr(Counts, "bounds_between", anything)
    patch.setattr(discrete, "pick", nowhere)
    patch.setattr(
        joint_levels, "_flip", lambda _, __, words: (words != words, np.arange(len(words)))
    )


def joint_reference(
    levels: AllowedRanks, values: np.ndarray, k: int, rate: float, words: Iterator[int]
) -> list[int] | None:
    """What is allowed, or None if the proposal is refused, from exact weights, one real level and
    rational losses.
    """
    cells, r = levels._cells, exact(rate)
    edges = [2 * exact(edge) for edge in cells.edges.tolist()]
    x = [exact(v) for v in sorted(values.tolist(), reverse=True)]
    allowed = [*cells.allowed.tolist(), [len(x)] * k]
    falls = [(-arb(r * edge)).exp() for edge in edges]
    weights = [
        math.prod(a - p for p, a in enumerate(row)) * fall
        for row, fall in zip(allowed, falls, strict=True)
    ]
    weights = [
        w if i == len(allowed) - 1 else w * (1 - falls[i + 1] / falls[i])
        for i, w in enumerate(weights)
    ]
    place = cell(next(words)) * sum(weights, arb(0))
    upto = [sum(weights[: i + 1], arb(0)) for i in range(len(weights) - 1)]
    assert all(place < edge or place > edge for edge in upto)
    at = sum(bool(place > edge) for edge in upto)
    if at == len(weights) - 1:
        return allowed[-1]
    level = arb(edges[at]) - (1 - cell(next(words)) * (1 - falls[at + 1] / falls[at])).log() / arb(
        r
    )
    counts = [sum(bool(level > arb(x[i] - y)) for y in x) for i in range(k)]
    assert all(level > arb(x[i] - y) or level < arb(x[i] - y) for i in range(k) for y in x)
    ratio = Fraction(
        math.prod(c - p for p, c in enumerate(counts)),
        math.prod(a - p for p, a in enumerate(allowed[at])),
    )
    assert ratio <= 1
    return counts if cell(next(words)) < exact(ratio) else None


def test_joint_levels_are_decided_by_all_bits(monkeypatch: Patch) -> None:
    """For the same bits what is allowed at a random level, by floats and without, is that of an
    all-Arb reference.
    """
    rng = np.random.default_rng(9)
    for case, values in enumerate(awkward(9, 100)):
        k = int(rng.integers(1, len(values) + 1))
        mechanism = dps.JointTopK(
            k=k,
            epsilon=an_epsilon(rng, 1e-308, 1e-300, 1e300, 1.7e308),
            beta=rng.choice([None, 0.2]),
        )
        levels = AllowedRanks(Ranked(values), k, mechanism.rate, mechanism.cut(len(values)))
        with ctx.workprec(BITS):
            expected = joint_reference(levels, values, k, mechanism.rate, one_by_one(sampler(case)))
        runs = [levels._propose(1, sampler(case))]
        with monkeypatch.context() as patch:
            unsure(patch)
            runs.append(levels._propose(1, sampler(case)))
        for allowed, accepted in runs:
            assert (allowed[0].tolist() if accepted[0] else None) == expected


def one_by_one(source: ExactSampler) -> Iterator[int]:
    while True:
        yield int(source.words(1)[0])


# -- thresholds ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        dps.OnlineStableQueries(epsilon=0.7, delta=0.2, c=2),
        dps.AboveThreshold(threshold=2.0, scale=3.0, c=2),
        dps.AboveThreshold(threshold=2.0, scale=3.0, c=1, noise="gaussian", candidates=8),
        dps.AboveThreshold(threshold=9.0, scale=6.0, c=2, noise="exponential"),
        dps.FirstStable(epsilon=0.7, delta=0.2, candidates=8),
        dps.TopStable(k=2, kbar=4, epsilon=1.0, delta=0.2),
        dps.LargeMargin(epsilon=3.0, delta=0.3),
    ],
    ids=lambda m: f"{m.kind}",
)
def test_thresholds_that_floats_never_decide_give_the_same_answers(
    mechanism: dps.Mechanism, monkeypatch: Patch
) -> None:
    """Every comparison left to ball arithmetic: the same bits give the same release, 150 times, and
    the law is the exact one.
    """
    kind = "utilities" if mechanism.kind in ("above_threshold", "large_margin") else "counts"
    scores = dps.Scores([9, 30, 3, 31, 14, 9], sensitivity=mechanism.sensitivity_bound, kind=kind)  # type: ignore[arg-type]
    before = [mechanism._select(scores, sampler(i)) for i in range(150)]
    for module in (base, contest):
        monkeypatch.setattr(
            module,
            "certain",
            lambda low, *_: (np.zeros(len(low), dtype=np.bool_), np.arange(len(low))),
        )
    after = [mechanism._select(scores, sampler(i)) for i in range(150)]
    assert after == before
    drawn: list[object] = [
        s.indices[0] if mechanism.kind == "large_margin" else frozenset(s.indices) for s in after
    ]
    assert misfit(drawn, mechanism.probabilities(scores)) > FALSE_ALARM


@pytest.mark.parametrize("side", [0, 1])
def test_a_threshold_known_from_one_side_decides_nothing_too_early(
    side: int, monkeypatch: Patch
) -> None:
    """Bounds on thresholds that are a few units too wide below, or above, leave the answers as they
    are: 300 draws.
    """

    def answers() -> list[bool]:
        source = sampler(7)
        kept = [
            base.Thresholds(noise_of("laplace"), [1.0, 0.5], 1, source.words) for _ in range(300)
        ]
        return [bool(level.passes(np.array([[0.3]]), 0.8)[0, 0]) for level in kept]

    def widened(noise: Any, scale: float, words: Any, level: Any = None) -> Any:
        bounds = list(plain(noise, scale, words, level))
        if words.ndim == 1:  # of thresholds, one for each row
            bounds[side] = bounds[side] + (3.0 if side else -3.0)
        return tuple(bounds)

    before, plain = answers(), base.scaled_bounds
    monkeypatch.setattr(base, "scaled_bounds", widened)
    # the 64 bits that were drawn decide: no more are taken from the source
    assert answers() == before


def test_thresholds_are_numbers_and_differences_those_of_the_real_numbers() -> None:
    """Bits of a threshold drawn for one query are known to the next: equal queries within the error
    of the floats agree. 2^62 + 1
    - 2^62 - 1/2 is above a threshold and 2^62 - 2^62 - 1/2 below; neither difference is a float64.
    """
    source = sampler(4)
    for _ in range(200):
        level = base.Thresholds(noise_of("laplace"), [1.0], 1, source.words)
        center = np.array([[float((level._low[0] + level._high[0]) / 2)]])
        assert len({bool(level.passes(center, 5e-324)[0, 0]) for _ in range(4)}) == 1
    values, minus = np.array([[2**62 + 1, 2**62]]), [np.array([[2**62]]), np.array([[0.5]])]
    assert sampler(5).passing(
        values, noise_of("laplace"), (1e-9, 1e-9), 1e-9, minus=minus
    ).tolist() == [[True, False]]
    close = [np.array([[0.1]]), np.array([[np.nextafter(0.1, 1) - 0.1]])]
    values = np.array([[np.nextafter(0.1, 1) + 1e-12]])
    assert sampler(6).passing(values, noise_of("laplace"), 1e-16, 1e-16, minus=close).tolist() == [
        [True]
    ]


# -- gaps ------------------------------------------------------------------------------------------


def test_gaps_of_counts_are_differences_without_rounding() -> None:
    """Gaps are exact differences of the counts on their grid, and a user who adds at most 1 to
    counts moves none by more.
    """
    rng = np.random.default_rng(1)
    counts = 10.0 ** rng.uniform(-3, 9.7, (4000, 2))
    counts[:500] = np.floor(counts[:500])
    upper, lower = counts.max(axis=1), counts.min(axis=1)
    before = heights(upper, lower)
    for up, down in ((1.0, 0.0), (0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (0.7, 0.1)):
        moved, under = upper + up, np.minimum(lower + down, upper + up)
        pairs = zip(moved.tolist(), upper.tolist(), under.tolist(), lower.tolist(), strict=True)
        exactly = [
            Fraction(a) - Fraction(u) <= up and Fraction(b) - Fraction(v) <= down
            for a, u, b, v in pairs
        ]
        change = heights(moved, under) - before
        assert np.abs(change[exactly]).max() <= 1.0
    assert ((before == (upper - lower)) | (upper >= 2.0**32))[:500].all()
    grid = [
        Fraction(int(a * 2**20) - int(b * 2**20), 2**20)
        for a, b in np.minimum(np.c_[upper, lower], 2.0**32).tolist()
    ]
    assert [Fraction(gap) for gap in before.tolist()] == grid


VECTORS: list[Any] = [
    [5.0] * 4,
    [1.7e308, -1.7e308, 1.7e308, -1.7e308],
    [0.0, 5e-324, 1e-323, 0.0],
    [2**63 - 1, 2**63 - 2, -(2**63), 0],
]


def test_rates_beyond_the_floats_are_rounded_down_and_a_rate_of_zero_is_refused() -> None:
    """The rate is the largest float where epsilon over the range is beyond it; what rounds down to
    0 is no rate. Losses beyond the largest float64 are halved, not infinite: equal best scores
    share all the probability. No draw fails at any rate.
    """
    least = dps.Sensitivity(linf=1e-320)
    assert dps.JointTopK(k=2, epsilon=1.0, sensitivity=least).rate == sys.float_info.max
    with pytest.raises(InvalidMechanism, match="epsilon"):
        dps.JointTopK(k=2, epsilon=5e-324).rate  # noqa: B018
    mechanism, rng = dps.JointTopK(k=2, epsilon=1.0), np.random.default_rng(1)
    best = {mechanism.select(utilities(VECTORS[1]), rng=rng).indices for _ in range(50)}
    assert best == {(0, 2), (2, 0)}
    for values, epsilon, beta in itertools.product(VECTORS, (1e-308, 1.7e308), (None, 0.1)):
        mechanism = dps.JointTopK(k=4, epsilon=epsilon, beta=beta)
        assert sorted(mechanism._select(utilities(values), sampler(2)).indices) == [0, 1, 2, 3]


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e308, 1.79e308])
def test_released_values_are_floats_at_any_scale(scale: float) -> None:
    """Noise beyond the largest float is released as the largest float, and grids below the least
    one as that.
    """
    mechanism = dps.OneshotTopK(k=2, noise="gumbel", scale=1.0, value_scale=scale)
    values = [
        mechanism._select(utilities([3.0, 1.0, 2.0]), sampler(seed)).values or ()
        for seed in range(60)
    ]
    assert np.isfinite(values).all()
    if scale > 1e308:
        assert np.abs(values).max() == sys.float_info.max


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_runs_without_an_unstable_query_renew_nothing(rows: int) -> None:
    """A few rows of which none fails a test, so that no threshold is drawn afresh, are released
    like any others.
    """
    mechanism = dps.OnlineStableQueries(epsilon=2.0, delta=0.1, c=1)
    for source in (sampler(1), EntropySampler()):
        found = mechanism._select_many(np.full((rows, 3), 10**6), source)
        assert found.indices.tolist() == [[0, 1, 2]] * rows


def test_rows_of_counts_have_the_gaps_of_single_ones() -> None:
    """A matrix of counts off the grid is read as its rows are one by one; both clamp alike, never
    above 2^53.
    """
    counts = np.random.default_rng(3).gamma(1.0, 3.0, (50, 5))
    for row, gaps in zip(counts, gaps_below(-np.sort(-counts, axis=1)), strict=True):
        assert np.array_equal(read_top(dps.Scores(row, sensitivity=ANY), 5).gaps, gaps)
    for huge in itertools.chain(*HUGE):
        gaps = read_top(dps.Scores(huge, sensitivity=ANY), 3).gaps
        assert np.array_equal(row_gaps(np.array([huge]), 3)[0], gaps)
        assert gaps.max() <= 2.0**53


B = 2**54
TOPS: list[dps.Mechanism] = [
    LargeGap(epsilon=1.0, kbar=2),
    LargeGap(epsilon=1.0, kbar=3, regularizer=[1.5, 0.3, -0.7]),
    GaussianGap(scale=1.0, kbar=2),
    StabilityTest(k=1, scale=1.0, failure_delta=1e-6),
    StableTopK(rho=1.0, failure_delta=1e-6, kbar=2),
    StableTopKFixed(k=1, rho=1.0, failure_delta=1e-6, penalty=0.5, kbar=2),
    TopStable(k=1, kbar=2, epsilon=1.0, delta=1e-6),
    TopStable(k=1, kbar=3, epsilon=1.0, delta=1e-6, epsilon_em=1.0),
    dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=2, kbar=2, kbar_least=2, epsilon=1.0, delta=1e-6, l0=1),
]

HUGE = [
    ([B + 3, B + 2, 0], [B + 3, B + 3, 0]),
    ([5 + 2 * B + 5, 5 + B + 2, 5], [5 + 2 * B + 5, 5 + B + 3, 5]),
    ([2**53 - 1, 2**53, 0], [2**53, 2**53 + 1, 0]),
    ([2**53 + 1, 2**53, 0], [2**53 + 2, 2**53, 0]),
    ([3 * B + 4, 2 * B + 2, B + 1, 0], [3 * B + 5, 2 * B + 2, B + 2, 0]),
    ([2**63 - 1, 2**63 - 2, 1], [2**63 - 1, 2**63 - 1, 1]),
    ([2**54 - 1, 2**53 - 1, 0], [2**54 - 1, 2**53, 0]),
    ([2**32 + 1, 2**32, 7, 2**31], [2**32 + 2, 2**32, 8, 2**31]),
]


@pytest.mark.parametrize("domain", ["public", "observed"])
@pytest.mark.parametrize("mechanism", spread(TOPS, 5), ids=str)
def test_counts_beyond_float64_obey_the_curve(mechanism: dps.Mechanism, domain: Domain) -> None:
    """Adding one user to counts whose differences no float64 holds stays within the curve, in both
    directions.
    """
    how = domain if mechanism.takes_observed else "public"
    found = worst([[law_of(mechanism, v, domain=how) for v in pair] for pair in HUGE])
    assert (
        found.delta <= [mechanism.curve.delta(epsilon) + 1e-9 for epsilon in found.epsilons]
    ).all()


@pytest.mark.parametrize("mechanism", TOPS, ids=str)
def test_draws_by_rows_read_huge_counts_as_the_law_does(mechanism: dps.Mechanism) -> None:
    """Outcomes that the law all but excludes are not drawn, one by one or by rows, where heights
    are beyond 2^53.
    """
    row = HUGE[1][0]
    scores, law = dps.Scores(row, sensitivity=mechanism.sensitivity_bound), law_of(mechanism, row)
    likely = [o for o, p in law.items() if p > 1e-12]
    possible = {
        tuple(sorted(o)) if isinstance(o, frozenset) else o if isinstance(o, tuple) else (o,)
        for o in likely
    }
    single = [mechanism.select(scores, rng=np.random.default_rng(seed)) for seed in range(20)]
    for selection in [
        *single,
        *mechanism.select_many(np.array([row] * 200), rng=np.random.default_rng(1)),
    ]:
        assert tuple(selection.indices) in possible


@pytest.mark.parametrize(
    "mechanism",
    [
        dps.LimitedDomain(k=1, kbar=10**7, epsilon=1.0, delta=0.1),
        StabilityTest(k=10**7, scale=1.0, failure_delta=0.1),
    ],
    ids=str,
)
def test_selection_memory_does_not_grow_with_k(mechanism: dps.Mechanism) -> None:
    """On two items the memory touched does not grow with a kbar or k of ten million: the work is on
    what is there.
    """
    touched = Path("/proc/self/clear_refs")
    if not touched.exists():
        pytest.skip("needs Linux's count of the memory that a process has touched")

    def highest_kilobytes() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    scores = Scores([5, 1], sensitivity=mechanism.sensitivity_bound, domain="observed")
    mechanism.select(scores, rng=np.random.default_rng(1))
    touched.write_text("5")
    before = highest_kilobytes()
    mechanism.select(scores, rng=np.random.default_rng(1))
    # Ten million float64 would be 80,000 kB; lazily zeroed ones are addresses only.
    assert highest_kilobytes() - before < 8_000
