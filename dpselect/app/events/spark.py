"""A Spark DataFrame, counted on its cluster by SQL and without Python there.

Counts equal those of the embedded engine exactly.
"""

from __future__ import annotations

import itertools
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from accounting.errors import missing_extra
from dpselect.app.events.dialect import Dialect, double, matches
from dpselect.app.events.engine import T, run_guarded
from dpselect.app.events.file_options import FileOptions
from dpselect.app.events.sources.base import (
    OF_TEXT,
    SHORT,
    Kind,
    RoleColumns,
    Rows,
    SourceRequest,
    is_label,
    kind_of,
    positions_by_name,
)
from dpselect.app.events.sources.logged_tables import OTHERS_THAN_SPARK, folders_of, refuse
from dpselect.app.events.where import NUMBER
from dpselect.errors import EventLogError
from dpselect.selection import Label, is_integer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Options = TypeVar("Options", bound=FileOptions)
_SEPARATORS = {"csv": ",", "tsv": "\t", "parquet": ""}
_BATCH = 100_000  # pairs that are written at a time


def is_table(source: object) -> bool:
    """True for a Spark DataFrame, also of Spark Connect. pyspark is not imported to tell."""
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(source).__mro__)
    return any(kind.startswith("pyspark.sql.") and kind.endswith(".DataFrame") for kind in kinds)


def accepts(request: SourceRequest) -> bool:
    """True for a Spark DataFrame."""
    return is_table(request.source)


