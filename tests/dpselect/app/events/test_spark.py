"""A Spark DataFrame is counted on its cluster, to the same row as by the embedded engine. One local
session serves all tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from event_oracle import AROUND_A_DAY, plain
from shell import dpselect

import accounting as acc
import dpselect as dps
from dpselect.app.events.contributions import Amount
from dpselect.app.events.pairs import hold
from dpselect.app.events.reading import Reading
from dpselect.app.events.rows import read_events, shape_events
from dpselect.app.events.sources.base import SHORT, RoleColumns, Rows, SourceRequest
from dpselect.app.events.spark import Cluster, open_frame
from dpselect.app.events.time_window import Window
from dpselect.errors import EventLogError
from dpselect.events import read
from dpselect.sampling import ExactSampler

pytestmark = pytest.mark.slow  # a Java machine starts for seconds
REQUIRED = os.environ.get("DPSELECT_TEST_SERVERS") == "required"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Two executor threads in this machine's Java."""
    if shutil.which("java") is None:
        (pytest.fail if REQUIRED else pytest.skip)(
            "needs Java 17 or later: apt-get install default-jre-headless"
        )
    sql = pytest.importorskip("pyspark.sql", reason="needs the extra spark: pip install '.[spark]'")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": "/nonexistent",
        "spark.sql.session.timeZone": "America/New_York",  # which must not matter
        # it lives too shortly to compile well
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("dpselect tests")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = signal.getsignal(signal.SIGINT)
        made = builder.config(map=settings).getOrCreate()
        # pyspark puts its own in place, and leaves it after the session's end
        signal.signal(signal.SIGINT, before)
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


# An instant, or what a clock showed; those of 27 October in Berlin are read. The session's own zone
# is another.
TIMES = [*AROUND_A_DAY, "2024-10-27T02:30:00.1234567", "2024-10-27T12:00-05"]
DAY: dict[str, Any] = {
    "time": "at",
    "since": "2024-10-27",
    "until": "2024-10-28",
    "time_zone": "Europe/Berlin",
}


def events(text: bool) -> dict[str, list[Any]]:
    """6,000 events, some without a value in some column; text with characters of two, three and
    four bytes.
    """
    rng = np.random.default_rng(1)
    users, items = (
        rng.integers(-(2**62), 2**62, 400)[rng.integers(0, 400, 6_000)],
        rng.zipf(1.4, 6_000) % 700,
    )
    columns: dict[str, list[Any]] = {"user": users.tolist(), "item": items.tolist()}
    if text:
        columns = {
            "user": [f"u'\\{n}" for n in users],
            "item": [f"{'é語🙂'[n % 3]}{n}:" for n in items.tolist()],
        }
    columns |= {
        "part": [("a", 'b,"c"', "", "é")[n] for n in rng.integers(0, 4, 6_000)],
        "city": [f"c{n}" for n in rng.integers(0, 9, 6_000)],
        "paid": (rng.normal(0, 30, 6_000) * 10.0 ** rng.integers(-3, 12, 6_000)).tolist(),
        "at": [TIMES[n] for n in rng.integers(0, len(TIMES), 6_000)],
    }
    for name, step in zip(columns, (97, 89, 83, 79, 73, 71), strict=True):
        columns[name][::step] = [None] * len(columns[name][::step])
    return columns


def frames(session: Any, columns: dict[str, list[Any]]) -> tuple[Any, Any]:
    """The same table in Arrow and in Spark."""
    import pyarrow as pa

    names = {str: "string", int: "bigint", float: "double"}
    schema = ", ".join(f"`{name}` {names[type(values[1])]}" for name, values in columns.items())
    return pa.table(columns), session.createDataFrame(
        list(zip(*columns.values(), strict=True)), schema
    )


@pytest.fixture(scope="module")
def integers(session: Any) -> tuple[Any, Any]:
    """Users and items that are integers, for most tests."""
    return frames(session, events(text=False))


