"""Share of the true top k that releases find: the default, a plan, the best configuration in hindsight, and plain NumPy.

    python tests/benchmarks/bench_recall.py [--logs gowalla nyc tky films messages mine.parquet zipf:1.1,5000,20000,100]
        [--domain unknown public] [--k 10 50 100] [--epsilon 0.5 1 4] [--delta 1e-6 | 0] [--draws 40]
        [--user user_id] [--item item_id] [--no-plan] [--vary] [--rounds]

The named logs are in ../shared/data (see its README), which is not part of the project. Any other is named by path, Parquet or
CSV with a column of users and one of items; zipf:EXPONENT,ITEMS,USERS,MOST is made up, users with 1 to MOST items.

One release spends the whole budget; --delta 0 asks for pure budgets. The executor draws, unseeded; a recall is a mean until its
standard error is .01 or there are --draws; with ties at rank k any tied item is right. `assumed` is what `dpselect topk` does
where nothing is declared, `declared` where it is told the number of users and the mean of items per user. The plan is made on the
log itself, taken as public: `predicted` is its word, `plan` what draws of its mechanism find. `best` is the highest of all, found
on other draws: what the default and the plan consider, one noisy vector with a finer grid of clips and bounds, and LimitedDomain
with several kbar. `numpy` is what twenty lines do: users clipped to an l2 norm of 1, Gaussian noise by the analytic formula, a
threshold where items are unknown; with a pure budget an l1 norm and Laplace noise. `--vary` prints what the default finds with
other settings of its own, where users' quantiles are known. `--rounds` prints what the default finds without two rounds, with
nothing else, and as it is.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from harness import options, product, show
from recall import LOGS, Cell, budget_of, load

import dpselect as dps
from dpselect.plan import PlannedMechanism, Profile
from dpselect.plan import candidates as default
from dpselect.plan import profile as profiles
from dpselect.plan.candidates import GENEROUS, Candidates, Choice, default_choice
from dpselect.plan.fit import fitted
from dpselect.plan.profile import SHARES

CLIPS = (0.7071, 1.0, 1.1892, 1.4142, 2.0, 2.8284, 4.0, 8.0, 16.0)
LIMITS, WIDTHS = (1, 3, 10, 30), (1, 2, 5, 20, 100)
SCREEN, FINALISTS = 3, 4
Rows = Iterator[dict[str, Any] | str]


def cells(asked: argparse.Namespace) -> Iterator[Cell]:
    """One for each line."""
    for name, domain, k, epsilon in product(asked, "logs", "domain", "k", "epsilon"):
        yield Cell(load(name, asked.user, asked.item), domain, k, budget_of(epsilon, asked.delta))


def considered(cell: Cell) -> Iterator[Choice]:
    """What may be the best in hindsight, each with the noise that spends the budget."""
    pure, public = cell.budget.delta == 0, cell.domain == "public"
    yield from Candidates.of(cell.budget, cell.request).choices

    def fit(kind: str, **about: Any) -> dps.Mechanism:
        return fitted(kind, cell.budget, cell.request.model_copy(update=about))

    noise, norm = ("laplace", "l1") if pure else ("gaussian", "l2")
    one, most = ("OneshotTopK", None) if public else ("SparseHistogram", GENEROUS)
    for clip in CLIPS:
        bounds = dps.Sensitivity.of_clipped(clip, norm, items_per_user=most)
        yield Choice(fit(one, noise=noise, sensitivity=bounds), most, clip, norm)
    for limit in LIMITS:
        yield Choice(fit(one, noise=noise, sensitivity=dps.Sensitivity.of_counts(items_per_user=limit)), limit)
    whole = [("OneshotTopK", "gumbel")] * public + [("PeelingTopK", "exponential"), ("CanonicalTopK", "gumbel")] * pure
    yield from (Choice(fit(kind, noise=noise), None) for kind, noise in whole)
    for kbar in () if pure else sorted({min(width * cell.k, cell.log.size - 1) for width in WIDTHS}):
        yield Choice(fit("LimitedDomain", kbar=kbar), None)


def as_choice(one: PlannedMechanism) -> Choice:
    """What a plan says, to be drawn from."""
    return Choice(one.mechanisms[0], one.max_items_per_user, one.clip, one.norm, one.again)


def line(cell: Cell, shape: Profile | None, draws: int) -> dict[str, Any]:
    """All of one cell. The best is chosen on some draws and judged on others, with the default and the plan among the judged."""
    log, unknown = cell.log, cell.domain == "unknown"
    plan = None if shape is None else dps.plan(cell.budget, cell.k, profile=shape, unknown_domain=unknown)
    found = [*considered(cell), *map(as_choice, () if plan is None else plan.ranked[:6])]
    found.sort(key=lambda choice: -cell.recall(choice, SCREEN)[0])
    judged = {
        "declared": cell.recall(None, draws, users=log.people, items_per_user=len(log.users) / log.people),
        "assumed": cell.recall(None, draws),
        **({} if plan is None else {"plan": cell.recall(as_choice(plan.recommended), draws)}),
        "numpy": cell.mean(cell.plain(), draws),
    }
    best = {choice: cell.recall(choice, draws) for choice in found[:FINALISTS]}
    every, first = [*judged.values(), *best.values()], max(best, key=lambda choice: best[choice][0])
    recalls = {name: recall for name, (recall, _) in judged.items()} | {"best": max(recall for recall, _ in every)}
    predicted = {} if plan is None else {"predicted": plan.recommended.quality.recall.value}
    bound = "" if first.clip is None else f" C={first.clip:g}"
    return cell.named | recalls | predicted | {"error": max(error for _, error in every), "is": first.mechanism.kind + bound}


def table(asked: argparse.Namespace) -> Rows:
    """The table, and what the goals are about."""
    lines, shape = list[dict[str, Any]](), None
    for log, some in itertools.groupby(cells(asked), lambda cell: cell.log):
        if not asked.no_plan:
            with tempfile.TemporaryDirectory() as folder:
                pq.write_table(log.table, path := Path(folder) / "log.parquet")
                shape = Profile.of_log(path, user="user", item="item", public=True)
        for cell in some:
            lines.append(line(cell, shape, asked.draws))
            yield lines[-1]
    for domain, rows in pd.DataFrame(lines).groupby("items"):
        for name in ("declared", "assumed", "numpy", *({"plan"} & {*rows})):
            behind = rows["best"] - rows[name]
            mean, most = behind.mean(), behind.max()
            yield f"{domain}: {name} finds {rows[name].mean():.3f}; behind the best by {mean:.3f} on average, {most:.3f} at most"
        ahead = rows[rows["numpy"] > rows["assumed"] + np.maximum(0.02, 3 * rows["error"])]
        yield f"{domain}: plain NumPy is ahead of the default in {len(ahead)} of {len(rows)} cells"
        if "plan" in rows:
            off = (rows["predicted"] - rows["plan"]).abs()
            yield f"{domain}: predicted and realised are {off.mean():.3f} apart on average, {off.max():.3f} at most (goal: .03)"


VARIED: dict[str, tuple[str, Any]] = {
    "FEW=0": ("FEW", 0),
    "_CLOSE=0": ("_CLOSE", 0.0),
    "_CLOSE=.02": ("_CLOSE", 0.02),
    "_LOWER none": ("_LOWER", ()),
    "_SHARES .85": ("_SHARES", (0.85,)),
    "_TIMES 3": ("_TIMES", 3.0),
    "exponents .6 .8": ("EXPONENTS", (0.6, 0.8)),
    "exponents .4 .6 .8 .9": ("EXPONENTS", (0.4, 0.6, 0.8, 0.9)),
}


def vary(asked: argparse.Namespace) -> Rows:
    """By each of `VARIED`: mean, least and greatest change of recall, and how many cells find another share by another choice."""
    more: dict[str, list[float]] = {name: [] for name in VARIED}
    for cell in cells(asked):
        quantiles: Any = tuple(np.quantile(cell.log.loads, SHARES).tolist())
        profile = Profile.of_quantiles(float(cell.log.people), quantiles)
        usual = default_choice(cell.budget, cell.request, profile=profile)
        for way, (name, value) in VARIED.items():
            with mock.patch.object(profiles if name == "EXPONENTS" else default, name, value):
                other = default_choice(cell.budget, cell.request, profile=profile)
            recalls = [0.0, 0.0] if other == usual else [cell.recall(one, asked.draws)[0] for one in (other, usual)]
            more[way].append(recalls[0] - recalls[1])
    for way, found in more.items():
        changes = {"mean": float(np.mean(found)), "least": min(found), "greatest": max(found)}
        yield {"setting": way, **changes, "changed": int(np.count_nonzero(found)), "cells": len(found)}


def rounds(asked: argparse.Namespace) -> Rows:
    """Each cell as the default chooses without two rounds, with nothing else, and from all; and the means."""
    rows = []
    for cell in cells(asked):
        candidates, found = Candidates.of(cell.budget, cell.request), {}
        choices = candidates.choices
        twice = [one for one in choices if isinstance(one.mechanism, dps.TwoRoundHistogram)]
        for name, some in (("one", [one for one in choices if one not in twice]), ("two", twice), ("both", choices)):
            only = replace(candidates, choices=tuple(some))
            found[name] = cell.recall(only.best(Profile.typical()), asked.draws)[0]
        rows.append(cell.named | found)
        yield rows[-1]
    means = pd.DataFrame(rows).groupby(["items", "epsilon"])[["one", "two", "both"]].mean()
    yield from ({"log": "mean", "k": "", **row} for row in means.reset_index().to_dict("records"))


def main() -> None:
    asked = options(
        __doc__,
        **{"logs": LOGS, "user": "user_id", "item": "item_id", "domain": ("unknown", "public"), "k": [10, 50, 100]},
        **{"epsilon": [0.5, 1.0, 4.0], "delta": 1e-6, "draws": 40, "no_plan": False, "vary": False, "rounds": False},
    )
    if asked.delta == 0:
        asked.domain = ["public"]
    show((rounds if asked.rounds else vary if asked.vary else table)(asked))


if __name__ == "__main__":
    main()
