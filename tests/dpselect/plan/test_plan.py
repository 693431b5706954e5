"""`dpselect.plan`: it recommends what a release runs, at the noise that spends the budget, and
forecasts what that finds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.app.release.question import Question, choose
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest
from dpselect.pate.plan import VotesModel, VotingPlan, plan_votes
from dpselect.plan import HorizonPlan, Profile, TopKPlan

BUDGET = acc.Budget(epsilon=1, delta=1e-6)
SHAPE = Profile.zipf(1.1, 200, 20_000, items_per_user=4)
GROUPS = ["north", "south", "west"]
LOG = pd.DataFrame({"user": ["a"], "item": ["0"], "group": ["north"]})


@pytest.mark.parametrize(
    ("budget", "asked", "listed"),
    [
        (BUDGET, {"k": 5}, True),
        (BUDGET, {"k": 40, "releases": 7}, False),
        (BUDGET, {"k": "all"}, False),
        (BUDGET, {"k": "all"}, True),
        (BUDGET, {"k": 20, "with_counts": True, "releases": 3}, True),
        (BUDGET, {"k": 20, "relation": "replace_one"}, True),
        (BUDGET, {"k": 20, "max_items_per_user": 2}, False),
        (BUDGET, {"k": 20, "min_users": 30}, False),
        (BUDGET, {"k": 20, "noise": "laplace", "max_items_per_user": 5}, False),
        (BUDGET, {"k": 20, "mechanism": "limited_domain"}, False),
        (BUDGET, {"k": 5, "mechanism": "canonical_top_k"}, True),
        (acc.Budget(epsilon=1), {"k": 40}, True),
        (acc.Budget(rho=0.1, delta=1e-6), {"k": 10}, False),
        (BUDGET, {"k": 5, "groups": 3}, False),
        (BUDGET, {"k": 5, "groups": 3, "max_groups_per_user": 2, "with_counts": True}, True),
        (
            BUDGET,
            {"k": 5, "groups": 3, "max_groups_per_user": 1, "mechanism": "limited_domain"},
            False,
        ),
    ],
    ids=str,
)
def test_a_plan_recommends_what_topk_runs(
    budget: acc.Budget, asked: dict[str, Any], listed: bool
) -> None:
    """The mechanism, with its noise, and how users are bounded: what `topk` chooses for the same
    question on any log.
    """
    found = dps.plan(budget, profile=SHAPE, unknown_domain=not listed, **asked)
    money = {"epsilon": budget.epsilon, "delta": budget.delta or None, "rho": budget.rho}
    grouped = {"group": "group", "groups": GROUPS} if asked.pop("groups", None) else {}
    domain = {"domain": list(map(str, range(200)))} if listed else {}
    spec = TopKSpec(user="user", item="item", **asked, **money, **grouped, **domain)
    run = choose(Question.from_spec(LOG, spec))
    assert found.mechanism == run.mechanism
    bounds = (run.max_items_per_user, run.clip, run.why)
    assert (
        found.recommended.max_items_per_user,
        found.recommended.clip,
        found.recommended.why,
    ) == bounds


def test_a_ledger_that_pays_decides_as_for_a_release(tmp_path: Path) -> None:
    """A dataset that adds epsilons pays for no Gaussian noise, so the plan has none either."""
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'p.db'}") as ledger:
        ledger.create_dataset("d", acc.Budget(epsilon=5, delta=1e-5, order="inf"), "add_remove")
        paid = dps.plan(BUDGET, 20, profile=SHAPE, unknown_domain=True, ledger=ledger, dataset="d")
        few = dps.plan(
            acc.Budget(epsilon=20, delta=1e-5),
            20,
            9,
            profile=SHAPE,
            unknown_domain=True,
            ledger=ledger,
            dataset="d",
        )
    assert paid.recommended.name == "limited_domain"
    assert re.search(r"covers \d such releases, and not 9", few.payer)
    assert (
        dps.plan(BUDGET, 20, profile=SHAPE, unknown_domain=True).recommended.name == "racing_top_k"
    )


def test_other_kinds_are_compared_where_they_are_named() -> None:
    """Each is what `topk` runs under that name; a kind that the default is already stands once, and
    the best comes first.
    """
    kinds = ["limited_domain", "racing_top_k", "top_stable"]
    found = dps.plan(
        BUDGET,
        20,
        profile=SHAPE,
        unknown_domain=True,
        compare=[*kinds, "RacingTopK", "LimitedDomain"],
    )
    assert {one.name for one in found.ranked} == set(kinds)
    assert len(found.compared) == 2
    recalls = [one.expected.recall for one in found.ranked]
    assert recalls == sorted(recalls, reverse=True)
    alone = dps.plan(BUDGET, 20, profile=SHAPE, unknown_domain=True, mechanism="limited_domain")
    assert found.find("limited_domain") == alone.recommended
    with pytest.raises(InvalidRequest, match=r"'magic' is not planned\. Choose one of"):
        found.find("magic")


def test_a_plan_reads_back() -> None:
    """from_json(to_json) is equal, with groups and counts too; text that is no plan is refused."""
    asked: dict[str, Any] = {"groups": 3, "max_groups_per_user": 1, "with_counts": True}
    found = dps.plan(BUDGET, 5, profile=SHAPE, **asked, mechanism="canonical_top_k")
    assert TopKPlan.from_json(found.to_json()) == found
    facts = dict(next(found.sections()).facts)
    assert ("users" in facts["counts"], "in every group" in facts["use"]) == (True, True)
    for text in ("{", "{}"):
        with pytest.raises(InvalidRequest):
            TopKPlan.from_json(text)


def test_plan_depends_on_the_seed_alone() -> None:
    """The same seed gives the same plan, another seed the same mechanism and other draws."""
    first, again, other = (
        dps.plan(BUDGET, 90, profile=SHAPE, mechanism="oneshot_top_k", seed=seed)
        for seed in (4, 4, 5)
    )
    assert first == again
    assert first.mechanism == other.mechanism
    assert first.recommended.expected != other.recommended.expected


def test_all_items_cost_nothing() -> None:
    """The set of all candidates tells nothing: no price, recall 1."""
    shape = Profile.of_counts([9, 5, 2], public=True, items_per_user=1)
    found = dps.plan(
        BUDGET, 3, profile=shape, mechanism="oneshot_top_k", noise="laplace", max_items_per_user=3
    )
    assert (found.recommended.cost, found.recommended.expected.recall) == (0.0, 1.0)


def test_scores_of_another_kind_are_planned_by_their_sensitivity() -> None:
    """Twenty times the sensitivity takes twenty times the noise."""
    narrow, wide = (dps.Sensitivity(linf=linf) for linf in (1.0, 20.0))
    asked: dict[str, Any] = {"k": 5, "shape": "zipf:1", "items": 300, "users": 20_000}
    scales = [
        dps.plan(epsilon=1.0, delta=1e-6, **asked, sensitivity=one).mechanism.scale  # type: ignore[attr-defined]
        for one in (narrow, wide)
    ]
    assert scales[1] == pytest.approx(20 * scales[0], rel=1e-6)


def test_a_recall_is_searched_for_on_a_public_log(tmp_path: Path) -> None:
    """The file is read as it is stated: its items are those of the plan."""
    (tmp_path / "log.csv").write_text(
        "u;i\n" + "".join(f"{user};{round(user**0.5)}\n" for user in range(400))
    )
    log: dict[str, Any] = {
        "shape": str(tmp_path / "log.csv"),
        "user": "u",
        "item": "i",
        "delimiter": ";",
        "public": True,
    }
    found = dps.plan(recall=0.5, k=2, **log)
    assert found.items == 21
    assert 0.4 < found.recommended.expected.recall < 0.65


def test_plan_keywords_choose_release_series_or_labeling() -> None:
    """A series and a labeling job are asked for as by the command, and are what their rooms
    plan.
    """
    made_up: dict[str, Any] = {
        "k": 3,
        "shape": "zipf:1",
        "items": 30,
        "users": 500,
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    assert dps.plan(**made_up) == dps.plan(
        BUDGET, 3, profile=Profile.zipf(1.0, items=30, users=500)
    )
    of_periods = dps.plan(**made_up, periods=2)
    assert isinstance(of_periods, HorizonPlan)
    assert (
        dps.plan(BUDGET, 3, profile=Profile.zipf(1.0, items=30, users=500), periods=2) == of_periods
    )
    votes: dict[str, Any] = {"teachers": 40, "labels": 6, "votes_per_item": 1.0, "agreement": 0.9}
    found = dps.plan(epsilon=1.0, delta=1e-6, pate=True, releases=20, **votes)
    assert isinstance(found, VotingPlan)
    assert found.recommended == plan_votes(VotesModel(**votes), BUDGET, rounds=20).recommended


FEW = Profile.of_counts([5.0] * 4 + [0.0] * 196, public=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 10, "releases": 0}, "releases=0"),
        ({"k": 201}, "k=201.*200"),
        ({"k": 190, "unknown_domain": True, "profile": FEW}, "a profile with 4 items"),
        ({"k": 20, "profile": FEW}, "items_per_user="),
        ({}, "no size is stated. Give k="),
        ({"k": 5, "unknown_domain": "private"}, "unknown_domain='private'"),
        ({"k": 5, "seed": -1}, "seed=-1"),
        ({"k": 5, "mechanism": "large_gap"}, "not which"),
        ({"k": 5, "compare": ["magic"]}, "magic"),
        ({"k": 5, "mechanism": "permute_and_flip"}, "k=1"),
        (
            {"k": 5, "sensitivity": dps.Sensitivity(), "max_items_per_user": 3},
            "Leave max_items_per_user= out",
        ),
        (
            {
                "k": 5,
                "sensitivity": dps.Sensitivity(),
                "mechanism": dps.PermuteAndFlip(epsilon=1.0),
            },
            "Name its kind",
        ),
        ({"k": 5, "epsilon": 1.0}, "budget= says what epsilon= says"),
        ({"k": 5, "users": 30}, "profile= says what users= says"),
        ({"k": 5, "max_items_per_user": True}, "max_items_per_user=True"),
        ({"k": 5, "sensitivity": 3}, "must be a dpselect.Sensitivity, not int"),
        ({"budget": acc.Budget(epsilon=1), "k": 5, "unknown_domain": True}, "delta= is missing"),
        ({"budget": 1.0, "k": 5}, "budget must be"),
        ({"k": 5, "profile": np.array([3.0, 2.0])}, "private data leaks"),
        ({"k": 5, "groups_per_user": 2.0}, "a plan for groups needs groups="),
        (
            {"k": 5, "group_users": {"a": 9}, "groups_per_user": 2.0},
            "group_users= says what groups_per_user= says",
        ),
        (
            {"k": 5, "group_users": {"a": 9}, "sensitivity": dps.Sensitivity()},
            "Leave group_users= out",
        ),
        ({"k": 5, "periods": 3, "releases": 2}, "releases= does not go with periods="),
        ({"k": 5, "periods": 3, "items_per_period": 2}, "items_per_period= says"),
        (
            {"k": 5, "periods": 3, "budget": acc.Budget(advantage=0.1)},
            "a series needs epsilon= and delta=",
        ),
        (
            {"k": 5, "budget": acc.Budget(advantage=0.1), "unknown_domain": True},
            "a budget by advantage or by attack rates does not cover",
        ),
        ({"k": 5, "min_users": 9, "budget": acc.Budget(epsilon=1)}, "min_users=9 needs a delta"),
        ({"k": 5, "recall": 0.9, "unknown_domain": True, "budget": None}, "delta= is missing"),
        ({"k": 5, "recall": 0.9}, "recall= finds users for"),
        ({"k": 5, "delimiter": ";"}, "profile= says what delimiter= says"),
        (
            {"k": 5, "profile": None, "shape": "zipf:1", "items": 9, "users": 99, "public": True},
            "public= does not go with a made-up",
        ),
        (
            {"k": 5, "ledger": 5, "dataset": "d"},
            "the ledger's address cannot be read",
        ),
        ({"k": 5, "groups": 10**6 + 1}, "groups=1,000,001 are more than"),
        ({"k": 5, "groups": 10**5, "unknown_domain": True}, "too many cells to simulate"),
        (
            {"k": 5, "profile": Profile.of_counts([0.0] * 9, public=True)},
            "no item of the profile has a user",
        ),
        (
            {"k": 5, "sensitivity": dps.Sensitivity(), "ledger": "sqlite:///x.db", "dataset": "d"},
            "Leave ledger= out",
        ),
        ({"k": 5, "window": 3}, "window= belongs to plan with periods="),
    ],
)
def test_invalid_plan_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    """The error names the argument, its value and the remedy."""
    with pytest.raises((InvalidRequest, acc.ledger.InvalidEntry), match=words):
        dps.plan(**{"budget": BUDGET, "profile": SHAPE, **arguments})  # type: ignore[call-overload]
