"""Charges per second, and reports on many entries. Run as a script; the numbers are printed, never asserted.

    python tests/benchmarks/bench_ledger.py [sqlite:///FILE | postgresql://...] [--entries 10,10000,1000000] [--processes 1,8]

The store must be empty. A million entries take a few minutes to fill in and a gigabyte.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import accounting as acc
from accounting.ledger import Entry, Ledger
from accounting.ledger.origin import origin, utc_now
from accounting.ledger.rows import insert_entries, lock_dataset, set_head, set_total
from accounting.report import write_report
from accounting.spending.budget import Price

CURVE = acc.BoundedRange(epsilon=1e-3)
MECHANISM = '{"kind":"exponential_mechanism","epsilon":0.001,"sensitivity":{"linf":1.0,"monotone":true,"relation":"add_remove"}}'
NAME, BATCH, SECONDS = "clicks", 5_000, 3.0


def made_up(ledger: Ledger, start: int, stop: int, head: str, spent: Price, price: Price) -> Iterator[Entry]:
    """Entries that `Ledger.charge` could have written, without a transaction for each."""
    by = origin(None, utc_now)
    blank = Entry(
        NAME, 0, "", "charge", "", CURVE.to_json(), MECHANISM, 1, *price, 0, 0, "filled in", by.actor, by.host, by.at, by.package,
        None, None, "", "",
    )  # fmt: skip
    for seq in range(start + 1, stop + 1):
        spent = spent.plus(price)
        entry = replace(blank, seq=seq, key=f"fill-{seq:09d}", spent_main=spent.main, spent_failure=spent.failure, prev=head)
        head = entry.expected_hash()
        yield replace(entry, hash=head)


def fill(ledger: Ledger, count: int) -> None:
    """Bring the dataset to at least `count` entries."""
    price = ledger.dataset(NAME).budget.price(CURVE)
    while (start := ledger.heads().datasets[NAME].seq) < count:
        with ledger._store.writer() as connection:
            declared = lock_dataset(connection, NAME)
            spent = Price(start * price.main, start * price.failure)
            stop = min(count, start + BATCH)
            batch = list(made_up(ledger, start, stop, declared.head, spent, price))
            insert_entries(connection, declared.id, batch)
            set_total(connection, declared.id, "", batch[-1].spent)
            set_head(connection, declared.id, batch[-1].seq, batch[-1].hash)


def rate(url: str, processes: int) -> float:
    """Charges per second of so many processes, each on its own connection, for a few seconds."""
    read, write = os.pipe()
    started = time.perf_counter()
    for _ in range(processes):
        if os.fork() == 0:
            with Ledger.open(url, create=False) as ledger:
                count = 0
                while time.perf_counter() - started < SECONDS:
                    ledger.charge(NAME, CURVE, relation="add_remove", label="bench")
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
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 1:
        connection.execute("INSERT INTO bare VALUES (?)", ("x" * 800,))
        count += 1
    connection.close()
    return count / (time.perf_counter() - started)


def audits(ledger: Ledger, folder: Path) -> str:
    """How long a report, an export and a verification take, and the most memory that this process held."""
    times = {}
    for name, action in (
        ("report", lambda: write_report(ledger, folder / "report.html")),
        ("export", lambda: ledger.export(folder / "ledger.jsonl")),
        ("verify", lambda: ledger.verify()),
    ):
        started = time.perf_counter()
        action()  # type: ignore[no-untyped-call]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        times[name] = f"{name} {time.perf_counter() - started:.1f} s (peak {memory:.0f} MiB)"
    return ", ".join(times.values())


def main() -> None:
    """Measure one store at every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--entries", default="10,10000")
    parser.add_argument("--processes", default="1,8")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = arguments.url or f"sqlite:///{folder / 'privacy.db'}"
        print(f"{url.split(':')[0]}; SQLite alone commits {syncs(folder):.0f} one-row transactions a second on this disk")
        with Ledger.open(url) as ledger:
            ledger.create_dataset(NAME, acc.Budget(rho=1e6), "add_remove")
            for entries in map(int, arguments.entries.split(",")):
                fill(ledger, entries)
                for processes in map(int, arguments.processes.split(",")):
                    print(f"{entries:>9,} entries, {processes} process(es): {rate(url, processes):7.0f} charges/s", flush=True)
                print(f"{entries:>9,} entries: {audits(ledger, folder)}", flush=True)


if __name__ == "__main__":
    main()
