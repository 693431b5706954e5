"""A release takes at most the part of a ledger's budget that it states: n of them that each state
an n-th fit n times.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.plan.default import Grouping, default_choice
from dpselect.plan.fit import fitted
from dpselect.plan.request import BudgetShare, TopKRequest

BUDGETS = [
    acc.Budget(epsilon=1.0, delta=1e-6),
    acc.Budget(epsilon=8.0, delta=1e-9),
    acc.Budget(epsilon=0.3, delta=1e-5, failure=1e-7),
    acc.Budget(epsilon=1.0),
    acc.Budget(rho=0.1, delta=1e-6),
]
NUMBERS = (1, 7, 100)
# Those up to 100 whose n-th part is more than that as a float: the others' n parts are within one.
ROUNDED_UP = [n for n in range(1, 101) if n * Decimal(repr(1.0 / n)) > 1]


def part(budget: acc.Budget, n: int) -> acc.Budget:
    """An n-th of a budget, as floats state it."""
    return acc.Budget(
        delta=budget.delta / n,
        **({"rho": budget.rho / n} if budget.rho else {"epsilon": budget.limit / n}),
    )


def requests(share: BudgetShare | None, *, public: bool) -> list[TopKRequest]:
    """The shortest list of candidates first; the one with counts takes four fifths of the time."""
    candidates: Any = 200 if public else None
    few = TopKRequest(
        k=5,
        candidates=candidates,
        share=share,
        sensitivity=dps.Sensitivity.of_counts(items_per_user=3),
    )
    plain = TopKRequest(k=5, candidates=candidates, share=share)
    counted = TopKRequest(k=5, candidates=candidates, share=share, counts=0.2)
    return [few, plain, counted]


# With counts, which take four fifths of the time, for the least and the greatest number; of parts
# that floats round up the mechanisms for bounded users alone.
SHARES = [
    *spread(
        [
            (budget, n, 3 if n in (NUMBERS[0], NUMBERS[-1]) else 2)
            for budget in BUDGETS
            for n in NUMBERS
        ],
        3,
    ),
    *((BUDGETS[0], n, 1) for n in ROUNDED_UP[::4]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "n", "lists"), SHARES, ids=str)
def test_n_releases_of_an_nth_fit_n_times(budget: acc.Budget, n: int, lists: int) -> None:
    """For what the default chooses, and within the promise that is stated as well."""
    stated = part(budget, n)
    share = BudgetShare.from_budget(stated, 1, budget)
    assert (share is None) == (n == 1)
    for public in (True, False) if budget.delta else (True,):
        for request in requests(share, public=public)[:lists]:
            limit = 3 if request.sensitivity.l0 else None
            mechanism = default_choice(
                stated, request, max_items_per_user=limit, whole=budget
            ).mechanism
            assert stated.admits(mechanism.curve), mechanism
            assert budget.how_many(mechanism.curve) >= n, mechanism


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 7])
def test_group_releases_take_one_share_together(n: int) -> None:
    """The discovery of groups and all groups of one user together take one share."""
    budget = BUDGETS[0]
    stated = part(budget, n)
    request = TopKRequest(k=3, share=BudgetShare.from_budget(stated, 1, budget))
    chosen = default_choice(stated, request, groups=Grouping(2), whole=budget)
    assert stated.admits(chosen.mechanism.curve)
    assert budget.how_many(chosen.mechanism.curve) >= n


@pytest.mark.parametrize("delta", [1e-7, 9e-7])
def test_a_part_of_epsilon_takes_at_most_that_part_of_the_failure(delta: float) -> None:
    """Whatever delta is stated beside it: .25 of epsilon takes a quarter of the failure
    probability, .3 at most .3.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    for epsilon in (0.25, 0.3):
        stated = acc.Budget(epsilon=epsilon, delta=delta)
        mechanism = fitted(
            "limited_domain",
            stated,
            TopKRequest(k=5, share=BudgetShare.from_budget(stated, 1, budget)),
        )
        price = budget.filter_cost(mechanism.curve)
        assert price.failure <= epsilon * budget.capacity.failure
        assert price.main <= epsilon * budget.capacity.main
        assert (
            max(price.main / budget.capacity.main, price.failure / budget.capacity.failure)
            > 0.1 * epsilon
        )


def test_a_share_of_another_currency_goes_by_delta() -> None:
    """Epsilon of a release and rho of a ledger do not compare; a part of more than all is none."""
    share = BudgetShare.from_budget(part(BUDGETS[0], 10), 1, BUDGETS[4])
    assert share is not None
    assert float(share.part) == pytest.approx(0.1)
    assert BudgetShare.from_budget(acc.Budget(epsilon=2.0), 1, acc.Budget(epsilon=1.0)) is None


@pytest.mark.slow
@pytest.mark.parametrize("candidates", [None, pytest.param(50, marks=pytest.mark.slow)])
def test_counts_fit_a_share_of_a_budget_that_adds_up_pure_epsilons(candidates: int | None) -> None:
    """The ledger asks for laplace noise where the release alone would take gaussian: users are then
    clipped in the l1 norm.
    """
    budget, stated = (
        acc.Budget(epsilon=1.0, delta=1e-6, order="inf"),
        acc.Budget(epsilon=0.25, delta=2.5e-7),
    )
    request = TopKRequest(
        k=3,
        candidates=candidates,
        counts=0.1,
        recounted=True,
        share=BudgetShare.from_budget(stated, 1, budget),
    )
    mechanism = default_choice(stated, request, whole=budget).mechanism
    assert isinstance(mechanism, dps.WithValues)
    assert mechanism.noise == "laplace"
    price = budget.filter_cost(mechanism.curve)
    assert 0.24 * budget.capacity.main < price.main <= 0.25 * budget.capacity.main
    assert price.failure <= 0.25 * budget.capacity.failure
