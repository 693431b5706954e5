"""Distinct users per item, or per group and item, bucket by bucket; and totals that stay in the engine. Theorem X14."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting.errors import ForeignProcess
from accounting.process_state import ProcessState
from dpselect.errors import EventLogError
from dpselect.events.catalogue import named, typed
from dpselect.events.contributions import MOST_EXACT, PRESENT, ContributionLimit, Contributions, Measure
from dpselect.events.doors.base import Kind, Kinds
from dpselect.events.engine import Engine
from dpselect.events.private import NotPickled, ReadReport
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.staging import Staged, told
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Numbers
from dpselect.selection import Label

_RANKED_AT_ONCE = 4_000_000  # pairs of integers, about 60 bytes each; texts take as much again, and more


@final
@dataclass(frozen=True, slots=True, repr=False)
class ItemCounts:
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
    engine: Engine, staged: Staged, allowed: Contributions, progress: ProgressCallback | None
) -> ItemCounts | CountedGroups:
    """Count the pairs of the log under these bounds. May be asked again and again, with others."""
    pairs = _tally(engine, staged, allowed, progress)
    if allowed.groups is not None:
        return _cells(engine, allowed, pairs, staged)
    labels, sums = _totals(engine, "totals", allowed, staged)
    return ItemCounts(labels, sums[0], sums[1:], pairs)


def counted_at_once(engine: Engine, staged: Staged, allowed: Contributions, progress: ProgressCallback | None) -> ItemCounts:
    """The counts of a log that `prepared` has counted, with no bound and no clip."""
    item, listed = "CAST(i AS HUGEINT) AS i" if staged.kinds["item"] == "digits" else "i", ""
    if allowed.within is not None:
        _list(engine, "listed_items", "i", allowed.within, _stored(staged.kinds["item"]), staged.what)
        listed = " SEMI JOIN listed_items USING (i)"
    found = f"SELECT * FROM (SELECT {item}, n FROM totals WHERE apart = 0){listed}"
    labels, sums = _totals(engine, f"({found})", allowed, staged)
    told(progress, 1, 1)
    return ItemCounts(labels, sums[0], sums[1:], int(sums[0].sum()))


def held(engine: Engine, staged: Staged, allowed: Contributions, progress: ProgressCallback | None, *, number: int = 0) -> Tally:
    """The same counts, which stay in the engine, under a name with this number."""
    what, kinds, table, listed = staged.what, staged.kinds, f"counted_{number}", list[str]()
    pairs = _tally(engine, staged, allowed, progress)
    summed = f"SELECT i, {_summed(allowed)} FROM totals GROUP BY i HAVING sum(n) > 0"
    label = _label("i", kinds["item"])
    engine.run(f"CREATE TABLE {table} AS SELECT * REPLACE ({label} AS i) FROM ({summed})", what=what)
    engine.run("DROP TABLE totals", what=what)
    kept = _number(engine, f"SELECT sum(n) FROM {table}", what)

    def listing(labels: Sequence[Label]) -> str:
        listed.append(f"listed_{number}_{len(listed)}")
        _list(engine, listed[-1], "i", labels, "VARCHAR" if _is_text(kinds["item"]) else "HUGEINT", what)
        return listed[-1]

    def drop() -> None:
        for name in (table, *listed):
            engine.run(f"DROP TABLE {name}", what=what)

    return Tally(
        run=lambda sql: engine.run(sql, what=what),
        listing=listing,
        bucket="CAST(hash(i) % 4096 AS BIGINT)",  # the engine's own hash: where an item is looked for decides nothing
        relation=table,
        integers=not _is_text(kinds["item"]),
        typed=kinds["item"] == "int",
        report=staged.report(pairs, kept),
        drop=drop,
    )


def per_user(engine: Engine, staged: Staged, allowed: Contributions) -> NDArray[np.float64]:
    """(users,) how many items each user has, of those that are looked at."""
    _prepare(engine, staged.kinds, allowed, staged.what)
    looked = "pairs" if allowed.within is None else "pairs SEMI JOIN listed_items USING (i)"
    return engine.columns(f"SELECT CAST(count(*) AS DOUBLE) AS t FROM {looked} GROUP BY u", what=staged.what)["t"]


def _tally(engine: Engine, staged: Staged, allowed: Contributions, progress: ProgressCallback | None) -> int:
    """Make the table `totals`, in which an item may have several rows; how many pairs there are."""
    _prepare(engine, staged.kinds, allowed, staged.what)
    looked = "pairs"
    for name, column, labels in (("listed_items", "i", allowed.within), ("listed_groups", "g", allowed.listed)):
        looked = looked if labels is None else f"(SELECT * FROM {looked} SEMI JOIN {name} USING ({column}))"
    parts = 1 if allowed.groups is None else staged.buckets
    pairs = 0
    for number in range(parts):
        part = looked if parts == 1 else f"(SELECT * FROM {looked} WHERE hash(u) % {parts} = {number})"
        pairs += _add(engine, part, allowed, staged)
        told(progress, number + 1, parts)
    return pairs


def _prepare(engine: Engine, kinds: Kinds, allowed: Contributions, what: str) -> None:
    sums = "".join(f", CAST(0 AS BIGINT) AS {name}" for name in ("n", *allowed.sums))
    engine.run(f"CREATE OR REPLACE TABLE totals AS SELECT {allowed.cell}{sums} FROM pairs LIMIT 0", what=what)
    if allowed.groups is not None:
        engine.run("CREATE OR REPLACE TABLE presence AS SELECT g, CAST(0 AS BIGINT) AS w FROM pairs LIMIT 0", what=what)
    for name, column, labels in (("listed_items", "i", allowed.within), ("listed_groups", "g", allowed.listed)):
        if labels is not None:
            _list(engine, name, column, labels, _stored(kinds["item" if column == "i" else "group"]), what)


def _stored(kind: Kind) -> str:
    return "VARCHAR" if kind == "str" else "HUGEINT"


def _is_text(kind: Kind) -> bool:
    """Whether labels are released as text, whatever they are stored as."""
    return kind in ("str", "numeral")


def _label(column: str, kind: Kind) -> str:
    """SQL of a column of labels, in whose order they are released."""
    return f"CAST({column} AS VARCHAR)" if kind == "numeral" else column


def _list(engine: Engine, name: str, column: str, labels: Sequence[Label], kind: str, what: str) -> None:
    """Make a table of those labels that the type can hold."""
    known = typed(labels, integers=kind != "VARCHAR")
    engine.run(f"CREATE OR REPLACE TABLE {name} AS SELECT CAST(unnest(?) AS {kind}) AS {column}", [known], what=what)


def _add(engine: Engine, pairs: str, allowed: Contributions, staged: Staged) -> int:
    """Add the pairs of some users to the totals; how many there are, before the bounds."""
    what, owner, found = staged.what, allowed.owner, None
    weighed = allowed.bound is not None or bool(allowed.clips)
    if allowed.groups is not None or (allowed.within is not None and weighed):
        engine.run(f"CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM {pairs}", what=what)
        pairs = "part"
    if allowed.groups is not None:
        found = _number(engine, "SELECT count(*) FROM part", what)
        _keep_groups(engine, allowed.groups, what)
    if not weighed:
        _insert(engine, pairs, allowed, what)
        return _number(engine, "SELECT sum(n) FROM totals", what) if found is None else found
    engine.run(f"CREATE OR REPLACE TEMP TABLE held AS SELECT {owner}, count(*) AS t FROM {pairs} GROUP BY {owner}", what=what)
    found = _number(engine, "SELECT sum(t) FROM held", what) if found is None else found
    if allowed.bound is None or not _exceeds(engine, "held", allowed.bound, what):
        _insert(engine, _weighed(pairs, "held", allowed), allowed, what)
        return found
    _insert(engine, _weighed(pairs, f"(SELECT * FROM held WHERE t <= {allowed.bound.limit})", allowed), allowed, what)
    _add_ranked(engine, pairs, allowed, allowed.bound, staged)
    return found


def _add_ranked(engine: Engine, pairs: str, allowed: Contributions, bound: ContributionLimit, staged: Staged) -> None:
    """Add what is kept of owners beyond the bound, who alone are ranked: in parts, since that takes memory."""
    owner, beyond = allowed.owner, f"SEMI JOIN (SELECT {allowed.owner} FROM held WHERE t > {bound.limit}) USING ({allowed.owner})"
    many = _number(engine, f"SELECT sum(t) FROM held WHERE t > {bound.limit}", staged.what)
    texts = sum(staged.kinds[role] == "str" for role in ("user", "item"))
    parts = max(staged.buckets if staged.stated else 1, -(-many * (1 + 2 * texts) // _RANKED_AT_ONCE))
    for number in range(parts):
        part = "" if parts == 1 else f" WHERE hash(u) % {parts} = {number}"
        ranked, parameters = bound.ranked(f"(SELECT * FROM {pairs} {beyond}{part})", owner)
        _insert(
            engine,
            f"(SELECT *{_weights(allowed)} FROM (SELECT *, {bound.limit} AS t FROM ({ranked})))",
            allowed,
            staged.what,
            parameters,
        )


def _insert(engine: Engine, weighed: str, allowed: Contributions, what: str, parameters: Sequence[object] = ()) -> None:
    sums = "".join(f", sum({name})" for name in allowed.sums)
    engine.run(
        f"INSERT INTO totals SELECT {allowed.cell}, count(*){sums} FROM {weighed} GROUP BY {allowed.cell}", parameters, what=what
    )


def _number(engine: Engine, sql: str, what: str) -> int:
    return int(engine.run(sql, what=what)[0][0] or 0)


def _keep_groups(engine: Engine, bound: ContributionLimit, what: str) -> None:
    """Leave the pairs of the groups that each user keeps, and add these to what is present."""
    engine.run("CREATE OR REPLACE TEMP TABLE present AS SELECT DISTINCT u, g FROM part", what=what)
    engine.run("CREATE OR REPLACE TEMP TABLE attended AS SELECT u, count(*) AS t FROM present GROUP BY u", what=what)
    if _exceeds(engine, "attended", bound, what):
        sql, parameters = bound.kept("present", "attended", chosen="g")
        engine.run(f"CREATE OR REPLACE TEMP TABLE present AS {sql}", parameters, what=what)
        engine.run("CREATE OR REPLACE TEMP TABLE part AS SELECT * FROM part SEMI JOIN present USING (u, g)", what=what)
    weights = f"SELECT u, {PRESENT.weight()} AS w FROM (SELECT u, least(t, {bound.limit}) AS t FROM attended)"
    engine.run(f"INSERT INTO presence SELECT g, sum(w) FROM present JOIN ({weights}) USING (u) GROUP BY g", what=what)


def _exceeds(engine: Engine, weighed: str, bound: ContributionLimit, what: str) -> bool:
    return bool(engine.run(f"SELECT coalesce(max(t), 0) FROM {weighed}", what=what)[0][0] > bound.limit)


def _weighed(pairs: str, held: str, allowed: Contributions) -> str:
    """The pairs of the owners in `held`, who all keep theirs, each with its weights."""
    owner = allowed.owner
    if allowed.summed is not None or not allowed.clips:
        return f"(SELECT *{_weights(allowed)} FROM {pairs} SEMI JOIN {held} USING ({owner}))"
    return f"(SELECT * FROM {pairs} JOIN (SELECT {owner}{_weights(allowed)} FROM {held}) USING ({owner}))"


def _weights(allowed: Contributions) -> str:
    """SQL columns of the weights of a pair, from t, how many its owner keeps, or s, what its owner adds."""
    return "".join(f", {clip.weight()} AS {name}" for clip, name in zip(allowed.clips, allowed.sums, strict=True))


def _totals(engine: Engine, totals: str, allowed: Contributions, staged: Staged) -> tuple[list[Label], NDArray[np.int64]]:
    """Items and their (1 + clips, m) sums."""
    # In order of the label, numbers as numbers and text by code point, so that positions do not tell the order of the log.
    grouped = f"SELECT i, {_summed(allowed)} FROM {totals} GROUP BY i HAVING sum(n) > 0"
    kind = staged.kinds["item"]
    digits = kind == "digits"  # wider than 64 bits, which arrays do not hold
    shown = "REPLACE (CAST(i AS VARCHAR) AS i) " if digits or kind == "numeral" else ""
    found = engine.columns(f"SELECT * {shown}FROM ({grouped}) AS g ORDER BY {_label('g.i', kind)}", what=staged.what)
    labels = found.pop("i").tolist()
    return [int(label) for label in labels] if digits else labels, np.array(list(found.values()), dtype=np.int64)


def _cells(engine: Engine, allowed: Contributions, pairs: int, staged: Staged) -> CountedGroups:
    """All cells, in columns: a log has many more of them than it has labels."""
    what, group, item = staged.what, _label("g", staged.kinds["group"]), _label("i", staged.kinds["item"])
    for table, column, label in (("groups", "g", group), ("items", "i", item)):
        ranked = f"SELECT {column}, row_number() OVER (ORDER BY {label}) - 1 AS place FROM (SELECT DISTINCT {column} FROM totals)"
        engine.run(f"CREATE OR REPLACE TABLE {table} AS {ranked}", what=what)
    summed = f"SELECT g, i, {_summed(allowed)} FROM totals GROUP BY g, i"
    places = f"SELECT groups.place AS g, items.place AS i, sums.* EXCLUDE (g, i) FROM ({summed}) AS sums"
    found = engine.columns(f"{places} JOIN groups USING (g) JOIN items USING (i) ORDER BY 1, 2", what=what)
    groups, items = (
        [row[0] for row in engine.run(f"SELECT {label} FROM {table} ORDER BY place", what=what)]
        for table, label in (("groups", group), ("items", item))
    )
    present = engine.columns(f"SELECT CAST(sum(w) AS BIGINT) AS w FROM presence GROUP BY g ORDER BY {group}", what=what)["w"]
    starts = np.searchsorted(found["g"], np.arange(len(groups) + 1))
    sums = np.array([found[name] for name in ("n", *allowed.sums)], dtype=np.int64)
    return CountedGroups(groups, items, starts, found["i"], sums[0], sums[1:], present, pairs)


def _summed(allowed: Contributions) -> str:
    return ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in ("n", *allowed.sums))


_AT_ONCE = 5000  # rows that one statement writes out
_TRIES, _MOST_TRIES = 64, 100_000  # candidates that are tried at a time, at least and at most
_CHANGED = "the engine's counts changed while they were drawn from: nothing is released; read the log again"
_CLOSED = "the held counts are closed: release from them inside the with block, or read the log again with events.hold"
_FAILED = "the held counts were closed by a release that failed half-way: read the log again with events.hold"
Listed = Sequence[Label]


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Tally(NotPickled):
    """Items and their totals in an engine. Threads may share it, a fork of its process may not use it.

    Attributes:
        run: the rows of a query.
        listing: makes labels a relation with the column i, and returns its name.
        bucket: SQL of a number from 0 that items are looked for by: a function of i alone.
        relation: columns i, all different; n, users; w0, w1, ..., sums of weights in whole units of each measure.
        integers: whether items are integers.
        typed: whether the log's type says so, not its values.
        report: what was read. **Private**.
        drop: drops all of it.
        ended: why nothing more is released; empty while something may be.
    """

    run: Callable[[str], list[tuple[Any, ...]]]
    listing: Callable[[Listed], str]
    bucket: str
    relation: str
    integers: bool
    typed: bool
    report: ReadReport
    drop: Callable[[], None]
    ended: ProcessState[str] = field(
        default_factory=lambda: ProcessState(
            "", owner="the table of held counts", remedy="read the log in each process with events.hold"
        )
    )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Questions of one thread, while no other asks."""
        with self.ended.locked() as ended:
            if ended:
                raise EventLogError(ended)
            yield

    @contextmanager
    def release(self) -> Iterator[None]:
        """A turn that draws: whatever fails or is interrupted in it closes the table."""
        with self.locked():
            self.ended.value = _FAILED
            yield
            self.ended.value = ""

    def close(self) -> None:
        """Drop all of it, after a release that another thread draws. A fork leaves it to the process that made it."""
        with suppress(ForeignProcess), self.ended.locked():
            self.ended.value = _CLOSED
            self.drop()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Candidates with one number each, a whole number >= 0, in an engine.

    Attributes:
        column: what the number is called there.
        measure: what it is a sum of, in whole units; None for users.
        names: the public domain, as it is released; None for the items of the log.
        listed: the relation with the column i that holds them, unless they are a range.
    """

    tally: Tally
    column: str
    measure: Measure | None = None
    names: Listed | None = None
    listed: str = ""

    @property
    def domain(self) -> Domain:
        """Whether the candidates are known independently of the data."""
        return "observed" if self.names is None else "public"

    def highest(self, count: int) -> tuple[list[Label], Numbers]:
        """The `count` highest numbers above 0 and their items, highest first, ties by label."""
        rows = self.tally.run(f"SELECT i, v FROM ({self._seen()}) AS seen ORDER BY v DESC, i LIMIT {count}")
        return [row[0] for row in rows], self._scores([row[1] for row in rows])

    def histogram(self) -> tuple[Numbers, NDArray[np.int64]]:
        """Every distinct number, and how many candidates have it. In an observed domain nobody has 0."""
        rows = self.tally.run(f"SELECT v, count(*) AS m FROM ({self._seen()}) AS seen GROUP BY v ORDER BY v")
        untouched = 0 if self.names is None else len(self.names) - sum(row[1] for row in rows)
        if untouched or not rows:
            rows = [(0, max(untouched, 1)), *rows]
        return self._scores([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=np.int64)

    def labels(self, chosen: Sequence[tuple[int, int]], values: Numbers, source: Sampler) -> list[Label]:
        """The items of pairs (place in `values`, number within those that have it), all different."""
        units = self._units(values)
        pairs = [(units[group], member) for group, member in chosen]
        found = self._found([pair for pair in pairs if pair[0] > 0])
        rest = iter(self._untouched(sum(unit == 0 for unit, _ in pairs), source))
        written = {} if self.names is None or isinstance(self.names, range) else {str(name): name for name in self.names}
        labels = [found[pair] if pair[0] > 0 else next(rest) for pair in pairs]
        return [written.get(str(label), label) for label in labels]

    def scores_of(self, labels: Listed) -> Numbers:
        """The numbers of these items, 0 for one that is not there."""
        known = {str(label): unit for label, unit in self._among(labels)}
        return self._scores([known.get(str(label), 0) for label in labels])

    def _seen(self) -> str:
        """SQL (i, v) of the candidates above 0."""
        above = f"SELECT i, {self._number()} AS v FROM {self.tally.relation} WHERE {self.column} > 0"
        if self.names is None:
            return above
        if not isinstance(self.names, range):
            return f"SELECT i, v FROM ({above}) AS above SEMI JOIN {self.listed} USING (i)"
        (low, high), step = sorted((self.names[0], self.names[-1])), abs(self.names.step)
        return f"SELECT i, v FROM ({above}) AS above WHERE i >= {low} AND i <= {high} AND (i - {low}) % {step} = 0"

    def _number(self) -> str:
        """SQL of the number; sums are cut as `Amount.as_scores` cuts them, so that different ones are different scores."""
        return f"least({self.column}, {MOST_EXACT})"

    def _found(self, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Label]:
        """The items of pairs (number above 0, place among those that have it, by bucket and label)."""
        if not pairs:
            return {}
        bucketed = f"SELECT i, v, {self.tally.bucket} AS b FROM ({self._seen()}) AS seen"
        places, found = self._places(pairs, bucketed), dict[tuple[int, int], Label]()
        for part in _parts([(unit, *place, member) for (unit, member), place in zip(pairs, places, strict=True)]):
            wanted = ", ".join(f"({unit}, {bucket}, {place + 1})" for unit, bucket, place, _ in part)
            sought = f"SELECT DISTINCT v, b FROM (VALUES {wanted}) AS w(v, b, r)"
            inside = f"SELECT i, v, b FROM ({bucketed}) AS all_of_them SEMI JOIN ({sought}) AS sought USING (v, b)"
            numbered = f"SELECT i, v, b, row_number() OVER (PARTITION BY v, b ORDER BY i) AS r FROM ({inside}) AS inside"
            rows = self.tally.run(
                f"SELECT v, b, r, i FROM ({numbered}) AS n SEMI JOIN (VALUES {wanted}) AS w(v, b, r) USING (v, b, r)"
            )
            label_of = {tuple(row[:3]): row[3] for row in rows}
            if len(label_of) < len(part):
                raise EventLogError(_CHANGED)
            found |= {(unit, member): label_of[unit, bucket, place + 1] for unit, bucket, place, member in part}
        return found

    def _places(self, pairs: list[tuple[int, int]], bucketed: str) -> list[tuple[int, int]]:
        """(bucket, place in it) of every pair."""
        ends: dict[int, tuple[list[int], list[int]]] = {}
        for part in _parts(sorted({unit for unit, _ in pairs})):
            chosen = f"SELECT * FROM ({bucketed}) AS all_of_them WHERE v IN ({', '.join(map(str, part))})"
            rows = self.tally.run(f"SELECT v, b, count(*) AS m FROM ({chosen}) AS chosen GROUP BY v, b ORDER BY v, b")
            for unit, group in itertools.groupby(rows, key=lambda row: int(row[0])):
                listed = [(row[1], row[2]) for row in group]
                ends[unit] = [bucket for bucket, _ in listed], list(itertools.accumulate((m for _, m in listed), initial=0))
        return [_place(*ends[unit], member) for unit, member in pairs]

    def _untouched(self, count: int, source: Sampler) -> list[Label]:
        """A uniform draw of different candidates of a public domain that have 0."""
        names, found, tries = self.names or (), dict[Label, None](), max(_TRIES, 2 * count)
        while len(found) < count:
            tried = [names[place] for place in source.below(np.full(tries, len(names), dtype=np.int64)).tolist()]
            touched = {str(label) for label, unit in self._among(list(dict.fromkeys(tried))) if unit > 0}
            found |= dict.fromkeys(label for label in tried if str(label) not in touched)
            tries = min(2 * tries, _MOST_TRIES)
        return list(found)[:count]

    def _among(self, labels: Listed) -> list[tuple[Label, int]]:
        if not labels:
            return []
        known = f"SELECT i, {self._number()} AS v FROM {self.tally.relation} SEMI JOIN {self.tally.listing(labels)} USING (i)"
        return [(row[0], row[1]) for row in self.tally.run(known)]

    def _scores(self, units: Sequence[int]) -> Numbers:
        whole = np.array(units, dtype=np.int64)
        return whole if self.measure is None else self.measure.as_scores(whole)

    def _units(self, values: Numbers) -> list[int]:
        return values.tolist() if self.measure is None else (values / float(self.measure.unit)).astype(np.int64).tolist()


def _parts(items: Sequence[Any]) -> Iterable[list[Any]]:
    return ([*items[start : start + _AT_ONCE]] for start in range(0, len(items), _AT_ONCE))


def _place(buckets: list[int], ends: list[int], member: int) -> tuple[int, int]:
    """The bucket of the member of that number, and its place there, from the buckets and where each starts."""
    at = bisect_right(ends, member) - 1
    if at >= len(buckets):
        raise EventLogError(_CHANGED)
    return buckets[at], member - ends[at]
