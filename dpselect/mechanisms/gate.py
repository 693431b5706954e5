"""The one way into a draw (`Gate`): it checks scores and settings, and charges nothing.

`MechanismInput` is the base of other inputs than scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeAlias, cast, final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import TypeVar

from accounting.frozen import Frozen
from accounting.numbers import Floats
from accounting.relations import Relation
from dpselect.errors import (
    DomainMismatch,
    InvalidMechanism,
    InvalidRequest,
    InvalidScores,
    NoClosedForm,
)
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler, sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections, cells
from dpselect.sensitivity import Sensitivity

# the mechanisms that may draw: they know what rounds are, so rounds cannot know them
M = TypeVar("M", default=Any)


Between: TypeAlias = list[tuple[float, float]]
"""Cells of released values, [low, high), in score units."""


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
    def complete(self, mechanism: M) -> Any:
        """Return the mechanism with its open settings filled in from public facts of the rounds."""

    def require(self, mechanism: M, source: Sampler) -> None:
        """Raise as `release` would, without drawing anything."""
        whoever: Any = mechanism
        whoever._check_size(self.candidates)
        self.check(mechanism)
        self.complete(mechanism)._require(self.only(mechanism), source)

    def release(self, mechanism: M, source: Sampler) -> Selection:
        """Return the one selection of a single round, once `require` has passed."""
        selection: Selection = self.complete(mechanism)._select(self.only(mechanism), source)
        return selection

    def law(self, mechanism: M) -> dict[Any, float]:
        """Return the exact distribution of `release`."""
        law: dict[Any, float] = self.complete(mechanism)._probabilities(self.only(mechanism))
        return law

    @abstractmethod
    def draw(self, mechanism: M, source: Sampler) -> Selections:
        """Return one selection per round, once `check` has passed."""


class Gate(Frozen, ABC):
    """Base class of mechanisms that checks all public arguments, once, before a draw.

    A member supplies the sensitivity that its proof covers, and a way to draw.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    traits: ClassVar[Traits]

    @property
    def sensitivity_bound(self) -> Sensitivity:
        """The widest sensitivity that the guarantee covers: by default, the field `sensitivity`."""
        sensitivity: Sensitivity = cast(Any, self).sensitivity
        return sensitivity

    @final
    @property
    def relation(self) -> Relation:
        """The neighboring relation of the guarantee."""
        return self.sensitivity_bound.relation

    @property
    def least_candidates(self) -> int:
        """Smallest number of candidates, k if the domain is always public and otherwise 1."""
        return int(getattr(self, "k", 1)) if self.traits.domain == "public" else 1

    @property
    def most_candidates(self) -> int | None:
        """Largest number of candidates that the guarantee covers, if it is configured, or None."""
        return getattr(self, "candidates", None)

    @final
    @property
    def releases_values(self) -> bool:
        """True if noisy scores of the selected candidates are released."""
        return bool(self.traits.value_of("values", self))

    @final
    @property
    def takes_observed(self) -> bool:
        """True if the candidates may have been read off private data."""
        return bool(self.traits.value_of("domain", self) == "unknown")

    @property
    def _counts_only(self) -> bool:
        """True if a candidate beyond the list stands for a count of 0.

        Scores must then be counts, because a 0 means nothing for other scores.
        """
        return self.takes_observed or bool(self.traits.value_of("zeros", self))

    @abstractmethod
    def _select(self, scores: Scores, source: Sampler) -> Selection:
        """Draw a selection from checked scores."""

    @abstractmethod
    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        """Draw one selection for every row of a checked (rounds, m) matrix."""

    @abstractmethod
    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        """Return the exact distribution of the outcome, for checked scores of a small domain."""

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
                "select_many takes a (rounds, candidates) matrix, not Scores. Release these with"
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
        if self.traits.answers == "queries" and scores.hides_positions:
            raise InvalidScores(
                f"{type(self).__name__} asks queries in order, and that of named groups shows their"
                " scores. Pass one score per query, in a public order"
            )
        self._check_stated()
        self._check_scores(scores)
        if self.traits.value_of("groups", self) and scores.multiplicities is not None:
            source.require_drawable(scores.size)
        else:
            scores.require_dense()

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
