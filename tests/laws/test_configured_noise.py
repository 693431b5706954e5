"""What is drawn, what it follows and what it costs: noise and prices of the configured scale, and not of 5 % less."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import pytest
from exact import law_of
from mechanism_laws import cheaper
from noise_laws import NOISE_LAWS
from scipy import stats

import accounting as acc
import dpselect as dps
from dpselect.mechanisms import canonical, joint
from dpselect.mechanisms.canonical import Classes, draw_class, draw_rows
from dpselect.mechanisms.joint import AllowedRanks
from dpselect.mechanisms.ranks import Ranked
from dpselect.noise import LipschitzNoise
from dpselect.sampling import ExactSampler, Sampler, plain

CUT = 0.95
EXACT = 1e-9
LIPSCHITZ = get_args(LipschitzNoise)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def integrated(noise: str, scale: float, values: list[float], side: Callable[[Any], Callable[..., Any]]) -> float:
    """The chance that `side` of the noise puts all others on one side of the first value."""
    law, ahead = NOISE_LAWS[noise].scipy, [(values[0] - other) / scale for other in values[1:]]
    edges = np.unique([*range(-40, 46), *(-step for step in ahead)])
    half = np.diff(edges) / 2
    z = (edges[1:] + edges[:-1])[:, None] / 2 + half[:, None] * _NODES
    return float(((law.pdf(z) * math.prod(side(law)(z + step) for step in ahead)) * _WEIGHTS).sum(axis=1) @ half)


def first(noise: str, scale: float, values: list[float]) -> float:
    """The chance that the first value has the largest noisy score."""
    return integrated(noise, scale, values, lambda law: law.cdf)


def last(noise: str, scale: float, values: list[float]) -> float:
    """The chance that the first value has the smallest noisy score."""
    return integrated(noise, scale, values, lambda law: law.sf)


class Case(NamedTuple):
    """A mechanism, scores, and what a released set or sequence of positions has as its chance."""

    mechanism: Any
    values: list[float]
    outcome: frozenset[int] | tuple[int, ...]
    exact: float

    def chance(self, share: float) -> float:
        """With this share of the noise; of a set, in any order that is released."""
        law = law_of(cheaper(self.mechanism, share), self.values)
        as_set = {key: frozenset((key,) if isinstance(key, int) else key) for key in law}
        return sum(law[key] for key in law if self.outcome in (key, as_set[key]))


ALL = [4.0, 2.0, 1.0]
FIRST, BEST = frozenset({0}), frozenset({0, 1})


def of_all(kind: Any, noise: Any, scale: float, outcome: frozenset[int] | tuple[int, ...], exact: float) -> Case:
    """Counts 4, 2, 1 and noise of this scale; as many items as the outcome has."""
    k = {} if kind is dps.ReportNoisyMax else {"k": len(outcome)}
    return Case(kind(noise=noise, scale=scale, candidates=3, **k), ALL, outcome, exact)


def of_canonical(noise: Any, gamma: float) -> Case:
    """Two of three counts 4, 2, 1: each of the three sets competes by its score, with noise of scale 1/epsilon."""
    scores = [gamma * 2 - (1 - gamma) * 2, gamma - (1 - gamma) * 2, gamma - (1 - gamma) * 4]
    return Case(dps.CanonicalTopK(k=2, epsilon=0.9, gamma=gamma, noise=noise), ALL, BEST, first(noise, 1 / 0.9, scores))


def of_joint() -> Case:
    """Softmax of the twelve sequences of two of four, by the larger of the two losses, at half of epsilon."""
    values = [6.0, 4.0, 3.0, 0.0]
    weights = {(i, j): math.exp(-0.7 * max(6 - values[i], 4 - values[j])) for i in range(4) for j in range(4) if i != j}
    return Case(dps.JointTopK(k=2, epsilon=1.4), values, (1, 2), weights[1, 2] / sum(weights.values()))


def of_limited(k: int) -> Case:
    """The top counts in order as Gumbel races with a threshold of 1 + ln(2 (1 - delta)/delta)/epsilon above the third count."""
    weights = [math.exp(0.8 * height) for height in (5.0, 3.0)] + [math.exp(0.8) * 2 * 0.99 / 0.01]
    whole = weights[0] / sum(weights) * (1.0 if k == 1 else weights[1] / sum(weights[1:]))
    return Case(dps.LimitedDomain(k=k, kbar=2, epsilon=0.8, delta=0.01), [6, 4, 1], tuple(range(k)), whole)


def of_gap(noise: Any, relation: Any) -> Case:
    """The noisy gap of 7 beyond g passes the quantile of failure_delta."""
    law, g = NOISE_LAWS[noise].scipy, 1 if relation == "add_remove" else 2
    mechanism = dps.StabilityTest(k=1, noise=noise, scale=2.5, failure_delta=0.01, relation=relation)
    return Case(mechanism, [7, 0], FIRST, float(law.sf(law.isf(0.01) - (7 - g) / 2.5)))


CHANCES = {
    **{f"noisy max, {noise}": of_all(dps.ReportNoisyMax, noise, 0.9, FIRST, first(noise, 0.9, ALL)) for noise in NOISE_LAWS},
    **{f"one shot, {noise}": of_all(dps.OneshotTopK, noise, 0.8, BEST, last(noise, 0.8, ALL[::-1])) for noise in NOISE_LAWS},
    **{
        f"peeling, {noise}": of_all(dps.PeelingTopK, noise, 1.3, (0, 1), first(noise, 1.3, ALL) * first(noise, 1.3, ALL[1:]))
        for noise in NOISE_LAWS
    },
    **{f"canonical, {noise}, {gamma}": of_canonical(noise, gamma) for noise in LIPSCHITZ for gamma in (0.5, 0.8)},
    "joint": of_joint(),
    "limited domain, one": of_limited(1),
    "limited domain, two": of_limited(2),
    **{f"stability test, {n}, {r}": of_gap(n, r) for n in ("gaussian", "laplace") for r in ("add_remove", "replace_one")},
}


@pytest.mark.parametrize("name", CHANCES)
def test_a_law_is_that_of_the_configured_noise(name: str) -> None:
    """The chance of one outcome is its closed form, and with a twentieth less noise it is not."""
    case = CHANCES[name]
    assert case.chance(1.0) == pytest.approx(case.exact, rel=EXACT)
    assert case.chance(CUT) != pytest.approx(case.exact, rel=5e-4)


def test_the_number_of_competitors_is_a_softmax() -> None:
    """With `kbar_least` the thresholds compete first, each by exp(-epsilon * its height)/(size), up to a grid of 2^-20 counts."""
    sizes = np.array([math.exp(-0.8 * 3), 1 / 2])
    alone, item, other, odds = math.exp(0.8 * 2), math.exp(0.8 * 5), math.exp(0.8 * 3), math.exp(0.8) * 99
    wins = np.array([alone / (alone + odds), item / (item + other + 2 * odds)])
    exact = float(sizes / sizes.sum() @ wins)
    case = Case(dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8, delta=0.01), [6, 4, 1], (0,), exact)
    assert case.chance(1.0) == pytest.approx(exact, rel=1e-6)
    assert case.chance(CUT) != pytest.approx(exact, rel=5e-4)


Patch = pytest.MonkeyPatch
WIDE = dps.Sensitivity(linf=0.3, monotone=False)
ASKED = ("top_k", "top_k_rows", "top_k_grouped", "peel", "ranking", "exceeds")


def recorded(patch: Patch) -> list[tuple[str, float, Any]]:
    """What the sampler is asked for from now on: the noise's name, its scale, the values."""
    calls: list[tuple[str, float, Any]] = []

    def noted(real: Callable[..., Any], at: int) -> Callable[..., Any]:
        def ask(self: Sampler, *given: Any, **named: Any) -> Any:
            calls.append((given[at].name, given[at + 1], np.array(given[0])))
            return real(self, *given, **named)

        return ask

    for name in ASKED:
        patch.setattr(Sampler, name, noted(getattr(Sampler, name), 2 if name == "top_k_grouped" else 1))
    return calls


