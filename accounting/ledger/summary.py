"""What reports need of a dataset: neither time nor memory grows with its entries, for each charge keeps the sums up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, select

from accounting.curves import Composed, Curve
from accounting.ledger.model import Dataset, Total
from accounting.ledger.rows import Declared, all_totals
from accounting.ledger.sums import NO_RUNS, read_sum
from accounting.ledger.tables import entries, sums
from accounting.spending.budget import Price
from accounting.spending.price import FAILURE_UNIT, MAIN_UNIT

MOST_CURVES = 5_000
MOST_POINTS = 240
MOST_LABELS = 12


@dataclass(frozen=True)
class Point:
    """An entry on the course of spending."""

    seq: int
    at: str
    spent: Price


@dataclass(frozen=True)
class Share:
    """What one label was charged and did not get back: runs, nats of the budget's unit, failure probability."""

    label: str | None
    runs: int
    main: float
    failure: float


@dataclass(frozen=True)
class Summary:
    """A dataset as reports show it.

    Attributes:
        curves: for every period ("" without a window) the composition of what was charged and not voided, all of it where a part
            was given back, as a plan that is fixed in advance has to; None if there are more than 5,000 different curves in all.
        points: at most 240 entries, evenly spaced, the last one among them; declarations of quotas left out.
        shares: of the labels that were charged most.
    """

    dataset: Dataset
    entries: int
    head: str
    totals: tuple[Total, ...]
    curves: dict[str, Curve] | None
    points: tuple[Point, ...]
    shares: tuple[Share, ...]


def summarise(connection: Connection, declared: Declared) -> Summary:
    """The summary of one dataset, from one state of the store."""
    budget, name = declared.dataset.budget, declared.dataset.name
    totals = tuple(Total(name, period, budget, spent) for period, spent in all_totals(connection, declared.id))
    return Summary(
        dataset=declared.dataset,
        entries=declared.seq,
        head=declared.head,
        totals=totals,
        curves=_curves(connection, declared, [total.period for total in totals]),
        points=_points(connection, declared),
        shares=_shares(connection, declared),
    )


def _curves(connection: Connection, declared: Declared, periods: list[str]) -> dict[str, Curve] | None:
    # Sums of no runs, which somebody may have made up, are nothing to verify either.
    rows = connection.execute(_sums(declared, "curve").where(sums.c.runs != NO_RUNS).limit(MOST_CURVES + 1)).all()
    if len(rows) > MOST_CURVES:
        return None
    parts: dict[str, list[tuple[int, Curve]]] = {period: [] for period in periods}
    for place, amounts in map(read_sum, rows):
        parts.setdefault(place.period, []).append((amounts.runs, Curve.from_json(place.content or "")))
    return {period: Composed.of(counted) for period, counted in sorted(parts.items())}


def _sums(declared: Declared, kind: str) -> Select[Any]:
    return select(sums).where(sums.c.dataset_id == declared.id, sums.c.kind == kind)


def _points(connection: Connection, declared: Declared) -> tuple[Point, ...]:
    step = max(1, -(-declared.seq // MOST_POINTS))
    wanted = sorted({*range(1, declared.seq + 1, step), declared.seq} - {0})
    columns = (entries.c.seq, entries.c.at, entries.c.spent_main, entries.c.spent_failure)
    mine = (entries.c.dataset_id == declared.id) & entries.c.seq.in_(wanted) & (entries.c.action != "quota")
    rows = connection.execute(select(*columns).where(mine).order_by(entries.c.seq))
    return tuple(Point(row.seq, row.at, Price(row.spent_main, row.spent_failure)) for row in rows)


def _shares(connection: Connection, declared: Declared) -> tuple[Share, ...]:
    rows = connection.execute(_sums(declared, "label").order_by(sums.c.main.desc(), sums.c.digest).limit(MOST_LABELS))
    unit, chance = float(MAIN_UNIT), float(FAILURE_UNIT)
    return tuple(Share(at.content, had.runs, had.main * unit, had.failure * chance) for at, had in map(read_sum, rows))
