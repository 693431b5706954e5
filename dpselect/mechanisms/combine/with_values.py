"""Any selection, and noisy scores of what it selected."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Positive
from dpselect.mechanisms.base import AnyMechanism, Mechanism, enumerable
from dpselect.mechanisms.noise_curves import vector
from dpselect.mechanisms.release import cell_law, half_width, noisy_values, with_values
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity


class Around(Mechanism, ABC):
    """What does as its field `mechanism` does, but for what a member states anew."""

    if TYPE_CHECKING:
        mechanism: Mechanism

    @property
    def covers(self) -> Sensitivity:
        return self.mechanism.covers

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


@final
class WithValues(Around):
    """Selects as `mechanism` does, and releases the scores of what it selected with fresh noise.

    The noise that chose is never shown, so values are not biased towards the large, and a `margin` holds for each of them.
    Guarantee: mechanism.curve plus GaussianDP(l2/scale), or what Theorem H10 says of laplace noise, with the norms of what a user
    changes among at most k scores. Theorem W1.

    Args:
        mechanism: what selects: a top k, or one item, by scores, without values of its own.
        noise: "gaussian" or "laplace", of the values.
        scale: of that noise, in score units, > 0 (the standard deviation for gaussian).

    Example:
        >>> import dpselect as dps
        >>> select = dps.PeelingTopK(k=2, noise="exponential", scale=20.0)
        >>> mechanism = dps.WithValues(mechanism=select, noise="laplace", scale=40.0)
        >>> round(mechanism.curve.pure_epsilon, 6)
        0.15
        >>> len(mechanism.select(dps.Scores([5000, 20, 9000], sensitivity=dps.Sensitivity())).values)
        2
    """

    kind: Literal["with_values"] = "with_values"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=None,
        ordered=lambda mechanism: mechanism.mechanism.ordered,
        most=lambda mechanism: mechanism.mechanism.most_released,
        domain=lambda mechanism: "unknown" if mechanism.mechanism.takes_observed else "public",
        values=True,
        zeros=lambda mechanism: mechanism.mechanism._counts_only,
        groups=lambda mechanism: mechanism.mechanism.traits.of("groups", mechanism.mechanism),
        reads=lambda mechanism: mechanism.mechanism.traits.of("reads", mechanism.mechanism),
    )
    mechanism: AnyMechanism = Field(description="a selection by scores that releases no values")
    noise: Literal["gaussian", "laplace"] = Field(description="gaussian or laplace")
    scale: Positive = Field(description="a finite scale > 0, in score units")

    @model_validator(mode="after")
    def _selects_by_scores(self) -> Self:
        name = type(self.mechanism).__name__
        if not self.mechanism.traits.ranks_counts:
            raise ValueError(f"mechanism={name} selects no items by their scores: values are those of a top k or of one item")
        if self.mechanism.releases_values:
            raise ValueError(f"mechanism={name} releases values of its own: configure it without, or use it as it is")
        self._price()  # refuses values that nothing bounds
        return self

    @property
    def curve(self) -> Curve:
        return self.mechanism.curve + self._price()

    @property
    def shared_group_curve(self) -> Curve | None:
        selecting = self.mechanism.shared_group_curve  # of the scores that are released each user may move all
        return None if selecting is None else selecting + 2 * self._price()

    @property
    def pays_as_it_goes(self) -> bool:
        return self.mechanism.pays_as_it_goes

    def spent(self, selection: Selection) -> Curve:
        """What selecting used up, and the values unless there are none: of k or fewer, they cost the same. Theorem F8."""
        selecting = self.mechanism.spent(selection)
        return selecting + self._price() if len(selection) else selecting

    def _price(self) -> Curve:
        """What the values alone cost."""
        released, there = self.mechanism.most_released, self.mechanism.most_candidates
        return vector(self.noise, self.scale, self.covers, there if released is None else released)

    def margin(self, confidence: float = 0.95) -> float:
        """Half the width, score units, of an interval around each value that holds the score with this probability.

        It holds for each value on its own, whatever was selected; for all of k together pass 1 - (1 - confidence)/k.

        Raises:
            InvalidRequest: `confidence` is not in (0, 1).
        """
        return half_width(self.noise, self.scale, confidence)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return with_values(self.mechanism._select(scores, source), scores, self.noise, self.scale, source)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        chosen = self.mechanism._select_many(matrix, source)
        rows, places = np.nonzero(chosen.indices >= 0)
        values = np.full(chosen.indices.shape, np.nan)
        held = matrix[rows, chosen.indices[rows, places]]
        values[rows, places] = noisy_values(held, self.noise, self.scale, source)
        return chosen.with_values(values)

    def cell_probabilities(self, scores: Scores, edges: ArrayLike) -> dict[Any, float]:
        """The exact probability of every (items, cells of their values), for the cells between `edges` (score units).

        Raises:
            NoClosedForm: the domain is too large to enumerate, or the selection has no exact law.
            DpSelectError: as for `select`.
        """
        self.check(scores)
        law = {(item,) if isinstance(item, int) else item: p for item, p in self._probabilities(scores).items()}
        enumerable(len(law) * (1.0 + np.size(edges)) ** max(map(len, law)))
        return cell_law(scores, law, self.noise, self.scale, edges)
