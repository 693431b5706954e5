"""What one user may contribute: how many items and groups, and how much to each count or sum.

Weights and amounts are whole multiples of a unit before anything is added: sums are exact and do not depend on the order of the
log, and a user's part stays within the clip to the last bit (Theorems H7 and H9).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from accounting.arguments import shown
from dpselect.errors import EventLogError
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity

Norm = Literal["l1", "l2"]

# Every part is preceded by its length, so that no two (user, item) pairs are written alike, whatever characters they hold.
# Only functions that other engines have with the same result: length counts code points, sha256 is lower-case hexadecimal.
# Of the hash 64 bits are compared, as a number: whole hashes take three times the memory and a third more time to sort.
KEY = (
    "concat(CAST(length(CAST(u AS VARCHAR)) AS VARCHAR), ':', CAST(u AS VARCHAR), ':', "
    "CAST(length(CAST({0} AS VARCHAR)) AS VARCHAR), ':', CAST({0} AS VARCHAR), ':', CAST(? AS VARCHAR))"
)
_MOST_KEPT = 10**12

_ONE = 1 << 20  # a weight of 1, in units
_LEAST_CLIP, _MOST_CLIP = 2.0**-10, 2.0**11
_BITS, _FINE = 24, 40  # of what is added over users, and of what is added over one user's events: parts of the clip
_LEAST_AMOUNT, _MOST_AMOUNT = 2.0**-40, 2.0**50
MOST_EXACT = 1 << 53  # whole numbers up to here are floats


@final
@dataclass(frozen=True, slots=True)
class ContributionLimit:
    """Keep, of every user, the `limit` items with the smallest sha256(user, item, salt), of which the first 64 bits are compared,
    ties by item; or that many groups, likewise.

    What is kept of one user does not depend on any other user, so neighbouring logs stay neighbours.
    """

    limit: int
    salt: str

    def kept(self, pairs: str, weighed: str, owner: str = "u", chosen: str = "i") -> tuple[str, list[object]]:
        """SQL of the rows of `pairs` that are kept, and its parameters; only owners with more than the limit are ranked.

        Args:
            pairs: relation of distinct owners and what is chosen.
            weighed: relation of owners with their numbers t.
            owner: the columns whose every value keeps `limit` rows: users, or users within groups.
            chosen: the column that is chosen from.
        """
        within, beyond = (
            f"SELECT * FROM {pairs} SEMI JOIN (SELECT {owner} FROM {weighed} WHERE t {sign} {self.limit}) USING ({owner})"
            for sign in ("<=", ">")
        )
        ranked, parameters = self.ranked(f"({beyond})", owner, chosen)
        return f"{within} UNION ALL {ranked}", parameters

    def ranked(self, beyond: str, owner: str = "u", chosen: str = "i") -> tuple[str, list[object]]:
        """The same of owners who all have more than the limit."""
        rank = f"CAST('0x' || left(sha256({KEY.format(chosen)}), 16) AS UBIGINT)"
        place = f"row_number() OVER (PARTITION BY {owner} ORDER BY {rank}, {chosen}) AS place"
        return f"SELECT * EXCLUDE (place) FROM (SELECT *, {place} FROM {beyond}) WHERE place <= {self.limit}", [self.salt]


def bounds(items: int | None, groups: int | None, salt: str | None) -> tuple[ContributionLimit | None, ContributionLimit | None]:
    """The bounds asked for, under one salt, a fresh one unless it is given; None where there is none."""
    if salt is not None and not isinstance(salt, str):
        raise EventLogError(f"salt={salt!r} must be text, or None for a fresh one")
    if items is None and groups is None and salt is not None:
        raise EventLogError(
            f"salt={salt!r} chooses which items are kept, and without max_items_per_user all are: set that too, or leave salt out"
        )
    fresh = secrets.token_hex(16) if salt is None else salt
    return _bound("max_items_per_user", items, fresh), _bound("max_groups_per_user", groups, fresh)


def _bound(field: str, limit: int | None, salt: str) -> ContributionLimit | None:
    if limit is None:
        return None
    if type(limit) is not int or not 1 <= limit <= _MOST_KEPT:
        raise EventLogError(f"{field}={shown(limit)} must be a whole number >= 1, at most 10^12, or None for no bound")
    return ContributionLimit(limit, salt)


@final
@dataclass(frozen=True, slots=True)
class Clip:
    """Weight min(1, clip/sqrt(t)) for each of a user's t items (l2), or min(1, clip/t) (l1), rounded down."""

    clip: float
    norm: Norm

    def weight(self) -> str:
        """SQL of the weight of one of t items, in units of 2^-20: whole-number arithmetic, and a root that is exact.

        The square root of a whole number up to 2^40 lies further from the next whole number than it is rounded.
        """
        if self.norm == "l1":
            return f"least({math.floor(Fraction(self.clip) * _ONE)} // t, {_ONE})"
        squares = math.floor(Fraction(self.clip) ** 2 * _ONE**2)
        return f"CAST(floor(sqrt(least({squares} // t, {_ONE**2}))) AS BIGINT)"

    @property
    def unit(self) -> Fraction:
        """What sums are whole multiples of."""
        return Fraction(1, _ONE)

    def as_scores(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """(m,) sums of these weights in score units, exactly."""
        if len(units) and int(units.max()) >= MOST_EXACT:
            raise EventLogError("clipped counts of more than 2^33 users are not exact: split the log")
        return units.astype(np.float64) / _ONE

    def sensitivity(self, relation: Relation, items_per_user: int | None) -> Sensitivity:
        """What one user may change. Theorem H7."""
        return Sensitivity.of_clipped(self.clip, self.norm, relation, items_per_user)


PRESENT = Clip(1.0, "l2")  # what a user's presence in groups is clipped to


def _clips(asked: float | Sequence[float] | None, norm: Norm) -> tuple[Clip, ...]:
    if norm not in ("l1", "l2"):
        raise EventLogError(f"clip_norm={norm!r} must be 'l2' (for gaussian noise) or 'l1' (for laplace noise)")
    if asked is None:
        return ()
    listed = [asked] if isinstance(asked, Real | str) or not isinstance(asked, Sequence) else list(asked)
    return tuple(dict.fromkeys(Clip(_clip_of(clip), norm) for clip in listed))


def _clip_of(clip: object) -> float:
    number = _number(clip)
    if not _LEAST_CLIP <= number <= _MOST_CLIP:
        raise EventLogError(
            f"clip={shown(clip)} must be a number from {_LEAST_CLIP:g} to {_MOST_CLIP:g}: the most that one user measures"
        )
    return number


def _number(stated: object) -> float:
    """NaN for what is none."""
    try:
        return float(stated) if isinstance(stated, Real) and not isinstance(stated, bool) else math.nan
    except OverflowError:
        return math.inf


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
        """Of the largest power of two that is not above the larger end in size."""
        return math.frexp(max(-self.low, self.high))[1] - 1

    @property
    def most(self) -> float:
        """To what size one value is cut: of such, 2^40 of one user and item do not overflow."""
        return 2.0 ** (self.exponent + _FINE)

    def fine(self) -> str:
        """SQL of a value v in units of 2^(exponent - 40), the nearest whole number of them; a tie goes to the even one."""
        return f"CAST(v * {2.0 ** (_FINE - self.exponent)!r}::DOUBLE AS HUGEINT)"

    def weight(self) -> str:
        """SQL of a sum s of these in units of 2^(exponent - 24), to the nearest, cut to the clip."""
        step = 1 << (_FINE - _BITS)
        nearest = f"CASE WHEN s >= 0 THEN (s + {step // 2}) // {step} ELSE -(({step // 2} - s) // {step}) END"
        low, high = (Fraction(end) / self.unit for end in self.clip)
        return f"CAST(greatest({math.ceil(low)}, least({math.floor(high)}, {nearest})) AS BIGINT)"

    @property
    def unit(self) -> Fraction:
        """What sums are whole multiples of, in value units."""
        return Fraction(2) ** (self.exponent - _BITS)

    def as_scores(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums in value units, exactly; those of more than 2^28 users are cut to 2^53 units: a refusal would tell of the log."""
        return np.clip(units, -MOST_EXACT, MOST_EXACT).astype(np.float64) * float(self.unit)

    def sensitivity(self, relation: Relation, items_per_user: int | None) -> Sensitivity:
        """What one user may change. Theorem H9."""
        return Sensitivity.of_sums(self.low, self.high, relation, items_per_user)


Measure = Clip | Amount
"""What of a user is added up beside the count: a share of one, or an amount."""


def summed(measures: Sequence[Measure]) -> Amount | None:
    """What is summed up of a column, if anything is: the only measure then."""
    return next((measure for measure in measures if isinstance(measure, Amount)), None)


def measures(clip: float | Sequence[float] | None, norm: Norm, value: object, value_clip: Any) -> tuple[Measure, ...]:
    """What is added up of each user beside the count: clipped counts, or the sums of a column."""
    if (value is None) != (value_clip is None):
        raise EventLogError("value= names a column and value_clip= the most that a user may add to an item: give both or neither")
    if value_clip is None:
        return _clips(clip, norm)
    if clip is not None:
        raise EventLogError("clip= is for counts of users, value_clip= for sums of a column: give one of them")
    pair = isinstance(value_clip, list | tuple)
    stated = tuple(value_clip) if pair else (value_clip,)
    ends = stated if pair else (0.0, value_clip)
    if len(ends) == 2:
        low, high = map(_number, ends)
        if -_MOST_AMOUNT <= low <= 0 < high <= _MOST_AMOUNT and max(-low, high) >= _LEAST_AMOUNT:
            return (Amount(low + 0.0, high + 0.0),)  # no negative zero
    raise EventLogError(
        f"value_clip={','.join(map(shown, stated))} must be a number from {_LEAST_AMOUNT:g} to {_MOST_AMOUNT:g}, or two of them, "
        "(low, high) with low <= 0 < high: the least and the most that one user may add to an item"
    )


@final
@dataclass(frozen=True, slots=True)
class Contributions:
    """What a user may contribute: to the log or, where there are groups, to each group.

    within: the only items that are looked at, as their list writes them; None for all.
    groups: the bound on one user's groups; None where the log has none.
    listed: the only groups that are looked at, likewise; None for all.
    """

    bound: ContributionLimit | None
    clips: tuple[Measure, ...]
    within: list[Label] | None = None
    groups: ContributionLimit | None = None
    listed: list[Label] | None = None

    @property
    def sums(self) -> list[str]:
        """Columns of the totals beside the item and its counts."""
        return [f"w{place}" for place in range(len(self.clips))]

    @property
    def summed(self) -> Amount | None:
        return summed(self.clips)

    @property
    def owner(self) -> str:
        """Columns of whose items are bounded and clipped."""
        return "u" if self.groups is None else "u, g"

    @property
    def cell(self) -> str:
        """Columns of what is counted."""
        return "i" if self.groups is None else "g, i"
