"""Bounds on how much one user can change the scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Literal, Self, cast, final, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from accounting import RelationMismatch
from accounting.arguments import quote
from accounting.frozen import Count, Frozen, Positive
from accounting.numbers import Floats
from accounting.relations import Relation
from dpselect.errors import InvalidMechanism, SensitivityMismatch

Norm = Literal["l1", "l2"]
"""Norm that bounds one user's change, or to which users are clipped: sum (l1) or Euclidean (l2)."""

_PER_ITEM_UP = 1 + 2.0**-48  # above the roundings of one user's share


@final
class Sensitivity(Frozen):
    """Bounds on the change d of a score vector between neighboring inputs, in several norms.

    Each bound implies others. The defaults are those of distinct-user counts: each user adds at
    most 1 to every count. See `of_counts` and `of_clipped`.

    Args:
        linf: largest change of any one score, in score units, > 0. Default: 1, or the value that l1
            and l2 imply if one is stated.
        monotone: True if in every neighboring pair all scores move in one direction. Default: True
            under add_remove, False under replace_one, where it cannot be asserted (a replaced user
            raises some counts and lowers others).
        l0: largest number of scores that one user can change; None if unbounded. Under replace_one
            both users' scores count.
        relation: "add_remove" or "replace_one".
        l1: largest sum of the sizes of the changes, score units; None for the value that l0 and
            linf imply.
        l2: largest Euclidean norm of the changes, score units; None for the value that the others
            imply.
        uniform: True if scores are sums over users of what each gives, and a user gives the same
            amount to each item that it touches. Thresholds may rely on it. Under replace_one, l0,
            l1 and the square of l2 are then twice one user's, so that l0 is even.

    Raises:
        InvalidMechanism: a value is outside its domain, `monotone` is asserted under replace_one,
            or l0 is odd although it is twice one user's.

    Example:
        >>> import dpselect as dps
        >>> dps.Sensitivity().range, dps.Sensitivity(relation="replace_one").range
        (1.0, 2.0)
        >>> dps.Sensitivity(l0=4).l2_of(None)
        2.0
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    linf: Positive = Field(default=1.0, description="a finite number > 0, in score units")
    monotone: bool = Field(default=True, strict=True, description="true or false")
    l0: Count | None = Field(default=None, description="a number of scores >= 1, or None")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")
    l1: Positive | None = Field(
        default=None, description="a finite number > 0 in score units, or None"
    )
    l2: Positive | None = Field(
        default=None, description="a finite number > 0 in score units, or None"
    )
    uniform: bool = Field(default=False, strict=True, description="true or false")

    @property
    def bounds_users(self) -> bool:
        """True if a user's whole contribution is bounded, by the number of items or by a norm."""
        return (self.l0, self.l1, self.l2) != (None, None, None)

    @classmethod
    def of_counts(
        cls, relation: Relation = "add_remove", items_per_user: int | None = None
    ) -> Self:
        """Return the sensitivity of distinct-user counts.

        A user has at most `items_per_user` items, or any number if None.
        """
        if relation != "replace_one":
            return cls(l0=items_per_user, relation=relation)
        return cls(
            l0=None if items_per_user is None else 2 * _check_items(items_per_user),
            relation=relation,
            uniform=True,
        )

    @classmethod
    def of_clipped(
        cls,
        clip: float,
        norm: str = "l2",
        relation: Relation = "add_remove",
        items_per_user: int | None = None,
    ) -> Self:
        """Return the sensitivity of counts clipped to a norm of `clip`.

        A user with t items adds min(1, clip/sqrt(t)) to each for norm "l2", or min(1, clip/t) for
        "l1".

        Args:
            clip: largest `norm` ("l2" or "l1") of one user's vector, > 0.
            items_per_user: largest number of items of a user; None if any number.
        """
        if norm not in ("l1", "l2"):
            raise InvalidMechanism(
                f"norm={norm!r} must be 'l2' (for gaussian noise) or 'l1' (for laplace noise)"
            )
        single = cls(
            linf=1.0,
            l0=items_per_user,
            uniform=True,
            l1=clip if norm == "l1" else None,
            l2=clip if norm == "l2" else None,
        )
        if relation == "add_remove":
            return single
        l1 = None if single.l1 is None else 2 * single.l1
        l2 = None if single.l2 is None else sqrt_up(2 * Fraction(single.l2) ** 2)
        return cls(
            linf=single.linf,
            l0=None if single.l0 is None else 2 * single.l0,
            relation=relation,
            l1=l1,
            l2=l2,
            uniform=True,
        )

    @classmethod
    def of_sums(
        cls,
        low: float,
        high: float,
        relation: str = "add_remove",
        items_per_user: int | None = None,
    ) -> Self:
        """Return the sensitivity of sums over users, to each of which a user adds a bounded amount.

        The amount is from `low` <= 0 to `high` > 0. Theorem H9.

        Args:
            items_per_user: largest number of sums to which one user adds; None if any number.
        """
        least, greatest = _end("low", low), _end("high", high)
        if not least <= 0 < greatest:
            raise InvalidMechanism(
                f"low={low!r} and high={high!r} must be finite numbers with low <= 0 < high"
            )
        most, spread = max(greatest, -least), greatest - least
        if relation != "replace_one":
            monotone = least == 0 or items_per_user == 1
            return cls(
                linf=fraction_up(most),
                monotone=monotone,
                l0=items_per_user,
                relation=cast(Relation, relation),
            )
        if items_per_user is None:
            return cls(linf=fraction_up(spread), relation="replace_one")
        items = _check_items(items_per_user)
        l2 = sqrt_up(items * max(spread**2, 2 * most**2))
        return cls(
            linf=fraction_up(spread),
            l0=2 * items,
            relation="replace_one",
            l1=fraction_up(2 * items * most),
            l2=l2,
        )

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = dict(data)
        if fields.get("relation") == "replace_one":
            fields.setdefault("monotone", False)
        norms = [fields[name] for name in ("l1", "l2") if fields.get(name) is not None]
        bounds = [*norms, fields["linf"]] if "linf" in fields else norms
        # No score changes by more than l1 or l2. What is no finite number > 0 is left for its own
        # field to refuse.
        if norms and all(map(_is_positive, bounds)):
            fields["linf"] = min(bounds)
        return fields

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        if self.monotone and self.relation == "replace_one":
            raise ValueError(
                "monotone=True cannot hold under relation='replace_one', because a replaced"
                " user raises some scores and lowers others. Leave monotone out, and the"
                " range is 2 * linf"
            )
        # An odd l0 is that of a caller who counted the scores that can change, and half of it fewer
        # items than a user may have.
        if self._halved and self.l0 is not None and self.l0 % 2:
            raise ValueError(
                f"l0={self.l0} cannot be odd with uniform=True under relation='replace_one', where"
                " it is twice the most items of one user, whatever the number of candidates. State"
                " twice that number, or use Sensitivity.of_counts"
            )
        return self

    @property
    def range(self) -> float:
        """Largest movement of two scores against each other, in score units. Theorem H1.

        The cost of ranking mechanisms depends on it.
        """
        if self.monotone:
            return self.linf
        both = (
            2 * self.linf
            if self.l2 is None
            else min(2 * self.linf, sqrt_up(2 * Fraction(self.l2) ** 2))
        )
        return min(both, self.l1_of(None))

    def l1_of(self, count: int | None) -> float:
        """Return the largest sum of the changes of any `count` scores (all if None), rounded up.

        inf if nothing bounds it.
        """
        touched = self._changed_scores(count)
        bounds = [math.inf if touched is None else fraction_up(touched * Fraction(self.linf))]
        if self.l1 is not None:
            bounds.append(self.l1)
        if self.l2 is not None and touched is not None:
            bounds.append(sqrt_up(touched * Fraction(self.l2) ** 2))
        return min(bounds)

    def l2_of(self, count: int | None) -> float:
        """Return the largest Euclidean norm of the changes of any `count` scores, rounded up.

        Of all scores if None. inf if nothing bounds it.
        """
        touched = self._changed_scores(count)
        bounds = [math.inf if touched is None else sqrt_up(touched * Fraction(self.linf) ** 2)]
        if self.l1 is not None:
            bounds.append(sqrt_up(Fraction(self.l1) * Fraction(self.linf)))
        if self.l2 is not None:
            bounds.append(self.l2)
        return min(bounds)

    def _changed_scores(self, count: int | None) -> int | None:
        numbers = [number for number in (count, self.l0) if number is not None]
        return min(numbers) if numbers else None

    @property
    def items_alone(self) -> int | None:
        """Largest number of scores that can be one user's alone, or None for any number."""
        return self.l0 // 2 if self.l0 is not None and self._halved else self.l0

    @overload
    def alone(self, items: int) -> float: ...
    @overload
    def alone(self, items: NDArray[Any]) -> Floats: ...
    def alone(self, items: int | NDArray[Any]) -> float | Floats:
        """Return the most that one user gives each of `items` scores to which nobody else gives.

        In score units: a number, or an array for an array of numbers of items. Theorem H4.
        """
        users = 2 if self._halved else 1
        shares: Any = math.inf
        if self.uniform and self.l1 is not None:
            shares = self.l1 / (users * items)
        if self.uniform and self.l2 is not None:
            shares = np.minimum(shares, self.l2 / np.sqrt(users * items))
        most = np.minimum(self.linf, shares * _PER_ITEM_UP)
        return np.asarray(most) if isinstance(items, np.ndarray) else float(most)

    @property
    def _halved(self) -> bool:
        return self.uniform and self.relation == "replace_one"

    def require(self, scores: Sensitivity) -> None:
        """Check that a proof for this sensitivity covers scores that declare `scores`.

        Raises:
            RelationMismatch: the relations differ.
            SensitivityMismatch: `scores` is wider in any respect.
        """
        if scores.relation != self.relation:
            raise RelationMismatch(
                f"the scores declare relation={scores.relation!r} and the mechanism"
                f" relation={self.relation!r}. State the same relation on both"
            )
        compared = {
            "linf": scores.linf > self.linf,
            "monotone": self.monotone and not scores.monotone,
            "l0": self.l0 is not None and (scores.l0 is None or scores.l0 > self.l0),
            # What is not stated but implied counts as stated: one item per user has an l2 norm of
            # at most linf.
            "l1": scores.l1_of(None) > self.l1_of(None),
            "l2": scores.l2_of(None) > self.l2_of(None),
            "uniform": self.uniform and not scores.uniform,
        }
        if wider := [name for name, is_wider in compared.items() if is_wider]:
            raise SensitivityMismatch(
                f"the scores declare {scores!r}, wider in {', '.join(wider)} than the {self!r} that"
                " the mechanism is proved for: configure the mechanism with the scores'"
                " sensitivity, or bound the users' contributions first"
            )


def _end(field: str, value: object) -> Fraction:
    """Return one end of the range of a user's amounts, exactly."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            return Fraction(value if isinstance(value, Fraction | int) else float(value))
    except (ValueError, OverflowError):
        pass  # not finite
    raise InvalidMechanism(f"{field}={quote(value)} must be a finite number, with low <= 0 < high")


def _is_positive(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0
    except OverflowError:  # an integer beyond all floats
        return False


def _check_items(items: int) -> int:
    """Return an integer >= 1, or raise the error of a wrong bound on one user's items."""
    return Sensitivity(l0=items).l0 or 1


def fraction_up(value: Fraction) -> float:
    """Return the least float that is not below; inf beyond the floats."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=1024)
def sqrt_up(square: Fraction) -> float:
    """Return a float not below the root, and at most two units in the last place above it.

    inf beyond the floats.
    """
    places = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    scaled = square / Fraction(4) ** places  # near 1, whatever the size
    root = math.sqrt(fraction_up(scaled))
    above = root if Fraction(root) ** 2 >= scaled else math.nextafter(root, math.inf)
    return fraction_up(Fraction(above) * Fraction(2) ** places)
