"""The least popular candidate."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

from pydantic import Field

from accounting import BoundedRange
from accounting.frozen import Positive
from dpselect.mechanisms import noisy_max
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


@final
class LeastPopular(Mechanism):
    """One candidate with probability proportional to exp(-epsilon * score / range).

    Guarantee: BoundedRange(epsilon), Theorem C8 on the negated scores.

    Args:
        epsilon: nats, > 0.
        sensitivity: bound on one user's change, whose range scales the noise.
    """

    kind: Literal["least_popular"] = "least_popular"
    traits: ClassVar[Traits] = Traits(
        answers="one_item", noise=EPSILON, ordered=True, most=1, domain="public"
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(epsilon=self.epsilon)

    @property
    def scale(self) -> float:
        """Scale of the Gumbel noise, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return noisy_max.select_winner(
            _negated(scores), noise_of("gumbel"), self.scale, source
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        return noisy_max.select_winners(-matrix, noise_of("gumbel"), self.scale, source)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return noisy_max.winner_probabilities(
            _negated(scores), noise_of("gumbel"), self.scale
        )


def _negated(scores: Scores) -> Scores:
    return Scores(
        -scores.dense(),
        sensitivity=scores.sensitivity,
        labels=scores.labels,
        kind="utilities",
    )
