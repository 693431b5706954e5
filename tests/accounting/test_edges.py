"""Edges of the domain: astronomical counts, underflowing parameters and malformed arguments stay sound or are refused clearly."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

import accounting as acc
from accounting.convert.pld.compose import pld_delta, pld_epsilon


def gaussian_delta(n: int, step: float, epsilon: float) -> float:
    """The central limit of n pure steps: a Gaussian pair with mu = sqrt(n) step."""
    mu = math.sqrt(n) * step
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [acc.PureDP, acc.LaplaceDP])
@pytest.mark.parametrize("n", [10**10, 10**12, 5 * 10**12, 10**13])
def test_large_counts_never_price_below_the_central_limit(kind: Callable[..., acc.Curve], n: int) -> None:
    """However large the count, epsilon and delta are at least those of the Gaussian pair that the plan tends to."""
    plan = n * kind(epsilon=1e-6)
    assert gaussian_delta(n, 1e-6, acc.best_epsilon(plan, 1e-6).value) <= 1e-6 * (1 + 1e-4)
    assert acc.best_delta(plan, 0.0).value >= gaussian_delta(n, 1e-6, 0.0) * (1 - 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**11, 5 * 10**12])
def test_a_transform_that_overflows_proves_nothing(n: int) -> None:
    """Called directly beyond its range, the composed distribution still returns an upper bound."""
    losses = acc.PureDP(epsilon=1e-6).losses()
    plan = type(losses)(((n, losses.steps[0][1]),))
    assert gaussian_delta(n, 1e-6, min(600.0, pld_epsilon(plan, 1e-6).value)) <= 1e-6
    assert pld_delta(plan, 0.0).value >= gaussian_delta(n, 1e-6, 0.0)


@pytest.mark.slow
def test_the_route_ends_at_a_stated_number_of_runs() -> None:
    """Beyond 10^12 runs in all the route pld is not tried, whatever the parameters; up to there it gains, and 10^8 runs come
    within three parts in ten thousand of their Gaussian limit."""
    limit = acc.GaussianDP(mu=0.1).epsilon(1e-6)
    assert limit <= acc.best_epsilon(10**8 * acc.PureDP(epsilon=1e-5), 1e-6).value <= limit * (1 + 3e-4)
    assert acc.best_epsilon(10**12 * acc.PureDP(epsilon=1e-5), 1e-6).route == "pld"
    assert acc.best_epsilon((10**12 + 1) * acc.PureDP(epsilon=1e-5), 1e-6).route == "rdp"


def test_counts_beyond_exact_floats_are_rounded_up() -> None:
    """2^53 + 1 is no float: the sum of Renyi bounds uses a float that is not below it."""
    n = 2**53 + 1
    found = (n * acc.ZCDP(rho=1.0)).rdp([2.0])[0]
    assert int(found) >= 2 * n


@pytest.mark.parametrize("mu", [0.0243, 1e-3, 1e-170])
def test_no_delta_underflows_to_zero_without_a_pure_guarantee(mu: float) -> None:
    """A Gaussian has a positive delta at every epsilon, however small."""
    assert acc.GaussianDP(mu=mu).delta(1.0) > 0
    assert (3 * acc.GaussianDP(mu=mu)).delta(1.0) > 0


def test_parameters_whose_squares_underflow_stay_sound() -> None:
    """Below 1e-154 squares vanish; epsilon and delta stay at or above the truth."""
    assert (10 * acc.PureDP(epsilon=1e-170)).delta(0.0) >= 1e-170
    assert acc.BoundedRange(epsilon=1e-160).epsilon(1e-300) >= 1e-160 * (1 - 1e-12)
    assert acc.LaplaceDP(epsilon=5e-324).epsilon(0.0) == 5e-324
    assert acc.GaussianDP(mu=1e-165).delta(0.0) >= 0.39e-165


def test_profile_points_beyond_the_exponent_of_floats() -> None:
    """A point far above 709 nats is kept: its delta, its Renyi bound and its epsilon are those of the table."""
    table = acc.curves.ProfileTable(epsilons=[1.0, 800.0, 3000.0], deltas=[0.01, 0.001, 0.0])
    assert table.delta(3000.0) == 0.0
    assert 0.001 <= table.delta(800.0) <= 0.001 * (1 + 1e-9)
    assert 0.001 < table.delta(799.0) < 0.01
    assert 1.0 <= table.epsilon(0.01) <= 1.0 + 1e-9
    assert 0 < table.rho < math.inf
    assert np.all(np.isfinite(table.rdp([1.5, 2.0, 100.0])))
