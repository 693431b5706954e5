"""`plan`, the answer to a `PlanSpec`, whose fields are the keywords of the function.

The mechanism is chosen as in `topk` and `continual run`, so a plan forecasts what they will run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import accounting as acc
from accounting.address import mask
from accounting.errors import CalibrationError, locate_errors
from accounting.registry import kind_of
from accounting.relations import same_relation
from dpselect.app.release.preview import (
    Described,
    Preview,
    forecast_release,
    forecast_series,
    groups_from_shares,
)
from dpselect.app.release.question import Question, choose, request_of
from dpselect.app.spec import FileFields, PlanSpec, TopKSpec
from dpselect.app.spec.base import takes_fields_of
from dpselect.app.spec.plan_spec import ShapeFields
from dpselect.app.spec.shared_fields import open_ledger
from dpselect.app.spec.topk_spec import ReleaseFields
from dpselect.errors import InvalidRequest
from dpselect.plan.counts import without_counts
from dpselect.plan.default import Choice, default_mechanism
from dpselect.plan.fit import mechanism_class
from dpselect.plan.forecast import DRAWS, Forecaster
from dpselect.plan.plan import Plan, share
from dpselect.plan.profile import Groups, Profile
from dpselect.plan.request import TopKRequest
from dpselect.plan.topk_plan import TopKPlan, plan_releases
from dpselect.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpselect.app.spec.keyword_types import PlanKeywords
    from dpselect.mechanisms.continual_top_k import ContinualTopK
    from dpselect.pate.plan import TrialVotes, VotesModel

_SHAPES = (
    "zipf:EXPONENT, uniform, the name of a file with public counts, or that of a public log with"
    " user= and item="
)


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
    **fields: Unpack[PlanKeywords],
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
    **fields: Unpack[PlanKeywords],
) -> Plan: ...


@takes_fields_of(PlanSpec)
def plan(
    budget: acc.Budget | None = None,
    k: Any = None,
    releases: Any = None,
    *,
    profile: Profile | None = None,
    sensitivity: Sensitivity | None = None,
    **fields: Any,
) -> Plan:
    """Forecast the mechanism, quality and cost of a release, before any data are read.

    This is `dpselect plan` in Python. Nothing private is read, because the profile is public or
    made up, and the forecast holds for data that look like it. It uses the mechanism's own draws on
    made-up users, from a fixed seed.

    Args:
        budget: budget of all releases together, in place of `epsilon`, `delta` and `rho`.
        fields: the fields of `dpselect.app.spec.PlanSpec`.
        profile: public description of the data, in place of `shape` and the options that go with
            it: `Profile.zipf`, `Profile.of_counts(..., public=True)` or `Profile.of_log`.
        sensitivity: sensitivity of scores of your own to one user, in place of `relation` and
            `max_items_per_user`.

    Returns:
        A `TopKPlan`; with `periods` a `HorizonPlan`, with `pate` a `VotingPlan`.

    Raises:
        InvalidRequest, InvalidBudget: options contradict each other, the profile is private data,
            or no mechanism can do it.
        CalibrationError: no amount of noise fits the budget.

    Example:
        >>> import dpselect as dps
        >>> found = dps.plan(epsilon=1.0, k=5, shape="zipf:1", items=100, users=10_000)
        >>> found.recommended.name, found.recommended.expected.recall > 0.9
        ('peeling_top_k', True)
    """
    if budget is not None:
        if not isinstance(budget, acc.Budget):
            raise InvalidRequest(
                f"budget must be an accounting.Budget, not {type(budget).__name__}:"
                " Budget(epsilon=1, delta=1e-6), say"
            )
        names = [name for name in ("epsilon", "delta", "rho") if fields.get(name) is not None]
        if names:
            raise InvalidRequest(f"budget= says what {names[0]}= says. Leave one of them out")
        fields |= {"epsilon": budget.epsilon, "delta": budget.delta or None, "rho": budget.rho}
    spec = PlanSpec(k=k, releases=releases, **fields)
    if profile is not None:
        if not isinstance(profile, Profile):
            raise InvalidRequest(
                f"profile must be a dpselect.Profile, not {type(profile).__name__}: a plan that"
                " looks at private data leaks them. Use Profile.zipf, or Profile.of_counts(...,"
                " public=True) for counts that were published or made up"
            )
        of_shape = (*ShapeFields.__annotations__, "user", "item")
        if repeated := spec.stated_values(*of_shape) | file_options(spec):
            raise InvalidRequest(
                f"profile= says what {next(iter(repeated))}= says. Leave one of them out"
            )
    if not isinstance(sensitivity, Sensitivity | None):
        raise InvalidRequest(
            f"sensitivity must be a dpselect.Sensitivity, not {type(sensitivity).__name__}"
        )
    return make_plan(spec, profile, budget=budget, sensitivity=sensitivity)


def make_plan(
    spec: PlanSpec,
    profile: Profile | None = None,
    *,
    budget: acc.Budget | None = None,
    sensitivity: Sensitivity | None = None,
) -> Plan:
    """The plan for a spec.

    Args:
        profile: the profile, in place of `shape=` and the numbers beside it.
        budget, sensitivity: as for `plan`.
    """
    if sensitivity is not None and spec.way != "releases":
        raise InvalidRequest(f"sensitivity= does not go with {spec.way}=: leave one of them out")
    if profile is not None and spec.way == "pate":
        raise InvalidRequest(f"profile= does not go with {spec.way}=: leave one of them out")
    if spec.way == "pate":
        from dpselect.pate.plan import plan_votes  # ballots and jobs, which other plans do without

        return plan_votes(
            _votes(spec), budget or spec.budget, rounds=spec.releases, seed=spec.seed or 0
        )
    if spec.way == "releases" and spec.recall is not None:
        spec = enough(spec, profile, budget=budget, sensitivity=sensitivity)
    profile, budget = profile or profile_of(spec), budget or spec.budget
    if isinstance(spec.k, int):
        Forecaster(profile, not spec.unknown_domain).require(spec.k)
    if spec.way == "periods":
        return _series(spec, profile, budget)
    return _releases(spec, profile, budget, sensitivity)


def _releases(
    spec: PlanSpec,
    profile: Profile,
    budget: acc.Budget,
    sensitivity: Sensitivity | None,
    draws: int = DRAWS,
) -> TopKPlan:
    """The plan of releases of `topk`, or of scores of another kind."""
    whole, payer = _payer(spec, budget)
    request, choices = _choose(spec, profile, budget, whole, sensitivity)
    if (
        whole is not None
        and (fits := _how_many(whole, choices[0].mechanism.curve)) < request.releases
    ):
        payer += (
            f". Its whole budget covers {fits:,} such releases, and not {request.releases:,}."
            " Ask for less"
        )
    about: dict[str, Any] = {"groups": groups_of(spec), "payer": payer, "seed": spec.seed or 0}
    return plan_releases(budget, request, choices, profile, **about, draws=draws)


def _choose(
    spec: PlanSpec,
    profile: Profile,
    budget: acc.Budget,
    whole: acc.Budget | None,
    sensitivity: Sensitivity | None,
) -> tuple[TopKRequest, list[Choice]]:
    """The request of one release, and the choices of `topk` for it and for each other named kind.

    `whole` is the budget of the dataset to charge, if there is one.
    """
    if sensitivity is None:
        request, choice_of = _counts_request(spec, profile, budget, whole)
    else:
        request, choice_of = _scores_request(spec, profile, budget, sensitivity)
    first = choice_of(spec.mechanism)
    own = kind_of(type(without_counts(first.mechanism)))
    with locate_errors("compare"):
        kinds = dict.fromkeys(kind_of(mechanism_class(kind)) for kind in spec.compare or ())
        return request, [first, *(choice_of(kind) for kind in kinds if kind != own)]


def _scores_request(
    spec: PlanSpec, profile: Profile, budget: acc.Budget, sensitivity: Sensitivity
) -> tuple[TopKRequest, Callable[[Any], Choice]]:
    """The request of scores of another kind, and a function from a kind's name to the choice."""
    if unsupported := spec.stated_values(
        "relation", "max_items_per_user", "groups", "group_users", "with_counts", "ledger"
    ):
        raise InvalidRequest(
            f"sensitivity= is of scores of your own. Leave {next(iter(unsupported))}= out"
        )
    k = most(profile, spec) if spec.k == "all" else spec.k
    listed = None if spec.unknown_domain else profile.size
    about: dict[str, Any] = {
        "candidates": listed,
        "noise": spec.noise,
        "kbar": spec.kbar,
        "min_users": spec.min_users,
    }
    request = TopKRequest(k=k, sensitivity=sensitivity, releases=spec.releases or 1, **about)

    def choose_kind(kind: Any) -> Choice:
        if kind is not None and not isinstance(kind, str):
            raise InvalidRequest(
                "mechanism= has its noise already, which a plan chooses. Name its kind"
            )
        return Choice(default_mechanism(budget, request, kind=kind), sensitivity.l0)

    return request, choose_kind


