"""`Summary`: a dataset as reports show it, added up by the store from all of its entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, Float, and_, bindparam, case, cast, exists, func, or_, select

from accounting.budget import Budget
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, Cost
from accounting.curves import Composed, Curve
from accounting.ledger.model import OPENS, Dataset
from accounting.ledger.quota import Revision
from accounting.ledger.store import IS_STEP, Declared, all_totals, entries
from accounting.remaining import Remaining

MOST_CURVES, MOST_POINTS, MOST_LABELS = 5_000, 240, 12  # that a summary lists


@dataclass(frozen=True)
class _SpendingPoint:
    """An entry on the course of spending."""

    seq: int
    at: str
    spent: Cost


@dataclass(frozen=True)
class LabelCost:
    """One label's runs and cost, without voided runs and refunds.

    The cost is in nats of the budget's unit, and in failure probability.
    """

    label: str | None
    runs: int
    main: float
    failure: float


@dataclass(frozen=True)
class Summary:
    """A dataset as reports show it.

    Attributes:
        curves: for every period ("" without a window), the composition of all charges that were not
            voided. A charge that was refunded in part counts in full, as in a plan fixed in
            advance. None if there are more than 5,000 different curves in all.
        points: at most 240 entries, evenly spaced, including the last one, without declarations of
            quotas.
        shares: costs of the labels that were charged most.
    """

    dataset: Dataset
    entries: int
    head: str
    totals: tuple[Remaining, ...]
    curves: dict[str, Curve] | None
    points: tuple[_SpendingPoint, ...]
    shares: tuple[LabelCost, ...]

    @classmethod
    def from_store(cls, connection: Connection, declared: Declared) -> Self:
        """Return the summary of one dataset, from one state of the store."""
        spent = all_totals(connection, declared.id)
        curves = charged_curves(connection, declared, list(spent))
        totals = standing(declared, spent, curves)
        points, shares = _points(connection, declared), _shares(connection, declared)
        return cls(declared.dataset, declared.seq, declared.head, totals, curves, points, shares)


def standing(
    declared: Declared, spent: Mapping[str, Cost], curves: Mapping[str, Curve] | None
) -> tuple[Remaining, ...]:
    """Return the state of each period's budget, from its sum and its composed charges."""
    curve_of, budget = curves or {}, declared.dataset.budget
    return tuple(
        Remaining(budget, cost, account=period, charged=curve_of.get(period))
        for period, cost in spent.items()
    )


def charged_curves(
    connection: Connection, declared: Declared, periods: Collection[str]
) -> dict[str, Curve] | None:
    """Return the composed charges of the named periods (see `Summary.curves`)."""
    query = (
        select(entries.c.period, entries.c.curve, func.sum(entries.c.count))
        .select_from(_CHARGES)
        .where(_STAND)
    )
    grouped = (
        query.where(entries.c.period.in_(periods))
        .group_by(entries.c.period, entries.c.curve)
        .limit(MOST_CURVES + 1)
    )
    rows = connection.execute(grouped, {"mine": declared.id}).all()
    if len(rows) > MOST_CURVES:
        return None
    parts: dict[str, list[tuple[int, Curve]]] = {period: [] for period in periods}
    for period, curve, count in rows:
        parts.setdefault(period, []).append((int(count), Curve.from_json(curve or "")))
    return {period: Composed.from_parts(counted) for period, counted in sorted(parts.items())}


def curves_of_quota(
    connection: Connection, declared: Declared, revision: Revision
) -> dict[str, Curve] | None:
    """Return the composed charges of every account of a quota, as `Summary.curves` does.

    A charge that reads several of an account's periods counts there once.
    """
    if is_a_sum(revision.limit):
        return None
    scope_column = entries.c[revision.quota.by or "period"]
    names = ("period", "who", "curve", "several")
    columns = (entries.c.period, scope_column, entries.c.curve, case((_SEVERAL, entries.c.key)))
    labels = [column.label(name) for name, column in zip(names, columns, strict=True)]
    query = select(*labels, func.sum(entries.c.count).label("runs")).select_from(_CHARGES)
    grouped = query.where(_STAND).group_by(*labels).limit(MOST_CURVES + 1)
    rows = connection.execute(grouped, {"mine": declared.id}).all()
    if len(rows) > MOST_CURVES:
        return None
    parts: dict[str, list[tuple[int, Curve]]] = {}
    counted: set[tuple[str, str]] = set()
    for row in rows:
        scope = {str(revision.quota.by): row.who}
        for account in revision.quota.accounts(declared.dataset.window, scope, [row.period]):
            if (account, row.several) not in counted:
                parts.setdefault(account, []).append((int(row.runs), Curve.from_json(row.curve)))
            if row.several is not None:
                counted.add((account, row.several))
    return {account: Composed.from_parts(charges) for account, charges in parts.items()}


def is_a_sum(budget: Budget) -> bool:
    """True of a pure budget, whose running total is the sum of epsilons already."""
    return budget.measure.is_pure and not budget.delta


def _points(connection: Connection, declared: Declared) -> tuple[_SpendingPoint, ...]:
    step = max(1, -(-declared.seq // MOST_POINTS))
    numbers = sorted({*range(1, declared.seq + 1, step), declared.seq} - {0})
    columns = (entries.c.seq, entries.c.at, entries.c.spent_main, entries.c.spent_failure)
    mine = (entries.c.dataset_id == declared.id) & entries.c.seq.in_(numbers) & IS_STEP
    rows = connection.execute(select(*columns).where(mine).order_by(entries.c.seq))
    return tuple(
        _SpendingPoint(row.seq, row.at, Cost(row.spent_main, row.spent_failure)) for row in rows
    )


def _shares(connection: Connection, declared: Declared) -> tuple[LabelCost, ...]:
    main, failure = (  # as floats: many periods together may leave the 64 bits of SQLite
        func.sum(cast(entries.c[part], Float) + cast(func.coalesce(_back.c[part], 0), Float)).label(
            part
        )
        for part in ("main", "failure")
    )
    query = (
        select(entries.c.label, func.sum(entries.c.count).label("runs"), main, failure)
        .select_from(_CHARGES)
        .where(_STAND)
    )
    dearest = (
        query.group_by(entries.c.label)
        .order_by(main.desc(), func.coalesce(entries.c.label, ""))
        .limit(MOST_LABELS)
    )
    return tuple(
        LabelCost(
            row.label, int(row.runs), row.main * float(MAIN_UNIT), row.failure * float(FAILURE_UNIT)
        )
        for row in connection.execute(dearest, {"mine": declared.id})
    )


_back = entries.alias("back")
_TAKES_BACK = or_(
    _back.c.action == "void", and_(_back.c.action == "release", _back.c.curve.is_not(None))
)
_SAME = (_back.c[name] == entries.c[name] for name in ("dataset_id", "key", "period"))
# Each charge, with what took it back or gave a part of it back. A settled one counts all its runs:
# a plan that is fixed in advance was charged for all of them.
_CHARGES = entries.outerjoin(_back, and_(*_SAME, _TAKES_BACK))
_sibling = entries.alias("sibling")
_SEVERAL = exists().where(
    _sibling.c.dataset_id == entries.c.dataset_id,
    _sibling.c.key == entries.c.key,
    _sibling.c.action.in_(OPENS),
    _sibling.c.period != entries.c.period,
)
_STAND = and_(
    entries.c.dataset_id == bindparam("mine"),
    entries.c.action.in_(OPENS),
    or_(_back.c.action.is_(None), _back.c.action != "void"),
)