def open_frame(
    name: str, reading: Options, *, unread: RoleColumns | None = None
) -> tuple[object, Options]:
    """A DataFrame of the environment's Spark session, and the reading of it.

    The session is started if there is none. If these columns of it stay `unread`, no row is looked
    at. A name with a slash or the ending of a format is a path or an address of Parquet, CSV or
    TSV, and another name is a table's. In a file without a header the columns are 1, 2, ...
    """
    ending, file_format = (
        PurePath(name.removesuffix(".gz")).suffix.lower().removeprefix("."),
        reading.format,
    )
    is_table = file_format == "auto" and "/" not in name and ending not in _SEPARATORS
    kind = (
        "parquet"
        if file_format == "auto" and (is_table or ending not in _SEPARATORS)
        else ending
        if file_format == "auto"
        else file_format
    )
    of_text = {field: getattr(reading, field) for field in ("header", "delimiter", "quote")}
    if kind not in _SEPARATORS or (
        kind == "parquet" and any(value is not None for value in of_text.values())
    ):
        raise EventLogError(
            f"{name!r} cannot be read by Spark as asked. Give a table, Parquet, CSV or TSV, the"
            " latter two with header=, delimiter= and quote="
        )
    session, read = (
        _session(),
        reading.model_copy(update={"format": "auto", **dict.fromkeys(of_text)}),
    )
    if kind == "parquet":
        if is_table:
            return _quietly(lambda: session.table(name)), read
        # before it is read: what lies there besides may be nothing that Spark can read
        _require_whole(session, [f"{name}/any"])
        frame = _quietly(lambda: session.read.parquet(name))
        files = _quietly(frame.inputFiles)
        _require_whole(
            session, (re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", unquote(file)) for file in files)
        )
        return frame, read
    if unread is not None and reading.header is False:  # only a row says how many columns it has
        columns = dict.fromkeys(map(str, unread.by_role.values()))  # a condition may repeat one
        names = (column.replace("`", "``") for column in columns)
        schema = ", ".join(f"`{column}` STRING" for column in names)
        return _quietly(lambda: session.read.csv(name, schema)), read
    quote = ('"' if kind == "csv" else "") if reading.quote is None else reading.quote
    delimiter = reading.delimiter or _SEPARATORS[kind]
    # Spark reads each line by itself: a field that goes on would become other rows. It unquotes
    # what is quoted in part otherwise.
    end, mark = (
        "".join(f"\\x{{{ord(letter):x}}}" for letter in text) for text in (delimiter, quote)
    )
    # possessive: the stack is not that of a line
    whole = rf"(?:\A|{end}){mark}(?:[^{mark}]++|{mark}{mark})*+{mark}(?={end}|\z)"
    badly = f"contains(regexp_replace(value, {SPARK.literal(whole)}, ''), {SPARK.literal(quote)})"
    if (
        quote
        and unread is None
        and _quietly(lambda: session.read.text(name).where(badly).limit(1).count())
    ):
        raise EventLogError(
            f"{name!r} has a quote that is not closed on its line, or within a field that is not"
            " quoted as a whole, and Spark reads each line by itself. Remove line ends within"
            " quotes, quote whole fields and double the quotes in them, or convert the file to"
            " Parquet"
        )
    nul = f"contains(value, {SPARK.literal(chr(0))})"
    if (
        not quote
        and unread is None
        and _quietly(lambda: session.read.text(name).where(nul).limit(1).count())
    ):
        raise EventLogError(
            f"{name!r} has a NUL character, by which Spark quotes where there is no quote"
            " (quote=''). Convert the file to Parquet"
        )
    options: dict[str, Any] = {
        "sep": delimiter,
        "quote": quote,
        **({"escape": quote} if quote else {}),
        "header": reading.header is not False,
        "mode": "FAILFAST",
        "enforceSchema": False,
    }
    # Whole rows: of the fields that are read alone, none shows that a row has too few or too many,
    # and a condition would decide whether one refuses the log.
    rows_of = session.read.option("columnPruning", "false")
    frame = _quietly(lambda: rows_of.csv(name, inferSchema=False, **options).replace("", None))
    return (
        frame
        if reading.header is not False
        else frame.toDF(*map(str, range(1, 1 + len(frame.columns))))
    ), read


def _require_whole(session: Any, places: Iterable[str]) -> None:
    """Refuse files of a table with a log, whose folder Spark finds in its file system."""
    for folder in dict.fromkeys(folder for place in places for folder in folders_of(place)):
        if "=" in PurePath(folder).name:  # a part of a table, and there may be thousands of them
            continue
        for kind in OTHERS_THAN_SPARK:
            if _is_there(session, f"{folder}/{kind.mark}"):
                refuse(kind, re.sub(r"\\(.)", r"\1", folder))


def _is_there(session: Any, pattern: str) -> bool:
    """True if Spark finds such a file or folder, and False if it may not look."""
    try:
        _quietly(lambda: session.read.text(pattern).schema)
    except EventLogError:
        return False
    return True


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("--engine spark needs pyspark", "spark") from None
    session: Any = run_guarded(
        WHAT,
        lambda: (
            SparkSession.builder.appName("dpselect")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        ),
    )
    # what an executor logs may quote the data
    _quietly(lambda: session.sparkContext.setLogLevel("OFF"))
    return session


def _quietly(work: Callable[[], T]) -> T:
    """`run_guarded`, without pyspark's own log of the failure, which may quote the data."""
    from pyspark.logger import PySparkLogger

    me = threading.get_ident()
    with ExitStack() as stack:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger = PySparkLogger.getLogger(name)
            logger.addFilter(quiet := lambda record: record.thread != me)
            stack.callback(logger.removeFilter, quiet)
        return run_guarded(WHAT, work)


@final
class _Spark(Dialect):
    """The SQL words of Spark."""

    def literal(self, text: str) -> str:
        # no character of it has a meaning there
        return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"

    def number(self, text: str) -> str:
        # it would take 1d and 1f for numbers, too
        plain = matches(f"CAST({text} AS VARCHAR)", rf"\s*{NUMBER}\s*", self)
        return f"IF({plain}, TRY_CAST({text} AS DOUBLE), NULL)"

    def integer(self, text: str) -> str:
        return (
            f"CAST(IF({matches(f'CAST({text} AS VARCHAR)', '-?[0-9]{1,19}', self)}, {text}, NULL)"
            " AS HUGEINT)"
        )

    def pieces(self, text: str, delimiter: str) -> str:
        pattern = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in delimiter)
        return f"explode_outer(split({text}, {self.literal(pattern)}))"

    def clock(self, time: str) -> str:
        clock = f"TRY_CAST({time} AS TIMESTAMP_NTZ)"  # what the session's zone is does not matter
        minutes = (
            f"unix_date(CAST({clock} AS DATE)) * 1440L + hour({clock}) * 60L + minute({clock})"
        )
        return f"(({minutes}) * 60000000L + CAST(extract(SECOND FROM {clock}) * 1000000 AS BIGINT))"

    def parse_format(self, text: str, form: str) -> str:
        raise NotImplementedError  # `_require_readable` refuses it

    def instant(self, time: str) -> str:
        return f"unix_micros({time})"

    def hash_text(self, text: str) -> str:
        return f"left(sha2({text}, 256), 16)"

    def exact_sum(self, values: str, scale: float) -> str:
        # A whole number of doubles up to 2^80 is added up in two parts: Spark makes no exact
        # decimal of such a double.
        whole = f"rint({values} * {double(scale)})"
        high = f"floor({whole} / {double(_HALF)})"
        low = f"CAST({whole} - {high} * {double(_HALF)} AS BIGINT)"
        total = f"sum(CAST({high} AS HUGEINT)) * {_HALF} + sum(CAST({low} AS HUGEINT))"
        return f"CAST(greatest(-{2**60}, least({2**60}, {total})) AS BIGINT)"


