"""Events of any source as one relation, in the shape that is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast, final

from dpselect.app.events import spark
from dpselect.app.events.dialect import EMBEDDED, Dialect, decimal, double, matches
from dpselect.app.events.engine import Engine, open_engine
from dpselect.app.events.file_options import normalize_label
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.sources import databases, formats, tables
from dpselect.app.events.sources.base import (
    LABELS,
    SHORT,
    Kind,
    Kinds,
    Rows,
    SourceRequest,
    is_label,
    refusal,
)
from dpselect.app.events.sources.conditions import LARGEST, evaluate_conditions
from dpselect.app.events.time_window import FIRST, LAST
from dpselect.app.events.where import NUMBER
from dpselect.errors import EventLogError


class Source(Protocol):
    """A reader of one kind of source, a module or an object.

    `SOURCES` lists them, and the first that accepts a source reads it.
    """

    def accepts(self, request: SourceRequest) -> bool:
        """True if it reads this kind of source, by type or name, without a row or heavy import."""

    def rows(self, engine: Any, request: SourceRequest) -> Rows:
        """The stated columns, as SQL of the engine, whose errors pass `engine.run_guarded`."""


# The narrower before the wider: an address is text, as a path is. A new kind of file goes into
# `formats.FORMATS` instead.
SOURCES: Final[tuple[Source, ...]] = (spark, databases, formats, tables)

# Why an event is not counted, in the column `apart`: 0 if it is; bits of the at most five roles
# that it lacks, and of one outside the window or the conditions; a number below 0 for a value that
# refuses the log.
OUTSIDE = 32
_NUMBERS = f"{NUMBER}|[+-]?(?i:nan|inf|infinity)"
# a wrong unit puts times beyond the years 1900 to 9999
_TIME = f"coalesce(moment BETWEEN {FIRST} AND {LAST}, false)"
_FINITE = f"coalesce(abs(number) <= {LARGEST}, false)"


@final
@dataclass(frozen=True, slots=True, repr=False)
class PeriodEvents(NotPickled):
    """The shaped events of one period (perhaps none), on disk during a block. **Private**."""

    relation: str
    size: int
    title: str
    kinds: Kinds
    nothing: frozenset[str]

    def __repr__(self) -> str:
        return f"PeriodEvents({self.title!r})"


@contextmanager
def engine_of(source: object, memory_limit: str | None) -> Iterator[Engine | spark.Cluster]:
    """The engine that reads a source: its cluster for a Spark table, and the embedded one else."""
    if not spark.is_table(source):
        with open_engine(memory_limit) as engine:
            yield engine
        return
    with closing(spark.Cluster(cast(Any, source).sparkSession)) as cluster:
        yield cluster


def read_events(
    engine: Engine | spark.Cluster, request: SourceRequest, raw: str | None = None
) -> Rows:
    """The events of a source in the engine's SQL, shaped."""
    return shape_events(rows(engine, request), request, engine.dialect, raw)


def rows(engine: Engine | spark.Cluster, request: SourceRequest) -> Rows:
    """The columns of a source, from the first reader that accepts it, or of a period's events."""
    if isinstance(request.source, PeriodEvents):
        part = request.source
        return Rows(
            f"SELECT * FROM {part.relation}",
            part.size,
            part.title,
            part.kinds,
            nothing=part.nothing,
            apart="apart",
        )
    for source in SOURCES:
        if source.accepts(request):
            log = evaluate_conditions(source.rows(engine, request), request, engine.dialect)
            if request.options.normalize and isinstance(engine, Engine):
                engine.define(
                    "normalized", lambda text: normalize_label(text, request.options.normalize)
                )
            return normalize_events(log, request, engine.dialect)
    kind = type(request.source)
    raise EventLogError(
        f"source is a {kind.__module__}.{kind.__qualname__}. Give a path or several, a folder or a"
        " pattern, a table (pandas, Polars, DuckDB, or whatever offers an Arrow stream), a"
        " postgresql:// address, or '-'"
    )


