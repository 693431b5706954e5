"""Report-noisy-max with any of six noises."""

from __future__ import annotations

from typing import ClassVar, Literal, Self, final, get_args

from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count, Positive
from dpselect.mechanisms.noise_curves import require_gaussian_width, shared_winner, winner_curve
from dpselect.mechanisms.noisy_max.bases import NoisyWinner, winner_traits
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import Noise, NoiseName, by_name
from dpselect.sensitivity import Sensitivity


@final
class ReportNoisyMax(NoisyWinner):
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
    traits: ClassVar[Traits] = winner_traits(
        noise=SCALE, tried={"noise": get_args(NoiseName)}, law="dpselect.planning.laws.independent_noise:noisy_max"
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
    def curve(self) -> Curve:
        return winner_curve(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def shared_group_curve(self) -> Curve:
        return shared_winner(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def _noise(self) -> tuple[Noise, float]:
        return by_name(self.noise), self.scale
