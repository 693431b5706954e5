"""The sparse vector family: the common laws, the proofs' own steps, and what may influence a release."""

from __future__ import annotations

import math
from decimal import ROUND_UP, localcontext
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from case import TWO_SIDED
from spread import spread

import accounting as acc
import dpselect as dps
from accounting.convert.renyi import largest_over_order
from accounting.curves.sparse_vector import SparseVectorDP
from dpselect import verify
from dpselect.mechanisms.above_threshold import AboveThreshold
from dpselect.mechanisms.stable_queries import FirstStable, StableRule, TopStable, log_failure
from dpselect.verify.divergences import renyi

# About 150 chi-square tests at 1e-10 each.
FALSE_ALARM = 1e-10


# -- Theorems V1 and V2: the sparse vector technique ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon1", [1e-9, 1e-3, 0.4, 2.0, 50.0])
@pytest.mark.parametrize("epsilon2", [1e-9, 1e-3, 0.7, 3.0, 50.0])
def test_the_curve_is_its_formula(epsilon1: float, epsilon2: float) -> None:
    """Theorems V1 and N7: rdp is the smaller of the two bounds, in 60 digits; rho bounds rdp/order and is its limit at 1."""
    orders = 1 + np.geomspace(1e-6, 1e5, 23)
    curve = SparseVectorDP(epsilon1=epsilon1, epsilon2=epsilon2)
    with mp.workdps(60):
        exact = [_formula(mp.mpf(epsilon1), mp.mpf(epsilon2), mp.mpf(float(a))) for a in orders]
    assert curve.rdp(orders) == pytest.approx(np.array([float(e) for e in exact]), rel=1e-12)
    assert np.all(curve.rdp(orders) <= orders * curve.rho * (1 + 1e-12))
    assert curve.rdp(orders)[0] == pytest.approx(curve.rho, rel=1e-2)
    assert curve.pure_epsilon == pytest.approx(epsilon1 + epsilon2, rel=1e-15)


def _formula(e1: mp.mpf, e2: mp.mpf, a: mp.mpf) -> mp.mpf:
    e = e1 + e2
    whole, threshold = (
        mp.log(a / (2 * a - 1) * mp.exp((a - 1) * x) + (a - 1) / (2 * a - 1) * mp.exp(-a * x)) / (a - 1) for x in (e, e1)
    )
    return min(whole, threshold + e2)


# -- Theorem V8: many answers above ---------------------------------------------------------------------------------------------


def _known_threshold(shift: float, c: int, place: float, order: float, queries: int = 3000, *, rising: bool = False) -> float:
    """Renyi divergence of the run of `queries` equal comparisons up to the c-th above, the threshold being known.

    Backward over all patterns at once: each is a product of F and S, and its neighbour's of the same with the argument raised."""
    above, above_too = 1 - math.exp(-place * shift) / 2, math.exp((place - 1) * shift) / 2
    if rising:
        above, above_too = above_too, above
    stop = above**order * above_too ** (1 - order)
    go = (1 - above) ** order * (1 - above_too) ** (1 - order)
    moments = np.ones(c + 1)
    for _ in range(queries):
        moments[1:] = go * moments[1:] + stop * moments[:-1]
    return math.log(moments[-1]) / (order - 1)


def test_given_the_threshold_a_run_is_not_pure() -> None:
    """Theorem V1 adds the constant epsilon2, not PureDP(epsilon2): for a known threshold equal comparisons exceed that."""
    assert 1.5 * acc.PureDP(epsilon=0.1).rdp(2.0) < _known_threshold(0.1, 1, 0.0, 2.0) < 0.1


@pytest.mark.fast(4)
@pytest.mark.parametrize(("epsilon2", "c"), [(1.0, 1), (0.5, 5), (3.0, 20), (1.0, 100)])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 100.0])
def test_what_many_answers_add_is_attained(epsilon2: float, c: int, order: float) -> None:
    """Theorem V8 is the worst run of equal comparisons with a known threshold, to 1 %: a bound 5 % lower would be wrong."""
    exact = max(_known_threshold(epsilon2 / c, c, place, order) for place in np.linspace(0, 1, 41).tolist())
    curve = SparseVectorDP(epsilon1=1e-12, epsilon2=epsilon2, positives=c)
    claimed = float(curve._answers(np.array([order]))[0])
    assert exact <= claimed * (1 + 1e-9)
    assert claimed <= 1.01 * exact


