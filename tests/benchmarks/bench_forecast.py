"""What a plan on a made-up shape says and what then comes out.

    python tests/benchmarks/bench_forecast.py [--logs gowalla nyc tky times mine.parquet zipf:1.1,300,2000,10]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--user user_id] [--item item_id]

Logs as for bench_recall.py. A plan on `zipf:1` is told a log's number of items and users and its mean of items per user; the
range that it forecasts, their mean, and what its mechanism finds in the log. `above`: by how much the mean is above that.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from bench_recall import Cell, planned
from harness import Table, options, product
from recall_logs import LOGS, load

import accounting as acc
from dpselect.plan import Profile
from dpselect.plan.asked import plan


def forecasts(asked: argparse.Namespace) -> Iterator[tuple[object, ...]]:
    """How far each plan's mean is above what its mechanism finds, and what else its row has."""
    for name, domain, (k, epsilon) in itertools.product(asked.logs, ("unknown", "public"), product(asked, "k", "epsilon")):
        log, budget = load(name, asked.user, asked.item), acc.Budget(epsilon=epsilon, delta=1e-6)
        guess = Profile.zipf(1.0, log.size, log.people, items_per_user=round(len(log.users) / log.people, 1))
        best = plan(budget, k, profile=guess, unknown_domain=domain == "unknown", rounds=400).recommended
        found, _ = (cell := Cell(log, domain, k, budget)).recall(planned(cell, best), asked.draws, 0)
        low, high = best.forecast or (best.expected, best.expected)
        yield log.name, domain, k, epsilon, low, high, best.expected, found, best.expected - found, best.name


def main() -> None:
    """Print the table, and what its rows say together."""
    asked = options(__doc__, logs=LOGS, user="user_id", item="item_id", k=[10, 100], epsilon=[0.5, 1.0, 4.0], draws=20)
    figures = [(name, ">9.3f") for name in ("forecast", "to", "mean", "realised", "above")]
    table, above = Table(("log", "<12"), ("items", "<8"), ("k", ">4"), ("eps", ">5g"), *figures, ("mechanism", "")), []
    for row in forecasts(asked):
        table.row(*row)
        above.append(float(row[8]))  # type: ignore[arg-type]
    off = f"{np.mean(np.abs(above)):.3f} on average, {max(above):.3f} too high and {-min(above):.3f} too low at most"
    print(f"the mean is off by {off}")


if __name__ == "__main__":
    main()
