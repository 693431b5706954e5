"""Plans for `PerGroup`: what a release of every group costs, and what it finds on average over the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import TopOfGroups
from dpselect.plan import Groups, Profile, TopKPlan

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
SHAPE = Profile.zipf(1.0, items=12, users=1_500)


def planned(groups: Groups, kind: str = "sparse_histogram", **asked: object) -> TopKPlan:
    """A plan of one kind for the top 3 of groups."""
    named: dict[str, Any] = {"profile": SHAPE, "unknown_domain": True, "mechanisms": [kind], "rounds": 100, **asked}
    return dps.plan(BUDGET, 3, **stated(groups), **named)


def stated(groups: Groups) -> dict[str, Any]:
    """The groups as a plan is asked for them."""
    return {
        "groups": groups.count,
        "max_groups_per_user": groups.max_groups_per_user,
        "groups_per_user": groups.per_user,
        "group_exponent": groups.exponent,
    }


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_all_groups_of_a_user_spend_the_budget(relation: str) -> None:
    """The mechanism is for every group; its price, that of G groups (Theorems W2, W8), is the budget, and the plan reads back."""
    plan = planned(Groups(count=30, max_groups_per_user=3, exponent=0.0), relation=relation)
    chosen = plan.named("sparse_histogram")
    run = chosen.mechanisms[0]
    assert isinstance(run, dps.PerGroup)
    assert run.max_groups_per_user == 3
    each = run.mechanism.curve if relation == "add_remove" else run.mechanism.shared_group_curve
    assert each is not None
    assert run.curve == 3 * each
    assert 0.99 * BUDGET.limit <= BUDGET.cost(plan.curve(chosen)) <= BUDGET.limit
    assert TopKPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_counts_in_groups_take_the_share_that_the_plan_states(relation: str) -> None:
    """Of all groups that a user, or the two of a replacement, is in: what a release costs beyond its selection."""
    groups, budget = Groups(count=30, max_groups_per_user=3, exponent=0.0), acc.Budget(rho=0.05)
    asked: dict[str, Any] = {"mechanisms": ["oneshot_top_k"], "rounds": 100, "with_counts": True, "relation": relation}
    plan = dps.plan(budget, 3, profile=SHAPE, **stated(groups), **asked)
    run = plan.mechanism
    assert isinstance(run, dps.PerGroup)
    assert isinstance(run.mechanism, dps.WithValues)
    assert plan.counts is not None
    selecting = run.model_copy(update={"mechanism": run.mechanism.mechanism}).curve
    assert run.curve.rho - selecting.rho == pytest.approx(plan.counts * 0.05, rel=1e-3)


@pytest.mark.parametrize(("per_user", "most", "kept"), [(1.0, 1, 1.0), (3.0, 1, 1 / 3), (3.0, 10_000, 1.0), (2.0, 2, 0.75)])
def test_what_a_bound_keeps(per_user: float, most: int, kept: float) -> None:
    """Of geometric numbers of groups: sum of min(t, G) over sum of t."""
    assert Groups(count=10_000, per_user=per_user, max_groups_per_user=most).kept == pytest.approx(kept, rel=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_classes_of_groups_are_all_groups(exponent: float) -> None:
    """They hold all groups and all (user, group) pairs, largest first; nobody is in a group twice."""
    sizes = Groups(count=12, per_user=1.5, exponent=exponent, max_groups_per_user=2).sizes()
    assert sum(count for count, _ in sizes) == 12
    assert sum(count * share for count, share in sizes) == pytest.approx(1.5)
    assert [share for _, share in sizes] == sorted((share for _, share in sizes), reverse=True)
    assert Groups(count=1, per_user=4.0, max_groups_per_user=1).sizes() == [(1, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1, 3])
def test_what_is_predicted_is_found(bound: int) -> None:
    """Users in three groups each, kept in some: recall of drawn logs, their bounded counts released by the planned mechanism.

    A mean over 800 draws of 12 groups, whose deviation is below .006.
    """
    groups, rng = Groups(count=12, per_user=3.0, max_groups_per_user=bound, exponent=0.5), np.random.default_rng(3)
    best = planned(groups, rounds=1000).named("sparse_histogram, gaussian")
    run = best.mechanisms[0].mechanism  # type: ignore[attr-defined]
    hits = []
    for count, share in groups.sizes():
        shape = SHAPE.in_group(share)
        counts = shape.dense()[: shape.touched]
        for _ in range(200 * count // 3):
            kept = rng.binomial(counts.astype(int), groups.kept).astype(float)
            chosen = run.select(dps.Scores(kept, sensitivity=run.covers, domain="observed"), rng=rng).indices
            hits.append(sum(counts[place] >= counts[2] for place in chosen) / 3)
    predicted = best.quality.recall.value
    assert 0.3 < predicted < 0.99
    assert np.mean(hits) == pytest.approx(predicted, abs=0.03)


def test_what_groups_cannot_do_is_said() -> None:
    """No second look; no groups too small for k alone; no groups without a bound on those of a user."""
    with pytest.raises(InvalidRequest, match="not done for groups"):
        planned(Groups(count=4, max_groups_per_user=1), "discover_then_select")
    with pytest.raises(InvalidRequest, match="for all groups"):
        planned(Groups(count=1_000_000, max_groups_per_user=1, exponent=0.0))
    with pytest.raises(InvalidRequest, match="per_user"):
        Groups(count=4, max_groups_per_user=1, per_user=0.5)
    with pytest.raises(InvalidRequest, match="limited_domain: needs max_groups_per_user="):
        dps.plan(BUDGET, 3, profile=SHAPE, unknown_domain=True, groups=4, with_counts=True, rounds=100)


MANY = Profile.zipf(0.8, items=300, users=20_000, items_per_user=20.0)
FOUR: dict[str, Any] = {"profile": MANY, "unknown_domain": True, "groups": 4, "group_exponent": 0.0, "rounds": 100}


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True])
def test_a_table_of_all_groups_is_planned_beside_a_selection_in_each(public: bool) -> None:
    """It costs the budget once, whatever the groups; without a bound on those of a user it is all that is planned."""
    asked = {**FOUR, "unknown_domain": not public, "mechanisms": ["sparse_histogram", "two_round_histogram", "oneshot_top_k"]}
    plan = dps.plan(BUDGET, 20, **asked, groups_per_user=2.0)
    names = {"oneshot_top_k", "two_round_histogram"} if public else {"sparse_histogram", "two_round_histogram"}
    assert {one.name for one in plan.ranked} <= {f"top_of_groups, {name}" for name in names}
    assert isinstance(plan.mechanism, TopOfGroups)
    assert plan.mechanism.k == 20
    assert plan.curve() == plan.mechanism.mechanism.curve
    assert 0.98 * BUDGET.limit <= BUDGET.cost(plan.curve()) <= BUDGET.limit
    assert TopKPlan.from_json(plan.to_json()) == plan
    bounded = dps.plan(BUDGET, 20, **asked, groups_per_user=2.0, max_groups_per_user=2)
    assert {type(one.mechanisms[0]) for one in bounded.ranked} == {TopOfGroups, dps.PerGroup}


def test_nobody_is_in_more_groups_than_there_are() -> None:
    """A bound above the number of groups is planned, priced and written as the number of groups."""
    asked: dict[str, Any] = {**stated(Groups(count=2)), "profile": SHAPE, "unknown_domain": True, "rounds": 100}
    plans = [dps.plan(BUDGET, 3, **{**asked, "max_groups_per_user": most}, mechanisms=["limited_domain"]) for most in (2, 10**12)]
    assert plans[0] == plans[1]
    assert plans[1].mechanism.max_groups_per_user == 2  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_selection_wins_where_users_are_in_one_group_and_few_items_are_asked_for() -> None:
    """And a table where more are: as on four cities (theory of one norm for a table)."""
    kinds = ["sparse_histogram", "two_round_histogram", "limited_domain"]
    first = {k: dps.plan(BUDGET, k, **FOUR, order=True, max_groups_per_user=1, mechanisms=kinds).recommended for k in (10, 100)}
    assert first[10].name == "limited_domain"
    assert isinstance(first[100].mechanisms[0], TopOfGroups)


@pytest.mark.slow
def test_what_is_expected_of_a_table_is_what_it_finds() -> None:
    """Cells drawn as the plan takes them to be: each user in two of four groups alike, with as many items in both."""
    plan = dps.plan(BUDGET, 20, **FOUR, groups_per_user=2.0, mechanisms=["sparse_histogram"])
    best, rng = plan.recommended, np.random.default_rng(4)
    users, items = 20_000, 300
    popular = np.arange(1, items + 1) ** -0.8
    groups = np.array([rng.permutation(4)[:2] for _ in range(users)])
    loads = rng.geometric(1 / 20.0, users)
    rows = [
        (user, group, item)
        for user in range(users)
        for group in groups[user]
        for item in np.unique(rng.choice(items, min(loads[user], 100), p=popular / popular.sum()))
    ]
    user, group, item = np.array(rows).T
    cells = group * items + item
    size = np.sqrt(np.bincount(user))[user]
    counts = np.bincount(cells, np.minimum(1.0, (best.clip or 0.0) / size), 4 * items)
    inner: Any = plan.mechanism.mechanism
    noisy = counts + inner.scale * rng.standard_normal((50, 4 * items))
    shown = np.where(noisy > inner.threshold, noisy, -np.inf).reshape(50, 4, items)
    top, truth = np.argsort(-shown, axis=2)[:, :, :20], np.bincount(cells, minlength=4 * items).reshape(4, items)
    right = truth >= np.sort(truth, axis=1)[:, -20][:, None]
    found = [(right[g][top[n, g]] & np.isfinite(shown[n, g][top[n, g]])).mean() for n in range(50) for g in range(4)]
    assert np.mean(found) == pytest.approx(best.expected, abs=0.12)
