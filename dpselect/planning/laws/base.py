"""What a mechanism sees of a ranking, and what a release may look like, by the law that its traits name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from inspect import signature
from pkgutil import resolve_name
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.sensitivity import Norm

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
SecondLook = Callable[[int, int, float, Norm], tuple[Floats, Floats]]

_FINEST = 2.0**-30  # of the largest score: a float holds the cell and the level then
_GRAINS = 20  # of the largest deviation among the best: scores that turn out closer count as equal


@final
@dataclass(frozen=True, eq=False)
class Levels:
    """Scores as a mechanism sees them, highest first, how many items have each, and what those items are worth.

    A released item is right if its true count is at least that of true rank k: with ties any of the tied items will do. Where
    users' contributions are not bounded, what is seen is the true count.

    Attributes:
        values: (levels,) seen scores, in users; they may repeat, with another true count.
        multiplicities: (levels,) numbers of items.
        k: how many of the best are wanted, at most the number of items.
        truth: (levels,) true counts of these items, in users.
        spread: (levels,) standard deviation of a seen score around its value, where bounding leaves it to chance.
        again: from (candidates, levels, clip, norm) what a second look at the first items sees on the first
            levels, users clipped anew within these items, and its standard deviation; None where it is not known.
    """

    values: Floats
    multiplicities: Indices
    k: int
    truth: Floats
    spread: Floats | None = None
    again: SecondLook | None = None

    @classmethod
    def of(cls, counts: Floats, multiplicities: Indices, k: int) -> Self:
        """The levels of true counts, highest first; neighbours may be equal."""
        first = np.flatnonzero(np.diff(counts, prepend=np.inf))
        distinct = counts[first]
        return cls(distinct, np.add.reduceat(multiplicities, first), k, distinct)

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.ends[-1]) if len(self.ends) else 0

    @cached_property
    def ends(self) -> Indices:
        """(levels,) rank of the last item of every level."""
        return np.cumsum(self.multiplicities)

    def value(self, rank: int | Indices) -> Floats:
        """Seen score of each rank, from 1; 0 beyond the last."""
        place = np.searchsorted(self.ends, rank, side="left")
        return np.append(self.values, 0.0)[np.minimum(place, len(self.values))]

    def gaps(self, count: int) -> Floats:
        """(count,) seen score of rank j minus that of rank j + 1, j from 1."""
        ranks = np.arange(1, count + 1)
        return np.asarray(self.value(ranks) - self.value(ranks + 1))

    # -- what items are worth -----------------------------------------------------------------------------------------

    @cached_property
    def _by_truth(self) -> tuple[Floats, Indices]:
        """Distinct true counts, highest first, and how many items have each."""
        if self.truth is self.values:
            return self.values, self.multiplicities
        counts, place = np.unique(-self.truth, return_inverse=True)
        return -counts, np.bincount(place, self.multiplicities).astype(np.int64)

    @cached_property
    def best_counts(self) -> Floats:
        """(k,) the true counts of the k best."""
        counts, members = self._by_truth
        place = np.searchsorted(np.cumsum(members), np.arange(1, self.k + 1), side="left")
        return np.asarray(np.append(counts, 0.0)[np.minimum(place, len(counts))])

    @property
    def bar(self) -> float:
        """The true count of rank k, which a right item has at least."""
        return float(self.best_counts[-1])

    @cached_property
    def rights(self) -> Floats:
        """(levels,) how many items of each level are right: all or none; with ties at rank k more than k in all."""
        return np.where(self.truth >= self.bar, self.multiplicities, 0).astype(np.float64)

    @property
    def best(self) -> float:
        """The sum of the k highest true counts."""
        return float(self.best_counts.sum())

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """(levels,) the first and the last place, from 0, in which an item of each level would be in place."""
        counts, members = self._by_truth
        own, ends = np.searchsorted(-counts, -self.truth), np.cumsum(members)
        return (ends - members)[own], ends[own] - 1

    def sums(self, ranks: int | Indices) -> Floats:
        """Sum of the true counts of the items seen in the first `ranks` ranks, elementwise."""
        return self._cumulated(self.truth, ranks)

    def hits(self, ranks: int | Indices) -> Floats:
        """How many of the items seen in the first `ranks` ranks are right, elementwise."""
        return self._cumulated((self.truth >= self.bar).astype(np.float64), ranks)

    def _cumulated(self, worth: Floats, ranks: int | Indices) -> Floats:
        ranks = np.minimum(ranks, self.size)
        place = np.searchsorted(self.ends, ranks, side="left")
        before = np.concatenate([[0], self.ends])[place]
        sums = np.concatenate([[0.0], np.cumsum(worth * self.multiplicities)])
        return np.asarray(sums[place] + (ranks - before) * np.append(worth, 0.0)[place])

    def realised(self, rng: np.random.Generator) -> Levels:
        """Scores as they may turn out, one level for each item whose score is left to chance."""
        if self.spread is None:
            return self
        spread, members = self.spread, self.multiplicities
        level = np.repeat(np.arange(len(members)), members)
        means, deviations = self.values[level], spread[level]
        # A gamma law has the mean and the variance, and no negative scores.
        shape = np.maximum(means / np.maximum(deviations, 1e-12), 1e-6) ** 2
        seen = np.where(deviations > 0, rng.gamma(shape) * means / shape, means)
        grid = max(float(deviations[: 10 * self.k].max()) / _GRAINS, 1e-9, float(seen.max()) * _FINEST)
        cells, count = np.unique(np.rint(seen / grid) * len(members) + level, return_counts=True)
        height, level = np.divmod(cells, len(members))
        order = np.argsort(-height, kind="stable")
        return Levels(height[order] * grid, count[order], self.k, self.truth[level[order].astype(np.int64)])

    def thinned(self, grain: float) -> Levels:
        """The same with wrong items whose scores are within `grain` of each other taken together."""
        right = self.truth >= self.bar
        cell = np.where(right, np.arange(len(right)), -1 - np.floor(self.values / grain).astype(np.int64))
        _, first, place = np.unique(cell, return_index=True, return_inverse=True)
        members = np.bincount(place, self.multiplicities)

        def mean(values: Floats) -> Floats:
            return np.asarray(np.bincount(place, values * self.multiplicities) / members)

        alone = members[place] == self.multiplicities  # to the last bit what they were
        values, truth = (np.where(alone[first], array[first], mean(array)) for array in (self.values, self.truth))
        spread = None if self.spread is None else np.sqrt(mean(self.spread**2))
        order = np.argsort(-values, kind="stable")
        part = Levels(
            values[order], members[order].astype(np.int64), self.k, truth[order], None if spread is None else spread[order]
        )
        return self._inherited_by(part)

    # -- parts --------------------------------------------------------------------------------------------------------

    def cut(self, start: int, stop: int | None = None) -> Levels:
        """The levels of the ranks after `start` up to `stop`. What is right stays what it was: that of the whole ranking."""
        upto = np.clip(self.ends, start, self.size if stop is None else stop)
        left = np.diff(np.concatenate([[start], upto]))
        kept = left > 0
        truth = self.values[kept] if self.truth is self.values else self.truth[kept]
        part = Levels(self.values[kept], left[kept], self.k, truth, None if self.spread is None else self.spread[kept])
        return self._inherited_by(part)

    def _inherited_by(self, part: Levels) -> Levels:
        """A part would judge itself by itself: what is best is inherited."""
        object.__setattr__(part, "best_counts", self.best_counts)
        object.__setattr__(part, "_by_truth", self._by_truth)
        return part


# -- what comes out ----------------------------------------------------------------------------------------------


_LOST = 0.1  # of the noise: what adds half a percent to it
_CASES = 4  # ways in which bounded scores may turn out
_WORK = 1e9  # elementary steps, some ten seconds
_CHUNK = 1 << 18  # draws at once


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """What may come out: independent simulated runs, or outcomes of a known law. Every number is in [0, 1].

    Attributes:
        exact_set: whether, or how likely, all k items are there and right.
        recall: share of the k places that a right item fills.
        kept: sum of the released items' true counts over that of the k best.
        released: number of released items over k.
        in_place: share of the k places that hold an item with the true count of that rank; None if no order is released.
        weights: probability of each outcome; None for simulated runs.
        error: the most by which means under these weights are off, where they are found by quadrature.
    """

    exact_set: Floats
    recall: Floats
    kept: Floats
    released: Floats
    in_place: Floats | None = None
    weights: Floats | None = None
    error: float = 0.0

    @classmethod
    def of_release(cls, mechanism: Mechanism, levels: Levels, runs: Runs) -> Outcomes:
        """What a release of `mechanism` may look like on this ranking; on average over scores that bounding leaves to chance."""
        place = mechanism.traits.law
        if place is None:
            raise InvalidRequest(f"{type(mechanism).__name__} is not planned yet: no law of its quality is known")
        law = _law(place)
        if levels.spread is None:
            return law(mechanism, levels, runs)
        steps, most = [getattr(mechanism, name, mechanism) for name in ("discovery", "selection")], float(levels.spread.max())
        # That chance is one with the noise where it is Gaussian, and beside much noise it is lost.
        if all(getattr(step, "noise", None) == "gaussian" or most < _LOST * getattr(step, "scale", 0.0) for step in steps):
            return law(mechanism, levels, runs)
        rng = np.random.default_rng([runs.seed, runs.stage, 3])
        fewer = replace(runs, count=max(2, runs.count // _CASES))
        return cls.pooled([law(mechanism, levels.realised(rng), fewer) for _ in range(_CASES)])

    @classmethod
    def of_items(cls, drawn: Indices, levels: Levels, *, ordered: bool) -> Self:
        """From the (rounds, k) levels of the released items, -1 where there is none; in order of rank if `ordered`."""
        k, there = levels.k, drawn >= 0
        hits = (there & (levels.rights > 0)[drawn]).sum(axis=1)
        counts = np.where(there, levels.truth[drawn], np.nan)
        return cls(
            exact_set=(hits == k).astype(np.float64),
            recall=hits / k,
            kept=share(np.where(there, counts, 0.0).sum(axis=1), levels.best),
            released=there.sum(axis=1) / k,
            in_place=(counts == levels.best_counts).sum(axis=1) / k if ordered else None,
        )

    @classmethod
    def of_tops(cls, sizes: Indices, chances: Floats, levels: Levels) -> Self:
        """From the law of how many of the highest are released; of more than k, k are drawn at random."""
        released = np.minimum(sizes, levels.k)
        part = released / np.maximum(sizes, 1)
        hits = levels.hits(sizes)
        places = np.arange(levels.k)
        lucky = np.clip((hits[:, None] - places) / np.maximum(sizes[:, None] - places, 1), 0.0, 1.0).prod(axis=1)
        return cls(
            exact_set=np.where(sizes >= levels.k, lucky, 0.0),
            recall=part * hits / levels.k,
            kept=share(part * levels.sums(sizes), levels.best),
            released=released / levels.k,
            weights=chances,
        )

    @classmethod
    def pooled(cls, parts: Sequence[Self]) -> Self:
        """Equally likely cases, each with its outcomes."""

        def joined(name: str) -> Floats:
            return np.concatenate([getattr(part, name) for part in parts])

        first = parts[0]
        simulated = first.weights is None
        return cls(
            **{name: joined(name) for name in ("exact_set", "recall", "kept", "released")},
            in_place=None if first.in_place is None else joined("in_place"),
            weights=None if simulated else joined("weights") / len(parts),
            error=max(part.error for part in parts),
        )


def share(total: Floats, best: float) -> Floats:
    """`total` over `best`, within [0, 1]; all of it where there is nothing to gain."""
    return np.clip(total / best, 0.0, 1.0) if best > 0 else np.ones_like(total)


@final
@dataclass(frozen=True)
class Runs:
    """A number of simulated runs. Every mechanism starts from the same seed, so that luck is shared.

    Attributes:
        count: how many runs, >= 2.
        seed: of the simulation.
        stage: 0 to choose parameters, 1 to judge the choice: other draws, so that the choice does not flatter it.
        fine: whether quadrature is as fine as it gets; coarse, it is off by .01 at most.
        places: whether it matters which item stands in which place.
    """

    count: int
    seed: int
    stage: int = 1
    fine: bool = True
    places: bool = True

    def within(self, work: float) -> Runs:
        """Fewer runs, but at least 100, where the elementary steps of all runs would take minutes."""
        return replace(self, count=min(self.count, max(100, int(_WORK / work))))

    def generator(self) -> np.random.Generator:
        """A fresh generator."""
        return np.random.default_rng([self.seed, self.stage])


def chunks(rounds: int, width: int) -> Iterator[int]:
    """Numbers of runs whose draws, `width` per run, fit the cache."""
    step = max(1, _CHUNK // max(1, width))
    return (min(step, rounds - start) for start in range(0, rounds, step))


@cache
def _law(place: str) -> Callable[[Mechanism, Levels, Runs], Outcomes]:
    """The law; an exact one has no use for runs."""
    function: Callable[..., Outcomes] = resolve_name(place)
    if "runs" in signature(function).parameters:
        return function
    return lambda mechanism, levels, _: function(mechanism, levels)
