"""What `verify` lets pass for rounding, and not a unit more: each tolerance is met by an entry at
its end and one beyond it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ledger_steps import BY, chained, found_in, step

import accounting as acc
from accounting import budget
from accounting.cost import Cost
from accounting.ledger import Dataset, Entry
from accounting.ledger.quota import Accounts, Quota, Revision

BUDGETS = {
    "pure": acc.Budget(epsilon=1000.0),
    "renyi": acc.Budget(epsilon=50.0, delta=1e-3),
    "zcdp": acc.Budget(rho=20.0, delta=1e-3),
    "gaussian": acc.Budget(epsilon=50.0, delta=1e-3, order="gaussian"),
}
CURVES = {
    "pure": acc.PureDP(epsilon=100.0),
    "renyi": acc.Approximate(curve=acc.GaussianDP(mu=1.0), delta0=1e-4),
    "zcdp": acc.Approximate(curve=acc.ZCDP(rho=5.0), delta0=1e-4),
    "gaussian": acc.Approximate(curve=acc.GaussianDP(mu=2.0), delta0=1e-4),
}


def declared(budget: acc.Budget) -> Dataset:
    """A dataset with this budget, in no store."""
    about: Any = {
        "name": "visits",
        "relation": "add_remove",
        "unit": "user",
        "window": "whole",
        "time_zone": "UTC",
    }
    return Dataset(budget=budget, data_period=None, uid="0" * 32, **about, **vars(BY))


def found(dataset: Dataset, entries: list[Entry]) -> set[str]:
    """The kinds of problem in a chain of these entries."""
    return {problem.kind for problem in found_in(dataset, entries)}


def charged(curve: acc.Curve, price: Cost, action: str = "charge") -> dict[str, Any]:
    """The step that charges this for a curve."""
    return step(action, "key", "", price, None, curve)


@pytest.mark.parametrize("form", BUDGETS)
@pytest.mark.parametrize("part", ["main", "failure"])
@pytest.mark.parametrize("action", ["charge", "reserve"])
def test_an_entry_one_unit_below_its_price_is_found(form: str, part: str, action: str) -> None:
    """A price may be one unit and one part in 10^8 too low, the roundings of another machine: a
    unit less is a problem.
    """
    dataset, curve = declared(BUDGETS[form]), CURVES[form]
    due = dataset.budget.filter_cost(curve)
    if getattr(due, part) == 0:  # a pure budget pays for no failure
        return
    least = due._replace(**{part: getattr(due, part) - 1 - getattr(due, part) // 10**8})
    below = least._replace(**{part: getattr(least, part) - 1})
    hundredth = due._replace(**{part: 99 * getattr(due, part) // 100})
    assert found(dataset, chained(dataset, charged(curve, due, action))) == set()
    assert found(dataset, chained(dataset, charged(curve, least, action))) == set()
    assert found(dataset, chained(dataset, charged(curve, below, action))) == {"cost"}
    assert found(dataset, chained(dataset, charged(curve, hundredth, action))) == {"cost"}


@pytest.mark.parametrize("form", ["renyi", "zcdp", "gaussian"])
def test_a_settlement_one_unit_beyond_what_did_not_run_is_found(form: str) -> None:
    """A release gives back the price of what did not run at most, to the unit, no failure
    probability, and takes nothing more.
    """
    dataset = declared(BUDGETS[form])
    whole = acc.Approximate(curve=10 * acc.GaussianDP(mu=0.3), delta0=1e-4)
    ran = acc.Approximate(curve=3 * acc.GaussianDP(mu=0.3), delta0=1e-4)
    price, unused = dataset.budget.filter_cost(whole), dataset.budget.refund(whole, ran)
    assert unused.main > 0

    def settled(back: Cost) -> set[str]:
        opening = charged(whole, price, "reserve")
        steps = (
            opening,
            step("commit", "key", "", Cost(0, 0), None),
            step("release", "key", "", back, None, ran),
        )
        return found(dataset, chained(dataset, *steps))

    assert settled(unused.times(-1)) == set()
    assert settled(Cost(0, 0)) == set()
    assert settled(Cost(-unused.main - 1, 0)) == {"cost"}
    assert settled(Cost(1, 0)) == {"cost"}
    assert settled(Cost(-unused.main, -1)) == {"cost"}


@pytest.mark.parametrize("off", [-1, 1])
def test_a_total_is_the_sum_to_the_unit(off: int) -> None:
    """A running total that is one unit away from the sum of the entries is a problem: integers are
    not rounded.
    """
    dataset, curve = declared(BUDGETS["pure"]), CURVES["pure"]
    step = charged(curve, dataset.budget.filter_cost(curve))
    assert found(dataset, chained(dataset, step)) == set()
    assert found(dataset, chained(dataset, step, off=off)) == {"total"}


def test_charge_one_unit_over_budget_is_detected() -> None:
    """A charge of all of the capacity is allowed, and one unit more of either part is a problem."""
    dataset = declared(BUDGETS["renyi"])
    capacity = dataset.budget.capacity
    curve = acc.Approximate(curve=acc.GaussianDP(mu=1.0), delta0=1e-4)
    assert found(dataset, chained(dataset, charged(curve, capacity))) == set()
    assert found(
        dataset, chained(dataset, charged(curve, Cost(capacity.main + 1, capacity.failure)))
    ) == {"overspent"}
    assert found(
        dataset, chained(dataset, charged(curve, Cost(capacity.main, capacity.failure + 1)))
    ) == {"overspent"}


def test_a_charge_one_unit_beyond_its_quota_is_found() -> None:
    """A quota of exactly what was charged holds; one that is a unit of 10^-12 nats smaller does
    not.
    """
    dataset, curve = declared(BUDGETS["pure"]), CURVES["pure"]
    (entry,) = chained(dataset, charged(curve, dataset.budget.filter_cost(curve)))
    entry = replace(entry, seq=2)
    for limit, problems in ((100.0, 0), (100.0 - 1e-12, 1)):
        accounts = Accounts(
            dataset, [Revision(1, Quota(name="all", limit=acc.Budget(epsilon=limit)))]
        )
        assert len(list(accounts.follow(entry))) == problems


def test_another_versions_last_digits_take_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that converts to one part in 10^5 more moves no recorded count and no charge of the
    whole; a tenth more does.
    """
    plan, release = 30 * acc.BoundedRange(epsilon=0.08), acc.LaplaceDP(epsilon=0.05)
    whole = declared(acc.Budget(epsilon=plan.epsilon(1e-6), delta=1e-6))
    of_releases = declared(
        acc.Budget(epsilon=(100 * release).epsilon(1e-6), delta=1e-6, release=release)
    )
    assert whole.budget.filter_cost(plan) == whole.budget.capacity
    assert of_releases.budget.releases == 100
    taken = chained(whole, charged(plan, whole.budget.capacity))
    counted = chained(of_releases, charged(100 * release, of_releases.budget.capacity))
    convert = budget.best_epsilon

    def worse(by: float) -> None:
        def converted(curve: Any, delta: float, **options: Any) -> Any:
            return replace(found := convert(curve, delta, **options), value=found.value * by)

        monkeypatch.setattr(budget, "best_epsilon", converted)
        Dataset.from_declaration.cache_clear()

    worse(1 + 1e-5)
    assert found(whole, taken) == set()
    read = Dataset.from_declaration(of_releases.declaration())
    assert read.budget.releases == 100
    assert found(read, counted) == set()
    with pytest.raises(
        acc.errors.InvalidBudget, match="releases=100 is more than the budget covers"
    ):
        acc.Budget.model_validate(of_releases.budget.model_dump())
    worse(1.04)
    assert found(whole, taken) == {"cost"}
    with pytest.raises(acc.ledger.errors.LedgerCorrupt):
        Dataset.from_declaration(of_releases.declaration())
