"""Filters: charges in any order, from any thread, never pass the budget; refusals say what would
fit.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from accounting.budget import Budget
from accounting.cost import Cost
from accounting.curves import ZCDP, GaussianDP, PureDP
from accounting.filter import PrivacyFilter
from accounting.refusals import BudgetExceeded


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
def test_cost_of_several_charges_is_in_units_of_limit(charges: int | Fraction) -> None:
    """In the unit of `limit`, so that a search sees how far a parameter is from what fits."""
    for budget, curve in (
        (Budget(rho=2.0), ZCDP(rho=0.3)),
        (Budget(epsilon=2.0), PureDP(epsilon=0.3)),
    ):
        assert budget.cost_of_each(curve, charges) == pytest.approx(0.3 * float(charges), rel=1e-9)


def test_threads_never_overspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads racing for 100 charges get exactly 100 between them, although each pauses
    between check and charge.
    """
    plus = Cost.plus

    def slow(first: Cost, second: Cost) -> Cost:
        time.sleep(1e-4)
        return plus(first, second)

    monkeypatch.setattr(Cost, "plus", slow)
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
    assert spender.how_many(PureDP(epsilon=0.01)) == 0
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
