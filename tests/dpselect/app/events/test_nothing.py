"""A log that has nothing in a column, or no row, is read like any other, and what refuses one
is public, or whether the source can be read as a whole as it is.

That nobody, one user and many users look alike through every source and option is a law of
tests/dpselect/test_boundary.py. `require_columns` says what is public without reading a row.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import SAID, Sources, refused

import dpselect as dps
from dpselect import events
from dpselect.app.events.pairs import require_columns
from dpselect.app.events.reading import Reading
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

NAMES = ["u", "i", "g", "v", "t", "s"]
INSIDE, OUTSIDE = "2024-06-01", "2024-05-01"
OTHERS = [(f"u{n}", f"i{n % 7}", f"g{n % 3}", str(n % 9), OUTSIDE, None) for n in range(30)]
_GROUPS = {"group": "g", "max_groups_per_user": 2}
FEW = dps.Sensitivity.of_counts(items_per_user=2)
_FOUND = dps.SparseHistogram(
    scale=5.0, delta=1e-6, sensitivity=dps.Sensitivity.of_clipped(1.0, "l2", items_per_user=2)
)


def test_empty_files_are_read_as_empty_logs(tmp_path: Path) -> None:
    """No bytes of JSON lines, or of delimited text without a header, are a log of nothing; with a
    header there has to be one.
    """
    for name, said in (
        ("log.jsonl", {}),
        ("log.csv", {"user": 1, "item": 2}),
        ("log.tsv.gz", {"user": 1, "item": 9}),
    ):
        (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
        for source in (tmp_path / name, [tmp_path / name] * 2):
            assert events.read(source, **{"user": "u", "item": "i", **said}).labels == ()
    refused(tmp_path / "log.csv", "has no header")


@pytest.mark.parametrize("role", ["user", "item", "group", "value", "time", "where"])
def test_null_column_suits_any_role(role: str, tmp_path: Path) -> None:
    """A column of nulls is one for any role, whatever type pandas, Arrow or a program took from its
    rows.
    """
    held: dict[str, Any] = {name: ["1"] * 3 for name in "uigv"} | {"t": [INSIDE] * 3}
    frame, kinds = pd.DataFrame(held, dtype=object), [pa.nulls(3)]
    if role not in ("value", "time"):  # no list is a number
        kinds.append(pa.array([[]] * 3, pa.list_(pa.null())))
    sources: list[Any] = [frame.assign(n=made) for made in (np.nan, np.float32("nan"), None)]
    for at, nothing in enumerate(kinds):
        table = pa.table(held).append_column("n", nothing)
        pq.write_table(table, tmp_path / f"{at}.parquet")
        sources += [table, tmp_path / f"{at}.parquet"]
    sources += [pl.from_arrow(table).lazy(), duckdb.connect().from_arrow(table)]
    asked: dict[str, Any] = {
        "user": "u",
        "item": "i",
        **_GROUPS,
        "value": "v",
        "value_clip": 5.0,
        "time": "t",
        "since": INSIDE,
    }
    asked[role] = "n" if role != "where" else "n = 1"
    for source in sources:
        assert events.read(source, **asked).items == ()


def test_fields_that_no_object_has_are_nulls(tmp_path: Path) -> None:
    """In objects of Python as in JSON lines: one user's field more is that user's alone."""
    rows: list[dict[str, Any]] = [{"u": f"u{n}", "i": "x", "e": {"a": n}} for n in range(3)]
    eve = {"u": "eve", "i": "x", "e": {"b": {"c": "7"}}, "z": "7"}
    log = tmp_path / "log.jsonl"
    for held, items in ((rows, set()), ([*rows, eve], {"7"})):
        log.write_text("\n".join(map(json.dumps, held)))
        for source in (log, pd.DataFrame(held, columns=["u", "i", "e", "z"])):
            for item in ("e.b.c", "z"):
                assert {*events.read(source, user="u", item=item).labels} == items
    assert events.read(log, user="who", item="what").labels == ()


def test_a_file_of_nulls_agrees_with_any_other(tmp_path: Path) -> None:
    """Of several files one that has nothing in a column decides neither the type of its labels nor
    whether they are read.
    """
    asked: dict[str, Any] = {
        "user": "u",
        "item": "i",
        "value": "v",
        "value_clip": 9.0,
        "time": "t",
        "since": "2024-01-01",
    }
    full = pa.table(
        {
            "u": [1, 2],
            "i": [7, 7],
            "v": [1.5, 2.0],
            "t": pd.to_datetime(["2024-02-01"] * 2),
            "w": [1.0, 2.0],
        }
    )
    pq.write_table(full, tmp_path / "a.parquet")
    pq.write_table(
        pa.table({name: pa.nulls(2) for name in full.column_names}), tmp_path / "b.parquet"
    )
    files = [tmp_path / "b.parquet", tmp_path / "a.parquet"]
    for source in (files, files[::-1]):
        found = events.read(source, **asked, where="w < 9")
        assert (found.labels, found.clipped.tolist()) == ((7,), [[int(3.5 / found.clips[0].unit)]])


def test_integers_are_split_as_their_digits() -> None:
    """pandas takes the type of a column from its rows: a text more makes text of integers, and the
    split refuses neither.
    """
    for items in ([12, 7], [12, 7, "a|b"]):
        frame = pd.DataFrame(
            {"u": range(len(items)), "i": pd.Series(items).map(str) if len(items) == 3 else items}
        )
        found = events.read(frame, user="u", item="i", split="|")
        assert {"12", "7"} <= {*found.labels} <= {"12", "7", "a", "b"}
        with events.pairs(frame, user="u", item="i", split="|") as pairs:
            assert pairs.integers == {"user"}


@pytest.mark.parametrize("rows", [[], [("eve", "x", "mine", "3", INSIDE, "1")]])
def test_unsuitable_group_mechanism_is_refused_for_any_log(rows: Any) -> None:
    """What a group's scores are is public; whether there is a group that has some is not."""
    frame = pd.DataFrame([*OTHERS, *rows], columns=NAMES).astype("string")
    scores = events.read(
        frame, user="u", item="i", max_items_per_user=2, time="t", since=INSIDE, **_GROUPS
    ).scores()
    select = dps.OneshotTopK(k=1, noise="gumbel", scale=1.0, sensitivity=FEW)
    with pytest.raises(dps.errors.DomainMismatch, match="OneshotTopK needs a public domain"):
        dps.PerGroup(mechanism=select, max_groups_per_user=2, discovery=_FOUND).check(scores)


