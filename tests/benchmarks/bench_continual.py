"""Share of the true top k over time: releases that are charged one by one, and one horizon for all of them; and its scale.

    python tests/benchmarks/bench_continual.py [--logs films mine.parquet] [--user user] [--item item] [--time time]
        [--releases 30] [--window 7] [--k 10 100] [--epsilon 1] [--delta 1e-6] [--draws 2] [--domain unknown public]
        [--count period window running] [--times 1] [--planned]
    python tests/benchmarks/bench_continual.py --year 100000
    python tests/benchmarks/bench_continual.py --scale 1000000 --releases 30

films is in ../shared/data (see its README), which is not part of the project. Periods are of equal length, from the first event
to the last. A recall is a mean over the releases; with ties at rank k any tied item is right. `today` charges each release as if
every user were in every one: `SparseHistogram` (one-shot Gaussian noise on a public domain) on counts clipped to 1. `horizon` is
`ContinualTopK` with its defaults. `free` is today's releases with a `History`, and
 `planned` what `plan_horizon` says of the horizon. --times makes so many users of each; --planned simulates all
three in place of releasing. Draws are seeded. --scale closes periods
of so many events, users and items that are made up, and prints the CPU of a period as a multiple of reading its events as `topk`
reads them (pairs, then counts with each user clipped), the peak of memory and the size of the state.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from harness import options, product

import accounting as acc
import dpselect as dps
from dpselect.continual import state as states
from dpselect.continual.horizon import close
from dpselect.plan import Arrivals, HorizonPlan, Profile, TopKRequest, fitted, plan_horizon
from dpselect.sampling import sampler

FILMS = Path(__file__).resolve().parents[3] / "shared" / "data" / "times" / "movietweetings100k.parquet"
KINDS: Any = {"user": "int", "item": "int"}
MOST_ITEMS = 20  # of a user, in a release that is charged by itself


def periods_of(log: pd.DataFrame, releases: int) -> np.ndarray:
    """(events,) the period of each event, from 1 on."""
    first, last = log["time"].min(), log["time"].max()
    return np.asarray((log["time"] - first) * releases // (last - first + 1) + 1)


def seen(log: pd.DataFrame, period: np.ndarray, at: int, count: str, window: int) -> pd.DataFrame:
    """The distinct pairs that a release at the end of period `at` counts."""
    since = {"period": at, "running": 1, "window": at - window + 1}[count]
    return log.loc[(period >= since) & (period <= at), ["user", "item"]].drop_duplicates()


def recall(pairs: pd.DataFrame, chosen: Any, k: int) -> float:
    """The share of the true top k that was chosen."""
    counts = pairs["item"].value_counts()
    if counts.empty:
        return 0.0
    k = min(k, len(counts))
    right = set(counts.index[counts >= counts.iloc[k - 1]].tolist())
    return len(right & set(chosen)) / k


def horizon(log: pd.DataFrame, period: np.ndarray, asked: argparse.Namespace, count: Any, k: int, domain: str) -> float:
    """The mean recall of one horizon."""
    names = sorted(set(log["item"].tolist())) if domain == "public" else None
    settings = {"k": k, "periods": asked.releases, "count": count, "window": asked.window if count == "window" else None}
    budget = acc.Budget(epsilon=asked.epsilon, delta=asked.delta)
    mechanism = dps.ContinualTopK.fitted(budget, unknown=names is None, **settings)
    found = []
    for draw in range(asked.draws):
        state, source = states.State.in_memory(mechanism, names), sampler(np.random.default_rng(draw))
        for at in range(1, asked.releases + 1):
            new = log[period == at]
            state._connection.register("events", {"u": new["user"].to_numpy(), "i": new["item"].to_numpy()})
            chosen = close(state, at, ["events"], KINDS, source).labels
            found.append(recall(seen(log, period, at, count, asked.window), chosen or (), k))
    return float(np.mean(found))


def one_by_one(
    log: pd.DataFrame, period: np.ndarray, asked: argparse.Namespace, count: str, k: int, domain: str
) -> tuple[float, float]:
    """The mean recall of releases that are charged one by one, and with a memory of what was shown."""
    names = sorted(set(log["item"].tolist())) if domain == "public" else None
    sensitivity = dps.Sensitivity.of_clipped(1.0, items_per_user=MOST_ITEMS)
    size = None if names is None else len(names)
    request = TopKRequest(
        k=k, sensitivity=sensitivity, releases=asked.releases, candidates=size, noise=None if names is None else "gaussian"
    )
    kind = "sparse_histogram" if names is None else "oneshot_top_k"
    mechanism: Any = fitted(kind, acc.Budget(epsilon=asked.epsilon, delta=asked.delta), request)
    if names is None:
        mechanism = mechanism.model_copy(update={"k": None})
    today, free, rng = [], [], np.random.default_rng(1)
    if size is not None:
        mechanism = mechanism.model_copy(update={"k": size, "values": True})
    histories = [dps.continual.History(mechanism, k=k, releases=asked.releases) for _ in range(asked.draws)]
    for at in range(1, asked.releases + 1):
        pairs = seen(log, period, at, count, asked.window)
        if pairs.empty:
            today.append(0.0)
            free.append(0.0)
            continue
        options: Any = {"clip": 1.0, "max_items_per_user": MOST_ITEMS, "salt": "bench"}
        scores = dps.events.read(pairs, user="user", item="item", **options).scores(names, clip=1.0)
        for draw in range(asked.draws):
            drawn = mechanism.select(scores, rng=rng)
            today.append(recall(pairs, (drawn.labels or ())[:k], k))
            free.append(recall(pairs, (histories[draw].select(scores, rng=rng).labels or ())[:k], k))
    return float(np.mean(today)), float(np.mean(free))


def planned(log: pd.DataFrame, period: np.ndarray, asked: argparse.Namespace, count: Any, k: int, domain: str) -> HorizonPlan:
    """What a plan says of this log, for the default bound on users."""
    numbers = [pd.factorize(log[name])[0].astype(np.int64) for name in ("user", "item")]
    arrivals = Arrivals(numbers[0], numbers[1], period.astype(np.int64), asked.releases)
    profile = replace(Profile.typical(), description="the log", arrivals=arrivals)
    budget, window = acc.Budget(epsilon=asked.epsilon, delta=asked.delta), asked.window if count == "window" else None
    unknown, clips = domain == "unknown", [dps.continual.HorizonClip()]
    return plan_horizon(budget, k, profile, count=count, window=window, unknown=unknown, clips=clips)


def table(asked: argparse.Namespace) -> Iterator[str]:
    """The lines of the table, one for each log, domain, count and k."""
    yield f"({asked.epsilon:g}, {asked.delta:g}) for all of {asked.releases} releases; mean share of the true top k"
    yield f"{'log':22} {'domain':8} {'count':8} {'k':>4} {'today':>6} {'free':>6} {'horizon':>8} {'planned':>8}"
    errors = []
    for name in asked.logs:
        log = pd.read_parquet(FILMS if name == "films" else name).rename(
            columns={asked.user: "user", asked.item: "item", asked.time: "time"}
        )
        log = log[["user", "item", "time"]].dropna()
        if not pd.api.types.is_numeric_dtype(log["time"]):
            log["time"] = pd.to_datetime(log["time"]).astype("int64")
        if asked.times > 1:
            user = pd.factorize(log["user"])[0]
            log = pd.concat([log.assign(user=user + copy * (user.max() + 1)) for copy in range(asked.times)], ignore_index=True)
        period = periods_of(log, asked.releases)
        for domain, count, k in product(asked, "domain", "count", "k"):
            what = (log, period, asked, count, k, domain)
            outlook = planned(*what)
            today, free = (float(np.mean(recalls)) for recalls in (outlook.one_by_one, outlook.remembered))
            shown = ""
            if not asked.planned:
                (today, free), found = one_by_one(*what), horizon(*what)
                errors.append(abs(outlook.mean - found))
                shown = f"{found:.2f}"
            yield f"{Path(name).stem:22} {domain:8} {count:8} {k:4} {today:6.2f} {free:6.2f} {shown:>8} {outlook.mean:8.2f}"
    if errors:
        yield f"planned and found differ by {np.mean(errors):.3f} on average, {np.max(errors):.3f} at most"


def scale(asked: argparse.Namespace) -> Iterator[str]:
    """A line for each period, or for 30 of them: CPU as a multiple of reading, peak memory, bytes of state per item and pair."""
    size, last, rng = asked.scale, asked.releases, np.random.default_rng(0)
    mechanism = dps.ContinualTopK(k=100, periods=last, count="running", scale=6.0, delta=1e-6)
    yield f"{size:,} events, users and items (of popularity 1/rank); a running count over {last} periods"
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = acc.Ledger.open(f"sqlite:///{folder}/ledger.db")
        ledger.create_dataset("log", acc.Budget(epsilon=4.0, delta=1e-5), "add_remove")
        opened = dps.Session(ledger, "log").continual(mechanism, state=f"{folder}/state", key="bench")
        for at in range(1, last + 1):
            path = Path(folder) / "events.parquet"
            items = np.floor(float(size) ** rng.random(size)).astype(np.int64)
            pd.DataFrame({"u": rng.integers(0, size, size), "i": items}).to_parquet(path)
            begun = time.process_time()
            with dps.events.pairs(path, user="u", item="i") as log, log.hold(clip=1.0):
                read = time.process_time() - begun
            begun = time.process_time()
            opened.close(at, path, user="u", item="i")
            closed = time.process_time() - begun
            costs.append((closed, read))
            if at % -(-last // 30) and at != last:
                continue
            with states.State.opened(Path(folder) / "state") as state:
                rows = state.number_of_items() + int(state._used().sum())
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            held = (Path(folder) / "state").stat().st_size
            cost = f"{closed / read:5.1f} x reading ({closed:.2f} s of CPU), {peak:.2f} GiB"
            yield f"period {at:3}: {cost}, {held / rows:5.0f} bytes a row of {rows:,}"
    closed, read = np.sum(costs, axis=0)
    yield f"all periods: {closed / read:.1f} x reading ({closed / last:.2f} s of CPU)"


def year(asked: argparse.Namespace) -> Iterator[str]:
    """What a bound for a whole year costs at the utility of releases that bound a user per day, in Wikimedia's shape: rho .015 a
    day for at most 10 pages of a user, pages public, shown from a noisy 90 users on. The page views are made up.
    """
    days, pages, least, daily = 365, 10, 90, 0.015
    log = Profile.zipf(1.0, 20_000, asked.year, items_per_user=40.0).arriving(days, active=0.05).arrivals
    assert log is not None
    views = pd.DataFrame({"u": log.users, "i": log.items, "p": log.periods}).drop_duplicates().sample(frac=1, random_state=0)
    views = views[views.groupby(["u", "p"]).cumcount() < pages].sort_values("p", kind="stable")
    noise, rng = float(np.sqrt(pages / (2 * daily))), np.random.default_rng(1)
    true = views.groupby(["p", "i"]).size()
    place, shown = views.groupby("u").cumcount(), true[true >= least]

    def found(counts: pd.Series) -> float:
        kept = counts.reindex(shown.index, fill_value=0) + noise * rng.standard_normal(len(shown))
        return float((kept >= least).mean())

    yield f"{len(views):,} page views of {asked.year:,} users in a year; {len(shown):,} pages of a day have {least} users"
    for visits in (1, 18, days):
        price = acc.best_epsilon(acc.GaussianDP(mu=float(np.sqrt(2 * daily * visits))), asked.delta).value
        yield f"by day: found {found(true):.2f}; epsilon {price:6.2f} at {asked.delta:g} for who is there on {visits} days"
    for cells in (20, 50, 100, 300, 1000):
        mechanism = dps.ContinualTopK(
            k=1, periods=days, scale=noise / np.sqrt(cells), users=dps.continual.HorizonClip(exponent=0, cells=cells)
        )
        counts = views[place < cells].groupby(["p", "i"]).size()
        price = acc.best_epsilon(mechanism.curve, asked.delta).value
        yield f"by year, {cells:4} page views of a user: found {found(counts):.2f}; epsilon {price:6.2f} for everybody, all year"


def main() -> None:
    """Print the table."""
    asked = options(
        __doc__,
        **{"logs": ["films"], "user": "user", "item": "item", "time": "time", "releases": 30, "window": 7, "k": [10, 100]},
        **{"epsilon": 1.0, "delta": 1e-6, "draws": 2, "times": 1, "planned": False, "year": 0, "scale": 0},
        domain=("unknown", "public"),
        count=("period", "window", "running"),
    )
    for line in (scale if asked.scale else year if asked.year else table)(asked):
        print(line, flush=True)


if __name__ == "__main__":
    main()
