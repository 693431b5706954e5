"""A Spark DataFrame, counted on its cluster by SQL; no Python runs there. Counts are those of the embedded engine, to the row."""

from __future__ import annotations

import itertools
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import NDArray

from accounting.errors import missing_extra
from dpselect.errors import EventLogError
from dpselect.events.catalogue import places
from dpselect.events.contributions import KEY, PRESENT, Amount, Contributions, respent, summed
from dpselect.events.engine import T, guarded
from dpselect.events.held import Tally
from dpselect.events.private import Figures
from dpselect.events.reading import Reading
from dpselect.events.sources.base import SHORT, Given, Kind, Kinds, by_name, is_label, kind_of, not_split
from dpselect.events.time_window import FIRST, LAST, MICROSECONDS, Unit
from dpselect.events.user_counts import EventCounts, GroupCounts
from dpselect.events.where import NUMBER, Condition
from dpselect.selection import Label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BUCKET = "CAST(pmod(hash(i), 4096) AS BIGINT)"
_SEPARATORS = {"csv": ",", "tsv": "\t", "parquet": ""}
_MOST = 10_000_000  # items that are collected
_BATCH = 100_000  # pairs that are written at a time


def accepts(source: object) -> bool:
    """A Spark DataFrame, also one of a session elsewhere (Spark Connect); pyspark is not imported to tell."""
    kinds = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(source).__mro__)
    return any(kind.startswith("pyspark.sql.") and kind.endswith(".DataFrame") for kind in kinds)


def found(name: str, reading: Reading) -> tuple[object, Reading]:
    """A DataFrame of the environment's session, which is started if there is none; and how it is read.

    A name with a slash or the ending of a format is a path or an address of Parquet, CSV or TSV; another is a table's. Of a file
    without a header the columns are 1, 2, ...
    """
    ending, stated = PurePath(name.removesuffix(".gz")).suffix.lower().removeprefix("."), reading.format
    is_table = stated == "auto" and "/" not in name and ending not in _SEPARATORS
    kind = "parquet" if stated == "auto" and (is_table or ending not in _SEPARATORS) else ending if stated == "auto" else stated
    of_text = {field: getattr(reading, field) for field in ("header", "delimiter", "quote")}
    if kind not in _SEPARATORS or (kind == "parquet" and any(said is not None for said in of_text.values())):
        raise EventLogError(
            f"{name!r} cannot be read by Spark as asked: give a table, Parquet, CSV or TSV, the latter two with header=, "
            "delimiter= and quote="
        )
    session, read = _session(), reading.model_copy(update={"format": "auto", **dict.fromkeys(of_text)})
    if kind == "parquet":
        return _quietly(lambda: session.table(name) if is_table else session.read.parquet(name)), read
    quote = ('"' if kind == "csv" else "") if reading.quote is None else reading.quote
    delimiter = reading.delimiter or _SEPARATORS[kind]
    # Spark reads each line by itself: a field that goes on would become other rows. It unquotes what is quoted in part otherwise.
    if quote and _quietly(lambda: session.read.text(name).where(_badly_quoted(delimiter, quote)).limit(1).count()):
        raise EventLogError(
            f"{name!r} has a quote that is not closed on its line, or within a field that is not quoted as a whole, and Spark "
            "reads each line by itself: remove line ends within quotes, quote whole fields and double the quotes in them, or "
            "convert the file to Parquet"
        )
    nul = f"contains(value, {_quoted(chr(0))})"
    if not quote and _quietly(lambda: session.read.text(name).where(nul).limit(1).count()):
        raise EventLogError(
            f"{name!r} has a NUL character, by which Spark quotes where there is no quote (quote=''): convert the file to Parquet"
        )
    options: dict[str, Any] = {
        "sep": delimiter,
        "quote": quote,
        **({"escape": quote} if quote else {}),
        "header": reading.header is not False,
        "mode": "FAILFAST",
        "enforceSchema": False,
    }
    frame = _quietly(lambda: session.read.csv(name, inferSchema=False, **options).replace("", None))
    return frame if reading.header is not False else frame.toDF(*map(str, range(1, 1 + len(frame.columns)))), read


