"""A reservation that is settled: what its outcome did not use comes back with the record of the
release, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import found_in

import accounting as acc
from accounting.cost import Cost
from accounting.ledger import (
    ClaimConflict,
    InvalidEntry,
    InvalidTransition,
    Ledger,
    LedgerUnavailable,
    Quota,
)
from accounting.ledger.book import Book
from accounting.ledger.model import Entry, cost_in

PICK = acc.BoundedRange(epsilon=0.1)
WHOLE = acc.Approximate(curve=10 * PICK, delta0=1e-8)
BUDGET = acc.Budget(epsilon=2.0, delta=1e-6)


def picks(count: int) -> acc.Curve:
    """What so many of the ten cost."""
    return acc.Approximate(curve=count * PICK, delta0=1e-8)


def reserved(ledger: Ledger, dataset: str, key: str, **terms: Any) -> None:
    """A reservation of ten picks that was committed."""
    several = not isinstance(terms.get("period", ""), str)
    ledger.reserve(
        dataset, WHOLE, relation="replace_one" if several else "add_remove", key=key, **terms
    )
    ledger.commit(dataset, key)


def test_a_plan_of_the_whole_capacity_gives_nothing_back(ledger: Ledger) -> None:
    """What only another account admits was charged everything in place of a sum: no part of it is
    free again (F8, ii).
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    plan = next(n * PICK for n in range(1, 200) if budget.cost_of_each(n * PICK, 1) > 1.0)
    assert budget.filter_cost(plan) == budget.capacity
    ledger.create_dataset("views", budget, "add_remove")
    ledger.reserve("views", plan, relation="add_remove", key="a")
    ledger.commit("views", "a")
    ledger.release("views", "a", spent=PICK)
    assert ledger.total("views").spent == budget.capacity
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "wrong",
    [
        picks(11),
        picks(3).curve,
        acc.Approximate(curve=3 * PICK, delta0=1e-9),
        picks(3) + acc.PureDP(epsilon=0.01),
        acc.zero(),
    ],
    ids=["more", "no delta", "less delta", "foreign", "nothing"],
)
def test_release_cost_must_be_part_of_the_reservation(ledger: Ledger, wrong: acc.Curve) -> None:
    """What ran is made of the rounds that were reserved and keeps all of their delta: anything else
    is refused.
    """
    ledger.create_dataset("views", BUDGET, "add_remove")
    reserved(ledger, "views", "a")
    with pytest.raises(InvalidEntry, match="rounds of what was reserved"):
        ledger.release("views", "a", spent=wrong)
    assert ledger.total("views").spent == BUDGET.filter_cost(WHOLE)
    assert [entry.action for entry in ledger.entries("views")] == ["reserve", "commit"]


def test_only_reservations_are_settled_and_only_once(ledger: Ledger) -> None:
    """A charge stays as it is; so does a reservation that was not committed, or was released at
    another price or at none.
    """
    ledger.create_dataset("views", BUDGET, "add_remove")
    ledger.charge("views", WHOLE, relation="add_remove", key="charged")
    with pytest.raises(InvalidTransition, match="charged, not reserved"):
        ledger.release("views", "charged", spent=picks(3))
    ledger.reserve("views", WHOLE, relation="add_remove", key="open")
    with pytest.raises(InvalidTransition, match="Commit it before"):
        ledger.release("views", "open", spent=picks(3))
    for key, first in (("settled", picks(3)), ("whole", None)):
        reserved(ledger, "views", key)
        ledger.release("views", key, spent=first)
        with pytest.raises(ClaimConflict):
            ledger.release("views", key, spent=picks(2))
    assert ledger.commit("views", "whole").replayed
    # a plan that has runs left draws no more
    with pytest.raises(InvalidTransition, match="settled"):
        ledger.commit("views", "settled")
    with pytest.raises(InvalidTransition):
        ledger.void("views", "settled", actor="me", reason="greed")
    assert ledger.verify().ok


def test_the_first_claim_on_a_charge_decides(ledger: Ledger) -> None:
    """The same claim again is answered, another one is refused, and what is on record stays the
    first.
    """
    ledger.charge("clicks", acc.PureDP(epsilon=0.1), relation="add_remove", key="k")
    first = ledger.release("clicks", "k", claim="sha256:a")
    assert ledger.release("clicks", "k", claim="sha256:a").replayed
    for other in ("sha256:b", None):  # a release without a claim is another one
        with pytest.raises(ClaimConflict):
            ledger.release("clicks", "k", claim=other)
    assert [entry.label for entry in ledger.entries("clicks") if entry.action == "release"] == [
        first.entries[0].label
    ]


def edited(entries: list[Entry], **changes: Any) -> list[Entry]:
    """The same chain with its last entry changed, its sum and its hash along with it."""
    last = replace(entries[-1], **changes)
    last = replace(
        last,
        spent_main=entries[-2].spent_main + last.main,
        spent_failure=entries[-2].spent_failure + last.failure,
    )
    return [*entries[:-1], replace(last, hash=last.expected_hash())]


