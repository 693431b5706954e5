"""Quantile functions against the references: the error is measured in z, where the inverse lives."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from dpselect.noise import InvalidNoiseArgument, by_name

PROBABILITIES = np.concatenate(
    [10.0 ** -np.linspace(0.31, 300.0, 60), 1.0 - 10.0 ** -np.linspace(0.31, 15.9, 60), np.linspace(0.01, 0.99, 99)]
)
LOGARITHMS = np.concatenate([-(10.0 ** np.linspace(-300.0, 6.0, 150)), [-0.6, -0.6931471805599453, -0.6932, -0.7]])
TOLERANCE = 2e-15


def error_in_z(reference, tail: str, z: float, log_p: mp.mpf, lower: float) -> float:
    """Distance of z from the exact inverse, by one Newton step, relative to z (to 1 near the centre of a line)."""
    x = mp.mpf(float(z))
    if x == 0 and lower == 0.0:
        return 0.0 if log_p < -740 else np.inf
    log_tail = reference.log_cdf if tail == "cdf" else reference.log_sf
    linear_tail = reference.cdf if tail == "cdf" else reference.sf
    inverse_slope = linear_tail(x) / reference.pdf(x)
    return float(abs((log_tail(x) - log_p) * inverse_slope) / (x if lower == 0.0 else max(1, abs(x))))


@pytest.mark.parametrize(("function", "tail"), [("quantile", "cdf"), ("isf", "sf")])
def test_inverses_of_probabilities(name, reference, function, tail):
    """quantile and isf invert cdf and sf to a few ulp of z, for probabilities from 1e-300 to 1 - 1e-16."""
    noise = by_name(name)
    found = getattr(noise, function)(PROBABILITIES)
    errors = [
        error_in_z(reference, tail, z, mp.log(mp.mpf(float(p))), noise.lower) for z, p in zip(found, PROBABILITIES, strict=True)
    ]
    assert max(errors) <= TOLERANCE


@pytest.mark.parametrize(("function", "tail"), [("log_quantile", "cdf"), ("log_isf", "sf")])
def test_inverses_of_logarithms(name, reference, function, tail):
    """log_quantile and log_isf invert log_cdf and log_sf to a few ulp of z, from -1e-300 down to -1e6."""
    noise = by_name(name)
    found = getattr(noise, function)(LOGARITHMS)
    errors = [error_in_z(reference, tail, z, mp.mpf(float(p)), noise.lower) for z, p in zip(found, LOGARITHMS, strict=True)]
    assert max(errors) <= TOLERANCE


def test_round_trip_through_the_functions(name):
    """Quantiles of the cdf and inverse survivals of the sf return the point, in the tail where each is sharp."""
    noise = by_name(name)
    lower = noise.quantile(np.linspace(0.01, 0.5, 50))
    upper = noise.isf(10.0 ** -np.linspace(0.31, 200.0, 50))
    np.testing.assert_allclose(noise.quantile(noise.cdf(lower)), lower, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(noise.isf(noise.sf(upper)), upper, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(noise.log_isf(noise.log_sf(upper)), upper, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(noise.log_quantile(noise.log_cdf(lower)), lower, rtol=1e-13, atol=1e-14)


def test_ends_of_the_support(name):
    """Probability 0 and 1 map to the two ends of the support."""
    noise = by_name(name)
    assert noise.quantile([0.0, 1.0]).tolist() == noise.isf([1.0, 0.0]).tolist() == [noise.lower, np.inf]
    assert noise.log_quantile([-np.inf, 0.0]).tolist() == noise.log_isf([0.0, -np.inf]).tolist() == [noise.lower, np.inf]


@pytest.mark.parametrize("function", ["quantile", "isf", "log_quantile", "log_isf"])
@pytest.mark.parametrize("wrong", [np.nan, 1.5])
def test_inverses_refuse_what_is_no_probability(name, function, wrong):
    """A NaN or a value above the domain raises, and the message does not print it."""
    with pytest.raises(InvalidNoiseArgument, match="every element") as caught:
        getattr(by_name(name), function)([-0.5 if "log" in function else 0.5, wrong])
    assert "1.5" not in str(caught.value)


def test_inverses_refuse_negative_probabilities(name):
    """A negative probability, such as a logarithm passed by mistake, raises."""
    with pytest.raises(InvalidNoiseArgument, match="log_quantile"):
        by_name(name).quantile(-0.5)


def test_from_uniform_has_the_law_of_the_noise(name, reference):
    """from_uniform is monotone and carries the uniform law to Z's: its cdf (or sf) at the image of u is u."""
    u = np.concatenate([10.0 ** -np.linspace(0.1, 15.0, 40), np.linspace(0.01, 0.99, 99)])
    z = by_name(name).from_uniform(u.copy())
    rising = bool(z[np.argmax(u)] > z[np.argmin(u)])
    tail = reference.cdf if rising else reference.sf
    exact = np.array([float(tail(mp.mpf(float(x)))) for x in z])
    # One rounding of z moves the tail by |z| * pdf ulp.
    np.testing.assert_allclose(exact, u, rtol=1e-13, atol=0.0)
    assert (np.diff(z[np.argsort(u)]) * (1 if rising else -1) >= 0.0).all()
