"""How much one user can change the scores."""

from __future__ import annotations

from typing import Any, ClassVar, Self, final

from pydantic import Field, model_validator

from accounting import Relation, RelationMismatch
from accounting.frozen import Count, Frozen, Positive
from dpselect.errors import InvalidMechanism, SensitivityMismatch


@final
class Sensitivity(Frozen):
    """What neighbouring inputs may do to a score vector.

    The defaults are those of distinct-user counts: each user adds at most 1 to every count.

    Args:
        linf: the most that any one score changes, in score units, > 0.
        monotone: whether in every neighbouring pair all scores move in one direction. Default: True under add_remove, False under
            replace_one, where it cannot be asserted (a replaced user raises some counts and lowers others).
        l0: the most scores that one user can change; None if unbounded. Under replace_one both users' scores count.
        relation: "add_remove" or "replace_one".

    Raises:
        InvalidMechanism: a value is outside its domain, or `monotone` is asserted under replace_one.

    Example:
        >>> import dpselect as dps
        >>> dps.Sensitivity().range, dps.Sensitivity(relation="replace_one").range
        (1.0, 2.0)
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    linf: Positive = Field(default=1.0, description="a finite number > 0, in score units")
    monotone: bool = Field(default=True, strict=True, description="true or false")
    l0: Count | None = Field(default=None, description="a number of scores >= 1, or None")
    relation: Relation = Field(default="add_remove", description="'add_remove' or 'replace_one'")

    @model_validator(mode="before")
    @classmethod
    def _counts_by_default(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("relation") != "replace_one":
            return data
        if data.get("monotone", False) is not False:
            raise ValueError(
                "monotone=True cannot hold under relation='replace_one': a replaced user raises some scores and lowers others, "
                "so leave monotone out; the range is then 2 * linf"
            )
        return {**data, "monotone": False}

    @model_validator(mode="after")
    def _never_monotone_when_replaced(self) -> Self:
        # Whatever form the input had: the rule above sees dictionaries only.
        if self.monotone and self.relation == "replace_one":
            raise ValueError("monotone=True cannot hold under relation='replace_one': leave monotone out")
        return self

    @property
    def range(self) -> float:
        """The most that two scores can move against each other (score units): what ranking mechanisms pay for."""
        return self.linf if self.monotone else 2 * self.linf

    def require(self, scores: Sensitivity) -> None:
        """Check that a proof for this sensitivity covers scores that declare `scores`.

        Raises:
            RelationMismatch: the relations differ.
            SensitivityMismatch: `scores` is wider in any respect.
        """
        if scores.relation != self.relation:
            raise RelationMismatch(
                f"the scores declare relation={scores.relation!r} and the mechanism relation={self.relation!r}: "
                "state the same relation on both"
            )
        wider = [name for name, is_wider in self._comparisons(scores) if is_wider]
        if wider:
            raise SensitivityMismatch(
                f"the scores declare {scores!r}, wider in {', '.join(wider)} than the {self!r} that the mechanism is proved for: "
                "configure the mechanism with the scores' sensitivity, or bound the users' contributions first"
            )

    def _comparisons(self, scores: Sensitivity) -> list[tuple[str, bool]]:
        l0_wider = self.l0 is not None and (scores.l0 is None or scores.l0 > self.l0)
        return [
            ("linf", scores.linf > self.linf),
            ("monotone", self.monotone and not scores.monotone),
            ("l0", l0_wider),
        ]
