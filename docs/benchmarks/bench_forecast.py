"""What a forecast on a made-up shape says and what then comes out.

    python docs/benchmarks/bench_forecast.py [--logs gowalla nyc tky films mine.parquet
    zipf:1.1,300,2000,10]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--user user_id] [--item item_id]

Logs as for bench_recall.py. The forecast of the default on `zipf:1` is told a log's number of items
and users and its mean of items per user; the range that it gives, its mean, and what the default
finds in the log. `above`: by how much the mean is above.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from bench_recall import cells
from harness import options, show
from recall import LOGS

from dpselect.plan import Profile, default_choice
from dpselect.plan.forecast import Forecaster


def forecasts(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """How far each forecast is above what the default finds, and what the rows say together."""
    above = []
    for cell in cells(asked):
        log, choice = cell.log, default_choice(cell.budget, cell.request)
        guess = Profile.zipf(
            1.0,
            log.size,
            log.people,
            items_per_user=round(len(log.users) / log.people, 1),
        )
        start = perf_counter()
        said = Forecaster(guess, cell.domain == "public").forecast(
            choice, cell.k, draws=4 * asked.draws
        )
        seconds = perf_counter() - start
        found, _ = cell.recall(choice, asked.draws)
        above.append(said.recall - found)
        told = {
            "forecast": said.low,
            "to": said.high,
            "mean": said.recall,
            "realized": found,
            "above": above[-1],
        }
        yield (
            cell.named
            | told
            | {"seconds": seconds, "mechanism": type(choice.mechanism).__name__}
        )
    off = f"{np.mean(np.abs(above)):.3f} on average, {max(above):.3f} too high and {-min(above):.3f} too low at most"  # noqa: E501
    yield f"the mean is off by {off}"


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{
            "logs": LOGS,
            "user": "user_id",
            "item": "item_id",
            "domain": ("unknown", "public"),
            "k": [10, 100],
        },
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 20},
    )
    show(forecasts(asked))
