"""The noise distributions: functions and inverses against 50-digit references, the laws the proofs
rest on, and their flags.
"""

from __future__ import annotations

import typing

import mpmath as mp
import numpy as np
import pytest
from noise_laws import NOISE_LAWS

import dpselect as dps
from dpselect import noise as distributions
from dpselect.noise import InvalidNoiseArgument, Laplace, LipschitzNoise, NoiseName, noise_of
from dpselect.verify.quadrature import argmax_probabilities

SMALLEST = float(np.finfo(np.float64).tiny)
POINTS = np.concatenate(
    [np.linspace(-40.0, 40.0, 321), np.linspace(-6.7, 0.0, 135), [-1e-10, 1e-10, 1e-20]]
)
FUNCTIONS = ["pdf", "cdf", "sf", "log_cdf"]
EXTREME = np.array([-1e5, -700.0, -300.0, -100.0, 100.0, 300.0, 700.0, 1e5])


def relative_error(value: float, exact: mp.mpf) -> float:
    """Relative error; values below the normal doubles only have to be as small."""
    if abs(exact) < SMALLEST:
        return 0.0 if abs(value) <= SMALLEST else np.inf
    if abs(exact) > np.finfo(np.float64).max:
        return 0.0 if value == np.copysign(np.inf, float(mp.sign(exact))) else np.inf
    return float(abs(mp.mpf(float(value)) / exact - 1))


@pytest.mark.fast(12)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_accurate_in_bulk_and_tails(name, reference, function):
    """Every function has relative error at most 3e-15 wherever its value is a normal double, at 100
    to 1e5 units from the center too, or underflows where the truth does.
    """
    # The doubly exponential lower tail of a Gumbel is below every floating-point format, and the
    # reference's 1 - exp(-exp(-z)) needs the digits.
    far = EXTREME[1:] if name == "gumbel" else EXTREME
    for digits, points in ((mp.mp.dps, POINTS), (400 if name == "gumbel" else mp.mp.dps, far)):
        mp.mp.dps = digits
        values = getattr(noise_of(name), function)(points)
        exact = [getattr(reference, function)(mp.mpf(float(z))) for z in points]
        assert max(relative_error(v, e) for v, e in zip(values, exact, strict=True)) <= 3e-15


def test_limits_at_the_ends(name):
    """At the infinities, below the support and far below the doubles every function takes its
    limit, and no warning is raised.
    """
    noise, ends = noise_of(name), np.array([-np.inf, np.inf])
    assert noise.pdf(ends).tolist() == [0.0, 0.0]
    assert noise.cdf(ends).tolist() == noise.sf(ends)[::-1].tolist() == [0.0, 1.0]
    assert noise.log_cdf(ends).tolist() == [-np.inf, 0.0]
    for below in {
        "gumbel": [-1e5],
        "exponential": [-1e-300, -1e5],
        "half_logistic": [-1e-300, -1e5],
    }.get(name, []):
        assert (noise.pdf(below), noise.cdf(below), noise.sf(below), noise.log_cdf(below)) == (
            0.0,
            0.0,
            1.0,
            -np.inf,
        )
    assert (
        noise.quantile([0.0, 1.0]).tolist()
        == noise.isf([1.0, 0.0]).tolist()
        == [noise.lower, np.inf]
    )
    assert (
        noise.log_quantile([-np.inf, 0.0]).tolist()
        == noise.log_isf([0.0, -np.inf]).tolist()
        == [noise.lower, np.inf]
    )
    assert noise.cdf(max(noise.lower, -6.0) + 1e-9) > 0.0


@pytest.mark.parametrize("function", FUNCTIONS)
def test_noise_functions_keep_shape_and_nan(name, function):
    """Results are float64 arrays of the argument's shape, and NaN stays NaN."""
    evaluate = getattr(noise_of(name), function)
    block = evaluate(np.array([[0.5, np.nan, 2.0]]))
    assert (block.shape, block.dtype) == ((1, 3), np.float64)
    assert np.isnan(block).tolist() == [[False, True, False]]
    assert isinstance(scalar := evaluate(1), np.ndarray)
    assert scalar.shape == ()


PROBABILITIES = np.concatenate(
    [
        10.0 ** -np.linspace(0.31, 300.0, 60),
        1.0 - 10.0 ** -np.linspace(0.31, 15.9, 60),
        np.linspace(0.01, 0.99, 99),
    ]
)
LOGARITHMS = np.concatenate(
    [-(10.0 ** np.linspace(-300.0, 6.0, 150)), [-0.6, -0.6931471805599453, -0.6932, -0.7]]
)
TOLERANCE = 2e-15


