"""Counts and scores in the engine that read the log, from which mechanisms draw (Theorem X14)."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike

from accounting.errors import ForeignProcess
from accounting.numbers import Integers
from accounting.process_state import ProcessState
from accounting.relations import Relation
from dpselect.app.events.catalog import Labels, catalog_labels
from dpselect.app.events.contributions import (
    MOST_EXACT,
    Contributions,
    Measure,
    Measured,
    ReadReport,
    amount_of,
)
from dpselect.app.events.dialect import Tables, matches
from dpselect.app.events.sources.base import Kind
from dpselect.errors import DomainMismatch, EventLogError, InvalidRequest, NoClosedForm
from dpselect.mechanisms.gate import MechanismInput
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Names, Numbers, Scores, SecondLook
from dpselect.selection import Label, Selection
from dpselect.sensitivity import Sensitivity

_LISTS = itertools.count()
_AT_ONCE = 5000  # rows that one statement writes out
_TRIES, _MOST_TRIES = 64, 100_000  # candidates that are tried at a time, at least and at most
_CHANGED = "the engine's counts changed during the draw, so nothing is released. Read the log again"
_CLOSED = (
    "the held counts are closed. Release from them inside the with block, or read the log again"
    " with events.hold"
)
_FAILED = (
    "the held counts were closed by a release that failed half-way. Read the log again with"
    " events.hold"
)


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldCounts(Measured):
    """Counts from `hold`, in the engine that read the log. A `with` block drops its tables.

    Threads may share it and release one after the other, but a fork of its process may not use it.
    A release that fails or is interrupted closes it.

    Attributes:
        tables: the engine's relations, in which lists of labels are stored too.
        relation: columns i, all different; n, users; w0, w1, ..., sums of weights in whole units of
            each measure.
        kind: type of the items in the log.
        allowed: the contribution bounds, and the items that were listed.
        report: figures of the reading, for the data's owner. **Private**.
        end: the function that drops all that was read, if these counts alone use it.
        ended: reason why nothing more is released; empty while releases are possible.
    """

    tables: Tables
    relation: str
    kind: Kind
    allowed: Contributions
    report: ReadReport
    end: Callable[[], None] | None = None
    ended: ProcessState[str] = field(
        default_factory=lambda: ProcessState(
            "",
            owner="the table of held counts",
            remedy="read the log in each process with events.hold",
        )
    )

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
        candidates: Any = self.allowed.within if catalog is None else catalog
        names, listed = (None, "") if candidates is None else self._resolve_catalog(candidates)
        sums = amount_of(self.clips) is not None
        return HeldScores(self, sensitivity, column, measure, names, listed, sums=sums)

    def _resolve_catalog(self, catalog: Any) -> tuple[Sequence[Label], str]:
        if not isinstance(catalog, range):
            names = catalog_labels(catalog, normalize=self.allowed.normalize)
            with self.lock():
                return names, self.list_labels(names)
        if not catalog:
            raise EventLogError(
                f"catalog={catalog!r} is empty, and must name at least one. Leave it out to use the"
                " labels in the log"
            )
        return catalog, ""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the engine for the questions of one thread."""
        with self.ended.lock() as ended:
            if ended:
                raise EventLogError(ended)
            yield

    @contextmanager
    def release(self) -> Iterator[ExitStack]:
        """Hold the engine for one draw, until the stack is closed.

        A failure or an interruption closes the counts, also after that.
        """
        try:
            with ExitStack() as turn:
                turn.enter_context(self.lock())
                yield turn
        except BaseException:
            with suppress(ForeignProcess), self.ended.lock():
                self.ended.value = self.ended.value or _FAILED
            raise

    def list_labels(self, labels: Sequence[Label]) -> str:
        """Store labels in the column i of a relation, and return its name."""
        return self.tables.store_labels(f"listed_{next(_LISTS)}", labels, self.kind)

    def drop(self) -> None:
        """Drop all relations, after any draw in another thread. In a fork it does nothing."""
        with suppress(ForeignProcess), self.ended.lock():
            self.ended.value = _CLOSED
            self.tables.close()

    def close(self) -> None:
        """Drop the engine's tables and so all scores of these counts. No effect in a fork."""
        (self.end or self.drop)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"HeldCounts(<private figures hidden>, max_items_per_user={self.max_items_per_user},"
            f" salt={self.salt!r})"
        )


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldScores(MechanismInput):
    """Scores that stay in the engine, from `HeldCounts.scores`, as input of mechanisms. Immutable.

    A mechanism draws from `Scores` that a release makes of them. For mechanisms that read a few
    highest counts of an unknown domain (`LimitedDomain`, `TopStable`, gaps and stable sets), these
    are the highest ones. For those that draw from groups (`SparseHistogram`, `OneshotTopK`,
    `PeelingTopK`, `ReportNoisyMax`, ...), they are the numbers of items with each count, and the
    drawn items are then looked up by the engine. The distribution of a selection is that of the
    dense draw.

    Attributes:
        counts: the counts that they are a column of.
        sensitivity: the sensitivity to one user.
        column: name of the column, of whole numbers >= 0.
        measure: the measure that the column sums up, in whole units; None for users.
        names: the public domain, as it is released; None for the items of the log.
        listed: the relation of the public domain, with a column i; empty for a range.
        second: the function that computes the scores of released candidates anew.
        sums: True if the scores add up amounts instead of counting users.
    """

    counts: HeldCounts
    sensitivity: Sensitivity
    column: str
    measure: Measure | None = None
    names: Sequence[Label] | None = None
    listed: str = ""
    second: SecondLook | None = None
    sums: bool = False

    def with_second(self, second: SecondLook) -> HeldScores:
        """A copy with another `second`."""
        return replace(self, second=second)

    def __len__(self) -> int:
        return 1  # a log is one round

    @property
    def domain(self) -> Domain:
        """The domain, "public" if the candidates are known independently of the data."""
        return "observed" if self.names is None else "public"

    @property
    def candidates(self) -> int:
        """Number of candidates in a public domain.

        Raises:
            DomainMismatch: the domain is observed, so that the number is private.
        """
        if self.names is None:
            raise DomainMismatch(
                "the number of items in a log is private. State a public catalog to count its"
                " candidates"
            )
        return len(self.names)

    def check(self, mechanism: Any) -> None:
        """Check that a mechanism can release from these scores.

        Raises:
            InvalidRequest: the mechanism looks at all scores one by one.
            EventLogError: the counts are closed.
            ForeignProcess: they were held before a fork.
            DomainMismatch: as for Scores.
        """
        with self.counts.lock():
            pass  # said before anything is charged
        if self.domain == "observed":
            mechanism._check_observed()
        # Of items that are found by their counts neither their order nor the group that they belong
        # to is known.
        if self._reads(mechanism) is None and not (
            mechanism.traits.ranks_counts and mechanism.traits.value_of("groups", mechanism)
        ):
            raise InvalidRequest(
                f"{type(mechanism).__name__} looks at all scores of a {self.domain} domain one by"
                " one, and these stay in the engine. Read the log into memory, or choose"
                " LimitedDomain or SparseHistogram (unknown domain), OneshotTopK or PeelingTopK"
                " (public domain)"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        # All else is decided by what is public: by no item, or by a public number of them.
        public = [] if self.names is None else [self.candidates]
        mechanism._require(self._group_scores([0] * len(public), public, list), source)
        if source.constant_work and self.domain == "observed" and self._reads(mechanism) is None:
            with self.counts.lock():
                sizes = self._histogram()[1]
            source.require_drawable(int(sizes.sum()))

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """Draw one selection, with labels and without positions.

        The engine is held until it has named the drawn items. A second pass comes after that.
        """
        reads = self._reads(mechanism)
        with self.counts.release() as turn:
            if reads is not None:
                labels, highest = self._highest(reads)
                turn.close()
                scores = Scores(
                    highest,
                    sensitivity=self.sensitivity,
                    labels=labels,
                    domain="observed",
                    second=self.second,
                )
            else:
                (values, sizes), named = self._histogram(), list[Label]()

                def names(places: Sequence[int]) -> list[Label]:
                    assert not named, "all that was drawn is named at once"
                    named.extend(self._labels(_members(places, sizes), values, source))
                    turn.close()
                    return named

                scores = self._group_scores(values, sizes, names)
            selection: Selection = mechanism._select(scores, source)
            return selection

    def _group_scores(self, values: ArrayLike, sizes: ArrayLike, names: Names) -> Scores:
        return Scores.grouped(
            values,
            np.asarray(sizes, dtype=np.int64),
            sensitivity=self.sensitivity,
            domain=self.domain,
            names=names,
            second=self.second,
        )

    def _reads(self, mechanism: Any) -> int | None:
        """Number of highest counts that the mechanism reads, if it reads no others."""
        return (
            cast(int | None, mechanism.traits.value_of("reads", mechanism))
            if self.domain == "observed"
            else None
        )

    def law(self, mechanism: Any) -> NoReturn:
        raise NoClosedForm("exact probabilities are for scores in memory. Read the log into memory")

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest("these scores stay in the engine. Read the log into memory")

    def complete(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest(
            "scores of one log are one round, released by select: select_many is for many"
        )

    def __repr__(self) -> str:
        return f"HeldScores(<hidden>, domain={self.domain!r}, sensitivity={self.sensitivity!r})"

    # -- questions to the engine -------------------------------------------------------------------

    def _highest(self, count: int) -> tuple[list[Label], Numbers]:
        """The `count` highest numbers above 0 and their items, highest first, ties by label."""
        rows = self.counts.tables.run(
            f"SELECT i, v FROM ({self._counts_above_0()}) AS seen ORDER BY v DESC, i LIMIT {count}"
        )
        return [row[0] for row in rows], self._to_units([row[1] for row in rows])

    def _histogram(self) -> tuple[Numbers, Integers]:
        """Every distinct number, and the number of candidates that have it.

        In an observed domain no candidate has 0, and there may be no candidate at all.
        """
        rows = self.counts.tables.run(
            f"SELECT v, count(*) AS m FROM ({self._counts_above_0()}) AS seen GROUP BY v ORDER BY v"
        )
        untouched = 0 if self.names is None else len(self.names) - sum(row[1] for row in rows)
        if untouched:
            rows = [(0, untouched), *rows]
        return self._to_units([row[0] for row in rows]), np.array(
            [row[1] for row in rows], dtype=np.int64
        )

    def _labels(
        self, places: Sequence[tuple[int, int]], values: Numbers, source: Sampler
    ) -> list[Label]:
        """Distinct items of (place in `values`, index among the items with that value) pairs."""
        units = (
            values if self.measure is None else (values / float(self.measure.unit)).astype(np.int64)
        ).tolist()
        pairs = [(units[group], member) for group, member in places]
        label_of = self._touched_items([pair for pair in pairs if pair[0] > 0])
        rest = iter(self._draw_untouched(sum(unit == 0 for unit, _ in pairs), source))
        labels = [label_of[pair] if pair[0] > 0 else next(rest) for pair in pairs]
        if isinstance(self.names, range):
            return list(map(int, labels))
        name_of = {str(name): name for name in self.names or ()}
        return [name_of.get(str(label), label) for label in labels]

    def _counts_above_0(self) -> str:
        """SQL (i, v) of the candidates with a number above 0."""
        above = (
            f"SELECT i, {self._number()} AS v FROM {self.counts.relation} WHERE {self.column} > 0"
        )
        if self.names is None:
            return above
        if not isinstance(self.names, range):
            return f"SELECT i, v FROM ({above}) AS above SEMI JOIN {self.listed} USING (i)"
        (low, high), step = sorted((self.names[0], self.names[-1])), abs(self.names.step)
        number, dialect = "i", self.counts.tables.dialect
        if self.counts.kind == "str":  # as its decimal digits, where rows have told the type
            number = (
                f"CASE WHEN {matches('i', '0|-?[1-9][0-9]{0,18}', dialect)} THEN"
                f" {dialect.integer('i')} END"
            )
        among = f"SELECT i, v, {number} AS d FROM ({above}) AS above"
        return (
            f"SELECT i, v FROM ({among}) AS numbered WHERE d >= {low} AND d <= {high} AND (d -"
            f" {low}) % {step} = 0"
        )

    def _number(self) -> str:
        """SQL of the number, with sums cut as by `Amount.as_scores` so that they stay distinct."""
        return f"least({self.column}, {MOST_EXACT})"

    def _touched_items(self, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Label]:
        """Items of (number above 0, index among the items that have it) pairs."""
        if not pairs:
            return {}
        bucket = self.counts.tables.bucket.format("i")
        seen = f"SELECT i, v, {bucket} AS b FROM ({self._counts_above_0()}) AS seen"
        places, labels = self._places(pairs, seen), dict[tuple[int, int], Label]()
        for part in _parts(
            [(unit, *place, member) for (unit, member), place in zip(pairs, places, strict=True)]
        ):
            values = ", ".join(
                f"({unit}, {bucket}, {place + 1})" for unit, bucket, place, _ in part
            )
            buckets = f"SELECT DISTINCT v, b FROM (VALUES {values}) AS w(v, b, r)"
            inside = (
                f"SELECT i, v, b FROM ({seen}) AS all_of_them SEMI JOIN ({buckets}) AS sought"
                " USING (v, b)"
            )
            ranks = (
                "SELECT i, v, b, row_number() OVER (PARTITION BY v, b ORDER BY i) AS r FROM"
                f" ({inside}) AS inside"
            )
            rows = self.counts.tables.run(
                f"SELECT v, b, r, i FROM ({ranks}) AS n SEMI JOIN (VALUES {values}) AS w(v, b,"
                " r) USING (v, b, r)"
            )
            label_of = {tuple(row[:3]): row[3] for row in rows}
            if len(label_of) < len(part):
                raise EventLogError(_CHANGED)
            labels |= {
                (unit, member): label_of[unit, bucket, place + 1]
                for unit, bucket, place, member in part
            }
        return labels

    def _places(self, pairs: list[tuple[int, int]], touched: str) -> list[tuple[int, int]]:
        """The bucket of every pair, and the index within it."""
        ends: dict[int, tuple[list[int], list[int]]] = {}
        for part in _parts(sorted({unit for unit, _ in pairs})):
            chosen = (
                f"SELECT * FROM ({touched}) AS all_of_them WHERE v IN ({', '.join(map(str, part))})"
            )
            rows = self.counts.tables.run(
                f"SELECT v, b, count(*) AS m FROM ({chosen}) AS chosen GROUP BY v, b ORDER BY v, b"
            )
            for unit, group in itertools.groupby(rows, key=lambda row: int(row[0])):
                listed = [(row[1], row[2]) for row in group]
                ends[unit] = (
                    [bucket for bucket, _ in listed],
                    list(itertools.accumulate((m for _, m in listed), initial=0)),
                )
        places = []
        for unit, member in pairs:
            buckets, starts = ends[unit]
            at = bisect_right(starts, member) - 1
            if at >= len(buckets):
                raise EventLogError(_CHANGED)
            places.append((buckets[at], member - starts[at]))
        return places

    def _draw_untouched(self, count: int, source: Sampler) -> list[Label]:
        """A uniform draw of distinct candidates of a public domain whose number is 0."""
        names, labels, tries = self.names or (), dict[Label, None](), max(_TRIES, 2 * count)
        while len(labels) < count:
            tried = [
                names[place]
                for place in source.below(np.full(tries, len(names), dtype=np.int64)).tolist()
            ]
            touched = {
                str(label) for label, unit in self._among(list(dict.fromkeys(tried))) if unit > 0
            }
            labels |= dict.fromkeys(label for label in tried if str(label) not in touched)
            tries = min(2 * tries, _MOST_TRIES)
        return list(labels)[:count]

    def _among(self, labels: Sequence[Label]) -> list[tuple[Label, int]]:
        if not labels:
            return []
        sql = (
            f"SELECT i, {self._number()} AS v FROM {self.counts.relation} SEMI JOIN"
            f" {self.counts.list_labels(labels)} USING (i)"
        )
        return [(row[0], row[1]) for row in self.counts.tables.run(sql)]

    def _to_units(self, units: Sequence[int]) -> Numbers:
        whole = np.array(units, dtype=np.int64)
        return whole if self.measure is None else self.measure.as_scores(whole)


def _parts(items: Sequence[Any]) -> Iterable[list[Any]]:
    return ([*items[start : start + _AT_ONCE]] for start in range(0, len(items), _AT_ONCE))


def _members(places: Sequence[int], sizes: Integers) -> list[tuple[int, int]]:
    """The (group, index within it) pairs of candidates at these places in consecutive groups."""
    ends = list(itertools.accumulate(sizes.tolist(), initial=0))
    return [(group := bisect_right(ends, place) - 1, place - ends[group]) for place in places]
