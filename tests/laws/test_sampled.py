"""Noise on a secret Poisson sample, for groups of users (P11), and very many steps, against exact
laws.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from mpmath import mp
from pairs import delta, renyi
from scipy.stats import binom, laplace, norm

import accounting as acc
from accounting.convert.bounds import best_epsilon
from accounting.convert.pld.sampled_noise import Noise, Sampled
from accounting.curves import SampledGaussianDP, SampledNoiseDP

Floats = Any
SETTINGS = pytest.mark.parametrize(
    ("noise", "shift", "rate", "group"),
    [
        ("gaussian", 0.7, 0.1, 1),
        ("gaussian", 1.0, 0.2, 2),
        ("gaussian", 0.5, 0.3, 4),
        ("laplace", 0.8, 0.2, 1),
        ("laplace", 0.5, 0.3, 3),
    ],
)
EPSILONS = (0.0, 0.05, 0.2, 0.5)


def _cells(
    noise: Noise, shift: float, rate: float, more: int, fewer: int, points: int = 40_000
) -> tuple[Floats, Floats]:
    """Probabilities of fine cells under both mixtures, by SciPy's distribution functions: little is
    lost in a cell.
    """
    edges = np.unique([*np.linspace(-12, 12, points), *(shift * np.arange(-fewer, more + 1))])
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    law = norm if noise == "gaussian" else laplace

    def mixed(size: int, sign: int) -> Floats:
        weights = binom.pmf(np.arange(size + 1), size, rate)
        return sum(
            weight * np.diff(law.cdf(edges - sign * j * shift)) for j, weight in enumerate(weights)
        )

    return mixed(more, 1), mixed(fewer, -1)


@SETTINGS
def test_sampled_group_delta_matches_its_mixture_pair(
    noise: Noise, shift: float, rate: float, group: int
) -> None:
    """With any number of the group on either side delta is the divergence of the two mixtures, and
    the curve's the largest.
    """
    exact = []
    for way in Sampled(noise, shift, rate, group).directions():
        p, q = _cells(noise, shift, rate, way.more, way.fewer)
        exact.append([delta(p, q, epsilon) for epsilon in EPSILONS])
        assert way.profile(np.array(EPSILONS)) == pytest.approx(exact[-1], rel=1e-6, abs=1e-12)
    assert [(way.more, way.fewer) for way in Sampled(noise, shift, rate, group).directions()] == [
        (more, group - more) for more in range(group, -1, -1)
    ]
    curve = SampledNoiseDP(noise=noise, shift=shift, rate=rate, group=group)
    assert [curve.delta(epsilon) for epsilon in EPSILONS] == pytest.approx(
        np.max(exact, axis=0), rel=1e-6
    )


@SETTINGS
def test_rounding_to_a_coarse_grid_keeps_the_masses_of_both_laws(
    noise: Noise, shift: float, rate: float, group: int
) -> None:
    """Each law's mass is what it was, and no divergence is smaller, however coarse the grid
    (Theorem P2).
    """
    for way in Sampled(noise, shift, rate, group).directions():
        pmf = way.pmf(0.3, 1e-30)
        places = 0.3 * (pmf.low + np.arange(len(pmf.mass)))
        assert pmf.mass.sum() + pmf.infinity == pytest.approx(1, abs=1e-9)
        assert pmf.mass @ np.exp(-places) == pytest.approx(1, abs=1e-9)
        for epsilon in (0.0, 0.1, 0.4):
            kept = pmf.mass @ -np.expm1(np.minimum(0.0, epsilon - places)) + pmf.infinity
            assert kept >= float(way.profile(np.array([epsilon]))[0]) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("mu", "rate", "place"),
    [
        (0.0132, 7e-15, 0.66),
        (1.4e-8, 1.7e-8, 1.1),
        (1.8581150067105895e-08, 9.596174212155265e-12, 12.226215185935494),
        (8.488, 0.999999997, 45.5),
    ],
)
def test_no_divergence_is_lost_at_tiny_rates_or_far_out(
    mu: float, rate: float, place: float
) -> None:
    """The profile is not below one test's advantage, for losses of 1e-16 and masses of 1e-300."""
    with mp.workdps(60):
        moved, tail = mp.mpf(place) - mp.mpf(mu), mp.mpf(rate)
        epsilon = float(mp.log1p(tail * mp.expm1(mp.mpf(mu) * (place - mp.mpf(mu) / 2))))
        other = mp.erfc(place / mp.sqrt(2)) / 2
        found = (1 - tail) * other + tail * mp.erfc(moved / mp.sqrt(2)) / 2
        least = found - mp.exp(epsilon) * other
        assert least > 0
        assert SampledGaussianDP(mu=mu, rate=rate).profile(epsilon) >= least * (1 - 1e-12)


