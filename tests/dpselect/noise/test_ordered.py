"""Probabilities of released orders: iterated integrals against closed forms and marginals."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from spread import spread

from dpselect.noise import by_name
from dpselect.verify import quadrature
from dpselect.verify.quadrature import argmax_probabilities, ordered_probabilities, top_set_probabilities


@pytest.mark.parametrize("spread", [0.0, 2.0, 30.0])
@pytest.mark.parametrize(("m", "k"), [(2, 2), (3, 2), (4, 3), (4, 4)])
def test_orders_of_a_set_sum_to_the_set(name, m, k, spread):
    """Summed over the orders of a set the ordered probabilities give the set's, and over everything one."""
    noise, scores = by_name(name), np.random.default_rng(m * k).normal(size=m) * spread
    found = ordered_probabilities(noise, 1.4, scores, k)
    assert list(found) == list(itertools.permutations(range(m), k))
    assert abs(math.fsum(found.values()) - 1.0) < 1e-12
    for subset, p in top_set_probabilities(noise, 1.4, scores, k).items():
        total = math.fsum(found[order] for order in itertools.permutations(sorted(subset)))
        assert math.isclose(total, p, rel_tol=1e-12, abs_tol=1e-290)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_shorter_orders_are_marginals(name, k):
    """The first k of k + 1 released candidates have the law of k released candidates."""
    noise, scores = by_name(name), [0.0, 1.0, 3.5, -2.0]
    longer = ordered_probabilities(noise, 1.0, scores, k + 1)
    for order, p in ordered_probabilities(noise, 1.0, scores, k).items():
        total = math.fsum(q for full, q in longer.items() if full[:k] == order)
        assert math.isclose(total, p, rel_tol=1e-12)


def test_first_is_the_argmax(name):
    """Releasing one candidate in order is releasing the argmax."""
    noise, scores = by_name(name), [0.3, 1.0, -4.0]
    found = ordered_probabilities(noise, 2.0, scores, 1)
    np.testing.assert_array_equal([found[(i,)] for i in range(3)], argmax_probabilities(noise, 2.0, scores))


def test_iterated_integrals_reproduce_sequential_softmax():
    """The iterated quadrature, run on Gumbel noise, gives the product of softmaxes to 12 digits at m = k = 4."""
    gumbel, scores = by_name("gumbel"), np.array([0.5, 6.0, -3.0, 1.0])
    closed = ordered_probabilities(gumbel, 0.8, scores, 4)
    iterated = quadrature._iterated(gumbel, 0.8, scores, 4)
    assert min(closed.values()) < 1e-10
    assert max(abs(iterated[order] / closed[order] - 1.0) for order in closed) < 1e-12


def test_sequential_softmax_by_hand():
    """Gumbel orders are products of exponential-mechanism probabilities on what is left."""
    weights = [2.0, 3.0, 5.0]
    found = ordered_probabilities(by_name("gumbel"), 1.0, np.log(weights), 2)
    for (first, second), p in found.items():
        exact = weights[first] / 10.0 * weights[second] / (10.0 - weights[first])
        assert math.isclose(p, exact, rel_tol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("scores", spread([[0.0, -9.0, 25.0], [0.3, 2.0, -1.0]], 1))
def test_three_in_order_match_extended_precision(name, reference, scores):
    """P[Z_a > Z_b > Z_c] matches its one-dimensional integral over the middle candidate in 30 digits."""
    mp.mp.dps = 30
    scores = [s / 4.0 for s in scores] if name == "gaussian" else scores
    ends = sorted({mp.mpf(s) + r for s in scores for r in (-60, -30, -15, -8, -4, 0, 4, 8, 15, 30, 70)})
    for order, p in ordered_probabilities(by_name(name), 1.0, scores, 3).items():
        high, middle, low = (mp.mpf(scores[i]) for i in order)

        def integrand(t, high=high, middle=middle, low=low):
            return reference.pdf(t - middle) * reference.sf(t - high) * reference.cdf(t - low)

        peak = max(integrand(t) for t in ends)
        exact = peak * mp.quad(lambda t, f=integrand, top=peak: f(t) / top, ends)
        assert abs(float(p / exact - 1)) < 1e-13 + 1e-15 * abs(math.log(p))


def exponential_order(scores: list[float], order: tuple[int, ...]) -> float:
    """P[order] for four exponential noises by mpmath, the pair on top in closed form above both scores."""
    a, b, c, d = (mp.mpf(scores[i]) for i in order)

    def top_pair(t: mp.mpf) -> mp.mpf:
        """P[b above t and a above b]."""
        t = max(t, b)
        flat = mp.exp(b - t) - mp.exp(b - max(t, a))  # b below a's score, where a wins surely
        return flat + mp.exp(a + b - 2 * max(t, a)) / 2

    def integrand(t: mp.mpf) -> mp.mpf:
        return mp.exp(c - t) * top_pair(t) * -mp.expm1(d - t)

    start = max(c, d)
    ends = [start, *sorted(s for s in {a, b} if s > start), *(max(a, b, start) + r for r in (4, 12, 30, 80))]
    return float(mp.quad(integrand, ends))


@pytest.mark.slow
def test_four_exponentials_in_order():
    """All 24 orders of four exponential noises match an independent integral with the top pair in closed form."""
    mp.mp.dps = 30
    scores = [0.0, 1.25, 3.0, -0.5]
    for order, p in ordered_probabilities(by_name("exponential"), 1.0, scores, 4).items():
        assert math.isclose(p, exponential_order(scores, order), rel_tol=1e-13)


def test_ties_give_every_order_the_same_chance(name):
    """With all scores tied every order of k out of m has probability (m - k)! / m!."""
    for m, k in [(3, 3), (4, 2), (5, 3)]:
        found = ordered_probabilities(by_name(name), 0.5, np.zeros(m), k)
        np.testing.assert_allclose(list(found.values()), 1.0 / math.perm(m, k), rtol=1e-13)


def test_far_apart_scores(name):
    """A thousand units below the winner, the runner-up is still decided as if the winner were not there."""
    noise = by_name(name)
    found = ordered_probabilities(noise, 1.0, [0.0, -1000.0, -999.5], 2)
    runner_up = argmax_probabilities(noise, 1.0, [-1000.0, -999.5])
    np.testing.assert_allclose([found[0, 1], found[0, 2]], runner_up, rtol=1e-12)
