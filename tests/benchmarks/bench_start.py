"""What a person waits for before anything happens: whole processes against `python -c pass`, in the same run.

python tests/benchmarks/bench_start.py [--runs 5] [--plan]

With bytecode, as an installation has it: a first run of each command, which does not count, writes it to a folder of its own.
"""

from __future__ import annotations

import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import Table, options

PLAN = "plan --k 10 --releases 30 --epsilon 1 --delta 1e-6 --shape zipf:1.1 --items 50000 --users 100000"


def spent(command: list[str], runs: int, environment: dict[str, str]) -> tuple[float, float]:
    """Median wall seconds and median processor seconds of a process, a first run left out where there are others."""
    wall, cpu = [], []
    for _ in range(runs + 1):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=environment)
        wall.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall[min(1, runs) :]), statistics.median(cpu[min(1, runs) :])


def small_log(folder: Path) -> tuple[Path, Path]:
    """20,000 users with five visits each to 2,000 items, and the public list of the items."""
    rng, log, items = np.random.default_rng(0), folder / "log.csv", folder / "items.csv"
    visited = np.minimum(rng.zipf(1.3, 100_000), 2_000)
    with log.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("user", "item"), *zip(np.repeat(np.arange(20_000), 5).tolist(), visited.tolist(), strict=True)]
        )
    items.write_text("\n".join(["item", *map(str, range(1, 2_001))]))
    return log, items


def main() -> None:
    asked_for = options(__doc__, runs=5, plan=False)  # README's plan too, some seconds a run
    with tempfile.TemporaryDirectory() as name:
        log, items = map(str, small_log(Path(name)))
        url = f"sqlite:///{name}/ledger.db"
        cli = [sys.executable, "-m", "dpselect"]
        asked = [*cli, "topk", log, "--user", "user", "--item", "item", "--k", "10", "--epsilon", "1"]
        subprocess.run(
            [*cli, "ledger", "init", "--ledger", url, "--dataset", "d", "--epsilon", "1"], check=True, capture_output=True
        )
        rows = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import accounting, dpselect": [sys.executable, "-c", "import accounting, dpselect"],
            "dpselect --help": [*cli, "--help"],
            "topk, public list": [*asked, "--domain", items],
            "topk, unknown domain": [*asked, "--delta", "1e-6"],
            "public list, --learn 0": [*asked, "--domain", items, "--learn", "0"],
            "unknown domain, --learn 0": [*asked, "--delta", "1e-6", "--learn", "0"],
            "ledger show": [*cli, "ledger", "show", "--ledger", url],
        }
        if asked_for.plan:
            rows["plan, as in the README"] = [*cli, *PLAN.split()]
        written = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment = {**written, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        table = Table(("process", "<30"), ("wall s", ">8.2f"), ("cpu s", ">8.2f"), ("cpu / pass", ">12.1f"))
        base, found = 0.0, dict[str, float]()
        for row, command in rows.items():
            wall, cpu = spent(command, asked_for.runs, environment)
            base = base or cpu
            found[row] = cpu
            table.row(row, wall, cpu, cpu / base)
        for row in ("public list", "unknown domain"):
            print(f"learning on 10^5 events, {row}: {found[f'topk, {row}'] - found[f'{row}, --learn 0']:+.2f} s of CPU")


if __name__ == "__main__":
    main()
