"""What reports need of a dataset, added up by the store: memory does not grow with the number of entries."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Double, Select, cast, func, select

from accounting.curves import Composed, Curve
from accounting.ledger.model import Dataset, Total
from accounting.ledger.rows import Declared, all_totals
from accounting.ledger.tables import entries
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
        points: at most 240 entries, evenly spaced, the last one among them.
        shares: of the labels that were charged most.
        actions: how many entries of every action.
    """

    dataset: Dataset
    entries: int
    head: str
    totals: tuple[Total, ...]
    curves: dict[str, Curve] | None
    points: tuple[Point, ...]
    shares: tuple[Share, ...]
    actions: dict[str, int]


def summarise(connection: Connection, declared: Declared) -> Summary:
    """The summary of one dataset, from one state of the store."""
    budget, name = declared.dataset.budget, declared.dataset.name
    return Summary(
        dataset=declared.dataset,
        entries=declared.seq,
        head=declared.head,
        totals=tuple(Total(name, period, budget, spent) for period, spent in all_totals(connection, declared.id)),
        curves=_curves(connection, declared),
        points=_points(connection, declared),
        shares=_shares(connection, declared),
        actions=_actions(connection, declared),
    )


def _charged(declared: Declared, *columns: Any) -> Select[Any]:
    mine = (entries.c.dataset_id == declared.id) & entries.c.action.in_(("charge", "reserve"))
    return select(*columns).where(mine)


def _voided(declared: Declared, *columns: Any) -> Select[Any]:
    """The reservations that a void took back: looked up from the voids, which are few."""
    void = entries.alias("void")
    same = (void.c.dataset_id == entries.c.dataset_id) & (void.c.key == entries.c.key) & (void.c.period == entries.c.period)
    return _charged(declared, *columns).join_from(void, entries, same).where(void.c.action == "void")


def _curves(connection: Connection, declared: Declared) -> dict[str, Curve] | None:
    columns = (entries.c.period, entries.c.curve, func.sum(entries.c.count).label("runs"))
    group = (entries.c.period, entries.c.curve)
    rows = connection.execute(_charged(declared, *columns).group_by(*group).limit(MOST_CURVES + 1)).all()
    if len(rows) > MOST_CURVES:
        return None
    runs = Counter({(row.period, row.curve): int(row.runs) for row in rows})
    for row in connection.execute(_voided(declared, *columns).group_by(*group)):
        runs[row.period, row.curve] -= int(row.runs)
    parts: dict[str, list[tuple[int, Curve]]] = defaultdict(list)
    for (period, curve), count in runs.items():
        parts[period].append((count, Curve.from_json(curve)))
    return {period: Composed.of(counted) for period, counted in sorted(parts.items())}


def _points(connection: Connection, declared: Declared) -> tuple[Point, ...]:
    step = max(1, -(-declared.seq // MOST_POINTS))
    wanted = sorted({*range(1, declared.seq + 1, step), declared.seq} - {0})
    columns = (entries.c.seq, entries.c.at, entries.c.spent_main, entries.c.spent_failure)
    mine = (entries.c.dataset_id == declared.id) & entries.c.seq.in_(wanted)
    rows = connection.execute(select(*columns).where(mine).order_by(entries.c.seq))
    return tuple(Point(row.seq, row.at, Price(row.spent_main, row.spent_failure)) for row in rows)


def _shares(connection: Connection, declared: Declared) -> tuple[Share, ...]:
    sums = _label_sums(connection, _charged, declared)
    for label, (runs, main, failure) in _label_sums(connection, _voided, declared).items():
        before = sums.get(label, (runs, main, failure))
        sums[label] = (before[0] - runs, before[1] - main, before[2] - failure)
    for label, back in _given_back(connection, declared).items():
        before = sums.get(label, (0, 0.0, 0.0))
        sums[label] = (before[0], before[1] + back, before[2])
    largest = sorted(sums.items(), key=lambda item: item[1], reverse=True)
    return tuple(Share(label, *amounts) for label, amounts in sorted(largest[:MOST_LABELS], key=lambda item: -item[1][1]))


def _given_back(connection: Connection, declared: Declared) -> dict[str | None, float]:
    """What releases took off their reservations, by the reservations' labels; nats, at most 0."""
    release = entries.alias("release")
    same = (release.c.dataset_id == entries.c.dataset_id) & (release.c.key == entries.c.key)
    columns = (entries.c.label, func.sum(cast(release.c.main, Double)).label("main"))
    query = _charged(declared, *columns).join_from(release, entries, same & (release.c.period == entries.c.period))
    rows = connection.execute(query.where(release.c.action == "release", release.c.main < 0).group_by(entries.c.label))
    return {row.label: row.main * float(MAIN_UNIT) for row in rows}


def _label_sums(connection: Connection, source: Any, declared: Declared) -> dict[str | None, tuple[int, float, float]]:
    # As floating point: sums over everything ever reserved may leave 64 bits, and this is for the eye.
    main, failure = (func.sum(cast(column, Double)) for column in (entries.c.main, entries.c.failure))
    columns = (entries.c.label, func.sum(entries.c.count).label("runs"), main.label("main"), failure.label("failure"))
    query = source(declared, *columns).group_by(entries.c.label).order_by(main.desc()).limit(MOST_CURVES)
    unit, chance = float(MAIN_UNIT), float(FAILURE_UNIT)
    return {row.label: (int(row.runs), row.main * unit, row.failure * chance) for row in connection.execute(query)}


def _actions(connection: Connection, declared: Declared) -> dict[str, int]:
    query = select(entries.c.action, func.count()).where(entries.c.dataset_id == declared.id).group_by(entries.c.action)
    return {action: int(count) for action, count in connection.execute(query)}
