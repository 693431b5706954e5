"""Every share that is stated is held by the price that it costs."""

from __future__ import annotations

import pytest

import accounting as acc
import dpselect as dps
from dpselect.plan.counts import CountNoise
from dpselect.plan.default import Grouping
from dpselect.plan.request import TopKRequest

BUDGETS = [
    acc.Budget(epsilon=1.0, delta=1e-6),
    acc.Budget(epsilon=1.0),
    acc.Budget(rho=0.1, delta=1e-6),
]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_groups_are_found_for_a_fifth_of_the_budget(relation: acc.relations.Relation) -> None:
    """The price of the discovery alone."""
    budget, sensitivity = acc.Budget(rho=0.1, delta=1e-6), dps.Sensitivity.of_counts(relation)
    every = Grouping(3).every(budget, TopKRequest(k=5, sensitivity=sensitivity))
    assert every is not None
    found = every.discovery
    assert found is not None
    assert found.curve.rho == pytest.approx(0.02, rel=1e-6)
    assert found.curve.delta0 <= 0.2 * 1e-6


@pytest.mark.parametrize("recounted", [False, True])
@pytest.mark.parametrize("budget", BUDGETS[1:], ids=str)
def test_counts_cost_the_share_that_is_stated(budget: acc.Budget, *, recounted: bool) -> None:
    """Of rho, or of a pure epsilon; the mechanism beside them has the rest."""
    counts = CountNoise.from_request(
        TopKRequest(k=4, candidates=9, counts=0.2, recounted=recounted), budget
    )
    base = dps.PeelingTopK(k=4, noise="gumbel", scale=1e9)
    cost = counts.beside(base).curve
    spent = cost.rho if budget.form == "zcdp" else cost.pure_epsilon
    assert spent == pytest.approx(0.2 * budget.limit, rel=1e-4)
