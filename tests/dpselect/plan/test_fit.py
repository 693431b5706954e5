"""From a budget to a mechanism: the noise spends the budget, and only public facts decide."""

from __future__ import annotations

from typing import Any

import pytest
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.errors import DomainMismatch, InvalidRequest
from dpselect.mechanisms import members
from dpselect.plan.default import default_mechanism
from dpselect.plan.fit import fitted, supports
from dpselect.plan.request import TopKRequest

BUDGETS = [
    acc.Budget(epsilon=1.0),
    acc.Budget(epsilon=0.01),
    acc.Budget(epsilon=1.0, delta=1e-6),
    acc.Budget(epsilon=20.0, delta=1e-9),
    acc.Budget(rho=0.1),
    acc.Budget(rho=1e-4, delta=1e-6),
]


def request(kind: str, **changes: Any) -> TopKRequest:
    k = 3 if "k" in members()[kind].model_fields else 1
    most = (
        {"sensitivity": dps.Sensitivity(l0=4)}
        if kind in ("sparse_histogram", "racing_top_k")
        else {}
    )
    return TopKRequest(**{"k": k, "candidates": 100, **most, **changes})


def usable(kind: str) -> bool:
    try:
        return supports(kind, request(kind))
    except InvalidRequest:
        return False


KINDS = sorted(kind for kind in members() if usable(kind))


@pytest.mark.parametrize("kind", sorted(set(members()) - set(KINDS)))
def test_other_mechanisms_are_refused_in_words(kind: str) -> None:
    """A mechanism that answers another question, or needs more than is known, is refused and not
    guessed at.
    """
    with pytest.raises(InvalidRequest, match="in the library"):
        fitted(kind, acc.Budget(epsilon=1.0, delta=1e-6), request(kind))


@pytest.mark.fast(8)
@pytest.mark.parametrize(
    ("kind", "budget"),
    spread([(kind, budget) for kind in KINDS for budget in BUDGETS], 20),
    ids=str,
)
def test_the_noise_spends_the_budget(kind: str, budget: acc.Budget) -> None:
    """The mechanism costs what the budget allows to one part in 10^4, never more; one that can fail
    needs a delta.
    """
    can_fail = {"delta", "failure_delta"} & members()[kind].model_fields.keys()
    if can_fail and budget.delta == 0:
        with pytest.raises(InvalidRequest, match="delta"):
            fitted(kind, budget, request(kind))
        return
    curve = fitted(kind, budget, request(kind)).curve
    assert budget.admits(curve)
    assert budget.cost(curve) >= budget.limit * (1 - 1e-4)


@pytest.mark.parametrize(
    ("kind", "stated"),
    [
        ("limited_domain", {"l0": 1}),
        ("stability_test", {"relation": "replace_one"}),
        ("stability_test", {"relation": "add_remove"}),
        ("large_margin", {"monotone": True}),
        ("large_margin", {"monotone": False}),
    ],
)
def test_fitted_mechanism_has_the_requested_sensitivity(kind: str, stated: dict[str, Any]) -> None:
    """A mechanism that states no sensitivity has the bound on items, the relation and the direction
    of the request.
    """
    asked = request(kind, sensitivity=dps.Sensitivity(**stated))
    found = fitted(kind, acc.Budget(epsilon=1.0, delta=1e-6), asked)
    assert {name: getattr(found, name) for name in stated} == stated


def test_an_unknown_domain_is_refused_where_the_proof_needs_a_public_one() -> None:
    """Every mechanism for public domains refuses an unknown one, with the remedy."""
    for kind in KINDS:
        if members()[kind].traits.domain == "public":
            with pytest.raises(DomainMismatch, match="domain="):
                fitted(kind, acc.Budget(epsilon=1.0, delta=1e-6), request(kind, candidates=None))


def test_replace_one_is_refused_where_there_is_no_guarantee() -> None:
    """LimitedDomain has none, and says what to do; with a public domain the remedy is the other
    relation.
    """
    swapped = dps.Sensitivity(relation="replace_one")
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(acc.RelationMismatch, match="domain="):
        default_mechanism(budget, TopKRequest(k=1, sensitivity=swapped))
    with pytest.raises(acc.RelationMismatch, match="add_remove"):
        fitted("limited_domain", budget, TopKRequest(k=1, sensitivity=swapped, candidates=9))
    assert not supports("limited_domain", TopKRequest(k=1, sensitivity=swapped))
    assert supports("limited_domain", TopKRequest(k=1))


def test_fitted_refuses_options_a_mechanism_lacks() -> None:
    """An option that a mechanism does not have, a k that it does not release, and a request that is
    none, are refused.
    """
    for fields in (
        {"k": 0},
        {"k": 1.5},
        {"k": 10, "candidates": 9},
        {"k": 1, "noise": "pink"},
        {"k": 1, "kbar": 0},
    ):
        with pytest.raises(InvalidRequest):
            TopKRequest(**fields)  # type: ignore[arg-type]
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidRequest, match="kbar"):
        fitted("oneshot_top_k", budget, TopKRequest(k=1, candidates=9, kbar=5))
    with pytest.raises(InvalidRequest, match="noise"):
        fitted("permute_and_flip", budget, TopKRequest(k=1, candidates=9, noise="laplace"))
    with pytest.raises(InvalidRequest, match="k=1"):
        fitted("permute_and_flip", budget, TopKRequest(k=2, candidates=9))
    with pytest.raises(acc.errors.CalibrationError, match="gaussian"):
        fitted(
            "oneshot_top_k",
            acc.Budget(epsilon=1.0),
            TopKRequest(k=2, candidates=9, noise="gaussian"),
        )
