"""Base class of mechanisms (`Mechanism`), and the listing of its members by kind.

A mechanism is configuration with a privacy curve and a private selection, and holds no data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal, Self, final

from pydantic import BaseModel, BeforeValidator, SerializeAsAny, model_validator

from accounting import Curve
from accounting.guarantee import Summable
from accounting.registry import Registry
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms.gate import Gate
from dpselect.mechanisms.traits import Traits, fields_of, settings_of
from dpselect.selection import Selection

Pay = Literal["curve", "spent"]
"""Cost of a release: the mechanism's whole curve, or the part of it that the outcome used."""


class Mechanism(Gate, Summable, ABC):
    """A differentially private selection. Immutable; `curve` alone states its guarantee.

    A member supplies the sensitivity that its proof covers, its curve, and a way to draw. All
    public settings are checked here, once. These fields have the same meaning in every member,
    unless it documents another:

    Args:
        k: number of candidates to release, >= 1. If fewer can be found, it is the largest number.
        epsilon: nats, > 0.
        rho: zCDP parameter, nats, > 0.
        delta: in (0, 1), probability that the guarantee fails.
        failure_delta: in (0, 1), probability that a set that one user could change passes.
        noise: name of the noise.
        scale: scale of the noise in score units, > 0 (the standard deviation for gaussian).
        sensitivity: bounds on what one user may change in the scores.
        relation: the neighboring relation, "add_remove" or "replace_one".
        candidates: public upper bound on the number of candidates, never read off the data. Needed
            if the guarantee depends on it.
        kbar: largest number of highest counts that are considered, from 1 (or k) to 10,000,000.
    """

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.model_fields and ABC not in cls.__bases__:  # which says: a base of members
            _require_whole(cls)
            MECHANISMS.add(cls)

    @final
    @model_validator(mode="after")
    def _holds_lower_levels(self) -> Self:
        # Each is proved around what stands below it. Runs draw from no scores, and cost what one
        # of them costs.
        for field, part in self._parts.items():
            if part.traits.level >= self.traits.level and self.traits.answers != "runs":
                remedy = (
                    "Pass the mechanism that it holds"
                    if part.traits.level
                    else f"State a level above 0 in the traits of {type(self).__name__}"
                )
                raise ValueError(
                    f"{field}={type(part).__name__} does not go inside {type(self).__name__}."
                    f" {remedy}"
                )
        return self

    @final
    @property
    def _parts(self) -> dict[str, Mechanism]:
        """The mechanisms that this one holds, by field."""
        fields = {field: getattr(self, field) for field in type(self).model_fields}
        return {field: part for field, part in fields.items() if isinstance(part, Mechanism)}

    @property
    @abstractmethod
    def curve(self) -> Curve:
        """Cost of one `select` under `relation`, for any scores."""

    @property
    def shared_group_curve(self) -> Curve | None:
        """Cost of one group that two users share, or None if it is twice `curve`.

        For scores with uniform shares under replace_one, where the user who leaves and the user who
        comes are in equally many groups. A group that sees one of the two users costs at most half
        of this, and one that sees both costs no more than it. Its delta0 bounds a group's failures
        for both users. Theorem W8.
        """
        return None

    def cost_of(self, selection: Selection) -> Curve:
        """Return the cost of the call that released `selection`, at most `curve`. Theorem F8.

        It is `curve` if the cost does not depend on the outcome. This is for a filter that adds up
        costs (`Session.select(pay="spent")`): `curve` must fit before the call. A plan that is
        fixed in advance pays `curve`.

        Raises:
            InvalidRequest: the mechanism releases no such selection.
        """
        return self.curve

    @property
    def cost_depends_on_outcome(self) -> bool:
        """True if `cost_of` is less than `curve` for some outcomes."""
        return type(self).cost_of is not Mechanism.cost_of

    @property
    def selecting(self) -> Mechanism:
        """The selection mechanism without its per-group and with-values wrappers."""
        return self

    @property
    def showing(self) -> ShowsValues | None:
        """The mechanism whose noise the released scores carry, or None if no scores are released.

        It is this mechanism, or the one inside it.
        """
        return self if isinstance(self, ShowsValues) and self.releases_values else None

    @property
    def selected_again(self) -> float | None:
        """Norm of users in a second pass over the log that selects, or None without such a pass."""
        return None

    @property
    def counted_again(self) -> float | None:
        """Norm of users in a second pass that counts selected items, or None if there is none."""
        return None

    @property
    def counts_in_part(self) -> bool:
        """True if a user may count for less than one, or in only some of their items or groups."""
        return self.sensitivity_bound.bounds_users

    @property
    def compared(self) -> int | None:
        """Largest number of candidates that get noise in all, or None if it is unbounded."""
        return self.most_candidates

    @property
    def uses_linf_only(self) -> bool:
        """True if the cost holds for any number of scores that move by at most linf each.

        Then the cost uses no l0, l1 or l2, no users or groups are bounded, and a charge that reads
        several periods of whole counts costs the same (Theorem F11).
        """
        return (
            self.traits.ranks_counts
            and not self.sensitivity_bound.bounds_users
            and all(part.uses_linf_only for part in self._parts.values())
        )

    @final
    @property
    def ordered(self) -> bool:
        """True if the rank order of the selection is released."""
        return bool(self.traits.value_of("ordered", self))

    @final
    @property
    def most_released(self) -> int | None:
        """Largest number of items in one release, or None for as many as the mechanism chooses."""
        return (
            settings_of(self)[most]
            if isinstance(most := self.traits.value_of("most", self), str)
            else most
        )

    @final
    @property
    def most_of_each(self) -> int | None:
        """Largest number of items of one group, or of the whole release if there are no groups."""
        each: int | None = self.traits.value_of("each", self)
        return self.most_released if each is None else each

    @final
    def to_json(self) -> str:
        """Return JSON with the mechanism's `kind`, which `Mechanism.from_json` reads back."""
        return self.model_dump_json()

    @final
    @staticmethod
    def from_json(text: str | bytes) -> Mechanism:
        """Return the mechanism whose `to_json` is `text`.

        Only known kinds are built: those of this library, and those that installed packages declare
        as entry points "dpselect.mechanisms".

        Raises:
            InvalidMechanism: not JSON, an unknown kind, or values outside their domain.
        """
        too_deep = "the mechanisms are nested too deeply: no plan needs that"
        return MECHANISMS.read(text, writer="Mechanism.to_json", too_deep=too_deep)


