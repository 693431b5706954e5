"""Permute-and-flip."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from accounting import LaplaceDP
from dpselect.mechanisms.noisy_max.bases import EpsilonWinner, winner_traits
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import NoiseName


@final
class PermuteAndFlip(EpsilonWinner):
    """The largest of scores with exponential noise, which has the law of permute-and-flip (McKenna and Sheldon 2020).

    Guarantee: LaplaceDP(epsilon), Theorem N7, so pure epsilon; not bounded-range. The most accurate choice under pure
    differential privacy.

    Args:
        epsilon: nats, > 0.
        sensitivity: what one user may change; its range scales the noise.

    Example:
        >>> import dpselect as dps
        >>> law = dps.PermuteAndFlip(epsilon=1.0).probabilities(dps.Scores([3, 1], sensitivity=dps.Sensitivity()))
        >>> round(law[0], 4)
        0.9323
    """

    kind: Literal["permute_and_flip"] = "permute_and_flip"
    traits: ClassVar[Traits] = winner_traits(noise=EPSILON, law="dpselect.planning.laws.independent_noise:permute_and_flip")
    noise_name: ClassVar[NoiseName] = "exponential"

    @property
    def curve(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.epsilon)
