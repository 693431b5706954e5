"""The public or made-up shape of the data that a plan may look at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike

from accounting import Relation
from dpselect.errors import InvalidRequest
from dpselect.planning.loads import Bounding, Loads, is_count
from dpselect.planning.published import MOST_USERS, checked, counts_in, users_in
from dpselect.planning.score_levels import Floats, Indices, Levels
from dpselect.scores import Scores
from dpselect.sensitivity import Sensitivity

_MOST_ITEMS = 50_000_000
_SCATTERED, _SCATTER = 2000, 0.04  # first ranks of an uneven shape, and the standard deviation of their logarithms
_HEAD = 0.8  # the exponent that a flat head takes off


@final
class Shape:
    """How many users each item has, from a source that is public or made up: never from the data of the release.

    Immutable. Items are known by rank only, so what is kept is every distinct count and how many items have it; of a log its most
    popular items one by one.

    Attributes:
        values: (levels,) counts, highest first, in users.
        multiplicities: (levels,) how many items have each.
        description: where the shape comes from, in words.
        loads: how many items users have; None if that is not known.
        users: how many users there are; None if that is not known.
        made_up: whether it is a smooth curve, around which counts of a real log would scatter.
    """

    __slots__ = ("description", "loads", "made_up", "multiplicities", "users", "values")

    values: Floats
    multiplicities: Indices
    description: str
    loads: Loads | None
    users: float | None
    made_up: bool

    def __init__(
        self,
        values: Floats,
        multiplicities: Indices,
        description: str,
        loads: Loads | None = None,
        users: float | None = None,
        *,
        made_up: bool = False,
    ) -> None:
        for array in (values, multiplicities):
            array.setflags(write=False)
        stated = {"values": values, "multiplicities": multiplicities, "description": description, "loads": loads, "users": users}
        for name, value in (stated | {"made_up": made_up}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def counts(
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
                "that were published or made up, or use Shape.zipf"
            )
        distinct, multiplicities = np.unique(checked(counts), return_counts=True)
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
        _require_sizes(items, users)
        loads = _loads(items_per_user)
        # A mean below 1 says that not every user has an item; those that have one have one.
        mean = loads.mean if isinstance(items_per_user, Mapping) else float(items_per_user)
        shares = np.arange(1, items + 1, dtype=np.float64) ** -float(exponent)
        expected = np.minimum(users * mean / shares.sum() * shares, users)
        words = f"Zipf's law with exponent {exponent:g}, {items:,} items, {users:,} users"
        if mean != 1:
            words += f", {mean:g} items per user"
        found = cls.counts(np.rint(expected), public=True, description=words)
        return cls(found.values, found.multiplicities, words, loads, float(users), made_up=True)

    @classmethod
    def uniform(cls, items: int, users: int, *, items_per_user: float | Mapping[int, float] = 1.0) -> Self:
        """All items alike: the hardest shape, on which no mechanism can do well. `zipf` with exponent 0."""
        return cls.zipf(0.0, items, users, items_per_user=items_per_user)

    @classmethod
    def from_csv(
        cls,
        path: Path | str,
        column: str | None = None,
        *,
        public: bool = False,
        items_per_user: float | Mapping[int, float] | None = None,
    ) -> Self:
        """The shape of the public counts in a column of a CSV file with a header; an only column needs no name.

        Raises:
            InvalidRequest: `public` is not True, the file cannot be read, has no such column, or holds other things.
        """
        if public is not True:
            raise InvalidRequest(
                f"the counts in {str(path)!r} may be private: a plan that looks at private counts leaks them. If they were "
                "published or made up, declare it (public=True in the library, --i-declare-public at the command line)"
            )
        words = f"public counts in {Path(path).name}" + ("" if column is None else f", column {column}")
        return cls.counts(counts_in(Path(path), column), public=True, items_per_user=items_per_user, description=words)

    @classmethod
    def from_log(cls, path: Path | str, *, user: str, item: str, public: bool = False) -> Self:
        """The shape of a log that was published or made up, last year's for example: it also says who touches which items.

        Args:
            path: a CSV or Parquet file, one row per event.
            user, item: names of its columns.
            public: your statement that the log is public or made up.

        Raises:
            InvalidRequest: `public` is not True, or the file cannot be read or has no such columns.
        """
        if not isinstance(path, str | Path):
            raise InvalidRequest(
                f"path must name a CSV or Parquet file, not a {type(path).__name__}: write the table to a file, or take "
                "Shape.zipf(...) for a log that is not public"
            )
        if public is not True:
            raise InvalidRequest(
                f"the log {str(path)!r} may be private: a plan that looks at a private log leaks it. If it was published or made "
                "up, declare it (public=True)"
            )
        counts, multiplicities, loads, users = users_in(Path(path), user, item)
        return cls(counts, multiplicities, f"the public log {Path(path).name}", loads, users)

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

    def varied(self, rng: np.random.Generator) -> Shape:
        """A shape with independent Poisson counts that have these means: what another sample of users might look like."""
        other = Shape.counts(np.minimum(rng.poisson(self.dense()), MOST_USERS), public=True)
        # The users of each of its levels are those of this shape's nearest count.
        nearest = np.clip(np.searchsorted(-self.values, -other.values), 0, len(self.values) - 1)
        loads = None if self.loads is None else self.loads.at(nearest)
        return Shape(other.values, other.multiplicities, f"a sample of: {self.description}", loads, self.users)

    def flattened(self, ranks: float) -> Shape:
        """Another law: the head is flat up to about this many ranks, with the same sum, as that of public logs is."""
        middle = np.cumsum(self.multiplicities) - (self.multiplicities - 1) / 2
        flat = self.values * (middle / (middle + ranks)) ** _HEAD
        factor = float(self.values @ self.multiplicities) / max(float(flat @ self.multiplicities), 1e-300)
        return self._of(np.minimum(flat * factor, self._most), f"flat for {ranks:g} ranks: {self.description}")

    def uneven(self, rng: np.random.Generator) -> Shape:
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
        return Shape(values[order], members[order], f"uneven: {self.description}", loads, self.users)

    def tilted(self, exponent: float) -> Shape:
        """Another law: the count of rank i times i^-exponent, with the same sum. Steeper if `exponent` is above 0."""
        ranks = np.cumsum(self.multiplicities) - (self.multiplicities - 1) / 2  # the middle of the ranks that share a count
        tilted = self.values * ranks**-exponent
        total = float(tilted @ self.multiplicities)
        factor = float(self.values @ self.multiplicities) / total if total > 0 else 1.0
        return self._of(np.minimum(tilted * factor, self._most), f"exponent {exponent:+g}: {self.description}")

    def thinned(self, factor: float) -> Shape:
        """The same with `factor` times the users."""
        return self._of(self.values * factor, f"{factor:g} times the users: {self.description}", users=factor)

    def in_group(self, share: float) -> Shape:
        """A group with this share of the users, in whole users per item."""
        words = f"a group of {share:.3g} of the users: {self.description}"
        return self._of(np.rint(self.values * share), words, users=share)

    def heavier(self, factor: float) -> Shape:
        """The same with `factor` times the items per user, and as many users as before."""
        words = f"{factor:g} times the items per user: {self.description}"
        return self._of(np.minimum(self.values * factor, self._most), words, items=factor)

    @property
    def _most(self) -> float:
        """Users of an item."""
        return MOST_USERS if self.users is None else max(self.users, float(self.values[0]))

    def _of(self, values: Floats, words: str, *, users: float = 1.0, items: float = 1.0) -> Shape:
        """Other values for the same levels, highest first; this many times the users, this many times the items of each."""
        order = np.argsort(-values, kind="stable")
        loads = None if self.loads is None else self.loads.scaled(items).at(order)
        return Shape(values[order], self.multiplicities[order], words, loads, None if self.users is None else self.users * users)

    def levels(self, k: int, bounding: Bounding | None = None, *, known: bool = True) -> Levels:
        """The ranking that a release sees once users' contributions are bounded; of an unknown domain only touched items exist.

        Raises:
            InvalidRequest: contributions are bounded and how many items users have is not known.
        """
        kept = slice(None) if known else slice(0, int((self.values > 0).sum()))
        counts, members = self.values[kept], self.multiplicities[kept]
        if bounding is None or bounding.idle:
            return Levels.of(counts, members, k)
        loads = Loads.of_mean(1.0) if self.loads is None and bounding.whole else self.loads
        if loads is None:
            raise InvalidRequest(
                f"bounding contributions ({bounding.words()}) takes items away from counts, and this shape does not say how many "
                "items users have: state items_per_user (--items-per-user), a mean or a distribution"
            )
        loads = loads.at(kept)
        seen, spread = loads.left(counts, members.astype(np.float64), bounding)
        order = np.argsort(-seen, kind="stable")
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

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Shape is immutable: {name!r} cannot be set")

    def __repr__(self) -> str:
        return f"Shape({self.description!r}, items={self.size})"


def _loads(stated: float | Mapping[int, float], least: float = math.ulp(0.0)) -> Loads:
    if isinstance(stated, Mapping):
        return Loads.of_mapping(stated)
    rule = "a finite number > 0" if least < 1 else f"a finite number >= {least:g}"
    _require_number("items_per_user", stated, low=least, rule=f"{rule}, or a mapping {{number of items: how many users have it}}")
    return Loads.of_mean(float(stated))


def _require_sizes(items: int, users: int) -> None:
    for name, value in (("items", items), ("users", users)):
        if not is_count(value):
            raise InvalidRequest(f"{name}={value!r} must be an integer >= 1")
    if users > MOST_USERS:
        raise InvalidRequest(f"users={users} is more than {MOST_USERS:,}: plan for fewer")
    if items > _MOST_ITEMS:
        raise InvalidRequest(
            f"items={items} is more than {_MOST_ITEMS:,}: plan for fewer; items far down the ranking matter little"
        )


def _require_number(name: str, value: float, *, low: float, rule: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value < math.inf:
        raise InvalidRequest(f"{name}={value!r} must be {rule}")
