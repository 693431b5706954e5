"""Theorems H2, H3, H10 and N8: what noisy vectors and orders cost, against exact divergences of Laplace and Gaussian vectors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import best_delta
from dpselect.mechanisms.noise_curves import vector
from dpselect.mechanisms.noisy_max import winners_curve

EPSILONS = (0.0, 0.2, 0.5, 0.9)


def laplace_hockey_stick(first: float, second: float, epsilon: float) -> float:
    """H of Lap x Lap shifted by (first, second), noise scale 1: the loss of the second coordinate integrated in closed form.

    The loss of a coordinate shifted by s is s at half of its mass, -s at exp(-s)/2, and has density exp((y - s)/2)/4 between.
    """

    def profile(y: float) -> float:  # of the first coordinate, for any y
        if y >= first:
            return 0.0
        return 1 - np.exp((y - first) / 2) if y >= -first else 1 - np.exp(y)

    edges = np.unique(np.clip([-second, second, epsilon - first, epsilon + first], -second, second))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = 0.5 * profile(epsilon - second) + 0.5 * np.exp(-second) * profile(epsilon + second)
    for low, high in itertools.pairwise(edges):
        points = (low + high) / 2 + (high - low) / 2 * nodes
        total += (
            (high - low)
            / 2
            * sum(w * np.exp((y - second) / 2) / 4 * profile(epsilon - y) for w, y in zip(weights, points, strict=True))
        )
    return float(total)


def test_the_oracle_is_the_closed_form_of_one_coordinate() -> None:
    """With one coordinate the hockey-stick divergence is that of LaplaceDP."""
    for epsilon in EPSILONS:
        assert laplace_hockey_stick(1.0, 0.0, epsilon) == pytest.approx(acc.LaplaceDP(epsilon=1.0).delta(epsilon), abs=1e-12)


@pytest.mark.parametrize(("l0", "linf", "l1"), [(2, 1.0, None), (None, 0.75, 1.0), (2, 0.6, 1.0), (1, 1.0, None)])
def test_values_after_selection_cost_what_a_vector_costs(l0: int | None, linf: float, l1: float | None) -> None:
    """H3 covers every split of the allowed change among two values, and 5 % less would not."""
    sensitivity = dps.Sensitivity(linf=linf, l0=l0, l1=l1)
    curve = vector("laplace", 1.0, sensitivity, 2)
    most = min(sensitivity.l1_of(2), 2 * linf)
    splits = [(a, min(most - a, linf)) for a in np.linspace(max(0.0, most - linf), min(linf, most), 7)]
    exact = {e: max(laplace_hockey_stick(a, b, e) for a, b in splits) for e in EPSILONS}
    assert all(exact[e] <= best_delta(curve, e).value + 1e-9 for e in EPSILONS)
    cheaper = vector("laplace", 1.0 / 0.95, sensitivity, 2)
    renyi = max(acc.LaplaceDP(epsilon=a).rdp([2.0])[0] + acc.LaplaceDP(epsilon=b).rdp([2.0])[0] for a, b in splits)
    assert renyi <= curve.rdp([2.0])[0] * (1 + 1e-12)
    seen = [exact[e] > best_delta(cheaper, e).value + 1e-9 for e in EPSILONS]
    assert any(seen) or renyi > cheaper.rdp([2.0])[0]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_vector_costs_its_norm(noise: str) -> None:
    """H2 is attained by a change of one score: the curve is that of the scalar mechanism, for any k."""
    sensitivity = dps.Sensitivity(linf=1.0, l0=1)
    scalar = acc.GaussianDP(mu=0.5) if noise == "gaussian" else acc.LaplaceDP(epsilon=0.5)
    assert vector(noise, 2.0, sensitivity, None) == scalar  # type: ignore[arg-type]
    for k in (1, 5, 500):
        assert winners_curve(noise, 2.0, sensitivity, None, k) == scalar  # type: ignore[arg-type]
        assert dps.OneshotTopK(k=k, noise=noise, scale=2.0, sensitivity=sensitivity).ordered  # type: ignore[arg-type]


def test_the_price_of_an_order_is_attained() -> None:
    """One item per user: the order of two items, far apart, tells as much as the l1 norm allows, so 1 % less noise is seen.

    The lower of two Laplace draws, D noise units behind, wins with probability (2 + D) exp(-D)/4 (Theorem M4).
    """
    mechanism = dps.OneshotTopK(k=2, noise="laplace", scale=0.8, sensitivity=dps.Sensitivity(l0=1))

    def log_chance(lead: float) -> float:
        return float(np.log(2 + lead / 0.8) - lead / 0.8 - np.log(4))

    near = mechanism.probabilities(dps.Scores([0, 9], sensitivity=mechanism.covers))
    assert np.log(near[0, 1]) == pytest.approx(log_chance(9), rel=1e-6)
    ratio = log_chance(199) - log_chance(200)
    assert 0.99 * mechanism.curve.pure_epsilon < ratio <= mechanism.curve.pure_epsilon


@pytest.mark.parametrize(("linf", "l0", "l1"), [(1.0, 2, 1.4), (0.6, 3, 1.0), (0.5, 2, 1.0), (1.0, 5, 1.2), (0.7, None, 1.0)])
@pytest.mark.parametrize("delta_side", [0.0, 0.2, 0.5, 0.9])
def test_a_laplace_vector_is_attained(linf: float, l0: int | None, l1: float, delta_side: float) -> None:
    """H10: the price is the divergence of the most concentrated change, to 1e-4 of it, at every epsilon below the l1 norm."""
    curve = vector("laplace", 1.0, dps.Sensitivity(linf=linf, l0=l0, l1=l1), None)
    epsilon = delta_side * l1
    exact = laplace_hockey_stick(linf, l1 - linf, epsilon)
    assert exact <= best_delta(curve, epsilon).value <= exact * (1 + 1e-4)
    assert curve.core_epsilon == pytest.approx(l1, rel=1e-12)


@pytest.mark.slow
def test_concentrated_changes_are_the_worst() -> None:
    """H10's lemma: with the sum fixed, the hockey-stick divergence of two coordinates does not fall as they move apart."""
    for total in (0.3, 1.0, 2.5, 6.0):
        for epsilon in np.linspace(0, total, 9)[:-1]:
            spread = [laplace_hockey_stick(total - low, low, float(epsilon)) for low in np.linspace(0, total / 2, 13)]
            assert np.all(np.diff(spread) <= 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "logistic"])
