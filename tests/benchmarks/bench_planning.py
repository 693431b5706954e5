"""How long planning takes, and what it recommends: all mechanisms for the issue's example, its curves, and larger shapes.

python tests/benchmarks/bench_planning.py [--items 50000] [--log log.parquet] [--curves]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness import options

import accounting as acc
from dpselect.plan import Profile, TopKPlan
from dpselect.plan.asked import plan
from dpselect.plan.charts import explore

T = TypeVar("T")
BUDGET = acc.Budget(epsilon=1, delta=1e-6)


def timed(what: str, run: Callable[[], T]) -> T:
    """Run once, print the seconds."""
    start, spent = time.perf_counter(), time.process_time()
    result = run()
    print(f"{time.perf_counter() - start:7.2f} s, {time.process_time() - spent:6.2f} s of CPU  {what}", flush=True)
    return result


def show(found: TopKPlan) -> None:
    """The ranking, one line each."""
    for one in found.ranked:
        recall = one.quality.recall
        print(f"           {one.name:30s} recall {recall.value:.4f} [{recall.low:.4f}, {recall.high:.4f}]  {recall.method}")


def main() -> None:
    """Print the table."""
    asked = options(__doc__, items=50_000, log=str, curves=False)  # a public log with columns user_id and item_id
    shape = Profile.zipf(1.1, asked.items, 2 * asked.items)
    found = timed(f"all mechanisms, {shape}", lambda: plan(BUDGET, 10, 30, profile=shape))
    show(found)
    timed("the same, unknown domain", lambda: plan(BUDGET, 10, 30, profile=shape, unknown_domain=True))
    timed("the same, charged separately", lambda: plan(BUDGET, 10, 30, profile=shape, charged="separately"))
    timed("top 100, once", lambda: plan(BUDGET, 100, profile=shape))
    timed("top 100, 30 times", lambda: plan(BUDGET, 100, 30, profile=shape))
    if asked.log is not None:
        log = Profile.of_log(asked.log, user="user_id", item="item_id", public=True)
        for unknown in (True, False):
            timed(f"top 100 of {log}, unknown: {unknown}", lambda x=unknown: plan(BUDGET, 100, profile=log, unknown_domain=x))
    if asked.curves:
        timed("curves of the first plan", lambda: explore(found, shape))


if __name__ == "__main__":
    main()