def _counts_request(
    spec: PlanSpec, profile: Profile, budget: acc.Budget, whole: acc.Budget | None
) -> tuple[TopKRequest, Callable[[Any], Choice]]:
    """The request of a release of `topk`, and a function from a kind's name to the choice."""

    def question(kind: Any) -> Question:
        return _question(spec, profile, budget, kind)

    return request_of(question(spec.mechanism), whole), lambda kind: choose(question(kind), whole)


def _question(spec: PlanSpec, profile: Profile, budget: acc.Budget, kind: Any) -> Question:
    """The question that `topk` will answer, with public lists of which only the sizes are known."""
    fields = {name: getattr(spec, name) for name in _SHARED if getattr(spec, name) is not None}
    lists = dict[str, tuple[str, ...]]()
    if (groups := groups_of(spec)) is not None:
        fields |= {"group": "group", "max_groups_per_user": groups.max_groups_per_user}
        lists = {"groups": tuple(map(str, range(groups.count)))}
    listed = None if spec.unknown_domain else profile.size
    if budget.is_about_attacks and listed is None:
        raise InvalidRequest(
            "a budget by advantage or by attack rates does not cover items that are read off the"
            " log. State epsilon= and delta=, or a public list of items"
        ).at("unknown_domain")
    money = {"epsilon": budget.epsilon, "delta": budget.delta or None, "rho": budget.rho}
    release = TopKSpec(user="user", item="item", mechanism=kind, **fields, **money)
    domain = None if listed is None else range(listed)
    question = Question("the log", release, release.reading(**lists), budget, domain)
    question.require()
    return question


