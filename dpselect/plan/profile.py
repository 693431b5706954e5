"""Public facts or assumptions about the data: numbers of users and items, and popularity.

A `Profile` is declared, or that of a public log.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from accounting.address import mask
from accounting.arguments import quote_setting
from accounting.frozen import Count, Frozen, Real
from accounting.numbers import Floats, Integers
from accounting.relations import Relation
from dpselect.errors import InvalidRequest
from dpselect.scores import Scores
from dpselect.sensitivity import Norm, Sensitivity

SecondLook = Callable[[int, int, float, Norm], tuple[Floats, Floats]]

MOST_USERS = 10**15
"""Most users, and most items of one user. Beyond it a float cannot represent a single one."""

_MOST_ITEMS = 50_000_000
_MOST_EACH = 1_000_000  # items of a user on average, whose law is laid out in full
# first ranks of a sampled log, and the standard deviation of the logarithms of their counts
_SCATTERED, _SCATTER = 2000, 0.04
_LEVELS = 200  # of the counts of all other ranks
_TAKEN_OFF = 0.8  # the part of the exponent that a flat head takes off
_STEEPEST = 1e300  # exponent, whose logarithms are finite
# of the search for chances that add up to the mean of items per user, and its relative error
_STEPS, _NEAR = 20, 1e-3
_LEFT_OUT = 1e-9  # users with more items than all but so few of them are left out
_WIDTH = 2**0.25  # of a bin of loads above _SINGLE
_SINGLE = 16  # numbers of items of a user that have a bin of their own
_CLASSES = 5  # of groups by their size


class PlanPart(Frozen):
    """A part of a question to the planner, or of its answer."""

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest


@final
@dataclass(frozen=True)
class Bounding:
    """Bound and clip on a user's items before they are counted.

    Attributes:
        limit: at most this many items of a user are kept, chosen by a hash; None for all.
        clip: the 0/1 vector of the kept ones is scaled to a norm of at most this; None to leave it.
        norm: kind of the norm: "l2" divides by the root of the number of items, "l1" by the number.
    """

    limit: int | None = None
    clip: float | None = None
    norm: Norm = "l2"

    @property
    def idle(self) -> bool:
        """True if all items of a user count, in full."""
        return self.limit is None and self.clip is None

    def weight(self, loads: Floats) -> Floats:
        """Weight (bins,) of a kept item of a user with this number of items."""
        if self.clip is None:
            return np.ones_like(loads)
        sizes = loads if self.limit is None else np.minimum(loads, self.limit)
        return np.minimum(
            1.0, self.clip / np.maximum(np.sqrt(sizes) if self.norm == "l2" else sizes, 1e-300)
        )

    def words(self) -> str:
        """The bound and the clip as a phrase; empty if there is none."""
        parts = []
        if self.limit is not None:
            parts.append(f"at most {self.limit:,} item{'s' if self.limit > 1 else ''} of each user")
        if self.clip is not None:
            parts.append(
                f"each user scaled to {'a Euclidean' if self.norm == 'l2' else 'an l1'} norm of"
                f" {self.clip:g}"
            )
        return ", ".join(parts)


@final
@dataclass(frozen=True, eq=False)
class Loads:
    """Numbers of items per user.

    Attributes:
        sizes: (bins,) numbers of items, ascending, >= 1.
        users: (bins,) share of the users with that number; sums to 1.
    """

    sizes: Floats
    users: Floats

    @classmethod
    def of_mean(cls, mean: float) -> Self:
        """A geometric distribution from 1 with this mean.

        Most users have few items, and a tenth have 2.3 times the mean or more. With a mean of 1 all
        users have 1.
        """
        if mean <= 1:
            return cls(np.ones(1), np.ones(1))
        most = int(np.ceil(1 + np.log(_LEFT_OUT) / np.log1p(-1 / mean)))
        sizes = np.arange(1, most + 1, dtype=np.float64)
        return cls.from_sizes(sizes, (1 - 1 / mean) ** (sizes - 1))

    @classmethod
    def from_sizes(cls, sizes: Floats, amounts: Floats) -> Self:
        """Bins that are exact up to 16 items and 19% wide beyond."""
        wide = _SINGLE + np.floor(np.log(np.maximum(sizes, 1) / _SINGLE) / np.log(_WIDTH))
        place = np.where(sizes <= _SINGLE, sizes, np.maximum(wide, _SINGLE)).astype(np.int64)
        total = np.bincount(place, amounts)
        mean = np.bincount(place, amounts * sizes)[total > 0] / total[total > 0]
        return cls(mean, total[total > 0] / total.sum())

    @property
    def mean(self) -> float:
        """Mean number of items per user."""
        return float(self.sizes @ self.users)


class ZipfLaw(NamedTuple):
    """The exponent of Zipf's law, and the mean number of items of each user."""

    exponent: float
    items_per_user: float


