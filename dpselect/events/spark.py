"""A Spark DataFrame, counted on its cluster by SQL; no Python runs there. Counts are those of the embedded engine, to the row."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, final

import numpy as np

from accounting.errors import MissingExtra
from dpselect.errors import EventLogError
from dpselect.events.bounding import KEY
from dpselect.events.columns import SHORT, by_name
from dpselect.events.counting import Contributions, Counted
from dpselect.events.domain import named
from dpselect.events.doors.files import Format
from dpselect.events.engine import guarded
from dpselect.events.report import ReadReport
from dpselect.events.rows import Given
from dpselect.events.tally import Tally
from dpselect.selection import Label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHAT = "this Spark table"
_BUCKET = "CAST(pmod(hash(i), 4096) AS BIGINT)"
_SEPARATORS = {"csv": ",", "tsv": "\t", "parquet": ""}
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_MOST = 10_000_000  # items that are collected
_LONGEST = 20  # decimal digits of an unsigned integer of 64 bits, which Spark reads from Parquet as a decimal without fraction


def accepts(given: Given) -> bool:
    """A Spark DataFrame, also one of a session elsewhere (Spark Connect); pyspark is not imported to tell."""
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(given.source).__mro__)
    return any(kind.startswith("pyspark.sql.") and kind.endswith(".DataFrame") for kind in kinds)


def found(name: str, format: Format, *, header: bool | None) -> object:
    """A DataFrame of the environment's session, which is started if there is none.

    A name with a slash or the ending of a format is a path or an address of Parquet, CSV or TSV; another is a table's. Of a file
    without a header the columns are 1, 2, ...

    Raises:
        MissingExtra: pyspark is not installed.
        EventLogError: it cannot be read, or has another format.
    """
    ending = PurePath(name.removesuffix(".gz")).suffix.lower().removeprefix(".")
    is_table = format == "auto" and "/" not in name and ending not in _SEPARATORS
    kind = "parquet" if format == "auto" and (is_table or ending not in _SEPARATORS) else ending if format == "auto" else format
    if kind not in _SEPARATORS or (header is not None and kind == "parquet"):
        raise EventLogError(
            f"{name!r} cannot be read by Spark as asked: give a table, Parquet, CSV or TSV, the latter two with header="
        )
    session = _session()
    if kind == "parquet":
        return guarded(_WHAT, lambda: session.table(name) if is_table else session.read.parquet(name))
    quotes = {"quote": '"', "escape": '"'} if kind == "csv" else {"quote": ""}
    options: dict[str, Any] = {
        "sep": _SEPARATORS[kind],
        "header": header is not False,
        "mode": "FAILFAST",
        "enforceSchema": False,
        **quotes,
    }
    frame = guarded(_WHAT, lambda: session.read.csv(name, inferSchema=False, **options).replace("", None))
    return frame if header is not False else frame.toDF(*(str(place + 1) for place in range(len(frame.columns))))


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("--engine spark needs pyspark: install it with pip install 'dpselect[spark]'") from None
    session: Any = guarded(
        _WHAT, lambda: SparkSession.builder.appName("dpselect").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    guarded(_WHAT, lambda: session.sparkContext.setLogLevel("OFF"))  # what an executor logs may quote the data
    return session


@final
class Cluster:
    """SQL on one session, on views of this reading's own, whose names nobody else has."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._prefix, self._numbers = session, f"dpselect_{uuid.uuid4().hex}", itertools.count()
        self._views: list[str] = []

    def view(self, frame: DataFrame) -> str:
        """A name for a frame in SQL."""
        name = f"{self._prefix}_{next(self._numbers)}"
        guarded(_WHAT, lambda: frame.createOrReplaceTempView(name))
        self._views.append(name)
        return name

    def frame(self, sql: str, parameters: Sequence[object] = ()) -> DataFrame:
        """A query, which nothing has computed yet."""
        frame: DataFrame = guarded(_WHAT, lambda: self._session.sql(sql, args=list(parameters)))
        return frame

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query; decimals, which have no fraction here, as integers."""
        frame = self.frame(sql)
        whole = [at for at, (_, kind) in enumerate(frame.dtypes) if kind.startswith("decimal")]
        rows = guarded(_WHAT, lambda: [list(row) for row in frame.collect()])
        for row, at in itertools.product(rows, whole):
            row[at] = int(row[at])
        return [tuple(row) for row in rows]

    def listing(self, labels: Sequence[Label], stored: str) -> str:
        """A view with the column i, of those labels that the type can hold."""
        convert = {"STRING": str, "BIGINT": int}.get(stored, Decimal)
        held = (
            labels if stored == "STRING" else [label for label in labels if stored != "BIGINT" or -(2**63) <= int(label) < 2**63]
        )
        rows = [(convert(label),) for label in held]
        return self.view(guarded(_WHAT, lambda: self._session.createDataFrame(rows, schema=f"i {stored}")))

    def close(self) -> None:
        """Drop the views."""
        while self._views:
            self._session.catalog.dropTempView(self._views.pop())


def tally(given: Given, allowed: Contributions, within: Any) -> tuple[Tally, list[Label] | None]:
    """Count a frame, and hold the totals on the cluster; and the items that are looked at.

    Raises:
        EventLogError: the frame has no such columns, they are neither integers nor text, or no event has both.
    """
    if given.asked.group is not None:
        raise EventLogError("group= is counted by the embedded engine only: give one group's rows of this Spark table at a time")
    if given.asked.further or given.amount is not None or given.window is not None:
        raise EventLogError(
            "items of several columns, value= and time= are for the embedded engine: make a column, or filter, in Spark itself"
        )
    given.require_no_format("a Spark table")
    given.require_no_header("a Spark table")
    frame: Any = given.source
    if frame.isStreaming:
        raise EventLogError("this Spark table is a stream, which never ends: write it to a table, and read a part of that")
    cluster = Cluster(frame.sparkSession)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        held, names = _tallied(cluster, given, allowed, within)
        stack.pop_all()
    return held, names


def _tallied(cluster: Cluster, given: Given, allowed: Contributions, within: Any) -> tuple[Tally, list[Label] | None]:
    frame: Any = given.source
    places = by_name(given.asked, frame.columns, _WHAT)
    stored = {role: _stored(role, given.asked.columns[role], frame.dtypes[place][1]) for role, place in places.items()}
    numbered = cluster.view(frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))))
    columns = ", ".join(f"CAST(c{place} AS {stored[role]}) AS {SHORT[role]}" for role, place in places.items())
    log = f"SELECT {columns} FROM {numbered}"
    integers, item = stored["item"] != "STRING", stored["item"]
    names = None if within is None else named(within, integers=integers)
    listed = None if names is None else cluster.listing(names, item)
    totals = cluster.frame(_totals(log, allowed, listed), [] if allowed.bound is None else [allowed.bound.salt])
    # Computed once, and never again from a source that may have changed: what is lost fails the release.
    counted = cluster.view(guarded(_WHAT, lambda: totals.localCheckpoint(eager=True)))
    sums = ", ".join(("n", *allowed.sums))
    held = Tally(
        run=cluster.run,
        listing=lambda labels: cluster.listing(labels, item),
        bucket=_BUCKET,
        relation=cluster.view(cluster.frame(f"SELECT i, {sums} FROM {counted} WHERE n > 0")),
        integers=integers,
        typed=integers,
        report=_report(cluster, log, counted),
        drop=cluster.close,
    )
    return held, names


def collected(tally: Tally, allowed: Contributions) -> Counted:
    """All counts, in this process.

    Raises:
        EventLogError: there are more items than belong here.
    """
    if tally.run(f"SELECT count(*) > {_MOST} AS many FROM {tally.relation}")[0][0]:
        raise EventLogError(f"{_WHAT} has more than {_MOST:,} items: leave the counts on the cluster, with events.hold")
    rows = tally.run(f"SELECT i, {', '.join(('n', *allowed.sums))} FROM {tally.relation} ORDER BY i")
    sums = np.array([row[1:] for row in rows], dtype=np.int64).reshape(len(rows), 1 + len(allowed.sums)).T
    return Counted([row[0] for row in rows], np.ascontiguousarray(sums[0]), np.ascontiguousarray(sums[1:]), tally.report.pairs)


def _totals(log: str, allowed: Contributions, listed: str | None) -> str:
    """SQL of the items: p, pairs; n, those that are kept; and sums of the weights of these."""
    pairs = f"SELECT DISTINCT u, i FROM ({log}) WHERE u IS NOT NULL AND i IS NOT NULL"
    if listed is not None:
        pairs = f"SELECT u, i FROM ({pairs}) SEMI JOIN {listed} USING (i)"
    held, place, kept = "t", "0", "true"
    if allowed.bound is not None:
        limit = allowed.bound.limit
        held, kept = f"least(t, {limit})", f"place <= {limit}"
        place = f"row_number() OVER (PARTITION BY u ORDER BY sha2({_text(KEY.format('i'))}, 256), i)"
    ranked = f"SELECT i, {place} AS place, count(*) OVER (PARTITION BY u) AS t FROM ({pairs})"
    weights = "".join(f", {_text(clip.weight())} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))
    weighed = f"SELECT i, place{weights} FROM (SELECT i, place, {held} AS t FROM ({ranked}))"
    sums = "".join(f", sum(IF({kept}, {name}, 0)) AS {name}" for name in allowed.sums)
    return f"SELECT i, count(*) AS p, count_if({kept}) AS n{sums} FROM ({weighed}) GROUP BY i"


def _text(sql: str) -> str:
    """The embedded engine's expression in Spark's words."""
    return sql.replace("VARCHAR", "STRING").replace(" // ", " DIV ")


def _stored(role: str, name: object, kind: str) -> str:
    if kind in _WHOLE:
        return "BIGINT"
    if kind == "string" or kind.startswith(("varchar(", "char(")):
        return "STRING"
    if kind.startswith("decimal(") and kind.endswith(",0)") and int(kind[8:-3]) <= _LONGEST:
        return "DECIMAL(20, 0)"
    raise EventLogError(
        f"{role}={name!r} of {_WHAT} is of type {kind.split('<')[0]}: users and items must be integers of at most 64 bits or "
        "text of the binary collation; cast the column to one of them"
    )


def _report(cluster: Cluster, log: str, counted: str) -> ReadReport:
    columns = "count(*) AS a, count_if(u IS NULL) AS b, count_if(i IS NULL) AS c, count_if(u IS NULL OR i IS NULL) AS d"
    rows, without_user, without_item, left_out = cluster.run(f"SELECT {columns} FROM ({log})")[0]
    if rows == left_out:
        cluster.close()
        raise EventLogError(
            f"{_WHAT} has no event with both a user and an item: check that user= and item= name the columns meant"
        )
    pairs, kept = cluster.run(f"SELECT coalesce(sum(p), 0) AS p, coalesce(sum(n), 0) AS n FROM {counted}")[0]
    return ReadReport(
        rows=rows,
        rows_without_user=without_user,
        rows_without_item=without_item,
        rows_without_group=0,
        rows_left_out=left_out,
        pairs=pairs,
        pairs_left_out=pairs - kept,
    )