def preview(spec: PlanSpec, plan: Plan) -> Preview | None:
    """The forecast of each group under a plan, and under other questions.

    Args:
        plan: the plan for the spec.
    """
    profile, budget, groups = profile_of(spec), spec.budget, groups_of(spec)
    names = tuple(sorted(spec.group_users or {}, key=lambda name: -(spec.group_users or {})[name]))
    data = Described(profile, groups, names)
    if isinstance(plan, TopKPlan):
        question = _question(spec, profile, budget, spec.mechanism)
        return forecast_release(
            question, choose(question, _payer(spec, budget)[0]), data, compared=True
        )
    fitted = partial(_fit_series, spec, profile)
    return forecast_series(budget, fitted(budget), data, fitted)


def _payer(spec: PlanSpec, budget: acc.Budget) -> tuple[acc.Budget | None, str]:
    """The budget of the dataset to charge (None without a ledger), and its source in words."""
    if spec.ledger is None:
        return None, ""
    try:
        with open_ledger(spec.ledger) as ledger:
            dataset = ledger.dataset(str(spec.dataset))
            same_relation(dataset.relation, spec.relation or "add_remove")
            return dataset.budget, f"dataset {spec.dataset!r} is charged"
    except (acc.ledger.LedgerUnavailable, acc.ledger.UnknownDataset):
        return (
            budget,
            (
                f"dataset {spec.dataset!r} cannot be read, so this is planned as if it were"
                " declared with this budget"
            ),
        )


def _how_many(whole: acc.Budget, curve: acc.Curve) -> int:
    with suppress(acc.errors.Unaffordable):
        return whole.how_many(curve)
    return 0


# What a release is asked, beside what a plan knows of the data, its budget and its mechanism.
_SHARED = {*ReleaseFields.model_fields, "relation", "max_items_per_user"} - {"mechanism"}


def groups_of(spec: PlanSpec) -> Groups | None:
    """The groups with a release each; None for the log as a whole."""
    sizes = dict(spec.group_users or {})
    count = spec.groups or len(sizes)
    if not count:
        return None
    # Nobody is in more groups than there are: a looser bound would be paid for, and fitted, for
    # nothing.
    bound = spec.max_groups_per_user and min(spec.max_groups_per_user, count)
    if sizes:
        users = spec.users or sum(sizes.values())
        return groups_from_shares(
            sorted((size / users for size in sizes.values()), reverse=True), bound
        )
    more = {"per_user": spec.groups_per_user, "exponent": spec.group_exponent}
    settings = {name: value for name, value in more.items() if value is not None}
    return Groups(count=count, max_groups_per_user=bound, **settings)


def most(profile: Profile, spec: PlanSpec) -> int:
    """Number of items that can come out of data with this profile."""
    return profile.touched if spec.unknown_domain else profile.size


