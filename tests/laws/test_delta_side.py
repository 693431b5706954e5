"""Delta, held from both sides: failures are paid for to the unit, and what is stated as a
probability is attained.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from adaptive_game import program
from pairs import Delta, Floats, gaussian, laplace, of_pair, of_range, response, sampled_gaussian
from scipy.optimize import brentq
from scipy.stats import binom

import accounting as acc
from accounting.curves.base import CURVES
from dpselect.mechanisms.stable_top_k import _double_failure


def _two_points(epsilons: tuple[float, float], deltas: tuple[float, float]) -> Delta:
    """The pair that meets both bounds: failures, and log-ratios of plus or minus either epsilon,
    which leave no mass over.
    """
    (low, high), (first, last) = epsilons, deltas
    far = (first - last) / -math.expm1(low - high)
    near = (1 - last - far * (1 + math.exp(-high))) / (1 + math.exp(-low))
    p = [last, far, near, near * math.exp(-low), far * math.exp(-high), 0.0]
    return of_pair(p, p[::-1])


def _from_moments(orders: Floats, values: Floats) -> Delta:
    """Proposition 12 of Canonne, Kamath and Steinke (2020), at the best of the orders."""
    logs = np.log1p(-1 / orders) * orders - np.log(orders - 1)
    return lambda epsilon: math.exp(np.min((orders - 1) * (values - epsilon) + logs))


def _best_of(mu: float, law: acc.TruncatedNegativeBinomial) -> Delta:
    """Theorem W4 (v), solved by SciPy."""
    shift = (1 + law.eta) * brentq(
        lambda e: math.expm1(e) - (1 / law.gamma - 1) * gaussian(mu)(e), 0, 60, xtol=1e-14
    )
    return lambda epsilon: law.mean * gaussian(mu)(epsilon - shift)


class Case(NamedTuple):
    """A curve, its delta by other means, and whether that is the divergence of two laws, so that no
    bound may be lower.
    """

    curve: acc.Curve
    exact: Delta
    epsilons: tuple[float, ...]
    attained: bool


_ORDERS = 1 + np.geomspace(1e-3, 1e3, 100_001)
_TEN = acc.TruncatedNegativeBinomial.of_mean(10.0, eta=0.0)
CASES = {
    "pure_dp": Case(acc.PureDP(epsilon=0.7), of_pair(*response(0.7)), (0.0, 0.2, 0.6), True),
    "approx_dp": Case(
        acc.ApproxDP(epsilon=0.7, delta=0.01),
        of_pair(*response(0.7, 0.01)),
        (0.0, 0.2, 0.6, 1.5),
        True,
    ),
    "bounded_range": Case(acc.BoundedRange(epsilon=0.7), of_range(0.7), (0.0, 0.2, 0.6), True),
    "gaussian_dp": Case(acc.GaussianDP(mu=0.7), gaussian(0.7), (0.0, 0.2, 0.6, 3.0), True),
    "gaussian_max": Case(
        acc.curves.GaussianMax(mu=0.3, candidates=3),
        lambda epsilon: 3 * gaussian(0.3)(epsilon),
        (0.5, 0.75, 1.5),
        False,
    ),
    "discrete_gaussian_dp": Case(
        acc.curves.DiscreteGaussianDP(sigma=1.3, sensitivity=2),
        of_pair(
            *(
                np.exp(-((np.arange(-60, 61) - at) ** 2) / 3.38)
                / np.exp(-(np.arange(-60, 61) ** 2) / 3.38).sum()
                for at in (0, 2)
            )
        ),
        (0.0, 0.2, 1.0, 3.0),
        True,
    ),
    "laplace_dp": Case(acc.LaplaceDP(epsilon=0.7), laplace(0.7), (0.0, 0.2, 0.6), True),
    "zcdp": Case(acc.ZCDP(rho=0.1), _from_moments(_ORDERS, 0.1 * _ORDERS), (0.2, 0.75, 1.5), False),
    "renyi_table": Case(
        acc.RenyiTable(orders=(8.0,), values=(0.3,)),
        _from_moments(np.array([8.0]), np.array([0.3])),
        (0.5, 0.75, 1.5),
        False,
    ),
    "profile_table": Case(
        acc.curves.ProfileTable(epsilons=(0.3, 0.9), deltas=(0.05, 0.01)),
        _two_points((0.3, 0.9), (0.05, 0.01)),
        (0.0, 0.2, 0.3, 0.5, 0.9, 1.5),
        True,
    ),
    # All of epsilon1 and epsilon2 in one direction: one Laplace shift (Theorem N7).
    "sparse_vector_dp": Case(
        acc.curves.SparseVectorDP(epsilon1=0.3, epsilon2=0.4), laplace(0.7), (0.0, 0.35, 0.6), True
    ),
    "sampled_gaussian_dp": Case(
        acc.SampledGaussianDP(mu=0.7, rate=0.1), sampled_gaussian(0.7, 0.1), (0.0, 0.2, 0.75), True
    ),
    # G5: at a rate of q what q of the noise's own divergence is, at an epsilon that the rest of the
    # sample makes larger.
    "sampled_noise_dp": Case(
        acc.curves.SampledNoiseDP(noise="laplace", shift=0.7, rate=0.1),
        lambda epsilon: 0.1 * laplace(0.7)(math.log1p(math.expm1(epsilon) / 0.1)),
        (0.0, 0.02, 0.05),
        True,
    ),
    "approximate": Case(
        acc.Approximate(curve=acc.PureDP(epsilon=0.7), delta0=0.01),
        lambda epsilon: 0.01 + of_pair(*response(0.7))(epsilon),
        (0.0, 0.2, 0.6, 1.5),
        False,
    ),
    "repeat_and_select_dp": Case(
        acc.RepeatAndSelectDP(base=acc.GaussianDP(mu=0.3), distribution=_TEN),
        _best_of(0.3, _TEN),
        (1.7, 1.85, 2.2),
        False,
    ),
    "composed": Case(4 * acc.GaussianDP(mu=0.35), gaussian(0.7), (0.0, 0.2, 0.6, 3.0), True),
    "tighter": Case(
        acc.curves.Tighter(curves=(acc.GaussianDP(mu=0.7), acc.PureDP(epsilon=0.9))),
        gaussian(0.7),
        (0.0, 0.2),
        False,
    ),
    # Theorem W10: a user of either part.
    "parallel": Case(
        acc.parallel(acc.GaussianDP(mu=0.7), acc.PureDP(epsilon=0.9)),
        lambda epsilon: max(gaussian(0.7)(epsilon), of_pair(*response(0.9))(epsilon)),
        (0.0, 0.2, 0.6, 1.5),
        True,
    ),
    "proved_for": Case(
        acc.curves.ProvedFor(curve=acc.LaplaceDP(epsilon=0.7), relation="add_remove"),
        laplace(0.7),
        (0.0, 0.2, 0.6),
        True,
    ),
}


def test_the_delta_of_every_kind_of_curve_is_held() -> None:
    """A new kind of curve brings a case of its own."""
    assert {kind: case.curve.kind for kind, case in CASES.items()} == {
        kind: kind for kind in CURVES.members()
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_delta_is_that_of_a_pair_or_its_closed_form(case: Case) -> None:
    """Equal to a divergence that is computed from the laws themselves, or to the theorem's formula:
    5 % less is seen.
    """
    for epsilon in case.epsilons:
        assert case.curve.delta(epsilon) == pytest.approx(case.exact(epsilon), rel=1e-6)
        profile = case.curve.profile(epsilon)  # what other curves are made of
        assert profile is None or profile >= case.exact(epsilon) * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.attained], ids=lambda case: case.curve.kind
)
def test_delta_of_a_composition_is_not_below_that_of_a_part(case: Case) -> None:
    """With next to nothing added, which takes another route: as much, and no less."""
    added = case.curve + acc.PureDP(epsilon=1e-7)
    for epsilon in case.epsilons:
        assert (
            case.exact(epsilon) * (1 - 1e-6)
            <= added.delta(epsilon)
            <= case.exact(epsilon) * (1 + 1e-4)
        )


def test_failures_are_not_lost_in_a_sum() -> None:
    """What fails gives the bit away, whatever is composed with it: delta is at least that, and at
    most the failure more.
    """
    added = acc.Approximate(curve=acc.PureDP(epsilon=0.7), delta0=0.01) + acc.PureDP(epsilon=1e-7)
    for epsilon in (0.0, 0.2, 0.6, 1.5):
        least = of_pair(*response(0.7, 0.01))(epsilon)
        assert (
            least * (1 - 1e-6)
            <= added.delta(epsilon)
            <= (0.01 + of_pair(*response(0.7))(epsilon)) * (1 + 1e-4)
        )


@pytest.mark.parametrize("failure", [1e-6, 0.01])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_failures_of_gaussians_are_not_lost_in_their_sum(count: int, failure: float) -> None:
    """Each of several Gaussian answers may give the bit away: delta is at least that of the pair,
    and at most their sum.
    """
    curve = count * acc.Approximate(curve=acc.GaussianDP(mu=0.3), delta0=failure) + acc.GaussianDP(
        mu=0.4
    )
    whole, failing = gaussian(math.sqrt(count * 0.09 + 0.16)), 1 - (1 - failure) ** count
    for epsilon in (0.5, 2.0, 8.0):
        least = failing + (1 - failing) * whole(epsilon)
        most = (count * failure + whole(epsilon)) * (1 + 1e-6)
        profile = curve.profile(epsilon)
        assert profile is not None
        assert least * (1 - 1e-9) <= profile <= most
        assert least * (1 - 1e-9) <= curve.delta(epsilon) <= most


RUNS = acc.TruncatedNegativeBinomial(eta=0.5, gamma=0.05)


@pytest.mark.parametrize(
    ("curve", "failure"),
    [
        (acc.ApproxDP(epsilon=0.5, delta=1e-4), 1e-4),
        (acc.Approximate(curve=acc.ApproxDP(epsilon=0.5, delta=1e-4), delta0=2e-4), 3e-4),
        (
            7 * acc.ApproxDP(epsilon=0.5, delta=1e-4)
            + acc.Approximate(curve=acc.ZCDP(rho=0.1), delta0=1e-5),
            7.1e-4,
        ),
        (
            acc.curves.Tighter(
                curves=(
                    acc.ApproxDP(epsilon=0.5, delta=1e-4),
                    acc.ApproxDP(epsilon=0.4, delta=2e-4),
                )
            ),
            2e-4,
        ),
        (
            acc.RepeatAndSelectDP(base=acc.ApproxDP(epsilon=0.1, delta=1e-5), distribution=RUNS),
            RUNS.mean * 1e-5,
        ),
        (
            acc.RepeatAndSelectDP(
                base=acc.ApproxDP(epsilon=0.1, delta=1e-5),
                distribution=acc.curves.PoissonRuns(mean=6.0),
            ),
            6e-5,
        ),
    ],
)
def test_combined_curve_failures_match_their_closed_form(curve: acc.Curve, failure: float) -> None:
    """Sums, the larger one, or as many runs as are expected: rounded up, by no more than one part
    in 10^12; doubled for two users, to the last digit, and none if it is certain then.
    """
    assert failure <= curve.delta0 * (1 + 1e-15)
    assert curve.delta0 == pytest.approx(failure, rel=1e-12)
    pure = acc.PureDP(epsilon=1.0)
    doubled = [_double_failure(acc.Approximate(curve=pure, delta0=once)) for once in (0.125, 0.5)]
    assert doubled == [acc.Approximate(curve=pure, delta0=0.25), None]


@pytest.mark.parametrize("mu", [0.05, 2.0])
@pytest.mark.parametrize("candidates", [2, 1000])
def test_the_profile_of_a_gaussian_maximum_is_its_union_bound(mu: float, candidates: int) -> None:
    """Each candidate adds the profile of one Gaussian, in what is composed too: equal, not 5 %
    less.
    """
    curve = acc.curves.GaussianMax(mu=mu, candidates=candidates)
    for epsilon in (0.5 * mu, 2 * mu, 4 * mu + 1):
        assert curve.profile(epsilon) == pytest.approx(
            min(1.0, candidates * gaussian(mu)(epsilon)), rel=1e-6
        )
        assert curve.delta(epsilon) <= curve.profile(epsilon)
    composed = curve.losses().steps[0][1].profile(np.array([4 * mu + 1]))
    assert composed[0] == pytest.approx(curve.profile(4 * mu + 1), rel=1e-6)


@pytest.mark.parametrize("failure", [0.0, 1e-3, 0.4])
@pytest.mark.parametrize("count", [1, 3])
def test_the_program_gives_responses_their_epsilon(failure: float, count: int) -> None:
    """Randomized response, whose composition is a binomial, failures added: the grid has its
    atoms.
    """
    steps = [(acc.Approximate(curve=acc.PureDP(epsilon=0.8), delta0=failure / count), count)]
    k, p = np.arange(count + 1), 1 / (1 + math.exp(-0.8))
    losses = (2 * k - count) * 0.8
    for level in (0.1, 0.4, 0.75):
        exact = (
            float(np.sum(binom.pmf(k, count, p) * np.maximum(0, -np.expm1(level - losses))))
            + failure
        )
        assert level * (1 - 1e-9) <= program(steps, exact) <= 1.001 * level


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.1, 1e-6, 10), (0.5, 1e-5, 3), (0.01, 1e-3, 50)]
)
def test_epsilon_at_the_failure_sum_is_attained(epsilon: float, delta: float, count: int) -> None:
    """At exactly n delta the optimal composition of (epsilon, delta) (Kairouz, Oh, Viswanath) is
    below n epsilon, and is met.
    """
    curve = count * acc.ApproxDP(epsilon=epsilon, delta=delta)
    found = curve.epsilon(curve.delta0)
    room = curve.delta0 - (1 - (1 - delta) ** count)
    told, k = response(epsilon), np.arange(count + 1)
    # of as many responses, which do not fail
    ways = binom.pmf(k, count, told[0][0]), binom.pmf(k, count, told[0][1])

    def exact(at: float) -> float:
        return (1 - delta) ** count * of_pair(*ways)(at)

    assert found < count * epsilon
    assert exact(found) <= room * (1 + 1e-6)
    assert exact(0.97 * found) > room


@pytest.mark.parametrize(("count", "failure"), [(10, 1e-3), (1000, 1e-3)])
def test_repeated_failures_are_a_mixture(count: int, failure: float) -> None:
    """n x ApproxDP fails with 1 - (1-d)^n, at any epsilon from n epsilon on; a delta between that
    and n d has an epsilon.
    """
    plan = count * acc.ApproxDP(epsilon=1e-3, delta=failure)
    exact = -math.expm1(count * math.log1p(-failure))
    assert exact <= plan.delta(2 * count * 1e-3) <= exact * (1 + 1e-6)
    assert math.isfinite(plan.epsilon(min(0.999, (exact + min(1.0, count * failure)) / 2)))
    assert math.isinf(plan.epsilon(0.99 * exact))