def drawn(mechanism: dps.Mechanism, values: list[int]) -> None:
    """Draw by the exact path: one vector, grouped where that is allowed, and rows."""
    scores = [dps.Scores(values, sensitivity=mechanism.covers)]
    if mechanism.traits.groups:
        scores.append(dps.Scores.grouped(values, [1] * len(values), sensitivity=mechanism.covers))
    for one in scores:
        mechanism._select(one, ExactSampler(np.random.default_rng(1)))
    mechanism._select_many(np.array([values, values]), ExactSampler(np.random.default_rng(1)))


DRAWN = [
    *(
        kind(noise=noise, scale=0.7, candidates=3)
        for noise in NOISE_LAWS
        for kind in (dps.ReportNoisyMax, partial(dps.OneshotTopK, k=2), partial(dps.PeelingTopK, k=2))
    ),
    dps.OneshotTopK(k=2, noise="laplace", scale=0.7, candidates=3, value_scale=0.7),
    dps.OneshotTopK(k=2, noise="gaussian", scale=0.7, candidates=3, values=True),
]


@pytest.mark.parametrize("mechanism", DRAWN, ids=lambda m: f"{m.kind}, {m.noise}, {m.releases_values}")
def test_a_draw_is_asked_for_with_the_configured_noise(mechanism: Any, monkeypatch: Patch) -> None:
    """The sampler, whose rankings are exact (tests/dpselect/sampling), gets the scores, the noise and its scale as they are."""
    calls = recorded(monkeypatch)
    if mechanism.releases_values:
        mechanism._select(dps.Scores([4, 2, 1], sensitivity=mechanism.covers), ExactSampler(np.random.default_rng(1)))
    else:
        drawn(mechanism, [4, 2, 1])
    assert calls
    for noise, scale, values in calls:
        assert (noise, scale) == (mechanism.noise, 0.7)
        assert set(values.ravel().tolist()) <= {4, 2, 1}


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_gap_is_tested_with_the_configured_noise(noise: Any, relation: Any, monkeypatch: Patch) -> None:
    """What the gap exceeds g by, the noise, its scale and the quantile reach the sampler as they are."""
    calls, levels = recorded(monkeypatch), []
    real = Sampler.exceeds

    def noted(self: Sampler, values: Any, law: Any, scale: float, level: float) -> Any:
        levels.append(level)
        return real(self, values, law, scale, level)

    monkeypatch.setattr(Sampler, "exceeds", noted)
    drawn(dps.StabilityTest(k=1, noise=noise, scale=2.5, failure_delta=0.01, relation=relation), [7, 2])
    assert len(calls) == len(levels) == 2
    assert all((law, scale) == (noise, 2.5) for law, scale, _ in calls)
    assert all(set(values.tolist()) == {4.0 if relation == "add_remove" else 3.0} for *_, values in calls)
    assert levels == pytest.approx([2.5 * NOISE_LAWS[noise].scipy.isf(0.01)] * 2, rel=1e-13)