ASKED: dict[str, Any] = {"user": "user", "item": "item", "salt": "s'\\é", "max_items_per_user": 7}


def read_alike(logs: tuple[Any, Any], **asked: Any) -> Any:
    """What both engines read of the same rows."""
    here, there = (read(log, **asked) for log in logs)
    assert plain(there) == plain(here), asked
    return here


PAID = {"value": "paid", "value_clip": (-50, 20.5)}
CITY = {"group": "city", "max_groups_per_user": 2}
READINGS: dict[str, dict[str, Any]] = {
    "sums": {**PAID, **CITY, **DAY, "item": ["item", "part"], "max_items_per_user": 2},
    "clips": {"clip": (1.0, 1.37, 2.0**-10, 2.0**11), "clip_norm": "l2"},
    "groups": {
        **CITY,
        "groups": ["c3", "c1", "zz"],
        "clip": (1.0, 1.37),
        "clip_norm": "l1",
        "max_items_per_user": None,
        "buckets": 2,
    },
    "listed parts": {
        "item": ["part", "city"],
        **DAY,
        "within": ["é,c3", "a,c1", ('b,"c"', "c2"), '"",c0', "no"],
    },
    "conditions": {**PAID, "where": ["city != c3", "part != b", "paid < 1e3", "paid >= -7.25"]},
    "text": {"clip": (1.0, 1.37), "clip_norm": "l1"},
    "cells": {"group": "city", "cells": True, "clip": 1.0},
    "nothing of this day": {**CITY, **DAY, "since": "2031-01-01", "until": "2031-01-02"},
}


@pytest.mark.parametrize("name", READINGS)
def test_readings_are_those_of_the_embedded_engine_row_for_row(
    session: Any, integers: tuple[Any, Any], name: str
) -> None:
    """Labels, counts, sums, presence and the report: the same users keep the same groups and items
    under the same salt.
    """
    logs = frames(session, events(text=True)) if name == "text" else integers
    here = read_alike(logs, **ASKED | READINGS[name])
    assert (here.report.pairs > 0) == (name != "nothing of this day")


LONG, FAR = "2024-07-14T08:00:00.12345678901", "2024-07-14T08:00+05:99"
SPACED = ("2024-07-14T08:00 Z", "2024-07-14 08:00:00 UTC", "2024-07-14 08:00:00.123 -0700")
SOME = (*TIMES, "1900-01-01", "9999-12-31T23:59:59.999999", LONG, FAR, *SPACED)
NONE = ("2024-02-30", "2024-07-14T25:00", "14.07.2024", "2024-07-14Z", "", "2024-07-14\n")
NONE += ("0001-01-01", "1899-12-31T23:59Z")
NUMBERS = [
    "1",
    "-0",
    ".5",
    "5.",
    "+5",
    "1e3",
    "1E-3",
    " 5 ",
    "\t5\n",
    "1e-400",
    "12345678901234567890",
]
NO_NUMBERS = ["inf", "NaN", "1d", "1f", "0x10", "", "1,5", "1e400", "1e", "e1", "٣"]
TEXTS = {"time": (SOME, NONE), "value": (NUMBERS, NO_NUMBERS)}


