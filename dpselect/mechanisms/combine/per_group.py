"""One selection for every group, of a public list or discovered."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import AnyMechanism, Mechanism
from dpselect.mechanisms.combine.grouped_scores import GroupedScores
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class PerGroup(Mechanism):
    """The selection of `mechanism` for every group at once: the top k of each city, country or day.

    `select` takes `GroupedScores` and returns one Selection, whose `groups` name the group of every item. Scores alone are those
    of a single group. The price does not depend on how many groups there are.
    Guarantee: max_groups_per_user * mechanism.curve under add_remove, twice that under replace_one, Theorem W2; and
    discovery.curve where groups are discovered first, Theorem W5, charged at once.

    Args:
        mechanism: what selects within a group, by scores; its sensitivity is what a user changes within one group.
        max_groups_per_user: in how many groups one user is present at most, >= 1.
        discovery: what finds the groups where no public list names them, by the users of each: a selection of an unknown domain,
            SparseHistogram(k=None, ...) for example. None for a public list.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.PerGroup(mechanism=dps.PermuteAndFlip(epsilon=0.5), max_groups_per_user=2)
        >>> round(mechanism.curve.pure_epsilon, 6)
        1.0
        >>> one = dps.Sensitivity()
        >>> cities = {"Rome": dps.Scores([900, 4], sensitivity=one), "Oslo": dps.Scores([7, 800], sensitivity=one)}
        >>> released = mechanism.select(dps.GroupedScores(cities, max_groups_per_user=2))
        >>> {city: chosen.indices for city, chosen in released.by_group().items()}
        {'Rome': (0,), 'Oslo': (1,)}
    """

    kind: Literal["per_group"] = "per_group"
    traits: ClassVar[Traits] = Traits(
        answers="groups",
        noise=None,
        ordered=lambda mechanism: mechanism.mechanism.ordered,
        most=None,  # as many as there are groups
        domain=lambda mechanism: "unknown" if mechanism.mechanism.takes_observed else "public",
        values=lambda mechanism: mechanism.mechanism.releases_values,
        zeros=lambda mechanism: mechanism.mechanism._counts_only,
        groups=lambda mechanism: mechanism.mechanism.traits.of("groups", mechanism.mechanism),
    )
    mechanism: AnyMechanism = Field(description="a selection by scores")
    max_groups_per_user: Count = Field(description="an integer >= 1")
    discovery: AnyMechanism | None = Field(default=None, description="a selection of an unknown domain, or None")

    @model_validator(mode="after")
    def _selects_by_scores(self) -> Self:
        if not self.mechanism.traits.ranks_counts:
            name = type(self.mechanism).__name__
            raise ValueError(f"mechanism={name} selects no items by their scores: pass a top k or a selection of one item")
        return self

    @model_validator(mode="after")
    def _discovers_groups(self) -> Self:
        if self.discovery is None:
            return self
        name = type(self.discovery).__name__
        if not (self.discovery.traits.ranks_counts and self.discovery.takes_observed):
            raise ValueError(f"discovery={name} finds nothing in an unknown domain: pass SparseHistogram for example")
        if self.discovery.relation != self.mechanism.relation:
            raise ValueError("discovery and mechanism have guarantees under different relations: state one for both")
        return self

    @property
    def covers(self) -> Sensitivity:
        return self.mechanism.covers

    @property
    def curve(self) -> Curve:
        users = 2 if self.relation == "replace_one" else 1  # the one that leaves and the one that comes
        selected = users * self.max_groups_per_user * self.mechanism.curve
        return selected if self.discovery is None else self.discovery.curve + selected

    @property
    def least_candidates(self) -> int:
        return self.mechanism.least_candidates

    @property
    def most_candidates(self) -> int | None:
        return self.mechanism.most_candidates

    @staticmethod
    def _read(data: Any) -> Any:
        if isinstance(data, GroupedScores):
            raise InvalidRequest("groups are released together: call select; select_many is for rounds of a single group")
        return data

    def _check_stated(self) -> None:
        self.mechanism._check_stated()
        if self.discovery is not None:
            self.discovery._check_stated()

    def _check_scores(self, scores: Scores) -> None:
        self.mechanism._check_scores(scores)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return self.mechanism._select(scores, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return self.mechanism._select_many(matrix, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return self.mechanism._probabilities(scores)
