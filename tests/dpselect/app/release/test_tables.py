"""Groups as one table: the top k of each off one selection of cells, with one norm for all that a
user has.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accounting as acc
import dpselect as dps
from dpselect.app.cli.out import plain
from dpselect.app.continual.horizon import Period
from dpselect.app.release.series import HorizonAnswer

pytestmark = pytest.mark.usefixtures("shared_database")

ASKED: dict[str, Any] = {
    "user": "u",
    "item": "i",
    "group": "g",
    "k": 3,
    "epsilon": 2.0,
    "delta": 1e-6,
}


def log() -> pd.DataFrame:
    """4,000 users, in one to three of three groups, of which item 10 g + rank is the more popular
    the lower its rank.
    """
    rng = np.random.default_rng(3)
    rows = [
        (f"u{user}", int(g), 10 * int(g) + int(item))
        for user in range(4000)
        for g in rng.choice(3, rng.integers(1, 4), replace=False)
        for item in rng.choice(6, 2, replace=False, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    ]
    return pd.DataFrame(rows, columns=["u", "g", "i"])


def declared(folder: Path, epsilon: float) -> str:
    """The address of a ledger with a dataset "log"."""
    with acc.Ledger.open(url := f"sqlite:///{folder}/p.db") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=epsilon, delta=1e-5), "add_remove")
    return url


def visits(column: str) -> pd.DataFrame:
    """900 users of the zoo, in one of two groups."""
    towns = ["Rome", "Oslo"] * 450
    return pd.DataFrame(
        {"user": range(900), "item": "zoo", column: towns, "at": "2024-07-01T10:00"}
    )


NAMED: Any = {"user": "user", "item": "item"}


@pytest.mark.slow
def test_groups_without_a_bound_are_one_table(tmp_path: Path) -> None:
    """The top of each group, under the names that the log has, at the price of one norm; the same
    again under its key.
    """
    paid = {"ledger": declared(tmp_path, 4.0), "dataset": "log", "key": "one"}
    paid["output"] = str(tmp_path / "answer.json")
    answer, again = (dps.topk(log(), **ASKED, **paid) for _ in range(2))
    assert isinstance(answer.mechanism, dps.mechanisms.TopOfGroups)
    found = {group: set(one.labels or ()) for group, one in answer.selection.by_group().items()}
    assert found == {0: {0, 1, 2}, 1: {10, 11, 12}, 2: {20, 21, 22}}
    assert answer.mechanism.curve == answer.mechanism.mechanism.curve
    budget = acc.Budget(epsilon=2.0, delta=1e-6)
    assert budget.covers(budget.cost(answer.mechanism.curve))
    text = answer.to_pandas()
    assert text.columns.tolist() == ["g", "rank", "item", "users", "low", "high"]
    assert text["g"].dtype.kind == "i"
    assert (again.selection, again.charge) == (answer.selection, answer.charge)
    assert again.choice.cells
    assert '"over": "all groups"' in (tmp_path / "answer.json").read_text()
    assert "max_groups_per_user" not in answer.question.as_data()["reading"]


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "public", [{"groups": [2, 0, 7]}, {"groups": [2, 0, 7], "domain": list(range(30))}]
)
def test_public_lists_name_what_is_released(public: dict[str, Any]) -> None:
    """Groups that are not listed take no part of a norm; of a public table every cell has noise,
    groups without users too.

    A listed group of which nothing is shown makes the answer incomplete, and it says why.
    """
    answer = dps.topk(log(), **ASKED, **public)
    assert isinstance(answer.mechanism, dps.mechanisms.TopOfGroups)
    assert (answer.selection.complete, answer.selection.reason is None) == 2 * ("domain" in public,)
    found = {group: set(one.labels or ()) for group, one in answer.selection.by_group().items()}
    assert (found[0], found[2]) == ({0, 1, 2}, {20, 21, 22})
    assert 1 not in found
    assert (7 in found) == ("domain" in public)


UNCOVERED: list[dict[str, Any]] = [
    *({"kbar": 50}, {"max_items_per_user": 3}, {"delta": None, "domain": [1, 2, 3]}),
]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        *((other, "max_groups_per_user= is missing") for other in UNCOVERED),
        ({"groups": list(range(3000)), "domain": list(range(1000))}, "make up 3,000,000 cells"),
    ],
)
def test_release_outside_one_norm_needs_a_group_bound(other: dict[str, Any], words: str) -> None:
    """It says so before anything is read; with a bound it is released, group by group."""
    with pytest.raises(dps.errors.InvalidRequest, match=words):
        dps.topk("no such log", **{**ASKED, **other})


FEW = dps.Sensitivity.of_clipped(1.0, items_per_user=300)
OF_CELLS = dps.mechanisms.TopOfGroups(
    k=3, mechanism=dps.SparseHistogram(scale=8.0, delta=1e-7, sensitivity=FEW)
)
AGAIN = dps.mechanisms.TopOfGroups(
    k=3,
    mechanism=dps.DiscoverThenSelect(
        discovery=dps.SparseHistogram(scale=9.0, delta=1e-8, sensitivity=FEW),
        selection=dps.PeelingTopK(
            k=3, noise="gumbel", scale=9.0, sensitivity=dps.Sensitivity.of_clipped(1.0)
        ),
        candidates=9,
    ),
)
EACH = dps.PerGroup(
    mechanism=dps.LimitedDomain(k=2, kbar=10, epsilon=0.2, delta=1e-8), max_groups_per_user=3
)
BOUNDS: dict[str, Any] = {"clip": 1.0, "max_items_per_user": 300}


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"k": 2},
            "k=2 contradicts the planned mechanism, which is for k=3: .*leave mechanism= out",
        ),
        (
            {"mechanism": EACH, "groups": [0, 1, 2], "max_groups_per_user": 3},
            "k=3 contradicts .* which is for k=2",
        ),
        ({"max_groups_per_user": 2}, "one norm over all groups of a user. Leave it out"),
        ({"domain": [0, 1]}, "list them"),
        ({"mechanism": AGAIN}, "clips users again"),
        (
            {"epsilon": 0.3},
            r"costs more than .* \(epsilon=0.3, delta=1e-6\). Plan one for this budget",
        ),
        (
            {"delta": 1e-8},
            r"costs more than .* \(epsilon=2, delta=1e-8\). Plan one for this budget",
        ),
    ],
)
def test_a_planned_table_keeps_to_what_is_stated(changed: dict[str, Any], words: str) -> None:
    """Its k, its groups and the budget: with the plan's own it is released."""
    asked = ASKED | BOUNDS | {"mechanism": OF_CELLS}
    assert dps.topk(log(), **asked).mechanism == OF_CELLS
    with pytest.raises(dps.errors.InvalidRequest, match=words):
        dps.topk(log(), **(asked | changed))


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("column", "head"), [("score", "group"), ("value", "group"), ("city", "city")]
)
def test_a_period_that_is_closed_keeps_its_groups(column: str, head: str, tmp_path: Path) -> None:
    """A horizon that is closed period by period calls the column of groups as a horizon of a log
    does.
    """
    kept: Any = {"state": tmp_path / "state", "ledger": declared(tmp_path, 50.0)}
    kept |= {"dataset": "log", "key": "h"}
    dps.continual.start(**kept, k=1, periods=2, epsilon=40.0, delta=1e-12, grouped=True)
    answer: Any = dps.continual.close(1, visits(column), **kept, **NAMED, group=column)
    rows = [(row.get(head), row["item"]) for row in answer.rows]
    assert rows == [("Oslo", "zoo"), ("Rome", "zoo")]
    assert all(f"{group}: zoo" in plain(answer.sections()) for group in ("Oslo", "Rome"))


