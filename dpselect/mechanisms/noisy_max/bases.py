"""What mechanisms of this room share: their fields, what these must satisfy, and how a winner is released."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count, Positive
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up, require_gaussian_width
from dpselect.mechanisms.noisy_max import positions
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import Noise, NoiseName, by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

winner_traits = partial(Traits, answers="one_item", ordered=True, most=1, domain="public", groups=True)
"""What a `NoisyWinner` is, but for its noise and its law."""


class NoisyWinner(Mechanism, ABC):
    """One candidate: the position of the largest of scores + scale * noise. A member has a `sensitivity`."""

    if TYPE_CHECKING:
        sensitivity: Sensitivity

    @property
    @abstractmethod
    def _noise(self) -> tuple[Noise, float]:
        """The noise on every score and its scale, in score units."""

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    def _check_stated(self) -> None:
        _ = self._noise  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return positions.select(scores, *self._noise, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return positions.select_many(matrix, *self._noise, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return positions.probabilities(scores, *self._noise)


class EpsilonWinner(NoisyWinner, ABC):
    """The winner under noise whose scale is the range over epsilon. A member names the noise, and states what that costs."""

    noise_name: ClassVar[NoiseName]
    kind: str
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @final
    @property
    def scale(self) -> float:
        """Scale of the noise, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    @final
    @property
    def _noise(self) -> tuple[Noise, float]:
        return by_name(self.noise_name), self.scale


noisy_traits = partial(Traits, answers="top_k", noise=SCALE, most="k", domain="public", groups=True)
"""What a `NoisyTopK` is, but for what it shows and its law."""


class NoisyTopK(Mechanism, ABC):
    """The k best by scores + scale * noise. A member states how often the noise is drawn, and what that costs."""

    kind: str
    k: Count = Field(description="an integer >= 1")
    noise: NoiseName = Field(description="gumbel, exponential, laplace, logistic, half_logistic or gaussian")
    scale: Positive = Field(description="a finite scale > 0, in score units")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(default=None, description="a public number of candidates >= k, or None")

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        require_gaussian_width(self.noise, self.sensitivity, self.candidates)
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(f"candidates={self.candidates} is less than k={self.k}: ask for fewer items")
        return self

    @final
    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity
