"""What is publicly known or assumed of the data: how many users there are, how many items they have, how popular items are.

A `Profile` is declared, or that of a public log. `Levels` are what a mechanism sees of it once users' contributions are
bounded.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting.address import masked
from accounting.arguments import Relation
from accounting.frozen import Count, Frozen, Real
from dpselect.errors import EventLogError, InvalidRequest
from dpselect.events.file_options import FILE_OPTIONS
from dpselect.events.sources.base import Column
from dpselect.plan.arrivals import Arrivals
from dpselect.scores import Scores
from dpselect.sensitivity import Norm, Sensitivity

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
SecondLook = Callable[[int, int, float, Norm], tuple[Floats, Floats]]
Law = Literal["curve", "counts"]

MOST_USERS = 10**15
"""Users, and items of one: beyond it a float does not tell one."""

_KEPT = 1000  # items of a log that are kept one by one
_PAIRS_OF = "CREATE TEMP TABLE pairs AS SELECT DISTINCT u, i FROM ({log}) WHERE u IS NOT NULL AND i IS NOT NULL"
_BEST = "CREATE TEMP TABLE best AS SELECT i, row_number() OVER (ORDER BY count(*) DESC, i) - 1 AS rank FROM pairs GROUP BY i"
_LOADS = """
WITH loads AS (SELECT u, count(*) AS t FROM pairs GROUP BY u)
SELECT rank AS i, t, count(*) AS n FROM pairs JOIN loads USING (u) JOIN best USING (i) GROUP BY rank, t
"""
_USERS = f"""
SELECT rank AS i, dense_rank() OVER (ORDER BY u) - 1 AS u FROM pairs JOIN best USING (i) WHERE rank < {_KEPT} ORDER BY rank
"""
_MOST_ITEMS = _MOST_EVENTS = 50_000_000
_MOST_EACH = 1_000_000  # items of a user on average, whose law is laid out in full
_SCATTERED, _SCATTER = 2000, 0.04  # first ranks of an uneven shape, and the standard deviation of their logarithms
_TAKEN_OFF = 0.8  # the exponent that a flat head takes off
_LEFT_OUT = 1e-9  # users with more items than all but so few of them are left out
_WIDTH = 2**0.25  # of a bin of loads above _SINGLE
_SINGLE = 16  # numbers of items of a user that have a bin of their own
_CLASSES = 5  # of groups by their size
_MOST_WITHIN = 500  # of a user's items among some candidates


class Stated(Frozen):
    """Part of a question to the planner or of its answer."""

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest


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
        return _weights(left, self.clip, self.norm)

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
class _PopularItems:
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
        shares = np.concatenate([[0.0], np.cumsum(_weights(inside, clip, norm))])
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
    head: _PopularItems | None = None

    @classmethod
    def of_mean(cls, mean: float) -> Self:
        """Geometric, with 1 the least: most users have few, a tenth have 2.3 times the mean or more. A mean of 1 is 1 for all."""
        if mean <= 1:
            return cls(np.ones(1), np.ones(1))
        most = int(np.ceil(1 + np.log(_LEFT_OUT) / np.log1p(-1 / mean)))
        sizes = np.arange(1, most + 1, dtype=np.float64)
        return cls.binned(sizes, (1 - 1 / mean) ** (sizes - 1))

    @classmethod
    def binned(cls, sizes: Floats, amounts: Floats) -> Self:
        """Bins that are exact up to 16 items and 19 % wide beyond."""
        place = _bin_of(sizes)
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
        mean, square = self._within(round(chance, 12), clip, norm)
        shares = np.broadcast_to(self._shares(), (len(counts), len(self.sizes)))[:reach]
        kept = shares @ mean
        return counts[:reach] * kept, np.sqrt(counts[:reach] * np.maximum(shares @ square - kept**2, 0.0))

    def _within(self, chance: float, clip: float, norm: Norm) -> tuple[Floats, Floats]:
        """(bins,) the mean and the mean square of what an item counts whose user's others lie among some with this chance."""
        others = np.arange(_MOST_WITHIN)
        law = _laws_within(self.sizes.tobytes(), chance)
        weights = _weights((1 + others).astype(np.float64), clip, norm)
        return law @ weights, law @ weights**2