@pytest.mark.fast(1)
@pytest.mark.parametrize("column", ["period", "rank", "score"])
def test_a_column_of_groups_hides_no_other(column: str, tmp_path: Path) -> None:
    """A column of groups that is called as another of the table is `group` there: of a horizon in a
    notebook and as text too.
    """
    asked: Any = {"group": column, "k": 1, "epsilon": 40.0, "delta": 1e-12, "time": "at"}
    asked |= {"since": "2024-07-01", "until": "2024-07-02", "every": "day", "dataset": "log"}
    asked |= {"state": tmp_path / "state", "ledger": declared(tmp_path, 50.0), "key": "day"}
    answer: Any = dps.continual.run(visits(column), **NAMED, **asked)
    names, text = ("period", "group", "rank", "item"), plain(answer.sections())
    assert [tuple(row.get(name) for name in names) for row in answer.rows] == [
        ("2024-07-01", group, 1, "zoo") for group in ("Oslo", "Rome")
    ]
    for group in ("Oslo", "Rome"):
        assert f"{group}: zoo" in text
        assert answer._repr_html_().count(f">{group}: zoo</th>") == 1


def test_no_number_of_users_is_below_0() -> None:
    """Where noise outweighs the users, of a release and of a horizon: in tables, text and JSON; a
    sum may be negative.
    """
    events = pd.DataFrame({"user": ["ann"], "item": ["i0"], "paid": [-1.0]})
    asked: Any = {
        "user": "user",
        "item": "item",
        "k": 12,
        "domain": [f"i{n}" for n in range(12)],
        "epsilon": 0.1,
    }
    answer = dps.topk(events, **asked, delta=1e-6, with_counts=True)
    held, told = answer.columns(), answer.as_data()["selection"]["values"]
    assert min(held["users"]) == min(held["low"]) == min(told) == min(answer.values or ()) == 0
    assert max(held["high"]) > max(held["users"]) > 0
    for text in (plain(answer.sections()), repr(answer), answer._repr_html_()):
        assert not re.search(r"[\s>]-\d", text)
    of_sums = dps.Sensitivity.of_sums(-5.0, 5.0, "add_remove", 1)
    noisy = dps.OneshotTopK(k=12, noise="laplace", scale=9e3, values=True, sensitivity=of_sums)
    sums = dps.topk(
        events, **asked, value="paid", value_clip=(-5.0, 5.0), max_items_per_user=1, mechanism=noisy
    )
    assert min(sums.values or ()) < 0
    assert min(sums.columns()["low"]) < 0
    counts = dps.mechanisms.HorizonCounts(items=1, scale=9.0)
    mechanism = dps.ContinualTopK(k=2, periods=1, scale=9.0, candidates=2, counts=counts)
    shown = Period(1, dps.Selection(ordered=True, values=(3.0, -50.0), labels=(7, 8)))
    horizon = HorizonAnswer(mechanism, "h", "h.state", 0, (shown,), None)
    assert [(row["users"], row["low"]) for row in horizon.rows] == [(3.0, 0.0), (0.0, 0.0)]
    assert horizon.as_data()["released"][0]["selection"]["values"] == [3.0, 0.0]
    assert horizon.to_pandas()["item"].tolist() == [7, 8]
    assert horizon.to_pandas()["item"].dtype.kind == "i"
    mixed = Period(1, shown.selection.model_copy(update={"labels": (7, "x")}))
    assert replace(horizon, released=(mixed,)).columns()["item"] == ("7", "x")