@pytest.mark.slow
@pytest.mark.parametrize(("alone", "c"), spread([(0.1, 5), (0.02, 20), (0.005, 100), (0.3, 1)], 2))
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_what_answers_cost_beside_a_threshold_that_tells_nothing_is_attained(alone: float, c: int, order: float) -> None:
    """Theorem V10 is the worst run of equal comparisons, of answers that fall or rise, to 2 %, where it is of use."""
    places = np.linspace(0, 1, 41).tolist()
    curve = SparseVectorDP(epsilon1=60.0, epsilon2=2 * alone * c, positives=c, alone=alone)
    claimed = float(curve._without_threshold(np.array([order]))[0])
    if order < (order - 1) * math.exp(alone):
        assert claimed == math.inf
        return
    falls = max(_known_threshold(alone, c, place, order) for place in places)
    rises = max(_known_threshold(alone, c, place, order, rising=True) for place in places)
    assert max(falls, rises) <= claimed * (1 + 1e-9)
    assert claimed <= 1.02 * max(falls, rises) or max(falls, rises) > curve.epsilon2


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1)])
@pytest.mark.parametrize("level", spread([0.0, -1.0, 2.0], 1))
def test_a_whole_sparse_vector_with_many_answers_stays_below_its_curve(signs: tuple[int, ...], level: float) -> None:
    """Theorem V10, exactly: 24 equal answers, up to 12 above, each moved by 1 up or down in turn, threshold averaged over."""
    c, scale, answers = 12, 8.0, 4.0
    mechanism = AboveThreshold(threshold=0.0, scale=scale, answer_scale=answers, c=c, sensitivity=TWO_SIDED)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    y = np.concatenate([np.sign(side) * scale * (1 + nodes) * 10 for side in (-1, 1)])
    density = np.tile(weights, 2) * scale * 10 * np.exp(-np.abs(y) / scale) / (2 * scale)
    first = _patterns(np.full(24, level), y, density, answers, c)
    second = _patterns(level + np.resize(signs, 24), y, density, answers, c)
    orders = (1.5, 2.0, 4.0)
    for p, q in ((first, second), (second, first)):
        assert np.all(renyi(p[None], q[None], orders)[:, 0] <= mechanism.curve.rdp(orders) * (1 + 1e-6))


def _patterns(answers: np.ndarray, y: np.ndarray, density: np.ndarray, scale: float, c: int) -> np.ndarray:
    """Chances of the numbers of answers above, after an even and an odd place, when the run ends: coarser than the patterns."""
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
    """Theorems V8 and V10: below epsilon2 at every order, rdp does not fall with the order, and rho is no more than it needs."""
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


@pytest.mark.parametrize(("epsilon1", "epsilon2", "c"), [(0.1, 1.0, 10), (1.0, 1.0, 1), (0.2, 2.0, 4)])
def test_rho_of_answers_is_their_divergence_for_each_one_above(epsilon1: float, epsilon2: float, c: int) -> None:
    """Theorem V8 towards order 1: that of the threshold, and c times the largest divergence of a comparison over its chance.

    Within a hundredth of a scan over all places of the comparison, and never below it.
    """

    def above(place: np.ndarray) -> np.ndarray:
        return np.where(place > 0, np.exp(-np.abs(place)) / 2, 1 - np.exp(-np.abs(place)) / 2)

    at, shift = np.linspace(-10, 10, 200_001), epsilon2 / c
    passes, fails, then_passes, then_fails = above(at), above(-at), above(at + shift), above(-at - shift)
    divergence = passes * np.log(passes / then_passes) + fails * np.log(fails / then_fails)
    exact = math.exp(-epsilon1) - 1 + epsilon1 + c * float((divergence / passes).max())
    assert exact <= SparseVectorDP(epsilon1=epsilon1, epsilon2=epsilon2, positives=c).rho <= 1.01 * exact


