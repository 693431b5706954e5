"""Sums of a column, each user's part of each item clipped: how much was paid, watched or scored, not by how many.

Values become whole multiples of a unit before anything is added, so sums are exact and do not depend on the order of the log, and
a user's part stays within the clip to the last bit (Theorem H9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from accounting.arguments import shown
from dpselect.errors import EventLogError
from dpselect.events.clipping import MOST_EXACT, Clip, Norm, clips
from dpselect.sensitivity import Sensitivity

_BITS, _FINE = 24, 40  # of what is added over users, and of what is added over one user's events: parts of the clip
_LEAST, _MOST = 2.0**-40, 2.0**50


@final
@dataclass(frozen=True, slots=True)
class Amount:
    """A user's sum of values of one item, cut to [low, high], low <= 0 < high, in value units."""

    low: float
    high: float

    @property
    def clip(self) -> tuple[float, float]:
        """Both ends."""
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
    """What is added up of each user beside the count: clipped counts, or the sums of a column.

    Raises:
        EventLogError: one of `value` and `value_clip` is missing, the clip is not a number from 2^-40 to 2^50 or two of them of
            which the first is at most 0, or counts are clipped too.
    """
    if (value is None) != (value_clip is None):
        raise EventLogError("value= names a column and value_clip= the most that a user may add to an item: give both or neither")
    if value_clip is None:
        return clips(clip, norm)
    if clip is not None:
        raise EventLogError("clip= is for counts of users, value_clip= for sums of a column: give one of them")
    ends = tuple(value_clip) if isinstance(value_clip, list | tuple) else (0.0, value_clip)
    numbers = [float(end) for end in ends if isinstance(end, Real) and not isinstance(end, bool)]
    if len(numbers) == len(ends) == 2 and _fits(*numbers):
        return (Amount(*(number + 0.0 for number in numbers)),)  # no negative zero
    raise EventLogError(
        f"value_clip={shown(value_clip)} must be a number from {_LEAST:g} to {_MOST:g}, or two of them, "
        "(low, high) with low <= 0 < high: the least and the most that one user may add to an item"
    )


def _fits(low: float, high: float) -> bool:
    return -_MOST <= low <= 0 < high <= _MOST and max(-low, high) >= _LEAST
