"""Filters: charges in any order, from any thread, never pass the budget; refusals say what would
fit.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpselect as dps
from accounting.budget import Budget
from accounting.curves import ZCDP, Curve, GaussianDP, PureDP
from accounting.errors import RelationMismatch
from accounting.filter import PrivacyFilter
from accounting.price import Price
from accounting.refusals import BudgetExceeded


def test_a_refusal_carries_the_numbers() -> None:
    """BudgetExceeded says what was asked, spent and left, and how many of the runs still fit; that
    many then do, not one more.
    """
    spender = PrivacyFilter(Budget(rho=1.0))
    spender.charge(ZCDP(rho=0.35))
    with pytest.raises(
        BudgetExceeded, match=r"These 20 releases do not fit .* Ask for at most 6 of them"
    ) as refused:
        spender.charge(ZCDP(rho=0.1), count=20)
    error = refused.value
    assert error.would_fit == 6
    assert error.requested == spender.budget.price(20 * ZCDP(rho=0.1))
    assert error.spent == spender.spent
    assert error.remaining is not None
    assert error.remaining.main == 0.65
    spender.charge(ZCDP(rho=0.1), count=error.would_fit)
    assert not spender.can_afford(ZCDP(rho=0.1))


def test_a_charge_that_was_interrupted_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the record of a charge and its sum: nothing is spent, and later charges are
    listed as they were made.
    """
    spender = PrivacyFilter(Budget(epsilon=1.0))
    spender.charge(PureDP(epsilon=0.1), label="before")
    with monkeypatch.context() as patch:
        patch.setattr("accounting.filter._State", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            spender.charge(PureDP(epsilon=0.5), label="interrupted")
    spender.charge(PureDP(epsilon=0.2), label="after")
    assert [(charge.label, charge.curve) for charge in spender.charges] == [
        ("before", PureDP(epsilon=0.1)),
        ("after", PureDP(epsilon=0.2)),
    ]
    assert spender.remaining.main == 0.7


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("charges", [1, 3, Fraction(5, 2)])
def test_what_several_charges_cost_is_their_share_of_the_limit(charges: int | Fraction) -> None:
    """In the unit of `limit`, so that a search sees how far a parameter is from what fits."""
    for budget, curve in (
        (Budget(rho=2.0), ZCDP(rho=0.3)),
        (Budget(epsilon=2.0), PureDP(epsilon=0.3)),
    ):
        assert budget.cost_of_each(curve, charges) == pytest.approx(0.3 * float(charges), rel=1e-9)


@given(
    curves=st.lists(
        st.sampled_from([PureDP(epsilon=0.07), GaussianDP(mu=0.1), ZCDP(rho=0.01)]), max_size=60
    )
)
@settings(max_examples=40, deadline=None)
def test_how_many_is_what_fits(curves: list[Curve]) -> None:
    """After any charges that fit, exactly how_many more separate charges succeed."""
    spender = PrivacyFilter(Budget(epsilon=1.0, delta=1e-6))
    for curve in curves:
        if spender.can_afford(curve):
            spender.charge(curve)
    count = spender.how_many(GaussianDP(mu=0.05))
    for _ in range(count):
        spender.charge(GaussianDP(mu=0.05))
    with pytest.raises(BudgetExceeded):
        spender.charge(GaussianDP(mu=0.05))


def test_mechanisms_bring_their_relation() -> None:
    """A mechanism's relation binds the filter; one under the other relation is refused and nothing
    is charged.
    """
    spender = PrivacyFilter(Budget(epsilon=1.0))
    spender.charge(dps.ExponentialMechanism(epsilon=0.1, sensitivity=dps.Sensitivity()))
    assert spender.relation == "add_remove"
    other = dps.ExponentialMechanism(
        epsilon=0.1, sensitivity=dps.Sensitivity(relation="replace_one")
    )
    for attempt in (spender.charge, spender.can_afford, spender.how_many):
        with pytest.raises(RelationMismatch):
            attempt(other)
    assert len(spender.charges) == 1
    refused = PrivacyFilter(Budget(epsilon=0.05))  # what does not fit leaves the relation open
    with pytest.raises(BudgetExceeded):
        refused.charge(other)
    assert refused.relation is None


def test_threads_never_overspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads racing for 100 charges get exactly 100 between them, although each pauses
    between check and charge.
    """
    plus = Price.plus

    def slow(first: Price, second: Price) -> Price:
        time.sleep(1e-4)
        return plus(first, second)

    monkeypatch.setattr(Price, "plus", slow)
    spender, granted = PrivacyFilter(Budget(epsilon=1.0)), []

    def spend() -> None:
        for _ in range(50):
            try:
                granted.append(spender.charge(PureDP(epsilon=0.01)))
            except BudgetExceeded:
                return

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(spend)
    assert len(granted) == 100
    assert spender.spent == spender.budget.capacity


def test_epsilon_reads_the_charges_as_a_plan() -> None:
    """The report equals the epsilon of the composition, and is at most the budget's epsilon at its
    delta.
    """
    spender = PrivacyFilter(Budget(epsilon=2.0, delta=1e-6))
    spender.charge(GaussianDP(mu=0.1), count=4, label="votes")
    spender.charge(PureDP(epsilon=0.2))
    assert (
        spender.epsilon(1e-6) == (4 * GaussianDP(mu=0.1) + PureDP(epsilon=0.2)).epsilon(1e-6) <= 2.0
    )
    assert [charge.label for charge in spender.charges] == ["votes", None]