@pytest.mark.parametrize(("l0", "touched"), [(None, 2), (1, 1)])
def test_limited_domain_is_asked_for_with_its_noise(l0: int | None, touched: int, monkeypatch: Patch) -> None:
    """Gumbel noise of scale 1/epsilon on the counts above the third and on the threshold of Theorem C11; the number of
    competitors is chosen with noise of the same scale."""
    for least, calls_at_least in ((None, 2), (1, 4)):
        with monkeypatch.context() as patch:
            calls = recorded(patch)
            drawn(dps.LimitedDomain(k=1, kbar=2, kbar_least=least, epsilon=0.8, delta=0.01, l0=l0), [6, 4, 1])
        assert len(calls) >= calls_at_least
        assert {(noise, scale) for noise, scale, _ in calls} == {("gumbel", 1 / 0.8)}
        for *_, values in calls if least is None else ():
            assert values[0] == pytest.approx([5, 3, 1 + math.log(touched * 0.99 / 0.01) / 0.8], rel=1e-13)


def test_limited_domain_draws_above_the_floor_it_chose(monkeypatch: Patch) -> None:
    """Of one competitor, heights are above the second count; of two, above the third: 6 - 4, or 6 - 1 and 4 - 1."""
    mechanism = dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8, delta=0.01)
    margins = [1 + math.log(size * 0.99 / 0.01) / 0.8 for size in (1, 2)]
    for place, heights in enumerate(([2, margins[0]], [5, 3, margins[1]])):
        with monkeypatch.context() as patch:
            patch.setattr(dps.LimitedDomain, "_choose", lambda _, floors, *__, at=place: np.full(len(floors), at))
            calls = recorded(patch)
            drawn(mechanism, [6, 4, 1])
        assert len(calls) >= 2
        for _, _, values in calls:
            for row in np.atleast_2d(values):
                assert row == pytest.approx(heights, rel=1e-13)