@pytest.mark.parametrize("role", ["time", "value"])
def test_text_is_read_as_the_embedded_engine_reads_it(session: Any, role: str) -> None:
    """Moments and numbers are the same to the last bit, and what is none is none in both; each text
    is an item of its own.
    """
    good, bad = TEXTS[role]
    texts = [*good, *bad]
    arrow, frame = frames(
        session, {"user": [1] * len(texts), "item": list(range(len(texts))), role: texts}
    )
    span = Window.between("2024-10-27", "2024-10-28", "UTC", None) if role == "time" else None
    amount, columns = (
        (Amount(-8.0, 8.0), ("value", None)) if role == "value" else (None, (None, "time"))
    )
    given = SourceRequest(
        frame,
        RoleColumns.from_columns("user", "item", None, *columns),
        Reading(user="user", item="item"),
        amount=amount,
        window=span,
    )
    found = f"SELECT i, {SHORT[role]}, apart FROM ({{}}) ORDER BY i"
    with closing(Cluster(session)) as cluster:
        log = read_events(cluster, given)
        there = cluster.run(found.format(log.sql))
    connection = duckdb.connect()
    connection.register("texts", arrow)
    log = Rows(
        f"SELECT user AS u, item AS i, {role} AS {SHORT[role]} FROM texts",
        1,
        "x",
        {**log.kinds, role: "str"},
    )
    here = connection.sql(found.format(shape_events(log, given).sql)).fetchall()
    assert there == here
    assert [row[2] >= 0 for row in here] == [True] * len(good) + [False] * len(bad)


def test_typed_columns_of_values_and_times(session: Any) -> None:
    """Timestamps are instants, those without a zone and dates are of the wall; decimals and floats
    are their double.
    """
    sql = (
        "SELECT 1 AS u, id AS i, timestamp_micros(1730000000000000 + id * 3600000000) AS instant, "
        "timestamp_ntz'2024-10-26 20:00:00' + make_dt_interval(0, CAST(id AS INT)) AS wall, "
        "date_add(DATE'2024-10-25', CAST(id AS INT)) AS day, 1730000000 + id * 3600 AS seconds, "
        "CAST(id AS DECIMAL(18, 4)) / 3 AS paid, CAST(id / 7 AS FLOAT) AS short FROM range(60)"
    )
    frame = session.sql(sql)
    table = frame.toArrow()
    for time, value in (("instant", "paid"), ("wall", "short"), ("day", "i"), ("seconds", "paid")):
        unit, item = ("s" if time == "seconds" else None), ("seconds" if value == "i" else "i")
        asked = {**DAY, "time": time, "time_unit": unit, "value": value, "value_clip": 30}
        read_alike((table, frame), user="u", item=item, **asked)


def test_held_counts_answer_as_the_embedded_engine_does(integers: tuple[Any, Any]) -> None:
    """The top and the histogram are the same; numbers of a group become its items one to one; zeros
    lie in the range.
    """
    asked: list[tuple[Any, float | None]] = [(None, 1.0), (None, None), (range(-5, 2000, 5), None)]
    here, there = (hold(log, **ASKED, clip=1.0) for log in integers)
    with here, there:
        for catalog, clip in (*asked, ([1, 2, 10**6, 2**63], None)):
            both, told = [held.scores(catalog, clip=clip) for held in (here, there)], []
            for scores in both:
                values, sizes = scores._histogram()
                group, source = (
                    int(np.argmax(sizes * (values > 0))),
                    ExactSampler(np.random.default_rng(1)),
                )
                members = [(group, at) for at in range(sizes[group])]
                told.append(
                    (
                        [list(part) for part in scores._highest(50)],
                        [values.tolist(), sizes.tolist()],
                        sorted(scores._labels(members, values, source)),
                    )
                )
            assert told[0] == told[1]
            if values[0] == 0:
                assert len(set(both[1]._labels([(0, 0), (0, 1)], values, source))) == 2


def test_spark_reading_leaves_no_views_or_rows(session: Any) -> None:
    """Neither views in the catalog nor rows on the executors, when held counts, pairs and
    readings have ended.
    """
    computed = session.sparkContext._jsc.getPersistentRDDs
    frame = session.createDataFrame([(1, 2)], "a int, b int")
    before = computed().size()
    with hold(frame, user="a", item="b") as held:
        held.scores([2, 3])
        assert session.catalog.listTables()
        assert computed().size() == before + 1
    with dps.events.pairs(frame, user="a", item="b") as kept:
        assert kept.hold().scores()._highest(1)[0] == [2]
        assert kept.read(clip=1.0).labels == (2,)
        assert computed().size() == before + 2
    read(frame, user="a", item="b")
    assert computed().size() <= before
    assert not session.catalog.listTables()


