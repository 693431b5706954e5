"""`plan`, and what a `PlanSpec` asks, answered: the profile that its words stand for, the plan, the budget it takes, the
default's choice. The keywords of `plan` are the fields of `PlanSpec`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import accounting as acc
from accounting.address import masked
from accounting.errors import CalibrationError
from dpselect.errors import InvalidRequest
from dpselect.plan.plan import Plan, share
from dpselect.plan.profile import Profile
from dpselect.plan.topk_plan import Progress, TopKPlan, most, plan_releases
from dpselect.sensitivity import Sensitivity
from dpselect.spec import FileFields, PlanSpec
from dpselect.spec.base import asked_by

if TYPE_CHECKING:
    from dpselect.pate.plan import TrialVotes, VotesModel
    from dpselect.spec.keyword_types import PlanKeywords

_KNOWN = "zipf:EXPONENT, uniform, the name of a file with public counts, or that of a public log with user= and item="


@overload
def plan(
    budget: acc.Budget | None = None,
    k: int | Literal["all"] | None = None,
    releases: int | None = None,
    *,
    periods: None = None,
    pate: Literal[False] = False,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
    **asked: Unpack[PlanKeywords],
) -> TopKPlan: ...


@overload
def plan(
    budget: acc.Budget | None = None,
    k: int | Literal["all"] | None = None,
    releases: int | None = None,
    *,
    periods: int | None = None,
    pate: bool = False,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
    **asked: Unpack[PlanKeywords],
) -> Plan: ...


@asked_by(PlanSpec)
def plan(
    budget: acc.Budget | None = None,
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
        A `TopKPlan`; with `periods` a `HorizonPlan`, with `pate` a `VotingPlan`.

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
        if not isinstance(budget, acc.Budget):
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
        if said := spec.given("shape", "items", "users", "items_per_user", "column"):
            raise InvalidRequest(f"profile= says what {next(iter(said))}= says: leave one of them out")
    if not isinstance(sensitivity, Sensitivity | None):
        raise InvalidRequest(f"sensitivity must be a dpselect.Sensitivity, not {type(sensitivity).__name__}")
    return answered(spec, profile, budget=budget, sensitivity=sensitivity, progress=progress)


def answered(
    spec: PlanSpec,
    profile: Profile | None = None,
    *,
    budget: acc.Budget | None = None,
    sensitivity: Sensitivity | None = None,
    progress: Progress | None = None,
) -> Plan:
    """What is asked for, whichever it is.

    Args:
        profile: in place of what `shape=` and the numbers beside it stand for.
        budget, sensitivity, progress: as for `plan_releases`.
    """
    if sensitivity is not None and spec.way != "releases":
        raise InvalidRequest(f"sensitivity= does not go with {spec.way}=: leave one of them out")
    if profile is not None and spec.way == "pate":
        raise InvalidRequest(f"profile= does not go with {spec.way}=: leave one of them out")
    if spec.way == "pate":
        from dpselect.pate.plan import plan_votes  # ballots and jobs, which other plans do without

        return plan_votes(_votes(spec), budget or spec.budget, rounds=spec.releases, seed=spec.seed or 0)
    if spec.way == "periods":
        from dpselect.plan.horizon_plan import plan_horizon  # horizons and their noise, which other plans do without

        if spec.k is None:
            raise InvalidRequest("no size is stated: give k=, how many items each period releases")
        profile = profile or _arriving(spec)
        return plan_horizon(
            budget or spec.budget,
            most(profile, spec) if spec.k == "all" else spec.k,
            profile,
            count=spec.count or "period",
            window=spec.window,
            unknown=bool(spec.unknown_domain),
            relation=spec.relation or "add_remove",
            seed=spec.seed or 0,
        )
    if spec.recall is not None:
        spec = enough(spec, profile, budget=budget, sensitivity=sensitivity)
    return plan_releases(spec, profile or profile_of(spec), budget=budget, sensitivity=sensitivity, progress=progress)


def _votes(spec: PlanSpec) -> VotesModel | TrialVotes:
    """Votes that are made up from public numbers, or those in a file."""
    from dpselect.pate.plan import VotesModel
    from dpselect.pate.votes_file import VotesFile

    numbers = spec.given(*(name for name in VotesModel.model_fields if name in PlanSpec.model_fields))
    if spec.votes is not None:
        if numbers:
            raise InvalidRequest(f"votes= says what {', '.join(f'{name}=' for name in numbers)} say: leave them out")
        if not spec.public_votes:
            raise InvalidRequest(
                "votes= shows figures of the votes in a file, which no ledger is charged for: if the teachers were trained on "
                "public or made-up records, declare it with public_votes=True; plan from public numbers otherwise (teachers=, "
                "labels=, votes_per_item=, agreement=)"
            )
        return VotesFile.trial(Path(spec.votes))
    if spec.public_votes:
        raise InvalidRequest("public_votes= declares what votes= names: name a file, votes=, or leave it out")
    needed = [name for name, field in VotesModel.model_fields.items() if field.is_required()]
    if missing := [f"{name}=" for name in needed if name not in numbers]:
        raise InvalidRequest(f"plan with pate= needs {', '.join(missing)}, or votes=")
    return VotesModel(**numbers)


# -- the profile -----------------------------------------------------------------------------------------------------------


# What a shape says by itself, and its fields therefore may not.
_SAID_BY = {
    "a made-up law": ("user", "item", "time", "column"),
    "a file of counts": ("items", "users"),
    "a log": ("items", "users", "items_per_user", "column", "active", "new_items"),
}


def _require_said_once(spec: PlanSpec, kind: str) -> None:
    """Refuse fields that say what the shape says, or that it has no use for."""
    if stated := [f"{name}=" for name in spec.given(*_SAID_BY[kind])]:
        does = f"{', '.join(stated)} {'does' if len(stated) == 1 else 'do'} not go"
        raise InvalidRequest(f"{does} with {kind}, shape={masked(str(spec.shape))}: leave out one or the other")


def profile_of(spec: PlanSpec) -> Profile:
    """The profile that `shape=` and the numbers beside it stand for.

    Raises:
        InvalidRequest: they stand for none, contradict each other, or name a file that was not declared public.
    """
    if spec.shape is None:
        raise InvalidRequest(f"no shape is stated: give shape=, one of {_KNOWN}")
    if spec.kind_of_shape in ("zipf", "uniform"):
        _require_said_once(spec, "a made-up law")
        if spec.items is None or spec.users is None:
            raise InvalidRequest(f"shape={spec.shape} needs items= and users=: how many there are, roughly")
        return Profile.zipf(exponent_of(spec), spec.items, spec.users, items_per_user=spec.items_per_user or 1.0)
    shape = spec.shape
    missing = "\0" in shape or not os.access(shape, os.F_OK)
    if missing and (":" in shape or Path(shape).suffix == ""):
        raise InvalidRequest(f"shape={shape!r} is not a shape: it must be {_KNOWN}")
    _require_said_once(spec, "a log" if spec.is_log else "a file of counts")
    if not spec.is_log:
        return Profile.of_csv(shape, spec.column, public=spec.public, items_per_user=spec.items_per_user)
    if spec.user is None or spec.item is None:
        raise InvalidRequest(f"shape={masked(shape)} is a log: name its columns, user= and item=")
    when = spec.given("time", "periods")
    return Profile.of_log(shape, user=spec.user, item=spec.item, public=spec.public, **when, **file_options(spec))


def _arriving(spec: PlanSpec) -> Profile:
    """The profile with events over time, for a plan of a horizon.

    Raises:
        InvalidRequest: as for `profile_of`, or a made-up profile is given a column of times.
    """
    if spec.kind_of_shape not in ("zipf", "uniform"):
        if not spec.shape or None in (spec.user, spec.item, spec.time) or not spec.is_log:
            raise InvalidRequest(
                "a horizon is planned on shape=zipf:EXPONENT, or on a public log: name it, user=, item= and time="
            )
        return profile_of(spec)
    periods, made_up = spec.periods or 1, spec.given("active", "new_items")
    later = round(made_up.pop("new_items", 0.0) * (periods - 1))
    whole = spec if spec.items is None else spec.model_copy(update={"items": spec.items + later})
    return profile_of(whole).arriving(periods, new_items=later, seed=spec.seed or 0, **made_up)


def exponent_of(spec: PlanSpec) -> float:
    """Of the Zipf law that `shape=` states; 0 for uniform."""
    kind, _, exponent = str(spec.shape).partition(":")
    if kind == "uniform":
        if exponent:
            raise InvalidRequest("shape=uniform takes nothing after a colon")
        return 0.0
    try:
        return float(exponent)
    except ValueError:
        raise InvalidRequest(f"shape={spec.shape!r} is refused: after zipf: comes the exponent, zipf:1.1 for example") from None


def file_options(spec: PlanSpec) -> dict[str, Any]:
    """How the file of `shape=` is read, as it is stated."""
    fields = FileFields.model_fields.items()
    return {name: getattr(spec, name) for name, field in fields if getattr(spec, name) != field.default}


# -- the budget that a recall takes ------------------------------------------------------------------------------------------


_SEARCHED = 100  # simulated runs of each plan of a search
_STEPS = 12  # bisections, to about a fiftieth
_KINDS = 3  # mechanisms that are looked at in it


def enough(
    spec: PlanSpec, profile: Profile | None = None, *, budget: acc.Budget | None = None, sensitivity: Sensitivity | None = None
) -> PlanSpec:
    """The question with the least epsilon whose plan expects `recall=` or, where a budget is stated, the fewest users.

    Args:
        budget, sensitivity: as for `plan_releases`.

    Raises:
        InvalidRequest: both are stated, the profile is not one that has a number of users to find, or nothing is enough.
    """
    budgeted = spec.epsilon is not None or spec.rho is not None
    if budgeted and spec.users is not None:
        raise InvalidRequest("recall= says how large epsilon=, or users=, has to be: leave one of them out")
    if budgeted and (profile is not None or spec.kind_of_shape not in ("zipf", "uniform")):
        raise InvalidRequest("recall= finds users for shape=zipf:EXPONENT or shape=uniform: leave epsilon= out for any other")
    recall = spec.recall or 0.0
    if not 0 < recall < 1:
        raise InvalidRequest(f"recall={recall!r} must be a share between 0 and 1: 0.9 for nine of ten true items")
    name, start, low, high = ("users", 1e5, 10.0, 1e9) if budgeted else ("epsilon", 1.0, 1e-3, 1e2)
    known = profile if profile is not None or budgeted else profile_of(spec)

    def tried(amount: float, kinds: Sequence[str] | None) -> TopKPlan:
        of_it = round(amount) if budgeted else amount
        tried_on = spec.model_copy(update={name: of_it, "rounds": _SEARCHED, "mechanisms": kinds})
        return plan_releases(tried_on, known or profile_of(tried_on), budget=budget, sensitivity=sensitivity)

    kinds = tuple(dict.fromkeys(one.name.partition(",")[0] for one in tried(start, spec.mechanisms).ranked))[:_KINDS]

    def found(amount: float) -> float:
        with suppress(InvalidRequest, CalibrationError):  # nothing is found for so little
            return tried(amount, kinds).recommended.expected
        return 0.0

    if (reached := found(high)) < recall:
        finds = f"{high:,.6g} finds {share(reached) if reached else 'nothing'}"
        raise InvalidRequest(f"recall={recall:g} is out of reach: {finds}; ask for less, or for fewer items")
    for _ in range(_STEPS):
        middle = float(f"{math.sqrt(low * high):.3g}")
        if not low < middle < high or high < 1.03 * low:
            break
        low, high = (low, middle) if found(middle) >= recall else (middle, high)
    return spec.model_copy(update={name: round(high) if budgeted else high})