@cache
def _laws_within(sizes: bytes, chance: float) -> Floats:
    """(bins, others) the law of how many others of a user's items lie among some."""
    return _binomial(np.arange(_MOST_WITHIN), np.rint(np.frombuffer(sizes) - 1)[:, None], chance)


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

    # -- parts --------------------------------------------------------------------------------------------------------

    def cut(self, start: int, stop: int | None = None) -> Levels:
        """The levels of the ranks after `start` up to `stop`. What is right stays what it was: that of the whole ranking."""
        upto = np.clip(self.ends, start, self.size if stop is None else stop)
        left = np.diff(np.concatenate([[start], upto]))
        kept = left > 0
        truth = self.values[kept] if self.truth is self.values else self.truth[kept]
        part = Levels(self.values[kept], left[kept], self.k, truth, None if self.spread is None else self.spread[kept])
        object.__setattr__(part, "best_counts", self.best_counts)  # a part would judge itself by itself
        object.__setattr__(part, "_by_truth", self._by_truth)
        return part


# -- what comes out ----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """What is known of a log without looking at it: from a source that is public, made up, or paid for.

    Immutable. Items are known by rank only, so what is kept is every distinct count and how many items have it; of a log its most
    popular items one by one.

    Attributes:
        values: (levels,) counts, highest first, in users.
        multiplicities: (levels,) how many items have each.
        description: where the profile comes from, in words.
        loads: how many items users have; None if that is not known.
        users: how many users there are; None if that is not known.
        law: "counts" of a log or published; "curve", a smooth made-up one, around which counts of a real log scatter.
        arrivals: events over time; None where the profile does not say when users come.
    """

    values: Floats
    multiplicities: Indices
    description: str
    loads: Loads | None = None
    users: float | None = None
    law: Law = field(default="counts", kw_only=True)
    arrivals: Arrivals | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for array in (self.values, self.multiplicities):
            array.setflags(write=False)

    # -- items -----------------------------------------------------------------------------------------------------------

    @classmethod
    def of_counts(
        cls,
        counts: ArrayLike,
        *,
        public: bool,
        items_per_user: float | Mapping[int, float] | None = None,
        description: str = "public counts",
    ) -> Self:
        """The shape of counts that were published, last year's for example, in any order.

        Args:
            counts: (m,) numbers from 0 to 10^15, one per item.
            public: your statement that the counts are public or made up. A plan that looks at private counts is itself a release.
            items_per_user: how many items users have: a mean, >= 1, or a mapping {number of items: how many users have it}.
                Without it nothing is known about bounded contributions.
            description: where they come from.

        Raises:
            InvalidRequest: `public` is not True, or the counts or the items per user are not such numbers.
        """
        if public is not True:
            raise InvalidRequest(
                f"public={public!r} is refused: a plan that looks at private counts leaks them. State public=True for counts "
                "that were published or made up, or use Profile.zipf"
            )
        distinct, multiplicities = np.unique(_checked(counts), return_counts=True)
        loads = None if items_per_user is None else _loads(items_per_user, least=1.0)
        users = None if loads is None else float(distinct @ multiplicities) / loads.mean
        return cls(distinct[::-1].copy(), multiplicities[::-1].astype(np.int64), description, loads, users)

    @classmethod
    def zipf(cls, exponent: float, items: int, users: int, *, items_per_user: float | Mapping[int, float] = 1.0) -> Self:
        """Expected counts under Zipf's law: item i of `items` has users * items_per_user * i^-exponent / sum, at most `users`.

        Counts are rounded to whole users.

        Args:
            exponent: >= 0; 0 makes all items alike, about 1 is usual for what people like.
            items: how many items, from 1 to 50,000,000.
            users: how many users, from 1 to 10^15.
            items_per_user: how many different items a user touches: a mean, > 0, around which users are spread geometrically,
                or a mapping {number of items: how many users have it}, or which share of them.

        Raises:
            InvalidRequest: an argument is outside its domain.
        """
        _require_number("exponent", exponent, low=0.0, rule="a finite number >= 0; about 1 is usual for what people like")
        for name, value in (("items", items), ("users", users)):
            _require_count(name, value)
        if users > MOST_USERS:
            raise InvalidRequest(f"users={users} is more than {MOST_USERS:,}: plan for fewer")
        if items > _MOST_ITEMS:
            raise InvalidRequest(
                f"items={items} is more than {_MOST_ITEMS:,}: plan for fewer; items far down the ranking matter little"
            )
        loads = _loads(items_per_user)
        # A mean below 1 says that not every user has an item; those that have one have one.
        mean = loads.mean if isinstance(items_per_user, Mapping) else float(items_per_user)
        shares = np.arange(1, items + 1, dtype=np.float64) ** -float(exponent)
        expected = np.minimum(users * mean / shares.sum() * shares, users)
        words = f"Zipf's law with exponent {exponent:g}, {items:,} items, {users:,} users"
        if mean != 1:
            words += f", {mean:g} items per user"
        found = cls.of_counts(np.rint(expected), public=True, description=words)
        return cls(found.values, found.multiplicities, words, loads, float(users), law="curve")

    @classmethod
    def of_csv(
        cls,
        path: Path | str,
        column: str | None = None,
        *,
        public: bool = False,
        items_per_user: float | Mapping[int, float] | None = None,
    ) -> Self:
        """The shape of the public counts in a column of a CSV file; an only column needs neither name nor header.

        Raises:
            InvalidRequest: `public` is not True, the file cannot be read, has no such column, or holds other things.
        """
        if public is not True:
            raise InvalidRequest(
                f"the counts in {masked(path)} may be private: a plan that looks at private counts leaks them. If they were "
                "published or made up, declare it (public=True)"
            )
        words = f"public counts in {Path(path).name}" + ("" if column is None else f", column {column}")
        return cls.of_counts(_counts_in(Path(path), column), public=True, items_per_user=items_per_user, description=words)

    @classmethod
    def of_log(
        cls,
        path: Path | str,
        *,
        user: Column | Sequence[Column],
        item: Column | Sequence[Column],
        time: Column | None = None,
        periods: int | None = None,
        public: bool = False,
        **files: Any,
    ) -> Self:
        """The shape of a log that was published or made up, last year's for example: it also says who touches which items.

        Args:
            path: a file, one row per event, of any format that `events.read` reads.
            user, item: its columns; several make up one item.
            time, periods: the column of times, and into how many periods of one length they are cut, for a plan of a horizon.
            public: your statement that the log is public or made up.
            files: fields of `events.FileOptions`, such as delimiter, encoding, null or normalize.

        Raises:
            InvalidRequest: `public` is not True, a field is none of a file's, or the file cannot be read or has no such columns.
        """
        if not isinstance(path, str | Path):
            raise InvalidRequest(
                f"path must name a file, not a {type(path).__name__}: write the table to a file, or take "
                "Profile.zipf(...) for a log that is not public"
            )
        if public is not True:
            raise InvalidRequest(
                f"the log {masked(path)} may be private: a plan that looks at a private log leaks it. If it was published or "
                "made up, declare it (public=True)"
            )
        if (time is None) != (periods is None):
            raise InvalidRequest("time= names the column of times, periods= into how many they are cut: give both or neither")
        for name in files.keys() - FILE_OPTIONS:
            raise InvalidRequest(
                f"{name}={files[name]!r} is no option of a file, and a profile is of the whole log: leave it out, or write the "
                f"events that are meant into a file of their own; the options are {', '.join(FILE_OPTIONS)}"
            )
        form = files.pop("time_format", None)  # of a column that the counts do without
        if form is not None and time is None:
            raise InvalidRequest(f"time_format={form!r} is about the column time=: name it, or leave it out")
        columns = {"user": user, "item": item, **files}
        counts, multiplicities, loads, users = _users_in(Path(path), columns)
        when = None
        if periods is not None:
            _require_count("periods", periods)
            when = Arrivals.of_log(Path(path), columns, time, periods, form)
        return cls(counts, multiplicities, f"the public log {Path(path).name}", loads, users, arrivals=when)

    def arriving(self, periods: int, *, active: float = 1.0, new_items: int = 0, seed: int = 0) -> Profile:
        """The same with made-up events over time, drawn once, for a plan of a horizon: users have their items in all periods
        together.

        Args:
            periods: how many.
            active: the share of periods, in (0, 1], in which a user has events at all.
            new_items: how many of the items, of any rank, come after the first period.
            seed: of this draw; it releases nothing.

        Raises:
            InvalidRequest: an argument is outside its domain, or there are more than 50,000,000 events.
        """
        _require_count("periods", periods)
        _require_number("active", active, low=math.ulp(0.0), high=1.0, rule="a share of periods in (0, 1]")
        _require_number("new_items", new_items, low=0, high=self.size - 1, rule=f"an integer from 0 to {self.size - 1:,}")
        loads = Loads.of_mean(1.0) if self.loads is None else self.loads
        users = round(float(self.values @ self.multiplicities) / loads.mean if self.users is None else self.users)
        if users * loads.mean > _MOST_EVENTS:
            raise InvalidRequest(f"users={users:,} with {loads.mean:g} items each are too many events to make up: try fewer")
        rng = np.random.default_rng(seed)
        sizes = np.maximum(1, np.rint(rng.choice(loads.sizes, size=users, p=loads.users / loads.users.sum()))).astype(np.int64)
        made: dict[str, Any] = {"active": active, "later": int(new_items), "rng": rng}
        found = Arrivals.drawn(np.repeat(np.arange(users), sizes), self.dense(), periods, **made)
        words = f"{self.description}, each in {max(1, round(active * periods))} of {periods} periods"
        return replace(self, description=words, arrivals=found)

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.multiplicities.sum())

    @property
    def touched(self) -> int:
        """Number of items with at least one user."""
        return int(self.multiplicities[self.values > 0].sum())

    def dense(self) -> Floats:
        """(m,) the count of every rank, highest first, in users."""
        return np.repeat(self.values, self.multiplicities)

    def varied(self, rng: np.random.Generator) -> Profile:
        """A shape with independent Poisson counts that have these means: what another sample of users might look like."""
        other = Profile.of_counts(np.minimum(rng.poisson(self.dense()), MOST_USERS), public=True)
        # The users of each of its levels are those of this shape's nearest count.
        nearest = np.clip(np.searchsorted(-self.values, -other.values), 0, len(self.values) - 1)
        loads = None if self.loads is None else self.loads.at(nearest)
        return Profile(other.values, other.multiplicities, f"a sample of: {self.description}", loads, self.users)

    def flattened(self, ranks: float) -> Profile:
        """Another law: the head is flat up to about this many ranks, with the same sum, as that of public logs is."""
        flat = self.values * (self._middles / (self._middles + ranks)) ** _TAKEN_OFF
        return self._with_my_sum(flat, f"flat for {ranks:g} ranks")

    def uneven(self, rng: np.random.Generator) -> Profile:
        """What a log may look like whose counts scatter around this curve, each by some 4 %, and whose gaps are therefore uneven.

        On six public logs the logarithm of a count lies .02 to .04 off a cubic in that of its rank.
        """
        head = min(self.size, _SCATTERED)
        level = np.minimum(np.searchsorted(np.cumsum(self.multiplicities), np.arange(head), side="right"), len(self.values) - 1)
        scattered = self.values[level] * np.exp(_SCATTER * rng.standard_normal(head))
        left = np.diff(np.maximum(np.cumsum(self.multiplicities), head), prepend=head)
        rest = np.flatnonzero(left > 0)
        values = np.concatenate([np.rint(np.minimum(scattered, self._most)), self.values[rest]])
        members = np.concatenate([np.ones(head, dtype=np.int64), left[rest]])
        order = np.argsort(-values, kind="stable")
        loads = None if self.loads is None else self.loads.at(np.concatenate([level, rest])[order])
        return Profile(values[order], members[order], f"uneven: {self.description}", loads, self.users)

    def tilted(self, exponent: float) -> Profile:
        """Another law: the count of rank i times i^-exponent, with the same sum. Steeper if `exponent` is above 0."""
        return self._with_my_sum(self.values * self._middles**-exponent, f"exponent {exponent:+g}")

    def tempered(self, power: float) -> Profile:
        """Another law: counts to this power, with the same sum. Zipf's law with an exponent has `power` times that exponent."""
        return self._with_my_sum(self.values**power, f"to the power {power:g}")

    def thinned(self, factor: float) -> Profile:
        """The same with `factor` times the users."""
        return self._of(self.values * factor, f"{factor:g} times the users: {self.description}", users=factor)

    def in_group(self, share: float) -> Profile:
        """A group with this share of the users, in whole users per item."""
        words = f"a group of {share:.3g} of the users: {self.description}"
        return self._of(np.rint(self.values * share), words, users=share)

    def heavier(self, factor: float) -> Profile:
        """The same with `factor` times the items per user, and as many users as before."""
        words = f"{factor:g} times the items per user: {self.description}"
        return self._of(np.minimum(self.values * factor, self._most), words, items=factor)

    @property
    def _middles(self) -> Floats:
        """(levels,) the middle of the ranks that share a count."""
        return np.cumsum(self.multiplicities) - (self.multiplicities - 1) / 2

    @property
    def _most(self) -> float:
        """Users of an item."""
        return MOST_USERS if self.users is None else max(self.users, float(self.values[0]))

    def _with_my_sum(self, values: Floats, words: str) -> Profile:
        """Other values for the same levels, in proportion to these and with the sum that this shape has."""
        factor = float(self.values @ self.multiplicities) / max(float(values @ self.multiplicities), 1e-300)
        return self._of(np.minimum(values * factor, self._most), f"{words}: {self.description}")

    def _of(self, values: Floats, words: str, *, users: float = 1.0, items: float = 1.0) -> Profile:
        """Other values for the same levels, highest first; this many times the users, this many times the items of each."""
        order = np.argsort(-values, kind="stable")
        loads = None if self.loads is None else self.loads.scaled(items).at(order)
        return Profile(
            values[order], self.multiplicities[order], words, loads, None if self.users is None else self.users * users
        )

    def levels(self, k: int, bounding: Bounding | None = None, *, known: bool = True) -> Levels:
        """The ranking that a release sees once users' contributions are bounded; of an unknown domain only touched items exist.

        Raises:
            InvalidRequest: contributions are bounded and how many items users have is not known.
        """
        kept = slice(None) if known else slice(0, int((self.values > 0).sum()))
        counts, members = self.values[kept], self.multiplicities[kept]
        if bounding is None or bounding.idle:
            return Levels.of(counts, members, min(k, int(members.sum())))
        loads = Loads.of_mean(1.0) if self.loads is None and bounding.whole else self.loads
        if loads is None:
            raise InvalidRequest(
                f"bounding contributions ({bounding.words()}) takes items away from counts, and this profile does not say how "
                "many items users have: state items_per_user (--items-per-user), a mean or a distribution"
            )
        loads = loads.at(kept)
        seen, spread = loads.left(counts, members.astype(np.float64), bounding)
        order, k = np.argsort(-seen, kind="stable"), min(k, int(members.sum()))
        again = cache(partial(loads.at(order).left_within, counts[order], members[order]))
        return Levels(seen[order], members[order], k, counts[order], spread[order] if spread.any() else None, again)

    def scores(
        self,
        *,
        relation: Relation = "add_remove",
        l0: int | None = None,
        observed: bool = False,
        sensitivity: Sensitivity | None = None,
    ) -> Scores:
        """Made-up scores of this shape, to try a mechanism on. Nothing is bounded: the counts are those of the shape.

        Args:
            relation, l0: of the declared sensitivity, which is that of distinct-user counts.
            observed: leave out items without users and declare an unknown domain.
            sensitivity: in place of relation and l0: what a mechanism covers, say.
        """
        values, declared = self.dense(), sensitivity or Sensitivity(relation=relation, l0=l0)
        if not observed:
            return Scores(values, sensitivity=declared)
        return Scores(values[values > 0], sensitivity=declared, domain="observed")

    def __repr__(self) -> str:
        return f"Profile({self.description!r}, items={self.size})"


