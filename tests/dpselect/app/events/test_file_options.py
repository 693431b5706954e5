"""Files as people have them: what is said about a file is one set of options, and the same events
give the same counts.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import event_oracle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import refused

import dpselect as dps
from dpselect import events
from dpselect.app.events import log_check
from dpselect.app.events.file_options import normalize_label
from dpselect.errors import EventLogError

pytestmark = pytest.mark.usefixtures("shared_database")

PAIRS = [("u1", "naïve"), ("u2", "naïve"), ("u2", "café"), ("u3", "a,b"), ("u3", "naïve")]
COUNTS = {"naïve": 3, "café": 1, "a,b": 1}
COLUMNS = {"user": "user_id", "item": "item_id"}


def counted(source: Any, **options: Any) -> dict[Any, int]:
    return event_oracle.counted(source, **{**COLUMNS, **options})


def text(delimiter: str, *, quote: str = '"', end: str = "\n") -> str:
    rows = [("user_id", "item_id"), *PAIRS]
    lines = [
        delimiter.join(f"{quote}{field}{quote}" if delimiter in field else field for field in row)
        for row in rows
    ]
    return end.join(lines) + end


@pytest.mark.parametrize("delimiter", [";", "|", "\t", "::"])
def test_a_header_tells_the_delimiter(delimiter: str, tmp_path: Path) -> None:
    """Where all columns that are asked for are named under one delimiter alone, it is that one; or
    it is stated.
    """
    path = tmp_path / "log.csv"
    path.write_text("\ufeff" + text(delimiter, end="\r\n"), encoding="utf-8")
    assert counted(path) == counted(path, delimiter=delimiter) == COUNTS
    with pytest.raises(EventLogError, match=r"split at ','") as caught:
        counted(path, delimiter=",")
    assert "naïve" not in str(caught.value)
    with pytest.raises(EventLogError, match=r"^item='Item' .* columns are 'user_id', 'item_id'"):
        counted(path, item="Item")
    positions = tmp_path / "bare.dat"
    positions.write_text(text(delimiter).split("\n", 1)[1], encoding="utf-8")
    assert counted(positions, user=1, item=2, delimiter=delimiter) == COUNTS
    with pytest.raises(
        EventLogError, match=r"split at ','.* has 1 columns|is not a column of .*split at ','"
    ):
        counted(positions, user=1, item=3)


def test_a_header_that_two_delimiters_fit_is_not_guessed(tmp_path: Path) -> None:
    """With one name alone two delimiters may show it: then one is stated."""
    path = tmp_path / "log.csv"
    path.write_text("a;user_id;item_id|b\n1;u;x|2\n")
    refused(path, "delimiter=", **COLUMNS)


@pytest.mark.parametrize("option", ["table", "query", "delimiter", "encoding"])
def test_auto_is_the_name_of_a_format_alone(option: str, tmp_path: Path) -> None:
    """Of any other option it is text like other text, which says nothing about this source and is
    refused.
    """
    table = pd.DataFrame({"u": ["a", "b"], "i": ["x", "y"]})
    asked: Any = {option: "utf-8" if option == "encoding" else "auto"}
    with pytest.raises(EventLogError, match=f"{option}="):
        dps.events.read(table, user="u", item="i", **asked)


@pytest.mark.parametrize("lines", [0, 3, 40_000])
@pytest.mark.parametrize("foot", ["\nSource: office; table 3", "Total", "\n\nx;y;z"])
def test_a_footnote_is_no_event(lines: int, foot: str, tmp_path: Path) -> None:
    """Text below a blank line, or a row of another number of fields, is refused wherever a block of
    bytes ends: with its line, which counts rows, by the check alone.
    """
    path = tmp_path / "log.csv"
    path.write_bytes((text(";") + "u9;naïve\n" * lines + foot).encode())
    number = 6 + lines + 1 + foot.count("\n")
    with pytest.raises(EventLogError, match="footnote") as caught:
        counted(path)
    assert str(number) not in str(caught.value).replace(str(path), "")
    with pytest.raises(EventLogError, match=rf"line {number}\).*footnote"):
        log_check.check(path, events.Reading(**COLUMNS))


def test_quotes_encodings_and_nulls(tmp_path: Path) -> None:
    """Another quote, another encoding, and texts that stand for a missing label."""
    path = tmp_path / "log.csv"
    path.write_text(text(",", quote="'"), encoding="cp1252")
    assert counted(path, quote="'", encoding="cp1252") == COUNTS
    refused(path, "encoding=", **COLUMNS, quote="'")
    path.write_text(text(","), encoding="utf-16")
    assert counted(path, encoding="utf-16") == COUNTS
    refused(path, "Say encoding='utf-16'", **COLUMNS)
    path.write_text(text(",") + "NULL,naïve\nu9,\\N\nu9,N/A\n", encoding="utf-8")
    assert counted(path, null=["NULL", "\\N", "N/A"]) == COUNTS
    assert counted(path)["N/A"] == 1
    found = events.read(path, **COLUMNS, null=["NULL", "\\N", "N/A"])
    assert (found.report.rows_without_user, found.report.rows_without_item) == (1, 2)


def test_a_workbook_of_several_sheets_is_refused(tmp_path: Path) -> None:
    """Which of them holds the table, nobody said."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(("user_id", "item_id"))
    book.create_sheet("more")
    book.save(tmp_path / "two.xlsx")
    refused(tmp_path / "two.xlsx", "several sheets", **COLUMNS)


