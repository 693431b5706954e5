"""`Reading`: every option of a reading is one field, checked once, and nothing is ignored."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpselect import events
from dpselect.errors import EventLogError
from dpselect.events import Reading, engine, staging
from dpselect.events.doors import formats
from dpselect.events.pairs import Options
from dpselect.events.private import ReadReport

PLACES = {"user", "item", "group", "groups", "max_groups_per_user"}  # what decides which class `read` returns, beside `Options`


def test_every_field_is_a_keyword_and_every_keyword_a_field() -> None:
    """A field that the keywords lack could not be asked for; the other way round it would be ignored."""
    assert set(Reading.model_fields) == PLACES | set(Options.__annotations__)


@pytest.mark.parametrize("door", [events.read, events.hold, events.read_values])
def test_an_unknown_keyword_is_refused(door: Any) -> None:
    """A bound that was misspelt would be no bound."""
    with pytest.raises(EventLogError, match="no field 'max_item_per_user': its fields are user, item"):
        door("log.csv", user="u", item="i", max_item_per_user=1)
    with pytest.raises(EventLogError, match="clip= is a field of the reading"):
        door("log.csv", Reading(user="u", item="i"), clip=1.0)


def test_a_reading_does_what_its_fields_do_as_keywords(tmp_path: Path) -> None:
    """Counts, bounds and salt are the same, and lists become tuples, so that it can be compared and hashed."""
    path = tmp_path / "log.csv"
    path.write_text("u,i,g\n" + "".join(f"{n % 7},{n % 11},{n % 3}\n" for n in range(200)))
    asked: dict[str, Any] = {"user": "u", "item": ["i", "g"], "max_items_per_user": 3, "salt": "s", "clip": [1.0, 2.0]}
    one, other = events.read(path, Reading(**asked)), events.read(path, **asked)
    assert one.labels == other.labels
    assert np.array_equal(one.clipped, other.clipped)
    assert len({Reading(**asked), Reading(**asked | {"clip": (1.0, 2.0)}), Reading(**asked | {"within": ["a", "b"]})}) == 2


def test_what_is_looked_at_is_not_in_the_repr() -> None:
    """A list of a million labels is not a line of a log."""
    assert "zoo" not in repr(Reading(user="u", item="i", within=["zoo"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"item": None, "clip": 1.0}, "clip= is about items"),
        ({"item": None, "time": "t", "since": "2024-01-01"}, "time= is about items"),
        ({"group": "g"}, "needs max_groups_per_user"),
        ({"groups": ["x"]}, "about the column group="),
        ({"within": []}, "is empty"),
        ({"within": "zoo"}, "is text, not labels"),
        ({"header": "yes"}, "header='yes'"),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_made(options: dict[str, Any], words: str) -> None:
    """Before any log is opened."""
    with pytest.raises(EventLogError, match=words):
        Reading(**{"user": "u", "item": "i", **options})


def test_each_door_says_which_reading_it_needs() -> None:
    """With an item for counts, without one for a number per user."""
    with pytest.raises(EventLogError, match="item= is missing"):
        events.read("log.csv", Reading(user="u"))
    with pytest.raises(EventLogError, match="item= is missing"):
        events.hold("log.csv", Reading(user="u"))
    with pytest.raises(EventLogError, match=r"is for events\.read"):
        events.read_values("log.csv", Reading(user="u", item="i"), rule="events")


def test_a_notebook_without_widgets_reads() -> None:
    """There the engine refuses to turn a progress bar off that it could not draw."""
    import duckdb

    from dpselect.events.engine import without_progress_bar

    asked: list[str] = []

    class Notebook:
        def execute(self, sql: str) -> None:
            asked.append(sql)
            raise duckdb.InvalidInputException("Could not change the progress bar setting because: ipywidgets is missing")

    without_progress_bar(Notebook())  # type: ignore[arg-type]
    assert asked == ["SET enable_progress_bar = false"]


# -- text that is written integers -----------------------------------------------------------------------------------------------

_WRITTEN = [str(number) for number in (*range(12), -3, 2**63 - 1, -(2**63), 10**17)]
_OTHER = ["007", "-0", "+7", " 7", "7 ", "7.0", "1e2", "1_0", str(2**63), "٣", "seven"]


def _read_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Any]) -> tuple[Any, Any]:
    """What is found with integers stored for text that writes them, and with the text itself."""
    found = ask()
    with monkeypatch.context() as patch:
        patch.setattr(staging, "_numerals", lambda *_: frozenset())
        return found, ask()


def _same(one: Any, other: Any) -> None:
    for name in ("labels", "counts", "clipped", "groups", "items", "spans", "present", "public", "integers"):
        if hasattr(one, name):
            assert np.array_equal(np.array(getattr(one, name), dtype=object), np.array(getattr(other, name), dtype=object)), name
    assert all(getattr(one.report, name) == getattr(other.report, name) for name in ReadReport.__annotations__)


def _csv_log(path: Path, items: list[str], *, last: tuple[str, str] | None = None) -> None:
    random_ = random.Random(5)
    rows = [(random_.choice(_WRITTEN), random_.choice(items), f"2026-01-0{1 + number % 4}") for number in range(1500)]
    rows += [("", "7", "2026-01-01"), ("5", "", "2026-01-02"), ("", "", "2026-01-02")]
    rows += [(*last, "2026-01-03")] if last else []
    path.write_text("u,i,t\n" + "".join(f'"{user}",{item},{day}\n' for user, item, day in rows), encoding="utf-8")


@pytest.mark.parametrize("last", [None, *((word, "7") for word in _OTHER), ("7", "007")])
def test_written_integers_are_counted_as_the_text_that_they_are(
    last: tuple[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.csv"
    _csv_log(path, _WRITTEN, last=last)
    looks: list[dict[str, Any]] = (
        [{}]
        if last
        else [
            {},
            {"clip": 1.0},
            {"max_items_per_user": 3, "salt": "s", "clip": [0.5, 2.0]},
            {"within": ["7", "007", 2, "10", "zoo", str(2**63), -3]},
            {"time": "t", "since": "2026-01-02", "until": "2026-01-03", "time_zone": "UTC"},
            {"group": "t", "max_groups_per_user": 2, "salt": "s"},
            {"group": "i", "item": "t", "max_groups_per_user": 3, "salt": "s", "clip": 1.0, "groups": ["10", "2", "x"]},
        ]
    )
    for look in looks:
        columns = {"user": "u", "item": "i", **look}
        found, expected = _read_both_ways(path, monkeypatch, lambda columns=columns: events.read(path, **columns))
        _same(found, expected)
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    pairs = {(row["u"], row["i"]) for row in rows if row["u"] and row["i"]}
    counts = events.read(path, user="u", item="i")
    assert counts.labels == tuple(sorted({item for _, item in pairs}))
    assert dict(zip(counts.labels, counts.counts.tolist(), strict=True)) == Counter(item for _, item in pairs)


def test_integers_are_stored_where_all_text_writes_them(tmp_path: Path) -> None:
    for items, last, stored in (
        (_WRITTEN, None, "BIGINT"),
        (_WRITTEN, ("7", "007"), "VARCHAR"),
        ([*_WRITTEN, *_OTHER], None, "VARCHAR"),
    ):
        _csv_log(tmp_path / "log.csv", items, last=last)
        reading = Reading(user="u", item="i")
        with engine.opened() as opened:
            staged = staging.prepared(opened, tmp_path / "log.csv", reading, None)
            types = opened.run("SELECT typeof(u), typeof(i) FROM pairs LIMIT 1", what="test")[0]
            assert types == ("VARCHAR" if last else "BIGINT", stored)
            assert staged.kinds["item"] == ("numeral" if stored == "BIGINT" else "str")
    _integer_log(tmp_path / "log.csv", "-7,7,1")
    with engine.opened() as opened:
        staging.prepared(opened, tmp_path / "log.csv", reading, None)
        assert opened.run("SELECT typeof(u), typeof(i) FROM pairs LIMIT 1", what="test")[0] == ("BIGINT", "BIGINT")


def test_held_counts_of_written_integers_are_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    _csv_log(path, _WRITTEN)

    def ask() -> Any:
        with events.hold(path, user="u", item="i", clip=1.0) as held:
            table = held.scores(clip=1.0)._table
            labels, values = table.highest(5)
            return labels, values.tolist(), table.scores_of(["7", "007"]).tolist(), table.tally.integers, table.tally.typed

    found, expected = _read_both_ways(path, monkeypatch, ask)
    assert found == expected


# -- what the bytes of a delimited file say of it --------------------------------------------------------------------------------

_PLAIN_INTEGER = re.compile("0|[1-9][0-9]{0,17}")


def _told(text: str, delimiter: str) -> tuple[int | None, bool]:
    """How many records there are if none has an empty or a quoted field, and whether those after the first are integers."""
    lines = text.removesuffix("\n").split("\n") if text else []
    fields = [line.split(delimiter) for line in lines]
    if '"' in text or "\r" in text or any("" in record for record in fields):
        return None, False
    return len(lines), all(_PLAIN_INTEGER.fullmatch(field) for record in fields[1:] for field in record)


def _seen(text: str, delimiter: str, size: int) -> tuple[int | None, bool]:
    data, records = text.encode(), formats._Records(delimiter)
    for start in range(0, len(data), size):
        records.add(data[start : start + size])
    return records.count, records.integers


@pytest.mark.parametrize("size", [1, 2, 3, 7, 18, 19, 20, 64, 10_000])
def test_records_are_known_from_their_bytes_wherever_a_block_ends(size: int) -> None:
    random_, ends = random.Random(size), ["", "\n"]
    fields = ["0", "7", "10", "9" * 17, "9" * 18, "1" + "0" * 17]
    others = ["", "00", "07", "9" * 19, "0" * 19, "1" * 40, "-1", "+7", "1.5", "1e2", "a", " 7", "é", '"7"', "7\r"]
    for delimiter in ",\t":
        for other in others:
            for columns in (1, 2, 3):
                log = [[random_.choice(fields) for _ in range(columns)] for _ in range(8)]
                for at in (None, 0, random_.randrange(1, 7), 7):
                    lines = [list(record) for record in log]
                    if at is not None:
                        lines[at][random_.randrange(columns)] = other
                    text = "\n".join(delimiter.join(line) for line in lines) + random_.choice(ends)
                    assert _seen(text, delimiter, size) == _told(text, delimiter), (delimiter, text)
    for text in ("", "\n", "7", "7\n", "a,b", "a,b\n", "a,", "\n7", "7\n\n", "a,b\n1,2\n\n", "a,b\n1,2,\n", "a" * 50 + ",b\n1,2"):
        assert _seen(text, ",", size) == _told(text, ","), text


_INTEGERS = [str(number) for number in (*range(12), 10**17, 10**18 - 1)]


def _integer_log(path: Path, last: str = "", *, header: bool = True) -> None:
    random_, delimiter = random.Random(9), "\t" if path.suffix == ".tsv" else ","
    rows = [(random_.choice(_INTEGERS), random_.choice(_INTEGERS), str(1_700_000_000 + number)) for number in range(1500)]
    lines = ["u,i,t"] * header + [",".join(row) for row in rows] + [last] * bool(last)
    path.write_text("\n".join(line.replace(",", delimiter) for line in lines), encoding="utf-8")


def _read_as_text(path: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> tuple[bool, Any, Any]:
    """Whether a file is read as integers, and what is found so, and as text whose events are looked at one by one."""
    with engine.opened() as opened:
        rows = staging.rows(opened, Reading(**asked).given(path))
    found = events.read(path, **asked)
    with monkeypatch.context() as patch:
        patch.setattr(formats._Records, "count", None)
        patch.setattr(staging, "_numerals", lambda *_: frozenset())
        return bool(rows.as_integers), found, events.read(path, **asked)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize(
    "look",
    [
        {},
        {"clip": 1.0},
        {"max_items_per_user": 3, "salt": "s", "clip": [0.5, 2.0]},
        {"within": ["7", "007", 2, "10", "zoo", str(10**18 - 1)]},
        {"group": "i", "item": "t", "max_groups_per_user": 3, "salt": "s", "clip": 1.0, "groups": ["10", "2", "x"]},
        {"item": ["i", "t"]},
        {"time": "t", "time_unit": "s", "since": "2023-11-14T22:20:00Z", "until": "2023-11-14T22:30:00Z"},
        {"time": "t", "time_unit": "s", "since": "2023-11-14T22:20:00Z", "until": "2023-11-14T22:30:00Z", "clip": 1.0},
    ],
)
def test_a_file_of_integers_is_counted_as_the_text_that_it_is(
    look: dict[str, Any], suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"log{suffix}"
    _integer_log(path)
    integers, found, expected = _read_as_text(path, monkeypatch, **{"user": "u", "item": "i", **look})
    assert integers
    _same(found, expected)


@pytest.mark.parametrize("last", ["07,7,1", "7,00,1", f"7,{10**18},1", f"{2**64},7,1", "-7,7,1", "7,1e2,1", "7,7.0,1", "7,7,x"])
def test_a_file_with_other_text_is_counted_as_text(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    _integer_log(path, last)
    integers, found, expected = _read_as_text(path, monkeypatch, user="u", item="i")
    assert not integers
    _same(found, expected)


@pytest.mark.parametrize(("first", "integers"), [("7,7,7", True), ("007,7,7", False), ("7,0x,7", False)])
def test_a_first_line_of_data_counts_too(first: str, integers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    _integer_log(path, header=False)
    path.write_text(f"{first}\n{path.read_text()}")
    known, found, expected = _read_as_text(path, monkeypatch, user=1, item=2)
    assert known == integers
    _same(found, expected)
    assert found.report.rows == 1501


@pytest.mark.parametrize(("last", "integers"), [("", True), ("007,7,1", False)])
def test_several_files_are_of_integers_if_each_is(
    last: str, integers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"day={number}").mkdir()
        _integer_log(tmp_path / f"day={number}" / "log.csv", last if number == 1 else "")
    asked: dict[str, Any] = {"user": "u", "item": "i", "format": "csv"}
    known, found, expected = _read_as_text(tmp_path, monkeypatch, **asked)
    assert known == integers
    _same(found, expected)
    known, found, expected = _read_as_text(tmp_path, monkeypatch, **{**asked, "item": "day"})
    assert not known
    _same(found, expected)
