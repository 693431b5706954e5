"""The sparse vector family: the proofs' own steps, with the answers, attained pairs, and what may
influence a release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import ROUND_UP, localcontext
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from case import TWO_SIDED
from exact import law_of, levels, stated, worst
from mechanism_laws import misfit
from spread import spread

import accounting as acc
import dpselect as dps
from accounting.convert.renyi import largest_over_order
from accounting.curves.sparse_vector import SparseVectorDP
from dpselect import verify
from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.stable_queries import (
    FirstStable,
    OnlineStableQueries,
    StableRule,
    TopStable,
    log_failure,
)
from dpselect.verify.divergences import renyi

# the answer on each of a row of data sets, every one the neighbor of the next
Query = tuple[int, ...]
Law = dict[Any, float]
STABLE = 10**6


def distances(query: Query) -> list[int]:
    """Steps from each data set to the nearest one that has a neighbor with another answer."""
    last = len(query) - 1
    unstable = [
        x
        for x in range(last + 1)
        if any(query[y] != query[x] for y in (max(x - 1, 0), min(x + 1, last)))
    ]
    return [min((abs(x - u) for u in unstable), default=STABLE) for x in range(last + 1)]


def answered_laws(mechanism: FirstStable | OnlineStableQueries, queries: list[Query]) -> list[Law]:
    """For every data set, the law of what is released: which queries are stable, with their true
    answers.
    """
    steps = np.array([distances(query) for query in queries])
    result = []
    for x, column in enumerate(steps.T):
        law = law_of(mechanism, column)
        result.append(
            {
                frozenset((i, queries[i][x]) for i in chosen): chance
                for chosen, chance in law.items()
            }
        )
    return result


def worlds(queries: int, rounds: int) -> Iterator[list[Query]]:
    """Random lists of queries on seven data sets, some of them constant over long stretches, some
    never.
    """
    rng = np.random.default_rng(20261121)
    for _ in range(rounds):
        yield [
            tuple(np.repeat(rng.integers(0, 3, 7), rng.integers(1, 8))[:7].tolist())
            for _ in range(queries)
        ]
    yield [tuple(range(7))] * queries


# About 150 chi-square tests at 1e-10 each.
FALSE_ALARM = 1e-10


# -- Theorem V8: many answers above ----------------------------------------------------------------


def _known_threshold(
    shift: float, c: int, place: float, order: float, queries: int = 3000, *, rising: bool = False
) -> float:
    """Renyi divergence of the run of `queries` equal comparisons up to the c-th above, the
    threshold being known.

    Backward over all patterns at once: each is a product of F and S, and its neighbor's of the
    same with the argument raised.
    """
    above, above_too = 1 - math.exp(-place * shift) / 2, math.exp((place - 1) * shift) / 2
    if rising:
        above, above_too = above_too, above
    stop = above**order * above_too ** (1 - order)
    go = (1 - above) ** order * (1 - above_too) ** (1 - order)
    moments = np.ones(c + 1)
    for _ in range(queries):
        moments[1:] = go * moments[1:] + stop * moments[:-1]
    return math.log(moments[-1]) / (order - 1)


@pytest.mark.fast(4)
@pytest.mark.parametrize(("epsilon2", "c"), [(1.0, 1), (0.5, 5), (3.0, 20), (1.0, 100)])
@pytest.mark.parametrize("order", [1.5, 8.0, 100.0])
def test_cost_of_many_answers_is_attained(epsilon2: float, c: int, order: float) -> None:
    """Theorem V8 is the worst run of equal comparisons with a known threshold, to 1 %: a bound 5 %
    lower would be wrong.
    """
    exact = max(
        _known_threshold(epsilon2 / c, c, place, order) for place in np.linspace(0, 1, 41).tolist()
    )
    curve = SparseVectorDP(epsilon1=1e-12, epsilon2=epsilon2, positives=c)
    claimed = float(curve._answers(np.array([order]))[0])
    assert exact <= claimed * (1 + 1e-9)
    assert claimed <= 1.01 * exact
    # Theorem V1 adds the constant epsilon2, not PureDP(epsilon2): for a known threshold equal
    # comparisons exceed that.
    assert 1.5 * acc.PureDP(epsilon=0.1).rdp(2.0) < _known_threshold(0.1, 1, 0.0, 2.0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("alone", "c"), spread([(0.1, 5), (0.02, 20), (0.005, 100), (0.3, 1)], 2))
@pytest.mark.parametrize("order", [1.5, 8.0])
def test_shared_threshold_answer_cost_is_attained(alone: float, c: int, order: float) -> None:
    """Theorem V10 is the worst run of equal comparisons, of answers that fall or rise, to 2 %,
    where it is of use.
    """
    places = np.linspace(0, 1, 41).tolist()
    curve = SparseVectorDP(epsilon1=60.0, epsilon2=2 * alone * c, positives=c, alone=alone)
    claimed = float(curve._shared_threshold_rdp(np.array([order]))[0])
    if order < (order - 1) * math.exp(alone):
        assert claimed == math.inf
        return
    falls = max(_known_threshold(alone, c, place, order) for place in places)
    rises = max(_known_threshold(alone, c, place, order, rising=True) for place in places)
    assert max(falls, rises) <= claimed * (1 + 1e-9)
    assert claimed <= 1.02 * max(falls, rises) or max(falls, rises) > curve.epsilon2


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1)])
@pytest.mark.parametrize("level", spread([0.0, -1.0, 2.0], 1))
def test_a_whole_sparse_vector_with_many_answers_stays_below_its_curve(
    signs: tuple[int, ...], level: float
) -> None:
    """Theorem V10, exactly: 24 equal answers, up to 12 above, each moved by 1 up or down in turn,
    threshold averaged over.
    """
    c, scale, answers = 12, 8.0, 4.0
    mechanism = AboveThreshold(
        threshold=0.0, scale=scale, answer_scale=answers, c=c, sensitivity=TWO_SIDED
    )
    nodes, weights = np.polynomial.legendre.leggauss(300)
    y = np.concatenate([np.sign(side) * scale * (1 + nodes) * 10 for side in (-1, 1)])
    density = np.tile(weights, 2) * scale * 10 * np.exp(-np.abs(y) / scale) / (2 * scale)
    first = _patterns(np.full(24, level), y, density, answers, c)
    second = _patterns(level + np.resize(signs, 24), y, density, answers, c)
    orders = (1.5, 2.0, 4.0)
    for p, q in ((first, second), (second, first)):
        assert np.all(
            renyi(p[None], q[None], orders)[:, 0] <= mechanism.curve.rdp(orders) * (1 + 1e-6)
        )


def _patterns(
    answers: np.ndarray, y: np.ndarray, density: np.ndarray, scale: float, c: int
) -> np.ndarray:
    """Chances of the numbers of answers above, after an even and an odd place, when the run ends:
    coarser than the patterns.
    """
    state, ended = {(0, 0): density.copy()}, []
    for place, answer in enumerate(answers):
        z = (y - answer) / scale
        above = np.where(z > 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)
        following: dict[tuple[int, int], np.ndarray] = {}
        for (even, odd), held in state.items():
            key = (even, odd + 1) if place % 2 else (even + 1, odd)
            if sum(key) == c:
                ended.append((held * above).sum())
            else:
                following[key] = following.get(key, 0) + held * above
            following[even, odd] = following.get((even, odd), 0) + held * (1 - above)
        state = following
    return np.array([*ended, *(held.sum() for held in state.values())])


@pytest.mark.parametrize("c", [1, 7, 1000])
def test_many_answers_never_cost_more_than_counted_as_one(c: int) -> None:
    """Theorems V8 and V10: below epsilon2 at every order, rdp does not fall with the order, and rho
    is no more than it needs.
    """
    orders = 1 + np.geomspace(1e-6, 1e9, 60)
    for epsilon1, epsilon2 in ((0.02, 1.0), (1e-6, 1e-6), (3.0, 2000.0)):
        plain = SparseVectorDP(epsilon1=epsilon1, epsilon2=epsilon2)
        counted = SparseVectorDP(epsilon1=epsilon1, epsilon2=epsilon2, positives=c)
        values = counted.rdp(orders)
        assert np.all(values <= plain.rdp(orders))
        assert np.all(np.diff(values) >= -1e-12 * values[1:])
        assert np.all(values <= orders * counted.rho * (1 + 1e-9))
        fine = 1 + np.geomspace(1e-6, 1e12, 4000)
        assert counted.rho <= 1.02 * max(counted.rdp(fine) / fine)


@pytest.mark.parametrize(
    ("epsilon1", "epsilon2", "c"), [(0.1, 1.0, 10), (1.0, 1.0, 1), (0.2, 2.0, 4)]
)
def test_rho_of_answers_is_their_divergence_for_each_one_above(
    epsilon1: float, epsilon2: float, c: int
) -> None:
    """Theorem V8 towards order 1: that of the threshold, and c times the largest divergence of a
    comparison over its chance.

    Within a hundredth of a scan over all places of the comparison, and never below it.
    """

    def above(place: np.ndarray) -> np.ndarray:
        return np.where(place > 0, np.exp(-np.abs(place)) / 2, 1 - np.exp(-np.abs(place)) / 2)

    at, shift = np.linspace(-10, 10, 200_001), epsilon2 / c
    passes, fails, then_passes, then_fails = (
        above(at),
        above(-at),
        above(at + shift),
        above(-at - shift),
    )
    divergence = passes * np.log(passes / then_passes) + fails * np.log(fails / then_fails)
    exact = math.exp(-epsilon1) - 1 + epsilon1 + c * float((divergence / passes).max())
    assert (
        exact
        <= SparseVectorDP(epsilon1=epsilon1, epsilon2=epsilon2, positives=c).rho
        <= 1.01 * exact
    )


@pytest.mark.parametrize(
    "curve", [acc.GaussianDP(mu=0.3), acc.LaplaceDP(epsilon=20.0), acc.PureDP(epsilon=0.1)]
)
def test_rho_between_orders_is_that_of_the_chord(curve: acc.Curve) -> None:
    """Of exact divergences on the grid of orders alone: never below their own rho, and less than a
    hundredth above it.
    """
    found = largest_over_order(curve.rdp, curve.rho)
    assert curve.rho <= found <= 1.01 * curve.rho


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_pure_guarantee_is_exact(relation: acc.relations.Relation) -> None:
    """Theorem V1 cannot be improved: of many equal answers far below the threshold one user moves
    all but the last up and, where a user can, the last down: the log-ratio reaches epsilon1 +
    epsilon2.
    """
    mechanism = AboveThreshold(
        threshold=0.0, scale=1.0, answer_scale=1.5, sensitivity=dps.Sensitivity(relation=relation)
    )
    move = np.append(np.ones(39), -1.0 if relation == "replace_one" else 0.0)
    bases = [np.full(40, answer) for answer in (-1.0, 3.0, 8.0, 14.0)]
    found = worst(
        [[law_of(mechanism, v, kind="utilities") for v in (base, base + move)] for base in bases]
    )
    assert np.all(found.rdp <= mechanism.curve.rdp(verify.ORDERS) * (1 + 1e-9))
    assert (
        0.999 * mechanism.curve.pure_epsilon
        < found.pure_epsilon
        <= mechanism.curve.pure_epsilon * (1 + 1e-9)
    )


def test_a_price_of_two_noises_is_their_sum_rounded_up_once() -> None:
    """Not the sum of two that were rounded to floats, whose decimals may lie below both."""
    rng = np.random.default_rng(20261126)
    for epsilon, scale in np.exp(rng.uniform(-9, 5, (600, 2))).tolist():
        margin = dps.LargeMargin(epsilon=epsilon, delta=1e-6, split=float(rng.uniform(0.01, 0.99)))
        threshold, comparison, _ = (Fraction(noise) for noise in margin._scales)
        searched = next(part for _, part in margin.core.parts if isinstance(part, acc.LaplaceDP))
        vector = dps.AboveThreshold(threshold=1.0, c=3, scale=scale, noise="exponential")
        answers = 3 * Fraction(vector.answer_shift) / Fraction(vector.noise_on_answers)
        costs = (
            (searched.pure_epsilon, 2 / threshold + 2 / comparison),
            (vector.curve.pure_epsilon, 1 / Fraction(vector.scale) + answers),
        )
        for cost, exact in costs:
            assert Fraction(cost) >= exact > Fraction(math.nextafter(cost, 0))


@pytest.mark.parametrize(
    ("noise", "c"), [("laplace", 1), ("laplace", 5), ("gaussian", 1), ("gaussian", 5)]
)
def test_the_default_ratio_of_noise_is_the_best(noise: Any, c: int) -> None:
    """Of all ratios with the same price, the default minimizes the variance of answer minus
    threshold.
    """
    given: dict[str, Any] = {
        "threshold": 0.0,
        "scale": 1.0,
        "c": c,
        "noise": noise,
        "sensitivity": TWO_SIDED,
        "candidates": 9,
    }

    def spread(ratio: float | None) -> float:
        at = AboveThreshold(answer_scale=ratio, **given)
        shift, answers = at.answer_shift, at.noise_on_answers
        price = (
            1 + c * shift / answers
            if noise == "laplace"
            else math.sqrt(1 + c * shift**2 / answers**2)
        )
        return price * math.hypot(1.0, answers)

    default = spread(None)
    assert all(
        default <= spread(ratio) * (1 + 1e-12) for ratio in np.geomspace(0.1, 30, 400).tolist()
    )


# -- Theorem V3: what is unstable hardly ever passes -----------------------------------------------


@pytest.mark.parametrize("ratio", [1e-6, 0.2, 0.999999, 1.0, 1.000001, 1.1746, 18.0, 1e6])
@pytest.mark.parametrize("height", [0.0, 1e-9, 0.3, 7.0, 60.0, 700.0])
def test_failure_probability_is_exact(ratio: float, height: float) -> None:
    """Theorem V3: the closed form, continued through its singular point c = 1, in 60 digits."""
    with mp.workdps(60):
        c, d = mp.mpf(ratio), mp.exp(-mp.mpf(height))
        exact = d * (2 + mp.mpf(height)) / 4 if c == 1 else (d**c - c**2 * d) / (2 * (1 - c**2))
        assert log_failure(height, ratio) == pytest.approx(
            float(mp.log(exact)), rel=1e-12, abs=1e-13
        )


@pytest.mark.parametrize("split", [0.05, 0.333, 1 / 3, 0.37, 0.9])
@pytest.mark.parametrize(
    ("epsilon", "delta", "tests"), [(1.0, 1e-6, 50), (0.1, 1e-12, 1), (7.0, 0.3, 2), (1.0, 0.9, 1)]
)
def test_the_threshold_is_the_least_and_on_the_safe_side(
    split: float, epsilon: float, delta: float, tests: int
) -> None:
    """tests * delta_max stays at most delta, and within 1e-9 of it unless the threshold is 0
    already.
    """
    rule = StableRule(epsilon, split, delta, tests)
    spent = tests * math.exp(
        log_failure(rule.threshold / rule.test_scale, rule.test_scale / rule.scale)
    )
    assert spent <= delta
    assert rule.threshold == 0 or spent >= delta * (1 - 1e-9)
    assert rule.curve.pure_epsilon <= epsilon
    assert rule.curve.pure_epsilon >= epsilon * (1 - 1e-15)


def test_the_parts_of_epsilon_ignore_the_callers_decimal_context() -> None:
    """Noise and price are made of two parts of epsilon: a caller with two digits gets the same
    ones, and no more than epsilon.
    """
    rule = StableRule(1.2345678901, 0.37, 1e-6, 3)
    parts = rule.epsilon1, rule.epsilon2
    with localcontext(prec=2, rounding=ROUND_UP):
        assert (rule.epsilon1, rule.epsilon2) == parts
        assert rule.curve.pure_epsilon <= rule.epsilon


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("split", [1e-3, 1e-9])
def test_laws_of_far_apart_scales_are_exact_or_refused(split: float) -> None:
    """A comparison's law of noises whose scales are a thousand times apart adds up to one; it never
    fills the memory.
    """
    mechanism = TopStable(k=3, kbar=6, epsilon=5.0, delta=1e-3, split=split)
    scores = dps.Scores([20, 18, 5, 0], sensitivity=dps.Sensitivity())
    if split == 1e-3:
        assert math.fsum(mechanism.probabilities(scores).values()) == pytest.approx(1.0, abs=1e-12)
    else:
        with pytest.raises(
            dps.errors.NoClosedForm,
            match=r"scale=2e\+08 and 0.4 of the answers' noise are too far apart",
        ):
            mechanism.probabilities(scores)


@pytest.mark.parametrize("split", [0.1, 1 / 3, 0.37, 0.9])
@pytest.mark.parametrize("probability", [1e-4, 0.3, 0.5, 0.9, 0.999])
def test_the_least_gap_of_top_stable_passes_as_often_as_asked(
    split: float, probability: float
) -> None:
    """A gap that is tested alone passes by the exact law with just that probability; where gaps of
    nothing pass as often, none is needed.
    """
    mechanism = TopStable(k=3, kbar=6, epsilon=0.7, delta=1e-5, split=split)
    gap = mechanism.least_gap(probability)
    first, _ = mechanism.rule.first_law(np.array([gap - 1 - mechanism.rule.threshold]))
    assert probability * (1 - 1e-9) <= first <= probability * (1 + 1e-6)
    assert mechanism.least_gap(1e-6) == 1.0
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(dps.errors.InvalidRequest, match="between 0 and 1"):
            mechanism.least_gap(wrong)


def test_huge_scores_keep_their_sensitivity() -> None:
    """Beyond 2^53, where float64 would round a change of 1 to one of 2, scores are clamped: equal
    answers have equal laws.
    """
    mechanism = AboveThreshold(threshold=0.0, scale=1.0)
    laws = [law_of(mechanism, [value]) for value in (2**53 + 1, 2**53 + 2, 2**62)]
    assert laws[0] == laws[1] == laws[2]


def test_threshold_alone_shift_matches_one_answers_change() -> None:
    """Theorem V10's shift: linf over the scale of the answers' noise, one step of distance over
    that of a test.
    """
    two_sided = dps.AboveThreshold(
        threshold=0.0, scale=2.0, answer_scale=8.0, c=3, sensitivity=dps.Sensitivity(monotone=False)
    )
    curve = two_sided.curve
    assert isinstance(curve, acc.curves.SparseVectorDP)
    assert (curve.epsilon2, curve.positives, curve.alone) == (0.75, 3, 0.125)
    one_way = dps.AboveThreshold(threshold=0.0, scale=2.0, answer_scale=8.0, c=3).curve
    assert isinstance(one_way, acc.curves.SparseVectorDP)
    assert (one_way.epsilon2, one_way.alone) == (0.375, None)  # epsilon2/positives is the same
    stable = FirstStable(epsilon=1.0, delta=0.05, candidates=3, split=0.5)
    assert stable.rule.curve.alone == pytest.approx(1 / stable.rule.test_scale, rel=1e-15)
    assert stable.rule.curve.alone >= 1 / stable.rule.test_scale


# -- Theorems V4 and V5: with the answers ----------------------------------------------------------

ANSWERED: list[FirstStable | OnlineStableQueries] = [
    FirstStable(epsilon=1.0, delta=0.05, candidates=3),
    FirstStable(epsilon=4.0, delta=0.01, candidates=3, split=0.6),
    OnlineStableQueries(epsilon=1.0, delta=0.05, c=1),
    OnlineStableQueries(epsilon=3.0, delta=0.01, c=2),
]


@pytest.mark.fast(1)
@pytest.mark.parametrize("mechanism", ANSWERED, ids=str)
def test_the_guarantee_includes_the_true_answers(
    mechanism: FirstStable | OnlineStableQueries,
) -> None:
    """Theorems V4 and V5: released queries together with their exact answers stay within the curve,
    in random small worlds.
    """
    epsilons = levels(mechanism.curve)
    claimed = stated(mechanism.curve, epsilons) * (1 + 1e-9) + 1e-12
    for queries in worlds(3, 12):
        assert np.all(
            worst(itertools.pairwise(answered_laws(mechanism, queries)), epsilons).delta <= claimed
        )


@pytest.mark.parametrize("c", [1, 2, 3])
def test_sparse_vector_run_fails_with_at_most_delta(c: int) -> None:
    """Theorems V3 and V5: however many unstable queries are asked, one passes with probability at
    most delta, nearly reached; a single query at distance 0 passes with exactly that.
    """
    mechanism = OnlineStableQueries(epsilon=2.0, delta=1e-3, c=c)
    for asked in (c, c + 1, 12):
        assert (
            0.99e-3
            < sum(p for chosen, p in law_of(mechanism, np.zeros(asked)).items() if chosen)
            <= 1e-3
        )
    first = FirstStable(epsilon=1.3, delta=0.02, candidates=1, split=(0.1, 1 / 3, 0.37)[c - 1])
    assert law_of(first, [0])[frozenset({0})] == pytest.approx(0.02, rel=1e-9)


@pytest.mark.slow
def test_a_session_follows_the_law_and_ends() -> None:
    """Queries asked one by one have the law of `probabilities`; the c-th unstable one, and no
    other, ends the session.
    """
    mechanism, rng = OnlineStableQueries(epsilon=3.0, delta=0.05, c=2), np.random.default_rng(3)
    steps = (7, 0, 9, 5)
    law = law_of(mechanism, steps)
    seen: list[object] = []
    for _ in range(800):
        session = mechanism.session(rng=rng)
        seen.append(
            frozenset(
                i
                for i, distance in enumerate(steps)
                if session.is_open and session.answer(distance)
            )
        )
        assert session.is_open == (session.unstable < 2)
    assert misfit(seen, law) > FALSE_ALARM
    closed = OnlineStableQueries(epsilon=1.0, delta=1e-9, c=1).session(rng=rng)
    closed.answer(0)
    with pytest.raises(dps.errors.InvalidRequest, match="over"):
        closed.answer(10**6)
    assert repr(closed) == "StableSession(queries=1, unstable=1, is_open=False)"
    with pytest.raises(TypeError):
        closed.__reduce__()


def test_a_session_renews_its_threshold_and_pays_for_every_run() -> None:
    """V5 and F8: after an unstable query the threshold's noise is fresh; each run that one ended is
    paid for, and the open one, up to c. The threshold's noise is five hundred times that of the
    tests, so that kept noise would repeat its answer.
    """
    mechanism = OnlineStableQueries(epsilon=10.0, delta=1e-3, c=60, split=1e-3)
    session, rule = mechanism.session(rng=np.random.default_rng(5)), mechanism.rule
    assert session.close() == acc.Approximate(curve=rule.curve, delta0=1e-3)
    session = mechanism.session(rng=np.random.default_rng(5))
    said = [session.answer(distance) for _ in range(25) for distance in (0, rule.threshold)]
    assert not any(said[::2])
    assert set(said[1::2]) == {True, False}
    assert session.unstable == said.count(False)
    assert session.close() == acc.Approximate(
        curve=(session.unstable + 1) * rule.curve, delta0=1e-3
    )
    last = OnlineStableQueries(epsilon=1.0, delta=1e-9, c=2)
    over = last.session(rng=np.random.default_rng(5))
    assert not any(over.answer(0) for _ in range(2))
    assert over.close() == last.curve


def test_named_groups_are_no_queries() -> None:
    """Their order is that of their scores: one user more moved the only winner to the end."""
    asking = dps.AboveThreshold(threshold=800.0, scale=5.0)
    for mechanism in (asking, *ANSWERED):
        scores = dps.Scores.grouped(
            [900, 901],
            [2, 1],
            sensitivity=mechanism.sensitivity_bound,
            names=lambda places: ["bac"[place] for place in places],
        )
        with pytest.raises(dps.errors.InvalidScores, match="in a public order"):
            mechanism.select(scores)


@pytest.mark.parametrize(
    "distance",
    [
        -1.2345,
        math.nan,
        math.inf,
        "1.2345",
        True,
        None,
        np.complex64(1.2345),
        np.timedelta64(5),
        10**400,
    ],
)
def test_invalid_distances_are_refused_before_a_draw(distance: Any) -> None:
    """A distance is a finite number >= 0; the message of a session does not repeat it. A negative
    one is refused alike by `check`, `select`, `select_many` and `probabilities`, whatever the noise
    and wherever it stands.
    """
    with pytest.raises(dps.errors.InvalidScores) as error:
        OnlineStableQueries(epsilon=1.0, delta=1e-3, c=1).session().answer(distance)
    assert str(error.value).startswith("distance must be a")
    assert "1.2345" not in str(error.value)
    for mechanism in ANSWERED if distance == -1.2345 else ():
        scores = dps.Scores([0, 5, -1], sensitivity=mechanism.sensitivity_bound, kind="utilities")
        one, many = (
            (mechanism.check, mechanism.select, mechanism.probabilities),
            (mechanism.select_many, mechanism.check_many),
        )
        for attempt, given in (
            *((ask, scores) for ask in one),
            *((ask, [[0, 5, -1]]) for ask in many),
        ):
            with pytest.raises(dps.errors.InvalidScores, match="negative"):
                attempt(given)  # type: ignore[operator]


# -- Theorem V6: Top Stable ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_unstable_sets_pass_with_at_most_delta(k: int) -> None:
    """V6: a gap of 1 is a distance of 0, and of kbar such sets, however many are asked for, some
    passes with delta at most, nearly reached; a draw with hardly any noise never releases one, and
    always one whose gap is wide.
    """
    mechanism, unstable = TopStable(k=k, kbar=6, epsilon=1.0, delta=0.02), [6, 5, 4, 3, 2, 1]
    passed = sum(chance for chosen, chance in law_of(mechanism, unstable).items() if chosen)
    assert 0.4 * mechanism.delta < passed <= mechanism.delta
    clear = TopStable(k=k, kbar=6, epsilon=400.0, delta=1e-9)
    counts = dps.Scores(unstable, sensitivity=dps.Sensitivity())
    assert not clear.select(counts).indices
    assert not clear.select_many([unstable] * 5).indices.clip(-1).max(initial=-1) >= 0
    assert (
        len(
            clear.select(
                dps.Scores([2 * count for count in unstable], sensitivity=dps.Sensitivity())
            )
        )
        == k
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_pick_of_a_larger_stable_set_is_paid_for(k: int) -> None:
    """V6: of a set that is twice as large, k items far below the others are released k picks less
    often, and no more.
    """
    mechanism = TopStable(k=k, kbar=2 * k, epsilon=1.0, delta=1e-6, epsilon_em=0.5)
    lower = frozenset(range(k, 2 * k))
    chances = [law_of(mechanism, [*[1010 + more] * k, *[1000] * k, 0])[lower] for more in (0, 1)]
    reached, picks = (
        math.log(chances[0] / chances[1]),
        mechanism.curve.core_epsilon - mechanism.rule.curve.core_epsilon,
    )
    assert 0.95 * picks < reached <= picks * (1 + 1e-9) + mechanism.rule.epsilon
    assert picks == pytest.approx(0.5 * k, rel=1e-12)


# -- Theorem V7: large margin ----------------------------------------------------------------------


@pytest.mark.parametrize("lift", [2**53 - 5, 2**62])
def test_large_margin_distribution_ignores_a_common_shift(lift: int) -> None:
    """Leads are exact at any height: scores beyond 2^53 have the law of the same scores near 0, as
    their draws do.
    """
    mechanism = LargeMargin(epsilon=8.0, delta=0.1)
    assert law_of(mechanism, [7 + lift, 5 + lift, lift]) == law_of(mechanism, [7, 5, 0])


@pytest.mark.parametrize(("size", "failure"), [(1, 0.1), (2, 0.05), (3, 0.3)])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_utility_of_the_large_margin_mechanism(
    size: int, failure: float, monotone: bool
) -> None:
    """Theorem V7: with the lead it asks for, the released score is within the bound of the best but
    for a chance of `failure`.
    """
    mechanism = LargeMargin(epsilon=2.0, delta=0.05, monotone=monotone)
    lead, error = mechanism.needed_lead(size, failure), mechanism.error_bound(size, failure)
    best = 1000.0
    for close in (0.0, 0.3 * error, error, 2 * error):
        top = best - close * np.arange(size) / max(size - 1, 1)
        values = np.append(top, np.full(40, best - lead))
        law = law_of(mechanism, values)
        assert sum(p for i, p in law.items() if values[i] < best - error) <= failure


@pytest.mark.parametrize("span", [1, 2])
def test_the_margins_are_exact_to_a_few_counts(span: int) -> None:
    """Theorem V7: T(r) and the lead in score units; half of delta is the tail of the two noises,
    half that of the choice.
    """
    for e, d, share in ((0.5, 1e-3, 0.4), (1.0, 1e-6, 0.6)):
        mechanism = LargeMargin(epsilon=e, delta=d, monotone=span == 1, split=share)
        threshold, choice = 3 / share, 1 / (1 - share)
        for r in (1, 2, 10):
            ahead = span + choice * span / e * math.log(2 * r / d)
            beyond = (mechanism.margin(r) - ahead) * e / span
            assert math.exp(-2 * beyond / threshold) / 3 == pytest.approx(
                d / (2 * r * (r + 1)), rel=1e-9
            )
            paper = (
                3 * math.log(3 / (2 * d)) + 6 * math.log(3 / d) + 12 * math.log(3 * r * (r + 1) / d)
            ) / e
            assert mechanism.margin(r) < (0.25 if share < 0.5 else 0.2) * span * (
                paper + 6 * (1 + math.log(3 * r / d) / e)
            )
            needed = mechanism.margin(r) + threshold * span / e * math.log(20)
            assert mechanism.needed_lead(r, 0.1) == pytest.approx(needed, rel=1e-12)
            assert mechanism.error_bound(r, 0.1) == pytest.approx(
                choice * span * math.log(20 * r) / e, rel=1e-12
            )
    assert LargeMargin(epsilon=1.0, delta=1e-6, monotone=span == 1).margin(1) == pytest.approx(
        78.0 * span, abs=0.5
    )


def test_margins_beyond_the_floats_are_refused_before_a_charge() -> None:
    """What a draw could not compare is refused by `check`, which comes first."""
    scores = dps.Scores([5, 3, 1], sensitivity=dps.Sensitivity())
    with pytest.raises(dps.errors.InvalidMechanism, match="beyond the floats"):
        LargeMargin(epsilon=1e-307, delta=1e-6).check(scores)
    assert len(LargeMargin(epsilon=1e-305, delta=1e-6).select(scores)) == 1


def test_a_lead_beyond_t_passes_by_mistake_as_often_as_the_margin_allows() -> None:
    """Theorem V7: at a lead of t(r) the exact law of the two noises passes with the probability
    that its proof gives it.
    """
    for monotone, share in ((False, 0.4), (True, 0.4), (True, 0.75)):
        mechanism = LargeMargin(epsilon=1.0, delta=0.01, monotone=monotone, split=share)
        lead = mechanism.sensitivity_bound.range * (1 + math.log(2 / 0.01) / (1 - share))
        passes = float(mechanism._size_law(np.array([lead, 0.0]))[0])
        assert passes == pytest.approx(0.01 / 4, rel=1e-9)


def test_large_margin_composition_cost_is_unchanged() -> None:
    """Theorem V7: thirty uses at epsilon 0.3 cost 4.03, as with a noisy maximum and a margin of
    266.
    """
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8).curve).epsilon(1e-6) == pytest.approx(
        4.026, abs=2e-3
    )
    points = 30 * acc.ApproxDP(epsilon=0.3, delta=1e-8)
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8).curve).epsilon(1e-6) < 0.63 * points.epsilon(
        1e-6
    )
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8, split=0.6).curve).epsilon(
        1e-6
    ) == pytest.approx(4.836, abs=2e-3)
