"""Event logs in every form that can be read, and the same counts by sets of Python."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

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


def distinct_users(events: Iterable[Event]) -> dict[Label, int]:
    """Distinct users per item, events with a null left out."""
    return dict(Counter(item for _, item in {event for event in events if None not in event}))


def rank(user: Label, item: Label, salt: str) -> str:
    """The documented order in which a user's items are kept."""
    return hashlib.sha256(f"{len(str(user))}:{user}:{len(str(item))}:{item}:{salt}".encode()).hexdigest()[:16]


def bounded(events: Iterable[Event], limit: int, salt: str) -> list[Event]:
    """At most `limit` items of every user."""
    items: defaultdict[Label, set[Label]] = defaultdict(set)
    for user, item in events:
        if user is not None and item is not None:
            items[user].add(item)
    return [
        (user, item) for user, own in items.items() for item in sorted(own, key=lambda i, u=user: (rank(u, i, salt), i))[:limit]
    ]


def _csv(events: Sequence[Event], folder: Path) -> Path:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(NAMES)
    writer.writerows(events)
    return _write(folder / "log [1]*.csv", stream.getvalue().encode())


def _csv_gz(events: Sequence[Event], folder: Path) -> Path:
    return _write(folder / "log.csv.gz", gzip.compress(b"\xef\xbb\xbf" + _csv(events, folder).read_bytes()))


def _jsonl(events: Sequence[Event], folder: Path) -> Path:
    lines = [json.dumps(dict(zip(NAMES, event, strict=True))) for event in events]
    return _write(folder / "user=5.jsonl", "\n".join(lines).encode())


def _jsonl_gz(events: Sequence[Event], folder: Path) -> Path:
    lines = [json.dumps({k: v for k, v in zip(NAMES, event, strict=True) if v is not None}) for event in events]
    return _write(folder / "log.ndjson.gz", gzip.compress("\r\n".join(lines).encode()))


def _parquet(events: Sequence[Event], folder: Path) -> Path:
    path = folder / "it's ?.parquet"
    pq.write_table(arrow(events), path)
    return path


def arrow(events: Sequence[Event], _: Path | None = None) -> pa.Table:
    """A pyarrow Table."""
    return pa.table({name: [event[place] for event in events] for place, name in enumerate(NAMES)})


def _objects(events: Sequence[Event], _: Path) -> pd.DataFrame:
    return pd.DataFrame(list(events), columns=list(NAMES), dtype=object)


def _categories(events: Sequence[Event], _: Path) -> pa.Table:
    table = arrow(events)
    return pa.table({name: table[name].dictionary_encode() for name in NAMES})


def _polars(events: Sequence[Event], _: Path) -> pl.DataFrame:
    return pl.DataFrame(arrow(events).to_pydict(), strict=True)


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


FORMS: dict[str, Callable[[Sequence[Event], Path], Any]] = {
    "csv": _csv,
    "csv.gz": _csv_gz,
    "jsonl": _jsonl,
    "jsonl.gz": _jsonl_gz,
    "parquet": _parquet,
    "arrow": arrow,
    "arrow dictionary": _categories,
    "pandas objects": _objects,
    "polars": _polars,
}
"""How a log of text or of integers is handed over; text formats turn integers into text."""