@final
class Groups(Stated):
    """Groups of a public list, of each of which the top k is released: by `PerGroup`, or as one table by `TopOfGroups`.

    A group looks like the whole log with fewer users. What is found is the mean over the groups.

    Args:
        count: how many groups there are, >= 1. The price does not depend on it.
        max_groups_per_user: in how many of them one user is kept, >= 1: `PerGroup` pays for one group that many times. None: in
            any number, and one table alone is considered, in which one norm bounds a user over all groups.
        per_user: in how many a user is on average before that, >= 1; users are spread geometrically.
        exponent: the users of the groups follow Zipf's law with this exponent, >= 0; 0 makes all groups alike.
    """

    count: Count = Field(description="an integer >= 1")
    max_groups_per_user: Count | None = Field(default=None, description="an integer >= 1, or None")
    per_user: Real = Field(default=1.0, ge=1.0, le=1e6, description="a number from 1 to 10^6")
    exponent: Real = Field(default=1.0, ge=0.0, description="a finite number >= 0")

    @property
    def kept(self) -> float:
        """The share of the (user, group) pairs that the bound keeps."""
        if self.max_groups_per_user is None:
            return 1.0
        loads = Loads.of_mean(self.per_user)
        sizes = np.minimum(loads.sizes, self.count)
        return float(np.minimum(sizes, self.max_groups_per_user) @ loads.users / (sizes @ loads.users))

    def sizes(self) -> list[tuple[int, float]]:
        """Up to five classes, largest first: how many groups, and the share of the users that one of them has on average."""
        shares = np.arange(1, self.count + 1) ** -self.exponent
        users = np.minimum(1.0, min(self.per_user, self.count) * shares / shares.sum())
        classes = 1 if self.exponent == 0 else min(_CLASSES, self.count)
        return [(len(part), float(part.mean())) for part in np.array_split(users, classes)]


