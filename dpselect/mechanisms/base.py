"""Base class of mechanisms (`Mechanism`) and of their inputs (`MechanismInput`).

A mechanism is configuration with a privacy curve and a private selection, and holds no data. Each
mechanism declares its properties once, as `Traits`. Commands and functions that list, calibrate,
plan or check mechanisms read them there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeAlias,
    cast,
    final,
    get_args,
)

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, BeforeValidator, SerializeAsAny
from pydantic.fields import FieldInfo
from typing_extensions import TypeVar

from accounting import Curve
from accounting.frozen import Frozen
from accounting.guarantee import Summable
from accounting.numbers import Floats
from accounting.registry import Registry
from accounting.relations import Relation
from dpselect.errors import (
    DomainMismatch,
    InvalidMechanism,
    InvalidRequest,
    InvalidScores,
    NoClosedForm,
)
from dpselect.sampling import Sampler, sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections, cells
from dpselect.sensitivity import Norm, Sensitivity

T = TypeVar("T")
# the mechanisms that may draw: they know what rounds are, so rounds cannot know them
M = TypeVar("M", default=Any)


Between: TypeAlias = list[tuple[float, float]]
"""Cells of released values, [low, high), in score units."""

Trait: TypeAlias = Callable[[Any], T] | T
"""One value for every configuration, or a function of the configured mechanism."""

Question = Literal[
    "top_k", "one_item", "gap", "queries", "votes", "comparisons", "groups", "runs", "periods"
]
Domain = Literal["public", "unknown"]
Pay = Literal["curve", "spent"]
"""Cost of a release: the mechanism's whole curve, or the part of it that the outcome used."""

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
    cells: bool = False
    usual: Callable[[int], Mapping[str, Any]] = field(default=lambda _: {})
    clips: Mapping[str, Norm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("answers", self.answers, get_args(Question)),
            ("domain", self.domain, get_args(Domain)),
        ):
            if not callable(value) and value not in known:
                raise TypeError(
                    f"traits.{name}={value!r} must be one of {', '.join(map(repr, known))}"
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

    def of(self, name: str, mechanism: Any) -> Any:
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


class MechanismInput(ABC, Generic[M]):
    """Base class of inputs that mechanisms take in place of Scores or a matrix of scores.

    `select_many` accepts any number of rounds, and `select` an input of a single round.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of rounds, a public number."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of candidates, a public number."""

    @abstractmethod
    def check(self, mechanism: M) -> None:
        """Raise unless the mechanism's guarantee covers these rounds. Nothing is drawn."""

    @abstractmethod
    def only(self, mechanism: M) -> Scores:
        """Return the scores of the single round, once `check` has passed.

        Raises:
            InvalidRequest: there is more than one round.
        """

    @abstractmethod
    def settled(self, mechanism: M) -> Any:
        """Return the mechanism with its open settings filled in from public facts of the rounds."""

    def require(self, mechanism: M, source: Sampler) -> None:
        """Raise as `release` would, without drawing anything."""
        whoever: Any = mechanism
        whoever._check_size(self.candidates)
        self.check(mechanism)
        self.settled(mechanism)._require(self.only(mechanism), source)

    def release(self, mechanism: M, source: Sampler) -> Selection:
        """Return the one selection of a single round, once `require` has passed."""
        chosen: Selection = self.settled(mechanism)._select(self.only(mechanism), source)
        return chosen

    def law(self, mechanism: M) -> dict[Any, float]:
        """Return the exact distribution of `release`."""
        law: dict[Any, float] = self.settled(mechanism)._probabilities(self.only(mechanism))
        return law

    @abstractmethod
    def draw(self, mechanism: M, source: Sampler) -> Selections:
        """Return one selection per round, once `check` has passed."""


class Mechanism(Frozen, Summable, ABC):
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

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "kind" in cls.model_fields and ABC not in cls.__bases__:  # which says: a base of members
            _require_whole(cls)
            MECHANISMS.add(cls)

    traits: ClassVar[Traits]

    @property
    def sensitivity_bound(self) -> Sensitivity:
        """The widest sensitivity that the guarantee covers: by default, the field `sensitivity`."""
        stated: Sensitivity = cast(Any, self).sensitivity
        return stated

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
    def least_candidates(self) -> int:
        """Smallest number of candidates, k if the domain is always public and otherwise 1."""
        return int(getattr(self, "k", 1)) if self.traits.domain == "public" else 1

    @property
    def most_candidates(self) -> int | None:
        """Largest number of candidates that the guarantee covers, if it is configured, or None."""
        return getattr(self, "candidates", None)

    @abstractmethod
    def _select(self, scores: Scores, source: Sampler) -> Selection:
        """Draw a selection from checked scores."""

    @abstractmethod
    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        """Draw one selection for every row of a checked (rounds, m) matrix."""

    @abstractmethod
    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        """Return the exact distribution of the outcome, for checked scores of a small domain."""

    # -- what every mechanism can do ---------------------------------------------------------------

    @final
    @property
    def relation(self) -> Relation:
        """The neighboring relation of the guarantee."""
        return self.sensitivity_bound.relation

    @final
    def select(
        self, scores: Scores | MechanismInput, *, rng: np.random.Generator | None = None
    ) -> Selection:
        """Release a selection, at a cost of `curve`, which only `dpselect.Session` charges.

        Args:
            scores: the private scores, or ballots of a single round.
            rng: None draws from the operating system's entropy; a seeded Generator is for
                simulation only.

        Raises:
            RelationMismatch, SensitivityMismatch: the scores declare more than the guarantee
                covers.
            DomainMismatch: the candidates were read off private data, but the proof needs a public
                domain.
            InvalidRequest: too few or too many candidates.
            InvalidScores: grouped scores that this mechanism expands imply too many candidates.
            TooManyCandidates: grouped scores imply more than `constant_work` can draw noise for.
        """
        source = sampler(rng)
        self._require(scores, source)
        return (
            scores.release(self, source)
            if isinstance(scores, MechanismInput)
            else self._select(scores, source)
        )

    @final
    def select_many(
        self, matrix: ArrayLike | MechanismInput, *, rng: np.random.Generator | None = None
    ) -> Selections:
        """Release one selection per row of a (rounds, m) matrix over a public domain.

        It costs `rounds * curve`. The rows are assumed to have the sensitivity that the mechanism
        is configured for. Ballots are checked for it.

        Raises:
            InvalidScores: not a two-dimensional matrix of finite numbers with at least one row.
            InvalidRequest: too few or too many candidates.
        """
        checked, source = self.check_many(matrix), sampler(rng)
        return (
            checked.draw(self, source)
            if isinstance(checked, MechanismInput)
            else self._select_many(checked, source)
        )

    @final
    def check_many(self, matrix: ArrayLike | MechanismInput) -> Numbers | MechanismInput:
        """Return the checked (rounds, m) matrix, or ballots.

        Raises as `select_many` would, without drawing anything.
        """
        data = self._read(matrix)
        if isinstance(data, MechanismInput):
            self._check_size(data.candidates)
            data.check(self)
            return data
        if isinstance(data, Scores):
            raise InvalidScores(
                "select_many takes a (rounds, candidates) matrix, not Scores: release these with"
                " select"
            )
        try:
            array = np.asarray(data)
        except ValueError:
            raise InvalidScores(
                "matrix must have rows of one length, one number per candidate"
            ) from None
        if array.ndim != 2 or 0 in array.shape:
            raise InvalidScores(
                f"matrix must have shape (rounds, candidates), both >= 1, not {array.shape}"
            )
        flat = Scores(
            array.ravel(),
            sensitivity=self.sensitivity_bound,
            kind="counts" if self._counts_only else "utilities",
        )
        self._check_size(array.shape[1])
        self._check_stated()
        self._check_scores(flat)
        return flat.values.reshape(array.shape)

    @staticmethod
    def _read(data: Any) -> Any:
        """Return the input of `select_many` in the form that this kind of mechanism reads."""
        return data

    @property
    def uses_linf_only(self) -> bool:
        """True if the cost holds for any number of scores that move by at most linf each.

        Then the cost uses no l0, l1 or l2, no users or groups are bounded, and a charge that reads
        several periods of whole counts costs the same (Theorem F11).
        """
        return self.traits.ranks_counts and not self.sensitivity_bound.bounds_users

    @final
    @property
    def ordered(self) -> bool:
        """True if the rank order of the selection is released."""
        return bool(self.traits.of("ordered", self))

    @final
    @property
    def releases_values(self) -> bool:
        """True if noisy scores of the selected candidates are released."""
        return bool(self.traits.of("values", self))

    @final
    @property
    def takes_observed(self) -> bool:
        """True if the candidates may have been read off private data."""
        return bool(self.traits.of("domain", self) == "unknown")

    @final
    @property
    def most_released(self) -> int | None:
        """Largest number of items in one release, or None for as many as the mechanism chooses."""
        return (
            settings_of(self)[most]
            if isinstance(most := self.traits.of("most", self), str)
            else most
        )

    @final
    @property
    def most_of_each(self) -> int | None:
        """Largest number of items of one group, or of the whole release if there are no groups."""
        each: int | None = self.traits.of("each", self)
        return self.most_released if each is None else each

    @property
    def _counts_only(self) -> bool:
        """True if a candidate beyond the list stands for a count of 0.

        Scores must then be counts, because a 0 means nothing for other scores.
        """
        return self.takes_observed or bool(self.traits.of("zeros", self))

    @final
    def probabilities(self, scores: Scores | MechanismInput) -> dict[Any, float]:
        """Return the exact probability of every outcome, as a reference for small domains.

        An outcome is an int for the best item, a tuple of indices if their order is released, or a
        frozenset if only the set is. If nothing is released, it is () or frozenset().

        Raises:
            NoClosedForm: the domain is too large to enumerate, or the mechanism has no exact law.
                And as for `select`.
        """
        self.check(scores)
        return (
            scores.law(self) if isinstance(scores, MechanismInput) else self._probabilities(scores)
        )

    @final
    def cell_probabilities(self, scores: Scores, edges: ArrayLike) -> dict[Any, float]:
        """Return the exact probability of every (items, cells of their values) pair.

        The cells lie between `edges` (score units).

        Raises:
            NoClosedForm: no values are released, they have no exact law, or the domain is too large
                to enumerate. And as for `select`.
        """
        self.check(scores)
        return self._cell_probabilities(scores, *cells(edges))

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        """Return the distribution of the outcome and of the cells that its values lie in."""
        if not self.releases_values:
            raise NoClosedForm(f"{type(self).__name__} releases no values. Ask for probabilities")
        raise NoClosedForm(
            f"{type(self).__name__} has no exact probabilities of released values. Use"
            " dpselect.verify.lower_bound"
        )

    @final
    def check(self, scores: Scores | MechanismInput) -> None:
        """Raise as `select` would, without drawing anything."""
        self._require(scores, sampler(None))

    @final
    def _require(self, scores: Scores | MechanismInput, source: Sampler) -> None:
        if isinstance(scores, MechanismInput):
            scores.require(self, source)
            return
        if not isinstance(scores, Scores):
            raise InvalidScores(
                "pass dpselect.Scores, which declare their sensitivity, not"
                f" {type(scores).__name__}"
            )
        self.sensitivity_bound.require(scores.sensitivity)
        if self._counts_only and scores.kind != "counts":
            raise InvalidScores(
                f"{type(self).__name__} needs kind='counts', because a candidate that is not"
                " listed has count 0, which means nothing for utilities"
            )
        if scores.domain == "public":
            self._check_size(scores.size)
        else:
            self._check_observed()
        self._check_stated()
        self._check_scores(scores)
        if self.traits.of("groups", self) and scores.multiplicities is not None:
            source.require_drawable(scores.size)
        else:
            scores.require_dense()

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

    def _check_observed(self) -> None:
        if not self.takes_observed:
            raise DomainMismatch(
                f"{type(self).__name__} needs a public domain, but these candidates were read"
                " off private data, where a rare item reveals its user. Pass a public catalog"
                " (with count 0 for a candidate that nobody touched), or use a mechanism for"
                " an unknown domain, for example LimitedDomain"
            )

    def _check_stated(self) -> None:
        """Raise if the configuration is incomplete for bare scores, or noise exceeds the floats.

        Compute derived scales and rates now, so that an overflow is raised before the charge rather
        than during the draw.
        """
        _ = getattr(self, "scale", None), getattr(self, "rate", None)

    def _check_scores(self, scores: Scores) -> None:
        """Raise before the charge, rather than in the draw, if these scores cannot be handled."""

    def _check_size(self, size: int) -> None:
        if size < self.least_candidates:
            raise InvalidRequest(
                f"{type(self).__name__} needs at least {self.least_candidates} candidates, but"
                f" the public domain has {size}. Ask for fewer items"
            )
        if self.most_candidates is not None and size > self.most_candidates:
            raise InvalidRequest(
                f"{type(self).__name__} is configured for at most"
                f" candidates={self.most_candidates}, but the public domain has {size}."
                " Configure it with the size of the public domain"
            )


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
            f"{where} lacks traits: declare what it is in its class, traits: ClassVar[Traits] ="
            " Traits(answers=..., noise=..., ordered=..., most=..., domain=...), from"
            " dpselect.mechanisms.base"
        )
    named: list[tuple[str, str | None]] = [("failure", traits.failure)]
    named += [("usual", name) for name in traits.usual(1)]
    named += [("noise", traits.noise.field)] if traits.noise is not None else []
    named += [("most", traits.most)] if isinstance(traits.most, str) else []
    fields = fields_of(member)
    for trait, name in named:
        if name is not None and name not in fields:
            raise TypeError(
                f"{where}: traits.{trait} names {name!r}, which is not a field: its fields are"
                f" {', '.join(fields)}"
            )


