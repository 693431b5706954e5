"""Contribution bounds of one user: number of items and groups, and amount per count or sum.

Weights and amounts are whole multiples of a unit before anything is added. Sums are therefore exact
and do not depend on the order of the log, and a user's part stays within the clip to the last bit
(Theorems H7 and H9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting.numbers import Floats, Integers
from accounting.relations import Relation
from dpselect.app.events.dialect import Dialect
from dpselect.app.events.not_pickled import NotPickled
from dpselect.errors import EventLogError
from dpselect.selection import Label
from dpselect.sensitivity import Norm, Sensitivity

# Every part is preceded by its length, so that no two (user, item) pairs are written alike,
# whatever characters they hold. Only functions that other engines have with the same result: length
# counts code points, sha256 is lower-case hexadecimal. Of the hash 64 bits are compared, as a
# number: whole hashes take three times the memory and a third more time to sort.
KEY = (
    "concat(CAST(length(CAST(u AS VARCHAR)) AS VARCHAR), ':', CAST(u AS VARCHAR), ':', "
    "CAST(length(CAST({0} AS VARCHAR)) AS VARCHAR), ':', CAST({0} AS VARCHAR), ':', {1})"
)

_UNITS_PER_ONE = 1 << 20  # a weight of 1, in units
# of what is added over users, and of what is added over one user's events: parts of the clip
_BITS, _FINE = 24, 40
MOST_EXACT = 1 << 53  # whole numbers up to here are floats


@final
@dataclass(frozen=True, slots=True)
class ContributionLimit:
    """A contribution bound that keeps `limit` items of each user, or that many groups.

    The kept items are those with the smallest first 64 bits of sha256(user, item, salt), ties by
    item. The choice for one user does not depend on any other user, so neighboring logs stay
    neighbors.
    """

    limit: int
    salt: str

    def kept_rows(self, pairs: str, sizes: str, dialect: Dialect, chosen: str = "i") -> str:
        """SQL of the kept rows of `pairs`, each a user and a `chosen` item or group.

        Only users with more than `limit` rows are ranked, according to their numbers t in `sizes`.
        """
        within, beyond = (
            f"SELECT * FROM {pairs} AS p SEMI JOIN (SELECT u FROM {sizes} WHERE t {sign}"
            f" {self.limit}) AS h USING (u)"
            for sign in ("<=", ">")
        )
        return f"{within} UNION ALL {self.rank_rows(f'({beyond})', dialect, 'u', chosen)}"

    def rank_rows(self, beyond: str, dialect: Dialect, owner: str = "u", chosen: str = "i") -> str:
        """SQL of the kept rows of owners who all have more than `limit` rows."""
        rank = dialect.hash_text(KEY.format(chosen, dialect.literal(self.salt)))
        place = f"row_number() OVER (PARTITION BY {owner} ORDER BY {rank}, {chosen}) AS place"
        return (
            f"SELECT * EXCLUDE (place) FROM (SELECT *, {place} FROM {beyond}) WHERE place <="
            f" {self.limit}"
        )


@final
@dataclass(frozen=True, slots=True)
class Clip:
    """A clip that scales a user with t items to weights min(1, clip/sqrt(t)) or min(1, clip/t).

    The former is for l2, the latter for l1. Weights are rounded down.
    """

    clip: float
    norm: Norm

    @property
    def whole(self) -> int:
        """The clip in units of 2^-20 (l1), or its square in squared units (l2), rounded down.

        A user with more items than that adds 0 to each of them. Such items would occur in one
        reading of the pairs and not in another, so a larger bound on items is refused
        (Theorem H11).
        """
        power = 1 if self.norm == "l1" else 2
        return math.floor(Fraction(self.clip) ** power * _UNITS_PER_ONE**power)

    def weight(self) -> str:
        """SQL of the weight of one of t items, in units of 2^-20, by exact integer arithmetic.

        The square root of a whole number up to 2^40 differs from the next whole number by more than
        its rounding error.
        """
        if self.norm == "l1":
            return f"least({self.whole} // t, {_UNITS_PER_ONE})"
        return f"CAST(floor(sqrt(least({self.whole} // t, {_UNITS_PER_ONE**2}))) AS BIGINT)"

    @property
    def unit(self) -> Fraction:
        """Unit of which all sums are whole multiples."""
        return Fraction(1, _UNITS_PER_ONE)

    def as_scores(self, units: Integers) -> Floats:
        """Exact score values (m,) of sums of weights, cut (not refused) beyond 2^33 users."""
        return np.minimum(units, MOST_EXACT).astype(np.float64) / _UNITS_PER_ONE

    def sensitivity(self, relation: Relation, items_per_user: int | None) -> Sensitivity:
        """Sensitivity of the clipped counts to one user (Theorem H7)."""
        return Sensitivity.of_clipped(self.clip, self.norm, relation, items_per_user)


PRESENT = Clip(1.0, "l2")  # what a user's presence in groups is clipped to


@final
@dataclass(frozen=True, slots=True)
class Amount:
    """A user's sum of values of one item, cut to [low, high], low <= 0 < high, in value units."""

    low: float
    high: float

    @property
    def clip(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def exponent(self) -> int:
        """Exponent of the largest power of two that is at most max(-low, high)."""
        return math.frexp(max(-self.low, self.high))[1] - 1

    @property
    def most(self) -> float:
        """Largest size of a single value; 2^40 such values of one user and item do not overflow."""
        return 2.0 ** (self.exponent + _FINE)

    def total(self, dialect: Dialect) -> str:
        """SQL of the sum of values v in units of 2^(exponent - 40)."""
        return dialect.exact_sum("v", 2.0 ** (_FINE - self.exponent))

    def weight(self) -> str:
        """SQL of the sum s cut to the clip, in units of 2^(exponent - 24), to the nearest."""
        step = 1 << (_FINE - _BITS)
        nearest = (
            f"CASE WHEN s >= 0 THEN (s + {step // 2}) // {step} ELSE -(({step // 2} - s) //"
            f" {step}) END"
        )
        low, high = (Fraction(end) / self.unit for end in self.clip)
        return f"CAST(greatest({math.ceil(low)}, least({math.floor(high)}, {nearest})) AS BIGINT)"

    @property
    def unit(self) -> Fraction:
        """Unit of which all sums are whole multiples, in value units."""
        return Fraction(2) ** (self.exponent - _BITS)

    def as_scores(self, units: Integers) -> Floats:
        """Exact sums in value units, cut (not refused) to 2^53 units beyond 2^28 users."""
        return np.clip(units, -MOST_EXACT, MOST_EXACT).astype(np.float64) * float(self.unit)

    def sensitivity(self, relation: Relation, items_per_user: int | None) -> Sensitivity:
        """Sensitivity of the clipped sums to one user (Theorem H9)."""
        return Sensitivity.of_sums(self.low, self.high, relation, items_per_user)


Measure = Clip | Amount
"""A quantity per user that is summed up with the count, either a share of one or an amount."""


def require_weights(measures: Sequence[Measure], limit: int, listed: int | None) -> None:
    """Refuse a bound on items under which a clip gives weight 0 to each of a user's items.

    An item that a user keeps must occur in every reading (Theorem H11).

    Args:
        limit: the bound on a user's items.
        listed: number of items that are looked at; None for all.
    """
    most = limit if listed is None else min(limit, listed)
    for clip in (
        measure for measure in measures if isinstance(measure, Clip) and measure.whole < most
    ):
        raise EventLogError(
            f"clip={clip.clip:g} in {clip.norm}, shared among max_items_per_user={limit} items,"
            " gives each less than 2^-20, which is rounded to 0. Bound a user's items to"
            f" {clip.whole} or fewer, or raise clip="
        )


def amount_of(measures: Sequence[Measure]) -> Amount | None:
    """The amount that is summed up from a column, or None. It is then the only measure."""
    return next((measure for measure in measures if isinstance(measure, Amount)), None)


def has_signed_sums(measures: Sequence[Measure]) -> bool:
    """True if the sums may be negative."""
    amount = amount_of(measures)
    return amount is not None and amount.low < 0


@final
@dataclass(frozen=True, slots=True)
class Contributions:
    """Bounds on the contribution of one user to the log or, if there are groups, to each group.

    within: the only items that are looked at, as their list writes them; None for all. groups: the
    bound on one user's groups; None if the log has none. listed: the only groups that are looked
    at, as their list writes them; None for all. normalize: normal forms applied to the labels of
    the log and of every list compared with it. cells: True if cells of a group and an item are
    counted in place of items, and bounded over all groups together.
    """

    bound: ContributionLimit | None
    clips: tuple[Measure, ...]
    within: list[Label] | None = None
    groups: ContributionLimit | None = None
    listed: list[Label] | None = None
    normalize: tuple[str, ...] = ()
    cells: bool = False

    @property
    def sums(self) -> list[str]:
        """Columns of the totals after the item and its counts."""
        return [f"w{place}" for place in range(len(self.clips))]

    @property
    def owner(self) -> str:
        """Columns that identify the owner whose items are bounded and clipped."""
        return "u" if self.groups is None else "u, g"

    @property
    def cell(self) -> str:
        """Columns that identify a counted cell."""
        return "i" if self.groups is None else "g, i"


@final
@dataclass(frozen=True, slots=True, repr=False)
class ReadReport(NotPickled):
    """Exact figures of one reading. **All are private**, for the data's owner, not a release.

    Attributes:
        rows: events in the log.
        rows_without_user: events whose user is null (in CSV and TSV: null or empty).
        rows_without_item: events whose item is null (in CSV and TSV: null or empty).
        rows_without_group: events whose group is null, likewise; 0 without a group column.
        rows_left_out: events without any one of these; none of them is counted.
        pairs: distinct (user, item) pairs among the other events, or (user, group, item) triples of
            the groups that are looked at.
        pairs_left_out: pairs dropped by `max_groups_per_user` and `max_items_per_user`.
    """

    rows: int
    rows_without_user: int
    rows_without_item: int
    rows_without_group: int
    rows_left_out: int
    pairs: int
    pairs_left_out: int

    def __repr__(self) -> str:
        return "ReadReport(<private figures hidden>)"


class Measured(NotPickled):
    """Counts and sums read under bounds and clips, with their sensitivity to one user."""

    __slots__ = ()
    allowed: Contributions
    counts: Integers
    clipped: Integers

    @property
    def clips(self) -> tuple[Measure, ...]:
        """Clips of the clipped counts, or of the sums."""
        return self.allowed.clips

    @property
    def max_items_per_user(self) -> int | None:
        """The bound on one user's items (in each group, where there are groups), or None."""
        return None if self.allowed.bound is None else self.allowed.bound.limit

    @property
    def salt(self) -> str | None:
        """Salt that repeats the choice of kept groups and items, or None without a bound."""
        return next(
            (
                bound.salt
                for bound in (self.allowed.bound, self.allowed.groups)
                if bound is not None
            ),
            None,
        )

    @property
    def public(self) -> bool:
        """True if the items are public because the caller listed them."""
        return self.allowed.within is not None

    def _values(self, clip: float | None) -> NDArray[Any]:
        """Counts, clipped counts, or clipped sums, in score units."""
        place = self._place(clip)
        return (
            self.counts
            if place is None
            else self.clips[place].as_scores(np.asarray(self.clipped[place]))
        )

    def _sensitivity(self, clip: float | None, relation: Relation) -> Sensitivity:
        place = self._place(clip)
        if place is None:
            return Sensitivity.of_counts(relation, self.max_items_per_user)
        return self.clips[place].sensitivity(relation, self.max_items_per_user)

    def _place(self, clip: float | None) -> int | None:
        if clip is None:
            return None if amount_of(self.clips) is None else 0
        clips = [each.clip for each in self.clips]
        if clip not in clips:
            raise EventLogError(
                f"clip={clip!r} is none of those the log was read with, {clips}. Read it with"
                f" clip={clip!r}"
            )
        return clips.index(clip)
