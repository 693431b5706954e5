"""A Spark DataFrame is counted on its cluster, to the same row as by the embedded engine. One local session serves all tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dpselect as dps
from dpselect.cli import app
from dpselect.events import hold
from dpselect.sampling import ExactSampler

REQUIRED = os.environ.get("DPSELECT_TEST_SERVERS") == "required"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Two executor threads in this machine's Java."""
    if shutil.which("java") is None:
        (pytest.fail if REQUIRED else pytest.skip)("needs Java 17 or later: apt-get install default-jre-headless")
    sql = pytest.importorskip("pyspark.sql", reason="needs the extra spark: pip install 'dpselect[spark]'")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": "/nonexistent",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it lives too shortly to compile well
    }
    builder = sql.SparkSession.builder.master("local[2]").appName("dpselect tests")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = signal.getsignal(signal.SIGINT)
        made = builder.config(map=settings).getOrCreate()
        signal.signal(signal.SIGINT, before)  # pyspark puts its own in place, and leaves it after the session's end
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def events(text: bool) -> dict[str, list[Any]]:
    """12,000 events, some without a user or an item; text with characters of two, three and four bytes."""
    rng = np.random.default_rng(1)
    users, items = rng.integers(-(2**62), 2**62, 400)[rng.integers(0, 400, 12_000)], rng.zipf(1.4, 12_000) % 700
    columns: dict[str, list[Any]] = {"user": users.tolist(), "item": items.tolist()}
    if text:
        columns = {"user": [f"u'\\{n}" for n in users], "item": [f"{'é語🙂'[n % 3]}{n}:" for n in items.tolist()]}
    columns["user"][::97] = [None] * len(columns["user"][::97])
    columns["item"][::89] = [None] * len(columns["item"][::89])
    return columns


def frames(session: Any, columns: dict[str, list[Any]]) -> tuple[Any, Any]:
    """The same table in Arrow and in Spark."""
    import pyarrow as pa

    kinds = ["string" if isinstance(values[1], str) else "bigint" for values in columns.values()]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(columns, kinds, strict=True))
    return pa.table(columns), session.createDataFrame(list(zip(*columns.values(), strict=True)), schema)


ASKED: dict[str, Any] = {"user": "user", "item": "item", "salt": "s'\\é", "max_items_per_user": 7}


@pytest.mark.parametrize(
    ("text", "norm"), [(False, "l2"), pytest.param(True, "l1", marks=pytest.mark.slow)], ids=["integers", "text"]
)
def test_counts_are_those_of_the_embedded_engine_row_for_row(session: Any, text: bool, norm: str) -> None:
    """Labels, counts, clipped counts and the report: the same users keep the same items under the same salt."""
    arrow, frame = frames(session, events(text))
    asked = {**ASKED, "clip": (1.0, 1.37, 2.0**-10, 2.0**11), "clip_norm": norm}
    here, there = dps.events.read(arrow, **asked), dps.events.read(frame, **asked)
    assert there.labels == here.labels
    assert there.counts.tolist() == here.counts.tolist()
    assert there.clipped.tolist() == here.clipped.tolist()
    assert there.report == here.report
    assert (there.salt, there.max_items_per_user) == (here.salt, here.max_items_per_user)
    assert there.scores(clip=1.37).sensitivity == here.scores(clip=1.37).sensitivity


@pytest.mark.slow
def test_items_that_are_asked_for_and_unbounded_users(session: Any) -> None:
    """`within` leaves other items out before the bound and the clip; without a bound everything counts."""
    arrow, frame = frames(session, events(text=False))
    for asked in ({"within": [3, 1, 2**63, 699], "max_items_per_user": 2, "salt": "x", "clip": 1.0}, {}):
        here, there = (dps.events.read(log, user="user", item="item", **asked) for log in (arrow, frame))
        assert (there.labels, there.counts.tolist()) == (here.labels, here.counts.tolist())
        assert there.clipped.tolist() == here.clipped.tolist()
        assert there.public == here.public


def test_held_counts_answer_as_the_embedded_engine_does(session: Any) -> None:
    """The top and the histogram are the same; numbers of a group become its items one to one; zeros lie in the range."""
    arrow, frame = frames(session, events(text=False))
    with hold(arrow, **ASKED, clip=1.0) as here, hold(frame, **ASKED, clip=1.0) as there:
        for catalogue, clip in ((None, None), (None, 1.0), (range(-5, 2000, 5), None), ([1, 2, 3, 10**6, 2**63], None)):
            one, two = (held.scores(catalogue, clip=clip)._table for held in (here, there))
            assert one.highest(50)[0] == two.highest(50)[0]
            assert one.highest(50)[1].tolist() == two.highest(50)[1].tolist()
            assert [part.tolist() for part in one.histogram()] == [part.tolist() for part in two.histogram()]
            values, sizes = two.histogram()
            group = int(np.argmax(sizes * (values > 0)))
            source = ExactSampler(np.random.default_rng(1))
            named = [sorted(table.labels([(group, at) for at in range(sizes[group])], values, source)) for table in (one, two)]
            assert named[0] == named[1]
            if values[0] == 0:
                assert len(set(two.labels([(0, 0), (0, 1)], values, source))) == 2


