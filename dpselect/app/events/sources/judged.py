"""Evaluation of the conditions, in each file by itself, where a column's type is known.

The content of one file or one row must not affect the others, so two types of a column are never
converted to one for a comparison.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from dpselect.app.events.dialect import EMBEDDED, Dialect, decimal, double, matches
from dpselect.app.events.sources.base import SHORT, Given, Kind, Rows, is_condition
from dpselect.app.events.where import NUMBER, Condition

LARGEST = double(sys.float_info.max)
"""SQL of the largest finite number."""


def judged(log: Rows, given: Given, dialect: Dialect = EMBEDDED) -> Rows:
    """The events with one column, `kept`, in place of the columns of conditions."""
    tests = given.tests()
    if log.kept or not tests:
        return log
    held = list[str]()
    for role, test in tests.items():
        name, kind = SHORT[role], log.kinds[role]
        held.append(_satisfies(name, kind, test, dialect, given.said.decimal))
        held += [
            f"NOT {_satisfies(name, kind, one, dialect, given.said.decimal)}"
            for one in given.missing()
        ]
    kinds = {role: kind for role, kind in log.kinds.items() if not is_condition(role)}
    columns = [
        *["refused"] * bool(log.bad),
        *(SHORT[role] for role in kinds),
        f"{' AND '.join(held)} AS kept",
    ]
    sql = log.sql and f"SELECT {', '.join(columns)} FROM ({log.sql})"
    return replace(log, sql=sql, kinds=kinds, nothing=log.nothing.intersection(kinds), kept="kept")


def _satisfies(name: str, kind: Kind, test: Condition, dialect: Dialect, mark: str) -> str:
    """SQL that is true if a column's value satisfies a condition, and never null."""
    text = f"nullif(CAST({name} AS VARCHAR), '')"
    number = dialect.number(name)
    if kind == "str":
        said = decimal(text, mark)
        number = f"CASE WHEN {matches(said, NUMBER, dialect)} THEN {dialect.number(said)} END"
    number = f"CASE WHEN abs({number}) <= {LARGEST} THEN {number} END"
    side, value = (
        (number, double(test.number))
        if test.as_number(kind)
        else (text, dialect.literal(test.text(kind)))
    )
    return f"coalesce({side} {test.sign} {value}, false)"
