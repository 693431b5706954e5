"""Extremes: tiny and huge epsilons, tiny deltas and a million repetitions stay finite, sound,
monotone and consistent.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator

import mpmath as mp
import numpy as np
import pytest
from spread import spread

import accounting as acc
from accounting.convert.bounds import best_delta, best_epsilon
from accounting.convert.pld.loss import Normal

DELTAS = (0.5, 1e-3, 1e-6, 1e-20, 1e-100, 1e-300)
SIZES = (1e-9, 1.0, 1e3)
# The grid of the composed losses differs from plan to plan: its share of the variance, doubled.
GRID = 1e-4


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Extremes may lie at the edge of the Renyi orders; that is announced and not an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", acc.errors.GridEdgeWarning)
        yield


def members(size: float) -> list[acc.Curve]:
    """One curve of every kind at a size."""
    return [
        acc.PureDP(epsilon=size),
        acc.BoundedRange(epsilon=size),
        acc.LaplaceDP(epsilon=size),
        acc.GaussianDP(mu=size),
        acc.curves.GaussianMax(mu=size, candidates=12),
        acc.tighter(acc.PureDP(epsilon=size), acc.ZCDP(rho=size * size / 4)),
    ]


CASES = [(curve, size) for size in SIZES for curve in members(size)]


@pytest.mark.fast(2)
@pytest.mark.parametrize(("curve", "size"), spread(CASES, 5), ids=lambda value: repr(value)[:60])
def test_every_epsilon_is_finite_and_monotone(curve: acc.Curve, size: float) -> None:
    """For every count and delta epsilon is finite, never negative, and grows with the count and as
    delta shrinks.
    """
    table = np.array(
        [
            [(n * curve).epsilon(delta) for delta in (0.5, 1e-6, 1e-20, 1e-300)]
            for n in (1, 600, 10**6)
        ]
    )
    assert np.all(np.isfinite(table) & (table >= 0))
    assert np.all(np.diff(table, axis=0) >= -GRID * table[1:])
    assert np.all(np.diff(table, axis=1) >= -GRID * table[:, 1:])
    assert np.all(table[0] <= curve.core_epsilon)


def exact_gaussian(mu: float, epsilon: float) -> float:
    """The Gaussian mechanism's divergence in 400 digits."""
    with mp.workdps(400):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


# Points whose rounded places cost more than others'.
ROUNDED_DOWN = (
    (1.7774700932030707, 58.623814611754106),
    (1.0814154537754033e-08, 3.6217973557053643e-07),
    (1.2773562791118591e-06, 2.9091889274986527e-05),
    (24.878395766980162, 1264.2469469119887),
    (0.8020962781543606, 30.670346993958656),
    (0.4323906029419611, 7.0154793781026035),
    (5.754129933785039e-07, 1.3315578743805631e-05),
)
FARS = (-3.0, -1e-9, 0.0, 1.0, 5.0, 20.0, 36.0, 36.999, 37.0, 37.001, 37.9)


@pytest.mark.fast(12)
@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        *ROUNDED_DOWN,
        *(
            (mu, mu * (far + mu / 2))
            for mu in (1e-6, 1e-2, 1.0, 50.0)
            for far in FARS
            if far + mu / 2 >= 0
        ),
    ],
)
def test_a_gaussian_profile_is_an_upper_bound_everywhere(mu: float, epsilon: float) -> None:
    """By one formula of the distribution function, by another, and between: not below, and above by
    roundings only.

    They grow with the distance, as the roundings of its square, and by 1/mu where the two terms
    cancel; then denormals.
    """
    far = epsilon / mu - mu / 2
    exact, rounding = (
        exact_gaussian(mu, epsilon),
        3e-14 * (1 + far**2) * max(1, abs(far)) / mu + 2e-12,
    )
    for found in (
        acc.GaussianDP(mu=mu).profile(epsilon),
        float(Normal(mu).profile(np.array([epsilon]))[0]),
    ):
        assert exact <= found <= exact * (1 + rounding) + 2 * mp.mpf(5e-324)


def exact_pure(size: float, count: int, epsilon: float) -> float:
    """The divergence of repeated randomized response in 60 digits. Floats stand for their decimals,
    as sums read them.
    """
    with mp.workdps(60):
        e, limit = mp.mpf(repr(size)), mp.mpf(repr(epsilon))
        p = 1 / (1 + mp.exp(-e))
        losses = ((k, (2 * k - count) * e) for k in range(count + 1))
        weights = (
            (mp.binomial(count, k) * p**k * (1 - p) ** (count - k), y)
            for k, y in losses
            if y > limit
        )
        return mp.fsum(weight * (1 - mp.exp(limit - y)) for weight, y in weights)


