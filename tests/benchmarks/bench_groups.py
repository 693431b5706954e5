"""The top 5 venues of every square of a tenth of a degree in New York and Tokyo at once, by `PerGroup`: how many are right.

    python tests/benchmarks/bench_groups.py [--epsilon 1 4] [--delta 1e-6] [--runs 3]

A mean over those squares whose first venue has 50 users or more, for counts and for counts clipped to a norm of 1, and several
bounds of a user's squares; beside it, one release per square at an equal part of the budget. Venues are unknown, squares public.
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

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"

_SQUARES = """
    SELECT p.city * 100000 + p.user_id AS u, p.city * 1000000 + p.item_id AS i,
        concat(CAST(floor(v.lat * 10) AS INT), ':', CAST(floor(v.lon * 10) AS INT)) AS g
    FROM '{0}/foursquare_nyc_tky_pairs_reconstructed.parquet' p JOIN '{0}/foursquare_venues.parquet' v USING (city, item_id)
"""


def table(options: argparse.Namespace) -> None:
    """The share of each square's true top 5, by epsilon, groups per user and clip."""
    log = {name: column.tolist() for name, column in duckdb.sql(_SQUARES.format(DATA / "foursquare")).fetchnumpy().items()}
    squares, events = sorted(set(log["g"])), pa.table(log)

    def read(most: int, clip: float | None = None) -> dps.GroupedScores:
        bounds = {"max_groups_per_user": most, "max_items_per_user": 20, "clip": clip, "salt": "squares"}
        return dps.events.read(events, user="u", item="i", group="g", groups=squares, **bounds).scores(clip=clip)

    every = dps.events.read(events, user="u", item="i", group="g", groups=squares, max_groups_per_user=len(squares)).scores()
    tops = {name: {one.labels[place] for place in one.ranked(5)[0]} for name, one in every.items() if one.dense().max() >= 50}

    def found(mechanism: dps.Mechanism, scores: dps.GroupedScores) -> float:
        runs = [mechanism.select(scores, rng=np.random.default_rng(seed)).by_group() for seed in range(options.runs)]
        shares = [len(top & set(run[name].labels)) / 5 if name in run else 0.0 for run in runs for name, top in tops.items()]
        return float(np.mean(shares))

    print(
        f"{len(squares)} squares, recall over {len(tops)}\n{'epsilon':>8}{'groups':>8}{'counts':>8}{'clip 1':>8}{'one each':>10}"
    )
    for epsilon in options.epsilon:
        each = acc.Budget(epsilon=epsilon / len(squares), delta=options.delta / len(squares))
        alone = found(
            dps.PerGroup(mechanism=dps.default_mechanism(each, dps.TopKRequest(k=5)), max_groups_per_user=len(squares)), every
        )
        for most in (1, 2, 3, 5):
            budget, row = acc.Budget(epsilon=epsilon, delta=options.delta), []
            for clip in (None, 1.0):
                bound = (
                    dps.Sensitivity.of_counts(items_per_user=20)
                    if clip is None
                    else dps.Sensitivity.of_clipped(1.0, items_per_user=20)
                )
                mechanism = dps.default_groups(budget, dps.TopKRequest(k=5, sensitivity=bound), most)
                row.append(found(mechanism, read(most, clip)))
            print(f"{epsilon:>8g}{most:>8}", *(f"{value:7.2f}" for value in (*row, alone)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is absent")
    table(options)


if __name__ == "__main__":
    main()
