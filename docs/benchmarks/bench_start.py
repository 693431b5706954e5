"""What a person waits for before anything happens: whole processes against `python -c pass`, in the
same run.

    python docs/benchmarks/bench_start.py [--runs 5] [--plan]

With bytecode, as an installation has it: a first run of each command, which does not count, writes
it to a folder of its own. --plan adds README's plan, some seconds a run.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import options, show

SHAPE = "--shape zipf:1.1 --items 50000 --users 100000"
ASKED = "{log} --user user --item item --k 10 --epsilon 1"
COMMANDS = {  # of dpselect
    "dpselect --help": "--help",
    "topk, public list": f"topk {ASKED} --domain {{items}}",
    "topk, unknown domain": f"topk {ASKED} --delta 1e-6",
    "ledger show": "ledger show --ledger {url}",
    "plan, as in the README": f"plan --k 10 --releases 30 --epsilon 1 --delta 1e-6 {SHAPE}",
}


def spent(
    command: list[str], runs: int, environment: dict[str, str]
) -> tuple[float, float]:
    """Median wall seconds and median processor seconds of a process, a first run left out where
    there are others.
    """
    wall, cpu = [], []
    for _ in range(runs + 1):
        before, start = (
            resource.getrusage(resource.RUSAGE_CHILDREN),
            time.perf_counter(),
        )
        subprocess.run(command, capture_output=True, check=True, env=environment)
        wall.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(wall[min(1, runs) :]), statistics.median(
        cpu[min(1, runs) :]
    )


def small_log(folder: Path) -> dict[str, str]:
    """20,000 users with five visits each to 2,000 items, the public list of the items, and a
    ledger.
    """
    rng, names = (
        np.random.default_rng(0),
        {"log": f"{folder}/log.csv", "items": f"{folder}/items.csv"},
    )
    visits = zip(
        np.repeat(np.arange(20_000), 5).tolist(),
        np.minimum(rng.zipf(1.3, 100_000), 2_000).tolist(),
        strict=True,
    )
    Path(names["log"]).write_text(
        "user,item\n" + "".join(f"{user},{item}\n" for user, item in visits)
    )
    Path(names["items"]).write_text("\n".join(["item", *map(str, range(1, 2_001))]))
    return names | {"url": f"sqlite:///{folder}/ledger.db"}


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One for each process."""
    with tempfile.TemporaryDirectory() as folder:
        names, cli = small_log(Path(folder)), [sys.executable, "-m", "dpselect"]
        made = f"ledger init --ledger {names['url']} --dataset d --epsilon 1".split()
        subprocess.run([*cli, *made], check=True, capture_output=True)
        code = {
            "python -c pass": "pass",
            "import numpy": "import numpy",
            "both packages": "import accounting, dpselect",
        }
        rows = {name: [sys.executable, "-c", words] for name, words in code.items()}
        rows |= {
            name: [*cli, *words.format(**names).split()]
            for name, words in COMMANDS.items()
        }
        if not asked.plan:
            del rows["plan, as in the README"]
        written = {
            key: value
            for key, value in os.environ.items()
            if key != "PYTHONDONTWRITEBYTECODE"
        }
        idle = None
        for name, command in rows.items():
            wall, cpu = spent(
                command,
                asked.runs,
                {**written, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"},
            )
            idle = idle or cpu
            yield {
                "process": f"{name:<26}",
                "wall s": wall,
                "CPU s": cpu,
                "CPU / pass": cpu / idle,
            }


if __name__ == "__main__":
    show(lines(options(__doc__, runs=5, plan=False)))
