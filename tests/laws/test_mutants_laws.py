"""Noise 5 % too small in a law: every chance equals a closed form, or an integral over scipy's distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from noise_laws import NOISE_LAWS

import dpselect as dps
from dpselect.noise import LipschitzNoise

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


class Law(NamedTuple):
    """A mechanism by the share of its configured noise, and what the released set or sequence has as its chance at all of it."""

    build: Callable[[float], dps.Mechanism]
    values: list[float]
    outcome: tuple[int, ...]
    exact: float

    def chance(self, share: float) -> float:
        mechanism = self.build(share)
        law = mechanism.probabilities(dps.Scores(self.values, sensitivity=mechanism.covers))
        keys = {
            key: key if isinstance(key, tuple) else tuple(sorted(key)) if isinstance(key, frozenset) else (key,) for key in law
        }
        return sum(law[key] for key, items in keys.items() if items == self.outcome)


def canonical_law(noise: Any, gamma: float) -> Law:
    """Two of three counts 4, 2, 1: each of the three sets competes by its score, with noise of scale 1/epsilon."""
    values, scores = [4.0, 2.0, 1.0], [gamma * 2 - (1 - gamma) * 2, gamma - (1 - gamma) * 2, gamma - (1 - gamma) * 4]
    return Law(
        lambda share: dps.CanonicalTopK(k=2, epsilon=0.9 / share, gamma=gamma, noise=noise),
        values,
        (0, 1),
        first(noise, 1 / 0.9, scores),
    )


def joint_law() -> Law:
    """Softmax of the twelve sequences of two of four, by the larger of the two losses, at half of epsilon."""
    values = [6.0, 4.0, 3.0, 0.0]
    weights = {(i, j): math.exp(-0.7 * max(6 - values[i], 4 - values[j])) for i in range(4) for j in range(4) if i != j}
    return Law(lambda share: dps.JointTopK(k=2, epsilon=1.4 / share), values, (1, 2), weights[1, 2] / sum(weights.values()))


def limited_law(k: int) -> Law:
    """The top counts in order as Gumbel races with a threshold of 1 + ln(2 (1 - delta)/delta)/epsilon above the third count."""
    weights = [math.exp(0.8 * height) for height in (5.0, 3.0)] + [math.exp(0.8) * 2 * 0.99 / 0.01]
    whole = weights[0] / sum(weights) * (1.0 if k == 1 else weights[1] / sum(weights[1:]))
    return Law(lambda share: dps.LimitedDomain(k=k, kbar=2, epsilon=0.8 / share, delta=0.01), [6, 4, 1], tuple(range(k)), whole)


def stability_law(noise: Any, relation: Any, gap: int) -> Law:
    """The noisy gap beyond g passes the quantile of failure_delta."""
    law, g = NOISE_LAWS[noise].scipy, 1 if relation == "add_remove" else 2
    return Law(
        lambda share: dps.StabilityTest(k=1, noise=noise, scale=2.5 * share, failure_delta=0.01, relation=relation),
        [gap, 0],
        (0,),
        float(law.sf(law.isf(0.01) - (gap - g) / 2.5)),
    )


def noisy_law(kind: Any, noise: Any, scale: float, outcome: tuple[int, ...], exact: float) -> Law:
    """Counts 4, 2, 1 and noise of this scale; as many items as the outcome has."""
    k = {} if kind is dps.ReportNoisyMax else {"k": len(outcome)}
    return Law(lambda share: kind(noise=noise, scale=scale * share, candidates=3, **k), ALL, outcome, exact)


ALL = [4.0, 2.0, 1.0]
CHANCES = {
    **{f"noisy max, {noise}": noisy_law(dps.ReportNoisyMax, noise, 0.9, (0,), first(noise, 0.9, ALL)) for noise in NOISE_LAWS},
    **{
        f"one shot, {noise}": noisy_law(dps.OneshotTopK, noise, 0.8, (0, 1), last(noise, 0.8, ALL[::-1]))
        for noise in ("exponential", "laplace", "logistic", "half_logistic")
    },
    **{
        f"peeling, {noise}": noisy_law(dps.PeelingTopK, noise, 1.3, (0, 1), first(noise, 1.3, ALL) * first(noise, 1.3, ALL[1:]))
        for noise in NOISE_LAWS
    },
    **{f"canonical, {noise}, {gamma}": canonical_law(noise, gamma) for noise in LIPSCHITZ for gamma in (0.5, 0.8)},
    "joint": joint_law(),
    "limited domain, one": limited_law(1),
    "limited domain, two": limited_law(2),
    **{
        f"stability test, {noise}, {relation}": stability_law(noise, relation, 7)
        for noise in ("gaussian", "laplace")
        for relation in ("add_remove", "replace_one")
    },
}


@pytest.mark.parametrize("name", CHANCES)
def test_a_law_is_that_of_the_configured_noise(name: str) -> None:
    """The chance of one outcome is its closed form, and with a twentieth less noise it is not."""
    case = CHANCES[name]
    assert case.chance(1.0) == pytest.approx(case.exact, rel=EXACT)
    assert case.chance(CUT) != pytest.approx(case.exact, rel=5e-4)


@pytest.mark.parametrize("noise", ["gaussian", "gumbel"])
def test_an_ordered_one_shot_law_is_that_of_the_configured_noise(noise: Any) -> None:
    """Both orders of the best two add up to the chance that the third is the smallest."""
    values = dps.Scores([3.0, 2.0, 1.0], sensitivity=dps.Sensitivity())

    def together(share: float) -> float:
        law = dps.OneshotTopK(k=2, noise=noise, scale=0.8 * share, candidates=3).probabilities(values)
        return law[0, 1] + law[1, 0]

    assert together(1.0) == pytest.approx(last(noise, 0.8, [1.0, 2.0, 3.0]), rel=EXACT)
    assert together(CUT) != pytest.approx(together(1.0), rel=5e-4)


def test_the_number_of_competitors_is_a_softmax() -> None:
    """With `kbar_least` the thresholds compete first, each by exp(-epsilon * its height)/(size), up to a grid of 2^-20 counts."""

    def chance(share: float) -> float:
        mechanism = dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8 / share, delta=0.01)
        return float(mechanism.probabilities(dps.Scores([6, 4, 1], sensitivity=dps.Sensitivity()))[0,])

    sizes = np.array([math.exp(-0.8 * 3), 1 / 2])
    alone, item, other, odds = math.exp(0.8 * 2), math.exp(0.8 * 5), math.exp(0.8 * 3), math.exp(0.8) * 99
    wins = np.array([alone / (alone + odds), item / (item + other + 2 * odds)])
    assert chance(1.0) == pytest.approx(float(sizes / sizes.sum() @ wins), rel=1e-6)
    assert chance(CUT) != pytest.approx(chance(1.0), rel=5e-4)
