"""A wrapper that adds noisy scores of the selected items to any selection."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Curve, zero
from accounting.frozen import Positive
from accounting.numbers import Floats
from dpselect.errors import InvalidRequest, InvalidScores, NoClosedForm
from dpselect.mechanisms.base import AnyMechanism, ShowsValues
from dpselect.mechanisms.delegating import DelegatingMechanism, around_traits
from dpselect.mechanisms.gate import Between
from dpselect.mechanisms.noise_curves import shared_vector, vector
from dpselect.mechanisms.release import cell_law, half_width, noisy_values, with_values
from dpselect.mechanisms.traits import Traits
from dpselect.noise import VECTOR_NORMS, VectorNoise, in_words
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Norm, Sensitivity, fraction_up
from dpselect.verify.quadrature import require_enumerable


@final
class WithValues(DelegatingMechanism, ShowsValues):
    """The selection of `mechanism`, released together with the items' scores plus fresh noise.

    The noise that chose is never shown, so values are not biased upwards, and a `margin` holds for
    each of them. Guarantee: mechanism.curve plus GaussianDP(l2/scale), or the cost of Theorem H10
    for laplace noise, with the norms of one user's change among at most k scores. Theorem W1.

    With a clip, the values are counts of a second look at the log (`SecondLook`, `count=`), in
    which each user is scaled to that norm among the selected items only. Few users have more than
    one or two of these. The norm is l2 for gaussian noise and l1 for laplace. The total that the
    clip takes away from all users can be released as one more value, `Selection.lost`. The cost is
    that of such a norm, whatever the scores that chose. Theorem W9.

    Args:
        mechanism: the selection: a top k, or one item, by scores, without values of its own. With a
            clip its values are dropped.
        noise: noise of the values, "gaussian" or "laplace".
        clip: norm of one user's counts among the selected items, > 0; None if values are the scores
            that chose. Scores without a second look are taken as they are, if they are within the
            clip.
        lost_scale: scale of the noise on the total that the clip takes away, score units, > 0; None
            if that is not released.
    """

    kind: Literal["with_values"] = "with_values"
    traits: ClassVar[Traits] = around_traits(
        answers="top_k",
        level=2,
        ordered=lambda mechanism: mechanism.mechanism.ordered,
        most=lambda mechanism: mechanism.mechanism.most_released,
        values=True,
        reads=lambda mechanism: mechanism.mechanism.traits.value_of("reads", mechanism.mechanism),
    )
    mechanism: AnyMechanism = Field(description="a selection by scores that releases no values")
    noise: VectorNoise = Field(description=in_words(VectorNoise))
    scale: Positive = Field(description="a finite scale > 0, in score units")
    clip: Positive | None = Field(
        default=None, description="a finite norm > 0 in score units, or None"
    )
    lost_scale: Positive | None = Field(
        default=None, description="a finite scale > 0 in score units, or None"
    )

    @model_validator(mode="after")
    def _selects_by_scores(self) -> Self:
        name = type(self.mechanism).__name__
        if not self.mechanism.traits.ranks_counts:
            raise ValueError(
                f"mechanism={name} selects no items by their scores. Use a top k or a"
                " selection of one item"
            )
        if self.mechanism.releases_values and self.clip is None:
            raise ValueError(
                f"mechanism={name} releases values of its own: configure it without, or use it as"
                " it is"
            )
        if self.clip is not None and self._most is None:
            raise ValueError(
                f"clip={self.clip:g} needs a mechanism that states how many items it releases at"
                " most. Give it k"
            )
        if self.lost_scale is not None and self.most_lost == 0:
            raise ValueError(
                "lost_scale is the noise on the total that a clip takes away, but nothing is"
                " clipped here. Leave it out"
            )
        self._cost()  # refuses values that nothing bounds
        return self

    @property
    def uses_linf_only(self) -> bool:
        return super().uses_linf_only and self.clip is None

    @property
    def counted_again(self) -> float | None:
        return self.clip

    @property
    def counts_in_part(self) -> bool:
        return super().counts_in_part if self.clip is None else self.most_lost > 0

    @property
    def counted(self) -> Sensitivity:
        """Sensitivity of the scores whose values are released."""
        return (
            self.sensitivity_bound
            if self.clip is None
            else Sensitivity.of_clipped(self.clip, self.norm, self.sensitivity_bound.relation)
        )

    @property
    def most_lost(self) -> float:
        """Largest amount that the clip takes away from one user's counts of the selected items.

        In score units, rounded up. Theorem W9.
        """
        if self.clip is None or self._most is None:
            return 0.0
        items, clip = self._most, Fraction(self.clip)
        if clip >= items if self.norm == "l1" else clip**2 >= items:
            return 0.0
        bound = clip if self.norm == "l1" else clip * Fraction(math.nextafter(math.sqrt(items), 0))
        # weights are rounded down to multiples of 2^-20
        return fraction_up(items * (1 + Fraction(1, 2**20)) - bound)

    @property
    def norm(self) -> Norm:
        """The norm that the cost of the values depends on."""
        return VECTOR_NORMS[self.noise]

    @property
    def _most(self) -> int | None:
        """Largest number of values."""
        released = self.mechanism.most_released
        return self.mechanism.most_candidates if released is None else released

    @property
    def curve(self) -> Curve:
        return self.mechanism.curve + self._cost()

    @property
    def shared_group_curve(self) -> Curve:
        selecting = self.mechanism.shared_group_curve or 2 * self.mechanism.curve
        return selecting + shared_vector(self.noise, self.scale, self.counted, self._most)

    @property
    def cost_depends_on_outcome(self) -> bool:
        return self.mechanism.cost_depends_on_outcome

    def cost_of(self, selection: Selection) -> Curve:
        """Cost of the selection and of its values, or without the latter if no item was released.

        Any number of values up to k costs the same. Theorem F8.
        """
        selecting = self.mechanism.cost_of(selection)
        return selecting + self._cost() if len(selection) else selecting

    def _cost(self) -> Curve:
        """Cost of the values alone."""
        return vector(self.noise, self.scale, self.counted, self._most) + self._lost_cost()

    def _lost_cost(self) -> Curve:
        return (
            zero()
            if self.lost_scale is None
            else vector(self.noise, self.lost_scale, Sensitivity(linf=self.most_lost), 1)
        )

    @property
    def shows_what_chose(self) -> bool:
        return False

    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        return half_width(self.noise, self.scale, confidence, among)

    def lost_margin(self, confidence: float = 0.95) -> float:
        """Return the `margin` of the total that the clip takes away.

        Raises:
            InvalidRequest: that total is not released.
        """
        if self.lost_scale is None:
            raise InvalidRequest(
                "this mechanism does not release the total that a clip takes away. Configure"
                " lost_scale="
            )
        return half_width(self.noise, self.lost_scale, confidence)

    def _check_scores(self, scores: Scores) -> None:
        super()._check_scores(scores)
        if self.clip is None or (scores.second is not None and scores.second.count is not None):
            return
        declared = scores.sensitivity
        norm_of = Sensitivity.l2_of if self.norm == "l2" else Sensitivity.l1_of
        within = norm_of(declared, self._most) <= norm_of(self.counted, self._most)
        if not within or declared.linf > self.counted.linf or self.lost_scale is not None:
            raise InvalidRequest(
                f"the values are counts of users clipped to {self.clip:g} among the selected"
                " items, but these scores have no second pass that counts. Pass Scores(...,"
                " second=dpselect.SecondLook(..., count=...)), or let dpselect.topk read the"
                " log, which makes the second pass itself"
            )

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        selection = self.mechanism._select(scores, source)
        if self.clip is None or scores.second is None or scores.second.count is None:
            return with_values(selection, scores, self.noise, self.scale, source)
        if len(selection) == 0:
            return selection.model_copy(update={"values": ()})
        counts, lost = scores.second.count_candidates(selection.labels or (), self.counted)
        declared, paid = (getattr(one, self.norm) for one in (counts.sensitivity, self.counted))
        if self.lost_scale is not None and declared != paid:  # a tighter clip takes away more
            raise InvalidScores(
                f"the total that a clip takes away was charged for clip={self.clip:g}, and the"
                " second pass clipped users to another norm. Clip them to this one, or leave"
                " lost_scale out"
            )
        values = noisy_values(counts.dense(), self.noise, self.scale, source)
        noisy_lost = (
            None
            if self.lost_scale is None
            else noisy_values(np.array([lost]), self.noise, self.lost_scale, source)
        )
        return selection.model_copy(
            update={
                "values": tuple(values.tolist()),
                "lost": None if noisy_lost is None else float(noisy_lost[0]),
            }
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        selections = self.mechanism._select_many(matrix, source)
        rows, places = np.nonzero(selections.indices >= 0)
        values = np.full(selections.indices.shape, np.nan)
        counts = matrix[rows, selections.indices[rows, places]]
        values[rows, places] = noisy_values(counts, self.noise, self.scale, source)
        return selections.with_values(values)

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        if self.clip is not None and scores.second is not None:
            raise NoClosedForm(
                "values of a second pass depend on its counts. Ask for the probabilities of"
                " scores without one"
            )
        law = {
            (item,) if isinstance(item, int) else item: p
            for item, p in self._probabilities(scores).items()
        }
        require_enumerable(len(law) * len(between) ** max(map(len, law)))
        return cell_law(scores, law, self.noise, self.scale, edges, between)
