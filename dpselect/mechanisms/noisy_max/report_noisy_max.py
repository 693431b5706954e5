"""Report-noisy-max with any of six noises."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, final, get_args

from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count, Positive
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import require_gaussian_width, winner_curve
from dpselect.mechanisms.noisy_max import positions
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import NoiseName, by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class ReportNoisyMax(Mechanism):
    """The index of the largest of score + scale * noise.

    Guarantee with R the range: BoundedRange(R/scale) for gumbel, LaplaceDP(R/scale) for exponential, laplace, logistic and
    half_logistic (Theorems C8 and N7), the Renyi curves of Theorem C9 for gaussian.

    Args:
        noise: name of the noise.
        scale: scale of the noise in score units, > 0 (the standard deviation for gaussian).
        sensitivity: what one user may change.
        candidates: the public number of candidates at most; part of the gaussian guarantee, never read off the data.

    Example:
        >>> import dpselect as dps
        >>> dps.ReportNoisyMax(noise="laplace", scale=2.0).curve.pure_epsilon
        0.5
    """

    kind: Literal["report_noisy_max"] = "report_noisy_max"
    traits: ClassVar[Traits] = Traits(
        answers="one_item",
        noise=SCALE,
        ordered=True,
        most=1,
        domain="public",
        groups=True,
        tried={"noise": get_args(NoiseName)},
        law="dpselect.planning.laws.noise:noisy_max",
    )
    noise: NoiseName = Field(description="gumbel, exponential, laplace, logistic, half_logistic or gaussian")
    scale: Positive = Field(description="a finite scale > 0, in score units")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")
    candidates: Count | None = Field(default=None, description="a public number of candidates >= 1, or None")

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        require_gaussian_width(self.noise, self.sensitivity, self.candidates)
        return self

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    @property
    def curve(self) -> Curve:
        return winner_curve(self.noise, self.scale, self.sensitivity, self.candidates)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return positions.select(scores, by_name(self.noise), self.scale, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return positions.select_many(matrix, by_name(self.noise), self.scale, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return positions.probabilities(scores, by_name(self.noise), self.scale)
