"""Distinct users per item, bucket by bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.events.bounding import Bound
from dpselect.events.engine import Engine
from dpselect.events.rows import Kind
from dpselect.events.staging import Staged
from dpselect.selection import Label


@final
@dataclass(frozen=True, slots=True, repr=False)
class Counted:
    """Items in the order of their labels, how many users each kept, and how many pairs there were before the bound."""

    labels: list[Label]
    counts: NDArray[np.int64]
    pairs: int


def count(
    engine: Engine, staged: Staged, kinds: tuple[Kind, Kind], bound: Bound | None, *, buckets: int, after: Callable[[int], None]
) -> Counted:
    """Count every bucket and add up; `after(number)` is called when a bucket is done."""
    item = "VARCHAR" if kinds[1] == "str" else "HUGEINT"
    engine.run(f"CREATE TABLE totals (i {item}, n BIGINT, pairs BIGINT)", what=staged.what)
    for number in range(buckets):
        relation = staged.bucket(number)
        if relation is not None:
            _add(engine, _distinct(relation, kinds), bound, staged.what)
        after(number)
    return _totals(engine, staged.what)


def _distinct(relation: str, kinds: tuple[Kind, Kind]) -> str:
    # Written numbers reach 2^64 - 1 and -2^63.
    keys = [
        f"CAST({name} AS HUGEINT) AS {name}" if kind == "digits" else name for name, kind in zip(("u", "i"), kinds, strict=True)
    ]
    return f"SELECT DISTINCT {', '.join(keys)} FROM {relation}"


def _add(engine: Engine, pairs: str, bound: Bound | None, what: str) -> None:
    everything: tuple[str, list[object]] = (f"SELECT i, count(*) AS n, count(*) AS pairs FROM ({pairs}) GROUP BY i", [])
    sql, parameters = everything if bound is None else bound.kept(pairs)
    engine.run(f"INSERT INTO totals {sql}", parameters, what=what)


def _totals(engine: Engine, what: str) -> Counted:
    # In order of the label, numbers as numbers and text by code point, so that positions do not tell the order of the log.
    sql = "SELECT i, CAST(sum(n) AS BIGINT) AS n FROM totals GROUP BY i HAVING sum(n) > 0 ORDER BY i"
    labels: list[Label] = []
    counts: list[NDArray[np.int64]] = []
    for batch in engine.batches(sql, what=what):
        labels.extend(row[0] for row in batch)
        counts.append(np.fromiter((row[1] for row in batch), dtype=np.int64, count=len(batch)))
    pairs = engine.run("SELECT CAST(sum(pairs) AS BIGINT) FROM totals", what=what)[0][0]
    return Counted(labels, np.concatenate(counts), int(pairs))
