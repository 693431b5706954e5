"""Distinct users per item, bucket by bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.events.bounding import Bound
from dpselect.events.clipping import Clip
from dpselect.events.columns import SHORT
from dpselect.events.engine import Engine
from dpselect.events.rows import Kinds
from dpselect.events.staging import Staged
from dpselect.selection import Label


@final
@dataclass(frozen=True, slots=True, repr=False)
class Counted:
    """Items in the order of their labels, how many users each kept, and how many pairs there were before the bound.

    clipped: (clips, m) sums of users' weights, in units of 2^-20.
    """

    labels: list[Label]
    counts: NDArray[np.int64]
    clipped: NDArray[np.int64]
    pairs: int


@final
@dataclass(frozen=True, slots=True)
class Contributions:
    """What a user may contribute.

    within: the only items that are looked at, as the log's type; None for all.
    """

    bound: Bound | None
    clips: tuple[Clip, ...]
    within: list[Label] | None = None

    @property
    def sums(self) -> list[str]:
        """Columns of the totals beside the item and its counts."""
        return [f"w{place}" for place in range(len(self.clips))]


def count(
    engine: Engine,
    staged: Staged,
    kinds: Kinds,
    allowed: Contributions,
    *,
    buckets: int,
    after: Callable[[int], None],
) -> Counted:
    """Count every bucket and add up; `after(number)` is called when a bucket is done."""
    item = "VARCHAR" if kinds["item"] == "str" else "HUGEINT"
    columns = "".join(f", {name} BIGINT" for name in ("n", *allowed.sums))
    engine.run(f"CREATE TABLE totals (i {item}{columns})", what=staged.what)
    if allowed.within is not None:
        engine.run(f"CREATE TABLE listed AS SELECT CAST(unnest(?) AS {item}) AS i", [allowed.within], what=staged.what)
    pairs = 0
    for number in range(buckets):
        relation = staged.bucket(number)
        if relation is not None:
            pairs += _add(engine, _distinct(relation, kinds, listed=allowed.within is not None), allowed, staged.what)
        after(number)
    labels, sums = _totals(engine, allowed, staged.what)
    return Counted(labels, sums[0], sums[1:], pairs)


def _distinct(relation: str, kinds: Kinds, *, listed: bool) -> str:
    # Written numbers reach 2^64 - 1 and -2^63.
    named = ((SHORT[role], kind) for role, kind in kinds.items())
    keys = [f"CAST({name} AS HUGEINT) AS {name}" if kind == "digits" else name for name, kind in named]
    pairs = f"SELECT DISTINCT {', '.join(keys)} FROM {relation}"
    return f"SELECT * FROM ({pairs}) SEMI JOIN listed USING (i)" if listed else pairs


def _add(engine: Engine, pairs: str, allowed: Contributions, what: str) -> int:
    """Add one bucket to the totals; how many pairs it has."""
    engine.run(f"CREATE OR REPLACE TEMP TABLE pairs AS {pairs}", what=what)
    kept: tuple[str, list[object]] = ("SELECT u, i FROM pairs", [])
    if allowed.bound is not None or allowed.clips:
        engine.run("CREATE OR REPLACE TEMP TABLE held AS SELECT u, count(*) AS t FROM pairs GROUP BY u", what=what)
    if allowed.bound is not None and engine.run("SELECT coalesce(max(t), 0) FROM held", what=what)[0][0] > allowed.bound.limit:
        kept = allowed.bound.kept("pairs", "held")
    weighed, sums = _weighed(kept[0], allowed), "".join(f", sum({name})" for name in allowed.sums)
    engine.run(f"INSERT INTO totals SELECT i, count(*){sums} FROM ({weighed}) GROUP BY i", kept[1], what=what)
    return int(engine.run("SELECT count(*) FROM pairs", what=what)[0][0])


def _weighed(kept: str, allowed: Contributions) -> str:
    """The pairs that are kept, each with its weights."""
    if not allowed.clips:
        return kept
    held = "t" if allowed.bound is None else f"least(t, {allowed.bound.limit})"
    weights = ", ".join(f"{clip.weight()} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))
    return f"SELECT * FROM ({kept}) JOIN (SELECT u, {weights} FROM (SELECT u, {held} AS t FROM held)) USING (u)"


def _totals(engine: Engine, allowed: Contributions, what: str) -> tuple[list[Label], NDArray[np.int64]]:
    """Items and their (1 + clips, m) sums."""
    # In order of the label, numbers as numbers and text by code point, so that positions do not tell the order of the log.
    columns = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in ("n", *allowed.sums))
    sql = f"SELECT i, {columns} FROM totals GROUP BY i HAVING sum(n) > 0 ORDER BY i"
    labels: list[Label] = []
    sums = [np.empty((0, 1 + len(allowed.sums)), dtype=np.int64)]
    for batch in engine.batches(sql, what=what):
        labels.extend(row[0] for row in batch)
        sums.append(np.array([row[1:] for row in batch], dtype=np.int64))
    return labels, np.ascontiguousarray(np.concatenate(sums).T)
