"""Theorems P20 to P23: the cost of GNMax on given votes, against exact distributions; and the
result is private.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from exact_votes import Votes, all_votes, divergence, law, neighbors
from scipy.stats import norm
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.pate.data_dependent_privacy import censored_rdp, log_disagreement, plain_rdp

ORDERS = (1.25, 2.0, 8.0, 20.0)
SMALL = [(8, 2, 1.0), (4, 3, 1.0), (3, 3, 3.0)]
COUNTS = np.array([[37, 2, 1], [31, 5, 4], [20, 18, 2]])
MECHANISM = pate.GNMax(sigma=5.0, labels=3)


def _paper(log_q: float, sigma: float, order: float) -> float:
    """Theorem 6 of Papernot et al. 2018 with the orders of Proposition 10, as their code has it;
    inf where silent.
    """
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
    """For all votes and all ballots of any teacher, the bound is at least the exact Renyi
    divergence, in both directions.
    """
    for votes in (votes for votes in all_votes(teachers, labels) if tuple(sorted(votes)) == votes):
        for order in ORDERS:
            bound = censored_rdp(order, sigma, log_disagreement(np.array([votes]), sigma))[0]
            for other in neighbors(votes):
                assert divergence(votes, other, sigma, order) <= bound
                assert divergence(other, votes, sigma, order) <= bound


def test_erratum_the_published_bound_is_one_sided() -> None:
    """With two labels, (0, 8) and (1, 7) at sigma 1, order 2, the bound holds both ways round and
    is at most a tenth above the exact divergence from a winner that is nearly certain; Theorem 6 of
    Papernot et al. holds one way alone.
    """
    votes, other = (0, 8), (1, 7)
    log_q = log_disagreement(np.array([votes]), 1.0)
    forth, back = divergence(votes, other, 1.0, 2.0), divergence(other, votes, 1.0, 2.0)
    assert forth <= back <= censored_rdp(2.0, 1.0, log_q)[0] <= 1.1 * back
    assert forth <= (published := _paper(float(log_q[0]), 1.0, 2.0))
    assert back > 100 * published


@pytest.mark.parametrize("sigma", [1.0, 5.0, 40.0, 300.0])
@pytest.mark.parametrize("order", ORDERS)
def test_data_dependent_bound_rises_to_the_plain_cost(order: float, sigma: float) -> None:
    """The bound does not fall as the winner becomes less certain, starts near 0, and never exceeds
    order / sigma^2.
    """
    log_q = np.concatenate([-np.geomspace(5000, 1e-3, 400), [0.0, 2.0]])
    bound = censored_rdp(order, sigma, log_q)
    assert np.all(np.diff(bound) >= -1e-12 * bound[1:])
    assert 0 < bound[0] < 1e-200
    assert bound[-1] == pytest.approx(order / sigma**2, rel=1e-12)
    assert np.all(bound <= plain_rdp(order, sigma))


def _bound(votes: list[int], mechanism: dps.Mechanism, order: float) -> float:
    return float(
        pate.data_dependent(
            [votes], mechanism, teachers=sum(votes), orders=(order,)
        ).expose_private()[0]
    )


def _confident(votes: Votes, mechanism: pate.ConfidentGNMax) -> list[mpmath.mpf]:
    passed = mpmath.ncdf((max(votes) - mechanism.threshold) / mechanism.sigma_threshold)
    return [1 - passed, *(passed * p for p in law(votes, mechanism.sigma))]


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "labels"), [(8, 2), (4, 3)])
@pytest.mark.parametrize("order", spread([1.5, 4.0, 20.0], 2))
def test_confident_rounds_cost_at_least_the_exact_divergence(
    teachers: int, labels: int, order: float
) -> None:
    """For all votes and neighbors, the cost of test and answer bounds the exact divergence both
    ways, within the plain cost.
    """
    mechanism = pate.ConfidentGNMax(
        threshold=0.7 * teachers, sigma_threshold=2.0, sigma=1.5, labels=labels
    )
    with mpmath.workdps(30):
        for votes in all_votes(teachers, labels):
            cost = _bound(list(votes), mechanism, order)
            mine = _confident(votes, mechanism)
            for other in neighbors(votes):
                theirs = _confident(other, mechanism)
                for p, q in ((mine, theirs), (theirs, mine)):
                    moment = mpmath.fsum(
                        a**order * b ** (1 - mpmath.mpf(order)) for a, b in zip(p, q, strict=True)
                    )
                    assert mpmath.log(moment) / (order - 1) <= cost
            assert cost <= mechanism.curve.rdp(order) * (1 + 1e-9)


def test_a_round_costs_its_test_and_its_label() -> None:
    """Where the label is all noise, the cost is the exact divergence of the test from either
    neighbor; where the test surely passes, it is that of GNMax; a test that surely fails hardly
    pays for an answer, whatever the gap.
    """
    passing = pate.ConfidentGNMax(threshold=3.0, sigma_threshold=2.0, sigma=1e5, labels=2)
    chances = [norm.cdf((count - 3) / 2) for count in (2, 3, 4)]
    exact = max(
        math.log(p**4 * q**-3 + (1 - p) ** 4 * (1 - q) ** -3) / 3
        for here in (0, 2)
        for p, q in itertools.permutations((chances[1], chances[here]))
    )
    assert _bound([1, 3], passing, 4.0) == pytest.approx(exact, rel=1e-6)
    sure = pate.ConfidentGNMax(threshold=-1e4, sigma_threshold=2.0, sigma=5.0, labels=3)
    assert _bound([37, 2, 1], sure, 4.0) == pytest.approx(
        _bound([37, 2, 1], MECHANISM, 4.0), rel=1e-6
    )
    unsure = pate.ConfidentGNMax(threshold=80.0, sigma_threshold=5.0, sigma=40.0, labels=10)
    assert _bound([20, 20, *[10] * 4, *[5] * 4], unsure, 8.0) < 1e-3 * float(unsure.curve.rdp(8.0))


@pytest.fixture
def private() -> pate.DataDependentPrivacy:
    """The cost of three rounds of forty teachers."""
    return pate.data_dependent(COUNTS, MECHANISM, teachers=40)


def test_data_dependent_privacy_has_no_curve_number_or_text(
    private: pate.DataDependentPrivacy,
) -> None:
    """It has neither curve nor kind nor JSON; text shows public numbers only; it is neither
    pickled, copied nor looked into.
    """
    assert not isinstance(private, acc.Curve | dps.Mechanism)
    assert not {"curve", "kind", "to_json", "relation", "__float__", "__dict__"} & set(dir(private))
    other = pate.data_dependent(COUNTS[::-1] * 0 + [14, 13, 13], MECHANISM, teachers=40)
    assert repr(private) == str(private) == f"{private}" == repr(other)
    takes: tuple[Callable[[Any], object], ...] = (
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        float,
        vars,
        iter,
    )
    for take in (*takes, lambda private: format(private, ".3f")):
        with pytest.raises(TypeError):
            take(private)


def test_accounting_refuses_data_dependent_privacy(
    private: pate.DataDependentPrivacy, tmp_path: Path
) -> None:
    """Ledgers, sessions, accountants, budgets, calibration and curves refuse it, without a figure
    of it in the message.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'v.db'}") as ledger:
        ledger.create_dataset("votes", acc.Budget(epsilon=5.0, delta=1e-5), "replace_one")
        session = dps.Session(ledger, "votes")
        takes: tuple[Callable[[Any], object], ...] = (
            lambda value: ledger.charge("votes", value),
            lambda value: session.select_many(value, COUNTS),
            acc.Accountant().compose,
            lambda value: acc.calibrate(lambda _: value, acc.Budget(epsilon=1.0, delta=1e-5)),
            acc.Budget(epsilon=1.0, delta=1e-5).filter_cost,
            lambda value: acc.tighter(value, acc.PureDP(epsilon=1.0)),
        )
        for take in takes:
            with pytest.raises((acc.AccountingError, AttributeError, TypeError)) as caught:
                take(private)
            assert not any(
                f"{number:.4g}" in str(caught.value) for number in private.expose_private()
            )
        assert list(ledger.entries("votes")) == []


