"""Distinct users per item, or per group and item, bucket by bucket."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.events.catalogue import named, typed
from dpselect.events.contributions import PRESENT, Bound, Contributions
from dpselect.events.doors.base import SHORT, Kinds
from dpselect.events.engine import Engine
from dpselect.events.private import reported
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.staging import Staged, told
from dpselect.events.tally import Tally
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
@dataclass(frozen=True, slots=True, repr=False)
class CountedGroups:
    """The same for cells (group, item) in order of both: groups and items in the order of their labels.

    Attributes:
        groups, items: labels. Cells of group j are those from starts[j] to starts[j + 1]; item is the place of each one's item.
        counts, clipped: (cells,) and (clips, cells).
        present: (groups,) users' presence, each clipped to `PRESENT`, in units of 2^-20.
        pairs: distinct (user, group, item) before the bounds.
    """

    groups: list[Label]
    items: list[Label]
    starts: NDArray[np.int64]
    item: NDArray[np.int64]
    counts: NDArray[np.int64]
    clipped: NDArray[np.int64]
    present: NDArray[np.int64]
    pairs: int


def among(allowed: Contributions, reading: Reading, kinds: Kinds) -> Contributions:
    """What users may contribute to the items and groups that are looked at alone."""
    names = None if reading.within is None else named(reading.within, integers=kinds["item"] == "int")
    listed = None if reading.groups is None else named(reading.groups, integers=kinds["group"] == "int", what="groups")
    return replace(allowed, within=names, listed=listed)


def count(
    engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, progress: ProgressCallback | None
) -> Counted | CountedGroups:
    """Count every bucket and add up."""
    pairs = _tally(engine, staged, kinds, allowed, progress)
    if allowed.groups is not None:
        return _cells(engine, allowed, pairs, staged.what)
    labels, sums = _totals(engine, allowed, staged.what)
    return Counted(labels, sums[0], sums[1:], pairs)


def held(engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, progress: ProgressCallback | None) -> Tally:
    """The same counts, which stay in the engine. What drops them is the caller's."""
    what, numbers = staged.what, itertools.count()
    pairs = _tally(engine, staged, kinds, allowed, progress)
    engine.run(f"CREATE TABLE counted AS SELECT i, {_summed(allowed)} FROM totals GROUP BY i HAVING sum(n) > 0", what=what)
    engine.run("DROP TABLE totals", what=what)
    kept = int(engine.run("SELECT coalesce(sum(n), 0) FROM counted", what=what)[0][0])

    def listing(labels: Sequence[Label]) -> str:
        name = f"listed{next(numbers)}"
        _list(engine, name, "i", labels, "VARCHAR" if kinds["item"] == "str" else "HUGEINT", what)
        return name

    return Tally(
        run=lambda sql: engine.run(sql, what=what),
        listing=listing,
        bucket="CAST(hash(i) % 4096 AS BIGINT)",  # the engine's own hash: where an item is looked for decides nothing
        relation="counted",
        integers=kinds["item"] != "str",
        typed=kinds["item"] == "int",
        report=reported(staged.rows, staged.without, staged.left_out, pairs, kept),
        drop=lambda: None,
    )


def per_user(
    engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, progress: ProgressCallback | None
) -> NDArray[np.float64]:
    """(users,) how many items each user has, of every bucket."""
    _prepare(engine, kinds, allowed, staged.what)
    found = [np.empty(0)]
    for number in range(staged.buckets):
        if (relation := staged.bucket(number)) is not None:
            sql = f"SELECT CAST(count(*) AS DOUBLE) AS t FROM ({_distinct(relation, kinds, allowed)}) GROUP BY u"
            found += [np.array([size for (size,) in batch], dtype=np.float64) for batch in engine.batches(sql, what=staged.what)]
        told(progress, number + 2, staged.buckets)
    return np.concatenate(found)


