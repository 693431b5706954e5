"""Density, distribution and survival functions against 50-digit references, in the bulk and in both far tails."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from dpselect.noise import by_name

SMALLEST = float(np.finfo(np.float64).tiny)
POINTS = np.concatenate([np.linspace(-40.0, 40.0, 321), np.linspace(-6.7, 0.0, 135), [-1e-10, 1e-10, 1e-20]])
EXTREME = np.array([-1e5, -700.0, -300.0, -100.0, 100.0, 300.0, 700.0, 1e5])


def relative_error(value: float, exact: mp.mpf) -> float:
    """Relative error; values below the normal doubles only have to be as small."""
    if abs(exact) < SMALLEST:
        return 0.0 if abs(value) <= SMALLEST else np.inf
    if abs(exact) > np.finfo(np.float64).max:
        return 0.0 if value == np.copysign(np.inf, float(mp.sign(exact))) else np.inf
    return float(abs(mp.mpf(float(value)) / exact - 1))


@pytest.mark.parametrize("function", ["pdf", "cdf", "sf", "log_pdf", "log_cdf", "log_sf"])
def test_functions_are_accurate_in_bulk_and_tails(name, reference, function):
    """Every function has relative error at most 3e-15 wherever its value is a normal double."""
    values = getattr(by_name(name), function)(POINTS)
    exact = [getattr(reference, function)(mp.mpf(float(z))) for z in POINTS]
    assert max(relative_error(v, e) for v, e in zip(values, exact, strict=True)) <= 3e-15


# The doubly exponential lower tail of a Gumbel is below every floating-point format, the reference's included.
DOUBLY_EXPONENTIAL = ("gumbel", -1e5)


@pytest.mark.parametrize("function", ["pdf", "cdf", "sf", "log_pdf", "log_cdf", "log_sf"])
def test_functions_are_accurate_hundreds_of_units_out(name, reference, function):
    """Values at 100 to 1e5 units from the centre are right to 3e-15, or underflow where the truth does."""
    points = [z for z in EXTREME if (name, z) != DOUBLY_EXPONENTIAL]
    values = getattr(by_name(name), function)(points)
    mp.mp.dps = 400 if name == "gumbel" else 50  # 1 - exp(-exp(-z)) style references need the digits
    exact = [getattr(reference, function)(mp.mpf(float(z))) for z in points]
    assert max(relative_error(v, e) for v, e in zip(values, exact, strict=True)) <= 3e-15


def test_gumbel_far_below_the_doubles():
    """At z = -1e5 the Gumbel's log cdf and log density exceed the doubles: -inf, with cdf and density 0 and sf 1."""
    gumbel = by_name("gumbel")
    assert gumbel.log_cdf(-1e5) == gumbel.log_pdf(-1e5) == -np.inf
    assert (gumbel.cdf(-1e5), gumbel.pdf(-1e5), gumbel.sf(-1e5), gumbel.log_sf(-1e5)) == (0.0, 0.0, 1.0, 0.0)


def test_limits_at_the_infinities(name):
    """At -inf and +inf every function takes its limit, and no warning is raised."""
    noise, ends = by_name(name), np.array([-np.inf, np.inf])
    assert noise.pdf(ends).tolist() == [0.0, 0.0]
    assert noise.log_pdf(ends).tolist() == [-np.inf, -np.inf]
    assert noise.cdf(ends).tolist() == noise.sf(ends)[::-1].tolist() == [0.0, 1.0]
    assert noise.log_cdf(ends).tolist() == noise.log_sf(ends)[::-1].tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize("member", ["exponential", "half_logistic"])
def test_below_the_support(member):
    """Below the support the density and the cdf vanish and the survival function is one."""
    noise, z = by_name(member), np.array([-1e-300, -1.0, -1e5])
    assert not noise.pdf(z).any()
    assert not noise.cdf(z).any()
    assert (noise.sf(z) == 1.0).all()
    assert not noise.log_sf(z).any()
    assert (noise.log_cdf(z) == -np.inf).all()
    assert (noise.log_pdf(z) == -np.inf).all()


@pytest.mark.parametrize("function", ["pdf", "cdf", "sf", "log_pdf", "log_cdf", "log_sf"])
def test_shape_and_nan(name, function):
    """Results are float64 arrays of the argument's shape, and NaN stays NaN."""
    evaluate = getattr(by_name(name), function)
    block = evaluate(np.array([[0.5, np.nan, 2.0]]))
    assert block.shape == (1, 3)
    assert block.dtype == np.float64
    assert np.isnan(block).tolist() == [[False, True, False]]
    scalar = evaluate(1)
    assert isinstance(scalar, np.ndarray)
    assert scalar.shape == ()
