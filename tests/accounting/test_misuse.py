"""What must not go through: mixed relations, tables that are no guarantee, budgets asked for what they cannot admit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import dpselect as dps
from accounting.accountant import Accountant
from accounting.budget import NOTHING, Budget
from accounting.curves import ZCDP, ApproxDP, Approximate, Composed, Curve, GaussianDP, PureDP, RenyiTable
from accounting.errors import AccountingError, InvalidBudget, InvalidCurve, RelationMismatch, Unaffordable
from accounting.filter import PrivacyFilter, PrivacyOdometer
from accounting.remaining import BudgetExceeded

ADDED = dps.ExponentialMechanism(epsilon=0.1, sensitivity=dps.Sensitivity())
REPLACED = dps.ExponentialMechanism(epsilon=0.1, sensitivity=dps.Sensitivity(relation="replace_one"))
CHARGERS: list[Callable[[], Callable[..., object]]] = [
    lambda: Accountant().compose,
    lambda: PrivacyFilter(Budget(epsilon=5.0)).charge,
    lambda: PrivacyOdometer(delta=1e-6, order=8.0).charge,
]


@pytest.mark.parametrize("charger", CHARGERS, ids=["accountant", "filter", "odometer"])
@pytest.mark.parametrize(("first", "second"), [(ADDED, REPLACED), (REPLACED, ADDED)], ids=["added", "replaced"])
def test_mixing_relations_raises(charger: Callable[[], Callable[..., object]], first: object, second: object) -> None:
    """Whoever adds up refuses a mechanism under the other relation, whichever came first, and says which one holds."""
    charge = charger()
    charge(first)
    with pytest.raises(RelationMismatch, match="add_remove"):
        charge(second)
    charge(first)


@pytest.mark.parametrize("charger", CHARGERS, ids=["accountant", "filter", "odometer"])
def test_a_curve_cannot_relabel_a_mechanism(charger: Callable[[], Callable[..., object]]) -> None:
    """A relation passed along with a mechanism must be the mechanism's own."""
    with pytest.raises(RelationMismatch):
        charger()(ADDED, relation="replace_one")


@pytest.mark.parametrize(
    ("orders", "values", "reason"),
    [
        ([2.0, 4.0], [0.2, 0.1], "must not decrease"),
        ([2.0, 4.0], [0.1, math.nan], "finite"),
        ([2.0, math.nan], [0.1, 0.2], "finite"),
        ([2.0, 4.0], [-0.1, 0.2], "greater than or equal to 0"),
        ([4.0, 2.0], [0.1, 0.2], "strictly increasing"),
        ([2.0, 2.0], [0.1, 0.2], "strictly increasing"),
        ([1.0, 2.0], [0.1, 0.2], "above 1"),
        ([2.0, 4.0], [0.1], "one value per order"),
        ([2.0, 4.0], [0.1, math.inf], "finite"),
        ([], [], "at least 1"),
    ],
)
def test_tables_that_are_no_guarantee_raise(orders: list[float], values: list[float], reason: str) -> None:
    """A decreasing, NaN, negative, unsorted or incomplete table is refused when built, from JSON, and inside a composition."""
    data = {"kind": "renyi_table", "orders": orders, "values": values}
    with pytest.raises(InvalidCurve, match=reason):
        RenyiTable(orders=orders, values=values)
    with pytest.raises(InvalidCurve, match=reason):
        Composed.model_validate({"parts": [[3, data]]})
    with pytest.raises(InvalidCurve, match=reason):
        Approximate.model_validate({"curve": data, "delta0": 1e-9})


