"""The default's rule: what it chooses, that it spends the budget, and that it asks nothing of a
log.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import pandas as pd
import pytest
from spread import covering

import accounting as acc
import dpselect as dps
from dpselect.cells import ANY_GROUPS
from dpselect.plan import TopKRequest
from dpselect.plan.default import Choice, Grouping, default_choice

APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)
PURE = acc.Budget(epsilon=1.0)
SUMS = acc.Budget(epsilon=1.0, delta=1e-6, order="inf")


@pytest.mark.fast(4)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("candidates", [None, 5000])
@pytest.mark.parametrize("groups", [None, Grouping(ANY_GROUPS, 4, tabled=True)])
@pytest.mark.parametrize("k", [1, 15, 16, 100])
def test_the_default_is_a_race_or_gumbel_noise_for_few_listed_items(
    relation: Any, candidates: int | None, groups: Grouping | None, k: int
) -> None:
    """The rule reads what is public alone, spends the budget, and says why."""
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    asked = TopKRequest(k=k, candidates=candidates, sensitivity=dps.Sensitivity.of_counts(relation))
    chosen = default_choice(budget, asked, groups=groups)
    race: Any = chosen.mechanism.mechanism if groups is not None else chosen.mechanism  # type: ignore[attr-defined]
    if candidates is not None and groups is None and relation == "add_remove" and k <= 15:
        assert race.kind == "oneshot_top_k"
        assert (race.noise, chosen.clip) == ("gumbel", None)
    else:
        assert race.kind == "racing_top_k"
        assert (race.k, race.cells, chosen.cells) == (k, bool(groups), bool(groups))
        assert (chosen.clip, chosen.max_items_per_user) == (1.0, None if candidates else 300)
        assert (race.delta is None) == (candidates is not None)
        assert race.relation == relation
    assert chosen.why
    assert 0.99 * budget.limit <= budget.cost(chosen.mechanism.curve, thorough=True) <= budget.limit
    if groups is None:
        counted: Any = default_choice(
            budget, asked.model_copy(update={"counts": 0.1, "recounted": True})
        )
        assert (counted.mechanism.mechanism.kind, counted.why) == (race.kind, chosen.why)
        assert (
            0.99 * budget.limit
            <= budget.cost(counted.mechanism.curve, thorough=True)
            <= budget.limit
        )


@pytest.mark.parametrize(
    ("budget", "about", "arguments", "kind"),
    [
        (PURE, {"candidates": 5000, "k": 30}, {}, "peeling_top_k"),
        (PURE, {"candidates": 5000, "k": 31}, {}, "oneshot_top_k"),
        (PURE, {"candidates": 40, "k": 40}, {}, "peeling_top_k"),
        (PURE, {"candidates": 40, "k": 40}, {"max_items_per_user": 2}, "peeling_top_k"),
        (PURE, {"candidates": 5000}, {"max_items_per_user": 9}, "oneshot_top_k"),
        (PURE, {"candidates": 5000}, {"max_items_per_user": 10}, "peeling_top_k"),
        (SUMS, {"k": 30}, {"whole": SUMS}, "limited_domain"),
        (SUMS, {"k": 31}, {"whole": SUMS}, "sparse_histogram"),
        (APPROXIMATE, {"candidates": 5000, "noise": "gumbel", "k": 40}, {}, "oneshot_top_k"),
        (APPROXIMATE, {"candidates": 5000, "noise": "exponential"}, {}, "peeling_top_k"),
        (APPROXIMATE, {"noise": "laplace"}, {}, "sparse_histogram"),
        (PURE, {"candidates": 5000, "k": 2}, {"max_items_per_user": 2}, "peeling_top_k"),
        (APPROXIMATE, {}, {"max_items_per_user": 1}, "sparse_histogram"),
        (APPROXIMATE, {}, {"max_items_per_user": 2}, "sparse_histogram"),
        (APPROXIMATE, {"candidates": 5000}, {"max_items_per_user": 1}, "oneshot_top_k"),
        (APPROXIMATE, {}, {"clip": 2.0, "max_items_per_user": 50}, "sparse_histogram"),
        (APPROXIMATE, {"min_users": 20}, {}, "sparse_histogram"),
        (APPROXIMATE, {"kbar": 20}, {}, "limited_domain"),
        (APPROXIMATE, {"candidates": 5000, "noise": "gaussian"}, {}, "racing_top_k"),
        (APPROXIMATE, {}, {"max_items_per_user": 3}, "racing_top_k"),
        (acc.Budget(rho=0.1), {"candidates": 5000, "k": 20}, {}, "racing_top_k"),
    ],
)
def test_default_avoids_racing_when_it_does_not_apply(
    budget: acc.Budget, about: Any, arguments: Any, kind: str
) -> None:
    """Pure budgets, hardly any items a user, stated clips and noise, and a least number of
    users.
    """
    counted = dps.Sensitivity.of_counts(items_per_user=arguments.get("max_items_per_user"))
    chosen: Any = default_choice(
        budget, TopKRequest(**{"k": 10, "sensitivity": counted} | about), **arguments
    )
    assert chosen.mechanism.kind == kind
    assert 0.99 * budget.limit <= budget.cost(chosen.mechanism.curve, thorough=True) <= budget.limit


GRID = [
    (budget, relation, listed, k, limit, about, groups)
    for budget, relation, listed, k, limit, about, groups in itertools.product(
        (PURE, APPROXIMATE, SUMS, acc.Budget(rho=0.1, delta=1e-6)),
        ("add_remove", "replace_one"),
        (False, True),
        (1, 10, 40),
        (None, 2, 50),
        ({}, {"min_users": 20}, {"releases": 5}, {"counts": 0.1, "recounted": True}),
        (None, Grouping(2, 9), Grouping(3, 9, tabled=True), Grouping(ANY_GROUPS, 9, tabled=True)),
    )
    # what hides an item needs a delta
    if budget is not PURE or (listed and "min_users" not in about)
    if groups is None or "recounted" not in about
    if groups is None or groups.most < ANY_GROUPS or (limit is None and budget not in (PURE, SUMS))
]


@pytest.mark.fast(12)
@pytest.mark.parametrize(
    ("budget", "relation", "listed", "k", "limit", "about", "groups"), covering(GRID), ids=str
)
def test_the_rule_spends_the_budget_of_every_question(
    budget: acc.Budget,
    relation: Any,
    *,
    listed: bool,
    k: int,
    limit: int | None,
    about: dict[str, Any],
    groups: Grouping | None,
) -> None:
    """It chooses for every question, fits its budget, spends it, and says why in one sentence."""
    asked = TopKRequest(
        k=k,
        candidates=500 if listed else None,
        sensitivity=dps.Sensitivity.of_counts(relation, limit),
        **about,
    )
    chosen = default_choice(budget, asked, max_items_per_user=limit, groups=groups, whole=budget)
    curve = chosen.mechanism.curve
    assert budget.admits(curve)
    assert budget.how_many(curve) == asked.releases
    assert (chosen.mechanism.relation, chosen.mechanism.ordered) == (relation, True)
    assert chosen.why
    assert not chosen.why.endswith(".")


def test_the_rule_asks_nothing_of_a_log() -> None:
    """The choice is made of values that are public: none of its arguments holds rows, and whatever
    the log, it is the same.
    """
    assert set(inspect.signature(default_choice).parameters) == {
        *("budget", "request", "max_items_per_user", "clip", "norm", "groups", "whole", "held")
    }
    asked: Any = {"user": "u", "item": "i", "k": 2, "epsilon": 1.0, "delta": 1e-6}
    logs = [
        {"u": [1, 2], "i": ["a", "b"]},
        {"u": list(range(4000)) * 2, "i": ["a"] * 4000 + ["c"] * 4000},
    ]
    found: list[Choice] = [dps.topk(log, **asked).choice for log in map(pd.DataFrame, logs)]
    assert found[0] == found[1] == default_choice(APPROXIMATE, TopKRequest(k=2))
