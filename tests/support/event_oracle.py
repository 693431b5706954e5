"""Event logs through every source that can be read, and the same counts by sets of Python."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import importlib
import json
import re
import sqlite3
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpselect import events
from dpselect.errors import EventLogError

Label = str | int
Event = tuple[Label | None, Label | None]
NAMES = ('us "er', "it;em,'é")
# The clock in Berlin went from 03:00 back to 02:00 on 2024-10-27: that day has 25 hours.
AROUND_A_DAY = [
    "2024-10-26T21:59:59Z",
    "2024-10-26T22:00:00Z",
    "2024-10-27",
    "2024-10-27 22:59:59.999999+00:00",
    "2024-10-27T23:30:00+0100",
    "2024-10-27 23:59",
    "2024-10-27T23:00:00Z",
    "2024-10-28T00:00",
]
INSIDE = [1, 2, 3, 4, 5]  # of them, on 27 October in Berlin


SECRET = "SECRET42"
"""What no error shows, of users, items, addresses and the names of folders."""


def counted(source: Any, **options: Any) -> dict[Label, int]:
    """Counts by label."""
    found: Any = events.read(source, **{"user": "u", "item": "i", **options})
    return dict(zip(found.labels, found.counts.tolist(), strict=True))


def plain(counts: Any) -> dict[str, Any]:
    """All that a reading found, arrays as lists and dictionaries in their order."""
    found = {name: getattr(counts, name) for name in type(counts).__slots__}
    return {
        name: list(value.items())
        if isinstance(value, dict)
        else getattr(value, "tolist", lambda v=value: v)()
        for name, value in found.items()
    }


def refused(source: object, words: str, **options: Any) -> None:
    """Check that reading fails with these words and that neither the message nor any chained error
    shows the data.
    """
    with pytest.raises(EventLogError, match=words) as caught:
        events.read(source, **{"user": "u", "item": "i", **options})
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def distinct_users(log: Iterable[Event]) -> dict[Label, int]:
    """Distinct users per item, events with a null left out."""
    return dict(Counter(item for _, item in {event for event in log if None not in event}))


def rank(user: Label, item: Label, salt: str) -> str:
    """The documented order in which a user's items are kept."""
    return hashlib.sha256(
        f"{len(str(user))}:{user}:{len(str(item))}:{item}:{salt}".encode()
    ).hexdigest()[:16]


def kept(user: Any, items: Iterable[Any], limit: int, salt: str) -> list[Any]:
    """The items of a user that a bound keeps, in their order."""
    return sorted(items, key=lambda item: (rank(user, item, salt), item))[:limit]


def bounded(log: Iterable[Event], limit: int, salt: str) -> list[Event]:
    """At most `limit` items of every user."""
    items: defaultdict[Label, set[Label]] = defaultdict(set)
    for user, item in log:
        if user is not None and item is not None:
            items[user].add(item)
    return [(user, item) for user, own in items.items() for item in kept(user, own, limit, salt)]


def arrow(log: Sequence[Sequence[Any]], names: Sequence[str] = NAMES) -> pa.Table:
    """A pyarrow Table, with the types of what it holds."""
    return pa.table({name: [event[place] for event in log] for place, name in enumerate(names)})


WHOLE, _FRACTION = (
    re.compile(r"0|-?[1-9]\d{0,17}"),
    re.compile(r"0|-?[1-9]\d{0,30}|-?(0|[1-9]\d*)[.]\d+"),
)


def _stored(text: Any) -> Any:
    """Whole numbers as such, as a database without types has them."""
    return text if not isinstance(text, str) or not WHOLE.fullmatch(text) else int(text)


def _exact(text: str | None) -> str | Decimal | None:
    """Numbers as decimals with their own digits."""
    return text if text is None or not _FRACTION.fullmatch(text) else Decimal(text)


class Stream:
    """An Arrow stream of any make, to be read once, in batches."""

    def __init__(self, table: pa.Table) -> None:
        self._held = [table]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._held.pop().__arrow_c_stream__(requested_schema)


