"""An event log to counts: dpselect, plain DuckDB and Polars side by side, each in a process of its own.

    python tests/benchmarks/bench_events.py [--events 20000000] [--items 1000000] [--bound 20] [--csv] [--texts] [--large]
        [--memory 4GiB] [--tasks distinct] [--group-events 3000000] [--groups 10000] [--group-items 10000]

The log is Parquet with integer ids: items by a Zipf-like law, users shuffled. `--csv` and `--texts` add the same log as CSV and
with ids of 32 characters; `--large` adds one of 10^8 events, distinct users and bounded only, to see whether memory stays. What
plain DuckDB is asked stands in `PLAIN`; it and Polars take the memory they like, dpselect its default or what `--memory` allows.
Plain DuckDB reads CSV with columns of text, as labels of text files are. CPU seconds include starting Python and importing. The
last lines count a log with groups, of which each user is in three or fewer, against pandas.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Cost, in_a_process, options

_CHUNK = 2_000_000
_FOUND = 200  # items that a second step looks at
_COLUMNS: Final = {"user": "user_id", "item": "item_id"}
_PAIRS = "CREATE TEMP TABLE pairs AS SELECT DISTINCT user_id, item_id FROM {log}"
_WEIGHED = (
    "SELECT item_id, count(*) AS n, sum(w) AS s FROM {pairs} JOIN "
    "(SELECT user_id, least(1, 1 / sqrt(count(*))) AS w FROM {pairs} GROUP BY user_id) USING (user_id) GROUP BY item_id"
)
PLAIN: Final = {
    "distinct": ["SELECT item_id, count(*) AS n FROM (SELECT DISTINCT user_id, item_id FROM {log}) GROUP BY item_id"],
    "bounded": [
        _PAIRS,
        "SELECT item_id, count(*) AS n FROM (SELECT item_id, row_number() OVER (PARTITION BY user_id ORDER BY hash(user_id, "
        "item_id)) AS place FROM pairs) WHERE place <= {bound} GROUP BY item_id",
    ],
    "clipped": [_PAIRS, _WEIGHED.format(pairs="pairs")],
    "two steps": [
        _PAIRS,
        f"CREATE TEMP TABLE found AS SELECT item_id FROM ({_WEIGHED.format(pairs='pairs')}) ORDER BY s DESC LIMIT {_FOUND}",
        "CREATE TEMP TABLE among AS SELECT * FROM pairs SEMI JOIN found USING (item_id)",
        _WEIGHED.format(pairs="among"),
    ],
}
"""What plain DuckDB is asked; its result is ordered by item, as ours is."""


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


def by_group(path: Path) -> int:
    """Counts per group and item, three groups per user, by `dpselect.events.read`."""
    return len(_grouped(path).counts)


def released_by_group(path: Path, items: int) -> int:
    """The same, and the top 10 of every group of a public catalogue by `PerGroup`."""
    import dpselect as dps

    mechanism = dps.PerGroup(mechanism=dps.OneshotTopK(k=10, noise="gumbel", scale=20.0), max_groups_per_user=3)
    counts = _grouped(path)
    return len(mechanism.select(counts.scores(range(items)))) and len(counts.counts)


def _grouped(path: Path) -> Any:
    from dpselect import events

    groups = range(int(pq.read_table(path, columns=["group_id"])["group_id"].to_numpy().max()) + 1)
    columns = {"user": "user_id", "item": "item_id", "group": "group_id"}
    return events.read(path, **columns, groups=groups, max_groups_per_user=3, salt="benchmark")


def pandas_by_group(path: Path) -> int:
    """Counts per group and item by pandas, in memory, without any bound."""
    import pandas as pd

    return len(pd.read_parquet(path).drop_duplicates().groupby(["group_id", "item_id"]).size())


def by_dpselect(task: str, memory: str | None, path: Path, bound: int) -> int:
    """One task by `dpselect.events`."""
    from dpselect import events

    if task == "two steps":
        with events.pairs(path, **_COLUMNS, memory_limit=memory) as kept:
            first: Any = kept.read(clip=1.0)
            found: Any = kept.read(clip=1.0, within=[first.labels[at] for at in np.argsort(-first.clipped[0])[:_FOUND]])
    else:
        asked: dict[str, Any] = {"distinct": {}, "clipped": {"clip": 1.0}, "bounded": {"max_items_per_user": bound}}[task]
        found = events.read(path, **_COLUMNS, **asked, memory_limit=memory)
    return _checksum(np.array(found.labels), found.counts)


def by_duckdb(task: str, path: Path, bound: int) -> int:
    """The same by plain SQL."""
    import duckdb

    connection = duckdb.connect()
    # Labels of delimited text are text, here as there.
    log = f"read_csv('{path}', all_varchar = true)" if path.suffix == ".csv" else f"'{path}'"
    *first, last = (sql.format(log=log, bound=bound) for sql in PLAIN[task])
    for sql in first:
        connection.execute(sql)
    found = connection.execute(f"{last} ORDER BY item_id").fetchnumpy()
    return _checksum(found["item_id"], found["n"])


def by_polars(task: str, path: Path, bound: int) -> int:
    """The same by Polars, streaming where it can."""
    import polars as pl

    scan = pl.scan_csv(path) if path.suffix == ".csv" else pl.scan_parquet(path)
    pairs = scan.select("user_id", "item_id").unique()

    def weighed(among: Any) -> Any:
        weights = among.group_by("user_id").agg(w=(1 / pl.len().sqrt()).clip(0, 1))
        return among.join(weights, on="user_id").group_by("item_id").agg(n=pl.len(), s=pl.col("w").sum())

    if task == "distinct":
        asked = pairs.group_by("item_id").agg(n=pl.len())
    elif task == "bounded":
        place = pl.struct("user_id", "item_id").hash().rank("ordinal").over("user_id")
        asked = pairs.filter(place <= bound).group_by("item_id").agg(n=pl.len())
    elif task == "clipped":
        asked = weighed(pairs)
    else:
        held = pairs.collect(engine="streaming").lazy()
        found = weighed(held).top_k(_FOUND, by="s").select("item_id")
        asked = weighed(held.join(found, on="item_id", how="semi"))
    counts = asked.sort("item_id").collect(engine="streaming")
    return _checksum(counts["item_id"].to_numpy(), counts["n"].to_numpy())


def write_forms(log: Path, *, csv: bool, texts: bool) -> list[tuple[str, Path]]:
    """The log, and the same in the other forms that were asked for."""
    import duckdb

    ids = ", ".join(f"md5(CAST({name} AS VARCHAR)) AS {name}" for name in ("user_id", "item_id"))
    forms = [("Parquet, integers", log, "*", "FORMAT parquet")]
    forms += [("Parquet, texts of 32", log.with_name("texts.parquet"), ids, "FORMAT parquet, COMPRESSION zstd")] * texts
    forms += [("CSV, integers", log.with_name("log.csv"), "*", "FORMAT csv")] * csv
    forms += [("CSV, texts of 32", log.with_name("texts.csv"), ids, "FORMAT csv")] * (csv and texts)
    for _, path, columns, how in forms[1:]:
        duckdb.sql(f"COPY (SELECT {columns} FROM '{log}') TO '{path}' ({how})")
    return [(name, path) for name, path, *_ in forms]


def _checksum(labels: np.ndarray, counts: np.ndarray) -> int:
    if labels.dtype.kind in "UO":  # whole numbers of a CSV, or digests
        labels = np.array(
            [int(str(label)[:15], 16) if len(str(label)) == 32 else int(label) for label in labels], dtype=np.uint64
        )
    return int(np.sum((labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ counts.astype(np.uint64)))


def _line(name: str, events: int, cost: Cost, rest: str = "") -> None:
    print(f"{name:<44} {events:>12,} {cost.cpu:>7.1f} {cost.wall:>7.1f} {1024 * cost.peak:>6.0f}  {rest}", flush=True)


def _compare(form: str, path: Path, asked: argparse.Namespace) -> None:
    """Every task by all three."""
    for task in asked.tasks:
        plain = in_a_process(partial(by_duckdb, task), path, asked.bound)
        _line(f"{form}: {task}, DuckDB", asked.events, plain)
        for name, read in (("Polars", partial(by_polars, task)), ("dpselect", partial(by_dpselect, task, asked.memory))):
            cost = in_a_process(read, path, asked.bound)
            ratios = f"{cost.cpu / plain.cpu:.2f} CPU, {cost.wall / plain.wall:.2f} wall"
            _line(f"{form}: {task}, {name}", asked.events, cost, ratios)
            # A bound keeps other items by another hash, and two steps find others where sums are as good as equal.
            if task in ("distinct", "clipped") and cost.answer != plain.answer:
                raise SystemExit(f"{name} and DuckDB disagree on the counts")


def main() -> None:
    """Print the table."""
    asked = options(
        __doc__,
        **{"events": 20_000_000, "items": 1_000_000, "bound": 20, "csv": False, "texts": False, "large": False, "memory": str},
        **{"group_events": 3_000_000, "groups": 10_000, "group_items": 10_000, "tasks": tuple(PLAIN)},
    )
    with tempfile.TemporaryDirectory() as folder:
        log, grouped = Path(folder) / "log.parquet", Path(folder) / "groups.parquet"
        write_log(log, asked.events, asked.items)
        print(f"{'':<44} {'events':>12} {'CPU s':>7} {'wall s':>7} {'MiB':>6}  of plain DuckDB's")
        for form, path in write_forms(log, csv=asked.csv, texts=asked.texts):
            _compare(form, path, asked)
        if asked.large:
            write_log(log, 10**8, asked.items)
            for task in ("distinct", "bounded"):
                _line(f"{task}, dpselect", 10**8, in_a_process(partial(by_dpselect, task, asked.memory), log, asked.bound))
        write_groups(grouped, asked.group_events, asked.groups, asked.group_items)
        counted, released = in_a_process(by_group, grouped), in_a_process(released_by_group, grouped, asked.group_items)
        in_memory = in_a_process(pandas_by_group, grouped)
    _line(f"per group, {asked.groups:,} x {asked.group_items:,} items", asked.group_events, counted)
    _line("the same, and the top 10 of each", asked.group_events, released)
    _line("pandas per group, all in memory", asked.group_events, in_memory)
    if counted.answer != in_memory.answer or released.answer != in_memory.answer:
        raise SystemExit("dpselect and pandas disagree on the cells")


if __name__ == "__main__":
    main()