@final
@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """A description of a log from a public source, made-up numbers, or a release that was charged.

    It is immutable. Items are known by rank only, so it keeps every distinct count and the number
    of items that have it.

    Attributes:
        values: (levels,) counts, highest first, in users.
        multiplicities: (levels,) number of items with each count.
        description: source of the profile, in words.
        loads: numbers of items per user; None if unknown.
        users: number of users; None if unknown.
        law: Zipf's law, which a real log follows only roughly; None for counts of a log or
            published ones.
    """

    values: Floats
    multiplicities: Integers
    description: str
    loads: Loads | None = None
    users: float | None = None
    law: ZipfLaw | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for array in (self.values, self.multiplicities):
            array.setflags(write=False)

    # -- items -------------------------------------------------------------------------------------

    @classmethod
    def of_counts(
        cls,
        counts: ArrayLike,
        *,
        public: bool,
        items_per_user: float | Mapping[int, float] | None = None,
        description: str = "public counts",
    ) -> Self:
        """The profile of counts that were published, last year's for example, in any order.

        Args:
            counts: (m,) numbers from 0 to 10^15, one per item.
            public: your statement that the counts are public or made up. A plan that looks at
                private counts is itself a release.
            items_per_user: numbers of items per user: a mean, >= 1, or a mapping {number of items:
                number of users}. Without it nothing is known about bounded contributions.
            description: source of the counts, in words.

        Raises:
            InvalidRequest: `public` is not True, or the counts or the items per user are not such
                numbers.
        """
        if public is not True:
            raise InvalidRequest(
                f"public={public!r} is refused: a plan that looks at private counts leaks them."
                " State public=True for counts that were published or made up, or use Profile.zipf"
            )
        distinct, multiplicities = np.unique(_check_counts(counts), return_counts=True)
        loads = None if items_per_user is None else _loads(items_per_user, least=1.0)
        users = None if loads is None else float(distinct @ multiplicities) / loads.mean
        return cls(
            distinct[::-1].copy(), multiplicities[::-1].astype(np.int64), description, loads, users
        )

    @classmethod
    def zipf(
        cls,
        exponent: float,
        items: int,
        users: int,
        *,
        items_per_user: float | Mapping[int, float] = 1.0,
    ) -> Self:
        """Expected counts under Zipf's law, in whole users.

        Item i of `items` has users * items_per_user * i^-exponent / sum, at most `users`.

        Args:
            exponent: >= 0; 0 makes all items alike, about 1 is usual for what people like.
            items: number of items, from 1 to 50,000,000.
            users: number of users, from 1 to 10^15.
            items_per_user: numbers of different items per user: a mean, > 0, around which users are
                spread geometrically, or a mapping {number of items: number or share of users}.

        Raises:
            InvalidRequest: an argument is outside its domain.
        """
        _require_number(
            "exponent",
            exponent,
            low=0.0,
            rule="a finite number >= 0; about 1 is usual for what people like",
        )
        for name, value in (("items", items), ("users", users)):
            _require_count(name, value)
        if users > MOST_USERS:
            raise InvalidRequest(
                f"users={quote_setting(users)} is more than {MOST_USERS:,}. Plan for fewer"
            )
        if items > _MOST_ITEMS:
            raise InvalidRequest(
                f"items={quote_setting(items)} is more than {_MOST_ITEMS:,}. Plan for fewer;"
                " items far down the ranking matter little"
            )
        loads = _loads(items_per_user)
        # A mean below 1 says that not every user has an item; those that have one have one.
        mean = loads.mean if isinstance(items_per_user, Mapping) else float(items_per_user)
        shares = np.arange(1, items + 1, dtype=np.float64) ** -float(exponent)
        expected = np.minimum(users * mean / shares.sum() * shares, users)
        words = f"Zipf's law with exponent {exponent:g}, {items:,} items, {users:,} users"
        words += f", {mean:g} item{'' if mean == 1 else 's'} per user"
        profile = cls.of_counts(np.rint(expected), public=True, description=words)
        law = ZipfLaw(float(exponent), mean)
        return cls(profile.values, profile.multiplicities, words, loads, float(users), law=law)

    @classmethod
    def of_csv(
        cls,
        path: Path | str,
        column: str | None = None,
        *,
        public: bool = False,
        items_per_user: float | Mapping[int, float] | None = None,
    ) -> Self:
        """The profile of the public counts in a column of a CSV file.

        A file's only column needs neither name nor header.

        Raises:
            InvalidRequest: `public` is not True, the file cannot be read, has no such column, or
                holds other things.
        """
        if public is not True:
            raise InvalidRequest(
                f"the counts in {mask(path)} may be private: a plan that looks at private counts"
                " leaks them. If they were published or made up, declare it (public=True)"
            )
        from dpselect.app.events.public_counts import counts_in

        words = f"public counts in {Path(path).name}" + (
            "" if column is None else f", column {column}"
        )
        return cls.of_counts(
            counts_in(Path(path), column),
            public=True,
            items_per_user=items_per_user,
            description=words,
        )

    @classmethod
    def of_log(
        cls,
        path: Path | str,
        *,
        user: str | int | Sequence[str | int],
        item: str | int | Sequence[str | int],
        public: bool = False,
        **files: Any,
    ) -> Self:
        """The profile of a log that was published or made up, last year's for example.

        It also has the number of items per user.

        Args:
            path: a file, one row per event, of any format that `events.read` reads.
            user, item: its columns; several make up one item.
            public: your statement that the log is public or made up.
            files: fields of `events.FileOptions`, such as delimiter, encoding, null or normalize.

        Raises:
            InvalidRequest: `public` is not True, a field is none of a file's, or the file cannot be
                read or has no such columns.
        """
        if not isinstance(path, str | Path):
            raise InvalidRequest(
                f"path must name a file, not a {type(path).__name__}. Write the table to a file, or"
                " take Profile.zipf(...) for a log that is not public"
            )
        if public is not True:
            raise InvalidRequest(
                f"the log {mask(path)} may be private: a plan that looks at a private log leaks"
                " it. If it was published or made up, declare it (public=True)"
            )
        from dpselect.app.events.public_counts import users_in

        log = users_in(Path(path), {"user": user, "item": item}, files)
        return cls(
            log.counts,
            log.items,
            f"the public log {Path(path).name}",
            Loads.from_sizes(log.loads, log.users),
            float(log.users.sum()),
        )

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.multiplicities.sum())

    @property
    def touched(self) -> int:
        """Number of items with at least one user."""
        return int(self.multiplicities[self.values > 0].sum())

    def dense(self) -> Floats:
        """Count of every rank (m,), highest first, in users."""
        return np.repeat(self.values, self.multiplicities)

    def sample_log(self, flat: float, rng: np.random.Generator) -> Profile:
        """A possible real log with the numbers of this one; or itself, if it has no law.

        Its head is flat up to about this rank, and counts scatter around the law by some 4% each.
        On six public logs the logarithm of a count lies 0.02 to 0.04 off a cubic in that of its
        rank. A user has an item at most once, so counts are saturated.
        """
        if self.law is None or self.users is None:
            return self
        head = min(self.size, _SCATTERED)
        rest = np.diff(np.rint(np.geomspace(head, self.size, _LEVELS)).astype(np.int64))
        members = np.concatenate([np.ones(head, dtype=np.int64), rest[rest > 0]])
        ranks = np.cumsum(members) - (members - 1) / 2
        steep = min(self.law.exponent, _STEEPEST)
        logarithms = -steep * (np.log(ranks) + _TAKEN_OFF * np.log1p(flat / ranks))
        logarithms[:head] += _SCATTER * rng.standard_normal(head)
        appeal = np.exp(logarithms - logarithms.max())
        mean, chances = min(self.law.items_per_user, 0.999 * self.size), appeal
        for _ in range(_STEPS):
            missing = mean / float(chances @ members)
            if abs(missing - 1) < _NEAR:
                break
            appeal *= missing
            chances = -np.expm1(-appeal)
        counts = self.users * chances
        order = np.argsort(-counts, kind="stable")
        return Profile(counts[order], members[order], self.description, self.loads, self.users)

    def in_group(self, share: float) -> Profile:
        """The profile of a group with this share of the users, in whole users per item."""
        users = None if self.users is None else self.users * share
        words = f"a group of {share:.3g} of the users: {self.description}"
        return Profile(
            np.rint(self.values * share),
            self.multiplicities,
            words,
            self.loads,
            users,
            law=self.law,
        )

    def scores(
        self,
        *,
        relation: Relation = "add_remove",
        l0: int | None = None,
        observed: bool = False,
        sensitivity: Sensitivity | None = None,
    ) -> Scores:
        """Made-up scores of this profile, without bounds, to try a mechanism on.

        Args:
            relation, l0: of the declared sensitivity, which is that of distinct-user counts.
            observed: True to leave out items without users and declare an unknown domain.
            sensitivity: sensitivity in place of relation and l0, for example a mechanism's
                `covers`.
        """
        values, declared = self.dense(), sensitivity or Sensitivity(relation=relation, l0=l0)
        if not observed:
            return Scores(values, sensitivity=declared)
        return Scores(values[values > 0], sensitivity=declared, domain="observed")

    def __repr__(self) -> str:
        return f"Profile({self.description!r}, items={self.size})"


