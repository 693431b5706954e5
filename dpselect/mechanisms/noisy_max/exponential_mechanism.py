"""The exponential mechanism."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

from pydantic import Field

from accounting import BoundedRange
from accounting.frozen import Positive
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.noisy_max import positions
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class ExponentialMechanism(Mechanism):
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
    traits: ClassVar[Traits] = Traits(
        answers="one_item",
        noise=EPSILON,
        ordered=True,
        most=1,
        domain="public",
        groups=True,
        law="dpselect.planning.laws.noise:exponential",
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    def _check_stated(self) -> None:
        _ = self.scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return positions.select(scores, by_name("gumbel"), self.scale, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return positions.select_many(matrix, by_name("gumbel"), self.scale, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return positions.probabilities(scores, by_name("gumbel"), self.scale)
