"""Plans for groups: what a release of every group costs, and what it finds on average over the
groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import TopOfGroups
from dpselect.plan import Groups, Profile
from dpselect.plan.forecast import MadeUpUsers, top_of

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
SHAPE = Profile.zipf(1.0, items=12, users=1_500)
THREE: dict[str, Any] = {
    "profile": SHAPE,
    "groups": 30,
    "max_groups_per_user": 3,
    "group_exponent": 0.0,
}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_counts_in_groups_take_a_fifth(relation: Any) -> None:
    """Of all groups that a user, or the two of a replacement, is in: what a release costs beyond
    its selection.
    """
    plan = dps.plan(
        acc.Budget(rho=0.05),
        3,
        **THREE,
        relation=relation,
        mechanism="canonical_top_k",
        with_counts=True,
    )
    run = plan.mechanism
    assert isinstance(run, dps.PerGroup)
    assert isinstance(run.mechanism, dps.WithValues)
    selecting = run.model_copy(update={"mechanism": run.mechanism.mechanism}).curve
    assert run.curve.rho - selecting.rho == pytest.approx(0.2 * 0.05, rel=1e-3)


@pytest.mark.parametrize(
    ("per_user", "most", "kept"),
    [(1.0, 1, 1.0), (3.0, 1, 1 / 3), (3.0, 10_000, 1.0), (2.0, 2, 0.75)],
)
def test_group_bound_keeps_the_geometric_share(per_user: float, most: int, kept: float) -> None:
    """Of geometric numbers of groups: sum of min(t, G) over sum of t."""
    assert Groups(
        count=10_000, per_user=per_user, max_groups_per_user=most
    ).kept_share == pytest.approx(kept, rel=1e-6)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_classes_of_groups_are_all_groups(exponent: float) -> None:
    """They hold all groups and all (user, group) pairs, largest first; nobody is in a group
    twice.
    """
    sizes = Groups(count=12, per_user=1.5, exponent=exponent, max_groups_per_user=2).sizes()
    assert sum(count for count, _ in sizes) == 12
    assert sum(count * share for count, share in sizes) == pytest.approx(1.5)
    assert [share for _, share in sizes] == sorted((share for _, share in sizes), reverse=True)
    assert Groups(count=1, per_user=4.0, max_groups_per_user=1).sizes() == [(1, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "listed"),
    [
        ({}, False),
        ({"max_groups_per_user": 1}, True),
        ({"max_groups_per_user": 1, "mechanism": "limited_domain"}, False),
    ],
)
def test_predicted_group_recall_matches_real_releases(bounds: dict[str, Any], listed: bool) -> None:
    """Recall of real releases by `topk` of a log that is drawn as the plan takes it to be, group by
    group: within .08.
    """
    shape = Profile.of_counts(
        Profile.zipf(0.8, 60, 4000, items_per_user=3).dense(), public=True, items_per_user=3
    )
    asked: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6, "k": 8, **bounds}
    plan = dps.plan(**asked, profile=shape, unknown_domain=not listed, groups=4)
    made = MadeUpUsers.from_profile(shape, np.random.default_rng(8), Groups(count=4))
    group, item = np.divmod(made.cells, made.size)
    log = pd.DataFrame({"user": made.users, "item": item.astype(str), "town": group.astype(str)})
    lists: dict[str, Any] = {"groups": list("0123")} | (
        {"domain": list(map(str, range(60)))} if listed else {}
    )
    right, recalls = top_of(made.counts, 60, 8), []
    for _ in range(6):
        found = dps.topk(log, user="user", item="item", group="town", **asked, **lists).to_pandas()
        at = found["town"].astype(int).to_numpy() * 60 + found["item"].astype(int).to_numpy()
        recalls.append(right[at].sum() / right.sum())
    assert np.mean(recalls) == pytest.approx(plan.recommended.expected.recall, abs=0.08)


def test_unsupported_group_plans_are_refused() -> None:
    """No selection in each group without a bound on those of a user; no fewer than one group a
    user.
    """
    with pytest.raises(InvalidRequest, match="per_user"):
        Groups(count=4, max_groups_per_user=1, per_user=0.5)
    with pytest.raises(InvalidRequest, match="max_groups_per_user= is missing"):
        dps.plan(BUDGET, 3, profile=SHAPE, unknown_domain=True, groups=4, with_counts=True)
    with pytest.raises(InvalidRequest, match="the groups have no users"):
        dps.plan(BUDGET, 3, **THREE | {"groups": 10_000}, mechanism="oneshot_top_k")


def test_the_range_of_recall_is_over_data_and_not_over_groups() -> None:
    """Large groups find more than small ones, and recall is their mean: of published counts it is
    one number, and of a guessed law the least and the greatest mean.

    Groups of few users, whose items have less than one user each, are planned too.
    """
    asked: dict[str, Any] = {"groups": 30, "max_groups_per_user": 1, "mechanism": "canonical_top_k"}
    published = Profile.of_counts([900, 500, 90, 40, 9], public=True, items_per_user=1)
    known = dps.plan(BUDGET, 2, profile=published, **asked).recommended.expected
    assert known.low == known.recall == known.high
    few = Profile.zipf(1.0, items=300, users=1000)
    guess = dps.plan(BUDGET, 5, profile=few, **asked).recommended.expected
    assert 0 <= guess.low < guess.recall < guess.high < 0.5


def test_plan_without_a_group_bound_uses_one_table() -> None:
    """It costs the budget once, whatever the groups."""
    plan = dps.plan(BUDGET, 3, profile=SHAPE, unknown_domain=True, groups=4, groups_per_user=2.0)
    assert isinstance(plan.mechanism, TopOfGroups)
    assert plan.curve == plan.mechanism.mechanism.curve
    assert "over all groups RacingTopK" in dict(next(plan.sections()).facts)["use"]


def test_group_bound_is_capped_by_the_number_of_groups() -> None:
    """A bound above the number of groups is planned and priced as the number of groups."""
    asked: dict[str, Any] = {
        "profile": SHAPE,
        "unknown_domain": True,
        "groups": 2,
        "mechanism": "limited_domain",
    }
    plans = [dps.plan(BUDGET, 3, **asked, max_groups_per_user=most) for most in (2, 10**6)]
    assert plans[0] == plans[1]
    assert plans[1].mechanism.max_groups_per_user == 2  # type: ignore[attr-defined]