class Sources:
    """Every way to hand over the same rows, of text or of integers, of which text formats make
    text.
    """

    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self._folder, self._names = folder, names

    def csv(self, rows: Sequence[Any], name: str = "log [1]*.csv", **how: Any) -> Any:
        with (self._folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, **how).writerows([self._names, *rows])
        return self._folder / name

    def packed(self, rows: Sequence[Any]) -> Any:
        """With a byte order mark."""
        plain = self.csv(rows).read_bytes()
        return _written(self._folder / "log.csv.gz", gzip.compress(b"\xef\xbb\xbf" + plain, 1))

    def zstandard(self, rows: Sequence[Any]) -> Any:
        return _written(
            self._folder / "log.csv.zst",
            pa.compress(self.csv(rows).read_bytes(), codec="zstd", asbytes=True),
        )

    def semicolons(self, rows: Sequence[Any]) -> Any:
        """Found by the header."""
        return _written(
            self._folder / "log.csv.bz2", bz2.compress(self.csv(rows, delimiter=";").read_bytes())
        )

    def several(self, rows: Sequence[Any]) -> Any:
        return [self.csv(rows[at::2], f"part {at}.csv") for at in (0, 1)]

    def pattern(self, rows: Sequence[Any]) -> Any:
        """One file, and another with its columns turned round."""
        self.csv(rows[::2], "day=1.csv")
        turned = Sources(self._folder, self._names[::-1])
        turned.csv([row[::-1] for row in rows[1::2]], "day=2.csv")
        return str(self._folder / "day=[12].csv")

    def tsv(self, rows: Sequence[Any]) -> Any:
        lines = "".join(
            "\t".join("" if text is None else str(text) for text in row) + "\n"
            for row in (self._names, *rows)
        )
        return _written(self._folder / "log.tsv", lines.encode())

    def json(self, rows: Sequence[Any]) -> Any:
        lines = [json.dumps(dict(zip(self._names, row, strict=True))) for row in rows]
        return _written(self._folder / "user=5.jsonl", "\n".join(lines).encode())

    def json_packed(self, rows: Sequence[Any]) -> Any:
        """Without the fields that are missing."""
        held = [
            {name: text for name, text in zip(self._names, row, strict=True) if text is not None}
            for row in rows
        ]
        return _written(
            self._folder / "log.ndjson.gz",
            gzip.compress("\r\n".join(map(json.dumps, held)).encode()),
        )

    def parquet(self, rows: Sequence[Any], name: str = "it's ?.parquet") -> Any:
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self.arrow(rows), self._folder / name)
        return self._folder / name

    def types(self, rows: Sequence[Any]) -> Any:
        """Parquet files of which each has the types that its rows ask for, as pandas writes
        them.
        """
        for at in (0, 1):
            part = [
                [_stored(text) if place < 3 else text for place, text in enumerate(row)]
                for row in rows[at::2]
            ]
            columns = {}
            for place, name in enumerate(self._names):
                held = [row[place] for row in part]
                whole = all(value is None or isinstance(value, int) for value in held)
                texts = [None if value is None else str(value) for value in held]
                columns[name] = pa.array(held) if whole else pa.array(texts, pa.string())
            pq.write_table(pa.table(columns), self._folder / f"typed{at}.parquet")
        return [self._folder / f"typed{at}.parquet" for at in (0, 1)]

    def partitions(self, rows: Sequence[Any]) -> Any:
        """A folder of folders, and what a program has left half written."""
        for at in range(3):
            self.parquet(rows[at::3], f"log/n={at}/x{at}.parquet")
        (self._folder / "log" / "_temporary").mkdir(exist_ok=True)
        (self._folder / "log" / "_temporary" / "half.parquet").write_text("not whole")
        return self._folder / "log"

    def deep_pattern(self, rows: Sequence[Any]) -> Any:
        return str(self.partitions(rows) / "**" / "x*.parquet")

    def arrow(self, rows: Sequence[Any]) -> Any:
        table = arrow(rows, self._names)
        for at, column in enumerate(table.schema):
            if pa.types.is_null(column.type):
                table = table.set_column(at, column.name, pa.nulls(len(rows), pa.string()))
        return table

    def dictionary(self, rows: Sequence[Any]) -> Any:
        table = self.arrow(rows)
        return pa.table({name: table[name].dictionary_encode() for name in self._names})

    def reader(self, rows: Sequence[Any]) -> Any:
        return pa.RecordBatchReader.from_stream(self.arrow(rows))

    def capsule(self, rows: Sequence[Any]) -> Any:
        return Stream(self.arrow(rows))

    def pandas(self, rows: Sequence[Any]) -> Any:
        return self.arrow(rows).to_pandas(
            types_mapper={pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}.get
        )

    def objects(self, rows: Sequence[Any]) -> Any:
        return pd.DataFrame(list(rows), columns=list(self._names), dtype=object)

    def nested(self, rows: Sequence[Any]) -> Any:
        """Lists and dictionaries of Python's numbers, whose digits are those of each alone."""
        frame = self.objects(rows)
        user, item = self._names[:2]
        frame[user] = [{"id": _exact(text)} for text in frame[user]]
        frame[item] = [[_exact(text)] for text in frame[item]]
        return frame.rename(columns={user: "who"})

    def polars(self, rows: Sequence[Any]) -> Any:
        return pl.DataFrame(self.arrow(rows))

    def lazy(self, rows: Sequence[Any]) -> Any:
        return self.polars(rows).lazy().with_columns(unused=1)

    def relation(self, rows: Sequence[Any]) -> Any:
        return duckdb.connect().from_arrow(self.arrow(rows)).project("*, 1 AS unused")

    def sqlite(self, rows: Sequence[Any]) -> Any:
        path = self._folder / "log.db"
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as link:
            link.execute(f"CREATE TABLE log ({', '.join(self._names)})")
            kept = [
                [_stored(text) if place < 3 else text for place, text in enumerate(row)]
                for row in rows
            ]
            link.executemany(f"INSERT INTO log VALUES ({', '.join('?' * len(self._names))})", kept)
        link.close()
        return f"sqlite:///{path}"

    def excel(self, rows: Sequence[Any]) -> Any:
        book = importlib.import_module("openpyxl").Workbook(write_only=True)
        sheet = book.create_sheet()
        for row in (self._names, *rows):
            sheet.append(row)
        book.save(self._folder / "log.xlsx")
        return self._folder / "log.xlsx"


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


KINDS = [name for name in vars(Sources) if not name.startswith("_")]
SAID: dict[str, dict[str, Any]] = {"sqlite": {"table": "log"}, "nested": {"user": "who.id"}}
"""What is said about a source that is read otherwise."""
TYPED = [
    "parquet",
    "partitions",
    "arrow",
    "reader",
    "capsule",
    "dictionary",
    "pandas",
    "polars",
    "lazy",
    "relation",
]
"""Sources whose columns have types."""
