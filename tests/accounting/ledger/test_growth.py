"""What a charge costs does not grow with the entries there are. Counted in steps of SQLite's
machine, not in time.
"""

from __future__ import annotations

import io
import sqlite3
import tracemalloc
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import Made

import accounting as acc
from accounting.curves import Composed, Curve
from accounting.ledger import ChargeOptions, Ledger, store
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
    monkeypatch.setattr(store.sqlite3, "connect", counted)
    return measure


def test_a_charge_costs_the_same_at_any_size(
    made: Made, steps: Callable[[Callable[[], Any]], int]
) -> None:
    """Every operation that a release needs takes as many steps with 600 entries as with 50."""
    ledger = made(acc.Budget(epsilon=1.0))

    def grow(stop: int) -> None:
        while ledger.heads().datasets["clicks"].seq < stop:
            terms: ChargeOptions = {
                "relation": "add_remove",
                "fingerprint": "rows",
                "label": "daily",
            }
            ledger.charge_all("clicks", [(TINY, terms)] * 50)

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


def test_sums_are_those_of_the_entries(url: str, tmp_path: Path) -> None:
    """By curve and period, and by label, whatever was reserved, voided, charged in batches or
    imported, retried or refused.
    """
    with Ledger.open(url) as ledger:
        ledger.create_dataset(
            "visits", acc.Budget(epsilon=1.0, delta=1e-6), "add_remove", window="month"
        )
        curves = [
            acc.PureDP(epsilon=0.01),
            acc.Approximate(curve=acc.PureDP(epsilon=0.02), delta0=1e-9),
        ]
        labels, months = ("a", None, "b" * 1500), (["2024-01"], ["2024-01", "2024-02"])
        asked = list(product(curves, labels, months, (1, 3)))
        terms = [
            ChargeOptions(relation="add_remove", label=label, period=month, count=count)
            for _, label, month, count in asked
        ]
        ledger.charge_all(
            "visits", [(curve, one) for (curve, *_), one in zip(asked, terms, strict=True)]
        )
        for number, ((curve, *_), one) in enumerate(zip(asked, terms, strict=True)):
            receipt = ledger.reserve("visits", curve, **one)
            (
                ledger.reserve("visits", curve, **one, key=receipt.key)
                if number % 2
                else ledger.commit("visits", receipt.key)
            )
            if number % 3 and number % 2:
                ledger.void("visits", receipt.key, actor="ada", reason="cancelled")
        with pytest.raises(acc.BudgetExceeded):
            ledger.charge(
                "visits", acc.PureDP(epsilon=0.9), relation="add_remove", period="2024-02"
            )
        entries, summary = list(ledger.entries("visits")), ledger.summary("visits")
        ledger.export(tmp_path / "all.jsonl")
    voided = {entry.key for entry in entries if entry.action == "void"}
    stand = [
        entry
        for entry in entries
        if entry.action in ("charge", "reserve") and entry.key not in voided
    ]
    assert len(voided) == 8
    due = {
        month: Composed.from_parts(
            [(e.count, Curve.from_json(e.curve or "")) for e in stand if e.period == month]
        )
        for month in months[1]
    }
    assert summary.curves == due
    for share in summary.shares:
        mine = [entry for entry in stand if entry.label == share.label]
        exact = (
            sum(e.count for e in mine),
            sum(e.main for e in mine) * 1e-12,
            sum(e.failure for e in mine) * 1e-18,
        )
        assert (share.runs, share.main, share.failure) == pytest.approx(exact, rel=1e-12)
    assert {share.label for share in summary.shares} == set(labels)
    with Ledger.open(f"sqlite:///{tmp_path / 'again.db'}") as again:
        again.import_(tmp_path / "all.jsonl")
        assert (again.summary("visits"), again.verify().ok) == (summary, True)


@pytest.mark.slow
def test_reading_everything_takes_no_more_memory_than_a_block(sqlite_url: str) -> None:
    """Verify, export and report hold a block of entries at a time: with ten times the entries their
    peak hardly grows.
    """
    peaks = []
    with Ledger.open(sqlite_url) as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove")
        for count in (200, 1_800):
            ledger.charge_all(
                "clicks", [(TINY, {"relation": "add_remove", "label": "x" * 1500})] * count
            )
            write_report(ledger, _Nowhere())  # conversions keep their grids
            tracemalloc.start()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("accounting.ledger.store.BLOCK", 100)
                assert ledger.verify().ok
                ledger.export(_Nowhere())
                write_report(ledger, _Nowhere(), latest=50)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        (
            (
                "SELECT key FROM dpledger_entries WHERE dataset_id = 1 AND expires <= 'x' AND"
                " expires IS NOT NULL"
            ),
            "expiring",
        ),
        ("SELECT seq FROM dpledger_entries WHERE dataset_id = 1 AND action = 'quota'", "quotas"),
        (
            "SELECT seq FROM dpledger_entries WHERE fingerprint = 'x' AND dataset_id = 1",
            "fingerprints",
        ),
    ],
)
def test_charge_queries_use_an_index(sqlite_url: str, asked: str, index: str) -> None:
    """Few rows of many are found without reading the others."""
    with Ledger.open(sqlite_url) as ledger, ledger._store.reader() as connection:
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all())
    assert f"INDEX dpledger_entries_{index}" in plan
