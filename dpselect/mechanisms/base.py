"""`Mechanism`: configuration with a privacy curve and a private selection, without data;
`MechanismInput`: data of many releases.

`Traits` say what a mechanism is: declared once by the member, and read by whoever lists,
calibrates, plans or checks it.
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
from accounting.arguments import Relation
from accounting.frozen import Frozen, Registry
from accounting.guarantee import Summable
from dpselect.errors import (
    DomainMismatch,
    InvalidMechanism,
    InvalidRequest,
    InvalidScores,
    NoClosedForm,
)
from dpselect.sampling import Sampler, sampler
from dpselect.sampling.contest import Floats
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections, cells
from dpselect.sensitivity import Norm, Sensitivity

T = TypeVar("T")
# the mechanisms that may draw: they know what rounds are, so rounds cannot know them
M = TypeVar("M", default=Any)


Between: TypeAlias = list[tuple[float, float]]
"""Cells of released values, [low, high), in score units."""

Trait: TypeAlias = Callable[[Any], T] | T
"""The same for every configuration, or a function of the configured mechanism."""

Question = Literal[
    "top_k", "one_item", "gap", "queries", "votes", "comparisons", "groups", "runs", "periods"
]
Domain = Literal["public", "unknown"]
Pay = Literal["curve", "spent"]
"""What a release costs: its mechanism's curve, or in the end what its outcome says was used of
that.
"""

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
"""What a mechanism does that does not release the top k of a ranking by counts."""


@final
@dataclass(frozen=True)
class NoiseParameter:
    """The one field that sets the noise, and where to search it.

    Attributes:
        field: its name.
        unit: "score units", of which more costs less, or "nats", of which more costs more.
        low, high: the least and the greatest value worth considering; score units are those of a
            range of 1.
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


SCALE: Final = NoiseParameter("scale", "score units", 1e-3, 1e9)
SIGMA: Final = NoiseParameter("sigma", "score units", 1e-3, 1e9)
EPSILON: Final = NoiseParameter("epsilon", "nats", 1e-9, 1e3, each=", for one item")
RHO: Final = NoiseParameter("rho", "nats", 1e-18, 1e5)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Traits:
    """What a mechanism is. Whoever needs to know reads it here; no other module keeps a list of
    kinds.

    Attributes:
        answers: the question: "top_k" or "one_item" of a ranking by scores, or one of
            `WHY_NOT_TOP_K`.
        noise: the field that sets the noise; None where no single one does.
        ordered: whether the order of the items is released.
        most: how many items at most: a number, the name of the field that says so, or None for as
            many as it chooses.
        each: how many items of each group, where it releases groups.
        domain: "unknown" where the candidates may have been read off private data.
        failure: the field that is the chance of failure; None if it never fails.
        values: whether noisy scores of the items are released.
        relations: those for which there is a guarantee.
        zeros: whether a candidate that is not listed stands for one with count 0. So it always does
            for an unknown domain.
        groups: whether grouped scores are drawn from as they are; if not they are expanded.
        reads: of an observed domain how many of the highest scores alone it looks at, ties by
            label; None for all.
        cells: whether it answers for groups off one table of cells of a group and an item
            (`dpselect.cells`).
        usual: settings, free of any price, for a release of k items where nobody says otherwise.
        clips: noises whose price is a norm of one user's whole contribution, and which: "l2" or
            "l1".

    Raises:
        TypeError: an attribute is missing or none of what it may be, and which.
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
        """Whether it releases the top k of a ranking by scores, k = 1 included."""
        return self.answers not in WHY_NOT_TOP_K

    def of(self, name: str, mechanism: Any) -> Any:
        """The trait called `name` of a configured mechanism."""
        value = getattr(self, name)
        return value(mechanism) if callable(value) else value


def fields_of(member: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a mechanism, under the names that callers use."""
    return {field.alias or name: field for name, field in member.model_fields.items()}


def settings_of(mechanism: BaseModel) -> dict[str, Any]:
    """What a mechanism is configured with, under the names that callers use."""
    return {
        field.alias or name: getattr(mechanism, name)
        for name, field in type(mechanism).model_fields.items()
    }