def _series(spec: PlanSpec, profile: Profile, budget: acc.Budget) -> Plan:
    """The plan of a series with one budget."""
    # horizons and their noise, which other plans do without
    from dpselect.plan.horizon_plan import plan_horizon

    if budget.form != "approximate":
        raise InvalidRequest(
            "a series needs epsilon= and delta=, as continual run does. State both"
        ).at("delta")
    mechanism, (whole, payer) = _fit_series(spec, profile, budget), _payer(spec, budget)
    if whole is not None and not _how_many(whole, mechanism.curve):
        payer += ". Its whole budget does not cover the series. Ask for less"
    about: dict[str, Any] = {"groups": groups_of(spec), "payer": payer, "seed": spec.seed or 0}
    return plan_horizon(budget, mechanism, profile, **about)


def _fit_series(
    spec: PlanSpec, profile: Profile, budget: acc.Budget, listed: range | None = None
) -> ContinualTopK:
    """The mechanism of a series, for a public list of items if one is given."""
    from dpselect.app.release.series import horizon_mechanism
    from dpselect.mechanisms.continual_top_k import HorizonClip

    assert spec.periods is not None
    groups = groups_of(spec)
    return horizon_mechanism(
        budget,
        domain=listed if spec.unknown_domain else range(profile.size),
        groups=None if groups is None else range(groups.count),
        with_counts=spec.with_counts,
        users=HorizonClip(exponent=spec.exponent, cells=spec.cells),
        items_per_period=spec.items_per_period,
        k=most(profile, spec) if spec.k == "all" else spec.k,
        periods=spec.periods,
        count=spec.count,
        window=spec.window,
        relation=spec.relation or "add_remove",
        grouped=groups is not None,
    )


def _votes(spec: PlanSpec) -> VotesModel | TrialVotes:
    """Votes made up from public numbers, or those in a file."""
    from dpselect.app.labeling.votes_file import VotesFile
    from dpselect.pate.plan import VotesModel

    numbers = spec.stated_values(
        *(name for name in VotesModel.model_fields if name in PlanSpec.model_fields)
    )
    if spec.votes is not None:
        if numbers:
            raise InvalidRequest(
                f"votes= says what {', '.join(f'{name}=' for name in numbers)} say. Leave them out"
            )
        if not spec.public_votes:
            raise InvalidRequest(
                "votes= shows figures of the votes in a file, which no ledger is charged for: if"
                " the teachers were trained on public or made-up records, declare it with"
                " public_votes=True. Plan from public numbers otherwise (teachers=, labels=,"
                " votes_per_item=, agreement=)"
            )
        return VotesFile.trial(Path(spec.votes))
    if spec.public_votes:
        raise InvalidRequest(
            "public_votes= declares what votes= names. Name a file, votes=, or leave it out"
        )
    required = [name for name, field in VotesModel.model_fields.items() if field.is_required()]
    if missing := [f"{name}=" for name in required if name not in numbers]:
        raise InvalidRequest(f"plan with pate= needs {', '.join(missing)}, or votes=")
    return VotesModel(**numbers)


# -- the profile -----------------------------------------------------------------------------------


# What a shape says by itself, and its fields therefore may not.
_EXCLUDED = {
    "a made-up law": ("user", "item", "column", "log", "public", *FileFields.model_fields),
    "a file of counts": ("items", "users", "user", "item", *FileFields.model_fields),
    "a log": ("items", "users", "items_per_user", "column"),
}


def _require_stated_once(spec: PlanSpec, kind: str) -> None:
    """Refuse fields that repeat the shape, or that do not apply to it."""
    values = spec.stated_values(
        *(name for name in _EXCLUDED[kind] if name not in FileFields.model_fields)
    ) | file_options(spec)
    if names := [f"{name}=" for name in values if name in _EXCLUDED[kind]]:
        subject = f"{', '.join(names)} {'does' if len(names) == 1 else 'do'} not go"
        raise InvalidRequest(
            f"{subject} with {kind}, shape={mask(str(spec.shape))}. Leave out one or the other"
        )


