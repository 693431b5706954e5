"""Counts that threads share: nobody gets another's rows, a failure or an end is said, and a fork is
refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpselect as dps
from accounting.errors import ForeignProcess
from dpselect.app.events.engine import Engine
from dpselect.app.events.engine_counts import HeldCounts
from dpselect.app.events.pairs import hold
from dpselect.errors import EventLogError

LOG = pa.table({"u": list(range(900)), "i": [n % 9 for n in range(900)]})
FIND = dps.LimitedDomain(k=1, kbar=3, epsilon=1.0, delta=1e-6)
SPARSE = dps.SparseHistogram(
    k=3, scale=1.0, delta=1e-6, sensitivity=dps.Sensitivity.of_counts(items_per_user=1)
)


@pytest.fixture
def held() -> Iterator[HeldCounts]:
    """9 items of 100 users each."""
    with hold(LOG, user="u", item="i", max_items_per_user=1, salt="s", clip=1.0) as counts:
        yield counts


class Meanwhile:
    """What runs in a second thread, once, at a moment of the first's; the first waits for it unless
    it has to wait itself.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=work)
        self._started = False

    def now(self) -> None:
        """The moment."""
        if not self._started:
            self._started = True
            self._thread.start()
            self._thread.join(0.1)

    def end(self) -> None:
        """Until the second thread has ended."""
        self._thread.join(5)
        assert self._started
        assert not self._thread.is_alive()


class Asked:
    """An engine's tables of which questions go elsewhere."""

    def __init__(self, tables: Any, run: Callable[[str], Any]) -> None:
        self._tables, self.run = tables, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)


class Slow:
    """A connection that lets a second thread go on between a query and the fetching of its rows."""

    def __init__(self, moment: Callable[[], None]) -> None:
        self._connection = duckdb.connect()
        self._moment = moment

    def execute(self, *asked: Any) -> Any:
        self._connection.execute(*asked)
        self._moment()
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("asked", ["run", "columns"])
def test_concurrent_queries_each_get_their_own_rows(asked: str, tmp_path: Path) -> None:
    """One connection has one result: a second thread's query would put its rows into the
    first's.
    """
    other: list[Any] = []
    meanwhile = Meanwhile(lambda: other.append(engine.run("SELECT 2 AS n", title="a test")))
    engine = Engine(Slow(meanwhile.now), tmp_path, "320MiB")  # type: ignore[arg-type]
    found: Any = getattr(engine, asked)("SELECT 1 AS n", title="a test")
    meanwhile.end()
    assert other == [[(2,)]]
    assert found == ([(1,)] if asked == "run" else {"n": 1})


def test_a_release_asks_all_its_questions_before_another_asks_one(held: HeldCounts) -> None:
    """Also where the engine could answer both at once, as Spark can."""
    asked: list[str] = []

    def run(sql: str) -> Any:
        asked.append(threading.current_thread().name)
        meanwhile.now()
        return held.tables.run(sql)

    scores = replace(held, tables=Asked(held.tables, run)).scores()
    meanwhile = Meanwhile(lambda: SPARSE.select(scores))
    SPARSE.select(scores)
    meanwhile.end()
    # the histogram, the buckets and the items, twice; but for a chance of 1e-30
    assert len(asked) == 6
    assert asked == sorted(asked, key=asked.index)


def test_closed_counts_say_that_they_are_closed(held: HeldCounts) -> None:
    """Before a release is charged: `check` is what a Session asks first."""
    scores = held.scores()
    held.close()
    held.close()
    for refused in (
        lambda: FIND.check(scores),
        lambda: FIND.select(scores),
        lambda: held.scores([1]),
    ):
        with pytest.raises(
            EventLogError, match=r"are closed\. Release from them inside the with block"
        ):
            refused()


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_release_that_fails_closes_the_counts(
    held: HeldCounts, failure: type[BaseException]
) -> None:
    """And refused input does not: nothing was drawn."""
    with pytest.raises(EventLogError, match="more than once"):
        held.scores([1, 1])
    assert len(FIND.select(held.scores())) <= 1

    def fail(_: str) -> Any:
        raise failure

    broken = replace(held, tables=Asked(held.tables, fail))
    with pytest.raises(failure):
        FIND.select(broken.scores())
    with pytest.raises(EventLogError, match="failed half-way"):
        FIND.select(held.scores())


@pytest.mark.parametrize("mechanism", [SPARSE, FIND], ids=lambda one: one.kind)
def test_a_draw_that_fails_after_the_engine_was_asked_closes_the_counts(
    held: HeldCounts, mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is free by then, and what failed may have drawn."""

    def fail(*_: object) -> Any:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(type(mechanism), "_select", fail)
        with pytest.raises(RuntimeError):
            mechanism.select(held.scores())
    with pytest.raises(EventLogError, match="failed half-way"):
        mechanism.select(held.scores())


def test_second_pass_may_query_the_same_held_counts(held: HeldCounts) -> None:
    """It is the caller's code, and runs between turns."""
    twice = dps.DiscoverThenSelect(
        discovery=SPARSE, selection=dps.OneshotTopK(k=1, noise="gumbel", scale=1.0), candidates=3
    )
    seen: list[Any] = []

    def look(labels: Any) -> dps.Scores:
        seen.append(FIND.select(held.scores()))
        return dps.Scores([1.0] * len(labels), labels=labels, sensitivity=SPARSE.sensitivity)

    twice.select(held.scores().with_second(dps.SecondLook(look, SPARSE.sensitivity)))
    assert len(seen) == 1


def test_a_fork_is_refused_and_leaves_the_engine_alone(held: HeldCounts) -> None:
    """An engine's threads do not live on in a fork, which would wait for them for ever."""
    scores = held.scores()
    child = os.fork()
    if child == 0:
        said = 0
        for refused in (
            lambda: FIND.check(scores),
            lambda: FIND.select(scores),
            lambda: held.scores([1]),
        ):
            try:
                refused()
            except ForeignProcess as error:
                said += "events.hold" in str(error)
        held.close()
        os._exit(said)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert len(FIND.select(scores)) <= 1
