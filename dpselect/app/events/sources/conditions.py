"""Evaluation of the conditions, in each file by itself, where a column's type is known.

The content of one file or one row must not affect the others, so two types of a column are never
converted to one for a comparison.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from dpselect.app.events.dialect import EMBEDDED, Dialect, decimal, double, matches
from dpselect.app.events.sources.base import SHORT, Kind, Rows, SourceRequest, is_condition
from dpselect.app.events.where import NUMBER, Condition

LARGEST = double(sys.float_info.max)
"""SQL of the largest finite number."""


def evaluate_conditions(log: Rows, request: SourceRequest, dialect: Dialect = EMBEDDED) -> Rows:
    """The events with one column, `kept`, in place of the columns of conditions."""
    tests = request.tests()
    if log.kept_column or not tests:
        return log
    clauses = list[str]()
    for role, test in tests.items():
        name, kind = SHORT[role], log.kinds[role]
        clauses.append(_satisfies(name, kind, test, dialect, request.options.decimal))
        clauses += [
            f"NOT {_satisfies(name, kind, condition, dialect, request.options.decimal)}"
            for condition in request.missing()
        ]
    kinds = {role: kind for role, kind in log.kinds.items() if not is_condition(role)}
    columns = [
        *["refused"] * bool(log.bad),
        *(SHORT[role] for role in kinds),
        f"{' AND '.join(clauses)} AS kept",
    ]
    sql = log.sql and f"SELECT {', '.join(columns)} FROM ({log.sql})"
    return replace(
        log, sql=sql, kinds=kinds, nothing=log.nothing.intersection(kinds), kept_column="kept"
    )


def _satisfies(name: str, kind: Kind, test: Condition, dialect: Dialect, mark: str) -> str:
    """SQL that is true if a column's value satisfies a condition, and never null."""
    text = f"nullif(CAST({name} AS VARCHAR), '')"
    number = dialect.number(name)
    if kind == "str":
        digits = decimal(text, mark, dialect)
        number = f"CASE WHEN {matches(digits, NUMBER, dialect)} THEN {dialect.number(digits)} END"
    number = f"CASE WHEN abs({number}) <= {LARGEST} THEN {number} END"
    side, value = (
        (number, double(test.number))
        if test.compares_numbers(kind)
        else (text, dialect.literal(test.text(kind)))
    )
    return f"coalesce({side} {test.sign} {value}, false)"