def _loads(stated: float | Mapping[int, float], least: float = math.ulp(0.0)) -> Loads:
    if isinstance(stated, Mapping):
        for size, amount in stated.items():
            if not _is_count(size):
                raise InvalidRequest(f"items_per_user: {size!r} must be an integer >= 1, a number of items that users have")
            if not isinstance(amount, int | float | np.number) or not 0 <= amount < np.inf:
                raise InvalidRequest(
                    f"items_per_user[{size}]={amount!r} must be a finite number >= 0: how many users have that many"
                )
        sizes = np.array(sorted(stated), dtype=np.float64)
        amounts = np.array([float(stated[int(size)]) for size in sizes])
        if not amounts.sum() > 0:
            raise InvalidRequest("items_per_user names no users: give {number of items: how many users have it}")
        return Loads.binned(sizes, amounts)
    rule = f"a finite number {'> 0' if least < 1 else f'>= {least:g}'} and at most {_MOST_EACH:,}"
    rule += ", or a mapping {number of items: how many users have it}"
    _require_number("items_per_user", stated, low=least, high=_MOST_EACH, rule=rule)
    return Loads.of_mean(float(stated))


def _require_count(name: str, value: object) -> None:
    if not _is_count(value):
        raise InvalidRequest(f"{name}={value!r} must be an integer >= 1")