@pytest.mark.parametrize("curve", [acc.GaussianDP(mu=0.3), acc.LaplaceDP(epsilon=20.0), acc.PureDP(epsilon=0.1)])
def test_rho_between_orders_is_that_of_the_chord(curve: acc.Curve) -> None:
    """Of exact divergences on the grid of orders alone: never below their own rho, and less than a hundredth above it."""
    found = largest_over_order(curve.rdp, curve.rho)
    assert curve.rho <= found <= 1.01 * curve.rho


def test_a_thousand_answers_need_a_fifth_of_the_noise() -> None:
    """AboveThreshold with c = 1000 at (1, 1e-6): a deviation of 280 of answer minus threshold, where V1 alone asked for 1435."""
    wanted = acc.Budget(epsilon=1.0, delta=1e-6)
    scale = acc.calibrate(lambda x: AboveThreshold(threshold=0.0, scale=x, c=1000).curve, wanted)
    assert math.sqrt(2) * scale * math.hypot(1, 10) < 290


def _opposed(queries: int, answer: float, relation: acc.arguments.Relation) -> tuple[dps.Scores, dps.Scores]:
    """Equal answers; one user moves all but the last up and, where a user can, the last down."""
    sensitivity = dps.Sensitivity(relation=relation)
    move = np.append(np.ones(queries - 1), -1.0 if relation == "replace_one" else 0.0)
    base = np.full(queries, answer)
    return tuple(dps.Scores(v, sensitivity=sensitivity, kind="utilities") for v in (base, base + move))  # type: ignore[return-value]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_pure_guarantee_is_exact(relation: acc.arguments.Relation) -> None:
    """Theorem V1 cannot be improved: with many queries far below the threshold the log-ratio reaches epsilon1 + epsilon2."""
    mechanism = AboveThreshold(threshold=0.0, scale=1.0, answer_scale=1.5, sensitivity=dps.Sensitivity(relation=relation))
    worst_ratio = 0.0
    for answer in (-1.0, 3.0, 8.0, 14.0):
        laws = [mechanism.probabilities(s) for s in _opposed(40, answer, relation)]
        table = np.array([[law[key] for key in laws[0]] for law in laws])
        claimed = mechanism.curve.rdp(verify.ORDERS)
        for p, q in ((table[0], table[1]), (table[1], table[0])):
            assert np.all(renyi(p, q, verify.ORDERS)[:, 0] <= claimed * (1 + 1e-9))
            worst_ratio = max(worst_ratio, float(np.log(p / q).max()))
    assert 0.999 * mechanism.curve.pure_epsilon < worst_ratio <= mechanism.curve.pure_epsilon * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_a_price_of_two_noises_is_their_sum_rounded_up_once(seed: int) -> None:
    """Not the sum of two that were rounded to floats, whose decimals may lie below both."""
    rng = np.random.default_rng(seed)
    for epsilon, scale in np.exp(rng.uniform(-9, 5, (50, 2))).tolist():
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


@pytest.mark.parametrize(("noise", "c"), [("laplace", 1), ("laplace", 5), ("gaussian", 1), ("gaussian", 5)])
def test_the_default_ratio_of_noise_is_the_best(noise: Any, c: int) -> None:
    """Of all ratios with the same price, the default minimises the variance of answer minus threshold."""

    def spread(ratio: float | None) -> float:
        at = AboveThreshold(
            threshold=0.0,
            scale=1.0,
            answer_scale=ratio,
            c=c,
            noise=noise,
            sensitivity=TWO_SIDED,
            candidates=9,
        )
        shift, answers = at.answer_shift, at.noise_on_answers
        price = 1 + c * shift / answers if noise == "laplace" else math.sqrt(1 + c * shift**2 / answers**2)
        return price * math.hypot(1.0, answers)

    default = spread(None)
    assert all(default <= spread(ratio) * (1 + 1e-12) for ratio in np.geomspace(0.1, 30, 400).tolist())


