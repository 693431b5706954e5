"""A ledger as tables for a terminal, and as data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accounting.ledger import Entry, Ledger, Total, Verification
from accounting.ledger.words import in_words, rounded_down
from accounting.page.amounts import failure_up, main_up, percent_up, shares
from dpselect.cli.printable import printable


def show(ledger: Ledger, names: Iterable[str], limit: int, console: Console) -> None:
    """Where every dataset stands, and its latest entries."""
    for name in names:
        console.print(_standing(ledger, name))
        if limit:
            console.print(_entries(ledger.latest(name, limit)))


def show_findings(found: Verification, console: Console, *, against_head: bool) -> None:
    """What verify found, one line each."""
    console.print(f"{found.entries:,} entries of {found.datasets} dataset(s) re-derived", highlight=False)
    for problem in found.problems:
        where = "" if problem.seq is None else f", entry {problem.seq}"
        console.print(Text.assemble((printable(problem.dataset) + where, "bold red"), f": {printable(problem.message)}"))
    if found.ok:
        console.print(Text("nothing found", style="green"))
    if found.ok and not against_head:
        console.print("A tail that was cut off shows against a head kept elsewhere only: see `dpselect ledger heads`.")


def as_data(ledger: Ledger, name: str, limit: int) -> dict[str, Any]:
    """A dataset as plain data: prices in whole units (10^-12 nats, 10^-18 of failure probability)."""
    dataset = ledger.dataset(name)
    return {
        "name": dataset.name,
        "relation": dataset.relation,
        "unit": dataset.unit,
        "window": dataset.window,
        "data_period": dataset.data_period,
        "budget": dataset.budget.model_dump(),
        "capacity": dataset.budget.capacity._asdict(),
        "periods": [_total(total) for total in _totals(ledger, name)],
        "latest": [entry.to_dict() for entry in ledger.latest(name, limit)],
    }


def findings(found: Verification) -> dict[str, Any]:
    """What verify found as plain data."""
    problems = [{"dataset": p.dataset, "entry": p.seq, "kind": p.kind, "message": p.message} for p in found.problems]
    return {"ok": found.ok, "datasets": found.datasets, "entries": found.entries, "problems": problems}


def _totals(ledger: Ledger, name: str) -> list[Total]:
    totals = ledger.totals(name)
    return totals if totals or ledger.dataset(name).window != "whole" else [ledger.total(name)]


def _total(total: Total) -> dict[str, Any]:
    left = total.remaining
    return {
        "period": total.period or None,
        "spent": total.spent._asdict(),
        "remaining": {"main": left.main, "failure": left.failure, "measure": left.measure},
    }


def _standing(ledger: Ledger, name: str) -> Table:
    dataset = ledger.dataset(name)
    table = Table(title=Text(printable(name), style="bold"), title_justify="left", caption_justify="left")
    table.caption = Text(f"{dataset.budget!r}, {dataset.relation}, unit: {printable(dataset.unit)}")
    for head in ("Period", "Spent", "Left", "Part", "Failure spent", "of"):
        table.add_column(head, justify="left" if head == "Period" else "right")
    for total in _totals(ledger, name):
        table.add_row(*_cells(total))
    return table


def _cells(total: Total) -> Iterator[str]:
    yield total.period or "all rows"
    yield main_up(total.spent.main)
    yield rounded_down(total.remaining.main)
    yield percent_up(shares(total.budget, total.spent)[0])
    yield failure_up(total.spent.failure)
    yield failure_up(total.budget.capacity.failure)


def _entries(latest: Iterable[Entry]) -> Table:
    table = Table(title="Latest entries", title_justify="left")
    for head in ("No.", "Time (UTC)", "Step", "What", "Runs", "Cost", "Label", "By"):
        table.add_column(head, justify="right" if head in ("No.", "Runs", "Cost") else "left", overflow="fold")
    for entry in latest:
        table.add_row(*(Text(cell) for cell in _entry(entry)))
    return table


def _entry(entry: Entry) -> Iterator[str]:
    yield str(entry.seq)
    yield printable(entry.at[:19].replace("T", " "))
    yield entry.action
    yield printable(in_words(entry.mechanism or entry.curve).replace("\u00a0", " "))
    yield str(entry.count or "")
    yield main_up(entry.main) if entry.main else ""
    yield printable(entry.label or "")
    yield printable(entry.actor)
