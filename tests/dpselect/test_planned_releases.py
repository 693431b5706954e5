"""Releases that share a budget, charged one by one: as many fit into a real ledger as were named,
and not one more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from spread import spread

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from dpselect.mechanisms import members
from dpselect.plan.default import default_choice
from dpselect.plan.fit import calibrate_mechanism, fitted
from dpselect.plan.request import TopKRequest

N = 7
APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)
BUDGETS = [
    APPROXIMATE,
    acc.Budget(epsilon=1.0, delta=1e-6, order="inf"),
    acc.Budget(epsilon=2.0, delta=1e-7, order=9.5, failure=9e-8),
    acc.Budget(epsilon=2.0, delta=1e-7, order="gaussian", failure=9e-8),
    acc.Budget(rho=0.05, delta=1e-6),
]
FEW = dps.Sensitivity.of_counts(items_per_user=3)
UNKNOWN = TopKRequest(k=10, releases=N)
FAILING = sorted(
    kind
    for kind, member in members().items()
    if member.traits.failure and member.traits.ranks_counts and member.traits.noise
)
PAYABLE = [
    (kind, budget)
    for kind in FAILING
    for budget in BUDGETS
    # the others have no pure epsilon
    if budget.order != "inf" or kind in ("limited_domain", "top_stable")
    if budget.order != "gaussian" or kind != "stable_top_k_fixed"  # of which only a rho is known
]


ONE = UNKNOWN.model_copy(update={"sensitivity": dps.Sensitivity.of_counts(items_per_user=1)})
CHOSEN = {
    "limited_domain": lambda budget: fitted("limited_domain", budget, UNKNOWN),
    "sparse_histogram": lambda budget: default_choice(budget, ONE, max_items_per_user=1).mechanism,
    "racing_top_k": lambda budget: default_choice(budget, UNKNOWN).mechanism,
    "oneshot_top_k": lambda budget: (
        default_choice(budget, UNKNOWN.model_copy(update={"candidates": 500})).mechanism
    ),
    "stable_top_k": lambda budget: fitted("stable_top_k", budget, UNKNOWN),
}


def charged(
    folder: Path, budget: acc.Budget, mechanism: dps.Mechanism
) -> tuple[int, acc.BudgetExceeded, acc.cost.Cost]:
    """How many releases a ledger on SQLite takes one by one, its refusal, and what was spent
    then.
    """
    with Ledger.open(f"sqlite:///{folder / 'p.db'}") as ledger:
        ledger.create_dataset("d", budget, "add_remove")
        for taken in range(N + 2):
            try:
                ledger.charge("d", mechanism)
            except acc.BudgetExceeded as refused:
                return taken, refused, ledger.total("d").spent
    raise AssertionError("nothing is refused")


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        *((kind, APPROXIMATE) for kind in CHOSEN),
        *(("limited_domain", budget) for budget in BUDGETS[1:]),
    ],
)
def test_default_for_n_releases_fits_exactly_n(
    tmp_path: Path, kind: str, budget: acc.Budget
) -> None:
    """The defaults for n releases spend their ledger: n fit, the next does not, and no part that
    they use is left over.
    """
    mechanism = CHOSEN[kind](budget)
    assert mechanism.kind == kind  # type: ignore[attr-defined]
    taken, refused, spent = charged(tmp_path, budget, mechanism)
    assert taken == N
    assert spent.main >= 0.9999 * budget.capacity.main
    if mechanism.curve.delta0:
        assert spent.failure >= 0.9999 * budget.capacity.failure
    assert refused.would_fit == 0


@pytest.mark.parametrize(("kind", "budget"), spread(PAYABLE, 12), ids=str)
def test_fitted_mechanisms_share_the_failure_probability(kind: str, budget: acc.Budget) -> None:
    """`fitted` for n releases of any of them: the filter pays for n, not for n + 1."""
    few = {"sensitivity": FEW} if kind in ("sparse_histogram", "racing_top_k") else {}
    traits = members()[kind].traits
    one = {"k": 1} if traits.answers == "one_item" else {}
    listed = {"candidates": 100} if traits.domain == "public" else {}
    assert (
        budget.how_many(fitted(kind, budget, UNKNOWN.model_copy(update={**few, **one, **listed})))
        == N
    )


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("charges", [1, 2, 40])
def test_calibration_for_n_charges_is_attained(budget: acc.Budget, charges: int) -> None:
    """`calibrate(charges=n)` is attained: n fit into the filter, and with a millionth less noise
    they do not.
    """
    found = acc.calibrate(lambda mu: acc.BoundedRange(epsilon=mu), budget, charges=charges)
    for factor, enough in ((1.0, True), (1.000001, False)):
        price = budget._item_cost(acc.BoundedRange(epsilon=found * factor))
        assert price is not None
        assert budget.fits(acc.cost.Cost(0, 0), price.times(charges)) is enough
    curve = acc.BoundedRange(epsilon=found)
    assert (
        budget.cost_of_each(curve, charges)
        <= budget.limit
        < budget.cost_of_each(curve, charges + 1)
    )


def test_budgets_that_cannot_be_shared_are_refused() -> None:
    """No number of charges, more than the chance of failure can be cut into, and no delta at all
    are named.
    """
    with pytest.raises(acc.AccountingError, match="charges"):
        calibrate_mechanism(lambda e: dps.ExponentialMechanism(epsilon=e), APPROXIMATE, charges=0)
    with pytest.raises(acc.AccountingError, match="releases"):
        TopKRequest(k=1, releases=0)
    with pytest.raises(
        acc.errors.CalibrationError, match="1,000,000,000,000,000 releases by LimitedDomain"
    ):
        fitted("limited_domain", APPROXIMATE, TopKRequest(k=1, releases=10**15))
    with pytest.raises(acc.AccountingError, match="delta"):
        fitted("limited_domain", acc.Budget(epsilon=1.0), UNKNOWN)
    assert APPROXIMATE.failure_of_each(3) == 1.66666e-07
    assert acc.Budget(epsilon=1.0).failure_of_each(3) == 0.0
