"""`Summary`: a dataset as reports show it, added up by the store from all of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sqlalchemy import ColumnElement, Connection, Float, and_, bindparam, case, cast, func, or_, select, union_all

from accounting.budget import Price
from accounting.curves import Composed, Curve
from accounting.ledger.model import OPENS, Dataset
from accounting.ledger.quota import Total
from accounting.ledger.store import Declared, all_totals, entries
from accounting.price import FAILURE_UNIT, MAIN_UNIT

MOST_CURVES, MOST_POINTS, MOST_LABELS = 5_000, 240, 12  # that a summary lists
_HALF = 10**9


@dataclass(frozen=True)
class _SpendingPoint:
    """An entry on the course of spending."""

    seq: int
    at: str
    spent: Price


@dataclass(frozen=True)
class LabelCost:
    """Of one label the runs that were not voided, and the nats of the budget's unit and failure probability not given back."""

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
    points: tuple[_SpendingPoint, ...]
    shares: tuple[LabelCost, ...]

    @classmethod
    def of(cls, connection: Connection, declared: Declared) -> Self:
        """The summary of one dataset, from one state of the store."""
        budget, name = declared.dataset.budget, declared.dataset.name
        totals = tuple(Total(name, period, budget, spent) for period, spent in all_totals(connection, declared.id).items())
        curves = _curves(connection, declared, [total.period for total in totals])
        points, shares = _points(connection, declared), _shares(connection, declared)
        return cls(declared.dataset, declared.seq, declared.head, totals, curves, points, shares)


def _curves(connection: Connection, declared: Declared, periods: list[str]) -> dict[str, Curve] | None:
    runs = _sum_of("count")
    asked = select(_MOVED.c.period, _MOVED.c.curve, *runs).group_by(_MOVED.c.period, _MOVED.c.curve)
    # What was voided altogether is none of them.
    rows = connection.execute(
        asked.having(or_(*(part != 0 for part in runs))).limit(MOST_CURVES + 1), {"mine": declared.id}
    ).all()
    if len(rows) > MOST_CURVES:
        return None
    parts: dict[str, list[tuple[int, Curve]]] = {period: [] for period in periods}
    for period, curve, *count in rows:
        parts.setdefault(period, []).append((_joined(*count), Curve.from_json(curve or "")))
    return {period: Composed.of(counted) for period, counted in sorted(parts.items())}


def _points(connection: Connection, declared: Declared) -> tuple[_SpendingPoint, ...]:
    step = max(1, -(-declared.seq // MOST_POINTS))
    wanted = sorted({*range(1, declared.seq + 1, step), declared.seq} - {0})
    columns = (entries.c.seq, entries.c.at, entries.c.spent_main, entries.c.spent_failure)
    mine = (entries.c.dataset_id == declared.id) & entries.c.seq.in_(wanted) & (entries.c.action != "quota")
    rows = connection.execute(select(*columns).where(mine).order_by(entries.c.seq))
    return tuple(_SpendingPoint(row.seq, row.at, Price(row.spent_main, row.spent_failure)) for row in rows)


def _shares(connection: Connection, declared: Declared) -> tuple[LabelCost, ...]:
    amounts = (part for name in ("count", "main", "failure") for part in _sum_of(name))
    dearest = func.sum(cast(_MOVED.c.main, Float)).desc(), func.coalesce(_MOVED.c.label, "")
    asked = select(_MOVED.c.label, *amounts).group_by(_MOVED.c.label).order_by(*dearest).limit(MOST_LABELS)
    found = []
    for label, *parts in connection.execute(asked, {"mine": declared.id}):
        runs, main, failure = (_joined(*pair) for pair in zip(parts[::2], parts[1::2], strict=True))
        found.append(LabelCost(label, runs, main * float(MAIN_UNIT), failure * float(FAILURE_UNIT)))
    return tuple(found)


_opened = entries.alias("opened")
_ITS_OWN = and_(*(_opened.c[name] == entries.c[name] for name in ("dataset_id", "key", "period")), _opened.c.action.in_(OPENS))
_TAKES_BACK = or_(entries.c.action == "void", and_(entries.c.action == "release", entries.c.curve.is_not(None)))
# What each charge added, and what was taken out of it again. A settled one counts all its runs: a plan that is fixed in advance
# was charged for all of them.
_MOVED = union_all(
    select(*(entries.c[name] for name in ("period", "curve", "label", "count", "main", "failure"))).where(
        entries.c.dataset_id == bindparam("mine"), entries.c.action.in_(OPENS)
    ),
    select(
        *(_opened.c[name] for name in ("period", "curve", "label")),
        case((entries.c.action == "void", -_opened.c.count), else_=0),
        *(entries.c.main, entries.c.failure),
    )
    .join(_opened, _ITS_OWN)
    .where(entries.c.dataset_id == bindparam("mine"), _TAKES_BACK),
).subquery()


def _sum_of(name: str) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """The sum of what lies above `_HALF` and of what lies below: many periods together may leave the 64 bits of SQLite."""
    column = _MOVED.c[name]
    return func.sum(column // _HALF), func.sum(column % _HALF)


def _joined(above: int, below: int) -> int:
    return int(above) * _HALF + int(below)
