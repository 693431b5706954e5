"""Privacy loss distributions: every pair dominates what it stands for, and composition only rounds
up.
"""

from __future__ import annotations

import math
from functools import lru_cache

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld as dp_pld
from spread import spread

import accounting as acc
from accounting.convert.pld.compose import pld_delta, pld_epsilon
from accounting.convert.pld.hull import Hull
from accounting.convert.pld.loss import Banded, Loss, Losses, Normal, Pmf

LOSSES: list[Loss] = [
    Banded.pure(0.7),
    Banded.pure(3.0, lost=1e-3),
    Banded.bounded_range(0.5),
    Banded.bounded_range(6.0),
    Banded.laplace(1.3),
    Banded.laplace(0.01),
    Normal(0.4),
    Normal(3.0),
    Hull(((10.0, 0.0, Normal(0.4)),)),
    Hull(((1.0, 0.0, Normal(0.8)), (10.0, 1e-9, Normal(0.4)))),
]
DOMINATED = [
    acc.PureDP(epsilon=0.7),
    acc.PureDP(epsilon=0.0),
    acc.ApproxDP(epsilon=0.5, delta=1e-4),
    acc.LaplaceDP(epsilon=1.3),
    acc.GaussianDP(mu=0.4),
    acc.BoundedRange(epsilon=0.9),
    acc.curves.GaussianMax(mu=0.4, candidates=7),
    acc.Approximate(curve=acc.BoundedRange(epsilon=0.7), delta0=1e-3),
    acc.tighter(acc.GaussianDP(mu=0.8), acc.curves.GaussianMax(mu=0.4, candidates=7)),
    acc.parallel(acc.GaussianDP(mu=0.4), acc.PureDP(epsilon=0.7)),
    acc.SampledGaussianDP(mu=0.8, rate=0.1),
    acc.curves.SampledNoiseDP(noise="laplace", shift=0.7, rate=0.2),
    acc.curves.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 1e-5)),
]
WIDTHS = (0.013, 0.1, 0.77)


def divergence(pmf: Pmf, interval: float, y: float) -> float:
    """Hockey-stick divergence of a rounded loss at y."""
    losses = (pmf.low + np.arange(len(pmf.mass))) * interval
    above = losses > y
    return pmf.infinity + float(-np.expm1(y - losses[above]) @ pmf.mass[above])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("interval", WIDTHS)
def test_a_rounded_loss_dominates(loss: Loss, interval: float) -> None:
    """At every threshold, on and off the grid and on both sides of 0, the rounded loss has at least
    the exact divergence.
    """
    pmf = loss.pmf(interval, 1e-299)
    for y in np.linspace(-3, 3, 241) if isinstance(loss, Hull) else np.linspace(-8, 8, 321):
        exact = float(loss.profile(np.array([y]))[0])
        if isinstance(loss, Hull):
            exact = hull_at(loss, float(y))
        assert divergence(pmf, interval, float(y)) >= exact * (1 - 1e-12) - 1e-15


@pytest.mark.parametrize("interval", WIDTHS)
@pytest.mark.parametrize("failure", [1e-9, 1e-3, 0.2])
def test_hull_infinite_mass_matches_the_failure_probability(
    failure: float, interval: float
) -> None:
    """A mechanism that gives all away with a chance is within the hull: the infinite mass is that
    chance, and hardly more.
    """
    loss = Hull(((1.0, failure, Normal(0.3)), (1.0, 2 * failure, Normal(0.2))))
    lost = loss.pmf(interval, 1e-299).infinity
    assert failure <= lost <= failure * (1 + 1e-12)


@lru_cache
def tangents(loss: Hull) -> tuple[np.ndarray, np.ndarray]:
    """Points of the convex function below a hull's profile, by Legendre transform: largest lines
    below it, per slope.
    """
    g = np.exp(np.linspace(-6, 6, 6001))
    values = loss.profile(np.log(g))
    slopes = -np.concatenate([np.geomspace(1, 1e-12, 3000), [0.0]])
    return slopes, np.array([float(np.min(values - slope * g)) for slope in slopes])


def hull_at(loss: Hull, y: float) -> float:
    """The convex function below a hull's profile at y, from below: a supremum of lines that lie
    under the profile.
    """
    slopes, intercepts = tangents(loss)
    return float(np.max(intercepts + slopes * math.exp(y))) * (1 - 5e-3)


