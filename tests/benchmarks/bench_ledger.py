"""Charges per second, singly and in batches, and reports on many entries. A script; its numbers are printed, never asserted.

    python tests/benchmarks/bench_ledger.py [sqlite:///FILE | postgresql://...] [--entries 10,10000,1000000] [--processes 1,8]

The store must be empty. A million entries take a minute or two to fill in, and a gigabyte. With `--direct`, SQLite only, entries
that are not measured are written past the ledger, the same rows and chain, as `verify` finds: ten million of them take minutes.
"""

from __future__ import annotations

import hashlib
import io
import os
import resource
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from harness import options
from sqlalchemy import create_engine, func, select, update

import accounting as acc
from accounting.ledger import Ledger, Terms
from accounting.ledger.model import Entry
from accounting.ledger.store import checked_url, datasets, entries, find_dataset, totals
from accounting.ledger.stored_text import canonical_json
from accounting.report import write_report

CURVE = acc.BoundedRange(epsilon=1e-3)
NAME, BATCH, SECONDS = "clicks", 5_000, 3.0


def fill(ledger: Ledger, count: int) -> None:
    """Bring the dataset to at least `count` entries, in batches."""
    while (start := ledger.heads().datasets[NAME].seq) < count:
        batch(ledger, f"fill-{start}", min(BATCH, count - start))


def fill_directly(ledger: Ledger, url: str, count: int) -> None:
    """The same, past the ledger: rows of 100 curves and 50 labels, in batches of 1,000, whose keys come in no order."""
    last = ledger.charge(NAME, CURVE, relation="add_remove", label="job 0").entries[0]
    file = sqlite3.connect(checked_url(url).database or "", isolation_level=None)
    for setting in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -1000000"):
        file.execute(f"PRAGMA {setting}")
    index = file.execute("SELECT sql FROM sqlite_master WHERE name = 'dpledger_entries_key'").fetchone()[0]
    file.execute("DROP INDEX dpledger_entries_key")
    names = [name for name in vars(last) if name != "dataset"]
    statement = f"INSERT INTO dpledger_entries (dataset_id, {', '.join(names)}) VALUES (1, {', '.join('?' for _ in names)})"
    for rows in _chained(last, count):
        file.execute("BEGIN")
        file.executemany(statement, rows)
        file.execute("COMMIT")
    file.execute(index)
    file.close()
    with ledger._store.writer() as connection:
        declared = find_dataset(connection, NAME)
        end = dict(zip(names, rows[-1], strict=True))
        connection.execute(update(totals).where(totals.c.dataset_id == declared.id).values(main=end["spent_main"]))
        connection.execute(update(datasets).where(datasets.c.id == declared.id).values(seq=end["seq"], head=end["hash"]))


def _chained(last: Entry, count: int) -> Iterator[list[tuple[Any, ...]]]:
    """The rows that follow `last`, up to number `count`, in blocks."""
    varying = ("at", "curve", "key", "label", "main", "prev", "seq", "spent_main")  # in the order of canonical JSON
    marked = {name: f"#{name}#" if name in varying else value for name, value in last.to_dict().items() if name != "hash"}
    text = canonical_json(marked).replace("%", "%%")
    for name in varying:
        text = text.replace(f'"#{name}#"', "%d" if name in ("main", "seq", "spent_main") else "%s")
    curves = [acc.BoundedRange(epsilon=n * 1e-4) for n in range(1, 101)]
    priced = [(one.to_json(), canonical_json(one.to_json()), acc.Budget(rho=1e6).price(one).main) for one in curves]
    labels = [(f"job {n}", f'"job {n}"') for n in range(50)]
    who = (last.actor, last.host)
    spent, prev, since = last.spent_main, last.hash, datetime(2024, 1, 1, tzinfo=UTC)
    for start in range(last.seq + 1, count + 1, 1000):
        at, rows = (since + timedelta(seconds=start)).isoformat(timespec="microseconds"), []
        for seq in range(start, min(start + 1000, count + 1)):
            (curve, quoted, main), (label, said), key, before = priced[seq % 100], labels[seq % 50], prev[:32], prev
            spent += main
            said = text % (f'"{at}"', quoted, f'"{key}"', said, main, f'"{prev}"', seq, spent)
            prev = hashlib.sha256(said.encode()).hexdigest()
            charged = (seq, "", "charge", key, curve, None, 1, main, 0, spent, 0, label, *who, at, last.package)
            rows.append((*charged, *(None,) * 8, before, prev))
        yield rows


