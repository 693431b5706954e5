"""From how many items on `engine=` pays off: a top 100 of counts in memory, in DuckDB and in Spark.

    python docs/benchmarks/bench_held.py [--items 100000 1000000 10000000] [--engines memory duckdb]

Each line is a process of its own: CPU seconds (Java's included), seconds by the clock, and its peak
memory (without Java's). A log has a million events on 200 popular items, and an event of its own
for each other item. The reading may use 1 GiB before it spills to disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
from harness import Cost, in_a_process, options, show

FEW = 20  # items of a user
LOG = """
    SELECT i // 10 AS user_id, i AS item_id FROM range({items}) AS t(i) UNION ALL
    SELECT i, -1 - i % 200 FROM range(1000000) AS t(i) WHERE i % 200 * 37 % 200 < 150
"""


def release(engine: str, path: Path) -> float:
    """A top 100 of an unknown domain; the CPU seconds of Java."""
    import dpselect as dps

    asked: dict[str, Any] = {"user": "user_id", "item": "item_id"}
    asked |= {"max_items_per_user": FEW, "salt": "benchmark"}
    mechanism = dps.SparseHistogram(
        k=100,
        scale=8.0,
        delta=1e-9,
        sensitivity=dps.Sensitivity.of_counts(items_per_user=FEW),
    )
    if engine == "memory":
        counts = dps.events.read(path, memory_limit="1GiB", **asked)
        assert len(mechanism.select(counts.scores())) == 100
        return 0.0
    source: Any = path if engine == "duckdb" else session().read.parquet(str(path))
    bounds = {"memory_limit": "1GiB"} if engine == "duckdb" else {}
    with dps.events.hold(source, **asked, **bounds) as held:
        assert len(mechanism.select(held.scores())) == 100
    return java_seconds()


def session() -> Any:
    """Two executor threads in this machine's Java."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.showConsoleProgress": "false",
    }
    made = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def java_seconds() -> float:
    """CPU seconds of the Java that this process started."""
    seconds = 0.0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            name, _, rest = status.read_text().rpartition(")")
            fields = rest.split()
            if fields[1] == str(os.getpid()) and "java" in name:
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf(
                    "SC_CLK_TCK"
                )
    return seconds


def pays_off(memory: dict[int, Cost], engine: dict[int, Cost], of: str) -> str:
    """The smallest number of items from which on the engine takes less of something."""
    less = 0
    for items in sorted(memory, reverse=True):
        if getattr(engine[items], of) >= getattr(memory[items], of):
            break
        less = items
    return f"from {less:,} items on" if less else "for none of these"


def lines(sizes: list[int], engines: list[str]) -> Iterator[dict[str, Any] | str]:
    """One for each number of items and engine; then from how many on each takes less."""
    costs: dict[str, dict[int, Cost]] = {engine: {} for engine in engines}
    with tempfile.TemporaryDirectory() as folder:
        for items in sizes:
            path = Path(folder) / f"{items}.parquet"
            duckdb.sql(f"COPY ({LOG.format(items=items)}) TO '{path}' (FORMAT parquet)")
            for engine in engines:
                cost = in_a_process(release, engine, path)
                cost = costs[engine][items] = cost._replace(cpu=cost.cpu + cost.answer)
                row = {"items": items, "engine": engine, "CPU s": cost.cpu}
                yield row | {"wall s": cost.wall, "GiB": cost.peak}
            path.unlink()
    for engine in engines[1:]:
        found = (costs[engines[0]], costs[engine])
        cpu, peak = (pays_off(*found, of) for of in ("cpu", "peak"))
        yield f"{engine} against {engines[0]}: less CPU {cpu}, less memory {peak}"


if __name__ == "__main__":
    asked = options(
        __doc__,
        items=[100_000, 1_000_000, 10_000_000],
        engines=("memory", "duckdb", "spark"),
    )
    show(lines(asked.items, asked.engines))
