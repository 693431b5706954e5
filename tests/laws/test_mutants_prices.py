"""Prices 5 % too small: each is a closed form, rounded up, and some pair of neighbours attains it where one does."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats
from test_mutants_laws import CUT, EXACT, LIPSCHITZ

import accounting as acc
import dpselect as dps

WIDE = dps.Sensitivity(linf=0.3, monotone=False)


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