def test_pairs_on_a_cluster_are_counted_as_here(integers: tuple[Any, Any]) -> None:
    """Read once there; lists, bounds, clips and groups, as the embedded engine has them."""
    columns: dict[str, Any] = {"user": "user", "item": "item", **CITY}
    asked: dict[str, Any] = {"max_items_per_user": 7, "salt": "s", "clip": (1.0, 1.37)}
    asked["groups"] = READINGS["groups"]["groups"]
    with dps.events.pairs(integers[1], **columns) as kept:
        assert plain(kept.read(**asked)) == plain(read(integers[0], **columns, **asked))


def test_spark_second_round_weights_match_the_embedded_engine(session: Any) -> None:
    """Every user's items among those that passed, bounded or not, get the weights that the embedded
    engine gives them.
    """
    logs = frames(session, events(text=True))
    with (
        dps.events.pairs(logs[0], user="user", item="item") as here,
        dps.events.pairs(logs[1], user="user", item="item") as there,
    ):
        labels = here.read().labels[::3]  # type: ignore[union-attr]
        for norm, most, salt in ((1.0, 7, "s'\\é"), (2.5, None, None)):
            look: Any = {"max_items_per_user": most, "salt": salt}
            found = [
                pairs.second_round(pairs.read(**look))(labels, norm) for pairs in (here, there)
            ]
            assert found[0].tolist() == found[1].tolist()
            assert found[0].max() > 0


@pytest.mark.parametrize(
    "stated", [{"normalize": ("nfc",)}, {"missing": "2024", "time": "when", "since": "2024-01-01"}]
)
def test_label_options_are_refused_for_spark_tables(
    integers: tuple[Any, Any], stated: dict[str, Any]
) -> None:
    """An option about labels that a cluster would leave out, or read otherwise, is refused by
    name.
    """
    frame = integers[1].selectExpr("*", "timestamp'2024-01-02' AS when")
    with pytest.raises(EventLogError, match=f"^{next(iter(stated))}=.*Spark table.*leave it out"):
        read(frame, user="user", item="item", **stated)


_WORDS: list[dict[str, Any]] = [
    {"item": "i", "time": "t", "since": "2024-06-01"},
    {"item": "i", "where": ["g = mine", "v >= 0"], "null": "other"},
    {"item": "s"},
    {"item": "i", "value": "s", "value_clip": 5.0},
    {"item": "i", "group": "s", "max_groups_per_user": 1},
]


@pytest.mark.parametrize("words", _WORDS)
def test_empty_log_is_read_like_any_other_log(session: Any, words: dict[str, Any]) -> None:
    """Whatever is selected, and in a column of no type: nothing is refused that one user's rows
    would change.
    """
    kinds, own = set(), []
    for more in ([], [("eve", "own", "mine", "7", "2024-06-01", "7")]):
        rows = [("ann", "other", "g", "text", "2024-05-01", None), *more]
        frame = session.createDataFrame(
            rows, "u string, i string, g string, v string, t string, s string"
        )
        dps.events.require_columns(frame, Reading(user="u", **words))
        counts: Any = read(frame, user="u", **words)
        own.append(len(counts.counts))
        kinds.add((type(counts), type(counts.scores())))
        if not {"group", "value"} & words.keys():
            with hold(frame, user="u", **words) as held:
                dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6).select(held.scores())
    assert (len(kinds), own) == (1, [0, 1])
    if "s" in words.values():
        nothing = frame.selectExpr("u", "i", "g", "v", "t", "NULL AS s")
        assert read(nothing, user="u", **words).counts.tolist() == []