def normalize_events(log: Rows, request: SourceRequest, dialect: Dialect) -> Rows:
    """The events with labels in the form in which they are compared.

    Texts that the file writes for a missing value are null. With several items in one field, there
    is one event for each. Labels that stand for no label are null, normal forms are applied, and a
    label of several columns is one CSV record. A user 7.0 is the user 7, because pandas writes
    integers so where one of the column is missing.

    A number or a time does not depend on any text that the caller chose. A value that is not one
    refuses the log, so otherwise a caller could ask whether the log has some text.
    """
    options, kinds, nothing = request.options, dict(log.kinds), log.nothing
    flags, sql = ["refused"] * bool(log.bad) + ["kept"] * bool(log.kept_column), log.sql
    if options.missing:
        columns = [
            _null_absent(role, kind, options.missing, dialect) for role, kind in kinds.items()
        ]
        sql = f"SELECT {', '.join([*flags, *columns])} FROM ({sql})"
    if options.split is not None:
        every = [*flags, *(SHORT[role] for role in kinds if role != "item")]
        every.append(f"{dialect.pieces('CAST(i AS VARCHAR)', options.split)} AS i")
        sql = f"SELECT {', '.join(every)} FROM ({sql})"
        kinds["item"] = "str"
        nothing -= {"item"}
    if options.null or options.split or options.normalize:
        columns = []
        for role, kind in kinds.items():
            name = SHORT[role]
            column = _null_absent(role, kind, options.null, dialect) if is_label(role) else name
            if is_label(role) and kind == "str":
                text = column.removesuffix(f" AS {name}")
                column = (
                    f"nullif({f'normalized({text})' if options.normalize else text}, '') AS {name}"
                )
            columns.append(column)
        sql = f"SELECT {', '.join([*flags, *columns])} FROM ({sql})"
    if texts := [role for role in request.columns.parts("user") if kinds[role] == "str"]:
        columns = [_user_sql(SHORT[role], dialect) for role in texts]
        every = [*flags, *(SHORT[role] for role in kinds if role not in texts)]
        sql = f"SELECT {', '.join([*every, *columns])} FROM ({sql})"
    for whole in ("user", "item"):
        if len(parts := request.columns.parts(whole)) > 1:
            rest = [SHORT[role] for role in kinds if role not in parts]
            record = " || ',' || ".join(
                _record(f"CAST({SHORT[role]} AS VARCHAR)", dialect) for role in parts
            )
            sql = (
                f"SELECT {', '.join([*flags, *rest])}{', ' * bool(flags or rest)}{record} AS"
                f" {SHORT[whole]} FROM ({sql})"
            )
            kinds = {
                whole: "str",
                **{role: kind for role, kind in kinds.items() if role not in parts},
            }
            nothing -= set(parts)
    bad = "CASE WHEN refused < 0 THEN refused END" if log.bad else ""
    return replace(log, sql=sql, kinds=kinds, nothing=nothing, bad=bad)


def _null_absent(role: str, kind: Kind, absent: Sequence[str], dialect: Dialect) -> str:
    """SQL of a role's column in which these texts, or the numbers they represent, are null."""
    name = SHORT[role]
    if kind == "number":
        operand, excluded = (
            name,
            [
                f"CAST({dialect.literal(text)} AS DOUBLE)"
                for text in absent
                if re.fullmatch(_NUMBERS, text)
            ],
        )
    else:
        # of integers, too
        operand, excluded = f"CAST({name} AS VARCHAR)", list(map(dialect.literal, absent))
    return (
        f"CASE WHEN {operand} NOT IN ({', '.join(excluded)}) THEN {name} END AS {name}"
        if excluded
        else f"{name} AS {name}"
    )


def _user_sql(name: str, dialect: Dialect) -> str:
    """SQL of a column of users as text, with 7 for 7.0."""
    whole = matches(name, "-?[0-9]+[.]0+", dialect)
    return (
        f"CASE WHEN {name} LIKE '%.0%' AND {whole} THEN split_part({name}, '.', 1) ELSE {name} END"
        f" AS {name}"
    )


