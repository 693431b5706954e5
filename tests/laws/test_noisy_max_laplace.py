"""Theorem N7: noisy maxima are dominated by the Laplace mechanism, and exponential noise attains all of its profile."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from case import COUNTS, HALF, REPLACED

import accounting as acc
import dpselect as dps
from dpselect.noise import LipschitzNoise
from dpselect.sensitivity import Sensitivity
from dpselect.verify.divergences import hockey_stick

NOISES = [name for name in get_args(LipschitzNoise) if name != "gumbel"]
ONE_OF_TWO = [
    dps.PermuteAndFlip(epsilon=1.3),
    dps.PermuteAndFlip(epsilon=0.4, sensitivity=REPLACED),
    dps.ReportNoisyMax(noise="exponential", scale=0.7, sensitivity=HALF),
    dps.PeelingTopK(k=1, noise="exponential", scale=2.0),
    dps.OneshotTopK(k=1, noise="exponential", scale=2.0),
    dps.CanonicalTopK(k=1, epsilon=1.1, gamma=1.0, noise="exponential"),
]


def law(mechanism: dps.Mechanism, values: object) -> np.ndarray:
    """Probabilities of all outcomes, in a fixed order."""
    found = mechanism.probabilities(dps.Scores(values, sensitivity=mechanism.covers, kind="utilities"))
    return np.array([found[o] for o in sorted(found, key=lambda o: sorted(o) if isinstance(o, frozenset) else [o])])


def attained(mechanism: dps.Mechanism, share: float) -> tuple[float, float]:
    """An epsilon, this share of the pure one, and the exact divergence there of the gap that Theorem N7 names."""
    epsilon, width = share * mechanism.curve.pure_epsilon, mechanism.covers.range
    before = -width * (1 + share) / 2
    p, q = law(mechanism, [before + width, 0.0]), law(mechanism, [before, 0.0])
    return epsilon, float(hockey_stick(p, q, epsilon)[0, 0])


@pytest.mark.parametrize("mechanism", ONE_OF_TWO, ids=str)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_exponential_noise_attains_the_laplace_profile(mechanism: dps.Mechanism, share: float) -> None:
    """At every epsilon some two real-valued scores reach the curve's delta, so a curve 5 % lower would be wrong."""
    epsilon, exact = attained(mechanism, share)
    assert exact == pytest.approx(mechanism.curve.delta(epsilon), rel=1e-9)
    assert exact > acc.LaplaceDP(epsilon=0.95 * mechanism.curve.pure_epsilon).delta(epsilon) * 1.02


def _pairs(covers: Sensitivity, candidates: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(candidates)
    starts = covers.range * rng.normal(0, 1.5, (count, candidates))
    return [(s, s + covers.range * rng.integers(0, 2, candidates)) for s in starts]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("k", [1, 2])
def test_real_valued_scores_stay_below(noise: str, k: int) -> None:
    """Neither the winner nor the set of two exceeds the Laplace profile on random real-valued pairs, for any of the noises."""
    mechanism = dps.OneshotTopK(k=k, noise=noise, scale=0.8, sensitivity=COUNTS, candidates=3)
    curve = mechanism.curve
    epsilons = np.linspace(0, curve.pure_epsilon, 7)
    for before, after in _pairs(COUNTS, 3, 6):
        p, q = law(mechanism, before), law(mechanism, after)
        exact = np.maximum(hockey_stick(p, q, epsilons), hockey_stick(q, p, epsilons)).max(axis=1)
        assert np.all(exact <= [curve.profile(float(e)) + 1e-12 for e in epsilons])  # type: ignore[operator]
