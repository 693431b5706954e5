"""The top k of each group of a log at once: the default with and without a bound on groups, NumPy, and a call for each group.

    python tests/benchmarks/bench_cells.py [--logs quarters home months squares] [--k 10 50] [--epsilon 0.5 1] [--delta 1e-6]
        [--groups 1 3] [--draws 6]

quarters: venues of New York and Tokyo, each city halved at its median latitude; a user is in one or two of four groups. home:
places of Gowalla, each user in one of four groups by chance. months: films rated in each month of 2013, where a user may be in
all of seven. squares: venues of both cities by squares of a tenth of a degree, of which those are judged whose first venue has 50
users. Items are unknown and groups are listed. The data are in ../shared/data (see its README) and are not part of the project.
A figure is the share of each group's true top k, a mean over groups and draws.

`free` is `dpselect topk --group` as it is; `bound` states max_groups_per_user= as the most groups that a user is in, where these
are few, or as --groups says; both learn anew in each draw. `numpy` clips a user's cells to an l2 norm of 1 over all groups, adds
noise and cuts off at a threshold: twenty lines. `calls` is one release for each group, of an equal part of the budget for each
that a user may be in.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from harness import DATA, options, product, show
from recall import Cell, Log, budget_of, releases

import accounting as acc

_VENUES = """
    SELECT p.city * 100000 + p.user_id AS u, p.city * 1000000 + p.item_id AS i, {g} AS g
    FROM '{0}/foursquare/foursquare_nyc_tky_pairs_reconstructed.parquet' p
        JOIN '{0}/foursquare/foursquare_venues.parquet' v USING (city, item_id)
"""
_QUARTERS = _VENUES.replace("{g}", "2 * p.city + CAST(v.lat > median(v.lat) OVER (PARTITION BY p.city) AS INT)")
_SQUARES = _VENUES.replace("{g}", "concat(CAST(floor(v.lat * 10) AS INT), ':', CAST(floor(v.lon * 10) AS INT))")
_HOME = "SELECT user_id AS u, item_id AS i, hash(user_id) % 4 AS g FROM '{0}/gowalla/gowalla_10core_pairs.parquet'"
_MONTHS = """
    SELECT "user" AS u, item AS i, month(make_timestamp(time * 1000000)) AS g FROM '{0}/times/movietweetings100k.parquet'
"""
# How many groups a user may be in, where that is stated, and how many users the first item of a group has that is judged.
LOGS = {"quarters": (_QUARTERS, 2, 1), "home": (_HOME, 1, 1), "months": (_MONTHS, None, 1), "squares": (_SQUARES, None, 50)}


class Groups:
    """A log in groups: as a table, as one log of cells, and of each group that is judged."""

    def __init__(self, name: str) -> None:
        if not DATA.exists():
            raise SystemExit(f"{DATA} is absent")
        sql, self.most, self.least = LOGS[name]
        held = duckdb.sql(f"SELECT DISTINCT u, i, g FROM ({sql.format(DATA)}) WHERE g IS NOT NULL").fetchnumpy()
        self.users, self.items, self.groups = (np.unique(held[key], return_inverse=True)[1].astype(np.int64) for key in "uig")
        self.table = pa.table({"user": self.users, "item": self.items, "group": self.groups})
        self.count, self.width = int(self.groups.max()) + 1, int(self.items.max()) + 1

    @cached_property
    def cells(self) -> Log:
        """All cells; items of a group are numbered together, in the order of groups."""
        return Log("cells", self.users, self.groups * self.width + self.items)

    @cached_property
    def alone(self) -> dict[int, tuple[Log, dict[int, int]]]:
        """Each group that is judged, and the places of its items."""
        found = {}
        for group in range(self.count):
            mine = self.groups == group
            log = Log(str(group), self.users[mine], self.items[mine])
            if log.counts.max() >= self.least:
                found[group] = log, {item: place for place, item in enumerate(np.unique(self.items[mine]).tolist())}
        return found

    def share(self, shown: dict[int, list[int]], k: int) -> float:
        """Of the true top k of each group, from what a release shows of it."""
        return float(np.mean([log.share([at[i] for i in shown.get(g, [])[:k]], k) for g, (log, at) in self.alone.items()]))

    def of_cells(self, cells: Any) -> dict[int, list[int]]:
        """By group what a ranking of cells shows."""
        found: dict[int, list[int]] = {}
        for cell in np.unique(self.groups * self.width + self.items)[list(cells)].tolist():
            found.setdefault(cell // self.width, []).append(cell % self.width)
        return found


def default(log: Groups, k: int, budget: acc.Budget, most: int | None) -> Callable[[], float]:
    """The recall of a release of the default."""

    def draw() -> float:
        with releases(log.table, k, budget, group="group", groups=range(log.count), max_groups_per_user=most) as release:
            by_group = release().selection.by_group()
        return log.share({int(group): list(one.labels or ()) for group, one in by_group.items()}, k)

    return draw


def calls(log: Groups, k: int, budget: acc.Budget, most: int) -> Callable[[], float]:
    """The recall of a release for each group."""
    part = budget_of(budget.limit / most, budget.delta / most)
    cells = [Cell(one, "unknown", k, part) for one, _ in log.alone.values()]
    return lambda: float(np.mean([cell.recall(None, 1)[0] for cell in cells]))


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each way finds."""
    for name, k, epsilon in product(asked, "logs", "k", "epsilon"):
        log, budget = Groups(name), budget_of(epsilon, asked.delta)
        simple = Cell(log.cells, "unknown", log.cells.size, budget).plain()
        ways: dict[str, Callable[[], float]] = {"free": default(log, k, budget, None)}
        for most in asked.groups if log.most is None else [log.most]:
            ways[f"bound {most}"] = default(log, k, budget, most)
        ways["numpy"] = lambda log=log, simple=simple, k=k: log.share(log.of_cells(simple()), k)  # type: ignore[misc]
        if log.most is not None:
            ways["calls"] = calls(log, k, budget, log.most)
        found = {way: float(np.mean([draw() for _ in range(asked.draws)])) for way, draw in ways.items()}
        yield {"log": name, "k": k, "epsilon": epsilon} | found


if __name__ == "__main__":
    show(lines(options(__doc__, logs=[*LOGS], k=[10, 50], epsilon=[0.5, 1.0], delta=1e-6, groups=[1, 3], draws=6)))
