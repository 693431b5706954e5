"""The laws the privacy proofs rest on, and the flags that announce them."""

from __future__ import annotations

import typing

import numpy as np
import pytest

import dpselect as dps
from dpselect import noise as distributions
from dpselect.noise import InvalidNoiseArgument, Laplace, Noise, NoiseName, by_name
from dpselect.verify.quadrature import argmax_probabilities

GRID = np.concatenate([np.linspace(-60.0, 60.0, 4001), np.linspace(-1.0, 1.0, 2001), [200.0, 500.0]])


def test_every_name_has_its_member():
    """by_name returns, for each literal name, the one member that carries it, and there are no others."""
    assert set(distributions._MEMBERS) == set(typing.get_args(NoiseName))
    for name in typing.get_args(NoiseName):
        noise = by_name(name)
        assert isinstance(noise, Noise)
        assert noise.name == name
        assert by_name(name) is noise
        assert repr(noise) == f"{type(noise).__name__}()"


def test_unknown_name_is_refused():
    """Any other string raises an error that lists the choices."""
    with pytest.raises(InvalidNoiseArgument, match=r"'cauchy'.*half_logistic"):
        by_name("cauchy")


def test_hazard_rate_is_at_most_one_exactly_where_the_declared_price_needs_it(name):
    """pdf / sf never exceeds one for a member that Theorem C8 prices, and does for any other."""
    noise = by_name(name)
    inside = GRID[noise.lower <= GRID]
    log_hazard = noise.log_pdf(inside) - noise.log_sf(inside)
    rounding = 4e-16 * np.maximum(1.0, np.abs(inside))
    assert bool((log_hazard <= rounding).all()) is (noise.winner_price != "gaussian")


def test_log_survival_moves_by_at_most_the_shift(name):
    """log sf is 1-Lipschitz between any two grid points for exactly the members that Theorem C8 prices."""
    noise = by_name(name)
    z = np.linspace(-8.0, 30.0, 761)
    log_sf = noise.log_sf(z)
    excess = np.abs(log_sf[:, None] - log_sf[None, :]) - np.abs(z[:, None] - z[None, :])
    assert bool((excess <= 1e-13).all()) is (noise.winner_price != "gaussian")


def test_the_log_density_is_lipschitz_exactly_where_it_is_announced(name):
    """Theorem N8 needs a density whose logarithm moves by at most the shift, on the whole line."""
    noise = by_name(name)
    z = np.linspace(-8.0, 30.0, 761)
    log_pdf = noise.log_pdf(z)
    with np.errstate(invalid="ignore"):
        excess = np.abs(log_pdf[:, None] - log_pdf[None, :]) - np.abs(z[:, None] - z[None, :])
    assert bool((np.nan_to_num(excess, nan=0.0) <= 1e-13).all()) is noise.smooth


def test_bounded_range_is_announced_by_gumbel_alone():
    """Only Gumbel noise draws in proportion to exponentials of the scores, which Theorem C8 (ii) rests on."""
    for name in typing.get_args(NoiseName):
        noise, scores = by_name(name), np.array([0.0, 1.3, 2.1])
        softmax = np.exp(scores) / np.exp(scores).sum()
        proportional = np.allclose(argmax_probabilities(noise, 1.0, scores), softmax, atol=1e-9)
        assert proportional is (noise.winner_price == "bounded_range")


@pytest.mark.parametrize("declared", [None, "cauchy"])
def test_a_noise_without_a_theorem_is_refused(declared, monkeypatch):
    """No mechanism assumes a price for a noise that declares none: not even one that is symmetric and of small hazard."""
    stranger = type("Stranger", (Laplace,), {"winner_price": declared, "smooth": False})
    monkeypatch.setitem(distributions._MEMBERS, "laplace", stranger())
    for mechanism in (
        dps.ReportNoisyMax(noise="laplace", scale=1.0),
        dps.PeelingTopK(k=2, noise="laplace", scale=1.0),
        dps.OneshotTopK(k=2, noise="laplace", scale=1.0),
        dps.OneshotTopK(k=2, noise="laplace", scale=1.0, sensitivity=dps.Sensitivity(l0=1)),
    ):
        with pytest.raises(dps.InvalidMechanism, match="winner_price"):
            _ = mechanism.curve


def test_symmetry_is_announced_truthfully(name):
    """sf(z) = cdf(-z), bit for bit, for symmetric members; others violate it by more than 0.1 somewhere."""
    noise = by_name(name)
    gap = np.abs(noise.sf(GRID) - noise.cdf(-GRID)).max()
    assert gap == 0.0 if noise.symmetric else gap > 0.1


def test_log_concave(name):
    """The density is log-concave, which the quadrature's truncation relies on."""
    noise = by_name(name)
    z = np.linspace(max(noise.lower, -30.0), 30.0, 2001)
    log_pdf = noise.log_pdf(z)
    second = np.diff(log_pdf, 2)
    assert (second <= 1e-14 * np.abs(log_pdf[1:-1])).all()


def test_kinks_are_where_the_slope_jumps(name):
    """The one-sided slopes of the density differ at every announced kink, and agree at every other point of a grid."""
    noise, h = by_name(name), 1e-6
    z = np.linspace(-5.0, 5.0, 101)
    left = (noise.pdf(z) - noise.pdf(z - h)) / h
    right = (noise.pdf(z + h) - noise.pdf(z)) / h
    jumps = np.abs(right - left) > 1e-2
    assert z[jumps].round(9).tolist() == list(noise.kinks)


def test_support_starts_at_lower(name):
    """The cdf is zero at `lower` and positive just above it (on the line: wherever doubles can tell)."""
    noise = by_name(name)
    start = max(noise.lower, -6.0)
    assert noise.cdf(start + 1e-9) > 0.0
    assert noise.cdf(noise.lower) == 0.0


def test_density_is_the_derivative_of_the_cdf(name):
    """The density integrates to increments of the cdf over every cell of a grid that contains the kinks."""
    noise = by_name(name)
    edges = np.linspace(max(noise.lower, -6.0), 30.0, 73)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    z = edges[:-1, None] + np.diff(edges)[:, None] * 0.5 * (1.0 + nodes)
    integral = (noise.pdf(z) * weights).sum(axis=1) * 0.5 * np.diff(edges)
    np.testing.assert_allclose(integral, np.diff(noise.cdf(edges)), rtol=0.0, atol=2e-15)
