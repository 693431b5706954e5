"""Share of the true top k that releases find: the default, other mechanisms, and plain NumPy.

    python docs/benchmarks/bench_recall.py [--logs gowalla nyc tky films messages mine.parquet
    zipf:1.1,5000,20000,100]
        [--domain unknown public] [--k 10 50 100] [--epsilon 0.5 1 4] [--delta 1e-6] [--draws 40]
        [--user user_id] [--item item_id]

The named logs are in ../shared/data (see its README), which is not part of the project. Any other
is named by path, Parquet or CSV with a column of users and one of items;
zipf:EXPONENT,ITEMS,USERS,MOST is made up, users with 1 to MOST items.

One release spends the whole budget. The executor draws, unseeded; a recall is a mean until its
standard error is .01 or there are --draws; with ties at rank k any tied item is right. `one round`
clips users to a norm of 1; `selection` is LimitedDomain with kbar 5 k, or Gumbel noise where items
are public. `numpy` is what twenty lines do: users clipped to an l2 norm of 1, Gaussian noise by the
analytic formula, a threshold where items are unknown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pandas as pd
from harness import options, product, show
from recall import LOGS, Cell, budget_of, load

import dpselect as dps
from dpselect.plan.default import GENEROUS, Choice
from dpselect.plan.fit import fitted

WIDTH = 5


def cells(asked: argparse.Namespace) -> Iterator[Cell]:
    """One for each line."""
    for name, domain, k, epsilon in product(asked, "logs", "domain", "k", "epsilon"):
        yield Cell(
            load(name, asked.user, asked.item),
            domain,
            k,
            budget_of(epsilon, asked.delta),
        )


def others(cell: Cell) -> Iterator[tuple[str, Choice]]:
    """Names and choices that the default is compared with; of the same name the best counts."""

    def fit(kind: str, **about: Any) -> dps.Mechanism:
        return fitted(kind, cell.budget, cell.request.model_copy(update=about))

    public = cell.domain == "public"
    most = None if public else GENEROUS
    one = dps.Sensitivity.of_clipped(1.0, "l2", items_per_user=most)
    vector = fit(
        "OneshotTopK" if public else "SparseHistogram",
        noise="gaussian",
        sensitivity=one,
    )
    yield "one round", Choice(vector, most, 1.0)
    if public:
        yield "selection", Choice(fit("OneshotTopK", noise="gumbel"), None)
    else:
        yield (
            "selection",
            Choice(
                fit("LimitedDomain", kbar=min(WIDTH * cell.k, cell.log.size - 1)), None
            ),
        )


def line(cell: Cell, draws: int) -> dict[str, Any]:
    """All of one cell."""
    found = {"default": cell.recall(None, draws)}
    for name, choice in others(cell):
        found[name] = max(found.get(name, (0.0, 0.0)), cell.recall(choice, draws))
    found["numpy"] = cell.mean(cell.plain(), draws)
    recalls = {name: recall for name, (recall, _) in found.items()}
    return cell.named | recalls | {"error": max(error for _, error in found.values())}


def table(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """Print the lines, then the means of each domain and k."""
    lines = []
    for cell in cells(asked):
        lines.append(line(cell, asked.draws))
        yield lines[-1]
    ways = [
        name
        for name in lines[0]
        if name not in ("log", "items", "k", "epsilon", "error")
    ]
    means = pd.DataFrame(lines).groupby(["items", "k"])[ways].mean()
    yield from (
        {"log": "mean", **row} for row in means.reset_index().to_dict("records")
    )


def main() -> None:
    asked = options(
        __doc__,
        **{
            "logs": LOGS,
            "user": "user_id",
            "item": "item_id",
            "domain": ("unknown", "public"),
            "k": [10, 50, 100],
        },
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 40},
    )
    show(table(asked))


if __name__ == "__main__":
    main()