def _badly_quoted(delimiter: str, quote: str) -> str:
    """SQL of whether a quote of a line is not one of a field that is quoted as a whole, those within it doubled."""
    end, mark = ("".join(f"\\x{{{ord(letter):x}}}" for letter in text) for text in (delimiter, quote))
    whole = rf"(?:\A|{end}){mark}(?:[^{mark}]++|{mark}{mark})*+{mark}(?={end}|\z)"  # possessive: the stack is not that of a line
    return f"contains(regexp_replace(value, {_quoted(whole)}, ''), {_quoted(quote)})"


def _session() -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("--engine spark needs pyspark", "spark") from None
    session: Any = guarded(
        _WHAT, lambda: SparkSession.builder.appName("dpselect").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    _quietly(lambda: session.sparkContext.setLogLevel("OFF"))  # what an executor logs may quote the data
    return session


def _quietly(work: Callable[[], T]) -> T:
    """`guarded`, and pyspark does not write what failed, which may quote the data, to standard error either."""
    from pyspark.logger import PySparkLogger

    me = threading.get_ident()
    with ExitStack() as stack:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger = PySparkLogger.getLogger(name)
            logger.addFilter(quiet := lambda record: record.thread != me)
            stack.callback(logger.removeFilter, quiet)
        return guarded(_WHAT, work)


@final
class _Cluster:
    """SQL on one session, on views of this reading's own, whose names nobody else has."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._prefix, self._numbers = session, f"dpselect_{uuid.uuid4().hex}", itertools.count()
        self._views: list[str] = []
        self._computed: list[DataFrame] = []

    def view(self, frame: DataFrame) -> str:
        """A name for a frame in SQL."""
        name = f"{self._prefix}_{next(self._numbers)}"
        _quietly(lambda: frame.createOrReplaceTempView(name))
        self._views.append(name)
        return name

    def frame(self, sql: str, parameters: Mapping[str, object] | None = None) -> DataFrame:
        """A query, which nothing has computed yet."""
        frame: DataFrame = _quietly(lambda: self._session.sql(sql, args=dict(parameters or {})))
        return frame

    def computed(self, frame: DataFrame) -> str:
        """A name for a frame that is computed now, and never again from a source that may have changed.

        Its rows stay on the executors until `close`: what is lost before fails whoever asks for it.
        """
        self._computed.append(_quietly(lambda: frame.localCheckpoint(eager=True)))
        return self.view(self._computed[-1])

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query; decimals, which have no fraction here, as integers."""
        return self.collected(self.frame(sql))

    @staticmethod
    def collected(frame: DataFrame) -> list[tuple[Any, ...]]:
        """The same of a query that is a frame already."""
        whole = [at for at, (_, kind) in enumerate(frame.dtypes) if kind.startswith("decimal")]
        rows = _quietly(lambda: [list(row) for row in frame.collect()])
        for row, at in itertools.product(rows, whole):
            row[at] = int(row[at])
        return [tuple(row) for row in rows]

    def listing(self, labels: Sequence[Label], stored: str) -> str:
        """A view with the column i, of those labels that the type can hold."""
        convert = {"STRING": str, "BIGINT": int}.get(stored, Decimal)
        rows = [(convert(label),) for label in labels if stored != "BIGINT" or -(2**63) <= int(label) < 2**63]
        return self.view(_quietly(lambda: self._session.createDataFrame(rows, schema=f"i {stored}")))

    def close(self) -> None:
        while self._views:
            self._session.catalog.dropTempView(self._views.pop())
        while self._computed:
            _forget(self._computed.pop())


def _forget(computed: DataFrame) -> None:
    """Free the rows of a checkpoint, which Spark would keep until some collection of garbage in Java.

    A session elsewhere (Spark Connect) has no such handle: it lets go of them when Python does of the frame.
    """
    frame: Any = computed
    if hasattr(frame, "_jdf"):
        _quietly(lambda: frame._jdf.queryExecution().analyzed().rdd().unpersist(False))


@final
class SparkPairs:
    """The pairs of a Spark table, on its cluster. Close it.

    Args:
        computed: whether they are computed once and stay there, for several counts; else each count reads the table.
        may_be_empty: whether a table without an event to count is one without pairs; else it is refused.
    """

    def __init__(self, source: object, reading: Reading, *, computed: bool = True, may_be_empty: bool = False) -> None:
        given, frame = reading.given(source), cast(Any, source)
        given.require_no_file("a Spark table")
        if given.normalize:
            raise EventLogError(
                f"normalize={given.normalize!r} is not read for a Spark table, whose own functions do not write labels alike to "
                "the letter: write them so there, and leave it out"
            )
        if reading.cells:
            raise EventLogError("cells= is not counted on Spark: give the table's events as Parquet")
        if frame.isStreaming:
            raise EventLogError("this Spark table is a stream, which never ends: write it to a table, and read a part of that")
        self._session = frame.sparkSession
        self._cluster, self._tallies = _Cluster(self._session), list[_Cluster]()
        with ExitStack() as stack:
            stack.callback(self._cluster.close)
            numbered = self._cluster.view(frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))))
            log = SparkLog(given, frame, numbered)
            self._stored, self._pairs = log.stored, _pairs(log.sql, reading.contributions())
            if computed:
                self._pairs = f"SELECT * FROM {self._cluster.computed(self._cluster.frame(self._pairs))}"
            self._figures = _figures(self._cluster, given, log.sql, may_be_empty=may_be_empty)
            stack.pop_all()

    @property
    def kinds(self) -> Kinds:
        """What users, items and groups are, by the types of the table."""
        return {role: "str" if kind == "STRING" else "int" for role, kind in self._stored.items()}

    @property
    def integers(self) -> bool:
        """Whether items are integers."""
        return self._stored["item"] != "STRING"

    def save(self, path: Path) -> Kinds:
        """Write the pairs to a Parquet file on this machine, columns u and i as text, a batch at a time; and what they hold."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("u", pa.string()), ("i", pa.string())])
        frame = self._cluster.frame(f"SELECT CAST(u AS STRING) AS u, CAST(i AS STRING) AS i FROM ({self._pairs})")
        rows = _quietly(frame.toLocalIterator)
        with pq.ParquetWriter(path, schema) as writer:
            while batch := _quietly(lambda: [tuple(row) for row in itertools.islice(rows, _BATCH)]):
                users, items = zip(*batch, strict=True)
                writer.write_batch(pa.record_batch([pa.array(users), pa.array(items)], schema=schema))
        return self.kinds

    def tally(self, reading: Reading) -> tuple[Tally, Contributions]:
        """The totals of a count, which stay on the cluster until the tally is closed; and what users may contribute."""
        with ExitStack() as stack:
            cluster = stack.enter_context(closing(_Cluster(self._session)))
            held = self._tallied(cluster, asked := reading.contributions(self.kinds))
            stack.pop_all()
        self._tallies.append(cluster)
        return held, asked

    def _tallied(self, cluster: _Cluster, asked: Contributions) -> Tally:
        salt = next((bound.salt for bound in (asked.bound, asked.groups) if bound is not None), "")
        totals = cluster.frame(_totals(self._looked_at(cluster, asked), asked), {"salt": salt})
        counted = cluster.computed(totals)
        pairs, kept = cluster.run(f"SELECT coalesce(sum(p), 0) AS p, coalesce(sum(n), 0) AS n FROM {counted}")[0]
        return Tally(
            run=cluster.run,
            listing=lambda labels: cluster.listing(labels, self._stored["item"]),
            bucket=_BUCKET,
            relation=cluster.view(cluster.frame(f"SELECT * FROM {counted} WHERE n > 0")),
            integers=self.integers,
            report=self._figures.report(pairs, kept),
            drop=cluster.close,
        )

    def counted(self, reading: Reading) -> EventCounts | GroupCounts:
        """All counts, in this process."""
        tally, allowed = self.tally(reading)
        with closing(tally):
            if tally.run(f"SELECT count(*) > {_MOST} AS many FROM {tally.relation}")[0][0]:
                raise EventLogError(f"{_WHAT} has more than {_MOST:,} items: leave the counts on the cluster, with events.hold")
            names = [*(() if allowed.groups is None else ("present",)), "n", *allowed.sums]
            rows = tally.run(f"SELECT {', '.join(names)}, {allowed.cell} FROM {tally.relation} ORDER BY {allowed.cell}")
        sums = np.array([row[: len(names)] for row in rows], dtype=np.int64).reshape(len(rows), len(names)).T.copy()
        if allowed.groups is None:
            return EventCounts.of(allowed, tally.report, [row[-1] for row in rows], sums, integers=self.integers)
        groups, items = (sorted({row[at] for row in rows}) for at in (-2, -1))
        cells = (places(groups, [row[-2] for row in rows]), places(items, [row[-1] for row in rows]))
        present = np.add.reduceat(sums[0], np.searchsorted(cells[0], np.arange(len(groups))))
        return GroupCounts.of(allowed, tally.report, (groups, items), cells, sums[1:], present, integers=self.integers)

    def items(self, reading: Reading) -> NDArray[np.float64]:
        """(users,) how many items each has, of those that are looked at."""
        with closing(_Cluster(self._session)) as cluster:
            looked_at = self._looked_at(cluster, reading.contributions(self.kinds))
            found = cluster.run(f"SELECT count(*) AS t FROM ({looked_at}) GROUP BY u")
        return np.array([row[0] for row in found], dtype=np.float64)

    def weighed(self, reading: Reading, labels: Sequence[Label], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        """(n,) sums of what users spend on these items, of the pairs that the bounds of this reading keep: see `respent`."""
        stored, asked = self._stored["item"], reading.contributions(self.kinds)
        convert = {"STRING": str, "BIGINT": int}.get(stored, Decimal)
        rows = [(convert(label), int(number), place) for place, (label, number) in enumerate(zip(labels, numbers, strict=True))]
        with closing(_Cluster(self._session)) as cluster:
            schema = f"i {stored}, d BIGINT, place BIGINT"
            wanted = cluster.view(_quietly(lambda: self._session.createDataFrame(rows, schema=schema)))
            kept, salt = self._looked_at(cluster, asked), dict[str, object]()
            if asked.bound is not None:
                ranked = f"row_number() OVER (PARTITION BY u ORDER BY {_rank('i')}, i)"
                kept = f"SELECT u, i FROM (SELECT *, {ranked} AS h FROM ({kept})) WHERE h <= {asked.bound.limit}"
                salt = {"salt": asked.bound.salt}
            whole = "SELECT u, place, CAST(d AS DECIMAL(20, 0)) AS d"
            spending = f"{whole} FROM ({kept}) AS kept JOIN {wanted} AS wanted USING (i)"
            sized = f"SELECT *, sum(d * d) OVER (PARTITION BY u) AS s FROM ({spending})"
            spent = f"SELECT place, {_text(respent(norm, 'DECIMAL(20, 0)'))} AS w FROM ({sized})"
            found = cluster.collected(cluster.frame(f"SELECT place, sum(w) AS w FROM ({spent}) GROUP BY place", salt))
        sums = np.zeros(len(rows), dtype=np.int64)
        for place, total in found:
            sums[place] = total
        return sums

    def items_per_group(self, reading: Reading) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Not asked of a cluster: nothing is learnt there."""
        raise EventLogError("group= learns in the embedded engine: leave engine='spark' out, or state learn=0")

    def close(self) -> None:
        """Drop the pairs, and the totals of every count."""
        for cluster in (*self._tallies, self._cluster):
            cluster.close()

    def _looked_at(self, cluster: _Cluster, asked: Contributions) -> str:
        """SQL of the pairs of the items and groups that are listed."""
        lists = (("i", asked.within, "item"), ("g", asked.listed, "group"))
        among = [
            f"{column} IN (SELECT i FROM {cluster.listing(labels, self._stored[role])})"
            for column, labels, role in lists
            if labels is not None
        ]
        return f"SELECT * FROM ({self._pairs}) WHERE {' AND '.join(among)}" if among else self._pairs


