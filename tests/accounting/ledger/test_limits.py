"""Limits beside the budget: of a single release, of all periods together, and of who may charge."""

from __future__ import annotations

import math

import pytest
from ledger_steps import Made

import accounting as acc
from accounting.cost import Cost
from accounting.ledger import InvalidEntry, Ledger, Quota
from accounting.remaining import Remaining, sum_periods

SMALL, LARGE = acc.PureDP(epsilon=0.2), acc.PureDP(epsilon=0.6)


def in_all(budget: acc.Budget, prices: list[Cost]) -> tuple[float, float]:
    """Add up periods whose totals are these prices."""
    return sum_periods(budget, [Remaining(budget, price) for price in prices])


def test_a_single_release_is_capped_unless_it_says_why(made_on_either: Made) -> None:
    """What costs more than the cap as a plan of its own is refused, beforehand too; with a reason
    it is charged, on record.
    """
    ledger = made_on_either(acc.Budget(epsilon=3.0), most_per_release=acc.Budget(epsilon=0.5))
    ledger.charge("clicks", SMALL, relation="add_remove", count=2)
    for call in (ledger.charge, ledger.check, ledger.reserve):
        with pytest.raises(
            acc.BudgetExceeded,
            match=r"at most epsilon 0\.5.*Lower its cost.*override=REASON.*Nothing was charged",
        ):
            call("clicks", LARGE, relation="add_remove")
    with pytest.raises(acc.BudgetExceeded, match="single release"):
        ledger.charge("clicks", SMALL, relation="add_remove", count=3)
    receipt = ledger.charge("clicks", LARGE, relation="add_remove", override="census of 2030")
    assert receipt.entries[0].override == "census of 2030"
    assert ledger.total("clicks").spent.main == 10**12
    assert ledger.dataset("clicks").most_per_release == acc.Budget(epsilon=0.5)
    assert ledger.verify().ok


def test_unaffordable_curve_is_refused_without_a_size_remedy(made_on_either: Made) -> None:
    """A charge that the budget's form never pays for is refused for that, cap or none: less of it
    would be refused as well.
    """
    ledger = made_on_either(acc.Budget(epsilon=3.0), most_per_release=acc.Budget(epsilon=0.5))
    for call in (ledger.charge, ledger.check, ledger.reserve):
        with pytest.raises(acc.errors.Unaffordable, match="no finite pure epsilon"):
            call("clicks", acc.GaussianDP(mu=0.5), relation="add_remove")


def test_total_cost_over_all_periods_is_capped(made_on_either: Made) -> None:
    """The sum over periods is stated before anything is read; a charge or a question beyond the
    declared figure is refused.
    """
    ledger = made_on_either(acc.Budget(epsilon=1.0), "weeks", window="week", most_in_all=2.5)
    weeks = [f"2024-W{week:02}" for week in range(1, 4)]
    assert ledger.cost_over_periods("weeks") == (0.0, 0.0)
    assert ledger.cost_over_periods("weeks", LARGE, weeks) == (pytest.approx(1.8), 0.0)
    with pytest.raises(
        acc.BudgetExceeded,
        match=r"lie in all 5 weeks, the cost is epsilon 3 in all, and .* at most epsilon 2\.5",
    ):
        ledger.cost_over_periods("weeks", LARGE, [f"2024-W{week:02}" for week in range(1, 6)])
    for week in weeks:
        ledger.charge("weeks", LARGE, relation="add_remove", period=week)
    ledger.charge("weeks", LARGE, relation="add_remove", period="2024-W04")
    with pytest.raises(acc.BudgetExceeded, match="all 5 weeks"):
        ledger.charge("weeks", SMALL, relation="add_remove", period="2024-W05")
    both = [
        (acc.PureDP(epsilon=0.06), {"relation": "add_remove", "period": f"2024-W{week:02}"})
        for week in (5, 6)
    ]
    with pytest.raises(acc.BudgetExceeded, match="all 6 weeks"):
        ledger.charge_all("weeks", both)  # type: ignore[arg-type]
    assert len(ledger.totals("weeks")) == 4
    assert ledger.verify().ok


