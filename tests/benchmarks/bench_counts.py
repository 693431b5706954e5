"""Numbers of users beside a top k: how often intervals hold the true number, how wide they are, what they cost in recall.

    python tests/benchmarks/bench_counts.py [--logs gowalla nyc tky films messages zipf:1.1,5000,20000,100] [--k 10 100]
        [--epsilon 0.5 1] [--delta 1e-6] [--draws 10]

Logs as for bench_recall.py; items are unknown, and each draw learns anew, as `dpselect topk --with-counts` does. The true number
is that of distinct users in the log. `holds` is the share of shown items whose interval holds it: both ends, or the low one where
the answer says "at least". `narrow` is the same for the interval of both ends around a clipped count, whatever the answer says.
`width` is how wide that is, in users; `short` is how far the low end lies below the truth on average, as a multiple of that
width. `recall` is that of releases with counts, and `without` of those without, by the same budget.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from bench_recall import Cell, as_read
from harness import Table, options, product
from recall_logs import LOGS, OVER_TIME, Log, load

import accounting as acc
import dpselect as dps
from dpselect.plan.counts import COUNTS_AGAIN, interval
from dpselect.plan.learn import Informed

NUMBERS = ("holds", "narrow", "width", "short", "recall", "without")
Found = dict[str, list[float]]


def measured(log: Log, k: int, budget: acc.Budget, draws: int) -> Found:
    """So many releases with counts, and as many without."""
    cell, rng = Cell(log, "unknown", k, budget), np.random.default_rng(5)
    found: Found = {name: [] for name in NUMBERS}
    right, loads = log.right(k), np.bincount(log.users)
    counted = cell.request.model_copy(update={"counts": COUNTS_AGAIN, "recounted": True})
    ways = {request is counted: Informed.of(budget, request) for request in (cell.request, counted)}
    for _ in range(draws):
        for with_counts, informed in ways.items():
            assert informed is not None
            choice = informed.chosen(informed.item.learning.learn(loads, informed.declared, rng=rng))
            mechanism, read = as_read(cell, choice)
            scores = read()
            if with_counts:
                scores = scores.with_second(_counting(log, scores.second, mechanism))
            selection = mechanism.select(scores, rng=rng)
            items = [int(label) for label in selection.labels or ()]
            found["recall" if with_counts else "without"].append(float(right[items].sum()) / k)
            if with_counts and items:
                _judge(found, mechanism, np.array(selection.values), log.counts[items])
    return found


def _counting(log: Log, second: Any, mechanism: Any) -> dps.SecondLook:
    """The second look of some scores, which counts as well."""
    return dps.SecondLook(second.scores, second.sensitivity, partial(log.counted, clip=mechanism.clip), second._weigh)


def _judge(found: Found, mechanism: dps.Mechanism, values: Any, truth: Any) -> None:
    around = interval(mechanism)
    assert around is not None
    half = around.half_width
    low, high = values - half <= truth, values + half >= truth
    found["holds"].extend((low & (high | around.at_least)).tolist())
    found["narrow"].extend((low & high).tolist())
    found["width"].extend([2 * half] * len(values))
    found["short"].extend(((truth - (values - half)) / (2 * half)).tolist())


def main() -> None:
    """Print a line for each log, k and epsilon."""
    logs = [*LOGS, *OVER_TIME, "zipf:1.1,5000,20000,100"]
    asked = options(__doc__, logs=logs, k=[10, 100], epsilon=[0.5, 1.0], delta=1e-6, draws=10)
    shares = [(name, ">7.3f") for name in ("holds", "narrow")]
    recalls = [(name, ">8.3f") for name in ("recall", "without")]
    lines = Table(
        ("log", "24"),
        ("k", ">4"),
        ("epsilon", ">7g"),
        ("items", ">6,"),
        *shares,
        ("width", ">6.0f"),
        ("short", ">6.2f"),
        *recalls,
    )
    for name, k, epsilon in product(asked, "logs", "k", "epsilon"):
        found = measured(load(name), k, acc.Budget(epsilon=epsilon, delta=asked.delta), asked.draws)
        lines.row(
            name, k, epsilon, len(found["holds"]), *(float(np.mean(held)) if held else float("nan") for held in found.values())
        )


if __name__ == "__main__":
    main()
