"""Workbooks are not trusted: a small one that would take gigabytes, and one whose rows would be
left out, are refused.
"""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import openpyxl
import pytest
from event_oracle import counted, refused

from dpselect.app import archives
from dpselect.app.events.catalog import read_catalog
from dpselect.app.events.sources import formats, workbooks
from dpselect.errors import EventLogError

SHEET, TEXTS, STYLES = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml"


def workbook(path: Path, *changed: tuple[str, bytes, bytes]) -> Path:
    """A workbook of two events, with text of some of its members changed."""
    book = openpyxl.Workbook()
    for row in (["u", "i"], ["ann", "zoo"], ["bob", "zoo"]):
        book.active.append(row)
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        held = {member.filename: archive.read(member) for member in archive.infolist()}
    # openpyxl 3.1.5 needs none
    held.setdefault(TEXTS, b"<sst><si><t>x</t></si><si><t>y</t></si><si><t>z</t></si></sst>")
    for name, before, after in changed:
        assert before in held[name]
        held[name] = held[name].replace(before, after, 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    return path


def test_a_workbook_is_read(tmp_path: Path) -> None:
    """With pictures in it, and with a text as long as Excel allows."""
    path = workbook(tmp_path / "log.xlsx", (SHEET, b"zoo", b"&#x1F600;" * 32_767))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/media/image1.png", b"\x89PNG\r\n\x1a\n" + bytes(2**21))
    assert counted(path) == {"😀" * 32_767: 1, "zoo": 1}


SMALL = {"_MOST_ROW": 2**14, "_MOST_BETWEEN": 2**15}
HOSTILE = {
    "a cell": ((SHEET, b"zoo", b"z" * 2**22), "a cell of more than"),
    "an attribute": (
        (SHEET, b"<sheetData>", b'<sheetData a="' + b"z" * 2**22 + b'">'),
        "a cell of more than|too much beside",
    ),
    "a row": ((SHEET, b"</row>", b"<c/>" * 2**13 + b"</row>"), "a row of more than"),
    "a text of parts": ((TEXTS, b"<t>", b"<r/>" * 2**13 + b"<t>"), "a row of more than"),
    "other elements": (
        (SHEET, b"<sheetData>", b"<z/>" * 2**14 + b"<sheetData>"),
        "too much beside its rows",
    ),
    "elements after": (
        (SHEET, b"</sheetData>", b"</sheetData>" + b"<z/>" * 2**14),
        "too much beside its rows",
    ),
    "formats": ((STYLES, b"<fonts", b"<z/>" * 2**14 + b"<fonts"), "too much beside its rows"),
    "entities": (
        (SHEET, b"<worksheet", b'<!DOCTYPE a [<!ENTITY b "c">]><worksheet'),
        "declares a document type",
    ),
    "a far row": ((SHEET, b'r="3"', b'r="999999999999"'), "not numbered upwards"),
    "a row above": ((SHEET, b'r="3"', b'r="1"'), "not numbered upwards"),
    "a row of no number": ((SHEET, b'r="3"', b'r="x"'), "not numbered upwards"),
    "no XML": ((SHEET, b"</row>", b"</now>"), "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_oversized_workbooks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Here with limits of a few thousand bytes; of a public list as of a log."""
    change, words = HOSTILE[name]
    path = workbook(tmp_path / "log.xlsx", change)
    for limit, value in SMALL.items():
        monkeypatch.setattr(workbooks, limit, value)
    refused(path, words)
    with pytest.raises(EventLogError, match=words):
        read_catalog(path, "i")


def test_a_cell_of_many_megabytes_takes_no_memory(tmp_path: Path) -> None:
    """It is refused before the library has read it."""
    path = workbook(tmp_path / "log.xlsx", (SHEET, b"zoo", b"z" * 2**26))
    tracemalloc.start()
    try:
        refused(path, "a cell of more than 1 MiB")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_sizes_that_are_not_as_stated_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than is read, more rows than a sheet has, and no archive. How archives lie is tested
    with files of votes.
    """
    path = workbook(tmp_path / "log.xlsx")
    (tmp_path / "bad.xlsx").write_bytes(b"PK\x03\x04 and no more")
    refused(tmp_path / "bad.xlsx", "damaged")
    for place, limit, value, words in (
        (workbooks, "_MOST_BYTES", 2**10, "unpacks to more than"),
        (workbooks, "_MOST_ROWS", {"row": 2, "si": 2**22}, "not numbered upwards|more than 2 rows"),
        (workbooks, "_MOST_ROWS", {"row": 2**20, "si": 2}, "more than 2 rows or texts"),
        (archives, "_MOST_ENTRIES", 3, "more than 3 members"),
        (formats, "_MOST_CELLS", 5, "more than 5 cells"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, limit, value)
            refused(path, words)
    assert counted(path) == {"zoo": 2}