@pytest.mark.parametrize(
    ("budget", "curve", "remedy"),
    [
        (Budget(epsilon=1.0), ApproxDP(epsilon=0.1, delta=1e-9), "Give the budget a delta"),
        (Budget(epsilon=1.0), Approximate(curve=PureDP(epsilon=0.1), delta0=1e-9), "Give the budget a delta"),
        (Budget(epsilon=1.0), GaussianDP(mu=0.1), r"Budget\(epsilon=, delta=\)"),
        (Budget(epsilon=1.0), ZCDP(rho=0.1), r"Budget\(epsilon=, delta=\)"),
        (Budget(rho=1.0), ApproxDP(epsilon=0.1, delta=1e-9), "Give the budget a delta"),
        (Budget(rho=1.0, delta=1e-6), RenyiTable(orders=[8.0], values=[0.1]), r"Budget\(epsilon=, delta=\)"),
        (Budget(epsilon=1.0, delta=1e-6, failure=0.0), ApproxDP(epsilon=1.0, delta=1e-7), "a larger failure"),
        (Budget(epsilon=1.0, delta=1e-6, order=50.0), RenyiTable(orders=[8.0], values=[0.1]), "for_workload"),
        (Budget(epsilon=1.0, delta=1e-6, order="inf"), 100 * GaussianDP(mu=0.1), "or choose a mechanism with a pure epsilon"),
    ],
)
def test_budgets_refuse_what_their_form_cannot_admit(budget: Budget, curve: Curve, remedy: str) -> None:
    """A price that no budget of the form can pay raises with the remedy; admits, can_afford are False; nothing is charged."""
    curve = 3 * curve
    with pytest.raises(Unaffordable, match=remedy):
        budget.price(curve)
    assert not budget.admits(curve)
    assert not budget.can_afford(NOTHING, curve)
    spender = PrivacyFilter(budget)
    with pytest.raises(InvalidBudget, match=remedy):
        spender.charge(curve)
    assert spender.spent == NOTHING


def test_refusals_never_leave_the_family() -> None:
    """All refusals are AccountingErrors, so one except clause around a release catches every one of them."""
    assert issubclass(Unaffordable, InvalidBudget)
    assert all(issubclass(kind, AccountingError) for kind in (Unaffordable, BudgetExceeded, RelationMismatch, InvalidCurve))
    error = BudgetExceeded("as the ledger raises it")
    assert (error.requested, error.spent, error.remaining, error.would_fit) == (None, None, None, None)


@pytest.mark.parametrize(
    "build",
    [
        lambda: PrivacyOdometer(delta=0.0, order=8.0),
        lambda: PrivacyOdometer(delta=1.0, order=8.0),
        lambda: PrivacyOdometer(delta=1e-6, order=1.0),
        lambda: PrivacyOdometer(delta=1e-6, order=math.nan),
        lambda: PrivacyOdometer(delta=1e-6, order=8.0, failure=-0.1),
    ],
)
def test_odometers_without_a_statement_raise(build: Callable[[], PrivacyOdometer]) -> None:
    """A delta or order for which the odometer's theorem says nothing raises."""
    with pytest.raises(AccountingError):
        build()


def test_odometers_refuse_what_they_cannot_count() -> None:
    """A curve without a finite divergence at the order, or failures beyond the declared ones, are refused and not counted."""
    odometer = PrivacyOdometer(delta=1e-6, order=8.0, failure=2e-9)
    with pytest.raises(Unaffordable, match="another order"):
        odometer.charge(RenyiTable(orders=[2.0], values=[0.1]))
    odometer.charge(ApproxDP(epsilon=0.1, delta=1e-9), count=2)
    before = odometer.spent
    with pytest.raises(BudgetExceeded, match="larger failure"):
        odometer.charge(ApproxDP(epsilon=0.1, delta=1e-9))
    assert odometer.spent == before


@pytest.mark.parametrize("text", ["{bad", "[]", '{"epsilon": -1}', '{"epsilon": 1, "delta": 2}'])
def test_json_that_is_no_budget_raises_the_familys_error(text: str) -> None:
    """Text that is not JSON, or not a budget's, is refused with the budgets' own error."""
    with pytest.raises(InvalidBudget):
        Budget.model_validate_json(text)
