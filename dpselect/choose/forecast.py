"""What a release should find among users who are known by a few numbers, in a millisecond for each way to release.

Counts are taken to follow one of a few standard shapes, and places to be taken where they are on average: the score that k
noisy scores are expected to exceed is the one to beat. It chooses between mechanisms; what to expect of the chosen one, a
plan says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any, Self, cast, final

import numpy as np
import scipy
from numpy.typing import NDArray

from accounting.arguments import shown
from dpselect.choose.counts import CountNoise, without_counts
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import CanonicalTopK, DiscoverThenSelect, LimitedDomain, Mechanism, SparseHistogram
from dpselect.noise import NoiseName, by_name
from dpselect.sensitivity import Norm

Floats = NDArray[np.float64]
Quantiles = tuple[float, float, float, float, float]

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Of the users: the quantiles of items per user that stand for a log."""

# The standard shapes: item i has a count in proportion to i^-exponent, of one item for every _PAIRS that users touch. Beyond the
# last quantile items per user follow Pareto's law. A count's share that a clip leaves scatters from item to item by _UNEVEN of
# how much it scatters from user to user. One exponent alone loses up to two thirds of a top 10 on a log of another one;
# among a few sets of exponents and values of _UNEVEN these lose least on six logs, and no more on five held out
# (docs/choosing.md). _PAIRS and _TAIL are means over logs.
EXPONENTS = (0.5, 0.6, 0.7, 0.8)
_PAIRS, _TAIL, _UNEVEN = 10.0, 0.41, 0.25
_SINGLE, _STEP = 64, 1.05  # ranks that stand by themselves, and how much wider each block of ranks beyond is
_HALVINGS = 30
_FEW_BEST = 300  # of the k best that one user has
_LOSS = 2.0  # how much worse a user is whom the clip takes from a count, which is forecast roughly, than one of the noise

MOST = 1e15
"""Users, and items of one: beyond it a float does not tell one."""


@final
@dataclass(frozen=True)
class Crowd:
    """How many users a log has, and five quantiles of their items.

    Attributes:
        users: how many, > 0; noisy, and therefore no integer.
        quantiles: items per user that shares `SHARES` of the users do not exceed, rising, each >= 1.
    """

    users: float
    quantiles: Quantiles

    def __post_init__(self) -> None:
        if not isinstance(self.users, Real) or isinstance(self.users, bool) or not 0 < self.users <= MOST:
            raise InvalidRequest(f"users={shown(self.users)} must be a number > 0, at most 10^15")
        if len(self.quantiles) != len(SHARES) or not all(1 <= each <= MOST for each in self.quantiles):
            raise InvalidRequest(f"quantiles={shown(self.quantiles)} must be five numbers of items per user, from 1 to 10^15")
        if any(low > high for low, high in pairwise(self.quantiles)):
            raise InvalidRequest(f"quantiles={shown(self.quantiles)} must rise: sort them")

    @classmethod
    def of_mean(cls, users: float, items: float) -> Self:
        """Items per user spread geometrically around a mean, 1 the least."""
        if not isinstance(items, Real) or not 1 <= items <= MOST:
            raise InvalidRequest(f"items_per_user={shown(items)} must be from 1 to 10^15: how many items users have on average")
        stay = math.log1p(-1 / items) if items > 1 else -math.inf
        found = [max(1.0, math.ceil(math.log1p(-share) / stay)) for share in SHARES]
        return cls(users, (found[0], found[1], found[2], found[3], found[4]))

    @cached_property
    def loads(self) -> tuple[Floats, Floats]:
        """(bins,) items per user and the share of the users that have about that many."""
        upper = 0.1 * np.geomspace(1.0, 1e-4, 25)
        edges = np.concatenate([np.linspace(0, 0.9, 37), 1 - upper[1:], [1.0]])
        middle, weight = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        inside = np.exp(np.interp(middle, SHARES, np.log(self.quantiles)))
        beyond = self.quantiles[-1] * ((1 - SHARES[-1]) / np.maximum(1 - middle, 1e-9)) ** _TAIL
        uneven = self.quantiles[-1] > 1  # one item for nearly all: nothing shows a tail
        return np.where((middle > SHARES[-1]) & uneven, beyond, inside), weight

    @property
    def mean(self) -> float:
        """Items of a user on average."""
        sizes, users = self.loads
        return float(sizes @ users)

    def as_data(self) -> dict[str, Any]:
        """As an answer keeps it."""
        return {"users": self.users, "items_per_user": dict(zip(map(str, SHARES), self.quantiles, strict=True))}

    @classmethod
    def of_data(cls, held: Mapping[str, Any]) -> Self:
        """What `as_data` gave."""
        found = [float(held["items_per_user"][str(share)]) for share in SHARES]
        return cls(float(held["users"]), (found[0], found[1], found[2], found[3], found[4]))

    def in_words(self) -> str:
        """As a phrase, to two digits."""
        return f"about {_rounded(self.users)} users with a median of {_rounded(self.quantiles[2])} items"


