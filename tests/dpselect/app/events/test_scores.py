"""From counts to scores: domain, order, labels, sensitivity; and what must not be shown."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpselect as dps
from dpselect import events
from dpselect.app.events.engine import Engine
from dpselect.app.events.log_check import check
from dpselect.app.spec.topk_spec import TopKSpec
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

TEXT = pa.table({"u": ["x", "y", "y", "z"], "i": ["b", "b", "a", "007"]})
NUMBERS = pa.table({"u": [1, 2, 2, 3], "i": [20, 20, 3, 100]})


def read(table: pa.Table, **options: Any) -> events.EventCounts:
    """Counts of a table with columns u and i."""
    return events.read(table, user="u", item="i", **options)


@pytest.mark.parametrize(
    ("table", "catalog", "counts"),
    [
        (TEXT, ["zz", "b", "7"], [0, 2, 0]),
        (TEXT, [7, "007"], [0, 1]),  # the integer is the text "7"
        (NUMBERS, np.array([20, 3, 5]), [2, 1, 0]),
        (NUMBERS, ["20", 3, np.int32(5)], [2, 1, 0]),
        # rows may have told the type: what is no integer there is no refusal
        (NUMBERS, ("020", "x", 3, 10**50), [0, 0, 1, 0]),
        (pa.table({"u": [1, 2], "i": ["7", "zoo"]}), range(5, 9), [0, 0, 1, 0]),
    ],
)
def test_a_catalog_is_public(table: pa.Table, catalog: list[object], counts: list[int]) -> None:
    """It keeps its order and its labels, matched as the log's type, counts what nobody touched as
    0, and leaves out the rest, in memory and held. Without one, items read off the log are in order
    of their labels and observed.
    """
    scores = read(table).scores(catalog)
    assert (scores.domain, scores.labels) == ("public", tuple(catalog))
    assert scores.values.tolist() == counts
    with events.hold(table, user="u", item="i") as held:
        assert held.scores(catalog)._highest(1)[1].tolist() == [max(counts)]
    scores = read(NUMBERS).scores()
    assert (scores.domain, scores.labels) == ("observed", (3, 20, 100))
    assert scores.values.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        ([], "empty"),
        (["20", 20], "more than once"),
        *((labels, "int or str") for labels in ([1.5], [True], [None])),
        *((one, "list of labels") for one in (5, np.array(5))),
        ("items.csv", "text, not labels.*read_catalog"),
    ],
)
def test_a_senseless_list_is_refused(catalog: Any, words: str) -> None:
    """A catalog, or what a reading looks at, that is empty, repeats an item or holds what is no
    label.
    """
    with pytest.raises(EventLogError, match=words):
        read(NUMBERS).scores(catalog)
    with pytest.raises(EventLogError, match=words):
        read(NUMBERS, within=catalog)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_clips_sums_and_groups_declare_the_relation_that_is_asked_for(relation: Any) -> None:
    """Replaced users move counts, clipped or not, sums and the presence of groups twice: in memory,
    held, and in groups.
    """
    clipped = dps.Sensitivity.of_clipped(1.4, "l2", relation, 2)
    summed = dps.Sensitivity.of_sums(0.0, 3.0, relation, 2)
    counted = dps.Sensitivity.of_counts(relation, 2)
    assert read(TEXT).scores(["a"], relation=relation).sensitivity == dps.Sensitivity.of_counts(
        relation
    )
    sums = {"value": "v", "value_clip": 3.0}
    for stated, look, clip in (
        (counted, {}, None),
        (clipped, {"clip": 1.4}, 1.4),
        (summed, sums, None),
    ):
        asked: Any = {"max_items_per_user": 2, **look}
        log = TEXT.append_column("v", pa.array([1.0] * len(TEXT))).append_column(
            "g", pa.array(["x"] * len(TEXT))
        )
        assert read(log, **asked).scores(relation=relation, clip=clip).sensitivity == stated
        with events.hold(log, user="u", item="i", **asked) as held:
            assert held.scores(relation=relation, clip=clip).sensitivity == stated
        for most in (1, 3):
            grouped = events.read(
                log, user="u", item="i", group="g", max_groups_per_user=most, **asked
            )
            scores = grouped.scores(relation=relation, clip=clip)
            assert scores.by_group["x"].sensitivity == stated
            assert scores.max_groups_per_user == most
            assert scores.presence is not None
            assert scores.presence.sensitivity == dps.Sensitivity.of_clipped(
                1.0, "l2", relation, most
            )


GROUPS: dict[str, Any] = {
    "user": "i",
    "item": "u",
    "group": "g",
    "max_groups_per_user": 2,
    "salt": "s",
}
HOLDERS: dict[str, Callable[[pa.Table], Any]] = {
    "counts": lambda log: events.read(
        log, user="u", item="i", max_items_per_user=2, salt="s", clip=1.0
    ),
    "report": lambda log: events.read(log, user="u", item="i").report,
    "groups": lambda log: events.read(log, **GROUPS),
    "scores of groups": lambda log: events.read(log, **GROUPS).scores(),
    "pairs": lambda log: events.pairs(log, user="u", item="i"),
    "held": lambda log: events.hold(log, user="u", item="i", max_items_per_user=2, salt="s"),
    "check": lambda log: check(log, events.Reading(user="u", item="i")),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_private_objects_hide_data_in_repr_and_pickle(kind: str) -> None:
    """Neither repr nor str of what holds private data depends on the data, and none of it is
    pickled.
    """
    one, two = (
        HOLDERS[kind](log.append_column("g", log["u"]).append_column("v", pa.array([number] * 4)))
        for log, number in ((TEXT, 1), (NUMBERS, 2))
    )
    assert repr(one) == repr(two)
    assert str(one) == f"{two}"
    if kind != "scores of groups":
        with pytest.raises(TypeError, match="private"):
            pickle.dumps(one)
    for each in (one, two):
        getattr(each, "close", lambda: None)()


def test_counts_are_immutable() -> None:
    """What was read cannot be changed afterwards."""
    found = read(TEXT)
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0] = 5
    with pytest.raises(AttributeError):
        found.allowed = None  # type: ignore[misc, assignment]
    # CPython's answer for a property of a frozen class with slots is the latter
    with pytest.raises((AttributeError, TypeError)):
        found.salt = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "data", "column", "labels"),
    [
        ("items.csv", "a\nb\nc\n", None, ["a", "b", "c"]),
        ("items.csv", "place\n1\n-2\n", None, ["1", "-2"]),
        ("items.csv", "Item_ID\na\nb\n", None, ["a", "b"]),
        ("items.csv", "7\n1\n2\n", None, ["7", "1", "2"]),
        ("items.csv", "id,place\n1,a\n2,b\n3,\n", None, ["a", "b"]),
        ("items.csv", "item\na\n007\n7\n\n", None, ["a", "007", "7"]),
        ("items.csv", '\ufeffid,name\r\n1,"a,b"\r\n2,c\r\n', "name", ["a,b", "c"]),
        ("items.tsv", 'id\tname\n1\t"a\n', "name", ['"a']),
        ("items.txt", "a,b\n\n c\r\nd\u2028e\n", None, ["a,b", " c", "d\u2028e"]),
        ("items", "a", None, ["a"]),
    ],
)
def test_read_catalog(
    tmp_path: Path, name: str, data: str, column: str | None, labels: list[str]
) -> None:
    """A catalog is a column of a file with a header, or one label per line; labels stay text in
    the file's order. No item is lost as a header, and no header that can be known is taken for an
    item.
    """
    path = tmp_path / name
    path.write_bytes(data.encode())
    assert events.read_catalog(path, column, item="place") == labels


@pytest.mark.parametrize("data", [b"ORC\n\xff\xfe", b"ORC\n\0a"])
def test_a_catalog_in_a_format_that_is_not_read_is_refused_by_its_name(
    tmp_path: Path, data: bytes
) -> None:
    """No label is made up from its bytes, and no other encoding is the remedy."""
    path = tmp_path / "items.orc"
    path.write_bytes(data)
    with pytest.raises(EventLogError, match=r"no format that is read has names in '\.orc'"):
        events.read_catalog(path)


@pytest.mark.parametrize("name", ["items", "items.txt"])
def test_a_list_that_is_not_utf8_is_told_to_state_its_encoding(tmp_path: Path, name: str) -> None:
    """A name without an ending is that of a list too."""
    (tmp_path / name).write_bytes("café".encode("cp1252"))
    with pytest.raises(EventLogError, match=r"is not valid UTF-8\. State its encoding="):
        events.read_catalog(tmp_path / name)
    assert events.read_catalog(tmp_path / name, encoding="cp1252") == ["café"]


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_catalog_table_is_read_by_its_label_column(kind: Any) -> None:
    """It is read like a file, and never taken for a list of the names of its columns."""
    table = kind({"item": ["zoo", "pier"], "town": ["a", "b"]})
    log = pa.table({"who": [1, 2, 2], "item": ["zoo", "zoo", "pier"]})
    answer = dps.topk(log, user="who", item="item", k=2, epsilon=1e5, domain=table)
    assert answer.items == ("zoo", "pier")
    spec = TopKSpec(user="who", item="item", k=1, epsilon=1.0, domain=table, domain_column="town")
    assert spec.catalog() == ("a", "b")
    with pytest.raises(EventLogError, match="Pass a list of labels"):
        events.read(log, user="who", item="item").scores(table)


@pytest.mark.slow
def test_a_catalog_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only column, the one that is named, or that of the items; text and integers in the file's
    order, and nothing else.
    """
    path, one = tmp_path / "places.parquet", tmp_path / "one.pq"
    places = {"no": [3, -1, 2], "item": ["b", "a,c", "é"], "cost": [0.5, 1.0, 2.0]}
    pq.write_table(pa.table(places), path)
    pq.write_table(
        pa.table({"whatever": pa.array(range(300_000, 0, -1))}), one, row_group_size=5000
    )
    assert events.read_catalog(path, item=["item", "no"]) == ["b,3", '"a,c",-1', "é,2"]
    ordered, run = [], Engine.run

    def noting(engine: Engine, sql: str, *values: Any, **named: Any) -> Any:
        """Run the statement, and note whether the engine then keeps the order of rows: without it
        most runs do by chance.
        """
        answer = run(engine, sql, *values, **named)
        ordered.append(
            run(engine, "SELECT current_setting('preserve_insertion_order')", title="the test")[0][
                0
            ]
        )
        return answer

    monkeypatch.setattr(Engine, "run", noting)
    same = events.read_catalog(one) == [str(number) for number in range(300_000, 0, -1)]
    assert same, "another order"  # the lists beside each other would take pytest minutes to compare
    assert ordered[-1]
    monkeypatch.undo()
    for column, words in (("cost", "neither text"), (None, "say which holds")):
        with pytest.raises(EventLogError, match=words):
            events.read_catalog(path, column)


@pytest.mark.parametrize(
    ("name", "data", "column", "words"),
    [
        ("items.csv", "item\na\nb\na\n", None, "'a' more than once"),
        ("items.txt", "a\na\n", None, "'a' more than once"),
        ("items.csv", "id,name\n1,a\n", None, "'id', 'name'"),
        ("items.csv", "id,name\n1\n", "id", "near line 2"),
        ("items.csv", "id,name\n1,\n", "name", "at least one"),
        ("items.csv", "item\n", None, "at least one"),
        ("items.csv", "", None, "empty"),
        ("items.txt", b"\xe9\n", None, "UTF-8"),
        ("items.txt", "a\n", "item", "header"),
    ],
)
def test_a_bad_catalog_file_is_refused(
    tmp_path: Path, name: str, data: str | bytes, column: str | None, words: str
) -> None:
    """A catalog that cannot be read in one way only is refused, and the error says why."""
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(EventLogError, match=words):
        events.read_catalog(path, column)