@SETTINGS
def test_two_steps_are_the_worst_product_of_pairs(
    noise: Noise, shift: float, rate: float, group: int
) -> None:
    """Two inputs differ the same way in both steps: delta is the worst way's, half a per cent more
    at most.
    """
    curve = 2 * SampledNoiseDP(noise=noise, shift=shift, rate=rate, group=group)
    for epsilon in (0.1, 0.4):
        found = []
        for way in Sampled(noise, shift, rate, group).directions():
            p, q = _cells(noise, shift, rate, way.more, way.fewer, points=400)
            found.append(delta(np.outer(p, p), np.outer(q, q), epsilon))
        assert max(found) <= curve.delta(epsilon) * (1 + 1e-9)
        assert curve.delta(epsilon) <= max(found) * (1 + 5e-3)


def test_shifts_in_other_directions_and_shorter_ones_tell_less() -> None:
    """Contributions are vectors of at most the norm: drawn at random in the plane, no pair exceeds
    that of equal shifts.
    """
    rng, rate, side = np.random.default_rng(5), 0.3, np.linspace(-7, 7, 281)
    x, y = np.meshgrid(side, side)
    curve = SampledNoiseDP(noise="gaussian", shift=1.0, rate=rate, group=3)

    def law(shifts: Floats) -> Floats:
        total = np.zeros_like(x)
        for taken in product((0, 1), repeat=len(shifts)):
            at = np.array(taken) @ shifts if len(shifts) else np.zeros(2)
            weight = rate ** sum(taken) * (1 - rate) ** (len(taken) - sum(taken))
            total += weight * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / 2)
        return total * (side[1] - side[0]) ** 2 / (2 * math.pi)

    for more in (1, 2, 3):
        for _ in range(2):
            angles, sizes = rng.uniform(0, 2 * math.pi, 3), rng.uniform(0.3, 1.0, 3)
            vectors = np.stack([sizes * np.cos(angles), sizes * np.sin(angles)], axis=1)
            p, q = law(vectors[:more]), law(vectors[more:])
            for epsilon in (0.0, 0.3, 1.0):
                assert delta(p, q, epsilon) <= curve.delta(epsilon) * (1 + 1e-6) + 1e-9
                assert delta(q, p, epsilon) <= curve.delta(epsilon) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("shift", "rate"), [(0.5, 0.1), (1.5, 0.3)])
def test_renyi_bounds_of_sampled_laplace_noise(shift: float, rate: float) -> None:
    """At most 10^-5 above the integral, never below; the other way round is smaller (Mironov et al.
    2019, Theorem 5).
    """
    p, q = _cells("laplace", shift, rate, 1, 0)
    curve = SampledNoiseDP(noise="laplace", shift=shift, rate=rate)
    for order in (2.0, 8.0, 40.0):
        exact, other = (
            math.log(float(((a / b) ** order * b).sum())) / (order - 1) for a, b in ((p, q), (q, p))
        )
        assert exact * (1 - 1e-7) <= float(curve.rdp(order)) <= exact * (1 + 1e-5)
        assert other <= exact
    assert curve.core_epsilon == pytest.approx(math.log(float(np.max(p / q))), rel=1e-6)
    assert float(curve.rdp(1 + 1e-5)) <= curve.rho * (1 + 1e-5)
    assert SampledNoiseDP(
        noise="laplace", shift=shift, rate=rate, group=3
    ).core_epsilon == pytest.approx(3 * curve.core_epsilon)


