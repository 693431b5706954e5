"""The exponential mechanism."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from accounting import BoundedRange
from dpselect.mechanisms.noisy_max.bases import EpsilonWinner, winner_traits
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import NoiseName


@final
class ExponentialMechanism(EpsilonWinner):
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
    noise_name: ClassVar[NoiseName] = "gumbel"

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)