def test_rows_beyond_the_size_that_a_workbook_states_are_read(tmp_path: Path) -> None:
    """A tool that appends rows may leave the sheet's stated size as it was: none of them is
    dropped, no cell is missing.
    """
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("user_id", "item_id", "note"), *PAIRS]:
        book.active.append(row)
    book.save(tmp_path / "log.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "log.xlsx") as whole,
        zipfile.ZipFile(tmp_path / "appended.xlsx", "w") as changed,
    ):
        for name in whole.namelist():
            held = whole.read(name)
            changed.writestr(
                name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:C2"', held)
            )
    assert counted(tmp_path / "appended.xlsx") == COUNTS


BASKETS = {
    "u1": ["naïve"],
    "u2": ["naïve", "café", "naïve"],
    "u3": ["a,b", "naïve"],
    "u4": [],
    "u5": None,
}


@pytest.mark.parametrize(
    "within", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["columns", "paths"]
)
def test_a_list_is_one_event_per_element(within: bool, tmp_path: Path) -> None:
    """In JSON lines, Parquet, Arrow and frames; an empty list is an event without an item. Fields
    within a column are named with dots, also through lists.
    """
    rows: list[Any] = [{"user_id": user, "item_id": items} for user, items in BASKETS.items()]
    asked = COLUMNS
    if within:
        rows = [
            {"event": {"user": {"id": user}, "basket": [{"sku": item} for item in items or []]}}
            for user, items in BASKETS.items()
        ]
        asked = {"user": "event.user.id", "item": "event.basket.sku"}
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (tmp_path / "log.jsonl", tmp_path / "log.parquet", table, pd.DataFrame(rows)):
        found = events.read(source, **asked)
        assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == COUNTS
        assert (found.report.rows, found.report.rows_without_item) == (8, 2)


def test_split_and_nested_fields_are_matched_exactly(tmp_path: Path) -> None:
    """Pieces of text are events, a field that a type lacks is refused, and a column of that very
    name comes first.
    """
    lines = [f'{user},"{"|".join(items or [])}"\n' for user, items in BASKETS.items()]
    (tmp_path / "log.csv").write_text("user_id,item_id\n" + "".join(lines))
    assert counted(tmp_path / "log.csv", split="|") == COUNTS
    inner = pa.array([{"user": "other"}])
    flat = pa.table({"event.user": ["u1"], "i": ["x"], "event": inner})
    assert counted(flat, user="event.user", item="i") == {"x": 1}
    with pytest.raises(EventLogError, match="no field 'name' within"):
        counted(flat, user="event.name", item="i")


