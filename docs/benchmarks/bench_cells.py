"""The top k of each group of a log at once: the default with and without a bound on groups, NumPy,
and a call for each group.

    python docs/benchmarks/bench_cells.py [--logs quarters home months squares] [--k 10 50]
    [--epsilon 0.5 1] [--delta 1e-6]
        [--groups 1 3] [--draws 6]

quarters: venues of New York and Tokyo, each city halved at its median latitude; a user is in one or
two of four groups. home: places of Gowalla, each user in one of four groups by chance. months:
films rated in each month of 2013, where a user may be in all of seven. squares: venues of both
cities by squares of a tenth of a degree, of which those are judged whose first venue has 50 users.
Items are unknown and groups are listed. The data are in ../shared/data (see its README) and are not
part of the project. A figure is the share of each group's true top k, a mean over groups and draws.

`free` is `dpselect topk --group` as it is; `bound` states max_groups_per_user= as the most groups
that a user is in, where these are few, or as --groups says. `numpy` clips a user's cells to an l2
norm of 1 over all groups, adds noise and cuts off at a threshold: twenty lines. `calls` is one
release for each group, of an equal part of the budget for each that a user may be in.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from harness import DATA, options, product, show
from recall import budget_of, mu_of, releases, threshold

import accounting as acc

_VENUES = """
    SELECT p.city * 100000 + p.user_id AS u, p.city * 1000000 + p.item_id AS i, {g} AS g
    FROM '{0}/foursquare/foursquare_nyc_tky_pairs_reconstructed.parquet' p
        JOIN '{0}/foursquare/foursquare_venues.parquet' v USING (city, item_id)
"""
_QUARTERS = _VENUES.replace(
    "{g}", "2 * p.city + CAST(v.lat > median(v.lat) OVER (PARTITION BY p.city) AS INT)"
)
_SQUARES = _VENUES.replace(
    "{g}", "concat(CAST(floor(v.lat * 10) AS INT), ':', CAST(floor(v.lon * 10) AS INT))"
)
_HOME = "SELECT user_id AS u, item_id AS i, hash(user_id) % 4 AS g FROM '{0}/gowalla/gowalla_10core_pairs.parquet'"  # noqa: E501
_MONTHS = """
    SELECT "user" AS u, item AS i, month(make_timestamp(time * 1000000)) AS g FROM '{0}/times/movietweetings100k.parquet'
"""  # noqa: E501
# How many groups a user may be in, where that is stated, and how many users the first item of a
# group has that is judged.
LOGS = {
    "quarters": (_QUARTERS, 2, 1),
    "home": (_HOME, 1, 1),
    "months": (_MONTHS, None, 1),
    "squares": (_SQUARES, None, 50),
}


Shown = dict[int, list[int]]
"""The items of each group, best first."""


def loaded(name: str) -> tuple[pd.DataFrame, int | None, int]:
    """Distinct (user, group, item), all numbered; in how many groups a user is, and how many users
    a group that is judged has.
    """
    if not DATA.exists():
        raise SystemExit(f"{DATA} is absent")
    sql, most, least = LOGS[name]
    held = duckdb.sql(
        f"SELECT DISTINCT u, g, i FROM ({sql.format(DATA)}) WHERE g IS NOT NULL"
    ).df()
    numbered = {
        column: pd.factorize(held[key])[0]
        for key, column in zip("ugi", ("user", "group", "item"), strict=True)
    }
    return pd.DataFrame(numbered), most, least


def top(log: pd.DataFrame, k: int, least: int) -> dict[int, set[int]]:
    """The right items of each group that is judged; with ties at rank k any of them."""
    counts = log.groupby(["group", "item"]).size()
    groups = {
        group: one.droplevel("group")
        for group, one in counts.groupby(level="group")
        if one.max() >= least
    }
    return {
        group: set(one.index[one >= one.nlargest(k).iloc[-1]])
        for group, one in groups.items()
    }


def default(log: pd.DataFrame, k: int, budget: acc.Budget, most: int | None) -> Shown:
    """A release of the default."""
    asked: dict[str, Any] = {
        "group": "group",
        "groups": range(int(log["group"].max()) + 1),
        "max_groups_per_user": most,
    }
    with releases(pa.Table.from_pandas(log), k, budget, **asked) as release:
        return {
            int(group): list(one.labels or ())
            for group, one in release().selection.by_group().items()
        }


def calls(log: pd.DataFrame, k: int, budget: acc.Budget, most: int) -> Shown:
    """A release for each group."""
    part, found = budget_of(budget.limit / most, budget.delta / most), {}
    for group, mine in log.groupby("group"):
        with releases(pa.Table.from_pandas(mine[["user", "item"]]), k, part) as release:
            found[int(group)] = list(release().items)  # type: ignore[call-overload]
    return found


def plain(log: pd.DataFrame, budget: acc.Budget) -> Shown:
    """Twenty lines of NumPy."""
    scale = 1 / mu_of(budget.limit, budget.delta / 2)
    weights = log["user"].map(log["user"].value_counts() ** -0.5)
    noisy = weights.groupby([log["group"], log["item"]]).sum() + 0.0
    noisy += scale * np.random.default_rng().standard_normal(len(noisy))
    passed = noisy[noisy > threshold(scale, budget.delta / 2)].sort_values(
        ascending=False
    )
    return {
        int(group): one.index.get_level_values("item").tolist()
        for group, one in passed.groupby(level="group")
    }  # type: ignore[call-overload]


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each way finds."""
    for name, k, epsilon in product(asked, "logs", "k", "epsilon"):
        (log, stated, least), budget = loaded(name), budget_of(epsilon, asked.delta)
        ways: dict[str, Callable[[], Shown]] = {
            "free": lambda: default(log, k, budget, None)  # noqa: B023
        }
        for most in asked.groups if stated is None else [stated]:
            ways[f"bound {most}"] = lambda most=most: default(log, k, budget, most)  # type: ignore[misc]  # noqa: B023
        ways["numpy"] = lambda: plain(log, budget)  # noqa: B023
        if stated is not None:
            ways["calls"] = lambda: calls(log, k, budget, stated)  # noqa: B023
        right, found = top(log, k, least), {}
        for way, release in ways.items():
            shown = [release() for _ in range(asked.draws)]
            shares = [
                len(items & set(one.get(group, ())[:k])) / k
                for one in shown
                for group, items in right.items()
            ]
            found[way] = float(np.mean(shares))
        yield {"log": name, "k": k, "epsilon": epsilon} | found


if __name__ == "__main__":
    show(
        lines(
            options(
                __doc__,
                logs=[*LOGS],
                k=[10, 50],
                epsilon=[0.5, 1.0],
                delta=1e-6,
                groups=[1, 3],
                draws=6,
            )
        )
    )
