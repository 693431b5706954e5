"""What `verify` lets pass for rounding, and not a unit more: each tolerance is met by an entry at its end and one beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ledger_steps import BY, chained, step

import accounting as acc
from accounting.budget import Price
from accounting.ledger import Dataset, Entry
from accounting.ledger.item import Item, read_item
from accounting.ledger.quota import Accounts, Quota, Revision
from accounting.ledger.verification import Chain

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
    about: Any = {"name": "visits", "relation": "add_remove", "unit": "user", "window": "whole", "time_zone": "UTC"}
    return Dataset(budget=budget, data_period=None, uid="0" * 32, **about, **vars(BY))


def found(dataset: Dataset, entries: list[Entry]) -> set[str]:
    """The kinds of problem in a chain of these entries."""
    chain = Chain(dataset, dataset.genesis)
    return {problem.kind for entry in entries for problem in chain.follow(entry)}


def charged(item: Item, price: Price, action: str = "charge") -> dict[str, Any]:
    """The step that charges this for an item."""
    return step(action, "key", "", price, None, item)


@pytest.mark.parametrize("form", BUDGETS)
@pytest.mark.parametrize("part", ["main", "failure"])
@pytest.mark.parametrize("action", ["charge", "reserve"])
def test_an_entry_one_unit_below_its_price_is_found(form: str, part: str, action: str) -> None:
    """A price may be one unit and one part in 10^8 too low, the roundings of another machine: a unit less is a problem."""
    dataset, item = declared(BUDGETS[form]), read_item(CURVES[form], 1, "add_remove")
    due = dataset.budget.price(item.count * item.curve)
    if getattr(due, part) == 0:  # a pure budget pays for no failure
        return
    least = due._replace(**{part: getattr(due, part) - 1 - getattr(due, part) // 10**8})
    below = least._replace(**{part: getattr(least, part) - 1})
    hundredth = due._replace(**{part: 99 * getattr(due, part) // 100})
    assert found(dataset, chained(dataset, charged(item, due, action))) == set()
    assert found(dataset, chained(dataset, charged(item, least, action))) == set()
    assert found(dataset, chained(dataset, charged(item, below, action))) == {"price"}
    assert found(dataset, chained(dataset, charged(item, hundredth, action))) == {"price"}


@pytest.mark.parametrize("form", ["renyi", "zcdp", "gaussian"])
def test_a_settlement_one_unit_beyond_what_did_not_run_is_found(form: str) -> None:
    """A release gives back the price of what did not run at most, to the unit, no failure probability, and takes nothing more."""
    dataset = declared(BUDGETS[form])
    whole = read_item(acc.Approximate(curve=10 * acc.GaussianDP(mu=0.3), delta0=1e-4), 1, "add_remove")
    ran = read_item(acc.Approximate(curve=3 * acc.GaussianDP(mu=0.3), delta0=1e-4), 1, "add_remove")
    price, unused = dataset.budget.price(whole.curve), dataset.budget.unused(whole.curve, ran.curve)
    assert unused.main > 0

    def settled(back: Price) -> set[str]:
        opening = charged(whole, price, "reserve")
        steps = (opening, step("commit", "key", "", Price(0, 0), None), step("release", "key", "", back, None, ran))
        return found(dataset, chained(dataset, *steps))

    assert settled(unused.times(-1)) == set()
    assert settled(Price(0, 0)) == set()
    assert settled(Price(-unused.main - 1, 0)) == {"price"}
    assert settled(Price(1, 0)) == {"price"}
    assert settled(Price(-unused.main, -1)) == {"price"}


@pytest.mark.parametrize("off", [-1, 1])
def test_a_total_is_the_sum_to_the_unit(off: int) -> None:
    """A running total that is one unit away from the sum of the entries is a problem: integers are not rounded."""
    dataset, item = declared(BUDGETS["pure"]), read_item(CURVES["pure"], 1, "add_remove")
    step = charged(item, dataset.budget.price(item.count * item.curve))
    assert found(dataset, chained(dataset, step)) == set()
    assert found(dataset, chained(dataset, step, off=off)) == {"total"}


def test_one_unit_beyond_the_budget_is_found() -> None:
    """A charge of all of the capacity is allowed, and one unit more of either part is a problem."""
    dataset = declared(BUDGETS["renyi"])
    capacity = dataset.budget.capacity
    item = read_item(acc.Approximate(curve=acc.GaussianDP(mu=1.0), delta0=1e-4), 1, "add_remove")
    assert found(dataset, chained(dataset, charged(item, capacity))) == set()
    assert found(dataset, chained(dataset, charged(item, Price(capacity.main + 1, capacity.failure)))) == {"overspent"}
    assert found(dataset, chained(dataset, charged(item, Price(capacity.main, capacity.failure + 1)))) == {"overspent"}


@pytest.mark.parametrize("change", [lambda spent: spent + 1, lambda spent: spent - 1], ids=["more", "less"])
def test_a_quotas_account_is_held_to_the_unit(change: Callable[[int], int]) -> None:
    """What one machine wrote alone, a quota's account repeats exactly: a unit more or less was edited."""
    dataset, item = declared(BUDGETS["pure"]), read_item(CURVES["pure"], 1, "add_remove")
    (entry,) = chained(dataset, charged(item, dataset.budget.price(item.count * item.curve)))
    accounts = Accounts(dataset, [Revision(0, Quota(name="all", limit=acc.Budget(epsilon=400.0)))])
    assert list(accounts.follow(entry)) == []
    ((place, account),) = accounts.found.items()
    assert not accounts.differs({place: account.spent})
    assert accounts.differs({place: Price(change(account.spent.main), 0)})


def test_a_charge_one_unit_beyond_its_quota_is_found() -> None:
    """A quota of exactly what was charged holds; one that is a unit of 10^-12 nats smaller does not."""
    dataset, item = declared(BUDGETS["pure"]), read_item(CURVES["pure"], 1, "add_remove")
    (entry,) = chained(dataset, charged(item, dataset.budget.price(item.count * item.curve)))
    entry = replace(entry, seq=2)
    for limit, problems in ((100.0, 0), (100.0 - 1e-12, 1)):
        accounts = Accounts(dataset, [Revision(1, Quota(name="all", limit=acc.Budget(epsilon=limit)))])
        assert len(list(accounts.follow(entry))) == problems
