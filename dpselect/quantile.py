"""A quantile of one number per user: every point of a public grid is a candidate, and a selection chooses one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Self, final

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


@final
class Quantile(Frozen):
    """The question "where does a share q of the users lie below?", for any mechanism that selects one item by scores.

    The candidates are the points low, low + step, ... up to high. The score of a point is minus the distance of the number of
    users below it from q times the number of users, in parts of one user, an integer; points between two users share it, so
    that 10^12 points are as quick as ten. Theorem W3.

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
        if not self.low < self.high:
            raise ValueError(f"low={self.low} must be less than high={self.high}: they are public bounds of the numbers")
        if Fraction(self.high) - Fraction(self.low) >= Fraction(self.step) * (_MOST_POINTS - 1):
            raise ValueError(f"step={self.step} makes more than 2^53 points between low and high: take wider steps")
        if self._share.denominator > _MOST_PARTS:
            raise ValueError(f"q={self.q} has more than six decimals: round it")
        return self

    @property
    def _share(self) -> Fraction:
        return Fraction(repr(self.q))

    @property
    def points(self) -> int:
        """How many candidates there are, a public number."""
        return int((Fraction(self.high) - Fraction(self.low)) // Fraction(self.step)) + 1

    @property
    def sensitivity(self) -> Sensitivity:
        """What one user changes, in the scores' unit: configure the mechanism with it."""
        share = self._share
        if self.relation == "replace_one":
            return Sensitivity(linf=share.denominator, relation="replace_one")
        return Sensitivity(linf=max(share.numerator, share.denominator - share.numerator), monotone=False)

    def scores(self, values: ArrayLike) -> Scores:
        """The private scores of all points, for (users,) numbers: exactly one per user; there may be none.

        Raises:
            InvalidScores: not a one-dimensional array of finite numbers.
        """
        places, counts = np.unique(self._places(values), return_counts=True)
        # Runs of points with the same number of users below: up to and with each place that somebody is at.
        ends = np.append(places + 1, self.points)
        below = np.concatenate([[0], np.cumsum(counts)])
        runs = np.diff(ends, prepend=0)
        share = self._share
        distance = np.abs(share.denominator * below - share.numerator * int(counts.sum()))
        kept = runs > 0
        return Scores.grouped(-distance[kept], runs[kept], sensitivity=self.sensitivity, kind="utilities")

    def _places(self, values: ArrayLike) -> NDArray[np.int64]:
        """(users,) the last point that is not above each number: a map of each number alone."""
        try:
            numbers = np.asarray(values if np.size(values) else np.empty(0), dtype=np.float64)
        except (ValueError, TypeError):
            raise InvalidScores("values must be numbers, one per user") from None
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise InvalidScores("values must be a one-dimensional array of finite numbers, one per user: clean them first")
        places = np.floor((np.clip(numbers, self.low, self.high) - self.low) / self.step)
        return np.clip(places, 0, self.points - 1).astype(np.int64)

    def value(self, selection: Selection) -> float:
        """The selected point, in the unit of the numbers.

        Raises:
            InvalidRequest: the selection is not of one point of this grid.
        """
        chosen: tuple[Any, ...] = selection.indices
        if len(chosen) != 1 or not 0 <= chosen[0] < self.points:
            raise InvalidRequest("selection must be of one of this quantile's points: select among its scores, with k=1")
        return self.low + self.step * chosen[0]
