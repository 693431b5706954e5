"""Reuse of earlier releases at no cost: shown items stay shown, and means over time order them.

Means over time also find more items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Unpack, final

import numpy as np

from accounting import Curve
from accounting.arguments import check_integer
from accounting.numbers import Floats, next_up
from accounting.process_state import ProcessState
from accounting.relations import Relation
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.continual_top_k import thresholds
from dpselect.mechanisms.means_over_time import RATES, Means
from dpselect.mechanisms.noisy_max import OneshotTopK
from dpselect.mechanisms.release import public_grid
from dpselect.mechanisms.sparse_histogram import SparseHistogram
from dpselect.mechanisms.traits import settings_of
from dpselect.noise import noise_of
from dpselect.sampling import Sampler, sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selection, label_key

if TYPE_CHECKING:
    from dpselect.session import ChargeMetadata, Session

# The rates whose means are tested: those that look back far enough to say more than the last
# release.
TESTED: Final = slice(2, None)
_UNIT = 2.0**-20  # of clipped counts
_ROUNDING = 2.0**-51  # of a mean of floats, for each of its terms and the largest of them
_DIGITS = 2.0**52  # below which multiples of the unit are told apart
_REASON = "fewer items than requested were discovered so far"


@final
class History:
    """Releases of one question over many periods, each charged by itself, that reuse results.

    A `SparseHistogram` draws items that are read off the log. An item that was shown is shown in
    every later release, whatever its noisy score. With Gaussian noise an item is also discovered by
    a mean of its noisy scores over time, if no single score passes the histogram's threshold. A
    `OneshotTopK` draws from a public domain, and shows all of its items. In both cases items are
    ordered by means over time, at the rate that fits best, and a release costs what its mechanism
    costs. Half of a histogram's `delta` is for the tests of single scores, and half for those of
    means (Theorems T6 to T8).

    The noisy scores of items that are not discovered are private and stay in this object. It
    belongs to one process, and a draw that fails closes it. A history that is made from earlier
    `shown` results begins with them, and without the other scores.

    Args:
        mechanism: the mechanism of each release: a SparseHistogram with k=None and floor=0; or a
            OneshotTopK with `values` whose k is the size of the domain, which with Gaussian noise
            costs as much as the best items alone.
        k: number of wanted items; the rate at which earlier scores are forgotten is chosen for the
            items around rank k.
        releases: most releases; they share the failure probability.
        shown: results of earlier releases, in their order.

    Example:
        >>> import dpselect as dps
        >>> few = dps.Sensitivity.of_counts(items_per_user=3)
        >>> histogram = dps.SparseHistogram(scale=8.0, delta=1e-6, sensitivity=few)
        >>> history = dps.continual.History(histogram, k=2, releases=2)
        >>> for counts in ([9000, 5000], [70, 30]):
        ...     day = dps.Scores(counts, labels=["zoo", "park"], sensitivity=few, domain="observed")
        ...     shown = history.select(day)
        >>> sorted(shown.labels)
        ['park', 'zoo']
    """

    def __init__(
        self,
        mechanism: SparseHistogram | OneshotTopK,
        *,
        k: int,
        releases: int,
        shown: Iterable[Selection] = (),
    ) -> None:
        is_histogram = (
            isinstance(mechanism, SparseHistogram) and mechanism.floor == 0 and mechanism.k is None
        )
        is_top_k = (
            isinstance(mechanism, OneshotTopK)
            and mechanism.values
            and mechanism.value_scale is None
        )
        if not (is_histogram or is_top_k):
            raise InvalidRequest(
                "a history shows known items whatever their scores, all of them: it takes a"
                " SparseHistogram with floor=0 and k=None, or a OneshotTopK with values=True and k"
                " the size of the domain; `best` is what was asked for of that"
            )
        self._mechanism = mechanism
        self._k = check_integer("k", k, "how many items are wanted", error=InvalidRequest)
        self._releases = check_integer(
            "releases", releases, "how many releases there may be", error=InvalidRequest
        )
        self._state: ProcessState[_Vectors | None] = ProcessState(
            _Vectors(shown, self._k),
            owner="this history",
            remedy="make one there from what was shown",
        )

    @property
    def curve(self) -> Curve:
        """The cost of one release."""
        return self._mechanism.curve

    @property
    def relation(self) -> Relation:
        """The neighboring relation of the guarantee."""
        return self._mechanism.relation

    def to_json(self) -> str:
        """The configuration, as a ledger keeps it."""
        data = json.loads(self._mechanism.to_json())
        return json.dumps(
            {"kind": "history", "k": self._k, "releases": self._releases, "mechanism": data}
        )

    def best(self, selection: Selection) -> Selection:
        """The first k items of a release."""
        labels, values = (selection.labels or ())[: self._k], (selection.values or ())[: self._k]
        complete = len(labels) == self._k
        return Selection(
            ordered=True,
            requested=self._k,
            complete=complete,
            reason=None if complete else _REASON,
            values=values,
            labels=labels,
        )

    def check(self, scores: Scores) -> None:
        """Raise as `select` would, without drawing anything.

        Raises:
            InvalidRequest: scores have no labels; for a histogram they are sums of amounts, or not
                multiples of 2^-20, as counts and clipped counts are; for a public domain they do
                not cover all of its items, those of earlier releases; or all releases are drawn, or
                a draw failed.
            DpSelectError: as for the mechanism's `select`.
        """
        self._mechanism.check(scores)
        if scores.labels is None:
            raise InvalidRequest(
                "scores have no labels, by which a history knows items. Name the candidates"
            )
        with self._state.lock() as state:
            vectors = self._open(state)
            if isinstance(self._mechanism, SparseHistogram):
                if (
                    scores.sums
                    or (scores.values % _UNIT).any()
                    or not scores.values.max(initial=0) < _DIGITS * _UNIT
                ):
                    raise InvalidRequest(
                        "scores are sums of amounts, or not multiples of 2^-20 below 2^32, so that"
                        " a sum could be rounded: a history of a histogram is for counts of users"
                    )
            elif self._mechanism.k != len(scores.labels) or (
                vectors.places and vectors.places.keys() != set(scores.labels)
            ):
                raise InvalidRequest(
                    "a history of a public domain needs all of its items in every release:"
                    f" k={self._mechanism.k} must be its size, and the domain that of the first"
                    " release"
                )

    def select(self, scores: Scores, *, rng: np.random.Generator | None = None) -> Selection:
        """Draw one release of all known items, with their noisy scores of this release.

        Items that are discovered now are known. The release is not charged: see `release`. Known
        items that do not occur in the scores are shown too, as if they had a score of 0.

        Args:
            rng: for tests and simulation; None for the operating system's entropy.
        """
        self.check(scores)
        with self._state.lock() as state:
            vectors = self._open(state)
            # until all of it is done: what was drawn and is lost must not be drawn again
            self._state.value = None
            if isinstance(self._mechanism, SparseHistogram):
                self._discover(self._mechanism, vectors, scores, sampler(rng))
            else:
                vectors.take(self._mechanism.select(scores, rng=rng))
            selection = vectors.selection(
                self._mechanism.scale**2 * noise_of(self._mechanism.noise).variance
            )
            self._state.value = vectors
        return selection

    def release(
        self,
        session: Session,
        scores: Scores,
        *,
        keep: Callable[[Selection], str | None] | None = None,
        **notes: Unpack[ChargeMetadata],
    ) -> Selection:
        """Charge one release, draw it as `select` does, and record it.

        `keep`, `notes` and errors are those of `Session.select`.
        """
        self.check(scores)
        return session.publish(self, lambda: self.select(scores), keep=keep, **notes)

    def _open(self, vectors: _Vectors | None) -> _Vectors:
        if vectors is None:
            raise InvalidRequest(
                "a draw of this history failed, and it is closed. Make another one from what was"
                " shown"
            )
        if vectors.releases >= self._releases:
            raise InvalidRequest(
                f"the {self._releases} releases of this history are drawn. Make another one from"
                " what was shown"
            )
        return vectors

    def _discover(
        self, histogram: SparseHistogram, vectors: _Vectors, scores: Scores, source: Sampler
    ) -> None:
        """Add one release of a histogram, and the items that it and the means so far discover."""
        counts = {
            label: value
            for label, value in zip(scores.labels or (), scores.values.tolist(), strict=True)
            if value > 0
        }
        new = [label for label in counts if label not in vectors.places]
        # Their clock is that of all items: a shared item would have other noise without its first
        # user (Theorem T4).
        vectors.grow(
            new, [_noisy(histogram, np.zeros(len(new)), source) for _ in range(vectors.releases)]
        )
        true = np.array([counts.get(label, 0) for label in vectors.places], dtype=np.float64)
        noisy = _noisy(histogram, true, source)
        vectors.add(noisy)
        half_step = public_grid(histogram.scale) / 2
        vectors.known |= (true > 0) & (noisy > single_test(histogram).threshold + half_step)
        if vectors.releases > 1 and histogram.noise == "gaussian":
            off = vectors.largest * ((vectors.releases + 4) * _ROUNDING)
            bars = (
                np.array(mean_thresholds(histogram, vectors.releases, self._releases)) + half_step
            )
            vectors.known |= (vectors.means.values[TESTED] - off > bars[:, None]).any(axis=0)


def _noisy(histogram: SparseHistogram, true: Floats, source: Sampler) -> Floats:
    """Noisy scores, each rounded exactly to the nearest step of the public grid (Theorem X7)."""
    units, grid = (true / _UNIT).astype(np.int64), public_grid(histogram.scale) / _UNIT
    return (
        source.draw_rounded(units, noise_of(histogram.noise), histogram.scale / _UNIT, grid) * _UNIT
    )


def mean_thresholds(histogram: SparseHistogram, release: int, releases: int) -> tuple[float, ...]:
    """Thresholds of means of noisy scores at each tested rate, in score units, rounded up.

    They are for the n-th of some releases. The items of one user alone are at most `release` times
    those of a single release. Each has a mean of at most one share, and the squares of the means
    add up to at most the square of the user's norm.
    """
    weights = np.array(RATES[TESTED])[:, None] ** np.arange(release)
    deviations = histogram.scale * np.sqrt(np.square(weights).sum(axis=1)) / weights.sum(axis=1)
    items, users = (
        histogram.sensitivity.items_alone or 1,
        1 if histogram.relation == "add_remove" else 2,
    )
    norm, most = histogram.sensitivity.l2_of(items), histogram.sensitivity.alone(1)
    chance = histogram.delta / (2 * users * releases * len(weights))
    bars = thresholds(
        tuple((deviations / norm * (1 + 1e-12)).tolist()),
        min(most / norm, 1.0),
        items * release,
        chance,
    )
    return tuple(next_up(bar * norm) for bar in bars)


def single_test(histogram: SparseHistogram) -> SparseHistogram:
    """The histogram with the threshold of single scores.

    If its noise is Gaussian, means take the other half of delta.
    """
    if histogram.noise != "gaussian":
        return histogram
    users = 1 if histogram.relation == "add_remove" else 2
    return SparseHistogram.model_validate(
        {**settings_of(histogram), "delta": histogram.delta / (2 * users)}
    )


@final
class _Vectors:
    """Noisy scores of every item that has occurred, as means over time.

    Private, except for those of known items.
    """

    def __init__(self, shown: Iterable[Selection], k: int) -> None:
        self.places: dict[Label, int] = {}  # where each item stands in the vectors
        self.known, self.means = np.zeros(0, dtype=np.bool_), Means(k)
        # of the last release; and the largest of all in size
        self.last, self.largest = np.zeros(0), np.zeros(0)
        self.releases = 0
        for selection in shown:
            self.take(selection)
        self.releases = 0  # those that an earlier history has shown are not among them

    def take(self, selection: Selection) -> None:
        """Add the result of a release, with all items that are known."""
        values = dict(zip(selection.labels or (), selection.values or (), strict=True))
        if missing := self.places.keys() - values.keys():
            raise InvalidRequest(
                f"shown: a release leaves out {len(missing)} of the items that those before it have"
                " shown. Give all that was shown, in the order of the releases"
            )
        self.grow([label for label in values if label not in self.places], [])
        self.add(np.array([values[label] for label in self.places]))
        self.known[:] = True

    def selection(self, variance: float) -> Selection:
        """All known items, ordered by means over time, with their scores of the last release.

        Args:
            variance: variance of the last release's noise.
        """
        order, indices, names = (
            self.means.order(variance, self.known),
            np.flatnonzero(self.known),
            list(self.places),
        )
        rows = zip(
            order.tolist(),
            [names[place] for place in indices],
            self.last[indices].tolist(),
            strict=True,
        )
        ranked = sorted(rows, key=lambda row: (-row[0], label_key(row[1])))
        return Selection(
            ordered=True,
            values=tuple(row[2] for row in ranked),
            labels=tuple(row[1] for row in ranked),
        )

    def grow(self, new: Sequence[Label], history: Sequence[Floats]) -> None:
        """Add items that never occurred before, with their noise of all releases so far."""
        earlier = np.array(history).reshape(len(history), len(new))
        self.places |= {label: len(self.places) + index for index, label in enumerate(new)}
        self.known = np.append(self.known, np.zeros(len(new), dtype=np.bool_))
        self.largest = np.append(self.largest, np.abs(earlier).max(axis=0, initial=0))
        self.means.grow(earlier)

    def add(self, noisy: Floats) -> None:
        """Add the noisy scores of one more release."""
        self.means.add(noisy)
        self.last, self.largest = noisy, np.maximum(self.largest, np.abs(noisy))
        self.releases += 1
