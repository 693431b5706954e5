"""Theorem P20 and P21: what GNMax costs on given votes, against exact laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_votes import all_votes, divergence, neighbours
from spread import spread

from dpselect.pate.unsanitised import Lattice, censored_rdp, log_disagreement, plain_rdp

ORDERS = (1.25, 2.0, 8.0, 20.0)
SMALL = [(8, 2, 1.0), (4, 3, 1.0), (3, 3, 3.0)]


def _paper(log_q: float, sigma: float, order: float) -> float:
    """Theorem 6 of Papernot et al. 2018 with the orders of Proposition 10, as their code has it; inf where silent."""
    high2 = sigma * math.sqrt(-log_q)
    high1 = high2 + 1
    if high1 < order or high2 <= 1:
        return math.inf
    cost1, cost2 = high1 / sigma**2, high2 / sigma**2
    if log_q > (high2 - 1) * cost2 - high2 * math.log(high1 / (high1 - 1) * high2 / (high2 - 1)):
        return math.inf
    q = math.exp(log_q)
    kept = (1 - q) / (1 - math.exp((log_q + cost2) * (1 - 1 / high2)))
    lost = math.exp(cost1 - log_q / (high1 - 1))
    return math.log((1 - q) * kept ** (order - 1) + q * lost ** (order - 1)) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "labels", "sigma"), spread(SMALL, 1))
def test_bounds_exact_divergences_both_ways(teachers: int, labels: int, sigma: float) -> None:
    """For all votes and all ballots of any teacher, the bound is at least the exact Renyi divergence, in both directions."""
    lattice = Lattice(teachers, labels, sigma)
    for votes in (votes for votes in all_votes(teachers, labels) if tuple(sorted(votes)) == votes):
        steps = lattice.steps(np.array([votes]))
        for order in ORDERS:
            bound = censored_rdp(order, sigma, lattice.log_q(steps))[0]
            for other in neighbours(votes):
                assert divergence(votes, other, sigma, order) <= bound
                assert divergence(other, votes, sigma, order) <= bound


def test_erratum_the_published_bound_is_one_sided() -> None:
    """With two labels, (0, 8) and (1, 7) at sigma 1, order 2, the bound holds both ways round and is at most a tenth above the
    exact divergence from a winner that is nearly certain; Theorem 6 of Papernot et al. holds one way alone."""
    lattice, votes, other = Lattice(8, 2, 1.0), (0, 8), (1, 7)
    log_q = log_disagreement(np.array([votes]), 1.0)
    forth, back = divergence(votes, other, 1.0, 2.0), divergence(other, votes, 1.0, 2.0)
    assert forth <= back <= censored_rdp(2.0, 1.0, log_q)[0] <= 1.1 * back
    assert censored_rdp(2.0, 1.0, lattice.log_q(lattice.steps(np.array([votes]))))[0] <= 1.15 * back
    assert forth <= (published := _paper(float(log_q[0]), 1.0, 2.0))
    assert back > 100 * published


@pytest.mark.parametrize("sigma", [1.0, 5.0, 40.0, 300.0])
@pytest.mark.parametrize("order", ORDERS)
def test_rises_with_q_up_to_the_plain_price(order: float, sigma: float) -> None:
    """The bound does not fall as the winner becomes less certain, starts near 0, and never exceeds order / sigma^2."""
    log_q = np.concatenate([-np.geomspace(5000, 1e-3, 400), [0.0, 2.0]])
    bound = censored_rdp(order, sigma, log_q)
    assert np.all(np.diff(bound) >= -1e-12 * bound[1:])
    assert 0 < bound[0] < 1e-200
    assert bound[-1] == pytest.approx(order / sigma**2, rel=1e-12)
    assert np.all(bound <= plain_rdp(order, sigma))


@pytest.mark.parametrize("sigma", [20.0, 40.0, 100.0])
def test_is_below_the_published_bound(sigma: float) -> None:
    """With much noise, the two-sided bound is below the one-sided Theorem 6 of Papernot et al., at order 2 to a tenth of it."""
    for log_q in (-5.0, -7.0, -10.0):
        for order in (2.0, 8.0, 16.0):
            published = _paper(log_q, sigma, order)
            here = censored_rdp(order, sigma, np.array([log_q]))[0]
            assert here <= min(published, plain_rdp(order, sigma))
        assert censored_rdp(2.0, 40.0, np.array([log_q]))[0] < _paper(log_q, 40.0, 2.0) / 10


@pytest.mark.parametrize(("teachers", "labels", "sigma"), [(8, 2, 0.7), (8, 3, 2.0), (7, 4, 5.0), (30, 3, 4.0)])
def test_one_teacher_moves_the_state_by_little(teachers: int, labels: int, sigma: float) -> None:
    """One replaced ballot moves the equivalent gap by at most `reach` steps, and the largest count by at most 1."""
    lattice = Lattice(teachers, labels, sigma)
    for votes in all_votes(teachers, labels):
        others = np.array([votes, *neighbours(votes)])
        steps = lattice.steps(others)
        assert np.all(np.abs(steps - steps[0]) <= lattice.reach)
        assert np.all(np.abs(others.max(axis=1) - max(votes)) <= 1)


def test_steps_are_rounded_down() -> None:
    """The bound on q that is read at a round's step is at least the union bound of its votes."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(100, [0.6, 0.2, 0.1, 0.1], size=200)
    lattice = Lattice(100, 4, 10.0)
    assert np.all(lattice.log_q(lattice.steps(counts)) >= log_disagreement(counts, 10.0))
    assert np.all(lattice.log_q(lattice.steps(counts)) <= np.maximum(log_disagreement(counts, 10.0) + 0.02, math.log(1.5)))
