"""`plan`: the command's question, asked in Python. Its keywords are the fields of `PlanSpec`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from accounting import Budget
from dpselect.errors import InvalidRequest
from dpselect.plan.answer import Plan
from dpselect.plan.asked import answered
from dpselect.plan.plan import Progress, TopKPlan
from dpselect.plan.profile import Profile
from dpselect.sensitivity import Sensitivity
from dpselect.spec.base import asked_by
from dpselect.spec.plan_spec import PlanSpec

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import PlanKeywords


@overload
def plan(
    budget: Budget | None = None,
    k: int | Literal["all"] | None = None,
    releases: int | None = None,
    *,
    quick: Literal[False] = False,
    periods: None = None,
    pate: Literal[False] = False,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
    **asked: Unpack[PlanKeywords],
) -> TopKPlan: ...


@overload
def plan(
    budget: Budget | None = None,
    k: int | Literal["all"] | None = None,
    releases: int | None = None,
    *,
    quick: bool = False,
    periods: int | None = None,
    pate: bool = False,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
    **asked: Unpack[PlanKeywords],
) -> Plan: ...


@asked_by(PlanSpec)
def plan(
    budget: Budget | None = None,
    k: Any = None,
    releases: Any = None,
    *,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
    **asked: Any,
) -> Plan:
    """Which mechanism to use, at what noise, and what it should find: `dpselect plan` in Python.

    Nothing private is looked at: the profile is public or made up, and the answer holds for data that look like it. A quick
    formula screens the mechanisms; what may come first is judged by its own draws, from one seed for all.

    Args:
        budget: what all releases together may cost, in place of `epsilon`, `delta` and `rho`.
        k, releases: how many items each release has; how many releases.
        profile: what the data look like, in place of `shape` and what goes with it: `Profile.zipf`,
            `Profile.of_counts(..., public=True)` or `Profile.of_log`.
        sensitivity: what one user may change, in place of `relation` and `max_items_per_user`.
        progress: called with (done, of how many) as mechanisms are finished.
        asked: the fields of `dpselect.spec.PlanSpec`, which are the options of the command; `ledger` may be an open ledger.

    Returns:
        A `TopKPlan`; with `quick` a `QuickPlan`, with `periods` a `HorizonPlan`, with `pate` a `VotingPlan`.

    Raises:
        InvalidRequest, InvalidBudget: what is asked for contradicts itself, the profile is private data, or no mechanism applies,
            and why.
        CalibrationError: no amount of noise fits the budget.

    Example:
        >>> import dpselect as dps
        >>> found = dps.plan(epsilon=1.0, k=5, shape="zipf:1", items=100, users=10_000, mechanisms=["joint_top_k"], rounds=100)
        >>> found.recommended.name, found.recommended.quality.recall.value > 0.9
        ('joint_top_k', True)
    """
    if budget is not None:
        if not isinstance(budget, Budget):
            raise InvalidRequest(
                f"budget must be an accounting.Budget, not {type(budget).__name__}: Budget(epsilon=1, delta=1e-6), say"
            )
        stated = [name for name in ("epsilon", "delta", "rho") if asked.get(name) is not None]
        if stated:
            raise InvalidRequest(f"budget= says what {stated[0]}= says: leave one of them out")
        asked |= {"epsilon": budget.epsilon, "delta": budget.delta or None, "rho": budget.rho}
    spec = PlanSpec(k=k, releases=releases, **asked)
    if profile is not None:
        if not isinstance(profile, Profile):
            raise InvalidRequest(
                f"profile must be a dpselect.Profile, not {type(profile).__name__}: a plan that looks at private data leaks "
                "them. Use Profile.zipf, or Profile.of_counts(..., public=True) for counts that were published or made up"
            )
        if said := spec.given("shape", "items", "users", "items_per_user", "column", "learned"):
            raise InvalidRequest(f"profile= says what {next(iter(said))}= says: leave one of them out")
    if not isinstance(sensitivity, Sensitivity | None):
        raise InvalidRequest(f"sensitivity must be a dpselect.Sensitivity, not {type(sensitivity).__name__}")
    return answered(spec, profile, budget=budget, sensitivity=sensitivity, progress=progress)