def test_integers_of_any_width_decimals_and_uuids_are_printed(tmp_path: Path) -> None:
    """Typed labels beyond 64 bits are compared by all their digits; fractions are refused, with
    what to do.
    """
    near = [2**100, 2**100 + 1, 2**100]
    users = pa.array([1, 2, 2**63], pa.uint64())
    wide = pa.table({"user_id": users, "item_id": pa.array(near, pa.decimal128(38))})
    pq.write_table(wide, tmp_path / "log.parquet")
    objects = pd.DataFrame({"user_id": [1, 2, 3, 4], "item_id": [*near, 5]}, dtype=object)
    for source in (wide, tmp_path / "log.parquet", objects[:3]):
        assert counted(source) == {str(2**100): 2, str(2**100 + 1): 1}
    # the same label whether or not somebody has one that is wide
    assert counted(objects)["5"] == counted(objects[3:])["5"] == 1
    refused(pd.DataFrame({"user_id": [1.0, np.nan], "item_id": ["x", "y"]}), "Int64", **COLUMNS)


@pytest.mark.parametrize("dtype", ["object", "category", "str", "Int64"])
def test_rows_do_not_change_declared_label_types(dtype: str) -> None:
    """Objects and categories of integers are text, like text itself, and Int64 is integers, with
    any row more or refused.
    """
    held, refused = set(), 0
    for further in ([], [None], [2**62], [2**70], ["x"]):
        items = [
            7 if dtype != "str" else "7",
            *(str(one) if dtype == "str" and one is not None else one for one in further),
        ]
        try:
            frame = pd.DataFrame(
                {"user_id": range(len(items)), "item_id": pd.Series(items, dtype=dtype)}
            )
            held |= {label for label in counted(frame) if str(label) == "7"}
        # the last two are pandas' own, of what is no Int64
        except (EventLogError, OverflowError, ValueError):
            refused += 1
    assert held == {7 if dtype == "Int64" else "7"}
    assert refused == {"str": 0, "Int64": 2}.get(dtype, 1)


# -- labels ----------------------------------------------------------------------------------------


def test_labels_are_written_alike_where_that_is_asked(tmp_path: Path) -> None:
    """Exactly as written unless --normalize says otherwise; users, items, lists and catalogs
    alike.
    """
    path = tmp_path / "log.csv"
    labels = ["Café", "cafe\u0301 ", "CAFE\u0301", "straße", "STRASSE"]
    path.write_text(
        "user_id,item_id\n"
        + "".join(f"u{at},{label}\nU{at},{label}\n" for at, label in enumerate(labels))
    )
    assert len(counted(path)) == 5
    forms = ["nfc", "casefold", "strip"]
    assert counted(path, normalize=forms) == {"café": 3, "strasse": 2}
    assert counted(path, normalize=forms, within=["CAFÉ", "none"]) == {"café": 3, "none": 0}
    (tmp_path / "catalog.txt").write_text("CAFE\u0301\nStraße\n")
    assert events.read_catalog(tmp_path / "catalog.txt", normalize=forms) == ["café", "strasse"]
    for wrong in ("lower", ["nfc", "nfkc"]):
        refused(path, "normalize=", **COLUMNS, normalize=wrong)


def test_a_user_7_0_is_the_user_7(tmp_path: Path) -> None:
    """In one file and in several of any kind, in parts of users, and whatever else is asked for;
    items, and texts that are no whole numbers, are what they say.
    """
    names = ("a.csv", "b.csv", "both.csv", "c.jsonl", "d.parquet")
    a, b, both, c, d = (tmp_path / name for name in names)
    for path, users in ((a, ["1"]), (b, ["1.00"]), (both, ["1", "1.0", "-2.0", "-2"])):
        path.write_text("user_id,item_id\n" + "".join(f"{user},9\n" for user in users))
    c.write_text('{"user_id": 1, "item_id": "9"}')
    pd.DataFrame({"user_id": [1], "item_id": ["9"]}).to_parquet(d)
    for log in (b, [a, b], [c, b], [d, b], pd.DataFrame({"user_id": ["1", "1.0"], "item_id": "9"})):
        assert counted(log) == {"9": 1}
    assert counted(both) == {"9": 2}
    for said in ({"max_items_per_user": 1}, {"normalize": "nfkc"}, {"split": ";"}):
        assert counted([both, b, d], **said) == {"9": 2}
    assert counted([a, b], user="item_id", item="user_id") == {"1": 1, "1.00": 1}
    others = ["1.5", "1.0.0", "v1.0", "1.", ".0", "1.0 ", "1e1.0", "+1.0", "1.0\n"]
    frame = pd.DataFrame({"user_id": [*others, "1"], "item_id": "9"})
    assert counted(frame) == {"9": len(others) + 1}


