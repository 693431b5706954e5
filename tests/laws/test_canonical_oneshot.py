"""One-shot Laplace top-k: the sqrt(k) family, its profile as a curve, its utility, and released values."""

from __future__ import annotations

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.curves.profile_table import ProfileTable
from dpselect.mechanisms.canonical import log_binomial
from dpselect.mechanisms.noisy_max import OneshotTopK, winners_curve
from dpselect.noise import by_name
from dpselect.verify.divergences import hockey_stick, log_ratio

FALSE_ALARM = 1e-9
COUNTS = dps.Sensitivity()


def counts(values: object) -> dps.Scores:
    """Scores of any sign."""
    return dps.Scores(values, sensitivity=COUNTS, kind="utilities")


def two_groups(first: float, second: float, sizes: tuple[int, int], k: int, scale: float) -> np.ndarray:
    """Law of how many of the top k come from the first of two groups of equal scores, by quadrature over the k-th largest."""
    noise = by_name("laplace")
    z = np.linspace(-15, 15, 20_001) * scale
    (a, b), up = sizes, np.array
    parts = []
    for taken in range(max(0, k - b), min(a, k) + 1):
        left = k - taken
        logs = up([log_binomial(a, taken) + log_binomial(b, left)])
        body = taken * noise.log_sf((z - first) / scale) + (a - taken) * noise.log_cdf((z - first) / scale)
        body += left * noise.log_sf((z - second) / scale) + (b - left) * noise.log_cdf((z - second) / scale)
        # The k-th largest is in one group or the other: pdf/sf of that member.
        rate = taken * noise.pdf((z - first) / scale) / noise.sf((z - first) / scale)
        rate += left * noise.pdf((z - second) / scale) / noise.sf((z - second) / scale)
        parts.append(np.trapezoid(np.exp(body + logs) * rate / scale, z))
    return np.array(parts)


@pytest.mark.slow
def test_sqrt_k_family_covers_two_groups_of_many() -> None:
    """At k = 400 of 800, where the family beats the pure bound, exact laws of two-group pairs stay below it; less noise fails."""
    k, m = 400, 800
    curve = winners_curve("laplace", 20_000.0, dps.Sensitivity(monotone=False), m, k)
    assert isinstance(curve, acc.curves.Tighter)
    assert curve.epsilon(1e-6) < 0.95 * acc.LaplaceDP(epsilon=2 * k / 20_000).epsilon(1e-6)
    for sizes, start in (((400, 400), 0.0), ((200, 600), 0.0), ((400, 400), 30_000.0)):
        p = two_groups(start, 0.0, sizes, k, 20_000.0)
        q = two_groups(start + 1, -1.0, sizes, k, 20_000.0)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        for epsilon in (0.0, 0.005, 0.01, 0.02, 0.03):
            exact = max(float(hockey_stick(p, q, epsilon)[0, 0]), float(hockey_stick(q, p, epsilon)[0, 0]))
            assert exact <= curve.delta(epsilon) + 1e-5
        assert log_ratio(p, q)[0] <= curve.pure_epsilon
    # The theorem is far from tight: it takes a hundredth of the noise to exceed its profile.
    profile = next(one for one in curve.curves if isinstance(one, ProfileTable))
    p, q = two_groups(0.0, 0.0, (400, 400), k, 200.0), two_groups(1.0, -1.0, (400, 400), k, 200.0)
    assert float(hockey_stick(p, q, 0.02)[0, 0]) > profile.profile(0.02) + 1e-4


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_one_point_is_pure_or_approximate(epsilon: float) -> None:
    """A profile of one point has the Renyi bound, rho, profile and distribution of PureDP or ApproxDP."""
    orders = np.array([1 + 1e-6, 1.5, 2, 8, 64, 1e6])
    for delta, reference in ((0.0, acc.PureDP(epsilon=epsilon)), (1e-5, acc.ApproxDP(epsilon=epsilon, delta=1e-5))):
        curve = ProfileTable(epsilons=(epsilon,), deltas=(delta,))
        assert curve.rdp(orders) == pytest.approx(reference.rdp(orders), rel=1e-11)
        assert curve.rho == pytest.approx(reference.rho, rel=1e-11)
        assert curve.profile(epsilon / 3) == pytest.approx(reference.profile(epsilon / 3), rel=1e-11)
        assert curve.pld().get_epsilon_for_delta(1e-4) == pytest.approx(reference.pld().get_epsilon_for_delta(1e-4), abs=1e-6)
        assert acc.Curve.from_json(curve.to_json()) == curve