# -- without a row ---------------------------------------------------------------------------------


def _broken(tmp_path: Path) -> dict[str, Any]:
    """Sources whose rows cannot be read."""
    (tmp_path / "log.csv").write_text('u,"i\n",v\na\n"' + "x" * 100)
    (tmp_path / "log.jsonl").write_text("no json\n")
    never = duckdb.connect().sql("SELECT n AS u, CAST('x' || n AS INT) AS i FROM range(5) AS t(n)")
    lazy = pl.LazyFrame({"u": ["a"], "i": ["x"]}).with_columns(pl.col("u").cast(pl.Int64))
    return {
        "csv": tmp_path / "log.csv",
        "jsonl": tmp_path / "log.jsonl",
        "duckdb": never,
        "lazy": lazy,
    }


@pytest.mark.parametrize("kind", ["csv", "jsonl", "duckdb", "lazy"])
def test_columns_are_required_without_a_row(kind: str, tmp_path: Path) -> None:
    """Rows that cannot be read are not looked at; a release reads them."""
    source, item = _broken(tmp_path)[kind], "i\n" if kind == "csv" else "i"
    require_columns(source, Reading(user="u", item=item))
    with pytest.raises(EventLogError):
        events.read(source, user="u", item=item)


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("csv", {"item": "none"}, "its columns are"),
    ("packed", {"item": "none"}, "its columns are"),
    ("several", {"where": "none = 1"}, "where='none' is not a column"),
    ("csv", {"format": "orc"}, "format='orc'"),
    ("csv", {"table": "log"}, "Leave it out"),
    ("json", {"header": True}, "Leave it out"),
    ("json", {"item": 2}, "is a position"),
    ("parquet", {"item": "none"}, "its columns are"),
    ("parquet", {"time": "s", "since": INSIDE, "item": "v.a"}, "no field 'a' within"),
    ("partitions", {"user": "none"}, "its columns are"),
    ("pandas", {"encoding": "utf-8"}, "Leave it out"),
    ("pandas", {"item": "none"}, "its columns are"),
    ("polars", {"item": "none"}, "its columns are"),
    ("relation", {"item": "none"}, "its columns are"),
    ("arrow", {"item": "none"}, "its columns are"),
    ("excel", {"item": "none"}, "its columns are"),
    ("sqlite", {"item": "none", "table": "log"}, "its columns are"),
    ("sqlite", {"table": None}, "needs table= or query="),
    ("sqlite", {"table": "none"}, "cannot be read from the database"),
]