# -- how people write them -------------------------------------------------------------------------


def test_decimal_commas_are_read_where_they_are_stated(tmp_path: Path) -> None:
    """Values, and numbers that conditions compare, in delimited text; points then group digits.
    Other sources have numbers, which are written with a point where they are text in between.
    """
    path = tmp_path / "log.csv"
    path.write_text("user_id;item_id;paid\nu1;x;3,5\nu2;x;1.234,25\nu3;x;7\nu4;x;\n")
    asked: dict[str, Any] = {"value": "paid", "value_clip": 10_000}
    assert events.read(path, **COLUMNS, **asked, decimal=",").scores().values.tolist() == [1244.75]
    assert counted(path, decimal=",", where="paid > 3.4") == {"x": 3}
    assert counted(path, where="paid > 3.4") == {"x": 1}
    for pointed in ("12.5", "1,234.5", "1.2345", "1.234.56"):
        (tmp_path / "pointed.csv").write_text(f"user_id;item_id;paid\nu1;x;{pointed}\n")
        with pytest.raises(EventLogError, match="not a finite number"):
            events.read(tmp_path / "pointed.csv", **COLUMNS, **asked, decimal=",")
    table = pd.DataFrame({"user_id": ["u"], "item_id": ["x"], "paid": [1.5]})
    table.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    table.to_excel(tmp_path / "log.xlsx", index=False)
    for source in (table, tmp_path / "log.jsonl", tmp_path / "log.xlsx"):
        with pytest.raises(EventLogError, match="decimal=',' is for csv and tsv"):
            events.read(source, **COLUMNS, **asked, decimal=",")
    with pytest.raises(EventLogError, match="state decimal=','"):
        events.read(path, **COLUMNS, **asked)
    with pytest.raises(EventLogError, match="decimal=',' reads a comma"):
        log_check.check(path, events.Reading(**COLUMNS, **asked))
    typed = [{"user_id": "u", "item_id": "x", "paid": "3,5"}]
    pd.DataFrame(typed).to_excel(tmp_path / "typed.xlsx", index=False)
    with pytest.raises(EventLogError, match="'3,5' in event 1") as caught:
        log_check.check(tmp_path / "typed.xlsx", events.Reading(**COLUMNS, **asked))
    assert "reads a comma" not in str(caught.value)  # decimal= is not for workbooks
    refused(path, r"must be '.' or ','", **COLUMNS, decimal=";")


@pytest.mark.parametrize(
    ("form", "times"),
    [
        ("%d.%m.%Y", ["29.06.2026", "1.7.2026", "01.08.2026"]),
        ("%m/%d/%Y", ["06/29/2026", "7/1/2026", "08/01/2026"]),
        ("%m/%d/%y %I:%M %p", ["06/29/26 11:59 PM", "7/1/26 12:00 AM", "08/01/26 01:00 AM"]),
        ("%d.%m.%y", ["29.06.26", "1.7.26", "01.08.26"]),
        ("%d %b %Y", ["29 Jun 2026", "01 Jul 2026", "01 Aug 2026"]),
        (
            "%d-%b-%Y %H:%M:%S",
            ["29-Jun-2026 23:59:59", "01-Jul-2026 00:00:00", "01-Aug-2026 00:00:00"],
        ),
    ],
)
def test_times_of_a_stated_format(form: str, times: list[str], tmp_path: Path) -> None:
    """They are read off a clock in the zone that is stated. One of another format is no time and
    refuses nothing, since whoever asks chooses the format; the check says which format fits.
    """
    window: dict[str, Any] = {
        "time": "t",
        "since": "2026-07-01",
        "until": "2026-08-01",
        "time_zone": "Europe/Berlin",
    }
    for more in ([], ["2026-07-04", "99.99.2026", "soon", "1.1.0001"]):
        rows = [
            {"user_id": f"u{at}", "item_id": "x", "t": time}
            for at, time in enumerate([*times, *more])
        ]
        pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
        for source in (tmp_path / "log.csv", tmp_path / "log.parquet", pd.DataFrame(rows)):
            found = events.read(source, **COLUMNS, **window, time_format=form)
            assert (found.counts.tolist(), found.report.rows_left_out) == ([1], len(more))
        with pytest.raises(EventLogError, match="state time_format="):
            events.read(tmp_path / "log.csv", **COLUMNS, **window)
        fits = f"time_format={form!r} reads all"
        with pytest.raises(EventLogError, match=None if more else re.escape(fits)) as caught:
            log_check.check(tmp_path / "log.csv", events.Reading(**COLUMNS, **window))
        assert (fits in str(caught.value)) == (not more)
        assert str(caught.value).count("reads all") == (not more)