def _pairs(log: str, allowed: Contributions) -> str:
    """SQL of the distinct pairs; s is what a user adds to one, where that is asked for."""
    owner = f"{allowed.owner}, i"
    columns, end = f"DISTINCT {owner}", ""
    if (amount := summed(allowed.clips)) is not None:
        columns, end = f"{owner}, {_fine(amount)} AS s", f" GROUP BY {owner}"
    return f"SELECT {columns} FROM ({log}) WHERE NOT beyond AND NOT lacking{end}"


def _totals(pairs: str, allowed: Contributions) -> str:
    """SQL of the items, or cells: p, pairs; n, those that are kept; sums of the weights of these; and users present in a group.

    A user's first item of a group brings its presence there, so that one query has all.
    """
    owner, kept, held, place = allowed.owner, "true", "t", "0"
    present = ""
    if allowed.groups is not None:
        most = allowed.groups.limit
        ranked = f"SELECT *, dense_rank() OVER (PARTITION BY u ORDER BY {_rank('g')}, g) AS h FROM ({pairs})"
        counted = f"SELECT *, least(max(h) OVER (PARTITION BY u), {most}) AS t FROM ({ranked})"
        pairs = f"SELECT * EXCEPT (t), {_text(PRESENT.weight())} AS w FROM ({counted})"
        kept, place = f"h <= {most}", f"row_number() OVER (PARTITION BY {owner} ORDER BY i)"
        present = f", sum(IF(h <= {most} AND place = 1, w, 0)) AS present"
    if allowed.bound is not None:
        limit = allowed.bound.limit
        kept, held = f"{kept} AND place <= {limit}", f"least(t, {limit})"
        place = f"row_number() OVER (PARTITION BY {owner} ORDER BY {_rank('i')}, i)"
    placed = f"SELECT *, {place} AS place, count(*) OVER (PARTITION BY {owner}) AS t FROM ({pairs})"
    weights = "".join(f", {_text(clip.weight())} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))
    weighed = f"SELECT *{weights} FROM (SELECT * EXCEPT (t), {held} AS t FROM ({placed}))"
    sums = "".join(f", sum(IF({kept}, {name}, 0)) AS {name}" for name in allowed.sums)
    cells = f"SELECT {allowed.cell}, count(*) AS p, count_if({kept}) AS n{present}{sums}"
    return f"{cells} FROM ({weighed}) GROUP BY {allowed.cell}"


def _rank(chosen: str) -> str:
    return f"left(sha2({_text(KEY.format(chosen).replace('?', ':salt'))}, 256), 16)"


def _text(sql: str) -> str:
    """The embedded engine's expression in Spark's words."""
    return sql.replace("VARCHAR", "STRING").replace(" // ", " DIV ")


def _figures(cluster: _Cluster, given: Given, log: str, *, may_be_empty: bool) -> Figures:
    without = [f"count_if(NOT beyond AND {SHORT[role]} IS NULL) AS {SHORT[role]}" for role in given.asked.roles]
    figures = "count_if(NOT beyond) AS a, count_if(NOT beyond AND lacking) AS b, count_if(NOT lacking) AS c"
    refused = "collect_set(refused) AS d"
    rows, left_out, complete, bad, *lacks = cluster.run(f"SELECT {figures}, {refused}, {', '.join(without)} FROM ({log})")[0]
    given.asked.refuse_malformed(bad, _WHAT)
    if not may_be_empty:
        given.asked.require_events(_WHAT, complete=complete > 0)
    return Figures(rows, dict(zip(given.asked.roles, lacks, strict=True)), left_out)


_WHAT = "this Spark table"
_TYPES = {
    "int": "INTEGER",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}  # where they are called otherwise
_SPECIAL = frozenset("\\^$.|?*+()[]{}#-&~ \t\r\n\f")  # in a regular expression of Java
_LONGEST = 20  # decimal digits of an unsigned integer of 64 bits, which Spark reads from Parquet as a decimal without fraction
_NUMBER = r"r'\A\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\s*\z'"
_CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?"
_WALL = rf"r'\A(?:[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}|{_CLOCK})\z'"
_INSTANT = rf"r'\A({_CLOCK}) ?(Z|UTC|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)\z'"
_HALF = 2**40  # a whole number of doubles up to 2^80 is added up in two parts: Spark makes no exact decimal of such a double


@final
class SparkLog:
    """The events of a frame, of which every column asked for has a name of its own.

    Attributes:
        stored: Spark's types of users, items and groups.
        sql: a query with u, i, perhaps g and v, beyond (it is outside the window), lacking (it has no value in some role) and
            refused (the role whose value is none, as in `staging.shaped`).
    """

    def __init__(self, given: Given, frame: DataFrame, relation: str) -> None:
        places, asked = by_name(given.asked, frame.columns, _WHAT), given.asked
        types = {role: frame.dtypes[place][1] for role, place in places.items()}
        kinds = {role: kind_of(role, asked.columns[role], _embedded(kind), _WHAT, kind) for role, kind in types.items()}
        names = {role: f"c{place}" for role, place in places.items()}
        if given.split is not None:
            if kinds["item"] != "str":
                raise not_split(given.split, _WHAT)
            pattern = _quoted("".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in given.split))
            relation = f"(SELECT *, explode_outer(split({names['item']}, {pattern})) AS piece FROM {relation})"
            names["item"] = "piece"
        names = {role: _present(name, kinds[role], types[role], given) for role, name in names.items()}
        parts = [role for role in places if role not in ("user", "group") and is_label(role)]
        stored = {role: _stored(role, asked.columns[role], types[role]) for role in places if is_label(role)}
        casts = {role: f"CAST({names[role]} AS {kind})" for role, kind in stored.items()}
        if asked.further:
            casts["item"], stored["item"] = " || ',' || ".join(_record(casts[role]) for role in parts), "STRING"
        self.stored: dict[str, str] = {role: kind for role, kind in stored.items() if role in ("user", "item", "group")}
        columns = [f"{casts[role]} AS {SHORT[role]}" for role in self.stored]
        outside, bad = list[str](), ""
        for role, tests in given.tests().items():
            given.require_comparable(role, kinds[role], _WHAT)
            kept, malformed = _conditions(names[role], kinds[role], tests)
            columns += [f"{kept} AS kept_{SHORT[role]}", f"{malformed} AS bad_{SHORT[role]}"]
            outside.append(f"NOT kept_{SHORT[role]}")
            bad += f"WHEN bad_{SHORT[role]} THEN '{role}' "
        if given.window is not None:
            given.require_unit(kinds["time"], _WHAT)
            moment, wall = _moment(names["time"], kinds["time"], given.window.unit)
            known = f"IF({moment} BETWEEN {FIRST} AND {LAST}, {moment}, NULL)"
            columns += [f"{names['time']} IS NOT NULL AS timed", f"{known} AS t", f"{wall} AS wall"]
            outside.append(f"(t IS NOT NULL AND NOT ({given.window.holds('t', 'wall')}))")
            bad += "WHEN timed AND t IS NULL THEN 'time' "
        if given.amount is not None:
            number = names["value"]
            if kinds["value"] == "str":
                number = f"IF({number} RLIKE {_NUMBER}, {number}, NULL)"
            columns += [f"{names['value']} IS NOT NULL AS valued", f"TRY_CAST({number} AS DOUBLE) AS x"]
            bad += "WHEN valued AND v IS NULL THEN 'value' "
        inner = f"SELECT {', '.join(columns)} FROM {relation}"
        if given.amount is not None:  # the largest double is also below NaN, as Spark orders them
            most = f"{given.amount.most!r}D"
            cut = f"IF(abs(x) <= 1.7976931348623157E308D, greatest(-{most}, least({most}, x)), NULL)"
            inner = f"SELECT *, {cut} AS v FROM ({inner})"
        lacking = " OR ".join(f"{SHORT[role]} IS NULL" for role in asked.roles)
        refused, beyond = f"CASE {bad}END" if bad else "CAST(NULL AS STRING)", " OR ".join(outside) or "false"
        self.sql: str = f"SELECT *, {beyond} AS beyond, {lacking} AS lacking, {refused} AS refused FROM ({inner})"


