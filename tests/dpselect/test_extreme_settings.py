"""Settings whose noise no float can hold are refused before anything is charged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.plan import TopKRequest, default_choice

TINY = 3e-310
MECHANISMS = [
    dps.ExponentialMechanism(epsilon=TINY),
    dps.PermuteAndFlip(epsilon=TINY),
    dps.CanonicalTopK(k=2, epsilon=TINY),
    dps.JointTopK(k=2, epsilon=5e-324),
    dps.LargeGap(epsilon=TINY, kbar=3),
    dps.TopStable(k=2, kbar=3, epsilon=TINY, delta=1e-6),
    dps.TopStable(k=2, kbar=3, epsilon=1.0, delta=1e-6, epsilon_em=TINY),
    dps.TopStable(k=2, kbar=3, epsilon=0.1, delta=1e-6, split=5e-324),
    dps.WithValues(mechanism=dps.PermuteAndFlip(epsilon=TINY), noise="laplace", scale=1.0),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.kind)
def test_noise_beyond_the_floats_is_refused_before_the_charge(
    mechanism: dps.Mechanism, tmp_path: Path
) -> None:
    """`check`, `check_many` and a session raise, and the ledger has no entry."""
    counts = np.array([9, 7, 4, 4, 1, 0])
    scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("d", acc.Budget(epsilon=5.0, delta=1e-3), "add_remove")
        session = dps.Session(ledger, "d")
        with pytest.raises(InvalidMechanism, match=r"[Rr]aise it"):
            session.select(mechanism, scores)
        with pytest.raises(InvalidMechanism, match=r"[Rr]aise it"):
            session.select_many(mechanism, np.stack([counts, counts]))
        assert list(ledger.entries("d")) == []


@pytest.mark.parametrize(
    "selection",
    [
        dps.Selection(ordered=True, requested=1, complete=False, reason="another mechanism's"),
        dps.Selection(indices=(0, 1), ordered=True, requested=1),
        dps.Selection(ordered=True, requested=1),
        dps.Selection(indices=(0,), ordered=True, requested=2),
    ],
)
def test_spent_prices_its_own_selections_only(selection: dps.Selection) -> None:
    """What another mechanism released, or nobody could have, is not priced as an abstention or an
    answer.
    """
    mechanism = pate.ConfidentGNMax(threshold=5, sigma_threshold=2, sigma=1, labels=3)
    with pytest.raises(InvalidRequest):
        mechanism.cost_of(selection)


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**900])
@pytest.mark.parametrize(
    "stated", [{}, {"l0": 3}, {"monotone": False, "l0": 2}, {"relation": "replace_one", "l0": 2}]
)
def test_a_price_does_not_depend_on_the_unit_of_scores(unit: float, stated: Any) -> None:
    """Squares of tiny sensitivities underflow to a price of next to nothing, and those of large
    ones overflow.
    """
    bounds = ((one, dps.Sensitivity(linf=one, **stated)) for one in (unit, 1.0))
    extreme, usual = (
        dps.OneshotTopK(k=1, noise="gaussian", scale=2 * one, candidates=5, sensitivity=bound)
        for one, bound in bounds
    )
    assert extreme.curve == usual.curve


HUGE = 10**400


@pytest.mark.parametrize(
    "configure",
    [
        lambda: dps.Sensitivity(l0=HUGE),
        lambda: dps.Sensitivity.of_counts(items_per_user=HUGE),
        lambda: dps.OneshotTopK(k=HUGE, noise="gumbel", scale=1.0),
        lambda: dps.OneshotTopK(k=1, noise="laplace", scale=1.0, candidates=HUGE),
        lambda: dps.AboveThreshold(threshold=1.0, scale=1.0, c=HUGE),
        lambda: pate.BinaryVoting(sigma=1.0, labels=10**30),
        lambda: pate.TauVoting(tau=1, sigma=1.0, labels=3, threshold=2.0, teachers=HUGE),
        lambda: dps.AboveThreshold(threshold=1.0, scale=1.7e308, c=2).curve,
        lambda: dps.JointTopK(k=2, epsilon=1.0, sensitivity=dps.Sensitivity(linf=1e308)).rate,
    ],
)
def test_sizes_beyond_any_use_are_refused_by_the_configuration(
    configure: Callable[[], object],
) -> None:
    """And not by a raw error of Python's when a price is read, or a draw is made."""
    with pytest.raises(InvalidMechanism):
        configure()


def test_the_least_delta_has_a_margin() -> None:
    """3 size/delta overflows, its logarithm does not."""
    assert dps.LargeMargin(epsilon=1.0, delta=5e-324).margin(5) < 1e5


FEW = dps.Sensitivity.of_counts(items_per_user=2)
DISCOVERY = dps.SparseHistogram(k=4, scale=1.0, delta=1e-6, sensitivity=FEW)


def test_discovery_refuses_a_selection_without_items() -> None:
    """The rank of a gap is no item: it would fail at the draw, after the charge."""
    with pytest.raises(InvalidMechanism, match="among the items"):
        dps.DiscoverThenSelect(
            discovery=DISCOVERY, selection=dps.LargeGap(epsilon=1.0, kbar=3), candidates=4
        )


def test_text_that_nests_without_end_is_refused_by_name() -> None:
    """A few hundred mechanisms inside one another leave Python's stack."""
    best = dps.ExponentialMechanism(epsilon=1.0, sensitivity=FEW)
    once = dps.DiscoverThenSelect(discovery=DISCOVERY, selection=best, candidates=2)
    inner = outer = json.loads(once.to_json())
    for _ in range(400):
        inner = {**outer, "selection": inner}
    with pytest.raises(InvalidMechanism, match="nested"):
        dps.Mechanism.from_json(json.dumps(inner))


def test_a_stability_test_beyond_the_floats_is_refused_before_a_charge() -> None:
    """`check`, which precedes every charge, refuses a scale whose threshold is infinite."""
    mechanism = dps.StabilityTest(k=1, scale=1.797e308, failure_delta=1e-6)
    with pytest.raises(dps.errors.InvalidMechanism, match="less noise"):
        mechanism.check(dps.Scores([3, 1], sensitivity=dps.Sensitivity()))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.99), (1e6, 1e-6)])
def test_default_for_an_extreme_budget_is_affordable(epsilon: float, delta: float) -> None:
    """Where no histogram with a second look has a bounded price, a default that has one is taken,
    as of any budget.
    """
    budget, request = acc.Budget(epsilon=epsilon, delta=delta), TopKRequest(k=3)
    assert budget.admits(default_choice(budget, request).mechanism.curve)


@pytest.mark.parametrize("curve", [acc.PureDP(epsilon=1e-300), acc.GaussianDP(mu=1e-300)])
def test_a_workload_of_next_to_nothing_is_counted(curve: acc.Curve) -> None:
    """The squared shift of such a curve is 0 in floats, or overflows as a divisor."""
    budget = acc.Budget.for_workload(epsilon=1.0, delta=1e-6, curve=curve)
    assert budget.how_many(curve) > 10**9


@pytest.mark.filterwarnings("ignore::accounting.errors.GridEdgeWarning")
def test_a_plan_of_next_to_nothing_is_no_recursion_over_each_step() -> None:
    """Its Renyi bound is 0 in floats, and says nothing about the size of the work."""
    curve = 10**9 * acc.BoundedRange(epsilon=1e-300)
    assert 10**4 * 1e-300 < curve.delta(0.0) < 1e-100