MECHANISMS: Registry[Mechanism] = Registry(
    "mechanism",
    "dpselect.mechanisms",
    InvalidMechanism,
    homes=("dpselect.mechanisms", "dpselect.pate", "dpselect.ranking", "dpselect.continual"),
)


AnyMechanism = Annotated[
    SerializeAsAny[Mechanism],
    # from decoded JSON
    BeforeValidator(lambda data: data if isinstance(data, Mechanism) else MECHANISMS.build(data)),
]


def members() -> dict[str, type[Mechanism]]:
    """Return all mechanisms by kind, including members that installed packages declare."""
    return MECHANISMS.members()


def mixture(laws: Iterable[tuple[float, Mapping[Any, float]]]) -> dict[Any, float]:
    """Return the mixture of distributions that come in pairs (probability, distribution)."""
    law = dict[Any, float]()
    for chance, one in laws:
        for outcome, share in one.items():
            law[outcome] = law.get(outcome, 0.0) + chance * share
    return law


def require_enumerable(outcomes: float, limit: float = 2e5) -> None:
    """Raise NoClosedForm if a distribution has more outcomes than can be listed."""
    if outcomes > limit:
        raise NoClosedForm(
            f"this distribution has more than {limit:.0f} outcomes. Ask for exact"
            " probabilities of a smaller domain"
        )


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


