"""An event log to counts: dpselect and plain DuckDB side by side, each in a process of its own.

    python docs/benchmarks/bench_events.py [--events 20000000] [--items 1000000] [--bound 20]
    [--csv]
        [--tasks distinct] [--group-events 3000000] [--groups 10000] [--group-items 10000]

The log is Parquet with integer ids: items by a Zipf-like law, users shuffled. `--csv` adds the same
log as CSV, which plain DuckDB reads with columns of text, as labels of text files are. What it is
asked stands in `PLAIN`; it takes the memory it likes. CPU seconds include starting Python and
importing. The last lines count a log with groups, of which each user is in three or fewer, against
pandas.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Cost, in_a_process, options, show

# events that are written at once; items that a second step looks at
_CHUNK, _FOUND = 2_000_000, 200
_COLUMNS: Final = {"user": "user_id", "item": "item_id"}
_PAIRS = "CREATE TEMP TABLE pairs AS SELECT DISTINCT user_id, item_id FROM {log}"
_WEIGHED = (
    "SELECT item_id, count(*) AS n, sum(w) AS s FROM {pairs} JOIN "
    "(SELECT user_id, least(1, 1 / sqrt(count(*))) AS w FROM {pairs} GROUP BY user_id) USING (user_id) GROUP BY item_id"  # noqa: E501
)
PLAIN: Final = {
    "distinct": [
        "SELECT item_id, count(*) AS n FROM (SELECT DISTINCT user_id, item_id FROM {log}) GROUP BY item_id"  # noqa: E501
    ],
    "bounded": [
        _PAIRS,
        "SELECT item_id, count(*) AS n FROM (SELECT item_id, row_number() OVER (PARTITION BY user_id ORDER BY hash(user_id, "  # noqa: E501
        "item_id)) AS place FROM pairs) WHERE place <= {bound} GROUP BY item_id",
    ],
    "clipped": [_PAIRS, _WEIGHED.format(pairs="pairs")],
    "two steps": [
        _PAIRS,
        f"CREATE TEMP TABLE found AS SELECT item_id FROM ({_WEIGHED.format(pairs='pairs')}) ORDER BY s DESC LIMIT {_FOUND}",  # noqa: E501
        "CREATE TEMP TABLE among AS SELECT * FROM pairs SEMI JOIN found USING (item_id)",
        _WEIGHED.format(pairs="among"),
    ],
}
"""What plain DuckDB is asked; its result is ordered by item, as ours is."""


def write_log(path: Path, events: int, items: int, groups: int = 0) -> None:
    """A made-up log in chunks, so that writing it needs little memory; with groups each user is in
    three of its own.
    """
    rng, names = np.random.default_rng(1), np.random.default_rng(2).permutation(items)
    kinds = ["user_id", "item_id", *["group_id"] * (groups > 0)]
    schema = pa.schema([(kind, pa.int64()) for kind in kinds])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, events, _CHUNK):
            size = min(_CHUNK, events - start)
            users = rng.integers(0, max(events // 25, 1), size)
            # floor(items^U) - 1 has density proportional to 1/rank.
            ranks = np.minimum(items ** rng.random(size), items).astype(np.int64) - 1
            columns = [users, names[ranks]]
            if groups:
                columns.append(
                    (users * 7919 + rng.integers(0, 3, size) ** 2 * 104729) % groups
                )
            writer.write_table(pa.table(columns, schema=schema))


def by_dpselect(task: str, path: Path, bound: int) -> int:
    """One task by `dpselect.events`."""
    from dpselect import events

    if task == "two steps":
        with events.pairs(path, **_COLUMNS) as kept:
            first: Any = kept.read(clip=1.0)
            found: Any = kept.read(
                clip=1.0,
                within=[
                    first.labels[at] for at in np.argsort(-first.clipped[0])[:_FOUND]
                ],
            )
    else:
        asked: dict[str, Any] = {
            "distinct": {},
            "clipped": {"clip": 1.0},
            "bounded": {"max_items_per_user": bound},
        }[task]
        found = events.read(path, **_COLUMNS, **asked)
    return _checksum(np.array(found.labels), found.counts)


def by_duckdb(task: str, path: Path, bound: int) -> int:
    """The same by plain SQL."""
    connection = duckdb.connect()
    # Labels of delimited text are text, here as there.
    log = (
        f"read_csv('{path}', all_varchar = true)"
        if path.suffix == ".csv"
        else f"'{path}'"
    )
    *first, last = (sql.format(log=log, bound=bound) for sql in PLAIN[task])
    for sql in first:
        connection.execute(sql)
    found = connection.execute(f"{last} ORDER BY item_id").fetchnumpy()
    return _checksum(found["item_id"], found["n"])


def _checksum(labels: np.ndarray, counts: np.ndarray) -> int:
    # Labels of a CSV are text.
    return int(
        np.sum(
            (labels.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
            ^ counts.astype(np.uint64)
        )
    )


def by_group(path: Path) -> int:
    """Counts per group and item, three groups per user, by `dpselect.events.read`."""
    from dpselect import events

    groups = range(
        int(pq.read_table(path, columns=["group_id"])["group_id"].to_numpy().max()) + 1
    )
    bounds: dict[str, Any] = {
        "group": "group_id",
        "groups": groups,
        "max_groups_per_user": 3,
        "salt": "benchmark",
    }
    return len(events.read(path, **_COLUMNS, **bounds).counts)


def by_pandas(path: Path) -> int:
    """Counts per group and item in memory, without any bound."""
    import pandas as pd

    return len(
        pd.read_parquet(path).drop_duplicates().groupby(["group_id", "item_id"]).size()
    )


def compared(
    what: str,
    tool: str,
    theirs: Callable[..., int],
    ours: Callable[..., int],
    *given: Any,
) -> Iterator[dict[str, Any]]:
    """Two processes, and how much CPU ours takes of theirs."""
    costs: dict[str, Cost] = {
        tool: in_a_process(theirs, *given),
        "dpselect": in_a_process(ours, *given),
    }
    for name, cost in costs.items():
        ratio = cost.cpu / costs[tool].cpu
        yield {
            "task": f"{what}, {name:<10}",
            "CPU s": cost.cpu,
            "wall s": cost.wall,
            "GiB": cost.peak,
            "ratio of CPU": ratio,
        }
    # A bound keeps other items by another hash, and two steps find others where sums are as good as
    # equal.
    if (
        "bounded" not in what
        and "two steps" not in what
        and len({cost.answer for cost in costs.values()}) > 1
    ):
        raise SystemExit(f"dpselect and {tool} disagree on the counts")


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every form and task, and groups."""
    with tempfile.TemporaryDirectory() as folder:
        log, grouped = Path(folder) / "log.parquet", Path(folder) / "groups.parquet"
        write_log(log, asked.events, asked.items)
        forms = {"Parquet": log}
        if asked.csv:
            forms["CSV"] = log.with_suffix(".csv")
            duckdb.sql(f"COPY (FROM '{log}') TO '{forms['CSV']}'")
        for form, path in forms.items():
            for task in asked.tasks:
                tools = partial(by_duckdb, task), partial(by_dpselect, task)
                yield from compared(
                    f"{form}: {task}", "DuckDB", *tools, path, asked.bound
                )
        write_log(grouped, asked.group_events, asked.group_items, asked.groups)
        yield from compared("per group", "pandas", by_pandas, by_group, grouped)


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{"events": 20_000_000, "items": 1_000_000, "bound": 20, "csv": False},
        **{
            "group_events": 3_000_000,
            "groups": 10_000,
            "group_items": 10_000,
            "tasks": tuple(PLAIN),
        },
    )
    show(lines(asked))