class MechanismInput(ABC, Generic[M]):
    """What every mechanism's `select_many`, and for a single round its `select`, accepts in place
    of a matrix or of Scores.
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
        """The scores of the single round that these are, once `check` has passed; InvalidRequest if
        there are more.
        """

    @abstractmethod
    def settled(self, mechanism: M) -> Any:
        """The mechanism with what the rounds state publicly filled in where it leaves that open."""

    def require(self, mechanism: M, source: Sampler) -> None:
        """Raise as `release` would, without drawing anything."""
        whoever: Any = mechanism
        whoever._check_size(self.candidates)
        self.check(mechanism)
        self.settled(mechanism)._require(self.only(mechanism), source)

    def release(self, mechanism: M, source: Sampler) -> Selection:
        """The one selection that a single round is released as, once `require` has passed."""
        chosen: Selection = self.settled(mechanism)._select(self.only(mechanism), source)
        return chosen

    def law(self, mechanism: M) -> dict[Any, float]:
        """The exact law of `release`."""
        law: dict[Any, float] = self.settled(mechanism)._probabilities(self.only(mechanism))
        return law

    @abstractmethod
    def draw(self, mechanism: M, source: Sampler) -> Selections:
        """One selection per round, once `check` has passed."""


class Mechanism(Frozen, Summable, ABC):
    """A differentially private selection. Immutable; `curve` alone states what it guarantees. A
    member supplies the sensitivity its proof covers, its curve, and how it draws; everything public
    is checked here once.

    Fields mean the same in every member that has them and says nothing else:

    Args:
        k: how many candidates to release, or where fewer may be found at most, >= 1.
        epsilon: nats, > 0.
        rho: zCDP parameter, nats, > 0.
        delta: in (0, 1), the chance that the guarantee fails.
        failure_delta: in (0, 1), the chance that a set that a user could change passes.
        noise: name of the noise.
        scale: of the noise in score units, > 0 (the standard deviation for gaussian).
        sensitivity: what one user may change.
        relation: what a neighbor is, "add_remove" or "replace_one".
        candidates: the public number of candidates at most, never read off the data; needed where
            the guarantee depends on it.
        kbar: how many of the highest counts are considered at most, from 1 (or k) to 10,000,000.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "kind" in cls.model_fields and ABC not in cls.__bases__:  # which says: a base of members
            _require_whole(cls)
            MECHANISMS.add(cls)

    traits: ClassVar[Traits]

    @property
    def covers(self) -> Sensitivity:
        """The widest sensitivity that the guarantee covers: the field `sensitivity`, where a member
        says nothing else.
        """
        stated: Sensitivity = cast(Any, self).sensitivity
        return stated

    @property
    @abstractmethod
    def curve(self) -> Curve:
        """What one `select` costs under `relation`, whatever the scores."""

    @property
    def shared_group_curve(self) -> Curve | None:
        """What counts for one group where a user who leaves and one who comes are each in as many
        groups; None: twice `curve`.

        For scores with uniform shares under replace_one: a group that sees one of the two users
        costs at most half of this, and one that sees both costs no more than it. Its delta0 bounds
        a group's failures for both users. Theorem W8.
        """
        return None

    def spent(self, selection: Selection) -> Curve:
        """What the call that released `selection` used up; `curve` where that does not depend on
        what came out. Theorem F8.

        For a filter that adds prices up (`Session.select(pay="spent")`): `curve` must fit before
        the call; a plan that is fixed in advance pays `curve`. InvalidRequest where the mechanism
        releases no such selection.
        """
        return self.curve

    @property
    def cost_depends_on_outcome(self) -> bool:
        """Whether `spent` is less than `curve` for some outcomes."""
        return type(self).spent is not Mechanism.spent

    @property
    def selecting(self) -> Mechanism:
        """The mechanism that selects, without those around it."""
        return self

    @property
    def showing(self) -> ShowsValues | None:
        """The mechanism whose noise the released scores carry: this one, or the one inside it; None
        if no scores are released.
        """
        return self if isinstance(self, ShowsValues) and self.releases_values else None

    @property
    def selected_again(self) -> float | None:
        """Norm of users in a second pass over the log that selects; None if there is no such
        pass.
        """
        return None

    @property
    def counted_again(self) -> float | None:
        """Norm of users in a second pass over the log that counts the selected items; None if there
        is no such pass.
        """
        return None

    @property
    def counts_in_part(self) -> bool:
        """True if some users may count for less than they are, or in fewer items or groups."""
        return self.covers.bounds_users

    @property
    def compared(self) -> int | None:
        """Most candidates that are drawn for in all; None if nothing bounds their number."""
        return self.most_candidates

    @property
    def least_candidates(self) -> int:
        """The fewest candidates that a public domain must have: k where the domain is always
        public, 1 otherwise.
        """
        return int(getattr(self, "k", 1)) if self.traits.domain == "public" else 1

    @property
    def most_candidates(self) -> int | None:
        """The most candidates that the guarantee covers: the field `candidates` where there is one;
        None if any number.
        """
        return getattr(self, "candidates", None)

    @abstractmethod
    def _select(self, scores: Scores, source: Sampler) -> Selection:
        """Draw, for scores that are checked."""

    @abstractmethod
    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        """Draw for every row of a checked (rounds, m) matrix."""

    @abstractmethod
    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        """The exact law of the outcome, for checked scores of a small domain."""

    # -- what every mechanism can do ---------------------------------------------------------------

    @final
    @property
    def relation(self) -> Relation:
        """The neighboring relation of the guarantee."""
        return self.covers.relation

    @final
    def select(
        self, scores: Scores | MechanismInput, *, rng: np.random.Generator | None = None
    ) -> Selection:
        """Release a selection. Its price is `curve`, and nothing here charges it:
        `dpselect.Session` does.

        Args:
            scores: the private scores, or ballots of a single round.
            rng: None draws from the operating system's entropy; a seeded Generator is for
                simulation only.

        Raises:
            RelationMismatch, SensitivityMismatch: the scores declare more than the guarantee
                covers.
            DomainMismatch: the candidates were read off private data and the proof needs a public
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
        """Release one selection per row of a (rounds, m) matrix over a public domain. The price is
        `rounds * curve`. The rows are taken to have the sensitivity that the mechanism is
        configured for; ballots are checked for it.

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
        """The checked (rounds, m) matrix, or ballots; raise as `select_many` would, without drawing
        anything.
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
            sensitivity=self.covers,
            kind="counts" if self._counts_only else "utilities",
        )
        self._check_size(array.shape[1])
        self._check_stated()
        self._check_scores(flat)
        return flat.values.reshape(array.shape)

    @staticmethod
    def _read(data: Any) -> Any:
        """What `select_many` was given, in the form that this kind of mechanism reads."""
        return data

    @property
    def uses_linf_only(self) -> bool:
        """Whether the price holds for any scores that move by at most linf each, however many: no
        l0, l1 or l2 is used, and no users or groups are bounded. Then a charge that reads several
        periods of whole counts costs the same (Theorem F11).
        """
        return self.traits.ranks_counts and not self.covers.bounds_users

    @final
    @property
    def ordered(self) -> bool:
        """Whether the order of the selection is released."""
        return bool(self.traits.of("ordered", self))

    @final
    @property
    def releases_values(self) -> bool:
        """Whether noisy scores of the selected candidates are released."""
        return bool(self.traits.of("values", self))

    @final
    @property
    def takes_observed(self) -> bool:
        """Whether the candidates may have been read off private data."""
        return bool(self.traits.of("domain", self) == "unknown")

    @final
    @property
    def most_released(self) -> int | None:
        """How many items one release has at most; None for as many as the mechanism chooses."""
        return (
            settings_of(self)[most]
            if isinstance(most := self.traits.of("most", self), str)
            else most
        )

    @final
    @property
    def most_of_each(self) -> int | None:
        """The same, of each group where there are groups."""
        each: int | None = self.traits.of("each", self)
        return self.most_released if each is None else each

    @property
    def _counts_only(self) -> bool:
        """Whether a candidate beyond the list stands for a count of 0, which means nothing for
        other scores.
        """
        return self.takes_observed or bool(self.traits.of("zeros", self))

    @final
    def probabilities(self, scores: Scores | MechanismInput) -> dict[Any, float]:
        """The exact probability of every outcome, an oracle for small domains: an int for the best
        one, a tuple of indices where their order is released, a frozenset where only the set is; ()
        or frozenset() where nothing is.

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
        """The exact probability of every (items, cells of their values), for the cells between
        `edges` (score units).

        Raises:
            NoClosedForm: no values are released, they have no exact law, or the domain is too large
                to enumerate. And as for `select`.
        """
        self.check(scores)
        return self._cell_probabilities(scores, *cells(edges))

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        """The law of the outcome and of the cells `between` edges that its values lie in."""
        if not self.releases_values:
            raise NoClosedForm(f"{type(self).__name__} releases no values: ask for probabilities")
        raise NoClosedForm(
            f"{type(self).__name__} has no exact law of released values: use"
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
        self.covers.require(scores.sensitivity)
        if self._counts_only and scores.kind != "counts":
            raise InvalidScores(
                f"{type(self).__name__} needs kind='counts': a candidate that is not listed is one"
                " with count 0, which has no meaning for utilities"
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
        """JSON with the mechanism's `kind`; `Mechanism.from_json` reads it back to an equal
        mechanism.
        """
        return self.model_dump_json()

    @final
    @staticmethod
    def from_json(text: str | bytes) -> Mechanism:
        """The mechanism whose `to_json` is `text`. Only known kinds are built: the library's, and
        those that installed packages declare as entry points "dpselect.mechanisms".

        Raises:
            InvalidMechanism: not JSON, an unknown kind, or values outside their domain.
        """
        too_deep = "the mechanisms are nested too deeply: no plan needs that"
        return MECHANISMS.read(text, writer="Mechanism.to_json", too_deep=too_deep)

    def _check_observed(self) -> None:
        if not self.takes_observed:
            raise DomainMismatch(
                f"{type(self).__name__} needs a public domain, but these candidates were read off"
                " private data, where a rare item shows that its user is there: give a public"
                " catalog (count 0 where nobody touched a candidate), or use a mechanism for an"
                " unknown domain, LimitedDomain for example"
            )

    def _check_stated(self) -> None:
        """Raise where the configuration leaves something open that bare scores do not tell, or the
        noise is beyond the floats.

        A scale or rate that is computed is so here: a draw must not find out, after the charge.
        """
        _ = getattr(self, "scale", None), getattr(self, "rate", None)

    def _check_scores(self, scores: Scores) -> None:
        """Raise where what Scores allow means nothing to this mechanism. A draw must not find out,
        after the charge.
        """

    def _check_size(self, size: int) -> None:
        if size < self.least_candidates:
            raise InvalidRequest(
                f"{type(self).__name__} needs at least {self.least_candidates} candidates and the"
                f" public domain has {size}: ask for fewer items"
            )
        if self.most_candidates is not None and size > self.most_candidates:
            raise InvalidRequest(
                f"{type(self).__name__} is configured for at most candidates={self.most_candidates}"
                f" and the public domain has {size}: configure it with the size of the public"
                " domain"
            )


def _require_whole(member: type[BaseModel]) -> None:
    """Refuse a class that is not all of a mechanism."""
    where = f"{member.__module__}.{member.__name__}"
    lacking = sorted(getattr(member, "__abstractmethods__", ()))
    if (
        "sensitivity" not in member.model_fields
        and getattr(member, "covers", None) is Mechanism.covers
    ):
        lacking.append("covers")
    if lacking:
        raise TypeError(f"{where} lacks {', '.join(lacking)}: every mechanism defines them")
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
    """All mechanisms by kind, those of installed packages included."""
    return MECHANISMS.members()


def mixture(laws: Iterable[tuple[float, Mapping[Any, float]]]) -> dict[Any, float]:
    """The law of what has each of these laws with the chance that stands before it."""
    law = dict[Any, float]()
    for chance, one in laws:
        for outcome, share in one.items():
            law[outcome] = law.get(outcome, 0.0) + chance * share
    return law


def require_enumerable(outcomes: float, limit: float = 2e5) -> None:
    """Raise NoClosedForm where a law has more outcomes than can be listed."""
    if outcomes > limit:
        raise NoClosedForm(
            f"this law has more than {limit:.0f} outcomes: exact probabilities are for small"
            " domains"
        )


class ShowsValues(ABC):
    """What releases noisy scores of the items with them."""

    @property
    @abstractmethod
    def shows_what_chose(self) -> bool:
        """True if values show the noise that chose them, one draw for each candidate; False if
        their noise is fresh.
        """

    @property
    def values_are_scores(self) -> bool:
        """True if values are noisy scores as they were given; False if users weigh otherwise in a
        later round.
        """
        return True

    @abstractmethod
    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        """Half the width, score units, of intervals around the released values that all hold at
        once with this probability.

        Args:
            confidence: in (0, 1).
            among: how many candidates there are at most, a public guess, where values show the
                noise that chose them: what is released is the luckiest of all. Values with fresh
                noise hold each for itself, whatever was selected: of these k for all of k together.

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
"""What an `DelegatingMechanism` is, but for what it answers and how many."""


class DelegatingMechanism(Mechanism, ABC):
    """What does as its field `mechanism` does, but for what a member states anew."""

    if TYPE_CHECKING:
        mechanism: Mechanism

    @property
    def covers(self) -> Sensitivity:
        return self.mechanism.covers

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
