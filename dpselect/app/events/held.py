"""Counts and scores in the engine that read the log, from which mechanisms draw (Theorem X14)."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, cast, final

import numpy as np

from accounting.errors import ForeignProcess
from accounting.numbers import Integers
from accounting.process_state import ProcessState
from accounting.relations import Relation
from dpselect.app.events.catalog import Labels, named
from dpselect.app.events.contributions import (
    MOST_EXACT,
    Contributions,
    Measure,
    Measured,
    ReadReport,
    summed,
)
from dpselect.app.events.dialect import Tables, matches
from dpselect.app.events.not_pickled import NotPickled
from dpselect.app.events.sources.base import Kind
from dpselect.errors import DomainMismatch, EventLogError, InvalidRequest, NoClosedForm
from dpselect.mechanisms.gate import MechanismInput
from dpselect.mechanisms.weighs_again import WeighsAgain
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Numbers, Scores, SecondLook
from dpselect.selection import Label, Selection, label_key
from dpselect.sensitivity import Sensitivity

_LISTS = itertools.count()
_AT_ONCE = 5000  # rows that one statement writes out
_TRIES, _MOST_TRIES = 64, 100_000  # candidates that are tried at a time, at least and at most
_CHANGED = "the engine's counts changed during the draw, so nothing is released. Read the log again"
_CLOSED = (
    "the held counts are closed: release from them inside the with block, or read the log again"
    " with events.hold"
)
_FAILED = (
    "the held counts were closed by a release that failed half-way: read the log again with"
    " events.hold"
)


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Tally(NotPickled):
    """Items and their totals in an engine. Threads may share it, but not a fork of its process.

    Attributes:
        tables: the engine's relations, in which lists of labels are stored too.
        relation: columns i, all different; n, users; w0, w1, ..., sums of weights in whole units of
            each measure.
        kind: type of the items in the log.
        report: figures of the reading. **Private**.
        ended: reason why nothing more is released; empty while releases are possible.
    """

    tables: Tables
    relation: str
    kind: Kind
    report: ReadReport
    ended: ProcessState[str] = field(
        default_factory=lambda: ProcessState(
            "",
            owner="the table of held counts",
            remedy="read the log in each process with events.hold",
        )
    )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the engine for the questions of one thread."""
        with self.ended.locked() as ended:
            if ended:
                raise EventLogError(ended)
            yield

    @contextmanager
    def release(self) -> Iterator[None]:
        """Hold the engine for one draw. A failure or an interruption closes the table."""
        with self.locked():
            self.ended.value = _FAILED
            yield
            self.ended.value = ""

    def listed(self, labels: Sequence[Label]) -> str:
        """The name of a relation that holds these labels in the column i."""
        return self.tables.listed(f"listed_{next(_LISTS)}", labels, self.kind)

    def close(self) -> None:
        """Drop all relations, after any draw in another thread. In a fork it does nothing."""
        with suppress(ForeignProcess), self.ended.locked():
            self.ended.value = _CLOSED
            self.tables.close()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Candidates with one number each, a whole number >= 0, in an engine.

    Attributes:
        column: name of the number's column.
        measure: the measure that the number sums up, in whole units; None for users.
        names: the public domain, as it is released; None for the items of the log.
        listed: the relation of the public domain, with a column i; empty for a range.
    """

    tally: Tally
    column: str
    measure: Measure | None = None
    names: Sequence[Label] | None = None
    listed: str = ""

    @property
    def domain(self) -> Domain:
        """The domain, "public" if the candidates are known independently of the data."""
        return "observed" if self.names is None else "public"

    def highest(self, count: int) -> tuple[list[Label], Numbers]:
        """The `count` highest numbers above 0 and their items, highest first, ties by label."""
        rows = self.tally.tables.run(
            f"SELECT i, v FROM ({self._seen()}) AS seen ORDER BY v DESC, i LIMIT {count}"
        )
        return [row[0] for row in rows], self._scores([row[1] for row in rows])

    def histogram(self) -> tuple[Numbers, Integers]:
        """Every distinct number, and the number of candidates that have it.

        In an observed domain no candidate has 0, and there may be no candidate at all.
        """
        rows = self.tally.tables.run(
            f"SELECT v, count(*) AS m FROM ({self._seen()}) AS seen GROUP BY v ORDER BY v"
        )
        untouched = 0 if self.names is None else len(self.names) - sum(row[1] for row in rows)
        if untouched:
            rows = [(0, untouched), *rows]
        return self._scores([row[0] for row in rows]), np.array(
            [row[1] for row in rows], dtype=np.int64
        )

    def labels(
        self, chosen: Sequence[tuple[int, int]], values: Numbers, source: Sampler
    ) -> list[Label]:
        """Distinct items of (place in `values`, index among the items with that value) pairs."""
        units = (
            values if self.measure is None else (values / float(self.measure.unit)).astype(np.int64)
        ).tolist()
        pairs = [(units[group], member) for group, member in chosen]
        found = self._found([pair for pair in pairs if pair[0] > 0])
        rest = iter(self._untouched(sum(unit == 0 for unit, _ in pairs), source))
        labels = [found[pair] if pair[0] > 0 else next(rest) for pair in pairs]
        if isinstance(self.names, range):
            return [int(label) for label in labels]
        written = {str(name): name for name in self.names or ()}
        return [written.get(str(label), label) for label in labels]

    def scores_of(self, labels: Sequence[Label]) -> Numbers:
        """Numbers of these items, with 0 for an item that is not there."""
        known = {str(label): unit for label, unit in self._among(labels)}
        return self._scores([known.get(str(label), 0) for label in labels])

    def _seen(self) -> str:
        """SQL (i, v) of the candidates with a number above 0."""
        above = (
            f"SELECT i, {self._number()} AS v FROM {self.tally.relation} WHERE {self.column} > 0"
        )
        if self.names is None:
            return above
        if not isinstance(self.names, range):
            return f"SELECT i, v FROM ({above}) AS above SEMI JOIN {self.listed} USING (i)"
        (low, high), step = sorted((self.names[0], self.names[-1])), abs(self.names.step)
        number, dialect = "i", self.tally.tables.dialect
        if self.tally.kind == "str":  # as its decimal digits, where rows have told the type
            number = (
                f"CASE WHEN {matches('i', '0|-?[1-9][0-9]{0,18}', dialect)} THEN"
                f" {dialect.whole('i')} END"
            )
        among = f"SELECT i, v, {number} AS d FROM ({above}) AS above"
        return (
            f"SELECT i, v FROM ({among}) AS numbered WHERE d >= {low} AND d <= {high} AND (d -"
            f" {low}) % {step} = 0"
        )

    def _number(self) -> str:
        """SQL of the number, with sums cut as by `Amount.as_scores` so that they stay distinct."""
        return f"least({self.column}, {MOST_EXACT})"

    def _found(self, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Label]:
        """Items of (number above 0, index among the items that have it) pairs."""
        if not pairs:
            return {}
        bucketed = f"SELECT i, v, {self.tally.tables.bucket} AS b FROM ({self._seen()}) AS seen"
        places, found = self._places(pairs, bucketed), dict[tuple[int, int], Label]()
        for part in _parts(
            [(unit, *place, member) for (unit, member), place in zip(pairs, places, strict=True)]
        ):
            wanted = ", ".join(
                f"({unit}, {bucket}, {place + 1})" for unit, bucket, place, _ in part
            )
            sought = f"SELECT DISTINCT v, b FROM (VALUES {wanted}) AS w(v, b, r)"
            inside = (
                f"SELECT i, v, b FROM ({bucketed}) AS all_of_them SEMI JOIN ({sought}) AS sought"
                " USING (v, b)"
            )
            numbered = (
                "SELECT i, v, b, row_number() OVER (PARTITION BY v, b ORDER BY i) AS r FROM"
                f" ({inside}) AS inside"
            )
            rows = self.tally.tables.run(
                f"SELECT v, b, r, i FROM ({numbered}) AS n SEMI JOIN (VALUES {wanted}) AS w(v, b,"
                " r) USING (v, b, r)"
            )
            label_of = {tuple(row[:3]): row[3] for row in rows}
            if len(label_of) < len(part):
                raise EventLogError(_CHANGED)
            found |= {
                (unit, member): label_of[unit, bucket, place + 1]
                for unit, bucket, place, member in part
            }
        return found

    def _places(self, pairs: list[tuple[int, int]], bucketed: str) -> list[tuple[int, int]]:
        """The bucket of every pair, and the index within it."""
        ends: dict[int, tuple[list[int], list[int]]] = {}
        for part in _parts(sorted({unit for unit, _ in pairs})):
            chosen = (
                f"SELECT * FROM ({bucketed}) AS all_of_them WHERE v IN"
                f" ({', '.join(map(str, part))})"
            )
            rows = self.tally.tables.run(
                f"SELECT v, b, count(*) AS m FROM ({chosen}) AS chosen GROUP BY v, b ORDER BY v, b"
            )
            for unit, group in itertools.groupby(rows, key=lambda row: int(row[0])):
                listed = [(row[1], row[2]) for row in group]
                ends[unit] = (
                    [bucket for bucket, _ in listed],
                    list(itertools.accumulate((m for _, m in listed), initial=0)),
                )
        found = []
        for unit, member in pairs:
            buckets, starts = ends[unit]
            at = bisect_right(starts, member) - 1
            if at >= len(buckets):
                raise EventLogError(_CHANGED)
            found.append((buckets[at], member - starts[at]))
        return found

    def _untouched(self, count: int, source: Sampler) -> list[Label]:
        """A uniform draw of distinct candidates of a public domain whose number is 0."""
        names, found, tries = self.names or (), dict[Label, None](), max(_TRIES, 2 * count)
        while len(found) < count:
            tried = [
                names[place]
                for place in source.below(np.full(tries, len(names), dtype=np.int64)).tolist()
            ]
            touched = {
                str(label) for label, unit in self._among(list(dict.fromkeys(tried))) if unit > 0
            }
            found |= dict.fromkeys(label for label in tried if str(label) not in touched)
            tries = min(2 * tries, _MOST_TRIES)
        return list(found)[:count]

    def _among(self, labels: Sequence[Label]) -> list[tuple[Label, int]]:
        if not labels:
            return []
        known = (
            f"SELECT i, {self._number()} AS v FROM {self.tally.relation} SEMI JOIN"
            f" {self.tally.listed(labels)} USING (i)"
        )
        return [(row[0], row[1]) for row in self.tally.tables.run(known)]

    def _scores(self, units: Sequence[int]) -> Numbers:
        whole = np.array(units, dtype=np.int64)
        return whole if self.measure is None else self.measure.as_scores(whole)


def _parts(items: Sequence[Any]) -> Iterable[list[Any]]:
    return ([*items[start : start + _AT_ONCE]] for start in range(0, len(items), _AT_ONCE))


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldScores(MechanismInput):
    """Scores that stay in the engine, from `HeldCounts.scores`, as input of mechanisms. Immutable.

    Mechanisms for unknown domains get the highest counts (`LimitedDomain`, `TopStable`, gaps and
    stable sets) or the number of items with each count (`SparseHistogram`). Those for public
    domains that draw from groups (`OneshotTopK`, `PeelingTopK`, `ReportNoisyMax`, ...) get the
    latter. The drawn items are then looked up. The distribution of a selection is that of the dense
    draw.

    Attributes:
        sensitivity: the sensitivity to one user.
        second: the function that computes the scores of released candidates anew.
        sums: True if the scores add up amounts instead of counting users.
    """

    _table: Table
    sensitivity: Sensitivity
    second: SecondLook | None = None
    sums: bool = False

    def with_second(self, second: SecondLook) -> HeldScores:
        """A copy with another `second`."""
        return replace(self, second=second)

    def __len__(self) -> int:
        return 1  # a log is one round

    @property
    def domain(self) -> Domain:
        """The domain, "public" or "observed", as for Scores."""
        return self._table.domain

    @property
    def candidates(self) -> int:
        """Number of candidates in a public domain.

        Raises:
            DomainMismatch: the domain is observed, so that the number is private.
        """
        if self._table.names is None:
            raise DomainMismatch(
                "the number of items in a log is private. State a public catalog to count its"
                " candidates"
            )
        return len(self._table.names)

    def check(self, mechanism: Any) -> None:
        """Check that a mechanism can release from these scores.

        Raises:
            InvalidRequest: the mechanism looks at all scores one by one.
            EventLogError: the counts are closed.
            ForeignProcess: they were held before a fork.
            AccountingError: as for Scores.
        """
        with self._table.tally.locked():
            pass  # said before anything is charged
        mechanism.sensitivity_bound.require(self.sensitivity)
        if self.domain == "observed":
            mechanism._check_observed()
        choosing = mechanism.mechanism if _looks_again(mechanism) else mechanism
        first = choosing.discovery if hasattr(choosing, "continued") else choosing
        # Of items that are found by their counts neither their order nor the group that they belong
        # to is known.
        if self._reads(first) is None and not (
            first.traits.ranks_counts and first.traits.of("groups", first)
        ):
            raise InvalidRequest(
                f"{type(first).__name__} looks at all scores of a {self.domain} domain one by one,"
                " and these stay in the engine: read the log into memory, or choose LimitedDomain"
                " or SparseHistogram (unknown domain), OneshotTopK or PeelingTopK (public domain)"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        if self.domain == "public":
            mechanism._check_size(self.candidates)
        mechanism._check_stated()
        mechanism._check_scores(self._local([]))
        if source.constant_work and self._reads(mechanism) is None:
            with self._table.tally.locked():
                sizes = self._table.histogram()[1]
            source.require_drawable(int(sizes.sum()))

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """Draw one selection, with labels and without positions."""
        if _looks_again(mechanism):
            selection = self.release(mechanism.mechanism, source)
            return cast(
                Selection, mechanism.valued(selection, self._local(selection.labels or ()), source)
            )
        if isinstance(mechanism, WeighsAgain):
            return self._weighed_again(mechanism, source)
        if not hasattr(mechanism, "continued"):
            return self._select(mechanism, source)
        found = self._select(mechanism.discovery, source).labels or ()
        return cast(
            Selection, mechanism.continued(self._local(found), list(range(len(found))), source)
        )

    def _weighed_again(self, mechanism: WeighsAgain, source: Sampler) -> Selection:
        """Draw the participating items by their counts, and weigh them anew in the engine."""
        with self._table.tally.release():
            values, sizes = self._table.histogram()
            drawn, first = mechanism.masked(self._of_groups(values, sizes), source)
            labels = self._table.labels(_members(drawn, sizes), values, source)
        return mechanism.finished(self._local(labels), list(range(len(labels))), first, source)

    def _select(self, mechanism: Any, source: Sampler) -> Selection:
        reads = self._reads(mechanism)
        with self._table.tally.release():
            if reads is None:
                return self._grouped(mechanism, source)
            return cast(
                Selection, mechanism._select(self._scores(*self._table.highest(reads)), source)
            )

    def _grouped(self, mechanism: Any, source: Sampler) -> Selection:
        values, sizes = self._table.histogram()
        drawn: Selection = mechanism._select(self._of_groups(values, sizes), source)
        labels = self._table.labels(_members(drawn.indices, sizes), values, source)
        order = (
            range(len(labels))
            if drawn.ordered
            else sorted(range(len(labels)), key=lambda at: label_key(labels[at]))
        )
        kept = {"labels": tuple(labels[at] for at in order), "positions": None}
        noisy = None if drawn.values is None else tuple(drawn.values[at] for at in order)
        return drawn.model_copy(update={**kept, "values": noisy})

    def _local(self, labels: Sequence[Label]) -> Scores:
        """Scores of a few released items, in memory."""
        with self._table.tally.locked():
            values = self._table.scores_of(labels)
        return self._scores(labels, values)

    def _scores(self, labels: Sequence[Label], values: Numbers) -> Scores:
        return Scores(
            values,
            sensitivity=self.sensitivity,
            labels=labels,
            domain="observed",
            second=self.second,
        )

    def _of_groups(self, values: Numbers, sizes: Integers) -> Scores:
        """Scores of unnamed candidates, given the number of candidates with each value."""
        if len(values):
            return Scores.grouped(values, sizes, sensitivity=self.sensitivity)
        return Scores(values, sensitivity=self.sensitivity, domain="observed")

    def _reads(self, mechanism: Any) -> int | None:
        """Number of highest counts that the mechanism reads, if it reads no others."""
        return (
            cast(int | None, mechanism.traits.of("reads", mechanism))
            if self.domain == "observed"
            else None
        )

    def law(self, mechanism: Any) -> NoReturn:
        raise NoClosedForm("exact probabilities are for scores in memory: read the log into memory")

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest("these scores stay in the engine: read the log into memory")

    def settled(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest(
            "scores of one log are one round, released by select: select_many is for many"
        )

    def __repr__(self) -> str:
        return f"HeldScores(<hidden>, domain={self.domain!r}, sensitivity={self.sensitivity!r})"


def _members(places: Sequence[int], sizes: Integers) -> list[tuple[int, int]]:
    """The (group, index within it) pairs of candidates at these places in consecutive groups."""
    ends = list(itertools.accumulate(sizes.tolist(), initial=0))
    return [(group := bisect_right(ends, place) - 1, place - ends[group]) for place in places]


def _looks_again(mechanism: Any) -> bool:
    """True if the mechanism's values are counts of a second pass, after the selection."""
    return (
        getattr(mechanism, "mechanism", None) is not None
        and getattr(mechanism, "clip", None) is not None
    )


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldCounts(Measured):
    """Counts from `hold`, in the engine that read the log. A `with` block drops its tables.

    Threads may share it and release one after the other, but a fork of its process may not use it.
    A release that fails or is interrupted closes it.

    Attributes:
        allowed: the contribution bounds, and the items that were listed.
    """

    tally: Tally
    allowed: Contributions
    end: Callable[[], None]

    @property
    def report(self) -> ReadReport:
        """Figures of the reading, for the data's owner. **Private**."""
        return self.tally.report

    def scores(
        self,
        catalog: Labels | None = None,
        relation: Relation = "add_remove",
        *,
        clip: float | None = None,
    ) -> HeldScores:
        """Scores for one release or many, with the arguments and errors of `EventCounts.scores`.

        A catalog that is a `range` is never listed, so 10^9 candidates that nobody touched cost
        nothing.
        """
        sensitivity = self._sensitivity(clip, relation)
        place = self._place(clip)
        column, measure = ("n", None) if place is None else (f"w{place}", self.clips[place])
        asked: Any = self.allowed.within if catalog is None else catalog
        names, listed = (None, "") if asked is None else self._listed(asked)
        sums = summed(self.clips) is not None
        return HeldScores(
            Table(self.tally, column, measure, names, listed), sensitivity=sensitivity, sums=sums
        )

    def _listed(self, catalog: Any) -> tuple[Sequence[Label], str]:
        if not isinstance(catalog, range):
            names = named(catalog, normalize=self.allowed.normalize)
            with self.tally.locked():
                return names, self.tally.listed(names)
        if not catalog:
            raise EventLogError(
                f"catalog={catalog!r} is empty, and must name at least one. Leave it out to use the"
                " labels in the log"
            )
        return catalog, ""

    def close(self) -> None:
        """Drop the engine's tables and so all scores of these counts. No effect in a fork."""
        self.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"HeldCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user},"
            f" salt={self.salt!r})"
        )
