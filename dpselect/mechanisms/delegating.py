"""Mechanisms that act through another one, their field `mechanism`."""

from __future__ import annotations

from abc import ABC
from functools import partial
from typing import TYPE_CHECKING, Any

from dpselect.mechanisms.base import Mechanism, ShowsValues
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

around_traits: partial[Traits] = partial(
    Traits,
    noise=None,
    domain=lambda mechanism: "unknown" if mechanism.mechanism.takes_observed else "public",
    values=lambda mechanism: mechanism.mechanism.releases_values,
    zeros=lambda mechanism: mechanism.mechanism._counts_only,
    groups=lambda mechanism: mechanism.mechanism.traits.value_of("groups", mechanism.mechanism),
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
