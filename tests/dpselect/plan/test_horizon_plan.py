"""`plan` with `periods=`: it recommends what `continual run` runs, and what it says is what that
finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.app.continual import state as states
from dpselect.app.continual.horizon import close
from dpselect.app.release.series import horizon_mechanism
from dpselect.cells import cell
from dpselect.errors import InvalidRequest
from dpselect.plan import Groups, HorizonPlan, Profile
from dpselect.plan.forecast import MadeUpUsers, top_of
from dpselect.sampling import sampler

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
SHAPE = Profile.of_counts(
    Profile.zipf(0.8, 100, 6000, items_per_user=4).dense(), public=True, items_per_user=4
)
KINDS: Any = {"user": "int", "item": "int"}
TEXT: Any = KINDS | {"item": "str"}


def plan(**asked: Any) -> HorizonPlan:
    found = dps.plan(BUDGET, 10, profile=SHAPE, **asked)
    assert isinstance(found, HorizonPlan)
    return found


def found(mechanism: dps.ContinualTopK, made: MadeUpUsers, *, known: bool) -> float:
    """The recall of a real series over made-up users, on average over periods (and groups)."""
    rng, shares = np.random.default_rng(5), []
    when = rng.integers(1, mechanism.periods + 1, len(made.users))
    groups, items = np.divmod(made.cells, made.size)
    catalog: Any = None
    if known:
        cells = [cell(group, item) for group in range(made.groups) for item in range(made.size)]
        catalog = cells if mechanism.grouped else list(range(made.size))
    state, source = states.State.in_memory(mechanism, catalog), sampler(np.random.default_rng(1))
    for at in range(1, mechanism.periods + 1):
        new = when == at
        named = (
            [cell(*one) for one in zip(groups[new], items[new], strict=True)]
            if mechanism.grouped
            else items[new]
        )
        state._connection.register("events", pd.DataFrame({"u": made.users[new], "i": named}))
        chosen = close(
            state, at, states.Events("events", TEXT if mechanism.grouped else KINDS), source
        )
        since = {"period": at, "running": 1, "window": at - (mechanism.window or 1) + 1}[
            mechanism.count
        ]
        counted = made.cells[(when >= since) & (when <= at)]
        counts = np.bincount(counted, minlength=made.size * made.groups).astype(np.float64)
        right = top_of(counts, made.size, mechanism.k)
        places = zip(chosen.groups or [0] * len(chosen), chosen.labels or (), strict=True)
        shown = np.array(
            [int(group) * made.size + int(item) for group, item in places], dtype=np.int64
        )
        hits = np.bincount(shown[right[shown]] // made.size, minlength=made.groups)
        wanted = np.minimum(right.reshape(made.groups, -1).sum(axis=1), mechanism.k)
        shares.append(np.mean(np.minimum(hits, wanted)[wanted > 0] / wanted[wanted > 0]))
    return float(np.mean(shares))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "groups"),
    [
        ({}, None),
        ({"count": "running", "unknown_domain": True}, None),
        ({"count": "window", "window": 3}, None),
        ({"with_counts": True, "groups": 3, "groups_per_user": 2.0}, Groups(count=3, per_user=2.0)),
    ],
    ids=str,
)
def test_planned_horizon_recall_matches_a_real_series(
    asked: dict[str, Any], groups: Groups | None
) -> None:
    """Within .08 of the mean of one real series, whose noise is about .02, over users that are made
    up anew.
    """
    planned = plan(periods=5, **asked)
    made = MadeUpUsers.from_profile(SHAPE, np.random.default_rng(11), groups)
    assert found(planned.mechanism, made, known="unknown_domain" not in asked) == pytest.approx(
        planned.expected.recall, abs=0.08
    )
    assert 0.1 < planned.expected.recall < 0.99


@pytest.mark.parametrize("unknown", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_a_plan_recommends_what_continual_run_runs(unknown: bool, grouped: bool) -> None:
    """The mechanism with its noise, thresholds, clip and counts; together it costs the budget."""
    asked: dict[str, Any] = {
        "count": "window",
        "window": 2,
        "exponent": 1.0,
        "cells": 9,
        "with_counts": True,
    }
    planned = plan(
        periods=4,
        unknown_domain=unknown,
        items_per_period=2,
        **asked,
        **({"groups": 3} if grouped else {}),
    )
    same = horizon_mechanism(
        BUDGET,
        domain=None if unknown else range(100),
        groups=range(3) if grouped else None,
        with_counts=True,
        users=dps.mechanisms.HorizonClip(exponent=1.0, cells=9),
        items_per_period=2,
        k=10,
        periods=4,
        count="window",
        window=2,
        relation="add_remove",
        grouped=grouped,
    )
    assert planned.mechanism == same
    assert BUDGET.admits(planned.mechanism.curve)
    assert len(planned.by_period) == 4
    assert np.mean(planned.by_period) == pytest.approx(planned.expected.recall)


@pytest.mark.parametrize("periods", [None, 2])
def test_a_plan_is_for_the_relation_of_the_dataset(periods: Any, tmp_path: Path) -> None:
    """A release of a series or of one question would be refused by the ledger."""
    asked: dict[str, Any] = {"profile": SHAPE, "periods": periods, "dataset": "shop"}
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'p.db'}") as ledger:
        ledger.create_dataset("shop", BUDGET, "replace_one")
        with pytest.raises(acc.RelationMismatch, match="cannot be combined"):
            dps.plan(BUDGET, 3, **asked, ledger=ledger)
        planned = dps.plan(BUDGET, 3, **asked, ledger=ledger, relation="replace_one")
    assert planned.payer == "dataset 'shop' is charged"


def test_infeasible_horizon_simulations_are_refused() -> None:
    """More items than the profile has, and more counts than memory holds."""
    with pytest.raises(InvalidRequest, match="k=101 items cannot come out"):
        dps.plan(BUDGET, 101, profile=SHAPE, periods=3)
    with pytest.raises(InvalidRequest, match="items=100,000 in 1,000 periods are too many"):
        dps.plan(BUDGET, 3, shape="zipf:1", items=100_000, users=1000, periods=1000)


@pytest.mark.parametrize(("epsilon", "covers"), [(2.0, True), (0.5, False)])
def test_a_plan_says_whether_the_ledger_covers_the_series(
    epsilon: float, covers: bool, tmp_path: Path
) -> None:
    """The dataset's whole budget pays once for all periods, or not at all."""
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'p.db'}") as ledger:
        ledger.create_dataset("shop", acc.Budget(epsilon=epsilon, delta=1e-5), "add_remove")
        planned = dps.plan(BUDGET, 3, profile=SHAPE, periods=2, ledger=ledger, dataset="shop")
    said = str(planned)
    assert "dataset 'shop' is charged" in said
    assert ("does not cover the series" in " ".join(said.split())) != covers
