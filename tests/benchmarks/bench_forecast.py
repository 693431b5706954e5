"""What a plan on a made-up shape says and what then comes out; and what counts cost the items beside them.

    python tests/benchmarks/bench_forecast.py [--logs gowalla nyc tky times mine.parquet zipf:1.1,300,2000,10]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--exponent 1] [--user user_id] [--item item_id] [--counts]

Logs as for bench_recall.py. The first table: a plan on `zipf:EXPONENT` that is told a log's number of items and users and its
mean of items per user; the range that it forecasts, their mean, and what its mechanism finds in the log. `above`: by how much the
mean is above that. `--counts`: recall of `dpselect.topk` without and with counts, their ratio, half the width of the 95 %
interval, and the root mean square by which counts are off.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from bench_recall import Cell, planned
from harness import Table, options, product
from recall_logs import LOGS, Log, load

import accounting as acc
import dpselect as dps
from dpselect.plan import Profile
from dpselect.plan.asked import plan


def guessed(log: Log, exponent: float) -> Profile:
    """What somebody states who knows how many items and users there are, and how many items a user has on average."""
    return Profile.zipf(exponent, log.size, log.people, items_per_user=round(len(log.users) / log.people, 1))


def forecasts(logs: list[Log], asked: argparse.Namespace) -> Iterator[tuple[float, tuple[object, ...]]]:
    """How far each plan's mean is above what its mechanism finds, and the row."""
    for log, domain, (k, epsilon) in itertools.product(logs, ("unknown", "public"), product(asked, "k", "epsilon")):
        budget = acc.Budget(epsilon=epsilon, delta=1e-6)
        best = plan(budget, k, profile=guessed(log, asked.exponent), unknown_domain=domain == "unknown", rounds=400).recommended
        cell = Cell(log, domain, k, budget)
        found, _ = cell.recall(planned(cell, best), asked.draws, 0)
        above = best.expected - found
        low, high = best.forecast or (best.expected, best.expected)
        yield above, (log.name, domain, k, epsilon, low, high, best.expected, found, above, best.name)


def counts(logs: list[Log], asked: argparse.Namespace) -> Iterator[tuple[float, tuple[object, ...]]]:
    """Recall with counts as a share of that without, and the row."""
    for log, domain, (k, epsilon) in itertools.product(logs, ("unknown", "public", "pure"), product(asked, "k", "epsilon")):
        table, kth, right = log.table(), -np.sort(-log.counts)[k - 1], log.right(k)
        places, found, off = {name: place for place, name in enumerate(log.labels)}, [0.0, 0.0], []
        ask = {"user": "user_id", "item": "item_id", "k": k, "epsilon": epsilon, "delta": 0.0 if domain == "pure" else 1e-6}
        for with_counts, _ in itertools.product((False, True), range(asked.draws)):
            made = dps.topk(table, **ask, domain=None if domain == "unknown" else log.labels, with_counts=with_counts)
            chosen = [places[int(item)] for item in made.items]
            found[with_counts] += right[chosen].sum() / k / asked.draws
            off += [] if made.values is None else list(np.array(made.values) - log.counts[chosen])
        ratio = found[1] / found[0] if found[0] else 1.0
        error = float(np.sqrt(np.mean(np.square(off)))) if off else 0.0
        yield ratio, (log.name, domain, k, epsilon, kth, *found, ratio, made.mechanism.margin(), error)


def main() -> None:
    """Print either table, and what its rows say together."""
    numbers = {"k": [10, 100], "epsilon": [0.5, 1.0, 4.0], "draws": 20, "exponent": 1.0}
    asked = options(__doc__, logs=LOGS, user="user_id", item="item_id", counts=False, **numbers)
    logs = [load(name, asked.user, asked.item) for name in asked.logs]
    figures = ("without", "with", "ratio", "+-", "off by") if asked.counts else ("forecast", "to", "mean", "realised", "above")
    ends = [("kth count", ">9")] * asked.counts, [("mechanism", "")] * (not asked.counts)
    cells = ("log", "<12"), ("items", "<8"), ("k", ">4"), ("eps", ">5g")
    table = Table(*cells, *ends[0], *((name, ">9.3f") for name in figures), *ends[1])
    found = []
    for value, row in (counts if asked.counts else forecasts)(logs, asked):
        table.row(*row)
        found.append(value)
    if asked.counts:
        print(f"recall with counts over that without: {np.mean(found):.2f} on average, {min(found):.2f} at least")
    else:
        off = f"{np.mean(np.abs(found)):.3f} on average, {max(found):.3f} too high at most, {-min(found):.3f} too low at most"
        print(f"the mean is off by {off}")


if __name__ == "__main__":
    main()
