"""Numbers of users beside a top k: how often intervals hold the true number, how wide they are,
what they cost in recall.

    python docs/benchmarks/bench_counts.py [--logs gowalla nyc tky films messages
    zipf:1.1,5000,20000,100] [--k 10 100]
        [--epsilon 0.5 1] [--delta 1e-6] [--draws 10]

Logs as for bench_recall.py; items are unknown, and releases are those of
`dpselect topk --with-counts`. The true number is that of distinct users in the log. `holds` is the
share of shown items whose interval holds it: both ends, or the low one where the answer says "at
least". `narrow` is the same for the interval of both ends around a clipped count, whatever the
answer says. `width` is how wide that is, in users; `short` is how far the low end lies below the
truth on average, as a multiple of that width. `recall` is that of releases with counts, and
`without` of those without, by the same budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_recall import cells
from harness import options, show
from recall import LOGS, OVER_TIME, Cell

NUMBERS = ("holds", "narrow", "width", "short")


def measured(cell: Cell, draws: int) -> dict[str, list[float]]:
    """So many releases with counts."""
    found: dict[str, list[float]] = {name: [] for name in (*NUMBERS, "recall")}
    with cell.draws(with_counts=True) as draw:
        for answer in (draw() for _ in range(draws)):
            labels, around = list(answer.selection.labels or ()), answer.interval
            found["recall"].append(cell.log.share(labels, cell.k))
            if labels and around is not None:
                values, truth, half = (
                    np.array(answer.selection.values),
                    cell.log.counts[labels],
                    around.half_width,
                )
                low, high = values - half <= truth, values + half >= truth
                of_each = (
                    low & (high | around.at_least),
                    low & high,
                    [2 * half] * len(values),
                    (truth - values) / (2 * half) + 0.5,
                )
                for name, numbers in zip(NUMBERS, of_each, strict=True):
                    found[name].extend(map(float, numbers))
    return found


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One for each log, k and epsilon."""
    for cell in cells(asked):
        found = measured(cell, asked.draws)
        means = {
            name: float(np.mean(held)) if held else float("nan")
            for name, held in found.items()
        }
        yield (
            cell.named
            | {"shown": len(found["holds"])}
            | means
            | {"without": cell.recall(None, asked.draws)[0]}
        )


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{
            "logs": [*LOGS, *OVER_TIME, "zipf:1.1,5000,20000,100"],
            "user": "user_id",
            "item": "item_id",
        },
        **{
            "domain": ["unknown"],
            "k": [10, 100],
            "epsilon": [0.5, 1.0],
            "delta": 1e-6,
            "draws": 10,
        },
    )
    show(lines(asked))
