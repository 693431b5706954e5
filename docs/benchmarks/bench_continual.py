"""Share of the true top k over time: releases that are charged one by one, and one horizon for all
of them; and its cost.

    python docs/benchmarks/bench_continual.py [--logs films mine.parquet] [--user user] [--item
    item] [--time time] [--times 1]
        [--releases 30] [--window 7] [--k 10 100] [--epsilon 1] [--delta 1e-6] [--draws 2] [--domain
        unknown public] [--count period window running]

films is in ../shared/data (see its README), which is not part of the project. Periods are of equal
length, from the first event to the last; a recall is a mean over them, and any item that is tied at
rank k is right. `today` charges each release as if every user were in every one, on counts clipped
to 1; `free` is the same with a `History`; `horizon` is `ContinualTopK` with its defaults, and
`planned` what `dpselect.plan` says of it, told the log's counts and loads. --times makes so many
users of each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA, options, product, show

import accounting as acc
import dpselect as dps
from dpselect.app.continual import state as states
from dpselect.app.continual.horizon import close
from dpselect.plan import Profile, TopKRequest, fitted
from dpselect.sampling import sampler

FILMS = DATA / "times" / "movietweetings100k.parquet"
KINDS: Any = {"user": "int", "item": "int"}
MOST_ITEMS = 20  # of a user, in a release that is charged by itself


def recall(pairs: pd.DataFrame, chosen: Any, k: int) -> float:
    """The share of the true top k that was chosen."""
    counts = pairs["item"].value_counts()
    k = min(k, len(counts))
    return (
        len(set(counts.index[counts >= counts.iloc[k - 1]]) & set((chosen or ())[:k]))
        / k
        if k
        else 0.0
    )


def found(
    log: pd.DataFrame, asked: argparse.Namespace, count: Any, k: int, domain: str
) -> Any:
    """(3,) the mean recall of releases that are charged one by one, of the same with a history, and
    of one horizon.
    """
    budget, window = (
        acc.Budget(epsilon=asked.epsilon, delta=asked.delta),
        asked.window if count == "window" else None,
    )
    names = sorted(set(log["item"].tolist())) if domain == "public" else None
    over = dps.ContinualTopK.fitted(
        budget,
        unknown=names is None,
        k=k,
        periods=asked.releases,
        count=count,
        window=window,
    )
    about: Any = {
        "releases": asked.releases,
        "sensitivity": dps.Sensitivity.of_clipped(1.0, items_per_user=MOST_ITEMS),
    }
    about |= (
        {"candidates": None, "noise": None}
        if names is None
        else {"candidates": len(names), "noise": "gaussian"}
    )
    one: Any = fitted(
        "sparse_histogram" if names is None else "oneshot_top_k",
        budget,
        TopKRequest(k=k, **about),
    )
    one = one.model_copy(
        update={"k": None} if names is None else {"k": len(names), "values": True}
    )
    shares, rng = [], np.random.default_rng(1)
    for draw in range(asked.draws):
        history = dps.continual.History(one, k=k, releases=asked.releases)
        state, source = (
            states.State.in_memory(over, names),
            sampler(np.random.default_rng(draw)),
        )
        for at in range(1, asked.releases + 1):
            new = log[log["period"] == at]
            state._connection.register(
                "events", {"u": new["user"].to_numpy(), "i": new["item"].to_numpy()}
            )
            chosen = [close(state, at, states.Events("events", KINDS), source).labels]
            since = {"period": at, "running": 1, "window": at - asked.window + 1}[count]
            pairs = log.loc[
                log["period"].between(since, at), ["user", "item"]
            ].drop_duplicates()
            if len(pairs):
                how: Any = {
                    "clip": 1.0,
                    "max_items_per_user": MOST_ITEMS,
                    "salt": "bench",
                }
                scores = dps.events.read(pairs, user="user", item="item", **how).scores(
                    names, clip=1.0
                )
                chosen = [
                    one.select(scores, rng=rng).labels,
                    history.select(scores, rng=rng).labels,
                    *chosen,
                ]
            shares.append(
                [recall(pairs, each, k) for each in chosen] if len(pairs) else [0.0] * 3
            )
    return np.mean(shares, axis=0)


def periods(name: str, asked: argparse.Namespace) -> pd.DataFrame:
    """A log with the number of each event's period."""
    log = pd.read_parquet(FILMS if name == "films" else name)[
        [asked.user, asked.item, asked.time]
    ].dropna()
    log.columns = pd.Index(["user", "item", "time"])
    log["user"], log["item"] = (
        pd.factorize(log[column])[0] for column in ("user", "item")
    )
    log = pd.concat(
        [log.assign(user=log["user"] + copy * len(log)) for copy in range(asked.times)],
        ignore_index=True,
    )
    when = (
        log["time"]
        if pd.api.types.is_numeric_dtype(log["time"])
        else pd.to_datetime(log["time"]).astype("int64")
    )
    return log.assign(
        period=(when - when.min()) * asked.releases // (when.max() - when.min() + 1) + 1
    )


def table(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """One line for each log, domain, count and k."""
    errors, budget = [], acc.Budget(epsilon=asked.epsilon, delta=asked.delta)
    for name in asked.logs:
        log = periods(name, asked)
        pairs = log[["user", "item"]].drop_duplicates()
        loads = pairs["user"].value_counts().value_counts()
        per_user = {int(size): float(many) for size, many in loads.items()}
        profile = Profile.of_counts(
            pairs["item"].value_counts(), public=True, items_per_user=per_user
        )
        for domain, count, k in product(asked, "domain", "count", "k"):
            how: Any = {
                "window": asked.window if count == "window" else None,
                "unknown_domain": domain == "unknown",
            }
            plan: Any = dps.plan(
                budget, k, profile=profile, periods=asked.releases, count=count, **how
            )
            planned = plan.expected.recall
            recalls = dict(
                zip(
                    ("today", "free", "horizon"),
                    found(log, asked, count, k, domain).tolist(),
                    strict=True,
                )
            )
            errors.append(abs(planned - recalls["horizon"]))
            yield (
                {
                    "log": Path(name).stem,
                    "items": f"{domain:<8}",
                    "count": f"{count:<7}",
                    "k": k,
                }
                | recalls
                | {"planned": planned}
            )
    yield f"planned and found differ by {np.mean(errors):.3f} on average, {np.max(errors):.3f} at most"  # noqa: E501


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{
            "logs": ["films"],
            "user": "user",
            "item": "item",
            "time": "time",
            "releases": 30,
            "window": 7,
            "k": [10, 100],
        },
        **{
            "epsilon": 1.0,
            "delta": 1e-6,
            "draws": 2,
            "times": 1,
            "domain": ("unknown", "public"),
        },
        count=("period", "window", "running"),
    )
    show(table(asked))