def test_invalid_time_formats_are_refused() -> None:
    """A format names a day; it is about text, and about the column of times."""
    typed = pd.DataFrame({"user_id": ["u"], "item_id": ["x"], "t": pd.to_datetime(["2026-07-04"])})
    window: dict[str, Any] = {"time": "t", "since": "2026-07-01"}
    for wrong in ("%d.%m", "%Y", "soon", "%d.%m.%Q", "%Y-%m-%d %z", 7):
        refused(
            typed, "must name a year, a month and a day", **COLUMNS, **window, time_format=wrong
        )
    for more in ({}, {"time_unit": "s"}):
        refused(
            typed, "is for times that are text", **COLUMNS, **window, **more, time_format="%d.%m.%Y"
        )
    refused(typed, "time_format= are about the column time=", **COLUMNS, time_format="%d.%m.%Y")


HARD = ("a", "#", "C#", '"', ' "x', "\n#y", "\\", "\\\\", '\\"', "a,\n\nb", "a\n")
PAIRS_OF_HARD = [(f"{first}{number}", label) for number, first in enumerate(HARD) for label in HARD]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_comment_lines_are_left_out(suffix: str, end: str, tmp_path: Path) -> None:
    """Above the header, where a dry run looks, and between rows. A label that has the character
    stays, and so does a line within quotes that begins with it: no row tells how others are read.
    """
    path = tmp_path / f"log{suffix}"
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator=end)
    writer.writerow(COLUMNS.values())
    for user, item in PAIRS_OF_HARD:
        if not (user.startswith("#") and "\n" in item):  # a comment is one line
            writer.writerow((user, item))
        table.write(f'# "a comment{end}')
    above = f'# by "Excel{end}# "{end}{end}'
    data = (above + table.getvalue()).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    left = [label for user, label in PAIRS_OF_HARD if not user.startswith("#")]
    assert counted(path, comment="#") == Counter(left)
    events.require_columns(path, events.Reading(**COLUMNS, comment="#"))
    refused(path, "'other' is not a column", user="user_id", item="other", comment="#")


def test_files_with_comments_keep_all_other_rules(tmp_path: Path) -> None:
    """The header still tells the delimiter, TSV has no quotes, and what lies below the comments is
    refused as in a file without.
    """
    path = tmp_path / "log.csv"
    for delimiter in (";", "::"):
        path.write_text("#\n" + text(delimiter) + f"u{delimiter}\x1f", encoding="utf-8")
        assert counted(path, comment="#") == COUNTS | {"\x1f": 1}
    tabbed = tmp_path / "log.tsv"
    tabbed.write_text('user_id\titem_id\nu1\t"a\n#u2\tb\n')
    assert counted(tabbed, comment="#") == {'"a': 1}
    for below, rule in (
        ("", "is empty"),
        ("user_id,item_id\nu1,é\n", "UTF-8"),
        ("user_id,item_id\nu1,a\n\nfoot,b\n", "footnote"),
        ('user_id,item_id\nu1,"a\n#"b\n', "malformed row"),
        (f"user_id,item_id\nu1,{'a' * 3_000_000}\n", "malformed row"),
    ):
        path.write_text(f"#\n{below}", encoding="latin-1")
        refused(path, rule, **COLUMNS, comment="#")
    path.write_text(f"#\n{text(',')}", encoding="utf-8")
    refused(path, "or state comment= if", **COLUMNS)
    path.write_text(f"{text(',')}#\n", encoding="utf-8")
    refused(path, r"comment line \(state comment=", **COLUMNS)
    path.write_text('user_id,item_id\n#u1,"a\nu2,b"\n')  # rows of u2 in the text of #u1
    refused(path, "malformed row", **COLUMNS, comment="#")
    path.write_text('# {"a":1,"b":2}\nuser_id,item_id\n#,"a" b\nu1,a\n')
    assert counted(path, comment="#") == {"a": 1}
    for wrong in ("##", "a", '"', " ", "", 7):
        refused(path, "comment=", **COLUMNS, comment=wrong)
    refused(path, "comment= does not go with escape=", **COLUMNS, comment="#", escape="\\")


