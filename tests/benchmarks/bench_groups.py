"""The top k venues of every square of a tenth of a degree in New York and Tokyo at once, by `PerGroup`: how many are right.

    python tests/benchmarks/bench_groups.py [--epsilon 1 4] [--k 5] [--groups 1 2 3 5] [--delta 1e-6] [--runs 3]

A mean over those squares whose first venue has 50 users or more, for several bounds of a user's squares: what the default takes
(`default_choice`), counts as they are, and counts clipped to a norm of 1 by the same rule; beside it, one release per
square at an equal part of the budget. Venues are unknown, squares public.
The log is in ../shared/data (see its README) and is not part of the project.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from harness import Table, options

import accounting as acc
import dpselect as dps
from dpselect.plan import Choice, Grouping, TopKRequest, default_choice, default_mechanism

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

_SQUARES = """
    SELECT p.city * 100000 + p.user_id AS u, p.city * 1000000 + p.item_id AS i,
        concat(CAST(floor(v.lat * 10) AS INT), ':', CAST(floor(v.lon * 10) AS INT)) AS g
    FROM '{0}/foursquare_nyc_tky_pairs_reconstructed.parquet' p JOIN '{0}/foursquare_venues.parquet' v USING (city, item_id)
"""


def table(asked: argparse.Namespace) -> None:
    """The share of each square's true top k, by epsilon, groups per user and clip."""
    log = {name: column.tolist() for name, column in duckdb.sql(_SQUARES.format(DATA / "foursquare")).fetchnumpy().items()}
    k, squares, events = asked.k, sorted(set(log["g"])), pa.table(log)

    def read(most: int, clip: float | None = None, items: int | None = None) -> dps.mechanisms.GroupedScores:
        bounds = {"max_groups_per_user": most, "max_items_per_user": items, "clip": clip, "salt": "squares"}
        return dps.events.read(events, user="u", item="i", group="g", groups=squares, **bounds).scores(clip=clip)

    every = read(len(squares))
    tops = {name: {one.labels[place] for place in one.ranked(k)[0]} for name, one in every.items() if one.dense().max() >= 50}

    def found(mechanism: dps.Mechanism, scores: dps.mechanisms.GroupedScores) -> float:
        runs = [mechanism.select(scores, rng=np.random.default_rng(seed)).by_group() for seed in range(asked.runs)]
        shares = [len(top & set(run[name].labels)) / k if name in run else 0.0 for run in runs for name, top in tops.items()]
        return float(np.mean(shares))

    print(f"{len(squares)} squares, recall of the top {k} over {len(tops)}")
    ways = [(name, ">8.2f") for name in ("default", "counts", "clip 1", "one each")]
    found_by = Table(("epsilon", ">8g"), ("groups", ">8"), *ways)
    for epsilon in asked.epsilon:
        each = acc.Budget(epsilon=epsilon / len(squares), delta=asked.delta / len(squares))
        alone = dps.PerGroup(mechanism=default_mechanism(each, TopKRequest(k=k)), max_groups_per_user=len(squares))
        last = found(alone, every)
        for most in asked.groups:
            budget, request = acc.Budget(epsilon=epsilon, delta=asked.delta), TopKRequest(k=k)
            ways = [
                default_choice(budget, request, groups=Grouping(most, len(squares))),
                Choice(default_mechanism(budget, request, groups=Grouping(most, len(squares))), None),
            ]
            ways.append(default_choice(budget, request, groups=Grouping(most, len(squares)), max_items_per_user=300, clip=1.0))
            row = [found(way.mechanism, read(most, way.clip, way.max_items_per_user)) for way in ways]
            found_by.row(epsilon, most, *row, last)


def main() -> None:
    """Print the table."""
    if not DATA.exists():
        sys.exit(f"{DATA} is absent")
    table(options(__doc__, epsilon=[1.0, 4.0], delta=1e-6, k=5, groups=[1, 2, 3, 5], runs=3))


if __name__ == "__main__":
    main()