def _embedded(kind: str) -> str:
    """What the embedded engine calls a type of Spark."""
    text = kind == "string" or kind.startswith(("varchar(", "char("))
    return "VARCHAR" if text else _TYPES.get(kind, kind.upper())


def _present(column: str, kind: Kind, stored: str, given: Given) -> str:
    """SQL of the values of a column that do not stand for a missing one, as `staging` has them."""
    if kind in ("wall", "instant") and any(text[:1].isdigit() for text in given.null):
        raise EventLogError(
            f"null={given.null!r} may stand for times, and time={given.asked.time!r} of {_WHAT} is of type {stored}: make such "
            "times NULL there, and leave it out"
        )
    same = [f"CAST({column} AS STRING) = {_quoted(text)}" for text in given.null]
    if stored in ("float", "double"):
        numbers = [text for text in given.null if re.fullmatch(NUMBER, text) or text.lower() == "nan"]
        same = [f"CAST({column} AS DOUBLE) = CAST('{text}' AS DOUBLE)" for text in numbers]
    present = f"IF(coalesce({' OR '.join(same)}, false), NULL, {column})" if same else column
    return f"nullif({present}, '')" if _embedded(stored) == "VARCHAR" and (given.null or given.split) else present


def _conditions(column: str, kind: Kind, tests: Sequence[Condition]) -> tuple[str, str]:
    """SQL of whether a value satisfies all conditions, and of whether it is malformed, as `staging` has both."""
    text = f"nullif(CAST({column} AS STRING), '')"
    number = rf"IF({text} RLIKE r'\A{NUMBER}\z', TRY_CAST({text} AS DOUBLE), NULL)"
    number = number if kind == "str" else f"CAST({column} AS DOUBLE)"
    held = [
        f"coalesce({text} {one.sign} {_quoted(one.value)}, false)"
        if one.as_text
        else f"coalesce({number} {one.sign} {one.number!r}D, false)"
        for one in tests
    ]
    finite = f"coalesce(abs({number}) <= 1.7976931348623157E308D, false)"
    malformed = "false" if all(one.as_text for one in tests) else f"({text} IS NOT NULL AND NOT {finite})"
    return " AND ".join(held), malformed