def test_missing_and_several_items_are_those_of_the_embedded_engine(session: Any) -> None:
    """What stands for a missing label or value is left out, of text and numbers, and a field of
    items is several events.
    """
    columns = {
        "user": ["a", "7", "NULL", "", None, "7.0", "d"],
        "item": ["x.|y", "x.|", "y", "x", "y", None, "NULL.|z.|z"],
        "other": [1, -1, 2, 1, 1, 1, -1],
        "paid": [1.0, -1.0, 2.5, 1.0, 1.0, float("nan"), -1.0],
        "text": ["1", "-1", "2.5", "1", "", "-1", "-1.0"],
    }
    arrow, frame = frames(session, columns)
    null = {"missing": ["NULL", "-1", "nan", ""]}
    readings: list[dict[str, Any]] = [
        {**null, "split": ".|", "where": ["other >= 1"]},
        {**null, "value": "paid", "value_clip": 3.0},
        {**null, "value": "text", "value_clip": (-2.0, 3.0)},
        {**null, "split": "|", "item": ["item", "other"], "where": "text = 1"},
        {"null": ["NULL", "1"], "item": "other", "where": "text != 1"},
        {"item": "other", "split": "-"},  # integers are split as their digits
    ]
    for reading in readings:
        here = read_alike((arrow, frame), **{"user": "user", "item": "item", **reading})
        assert here.report.pairs > 0


def test_text_is_split_and_unquoted_as_here(session: Any, tmp_path: Path) -> None:
    """Spark reads each line by itself, and quotes otherwise: what it would make other rows or
    labels of is refused.
    """
    log = tmp_path / "log.csv"

    def labels(text: str, **said: Any) -> tuple[Any, ...]:
        log.write_text(text)
        reading = Reading(**{"user": "u", "item": "i", **said})
        counts: Any = read(*open_frame(str(log), reading))
        assert plain(counts) == plain(read(log, reading))
        return tuple(counts.labels)

    assert labels("u::i\nann::'a::b'\nbob::a\"c\ncid::'it''s'\n", delimiter="::", quote="'") == (
        'a"c',
        "a::b",
        "it's",
    )
    assert labels(
        "ann\t'a\nbob\t\"\n", user="1", item="2", delimiter="\t", quote="", header=False
    ) == ('"', "'a")
    assert labels("u|i\nann|'a'\n", delimiter="|", quote="'") == ("a",)
    for delimiter, label in ((",", '"'), ("::", 'a::b, "c"'), ("::", 20_000 * "a" + 5_000 * '"')):
        field = label.replace('"', '""')
        assert labels(f'u{delimiter}i\nann{delimiter}"{field}"\n', delimiter=delimiter) == (label,)
    for field, delimiter in (('a"b"', ","), ('"a"b"c"', "::"), ('a""b', "::"), ('"a" ', "::")):
        with pytest.raises(EventLogError, match="not quoted as a whole"):
            labels(f"u{delimiter}i\nann{delimiter}{field}\n", delimiter=delimiter)
    with pytest.raises(EventLogError, match="not closed on its line"):
        labels('u,i\nann,a\nbob,"x\nann,b"\n')
    with pytest.raises(EventLogError, match="NUL character"):
        labels("u\ti\nann\t\0\n", delimiter="\t", quote="")
    for said in ({"delimiter": "::"}, {"format": "jsonl"}):
        with pytest.raises(EventLogError, match="cannot be read by Spark as asked"):
            open_frame("log.parquet", Reading(user="u", item="i", **said))


def test_a_row_of_other_fields_refuses_whatever_the_condition(session: Any, tmp_path: Path) -> None:
    """Spark alone compares the number of fields only where it reads them all, so that a condition
    could ask whether a row has others.
    """
    log = tmp_path / "log.csv"
    conditions: tuple[Any, ...] = ((), "w = 1", ("w = 1", "z = 1"))
    for row, is_malformed in (("b,x,1,1", False), ("b,x", True), ("b,x,1,1,,", True)):
        log.write_text(f"u,i,w,z\na,x,1,1\n{row}\n")
        for where in conditions:
            reading = open_frame(str(log), Reading(user="u", item="i", where=where))
            if is_malformed:
                with pytest.raises(dps.errors.EventLogError, match="cannot be read"):
                    dps.events.read(*reading)
            else:
                counts: Any = dps.events.read(*reading)
                assert (counts.labels, counts.counts.tolist()) == (("x",), [2])