@pytest.mark.parametrize("group", [2, 5])
def test_bounds_of_a_group_outside_of_the_exact_pair(group: int) -> None:
    """Renyi divergence, rho and the Gaussian cover of a group hold for every way to differ, as for
    all of it in every sample.
    """
    for noise in ("gaussian", "laplace"):
        curve = SampledNoiseDP(noise=noise, shift=0.4, rate=0.3, group=group)
        for more in range(group + 1):
            p, q = _cells(noise, 0.4, 0.3, more, group - more)
            keep = (p > 1e-200) & (q > 1e-200)
            for order in (1.5, 4.0):
                exact = renyi(p[keep], q[keep], order)
                assert exact <= float(curve.rdp(order)) * (1 + 1e-9)
                assert exact <= order * curve.rho * (1 + 1e-9)
            cover = acc.GaussianDP(mu=math.sqrt(curve.mu_squared))
            assert delta(p, q, 0.3) <= cover.delta(0.3) * (1 + 1e-9)


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.5), (2.0, 0.7)])
def test_rho_and_the_gaussian_cover_of_a_sampled_step_are_those_of_all_its_noise(
    mu: float, rate: float
) -> None:
    """Both hold at every order and far out, both ways round, and are reached there: 5 % less of
    either would be too little.
    """
    curve = acc.SampledGaussianDP(mu=mu, rate=rate)
    ratios = []
    for order in (1.01, 2.0, 20.0, 300.0):
        x = np.linspace(-40.0, 40.0 + order * mu, 400_000)
        mixed = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)
        # of the mixture against the noise alone, and the other way round
        for power in (order, 1 - order):
            moment = float(np.logaddexp.reduce(power * mixed + norm.logpdf(x))) + math.log(
                x[1] - x[0]
            )
            ratios.append(moment / (order - 1) / order)
    assert max(ratios) <= curve.rho * (1 + 1e-9)
    assert max(ratios) > 0.96 * curve.rho
    covers = [acc.GaussianDP(mu=math.sqrt(share * curve.mu_squared)) for share in (1.0, 0.95)]
    falls = []
    for epsilon in (0.0, 0.5, 3.0, 30.0 * mu):
        place = (math.log((math.exp(epsilon) - 1 + rate) / rate) + mu * mu / 2) / mu
        exact = rate * norm.sf(place - mu) + (1 - rate - math.exp(epsilon)) * norm.sf(place)
        assert curve.delta(epsilon) == pytest.approx(exact, rel=1e-6)
        falls.append([exact <= cover.delta(epsilon) * (1 + 1e-9) for cover in covers])
    assert falls == [[True, True]] * 3 + [[True, False]]


def test_group_privacy_of_sampled_steps_matches_the_exact_pair() -> None:
    """`group_privacy` of DP-SGD's steps and of sampled Laplace noise is the exact pair's; Renyi
    orders stay those of the path.
    """
    one = acc.SampledGaussianDP(mu=0.5, rate=0.1)
    exact = SampledNoiseDP(noise="gaussian", shift=0.5, rate=0.1, group=3)
    three = acc.group_privacy(one, 3)
    assert three.delta(0.5) == pytest.approx(exact.delta(0.5), rel=1e-9)
    assert (3 * three).delta(0.5) == pytest.approx((3 * exact).delta(0.5), rel=1e-9)
    assert float(three.rdp(3.0)) < float(exact.rdp(3.0))
    lap = acc.poisson_sampled(acc.LaplaceDP(epsilon=0.5), 0.1, relation="add_remove")
    assert lap == SampledNoiseDP(noise="laplace", shift=0.5, rate=0.1)
    assert acc.group_privacy(acc.group_privacy(lap, 2), 3).delta(0.5) == pytest.approx(
        acc.group_privacy(lap, 6).delta(0.5)
    )
    assert acc.group_privacy(one, 40).delta(1.0) <= 1.0  # beyond 16 users by the general bounds


@pytest.mark.slow
@pytest.mark.parametrize("runs", [10**6, 10**7])
@pytest.mark.parametrize("kind", ["pure", "laplace", "sampled"])
def test_very_many_steps_come_within_a_hundredth_of_the_gaussian_limit(
    kind: str, runs: int
) -> None:
    """Steps whose squared losses add up to 1 cost what one Gaussian step of mu 1 costs, at most .7
    per cent more.
    """
    width = 1 / math.sqrt(runs)
    curve = {
        "pure": acc.PureDP(epsilon=width),
        "laplace": acc.LaplaceDP(epsilon=width),
        "sampled": acc.SampledGaussianDP(mu=1.0, rate=width / math.sqrt(math.e - 1)),
    }[kind]
    limit = acc.GaussianDP(mu=1.0).epsilon(1e-6)
    assert limit * (1 - 1e-3) <= best_epsilon(runs * curve, 1e-6).value <= limit * 1.007


@pytest.mark.parametrize(("runs", "shift", "rate"), [(200, 0.5, 0.1), (1000, 1.0, 0.02)])
def test_sampled_laplace_noise_agrees_with_dp_accounting(
    runs: int, shift: float, rate: float
) -> None:
    """Composed, it is dp-accounting's law to a part in 10^4."""
    pld = privacy_loss_distribution.from_laplace_mechanism(1 / shift, sampling_prob=rate)
    curve = runs * acc.poisson_sampled(acc.LaplaceDP(epsilon=shift), rate, relation="add_remove")
    assert curve.epsilon(1e-6) == pytest.approx(
        pld.self_compose(runs).get_epsilon_for_delta(1e-6), rel=1e-4
    )
