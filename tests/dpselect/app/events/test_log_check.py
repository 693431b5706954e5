"""The check of a log says how it is read and what is doubtful, in exact and private figures; it
releases and writes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dpselect import events
from dpselect.app.events.log_check import LogCheck, check
from dpselect.app.events.reading import Reading
from dpselect.app.spec import CheckSpec
from dpselect.errors import EventLogError

COLUMNS: dict[str, Any] = {"user": "u", "item": "i"}


def checked(
    rows: list[tuple[Any, ...]], catalog: list[Any] | None = None, **options: Any
) -> LogCheck:
    table = pa.table(
        {name: [row[at] for row in rows] for at, name in enumerate("uit"[: len(rows[0])])}
    )
    return check(table, Reading(**COLUMNS, **options), catalog)


def test_figures_are_those_of_the_log() -> None:
    """Rows, users, items, what is missing, what a window leaves out, how items spread over users,
    and who has most.
    """
    rows: list[Any] = [
        (f"u{user}", f"i{item}", "2024-01-05") for user in range(10) for item in range(user + 1)
    ]
    rows += [(None, "i1", "2024-01-05"), ("u1", None, "2024-01-05"), ("late", "i1", "2025-01-05")]
    found = checked(rows, time="t", since="2024-01-01", until="2024-02-01")
    assert (found.rows, found.users, found.items, found.outside, found.groups) == (
        57,
        10,
        10,
        1,
        None,
    )
    assert found.without == {"user": 1, "item": 1, "time": 0}
    assert found.items_per_user == {"0.5": 5, "0.9": 9, "0.99": 10, "1": 10}
    assert found.heaviest[:2] == [("u9", 10), ("u8", 9)]
    assert (found.nulls, found.alike, found.catalog, found.doubts) == ([], [], None, [])


def test_the_days_of_a_log_are_those_of_the_clock(tmp_path: Path) -> None:
    """The command asks for no range; instants are told by the clock of the zone; a log without a
    time has no day.
    """
    path = tmp_path / "log.csv"
    path.write_text("u,i,t\na,x,2024-03-01T23:30:00Z\nb,x,2024-05-01\nc,x,\n")
    for zone, first in (("UTC", "2024-03-01"), ("Europe/Berlin", "2024-03-02")):
        spec = CheckSpec(user="u", item="i", time="t", time_zone=zone)
        assert check(path, spec.reading()).days == (first, "2024-05-01")
    assert check(path, CheckSpec(user="u", item="i").reading()).days is None
    found = check(path, CheckSpec(user="u", item="i", time="t", time_format="%d.%m.%Y").reading())
    assert found.days is None
    assert "time_format='%d.%m.%Y'; without it those that fit are named" in found.doubts[1]
    path.write_text("u,i,t\nann,zoo,01.05.2024\nbob,zoo,2024-05-02\ncy,zoo,\ndan,zoo,2024-05-02\n")
    found = check(path, CheckSpec(user="u", item="i", time="t", time_format="%d.%m.%Y").reading())
    assert found.days == ("2024-05-01", "2024-05-01")
    assert (
        "2 events have a time that time_format='%d.%m.%Y' cannot read, such as '2024-05-02'"
        in found.doubts[-1]
    )


def test_labels_that_are_written_in_several_ways_are_named() -> None:
    """By letter case, Unicode form or spaces; by zeros in front; by ".0": with the remedy of
    each.
    """
    rows = [
        ("ann", "Café"),
        ("Ann ", "cafe\u0301"),
        ("bob", "007"),
        ("cy", "7"),
        ("dan", "8.0"),
        ("eve", "8"),
        ("eve", "x"),
    ]
    found = checked(rows)
    assert [(one.role, one.labels, one.examples) for one in found.alike] == [
        ("user", 2, [["Ann ", "ann"]]),
        ("item", 2, [["Café", "cafe\u0301"]]),
        ("item", 2, [["007", "7"]]),
        ("item", 2, [["8", "8.0"]]),
    ]
    assert sum("normalize=" in line for line in found.doubts) == 2
    assert sum("Int64" in line for line in found.doubts) == 1


@pytest.mark.parametrize("label", ["NULL", "\\N", "N/A", " nan ", "", "(null)"])
def test_labels_that_look_like_a_missing_value_are_named(label: str) -> None:
    """With how many pairs have them, unless they were said to be missing."""
    found = checked([("a", label), ("b", label), ("c", "x")])
    assert found.nulls == [("item", label, 2)]
    assert any(f"missing='{label}'" in line for line in found.doubts)
    for said in ("missing", "null"):
        assert checked([("a", label), ("c", "x")], **{said: label}).nulls == []


def test_check_counts_catalog_items_in_the_log() -> None:
    """How many of its items occur, and how many would if they were written otherwise."""
    rows = [("a", "007"), ("b", "Zoo"), ("c", "9.0"), ("d", "pier"), ("e", "pier"), ("f", "008")]
    found = checked(rows, ["7", "8", "zoo", "9", "pier", "moon"]).catalog
    assert found is not None
    assert (found.listed, found.occurring, found.users) == (6, 1, 2)
    assert list(found.otherwise.values()) == [1, 2, 1]
    integers = check(pa.table({"u": [1, 2], "i": [7, 8]}), Reading(**COLUMNS), [7, "8", 9]).catalog
    assert integers is not None
    assert integers.occurring == 2


EARLY, LATE = "2024-01-01", "2030-01-01"


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([("a", "x|y"), ("b", "y|z"), ("b", "x")], {}, "split='|'"),
        ([(str(number), "x") for number in range(9)], {}, "of users, and not of events"),
        (
            [("a", "x", LATE), ("a", "y", EARLY), ("b", "y", LATE)],
            {"time": "t"},
            "left out by since=",
        ),
        ([("a", "x", LATE)], {"time": "t"}, "of those that the window and the conditions leave"),
        (
            [("a", "x", "kept"), ("b", "y", "no"), ("c", "z", "no")],
            {"where": "t = kept"},
            "2 of 3 events are left out by where=: is that meant?",
        ),
        ([("a", None), ("b", None), ("b", "x")], {}, "have no item"),
        ([("1.23457E+15", "x"), ("1.23457E+15", "y"), ("7", "x")], {}, "a spreadsheet has short"),
        (
            [("bot", str(item)) for item in range(99)] + [(f"u{n}", "1") for n in range(200)],
            {},
            "a robot",
        ),
    ],
)
def test_check_warns_about_suspicious_logs(
    rows: list[Any], options: dict[str, Any], words: str
) -> None:
    """Lists in one field, ids of events as users, windows or conditions that leave most out, named
    alone, users who have nearly all, ids that lost their digits.
    """
    window = {"until": "2025-01-01"} if "time" in options else {}
    assert any(words in line for line in checked(rows, **window, **options).doubts)


@pytest.mark.parametrize(
    ("column", "options", "rule"),
    [
        ("t", {"time": "t", "since": "2024-01-01"}, "not a time"),
        ("v", {"value": "v", "value_clip": 1.0}, "not a finite number"),
        ("v", {"value": "v", "value_clip": 1.0, "null": "soon", "where": "i = x"}, "number"),
    ],
)
def test_check_shows_the_value_a_release_would_hide(
    column: str, options: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    """The check says which value and where, of the file as it is; a release does not: its refusal
    is one for any such log.
    """
    good = {"u": "a", "i": "p|q", "t": "2024-01-05", "v": "1"}
    refusals, log = set(), tmp_path / "log.csv"
    for bad in (1, 4):
        pd.DataFrame([good, *[{**good, column: "soon"}] * bad, good]).to_csv(log, index=False)
        with pytest.raises(EventLogError, match=rule) as caught:
            check(log, Reading(**COLUMNS, split="|", **options))
        assert "'soon' in event 2" in str(caught.value)
        assert f"These are {bad} of its events" in str(caught.value)
        with pytest.raises(EventLogError, match=rule) as caught:
            events.read(log, Reading(**COLUMNS, split="|", **options))
        refusals.add(str(caught.value))
    (said,) = refusals
    assert not any(word in said for word in ("soon", "event 2"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "u,i\n"),
        ("log.csv", "u,i\na,\n,x\n"),
        ("log.jsonl", ""),
        ("log.jsonl", '{"a": 1}\n'),
    ],
)
def test_check_warns_about_a_log_without_events(name: str, text: str, tmp_path: Path) -> None:
    """What a release does not refuse, since it would tell: no row has both a user and an item."""
    (tmp_path / name).write_text(text)
    found = check(tmp_path / name, Reading(**COLUMNS), ["x"])
    assert (found.users, found.items) == (0, 0)
    assert any("no row has both a user and an item" in line for line in found.doubts)
