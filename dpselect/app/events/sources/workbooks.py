"""Excel workbooks, checked before the library that reads them loads them into memory."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from dpselect.app.archives import Refuse, members_of, pieces_of
from dpselect.errors import EventLogError

_MOST_BYTES = 2**30  # of all members, unpacked
_MOST_BINARY = 2**26  # of a member that is no XML, such as a picture
_MOST_ROW = 2**23  # of a row of cells, or of a text that cells share
_MOST_BETWEEN = 2**25  # of all that is not within such a row or text
_MOST_TOKEN = 2**20  # Excel itself holds 32,767 characters in a cell
_MOST_ROWS = {"row": 2**20, "si": 2**22}  # Excel's own limit; texts


def require_modest(source: Path, title: str) -> None:
    """Refuse a workbook that would take far more memory than a large one of Excel's."""

    def refuse(words: str) -> NoReturn:
        raise EventLogError(f"{title} cannot be read: {words}")

    failure = ""
    try:
        with source.open("rb") as stream:
            archive, members = members_of(stream, _MOST_BYTES, refuse)
            with archive:
                for member in members:
                    _Part(refuse).read(archive, member)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        expat.ExpatError,
    ):
        failure = (
            "it is damaged, protected by a password, or no workbook in Excel's format of 2007 and"
            " later. Save it anew"
        )
    if failure:
        refuse(failure)


class _Part:
    """A member of a workbook, of which only the sizes of its rows are kept."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
        self._parser = parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = (
            self._start_element,
            self._end_element,
        )
        parser.StartDoctypeDeclHandler = self._refuse_declaration
        self._depth = self._start = self._within = 0
        self._found = dict.fromkeys(_MOST_ROWS, 0)
        self._number = 0

    def read(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        size = since = 0
        for piece in pieces_of(archive, member):
            if size == 0 and not piece.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<"):
                if member.file_size > _MOST_BINARY:
                    self._refuse(
                        f"it holds more than {_MOST_BINARY >> 20} MiB that are no table. Save the"
                        " table alone"
                    )
                return
            size += len(piece)
            # A token is kept until it ends, so that no piece is without an end. Within a piece none
            # is too long.
            first, last = piece.find(b"<"), piece.rfind(b"<")
            if since + (len(piece) if first < 0 else first) > _MOST_TOKEN:
                self._refuse(
                    f"it has a cell of more than {_MOST_TOKEN >> 20} MiB. Leave that column out"
                )
            since = since + len(piece) if last < 0 else len(piece) - last
            self._parser.Parse(piece)
            if size - self._within - (size - self._start if self._depth else 0) > _MOST_BETWEEN:
                self._refuse(
                    "it holds too much beside its rows, such as formats. Save the values of the"
                    " sheet alone"
                )
        if size:
            self._parser.Parse(b"", True)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith(("row", "si")):
            if self._depth == 0:
                self._start = self._parser.CurrentByteIndex
                kind = "row" if name.endswith("row") else "si"
                self._found[kind] += 1
                if self._found[kind] > _MOST_ROWS[kind]:
                    self._refuse(
                        f"it has more than {_MOST_ROWS[kind]:,} rows or texts, the most that are"
                        " read. Save it as CSV"
                    )
                if kind == "row" and "r" in attributes:
                    self._check_number(attributes["r"])
            self._depth += 1

    def _check_number(self, number: str) -> None:
        """Refuse rows that are not numbered upwards.

        The library would leave out rows that stand before others, and make up rows that are missing
        in between.
        """
        before, self._number = (
            self._number,
            int(number) if number.isascii() and number.isdecimal() and len(number) < 9 else 0,
        )
        if not before < self._number <= _MOST_ROWS["row"]:
            self._refuse("its rows are not numbered upwards from 1 to 1,048,576. Save it anew")

    def _end_element(self, name: str) -> None:
        if name.endswith(("row", "si")):
            self._depth -= 1
            if self._depth == 0:
                length = self._parser.CurrentByteIndex - self._start
                self._within += length
                if length > _MOST_ROW:
                    self._refuse(
                        f"it has a row of more than {_MOST_ROW >> 20} MiB. Leave long columns out"
                    )

    def _refuse_declaration(self, *_arguments: Any) -> None:
        self._refuse("it declares a document type, which no workbook does. Save it anew")