def _quoted(text: str) -> str:
    """A string of Spark's SQL by its code points: no character of it has a meaning there."""
    return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"


def _fine(amount: Amount) -> str:
    """SQL of the sum of values v in units of 2^(exponent - 40), as `Amount.fine` has it, cut to where every clip cuts it."""
    whole = f"rint(v * {2.0 ** (40 - amount.exponent)!r}D)"
    high = f"floor({whole} / {_HALF}D)"
    low = f"CAST({whole} - {high} * {_HALF}D AS BIGINT)"
    total = f"sum(CAST({high} AS DECIMAL(20, 0))) * {_HALF} + sum(CAST({low} AS DECIMAL(20, 0)))"
    return f"CAST(greatest(-{2**60}, least({2**60}, {total})) AS BIGINT)"


def _stored(role: str, name: object, kind: str) -> str:
    """Spark's type of labels: integers wider than its own, of 64 bits without a sign, are decimals there; others are not printed
    alike.
    """
    whole = re.fullmatch(r"decimal\((\d+),0\)", kind)
    if kind.startswith("decimal(") and not (whole and int(whole[1]) <= _LONGEST):
        raise EventLogError(
            f"{role}={name!r} of {_WHAT} is of type {kind}: decimals as labels are integers of at most 64 bits; cast the column"
        )
    return "DECIMAL(20, 0)" if whole else "STRING" if _embedded(kind) == "VARCHAR" else "BIGINT"