def _rounded(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"


@final
@dataclass(frozen=True)
class Choice:
    """A mechanism, and how `events.read` has to read the log for it.

    Attributes:
        mechanism: with the noise that spends the budget.
        max_items_per_user: the bound on one user's items; None for none.
        clip, norm: what each user's contributions are scaled to; None to count every item in full.
        again: what they are scaled to in a second look, within the items that were discovered; None without one.
        crowd: the users that it was chosen for; None where it was not chosen by them.
    """

    mechanism: Mechanism
    max_items_per_user: int | None
    clip: float | None = None
    norm: Norm = "l2"
    again: float | None = None
    crowd: Crowd | None = None


STANDARD_DEVIATION: dict[NoiseName, float] = {
    "gumbel": math.pi / math.sqrt(6),
    "exponential": 1.0,
    "gaussian": 1.0,
    "laplace": math.sqrt(2),
}
"""Of each noise at scale 1."""


@final
@dataclass(frozen=True)
class Forecast:
    """What ways to release the top k should find among such users, on standard shapes: forecasts, no bounds.

    Attributes:
        crowd: the users.
        k: how many items are wanted.
        candidates: how many public items there are; None: the items are unknown.
    """

    crowd: Crowd
    k: int
    candidates: int | None

    @cached_property
    def _rankings(self) -> list[_Ranking]:
        return [_Ranking.of(self.crowd, self.k, self.candidates, exponent) for exponent in EXPONENTS]

    def recalls(self, choice: Choice) -> tuple[float, ...]:
        """The share of the true top k that a choice should find, on the shape of each of `EXPONENTS`."""
        return tuple(_expected(choice, ranking) for ranking in self._rankings)

    def with_counts(self, mechanism: Mechanism, counted: CountNoise) -> Mechanism:
        """The mechanism with counts of a second look, clipped where what that takes, twice over, and the noise are least."""

        def error(one: Mechanism, ranking: _Ranking) -> float:
            settings: Any = one
            best, lost = slice(0, ranking.right), 1 - ranking.counted(settings.clip, counted.norm)
            weight = ranking.members[best] / float(ranking.members[best].sum())
            noise = STANDARD_DEVIATION[counted.noise] * settings.scale
            return float(weight @ np.hypot(_LOSS * lost * ranking.counts[best], noise))

        tried = [counted.around(mechanism, clip) for clip in counted.clips]
        return min(tried, key=lambda one: sum(error(one, ranking) for ranking in self._rankings))


def _tail(noise: NoiseName) -> Callable[[Floats], Floats]:
    """P(noise > z), for forecasts: that of Gaussian noise as quickly as floats go, not to the last bit."""
    return (lambda z: np.asarray(scipy.special.ndtr(-z))) if noise == "gaussian" else by_name(noise).sf


@final
@dataclass(frozen=True, eq=False)
class _Ranking:
    """A standard shape of a log: counts of items in blocks of ranks, the k best first.

    Attributes:
        crowd: whose log.
        k: how many are wanted.
        counts: (blocks,) users of an item, highest first.
        members: (blocks,) how many items each block has.
    """

    crowd: Crowd
    k: int
    counts: Floats
    members: Floats

    @classmethod
    def of(cls, crowd: Crowd, k: int, items: int | None, exponent: float) -> Self:
        """For a catalogue of that many items; None for an unknown domain."""
        pairs = crowd.users * crowd.mean
        size = min(float(max(items or math.ceil(pairs / _PAIRS), k + 1)), MOST)
        edges = [float(rank) for rank in range(math.ceil(min(_SINGLE, size)) + 1)]
        while edges[-1] < size:
            edges.append(min(size, float(math.ceil(edges[-1] * _STEP))))
        ends = np.unique([*edges, float(k)])
        members, middle = np.diff(ends), (ends[1:] + ends[:-1] + 1) / 2
        shares = middle**-exponent
        counts = pairs * shares / float(shares @ members)
        # A user touches an item once: chances, not expected numbers.
        return cls(crowd, k, -crowd.users * np.expm1(-counts / crowd.users), members)

    @property
    def right(self) -> int:
        """How many blocks hold the k best."""
        return int(np.searchsorted(np.cumsum(self.members), self.k)) + 1

    def count(self, rank: int) -> float:
        """Of the item of this rank; 0 beyond the last."""
        place = int(np.searchsorted(np.cumsum(self.members), rank))
        return float(self.counts[place]) if place < len(self.counts) else 0.0

    def seen(self, clip: float | None, norm: Norm, limit: int | None, among: int | None = None) -> tuple[Floats, Floats]:
        """(blocks,) what bounds on users leave of the counts, and how much that scatters.

        Args:
            clip, norm: users are scaled to; None counts items in full.
            limit: items of a user that are kept; None for all.
            among: how many of the best items count for the clip; None for all.
        """
        sizes, users = self.crowd.loads
        touching = sizes * users / float(sizes @ users)
        kept = np.minimum(1.0, (limit or math.inf) / sizes)
        left = sizes * kept
        if among is not None:
            chance = self._share_of_best(among)
            left, kept = 1 + (left - 1) * chance, np.ones_like(kept)
        weight = np.ones_like(sizes) if clip is None else np.minimum(1.0, clip / (np.sqrt(left) if norm == "l2" else left))
        mean, square = float(touching @ (kept * weight)), float(touching @ (kept * weight**2))
        spread = math.sqrt(max(0.0, float(touching @ np.log(weight) ** 2) - float(touching @ np.log(weight)) ** 2))
        scatter = np.sqrt(self.counts * max(0.0, square - mean**2) + (_UNEVEN * spread * self.counts * mean) ** 2)
        return self.counts * mean, scatter

    def counted(self, clip: float, norm: Norm) -> float:
        """The share of the counts of the k best that is left where users are clipped among these alone.

        Of a user's other items each is one of them with the same chance: how many are follows a geometric law with that mean.
        """
        sizes, users = self.crowd.loads
        touching = sizes * users / float(sizes @ users)
        stay = (others := (sizes - 1) * self._share_of_best(self.k)) / (1 + others)
        more = np.arange(min(self.k, _FEW_BEST), dtype=np.float64)
        law = (1 - stay[:, None]) * stay[:, None] ** more
        law[:, -1] += 1 - law.sum(axis=1)
        weight = np.minimum(1.0, clip / (np.sqrt(1 + more) if norm == "l2" else 1 + more))
        return float(touching @ law @ weight)

    def _share_of_best(self, among: int) -> float:
        """Of all that users touch."""
        inside = np.diff(np.minimum(np.cumsum(self.members), among), prepend=0.0)
        return float(self.counts @ inside) / float(self.counts @ self.members)

    # -- who is among the best ------------------------------------------------------------------------------------------

    def above(
        self, values: Floats, scales: Floats, noise: NoiseName, most: int, floor: float, present: Floats | None = None
    ) -> Floats:
        """(blocks,) the chance that an item's noisy score exceeds `floor` and is one of the `most` largest.

        `present`: the chance that it competes at all.
        """
        tail, weight = _tail(noise), self.members * (1.0 if present is None else present)
        reach = 45.0 * float(scales.max())
        low, high = max(floor, float(values.min()) - reach), float(values.max()) + reach
        if float(tail((low - values) / scales) @ weight) > most:
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if float(tail((middle - values) / scales) @ weight) > most else (low, middle)
        return tail((low - values) / scales)

    def recall(self, chances: Floats) -> float:
        """The share of the k best that is found, from the (blocks,) chances to be released."""
        best = slice(0, self.right)
        return min(1.0, float(chances[best] @ self.members[best]) / self.k)


# -- what each should find -------------------------------------------------------------------------------------------------


def _expected(choice: Choice, ranking: _Ranking) -> float:
    """The share of the true top k that a choice should find, in users of a standard shape."""
    mechanism, k = without_counts(choice.mechanism), ranking.k
    values, scatter = ranking.seen(choice.clip, choice.norm, choice.max_items_per_user)
    if isinstance(mechanism, LimitedDomain):
        return _of_limited_domain(mechanism, ranking, values, scatter)
    if isinstance(mechanism, SparseHistogram):
        return ranking.recall(_shown(ranking, values, scatter, mechanism, k, mechanism.threshold))
    if isinstance(mechanism, DiscoverThenSelect):
        find = cast(SparseHistogram, mechanism.discovery)
        found = _shown(ranking, values, scatter, find, mechanism.candidates, find.threshold)
        again, left = ranking.seen(choice.again, choice.norm, None, among=mechanism.candidates)
        return ranking.recall(found * _shown(ranking, again, left, mechanism.selection, k, -math.inf, present=found))
    if isinstance(mechanism, CanonicalTopK):
        return _of_sets(mechanism, ranking, values)
    return ranking.recall(_shown(ranking, values, scatter, mechanism, k, -math.inf))


def _shown(
    ranking: _Ranking, values: Floats, scatter: Floats, mechanism: Any, most: int, floor: float, present: Floats | None = None
) -> Floats:
    """(blocks,) chances to be among the largest noisy scores, the scatter of seen counts being part of the noise."""
    scales = np.hypot(mechanism.scale, scatter / STANDARD_DEVIATION[mechanism.noise])
    return ranking.above(values, scales, mechanism.noise, most, floor, present)


def _of_limited_domain(mechanism: LimitedDomain, ranking: _Ranking, values: Floats, scatter: Floats) -> float:
    """A noisy count has to beat the others and a noisy threshold; the chance of the less likely one of the two."""
    competes = (np.cumsum(ranking.members) <= max(mechanism.kbar, ranking.k)).astype(np.float64)
    scales = np.hypot(1 / mechanism.epsilon, scatter / STANDARD_DEVIATION["gumbel"])
    others = ranking.above(values, scales, "gumbel", ranking.k, -math.inf, competes)
    ends = np.cumsum(ranking.members)
    floor = float(values[min(len(values) - 1, int(np.searchsorted(ends, mechanism.kbar + 1)))])
    bar = (floor if ends[-1] > mechanism.kbar else 0.0) + mechanism.margin
    passes = 1 / (1 + np.exp(np.clip((bar - values) / scales, -700, 700)))
    return ranking.recall(np.minimum(others, passes))


def _of_sets(mechanism: CanonicalTopK, ranking: _Ranking, values: Floats) -> float:
    """By the law of the planner."""
    from dpselect.planning.laws.base import Levels, Runs
    from dpselect.planning.laws.whole_sets import canonical

    levels = Levels.of(values, ranking.members.astype(np.int64), ranking.k)
    found = canonical(mechanism, levels, Runs(100, 0, fine=False))
    return float(np.mean(found.recall) if found.weights is None else found.weights @ found.recall)
