"""Charges per second, singly and in batches, and reports on many entries.

    python docs/benchmarks/bench_ledger.py [sqlite:///FILE | postgresql://...] [--entries 10 10000
    1000000] [--processes 1 8]
        [--audits sum report export verify]

The store must be empty. A million entries take a minute or two to fill in, and a gigabyte. `own` is
this process's own time.
"""

from __future__ import annotations

import argparse
import io
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import options, peak_memory, show
from sqlalchemy import func, select

import accounting as acc
from accounting.ledger import ChargeOptions, Ledger
from accounting.ledger.store import entries
from accounting.report import write_report

NAME, BATCH, SECONDS = "clicks", 5_000, 3.0
CURVES = [acc.BoundedRange(epsilon=n * 1e-5) for n in range(1, 101)]


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds that an action takes, by the clock and of this process's own time."""
    clock, own = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - own


def batch(ledger: Ledger, name: str, size: int) -> tuple[float, float]:
    """Charges a second of one batch of 100 curves and 50 labels: by the clock, and by this
    process's own time.
    """
    terms = [
        ChargeOptions(relation="add_remove", key=f"{name}-{n}", label=f"job {n % 50}")
        for n in range(size)
    ]
    clock, own = timed(
        lambda: ledger.charge_all(
            NAME, [(CURVES[n % 100], one) for n, one in enumerate(terms)]
        )
    )
    return size / clock, size / own


def rate(url: str, processes: int) -> float:
    """Charges per second of so many processes, each on its own connection, for a few seconds."""
    read, write = os.pipe()
    started = time.perf_counter()
    for _ in range(processes):
        if os.fork() == 0:
            with Ledger.open(url, create=False) as ledger:
                count = 0
                while time.perf_counter() - started < SECONDS:
                    ledger.charge(NAME, CURVES[0], relation="add_remove", label="bench")
                    count += 1
                os.write(write, f"{count}\n".encode())
            os._exit(0)
    os.close(write)
    for _ in range(processes):
        os.wait()
    with os.fdopen(read) as counts:
        return sum(int(line) for line in counts) / (time.perf_counter() - started)


def syncs(folder: Path) -> float:
    """Durable one-row transactions per second of SQLite itself on this disk: what a charge cannot
    beat.
    """
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE bare (a TEXT)")
    clock, _ = timed(
        lambda: [
            connection.execute("INSERT INTO bare VALUES (?)", ("x" * 800,))
            for _ in range(50)
        ]
    )
    connection.close()
    return 50 / clock


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def add_up(ledger: Ledger) -> None:
    """A sum that the ledger does not make: it keeps totals."""
    asked = select(func.sum(entries.c.main), func.sum(entries.c.failure)).where(
        entries.c.dataset_id == 1, entries.c.period == ""
    )
    with ledger._store.reader() as connection:
        connection.execute(asked).one()


def verify(ledger: Ledger) -> None:
    """All of it."""
    if not ledger.verify().ok:
        raise SystemExit("the ledger does not verify: it was filled wrongly")


AUDITS: dict[str, Callable[[Ledger], object]] = {
    "sum": add_up,
    "report": lambda ledger: write_report(ledger, _Nowhere()),
    "export": lambda ledger: ledger.export(_Nowhere()),
    "verify": verify,
}


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """One store at every size."""
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{Path(folder) / 'privacy.db'}"
        yield f"{url.split(':')[0]}; SQLite alone commits {syncs(Path(folder)):.0f} one-row transactions a second on this disk"  # noqa: E501
        with Ledger.open(url) as ledger:
            ledger.create_dataset(NAME, acc.Budget(rho=1e6), "add_remove")
            for size in asked.entries:
                while (start := ledger.heads().datasets[NAME].seq) < size:
                    batch(ledger, f"fill-{start}", min(BATCH, size - start))
                clock, own = map(
                    max,
                    zip(
                        *(batch(ledger, f"{size}-{n}", 1000) for n in range(5)),
                        strict=True,
                    ),
                )
                yield {
                    "entries": size,
                    "in a batch of 1,000: charges/s": clock,
                    "own": own,
                }
                yield from (
                    {"entries": size, "processes": some, "charges/s": rate(url, some)}
                    for some in asked.processes
                )
                for name in asked.audits:
                    clock, own = timed(partial(AUDITS[name], ledger))
                    yield {
                        "entries": size,
                        "audit": name,
                        "seconds": clock,
                        "own": own,
                        "peak GiB": peak_memory(),
                    }


if __name__ == "__main__":
    show(
        lines(
            options(
                __doc__,
                entries=[10, 10_000],
                processes=[1, 8],
                audits=tuple(AUDITS),
                url=None,
            )
        )
    )
