"""`Traits`: what a mechanism is, declared once by the member and read by whoever lists, calibrates, plans or checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from accounting import Relation

T = TypeVar("T")
Trait: TypeAlias = Callable[[Any], T] | T
"""The same for every configuration, or a function of the configured mechanism."""

Question = Literal["top_k", "one_item", "gap", "queries", "votes", "comparisons", "groups", "quantiles", "runs", "periods"]
Domain = Literal["public", "unknown"]
Pay = Literal["curve", "spent"]
"""What a release costs: its mechanism's curve, or in the end what its outcome says was used of that."""

INSTEAD: Final[Mapping[Question, str]] = {
    "gap": "releases how many items stand above a gap, not which",
    "queries": "answers queries one after another, not which items are the top k",
    "votes": "aggregates teachers' ballots, not an event log",
    "comparisons": "ranks from pairwise comparisons, not from counts",
    "groups": "releases a selection for every group of candidates, not one top k",
    "quantiles": "releases points of a grid of numbers, not the items with the highest counts",
    "runs": "releases the best of many runs of a function, not items by their scores",
    "periods": "releases a top k at the end of every period of a horizon, not once: ContinualTopK.fitted calibrates it",
}
"""What a mechanism does that does not release the top k of a ranking by counts."""


@final
@dataclass(frozen=True)
class Knob:
    """The one field that sets the noise, and where to search it.

    Attributes:
        field: its name.
        unit: "score units", of which more costs less, or "nats", of which more costs more.
        low, high: the least and the greatest value worth considering; score units are those of a range of 1.
        each: what these nats are for, in words, after a comma.
    """

    field: str
    unit: Literal["score units", "nats"]
    low: float
    high: float
    each: str = ""

    @property
    def rising(self) -> bool:
        """Whether more of it costs more."""
        return self.unit == "nats"

    def bracket(self, span: float) -> tuple[float, float]:
        """Where to search, for scores of range `span` (score units)."""
        unit = 1.0 if self.rising else span
        return self.low * unit, self.high * unit


SCALE: Final = Knob("scale", "score units", 1e-3, 1e9)
SIGMA: Final = Knob("sigma", "score units", 1e-3, 1e9)
EPSILON: Final = Knob("epsilon", "nats", 1e-9, 1e3, each=", for one item")
RHO: Final = Knob("rho", "nats", 1e-18, 1e5)


