"""Scores that stay in the engine that read the log: a mechanism draws from what it needs of them. Theorem X14."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import Any, NoReturn, final

import numpy as np

from dpselect.errors import DomainMismatch, InvalidRequest, NoClosedForm
from dpselect.events.tally import Listed, Table
from dpselect.mechanisms.release import label_key
from dpselect.rounds import Rounds
from dpselect.sampling import Sampler
from dpselect.scores import Domain, Numbers, Scores
from dpselect.second_look import SecondLook
from dpselect.selection import Selection
from dpselect.sensitivity import Sensitivity


@final
class HeldScores(Rounds):
    """Scores that stay in the engine: what a mechanism draws from where `HeldCounts.scores` stand for Scores. Immutable.

    Mechanisms for unknown domains get the highest counts (`LimitedDomain`, `TopStable`, gaps and stable sets) or how many items
    have each count (`SparseHistogram`); those for public domains that draw from groups (`OneshotTopK`, `PeelingTopK`,
    `ReportNoisyMax`, ...) the latter. The items that were drawn are then looked up.
    The law is that of the dense draw, Theorem X14.

    Attributes:
        sensitivity: what one user may change.
        second: how to compute the scores of released candidates anew.
    """

    __slots__ = ("_table", "second", "sensitivity")

    def __init__(self, table: Table, *, sensitivity: Sensitivity, second: SecondLook[Scores] | None = None) -> None:
        self._table, self.sensitivity, self.second = table, sensitivity, second

    def with_second(self, second: SecondLook[Scores]) -> HeldScores:
        """The same scores, and how to compute those of released candidates anew."""
        return HeldScores(self._table, sensitivity=self.sensitivity, second=second)

    def __len__(self) -> int:
        """One: a log is one round."""
        return 1

    @property
    def domain(self) -> Domain:
        """Either "public" or "observed", as for Scores."""
        return self._table.domain

    @property
    def candidates(self) -> int:
        """Number of candidates.

        Raises:
            DomainMismatch: the domain is observed, where it is private.
        """
        if self._table.names is None:
            raise DomainMismatch("how many items a log has is private: state a public catalogue to count its candidates")
        return len(self._table.names)

    def check(self, mechanism: Any) -> None:
        """Raise unless the mechanism's guarantee covers these scores, and it draws from what the engine can tell.

        Raises:
            SensitivityMismatch, RelationMismatch, DomainMismatch: as for Scores.
            InvalidRequest: it looks at all scores one by one.
            EventLogError: the counts are closed.
            ForeignProcess: the counts were held before a fork.
        """
        with self._table.tally.turn():
            pass  # said before anything is charged
        mechanism.covers.require(self.sensitivity)
        if self.domain == "observed":
            mechanism._check_observed()
        first = mechanism.discovery if hasattr(mechanism, "continued") else mechanism
        # Of items that are told by their counts neither their order nor the group that they belong to is known.
        if self._reads(first) is None and not (first.traits.ranks_counts and first.traits.of("groups", first)):
            raise InvalidRequest(
                f"{type(first).__name__} looks at all scores of a {self.domain} domain one by one, and these stay in the engine: "
                "read the log into memory, or choose LimitedDomain or SparseHistogram (unknown domain), OneshotTopK or "
                "PeelingTopK (public domain)"
            )

    def require(self, mechanism: Any, source: Sampler) -> None:
        self.check(mechanism)
        if self.domain == "public":
            mechanism._check_size(self.candidates)
        mechanism._check_stated()
        mechanism._check_scores(self._local([]))
        if source.constant_work and self._reads(mechanism) is None:
            with self._table.tally.turn():
                sizes = self._table.histogram()[1]
            source.require_drawable(int(sizes.sum()))

    def release(self, mechanism: Any, source: Sampler) -> Selection:
        """One selection, with labels and without positions."""
        if not hasattr(mechanism, "continued"):
            return self._select(mechanism, source)
        found = self._select(mechanism.discovery, source).labels or ()
        selection: Selection = mechanism.continued(self._local(found), list(range(len(found))), source)
        return selection

    def _select(self, mechanism: Any, source: Sampler) -> Selection:
        reads = self._reads(mechanism)
        with self._table.tally.release():
            if reads is None:
                return self._grouped(mechanism, source)
            selection: Selection = mechanism._select(self._scores(*self._table.highest(reads)), source)
        return selection

    def _grouped(self, mechanism: Any, source: Sampler) -> Selection:
        values, sizes = self._table.histogram()
        drawn: Selection = mechanism._select(Scores.grouped(values, sizes, sensitivity=self.sensitivity), source)
        ends = list(itertools.accumulate(sizes.tolist(), initial=0))
        chosen = [(group := bisect_right(ends, place) - 1, place - ends[group]) for place in drawn.indices]
        labels = self._table.labels(chosen, values, source)
        order = range(len(labels)) if drawn.ordered else sorted(range(len(labels)), key=lambda at: label_key(labels[at]))
        kept = {"labels": tuple(labels[at] for at in order), "positions": None}
        noisy = None if drawn.values is None else tuple(drawn.values[at] for at in order)
        return drawn.model_copy(update={**kept, "values": noisy})

    def _local(self, labels: Listed) -> Scores:
        """The scores of a few released items."""
        with self._table.tally.turn():
            values = self._table.scores_of(labels)
        return self._scores(labels, values)

    def _scores(self, labels: Listed, values: Numbers) -> Scores:
        # An item with count 0 does not exist, and no mechanism for an observed domain releases it.
        names, numbers = (labels, values) if len(labels) else ([""], np.zeros(1, dtype=np.int64))
        return Scores(numbers, sensitivity=self.sensitivity, labels=names, domain="observed", second=self.second)

    def _reads(self, mechanism: Any) -> int | None:
        """How many of the highest counts the mechanism reads, where it reads no others."""
        reads: int | None = mechanism.traits.of("reads", mechanism) if self.domain == "observed" else None
        return reads

    def law(self, mechanism: Any) -> NoReturn:
        raise NoClosedForm("exact probabilities are for scores in memory: read the log into memory")

    def only(self, mechanism: Any) -> NoReturn:
        raise InvalidRequest("these scores stay in the engine: read the log into memory")

    def settled(self, mechanism: Any) -> Any:
        return mechanism

    def draw(self, mechanism: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest("scores of one log are one round, released by select: select_many is for many")

    def __repr__(self) -> str:
        return f"HeldScores(<hidden>, domain={self.domain!r}, sensitivity={self.sensitivity!r})"