def test_many_points_cover_the_curve_they_come_from() -> None:
    """Points read off a Gaussian profile give bounds at least the Gaussian's, close to them, and compose through either route."""
    exact, at = acc.GaussianDP(mu=0.5), np.linspace(0.02, 6, 300)
    curve = ProfileTable(epsilons=tuple(at), deltas=tuple(exact.profile(float(e)) for e in at))
    orders = np.array([1.01, 1.5, 2, 4, 8])
    assert np.all(curve.rdp(orders) >= exact.rdp(orders) * (1 - 1e-9))
    assert curve.rdp(orders) == pytest.approx(exact.rdp(orders), rel=5e-3)
    assert np.all(curve.rdp(orders) <= curve.rho * orders)
    for epsilon in (0.0, 0.31, 1.003, 2.5):
        assert exact.profile(epsilon) * (1 - 1e-9) <= curve.profile(epsilon) <= exact.profile(epsilon) * 1.1
    composed = (10 * curve).pld()
    assert composed is not None
    assert (10 * exact).epsilon(1e-5) <= composed.get_epsilon_for_delta(1e-5) <= (10 * curve).epsilon(1e-5) * 1.001


def test_dominated_points_change_nothing() -> None:
    """A point that the others imply leaves every bound as it is."""
    lean = ProfileTable(epsilons=(0.1, 1.0), deltas=(1e-2, 0.0))
    fat = ProfileTable(epsilons=(0.1, 0.5, 1.0), deltas=(1e-2, 9.9e-3, 0.0))
    assert fat.rdp([2.0, 8.0]) == pytest.approx(lean.rdp([2.0, 8.0]), rel=1e-12)
    assert [fat.profile(e) for e in (0, 0.3, 0.9)] == pytest.approx([lean.profile(e) for e in (0, 0.3, 0.9)], rel=1e-11)


@pytest.mark.parametrize(
    "points", [((0.1, 0.1), (0.2, 0.1)), ((0.2, 0.1), (0.2, 0.1)), ((0.1,), (0.2, 0.1)), ((0.1,), (1.0,)), ((), ())]
)
def test_what_is_no_profile_is_refused(points: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    """Points that are not strictly ordered, or do not pair up, raise InvalidCurve."""
    with pytest.raises(acc.InvalidCurve):
        ProfileTable(epsilons=points[0], deltas=points[1])


def test_utility_bound_is_below_the_exact_probability() -> None:
    """With gaps of D between neighbours in rank, the true set comes out at least as often as Theorem 2.3 says."""
    for gap in (0.5, 3.0, 10.0, 25.0):
        mechanism = OneshotTopK(k=2, noise="laplace", scale=1.7)
        law = mechanism.probabilities(counts(gap * np.arange(5)))
        bound = mechanism.true_set_bound(gap, 5)
        assert bound <= law[3, 4] + law[4, 3]
    assert bound > 0.999
    with pytest.raises(dps.errors.InvalidRequest):
        OneshotTopK(k=2, noise="gumbel", scale=1.7).true_set_bound(1.0, 5)


def test_values_are_charged() -> None:
    """Values of noise of their own cost k LaplaceDP more, whatever chose; how they fall is a law of test_mechanisms.py."""
    plain = OneshotTopK(k=2, noise="laplace", scale=1.0, candidates=5)
    with_values = OneshotTopK(k=2, noise="laplace", scale=1.0, candidates=5, value_scale=4.0)
    assert with_values.curve == plain.curve + 2 * acc.LaplaceDP(epsilon=0.25)


def test_values_have_no_probabilities_and_no_batch() -> None:
    """With values the exact law and select_many are refused, with a remedy."""
    mechanism = OneshotTopK(k=1, noise="laplace", scale=1.0, value_scale=3.0)
    with pytest.raises(dps.errors.NoClosedForm, match="cell_probabilities"):
        mechanism.probabilities(counts([1, 2]))
    with pytest.raises(dps.errors.InvalidRequest, match="value_scale"):
        mechanism.select_many([[1, 2]])