def error_in_z(reference, tail: str, z: float, log_p: mp.mpf, lower: float) -> float:
    """Distance of z from the exact inverse, by one Newton step, relative to z (to 1 near the center
    of a line).
    """
    x = mp.mpf(float(z))
    if x == 0 and lower == 0.0:
        return 0.0 if log_p < -740 else np.inf
    log_tail = reference.log_cdf if tail == "cdf" else reference.log_sf
    linear_tail = reference.cdf if tail == "cdf" else reference.sf
    inverse_slope = linear_tail(x) / reference.pdf(x)
    return float(
        abs((log_tail(x) - log_p) * inverse_slope) / (x if lower == 0.0 else max(1, abs(x)))
    )


@pytest.mark.parametrize(
    ("function", "tail", "given"),
    [
        ("quantile", "cdf", PROBABILITIES),
        ("isf", "sf", PROBABILITIES),
        ("log_quantile", "cdf", LOGARITHMS),
        ("log_isf", "sf", LOGARITHMS),
    ],
    ids=["quantile", "isf", "log_quantile", "log_isf"],
)
def test_inverse_functions_are_accurate_to_a_few_ulps(name, reference, function, tail, given):
    """All four invert to a few ulp of z: probabilities from 1e-300 to 1 - 1e-16, logarithms from
    -1e-300 down to -1e6.
    """
    noise = noise_of(name)
    logs = [mp.mpf(float(p)) if "log" in function else mp.log(mp.mpf(float(p))) for p in given]
    found = getattr(noise, function)(given)
    assert (
        max(
            error_in_z(reference, tail, z, p, noise.lower) for z, p in zip(found, logs, strict=True)
        )
        <= TOLERANCE
    )


@pytest.mark.parametrize("function", ["quantile", "isf", "log_quantile", "log_isf"])
@pytest.mark.parametrize("wrong", [np.nan, 1.5, -0.5])
def test_inverses_refuse_what_is_no_probability(name, function, wrong):
    """A NaN or a value outside the domain, such as a logarithm passed by mistake, raises, and the
    message does not print it.
    """
    if "log" in function and wrong < 0:
        wrong = 0.5
    with pytest.raises(InvalidNoiseArgument, match=r"every element.*log_quantile") as caught:
        getattr(noise_of(name), function)([-0.5 if "log" in function else 0.5, wrong])
    assert str(wrong) not in str(caught.value).replace("NaN", "")


def without_a_law() -> set[str]:
    """The noises that no test knows the law of."""
    return set(distributions._CLASSES) - set(NOISE_LAWS)


def test_every_noise_has_its_law_case():
    """A new noise states its law a second time, in tests/support/noise_laws.py: all tests of noises
    run over these.
    """
    assert without_a_law() == set()
    assert list(NOISE_LAWS) == list(typing.get_args(NoiseName))


def test_new_noise_without_a_test_case_is_detected(monkeypatch):
    """A class with a name of its own is a noise, wherever it is defined, and a second one of the
    same name is refused.
    """
    monkeypatch.setattr(distributions, "_CLASSES", dict(distributions._CLASSES))
    type("Stranger", (Laplace,), {"name": "stranger"})
    assert without_a_law() == {"stranger"}
    with pytest.raises(TypeError, match="'stranger' already"):
        type("Again", (Laplace,), {"name": "stranger"})


def test_mechanisms_offer_only_noises_covered_by_their_theorems():
    """Canonical top-k has those that Theorems M5 and N7 cover; values are shown with those that
    Theorems H2 and H10 cover.
    """
    winner = {name: noise_of(name).winner_cost for name in NOISE_LAWS}
    threshold = {name: noise_of(name).threshold_cost for name in NOISE_LAWS}
    lipschitz = [name for name in NOISE_LAWS if winner[name] in ("bounded_range", "laplace")]
    gap = [name for name in NOISE_LAWS if winner[name] in ("bounded_range", "gaussian")]
    for names, offered in (
        (lipschitz, LipschitzNoise),
        (gap, distributions.GapNoise),
        ([name for name in NOISE_LAWS if threshold[name]], distributions.ThresholdNoise),
        (list(distributions.VECTOR_NORMS), distributions.VectorNoise),
    ):
        assert list(typing.get_args(offered)) == names
    assert lipschitz == [name for name in NOISE_LAWS if winner[name] != "gaussian"]
    assert distributions.VECTOR_NORMS == {"laplace": "l1", "gaussian": "l2"}
    with pytest.raises(dps.errors.InvalidMechanism, match=distributions.in_words(LipschitzNoise)):
        dps.CanonicalTopK(k=1, epsilon=1.0, noise="gaussian")


