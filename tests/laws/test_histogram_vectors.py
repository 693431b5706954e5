"""Theorems H2 and H3: what noisy vectors cost, against exact divergences of Laplace and Gaussian vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect.mechanisms.noise_curves import fresh_values, vector, winners_curve

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
    curve = fresh_values(1.0, sensitivity, 2)
    most = min(sensitivity.l1_of(2), 2 * linf)
    splits = [(a, min(most - a, linf)) for a in np.linspace(max(0.0, most - linf), min(linf, most), 7)]
    exact = {e: max(laplace_hockey_stick(a, b, e) for a, b in splits) for e in EPSILONS}
    assert all(exact[e] <= acc.best_delta(curve, e).value + 1e-9 for e in EPSILONS)
    cheaper = fresh_values(1.0 / 0.95, sensitivity, 2)
    renyi = max(acc.LaplaceDP(epsilon=a).rdp([2.0])[0] + acc.LaplaceDP(epsilon=b).rdp([2.0])[0] for a, b in splits)
    assert renyi <= curve.rdp([2.0])[0] * (1 + 1e-12)
    seen = [exact[e] > acc.best_delta(cheaper, e).value + 1e-9 for e in EPSILONS]
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


def test_order_is_shown_exactly_where_it_is_paid_for() -> None:
    """Laplace noise shows the order where l1 is no more than what the set costs, and charges for the set elsewhere."""
    few, many = dps.Sensitivity(l0=4), dps.Sensitivity(l0=6)
    assert dps.OneshotTopK(k=5, noise="laplace", scale=10.0, sensitivity=few).curve == acc.LaplaceDP(epsilon=0.4)
    assert dps.OneshotTopK(k=5, noise="laplace", scale=10.0, sensitivity=few).ordered
    assert dps.OneshotTopK(k=5, noise="laplace", scale=10.0, sensitivity=many).curve == acc.LaplaceDP(epsilon=0.5)
    assert not dps.OneshotTopK(k=5, noise="laplace", scale=10.0, sensitivity=many).ordered
    assert not dps.OneshotTopK(k=5, noise="logistic", scale=10.0, sensitivity=few).ordered