@pytest.mark.parametrize("k", [2, 3])
def test_the_order_costs_what_the_set_does_under_smooth_noise(noise: Any, k: int) -> None:
    """N8: no ordered top k moves by more than LaplaceDP(k R/b), which is reached far out: 5 % less would not be enough."""
    covers = dps.Sensitivity(monotone=False, linf=0.5)
    mechanism = dps.OneshotTopK(k=k, noise=noise, scale=1.0, sensitivity=covers)
    assert mechanism.ordered
    assert mechanism.curve == acc.LaplaceDP(epsilon=float(k))
    worst = dps.verify.worst_case(mechanism, candidates=k + 1, highest=3, epsilons=EPSILONS)
    assert worst.pure_epsilon <= k
    assert all(d <= mechanism.curve.delta(e) for e, d in zip(worst.epsilons, worst.delta, strict=True))

    def chance(top: float, rest: float) -> float:
        law = mechanism.probabilities(dps.Scores([*[top] * k, *[rest] * (k + 2)], sensitivity=covers, kind="utilities"))
        return float(law[tuple(range(k))])

    ratio = float(np.log(chance(-20.0, 20.0) / chance(-20.5, 20.5)))  # the k rise by 1/2 each and the others fall by 1/2
    assert 0.95 * k < ratio <= k * (1 + 1e-9)


def test_order_is_shown_exactly_where_it_is_paid_for() -> None:
    """Smooth noise shows the order unless its complement, or the family of Theorem M2, makes the set alone cheaper."""

    def made(noise: Any, l0: int | None, candidates: int | None = None, k: int = 5) -> dps.OneshotTopK:
        return dps.OneshotTopK(k=k, noise=noise, scale=10.0, sensitivity=dps.Sensitivity(l0=l0), candidates=candidates)

    tenth, half = 4 * acc.LaplaceDP(epsilon=0.1), acc.LaplaceDP(epsilon=0.5)
    assert made("laplace", 4).curve == tenth
    assert made("laplace", 6).curve == acc.tighter(6 * acc.LaplaceDP(epsilon=0.1), half)
    assert made("laplace", None).curve == made("logistic", 4).curve == half
    assert all(made(*given).ordered for given in (("laplace", 4), ("laplace", 6), ("laplace", None), ("logistic", 4)))
    assert not made("laplace", 6, candidates=8).ordered  # the complement of 3
    assert made("laplace", 2, candidates=8).ordered  # a vector that costs less than any set
    assert not made("laplace", None, candidates=10_000, k=400).ordered  # the family
    assert not any(made(noise, 4).ordered for noise in ("exponential", "half_logistic"))
