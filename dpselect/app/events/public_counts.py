"""Public counts that a `Profile` is made of: a published log, or a column of a CSV file."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accounting.address import mask
from accounting.numbers import Floats, Integers
from dpselect.app.events.catalog import ListOptions, labels_in
from dpselect.app.events.engine import open_engine
from dpselect.app.events.file_options import FILE_OPTIONS
from dpselect.app.events.reading import Reading
from dpselect.app.events.rows import read_events
from dpselect.errors import EventLogError, InvalidRequest

_PAIRS_OF = (
    "CREATE TEMP TABLE pairs AS SELECT DISTINCT u, i FROM ({log}) WHERE u IS NOT NULL AND i IS NOT"
    " NULL"
)
_COUNTS = (
    "SELECT n, count(*) AS many FROM (SELECT count(*) AS n FROM pairs GROUP BY {column}) GROUP BY n"
    " ORDER BY n"
)


class PublicLog(NamedTuple):
    """Counts of a public log.

    Attributes:
        counts: (counts,) distinct numbers of users of an item, highest first.
        items: (counts,) number of items with each.
        loads: (loads,) distinct numbers of items of a user, ascending.
        users: (loads,) number of users with each.
    """

    counts: Floats
    items: Integers
    loads: Floats
    users: Floats


def users_in(path: Path, columns: Mapping[str, Any], files: Mapping[str, Any]) -> PublicLog:
    """Return the distinct users per item and items per user of a public log.

    Args:
        path: a file, one row per event.
        columns: columns `user` and `item`.
        files: fields of `FileOptions`.

    Raises:
        InvalidRequest: a field is none of a file's, or the file cannot be read, has no such
            columns, or no event.
    """
    for name in files.keys() - FILE_OPTIONS:
        raise InvalidRequest(
            f"{name}={files[name]!r} is no option of a file, and a profile is of the whole log."
            " Leave it out, or write the events that are meant into a file of their own; the"
            f" options are {', '.join(FILE_OPTIONS)}"
        )
    try:
        request = (reading := Reading(**columns, **files)).request(path)
        with open_engine(reading.memory_limit) as engine:
            log = read_events(engine, request)
            engine.run(_PAIRS_OF.format(log=log.sql), title=log.title)
            items, users = (
                engine.columns(_COUNTS.format(column=name), title=log.title) for name in ("i", "u")
            )
    except EventLogError as error:
        raise InvalidRequest(str(error)) from None
    if len(users["n"]) == 0:
        raise InvalidRequest(
            f"{mask(path)} holds no event with a user and an item. Name another log"
        )
    return PublicLog(
        items["n"].astype(np.float64)[::-1].copy(),
        items["many"].astype(np.int64)[::-1].copy(),
        users["n"].astype(np.float64),
        users["many"].astype(np.float64),
    )


def counts_in(path: Path, column: str | None) -> list[float]:
    """Return the numbers in a column of a CSV file, read as a public list is.

    A file's only column needs neither name nor header.

    Raises:
        InvalidRequest: the file cannot be read, has no such column, or holds other things.
    """
    title = f"file of counts {mask(path)}"
    try:
        texts = labels_in(
            path, column, None, ListOptions(format="csv", header=column is not None or None), title
        )
        return [
            float(text)
            for text in (texts if column is not None or _is_number(texts[:1]) else texts[1:])
        ]
    except EventLogError as error:
        raise InvalidRequest(str(error)) from None
    except ValueError:
        raise InvalidRequest(
            f"{title} holds something else than numbers in that column. Correct it, or name another"
        ) from None


def _is_number(texts: list[str]) -> bool:
    with contextlib.suppress(ValueError):
        return bool([float(text) for text in texts])
    return False
