"""Theorems P25 to P27: what the release of a bound costs, and what the published number means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from accounting import Budget, Curve, GaussianDP, PrivacyFilter
from accounting.convert.bounds import best_epsilon
from dpselect import pate
from dpselect.errors import InvalidMechanism
from dpselect.pate.unsanitised import LossProfile

RELEASES = [
    pate.SmoothRelease(order=order, beta=share * math.log(order / (order - 1)) / 2, sigma=sigma, failure=failure)
    for order in (1.5, 4.0, 20.0)
    for share in (0.05, 0.5, 0.95)
    for sigma in (0.5, 3.0, 40.0)
    for failure in (0.4, 1e-9)
]


def _normal_divergence(order: float, mean: float, deviation: float, mean2: float, deviation2: float) -> float:
    """D_order(N(mean, deviation^2) || N(mean2, deviation2^2)), in closed form; inf if it diverges."""
    mixed = (1 - order) * deviation**2 + order * deviation2**2
    if mixed <= 0:
        return math.inf
    spread = math.log(mixed) / 2 - (1 - order) * math.log(deviation) - order * math.log(deviation2)
    return order * (mean - mean2) ** 2 / (2 * mixed) + spread / (1 - order)


def _pairs(release: pate.SmoothRelease) -> list[tuple[float, float, float, float]]:
    """What is released at two neighbours: R = 0 and R' at any admissible distance, S = 1 and S' at any admissible ratio."""
    found = []
    for ratio in np.exp(np.linspace(-release.beta, release.beta, 21)):
        for move in np.linspace(-1, 1, 5) * min(1.0, ratio):
            here = release.quantile * release.sigma, release.sigma
            found.append((*here, move + release.quantile * release.sigma * ratio, release.sigma * ratio))
    return found


def test_closed_form_of_two_normals() -> None:
    """The oracle of these tests agrees with quadrature."""
    p, q = stats.norm(0.3, 1.2), stats.norm(-0.5, 1.1)
    moment = integrate.quad(lambda x: math.exp(3 * p.logpdf(x) - 2 * q.logpdf(x)), -40, 40, points=[0.0, 5.0])[0]
    assert math.log(moment) / 2 == pytest.approx(_normal_divergence(3.0, 0.3, 1.2, -0.5, 1.1), rel=1e-8)


def _worst(release: pate.SmoothRelease, order: float) -> float:
    """Of all admissible pairs, both ways round."""
    return max(_normal_divergence(order, *pair) for a in _pairs(release) for pair in (a, (*a[2:], *a[:2])))


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: f"{r.order:g}-{r.beta:.3g}-{r.sigma:g}-{r.failure:g}")
def test_release_costs_the_worst_admissible_pair(release: pate.SmoothRelease) -> None:
    """At its own order the bound is the largest divergence over admissible pairs, to 10^-5, and at others to a thousandth."""
    worst = _worst(release, release.order)
    assert worst <= release.rdp <= worst * (1 + 1e-5) + 1e-9
    orders = np.array(release.curve.orders)[[0, 20, 50, 80, -1]]
    for order, bound in zip(orders, release.curve.rdp(orders), strict=True):
        worst = _worst(release, order)
        assert worst <= bound <= worst * (1 + 1e-3) + 1e-9
    assert release.curve.rdp(release.order) == release.rdp
    assert math.isinf(release.curve.rdp(2 / -math.expm1(-2 * release.beta)))


def test_erratum_the_published_cost_of_smooth_noise_is_too_small() -> None:
    """An admissible pair exceeds Theorem 23 of Papernot et al. 2018, as their code has it, at the beta = 0.49/order it uses."""
    order, sigma = 10.0, 3.0
    beta = 0.49 / order
    published = order * math.exp(2 * beta) / sigma**2 + (beta * order - math.log(1 - 2 * order * beta) / 2) / (order - 1)
    # R = 0, S = 1 and, at a neighbour, S' = e^-beta and R' = S'.
    exact = _normal_divergence(order, 0.0, sigma, math.exp(-beta), sigma * math.exp(-beta))
    assert exact > 5 * published
    assert pate.SmoothRelease(order=order, beta=beta, sigma=sigma, failure=0.499999).rdp >= exact


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"order": 1.0}, "order"),
        ({"order": 2.0, "beta": 0.35}, "beta"),
        ({"order": 2.0, "sigma": 0.0}, "sigma"),
        ({"order": 2.0, "failure": 1.0}, "failure"),
        ({"order": "2"}, "order"),
    ],
)
def test_releases_without_a_price_are_refused(fields: dict[str, object], word: str) -> None:
    """A beta at which the divergence is infinite, and values outside their domain, are refused by name."""
    with pytest.raises(InvalidMechanism, match=word):
        pate.SmoothRelease(**{"failure": 1e-7, **fields})


def _unsanitised(counts: list[list[int]], sigma: float = 12.0) -> pate.UnsanitisedPrivacy:
    return pate.data_dependent(counts, pate.GNMax(sigma=sigma, labels=len(counts[0])), teachers=sum(counts[0]))


@pytest.mark.slow
def test_noise_follows_the_smooth_sensitivity() -> None:
    """The released numbers are the true bound plus (N(0, 1) + quantile) sigma S, by a Kolmogorov test with a false alarm of 1e-6:
    so they are below the bound with the stated probability."""
    counts = [[100, 0, 0], [90, 8, 2], [55, 40, 5]] * 4
    private = _unsanitised(counts)
    profile = LossProfile(4.0, private._lattice, None)
    release = pate.SmoothRelease(order=4.0, sigma=0.05, failure=0.3)
    scale = profile.smooth(private._states, release.beta) * release.sigma
    centre = profile.total(private._states) + release.quantile * scale
    assert stats.norm(centre, scale).cdf(profile.total(private._states)) == pytest.approx(release.failure)
    rng = np.random.default_rng(5)
    drawn = [private._released(release, rng) for _ in range(2000)]
    assert min(drawn) > 0
    assert max(drawn) < profile.plain * len(counts)
    assert stats.kstest(drawn, stats.norm(centre, scale).cdf).pvalue > 1e-6


def test_never_worse_than_the_price_without_votes() -> None:
    """The released bound is at most the data-independent one, and at least 0."""
    rng = np.random.default_rng(4)
    noisy = [_unsanitised([[4, 3, 1]]).sanitised(order=8.0, delta=1e-5, sigma=1e4, rng=rng).rdp for _ in range(20)]
    assert all(0 <= value <= 8.0 / 12.0**2 * (1 + 1e-12) for value in noisy)


@pytest.mark.slow
def test_agreement_is_cheap() -> None:
    """1000 rounds of 1000 teachers, nine tenths agreed, at sigma 60: 0.9 published against 3.1 whatever the votes, delta 1e-5."""
    counts = np.random.default_rng(1).multinomial(1000, [0.9] + [0.1 / 9] * 9, size=1000)
    mechanism = pate.GNMax(sigma=60.0, labels=10)
    private = pate.data_dependent(counts, mechanism, teachers=1000)
    published = private.sanitised(order=16.0, delta=1e-5, rng=np.random.default_rng(2))
    assert private.expose_private_epsilon(1e-5) < 0.2
    assert private.expose_private_epsilon(1e-5) < published.epsilon < 1.0
    assert (1000 * mechanism.curve).epsilon(1e-5) > 3


def test_epsilon_is_that_of_labels_and_release_together() -> None:
    """The published epsilon converts the released bound plus the cost of the release, at delta less the failure."""
    published = _unsanitised([[100, 0, 0]] * 400).sanitised(order=4.0, delta=1e-5, rng=np.random.default_rng(2))
    total, left = published.rdp + published.release.rdp, 1e-5 - published.release.failure
    by_hand = total + math.log1p(-1 / 4) - math.log(4 * left) / 3
    assert published.epsilon == pytest.approx(by_hand, rel=1e-9)
    assert pate.SanitisedEpsilon.model_validate_json(published.model_dump_json()) == published
    assert (published.passes(published.rdp), published.passes(published.rdp - 1e-6)) == (True, False)


def _tested_divergence(
    epsilon: float, limit: float, release: pate.SmoothRelease, bounds: tuple[float, float], ratio: float
) -> float:
    """Exact hockey-stick of: release the bound, and below `limit` also N(0, 1) against N(m, 1), which cost the smaller bound."""
    scale, quantile = release.sigma, release.quantile
    p = stats.norm(bounds[0] + quantile * scale, scale)
    q = stats.norm(bounds[1] + quantile * scale * ratio, scale * ratio)
    shift = math.sqrt(2 * min(bounds) / release.order)

    def labels(y: float) -> float:
        log_factor = epsilon + q.logpdf(y) - p.logpdf(y)
        inside = stats.norm.cdf(shift / 2 - log_factor / shift) - math.exp(log_factor) * stats.norm.cdf(
            -shift / 2 - log_factor / shift
        )
        return p.pdf(y) * max(inside, 0.0)

    def alone(y: float) -> float:
        return max(p.pdf(y) - math.exp(epsilon) * q.pdf(y), 0.0)

    low, high = p.mean() - 12 * scale, p.mean() + 12 * scale
    cut = min(max(limit, low), high)
    return integrate.quad(labels, low, cut, limit=400)[0] + integrate.quad(alone, cut, high, limit=400)[0]


@pytest.mark.parametrize("bounds", [(2.0, 2.5), (2.5, 2.0), (3.5, 4.5), (8.0, 8.5)])
@pytest.mark.parametrize("ratio", [-1, 0, 1])
def test_a_tested_release_keeps_its_curve(bounds: tuple[float, float], ratio: int) -> None:
    """Labels released below a limit only keep `tested` on pairs below, across and above the limit, by quadrature."""
    release = pate.SmoothRelease(order=4.0, beta=0.1, sigma=1.0, failure=1e-3)
    limit = 3.0
    plain = GaussianDP(mu=math.sqrt(2 * min(bounds) / release.order))
    for curve in (release.tested(limit), release.tested(limit, plain)):
        assert Curve.from_json(curve.to_json()) == curve
        for delta in (2e-3, 1e-2):
            epsilon = best_epsilon(curve, delta).value
            assert _tested_divergence(epsilon, limit, release, bounds, math.exp(0.1 * ratio)) <= delta


def test_ordinary_budgets_pay_for_a_tested_release() -> None:
    """At the budget's own order, or with the labels' plain price, the tested curve fits as any other charge does."""
    counts = np.random.default_rng(1).multinomial(1000, [0.9] + [0.1 / 9] * 9, size=1000)
    mechanism, budget = pate.GNMax(sigma=60.0, labels=10), Budget(epsilon=2.0, delta=1e-5)
    plain = 1000 * mechanism.curve
    release = pate.SmoothRelease(order=float(budget.order), failure=1e-7)
    limit = 0.5
    assert pate.data_dependent(counts, mechanism, teachers=1000, orders=(release.order,)).expose_private()[0] < limit / 2
    filtered = PrivacyFilter(budget)
    assert not filtered.can_afford(plain)
    filtered.charge(release.tested(limit))
    assert filtered.remaining.main > 0.1
    other = pate.SmoothRelease(order=8.0, failure=1e-7)
    assert math.isinf(other.tested(1.0).rdp(release.order))
    assert math.isfinite(other.tested(1.0, plain).rdp(release.order))
    assert np.all(other.tested(1.0, plain).rdp(other.curve.orders) <= (plain + other.curve).rdp(other.curve.orders) * (1 + 1e-12))


def test_an_epsilon_is_never_above_the_plain_one() -> None:
    """Where votes are spread, the private epsilon is the curve's, and the published one that of curve and release together."""
    private, plain = _unsanitised([[34, 33, 33]] * 20), 20 * pate.GNMax(sigma=12.0, labels=3).curve
    assert private.expose_private_epsilon(1e-5) == best_epsilon(plain, 1e-5).value
    published = private.sanitised(order=16.0, delta=1e-5, rng=np.random.default_rng(2))
    assert published.epsilon == best_epsilon(plain + published.release.curve, 1e-5).value


def test_an_order_is_picked_by_the_size_of_the_ensemble() -> None:
    """Without an order the published bound has that of the number of teachers, which rises with it, between 4 and 64."""
    sizes = [pate.usual_order(teachers) for teachers in (1, 100, 250, 1000, 5000, 10**6)]
    assert sizes == [4, 4, 7, 18, 51, 64]
    published = _unsanitised([[90, 8, 2]] * 5).sanitised(delta=1e-5, rng=np.random.default_rng(2))
    assert published.release.order == pate.usual_order(100)