@final
class Groups(PlanPart):
    """Groups of a public list with a top k each, from `PerGroup` or as one table, `TopOfGroups`.

    A group looks like the whole log with fewer users. The forecast is the mean over the groups.

    Args:
        count: number of groups, >= 1. The cost does not depend on it.
        max_groups_per_user: bound on one user's groups, >= 1; `PerGroup` costs as much as that many
            groups. None: any number, and one table alone is considered, in which one norm bounds a
            user over all groups.
        per_user: mean number of groups per user before that, >= 1; users are spread geometrically.
        exponent: the users of the groups follow Zipf's law with this exponent, >= 0; 0 makes all
            groups alike.
        shares: (count,) share of the users in each group, in place of the exponent; they sum to
            `per_user`.
    """

    count: Count = Field(description="an integer >= 1")
    max_groups_per_user: Count | None = Field(default=None, description="an integer >= 1, or None")
    per_user: Real = Field(default=1.0, ge=1.0, le=1e6, description="a number from 1 to 10^6")
    exponent: Real = Field(default=1.0, ge=0.0, description="a finite number >= 0")
    shares: tuple[Real, ...] | None = Field(default=None, description="(count,) shares, or None")

    @property
    def weights(self) -> Floats:
        """Weights (count,) of the groups, in proportion to their users."""
        if self.shares is not None:
            return np.array(self.shares)
        return np.arange(1, self.count + 1, dtype=np.float64) ** -self.exponent

    @property
    def kept_share(self) -> float:
        """Share of the (user, group) pairs that the bound keeps."""
        if self.max_groups_per_user is None:
            return 1.0
        loads = Loads.of_mean(self.per_user)
        sizes = np.minimum(loads.sizes, self.count)
        return float(
            np.minimum(sizes, self.max_groups_per_user) @ loads.users / (sizes @ loads.users)
        )

    def sizes(self) -> list[tuple[int, float]]:
        """Up to five classes of groups, largest first; or every group, if their shares are stated.

        Returns:
            For each class, the number of groups and the mean share of the users in one of them.
        """
        if self.shares is not None:
            return [(1, share) for share in self.shares]
        shares = self.weights
        users = np.minimum(1.0, min(self.per_user, self.count) * shares / shares.sum())
        classes = 1 if self.exponent == 0 else min(_CLASSES, self.count)
        return [(len(part), float(part.mean())) for part in np.array_split(users, classes)]


