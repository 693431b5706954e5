"""What histograms that are charged one by one remember: shown items stay, and means over time find others. Theorems T6 and T8."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Unpack, final

import numpy as np

from accounting import Curve, Relation
from accounting.arguments import checked_integer
from accounting.process_state import ProcessState
from dpselect.continual.averages import RATES, VARIANCE, Means
from dpselect.continual.continual_top_k import Floats, thresholds
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import settings_of
from dpselect.mechanisms.release import public_grid
from dpselect.mechanisms.unknown.sparse_histogram import SparseHistogram
from dpselect.noise import by_name
from dpselect.sampling import Sampler, sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selection, label_key

if TYPE_CHECKING:
    from dpselect.release.session import Notes, Session

_UNIT = 2.0**-20  # of clipped counts
# The rates whose means are tested: those that look back far enough to say more than the last release.
TESTED: Final = slice(2, None)
_ROUNDING = 2.0**-51  # of a mean of floats, for each of its terms and the largest of them
_DIGITS = 2.0**52  # below which multiples of the unit are told apart
_REASON = "fewer items than requested were discovered so far"


@final
class Memory:
    """Histograms of one question over many periods, each charged by itself, that share what they have learnt.

    An item that was shown is shown in every later release, whatever its noisy score. Items are ordered by means of their noisy
    scores over time, and with Gaussian noise an item is also discovered by such a mean, which exceeds its threshold when no
    single score exceeds the histogram's. A release costs what the histogram costs: half of its `delta` pays for the tests of
    single scores, half for those of means (Theorem T8).

    The noisy scores of items that are not discovered are private and stay in this object: it belongs to one process, and a draw
    that fails closes it. A memory that is made from what was `shown` begins with the items that are known, without the others.

    Args:
        histogram: what draws each release; k=None and floor=0.
        k: how many items are wanted, >= 1: how fast earlier scores are forgotten is chosen for the items around rank k.
        releases: how many releases there may be, >= 1; the chance of failure is shared by all of them.
        shown: what earlier releases have shown, in their order.

    Raises:
        InvalidRequest: an argument is outside its domain.

    Example:
        >>> import dpselect as dps
        >>> few = dps.Sensitivity.of_counts(items_per_user=3)
        >>> histogram = dps.SparseHistogram(scale=8.0, delta=1e-6, sensitivity=few)
        >>> memory = dps.Memory(histogram, k=2, releases=2)
        >>> for counts in ([9000, 5000], [70, 30]):
        ...     day = dps.Scores(counts, labels=["zoo", "park"], sensitivity=few, domain="observed")
        ...     shown = memory.select(day)
        >>> sorted(shown.labels)
        ['park', 'zoo']
    """

    def __init__(self, histogram: SparseHistogram, *, k: int, releases: int, shown: Iterable[Selection] = ()) -> None:
        if not isinstance(histogram, SparseHistogram) or histogram.floor > 0 or histogram.k is not None:
            raise InvalidRequest(
                "a memory shows known items whatever their scores, all of them: it takes a SparseHistogram with floor=0 and "
                "k=None, and `best` chooses k of what that shows"
            )
        self._histogram = histogram
        self._k = checked_integer("k", k, "how many items are wanted", error=InvalidRequest)
        self._releases = checked_integer("releases", releases, "how many releases there may be", error=InvalidRequest)
        self._single = single_test(histogram)
        self._kept: ProcessState[_Vectors | None] = ProcessState(
            _Vectors(shown, self._k), owner="this memory", remedy="make one there from what was shown"
        )

    @property
    def curve(self) -> Curve:
        """What one release costs."""
        return self._histogram.curve

    @property
    def relation(self) -> Relation:
        """Of the guarantee."""
        return self._histogram.relation

    def to_json(self) -> str:
        """The configuration, as a ledger keeps it."""
        told = {"kind": "memory", "k": self._k, "releases": self._releases, "histogram": json.loads(self._histogram.to_json())}
        return json.dumps(told)

    def check(self, scores: Scores) -> None:
        """Raise as `select` would, without drawing anything.

        Raises:
            InvalidRequest: scores have no labels, or are sums of amounts, or not multiples of 2^-20, as counts and clipped counts
                are; or all releases are drawn, or a draw failed.
            DpSelectError: as for the histogram's `select`.
        """
        self._histogram.check(scores)
        if scores.labels is None:
            raise InvalidRequest("scores have no labels, by which a memory knows items: name the candidates")
        if scores.sums or (scores.values % _UNIT).any() or not scores.values.max(initial=0) < _DIGITS * _UNIT:
            raise InvalidRequest(
                "scores are sums of amounts, or not multiples of 2^-20 below 2^32, so that a sum could be rounded: a memory is "
                "for counts of users"
            )
        with self._kept.locked() as vectors:
            self._open(vectors)

    def select(self, scores: Scores, *, rng: np.random.Generator | None = None) -> Selection:
        """Draw one release: all known items, those that are discovered now included, with their noisy scores of this release.

        It is not charged: see `release`.

        Args:
            scores: of the items that occur; known items that do not are shown too, as if they had a score of 0.
            rng: for tests and simulation; None for the operating system's entropy.

        Raises:
            InvalidRequest, DpSelectError: as `check`.
        """
        self.check(scores)
        with self._kept.locked() as kept:
            vectors = self._open(kept)
            self._kept.value = None  # until all of it is done: what was drawn and is lost must not be drawn again
            selection = self._draw(vectors, scores, sampler(rng))
            self._kept.value = vectors
        return selection

    def release(
        self,
        session: Session,
        scores: Scores,
        *,
        keep: Callable[[Selection], str | None] | None = None,
        **notes: Unpack[Notes],
    ) -> Selection:
        """Charge one release, draw it as `select` does, and record it.

        Args:
            session: what pays.
            keep: as for `Session.select`.
            notes: see `dpselect.release.session.Notes`.

        Raises:
            BudgetExceeded, AlreadyCharged, RelationMismatch, LedgerUnavailable: as for `Session.select`.
            InvalidRequest, DpSelectError: as `check`; nothing was charged.
        """
        self.check(scores)
        return session.publish(self, lambda: self.select(scores), keep=keep, **notes)

    def _open(self, vectors: _Vectors | None) -> _Vectors:
        if vectors is None:
            raise InvalidRequest("a draw of this memory failed, and it is closed: make another one from what was shown")
        if vectors.releases >= self._releases:
            raise InvalidRequest(f"the {self._releases} releases of this memory are drawn: make another one from what was shown")
        return vectors

    def _draw(self, vectors: _Vectors, scores: Scores, source: Sampler) -> Selection:
        """Take one release in, and show what is known then."""
        counts = {label: value for label, value in zip(scores.labels or (), scores.values.tolist(), strict=True) if value > 0}
        new = [label for label in counts if label not in vectors.places]
        # Their clock is that of all items: a shared item would have other noise without its first user (Theorem T4).
        vectors.grow(new, [self._noisy(np.zeros(len(new)), source) for _ in range(vectors.releases)])
        true = np.array([counts.get(label, 0) for label in vectors.places], dtype=np.float64)
        noisy = self._noisy(true, source)
        vectors.add(noisy)
        half_step = public_grid(self._histogram.scale) / 2
        vectors.known |= (true > 0) & (noisy > self._single.threshold + half_step)
        if vectors.releases > 1 and self._histogram.noise == "gaussian":
            off = vectors.largest * ((vectors.releases + 4) * _ROUNDING)
            bars = np.array(mean_thresholds(self._histogram, vectors.releases, self._releases)) + half_step
            vectors.known |= (vectors.means.values[TESTED] - off > bars[:, None]).any(axis=0)
        variance = self._histogram.scale**2 * VARIANCE[self._histogram.noise]
        order, found, names = vectors.means.order(variance, vectors.known), np.flatnonzero(vectors.known), list(vectors.places)
        rows = zip(order.tolist(), [names[place] for place in found], noisy[found].tolist(), strict=True)
        ranked = sorted(rows, key=lambda row: (-row[0], label_key(row[1])))
        return Selection(ordered=True, values=tuple(row[2] for row in ranked), labels=tuple(row[1] for row in ranked))

    def _noisy(self, true: Floats, source: Sampler) -> Floats:
        """Each rounded to the nearest multiple of the public grid: exact (Theorem X7)."""
        units, grid = (true / _UNIT).astype(np.int64), public_grid(self._histogram.scale) / _UNIT
        return source.rounded(units, by_name(self._histogram.noise), self._histogram.scale / _UNIT, grid) * _UNIT


def mean_thresholds(histogram: SparseHistogram, release: int, releases: int) -> tuple[float, ...]:
    """What means of noisy scores must exceed at the n-th of some releases, at each tested rate, score units, rounded up.

    The items of one user alone are at most `release` times those of a single release; each has a mean of at most one share,
    and the squares of the means add up to at most the square of the user's norm.
    """
    weights = np.array(RATES[TESTED])[:, None] ** np.arange(release)
    deviations = histogram.scale * np.sqrt(np.square(weights).sum(axis=1)) / weights.sum(axis=1)
    items, users = histogram.sensitivity.items_alone or 1, 1 if histogram.relation == "add_remove" else 2
    norm, most = histogram.sensitivity.l2_of(items), histogram.sensitivity.alone(1)
    chance = histogram.delta / (2 * users * releases * len(weights))
    bars = thresholds(tuple((deviations / norm * (1 + 1e-12)).tolist()), min(most / norm, 1.0), items * release, chance)
    return tuple(math.nextafter(bar * norm, math.inf) for bar in bars)


def single_test(histogram: SparseHistogram) -> SparseHistogram:
    """The histogram whose threshold single scores are held against: means take the other half of delta, of Gaussian noise."""
    if histogram.noise != "gaussian":
        return histogram
    users = 1 if histogram.relation == "add_remove" else 2
    return SparseHistogram.model_validate({**settings_of(histogram), "delta": histogram.delta / (2 * users)})


def best(shown: Selection, k: int) -> Selection:
    """The first k of what a memory shows."""
    labels, values = (shown.labels or ())[:k], (shown.values or ())[:k]
    complete = len(labels) == k
    reason = None if complete else _REASON
    return Selection(ordered=True, requested=k, complete=complete, reason=reason, values=values, labels=labels)


@final
class _Vectors:
    """Noisy scores of every item that has occurred, as means over time. Private, but for those of known items.

    Attributes:
        places: where each item stands in the vectors.
        known: (items,) whether an item was shown.
        means: of noisy scores.
        largest: (items,) the largest of an item's noisy scores in size.
        releases: how many there were; those that an earlier memory has shown are not among them.
    """

    def __init__(self, shown: Iterable[Selection], k: int) -> None:
        self.places: dict[Label, int] = {}
        self.known, self.means, self.largest, self.releases = np.zeros(0, dtype=np.bool_), Means(k), np.zeros(0), 0
        for one in shown:
            values = dict(zip(one.labels or (), one.values or (), strict=True))
            if missing := self.places.keys() - values.keys():
                raise InvalidRequest(
                    f"shown: a release leaves out {len(missing)} of the items that those before it have shown: give all that was "
                    "shown, in the order of the releases"
                )
            self.grow([label for label in values if label not in self.places], [])
            self.add(np.array([values[label] for label in self.places]))
            self.known[:] = True
        self.releases = 0

    def grow(self, new: Sequence[Label], history: Sequence[Floats]) -> None:
        """Take in items that were never there, and their noise of all releases so far."""
        earlier = np.array(history).reshape(len(history), len(new))
        self.places |= {label: len(self.places) + at for at, label in enumerate(new)}
        self.known = np.append(self.known, np.zeros(len(new), dtype=np.bool_))
        self.largest = np.append(self.largest, np.abs(earlier).max(axis=0, initial=0))
        self.means.grow(earlier)

    def add(self, noisy: Floats) -> None:
        """Take in the noisy scores of one more release."""
        self.means.add(noisy)
        self.largest = np.maximum(self.largest, np.abs(noisy))
        self.releases += 1
