"""The share of the true top k that a mechanism should find among users who are known by a few numbers, in a millisecond.

Counts are taken to follow one of a few standard shapes, and places to be taken where they are on average: the score that k
noisy scores are expected to exceed is the one to beat. It chooses between mechanisms; what to expect of the chosen one, a
plan says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Literal, Self, final

import numpy as np
import scipy
from numpy.typing import NDArray

from accounting.arguments import shown
from dpselect.errors import InvalidRequest
from dpselect.noise import NoiseName, by_name

Floats = NDArray[np.float64]
Norm = Literal["l1", "l2"]
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

    def in_words(self) -> str:
        """As a phrase, to two digits."""
        return f"about {_rounded(self.users)} users with a median of {_rounded(self.quantiles[2])} items"


def _rounded(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}"


def _tail(noise: NoiseName) -> Callable[[Floats], Floats]:
    """P(noise > z), for forecasts: that of Gaussian noise as quickly as floats go, not to the last bit."""
    return (lambda z: np.asarray(scipy.special.ndtr(-z))) if noise == "gaussian" else by_name(noise).sf


@final
@dataclass(frozen=True, eq=False)
class Ranking:
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