def _loads(items_per_user: float | Mapping[int, float], least: float = math.ulp(0.0)) -> Loads:
    if isinstance(items_per_user, Mapping):
        for size, amount in items_per_user.items():
            if not _is_count(size) or size > MOST_USERS:
                raise InvalidRequest(
                    f"items_per_user: {quote_setting(size)} must be an integer from 1 to"
                    f" {MOST_USERS:,}, a number of items that users have"
                )
            if (
                not isinstance(amount, int | float | np.integer | np.floating)
                or not 0 <= amount <= sys.float_info.max
            ):
                raise InvalidRequest(
                    f"items_per_user[{size}]={quote_setting(amount)} must be a finite number >= 0:"
                    " how many users have that many"
                )
        sizes = np.array(sorted(items_per_user), dtype=np.float64)
        amounts = np.array([float(items_per_user[int(size)]) for size in sizes])
        if not amounts.sum() > 0:
            raise InvalidRequest(
                "items_per_user names no users. Give {number of items: how many users have it}"
            )
        return Loads.from_sizes(sizes, amounts)
    rule = f"a finite number {'> 0' if least < 1 else f'>= {least:g}'} and at most {_MOST_EACH:,}"
    rule += ", or a mapping {number of items: how many users have it}"
    _require_number("items_per_user", items_per_user, low=least, high=_MOST_EACH, rule=rule)
    return Loads.of_mean(float(items_per_user))


