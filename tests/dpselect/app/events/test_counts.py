"""Counts of every form of log against sets of Python."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import (
    NAMES,
    TYPED,
    Event,
    Sources,
    arrow,
    counted,
    distinct_users,
)

from dpselect import events
from dpselect.app.events import engine
from dpselect.errors import EventLogError

COLUMNS = {"user": NAMES[0], "item": NAMES[1]}


@pytest.mark.parametrize("kind", [*TYPED, "csv", "json", "objects"])
def test_integers_stay_integers(kind: str, tmp_path: Path) -> None:
    """Exactly, and in numeric order, where the source has a type; else they are text."""
    log: list[Event] = [
        (-7, number) for number in (0, 1, 7, -7, 10, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
    ]
    log += [(2**53, 7), (2**53 + 1, 7), (None, 7), (2**53, None)]
    found = events.read(getattr(Sources(tmp_path), kind)(log), **COLUMNS)
    expected = {
        label if kind in TYPED else str(label): n for label, n in distinct_users(log).items()
    }
    assert list(zip(found.labels, found.counts.tolist(), strict=True)) == sorted(expected.items())
    assert (found.report.rows, found.report.rows_left_out) == (14, 2)


def test_labels_are_in_order_of_code_points() -> None:
    """Text labels are ordered by code point, whatever the order of the log."""
    labels = ["b", "B", "10", "9", "é", "a", "\U0001f600", "\uffff"]
    assert events.read(arrow([("u", label) for label in labels]), **COLUMNS).labels == tuple(
        sorted(labels)
    )


@pytest.mark.parametrize(
    "data",
    [
        "u,i\r\n1,a\r\n2,b\r\n",
        "u,i\n1,a\n2,b\n\n",
        "\ufeffu,i\n1,a\n2,b\n",
        'u,"i"\n"1",a\n2,"b"\n',
        "u,i\n1,a,\n2,b\n",
    ],
)
def test_spellings_of_csv(tmp_path: Path, data: str) -> None:
    """Line ends, byte order mark, blank lines, quotes and trailing separators do not change what a
    CSV file says.
    """
    path = tmp_path / "log.csv"
    path.write_bytes(data.encode())
    assert counted(path) == {"a": 1, "b": 1}


def test_wide_integers_of_json_lines(tmp_path: Path) -> None:
    """JSON integers are compared by all their digits, and 7 and "7" are one label."""
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(
            f'{{"u": {user}, "i": {item}}}\n'
            for user, item in ((1, 2**64), (-1, -(2**70)), ('"1"', f'"{2**64}"'))
        )
    )
    assert counted(path) == {str(2**64): 1, str(-(2**70)): 1}


@pytest.mark.slow
def test_many_buckets_and_spilling_do_not_change_counts(tmp_path: Path) -> None:
    """A log larger than the memory allowed is counted exactly, in any number of buckets."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "u": rng.integers(0, 300_000, 1_000_000),
            "i": (rng.pareto(1.0, 1_000_000) * 5).astype(np.int64) % 50_000,
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    pairs = np.unique(np.stack([table["i"].to_numpy(), table["u"].to_numpy()], axis=1), axis=0)
    labels, counts = np.unique(pairs[:, 0], return_counts=True)
    for buckets, memory in ((1, "64MiB"), (37, None)):
        found = events.read(
            tmp_path / "log.parquet", user="u", item="i", buckets=buckets, memory_limit=memory
        )
        assert found.labels == tuple(labels.tolist())
        assert found.counts.tolist() == counts.tolist()


@pytest.mark.slow
def test_quoted_line_breaks_across_the_engines_buffers(tmp_path: Path) -> None:
    """A large CSV file full of quoted separators, quotes and line breaks is read as one thread
    would.
    """
    labels = ['a,"b"\n1,2\n', "\n\n", '"', "x"]
    log: list[Event] = [
        (f"u{number}\n" * 15, labels[number % 4] * (1 + number % 7)) for number in range(400_000)
    ]
    path = Sources(tmp_path).csv(log)
    assert path.stat().st_size > 40_000_000
    assert counted(path, **COLUMNS) == distinct_users(log)


def test_progress_and_cleanup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress moves to its end, and no file is left behind, whether reading succeeds or fails."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    steps: list[tuple[int, int]] = []
    events.read(
        arrow([("u", "i")]),
        **COLUMNS,
        buckets=3,
        progress=lambda done, total: steps.append((done, total)),
    )
    with pytest.raises(EventLogError):
        events.read(
            arrow([("u", "i")]).append_column("v", pa.array(["none"])),
            **COLUMNS,
            value="v",
            value_clip=1.0,
        )
    assert steps == [(0, 2), (2, 2)]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during a query is raised as KeyboardInterrupt, not as an error of the log, and leaves
    no file behind.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), engine.open_engine() as opened:
        opened.run(
            "SELECT count(*) FROM range(10_000_000_000) WHERE range % 7 < 0", title="a long query"
        )
    assert list(tmp_path.iterdir()) == []


def test_temporary_folder_with_pattern_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temporary folder is taken literally: its name may look like a pattern, or hold quotes."""
    odd = tmp_path / "t[a]*?'{x}"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    for kind in ("csv", "json_packed", "parquet"):
        assert counted(getattr(Sources(tmp_path), kind)([("u", "a"), (None, "b")]), **COLUMNS) == {
            "a": 1
        }


@pytest.mark.parametrize("kind", ["int64", "int32", "uint64", "string"])
def test_reversed_pandas_table_is_read_correctly(kind: str) -> None:
    """Its columns lie backwards in memory; each is read as what it is."""
    table = pd.DataFrame({"u": np.arange(9), "i": np.arange(9) // 4}).astype({"i": kind})
    found = events.read(table[::-1], user="u", item="i")
    assert found.labels == (("0", "1", "2") if kind == "string" else (0, 1, 2))
    assert found.counts.tolist() == [4, 4, 1]