# -- Theorem V3: what is unstable hardly ever passes ----------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1e-6, 0.2, 0.999999, 1.0, 1.000001, 1.1746, 18.0, 1e6])
@pytest.mark.parametrize("height", [0.0, 1e-9, 0.3, 7.0, 60.0, 700.0])
def test_failure_probability_is_exact(ratio: float, height: float) -> None:
    """Theorem V3: the closed form, continued through its singular point c = 1, in 60 digits."""
    with mp.workdps(60):
        c, d = mp.mpf(ratio), mp.exp(-mp.mpf(height))
        exact = d * (2 + mp.mpf(height)) / 4 if c == 1 else (d**c - c**2 * d) / (2 * (1 - c**2))
        assert log_failure(height, ratio) == pytest.approx(float(mp.log(exact)), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("split", [0.05, 0.333, 1 / 3, 0.37, 0.9])
@pytest.mark.parametrize(("epsilon", "delta", "tests"), [(1.0, 1e-6, 50), (0.1, 1e-12, 1), (7.0, 0.3, 2), (1.0, 0.9, 1)])
def test_the_threshold_is_the_least_and_on_the_safe_side(split: float, epsilon: float, delta: float, tests: int) -> None:
    """tests * delta_max stays at most delta, and within 1e-9 of it unless the threshold is 0 already."""
    rule = StableRule(epsilon, split, delta, tests)
    spent = tests * math.exp(log_failure(rule.threshold / rule.test_scale, rule.test_scale / rule.scale))
    assert spent <= delta
    assert rule.threshold == 0 or spent >= delta * (1 - 1e-9)
    assert rule.curve.pure_epsilon <= epsilon
    assert rule.curve.pure_epsilon >= epsilon * (1 - 1e-15)


def test_the_parts_of_epsilon_ignore_the_callers_decimal_context() -> None:
    """Noise and price are made of two parts of epsilon: a caller with two digits gets the same ones, and no more than epsilon."""
    rule = StableRule(1.2345678901, 0.37, 1e-6, 3)
    parts = rule.epsilon1, rule.epsilon2
    with localcontext() as context:
        context.prec, context.rounding = 2, ROUND_UP
        assert (rule.epsilon1, rule.epsilon2) == parts
        assert rule.curve.pure_epsilon <= rule.epsilon


@pytest.mark.parametrize("split", [0.1, 1 / 3, 0.37])
def test_failure_probability_agrees_with_the_law(split: float) -> None:
    """A single query at distance 0 passes with exactly the failure probability that the rule allows."""
    mechanism = FirstStable(epsilon=1.3, delta=0.02, candidates=1, split=split)
    law = mechanism.probabilities(dps.Scores([0], sensitivity=mechanism.covers))
    assert law[frozenset({0})] == pytest.approx(0.02, rel=1e-9)


# -- refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("split", [1e-3, 1e-9])
def test_laws_of_far_apart_scales_are_exact_or_refused(split: float) -> None:
    """A comparison's law of noises whose scales are a thousand times apart adds up to one; it never fills the memory."""
    mechanism = TopStable(k=3, kbar=6, epsilon=5.0, delta=1e-3, split=split)
    scores = dps.Scores([20, 18, 5, 0], sensitivity=dps.Sensitivity())
    if split == 1e-3:
        assert math.fsum(mechanism.probabilities(scores).values()) == pytest.approx(1.0, abs=1e-12)
    else:
        with pytest.raises(dps.errors.NoClosedForm, match=r"scale=2e\+08 and 0.4 of the answers' noise are too far apart"):
            mechanism.probabilities(scores)


def test_huge_scores_keep_their_sensitivity() -> None:
    """Beyond 2^53, where float64 would round a change of 1 to one of 2, scores are clamped: equal answers have equal laws."""
    mechanism = AboveThreshold(threshold=0.0, scale=1.0)
    laws = [
        mechanism.probabilities(dps.Scores([value], sensitivity=dps.Sensitivity())) for value in (2**53 + 1, 2**53 + 2, 2**62)
    ]
    assert laws[0] == laws[1] == laws[2]