def test_escaped_quotes_are_read(tmp_path: Path) -> None:
    """As Spark writes them, in the header too, wherever a block of bytes ends; without the option
    the refusal names it.
    """
    path, header = tmp_path / "log.csv", ("user_id", "item_id", 'a "b", c')
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, escapechar="\\", doublequote=False)
        writer.writerows([header, *((user, item, "1") for user, item in PAIRS_OF_HARD)])
    assert counted(path, escape="\\") == Counter(HARD * len(HARD))
    assert counted(path, escape="\\", item=header[2]) == {"1": len(HARD)}
    begun = 'user_id,item_id\nu1,"'
    long = "x" * (2**16 - 1 - len(begun))  # the backslash ends a block
    path.write_text(f'{begun}{long}\\""\nu2,"a\n\nb"\n')
    assert counted(path, escape="\\") == {f'{long}"': 1, "a\n\nb": 1}
    for head in ('5\\" pipe', 'a\\"\nb'):  # a dry run looks at no row below
        path.write_bytes(f'user_id;item_id;"{head}"\nu1;a;\xff\n'.encode("latin-1"))
        events.require_columns(path, events.Reading(**COLUMNS, escape="\\"))
    path.write_text("user_id,item_id\nu1,'it\\'s\n\na'\n")
    assert counted(path, escape="\\", quote="'") == {"it's\n\na": 1}
    path.write_text('user_id,item_id\nu1,"say \\"hi\\""\n')
    refused(path, r"malformed row.*state escape='\\'", **COLUMNS)
    refused(path, "escape='x' must be", **COLUMNS, escape="x")
    refused(path, "escape=.* is for quoted fields", **COLUMNS, escape="\\", quote="")


def test_an_array_of_json_is_read_as_lines_of_it_are(tmp_path: Path) -> None:
    """Pretty or not, by its ending or as stated; an empty one is a log of nobody, and one that is
    cut short is malformed.
    """
    rows = [{"user_id": user, "item_id": items} for user, items in BASKETS.items()]
    for name, text, said in (
        ("a.json", json.dumps(rows), {}),
        ("b.json", "\n " + json.dumps(rows, indent=2), {}),
        ("c.txt", json.dumps(rows), {"format": "jsonl"}),
        ("d.json", "\n".join(map(json.dumps, rows)), {}),
    ):
        (tmp_path / name).write_text(text)
        assert counted(tmp_path / name, **said) == COUNTS
    (tmp_path / "a.json").write_text("[]")
    assert counted(tmp_path / "a.json") == {}
    (tmp_path / "a.json").write_text(json.dumps(rows)[:-9])
    with pytest.raises(EventLogError, match="malformed") as caught:
        counted(tmp_path / "a.json")
    assert "damaged" not in str(caught.value)


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "unit"),
    [
        ("1704448800000", "s"),
        ("1704448800000000", "ms"),
        ("-99999999999", "s"),
        ("1899-12-31", None),
    ],
)
def test_times_outside_the_years_1900_to_9999_are_refused(
    time: str, unit: Any, tmp_path: Path
) -> None:
    """A wrong unit puts times there: refused with a word about it, in text and in typed columns,
    inside the window or not.
    """
    stored = pa.array([int(time)]) if unit else pa.array([time]).cast(pa.timestamp("s"))
    typed = pa.table({"user_id": ["u"], "item_id": ["x"], "t": stored})
    (tmp_path / "log.csv").write_text(f"user_id,item_id,t\nu,x,{time}\n")
    for source in (typed, tmp_path / "log.csv"):
        refused(
            source,
            r"1900 to 9999.*time_unit",
            **COLUMNS,
            time="t",
            since="2024-01-01",
            until="2024-02-01",
            time_unit=unit,
        )