SPARK: Final[Dialect] = _Spark()
# Spark's words for the embedded engine's; texts of users are written by their code points, and hold
# none of these.
_WORDS = {
    "VARCHAR": "STRING",
    "HUGEINT": "DECIMAL(20, 0)",
    " // ": " DIV ",
    " EXCLUDE ": " EXCEPT ",
    "regexp_matches(": "regexp_like(",
}


@final
class Cluster:
    """Relations of one count on a Spark session, as views with unique names."""

    dialect = SPARK
    bucket = "CAST(pmod(hash({0}), 4096) AS BIGINT)"
    most_ranked = 2**63

    def __init__(self, session: SparkSession) -> None:
        self._session, self._prefix = session, f"dpselect_{uuid.uuid4().hex}"
        self._views: set[str] = set()
        self._computed: list[DataFrame] = []

    def another(self) -> Cluster:
        return Cluster(self._session)

    def view(self, name: str, frame: DataFrame) -> str:
        """A name for a frame in SQL."""
        view = f"{self._prefix}_{name}"
        _quietly(lambda: frame.createOrReplaceTempView(view))
        self._views.add(view)
        return view

    def frame(self, sql: str) -> DataFrame:
        """A query as a frame that is not computed yet."""
        for word, replacement in _WORDS.items():
            sql = sql.replace(word, replacement)
        frame: DataFrame = _quietly(lambda: self._session.sql(sql))
        return frame

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query, with decimals, which have no fraction here, as integers."""
        frame = self.frame(sql)
        whole = [
            place for place, (_, kind) in enumerate(frame.dtypes) if kind.startswith("decimal")
        ]
        rows = _quietly(lambda: list(map(list, frame.collect())))
        for row, place in itertools.product(rows, whole):
            row[place] = int(row[place])
        return list(map(tuple, rows))

    def columns(self, sql: str) -> list[NDArray[Any]]:
        names, rows = self.frame(sql).columns, self.run(sql)
        return [np.array([row[at] for row in rows], dtype=object) for at in range(len(names))]

    def store(self, name: str, sql: str, *, computed: bool = False) -> str:
        """Store or replace a view of the result of a query, and return its name.

        A computed result stays on the executors until `close`. If an executor loses it earlier,
        later queries fail.
        """
        frame = self.frame(sql)
        if computed:
            self._computed.append(frame := _quietly(lambda: frame.localCheckpoint(eager=True)))
        return self.view(name, frame)

    def store_groups(self, sql: str, *, once: bool = False) -> str:
        return self.store("grouped", sql, computed=True)

    def append(self, name: str, sql: str) -> str:
        before = f"{self._prefix}_{name}"
        return self.store(
            name, f"SELECT * FROM {before} UNION ALL {sql}" if before in self._views else sql
        )

    def store_labels(
        self, name: str, labels: Sequence[Label], kind: str, *, placed: bool = False
    ) -> str:
        convert, stored = (str, "STRING") if kind == "str" else (_decimal, "DECIMAL(20, 0)")
        rows = [(convert(label), place) for place, label in enumerate(labels)]
        frame = _quietly(
            lambda: self._session.createDataFrame(rows, schema=f"i {stored}, place BIGINT")
        )
        return self.view(name, frame if placed else frame.select("i"))

    def save(self, relation: str, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("u", pa.string()), ("i", pa.string())])
        frame = self.frame(
            f"SELECT CAST(u AS VARCHAR) AS u, CAST(i AS VARCHAR) AS i FROM {relation}"
        )
        rows = _quietly(frame.toLocalIterator)
        with pq.ParquetWriter(path, schema) as writer:
            while batch := _quietly(lambda: [tuple(row) for row in itertools.islice(rows, _BATCH)]):
                columns = list(map(pa.array, zip(*batch, strict=True)))
                writer.write_batch(pa.record_batch(columns, schema=schema))

    def close(self) -> None:
        while self._views:
            self._session.catalog.dropTempView(self._views.pop())
        while self._computed:
            # Spark would keep its rows until some collection of garbage in Java. A session
            # elsewhere (Spark Connect) has no such handle: it lets go of them when Python does of
            # the frame.
            frame: Any = self._computed.pop()
            if hasattr(frame, "_jdf"):
                _quietly(partial(_forget, frame))


def _decimal(label: Label) -> Decimal | None:
    """The label as a decimal among integers, or None for a text that is not an integer."""
    return Decimal(label) if is_integer(label) else None


def _forget(frame: Any) -> None:
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _require_readable(request: SourceRequest) -> None:
    request.refuse_options("a Spark table", "table", "query", "format", *OF_TEXT)
    if request.options.time_format is not None:
        raise EventLogError(
            f"time_format={request.options.time_format!r} is not read for a Spark table: cast such"
            " times to timestamps there, and leave it out"
        )
    if request.options.normalize:
        raise EventLogError(
            f"normalize={request.options.normalize!r} is not read for a Spark table, whose own"
            " functions do not write labels alike to the letter. Write them so there, and leave it"
            " out"
        )
    if cast(Any, request.source).isStreaming:
        raise EventLogError(
            "this Spark table is a stream, which never ends. Write it to a table, and read a part"
            " of that"
        )


WHAT = "this Spark table"
_TYPES = {
    "int": "INTEGER",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "void": '"NULL"',
}  # where they are called otherwise
_SPECIAL = frozenset("\\^$.|?*+()[]{}#-&~ \t\r\n\f")  # in a regular expression of Java
# decimal digits of an unsigned integer of 64 bits, which Spark reads from Parquet as a decimal
# without fraction
_LONGEST = 20
_HALF = 2**40


def rows(engine: object, request: SourceRequest) -> Rows:
    """The columns of a frame, c0, c1, ... of a view on its cluster, each with one type."""
    if not isinstance(engine, Cluster):
        raise EventLogError(
            f"{WHAT} is counted on its cluster, and is no list or log to check here. Pass what its"
            " toArrow() returns"
        )
    _require_readable(request)
    frame: DataFrame = cast(Any, request.source)
    relation = engine.view("log", frame.toDF(*(f"c{at}" for at in range(len(frame.columns)))))
    columns, kinds, nothing, missing = (
        list[str](),
        dict[str, Kind](),
        set[str](),
        request.options.missing,
    )
    for role, place in positions_by_name(request.columns, frame.columns, WHAT).items():
        name, stored = request.columns.by_role[role], frame.dtypes[place][1]
        text = stored == "string" or stored.startswith(("varchar(", "char("))
        kind = kind_of(
            role, name, "VARCHAR" if text else _TYPES.get(stored, stored.upper()), WHAT, stored
        )
        column = f"c{place}"
        if kind is None:
            nothing.add(role)
            kind, column = "str", "CAST(NULL AS VARCHAR)"
        elif is_label(role) and stored.startswith("decimal("):
            whole = re.fullmatch(r"decimal\((\d+),0\)", stored)
            if whole is None or int(whole[1]) > _LONGEST:
                raise EventLogError(
                    f"{role}={name!r} of {WHAT} is of type {stored}: decimals as labels are"
                    " integers of at most 64 bits; cast the column"
                )
            kind, column = "int", f"CAST({column} AS HUGEINT)"
        elif kind in _STORED:
            column = f"CAST({column} AS {_STORED[kind]})"
        elif any(text[:1].isdigit() for text in missing):
            raise EventLogError(
                f"missing={missing!r} may stand for times, and time={name!r} of {WHAT} is of type"
                f" {stored}. Make such times NULL there, and leave it out"
            )
        columns.append(f"{column} AS {SHORT[role]}")
        kinds[role] = kind
    return Rows(
        f"SELECT {', '.join(columns)} FROM {relation}", 0, WHAT, kinds, nothing=frozenset(nothing)
    )


_STORED: Final[Mapping[Kind, str]] = {"int": "BIGINT", "str": "VARCHAR", "number": "DOUBLE"}
