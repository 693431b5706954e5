"""What a charge and a report cost does not grow with the entries there are. Counted in steps of SQLite's machine, not in time."""

from __future__ import annotations

import io
import sqlite3
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import accounting as acc
from accounting.ledger import Ledger, database
from accounting.report import write_report

TINY = acc.PureDP(epsilon=1e-6)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Counts the steps that SQLite takes during a call, on all connections."""
    count = [0]

    def tick() -> int:
        count[0] += 1
        return 0

    def counted(*arguments: Any, **keywords: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **keywords)
        connection.set_progress_handler(tick, 1)
        return connection

    def measure(call: Callable[[], Any]) -> int:
        before = count[0]
        call()
        return count[0] - before

    connect = sqlite3.connect
    monkeypatch.setattr(database.sqlite3, "connect", counted)
    return measure


def test_a_charge_costs_the_same_at_any_size(sqlite_url: str, steps: Callable[[Callable[[], Any]], int]) -> None:
    """Every operation that a release needs takes as many steps with 600 entries as with 50."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")

        def grow(stop: int) -> None:
            while ledger.heads().datasets["clicks"].seq < stop:
                ledger.charge_all("clicks", [(TINY, {"relation": "add_remove", "fingerprint": "rows"})] * 50)

        def release() -> None:
            receipt = ledger.reserve("clicks", TINY, relation="add_remove", fingerprint="rows")
            ledger.commit("clicks", receipt.key)
            ledger.release("clicks", receipt.key)
            ledger.reserve("clicks", TINY, relation="add_remove", key=receipt.key)
            ledger.find("clicks", receipt.key)
            ledger.total("clicks")
            ledger.latest("clicks", 5)

        grow(50)
        few = steps(release)
        grow(600)
        assert steps(release) <= 1.2 * few


def test_reading_everything_takes_no_more_memory_than_a_block(sqlite_url: str) -> None:
    """Verify, export and report hold a block of entries at a time: with ten times the entries their peak hardly grows."""
    peaks = []
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        for count in (200, 1_800):
            ledger.charge_all("clicks", [(TINY, {"relation": "add_remove", "label": "x" * 1500})] * count)
            write_report(ledger, _Nowhere())  # conversions keep their grids
            tracemalloc.start()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("accounting.ledger.verify.stream.__defaults__", (100,))
                assert ledger.verify().ok
                ledger.export(_Nowhere())
                write_report(ledger, _Nowhere(), latest=50)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)
