"""What is learnt of the users of a group, and how a release of groups is chosen by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.plan.candidates import Grouping
from dpselect.plan.learn import Informed, Learning
from dpselect.plan.profile import Profile
from dpselect.plan.request import TopKRequest

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(("groups", "listed", "users"), [(1, 4, 2000.0), (3, 4, 4000.0), (3, None, 1600.0)])
def test_the_users_of_a_group_are_learnt(groups: int, listed: int | None, users: float) -> None:
    """8,000 users with 20 items in each of one or two groups: how many a group has on average, and their items."""
    learning = Learning(epsilon=1.0, groups=groups, listed=listed)
    each = np.full(8000, 20.0)
    many = np.where(np.arange(8000) % 2, 1.0, 2.0 if groups == 1 else 3.0)
    found = learning.learn(each, Profile.typical(in_a_group=True), groups=many, rng=np.random.default_rng(1))
    # Two or three groups are one cell, taken to be two and a half; with no list ten groups are assumed.
    expected = users if groups == 1 else 8000 * (1 + 2.5) / 2 / (listed or 10)
    assert found.users == pytest.approx(expected, rel=0.05)
    assert found.quantiles is not None
    assert 12 <= found.quantiles[2] <= 32


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("groups", [None, 1, 3, 40])
def test_one_user_moves_as_many_cells_as_are_paid_for(relation: acc.arguments.Relation, groups: int | None) -> None:
    """A user more is in one cell, whatever they touch; one replaced leaves one and joins another."""
    learning = Learning(epsilon=0.5, relation=relation, groups=groups, listed=groups and 50)
    moved = 1 if relation == "add_remove" else 2
    assert learning.histogram.covers.l0 == min(moved, learning.cells)
    scale: Any = learning.histogram.scale
    assert learning.curve.pure_epsilon == pytest.approx(min(moved, learning.cells) / scale, rel=1e-9)
    items, many = np.array([1.0, 3.0, 3.5, 900.0, 1e6]), np.array([1.0, 2.0, 3.0, 9.0, 1e3])
    for user in range(5):  # the heaviest of all included
        less = learning._counts(np.delete(items, user), np.delete(many, user))
        assert sorted(learning._counts(items, many) - less)[-2:] == [0, 1][-min(2, learning.cells) :]


@pytest.mark.slow
def test_a_release_of_groups_is_chosen_by_what_was_learnt() -> None:
    """Among candidates whose joint price with learning the budget covers: few items a user, many users and few differ."""
    informed = Informed.of(BUDGET, TopKRequest(k=10), groups=Grouping(2, 4))
    assert informed is not None
    assert BUDGET.admits(informed.item.curve)
    chosen = [
        informed.chosen(Profile.of_quantiles(users, quantiles)).mechanism
        for users, quantiles in ((20_000.0, (20.0, 30.0, 60.0, 100.0, 200.0)), (20_000.0, (1.0, 1.0, 1.0, 1.0, 2.0)))
    ]
    assert all(isinstance(one, dps.PerGroup) and one.max_groups_per_user == 2 for one in chosen)
    assert chosen[0] != chosen[1]
    covered = acc.curves.ChosenAfter(first=informed.item.learning.curve, options=informed.candidates.curves)
    assert covered == informed.item.curve


@pytest.mark.slow
def test_topk_learns_with_groups() -> None:
    """Nothing declared: users of both groups and their items are learnt first, and the answer says what it was chosen for."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(3000), 8)
    log = pd.DataFrame({"u": who, "i": rng.integers(0, 40, len(who)) ** 2 // 40, "g": np.where(who % 2, "a", "b")})
    asked: dict[str, Any] = {"user": "u", "item": "i", "group": "g", "groups": ["a", "b"], "max_groups_per_user": 1, "k": 3}
    answer = dps.topk(log, **asked, epsilon=2.0, delta=1e-6)
    assert answer.learnt is not None
    assert (answer.learnt.learning.groups, answer.learnt.learning.listed) == (1, 2)
    assert answer.choice.profile is not None
    assert answer.choice.profile.users == pytest.approx(1500, rel=0.2)
    assert len(answer.items) == 6