@pytest.mark.parametrize(("kind", "said", "words"), FAULTS)
def test_public_errors_do_not_depend_on_rows(
    kind: str, said: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """In the words of a release, and for whoever is in the log."""
    asked: dict[str, Any] = {"user": "u", "item": "i", **SAID.get(kind, {}), **said}
    heard = set()
    for rows in (OTHERS, OTHERS[:1]):
        for ask in (require_columns, events.read):
            source = getattr(Sources(tmp_path, NAMES), kind)(rows)
            with pytest.raises(EventLogError, match=words) as caught:
                ask(source, Reading(**asked))
            heard.add(str(caught.value))
    assert len(heard) == 1


@pytest.mark.parametrize("role", ["user", "item", "group", "time"])
def test_all_null_fraction_column_is_read_as_missing(role: str, tmp_path: Path) -> None:
    """A writer that takes the type of a column from its rows takes nulls for fractions; one
    fraction refuses the whole column, whatever is selected, and a dry run looks at neither.
    """
    asked: dict[str, Any] = {"user": "u", "item": "i", "where": "i = nowhere", role: "c"}
    asked |= (
        {"max_groups_per_user": 1}
        if role == "group"
        else {"since": INSIDE}
        if role == "time"
        else {}
    )
    for column in ([float("nan"), None], [1.5, None]):
        table = pa.table({"u": ["a", "b"], "i": ["x", "y"], "c": pa.array(column, pa.float64())})
        pq.write_table(table, tmp_path / "log.parquet")
        for source in (
            table,
            tmp_path / "log.parquet",
            table.to_pandas(),
            pl.from_arrow(table).lazy(),
        ):
            require_columns(source, Reading(**asked))
            if column[0] == 1.5:
                with pytest.raises(EventLogError, match=r"holds (something|values) that"):
                    events.read(source, Reading(**asked))
            else:
                assert events.read(source, Reading(**asked)).report.rows_left_out in (0, 2)


@pytest.mark.parametrize(
    ("values", "asked", "words"),
    [
        ([True], {"item": "c"}, "of type BOOLEAN"),
        ([True], {"value": "c", "value_clip": 1.0}, "of type BOOLEAN"),
        ([5], {"time": "c", "since": INSIDE}, "time_unit="),
    ],
)
def test_types_are_held_against_roles_without_a_row(
    values: Any, asked: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """Declared types that do not fit are public."""
    table = pa.table({"u": ["a"], "i": ["x"], "c": values})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (tmp_path / "log.parquet", table, pl.from_arrow(table), table.to_pandas()):
        with pytest.raises(EventLogError, match=words):
            require_columns(source, Reading(**{"user": "u", "item": "i", **asked}))


@pytest.mark.parametrize(
    ("damage", "rows"),
    [
        (lambda whole: whole[:-20], 1_000),
        (lambda whole: whole[:-20], 200_000),
        (lambda whole: whole[:-8], 1_000),
        (lambda whole: whole + b"x", 1_000),
    ],
)
def test_dry_run_ignores_damage_below_the_header(
    tmp_path: Path, damage: Callable[[bytes], bytes], rows: int
) -> None:
    """A packed file that is damaged below its header has its columns, whatever its length; a
    release refuses it.
    """
    text = "u,i\n" + "".join(f"{row * 7919 % 10007},{row * 104729 % 1009}\n" for row in range(rows))
    path = tmp_path / "log.csv.gz"
    for above, comment in (("", None), ("# u\n\n", "#")):
        path.write_bytes(damage(gzip.compress((above + text).encode())))
        require_columns(str(path), Reading(user="u", item="i", comment=comment))
        with pytest.raises(EventLogError, match="its columns are 'u', 'i'"):
            require_columns(str(path), Reading(user="u", item="x", comment=comment))
        refused(str(path), "not a whole gzip", comment=comment)


@pytest.mark.parametrize("encoding", [None, "utf-8", "ascii", "cp1252", "utf-16"])
@pytest.mark.parametrize("header", ["u;i", 'u;i;"a,"', 'u;i;"5"" x, ""y"'])
@pytest.mark.parametrize("comment", [None, "#"])
def test_dry_run_depends_on_no_row_below_the_header(
    tmp_path: Path, encoding: str | None, header: str, comment: str | None
) -> None:
    """Rows that are malformed, or of another encoding than stated, do not refuse it, whichever
    delimiter would let the header go on below its line; a header that is malformed does.
    """
    path, reading = (
        tmp_path / "log.csv",
        Reading(user="u", item="i", encoding=encoding, comment=comment),
    )
    codec = encoding or "utf-8"
    above = f"{header}\n".encode(codec)
    for rows in ("", 'a;b;"c\n', "a\n\nfoot\n", '#"\n', 'x;y;"\n\nfoot"\n'):
        path.write_bytes(above + f"{rows}".encode(codec.replace("16", "16-le")))
        require_columns(str(path), reading)
        path.write_bytes(above + b"\x00\xd8\x81\xff" + rows.encode(codec.replace("16", "16-le")))
        require_columns(str(path), reading)
    path.write_bytes("u;i;".encode(codec) + b"\x00\xd8\x81\xff" + "\n".encode(codec)[-2:])
    with pytest.raises(EventLogError, match=f"is not valid {encoding or 'UTF-8'}"):
        require_columns(str(path), reading)


def test_a_fraction_that_is_not_read_is_refused_by_its_type() -> None:
    """A column of long doubles is refused whether it holds anything or not: its type is stated, and
    no row decides it.
    """
    for held in (np.nan, 1.0):
        table = pd.DataFrame({"u": ["a", "b"], "i": np.full(2, held, dtype=np.longdouble)})
        refused(table, "cannot be read")