def test_data_dependent_bounds_are_read_by_name_only(private: pate.DataDependentPrivacy) -> None:
    """The holder of the votes reads it by name; values bound the Renyi divergence, do not fall with
    the order, and are those of counts as of ballots.
    """
    values = private.expose_private()
    cast = pate.Ballots.of_classes([np.repeat(range(3), row) for row in COUNTS], labels=3)
    assert pate.data_dependent(cast, MECHANISM).expose_private().tolist() == values.tolist()
    assert np.all(np.diff(values) >= 0)
    assert np.all(values <= 3 * MECHANISM.curve.rdp(private.orders) * (1 + 1e-9))
    assert private.expose_private_epsilon(1e-5) <= (3 * MECHANISM.curve).epsilon(1e-5)


@pytest.mark.parametrize(
    ("mechanism", "orders", "error"),
    [
        (pate.BinaryVoting(sigma=5.0, labels=3), (2.0,), InvalidMechanism),
        (
            pate.GNMax(sigma=5.0, labels=3, relation="add_remove", unit="teacher"),
            (2.0,),
            acc.RelationMismatch,
        ),
        (pate.GNMax(sigma=5.0, labels=1), (2.0,), InvalidMechanism),
        (pate.GNMax(sigma=5.0, labels=4), (2.0,), InvalidRequest),
        *(
            (MECHANISM, orders, acc.errors.InvalidArgument)
            for orders in ((), (1.0,), (2.0, float("nan")), (float("inf"),))
        ),
    ],
)
def test_unproved_data_dependent_bounds_are_refused(
    mechanism: Any, orders: tuple[float, ...], error: type[Exception]
) -> None:
    """Other mechanisms, other relations, a single label, other numbers of labels, and orders that
    are none are refused.
    """
    with pytest.raises(error):
        pate.data_dependent(
            COUNTS if mechanism.labels > 1 else COUNTS[:, :1], mechanism, teachers=40, orders=orders
        )
