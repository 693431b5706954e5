"""A quantile of one number per user: every point of a public grid is a candidate, and a selection chooses one."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from accounting import Relation
from accounting.frozen import Frozen, Positive, Probability, Real
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.scores import Scores
from dpselect.selection import Selection
from dpselect.sensitivity import Sensitivity

_MOST_POINTS, _MOST_PARTS = 2**53, 10**6


def share_of(q: float) -> Fraction:
    """The decimal that prints a share; ValueError if it has more than six digits."""
    share = Fraction(repr(q))
    if share.denominator > _MOST_PARTS:
        raise ValueError(f"q={q} has more than six decimals: round it")
    return share


def points_of(low: float, high: float, step: float) -> int:
    """How many points low, low + step, ... there are up to high; ValueError for none, and for more than 2^53."""
    if not low < high:
        raise ValueError(f"low={low} must be less than high={high}: they are public bounds of the numbers")
    if Fraction(high) - Fraction(low) >= Fraction(step) * (_MOST_POINTS - 1):
        raise ValueError(f"step={step} makes more than 2^53 points between low and high: take wider steps")
    return int((Fraction(high) - Fraction(low)) // Fraction(step)) + 1


def places_of(values: ArrayLike, low: float, high: float, step: float) -> NDArray[np.int64]:
    """(users,) the last point that is not above each number, numbers outside moved to the bounds: a map of each number alone."""
    try:
        numbers = np.asarray(values if np.size(values) else np.empty(0), dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise InvalidScores("values must be numbers that a float64 holds, one per user") from None
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidScores("values is a masked array, whose mask would be lost: leave out who has no number first")
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InvalidScores("values must be a one-dimensional array of finite numbers, one per user: clean them first")
    with np.errstate(over="ignore"):  # beyond the floats is beyond the last point; a warning would tell that somebody is there
        places = np.floor((np.clip(numbers, low, high) - low) / step)
    return np.clip(places, 0, points_of(low, high, step) - 1).astype(np.int64)


@final
class Quantile(Frozen):
    """The question "where does a share q of the users lie below?", for any mechanism that selects one item by scores.

    The candidates are the points low, low + step, ... up to high. The score of a point is minus the distance of q times all
    users from the range of those below it to those up to it, in parts of one user, an integer; points between two
    users share it, so that 10^12 points are as quick as ten. Theorem W3.

    Args:
        q: the share, in (0, 1); 0.5 for the median. Read as the decimal that prints it, of at most six digits.
        low, high: public bounds, in the unit of the numbers; numbers outside of them are moved to them.
        step: distance of the points, > 0, in the same unit.
        relation: "add_remove" or "replace_one".

    Raises:
        InvalidRequest: a value is outside its domain, or there are more than 2^53 points.

    Example:
        >>> import dpselect as dps
        >>> median = dps.Quantile(q=0.5, low=0, high=120, step=1)
        >>> mechanism = dps.ExponentialMechanism(epsilon=1.0, sensitivity=median.sensitivity)
        >>> ages = [17, *range(20, 60), 99] * 50
        >>> 36 <= median.value(mechanism.select(median.scores(ages))) <= 43
        True
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    q: Probability = Field(description="a share in (0, 1)")
    low: Real = Field(description="a finite public number")
    high: Real = Field(description="a finite public number > low")
    step: Positive = Field(description="a finite number > 0")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")

    @model_validator(mode="after")
    def _is_a_grid(self) -> Self:
        points_of(self.low, self.high, self.step)
        share_of(self.q)
        return self

    @property
    def points(self) -> int:
        """How many candidates there are, a public number."""
        return points_of(self.low, self.high, self.step)

    @property
    def sensitivity(self) -> Sensitivity:
        """What one user changes, in the scores' unit: configure the mechanism with it."""
        share = share_of(self.q)
        if self.relation == "replace_one":
            return Sensitivity(linf=share.denominator, relation="replace_one")
        return Sensitivity(linf=max(share.numerator, share.denominator - share.numerator), monotone=False)

    def scores(self, values: ArrayLike) -> Scores:
        """The private scores of all points, for (users,) numbers: exactly one per user; there may be none.

        Raises:
            InvalidScores: not a one-dimensional array of finite numbers.
        """
        places, counts = np.unique(places_of(values, self.low, self.high, self.step), return_counts=True)
        # By turns the points between two that somebody is at, and one of these.
        many, below, upto = (np.zeros(2 * len(places) + 1, dtype=np.int64) for _ in range(3))
        many[0::2], many[1::2] = np.diff(np.append(places, self.points), prepend=-1) - 1, 1
        total = np.concatenate([[0], np.cumsum(counts)])
        below[0::2], below[1::2], upto[0::2], upto[1::2] = total, total[:-1], total, total[1:]
        share = share_of(self.q)
        target = share.numerator * int(counts.sum())
        distance = np.maximum(np.maximum(share.denominator * below - target, target - share.denominator * upto), 0)
        kept = many > 0
        return Scores.grouped(-distance[kept], many[kept], sensitivity=self.sensitivity, kind="utilities")

    def value(self, selection: Selection) -> float:
        """The selected point, in the unit of the numbers.

        Raises:
            InvalidRequest: the selection is not of one point of this grid.
        """
        chosen = selection.indices if isinstance(selection, Selection) else ()
        if len(chosen) != 1 or not 0 <= chosen[0] < self.points:
            raise InvalidRequest("selection must be of one of this quantile's points: select among its scores, with k=1")
        return self.low + self.step * chosen[0]