def _tally(engine: Engine, staged: Staged, kinds: Kinds, allowed: Contributions, progress: ProgressCallback | None) -> int:
    """Make the table `totals`, in which an item has as many rows as buckets; how many pairs there are."""
    _prepare(engine, kinds, allowed, staged.what)
    pairs = 0
    for number in range(staged.buckets):
        if (relation := staged.bucket(number)) is not None:
            pairs += _add(engine, _distinct(relation, kinds, allowed), allowed, staged.what)
        told(progress, number + 2, staged.buckets)
    return pairs


def _prepare(engine: Engine, kinds: Kinds, allowed: Contributions, what: str) -> None:
    types = {SHORT[role]: "VARCHAR" if kind == "str" else "HUGEINT" for role, kind in kinds.items()}
    keys = ", ".join(f"{name} {types[name]}" for name in allowed.cell.split(", "))
    engine.run(f"CREATE TABLE totals ({keys}{''.join(f', {name} BIGINT' for name in ('n', *allowed.sums))})", what=what)
    if allowed.groups is not None:
        engine.run(f"CREATE TABLE presence (g {types['g']}, w BIGINT)", what=what)
    for name, column, labels in (("listed_items", "i", allowed.within), ("listed_groups", "g", allowed.listed)):
        if labels is not None:
            _list(engine, name, column, labels, types[column], what)


def _list(engine: Engine, name: str, column: str, labels: Sequence[Label], kind: str, what: str) -> None:
    """Make a table of those labels that the type can hold."""
    known = typed(labels, integers=kind != "VARCHAR")
    engine.run(f"CREATE TABLE {name} AS SELECT CAST(unnest(?) AS {kind}) AS {column}", [known], what=what)


def _distinct(relation: str, kinds: Kinds, allowed: Contributions) -> str:
    # Written numbers reach 2^64 - 1 and -2^63.
    named = ((SHORT[role], kind) for role, kind in kinds.items())
    keys = [f"CAST({name} AS HUGEINT) AS {name}" if kind == "digits" else name for name, kind in named]
    pairs = f"SELECT DISTINCT {', '.join(keys)} FROM {relation}"
    if allowed.summed is not None:
        pairs = f"SELECT {', '.join(keys)}, sum({allowed.summed.fine()}) AS s FROM {relation} GROUP BY ALL"
    if allowed.within is not None:
        pairs = f"SELECT * FROM ({pairs}) SEMI JOIN listed_items USING (i)"
    return pairs if allowed.listed is None else f"SELECT * FROM ({pairs}) SEMI JOIN listed_groups USING (g)"


def _add(engine: Engine, pairs: str, allowed: Contributions, what: str) -> int:
    """Add one bucket to the totals; how many pairs it has."""
    engine.run(f"CREATE OR REPLACE TEMP TABLE pairs AS {pairs}", what=what)
    found = int(engine.run("SELECT count(*) FROM pairs", what=what)[0][0])
    if allowed.groups is not None:
        _keep_groups(engine, allowed.groups, what)
    owner, kept = allowed.owner, (f"SELECT {allowed.owner}, i FROM pairs", list[object]())
    if allowed.bound is not None or allowed.clips:
        engine.run(f"CREATE OR REPLACE TEMP TABLE held AS SELECT {owner}, count(*) AS t FROM pairs GROUP BY {owner}", what=what)
    if allowed.bound is not None and _exceeds(engine, "held", allowed.bound, what):
        kept = allowed.bound.kept("pairs", "held", owner)
    weighed, sums = _weighed(kept[0], allowed), "".join(f", sum({name})" for name in allowed.sums)
    cell = allowed.cell
    engine.run(f"INSERT INTO totals SELECT {cell}, count(*){sums} FROM ({weighed}) GROUP BY {cell}", kept[1], what=what)
    return found


