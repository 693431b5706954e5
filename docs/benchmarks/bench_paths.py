"""How many files and functions of the two packages one call runs through, counted by
`sys.setprofile`.

    python docs/benchmarks/bench_paths.py [--files]

Every path runs once before it is counted, so that imports and caches are not part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from harness import options, show
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from dpselect.app.cli.app import app
from dpselect.app.planning import plan
from dpselect.plan import Profile

ROOT = Path(__file__).resolve().parents[2]
GOALS = {
    "dpselect topk log.csv": "50",
    "planning.plan": "30",
    "session.select": "28",
    "ledger.charge": "18",
}


def passed(path: Callable[[], object]) -> set[tuple[str, str]]:
    """The file and name of every function of the packages that `path` calls."""
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(
            (f"{ROOT}/dpselect", f"{ROOT}/accounting")
        ):
            found.add((code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname))

    path()
    sys.setprofile(note)
    try:
        path()
    finally:
        sys.setprofile(None)
    return {(file, name) for file, name in found if "<" not in name.rpartition(".")[2]}


def paths(folder: Path) -> dict[str, Callable[[], object]]:
    """The four paths, each of which may be run any number of times."""
    log, rng = folder / "log.csv", np.random.default_rng(0)
    rows = (
        f"{user},{item}\n"
        for user, item in zip(
            rng.integers(900, size=9000), rng.zipf(1.5, size=9000), strict=True
        )
    )
    log.write_text("user,item\n" + "".join(rows))
    ledger = acc.Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    ledger.create_dataset("log", acc.Budget(epsilon=100.0, delta=1e-3), "add_remove")
    mechanism, session = (
        dps.PeelingTopK(k=5, noise="gumbel", scale=2.0),
        dps.Session(ledger, "log"),
    )
    scores = dps.Scores(np.arange(100), sensitivity=dps.Sensitivity())
    budget, shape = (
        acc.Budget(epsilon=1.0, delta=1e-6),
        Profile.zipf(1.1, items=1000, users=10_000),
    )

    def topk() -> None:
        done = CliRunner().invoke(
            app, f"topk {log} --user user --item item --k 5 --epsilon 1 --delta 1e-6"
        )
        assert done.exit_code == 0, done.output

    ways = (
        topk,
        lambda: plan(k=10, budget=budget, profile=shape),
        lambda: session.select(mechanism, scores),
    )
    return dict(
        zip(GOALS, (*ways, lambda: ledger.charge("log", mechanism)), strict=True)
    )


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """One for each path, with its goal."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        for name, path in paths(Path(folder)).items():
            found = passed(path)
            files = Counter(file for file, _ in found)
            yield {
                "path": name,
                "files": len(files),
                "functions": len(found),
                "goal": GOALS[name],
            }
            yield from (
                f"    {files[file]:>4}  {file}" for file in sorted(files) if asked.files
            )


if __name__ == "__main__":
    show(lines(options(__doc__, files=False)))