@pytest.mark.slow
def test_releases_from_a_cluster(session: Any) -> None:
    """One release of each way that scores are read: the clear winners come out, under their names."""
    rows = [(user, word) for word, many in (("zoo", 400), ("pier", 300), ("park", 200), ("rare", 1)) for user in range(many)]
    frame = session.createDataFrame(rows, "who bigint, `where` string")
    few = dps.Sensitivity.of_counts(items_per_user=4)
    with hold(frame, user="who", item="where", max_items_per_user=4) as held:
        for mechanism in (
            dps.LimitedDomain(k=2, kbar=10, epsilon=2.0, delta=1e-6, l0=4),
            dps.SparseHistogram(k=2, scale=2.0, delta=1e-6, sensitivity=few),
            dps.DiscoverThenSelect(
                discovery=dps.SparseHistogram(k=3, scale=2.0, delta=1e-6, sensitivity=few),
                selection=dps.OneshotTopK(k=2, noise="gaussian", scale=2.0, sensitivity=few, values=True),
                candidates=3,
            ),
        ):
            assert mechanism.select(held.scores()).labels == ("zoo", "pier")
        oneshot = dps.OneshotTopK(k=3, noise="gumbel", scale=5.0)
        assert oneshot.select(held.scores(["park", "zoo", "moon", "pier"])).labels == ("zoo", "pier", "park")


@pytest.mark.slow
def test_a_view_goes_when_the_counts_are_closed(session: Any) -> None:
    """Nothing of a reading stays in the session's catalogue."""
    frame = session.createDataFrame([(1, 2)], "a int, b int")
    with hold(frame, user="a", item="b") as held:
        held.scores([2, 3])
        assert session.catalog.listTables()
    assert not session.catalog.listTables()


@pytest.mark.slow
def test_types(session: Any) -> None:
    """Columns are found by their exact names, integers of any width are integers, and others are refused by name alone."""
    made = session.createDataFrame(
        [(1, Decimal(2**64 - 1), 1.5, "7", "7")], "a smallint, b decimal(20, 0), c double, d string, D string"
    )
    assert dps.events.read(made, user="a", item="b").labels == (2**64 - 1,)
    assert dps.events.read(made, user="d", item="D").labels == ("7",)
    for item, message in (("c", "type double"), ("x", "not a column"), ("a", "the same column")):
        with pytest.raises(dps.EventLogError, match=message):
            dps.events.read(made, user="a", item=item)
    with pytest.raises(dps.EventLogError, match="embedded engine only"):
        dps.events.read(made, user="a", item="b", group="d", max_groups_per_user=1)
    with pytest.raises(dps.EventLogError, match="no event with both"):
        dps.events.read(made.filter("a = 2"), user="a", item="b")


def test_a_failure_on_the_cluster_quotes_no_data(session: Any, tmp_path: Path) -> None:
    """What an executor reports may hold values; the error does not, nor what it is chained to."""
    broken = session.createDataFrame([("secret", 1)], "a string, b int").selectExpr("CAST(a AS INT) AS a", "b")
    with pytest.raises(dps.EventLogError) as caught:
        dps.events.read(broken, user="a", item="b")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.slow
def test_the_command_reads_paths_and_tables_of_the_session(session: Any, tmp_path: Path) -> None:
    """CSV by path and tables by name; the default mechanism, with its second look, and a catalogue."""
    lines = [f'{user},"{word}, {word}"' for word, many in (("zoo", 4000), ("pier", 3000), ("rare", 1)) for user in range(many)]
    (tmp_path / "visits.csv").write_text("\n".join(["who,where", *lines, ",nobody", '77,""']) + "\n")
    (tmp_path / "places.csv").write_text('where\n"zoo, zoo"\n"moon"\n"pier, pier"\n')
    session.read.csv(f"{tmp_path}/visits.csv", header=True).createOrReplaceTempView("visits")
    asked = ["--user", "who", "--item", "where", "--k", "2", "--json", "--epsilon", "4"]
    public = ["--domain", f"{tmp_path}/places.csv"]
    for log, more in ((f"{tmp_path}/visits.csv", ["--delta", "1e-6", "--max-items-per-user", "40"]), ("visits", public)):
        released = CliRunner().invoke(app, ["topk", "--engine", "spark", log, *asked, *more])
        assert released.exit_code == 0, released.output
        assert json.loads(released.stdout)["selection"]["labels"] == ["zoo, zoo", "pier, pier"]
    refused = CliRunner().invoke(
        app, ["topk", "--engine", "spark", "visits.jsonl", *asked, "--delta", "1e-6", "--format", "jsonl"]
    )
    assert "Parquet, CSV or TSV" in refused.stderr
    session.catalog.dropTempView("visits")