def test_unknown_name_is_refused():
    """Any other string raises an error that lists the choices."""
    with pytest.raises(InvalidNoiseArgument, match=r"'cauchy'.*half_logistic"):
        noise_of("cauchy")


def is_lipschitz(values, z):
    """True if values at places move by no more than the places; where both are infinite by 0."""
    with np.errstate(invalid="ignore"):
        moved = np.abs(values[:, None] - values[None, :]) - np.abs(z[:, None] - z[None, :])
    return bool((np.nan_to_num(moved, nan=0.0) <= 1e-13).all())


def test_log_survival_moves_by_at_most_the_shift(name):
    """log sf is 1-Lipschitz between any two grid points for exactly the members that Theorem C8
    prices.
    """
    noise, z = noise_of(name), np.linspace(-8.0, 30.0, 761)
    assert is_lipschitz(np.log(noise.sf(z)), z) is (noise.winner_cost != "gaussian")


def test_the_log_density_is_concave_and_lipschitz_exactly_where_it_is_announced(name):
    """Theorem N8 needs a density whose logarithm moves by at most the shift, on the whole line;
    quadrature a concave one.
    """
    noise, z = noise_of(name), np.linspace(-6.0, 30.0, 721)
    with np.errstate(divide="ignore"):
        log_pdf = np.log(noise.pdf(z))
    assert is_lipschitz(log_pdf, z) is noise.smooth
    inside = log_pdf[z >= noise.lower]
    assert (np.diff(inside, 2) <= 1e-14 * (1.0 + np.abs(inside[1:-1]))).all()


def test_bounded_range_is_announced_by_gumbel_alone():
    """Only Gumbel noise draws in proportion to exponentials of the scores, which Theorem C8 (ii)
    rests on.
    """
    for name in typing.get_args(NoiseName):
        noise, scores = noise_of(name), np.array([0.0, 1.3, 2.1])
        softmax = np.exp(scores) / np.exp(scores).sum()
        proportional = np.allclose(argmax_probabilities(noise, 1.0, scores), softmax, atol=1e-9)
        assert proportional is (noise.winner_cost == "bounded_range")


@pytest.mark.parametrize("declared", [None, "cauchy"])
def test_a_noise_without_a_theorem_is_refused(declared, monkeypatch):
    """No mechanism assumes a price for a noise that declares none: not even one that is symmetric
    and of small hazard.
    """
    stranger = type(
        "Stranger",
        (Laplace,),
        {"winner_cost": declared, "threshold_cost": declared, "smooth": False},
    )
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
        with pytest.raises(
            dps.errors.InvalidMechanism, match=r"declares no (winner|threshold)_cost"
        ):
            _ = mechanism.curve


def test_the_variance_is_that_of_the_law(name):
    """What forecasts and means over time take for the variance is the variance, to 1e-12."""
    assert noise_of(name).variance == pytest.approx(NOISE_LAWS[name].scipy.var(), rel=1e-12)


def test_symmetry_is_announced_truthfully(name):
    """sf(z) = cdf(-z), bit for bit, for symmetric members; others violate it by more than 0.1
    somewhere.
    """
    noise, grid = (
        noise_of(name),
        np.concatenate(
            [np.linspace(-60.0, 60.0, 4001), np.linspace(-1.0, 1.0, 2001), [200.0, 500.0]]
        ),
    )
    gap = np.abs(noise.sf(grid) - noise.cdf(-grid)).max()
    assert gap == 0.0 if noise.symmetric else gap > 0.1


def test_kinks_are_where_the_slope_jumps(name):
    """The one-sided slopes of the density differ at every announced kink, and agree at every other
    point of a grid.
    """
    noise, h = noise_of(name), 1e-6
    z = np.linspace(-5.0, 5.0, 101)
    left = (noise.pdf(z) - noise.pdf(z - h)) / h
    right = (noise.pdf(z + h) - noise.pdf(z)) / h
    jumps = np.abs(right - left) > 1e-2
    assert z[jumps].round(9).tolist() == list(noise.kinks)