# -- public lists ----------------------------------------------------------------------------------


def test_catalogs_are_read_as_logs_are(tmp_path: Path) -> None:
    """The formats of a log, with the same options, give the same labels."""
    labels, path = ["naïve", "café"], tmp_path / "a.csv"
    path.write_text("item_id|x\nnaïve|1\ncafé|2\nNULL|3\n", encoding="utf-16")
    said: dict[str, Any] = {"encoding": "utf-16", "null": "NULL"}
    assert events.read_catalog(path, item="item_id", **said) == labels
    assert events.read_catalog(path, "item_id", delimiter="|", **said) == labels
    with pytest.raises(EventLogError, match=r"delimiter='\|'"):
        events.read_catalog(path, **said)
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps({"item": {"id": label}}) + "\n" for label in labels)
    )
    (tmp_path / "c.csv").write_text("item.id\nzoo|\n")
    pq.write_table(pa.table({"id": labels}), tmp_path / "d.parquet")
    assert events.read_catalog(tmp_path / "d.parquet") == labels
    assert events.read_catalog(tmp_path / "b.jsonl", "item.id") == labels
    assert events.read_catalog(
        [tmp_path / "b.jsonl", tmp_path / "c.csv"], "item.id", split="|", format="auto"
    ) == [*labels, "zoo"]
    assert events.read_catalog(pa.table({"id": labels}), "id") == labels


@pytest.mark.parametrize("forms", list(itertools.permutations(["nfkc", "casefold", "strip"])))
def test_labels_that_were_written_alike_stay_as_they_are(forms: tuple[str, ...]) -> None:
    """Writing a label anew twice is writing it once, whatever letters it has: a list that was, and
    a log that is, match.
    """
    for code in (
        *range(0x3000),
        *range(0xA640, 0xAC00),
        *range(0xF900, 0xFFFF),
        *range(0x1D400, 0x1D800),
    ):
        once = normalize_label(f" {chr(code)}\u0345", forms)
        assert normalize_label(once, forms) == once


@pytest.mark.slow
def test_catalogs_are_written_as_the_log_is(tmp_path: Path) -> None:
    """Every way to name a public list matches labels by what `normalize` makes of both; two that
    become one are refused.
    """
    (tmp_path / "log.csv").write_text("user_id;item_id\nann;Café \nbob;CAFÉ\n", encoding="cp1252")
    (tmp_path / "items.csv").write_text("item_id,name\ncafÉ,x\nzoo,y\n", encoding="cp1252")
    (tmp_path / "list.txt").write_text("cafÉ\nzoo\n", encoding="cp1252")
    said: dict[str, Any] = {
        "normalize": ["strip", "casefold"],
        "encoding": "cp1252",
        "delimiter": ";",
    }
    counts: Any = events.read(tmp_path / "log.csv", **COLUMNS, **said)
    with events.hold(tmp_path / "log.csv", **COLUMNS, **said) as held:
        assert held.scores(["Zoo", "cafÉ "]).names == ["zoo", "café"]
    assert counts.scores(["Zoo", "cafÉ "]).labels == ("zoo", "café")
    assert counts.scores(["Zoo", "cafÉ "]).values.tolist() == [0, 2]
    with pytest.raises(EventLogError, match="more than once"):
        counts.scores(["Zoo", "zoo"])
    settings: dict[str, Any] = {**COLUMNS, **said, "k": 1, "epsilon": 50.0}
    for domain in (tmp_path / "items.csv", tmp_path / "list.txt", ["cafÉ", "zoo"]):
        answer = dps.topk(tmp_path / "log.csv", **settings, domain=domain, with_counts=True)
        assert answer.items == ("café",)