@pytest.mark.parametrize("noise", LIPSCHITZ)
@pytest.mark.parametrize("sensitivity", [dps.Sensitivity(), WIDE], ids=["counts", "both ways"])
def test_canonical_classes_are_drawn_with_the_configured_noise(noise: Any, sensitivity: Any, monkeypatch: Patch) -> None:
    """Both draws, which are exact (test_exact_draws.py), get noise of scale R/epsilon and the weight gamma."""
    seen: list[tuple[str, float, float]] = []

    def noted(classes: Classes, law: Any, scale: float, source: Sampler) -> Any:
        seen.append((law.name, scale, classes.gamma))
        return draw_class(classes, law, scale, source)

    def noted_rows(matrix: Any, asked: Any, source: Sampler) -> Any:
        seen.append((asked.noise, asked.scale, asked.gamma))
        return draw_rows(matrix, asked, source)

    monkeypatch.setattr(canonical, "draw_class", noted)
    monkeypatch.setattr(canonical, "draw_rows", noted_rows)
    drawn(dps.CanonicalTopK(k=2, epsilon=0.9, gamma=0.8, noise=noise, sensitivity=sensitivity), [4, 2, 1])
    assert [(name, gamma) for name, _, gamma in seen] == [(noise, 0.8)] * 2
    assert [scale for _, scale, _ in seen] == pytest.approx([sensitivity.range / 0.9] * 2, rel=1e-15)


@pytest.mark.parametrize("beta", [None, 0.1])
def test_joint_levels_are_drawn_at_the_configured_rate(beta: float | None, monkeypatch: Patch) -> None:
    """The levels, which are exact (test_exact_draws.py), fall by epsilon/(2 R) and are cut where FastJoint cuts."""
    seen: list[tuple[float, float]] = []

    def noted(ranked: Any, k: int, rate: float, cut: float) -> AllowedRanks:
        seen.append((rate, cut))
        return AllowedRanks(ranked, k, rate, cut)

    monkeypatch.setattr(joint, "AllowedRanks", noted)
    drawn(dps.JointTopK(k=2, epsilon=1.4, beta=beta, sensitivity=dps.Sensitivity(linf=0.5)), [4, 2, 1])
    cut = math.inf if beta is None else math.log(6 / 0.1) / 1.4
    assert seen == [pytest.approx((1.4, cut), rel=1e-14)] * 2


