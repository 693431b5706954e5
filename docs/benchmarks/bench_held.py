"""Counts that stay in the engine: Spark against DuckDB on one log, and many distinct items.

    python docs/benchmarks/bench_held.py [--events 5000000] [--items 10000000] [--no-spark]

Each line is a process of its own: wall and CPU seconds (Java's included) and its peak memory
(Java's apart). The last log has a million events on 200 popular items, and an event of its own for
each of the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
from bench_events import write_log
from harness import in_a_process, options, show


def release(source: Any, **bounds: Any) -> int:
    """A top 100; how many were chosen."""
    import dpselect as dps

    asked = {
        "user": "user_id",
        "item": "item_id",
        "max_items_per_user": 20,
        "salt": "benchmark",
    }
    with dps.events.hold(source, **asked, **bounds) as held:
        few = dps.Sensitivity.of_counts(items_per_user=20)
        return len(
            dps.SparseHistogram(k=100, scale=8.0, delta=1e-9, sensitivity=few).select(
                held.scores()
            )
        )


def with_duckdb(path: Path) -> tuple[int, float]:
    """Within 1 GiB; how many were chosen, and no Java."""
    return release(path, memory_limit="1GiB"), 0.0


def with_spark(path: Path) -> tuple[int, float]:
    """Held by two executor threads; how many were chosen, and the CPU seconds of Java."""
    from pyspark.sql import SparkSession

    settings = {
        "ui.enabled": "false",
        "driver.memory": "2g",
        "sql.shuffle.partitions": "8",
        "ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").config(
        map={f"spark.{name}": value for name, value in settings.items()}
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    chosen, java = release(session.read.parquet(str(path))), 0.0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            name, _, rest = status.read_text().rpartition(")")
            fields = rest.split()
            if fields[1] == str(os.getpid()) and "java" in name:
                java += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    session.stop()
    return chosen, java


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One for each engine and log; many distinct items in the embedded engine alone."""
    with tempfile.TemporaryDirectory() as folder:
        log, distinct = Path(folder) / "log.parquet", Path(folder) / "distinct.parquet"
        write_log(log, asked.events, 1_000_000)
        popular = "SELECT i AS user_id, -1 - i % 200 AS item_id FROM range(1000000) AS t(i) WHERE i % 200 * 37 % 200 < 150"  # noqa: E501
        single = (
            f"SELECT i // 10 AS user_id, i AS item_id FROM range({asked.items}) AS t(i)"
        )
        duckdb.sql(
            f"COPY ({single} UNION ALL {popular}) TO '{distinct}' (FORMAT parquet)"
        )
        events, items = f"{asked.events:,} events", f"{asked.items:,} items"
        todo: list[tuple[str, Any, str, Path]] = [
            ("DuckDB", with_duckdb, events, log),
            ("DuckDB", with_duckdb, items, distinct),
        ]
        for name, work, what, path in (
            todo if asked.no_spark else [("Spark", with_spark, events, log), *todo]
        ):
            cost = in_a_process(work, path)
            chosen, java = cost.answer
            seconds = {"wall s": cost.wall, "CPU s": cost.cpu + java}
            yield (
                {"engine": name, "top 100 of": what}
                | seconds
                | {"GiB": cost.peak, "chosen": chosen}
            )


if __name__ == "__main__":
    show(lines(options(__doc__, events=5_000_000, items=10_000_000, no_spark=False)))
