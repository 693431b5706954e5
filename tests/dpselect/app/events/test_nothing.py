"""Nobody, one user and many users are read, scored and released alike, whatever the asker's words
select: nothing is refused.

What refuses a log is what is public, and whether the source can be read as a whole as it is.
`require_columns` says the former without reading a row.
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
from event_oracle import KINDS, SAID, SECRET, Sources, refused
from spread import spread

import dpselect as dps
from dpselect import events
from dpselect.app.events.pairs import require_columns
from dpselect.app.events.reading import Reading
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

NAMES = ["u", "i", "g", "v", "t", "s"]
INSIDE, OUTSIDE = "2024-06-01", "2024-05-01"
OTHERS = [(f"u{n}", f"i{n % 7}", f"g{n % 3}", str(n % 9), OUTSIDE, None) for n in range(30)]
# Users of whom the others are none: what each of them adds.
WHO: dict[str, list[tuple[str | None, ...]]] = {
    "nobody": [],
    "one user": [("eve", "x", "mine", "3", INSIDE, "1")],
    "one user of many items": [("eve", f"x{n}", "mine", "3", INSIDE, str(n)) for n in range(40)],
    "a negative value": [("eve", "x", "mine", "-7", INSIDE, "-7")],
    "a huge value": [("eve", "x", "mine", "1e300", INSIDE, "1")],
    "ten users": [(f"v{n}", f"x{n}", "mine", "1", INSIDE, str(n)) for n in range(10)],
}
_GROUPS = {"group": "g", "max_groups_per_user": 2}
LOOKS: dict[str, dict[str, Any]] = {
    "a window": {"time": "t", "since": INSIDE},
    "a condition": {"where": "g = mine"},
    "a condition on numbers": {"where": ["g = mine", "s > -100"]},
    "labels left out": {"null": [f"i{n}" for n in range(7)]},
    "labels left out and split": {
        "null": [f"i{n}" for n in range(7)],
        "split": "|",
        "normalize": "casefold",
    },
    "a sparse item": {"item": "s"},
    "a sparse part of an item": {"item": ["i", "s"]},
    "a sparse value": {"value": "s", "value_clip": 5.0},
    "sums in a window": {"value": "v", "value_clip": 5.0, "time": "t", "since": INSIDE},
    "groups in a window": {**_GROUPS, "time": "t", "since": INSIDE},
    "a sparse group": {**_GROUPS, "group": "s"},
    "a public list": {"within": ["x", "x1", "none"], "where": "g = mine"},
    "public groups": {**_GROUPS, "groups": ["mine", "none"], "where": "g = mine"},
}
FEW = dps.Sensitivity.of_counts(items_per_user=2)
_FOUND = dps.SparseHistogram(
    scale=5.0, delta=1e-6, sensitivity=dps.Sensitivity.of_clipped(1.0, "l2", items_per_user=2)
)


def _released(scores: Any, look: dict[str, Any], *, held: bool = False) -> str:
    """What kind of selection comes of these scores; that each mechanism hides nobody is a law."""
    made: Any = dps.SparseHistogram(k=3, scale=5.0, delta=1e-6, sensitivity=FEW)
    if "value" in look:
        sums = dps.Sensitivity.of_sums(0.0, 5.0, "add_remove", 2)
        made = made.model_copy(update={"sensitivity": sums})
    if "within" in look:
        made = dps.OneshotTopK(k=2, noise="gumbel", scale=2.0, sensitivity=FEW)
    if "group" in look and not held:
        found = _FOUND if "groups" not in look else None
        made = dps.PerGroup(mechanism=made, max_groups_per_user=2, discovery=found)
    return type(made.select(scores)).__name__


def _outcome(source: Callable[[], Any], look: dict[str, Any]) -> tuple[Any, set[str]]:
    """The kinds of what is read, scored and released; and the items."""
    asked: dict[str, Any] = {"user": "u", "item": "i", "max_items_per_user": 2, **look}
    log = source()
    require_columns(log, Reading(**asked))  # refuses nothing, and takes nothing from a stream
    found = events.read(log, **asked)
    kinds = [type(found).__name__, type(found.scores()).__name__, _released(found.scores(), look)]
    items = {str(label) for label in (found.items if "group" in look else found.labels)}
    if "group" not in look:
        with events.hold(source(), **asked) as held:
            kinds += [type(held.scores()).__name__, _released(held.scores(), look)]
    return kinds, items


# Kinds that are alike follow each other, so that each look meets every family of sources.
MET = [
    (kind, look)
    for at, kind in enumerate(KINDS)
    for turn, look in enumerate(LOOKS)
    if (at + turn) % 3 == 0
]


@pytest.mark.parametrize(("kind", "look"), spread(MET, 10))
def test_empty_log_is_read_like_any_other_log(kind: str, look: str, tmp_path: Path) -> None:
    """Through every source and to the release; of items nobody's but those of whoever is meant are
    there. Nobody and one user are in every log, the others in turn, so that each of them meets each
    source and each look. A header and no event, an empty Parquet or frame is a log like any other.
    """
    outcomes, said = {}, {**LOOKS[look], **SAID.get(kind, {})}
    nobody, one, *others = WHO
    turn = ([*KINDS].index(kind) + [*LOOKS].index(look)) % len(others)
    logs = {who: [*OTHERS[:15], *WHO[who], *OTHERS[15:]] for who in (nobody, one, others[turn])}
    for who, rows in {**logs, "no row": []}.items():

        def source(rows: Any = rows) -> Any:
            return getattr(Sources(tmp_path, NAMES), kind)(rows)

        outcomes[who], items = _outcome(source, said)
        if who in ("nobody", "no row") and "within" not in said:
            assert items == set()
        assert not items & {f"i{n}" for n in range(7)}
    assert len({str(outcome) for outcome in outcomes.values()}) == 1, outcomes


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


ROLES = ["user", "item", "group", "value", "time", "where"]


@pytest.mark.parametrize(
    ("role", "rows"), [*((role, 3) for role in ROLES), ("item", 0), ("time", 0)]
)
def test_null_column_suits_any_role(role: str, rows: int, tmp_path: Path) -> None:
    """A column of nulls is one for any role, whatever type pandas, Arrow or a program took from its
    rows.
    """
    asked: dict[str, Any] = {"user": "u", "item": "i", **_GROUPS, **LOOKS["sums in a window"]}
    held: dict[str, Any] = {name: pd.Series(["1"] * rows, dtype=object) for name in "uigv"}
    held["t"] = pd.Series([INSIDE] * rows, dtype=object)
    typed = pa.table({name: pa.array(one, pa.string()) for name, one in held.items()})
    tables = [typed.append_column("n", pa.nulls(rows))]
    if role not in ("value", "time"):  # no list is a number
        tables.append(typed.append_column("n", pa.array([[]] * rows, pa.list_(pa.null()))))
    nothing = np.full(rows, np.nan)
    sources: list[Any] = [
        *(pd.DataFrame({**held, "n": made}) for made in (nothing, nothing.astype("float32"))),
        pd.DataFrame({**held, "n": np.array([None] * rows, dtype=object)}),
        *tables,
        pl.from_arrow(tables[-1]).lazy(),
        duckdb.connect().from_arrow(tables[-1]),
    ]
    for at, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{at}.parquet")
        sources.append(tmp_path / f"{at}.parquet")
    role_is = {role: "n" if role != "where" else "n = 1"}
    for source in sources:
        assert events.read(source, **{**asked, **role_is}).items == ()


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


@pytest.mark.parametrize("column", ["v", "t"])
@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "objects", "sqlite"])
def test_a_malformed_value_refuses_whatever_is_selected(
    kind: str, column: str, tmp_path: Path
) -> None:
    """Judged over the whole column as the source has it, and in one sentence: not where it stands,
    nor how many there are.
    """
    odd = {
        "v": ("eve", "x", "g0", SECRET, OUTSIDE, None),
        "t": ("eve", "x", "g0", "1", SECRET, None),
    }[column]
    asked: dict[str, Any] = {
        "v": {"value": "v", "value_clip": 1.0},
        "t": {"time": "t", "since": INSIDE},
    }[column]
    words: list[dict[str, Any]] = [
        {},
        {"null": SECRET},
        {"where": "g = none"},
        {"split": "|"},
    ]
    said = set()
    for number in (1, 5):
        log = getattr(Sources(tmp_path, NAMES), kind)([*OTHERS[:number], *[odd] * number])
        for more in words:
            with pytest.raises(EventLogError) as caught:
                events.read(
                    log, **{"user": "u", "item": "i", **asked, **more, **SAID.get(kind, {})}
                )
            said.add(str(caught.value))
        assert events.read(
            log, **{"user": "u", "item": "i", **asked, "missing": SECRET, **SAID.get(kind, {})}
        )
    assert len(said) == 1
    assert SECRET not in said.pop()


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


def test_a_public_list_is_of_any_type() -> None:
    """Rows may have told that items are integers: a list that has others is no refusal, in memory,
    held, or as a range.
    """
    for items in ([7, 7, 8], ["7", "7", "zoo"]):
        frame = pd.DataFrame({"u": range(3), "i": items})
        with events.hold(frame, user="u", item="i") as held:
            for names in (["7", "zoo"], [7, "x"]):
                assert events.read(frame, user="u", item="i", within=names).counts.tolist()[0] == 2
                assert held.scores(names)._highest(1)[1].tolist() == [2]
            one = dps.OneshotTopK(k=1, noise="gumbel", scale=1e-3)
            assert one.select(held.scores(range(5, 9))).labels == (7,)


@pytest.mark.parametrize("who", WHO)
def test_unsuitable_group_mechanism_is_refused_for_any_log(who: str) -> None:
    """What a group's scores are is public; whether there is a group that has some is not."""
    frame = pd.DataFrame([*OTHERS, *WHO[who]], columns=NAMES).astype("string")
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
