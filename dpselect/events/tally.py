"""Items and their totals in an engine, and the few questions that a release asks of them. Theorem X14."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting.errors import ForeignProcess
from accounting.process_state import ProcessState
from dpselect.errors import EventLogError
from dpselect.events.contributions import MOST_EXACT, Measure
from dpselect.events.private import NotPickled, ReadReport
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Numbers
from dpselect.selection import Label

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
        """So many different candidates of a public domain that have 0, uniformly."""
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
