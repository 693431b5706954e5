"""Limited Domain: top-k over candidates that are not known in advance."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from accounting import Approximate, BoundedRange
from accounting.frozen import Count, Positive, Probability
from dpselect.mechanisms.base import Mechanism, Positions, enumerable
from dpselect.mechanisms.release import release
from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

_REASON = "fewer items than requested beat the noisy threshold"


@final
class LimitedDomain(Mechanism):
    """At most k of the kbar most popular items, in order: those whose noisy count beats a noisy threshold (Durfee, Rogers 2019).

    Reads the top kbar + 1 counts only, so the domain may be unknown. Guarantee for distinct-user counts under add_remove:
    Approximate(k * BoundedRange(epsilon), delta), Theorem C11; there is none under replace_one.

    Args:
        k: how many items at most, >= 1.
        kbar: how many of the most popular items compete, >= k.
        epsilon: nats for every released item, > 0; the noise is Gumbel with scale 1/epsilon.
        delta: in (0, 1), the chance that the threshold fails to hide an item.
        l0: the most items that one user can hold; None if unbounded.
    """

    kind: Literal["limited_domain"] = "limited_domain"
    unknown_domain: ClassVar[bool] = True
    k: Count = Field(description="an integer >= 1")
    kbar: Count = Field(description="an integer >= k")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    l0: Count | None = Field(default=None, description="an integer >= 1, or None")

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(f"kbar={self.kbar} is less than k={self.k}: let at least k items compete")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(l0=self.l0)

    @property
    def curve(self) -> Approximate:
        return Approximate(curve=self.k * BoundedRange(epsilon=self.epsilon), delta0=self.delta)

    @property
    def least_candidates(self) -> int:
        return 1

    @property
    def most_candidates(self) -> None:
        return None

    @property
    def margin(self) -> float:
        """How far the threshold lies above the count of rank kbar + 1, in counts."""
        touched = self.kbar if self.l0 is None else min(self.l0, self.kbar)
        return 1 + (math.log(touched) + math.log1p(-self.delta) - math.log(self.delta)) / self.epsilon

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        positions, counts, threshold = self._compete(scores)
        chosen = positions[self._beat(counts, threshold, source)]
        return release(scores, chosen, ordered=True, requested=self.k, complete=len(chosen) == self.k, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.full((len(matrix), self.k), -1, dtype=np.int64)
        for row, values in zip(indices, matrix, strict=True):
            positions, counts, threshold = self._compete(Scores(values, sensitivity=self.covers))
            chosen = positions[self._beat(counts, threshold, source)]
            row[: len(chosen)] = chosen
        complete = np.asarray((indices >= 0).all(axis=1))
        return Selections(indices, ordered=True, requested=self.k, complete=complete, reason=_REASON)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        positions, counts, threshold = self._compete(scores)
        enumerable(math.perm(len(counts), min(self.k, len(counts))))
        exponents = self.epsilon * np.append(counts, threshold)
        weights = np.exp(exponents - exponents.max())
        return dict(_prefixes(positions.tolist(), weights, self.k))

    def _compete(self, scores: Scores) -> tuple[Positions, NDArray[np.float64], float]:
        """Positions and counts of the top kbar, and the threshold, both relative to the count of rank kbar + 1."""
        positions, counts = scores.ranked(self.kbar + 1)
        if scores.domain == "observed":
            # An item that nobody touched may or may not be listed: the two must not differ.
            positions, counts = positions[counts > 0], counts[counts > 0]
        floor = counts[self.kbar] if len(counts) > self.kbar else counts.dtype.type(0)
        return positions[: self.kbar], (counts[: self.kbar] - floor).astype(np.float64), self.margin

    def _beat(self, counts: NDArray[np.float64], threshold: float, source: Sampler) -> Positions:
        contest = np.append(counts, threshold)
        order = source.top_k(contest, by_name("gumbel"), 1 / self.epsilon, min(self.k + 1, len(contest)))
        bottom = np.flatnonzero(order == len(counts))
        return order[: min(self.k, int(bottom[0]) if len(bottom) else len(order))]


def _prefixes(positions: list[int], weights: NDArray[np.float64], k: int) -> dict[tuple[int, ...], float]:
    """Law of the sequence drawn without replacement, stopped by the last weight or after k."""
    law: dict[tuple[int, ...], float] = {}

    def extend(taken: tuple[int, ...], probability: float) -> None:
        left = [i for i in range(len(positions)) if i not in taken]
        if len(taken) == k:
            law[tuple(positions[i] for i in taken)] = float(probability)
            return
        total = weights[left].sum() + weights[-1]
        law[tuple(positions[i] for i in taken)] = float(probability * weights[-1] / total)
        for i in left:
            extend((*taken, i), probability * weights[i] / total)

    extend((), 1.0)
    return law
