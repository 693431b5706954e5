"""Counts that stay in the engine: Spark against DuckDB on one log, many distinct items, and many implied ones.

    python tests/benchmarks/bench_held.py [--events 5000000] [--items 10000000] [--implied 1000000000] [--no-spark]

Each line is a process of its own: wall and CPU seconds (Java's included) and its peak memory (Java's apart). Every item of the
middle lines has a user of its own, so that the log has as many distinct items as events; the last lines release a top 100 of the
implied range, of which the log touches few.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench_events import write_log
from harness import Table, in_a_process, options

K, BOUND = 100, 20


def _release(source: Any, catalogue: range | None, limit: str) -> int:
    import dpselect as dps

    few = dps.Sensitivity.of_counts(items_per_user=BOUND)
    bounds: dict[str, Any] = {} if limit == "spark" else {"memory_limit": limit}
    asked = {"user": "user_id", "item": "item_id", "max_items_per_user": BOUND, "salt": "benchmark"}
    with dps.events.hold(source, **asked, **bounds) as held:
        observed = dps.SparseHistogram(k=K, scale=8.0, delta=1e-9, sensitivity=few)
        public = dps.OneshotTopK(k=K, noise="gumbel", scale=20.0, sensitivity=few)
        chosen = observed.select(held.scores()) if catalogue is None else public.select(held.scores(catalogue))
        return len(chosen)


def with_duckdb(path: Path, catalogue: range | None) -> tuple[int, float]:
    """Within 1 GiB; how many were chosen, and no Java."""
    return _release(path, catalogue, "1GiB"), 0.0


def with_spark(path: Path, catalogue: range | None) -> tuple[int, float]:
    """Held by two executor threads; how many were chosen, and the CPU seconds of Java."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
    session = builder.config("spark.sql.shuffle.partitions", "8").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    chosen = _release(session.read.parquet(str(path)), catalogue, "spark")
    java = _java_seconds()
    session.stop()
    return chosen, java


def _java_seconds() -> float:
    """CPU of the Java process that this one has started, from /proc."""
    own, seconds = str(os.getpid()), 0.0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            name, _, rest = status.read_text().rpartition(")")
            fields = rest.split()
            if fields[1] == own and "java" in name:
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def write_distinct(path: Path, items: int) -> None:
    """One event per item, and a few popular ones."""
    import duckdb

    popular = "SELECT i AS user_id, -1 - i % 200 AS item_id FROM range(1000000) AS t(i) WHERE i % 200 * 37 % 200 < 150"
    single = f"SELECT i // 10 AS user_id, i AS item_id FROM range({items}) AS t(i)"
    duckdb.sql(f"COPY ({single} UNION ALL {popular}) TO '{path}' (FORMAT parquet)")


def main() -> None:
    asked = options(__doc__, events=5_000_000, items=10_000_000, implied=10**9, no_spark=False)
    engines = [("DuckDB", with_duckdb)] + ([] if asked.no_spark else [("Spark local[2]", with_spark)])
    table = Table(("", "<58"), ("wall s", ">8.1f"), ("CPU s", ">8.1f"), ("peak GiB", ">9.2f"), ("items", ">6"))

    def measured(name: str, work: Any, path: Path, catalogue: range | None = None) -> None:
        cost = in_a_process(work, path, catalogue)
        chosen, java = cost.answer
        table.row(name, cost.wall, cost.cpu + java, cost.peak, chosen)

    with tempfile.TemporaryDirectory() as folder:
        log, distinct = Path(folder) / "log.parquet", Path(folder) / "distinct.parquet"
        write_log(log, asked.events, 1_000_000)
        for name, work in engines:
            measured(f"{name}: {asked.events:,} events, 20 items a user, top 100", work, log)
        for name, work in engines:
            measured(f"{name}: top 100 of {asked.implied:,} implied items", work, log, range(asked.implied))
        write_distinct(distinct, asked.items)
        for name, work in engines[:1]:
            measured(f"{name}: {asked.items:,} distinct items, top 100", work, distinct)


if __name__ == "__main__":
    main()