def _record(part: str) -> str:
    """SQL of a field of a record, as `catalogue.joined` writes it."""
    text = f"CAST({part} AS STRING)"
    return f"IF({text} = '' OR {text} RLIKE r'[,\"\\r\\n]', '\"' || replace({text}, '\"', '\"\"') || '\"', {text})"


def _moment(column: str, known: Kind, unit: Unit | None) -> tuple[str, str]:
    """SQL of a time as microseconds, null if it is none, and of whether they are of the clock on the wall."""
    if unit is not None:
        whole = column if known == "int" else f"IF({column} RLIKE r'\\A-?[0-9]{{1,19}}\\z', {column}, NULL)"
        return f"CAST({whole} AS DECIMAL(20, 0)) * {MICROSECONDS[unit]}", "false"
    if known == "instant":
        return f"unix_micros({column})", "false"
    if known == "wall":
        return _microseconds(f"CAST({column} AS TIMESTAMP_NTZ)"), "true"
    texts = column, f"regexp_extract({column}, {_INSTANT}, 1)"
    clock, local = (_microseconds(f"TRY_CAST({text} AS TIMESTAMP_NTZ)") for text in texts)
    zone = f"regexp_extract({column}, {_INSTANT}, 2)"
    digits = f"regexp_replace({zone}, '[^0-9]', '')"
    hours, minutes = (f"CAST(concat('0', substring({digits}, {start}, 2)) AS BIGINT)" for start in (1, 3))
    offset = f"IF({zone} LIKE '-%', -1L, 1L) * ({hours} * 60L + {minutes}) * 60000000L"
    text = f"CASE WHEN {column} RLIKE {_WALL} THEN {clock} WHEN {column} RLIKE {_INSTANT} THEN {local} - {offset} END"
    return text, f"coalesce({column} RLIKE {_WALL}, true)"


def _microseconds(clock: str) -> str:
    """SQL of microseconds since 1970 of a time without a zone; what the session's zone is does not matter."""
    day, second = f"unix_date(CAST({clock} AS DATE)) * 86400000000L", f"CAST(extract(SECOND FROM {clock}) * 1000000 AS BIGINT)"
    return f"({day} + hour({clock}) * 3600000000L + minute({clock}) * 60000000L + {second})"
