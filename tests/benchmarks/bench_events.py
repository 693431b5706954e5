"""An event log to distinct users per item: CPU, wall time and peak memory, each reading in a process of its own.

    python tests/benchmarks/bench_events.py [--events 50000000] [--baseline 5000000] [--items 1000000] [--bound 20] [--texts]
        [--groups 10000] [--group-items 10000]

The log is Parquet with integer ids: items by a Zipf-like law, users shuffled. Polars counts the same log by its streaming engine,
without a bound. Another baseline, pandas' read_parquet, drop_duplicates and groupby, runs on a smaller log, since it holds
everything in memory; dpselect runs on that log too, for the ratio. A third log, of the smaller size, has groups; each user is in
three of them or fewer. With --texts the smaller log is also read with ids of 8 and of 32 characters, by dpselect and by Polars.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_CHUNK = 2_000_000


@dataclass(frozen=True)
class Cost:
    """What one reading took; `checksum` is the same for readings that found the same counts."""

    cpu: float
    wall: float
    peak: float
    checksum: int


def write_log(path: Path, events: int, items: int) -> None:
    """A synthetic log in chunks, so that writing it needs little memory."""
    rng = np.random.default_rng(1)
    names = rng.permutation(items)
    schema = pa.schema([("user_id", pa.int64()), ("item_id", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, events, _CHUNK):
            size = min(_CHUNK, events - start)
            # floor(items^U) - 1 has density proportional to 1/rank.
            ranks = np.minimum(items ** rng.random(size), items).astype(np.int64) - 1
            writer.write_table(pa.table([rng.integers(0, max(events // 25, 1), size), names[ranks]], schema=schema))


def write_groups(path: Path, events: int, groups: int, items: int) -> None:
    """A log with a group for every event: of a user's own three."""
    rng = np.random.default_rng(2)
    users = rng.integers(0, max(events // 25, 1), events)
    towns = (users * 7919 + rng.integers(0, 3, events) ** 2 * 104729) % groups
    ranks = np.minimum(items ** rng.random(events), items).astype(np.int64) - 1
    pq.write_table(pa.table({"user_id": users, "group_id": towns, "item_id": (ranks * 7 + towns) % items}), path)


def by_group(path: Path, _: int | None) -> int:
    """Counts per group and item, three groups per user, by `dpselect.events.read`."""
    return len(_grouped(path).counts)


def released_by_group(path: Path, items: int | None) -> int:
    """The same, and the top 10 of every group of a public catalogue by `PerGroup`."""
    import dpselect as dps

    mechanism = dps.PerGroup(mechanism=dps.OneshotTopK(k=10, noise="gumbel", scale=20.0), max_groups_per_user=3)
    counts = _grouped(path)
    return len(mechanism.select(counts.scores(range(items or 1)))) and len(counts.counts)


def _grouped(path: Path) -> Any:
    from dpselect import events

    groups = range(int(pq.read_table(path, columns=["group_id"])["group_id"].to_numpy().max()) + 1)
    columns = {"user": "user_id", "item": "item_id", "group": "group_id"}
    return events.read(path, **columns, groups=groups, max_groups_per_user=3, salt="benchmark")


def pandas_by_group(path: Path, _: int | None) -> int:
    """Counts per group and item by pandas, in memory, without any bound."""
    import pandas as pd

    return len(pd.read_parquet(path).drop_duplicates().groupby(["group_id", "item_id"]).size())


def with_dpselect(path: Path, bound: int | None) -> int:
    """Counts by `dpselect.events.read`."""
    from dpselect import events

    found = events.read(
        path, user="user_id", item="item_id", max_items_per_user=bound, salt=None if bound is None else "benchmark"
    )
    return _checksum(np.array(found.labels), found.counts)


def with_clips(path: Path, bound: int | None) -> int:
    """Counts and counts clipped to two norms, by `dpselect.events.read`."""
    from dpselect import events

    clips = (1.0, 2**0.5)
    found = events.read(
        path, user="user_id", item="item_id", clip=clips, max_items_per_user=bound, salt=None if bound is None else "benchmark"
    )
    return _checksum(np.array(found.labels), found.counts)


def with_polars(path: Path, _: int | None) -> int:
    """Counts by Polars, streaming."""
    import polars as pl

    pairs = pl.scan_parquet(path).select("user_id", "item_id").unique()
    counts = pairs.group_by("item_id").len().collect(engine="streaming")
    return _checksum(counts["item_id"].to_numpy(), counts["len"].to_numpy())


def write_texts(source: Path, target: Path, length: int) -> None:
    """The same log with ids that are texts."""
    import duckdb

    text = "lpad(CAST({0} AS VARCHAR), 8, '0') AS {0}" if length == 8 else "md5(CAST({0} AS VARCHAR)) AS {0}"
    texts = ", ".join(text.format(name) for name in ("user_id", "item_id"))
    duckdb.sql(f"COPY (SELECT {texts} FROM '{source}') TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def with_pandas(path: Path, _: int | None) -> int:
    """Counts by pandas, in memory."""
    import pandas as pd

    counts = pd.read_parquet(path).drop_duplicates().groupby("item_id").size()
    return _checksum(counts.index.to_numpy(), counts.to_numpy())


def measured(read: Callable[[Path, int | None], int], path: Path, bound: int | None = None) -> Cost:
    """Run `read` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(read, path, bound, sender))
    child.start()
    sender.close()
    cost: Cost = receiver.recv()
    child.join()
    return cost


def _child(read: Callable[[Path, int | None], int], path: Path, bound: int | None, sender: object) -> None:
    start = time.perf_counter()
    checksum = read(path, bound)
    wall = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024
    sender.send(Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * unit / 2**30, checksum))  # type: ignore[attr-defined]


def _checksum(labels: np.ndarray, counts: np.ndarray) -> int:
    if labels.dtype.kind in "UO":
        labels = np.array([int(str(label)[:15], 16) for label in labels], dtype=np.uint64)
    return int(np.sum((labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ counts.astype(np.uint64)))


def _line(name: str, events: int, cost: Cost) -> None:
    print(f"{name:<42} {events:>12,} {cost.cpu:>8.1f} {cost.wall:>8.1f} {cost.peak:>10.2f}")


def _compare_texts(integers: Path, events: int, bound: int) -> None:
    """The same events with integers and with texts."""
    ours = (("dpselect", with_dpselect, None), (f"{bound} items per user", with_dpselect, bound))
    for name, read, most in (*ours, ("Polars", with_polars, None)):
        plain = measured(read, integers, most)
        _line(f"integers, {name}", events, plain)
        for length in (8, 32):
            texts = integers.with_name(f"texts{length}.parquet")
            if not texts.exists():
                write_texts(integers, texts, length)
            cost = measured(read, texts, most)
            _line(f"texts of {length}, {name}: {cost.cpu / plain.cpu:.2f} of integers", events, cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--baseline", type=int, default=5_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--bound", type=int, default=20)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--group-items", type=int, default=10_000)
    parser.add_argument("--texts", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.parquet", Path(folder) / "small.parquet"
        write_log(large, options.events, options.items)
        write_log(small, options.baseline, options.items)
        print(f"{'':<42} {'events':>12} {'CPU s':>8} {'wall s':>8} {'peak GiB':>10}")
        plain = measured(with_dpselect, large)
        _line("dpselect.events.read", options.events, plain)
        polars = measured(with_polars, large)
        _line("Polars, streaming", options.events, polars)
        if polars.checksum != plain.checksum:
            raise SystemExit("dpselect and Polars disagree on the counts")
        _line(f"the same, {options.bound} items per user", options.events, measured(with_dpselect, large, options.bound))
        clipped = measured(with_clips, large), measured(with_clips, large, 20 * options.bound)
        _line("the same, two clips", options.events, clipped[0])
        _line(f"the same, two clips, {20 * options.bound} items", options.events, clipped[1])
        if options.texts:
            _compare_texts(small, options.baseline, options.bound)
        ours, pandas = measured(with_dpselect, small), measured(with_pandas, small)
        grouped = Path(folder) / "groups.parquet"
        write_groups(grouped, options.baseline, options.groups, options.group_items)
        counted, released = measured(by_group, grouped), measured(released_by_group, grouped, options.group_items)
        in_memory = measured(pandas_by_group, grouped)
    _line("dpselect.events.read", options.baseline, ours)
    _line("pandas, all in memory", options.baseline, pandas)
    shape = f"{options.groups:,} groups x {options.group_items:,} items"
    _line(f"per group, {shape}", options.baseline, counted)
    _line("the same, and the top 10 of each", options.baseline, released)
    _line("pandas per group, all in memory", options.baseline, in_memory)
    if counted.checksum != in_memory.checksum or released.checksum != in_memory.checksum:
        raise SystemExit("dpselect and pandas disagree on the cells")
    if ours.checksum != pandas.checksum:
        raise SystemExit("dpselect and pandas disagree on the counts")
    print(
        f"dpselect / pandas at {options.baseline:,} events: CPU {ours.cpu / pandas.cpu:.2f}, memory {ours.peak / pandas.peak:.2f}"
    )
    print(
        f"with clips / without: CPU {clipped[0].cpu / plain.cpu:.2f}, and {clipped[1].cpu / plain.cpu:.2f} with a bound as well"
    )
    ratio = f"CPU {counted.cpu / in_memory.cpu:.2f}, memory {counted.peak / in_memory.peak:.2f}"
    print(f"per group, dpselect / pandas: {ratio}; with the releases CPU {released.cpu / in_memory.cpu:.2f}")
    print("Same counts from both. CPU seconds include starting Python and importing.")


if __name__ == "__main__":
    main()
