"""Group privacy and Poisson sampling against exact laws of small mechanisms on paths of inputs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import dp_event
from numpy.typing import NDArray
from pairs import delta, renyi
from scipy.stats import hypergeom, laplace, norm

from accounting.convert.bounds import best_delta
from accounting.convert.pld.sampled_noise import Noise
from accounting.curves import (
    ZCDP,
    ApproxDP,
    Approximate,
    BoundedRange,
    Curve,
    GaussianDP,
    GaussianMax,
    LaplaceDP,
    ProvedFor,
    PureDP,
    RenyiTable,
    RepeatAndSelectDP,
    SampledGaussianDP,
    SampledNoiseDP,
    tighter,
    zero,
)
from accounting.curves.repeat_and_select import TruncatedNegativeBinomial
from accounting.dp_events import from_dp_event, poisson_sampled
from accounting.errors import InvalidCurve, NoEquivalent, RelationMismatch
from accounting.group import group_privacy
from accounting.guarantee import Guarantee

Law = NDArray[np.float64]
EPSILONS = [0.0, 0.05, 0.3, 0.7, 1.5, 3.0]
ORDERS = [1.05, 1.5, 2.0, 4.0, 10.0]


def bounds_the_pair(curve: Curve, p: Law, q: Law) -> None:
    """Assert delta and, without a bad event, rdp of `curve` at least as large as the exact ones,
    both ways round.
    """
    for one, other in ((p, q), (q, p)):
        for epsilon in EPSILONS:
            assert (
                best_delta(curve, epsilon).value >= delta(one, other, epsilon) * (1 - 1e-9) - 1e-14
            )
        if curve.delta0 == 0:
            assert np.all(
                curve.rdp(ORDERS) >= np.array([renyi(one, other, a) for a in ORDERS]) * (1 - 1e-9)
            )


def exponential_mechanism(step: int, epsilon: float) -> Law:
    """Three candidates of which the first gains one count a step and the others lose one: bounded
    range 2 epsilon.
    """
    weights = np.exp(epsilon * np.array([step, -step, -step / 2]))
    return weights / weights.sum()


def cells(step: int, scale: float, noise: str) -> Law:
    """A noisy count, cut into cells as small as the tails allow."""
    law = {"gaussian": norm, "laplace": laplace}[noise](loc=step, scale=scale)
    cuts = np.concatenate([[-np.inf], np.linspace(-8 * scale, 8 * scale, 801), [np.inf]])
    return np.where(cuts[1:] <= step, np.diff(law.cdf(cuts)), -np.diff(law.sf(cuts)))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.05, 0.4])
def test_closed_forms_hold_on_paths(size: int, epsilon: float) -> None:
    """The group's curve bounds the exact divergence between inputs that many steps apart, for each
    curve that scales.
    """
    picks = tuple(exponential_mechanism(i, epsilon) for i in (0, size))
    normal, double = (
        tuple(cells(i, 1 / epsilon, noise) for i in (0, size)) for noise in ("gaussian", "laplace")
    )
    for curve, laws in (
        (BoundedRange(epsilon=2 * epsilon), picks),
        (PureDP(epsilon=2 * epsilon), picks),
        (LaplaceDP(epsilon=epsilon), double),
        (GaussianDP(mu=epsilon), normal),
        (ZCDP(rho=epsilon**2 / 2), normal),
    ):
        bounds_the_pair(group_privacy(curve, size), *laws)


def test_scaling_is_exact_and_decimal() -> None:
    """Groups of k multiply the parameter by k (rho by k squared), as decimals; a group of one is
    the curve itself.
    """
    for kind in (PureDP, BoundedRange, LaplaceDP):
        assert group_privacy(kind(epsilon=0.1), 3) == kind(epsilon=0.3)
    assert group_privacy(5 * GaussianDP(mu=0.1) + ZCDP(rho=0.1), 3) == 5 * GaussianDP(
        mu=0.3
    ) + ZCDP(rho=0.9)
    table = RenyiTable(orders=[2, 4], values=[0.1, 0.2])
    assert group_privacy(table, 1) is table


def leaky_path(size: int, epsilon: float, leaked: float) -> list[Law]:
    """Truncated geometric noise on a count of `size` at most, with a leak of the count itself:
    (epsilon, delta)-DP steps.
    """
    grid = np.arange(size + 1)
    laws = []
    for step in range(size + 1):
        noise = np.exp(-epsilon * np.abs(grid - step)) * np.where(
            (grid == 0) | (grid == size), 1.0, -math.expm1(-epsilon)
        )
        leak = np.zeros(size + 1)
        leak[step] = leaked
        laws.append(np.concatenate([(1 - leaked) * noise / noise.sum(), leak]))
    return laws


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(
    "curve",
    [ApproxDP(epsilon=0.3, delta=0.01), Approximate(curve=PureDP(epsilon=0.3), delta0=0.01)],
    ids=repr,
)
def test_bad_events_grow_along_the_path(curve: Curve, size: int) -> None:
    """Epsilon and delta of a group bound the ends of a path whose every step is (epsilon,
    delta)-DP.
    """
    laws = leaky_path(size, 0.3, 0.01)
    assert all(delta(a, b, 0.3) <= 0.01 + 1e-12 for a, b in pairwise(laws))
    grown = group_privacy(curve, size)
    bounds_the_pair(grown, laws[0], laws[-1])
    # attained outside of the leak
    assert np.log(laws[0][0] / laws[-1][0]) == pytest.approx(grown.core_epsilon, rel=1e-12)


def test_approximate_dp_is_the_geometric_sum() -> None:
    """For (e, d) and groups of 3: (3e, d (1 + exp(e) + exp(2e)))."""
    grown = group_privacy(ApproxDP(epsilon=0.3, delta=1e-6), 3)
    exact = 1e-6 * (1 + math.exp(0.3) + math.exp(0.6))
    assert grown.core_epsilon == 0.9
    assert exact <= grown.delta0 <= exact * (1 + 1e-11)
    assert math.isclose(
        group_privacy(ApproxDP(epsilon=0, delta=1e-6), 4).delta0, 4e-6, rel_tol=1e-11
    )


def test_renyi_tables_hold_on_any_path() -> None:
    """For random paths of laws, with the table of the largest step, the chained table bounds the
    ends at every order it has.
    """
    rng, orders = np.random.default_rng(3), [1.05, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 9.0, 17.0, 65.0]
    for size in (2, 3, 4) * 5:
        laws = rng.dirichlet([1.0] * 3, size + 1) * 0.95 + 0.05 / 3
        steps = [(a, b) for pair in pairwise(laws) for a, b in (pair, pair[::-1])]
        values = [max(renyi(a, b, order) for a, b in steps) * (1 + 1e-12) for order in orders]
        table = RenyiTable(orders=orders, values=np.maximum.accumulate(np.maximum(values, 0)))
        grown = group_privacy(table, size)
        for order in grown.table_orders:
            exact = renyi(laws[0], laws[-1], order)
            assert float(grown.rdp(order)) >= exact * (1 - 1e-9) - 1e-12


def test_the_chain_is_close_to_the_closed_form() -> None:
    """For a table of rho * order the chain is at least the exact k^2 rho * order, and at most 15
    percent above it.
    """
    orders = (1 + np.geomspace(1e-2, 1e5, 600)).tolist()
    for size in (2, 5):
        grown = group_privacy(RenyiTable(orders=orders, values=[0.01 * a for a in orders]), size)
        for order in (1.5, 3.0, 10.0, 100.0):
            ratio = float(grown.rdp(order)) / (size**2 * 0.01 * order)
            assert 1 <= ratio <= 1.15


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_curve_without_a_rule_keeps_its_zcdp_bound_times_the_square(size: int) -> None:
    """As for the Gaussian law, where it is attained."""
    best = RepeatAndSelectDP(
        base=GaussianDP(mu=0.3), distribution=TruncatedNegativeBinomial.of_mean(3.0)
    )
    assert group_privacy(best, size).rho == pytest.approx(size * size * best.rho, rel=1e-12)


SAMPLED = SampledGaussianDP(mu=0.1, rate=0.01)


@pytest.mark.parametrize(
    ("curve", "size"),
    [
        (SAMPLED, 400),
        (SampledNoiseDP(noise="laplace", shift=0.1, rate=0.01, group=4), 5),
        (5 * SAMPLED, 20),
        (group_privacy(SAMPLED, 4), 5),
        (Approximate(curve=SAMPLED, delta0=1e-9), 2),
        (ProvedFor(curve=ZCDP(rho=0.1), relation="add_remove"), 3),
    ],
)
def test_group_privacy_keeps_the_relation_of_its_curve(curve: Curve, size: int) -> None:
    """No table and no closed form of a group forgets it, and it is added up with others of its
    relation.
    """
    grown = group_privacy(curve, size)
    assert grown.proved_for == "add_remove"
    if isinstance(grown, ProvedFor):  # which changes no number
        assert (3 * grown).epsilon(1e-5) == (3 * grown.curve).epsilon(1e-5)
    assert Curve.from_json(grown.to_json()) == grown
    with pytest.raises(RelationMismatch, match="'add_remove' only"):
        Guarantee(grown, "replace_one")
    assert Guarantee(2 * grown + PureDP(epsilon=0.1), "add_remove").curve.rho > grown.rho
    assert group_privacy(grown, 2).proved_for == "add_remove"


@pytest.mark.parametrize(("noise", "size"), [("gaussian", 17), ("gaussian", 400), ("laplace", 20)])
def test_a_sampled_group_costs_no_more_than_one_that_is_in_every_sample(
    noise: Noise, size: int
) -> None:
    """Also beyond the groups whose exact pairs are known, and in whatever order groups are made; of
    Gaussian noise mu^2 and rho are those, as no less holds: Theorem P11.
    """
    one = SampledNoiseDP(noise=noise, shift=0.1, rate=0.01)
    whole = group_privacy(
        GaussianDP(mu=0.1) if noise == "gaussian" else LaplaceDP(epsilon=0.1), size
    )
    grown = group_privacy(one, size)
    assert grown.mu_squared <= whole.mu_squared < math.inf
    assert grown.rho <= whole.rho
    if noise == "gaussian":
        assert grown.mu_squared == pytest.approx(whole.mu_squared, rel=1e-9)
        assert grown.rho == pytest.approx(whole.rho, rel=1e-9)
    assert grown.epsilon(1e-6) <= whole.epsilon(1e-6)
    if size % 4 == 0:
        again = group_privacy(one.model_copy(update={"group": 4}), size // 4)
        assert again.epsilon(1e-6) == grown.epsilon(1e-6)


# -- Poisson sampling ------------------------------------------------------------------------------


def sampled_pair(rate: float, users: int, epsilon: float, leaked: float) -> tuple[Law, Law]:
    """A leaky noisy count on a Poisson sample of `users` and of one more, by enumeration of the
    sample's size.
    """
    laws = leaky_path(users + 1, epsilon, leaked)

    def on(total: int) -> Law:
        sizes = [
            math.comb(total, n) * rate**n * (1 - rate) ** (total - n) for n in range(total + 1)
        ]
        return np.array(sum(size * laws[n] for n, size in enumerate(sizes)))

    return on(users), on(users + 1)


@pytest.mark.fast(12)
@pytest.mark.parametrize("users", [0, 3])
@pytest.mark.parametrize("rate", [0.01, 0.9, 1.0])
@pytest.mark.parametrize(
    "curve",
    [
        PureDP(epsilon=0.8),
        ApproxDP(epsilon=0.8, delta=0.02),
        Approximate(curve=PureDP(epsilon=0.8), delta0=0.02),
    ],
)
def test_sampling_bounds_exact_laws(curve: Curve, rate: float, users: int) -> None:
    """The amplified curve bounds the exact divergence of a noisy count on a sample, with and
    without one more user.
    """
    bounds_the_pair(
        poisson_sampled(curve, rate, relation="add_remove"),
        *sampled_pair(rate, users, 0.8, curve.delta0),
    )


def test_sampling_is_tight_for_pure_curves() -> None:
    """With no other users the bound on epsilon is reached: ln(1 + q (exp(e) - 1))."""
    amplified = poisson_sampled(PureDP(epsilon=0.8), 0.3, relation="add_remove")
    assert math.isclose(amplified.pure_epsilon, math.log1p(0.3 * math.expm1(0.8)), rel_tol=1e-13)
    p, q = leaky_path(1, 0.8, 0.0)
    mixture = 0.7 * p + 0.3 * q
    assert math.isclose(
        float(np.log(np.max(mixture[:2] / p[:2]))), amplified.pure_epsilon, rel_tol=1e-12
    )


SECRET = dp_event.RandomizedResponseDpEvent(0.5, 2)  # pure ln 3


def fixed_sample(inner: dp_event.DpEvent, users: int, size: int) -> Curve:
    """The curve of an event on a sample of fixed size."""
    event = dp_event.SampledWithoutReplacementDpEvent(users, size, inner)
    return from_dp_event(event, "replace_one")


@pytest.mark.parametrize(("users", "size"), [(2, 1), (5, 3)])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_samples_of_fixed_size_bound_exact_laws(noise: str, users: int, size: int) -> None:
    """A noisy sum of values 1 and -1 over a uniform sample, by enumeration of how many 1s are in
    it, for every two inputs that differ in a user.
    """
    kind = {"gaussian": dp_event.GaussianDpEvent, "laplace": dp_event.LaplaceDpEvent}[noise]
    laws = [cells(2 * ones - size, 4.0, noise) for ones in range(size + 1)]

    def on(ones: int) -> Law:
        chances = hypergeom(users, ones, size).pmf(np.arange(size + 1))
        return np.array(sum(chance * law for chance, law in zip(chances, laws, strict=True)))

    curve = fixed_sample(kind(4.0), users, size)
    for ones in range(users):
        bounds_the_pair(curve, on(ones), on(ones + 1))


@pytest.mark.parametrize(("users", "size"), [(2, 1), (10, 3), (1000, 999)])
def test_a_sample_of_fixed_size_is_attained(users: int, size: int) -> None:
    """By randomized response to whether a marked user is in the sample, for one who is marked and
    for none: ln(1 + q (exp(e) - 1)). Nobody in it costs nothing, everybody what the event does.
    """
    asked = size / users
    ratio = (asked * 0.75 + (1 - asked) * 0.25) / 0.25
    curve = fixed_sample(SECRET, users, size)
    assert math.log(ratio) <= curve.pure_epsilon <= math.log(ratio) * (1 + 1e-11)
    assert fixed_sample(SECRET, users, 0) == zero()
    assert fixed_sample(SECRET, users, users) == from_dp_event(SECRET, "replace_one")


def test_invalid_fixed_sample_sizes_are_refused() -> None:
    """More users than there are, or fewer than none; under add_remove their number is no secret."""
    for users, size in ((3, 4), (3, -1), (3, 1.5), (True, 1)):
        with pytest.raises(InvalidCurve):
            fixed_sample(SECRET, users, size)  # type: ignore[arg-type]
    event = dp_event.SampledWithoutReplacementDpEvent(10, 2, SECRET)
    with pytest.raises(NoEquivalent, match="number of users is fixed"):
        from_dp_event(event, "add_remove")


@pytest.mark.fast(2)
@pytest.mark.parametrize("order", [1.001, 1.1, 1.7, 2.0, 3.3, 14.7, 20.0])
def test_sampled_gaussian_orders_by_quadrature(order: float) -> None:
    """The Renyi bound is at least the integral, and at every order within one part in 10^8 of
    it.
    """
    grid = np.linspace(-30, 60, 400001)
    for mu, rate in ((0.5, 0.2), (1.0, 0.01), (2.0, 0.05)):
        ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * grid - mu * mu / 2)
        integral = math.log(
            float(np.trapezoid(np.exp(norm.logpdf(grid) + order * ratio), grid))
        ) / (order - 1)
        bound = float(SampledGaussianDP(mu=mu, rate=rate).rdp(order))
        assert integral * (1 - 1e-8) <= bound <= integral * (1 + 1e-8)


def test_sampled_gaussian_never_exceeds_the_unsampled_bound() -> None:
    """At orders of more places than are summed, at rates and noise at the ends of the floats; never
    falling with the order.
    """
    orders = 1 + np.geomspace(1e-6, 1e10, 60)
    for mu, rate in ((1.0, 0.01), (1e-7, 0.3), (1.0, 1e-300), (30.0, 1 - 1e-16), (1e100, 0.5)):
        found = SampledGaussianDP(mu=mu, rate=rate).rdp(orders)
        # the error of the rule, which weighs more near order 1
        assert np.all(np.diff(found) >= -1e-25)
        assert np.all(found <= GaussianDP(mu=mu).rdp(orders))
        assert mu < 1 or found[-1] == GaussianDP(mu=mu).rdp(orders[-1])


@pytest.mark.parametrize("size", [2, 4])
def test_curves_without_a_rule_of_their_own(size: int) -> None:
    """Gaussian report-noisy-max (exact law at three candidates) stays below its group's curve, and
    below the better of two.
    """
    grid, step = np.linspace(-14, 14, 28001), 28 / 28000

    def winner(shift: float) -> Law:
        means = np.array([shift, 0.0, 0.0])
        others = [
            np.prod([norm.cdf(grid, o) for j, o in enumerate(means) if j != i], axis=0)
            for i in range(3)
        ]
        wins = [norm.pdf(grid, mean) * below for mean, below in zip(means, others, strict=True)]
        law = np.array(wins).sum(axis=1) * step
        return law / law.sum()

    for curve in (
        GaussianMax(mu=1.0, candidates=3),
        tighter(GaussianMax(mu=1.0, candidates=3), GaussianDP(mu=1.0)),
    ):
        bounds_the_pair(group_privacy(curve, size), winner(0.0), winner(float(size)))
