"""Made-up scores by their levels, how many items users have, and what bounding their contributions leaves of a count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, final

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Norm = Literal["l1", "l2"]
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


# -- users -----------------------------------------------------------------------------------------------------------------


_TAIL = 1e-9  # users with more items than all but so few of them are left out
_WIDTH = 2**0.25  # of a bin of loads above _SINGLE
_SINGLE = 16
_MOST_WITHIN = 500  # of a user's items among some candidates


@final
@dataclass(frozen=True)
class Bounding:
    """What is done to a user's items before they are counted.

    Attributes:
        limit: at most this many items of a user are kept, chosen by a hash; None for all.
        clip: the 0/1 vector of the kept ones is scaled to a norm of at most this; None to leave it.
        norm: in which that is: "l2" divides by the root of the number of items, "l1" by the number.
        share: of the users of a group, those that are kept in it at all.
    """

    limit: int | None = None
    clip: float | None = None
    norm: Norm = "l2"
    share: float = 1.0

    @property
    def whole(self) -> bool:
        """Whether all items of a user who is kept count, in full."""
        return self.limit is None and self.clip is None

    @property
    def idle(self) -> bool:
        """Whether nothing is done."""
        return self.whole and self.share == 1.0

    def kept(self, loads: Floats) -> Floats:
        """(bins,) the chance that an item of a user with that many is kept."""
        return self.share * (np.ones_like(loads) if self.limit is None else np.minimum(1.0, self.limit / loads))

    def weight(self, loads: Floats) -> Floats:
        """(bins,) what a kept item of such a user counts."""
        if self.clip is None:
            return np.ones_like(loads)
        left = loads if self.limit is None else np.minimum(loads, self.limit)
        return weights(left, self.clip, self.norm)

    def words(self) -> str:
        """As a phrase; empty if nothing is done."""
        parts = []
        if self.limit is not None:
            parts.append(f"at most {self.limit:,} item{'s' if self.limit > 1 else ''} of each user")
        if self.clip is not None:
            parts.append(f"each user scaled to {'a Euclidean' if self.norm == 'l2' else 'an l1'} norm of {self.clip:g}")
        return ", ".join(parts)


@final
@dataclass(frozen=True, eq=False)
class PopularItems:
    """Who touches the most popular items of a log, which says what a second look at some of them sees.

    Attributes:
        of: (levels,) the item of each level; -1 for levels further down.
        starts: (items + 1,) where the users of each item begin.
        users: (pairs,) users, from 0.
        factor: items of each user for every one in the log.
    """

    of: Indices
    starts: Indices
    users: Indices
    factor: float = 1.0

    def kept(self, chosen: Indices, reach: Indices, clip: float, norm: Norm) -> Floats:
        """(levels in reach,) what an item counts for each of its users on average, users clipped within the levels `chosen`."""
        among = np.zeros(len(self.starts) - 1, dtype=np.bool_)
        among[self.of[chosen]] = True
        sizes = np.diff(self.starts)
        inside: Floats = np.bincount(self.users, np.repeat(among, sizes))[self.users].astype(np.float64)
        inside = self.factor * (inside + np.repeat(~among, sizes))  # an item that joins the others is one more
        shares = np.concatenate([[0.0], np.cumsum(weights(inside, clip, norm))])
        return np.asarray((np.diff(shares[self.starts]) / sizes)[self.of[reach]])


@final
@dataclass(frozen=True, eq=False)
class Loads:
    """Numbers of items per user, and who touches which item.

    Attributes:
        sizes: (bins,) numbers of items, ascending, >= 1.
        users: (bins,) share of the users that have that many; sums to 1.
        touching: (levels, bins) of the users of an item of each level, the share in each bin; None: the same for all items, by
            chance, so that a user with twice the items is twice as likely to be among them.
        head: the users of the most popular items one by one, where a log says so.
    """

    sizes: Floats
    users: Floats
    touching: Floats | None = None
    head: PopularItems | None = None

    @classmethod
    def of_mean(cls, mean: float) -> Self:
        """Geometric, with 1 the least: most users have few, a tenth have 2.3 times the mean or more. A mean of 1 is 1 for all."""
        if mean <= 1:
            return cls(np.ones(1), np.ones(1))
        most = int(np.ceil(1 + np.log(_TAIL) / np.log1p(-1 / mean)))
        sizes = np.arange(1, most + 1, dtype=np.float64)
        return cls.binned(sizes, (1 - 1 / mean) ** (sizes - 1))

    @classmethod
    def of_mapping(cls, stated: Mapping[int, float]) -> Self:
        """From numbers of items and how many users have each, or which share."""
        for size, amount in stated.items():
            if not is_count(size):
                raise InvalidRequest(f"items_per_user: {size!r} must be an integer >= 1, a number of items that users have")
            if not isinstance(amount, int | float | np.number) or not 0 <= amount < np.inf:
                raise InvalidRequest(
                    f"items_per_user[{size}]={amount!r} must be a finite number >= 0: how many users have that many"
                )
        sizes = np.array(sorted(stated), dtype=np.float64)
        amounts = np.array([float(stated[int(size)]) for size in sizes])
        if not amounts.sum() > 0:
            raise InvalidRequest("items_per_user names no users: give {number of items: how many users have it}")
        return cls.binned(sizes, amounts)

    @classmethod
    def binned(cls, sizes: Floats, amounts: Floats) -> Self:
        """Bins that are exact up to 16 items and 19 % wide beyond."""
        place = bin_of(sizes)
        total = np.bincount(place, amounts)
        mean = np.bincount(place, amounts * sizes)[total > 0] / total[total > 0]
        return cls(mean, total[total > 0] / total.sum())

    @property
    def mean(self) -> float:
        """Items of a user on average."""
        return float(self.sizes @ self.users)

    def scaled(self, factor: float) -> Loads:
        """As many users with `factor` times the items each, at least 1."""
        head = None if self.head is None else replace(self.head, factor=factor * self.head.factor)
        return replace(self, sizes=np.maximum(1.0, factor * self.sizes), head=head)

    def at(self, levels: Indices | slice) -> Loads:
        """The same for other levels, each given by one of these."""
        touching = None if self.touching is None else self.touching[levels]
        return replace(self, touching=touching, head=None if self.head is None else replace(self.head, of=self.head.of[levels]))

    def _shares(self) -> Floats:
        """(1 or levels, bins) of the users of an item, the share in each bin."""
        if self.touching is not None:
            return self.touching
        return ((self.sizes * self.users) / self.mean)[None]

    def left(self, counts: Floats, multiplicities: Floats, bounding: Bounding) -> tuple[Floats, Floats]:
        """(levels,) what bounding leaves of a count on average, and the standard deviation of that.

        The deviation is that of which users touch an item and which items are kept; where a log says who touches an item of its
        own count, the former is known.
        """
        kept, weight, shares = bounding.kept(self.sizes), bounding.weight(self.sizes), self._shares()
        mean = shares @ (kept * weight)
        drawn = shares @ (kept * weight**2) - mean**2
        if self.touching is not None:
            chosen = shares @ (kept * (1 - kept) * weight**2)
            drawn = np.where(multiplicities == 1, chosen, drawn)
        return counts * mean, np.sqrt(counts * np.maximum(drawn, 0.0))

    def left_within(
        self, counts: Floats, multiplicities: Indices, candidates: int, reach: int, clip: float, norm: Norm
    ) -> tuple[Floats, Floats]:
        """(reach,) what is left of the counts of the first `reach` levels where users are clipped within the first `candidates`
        items, and its standard deviation.

        Of a log it is known for its most popular items. Otherwise a user's items are taken to lie among the candidates by chance.
        """
        ends = np.cumsum(multiplicities)
        inside = int(np.searchsorted(ends, candidates)) + 1
        if self.head is not None and self.head.of[: max(inside, reach)].min() >= 0:
            kept = self.head.kept(np.arange(min(inside, len(counts))), np.arange(reach), clip, norm)
            return counts[:reach] * kept, np.zeros(reach)
        inner = np.diff(np.minimum(ends, candidates), prepend=0)
        chance = min(1.0, float(counts @ inner) / max(float(counts @ multiplicities), 1e-300))
        others = np.arange(_MOST_WITHIN)
        law = _binomial(others, np.rint(self.sizes - 1)[:, None], chance)
        mean, square = (law @ weights((1 + others).astype(np.float64), clip, norm) ** power for power in (1, 2))
        shares = np.broadcast_to(self._shares(), (len(counts), len(self.sizes)))[:reach]
        kept = shares @ mean
        return counts[:reach] * kept, np.sqrt(counts[:reach] * np.maximum(shares @ square - kept**2, 0.0))


def _binomial(counts: Indices, trials: Floats, chance: float) -> Floats:
    """Chances of these numbers of successes, broadcast; not by scipy.stats, which takes longer to import than to plan."""
    special, missed = scipy.special, np.maximum(trials - counts, 0)
    ways = special.gammaln(trials + 1) - special.gammaln(counts + 1) - special.gammaln(missed + 1)
    logs = ways + special.xlogy(counts, chance) + special.xlog1py(missed, -chance)
    return np.where(counts <= trials, np.exp(logs), 0.0)


def is_count(value: object) -> bool:
    """Whether it is an integer >= 1, numpy's included, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def weights(items: Floats, clip: float, norm: Norm) -> Floats:
    """What an item of a user with that many counts, once the user is clipped."""
    return np.minimum(1.0, clip / np.maximum(np.sqrt(items) if norm == "l2" else items, 1e-300))


def bin_of(sizes: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each number of items."""
    wide = _SINGLE + np.floor(np.log(np.maximum(sizes, 1) / _SINGLE) / np.log(_WIDTH))
    return np.where(sizes <= _SINGLE, sizes, np.maximum(wide, _SINGLE)).astype(np.int64)