def _keep_groups(engine: Engine, bound: Bound, what: str) -> None:
    """Leave the pairs of the groups that each user keeps, and add these to what is present."""
    engine.run("CREATE OR REPLACE TEMP TABLE present AS SELECT DISTINCT u, g FROM pairs", what=what)
    engine.run("CREATE OR REPLACE TEMP TABLE attended AS SELECT u, count(*) AS t FROM present GROUP BY u", what=what)
    if _exceeds(engine, "attended", bound, what):
        sql, parameters = bound.kept("present", "attended", chosen="g")
        engine.run(f"CREATE OR REPLACE TEMP TABLE present AS {sql}", parameters, what=what)
        engine.run("CREATE OR REPLACE TEMP TABLE pairs AS SELECT * FROM pairs SEMI JOIN present USING (u, g)", what=what)
    weights = f"SELECT u, {PRESENT.weight()} AS w FROM (SELECT u, least(t, {bound.limit}) AS t FROM attended)"
    engine.run(f"INSERT INTO presence SELECT g, sum(w) FROM present JOIN ({weights}) USING (u) GROUP BY g", what=what)


def _exceeds(engine: Engine, weighed: str, bound: Bound, what: str) -> bool:
    return bool(engine.run(f"SELECT coalesce(max(t), 0) FROM {weighed}", what=what)[0][0] > bound.limit)


def _weighed(kept: str, allowed: Contributions) -> str:
    """The pairs that are kept, each with its weights."""
    if not allowed.clips:
        return kept
    if allowed.summed is not None:
        return f"SELECT *, {allowed.summed.weight()} AS w0 FROM ({kept}) JOIN pairs USING ({allowed.owner}, i)"
    owner, held = allowed.owner, "t" if allowed.bound is None else f"least(t, {allowed.bound.limit})"
    weights = ", ".join(f"{clip.weight()} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))
    return f"SELECT * FROM ({kept}) JOIN (SELECT {owner}, {weights} FROM (SELECT {owner}, {held} AS t FROM held)) USING ({owner})"


def _totals(engine: Engine, allowed: Contributions, what: str) -> tuple[list[Label], NDArray[np.int64]]:
    """Items and their (1 + clips, m) sums."""
    # In order of the label, numbers as numbers and text by code point, so that positions do not tell the order of the log.
    sql = f"SELECT i, {_summed(allowed)} FROM totals GROUP BY i HAVING sum(n) > 0 ORDER BY i"
    labels: list[Label] = []
    sums = [np.empty((0, 1 + len(allowed.sums)), dtype=np.int64)]
    for batch in engine.batches(sql, what=what):
        labels.extend(row[0] for row in batch)
        sums.append(np.array([row[1:] for row in batch], dtype=np.int64))
    return labels, np.ascontiguousarray(np.concatenate(sums).T)


def _cells(engine: Engine, allowed: Contributions, pairs: int, what: str) -> CountedGroups:
    """All cells, in columns: a log has many more of them than it has labels."""
    for table, column in (("groups", "g"), ("items", "i")):
        ranked = (
            f"SELECT {column}, row_number() OVER (ORDER BY {column}) - 1 AS place FROM (SELECT DISTINCT {column} FROM totals)"
        )
        engine.run(f"CREATE TABLE {table} AS {ranked}", what=what)
    summed = f"SELECT g, i, {_summed(allowed)} FROM totals GROUP BY g, i"
    places = f"SELECT groups.place AS g, items.place AS i, sums.* EXCLUDE (g, i) FROM ({summed}) AS sums"
    found = engine.columns(f"{places} JOIN groups USING (g) JOIN items USING (i) ORDER BY 1, 2", what=what)
    groups, items = (
        [row[0] for row in engine.run(f"SELECT {column} FROM {table} ORDER BY place", what=what)]
        for table, column in (("groups", "g"), ("items", "i"))
    )
    present = engine.columns("SELECT CAST(sum(w) AS BIGINT) AS w FROM presence GROUP BY g ORDER BY g", what=what)["w"]
    starts = np.searchsorted(found["g"], np.arange(len(groups) + 1))
    sums = np.array([found[name] for name in ("n", *allowed.sums)], dtype=np.int64)
    return CountedGroups(groups, items, starts, found["i"], sums[0], sums[1:], present, pairs)


def _summed(allowed: Contributions) -> str:
    return ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