def test_verify_recomputes_the_cost_of_a_release(ledger: Ledger) -> None:
    """A release that gives back more than its own outcome says was not used is found, whoever
    rehashed the chain.
    """
    ledger.create_dataset("views", BUDGET, "add_remove")
    reserved(ledger, "views", "a")
    ledger.release("views", "a", spent=picks(3))
    dataset, entries = ledger.dataset("views"), list(ledger.entries("views"))
    back, charged = entries[-1].main, [replace(entries[0], action="charge"), *entries[2:]]
    others = ("{}", None, picks(4).to_json(), acc.PureDP(epsilon=0.1).to_json())
    wrong = [{"main": back * 105 // 100}, *({"curve": curve} for curve in others)]
    for chain in (charged, *(edited(entries, **changes) for changes in wrong)):
        assert "cost" in {problem.kind for problem in found_in(dataset, chain)}, chain[-1]
    for harmless in ({}, {"main": back + 10**9}, {"curve": picks(2).to_json()}):
        assert found_in(dataset, edited(entries, **harmless)) == []


def test_an_interrupted_release_keeps_the_whole(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the record of the release cannot be written, nothing is given back, in quotas
    neither.
    """
    ledger.create_dataset("views", BUDGET, "add_remove")
    quota = acc.Budget(rho=0.1, delta=1e-6)
    ledger.quotas("views").declare(Quota(name="teams", limit=quota, by="team"))
    reserved(ledger, "views", "a", team="ours")

    write = Book.close

    def broken(book: Book) -> None:
        write(book)
        raise LedgerUnavailable("the store is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Book, "close", broken)  # the last thing of the transaction
        with pytest.raises(LedgerUnavailable):
            ledger.release("views", "a", spent=picks(3))
    assert ledger.total("views").spent == BUDGET.filter_cost(WHOLE)
    assert [left.spent for _, left in ledger.quotas("views").standing()] == [
        quota.filter_cost(WHOLE)
    ]
    assert ledger.verify().ok
    ledger.release("views", "a", spent=picks(3))
    assert ledger.total("views").spent == BUDGET.filter_cost(picks(3))


ELSEWHERE = {"package_version": lambda: "99.0", "_host": lambda: "elsewhere"}


@pytest.mark.parametrize("other", ELSEWHERE)
@pytest.mark.parametrize("settled", [False, True], ids=["voided", "settled"])
def test_another_machine_takes_a_full_quota_as_it_stands(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: bool, other: str
) -> None:
    """What was given back and charged again up to the limit is no problem elsewhere, nor is it to
    an import there.
    """
    whole, half = (
        acc.Budget(epsilon=2.0, delta=1e-6, order="inf"),
        acc.Approximate(curve=5 * PICK, delta0=1e-8),
    )
    ledger.create_dataset("views", whole, "add_remove")
    ledger.quotas("views").declare(
        Quota(name="all", limit=acc.Budget(epsilon=1.0, delta=1e-6, order="inf"))
    )
    (
        reserved(ledger, "views", "a")
        if settled
        else ledger.reserve("views", WHOLE, relation="add_remove", key="a")
    )
    (
        ledger.release("views", "a", spent=half)
        if settled
        else ledger.void("views", "a", actor="ana", reason="a mistake")
    )
    ledger.charge("views", half if settled else WHOLE, relation="add_remove", key="b")
    ledger.export(tmp_path / "ledger.jsonl")
    monkeypatch.setattr(f"accounting.ledger.model.{other}", ELSEWHERE[other])
    assert ledger.verify().problems == ()
    Ledger.open(f"sqlite:///{tmp_path}/copy.db").import_(tmp_path / "ledger.jsonl")


@pytest.mark.parametrize("other", ELSEWHERE)
def test_another_machine_gives_back_less_than_was_put_in(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """It may price the curve a little higher than the one that charged it: one part in 10^8 and a
    unit stay spent.
    """
    ledger.create_dataset("views", acc.Budget(epsilon=2.0, delta=1e-6, order="inf"), "add_remove")
    reserved(ledger, "views", "a")
    put_in, half = ledger.total("views").spent, acc.Approximate(curve=5 * PICK, delta0=1e-8)
    monkeypatch.setattr(f"accounting.ledger.model.{other}", ELSEWHERE[other])
    ledger.release("views", "a", spent=half)
    due = ledger.dataset("views").budget.filter_cost(half)
    kept = [
        whole - max(0, whole - part - 1 - whole // 10**8)
        for whole, part in zip(put_in, due, strict=True)
    ]
    assert list(ledger.total("views").spent) == kept
    assert kept[0] > due.main
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("higher", [True, False])
def test_costs_rounded_by_another_processor_still_verify(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, higher: bool
) -> None:
    """Reserved here and voided where prices are a billionth higher or lower: no account ends below
    0, and both verify.
    """
    ledger.create_dataset("views", acc.Budget(epsilon=2.0), "add_remove")
    ledger.quotas("views").declare(Quota(name="all", limit=acc.Budget(rho=1.0)))
    ledger.reserve("views", PICK, relation="add_remove", key="a")
    price = acc.Budget.filter_cost

    def rounded(self: acc.Budget, curve: acc.Curve) -> Cost:
        due = price(self, curve)
        return due._replace(main=due.main + (1 if higher else -1) * (due.main // 10**9 + 1))

    with monkeypatch.context() as patch:
        patch.setattr("accounting.ledger.model._host", ELSEWHERE["_host"])
        patch.setattr(acc.Budget, "filter_cost", rounded)
        cost_in.cache_clear()
        assert ledger.verify().problems == ()
        ledger.void("views", "a", actor="ana", reason="a mistake")
        assert ledger.verify().problems == ()
        ledger.charge("views", PICK, relation="add_remove", key="b")
    cost_in.cache_clear()
    assert ledger.verify().problems == ()
    ledger.charge("views", PICK, relation="add_remove", key="c")
    ((_, account),) = ledger.quotas("views").standing()
    assert account.spent.main >= 2 * acc.Budget(rho=1.0).filter_cost(PICK).main - 2000