def test_spark_column_types_are_checked_by_name(session: Any) -> None:
    """Columns are found by their exact names, integers of any width are integers, and others are
    refused by name alone.
    """
    made = session.createDataFrame(
        [(1, Decimal(2**64 - 1), 1.5, "7", "7", True)],
        "a smallint, b decimal(20, 0), c double, d string, D string, e boolean",
    )
    timed: dict[str, Any] = {"user": "d", "item": "D", "since": "2024-01-01"}
    assert read(made, user="a", item="b").labels == (2**64 - 1,)
    assert read(made, user="d", item="D").labels == ("7",)
    assert read(made.filter("a = 2"), user="a", item="b").labels == ()
    for asked, message in (
        ({"user": "a", "item": "c"}, "type double"),
        ({"user": "a", "item": "x"}, "not a column"),
        ({"user": "a", "item": "b", "value": "e", "value_clip": 1}, "type boolean: values must be"),
        ({**timed, "time": "c"}, "time='c' of this Spark table is of type double"),
        ({**timed, "time": "d", "user": "a"}, "holds something that is not a time"),
    ):
        with pytest.raises(EventLogError, match=message):
            read(made, **asked)


def test_a_failure_on_the_cluster_quotes_no_data(
    session: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """What an executor reports may hold values; the error does not, nor what it is chained to, nor
    what pyspark logs.
    """
    broken = session.createDataFrame([("secret", 1)], "a string, b int").selectExpr(
        "CAST(a AS INT) AS a", "b"
    )
    with pytest.raises(EventLogError) as caught:
        read(broken, user="a", item="b")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert "secret" not in "".join(capfd.readouterr())


def test_the_command_reads_paths_and_tables_of_the_session(session: Any, tmp_path: Path) -> None:
    """CSV by path and tables by name; the default mechanism, with its second look, and lists of
    items and groups.
    """
    words = {"zoo": 4000, "pier": 3000, "rare": 1}
    lines = [f'{user},"{word}, {word}"' for word, many in words.items() for user in range(many)]
    log, items, cities = (tmp_path / f"{name}.csv" for name in ("visits", "places", "cities"))
    log.write_text("\n".join(["who,where", *lines, ",nobody", '77,""']) + "\n")
    items.write_text('where\n"zoo, zoo"\n"moon"\n"pier, pier"\n')
    cities.write_text("city\nx\n")
    visits = session.read.csv(str(log), header=True).selectExpr("*", "'x' AS city")
    visits.createOrReplaceTempView("visits")
    asked = "--engine spark --user who --item where --k 2 --json --epsilon 4"
    listed = f"--domain {items} --group city --groups {cities} --max-groups-per-user 1"
    for source, more in ((log, "--delta 1e-6 --max-items-per-user 40"), ("visits", listed)):
        released = dpselect("topk", source, asked, more)
        assert released.exit_code == 0, released.output
        assert json.loads(released.stdout)["selection"]["labels"] == ["zoo, zoo", "pier, pier"]
    session.catalog.dropTempView("visits")


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (True, ("ann,a\n", 'bob,"x\nann,b"\n', 'ann,a"b"\n', "")),
        (False, ("ann,a\n", "ann\n", 'ann,"x\n', "")),
    ],
)
def test_a_dry_run_on_spark_reads_no_row(
    session: Any, tmp_path: Path, header: bool, rows: tuple[str, ...]
) -> None:
    """Rows that a run refuses, and none, change nothing: the dry run knows the header alone."""
    log, told = tmp_path / "log.csv", list[dict[str, Any]]()
    user, item = ("u", "i") if header else ("1", "2")
    for held in rows:
        log.write_text(("u,i\n" if header else "") + held)
        dry = dps.topk(
            log,
            user=user,
            item=item,
            k=2,
            epsilon=1.0,
            delta=1e-6,
            engine="spark",
            header=header,
            where=f"{item} != z",
            dry_run=True,
        )
        told.append(dry.as_data())
    assert all(one == told[0] for one in told)


