"""How many items users have, and what bounding their contributions leaves of a count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, final

import numpy as np

from dpselect.errors import InvalidRequest
from dpselect.planning.levels import Floats

Norm = Literal["l1", "l2"]

_TAIL = 1e-9  # users with more items than all but so few of them are left out
_WIDTH = 2**0.25  # of a bin of loads above _SINGLE
_SINGLE = 16


@final
@dataclass(frozen=True)
class Bounding:
    """What is done to a user's items before they are counted.

    Attributes:
        limit: at most so many items of a user are kept, chosen by a hash; None for all.
        clip: the 0/1 vector of the kept ones is scaled to a norm of at most this; None to leave it.
        norm: in which that is: "l2" divides by the root of the number of items, "l1" by the number.
    """

    limit: int | None = None
    clip: float | None = None
    norm: Norm = "l2"

    @property
    def idle(self) -> bool:
        """Whether nothing is done."""
        return self.limit is None and self.clip is None

    def kept(self, loads: Floats) -> Floats:
        """(bins,) the chance that an item of a user with so many is kept."""
        return np.ones_like(loads) if self.limit is None else np.minimum(1.0, self.limit / loads)

    def weight(self, loads: Floats) -> Floats:
        """(bins,) what a kept item of such a user counts."""
        if self.clip is None:
            return np.ones_like(loads)
        left = loads if self.limit is None else np.minimum(loads, self.limit)
        return np.minimum(1.0, self.clip / (np.sqrt(left) if self.norm == "l2" else left))

    def words(self) -> str:
        """As a phrase; empty if nothing is done."""
        parts = [] if self.limit is None else [f"at most {self.limit:,} item{'s' if self.limit > 1 else ''} of each user"]
        parts += (
            []
            if self.clip is None
            else [f"each user scaled to {'a Euclidean' if self.norm == 'l2' else 'an l1'} norm of {self.clip:g}"]
        )
        return ", ".join(parts)


@final
@dataclass(frozen=True, eq=False)
class Loads:
    """Numbers of items per user, and who touches which item.

    Attributes:
        sizes: (bins,) numbers of items, ascending, >= 1.
        users: (bins,) share of the users that have so many; sums to 1.
        touching: (levels, bins) of the users of an item of each level, the share in each bin; None: the same for all items, by
            chance, so that a user with twice the items is twice as likely to be among them.
    """

    sizes: Floats
    users: Floats
    touching: Floats | None = None

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
        """From numbers of items and how many users have each, or which share.

        Raises:
            InvalidRequest: a number is not an integer >= 1, or an amount is negative, or all are 0.
        """
        for size, amount in stated.items():
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise InvalidRequest(f"items_per_user: {size!r} must be an integer >= 1, a number of items that users have")
            if not isinstance(amount, int | float | np.number) or not 0 <= amount < np.inf:
                raise InvalidRequest(
                    f"items_per_user[{size}]={amount!r} must be a finite number >= 0: how many users have so many"
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
        return Loads(np.maximum(1.0, factor * self.sizes), self.users, self.touching)

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


def bin_of(sizes: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each number of items."""
    wide = _SINGLE + np.floor(np.log(np.maximum(sizes, 1) / _SINGLE) / np.log(_WIDTH))
    return np.where(sizes <= _SINGLE, sizes, np.maximum(wide, _SINGLE)).astype(np.int64)