@pytest.mark.parametrize("curve", DOMINATED, ids=repr)
@pytest.mark.parametrize("interval", [1e-2, 0.13])
def test_dp_accounting_objects_are_pessimistic_and_count(curve: acc.Curve, interval: float) -> None:
    """Every curve with a pair gives a dp-accounting object at least as large as the exact profile,
    and n compose n times.
    """
    pld = curve.pld(interval)
    assert pld is not None
    for epsilon in (0.0, 0.05, 0.3, 0.71, 1.0):
        profile = curve.profile(epsilon)
        assert profile is not None
        if not isinstance(curve, acc.curves.GaussianMax | acc.curves.Tighter):
            assert pld.get_delta_for_epsilon(epsilon) >= profile * (1 - 1e-9) - 1e-14
    thrice = (3 * curve).pld(interval)
    assert thrice is not None
    one_by_one = pld.compose(pld).compose(pld).get_delta_for_epsilon(0.5)
    assert thrice.get_delta_for_epsilon(0.5) == pytest.approx(one_by_one, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("mu", "count"),
    spread([(1.0, 1), (0.1, 100), (0.0257, 600), (1e-3, 10**6), (5.0, 3), (30.0, 1)], 3),
)
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-250])
def test_gaussian_composition_is_exact_from_above(mu: float, count: int, delta: float) -> None:
    """Composed Gaussian losses give the closed-form epsilon of one Gaussian, never less, and at
    most 2e-4 more, at any delta.
    """
    exact = acc.GaussianDP(mu=mu * math.sqrt(count)).epsilon(delta)
    losses = Losses(((count, Normal(mu)),))
    found = pld_epsilon(losses, delta)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 2e-4) + 1e-4 * mu


@pytest.mark.parametrize("theta", [0.02, 3000.0])
def test_any_tilt_is_sound(theta: float) -> None:
    """The tilt decides accuracy only: far from the best one, the epsilon is still not below the
    exact one.
    """
    exact = acc.GaussianDP(mu=1.0).epsilon(1e-6)
    assert pld_epsilon(Losses(((100, Normal(0.1)),)), 1e-6, theta) >= exact * (1 - 1e-9)
    assert pld_delta(Losses(((100, Normal(0.1)),)), 2.0, theta) >= acc.GaussianDP(mu=1.0).delta(
        2.0
    ) * (1 - 1e-9)


def test_tiny_charges_are_not_inflated() -> None:
    """Ten Laplace charges of 1e-5 cost less than their pure sum; dp-accounting's default grid
    reports five times as much.
    """
    curve = 10 * acc.LaplaceDP(epsilon=1e-5)
    accountant = dp_pld.PLDAccountant().compose(dp_accounting.LaplaceDpEvent(1e5), 10)
    assert accountant.get_epsilon(1e-9) > 4.5e-4
    assert curve.epsilon(1e-9) <= 1e-4
    assert curve.epsilon(1e-6) < 0.5e-4


@pytest.mark.parametrize(
    ("losses", "delta", "most"),
    [
        (Losses(((1, Banded.pure(7.706030329442642)),)), 6.65398262678035e-08, 7.7060303),
        (
            Losses(((2, Banded.pure(9.113866268050867)), (1, Normal(1.292065537000776e-06)))),
            6.751552487504569e-14,
            18.2284,
        ),
    ],
)
def test_a_window_measured_on_a_coarser_grid_holds_the_sum(
    losses: Losses, delta: float, most: float
) -> None:
    """Far tilted sums lie higher on the coarser grid: a window taken from it would lie above them,
    and prove next to nothing.
    """
    assert pld_epsilon(losses, delta) <= most


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("inner", "outer"), [(0.2, 0.2), (0.01, 0.5), (0.6, 0.3)])
def test_failures_within_an_approximation_add_up(inner: float, outer: float, count: int) -> None:
    """P1: dp-accounting merges masses at infinity a and b to a + b - ab; the distribution of a
    curve must hold a + b of them.
    """
    nested = acc.Approximate(curve=count * acc.ApproxDP(epsilon=1.0, delta=inner), delta0=outer)
    found = nested.pld(1e-2)
    assert found is not None
    # of several steps one may fail, which their sum is above
    least = min(1.0, 1 - (1 - inner) ** count + outer)
    assert (
        least * (1 - 1e-12)
        <= found.get_delta_for_epsilon(50.0)
        <= least + 1e-7 + (count - 1) * inner * outer
    )


def test_steps_that_may_fail_have_no_epsilon_without_delta() -> None:
    """At delta 0 nothing pays for a failure, however the steps are composed: no epsilon is proved,
    and asking is no error.
    """
    step = acc.ApproxDP(epsilon=0.5, delta=1e-7)
    for plan in (
        2 * step,
        step + acc.PureDP(epsilon=0.1),
        step + acc.Approximate(curve=acc.GaussianDP(mu=0.1), delta0=1e-9),
    ):
        assert plan.epsilon(0.0) == acc.Accountant().compose(plan).epsilon(0.0) == math.inf


def test_laplace_pairs_cost_less_than_pure_ones() -> None:
    """What docs/theorems/laplace.md states: 100 releases of .1, and order 2 of one of 1."""
    costs = [(100 * kind(epsilon=0.1)).epsilon(1e-6) for kind in (acc.LaplaceDP, acc.PureDP)]
    assert costs == pytest.approx([4.693, 4.775], abs=5e-4)
    assert [
        float(kind(epsilon=1.0).rdp(2.0)) for kind in (acc.LaplaceDP, acc.PureDP)
    ] == pytest.approx([0.619, 0.735], abs=5e-4)
