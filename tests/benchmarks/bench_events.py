"""An event log to counts: dpselect and plain DuckDB side by side, each in a process of its own.

    python tests/benchmarks/bench_events.py [--events 20000000] [--items 1000000] [--bound 20] [--csv] [--texts]
        [--memory 4GiB] [--tasks distinct] [--group-events 3000000] [--groups 10000] [--group-items 10000]

The log is Parquet with integer ids: items by a Zipf-like law, users shuffled. `--csv` and `--texts` add the same log as CSV and
with ids of 32 characters. What plain DuckDB is asked stands in `PLAIN`; it takes the memory it likes, dpselect its default or
what `--memory` allows. Plain DuckDB reads CSV with columns of text, as labels of text files are. CPU seconds include starting
Python and importing. The last lines count a log with groups, of which each user is in three or fewer, against pandas.
"""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Table, in_a_process, options

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
    from dpselect import events

    groups = range(int(pq.read_table(path, columns=["group_id"])["group_id"].to_numpy().max()) + 1)
    columns = {"user": "user_id", "item": "item_id", "group": "group_id"}
    return len(events.read(path, **columns, groups=groups, max_groups_per_user=3, salt="benchmark").counts)


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


def main() -> None:
    """Print the table."""
    asked = options(
        __doc__,
        **{"events": 20_000_000, "items": 1_000_000, "bound": 20, "csv": False, "texts": False, "memory": str},
        **{"group_events": 3_000_000, "groups": 10_000, "group_items": 10_000, "tasks": tuple(PLAIN)},
    )
    table = Table(("", "<44"), ("CPU s", ">7.1f"), ("wall s", ">7.1f"), ("GiB", ">6.2f"), ("CPU of plain", ">13.2f"))
    with tempfile.TemporaryDirectory() as folder:
        log, grouped = Path(folder) / "log.parquet", Path(folder) / "groups.parquet"
        write_log(log, asked.events, asked.items)
        for (form, path), task in product(write_forms(log, csv=asked.csv, texts=asked.texts), asked.tasks):
            plain = in_a_process(partial(by_duckdb, task), path, asked.bound)
            ours = in_a_process(partial(by_dpselect, task, asked.memory), path, asked.bound)
            table.row(f"{form}: {task}, DuckDB", plain.cpu, plain.wall, plain.peak)
            table.row(f"{form}: {task}, dpselect", ours.cpu, ours.wall, ours.peak, ours.cpu / plain.cpu)
            # A bound keeps other items by another hash, and two steps find others where sums are as good as equal.
            if task in ("distinct", "clipped") and ours.answer != plain.answer:
                raise SystemExit("dpselect and DuckDB disagree on the counts")
        write_groups(grouped, asked.group_events, asked.groups, asked.group_items)
        counted, in_memory = in_a_process(by_group, grouped), in_a_process(pandas_by_group, grouped)
    table.row("per group, pandas, all in memory", in_memory.cpu, in_memory.wall, in_memory.peak)
    table.row("per group, dpselect", counted.cpu, counted.wall, counted.peak, counted.cpu / in_memory.cpu)
    if counted.answer != in_memory.answer:
        raise SystemExit("dpselect and pandas disagree on the cells")


if __name__ == "__main__":
    main()