around_traits: partial[Traits] = partial(
    Traits,
    noise=None,
    domain=lambda mechanism: "unknown" if mechanism.mechanism.takes_observed else "public",
    values=lambda mechanism: mechanism.mechanism.releases_values,
    zeros=lambda mechanism: mechanism.mechanism._counts_only,
    groups=lambda mechanism: mechanism.mechanism.traits.of("groups", mechanism.mechanism),
)
"""Traits of a `DelegatingMechanism`, to be completed with the question and the number of items."""


class DelegatingMechanism(Mechanism, ABC):
    """Base class of mechanisms that behave like their field `mechanism` unless overridden."""

    if TYPE_CHECKING:
        mechanism: Mechanism

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return self.mechanism.sensitivity_bound

    @property
    def selecting(self) -> Mechanism:
        return self.mechanism.selecting

    @property
    def showing(self) -> ShowsValues | None:
        return self if isinstance(self, ShowsValues) else self.mechanism.showing

    @property
    def least_candidates(self) -> int:
        return self.mechanism.least_candidates

    @property
    def most_candidates(self) -> int | None:
        return self.mechanism.most_candidates

    def _check_stated(self) -> None:
        self.mechanism._check_stated()

    def _check_scores(self, scores: Scores) -> None:
        self.mechanism._check_scores(scores)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self.mechanism._select(scores, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return self.mechanism._select_many(matrix, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return self.mechanism._probabilities(scores)
