"""Properties of a mechanism that commands and functions read to list, calibrate, plan or check it.

Each mechanism declares them once, as `Traits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from accounting.relations import Relation
from dpselect.sensitivity import Norm

T = TypeVar("T")

Trait: TypeAlias = Callable[[Any], T] | T
"""One value for every configuration, or a function of the configured mechanism."""

Question = Literal[
    "top_k", "one_item", "gap", "queries", "votes", "comparisons", "groups", "runs", "periods"
]
Domain = Literal["public", "unknown"]

WHY_NOT_TOP_K: Final[Mapping[Question, str]] = {
    "gap": "releases how many items stand above a gap, not which",
    "queries": "answers queries one after another, not which items are the top k",
    "votes": "aggregates teachers' ballots, not an event log",
    "comparisons": "ranks from pairwise comparisons, not from counts",
    "groups": "releases a selection for every group of candidates, not one top k",
    "runs": "releases the best of many runs of a function, not items by their scores",
    "periods": (
        "releases a top k at the end of every period of a horizon, not once: ContinualTopK.fitted"
        " calibrates it"
    ),
}
"""Descriptions of mechanisms that do not release the top k of a ranking by counts, by question."""


@final
@dataclass(frozen=True)
class NoiseParameter:
    """The one field that sets the noise of a mechanism, and the range in which to search it.

    Attributes:
        field: name of the field.
        unit: "score units" if a larger value costs less, or "nats" if a larger value costs more.
        low, high: the smallest and largest value worth considering. Score units are for scores of
            range 1.
        each: the purpose of these nats, as words after a comma.
    """

    field: str
    unit: Literal["score units", "nats"]
    low: float
    high: float
    each: str = ""

    @property
    def rising(self) -> bool:
        """True if a larger value costs more."""
        return self.unit == "nats"

    def bracket(self, span: float) -> tuple[float, float]:
        """Return both ends of the search, for scores of range `span` (score units)."""
        unit = 1.0 if self.rising else span
        return self.low * unit, self.high * unit


SCALE: Final = NoiseParameter("scale", "score units", 1e-3, 1e9)
SIGMA: Final = NoiseParameter("sigma", "score units", 1e-3, 1e9)
EPSILON: Final = NoiseParameter("epsilon", "nats", 1e-9, 1e3, each=", for one item")
RHO: Final = NoiseParameter("rho", "nats", 1e-18, 1e5)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Traits:
    """Public description of a mechanism, which all other modules read.

    Attributes:
        answers: the question: "top_k" or "one_item" of a ranking by scores, or one of
            `WHY_NOT_TOP_K`.
        noise: the field that sets the noise, or None if no single field does.
        ordered: True if the rank order of the items is released.
        most: largest number of items: a number, the name of the field that states it, or None for
            as many as the mechanism chooses.
        each: largest number of items of each group, if it releases groups.
        domain: "unknown" if the candidates may have been read off private data.
        failure: the field that holds the failure probability, or None if it never fails.
        values: True if noisy scores of the items are released.
        relations: neighboring relations with a guarantee.
        zeros: True if a candidate that is not listed stands for one with count 0. This is always so
            for an unknown domain.
        groups: True if grouped scores are drawn from as they are. Otherwise they are expanded.
        reads: number of highest scores that alone are read of an observed domain, ties by label.
            None for all.
        level: place in the order in which mechanisms stand around others that draw from the same
            scores, 0 for one that holds none. A mechanism holds only those of lower levels.
        cells: True if it answers for groups from one table of (group, item) cells
            (`dpselect.cells`).
        usual: settings for a release of k items that apply unless the caller states others. None of
            them changes the cost.
        clips: the norm of one user's whole contribution ("l2" or "l1") that the cost depends on, by
            name of the noise. Other noises are left out.

    Raises:
        TypeError: an attribute is missing or has a value that is not allowed. The message names it.
    """

    answers: Question
    noise: NoiseParameter | None
    ordered: Trait[bool]
    most: Trait[int | None] | str
    domain: Trait[Domain]
    failure: str | None = None
    each: Trait[int | None] = None
    values: Trait[bool] = False
    relations: tuple[Relation, ...] = get_args(Relation)
    zeros: Trait[bool] = False
    groups: Trait[bool] = False
    reads: Trait[int | None] = None
    level: int = 0
    cells: bool = False
    usual: Callable[[int], Mapping[str, Any]] = field(default=lambda _: {})
    clips: Mapping[str, Norm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("answers", self.answers, get_args(Question)),
            ("domain", self.domain, get_args(Domain)),
        ):
            if not callable(value) and value not in choices:
                raise TypeError(
                    f"traits.{name}={value!r} must be one of {', '.join(map(repr, choices))}"
                )
        if not self.relations or not set(self.relations) <= set(get_args(Relation)):
            raise TypeError(
                f"traits.relations={self.relations!r} must name one or both of"
                f" {', '.join(get_args(Relation))}"
            )

    @property
    def ranks_counts(self) -> bool:
        """True if it releases the top k of a ranking by scores, k = 1 included."""
        return self.answers not in WHY_NOT_TOP_K

    def value_of(self, name: str, mechanism: Any) -> Any:
        """Return the trait called `name` of a configured mechanism."""
        value = getattr(self, name)
        return value(mechanism) if callable(value) else value


def fields_of(member: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a mechanism, by the names that callers use."""
    return {field.alias or name: field for name, field in member.model_fields.items()}


def settings_of(mechanism: BaseModel) -> dict[str, Any]:
    """Return the settings of a mechanism, by the names that callers use."""
    return {
        field.alias or name: getattr(mechanism, name)
        for name, field in type(mechanism).model_fields.items()
    }
