"""Noisy counts of the items that enough users have.

Proof, for distinct-user counts under add_remove where a user has at most l0 items. Let a
neighbor lack one user. An item that only this user has counts 1, and is shown with
probability P(Laplace >= (bar - 1)/scale) = delta/l0 at most, so all of them stay hidden
except with probability delta. Otherwise the two releases are post-processings of at most
l0 counts that differ by 1, with Laplace noise on each: l0 * LaplaceDP(1/scale). Theorem A1
puts the two together.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar, Literal, NoReturn, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting import Approximate, Curve, LaplaceDP
from accounting.frozen import Count, Positive, Probability
from dpselect import Scores, Selection, Sensitivity
from dpselect.errors import InvalidRequest, NoClosedForm
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import noise_of
from dpselect.sampling import Sampler


@final
class StableCounts(Mechanism):
    """Items whose count + Laplace noise passes a threshold, and that noisy count.

    Korolova et al. 2009. Guarantee, for distinct-user counts under add_remove:
    Approximate(l0 * LaplaceDP(1/scale), delta).

    Args:
        scale: scale of the noise, in counts, > 0.
        delta: probability in (0, 1) that an item of one user alone is shown.
        l0: most items of one user.
    """

    kind: Literal["stable_counts"] = "stable_counts"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=SCALE,
        failure="delta",
        ordered=False,
        most=None,  # as many as pass
        domain="unknown",
        values=True,
        relations=("add_remove",),
    )
    scale: Positive = Field(description="a finite scale > 0, in counts")
    delta: Probability = Field(description="a delta in (0, 1)")
    l0: Count = Field(description="an integer >= 1")

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(l0=self.l0)

    @property
    def curve(self) -> Curve:
        return Approximate(
            curve=self.l0 * LaplaceDP(epsilon=ratio_up(1, self.scale)),
            delta0=self.delta,
        )

    @property
    def grid(self) -> float:
        """Distance of the released counts: a public power of two.

        The last bits of a sum of floats would show the noise.
        """
        return math.ldexp(1.0, math.frexp(self.scale)[1] - 11)

    @property
    def bar(self) -> float:
        """Least noisy count that passes: half a step above the threshold.

        Counts are rounded to the grid.
        """
        margin = (
            self.scale * max(0.0, math.log(self.l0 / (2 * self.delta))) * (1 + 1e-12)
        )
        return self.grid * math.ceil((1 + margin) / self.grid + 0.5)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        counts = scores.dense()
        held = np.flatnonzero(
            counts
        )  # an item that nobody has is one that is not in the log
        noisy = source.draw_rounded(
            counts[held], noise_of("laplace"), self.scale, self.grid
        )
        shown = dict(zip(held.tolist(), noisy.tolist(), strict=True))
        passed = {item: value for item, value in shown.items() if value >= self.bar}
        return release(scores, passed, ordered=False, requested=None, values=passed)

    def _select_many(self, matrix: Any, source: Sampler) -> NoReturn:
        raise InvalidRequest(
            "select_many releases no values: call select for every row"
        )

    def _probabilities(self, scores: Scores) -> NoReturn:
        raise NoClosedForm("released values have a density: ask for cell_probabilities")

    def _cell_probabilities(
        self,
        scores: Scores,
        edges: NDArray[np.float64],
        between: list[tuple[float, float]],
    ) -> dict[Any, float]:
        law: dict[Any, float] = {(frozenset(), ()): 1.0}
        for item, count in enumerate(scores.dense().tolist()):
            chances = (
                {cell: self._lies_in(cell, count) for cell in between} if count else {}
            )
            hidden = {
                outcome: chance * (1 - sum(chances.values()))
                for outcome, chance in law.items()
            }
            shown = {
                (chosen | {item}, (*seen, cell)): chance * share
                for ((chosen, seen), chance), (cell, share) in itertools.product(
                    law.items(), chances.items()
                )
            }
            law = hidden | shown
        return law

    def _lies_in(self, cell: tuple[float, float], count: float) -> float:
        """Return the probability that the rounded count lies in the cell and passes."""
        low, high = (self._reaches(max(end, self.bar), count) for end in cell)
        return low - high

    def _reaches(self, value: float, count: float) -> float:
        if value == math.inf:
            return 0.0
        noise: NDArray[np.float64] = (
            (np.ceil(value / self.grid) - 0.5) * self.grid - count
        ) / self.scale
        return float(noise_of("laplace").sf(noise))
