"""The noise distributions: functions and inverses against 50-digit references, the laws the proofs rest on, and their flags."""

from __future__ import annotations

import typing

import mpmath as mp
import numpy as np
import pytest
from noise_laws import NOISE_LAWS

import dpselect as dps
from dpselect import noise as distributions
from dpselect.noise import InvalidNoiseArgument, Laplace, LipschitzNoise, Noise, NoiseName, by_name
from dpselect.verify.quadrature import argmax_probabilities

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


@pytest.mark.fast(12)
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


GRID = np.concatenate([np.linspace(-60.0, 60.0, 4001), np.linspace(-1.0, 1.0, 2001), [200.0, 500.0]])


def without_a_law() -> set[str]:
    """The noises that no test knows the law of."""
    return set(distributions._CLASSES) - set(NOISE_LAWS)


def test_every_noise_has_its_law_case():
    """A new noise states its law a second time, in tests/support/noise_laws.py: all tests of noises run over these."""
    assert without_a_law() == set()
    assert list(NOISE_LAWS) == list(typing.get_args(NoiseName))


def test_a_noise_without_a_law_case_is_noticed(monkeypatch):
    """A class with a name of its own is a noise, wherever it is defined, and a second one of the same name is refused."""
    monkeypatch.setattr(distributions, "_CLASSES", dict(distributions._CLASSES))
    type("Stranger", (Laplace,), {"name": "stranger"})
    assert without_a_law() == {"stranger"}
    with pytest.raises(TypeError, match="'stranger' already"):
        type("Again", (Laplace,), {"name": "stranger"})


def test_mechanisms_offer_the_noises_whose_price_they_rest_on():
    """Canonical top-k has those that Theorems M5 and N7 cover; values are shown with those that Theorems H2 and H10 cover."""
    assert set(typing.get_args(LipschitzNoise)) == {n for n in NOISE_LAWS if by_name(n).winner_price != "gaussian"}
    assert distributions.VECTOR_NORMS == {"laplace": "l1", "gaussian": "l2"}
    with pytest.raises(dps.errors.InvalidMechanism, match=distributions.in_words(LipschitzNoise)):
        dps.CanonicalTopK(k=1, epsilon=1.0, noise="gaussian")


def test_every_name_has_its_member():
    """by_name returns, for each literal name, the one member that carries it."""
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
    stranger = type("Stranger", (Laplace,), {"winner_price": declared, "threshold_price": declared, "smooth": False})
    monkeypatch.setitem(distributions._MEMBERS, "laplace", stranger())
    monkeypatch.setitem(distributions._MEMBERS, "gumbel", stranger())
    for mechanism in (
        dps.AboveThreshold(threshold=1.0, scale=1.0, noise="laplace"),
        dps.mechanisms.StableTopK(rho=1.0, failure_delta=0.1, kbar=2, gap_noise="gumbel"),
        dps.ReportNoisyMax(noise="laplace", scale=1.0),
        dps.PeelingTopK(k=2, noise="laplace", scale=1.0),
        dps.OneshotTopK(k=2, noise="laplace", scale=1.0),
        dps.OneshotTopK(k=2, noise="laplace", scale=1.0, sensitivity=dps.Sensitivity(l0=1)),
    ):
        with pytest.raises(dps.errors.InvalidMechanism, match=r"declares no (winner|threshold)_price"):
            _ = mechanism.curve


def test_the_variance_is_that_of_the_law(name):
    """What forecasts and means over time take for the variance is the variance, to 1e-12."""
    assert by_name(name).variance == pytest.approx(NOISE_LAWS[name].scipy.var(), rel=1e-12)


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