def batch(ledger: Ledger, name: str, size: int) -> tuple[float, float]:
    """Charges a second of one batch: by the clock, and by this process's own time."""
    charges = [(CURVE, Terms(relation="add_remove", key=f"{name}-{n}", label=f"job {n % 50}")) for n in range(size)]
    clock, own = time.perf_counter(), time.process_time()
    ledger.charge_all(NAME, charges)
    return size / (time.perf_counter() - clock), size / (time.process_time() - own)


def batches(ledger: Ledger, url: str, rows: int) -> str:
    """The best of five batches of 1,000, beside the store's own rate at the same rows inserted by one executemany."""
    best = [max(rates) for rates in zip(*(batch(ledger, f"batch-{rows}-{n}", 1000) for n in range(5)), strict=True)]
    bare = max(inserts(url) for _ in range(5))
    words = f"batch of 1,000: {best[0]:.0f} charges/s ({best[1]:.0f} of own time)"
    return f"{words}; bare INSERT of such rows {bare:.0f}/s ({bare / best[0]:.1f} times as many)"


def inserts(url: str) -> float:
    """Rows like entries that the store inserts a second, in one transaction of 1,000, without a hash or a check."""
    engine = create_engine(checked_url(url))
    row = tuple("x" * size for size in (8, 16, 12, 60, 40, 64, 64))
    mark = "?" if engine.dialect.name == "sqlite" else "%s"
    with engine.connect() as connection:
        raw = connection.connection.cursor()
        raw.execute(
            "CREATE TABLE IF NOT EXISTS bench_bare (number INTEGER, a TEXT, b TEXT, c TEXT, d TEXT, e TEXT, f TEXT, g TEXT)"
        )
        started = time.perf_counter()
        raw.executemany(f"INSERT INTO bench_bare VALUES ({', '.join([mark] * 8)})", [(n, *row) for n in range(1000)])
        connection.commit()
        took = time.perf_counter() - started
    engine.dispose()
    return 1000 / took


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


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def audits(ledger: Ledger, wanted: list[str]) -> str:
    """How long a sum, a report, an export and a verification take, by the clock and in own time, and the most memory."""
    times = {}
    for name, action in (
        ("sum", lambda: _sum(ledger)),
        ("report", lambda: write_report(ledger, _Nowhere())),
        ("export", lambda: ledger.export(_Nowhere())),
        ("verify", lambda: _verified(ledger)),
    ):
        if name not in wanted:
            continue
        clock, own = time.perf_counter(), time.process_time()
        action()  # type: ignore[no-untyped-call]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        spent = f"{time.perf_counter() - clock:.3g} s, {time.process_time() - own:.3g} of own time"
        times[name] = f"{name} {spent} (peak {memory:.0f} MiB)"
    return ", ".join(times.values())


def _sum(ledger: Ledger) -> None:
    """What a charge would do if no total of its period were kept."""
    asked = select(func.sum(entries.c.main), func.sum(entries.c.failure)).where(entries.c.dataset_id == 1, entries.c.period == "")
    with ledger._store.reader() as connection:
        connection.execute(asked).one()


def _verified(ledger: Ledger) -> None:
    if not ledger.verify().ok:
        raise SystemExit("the ledger does not verify: it was filled wrongly")


def main() -> None:
    """Measure one store at every size."""
    asked = options(__doc__, entries="10,10000", processes="1,8", audits="sum,report,export,verify", direct=False, url=None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = asked.url or f"sqlite:///{folder / 'privacy.db'}"
        print(f"{url.split(':')[0]}; SQLite alone commits {syncs(folder):.0f} one-row transactions a second on this disk")
        with Ledger.open(url) as ledger:
            ledger.create_dataset(NAME, acc.Budget(rho=1e6), "add_remove")
            for size in map(int, asked.entries.split(",")):
                if asked.direct:
                    apart = get_context("fork").Process(target=fill_directly, args=(ledger, url, size))
                    apart.start()  # in a process of its own, whose memory is not counted
                    apart.join()
                else:
                    fill(ledger, size)
                print(f"{size:>9,} entries: {batches(ledger, url, size)}", flush=True)
                for processes in map(int, asked.processes.split(",")):
                    print(f"{size:>9,} entries, {processes} process(es): {rate(url, processes):7.0f} charges/s", flush=True)
                print(f"{size:>9,} entries: {audits(ledger, asked.audits.split(','))}", flush=True)


if __name__ == "__main__":
    main()
