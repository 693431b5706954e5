"""The exponential mechanism."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from pydantic import Field

from accounting import BoundedRange
from accounting.frozen import Positive
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.noisy_max.positions import NoisyWinner, winner_traits
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import Noise, by_name
from dpselect.sensitivity import Sensitivity


@final
class ExponentialMechanism(NoisyWinner):
    """One candidate with probability proportional to exp(epsilon * score / range): the largest of Gumbel-noisy scores.

    Guarantee: BoundedRange(epsilon), Theorem C8. The cheapest choice under zCDP and Renyi accounting.

    Args:
        epsilon: nats, > 0.
        sensitivity: what one user may change; its range scales the noise.

    Example:
        >>> import dpselect as dps
        >>> law = dps.ExponentialMechanism(epsilon=1.0).probabilities(dps.Scores([3, 1], sensitivity=dps.Sensitivity()))
        >>> round(law[0], 4)
        0.8808
    """

    kind: Literal["exponential_mechanism"] = "exponential_mechanism"
    traits: ClassVar[Traits] = winner_traits(noise=EPSILON, law="dpselect.planning.laws.independent_noise:exponential")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    @property
    def _noise(self) -> tuple[Noise, float]:
        return by_name("gumbel"), self.scale
