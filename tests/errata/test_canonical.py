"""Errors of the literature on one-shot and canonical top-k, each with its numeric counter-example
(theory sheet, section 10).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from exact import law_of

import accounting as acc
import dpselect as dps
from dpselect.mechanisms.canonical import CanonicalTopK
from dpselect.mechanisms.noisy_max import OneshotTopK
from dpselect.noise import noise_of
from dpselect.verify.divergences import renyi

TWO_SIDED = dps.Sensitivity(monotone=False)


def law(mechanism: dps.Mechanism, values: Any) -> list[float]:
    """Exact law on scores that the mechanism accepts."""
    return list(law_of(mechanism, values, kind="utilities").values())


def test_erratum_5_values_with_fresh_noise_are_not_covered_by_the_index_theorem() -> None:
    """k=1, m=2, scale 2ks/e at e=1: index and one value with fresh noise of the same scale reach a
    log-ratio of 1.49, not 1.
    """
    published = OneshotTopK(k=1, noise="laplace", scale=2.0, sensitivity=TWO_SIDED)
    index = np.log(law(published, [1.0, 199.0])[0] / law(published, [0.0, 200.0])[0])
    noise, negligible_score = noise_of("laplace"), -50.0
    value = float(
        np.log(noise.pdf((negligible_score - 0.0) / 2) / noise.pdf((negligible_score - 1.0) / 2))
    )
    assert 0.99 <= index <= published.curve.pure_epsilon == 1.0
    assert index + value >= 1.49
    charged = OneshotTopK(k=1, noise="laplace", scale=2.0, sensitivity=TWO_SIDED, value_scale=2.0)
    assert charged.curve == acc.LaplaceDP(epsilon=1.0) + acc.LaplaceDP(epsilon=0.5)
    assert index + value <= charged.curve.pure_epsilon == 1.5


def test_erratum_5_showing_the_noise_that_chose_costs_more_with_every_candidate() -> None:
    """With the winner's own noisy value shown, m = 10 candidates reach a log-ratio of m s/scale = 5
    at a claimed 1.
    """
    noise, scale, low, m = noise_of("laplace"), 2.0, -400.0, 10
    # The winner's density at `low`, times the chance that all others are below it; the neighbor
    # has every score lower by one.
    density = [
        np.log(noise.pdf((low - x) / scale)) + (m - 1) * noise.log_cdf((low - x) / scale)
        for x in (-1.0, 0.0)
    ]
    assert float(density[0] - density[1]) == pytest.approx(5.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_erratum_6_exponential_noise_is_not_bounded_range(k: int) -> None:
    """Canonical top-k with exponential noise exceeds the Renyi bound of bounded range, and e^2/8 by
    far more.
    """
    mechanism, orders = CanonicalTopK(k=k, epsilon=1.0, gamma=1.0, noise="exponential"), [1.1, 2.0]
    worst = np.max(
        [
            renyi(law(mechanism, first), law(mechanism, np.add(first, step)), orders)[:, 0]
            for first in itertools.product((0, 2, 4), repeat=3)
            for step in itertools.product((-1, 0), repeat=3)
        ],
        axis=0,
    )
    assert np.all(worst > 1.5 * acc.BoundedRange(epsilon=1.0).rdp(orders))
    assert np.all(worst <= mechanism.curve.rdp(orders))


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("one_sided", "reached"),
    [
        (CanonicalTopK(k=2, epsilon=1.0, gamma=1.0), 1.9),
        (CanonicalTopK(k=2, epsilon=1.0, gamma=1.0, noise="exponential"), 1.9),
        (OneshotTopK(k=2, noise="exponential", scale=2.0), 1.9),
    ],
    ids=str,
)
def test_erratum_7_two_sided_changes_cost_twice(one_sided: dps.Mechanism, reached: float) -> None:
    """Noise for add_remove counts at e = 1 reaches a log-ratio above 1.9 when scores move both
    ways.
    """
    ratios = []
    for first in itertools.product((0, 3, 20), repeat=4):
        for step in ((1, 1, -1, -1), (1, -1, 1, -1), (-1, 1, 1, -1)):
            p, q = np.array(law(one_sided, first)), np.array(law(one_sided, np.add(first, step)))
            ratios.append(np.abs(np.log(p / q)).max())
    assert one_sided.curve.pure_epsilon == 1.0
    assert max(ratios) > reached
