"""JSON lines: one object per line; a missing field is a null."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from dpselect.errors import EventLogError
from dpselect.events.doors.base import SHORT, Asked, Given, Kind, Kinds, Rows, literal, located, no_column
from dpselect.events.doors.paths import checked, plain
from dpselect.events.engine import Engine

_KINDS: dict[str, Kind] = {"UBIGINT": "digits", "BIGINT": "digits", "VARCHAR": "str"}
_VALUES: dict[str, Kind] = dict.fromkeys((*_KINDS, "DOUBLE", "HUGEINT", "UHUGEINT"), "str")


@final
@dataclass(frozen=True, slots=True)
class JsonLines:
    """One JSON object on each line."""

    name: str = "jsonl"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def rows(self, engine: Engine, given: Given) -> Rows:
        """The fields as text, beside the JSON type of each value (uk, ik, ...)."""
        original, asked = checked(given.source), given.asked
        what = given.called("jsonl")
        given.require_no_header("jsonl")
        path = plain(original, engine.unused("source"))
        names = {role: _name(role, column, what) for role, column in asked.columns.items()}
        _require_told_apart(names, what)
        if path.stat().st_size == 0:
            raise EventLogError(f"{what} is empty: it needs at least one event")
        fields = ", ".join(f"{literal(name)}: 'JSON'" for name in names.values())
        short = [SHORT[role] for role in names]
        source = (
            f"read_json({located(path)}, columns = {{{fields}}}, format = 'newline_delimited', records = true, "
            f"compression = 'none', ignore_errors = false, hive_partitioning = false) AS log({', '.join(short)})"
        )
        columns = ", ".join(f"{name} ->> '$' AS {name}, json_type({name}) AS {name}k" for name in short)

        labels = [role for role in names if role != "time"]

        def settle(engine: Engine, relation: str, missing: frozenset[str]) -> Kinds:
            _require_fields(path, asked, missing, what)
            kinds = [f"{SHORT[role]}k" for role in labels]
            distinct = ", ".join(f"list(DISTINCT {kind}) FILTER (WHERE {kind} IS NOT NULL)" for kind in kinds)
            found = engine.run(f"SELECT {distinct} FROM {relation}", what=what)[0]
            return {role: _kind_of(role, names[role], types, what) for role, types in zip(labels, found, strict=True)}

        return Rows(sql=f"SELECT {columns} FROM {source}", size=path.stat().st_size, what=what, kinds=settle)


def _require_told_apart(names: dict[str, str], what: str) -> None:
    for one, other in itertools.combinations(names, 2):
        if names[one].lower() == names[other].lower():
            raise EventLogError(
                f"{one}={names[one]!r} and {other}={names[other]!r} of {what} differ in letter case only, which the engine does "
                "not tell apart: rename one of them"
            )


def _kind_of(field: str, column: object, types: Iterable[str] | None, what: str) -> Kind:
    """The one kind that all values of a column have, from the JSON types that occur in it (None: every value is null)."""
    found = {(_VALUES if field == "value" else _KINDS).get(name) for name in types or ()}
    if None in found and field == "value":
        raise EventLogError(f"{field}={column!r} of {what} holds booleans, lists or objects where numbers belong")
    if None in found:
        raise EventLogError(
            f"{field}={column!r} of {what} holds values that are neither text nor whole numbers of at most 64 bits "
            "(fractions, booleans, lists or objects): write them as text"
        )
    if len(found) > 1:
        raise EventLogError(
            f'{field}={column!r} of {what} holds numbers and text: 7 and "7" would be counted apart; write all of them as one'
        )
    return "digits" if "digits" in found else "str"


def _require_fields(path: Path, asked: Asked, missing: frozenset[str], what: str) -> None:
    """Refuse a column in which no row had a value, unless the first object has it (then it is null, not missing)."""
    names = _first_names(path) if missing else []
    for role, column in asked.columns.items():
        if role in missing and names and column not in names:
            # In objects like {"ann": "zoo"} the names are private too; those of a log are known by the column that is there.
            if not set(asked.columns.values()).isdisjoint(names):
                raise no_column(role, column, names, what)
            raise EventLogError(
                f"{role}={column!r} is not a field of {what}: check the name; the fields' names may be data, so are not shown"
            )


def _name(field: str, column: str | int, what: str) -> str:
    if isinstance(column, int):
        raise EventLogError(f"{field}={column!r} is a position, and {what} has names: give the name of a field")
    return column


def _first_names(path: Path) -> list[str]:
    """The names in the first object; none if it cannot be read here, though the engine, which looks at two fields only, can."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            try:
                value: Any = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                return []
            if isinstance(value, dict):
                return list(value)
    return []