def test_files_of_a_table_with_a_log_are_refused_by_path(session: Any, tmp_path: Path) -> None:
    """By the folder, a part of it, a pattern or an address, with and without a row; what has no log
    is read. All kinds: test_logged_tables.py.
    """
    log, folder = Reading(user="who", item="where"), tmp_path / "Paimon {1}"
    rows = session.createDataFrame(
        [("ann", "zoo", "DE")], "who string, where string, country string"
    )
    rows.write.partitionBy("country").parquet(str(folder))
    rows.limit(0).write.parquet(str(tmp_path / "empty"))
    assert open_frame(str(folder).replace("{1}", "*"), log)[0].count() == 1
    for each in (folder, tmp_path / "empty"):
        (each / "snapshot").mkdir()
        (each / "snapshot/snapshot-1").write_text("{}")
    plain = str(folder).replace("{", "\\{").replace("}", "\\}")
    for path in (
        *(plain + part for part in ("", "/*/*.parquet", "/country=DE/")),
        f"file://{tmp_path}/Paimon *",
        str(tmp_path / "empty"),
    ):
        with pytest.raises(EventLogError, match="is a Paimon table") as caught:
            open_frame(path, log)
        assert "DE" not in str(caught.value).split("table", 1)[0]


def test_old_stamps_of_parquet_are_instants_there_and_here(session: Any, tmp_path: Path) -> None:
    """Whatever writes them, and whatever the session's zone."""
    late = [
        ("ann", "zoo", "2024-10-26 22:30:00"),
        ("bob", "pier", "2024-10-27 21:30:00"),
        ("cleo", "pier", "2024-10-27 23:30:00"),
    ]
    rows = session.createDataFrame(late, "user string, item string, at string")
    for kind in ("INT96", "TIMESTAMP_MICROS"):
        session.conf.set("spark.sql.parquet.outputTimestampType", kind)
        path = str(tmp_path / kind)
        rows.selectExpr("user", "item", "to_timestamp(at || '+00:00') AS at").write.parquet(path)
        session.conf.unset("spark.sql.parquet.outputTimestampType")
        asked: dict[str, Any] = {"user": "user", "item": "item", **DAY}
        counted = [
            dict(zip(one.labels, one.counts, strict=True))
            for one in (read(path, **asked), read(open_frame(path, Reading(**asked))[0], **asked))
        ]
        assert counted == [{"zoo": 1, "pier": 1}] * 2


def test_a_period_of_a_horizon(session: Any, tmp_path: Path) -> None:
    """The users of a Spark table are those of the same rows here, who are known when these come
    again. A period may be empty.
    """
    import pandas as pd

    from dpselect.app.continual.state import State

    columns = {"user": events(text=False)["user"][:3000], "item": events(text=True)["item"][:3000]}
    frame = frames(session, columns)[1]
    kept = pd.DataFrame(columns, dtype=object).dropna().convert_dtypes()
    ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.create_dataset("log", acc.Budget(epsilon=1e6, delta=1e-5), "add_remove")
    mechanism = dps.ContinualTopK(k=3, periods=3, count="running", scale=0.01, delta=1e-6)
    opened = dps.continual.open(
        dps.Session(ledger, "log"), mechanism, state=tmp_path / "state", key="spark"
    )
    named = {"user": "user", "item": "item"}
    assert len(opened.close(1, frame, **named).labels or ()) == 3
    opened.close(2, kept, **named)
    with State.open(tmp_path / "state") as state:
        assert state._run("SELECT count(*) FROM users") == [(kept["user"].nunique(),)]
    assert len(opened.close(3, frame.limit(0), **named).labels or ()) == 3
