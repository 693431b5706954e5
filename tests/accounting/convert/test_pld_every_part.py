"""Every part of a plan enters its privacy loss distribution: tables, sparse vectors, Renyi bounds,
and hundreds of widths.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import accounting as acc
from accounting.convert.bounds import Route, best_epsilon
from accounting.convert.pld.compose import coarsen_losses, pld_delta, pld_epsilon
from accounting.convert.pld.hull import RenyiLoss
from accounting.convert.pld.loss import Banded, Losses, Normal

LAPLACES = 100 * acc.LaplaceDP(epsilon=0.1)
TABLE = acc.curves.ProfileTable(epsilons=(0.1, 0.3, 1.0), deltas=(0.03, 1e-4, 1e-7))


def route(curve: acc.Curve) -> Route:
    """What proves the epsilon at 1e-6."""
    return best_epsilon(curve, 1e-6).route


@pytest.mark.parametrize(
    "part",
    [
        acc.ZCDP(rho=0.001),
        acc.RenyiTable(orders=(1.5, 2, 8, 64), values=(1e-3, 2e-3, 5e-3, 0.03)),
        acc.curves.ProfileTable(epsilons=(0.1, 0.3), deltas=(1e-3, 0.0)),
        acc.curves.SparseVectorDP(epsilon1=0.1, epsilon2=0.1),
        acc.Approximate(curve=acc.ZCDP(rho=0.001), delta0=1e-8),
    ],
    ids=lambda part: part.kind,
)
def test_part_without_exact_losses_keeps_the_pld_route(part: acc.Curve) -> None:
    """100 Laplace mechanisms and one such part: the PLD wins, costs more than without it, and less
    than the Renyi route.
    """
    plan = LAPLACES + part
    found = best_epsilon(plan, 1e-6)
    renyi = acc.convert.renyi.rdp_to_epsilon(plan.rdp, 1e-6 - plan.delta0, plan.table_orders).value
    assert found.route == "pld"
    assert LAPLACES.epsilon(1e-6) < found.value < 0.96 * renyi


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.1, 0.2, 0.9, 1.5])
def test_profile_table_losses_reproduce_the_profile(epsilon: float) -> None:
    """Theorem M1: once, its losses give the profile back, never less and to 1e-3; so a cut of 5 %
    would show.
    """
    exact = TABLE.profile(epsilon)
    assert (
        exact * (1 - 1e-12) <= pld_delta(coarsen_losses(TABLE.losses()), epsilon) <= 1.001 * exact
    )


@pytest.mark.parametrize("rho", [1e-3, 0.05])
def test_zcdp_pair_covers_the_gaussian_of_equal_rho(rho: float) -> None:
    """Theorem P8: the pair of zCDP covers the Gaussian mechanism of the same rho, alone and beside
    Laplace noise, within 8 %.
    """
    gauss, mu = acc.GaussianDP(mu=math.sqrt(2 * rho)), math.sqrt(2 * rho)
    loss = RenyiLoss.from_rdp(acc.ZCDP(rho=rho).rdp, ())
    assert loss is not None
    grid = np.linspace(-3, 3, 61)
    assert np.all(loss.profile(grid) >= Normal(mu).profile(grid) * (1 - 1e-9))
    exact, claimed = (
        (LAPLACES + gauss).epsilon(1e-6),
        pld_epsilon(coarsen_losses((LAPLACES + acc.ZCDP(rho=rho)).losses()), 1e-6),
    )
    assert exact <= claimed <= 1.08 * exact


@pytest.mark.parametrize("epsilon", [6.0, 10.0])
def test_renyi_bound_covers_randomized_response_total_variation(epsilon: float) -> None:
    """Randomized response attains its Renyi bounds: the total variation of its two laws,
    tanh(epsilon/2), is covered.
    """
    loss = RenyiLoss.from_rdp(acc.PureDP(epsilon=epsilon).rdp, ())
    assert loss is not None
    assert math.tanh(epsilon / 2) <= float(loss.profile(np.array([0.0]))[0]) <= 1
    # Bretagnolle and Huber's inequality at the least order, below every conversion at so large a
    # divergence.
    assert float(loss.hockey_stick(np.array([0.0]))[0]) == pytest.approx(
        math.sqrt(-math.expm1(-loss.values[0])), rel=1e-12
    )


def test_renyi_bounds_alone_build_no_privacy_losses() -> None:
    """Without any exact part the Renyi route is the better one, and no losses are built."""
    assert (acc.ZCDP(rho=0.1) + acc.RenyiTable(orders=(2.0,), values=(0.1,))).losses() is None  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_sampled_gaussian_among_other_parts() -> None:
    """The larger of the two directions counts, not the symmetric hull of both, which costs more."""
    plan = (
        200 * acc.SampledGaussianDP(mu=1.0, rate=0.05)
        + 5 * acc.LaplaceDP(epsilon=0.2)
        + acc.ZCDP(rho=1e-4)
    )
    losses = coarsen_losses(plan.losses())  # type: ignore[attr-defined]
    ways = [pld_epsilon(way, 1e-6) for way in losses.directions()]
    assert plan.epsilon(1e-6) == pytest.approx(max(ways), rel=1e-12)
    assert max(ways) <= pld_epsilon(losses, 1e-6)
    assert best_epsilon(plan, 1e-6).route == "pld"


def _laplaces(widths: object) -> acc.Curve:
    return acc.curves.Composed.from_parts([(1, acc.LaplaceDP(epsilon=float(e))) for e in widths])  # type: ignore[attr-defined]


@pytest.mark.slow
def test_many_laplace_widths_are_rounded_up_by_little() -> None:
    """Theorem P9: 365 different Laplace mechanisms cost 3.73 in place of 3.97; the same rounded
    down to levels cost 3.70.
    """
    widths = np.linspace(0.02, 0.06, 365)
    plan = _laplaces(widths)
    assert route(plan) == "pld"
    below = Losses(tuple((73, Banded.laplace(float(low))) for low in widths[::73]))
    between = Losses(tuple((5, Banded.laplace(float(low))) for low in widths[::5]))
    assert pld_epsilon(below, 1e-6) < pld_epsilon(between, 1e-6) < plan.epsilon(1e-6) <= 3.75
    assert plan.epsilon(1e-6) <= 1.01 * pld_epsilon(between, 1e-6)


def test_failures_stay_where_widths_are_rounded_to_levels() -> None:
    """150 widths of randomized response and 20 more that fail: beyond all finite losses, delta is
    that some step failed.
    """
    failing = [(1, acc.ApproxDP(epsilon=float(e), delta=1e-3)) for e in np.linspace(0.01, 0.02, 20)]
    plan = acc.curves.Composed.from_parts(
        [(1, acc.PureDP(epsilon=float(e))) for e in np.linspace(0.01, 0.03, 150)] + failing
    )
    attained = 1 - (1 - 1e-3) ** 20
    assert attained <= plan.delta(plan.core_epsilon) <= (1 + 1e-6) * attained
