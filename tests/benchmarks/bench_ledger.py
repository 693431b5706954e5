"""Charges per second, singly and in batches, and reports on many entries. A script; its numbers are printed, never asserted.

    python tests/benchmarks/bench_ledger.py [sqlite:///FILE | postgresql://...] [--entries 10,10000,1000000] [--processes 1,8]

The store must be empty. A million entries take a minute or two to fill in, and a gigabyte.
"""

from __future__ import annotations

import io
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import options
from sqlalchemy import create_engine, func, select

import accounting as acc
from accounting.ledger import Ledger, Terms
from accounting.ledger.store import checked_url, entries
from accounting.report import write_report

NAME, BATCH, SECONDS = "clicks", 5_000, 3.0
CURVES = [acc.BoundedRange(epsilon=n * 1e-5) for n in range(1, 101)]


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds that an action takes, by the clock and of this process's own time."""
    clock, own = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - clock, time.process_time() - own


def batch(ledger: Ledger, name: str, size: int) -> tuple[float, float]:
    """Charges a second of one batch of 100 curves and 50 labels: by the clock, and by this process's own time."""
    terms = [Terms(relation="add_remove", key=f"{name}-{n}", label=f"job {n % 50}") for n in range(size)]
    clock, own = timed(lambda: ledger.charge_all(NAME, [(CURVES[n % 100], one) for n, one in enumerate(terms)]))
    return size / clock, size / own


def inserts(url: str) -> float:
    """Rows like entries that the store inserts a second, in one transaction of 1,000, without a hash or a check."""
    engine = create_engine(checked_url(url))
    row, mark = tuple("x" * size for size in (8, 16, 12, 60, 40, 64, 64)), "?" if engine.dialect.name == "sqlite" else "%s"
    with engine.connect() as connection:
        raw = connection.connection.cursor()
        raw.execute("CREATE TABLE IF NOT EXISTS bench_bare (n INTEGER, a TEXT, b TEXT, c TEXT, d TEXT, e TEXT, f TEXT, g TEXT)")
        rows = [(n, *row) for n in range(1000)]
        clock, _ = timed(lambda: raw.executemany(f"INSERT INTO bench_bare VALUES ({', '.join([mark] * 8)})", rows))
        connection.commit()
    engine.dispose()
    return 1000 / clock


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
    """Durable one-row transactions per second of SQLite itself on this disk: what a charge cannot beat."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE bare (a TEXT)")
    clock, _ = timed(lambda: [connection.execute("INSERT INTO bare VALUES (?)", ("x" * 800,)) for _ in range(50)])
    connection.close()
    return 50 / clock


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def audits(ledger: Ledger, wanted: list[str]) -> str:
    """How long a report, an export, a verification, or a sum that no total keeps takes, and the most memory."""
    asked = select(func.sum(entries.c.main), func.sum(entries.c.failure)).where(entries.c.dataset_id == 1, entries.c.period == "")

    def add_up() -> None:
        with ledger._store.reader() as connection:
            connection.execute(asked).one()

    def verify() -> None:
        if not ledger.verify().ok:
            raise SystemExit("the ledger does not verify: it was filled wrongly")

    actions = {"sum": add_up, "report": lambda: write_report(ledger, _Nowhere()), "export": lambda: ledger.export(_Nowhere())}
    said = []
    for name, action in (actions | {"verify": verify}).items():
        if name in wanted:
            clock, own = timed(action)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            said.append(f"{name} {clock:.3g} s, {own:.3g} of own time (peak {memory:.0f} MiB)")
    return ", ".join(said)


def main() -> None:
    """Measure one store at every size."""
    asked = options(__doc__, entries="10,10000", processes="1,8", audits="sum,report,export,verify", url=None)
    with tempfile.TemporaryDirectory() as name:
        url = asked.url or f"sqlite:///{Path(name) / 'privacy.db'}"
        print(f"{url.split(':')[0]}; SQLite alone commits {syncs(Path(name)):.0f} one-row transactions a second on this disk")
        with Ledger.open(url) as ledger:
            ledger.create_dataset(NAME, acc.Budget(rho=1e6), "add_remove")
            for size in map(int, asked.entries.split(",")):
                while (start := ledger.heads().datasets[NAME].seq) < size:
                    batch(ledger, f"fill-{start}", min(BATCH, size - start))
                best = [max(rates) for rates in zip(*(batch(ledger, f"{size}-{n}", 1000) for n in range(5)), strict=True)]
                bare = max(inserts(url) for _ in range(5))
                print(
                    f"{size:>9,} entries: batch of 1,000: {best[0]:.0f} charges/s ({best[1]:.0f} of own time); bare INSERT of",
                    end="",
                )
                print(f" such rows {bare:.0f}/s ({bare / best[0]:.1f} times as many)", flush=True)
                for processes in map(int, asked.processes.split(",")):
                    print(f"{size:>9,} entries, {processes} process(es): {rate(url, processes):7.0f} charges/s", flush=True)
                print(f"{size:>9,} entries: {audits(ledger, asked.audits.split(','))}", flush=True)


if __name__ == "__main__":
    main()