@pytest.mark.parametrize(
    ("size", "count"), [(1e-9, 50), (1e-3, 300), (0.1, 100), (2.0, 30), (60.0, 4)]
)
def test_pure_repetition_is_sound_in_high_precision(size: float, count: int) -> None:
    """At every delta down to 1e-300 the epsilon of repeated pure mechanisms has a divergence of at
    most delta.
    """
    plan = count * acc.PureDP(epsilon=size)
    for delta in DELTAS:
        assert exact_pure(size, count, plan.epsilon(delta)) <= delta


def test_many_curves_add_up_their_failures_and_pure_epsilons() -> None:
    """A delta that the failures use up leaves the sum of the pure epsilons, and a smaller one
    proves nothing.
    """
    failing = acc.Approximate(curve=acc.PureDP(epsilon=0.5), delta0=1e-3)
    accountant = acc.Accountant().compose(failing, 2)
    for i in range(20):
        accountant.compose(acc.LaplaceDP(epsilon=0.01 + 1e-3 * i))
    assert accountant.epsilon(2e-3) == pytest.approx(
        1.0 + math.fsum(0.01 + 1e-3 * i for i in range(20)), rel=1e-12
    )
    assert accountant.epsilon(1.999e-3) == math.inf


def test_gaussian_profile_stays_positive_when_squares_overflow() -> None:
    """The place of epsilon has a square that is no float, or is none itself."""
    for mu, epsilon in (
        (1.0, 1e155),
        (1e-12, 1e300),
        (1e-12, 1e155),
        (5e-324, 1.0),
        (1e3, 1.7e308),
    ):
        assert acc.GaussianDP(mu=mu).profile(epsilon) == 5e-324


BR, TABLE = acc.BoundedRange, acc.curves.ProfileTable(epsilons=(1.0, 1e8), deltas=(1e-6, 0.0))
# Where a grid would fill the memory, a quotient leave the floats, or a search never end; with an
# epsilon that holds.
EXTREMES = {
    "denormal range": (BR(epsilon=5e-324), 2, 1e-300, 1.5e-323),
    "range whose inverse is no float": (BR(epsilon=1e-310), 2, 1e-300, 2e-310),
    "wide atoms": (TABLE, 2, 1e-5, 2e8),
    "wide atoms beside ranges": (TABLE + 2 * BR(epsilon=1.0), 1, 1e-5, 1e8),
    "a wide sample": (acc.SampledGaussianDP(mu=1e3, rate=1e-3), 100, 1e-6, 1e8),
    "hardly a sample": (acc.SampledGaussianDP(mu=1e-200, rate=0.01), 1, 1e-6, 1e-3),
    "narrow ranges beside noise": (2 * BR(epsilon=0.0025) + acc.GaussianDP(mu=1.0), 1, 1e-6, 4.887),
    "hardly any noise beside ranges": (
        2 * BR(epsilon=1.0) + acc.GaussianDP(mu=1e-200),
        1,
        1e-6,
        2.0,
    ),
    "ranges whose order leaves the floats": (BR(epsilon=1e300), 3, 1e-6, 3.01e300),
    "a range next to the greatest float": (BR(epsilon=1e307), 1, 1e-6, 1.01e307),
    "a pure epsilon whose square leaves the floats": (acc.PureDP(epsilon=1e300), 1, 1e-6, 1e300),
    "noise whose square leaves the floats": (acc.LaplaceDP(epsilon=1e300), 1, 1e-6, 1e300),
    "noise that tells all": (acc.GaussianDP(mu=1e200), 2, 1e-6, math.inf),
    "least shift of many": (acc.curves.GaussianMax(mu=5e-324, candidates=10**18), 2, 1e-6, 1e-100),
    "more runs than floats count": (
        acc.RepeatAndSelectDP(
            base=acc.PureDP(epsilon=1.0),
            distribution=acc.TruncatedNegativeBinomial(eta=-0.99, gamma=5e-324),
        ),
        2,
        1e-6,
        4.02,
    ),
}


