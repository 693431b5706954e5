"""How long planning takes, and what it recommends: all mechanisms for the issue's example, its curves, and larger shapes.

python tests/benchmarks/bench_planning.py [--items 50000] [--log log.parquet] [--curves]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import accounting as acc
from dpselect.plan import Plan, Profile
from dpselect.plan.ask_plan import plan
from dpselect.plan.charts import explore

T = TypeVar("T")
BUDGET = acc.Budget(epsilon=1, delta=1e-6)


def timed(what: str, run: Callable[[], T]) -> T:
    """Run once, print the seconds."""
    start, spent = time.perf_counter(), time.process_time()
    result = run()
    print(f"{time.perf_counter() - start:7.2f} s, {time.process_time() - spent:6.2f} s of CPU  {what}", flush=True)
    return result


def show(found: Plan) -> None:
    """The ranking, one line each."""
    for one in found.ranked:
        recall = one.quality.recall
        print(f"           {one.name:30s} recall {recall.value:.4f} [{recall.low:.4f}, {recall.high:.4f}]  {recall.method}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--log", type=Path, help="a public log with columns user_id and item_id")
    parser.add_argument("--curves", action="store_true")
    arguments = parser.parse_args()
    shape = Profile.zipf(1.1, arguments.items, 2 * arguments.items)
    found = timed(f"all mechanisms, {shape}", lambda: plan(BUDGET, 10, 30, profile=shape))
    show(found)
    timed("the same, unknown domain", lambda: plan(BUDGET, 10, 30, profile=shape, unknown_domain=True))
    timed("the same, charged separately", lambda: plan(BUDGET, 10, 30, profile=shape, charged="separately"))
    timed("top 100, once", lambda: plan(BUDGET, 100, profile=shape))
    timed("top 100, 30 times", lambda: plan(BUDGET, 100, 30, profile=shape))
    if arguments.log is not None:
        log = Profile.of_log(arguments.log, user="user_id", item="item_id", public=True)
        for domain in ("unknown", "public"):
            timed(
                f"top 100 of a log, {domain} domain, {log}",
                lambda known=domain: plan(BUDGET, 100, profile=log, unknown_domain=known == "unknown"),
            )
    if arguments.curves:
        timed("curves of the first plan", lambda: explore(found, shape))


if __name__ == "__main__":
    main()
