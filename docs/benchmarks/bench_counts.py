"""Numbers of users beside a top k: how often all lower bounds of a release hold, how wide intervals
are, what they cost in recall.

    python docs/benchmarks/bench_counts.py [--logs gowalla nyc tky films messages
    zipf:1.1,5000,20000,100] [--k 10 100]
        [--epsilon 0.5 1] [--delta 1e-6] [--draws 10] [--domain unknown public] [--periods 13]

Logs as for bench_recall.py, without those that are absent. Releases are those of
`dpselect topk --with-counts`. The true number is that of distinct users in the log. `all` is the
share of releases in which every low end shown is at most the true number. `holds` is the share of
shown items whose interval holds it: both ends, or the low one where the answer says "at least".
`narrow` is the same for the interval of both ends around a clipped count, whatever the answer says.
`width` is how wide that is, in users; `short` is how far the low end lies below the truth on
average, as a multiple of that width. `recall` is that of releases with counts, and `without` of
those without, by the same budget.

With --periods the releases are those of a series with one budget instead, in periods as of
`recall.in_periods`. `series` is the share of whole series in which every low end holds,
`all` and `first` are the shares of periods, and of first periods. `false` is the share of rows
whose item has no user in the period, and `above` that of these whose low end is above 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_recall import cells
from harness import options, product, show
from recall import LOGS, OVER_TIME, Cell, budget_of, in_periods, load, present

import dpselect as dps
from dpselect.app.continual import state as states
from dpselect.app.continual.horizon import Period, close
from dpselect.app.release.series import HorizonAnswer
from dpselect.sampling import sampler

NUMBERS = ("holds", "narrow", "width", "short")
KINDS: Any = {"user": "int", "item": "int"}


def measured(cell: Cell, draws: int) -> dict[str, list[float]]:
    """So many releases with counts."""
    found: dict[str, list[float]] = {name: [] for name in ("all", *NUMBERS, "recall")}
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
                found["all"].append(float(low.all()))
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


def over_periods(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line for each log, k and epsilon, of series with one budget."""
    for name, domain, k, epsilon in product(asked, "logs", "domain", "k", "epsilon"):
        log, periods = load(name, asked.user, asked.item), asked.periods
        cell = Cell(log, domain, k, budget_of(epsilon, asked.delta))
        names = None if domain == "unknown" else list(range(log.size))
        mechanism = dps.ContinualTopK.fitted(
            cell.budget,
            unknown=names is None,
            candidates=None if names is None else log.size,
            counted=3,
            k=k,
            periods=periods,
        )
        held = np.ones((asked.draws, periods), dtype=np.bool_)
        shown, false, above = 0, 0, 0
        for draw in range(asked.draws):
            rng, released = np.random.default_rng(draw), list[Period]()
            users, items, when = in_periods(name, log, periods, rng)
            state, source = states.State.in_memory(mechanism, names), sampler(rng)
            for at in range(periods):
                new = {"u": users[when == at], "i": items[when == at]}
                state._connection.register("events", new)
                events = states.Events("events", KINDS)
                released.append(Period(at + 1, close(state, at + 1, events, source)))
            truth = np.bincount(when * log.size + items, minlength=periods * log.size)
            answer = HorizonAnswer(mechanism, "", "", 0, tuple(released), None)
            for row in answer.rows:
                true = truth[(row["period"] - 1) * log.size + row["item"]]
                held[draw, row["period"] - 1] &= row["low"] <= true
                shown, false = shown + 1, false + (true == 0)
                above += true == 0 and row["low"] > 0
        yield cell.named | {
            "shown": shown,
            "series": float(held.all(axis=1).mean()),
            "all": float(held.mean()),
            "first": float(held[:, 0].mean()),
            "false": false / max(1, shown),
            "above": above / max(1, false),
        }


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
            "periods": 0,
        },
    )
    asked.logs = present(asked.logs)
    show(over_periods(asked) if asked.periods else lines(asked))