def shape_events(
    log: Rows, request: SourceRequest, dialect: Dialect = EMBEDDED, raw: str | None = None
) -> Rows:
    """The events as one relation with the columns that are counted.

    It has labels in u, i and g, a number in v, microseconds in t (of the clock on the `wall` or
    not), and in `apart` the reason why an event is not counted, which may be SQL of the labels.

    Events that are not counted are still checked for everything that refuses a log, because a
    refusal is free and the caller chooses the time range and the conditions. The column of the role
    `raw`, if stated, is kept as it is.
    """
    if log.apart:
        return log
    role_columns, window = request.columns, request.window
    lacks = {role: SHORT[role] for role in role_columns.roles}
    if not ("value" in role_columns.by_role or window is not None or log.kept_column or log.bad):
        return replace(log, apart=f"CAST({_lacking(lacks)} AS TINYINT)")
    inner, columns = ["*"], {SHORT[role]: SHORT[role] for role in role_columns.roles}
    beyond = [f"NOT ({log.kept_column})"] if log.kept_column else []
    bad = ["WHEN bad < 0 THEN bad "] if log.bad else []
    inner += [f"{log.bad} AS bad"] if log.bad else []
    if raw is not None:
        inner.append(f"CAST({SHORT[raw]} AS VARCHAR) AS raw")
        columns["raw"] = "raw"
    if window is not None:
        request.require_unit(log.kinds["time"], log.title)
        moment, wall = window.moment(log.kinds["time"], dialect, request.options.time_format)
        inner += [f"{moment} AS moment", f"{wall} AS wall"]
        beyond.append(f"({_TIME} AND NOT ({window.holds('moment', 'wall')}))")
        if request.options.time_format is None:
            bad.append(f"WHEN t IS NOT NULL AND NOT {_TIME} THEN {refusal('time')} ")
        else:
            lacks["time"] = "moment"
        columns["t"] = "moment AS t, wall"
    if "value" in role_columns.by_role:
        mark = request.options.decimal if log.kinds["value"] == "str" else "."
        inner.append(
            f"{dialect.number(decimal('v', mark, dialect))} + 0e0 AS number"
        )  # no negative zero
        bad.append(f"WHEN v IS NOT NULL AND NOT {_FINITE} THEN {refusal('value')} ")
        columns["v"] = "number AS v"
        if request.amount is not None:
            most = double(request.amount.most)
            columns["v"] = f"greatest(-{most}, least({most}, number)) AS v"
    outside = f" + {OUTSIDE} * CAST({' OR '.join(beyond)} AS TINYINT)" if beyond else ""
    apart = (
        f"CASE {''.join(bad)}ELSE {_lacking(lacks)}{outside} END"
        if bad
        else f"{_lacking(lacks)}{outside}"
    )
    columns["apart"] = f"CAST({apart} AS TINYINT) AS apart"
    sql = f"SELECT {', '.join(columns.values())} FROM (SELECT {', '.join(inner)} FROM ({log.sql}))"
    kinds = {role: kind for role, kind in log.kinds.items() if role in LABELS}
    return replace(log, sql=sql, kinds=kinds, apart="apart")


def _record(text: str, dialect: Dialect) -> str:
    """SQL of a field of a CSV record, as `catalog._join_parts` writes it."""
    special, quote, twice = map(dialect.literal, ('[,"\r\n]', '"', '""'))
    inside = f"replace({text}, {quote}, {twice})"
    return (
        f"(CASE WHEN {text} = '' OR regexp_matches({text}, {special}) THEN {quote} || {inside} ||"
        f" {quote} ELSE {text} END)"
    )


def _lacking(columns: Mapping[str, str]) -> str:
    """SQL of the bits of the roles, in order, whose columns have no value."""
    return " + ".join(
        f"{1 << place} * CAST({name} IS NULL AS TINYINT)"
        for place, name in enumerate(columns.values())
    )
