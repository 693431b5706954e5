"""A log that is read once and counted again and again: the counts are those of a reading each, on
every path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from event_oracle import plain

import dpselect as dps
import dpselect.app.events.counting as counting
from accounting.errors import ForeignProcess
from dpselect import events
from dpselect.app.events import rows as sources
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

USERS = ["ann", "Ánn", "bob", "", "7", "07", "zoë\n", None]
ITEMS = ["zoo", "zoo ", "é", "e\u0301", "-1", "a,b", None]
# Every user meets some items several times; more groups and items than the bounds below allow.
ROWS = [(USERS[n * n % 8], ITEMS[n * 3 % 7], f"g{n % 3 + n % 2}", n / 8 - 9) for n in range(170)]
LOG = pd.DataFrame(ROWS, columns=["u", "i", "g", "v"])
LOOKS: dict[str, dict[str, Any]] = {
    "all": {},
    "bounded": {"max_items_per_user": 2, "salt": "s"},
    "clips": {"clip": (0.5, 1.0, 1.4), "max_items_per_user": 3, "salt": "s"},
    "l1 within": {"clip": 1.0, "clip_norm": "l1", "within": ["é", "zoo", "nobody"]},
    "within": {"within": ["é", "zoo"], "max_items_per_user": 1, "salt": "t"},
}
GROUPED: dict[str, dict[str, Any]] = {
    "groups": {"max_groups_per_user": 2, "salt": "s"},
    "few items": {"max_groups_per_user": 1, "max_items_per_user": 1, "clip": 1.0, "salt": "s"},
    "listed": {
        "max_groups_per_user": 3,
        "groups": ["g1", "none"],
        "within": ["é", "zoo"],
        "salt": "s",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [{}, {"memory_limit": "64MiB", "buckets": 3}], ids=["direct", "parts"]
)
def test_every_count_of_the_pairs_is_that_of_a_reading(how: dict[str, Any], tmp_path: Path) -> None:
    """Bounds, clips, lists, groups and sums, one after the other and in any order, from a table and
    from a file.
    """
    path = tmp_path / "log.parquet"
    LOG.to_parquet(path)
    for asked, looks in (
        ({}, LOOKS),
        ({"group": "g"}, GROUPED),
        (
            {"value": "v", "value_clip": 2.5},
            {"sums": {}, "few": {"max_items_per_user": 2, "salt": "s"}},
        ),
    ):
        start = {"max_groups_per_user": 1} if asked.get("group") else {}
        with events.pairs(path, user="u", item="i", **asked, **start, **how) as kept:
            for name in [*looks, *reversed(looks)]:
                whole = events.read(LOG, user="u", item="i", **asked, **looks[name])
                assert plain(kept.read(**looks[name])) == plain(whole), name


def test_held_counts_of_the_pairs_are_those_of_hold() -> None:
    """Two of them at a time; lists of one are not the other's; they end with the pairs."""
    with (
        events.pairs(LOG, user="u", item="i") as kept,
        events.hold(LOG, user="u", item="i", clip=1.0) as alone,
    ):
        bounded, clipped = kept.hold(max_items_per_user=2, salt="s"), kept.hold(clip=1.0)
        for names in (["é", "zoo"], None):
            tops = [one.scores(names, clip=1.0)._highest(9) for one in (alone, clipped)]
            assert len({str(top) for top in tops}) == 1
        assert bounded.scores()._highest(9)[1].sum() < clipped.scores()._highest(9)[1].sum()
        bounded.close()
        left = clipped.scores()
    with pytest.raises(EventLogError, match="closed"):
        left.check(dps.LimitedDomain(k=1, kbar=3, epsilon=1.0, delta=1e-6))


def test_pairs_close_at_block_end_or_failed_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the block, and a count that fails; a question that is wrong does not. No file
    stays behind.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with events.pairs(LOG, user="u", item="i") as kept:
        with pytest.raises(EventLogError, match="time= was settled"):
            kept.read(time="v")
        with pytest.raises(EventLogError, match="max_items_per_user=0"):
            kept.read(max_items_per_user=0)
        assert kept.read().labels
        with monkeypatch.context() as broken:
            broken.setattr(counting.Count, "totals", _fail)
            with pytest.raises(MemoryError):
                kept.read()
        with pytest.raises(EventLogError, match="failed half-way"):
            kept.read()
        assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(EventLogError, match="are closed"):
        kept.read()
    assert list(tmp_path.iterdir()) == []


def _fail(*_: object) -> None:
    raise MemoryError


def test_a_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the engine's memory, and not its threads; closing there leaves the pairs to the
    process that made them.
    """
    with events.pairs(LOG, user="u", item="i") as kept:
        with monkeypatch.context() as forked:
            forked.setattr("os.getpid", lambda: -1)
            kept.close()
            with pytest.raises(ForeignProcess):
                kept.read()
        assert kept.read().labels


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"engine": "duckdb"}], ids=["default", "held"])
def test_an_answer_reads_its_log_once(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where later rounds weigh users' items anew."""
    read: list[object] = []
    rows = sources.rows
    monkeypatch.setattr(
        sources, "rows", lambda engine, given: read.append(given.source) or rows(engine, given)
    )
    log = pa.table({"u": [n % 451 for n in range(9000)], "i": [n % 150 for n in range(9000)]})
    answer = dps.topk(log, user="u", item="i", k=100, epsilon=4.0, delta=1e-6, **asked)
    assert isinstance(answer.mechanism, dps.RacingTopK)
    assert len(answer.items) > 0
    assert len(read) == 1
