"""One user's counts scaled to a norm: all of a heavy user's items count, each in part.

Weights are whole multiples of 2^-20: sums are exact and do not depend on the order of the log, and a user's norm stays within the
clip to the last bit (Theorem H7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from accounting import Relation
from accounting.arguments import shown
from dpselect.errors import EventLogError
from dpselect.sensitivity import Sensitivity

Norm = Literal["l1", "l2"]

_BITS = 20
_ONE = 1 << _BITS
_LEAST, _MOST = 2.0**-10, 2.0**11
MOST_EXACT = 1 << 53  # whole numbers up to here are floats


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
        """(m,) sums of these weights in score units, exactly.

        Raises:
            EventLogError: more users than 2^33 share an item, which a float does not hold.
        """
        if len(units) and int(units.max()) >= MOST_EXACT:
            raise EventLogError("clipped counts of more than 2^33 users are not exact: split the log")
        return units.astype(np.float64) / _ONE

    def sensitivity(self, relation: Relation, items_per_user: int | None) -> Sensitivity:
        """What one user may change. Theorem H7."""
        return Sensitivity.of_clipped(self.clip, self.norm, relation, items_per_user)


def clips(asked: float | Sequence[float] | None, norm: Norm) -> tuple[Clip, ...]:
    """The clips asked for, each once.

    Raises:
        EventLogError: one is not a number from 2^-10 to 2^11, or there is no such norm.
    """
    if norm not in ("l1", "l2"):
        raise EventLogError(f"clip_norm={norm!r} must be 'l2' (for gaussian noise) or 'l1' (for laplace noise)")
    if asked is None:
        return ()
    listed = [asked] if isinstance(asked, Real | str) or not isinstance(asked, Sequence) else list(asked)
    return tuple(dict.fromkeys(Clip(_checked(clip), norm) for clip in listed))


def _checked(clip: object) -> float:
    try:
        number = float(clip) if isinstance(clip, Real) and not isinstance(clip, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not _LEAST <= number <= _MOST:
        raise EventLogError(f"clip={shown(clip)} must be a number from {_LEAST:g} to {_MOST:g}: the most that one user measures")
    return number