@pytest.mark.parametrize(("behind", "first"), [(1.98, 1), (2.02, 0)])
def test_simulations_add_the_noise_at_its_scale(behind: float, first: int) -> None:
    """A noise of one at scale two makes up for a gap of a little less than two, and for no more."""
    values, draw = np.array([behind, 0.0]), lambda count: np.tile([0.0, 1.0], count // 2)
    assert plain.top_k_rows(np.tile(values, (3, 1)), draw, 2.0, 1)[:, 0].tolist() == [first] * 3
    positions, noisy = plain.above(values, draw, 2.0, -np.inf, 1)
    assert (positions[0], noisy[0]) == (first, max(2.0, behind))


@pytest.mark.parametrize("rate", [0.05, 0.7])
def test_joint_levels_fall_at_the_rate_within_their_cell(rate: float) -> None:
    """A level's bounds lie around the quantile of an exponential law cut to the cell, at the first bits of its uniform number."""
    cells = AllowedRanks(Ranked(dps.Scores([90, 50, 3, 0], sensitivity=dps.Sensitivity())), 2, rate, math.inf)._cells
    cell, words = np.tile(np.arange(len(cells)), 20), ExactSampler(np.random.default_rng(2)).words(20 * len(cells))
    start, width = cells.edges[cell], np.diff(cells.edges)[cell]
    exact = start - np.log1p(words * 2.0**-64 * np.expm1(-2 * rate * width)) / (2 * rate)
    for bound in cells.within(cell, words):
        assert bound == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert width.max() * 2 * rate > 0.1


def charged(noise: Any, sensitivity: dps.Sensitivity, share: float) -> list[tuple[dps.Mechanism, int]]:
    """Mechanisms of one noise of scale .7 among six candidates, and how many ranges over scales they are charged for."""
    given: dict[str, Any] = {"noise": noise, "scale": 0.7 * share, "sensitivity": sensitivity, "candidates": 6}
    symmetric = noise in ("laplace", "logistic")
    return [
        (dps.ReportNoisyMax(**given), 1),
        (dps.PeelingTopK(k=3, **given), 3),
        *((dps.OneshotTopK(k=k, **given), min(k, 6 - k) if symmetric else k) for k in (2, 4)),
    ]


@pytest.mark.parametrize("sensitivity", [dps.Sensitivity(), WIDE], ids=["counts", "both ways"])
@pytest.mark.parametrize("noise", LIPSCHITZ)
def test_a_price_is_the_range_over_the_scale(noise: Any, sensitivity: dps.Sensitivity) -> None:
    """Each round of noisy max, peeling and one shot costs R/b as a rational, rounded up by a few units in the last place."""
    ulps = Fraction(1, 10**15)
    for mechanism, rounds in charged(noise, sensitivity, 1.0):
        exact = rounds * Fraction(sensitivity.range) / Fraction(0.7)
        assert exact * (1 - ulps / 10) <= Fraction(mechanism.curve.core_epsilon) <= exact * (1 + ulps)
    for mechanism, rounds in charged(noise, sensitivity, 1 / CUT):
        assert mechanism.curve.core_epsilon < 0.96 * rounds * sensitivity.range / 0.7


def gaussian_rdp(order: float, sensitivity: dps.Sensitivity, scale: float, *, winner: bool) -> float:
    """Theorems C9 and H2 for six candidates: without the mean at most R sqrt(6)/2 moves; a winner has the union bound too."""
    norms = [sensitivity.range**2 * 6 / 4]
    if sensitivity.l0 is not None:
        norms.append(sensitivity.linf**2 * max(raised * (1 - raised / 6) for raised in range(sensitivity.l0 + 1)))
    whole = order * min(norms) / scale**2 / 2
    return min(whole, union_rdp(order, sensitivity.range / scale, 6)) if winner else whole


def union_rdp(order: float, mu: float, outcomes: int) -> float:
    """Theorem C9 for so many outcomes, each of which moves by mu at most: beyond some order a larger one says more."""
    at = max(order, 1 + math.sqrt(2 * math.log(outcomes)) / mu)
    return at * mu**2 / 2 + math.log(outcomes) / (at - 1)


@pytest.mark.parametrize("l0", [1, 3])
def test_few_answers_of_a_user_cost_that_many_laplace_draws(l0: int) -> None:
    """Theorem H10: where the threshold's own noise would cost more, l0 answers each pay linf over their noise."""
    few = dps.AboveThreshold(threshold=1.0, scale=0.1, answer_scale=1.1, sensitivity=dps.Sensitivity(linf=0.3, l0=l0)).curve
    exact = l0 * acc.LaplaceDP(epsilon=0.3 / 1.1)
    assert few.pure_epsilon == pytest.approx(l0 * 0.3 / 1.1, rel=1e-12)
    assert few.rdp(8.0) == pytest.approx(exact.rdp(8.0), rel=1e-9)
    assert few.rdp(1.5) <= exact.rdp(1.5) * (1 + 1e-9)  # one answer above may cost less than all three (Theorem V10)


@pytest.mark.parametrize("l0", [None, 1, 4])
@pytest.mark.parametrize("monotone", [True, False])
def test_a_gaussian_threshold_costs_its_closed_form(l0: int | None, monotone: bool) -> None:
    """Theorem V2 for six queries and two answers above, 22 outcomes; and all answers that one user moves."""
    sensitivity = dps.Sensitivity(linf=0.3, l0=l0, monotone=monotone)
    given: dict[str, Any] = {"threshold": 1.0, "noise": "gaussian", "c": 2, "candidates": 6, "sensitivity": sensitivity}
    moved = (0.3 / 0.7) ** 2 + 2 * (sensitivity.range / 1.1) ** 2
    for order in (1.5, 8.0, 200.0):
        exact = min(order * (l0 or 6) * (0.3 / 1.1) ** 2 / 2, union_rdp(order, math.sqrt(moved), 22))
        assert float(dps.AboveThreshold(scale=0.7, answer_scale=1.1, **given).curve.rdp(order)) == pytest.approx(exact, rel=1e-12)
        assert float(dps.AboveThreshold(scale=0.7 / CUT, answer_scale=1.1 / CUT, **given).curve.rdp(order)) < 0.97 * exact


@pytest.mark.parametrize(
    "sensitivity",
    [dps.Sensitivity(), dps.Sensitivity(l0=2), dps.Sensitivity(l0=4), WIDE],
    ids=["counts", "two items", "most items", "both ways"],
)
@pytest.mark.parametrize("scale", [0.7, 9.0])
def test_a_gaussian_price_is_its_closed_form(sensitivity: dps.Sensitivity, scale: float) -> None:
    """Gaussian noisy max, peeling and one shot cost what the two theorems say, at orders where either of them is the smaller."""
    for order in (1.5, 8.0, 200.0):
        one, whole = (gaussian_rdp(order, sensitivity, scale, winner=winner) for winner in (True, False))
        given: dict[str, Any] = {"noise": "gaussian", "sensitivity": sensitivity, "candidates": 6}
        for kind, k, exact in ((dps.ReportNoisyMax, 0, one), (dps.PeelingTopK, 3, 3 * one), (dps.OneshotTopK, 3, whole)):
            asked = {**given, **({"k": k} if k else {})}
            assert float(kind(scale=scale, **asked).curve.rdp(order)) == pytest.approx(exact, rel=1e-12)
            assert float(kind(scale=scale / CUT, **asked).curve.rdp(order)) < 0.97 * exact


@pytest.mark.parametrize("noise", [*LIPSCHITZ, "gaussian"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_price_in_epsilon_is_spent_as_noise(noise: Any, relation: Any) -> None:
    """Canonical, joint, LimitedDomain and the stability test: price times scale is what one user moves, as a rational."""
    covers = dps.Sensitivity(linf=0.3, relation=relation)
    ratios = [Fraction((found := dps.JointTopK(k=2, epsilon=0.7, sensitivity=covers)).curve.epsilon0) / Fraction(found.rate)]
    ratios[0] /= 2 * Fraction(covers.range)
    if noise != "gaussian":
        chosen = dps.CanonicalTopK(k=2, epsilon=0.7, noise=noise, sensitivity=covers)
        ratios.append(Fraction(chosen.curve.core_epsilon) * Fraction(chosen.scale) / Fraction(covers.range))
    if noise == "gumbel":
        for k, least in ((1, None), (2, None), (2, 2)):
            limited = dps.LimitedDomain(k=k, kbar=3, kbar_least=least, epsilon=0.7, delta=0.01)
            assert limited.curve.delta0 == 0.01
            ratios.append(Fraction(limited.curve.core_epsilon) * Fraction(limited._scale) / (k + (least is not None)))
    if noise in ("gaussian", "laplace"):
        tested = dps.StabilityTest(k=2, noise=noise, scale=2.7, failure_delta=0.01, relation=relation)
        assert isinstance(tested.curve, acc.Approximate)
        assert tested.curve.delta0 == 0.01
        core = tested.curve.curve
        moved = core.mu if isinstance(core, acc.GaussianDP) else core.core_epsilon
        ratios.append(Fraction(moved) * Fraction(2.7) / (1 if relation == "add_remove" else 2))
    for ratio in ratios:
        assert 1 <= ratio <= 1 + Fraction(1, 10**15)


# -- attained pairs -------------------------------------------------------------------------------------------------------------


SPENT: dict[str, dps.Mechanism] = {
    **{f"noisy max, {noise}": dps.ReportNoisyMax(noise=noise, scale=1.0) for noise in LIPSCHITZ},
    **{
        f"one shot, {noise}": dps.OneshotTopK(k=2, noise=noise, scale=1.0, candidates=4)
        for noise in ("exponential", "laplace", "logistic")
    },
    **{f"peeling, {noise}": dps.PeelingTopK(k=2, noise=noise, scale=1.0) for noise in LIPSCHITZ},
    **{f"canonical, {noise}": dps.CanonicalTopK(k=2, epsilon=1.0, noise=noise, top_set="gap") for noise in LIPSCHITZ},
    "joint": dps.JointTopK(k=2, epsilon=1.0),
}


def ratios(mechanism: dps.Mechanism, before: Any, moved: Any) -> Any:
    """(outcomes,) logarithms of the chances of the neighbours' outcomes, subtracted."""
    pair = [
        np.log(list(mechanism.probabilities(dps.Scores(np.array(v), sensitivity=mechanism.covers)).values()))
        for v in (before, np.add(before, moved))
    ]
    return pair[1] - pair[0]


@pytest.mark.parametrize("name", SPENT)
def test_some_pair_attains_the_price(name: str) -> None:
    """Of rankings with a wide gap some neighbours differ by more than 96 % of the epsilon, and none by more than all of it.

    For one draw of a whole set or sequence under Gumbel noise what is promised is the range of the log-ratios.
    """
    mechanism = SPENT[name]
    by_range = name in ("joint", "canonical, gumbel")
    found = [
        ratios(mechanism, [0, 0, *after], moved)
        for after in ((0, 60), (60, 60))
        for moved in ((1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (0, 0, 1, 0))
    ]
    most = max(np.ptp(logs) if by_range else np.abs(logs).max() for logs in found)
    whole = mechanism.curve.core_epsilon
    assert 0.96 * whole < most <= whole * (1 + EXACT)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", [dps.ReportNoisyMax, dps.OneshotTopK, dps.StabilityTest])
def test_a_gaussian_comparison_attains_the_price(kind: Any, relation: Any) -> None:
    """One yes or no by Gaussian noise is as telling as the whole noise at one epsilon, where delta is attained."""
    covers = dps.Sensitivity(relation=relation)
    if kind is dps.StabilityTest:
        test = dps.StabilityTest(k=1, scale=2.0, failure_delta=0.01, relation=relation)
        core = cast(acc.Approximate, test.curve).curve
        moved, spread, level = (1 if relation == "add_remove" else 2), 2.0, 2.0 * float(stats.norm.isf(0.01))
        chances = [
            sum(p for o, p in test.probabilities(dps.Scores([n + moved, 0], sensitivity=covers)).items() if o) for n in (0, moved)
        ]
    else:
        k = {"k": 1} if kind is dps.OneshotTopK else {}
        mechanism = kind(noise="gaussian", scale=2.0, candidates=2, sensitivity=covers, **k)
        core, moved, spread, level = mechanism.curve, int(covers.range), 2.0 * math.sqrt(2), 3.0
        step = (1, 0) if relation == "add_remove" else (1, -1)
        chances = [
            next(iter(mechanism.probabilities(dps.Scores(v, sensitivity=covers, kind="utilities")).values()))
            for v in ([0.0, level], [step[0], level + step[1]])
        ]
    epsilon = (2 * level * moved - moved**2) / (2 * spread**2)
    delta = chances[1] - math.exp(epsilon) * chances[0]
    assert delta == pytest.approx(acc.GaussianDP(mu=moved / spread).profile(epsilon), rel=EXACT)
    assert delta <= core.delta(epsilon) <= delta * (1 + 1e-6)


def test_limited_domain_attains_its_delta() -> None:
    """A single item of a single user comes out with exactly delta, whatever epsilon is."""
    seen = dps.Scores([1], labels=["x"], sensitivity=dps.Sensitivity(), domain="observed")
    for epsilon in (0.1, 1.0, 5.0):
        mechanism = dps.LimitedDomain(k=1, kbar=1, epsilon=epsilon, delta=0.01)
        assert 0.01 * (1 - 1e-9) < mechanism.probabilities(seen)[0,] <= mechanism.curve.delta0