@pytest.mark.parametrize("wrong", [0.5, math.inf, math.nan, True, "2", 10**400])
def test_a_limit_over_periods_is_an_epsilon_of_at_least_one(ledger: Ledger, wrong: float) -> None:
    """Less than one period's budget, or no number, is refused; so is one where there are no
    periods.
    """
    with pytest.raises(acc.errors.InvalidBudget, match="most_in_all"):
        ledger.create_dataset(
            "weeks", acc.Budget(epsilon=1.0), "add_remove", window="week", most_in_all=wrong
        )
    with pytest.raises(acc.errors.InvalidBudget, match="window"):
        ledger.create_dataset("all", acc.Budget(epsilon=1.0), "add_remove", most_in_all=2.0)
    with pytest.raises(InvalidEntry, match="one budget"):
        ledger.cost_over_periods("clicks")


@pytest.mark.parametrize("order", [None, "gaussian"])
def test_the_sum_over_periods_is_within_every_exact_one(order: str | None) -> None:
    """Gaussian releases of ten periods: at least the exact epsilon of all of them, at most the sum
    of the periods' promises.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6, order=order)
    price = budget.filter_cost(acc.GaussianDP(mu=0.1))
    epsilon, delta = in_all(budget, [price] * 10)
    assert acc.GaussianDP(mu=0.1 * math.sqrt(10)).epsilon(delta) <= epsilon <= 10.0
    assert delta <= 1e-5
    if order == "gaussian":
        assert epsilon <= acc.GaussianDP(mu=0.1 * math.sqrt(10)).epsilon(4e-7)
    whole = in_all(budget, [budget.capacity, budget.capacity])
    assert whole == (2.0, 2e-6)
    assert in_all(acc.Budget(rho=0.1, delta=1e-6), [Cost(10**11, 0)] * 3)[0] >= acc.ZCDP(
        rho=0.3
    ).epsilon(6e-6)


@pytest.mark.parametrize("order", [None, "gaussian"])
def test_failures_over_periods_add_up(order: str | None) -> None:
    """Each period's own count in full beside one conversion, and a period that is used up counts by
    its promise.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6, order=order)
    plain = budget.filter_cost(acc.GaussianDP(mu=0.1))
    failing = budget.filter_cost(acc.Approximate(curve=acc.GaussianDP(mu=0.1), delta0=2e-8))
    (epsilon, delta), (same, more) = (in_all(budget, [price] * 10) for price in (plain, failing))
    assert (same, more) == (epsilon, pytest.approx(delta + 2e-7, rel=1e-9))
    with_promise = in_all(budget, [failing] * 10 + [budget.capacity])
    assert with_promise == (
        pytest.approx(epsilon + 1.0, rel=1e-9),
        pytest.approx(more + 1e-6, rel=1e-9),
    )


def test_a_name_that_is_not_listed_is_refused(made_on_either: Made) -> None:
    """Each name on a quota's list has the limit; others, and nobody, are refused; a list that is
    declared anew lets them in.
    """
    ledger = made_on_either(acc.Budget(epsilon=3.0))
    ledger.charge("clicks", SMALL, relation="add_remove", team="old")
    quotas = ledger.quotas("clicks")
    quotas.declare(
        Quota(name="teams", limit=acc.Budget(epsilon=0.5), by="team", among=("maps", "growth"))
    )
    ledger.charge("clicks", SMALL, relation="add_remove", team="maps")
    with pytest.raises(
        InvalidEntry,
        match=r"team='sales' is not on the list of quota='teams', which has maps, growth",
    ):
        ledger.charge("clicks", SMALL, relation="add_remove", team="sales")
    with pytest.raises(InvalidEntry, match="team is missing"):
        ledger.charge("clicks", SMALL, relation="add_remove")
    with pytest.raises(acc.BudgetExceeded, match=r"quota='teams' \(maps\)"):
        ledger.charge("clicks", LARGE, relation="add_remove", team="maps")
    quotas.declare(
        Quota(name="teams", limit=acc.Budget(epsilon=0.5), by="team", among=("maps", "sales"))
    )
    ledger.charge("clicks", SMALL, relation="add_remove", team="sales")
    assert [left.account for _, left in quotas.standing()] == ["maps", "sales"]
    assert ledger.verify().ok