def _require_count(name: str, value: object) -> None:
    if not _is_count(value):
        raise InvalidRequest(f"{name}={quote_setting(value)} must be an integer >= 1")


def _require_number(
    name: str, value: float, *, low: float, high: float = sys.float_info.max, rule: str
) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not low <= value <= high
    ):
        raise InvalidRequest(f"{name}={quote_setting(value)} must be {rule}")


def _check_counts(counts: ArrayLike) -> Floats:
    """Counts as numbers, if they are finite, from 0 to 10^15, and one per item."""
    if isinstance(counts, Scores):
        raise InvalidRequest(
            "counts are private Scores: a plan that looks at them leaks them. Give public or"
            " made-up counts"
        )
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest(
            "counts must be a one-dimensional array of numbers, one per item"
        ) from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidRequest(
            "counts must be a non-empty one-dimensional array: one number per item"
        )
    if not np.isfinite(array).all():
        raise InvalidRequest(
            "counts contain NaN or infinity: every count must be a finite number; clean them at the"
            " source"
        )
    if (array < 0).any():
        raise InvalidRequest("counts contain a negative number: a count of users is >= 0")
    if (array > MOST_USERS).any():
        raise InvalidRequest(f"counts contain a number above {MOST_USERS:,}: a count is of users")
    return array


def _is_count(value: object) -> bool:
    """True if the value is an integer >= 1, also of numpy, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