class ShowsValues(ABC):
    """Base class of mechanisms that can release noisy scores of the items."""

    @property
    @abstractmethod
    def shows_what_chose(self) -> bool:
        """True if values show the noise that chose the items; False if their noise is fresh.

        The noise that chose is one draw for each candidate.
        """

    @property
    def values_are_scores(self) -> bool:
        """True if values are noisy input scores; False if a later round weighs users otherwise."""
        return True

    @abstractmethod
    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        """Return half the width of intervals around the released values, in score units.

        All intervals hold at once with probability `confidence`.

        Args:
            confidence: in (0, 1).
            among: public upper bound on the number of candidates, if values show the noise that
                chose them, because the largest noise of all candidates is released. If values have
                fresh noise, each interval holds by itself, whatever was selected. Pass k to make k
                of them hold at once.

        Raises:
            InvalidRequest: `confidence` is not in (0, 1), `among` is less than 1, or no values are
                released.
        """


def _require_whole(member: type[BaseModel]) -> None:
    """Raise TypeError if a class does not define all that a mechanism needs."""
    where = f"{member.__module__}.{member.__name__}"
    lacking = sorted(getattr(member, "__abstractmethods__", ()))
    if (
        "sensitivity" not in member.model_fields
        and getattr(member, "sensitivity_bound", None) is Mechanism.sensitivity_bound
    ):
        lacking.append("sensitivity_bound")
    if lacking:
        raise TypeError(f"{where} lacks {', '.join(lacking)}. Every mechanism must define them")
    traits = getattr(member, "traits", None)
    if not isinstance(traits, Traits):
        raise TypeError(
            f"{where} lacks traits. Declare what it is in its class, traits: ClassVar[Traits] ="
            " Traits(answers=..., noise=..., ordered=..., most=..., domain=...), from"
            " dpselect.mechanisms.traits"
        )
    pairs: list[tuple[str, str | None]] = [("failure", traits.failure)]
    pairs += [("usual", name) for name in traits.usual(1)]
    pairs += [("noise", traits.noise.field)] if traits.noise is not None else []
    pairs += [("most", traits.most)] if isinstance(traits.most, str) else []
    fields = fields_of(member)
    for trait, name in pairs:
        if name is not None and name not in fields:
            raise TypeError(
                f"{where}: traits.{trait} names {name!r}, which is not a field: its fields are"
                f" {', '.join(fields)}"
            )


MECHANISMS: Registry[Mechanism] = Registry(
    "mechanism",
    "dpselect.mechanisms",
    InvalidMechanism,
    homes=("dpselect.mechanisms", "dpselect.pate", "dpselect.ranking"),
)


AnyMechanism = Annotated[
    SerializeAsAny[Mechanism],
    # from decoded JSON
    BeforeValidator(lambda data: data if isinstance(data, Mechanism) else MECHANISMS.build(data)),
]


def members() -> dict[str, type[Mechanism]]:
    """Return all mechanisms by kind, including members that installed packages declare."""
    return MECHANISMS.members()