@final
@dataclass(frozen=True)
class Recipe:
    """How a plan makes a mechanism of others, whose noise is not a field of its own.

    Attributes:
        build: "module:name" of a function from settings by name (k, sensitivity, `noise.field`, `failure`, ...) to a mechanism.
        noise: what sets the noise of all of them.
        failure: the setting that is the chance of failure; None if it never fails.
        clip: the l2 norm that each user's contributions are scaled to.
    """

    build: str
    noise: Knob
    failure: str | None
    clip: float


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Traits:
    """What a mechanism is. Whoever needs to know reads it here; no other module keeps a list of kinds.

    Attributes:
        answers: the question: "top_k" or "one_item" of a ranking by scores, or one of `INSTEAD`.
        noise: the field that sets the noise; None where no single one does.
        ordered: whether the order of the items is released.
        most: how many items at most: a number, the name of the field that says so, or None for as many as it chooses.
        domain: "unknown" where the candidates may have been read off private data.
        failure: the field that is the chance of failure; None if it never fails.
        values: whether noisy scores of the items are released.
        relations: those for which there is a guarantee.
        zeros: whether a candidate that is not listed stands for one with count 0. So it always does for an unknown domain.
        groups: whether grouped scores are drawn from as they are; if not they are expanded.
        reads: of an observed domain how many of the highest scores alone it looks at, ties by label; None for all.
        usual: settings, free of any price, for a release of k items where nobody says otherwise.
        tried: settings that have a price, and the values that a plan tries.
        clips: noises whose price is a norm of one user's whole contribution, and which: "l2" or "l1".
        law: where the planner finds the quality of a release, "module:name" of a function of (mechanism, levels), or of
            (mechanism, levels, runs) where it is simulated; None: it is not planned yet.
        variants: where the planner finds settings that are free of any price, "module:name" of a function of (mechanism, levels);
            None: there are none.
        recipe: how a plan makes one, where no single field sets the noise.

    Raises:
        TypeError: an attribute is missing or none of what it may be, and which.
    """

    answers: Question
    noise: Knob | None
    ordered: Trait[bool]
    most: Trait[int | None] | str
    domain: Trait[Domain]
    failure: str | None = None
    values: Trait[bool] = False
    relations: tuple[Relation, ...] = get_args(Relation)
    zeros: Trait[bool] = False
    groups: Trait[bool] = False
    reads: Trait[int | None] = None
    usual: Callable[[int], Mapping[str, Any]] = field(default=lambda _: {})
    tried: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    clips: Mapping[str, Literal["l1", "l2"]] = field(default_factory=dict)
    law: str | None = None
    variants: str | None = None
    recipe: Recipe | None = None

    def __post_init__(self) -> None:
        for name, value, known in (("answers", self.answers, get_args(Question)), ("domain", self.domain, get_args(Domain))):
            if not callable(value) and value not in known:
                raise TypeError(f"traits.{name}={value!r} must be one of {', '.join(map(repr, known))}")
        if not self.relations or not set(self.relations) <= set(get_args(Relation)):
            raise TypeError(f"traits.relations={self.relations!r} must name one or both of {', '.join(get_args(Relation))}")
        for name in ("law", "variants"):
            if (place := getattr(self, name)) is not None and place.count(":") != 1:
                raise TypeError(f"traits.{name}={place!r} must be 'module:name' of a function, or None")

    @property
    def ranks_counts(self) -> bool:
        """Whether it releases the top k of a ranking by scores, k = 1 included."""
        return self.answers not in INSTEAD

    @property
    def planned(self) -> bool:
        """Whether `dpselect.plan` considers it."""
        return self.ranks_counts and (self.noise or self.recipe) is not None and self.law is not None

    def of(self, name: str, mechanism: Any) -> Any:
        """The trait called `name` of a configured mechanism."""
        value = getattr(self, name)
        return value(mechanism) if callable(value) else value


def require_whole(member: type[BaseModel]) -> None:
    """Refuse a class that is not all of a mechanism."""
    where = f"{member.__module__}.{member.__name__}"
    if lacking := sorted(getattr(member, "__abstractmethods__", ())):
        raise TypeError(f"{where} lacks {', '.join(lacking)}: every mechanism defines them")
    traits = getattr(member, "traits", None)
    if not isinstance(traits, Traits):
        raise TypeError(
            f"{where} lacks traits: declare what it is in its class, traits: ClassVar[Traits] = Traits(answers=..., noise=..., "
            "ordered=..., most=..., domain=...), from dpselect.mechanisms.traits"
        )
    named: list[tuple[str, str | None]] = [("failure", traits.failure)]
    named += [("tried", name) for name in traits.tried] + [("usual", name) for name in traits.usual(1)]
    named += [("noise", traits.noise.field)] if traits.noise is not None else []
    named += [("most", traits.most)] if isinstance(traits.most, str) else []
    fields = fields_of(member)
    for trait, name in named:
        if name is not None and name not in fields:
            raise TypeError(f"{where}: traits.{trait} names {name!r}, which is not a field: its fields are {', '.join(fields)}")


def fields_of(member: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a mechanism, under the names that callers use."""
    return {field.alias or name: field for name, field in member.model_fields.items()}


def settings_of(mechanism: BaseModel) -> dict[str, Any]:
    """What a mechanism is configured with, under the names that callers use."""
    return {field.alias or name: getattr(mechanism, name) for name, field in type(mechanism).model_fields.items()}
