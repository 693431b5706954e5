"""The oracle of outcome probabilities: winners, sets and orders against closed forms and 30-digit
integrals; what it refuses.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpselect.noise import InvalidNoiseArgument, QuadratureError, noise_of
from dpselect.verify import quadrature
from dpselect.verify.quadrature import (
    argmax_probabilities,
    ordered_probabilities,
    refine,
    top_set_probabilities,
)


def argmax(scale, scores, _):
    return argmax_probabilities(LAPLACE, scale, scores)


def sets(scale, scores, k):
    return top_set_probabilities(LAPLACE, scale, scores, k)


def orders(scale, scores, k):
    return ordered_probabilities(LAPLACE, scale, scores, k)


def close(value: float, exact: float) -> bool:
    """Within the relative accuracy the module promises: 1e-15 * (10 + |log probability|)."""
    return abs(value / float(exact) - 1.0) <= 1e-15 * (10.0 + abs(math.log(exact)))


def logistic_difference(gap: float) -> float:
    """P[Z1 - Z2 > gap] for logistics: with x = exp(gap), the integral of (1 - u) / (1 - u + u x)
    over u in (0, 1).
    """
    x = mp.exp(mp.mpf(gap))
    return float((x * mp.log(x) - x + 1) / (x - 1) ** 2) if gap else 0.5


TWO_CANDIDATES = {
    "gumbel": lambda d: 1.0 / (1.0 + math.exp(d)),
    "exponential": lambda d: math.exp(-d) / 2.0,
    "laplace": lambda d: (2.0 + d) * math.exp(-d) / 4.0,
    "logistic": logistic_difference,
    "gaussian": lambda d: float(mp.ncdf(-mp.mpf(d) / mp.sqrt(2))),
}


@pytest.mark.parametrize("member", sorted(TWO_CANDIDATES))
@pytest.mark.parametrize("gap", [0.0, 0.1, 1.0, 5.0, 27.0, 36.0])
def test_two_candidates_closed_form(member, gap):
    """At m = 2 the lower candidate wins with the survival function of the difference of two noises,
    at any scale.
    """
    mp.mp.dps = 30
    for scale in (1e-9, 1.0, 1e9):
        won = argmax_probabilities(noise_of(member), scale, [gap * scale, 0.0])[1]
        # gap * scale is rounded, which moves the probability by its logarithm times an ulp.
        assert abs(won / TWO_CANDIDATES[member](gap) - 1.0) <= 1e-15 * (10.0 + 2.0 * gap**2)


def permute_and_flip(weights: list[Fraction]) -> list[Fraction]:
    """Its definition: visit the candidates in uniform order, stop at i with probability
    weights[i].
    """
    total = [Fraction(0)] * len(weights)
    for order in itertools.permutations(range(len(weights))):
        survive = Fraction(1, math.factorial(len(weights)))
        for i in order:
            total[i] += survive * weights[i]
            survive *= 1 - weights[i]
    return total


@pytest.mark.parametrize(
    "weights", ["1 1/2", "1 1/2 1/3", "1 1 1/7 1/1000", "1 1/1000000000000 2/3 1/5 1/5"]
)
def test_exponential_noise_is_permute_and_flip(weights):
    """Report-noisy-max with exponential noise has permute-and-flip's output law, computed in exact
    fractions.
    """
    exact = [Fraction(w) for w in weights.split()]
    scores = [math.log(w) for w in exact]
    found = argmax_probabilities(noise_of("exponential"), 1.0, scores)
    assert all(close(p, float(e)) for p, e in zip(found, permute_and_flip(exact), strict=True))


def random_scores(seed: int, m: int, spread: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=m) * spread


@pytest.mark.fast(30)
@pytest.mark.parametrize("spread", [0.0, 4.0, 40.0, 1000.0])
@pytest.mark.parametrize("m", [2, 4, 7])
def test_totals_are_one(name, m, spread):
    """The probabilities of all outcomes sum to one within 1e-12, from ties to differences of 1000
    units.
    """
    noise, scores = noise_of(name), random_scores(m, m, spread)
    assert abs(argmax_probabilities(noise, 1.0, scores).sum() - 1.0) < 1e-12
    for k in range(1, m + 1):
        assert abs(math.fsum(top_set_probabilities(noise, 1.0, scores, k).values()) - 1.0) < 1e-12


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_only_differences_in_units_of_the_scale_matter(name, scale):
    """Scaling noise and scores together, shifting or permuting all scores changes no probability,
    and ties get equal ones.
    """
    noise, scores, order = (
        noise_of(name),
        np.array([3.0, 0.0, 3.0, -2.0, 1.0]),
        np.array([4, 2, 0, 1, 3]),
    )
    plain = argmax_probabilities(noise, 1.0, scores)
    np.testing.assert_allclose(
        argmax_probabilities(noise, scale, scores * scale), plain, rtol=3e-14
    )
    np.testing.assert_allclose(
        argmax_probabilities(noise, 1.0, scores + 2.0**20), plain, rtol=3e-14
    )
    np.testing.assert_allclose(
        argmax_probabilities(noise, 1.0, scores[order]), plain[order], rtol=1e-13
    )
    assert math.isclose(plain[0], plain[2], rel_tol=1e-13)


def test_distant_scores_do_not_reduce_quadrature_accuracy(name):
    """Differences that overflow give certain outcomes; 1,000 units below the winner, and between
    clusters further apart, the runner-up is decided as if the others were absent.
    """
    noise, scores = noise_of(name), [-1e300, 1e300, 0.0]
    assert argmax_probabilities(noise, 1e-200, scores).round(14).tolist() == [0.0, 1.0, 0.0]
    assert abs(top_set_probabilities(noise, 1e-200, scores, 2)[frozenset({1, 2})] - 1.0) < 1e-14
    within = argmax_probabilities(noise, 1.0, [0.0, 0.3])
    found = top_set_probabilities(noise, 1.0, [1e6 + 0.1, 0.0, 0.3, -1e6 / 3.0], 2)
    np.testing.assert_allclose(
        [found[frozenset({0, 1})], found[frozenset({0, 2})]], within, rtol=1e-14
    )
    orders = ordered_probabilities(noise, 1.0, [0.0, -1000.0, -999.5], 2)
    runner_up = argmax_probabilities(noise, 1.0, [-1000.0, -999.5])
    np.testing.assert_allclose([orders[0, 1], orders[0, 2]], runner_up, rtol=1e-12)


def test_ties_share_equally(name):
    """With all scores tied every set of k has probability 1 / C(m, k), for m up to 6."""
    noise = noise_of(name)
    for m, k in [(2, 1), (4, 2), (6, 3), (5, 5)]:
        found = top_set_probabilities(noise, 2.0, np.full(m, 3.0), k)
        assert list(found) == [frozenset(s) for s in itertools.combinations(range(m), k)]
        np.testing.assert_allclose(list(found.values()), 1.0 / math.comb(m, k), rtol=2e-14)


def test_gumbel_sets_beyond_the_closed_form():
    """For k above 10 Gumbel sets are integrated: sums over all sets are one, and k = m - 1 matches
    its complement.
    """
    scores = random_scores(3, 12, 2.0)
    noise = noise_of("gumbel")
    by_quadrature = top_set_probabilities(noise, 1.0, scores, 11)
    assert abs(math.fsum(by_quadrature.values()) - 1.0) < 1e-12
    # The last of all Gumbel ranks, by inclusion and exclusion over who comes before it.
    weights = [mp.exp(mp.mpf(float(s))) for s in scores]
    last = 4
    others = [w for i, w in enumerate(weights) if i != last]
    mp.mp.dps = 40
    exact = mp.fsum(
        (-1) ** size * weights[last] / (weights[last] + mp.fsum(chosen))
        for size in range(len(others) + 1)
        for chosen in itertools.combinations(others, size)
    )
    assert close(by_quadrature[frozenset(range(12)) - {last}], float(exact))


@pytest.mark.parametrize("m", [1, 4])
def test_many_rows_agree_with_single_calls(name, m):
    """The batch gives each row its own answer, in input order, whether rows repeat up to shift and
    order or not.
    """
    noise, rng = noise_of(name), np.random.default_rng(7)
    matrix = np.concatenate([rng.integers(0, 4, size=(15, m)), rng.normal(size=(15, m)) * 30.0])
    single = np.stack([argmax_probabilities(noise, 1.7, row) for row in matrix])
    np.testing.assert_allclose(
        argmax_probabilities(noise, 1.7, matrix), single, rtol=2e-13, atol=1e-290
    )


@pytest.mark.parametrize("spread", [0.0, 2.0, 30.0, 120.0])
@pytest.mark.parametrize(("m", "k"), [(2, 2), (4, 2), (4, 3), (4, 4)])
def test_orders_of_a_set_sum_to_the_set(name, m, k, spread):
    """Summed over the orders of a set the ordered chances give the set's, over all that follows a
    winner the winner's: by sets of nodes of their own, beyond the gap too where the middle of the
    range becomes one piece.
    """
    noise, scores = noise_of(name), np.random.default_rng(m * k).normal(size=m) * spread
    found = ordered_probabilities(noise, 1.4, scores, k)
    assert list(found) == list(itertools.permutations(range(m), k))
    for subset, p in top_set_probabilities(noise, 1.4, scores, k).items():
        total = math.fsum(found[order] for order in itertools.permutations(sorted(subset)))
        assert math.isclose(total, p, rel_tol=1e-12, abs_tol=1e-290)
    for winner, p in enumerate(argmax_probabilities(noise, 1.4, scores).tolist()):
        total = math.fsum(chance for order, chance in found.items() if order[0] == winner)
        assert math.isclose(total, p, rel_tol=1e-12, abs_tol=1e-290)


def test_iterated_integrals_reproduce_sequential_softmax():
    """The iterated quadrature, run on Gumbel noise, gives the product of softmaxes to 12 digits at
    m = k = 4.
    """
    gumbel, scores = noise_of("gumbel"), np.array([0.5, 6.0, -3.0, 1.0])
    closed = ordered_probabilities(gumbel, 0.8, scores, 4)
    iterated = quadrature._sequence_probabilities(gumbel, 0.8, scores, 4)
    assert min(closed.values()) < 1e-10
    assert max(abs(iterated[order] / closed[order] - 1.0) for order in closed) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("scores", [[0.0, -9.0, 25.0], [0.0, -100.0, -102.0], [5.0, 5.0, 0.0]])
def test_three_in_order_match_extended_precision(name, reference, scores):
    """P[Z_a > Z_b > Z_c] matches its one-dimensional integral over the middle candidate in 30
    digits.
    """
    mp.mp.dps = 30
    scores = [s / 4.0 for s in scores] if name == "gaussian" else scores
    ends = sorted(
        {mp.mpf(s) + r for s in scores for r in (-60, -30, -15, -8, -4, 0, 4, 8, 15, 30, 70)}
    )
    for order, p in ordered_probabilities(noise_of(name), 1.0, scores, 3).items():
        high, middle, low = (mp.mpf(scores[i]) for i in order)

        def integrand(t, high=high, middle=middle, low=low):
            return reference.pdf(t - middle) * reference.sf(t - high) * reference.cdf(t - low)

        peak = max(integrand(t) for t in ends)
        exact = peak * mp.quad(lambda t, f=integrand, top=peak: f(t) / top, ends)
        assert abs(float(p / exact - 1)) < 1e-13 + 1e-15 * abs(math.log(p))


LAPLACE = noise_of("laplace")
REFUSED = [
    *(
        (call, [1.0, 2.0], scale, 1, "scale")
        for call in (argmax, sets, orders)
        for scale in (0.0, -1.0, np.nan, np.inf)
    ),
    *(
        (argmax, [31337.0, bad], 1.0, 1, "scores: every score must be finite")
        for bad in (np.nan, np.inf, -np.inf, 1e301)
    ),
    *((argmax, scores, 1.0, 1, "shape") for scores in ([], [[[1.0, 2.0]]], 3.0)),
    *((call, [1.0, 2.0, 3.0], 1.0, k, r"1\.\.3") for call in (sets, orders) for k in (-1, 0, 4)),
    (sets, np.zeros(40), 1.0, 20, "outcomes"),
    (orders, np.zeros(12), 1.0, 6, "outcomes"),
]


@pytest.mark.parametrize(("call", "scores", "scale", "k", "words"), REFUSED)
def test_invalid_quadrature_arguments_are_refused_without_scores(call, scores, scale, k, words):
    """A scale that is not positive and finite, scores that are not finite or no vector, an
    impossible k, too many outcomes.
    """
    with pytest.raises(InvalidNoiseArgument, match=words) as caught:
        call(scale, scores, k)
    assert "31337" not in str(caught.value)


def test_unsettled_quadrature_raises():
    """A level that keeps moving with the step raises instead of returning its last value."""
    with pytest.raises(QuadratureError, match="2 of 3"):
        refine(lambda step, rows: np.where(rows == 1, 0.25, 0.5 + step)[None], 3, 1.0)


def test_settled_rows_are_kept_while_others_refine():
    """Rows settle one by one, and each keeps the finer of the two levels that agreed."""
    found = refine(lambda step, rows: np.where(rows == 0, 0.25, 0.5 + step**14)[None], 2, 1.0)
    assert found[0, 0] == 0.25
    assert abs(found[0, 1] - 0.5) < 1e-13


def test_small_probabilities_settle_relatively():
    """A probability of 1e-20 is refined until two levels agree to 1e-11 of it, not merely to 1e-13
    absolute.
    """
    found = refine(lambda step, rows: np.full((1, rows.size), 1e-20 * (1.0 + step**16)), 1, 1.0)
    assert abs(found[0, 0] / 1e-20 - 1.0) < 1e-11
