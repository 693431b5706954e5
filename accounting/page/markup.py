"""HTML from text that may hold anything."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from accounting.ledger.words import rounded_down, rounded_up
from accounting.spending.budget import Budget, Price
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT, Measure

Cell = tuple[str, str]  # a class and escaped content


def text(value: object) -> str:
    """Escaped, and kept from turning the writing direction of what follows."""
    return f"<bdi>{escape(str(value))}</bdi>"


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "") -> Iterable[str]:
    """A table that scrolls by itself and turns into cards on a narrow screen; cells are escaped by the caller."""
    columns = list(heads)
    yield f'<div class="scroll" role="region" aria-label="{escape(caption, quote=True)}" tabindex="0">'
    yield f'<table class="{kind}" role="table"><caption>{escape(caption)}</caption>{heading(columns)}<tbody>'
    for row in rows:
        yield row_of(columns, row)
    yield "</tbody></table></div>"


def heading(columns: Iterable[str]) -> str:
    """A table's head. Roles are spelt out, because a table that is laid out as cards loses them."""
    cells = "".join(f'<th scope="col" role="columnheader">{escape(head)}</th>' for head in columns)
    return f'<thead role="rowgroup"><tr role="row">{cells}</tr></thead>'


def row_of(columns: list[str], cells: Iterable[str], attributes: str = "") -> str:
    """A table row, whose cells know their heading for narrow screens."""
    pairs = zip(columns, cells, strict=True)
    inside = "".join(f'<td role="cell" data-head="{escape(head, quote=True)}">{_boxed(cell)}</td>' for head, cell in pairs)
    return f'<tr role="row"{attributes}>{inside}</tr>'


def _boxed(cell: str) -> str:
    """One element beside the heading, where a row is laid out as a card; empty cells are left out there."""
    return cell and f"<div>{cell}</div>"


def unit_of(measure: Measure) -> str:
    """The unit of a budget's main part, in words."""
    if measure == "epsilon":
        return "nats of pure ε"
    return "nats of ρ (zCDP)" if measure == "rho" else f"nats of Rényi divergence of order {measure:g}"


def main_up(units: int) -> str:
    """A main price, in nats, rounded up (away from zero for what is given back)."""
    return "−" + rounded_down(-units * MAIN_UNIT) if units < 0 else rounded_up(units * MAIN_UNIT)


def failure_up(units: int) -> str:
    """A failure price, as a probability, rounded up."""
    return "−" + rounded_down(-units * FAILURE_UNIT) if units < 0 else rounded_up(units * FAILURE_UNIT)


def shares(budget: Budget, spent: Price) -> tuple[float, float]:
    """Spent parts of a budget's main capacity and of its failure capacity, in [0, 1]."""
    return _share(spent.main, budget.capacity.main), _share(spent.failure, budget.capacity.failure)


def _share(spent: int, capacity: int) -> float:
    return min(1.0, max(0.0, spent / capacity)) if capacity else 0.0


def percent_up(share: float) -> str:
    """A share in percent, rounded up to a tenth; 100 % only where nothing is left."""
    if share >= 1:
        return "100 %"
    tenths = min(999, -int(-share * 1000 // 1))
    return f"{tenths / 10:.1f} %"
