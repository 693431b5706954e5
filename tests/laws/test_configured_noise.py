"""What is drawn, what it follows and what it costs: noise and prices of the configured scale, and
not of 5 % less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from exact import law_of
from mechanism_laws import cheaper
from noise_laws import NOISE_LAWS
from scipy import stats

import accounting as acc
import dpselect as dps
from dpselect.mechanisms import canonical, joint
from dpselect.mechanisms.joint import AllowedRanks
from dpselect.noise import LipschitzNoise
from dpselect.sampling import ExactSampler, Sampler, plain
from dpselect.sampling.ranked import Ranked

CUT = 0.95
EXACT = 1e-9
LIPSCHITZ = get_args(LipschitzNoise)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def integrated(
    noise: str, scale: float, values: list[float], side: Callable[[Any], Callable[..., Any]]
) -> float:
    """The chance that `side` of the noise puts all others on one side of the first value."""
    law, ahead = NOISE_LAWS[noise].scipy, [(values[0] - other) / scale for other in values[1:]]
    edges = np.unique([*range(-40, 46), *(-step for step in ahead)])
    half = np.diff(edges) / 2
    z = (edges[1:] + edges[:-1])[:, None] / 2 + half[:, None] * _NODES
    return float(
        ((law.pdf(z) * math.prod(side(law)(z + step) for step in ahead)) * _WEIGHTS).sum(axis=1)
        @ half
    )


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


def of_all(
    kind: Any, noise: Any, scale: float, outcome: frozenset[int] | tuple[int, ...], exact: float
) -> Case:
    """Counts 4, 2, 1 and noise of this scale; as many items as the outcome has."""
    k = {} if kind is dps.ReportNoisyMax else {"k": len(outcome)}
    return Case(kind(noise=noise, scale=scale, candidates=3, **k), ALL, outcome, exact)


def of_canonical(noise: Any, gamma: float) -> Case:
    """Two of three counts 4, 2, 1: each of the three sets competes by its score, with noise of
    scale 1/epsilon.
    """
    scores = [gamma * 2 - (1 - gamma) * 2, gamma - (1 - gamma) * 2, gamma - (1 - gamma) * 4]
    return Case(
        dps.CanonicalTopK(k=2, epsilon=0.9, gamma=gamma, noise=noise),
        ALL,
        BEST,
        first(noise, 1 / 0.9, scores),
    )


def of_joint() -> Case:
    """Softmax of the twelve sequences of two of four, by the larger of the two losses, at half of
    epsilon.
    """
    values = [6.0, 4.0, 3.0, 0.0]
    weights = {
        (i, j): math.exp(-0.7 * max(6 - values[i], 4 - values[j]))
        for i in range(4)
        for j in range(4)
        if i != j
    }
    return Case(
        dps.JointTopK(k=2, epsilon=1.4), values, (1, 2), weights[1, 2] / sum(weights.values())
    )


def of_limited(k: int) -> Case:
    """The top counts in order as Gumbel races with a threshold of 1 + ln(2 (1 -
    delta)/delta)/epsilon above the third count.
    """
    weights = [math.exp(0.8 * height) for height in (5.0, 3.0)] + [math.exp(0.8) * 2 * 0.99 / 0.01]
    whole = weights[0] / sum(weights) * (1.0 if k == 1 else weights[1] / sum(weights[1:]))
    return Case(
        dps.LimitedDomain(k=k, kbar=2, epsilon=0.8, delta=0.01), [6, 4, 1], tuple(range(k)), whole
    )


def of_gap(noise: Any, relation: Any) -> Case:
    """The noisy gap of 7 beyond g passes the quantile of failure_delta."""
    law, g = NOISE_LAWS[noise].scipy, 1 if relation == "add_remove" else 2
    mechanism = dps.StabilityTest(
        k=1, noise=noise, scale=2.5, failure_delta=0.01, relation=relation
    )
    return Case(mechanism, [7, 0], FIRST, float(law.sf(law.isf(0.01) - (7 - g) / 2.5)))


CHANCES = {
    **{
        f"noisy max, {noise}": of_all(dps.ReportNoisyMax, noise, 0.9, FIRST, first(noise, 0.9, ALL))
        for noise in NOISE_LAWS
    },
    **{
        f"one shot, {noise}": of_all(dps.OneshotTopK, noise, 0.8, BEST, last(noise, 0.8, ALL[::-1]))
        for noise in NOISE_LAWS
    },
    **{
        f"peeling, {noise}": of_all(
            dps.PeelingTopK, noise, 1.3, (0, 1), first(noise, 1.3, ALL) * first(noise, 1.3, ALL[1:])
        )
        for noise in NOISE_LAWS
    },
    **{
        f"canonical, {noise}, {gamma}": of_canonical(noise, gamma)
        for noise in LIPSCHITZ
        for gamma in (0.5, 0.8)
    },
    "joint": of_joint(),
    "limited domain, one": of_limited(1),
    "limited domain, two": of_limited(2),
    **{
        f"stability test, {n}, {r}": of_gap(n, r)
        for n in ("gaussian", "laplace")
        for r in ("add_remove", "replace_one")
    },
}


@pytest.mark.parametrize("name", CHANCES)
def test_a_law_is_that_of_the_configured_noise(name: str) -> None:
    """The chance of one outcome is its closed form, and with a twentieth less noise it is not."""
    case = CHANCES[name]
    assert case.chance(1.0) == pytest.approx(case.exact, rel=EXACT)
    assert case.chance(CUT) != pytest.approx(case.exact, rel=5e-4)


def test_the_number_of_competitors_is_a_softmax() -> None:
    """With `kbar_least` the thresholds compete first, each by exp(-epsilon * its height)/(size), up
    to a grid of 2^-20 counts.
    """
    sizes = np.array([math.exp(-0.8 * 3), 1 / 2])
    alone, item, other, odds = (
        math.exp(0.8 * 2),
        math.exp(0.8 * 5),
        math.exp(0.8 * 3),
        math.exp(0.8) * 99,
    )
    wins = np.array([alone / (alone + odds), item / (item + other + 2 * odds)])
    exact = float(sizes / sizes.sum() @ wins)
    case = Case(
        dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8, delta=0.01),
        [6, 4, 1],
        (0,),
        exact,
    )
    assert case.chance(1.0) == pytest.approx(exact, rel=1e-6)
    assert case.chance(CUT) != pytest.approx(exact, rel=5e-4)


Patch = pytest.MonkeyPatch
WIDE = dps.Sensitivity(linf=0.3, monotone=False)


def recorded(patch: Patch) -> list[tuple[str, float, Any]]:
    """What a draw is asked for from now on: the noise's name, its scale, and the numbers that it is
    added to or compared with.

    Of canonical classes gamma, of joint levels their rate and cut: their draws are exact
    (test_exact_draws.py).
    """
    calls: list[tuple[str, float, Any]] = []

    def noted(owner: Any, name: str, read: Callable[..., tuple[Any, ...]]) -> None:
        real = getattr(owner, name)

        def ask(*given: Any, **named: Any) -> Any:
            noise, scale, *numbers = read(*given)
            calls.append(
                (
                    getattr(noise, "name", noise),
                    scale,
                    np.concatenate([np.ravel(one) for one in numbers]),
                )
            )
            return real(*given, **named)

        patch.setattr(owner, name, ask)

    for name in ("top_k", "top_k_rows", "peel", "ranking"):
        noted(Sampler, name, lambda _, values, noise, scale, *__: (noise, scale, values))
    noted(
        Sampler, "top_k_grouped", lambda _, values, __, noise, scale, *___: (noise, scale, values)
    )
    noted(Sampler, "exceeds", lambda _, values, noise, scale, level: (noise, scale, values, level))
    noted(canonical, "draw_class", lambda classes, noise, scale, _: (noise, scale, classes.gamma))
    noted(canonical, "draw_rows", lambda _, layout, noise, scale, __: (noise, scale, layout.gamma))
    noted(joint, "AllowedRanks", lambda _, __, rate, cut: ("levels", rate, cut))
    return calls


def drawn(mechanism: dps.Mechanism, values: list[int]) -> None:
    """Draw by the exact path: one vector, grouped where that is allowed, and rows."""
    scores = [dps.Scores(values, sensitivity=mechanism.sensitivity_bound)]
    if mechanism.traits.groups:
        scores.append(
            dps.Scores.grouped(values, [1] * len(values), sensitivity=mechanism.sensitivity_bound)
        )
    for one in scores:
        mechanism._select(one, ExactSampler(np.random.default_rng(1)))
    mechanism._select_many(np.array([values, values]), ExactSampler(np.random.default_rng(1)))


class Asked(NamedTuple):
    """A mechanism, the noise and scale that a draw from some values is asked for with, and all
    numbers that occur.
    """

    mechanism: Any
    noise: str
    scale: float
    numbers: tuple[float, ...]
    values: tuple[int, ...] = (4, 2, 1)


def margin(touched: int) -> float:
    """The threshold of Theorem C11."""
    return 1 + math.log(touched * 0.99 / 0.01) / 0.8


def limited(**given: Any) -> dps.LimitedDomain:
    """One item of at most two."""
    return dps.LimitedDomain(**{"k": 1, "kbar": 2, "epsilon": 0.8, "delta": 0.01, **given})


ASKED = [
    *(
        Asked(kind(noise=noise, scale=0.7, candidates=3), noise, 0.7, (4, 2, 1))
        for noise in NOISE_LAWS
        for kind in (
            dps.ReportNoisyMax,
            partial(dps.OneshotTopK, k=2),
            partial(dps.PeelingTopK, k=2),
        )
    ),
    Asked(
        dps.OneshotTopK(k=2, noise="laplace", scale=0.7, candidates=3, value_scale=0.7),
        "laplace",
        0.7,
        (4, 2, 1),
    ),
    Asked(
        dps.OneshotTopK(k=2, noise="gaussian", scale=0.7, candidates=3, values=True),
        "gaussian",
        0.7,
        (4, 2, 1),
    ),
    # What the gap exceeds g by, and the quantile.
    *(
        Asked(
            dps.StabilityTest(k=1, noise=noise, scale=2.5, failure_delta=0.01, relation=relation),  # type: ignore[arg-type]
            noise,
            2.5,
            (5.0 - g, 2.5 * NOISE_LAWS[noise].scipy.isf(0.01)),
            (7, 2),
        )
        for noise in ("gaussian", "laplace")
        for relation, g in (("add_remove", 1), ("replace_one", 2))
    ),
    # The counts above the third, and the threshold; with `kbar_least` the number of competitors is
    # chosen first.
    *(
        Asked(limited(l0=l0), "gumbel", 1 / 0.8, (5, 3, margin(n)), (6, 4, 1))
        for l0, n in ((None, 2), (1, 1))
    ),
    Asked(limited(kbar_least=1), "gumbel", 1 / 0.8, (), (6, 4, 1)),
    *(
        Asked(
            dps.CanonicalTopK(k=2, epsilon=0.9, gamma=0.8, noise=noise, sensitivity=covers),
            noise,
            covers.range / 0.9,
            (0.8,),
        )
        for noise in LIPSCHITZ
        for covers in (dps.Sensitivity(), WIDE)
    ),
    *(
        Asked(
            dps.JointTopK(k=2, epsilon=1.4, beta=beta, sensitivity=dps.Sensitivity(linf=0.5)),
            "levels",
            1.4,
            (cut,),
        )
        for beta, cut in ((None, math.inf), (0.1, math.log(6 / 0.1) / 1.4))
    ),
]


@pytest.mark.parametrize("case", ASKED, ids=lambda case: f"{case.mechanism!r}")
def test_a_draw_is_asked_for_with_the_configured_noise(case: Asked, monkeypatch: Patch) -> None:
    """The sampler, whose rankings are exact (tests/dpselect/sampling), gets the scores or what is
    made of them, the noise and its scale as they are; likewise canonical classes and joint levels.
    """
    calls, mechanism = recorded(monkeypatch), case.mechanism
    if mechanism.releases_values:
        mechanism._select(
            dps.Scores(case.values, sensitivity=mechanism.sensitivity_bound),
            ExactSampler(np.random.default_rng(1)),
        )
    else:
        drawn(mechanism, list(case.values))
    assert len(calls) >= (1 if mechanism.releases_values else 2)
    for noise, scale, numbers in calls:
        assert (noise, scale) == (case.noise, pytest.approx(case.scale, rel=1e-14))
        known = [np.isclose(number, case.numbers, rtol=1e-13, atol=0).any() for number in numbers]
        assert all(known) or not case.numbers


def test_limited_domain_draws_above_the_floor_it_chose(monkeypatch: Patch) -> None:
    """Of one competitor, heights are above the second count; of two, above the third: 6 - 4, or 6 -
    1 and 4 - 1.
    """
    for place, heights in enumerate(([2, margin(1)], [5, 3, margin(2)])):
        with monkeypatch.context() as patch:
            patch.setattr(
                dps.LimitedDomain,
                "_choose",
                lambda _, floors, *__, at=place: np.full(len(floors), at),
            )
            calls = recorded(patch)
            drawn(limited(kbar_least=1), [6, 4, 1])
        assert len(calls) >= 2
        for _, _, values in calls:
            for row in values.reshape(-1, len(heights)):
                assert row == pytest.approx(heights, rel=1e-13)


@pytest.mark.parametrize(("behind", "first"), [(1.98, 1), (2.02, 0)])
def test_simulations_add_the_noise_at_its_scale(behind: float, first: int) -> None:
    """A noise of one at scale two makes up for a gap of a little less than two, and for no more."""
    values, draw = np.array([behind, 0.0]), lambda count: np.tile([0.0, 1.0], count // 2)
    assert plain.top_k_rows(np.tile(values, (3, 1)), draw, 2.0, 1)[:, 0].tolist() == [first] * 3
    positions, noisy = plain.above(values, draw, 2.0, -np.inf, 1)
    assert (positions[0], noisy[0]) == (first, max(2.0, behind))


@pytest.mark.parametrize("rate", [0.05, 0.7])
def test_joint_levels_fall_at_the_rate_within_their_cell(rate: float) -> None:
    """A level's bounds lie around the quantile of an exponential law cut to the cell, at the first
    bits of its uniform number.
    """
    cells = AllowedRanks(Ranked(np.array([90, 50, 3, 0])), 2, rate, math.inf)._cells
    cell, words = (
        np.tile(np.arange(len(cells)), 20),
        ExactSampler(np.random.default_rng(2)).words(20 * len(cells)),
    )
    start, width = cells.edges[cell], np.diff(cells.edges)[cell]
    exact = start - np.log1p(words * 2.0**-64 * np.expm1(-2 * rate * width)) / (2 * rate)
    for bound in cells.within(cell, words):
        assert bound == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert width.max() * 2 * rate > 0.1


def priced(kind: Any, k: int, scale: float, **given: Any) -> dps.Mechanism:
    """A mechanism among six candidates."""
    mechanism: dps.Mechanism = kind(scale=scale, candidates=6, **({"k": k} if k else {}), **given)
    return mechanism


@pytest.mark.parametrize("sensitivity", [dps.Sensitivity(), WIDE], ids=["counts", "both ways"])
@pytest.mark.parametrize("noise", LIPSCHITZ)
def test_a_price_is_the_range_over_the_scale(noise: Any, sensitivity: dps.Sensitivity) -> None:
    """Each round of noisy max, peeling and one shot costs R/b as a rational, rounded up by a few
    units in the last place.
    """
    ulps, symmetric = Fraction(1, 10**15), noise in ("laplace", "logistic")
    for kind, k, rounds in (
        (dps.ReportNoisyMax, 0, 1),
        (dps.PeelingTopK, 3, 3),
        *((dps.OneshotTopK, k, min(k, 6 - k) if symmetric else k) for k in (2, 4)),
    ):
        full, less = (
            priced(kind, k, scale, noise=noise, sensitivity=sensitivity)
            for scale in (0.7, 0.7 / CUT)
        )
        exact = rounds * Fraction(sensitivity.range) / Fraction(0.7)
        assert exact * (1 - ulps / 10) <= Fraction(full.curve.core_epsilon) <= exact * (1 + ulps)
        assert less.curve.core_epsilon < 0.96 * exact


def gaussian_rdp(
    order: float, sensitivity: dps.Sensitivity, scale: float, *, winner: bool
) -> float:
    """Theorems C9 and H2 for six candidates: without the mean at most R sqrt(6)/2 moves; a winner
    has the union bound too.
    """
    norms = [sensitivity.range**2 * 6 / 4]
    if sensitivity.l0 is not None:
        norms.append(
            sensitivity.linf**2
            * max(raised * (1 - raised / 6) for raised in range(sensitivity.l0 + 1))
        )
    whole = order * min(norms) / scale**2 / 2
    return min(whole, union_rdp(order, sensitivity.range / scale, 6)) if winner else whole


def union_rdp(order: float, mu: float, outcomes: int) -> float:
    """Theorem C9 for so many outcomes, each of which moves by mu at most: beyond some order a
    larger one says more.
    """
    at = max(order, 1 + math.sqrt(2 * math.log(outcomes)) / mu)
    return at * mu**2 / 2 + math.log(outcomes) / (at - 1)


@pytest.mark.parametrize("l0", [1, 3])
def test_few_answers_of_a_user_cost_that_many_laplace_draws(l0: int) -> None:
    """Theorem H10: where the threshold's own noise would cost more, l0 answers each pay linf over
    their noise.
    """
    few = dps.AboveThreshold(
        threshold=1.0, scale=0.1, answer_scale=1.1, sensitivity=dps.Sensitivity(linf=0.3, l0=l0)
    ).curve
    exact = l0 * acc.LaplaceDP(epsilon=0.3 / 1.1)
    assert few.pure_epsilon == pytest.approx(l0 * 0.3 / 1.1, rel=1e-12)
    assert few.rdp(8.0) == pytest.approx(exact.rdp(8.0), rel=1e-9)
    # one answer above may cost less than all three (Theorem V10)
    assert few.rdp(1.5) <= exact.rdp(1.5) * (1 + 1e-9)


@pytest.mark.parametrize("l0", [None, 1, 4])
@pytest.mark.parametrize("monotone", [True, False])
def test_a_gaussian_threshold_costs_its_closed_form(l0: int | None, monotone: bool) -> None:
    """Theorem V2 for six queries and two answers above, 22 outcomes; and all answers that one user
    moves.
    """
    sensitivity = dps.Sensitivity(linf=0.3, l0=l0, monotone=monotone)
    given: dict[str, Any] = {
        "threshold": 1.0,
        "noise": "gaussian",
        "c": 2,
        "candidates": 6,
        "sensitivity": sensitivity,
    }
    moved = (0.3 / 0.7) ** 2 + 2 * (sensitivity.range / 1.1) ** 2
    for order in (1.5, 8.0, 200.0):
        exact = min(
            order * (l0 or 6) * (0.3 / 1.1) ** 2 / 2, union_rdp(order, math.sqrt(moved), 22)
        )
        assert float(
            dps.AboveThreshold(scale=0.7, answer_scale=1.1, **given).curve.rdp(order)
        ) == pytest.approx(exact, rel=1e-12)
        assert (
            float(
                dps.AboveThreshold(scale=0.7 / CUT, answer_scale=1.1 / CUT, **given).curve.rdp(
                    order
                )
            )
            < 0.97 * exact
        )


@pytest.mark.parametrize(
    "sensitivity",
    [dps.Sensitivity(), dps.Sensitivity(l0=2), dps.Sensitivity(l0=4), WIDE],
    ids=["counts", "two items", "most items", "both ways"],
)
@pytest.mark.parametrize("scale", [0.7, 9.0])
def test_a_gaussian_price_is_its_closed_form(sensitivity: dps.Sensitivity, scale: float) -> None:
    """Gaussian noisy max, peeling and one shot cost what the two theorems say, at orders where
    either of them is the smaller.
    """
    for order in (1.5, 8.0, 200.0):
        one, whole = (
            gaussian_rdp(order, sensitivity, scale, winner=winner) for winner in (True, False)
        )
        for kind, k, exact in (
            (dps.ReportNoisyMax, 0, one),
            (dps.PeelingTopK, 3, 3 * one),
            (dps.OneshotTopK, 3, whole),
        ):
            full, less = (
                priced(kind, k, b, noise="gaussian", sensitivity=sensitivity)
                for b in (scale, scale / CUT)
            )
            assert float(full.curve.rdp(order)) == pytest.approx(exact, rel=1e-12)
            assert float(less.curve.rdp(order)) < 0.97 * exact


@pytest.mark.parametrize("noise", [*LIPSCHITZ, "gaussian"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_epsilon_times_scale_equals_the_score_change(noise: Any, relation: Any) -> None:
    """One winner, canonical, joint, LimitedDomain and the stability test: price times scale is what
    one user moves, as a rational.
    """
    covers = dps.Sensitivity(linf=0.3, relation=relation)
    ratios = [
        Fraction((found := dps.JointTopK(k=2, epsilon=0.7, sensitivity=covers)).curve.epsilon0)
        / Fraction(found.rate)
    ]
    ratios[0] /= 2 * Fraction(covers.range)
    if noise != "gaussian":
        chosen = dps.CanonicalTopK(k=2, epsilon=0.7, noise=noise, sensitivity=covers)
        ratios.append(
            Fraction(chosen.curve.core_epsilon) * Fraction(chosen.scale) / Fraction(covers.range)
        )
    if noise == "gumbel":
        for kind in (dps.ExponentialMechanism, dps.PermuteAndFlip):
            one = kind(epsilon=0.7, sensitivity=covers)
            ratios.append(Fraction(0.7) * Fraction(one.scale) / Fraction(covers.range))
        for k, least in ((1, None), (2, None), (2, 2)):
            limited = dps.LimitedDomain(k=k, kbar=3, kbar_least=least, epsilon=0.7, delta=0.01)
            assert limited.curve.delta0 == 0.01
            ratios.append(
                Fraction(limited.curve.core_epsilon)
                * Fraction(limited._scale)
                / (k + (least is not None))
            )
    if noise in ("gaussian", "laplace"):
        tested = dps.StabilityTest(
            k=2, noise=noise, scale=2.7, failure_delta=0.01, relation=relation
        )
        assert isinstance(tested.curve, acc.Approximate)
        assert tested.curve.delta0 == 0.01
        core = tested.curve.curve
        moved = core.mu if isinstance(core, acc.GaussianDP) else core.core_epsilon
        ratios.append(Fraction(moved) * Fraction(2.7) / (1 if relation == "add_remove" else 2))
    for ratio in ratios:
        assert 1 <= ratio <= 1 + Fraction(1, 10**15)


# -- attained pairs --------------------------------------------------------------------------------


SPENT: dict[str, dps.Mechanism] = {
    **{f"noisy max, {noise}": dps.ReportNoisyMax(noise=noise, scale=1.0) for noise in LIPSCHITZ},
    **{
        f"one shot, {noise}": dps.OneshotTopK(k=2, noise=noise, scale=1.0, candidates=4)
        for noise in ("exponential", "laplace", "logistic")
    },
    **{f"peeling, {noise}": dps.PeelingTopK(k=2, noise=noise, scale=1.0) for noise in LIPSCHITZ},
    **{
        f"canonical, {noise}": dps.CanonicalTopK(k=2, epsilon=1.0, noise=noise, top_set="gap")
        for noise in LIPSCHITZ
    },
    "joint": dps.JointTopK(k=2, epsilon=1.0),
}


@pytest.mark.parametrize("name", SPENT)
def test_some_pair_attains_the_price(name: str) -> None:
    """Of rankings with a wide gap some neighbors differ by more than 96 % of the epsilon, and none
    by more than all of it.

    For one draw of a whole set or sequence under Gumbel noise what is promised is the range of the
    log-ratios.
    """
    mechanism, by_range = SPENT[name], name in ("joint", "canonical, gumbel")
    most = 0.0
    for after, moved in itertools.product(
        ((0, 60), (60, 60)),
        ((1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (0, 0, 1, 0)),
    ):
        before = np.array([0, 0, *after])
        logs = np.subtract(
            *(np.log([*law_of(mechanism, v).values()]) for v in (before + moved, before))
        )
        most = max(most, np.ptp(logs) if by_range else np.abs(logs).max())
    whole = mechanism.curve.core_epsilon
    assert 0.96 * whole < most <= whole * (1 + EXACT)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", [dps.ReportNoisyMax, dps.OneshotTopK, dps.StabilityTest])
def test_a_gaussian_comparison_attains_the_price(kind: Any, relation: Any) -> None:
    """One yes or no by Gaussian noise is as telling as the whole noise at one epsilon, where delta
    is attained.
    """
    moved = 1 if relation == "add_remove" else 2
    if kind is dps.StabilityTest:
        mechanism: Any = dps.StabilityTest(k=1, scale=2.0, failure_delta=0.01, relation=relation)
        core, spread, level = mechanism.curve.curve, 2.0, 2.0 * float(stats.norm.isf(0.01))
        chances = [
            sum(p for o, p in law_of(mechanism, [n + moved, 0]).items() if o) for n in (0, moved)
        ]
    else:
        covers = dps.Sensitivity(relation=relation)
        k = {"k": 1} if kind is dps.OneshotTopK else {}
        mechanism = kind(noise="gaussian", scale=2.0, candidates=2, sensitivity=covers, **k)
        core, spread, level = mechanism.curve, 2.0 * math.sqrt(2), 3.0
        pair = [0.0, level], [1.0, level + 1.0 - moved]
        chances = [next(iter(law_of(mechanism, v, kind="utilities").values())) for v in pair]
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
