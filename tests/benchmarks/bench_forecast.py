"""What a plan on a made-up shape says and what then comes out.

    python tests/benchmarks/bench_forecast.py [--logs gowalla nyc tky films mine.parquet zipf:1.1,300,2000,10]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--user user_id] [--item item_id]

Logs as for bench_recall.py. A plan on `zipf:1` is told a log's number of items and users and its mean of items per user; the
range that it forecasts, their mean, and what its mechanism finds in the log. `above`: by how much the mean is above that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_recall import as_choice, cells
from harness import options, show
from recall import LOGS

from dpselect.plan import Profile
from dpselect.plan.asked import plan


def forecasts(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """How far each plan's mean is above what its mechanism finds, and what its rows say together."""
    above = []
    for cell in cells(asked):
        log, unknown = cell.log, cell.domain == "unknown"
        guess = Profile.zipf(1.0, log.size, log.people, items_per_user=round(len(log.users) / log.people, 1))
        best = plan(cell.budget, cell.k, profile=guess, unknown_domain=unknown, rounds=400).recommended
        found, _ = cell.recall(as_choice(best), asked.draws)
        low, high = best.forecast or (best.expected, best.expected)
        above.append(best.expected - found)
        told = {"forecast": low, "to": high, "mean": best.expected, "realised": found, "above": above[-1]}
        yield cell.named | told | {"mechanism": best.name}
    off = f"{np.mean(np.abs(above)):.3f} on average, {max(above):.3f} too high and {-min(above):.3f} too low at most"
    yield f"the mean is off by {off}"


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{"logs": LOGS, "user": "user_id", "item": "item_id", "domain": ("unknown", "public"), "k": [10, 100]},
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 20},
    )
    show(forecasts(asked))
