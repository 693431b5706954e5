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

import accounting as acc
import dpselect as dps
from dpselect.plan import Choice, TopKRequest, default_choice, default_mechanism

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

_SQUARES = """
    SELECT p.city * 100000 + p.user_id AS u, p.city * 1000000 + p.item_id AS i,
        concat(CAST(floor(v.lat * 10) AS INT), ':', CAST(floor(v.lon * 10) AS INT)) AS g
    FROM '{0}/foursquare_nyc_tky_pairs_reconstructed.parquet' p JOIN '{0}/foursquare_venues.parquet' v USING (city, item_id)
"""


def table(options: argparse.Namespace) -> None:
    """The share of each square's true top k, by epsilon, groups per user and clip."""
    log = {name: column.tolist() for name, column in duckdb.sql(_SQUARES.format(DATA / "foursquare")).fetchnumpy().items()}
    k, squares, events = options.k, sorted(set(log["g"])), pa.table(log)

    def read(most: int, clip: float | None = None, items: int | None = None) -> dps.mechanisms.GroupedScores:
        bounds = {"max_groups_per_user": most, "max_items_per_user": items, "clip": clip, "salt": "squares"}
        return dps.events.read(events, user="u", item="i", group="g", groups=squares, **bounds).scores(clip=clip)

    every = read(len(squares))
    tops = {name: {one.labels[place] for place in one.ranked(k)[0]} for name, one in every.items() if one.dense().max() >= 50}

    def found(mechanism: dps.Mechanism, scores: dps.mechanisms.GroupedScores) -> float:
        runs = [mechanism.select(scores, rng=np.random.default_rng(seed)).by_group() for seed in range(options.runs)]
        shares = [len(top & set(run[name].labels)) / k if name in run else 0.0 for run in runs for name, top in tops.items()]
        return float(np.mean(shares))

    print(f"{len(squares)} squares, recall of the top {k} over {len(tops)}")
    print(f"{'epsilon':>8}{'groups':>8}{'default':>8}{'counts':>8}{'clip 1':>8}{'one each':>10}")
    for epsilon in options.epsilon:
        each = acc.Budget(epsilon=epsilon / len(squares), delta=options.delta / len(squares))
        alone = dps.PerGroup(mechanism=default_mechanism(each, TopKRequest(k=k)), max_groups_per_user=len(squares))
        last = found(alone, every)
        for most in options.groups:
            budget, request = acc.Budget(epsilon=epsilon, delta=options.delta), TopKRequest(k=k)
            ways = [
                default_choice(budget, request, max_groups_per_user=most),
                Choice(default_mechanism(budget, request, max_groups_per_user=most), None),
            ]
            ways.append(default_choice(budget, request, max_groups_per_user=most, max_items_per_user=300, clip=1.0))
            row = [found(way.mechanism, read(most, way.clip, way.max_items_per_user)) for way in ways]
            print(f"{epsilon:>8g}{most:>8}", *(f"{value:7.2f}" for value in (*row, last)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--groups", nargs="+", type=int, default=[1, 2, 3, 5])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is absent")
    table(options)


if __name__ == "__main__":
    main()
