"""The recall that a plan forecasts, and what releases of a log then find.

    python docs/benchmarks/bench_forecast.py [--logs gowalla nyc tky films messages tky/2
    mine.parquet zipf:1.1,300,2000,10] [--shape zipf:1 log] [--domain unknown public]
        [--k 10 100] [--epsilon 0.5 1 4] [--draws 20] [--user user_id] [--item item_id]

Logs as for bench_recall.py; tky/2 is 1,083 of Tokyo's users, as many as New York's, who have about
as many items and items per user. The forecast of the default for `zipf:1` is told a log's number of
items and users and its mean of items per user, and that for `log` the log itself, as if it were
public: the range that it gives, its mean, and what the default finds in the log. `above`: by how
much the mean is above. `inside`: whether the range, and .05 for chance, has what is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from bench_recall import cells
from harness import options, show
from recall import LOGS, OVER_TIME, Cell, Log

from dpselect.plan import Profile, default_choice
from dpselect.plan.forecast import Forecaster

CHANCE = 0.05


def profile_of(shape: str, log: Log) -> Profile:
    """What a plan is told about a log."""
    if shape == "log":
        sizes, users = np.unique(log.loads, return_counts=True)
        loads = dict(zip(sizes.tolist(), users.tolist(), strict=True))
        return Profile.of_counts(log.counts, public=True, items_per_user=loads)
    mean, exponent = len(log.users) / log.people, float(shape.removeprefix("zipf:"))
    return Profile.zipf(exponent, log.size, log.people, items_per_user=round(mean, 1))


def forecasts(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """How far each forecast is above what the default finds, and what the rows say together."""
    rows: dict[str, list[tuple[float, bool]]] = {shape: [] for shape in asked.shape}
    for cell in cells(asked):
        choice = default_choice(cell.budget, cell.request)
        found, _ = cell.recall(choice, asked.draws)
        for shape in asked.shape:
            row = one(cell, shape, found, asked.draws)
            rows[shape].append((row["above"], row["inside"] == "yes"))
            yield row
    for shape, all_of in rows.items():
        above = np.array([value for value, _ in all_of])
        inside = np.mean([value for _, value in all_of])
        yield (
            f"{shape}: the mean is off by {np.abs(above).mean():.3f} on average,"
            f" {above.max():.3f} too high and {-above.min():.3f} too low at most;"
            f" {inside:.0%} are inside the range"
        )


def one(cell: Cell, shape: str, found: float, draws: int) -> dict[str, Any]:
    """A line: what the forecast says about a cell of which so much is found."""
    choice, profile = (
        default_choice(cell.budget, cell.request),
        profile_of(shape, cell.log),
    )
    start = perf_counter()
    said = Forecaster(profile, cell.domain == "public").forecast(
        choice, cell.k, draws=4 * draws
    )
    seconds = perf_counter() - start
    inside = said.low - CHANCE <= found <= said.high + CHANCE
    told = {
        "forecast": said.low,
        "to": said.high,
        "mean": said.recall,
        "realized": found,
        "above": said.recall - found,
        "inside": "yes" if inside else "no",
    }
    mechanism = type(choice.mechanism).__name__
    return (
        {"shape": shape}
        | cell.named
        | told
        | {"seconds": seconds, "mechanism": mechanism}
    )


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{
            "logs": [*LOGS, *OVER_TIME],
            "user": "user_id",
            "item": "item_id",
            "domain": ("unknown", "public"),
            "shape": ["zipf:1", "log"],
            "k": [10, 100],
        },
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 20},
    )
    show(forecasts(asked))
