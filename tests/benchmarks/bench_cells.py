"""The top k of each group of a log at once: the default with and without a bound on groups, NumPy, and a call for each group.

    python tests/benchmarks/bench_cells.py [--logs quarters home months] [--k 10 50] [--epsilon 0.5 1] [--delta 1e-6] [--draws 6]

quarters: venues of New York and Tokyo, each city halved at its median latitude; a user is in one or two of four groups. home:
places of Gowalla, each user in one of four groups by chance. months: films rated in each month of 2013, where a user may be in
all of seven. Items are unknown and groups are listed. The data are in ../shared/data (see its README) and are not part of the
project. A figure is the share of each group's true top k, a mean over groups and draws.

`free` is `dpselect topk --group` as it is; `bound` states max_groups_per_user= as the most groups that a user is in, where these
are few; both learn anew in each draw. `numpy` clips a user's cells to an l2 norm of 1 over all groups, adds noise and cuts off
at a threshold: twenty lines. `calls` is one release for each group, of the whole budget where a user is in one group, and of half
of it where a user is in two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from bench_recall import Cell, as_read, learnt, plain
from harness import Table, options, product
from numpy.typing import NDArray
from recall_logs import DATA, Log

import accounting as acc
from dpselect.cells import ANY_GROUPS
from dpselect.plan import TopKRequest
from dpselect.plan.candidates import Grouping
from dpselect.plan.learn import Informed

_QUARTERS = """
    SELECT p.city * 100000 + p.user_id AS u, p.item_id AS i,
        2 * p.city + CAST(v.lat > median(v.lat) OVER (PARTITION BY p.city) AS INT) AS g
    FROM '{0}/foursquare/foursquare_nyc_tky_pairs_reconstructed.parquet' p
        JOIN '{0}/foursquare/foursquare_venues.parquet' v USING (city, item_id)
"""
_HOME = "SELECT user_id AS u, item_id AS i, hash(user_id) % 4 AS g FROM '{0}/gowalla/gowalla_10core_pairs.parquet'"
_MONTHS = """
    SELECT "user" AS u, item AS i, month(make_timestamp(time * 1000000)) AS g FROM '{0}/times/movietweetings100k.parquet'
"""
LOGS = {"quarters": (_QUARTERS, 2), "home": (_HOME, 1), "months": (_MONTHS, None)}


@dataclass(frozen=True)
class Groups:
    """A log in groups: as one log of cells, whose items are numbered through all groups, and of each group alone."""

    name: str
    users: NDArray[np.int64]
    groups: NDArray[np.int64]
    items: NDArray[np.int64]
    most: int | None

    @classmethod
    def load(cls, name: str) -> Groups:
        sql, most = LOGS[name]
        held = duckdb.sql(f"SELECT DISTINCT u, i, g FROM ({sql.format(DATA)}) WHERE g IS NOT NULL").fetchnumpy()
        places = {key: np.unique(held[key], return_inverse=True)[1].astype(np.int64) for key in ("u", "g", "i")}
        return cls(name, places["u"], places["g"], places["i"], most)

    @property
    def count(self) -> int:
        return int(self.groups.max()) + 1

    @cached_property
    def table(self) -> Log:
        """All cells; items of a group are numbered together, in the order of groups."""
        return Log(self.name, self.users, self.groups * (int(self.items.max()) + 1) + self.items)

    @cached_property
    def of_cell(self) -> NDArray[np.int64]:
        """(cells,) the group of each."""
        return np.unique(self.groups * (int(self.items.max()) + 1) + self.items) // (int(self.items.max()) + 1)

    @cached_property
    def alone(self) -> list[Log]:
        """Each group by itself."""
        return [Log(f"{self.name} {g}", self.users[self.groups == g], self.items[self.groups == g]) for g in range(self.count)]

    @cached_property
    def per_user(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(users,) how many groups each is in, and how many items in each of them on average."""
        pairs = np.unique(self.users * self.count + self.groups) // self.count
        many = np.bincount(pairs)
        return many, np.bincount(self.users) / many

    def recall(self, shown: Any, k: int) -> float:
        """Of cells, best first."""
        cells = np.asarray(list(shown), dtype=np.int64)
        found = []
        for group, log in enumerate(self.alone):
            mine = cells[self.of_cell[cells] == group][:k] - int(np.searchsorted(self.of_cell, group))
            found.append(float(log.right(k)[mine].sum()) / k)
        return float(np.mean(found))


def default(log: Groups, k: int, budget: acc.Budget, most: int, rng: np.random.Generator) -> float:
    """The recall of one release of the default."""
    request = TopKRequest(k=k)
    informed = Informed.of(budget, request, groups=Grouping(most, listed=log.count, tabled=True))
    assert informed is not None
    many, items = log.per_user
    choice = informed.chosen(informed.item.learning.learn(items, informed.declared, groups=many, rng=rng))
    mechanism: Any = choice.mechanism
    if choice.cells:
        inner, read = as_read(Cell(log.table, "unknown", k, budget), choice)
        return log.recall(inner.mechanism.select(read(), rng=rng).labels or (), k)  # type: ignore[attr-defined]
    found = []
    for one in log.alone:
        scores = as_read(Cell(one, "unknown", k, budget), choice)[1]()
        labels = mechanism.mechanism.select(scores, rng=rng).labels or ()
        found.append(float(one.right(k)[list(labels)].sum()) / k)
    return float(np.mean(found))


def calls(log: Groups, k: int, budget: acc.Budget, rng: np.random.Generator) -> float:
    """The recall of a release for each group."""
    assert log.most is not None
    part = acc.Budget(epsilon=budget.limit / log.most, delta=budget.delta / log.most)
    ways = [(one, learnt(Cell(one, "unknown", k, part))) for one in log.alone]
    return float(np.mean([one.right(k)[list(draw(rng))].sum() / k for one, draw in ways]))


def figures(log: Groups, k: int, budget: acc.Budget, draws: int) -> list[float]:
    """What each way finds."""
    simple = plain(Cell(log.table, "unknown", log.table.size, budget))
    ways: list[Callable[[np.random.Generator], float]] = [
        lambda rng: default(log, k, budget, ANY_GROUPS, rng),
        lambda rng: float("nan") if log.most is None else default(log, k, budget, log.most, rng),
        lambda rng: log.recall(simple(rng), k),
        lambda rng: float("nan") if log.most is None else calls(log, k, budget, rng),
    ]
    return [float(np.mean([way(np.random.default_rng([3, seed])) for seed in range(draws)])) for way in ways]


def main() -> None:
    """Print the table."""
    if not DATA.exists():
        sys.exit(f"{DATA} is absent")
    asked = options(__doc__, logs=[*LOGS], k=[10, 50], epsilon=[0.5, 1.0], delta=1e-6, draws=6)
    ways = [(name, ">7.3f") for name in ("free", "bound", "numpy", "calls")]
    lines = Table(("log", "10"), ("k", ">4"), ("epsilon", ">7g"), *ways)
    for name, k, epsilon in product(asked, "logs", "k", "epsilon"):
        lines.row(name, k, epsilon, *figures(Groups.load(name), k, acc.Budget(epsilon=epsilon, delta=asked.delta), asked.draws))


if __name__ == "__main__":
    main()
