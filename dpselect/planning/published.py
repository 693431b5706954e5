"""Counts and logs that are public, read from files."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from accounting.files import read_text
from dpselect.errors import InvalidRequest
from dpselect.planning.loads import Loads, PopularItems, bin_of
from dpselect.planning.score_levels import Floats, Indices
from dpselect.scores import Scores

MOST_USERS = 10**15  # beyond it a float does not tell one user
_HEAD = 1000  # items of a log that are kept one by one
_SQL = """
CREATE TEMP TABLE pairs AS SELECT DISTINCT {user} AS u, {item} AS i FROM log WHERE {user} IS NOT NULL AND {item} IS NOT NULL;
CREATE TEMP TABLE best AS SELECT i, row_number() OVER (ORDER BY count(*) DESC, i) - 1 AS rank FROM pairs GROUP BY i;
"""
_LOADS = """
WITH loads AS (SELECT u, count(*) AS t FROM pairs GROUP BY u)
SELECT rank AS i, t, count(*) AS n FROM pairs JOIN loads USING (u) JOIN best USING (i) GROUP BY rank, t
"""
_USERS = f"""
SELECT rank AS i, dense_rank() OVER (ORDER BY u) - 1 AS u FROM pairs JOIN best USING (i) WHERE rank < {_HEAD} ORDER BY rank
"""


def users_in(path: Path, user: str, item: str) -> tuple[Floats, Indices, Loads, float]:
    """Distinct counts, how many items have each, the items per user of those items' users, and the number of users."""
    import duckdb

    quoted = {name: '"' + column.replace('"', '""') + '"' for name, column in (("user", user), ("item", item))}
    try:
        with duckdb.connect() as connection:
            name = str(path)
            log = connection.read_parquet(name) if path.suffix == ".parquet" else connection.read_csv(name)
            connection.register("log", log)
            connection.execute(_SQL.format(**quoted))
            found, head = (connection.execute(sql).fetchnumpy() for sql in (_LOADS, _USERS))
    except (duckdb.Error, OSError) as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be read as a log ({type(error).__name__}): name a CSV or Parquet file with the columns "
            f"{user!r} and {item!r}"
        ) from None
    if len(found["t"]) == 0:
        raise InvalidRequest(f"{str(path)!r} holds no event with a user and an item: name another log")
    loads, users = (np.asarray(found[name]).astype(np.float64) for name in ("t", "n"))
    return _summed(found["i"], loads, users, head)


def _summed(item: Indices, loads: Floats, users: Floats, head: Mapping[str, np.ndarray]) -> tuple[Floats, Indices, Loads, float]:
    """From rows (rank of an item, items of a user, how many such users it has), and the (rank, user) of the first ranks."""
    bins, place = np.unique(bin_of(loads), return_inverse=True)
    sizes = np.bincount(place, users * loads) / np.bincount(place, users)
    touching = np.zeros((int(item.max()) + 1, len(bins)))
    np.add.at(touching, (item, place), users)
    totals, starts = touching.sum(axis=1), np.concatenate([[0], np.cumsum(np.bincount(head["i"]))])
    tail, level, members = np.unique(-totals[_HEAD:], return_inverse=True, return_counts=True)
    shares = np.zeros((len(tail), len(bins)))
    np.add.at(shares, level, touching[_HEAD:])
    shares = np.concatenate([touching[:_HEAD], shares])
    people = np.bincount(place, users / loads)  # a user with t items is in t rows
    one_by_one = len(totals[:_HEAD])
    of = np.concatenate([np.arange(one_by_one), np.full(len(tail), -1)])
    known = Loads(
        sizes,
        people / people.sum(),
        shares / shares.sum(axis=1, keepdims=True),
        PopularItems(of, starts, head["u"].astype(np.int64)),
    )
    counts = np.concatenate([totals[:_HEAD], -tail])
    return counts, np.concatenate([np.ones(one_by_one), members]).astype(np.int64), known, float(people.sum())


def counts_in(path: Path, column: str | None) -> list[float]:
    """The numbers in a column of a CSV file."""
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, InvalidRequest, "the file of counts"), newline="")))
    except csv.Error as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be read as CSV ({type(error).__name__}): name a text file with counts, in UTF-8"
        ) from None
    place = _place(path, rows[0] if rows else [], column)
    return [_number(path, line, row, place) for line, row in enumerate(rows[1:], start=2) if row]


def _place(path: Path, header: list[str], column: str | None) -> int:
    names = [name.strip() for name in header]
    if column is None and len(names) == 1:
        _require_name(path, names[0])
        return 0
    if column in names:
        return names.index(column)
    wanted = "no column is named" if column is None else f"column {column!r} is missing"
    raise InvalidRequest(
        f"{str(path)!r}: {wanted}; its first line has the columns {', '.join(names) or 'none'}: name one of them"
    )


def _require_name(path: Path, header: str) -> None:
    """A number in the first line is a count that would be lost, of the top item as a rule."""
    with contextlib.suppress(ValueError):
        float(header)
        raise InvalidRequest(f"{str(path)!r} begins with a number: put the column's name in the first line, counts below it")


def _number(path: Path, line: int, row: list[str], place: int) -> float:
    try:
        return float(row[place])
    except (IndexError, ValueError):
        raise InvalidRequest(f"{str(path)!r}, line {line}: the column holds something else than a number") from None


def checked(counts: ArrayLike) -> Floats:
    """Counts as numbers, if they are such: finite, from 0 to 10^15, one per item."""
    if isinstance(counts, Scores):
        raise InvalidRequest("counts are private Scores: a plan that looks at them leaks them. Give public or made-up counts")
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidRequest("counts must be a one-dimensional array of numbers, one per item") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidRequest("counts must be a non-empty one-dimensional array: one number per item")
    if not np.isfinite(array).all():
        raise InvalidRequest("counts contain NaN or infinity: every count must be a finite number; clean them at the source")
    if (array < 0).any():
        raise InvalidRequest("counts contain a negative number: a count of users is >= 0")
    if (array > MOST_USERS).any():
        raise InvalidRequest(f"counts contain a number above {MOST_USERS:,}: a count is of users")
    return array