@pytest.mark.parametrize(("curve", "count", "delta", "most"), EXTREMES.values(), ids=EXTREMES)
def test_extremes_are_priced_without_a_warning(
    curve: acc.Curve, count: int, delta: float, most: float
) -> None:
    """Neither an exception nor a warning of numpy, nor gigabytes: a number that is positive and
    holds with its delta.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        epsilon = (count * curve).epsilon(delta)
        assert 0 <= epsilon <= most
        assert math.isinf(epsilon) or (count * curve).delta(epsilon) <= delta * (1 + 1e-4)
        assert 0 < (count * curve).delta(0.0) <= 1


@pytest.mark.slow
def test_a_sum_without_spread_fits_into_memory() -> None:
    """A million steps that nearly all lose their most: the window of the sum is cut where it would
    not fit, and holds.
    """
    curve = 10**6 * acc.tighter(acc.PureDP(epsilon=202), acc.LaplaceDP(epsilon=303))
    assert 2.0199e8 <= curve.epsilon(1e-300) <= 2.02e8


def test_tiny_deltas_stay_positive_and_decrease() -> None:
    """A plan that is known in part by Renyi bounds has a delta at epsilons where e^-epsilon is no
    float.
    """
    plan = acc.ZCDP(rho=0.5) + acc.LaplaceDP(epsilon=1.0)
    found = [plan.delta(epsilon) for epsilon in (20.0, 60.0, 120.0, 900.0)]
    assert all(0 < b <= a for a, b in itertools.pairwise(found))
    assert found[1] < 1e-200


def test_a_group_beyond_all_orders_is_found_at_once() -> None:
    """10^18 steps are more than any grid of orders has: the zCDP bound is left."""
    one = acc.curves.GaussianMax(mu=1e-3, candidates=10)
    assert acc.group_privacy(one, 10**18).rho == pytest.approx(1e36 * one.rho, rel=1e-12)


def test_the_mean_of_a_law_of_runs_is_exact_where_floats_end() -> None:
    """Where gamma^eta is no float, the mean is that of arithmetic with 400 digits."""
    with mp.workdps(400):
        gamma, eta = mp.mpf(5e-324), mp.mpf(-0.99)
        exact = eta * (1 - gamma) / (gamma * (1 - gamma**eta))
    assert acc.TruncatedNegativeBinomial(eta=-0.99, gamma=5e-324).mean == pytest.approx(
        float(exact), rel=1e-12
    )
    for mean, eta in (("10", 0.0), (10.0, "1"), (10.0, math.nan)):
        with pytest.raises(acc.InvalidCurve):
            acc.TruncatedNegativeBinomial.of_mean(mean, eta=eta)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [acc.PureDP, acc.LaplaceDP])
@pytest.mark.parametrize("n", [10**10, 10**13])
def test_large_counts_never_price_below_the_central_limit(
    kind: Callable[..., acc.Curve], n: int
) -> None:
    """However large the count, epsilon and delta are at least those of the Gaussian pair that the
    plan tends to.
    """
    plan, limit = n * kind(epsilon=1e-6), acc.GaussianDP(mu=math.sqrt(n) * 1e-6)
    assert limit.delta(best_epsilon(plan, 1e-6).value) <= 1e-6 * (1 + 1e-4)
    assert best_delta(plan, 0.0).value >= limit.delta(0.0) * (1 - 1e-4)


def test_counts_beyond_exact_floats_are_rounded_up() -> None:
    """2^53 + 1 is no float: the sum of Renyi bounds uses a float that is not below it."""
    n = 2**53 + 1
    found = (n * acc.ZCDP(rho=1.0)).rdp([2.0])[0]
    assert int(found) >= 2 * n


def test_parameters_whose_squares_underflow_stay_sound() -> None:
    """Below 1e-154 squares vanish; epsilon and delta stay at or above the truth."""
    assert (10 * acc.PureDP(epsilon=1e-170)).delta(0.0) >= 1e-170
    assert acc.BoundedRange(epsilon=1e-160).epsilon(1e-300) >= 1e-160 * (1 - 1e-12)
    assert acc.LaplaceDP(epsilon=5e-324).epsilon(0.0) == 5e-324
    assert acc.GaussianDP(mu=1e-165).delta(0.0) >= 0.39e-165
    for mu in (0.0243, 1e-170):  # no pure guarantee: a positive delta at every epsilon
        assert min(acc.GaussianDP(mu=mu).delta(1.0), (3 * acc.GaussianDP(mu=mu)).delta(1.0)) > 0
    for mu in (1e-170, 1e-160):  # two are one of their joint mu, whose delta(0) is mu/sqrt(2 pi)
        two, joint = 2 * acc.GaussianDP(mu=mu), math.sqrt(2) * mu * (1 - 1e-9)
        assert two.delta(0.0) >= joint / math.sqrt(2 * math.pi)
        sampled = acc.poisson_sampled(two, 0.5, relation="add_remove")
        assert isinstance(sampled, acc.SampledGaussianDP)
        assert sampled.mu >= joint


@pytest.mark.parametrize(
    "curve",
    [
        acc.BoundedRange(epsilon=1e5),
        acc.LaplaceDP(epsilon=1e6),
        acc.GaussianDP(mu=1e5),
    ],
)
def test_a_grid_that_fills_the_memory_is_refused(curve: acc.Curve) -> None:
    """`pld` says that the interval is too fine, and refuses one that is none."""
    with pytest.raises(acc.errors.InvalidArgument, match="too fine"):
        curve.pld()
    with pytest.raises(acc.errors.InvalidArgument, match="interval"):
        curve.pld(math.nan)