def profile_of(spec: PlanSpec) -> Profile:
    """The profile that `shape=` and the numbers beside it describe.

    Raises:
        InvalidRequest: they describe none, contradict each other, or name a file that was not
            declared public.
    """
    if spec.shape is None:
        raise InvalidRequest(f"no shape is stated. Give shape=, one of {_SHAPES}")
    if spec.kind_of_shape in ("zipf", "uniform"):
        _require_stated_once(spec, "a made-up law")
        if spec.items is None or spec.users is None:
            raise InvalidRequest(
                f"shape={spec.shape} needs items= and users=: how many there are, roughly"
            )
        return Profile.zipf(
            exponent_of(spec), spec.items, spec.users, items_per_user=spec.items_per_user or 1.0
        )
    shape = spec.shape
    missing = "\0" in shape or not os.access(shape, os.F_OK)
    if missing and (":" in shape or Path(shape).suffix == ""):
        raise InvalidRequest(f"shape={shape!r} is not a shape: it must be {_SHAPES}")
    _require_stated_once(spec, "a log" if spec.is_log else "a file of counts")
    if not spec.is_log:
        return Profile.of_csv(
            shape, spec.column, public=spec.public, items_per_user=spec.items_per_user
        )
    if spec.user is None or spec.item is None:
        raise InvalidRequest(f"shape={mask(shape)} is a log. Name its columns, user= and item=")
    return Profile.of_log(
        shape, user=spec.user, item=spec.item, public=spec.public, **file_options(spec)
    )


def exponent_of(spec: PlanSpec) -> float:
    """Exponent of Zipf's law in `shape=`; 0 for uniform."""
    kind, _, exponent = str(spec.shape).partition(":")
    if kind == "uniform":
        if exponent:
            raise InvalidRequest("shape=uniform takes nothing after a colon")
        return 0.0
    with suppress(ValueError):
        if 0 <= (value := float(exponent)) < math.inf:
            return value
    rule = "after zipf: comes the exponent, a number >= 0, zipf:1.1 for example"
    raise InvalidRequest(f"shape={spec.shape!r} is refused: {rule}")


def file_options(spec: PlanSpec) -> dict[str, Any]:
    """Stated options for reading the file of `shape=`."""
    fields = FileFields.model_fields.items()
    return {
        name: getattr(spec, name) for name, field in fields if getattr(spec, name) != field.default
    }


# -- the budget that a recall takes ----------------------------------------------------------------


_SEARCHED = 20  # simulated releases of each plan of a search
_STEPS = 12  # bisections, to about a fiftieth


def enough(
    spec: PlanSpec,
    profile: Profile | None = None,
    *,
    budget: acc.Budget | None = None,
    sensitivity: Sensitivity | None = None,
) -> PlanSpec:
    """A copy with the least epsilon that reaches `recall=` or, given a budget, the fewest users.

    Args:
        budget, sensitivity: as for `plan`.

    Raises:
        InvalidRequest: both are stated, the profile is not one that has a number of users to find,
            or nothing is enough.
    """
    budgeted = budget is not None or spec.epsilon is not None or spec.rho is not None
    if budgeted and spec.users is not None:
        raise InvalidRequest(
            "recall= says how large epsilon=, or users=, has to be. Leave one of them out"
        )
    if budgeted and (profile is not None or spec.kind_of_shape not in ("zipf", "uniform")):
        raise InvalidRequest(
            "recall= finds users for shape=zipf:EXPONENT or shape=uniform. Leave epsilon= out for"
            " any other"
        )
    recall = spec.recall or 0.0
    if not 0 < recall < 1:
        raise InvalidRequest(
            f"recall={recall!r} must be a share between 0 and 1: 0.9 for nine of ten true items"
        )
    name, low, high = ("users", 10.0, 1e9) if budgeted else ("epsilon", 1e-3, 1e2)
    fixed = profile if profile is not None or budgeted else profile_of(spec)

    def forecast(amount: float) -> float:
        tried_on = spec.model_copy(
            update={name: round(amount) if budgeted else amount, "compare": None}
        )
        total = tried_on.budget if budget is None else budget
        plan = _releases(tried_on, fixed or profile_of(tried_on), total, sensitivity, _SEARCHED)
        return plan.recommended.expected.recall

    def recall_at(amount: float) -> float:
        with suppress(InvalidRequest, CalibrationError):  # nothing is found for so little
            return forecast(amount)
        return 0.0

    if (reached := forecast(high)) < recall:  # what is refused for so much is refused for any
        outcome = f"{high:,.6g} finds {share(reached) if reached else 'nothing'}"
        raise InvalidRequest(
            f"recall={recall:g} is out of reach: {outcome}. Ask for less, or for fewer items"
        )
    for _ in range(_STEPS):
        middle = float(f"{math.sqrt(low * high):.3g}")
        if not low < middle < high or high < 1.03 * low:
            break
        low, high = (low, middle) if recall_at(middle) >= recall else (middle, high)
    return spec.model_copy(update={name: round(high) if budgeted else high})