def _require_number(name: str, value: float, *, low: float, high: float = sys.float_info.max, rule: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value <= high:
        raise InvalidRequest(f"{name}={value!r} must be {rule}")


def _users_in(path: Path, asked: Mapping[str, Any]) -> tuple[Floats, Indices, Loads, float]:
    """Distinct counts, how many items have each, the items per user of those items' users, and the number of users."""
    from dpselect.events.engine import opened  # a profile of numbers reads no file
    from dpselect.events.reading import Reading
    from dpselect.events.rows import rows, shaped

    try:
        given = (reading := Reading(**asked)).given(path)
        with opened(reading.memory_limit) as engine:
            log = shaped(rows(engine, given), given)
            engine.run(_PAIRS_OF.format(log=log.sql), what=log.what)
            engine.run(_BEST, what=log.what)
            found, head = (engine.columns(sql, what=log.what) for sql in (_LOADS, _USERS))
    except EventLogError as error:
        raise InvalidRequest(str(error)) from None
    if len(found["t"]) == 0:
        raise InvalidRequest(f"{masked(path)} holds no event with a user and an item: name another log")
    loads, users = (np.asarray(found[name]).astype(np.float64) for name in ("t", "n"))
    return _summed(found["i"], loads, users, head)


def _summed(item: Indices, loads: Floats, users: Floats, head: Mapping[str, np.ndarray]) -> tuple[Floats, Indices, Loads, float]:
    """From rows (rank of an item, items of a user, how many such users it has), and the (rank, user) of the first ranks."""
    bins, place = np.unique(_bin_of(loads), return_inverse=True)
    sizes = np.bincount(place, users * loads) / np.bincount(place, users)
    touching = np.zeros((int(item.max()) + 1, len(bins)))
    np.add.at(touching, (item, place), users)
    totals, starts = touching.sum(axis=1), np.concatenate([[0], np.cumsum(np.bincount(head["i"]))])
    tail, level, members = np.unique(-totals[_KEPT:], return_inverse=True, return_counts=True)
    shares = np.zeros((len(tail), len(bins)))
    np.add.at(shares, level, touching[_KEPT:])
    shares = np.concatenate([touching[:_KEPT], shares])
    people = np.bincount(place, users / loads)  # a user with t items is in t rows
    one_by_one = len(totals[:_KEPT])
    of = np.concatenate([np.arange(one_by_one), np.full(len(tail), -1)])
    known = Loads(
        sizes,
        people / people.sum(),
        shares / shares.sum(axis=1, keepdims=True),
        _PopularItems(of, starts, head["u"].astype(np.int64)),
    )
    counts = np.concatenate([totals[:_KEPT], -tail])
    return counts, np.concatenate([np.ones(one_by_one), members]).astype(np.int64), known, float(people.sum())


def _counts_in(path: Path, column: str | None) -> list[float]:
    """The numbers in a column of a CSV file, read as a public list is; an only column needs neither name nor header."""
    from dpselect.events.catalogue import ListOptions, labels_in

    what = f"file of counts {masked(path)}"
    try:
        texts = labels_in(path, column, None, ListOptions(format="csv", header=column is not None or None), what)
        return [float(text) for text in (texts if column is not None or _is_number(texts[:1]) else texts[1:])]
    except EventLogError as error:
        raise InvalidRequest(str(error)) from None
    except ValueError:
        raise InvalidRequest(f"{what} holds something else than numbers in that column: correct it, or name another") from None


def _is_number(texts: list[str]) -> bool:
    with contextlib.suppress(ValueError):
        return bool([float(text) for text in texts])
    return False


def _checked(counts: ArrayLike) -> Floats:
    """Counts as numbers, if they are such: finite, from 0 to 10^15, one per item."""
    if isinstance(counts, Scores):
        raise InvalidRequest("counts are private Scores: a plan that looks at them leaks them. Give public or made-up counts")
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidRequest("counts must be a one-dimensional array of numbers, one per item") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidRequest("counts must be a non-empty one-dimensional array: one number per item")
    if not np.isfinite(array).all():
        raise InvalidRequest("counts contain NaN or infinity: every count must be a finite number; clean them at the source")
    if (array < 0).any():
        raise InvalidRequest("counts contain a negative number: a count of users is >= 0")
    if (array > MOST_USERS).any():
        raise InvalidRequest(f"counts contain a number above {MOST_USERS:,}: a count is of users")
    return array


def _binomial(counts: Indices, trials: Floats, chance: float) -> Floats:
    """Chances of these numbers of successes, broadcast; not by scipy.stats, which takes longer to import than to plan."""
    special, missed = scipy.special, np.maximum(trials - counts, 0)
    ways = special.gammaln(trials + 1) - special.gammaln(counts + 1) - special.gammaln(missed + 1)
    logs = ways + special.xlogy(counts, chance) + special.xlog1py(missed, -chance)
    return np.where(counts <= trials, np.exp(logs), 0.0)


def _is_count(value: object) -> bool:
    """Whether it is an integer >= 1, numpy's included, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _weights(items: Floats, clip: float, norm: Norm) -> Floats:
    """What an item of a user with that many counts, once the user is clipped."""
    return np.minimum(1.0, clip / np.maximum(np.sqrt(items) if norm == "l2" else items, 1e-300))


def _bin_of(sizes: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each number of items."""
    wide = _SINGLE + np.floor(np.log(np.maximum(sizes, 1) / _SINGLE) / np.log(_WIDTH))
    return np.where(sizes <= _SINGLE, sizes, np.maximum(wide, _SINGLE)).astype(np.int64)
