"""Limited Domain: top-k over candidates that are not known in advance."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self, cast, final

import numpy as np
from pydantic import Field, model_validator

from accounting import Approximate, BoundedRange
from accounting.frozen import Count, Positive, Probability
from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.gaps import Rank
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import add_public, count_blocks, heights, read_counts
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import noise_of
from dpselect.sampling import Sampler
from dpselect.sampling.ranked import rank_rows
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import gumbel_softmax, mixture, require_enumerable

_ROUNDING = 2.0**-50  # of the terms of the threshold: above the roundings of their sum
_REASON = "fewer items than requested beat the noisy threshold"


@final
class LimitedDomain(Mechanism):
    """At most k of the kbar most popular items, in order, whose noisy counts beat a noisy bar.

    It reads only the top kbar + 1 counts, so the domain may be unknown. Guarantee for distinct-user
    counts under add_remove: Approximate(k * BoundedRange(epsilon), delta), Theorem C11. A
    replacement is two such steps. With `kbar_least` the number of competitors is chosen privately,
    for one more BoundedRange(epsilon), Theorem S7. After Durfee and Rogers (2019).

    Args:
        epsilon: nats for every released item, > 0. The noise is Gumbel with scale 1/epsilon.
        l0: the most items that one user can hold; None if unbounded.
        kbar_least: from k to kbar. The number of competitors is then the one among kbar_least, ...,
            kbar with the lowest threshold, up to noise. None for exactly kbar.

    Example:
        >>> import dpselect as dps
        >>> mechanism = dps.LimitedDomain(k=2, kbar=10, epsilon=1.0, delta=1e-6)
        >>> seen = dps.Scores(
        ...     [9000, 5000, 1],
        ...     labels=["zoo", "park", "pier"],
        ...     sensitivity=dps.Sensitivity(),
        ...     domain="observed",
        ... )
        >>> mechanism.select(seen).labels
        ('zoo', 'park')
    """

    kind: Literal["limited_domain"] = "limited_domain"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=EPSILON,
        failure="delta",
        ordered=True,
        most="k",
        domain="unknown",
        reads=lambda mechanism: mechanism.kbar + 1,
        relations=("add_remove",),
    )
    k: Rank = Field(description="an integer from 1 to 10,000,000")
    kbar: Rank = Field(description="an integer from k to 10,000,000")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    l0: Count | None = Field(default=None, description="an integer >= 1, or None")
    kbar_least: Count | None = Field(default=None, description="an integer from k to kbar, or None")

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.kbar < self.k:
            raise ValueError(
                f"kbar={self.kbar} is less than k={self.k}. Let at least k items compete"
            )
        if self.kbar_least is not None and not self.k <= self.kbar_least <= self.kbar:
            raise ValueError(
                f"kbar_least={self.kbar_least} must lie from k={self.k} to kbar={self.kbar}"
            )
        if not math.isfinite(self.margin):
            raise ValueError(
                f"epsilon={self.epsilon} puts the threshold beyond the floats. Raise it"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(l0=self.l0)

    @property
    def curve(self) -> Approximate:
        return self._cost(self.k)

    def cost_of(self, selection: Selection) -> Approximate:
        """Cost of one pick per item, plus one if the threshold ended it early. Theorem S8."""
        if not (selection.ordered and selection.requested == self.k and len(selection) <= self.k):
            raise InvalidRequest(
                f"this selection was not released by {self!r}. Pass one that its select returned"
            )
        return self._cost(min(self.k, len(selection) + 1))

    def _cost(self, picks: int) -> Approximate:
        times = picks if self.kbar_least is None else picks + 1
        return Approximate(curve=times * BoundedRange(epsilon=self.epsilon), delta0=self.delta)

    @property
    def margin(self) -> float:
        """Distance of the threshold above the count of rank kbar + 1, in counts."""
        return self.margin_at(self.kbar)

    def margin_at(self, competitors: int) -> float:
        """Distance of the threshold above the count of rank competitors + 1, rounded up.

        In counts.
        """
        touched = competitors if self.l0 is None else min(self.l0, competitors)
        parts = (math.log(touched), math.log1p(-self.delta), -math.log(self.delta))
        return 1 + sum(parts) / self.epsilon + _ROUNDING * (1 + sum(map(abs, parts)) / self.epsilon)

    @property
    def _scale(self) -> float:
        """Scale of the Gumbel noise, in counts, rounded up."""
        return ratio_up(1.0, self.epsilon)

    @property
    def _least(self) -> int:
        return self.kbar if self.kbar_least is None else self.kbar_least

    @property
    def _sizes(self) -> range:
        """Possible numbers of competitors."""
        return range(self._least, self.kbar + 1)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        positions, above, floors = self._compete(scores)
        size = self._least + int(self._choose(floors[None], source)[0])
        order = self._beat(
            (above[:size] - floors[size - self._least])[None], self.margin_at(size), source
        )[0]
        selected = positions[order[order >= 0][: self.k]]
        return release(scores, selected, ordered=True, requested=self.k, reason=_REASON)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        indices = np.concatenate(
            [self._select_block(block, source) for block in count_blocks(matrix)]
        )
        return Selections(indices, ordered=True, requested=self.k, reason=_REASON)

    def _select_block(self, block: Numbers, source: Sampler) -> Integers:
        """Return (rows, k) released positions, and -1 beyond the last."""
        positions = rank_rows(block)[:, : self.kbar + 1]
        descending = cast(Numbers, np.take_along_axis(block, positions, axis=1))
        above, floors = self._heights(descending)
        choices = self._choose(floors, source)
        indices = np.full((len(block), self.k), -1, dtype=np.int64)
        for choice in np.unique(choices).tolist():
            rows, size = np.flatnonzero(choices == choice), self._least + choice
            places = self._beat(
                above[rows, :size] - floors[rows, choice, None], self.margin_at(size), source
            )[:, : self.k]
            indices[rows, : places.shape[1]] = np.where(
                places >= 0, np.take_along_axis(positions[rows], places, axis=1), -1
            )
        return indices

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        positions, above, floors = self._compete(scores)
        require_enumerable(len(floors) * math.perm(len(above), min(self.k, len(above))))
        chances = gumbel_softmax(self._preferences(floors), 1 / self.epsilon).tolist()
        beaten = [
            np.append(above[:size] - floors[size - self._least], self.margin_at(size))
            for size in self._sizes
        ]
        laws = (_prefixes(positions.tolist(), self.epsilon * counts, self.k) for counts in beaten)
        return mixture(zip(chances, laws, strict=True))

    def _compete(self, scores: Scores) -> tuple[Integers, Floats, Floats]:
        """Return positions of the top kbar, and heights of these and of the floors (`_heights`)."""
        positions, counts = read_counts(scores, self.kbar + 1)
        above, floors = self._heights(counts[None])
        return positions[: self.kbar], above[0], floors[0]

    def _heights(self, descending: Numbers) -> tuple[Floats, Floats]:
        """Return heights above the count of rank kbar + 1, of the top kbar and of the floors.

        The floors are the ranks just below kbar_least, ..., kbar. From (rows, ranks) descending
        counts, the shapes are (rows, at most kbar) and (rows, sizes). A count that is missing is 0.
        """
        base = np.zeros_like(descending)
        base[:] = descending[:, self.kbar :] if descending.shape[1] > self.kbar else 0
        above = heights(descending, base)
        floors = np.zeros((len(above), self.kbar + 1 - self._least))
        listed = above[:, self._least :]
        floors[:, : listed.shape[1]] = listed
        return above[:, : self.kbar], floors

    def _preferences(self, floors: Floats) -> Floats:
        """Return (..., sizes) scores of the thresholds, higher for lower ones, up to a constant."""
        touched = np.array(self._sizes)
        growth = np.log(touched if self.l0 is None else np.minimum(self.l0, touched))
        return -add_public(floors, (growth - growth[0]) * self._scale)

    def _choose(self, floors: Floats, source: Sampler) -> Integers:
        """Return (rows,) chosen places in kbar_least, ..., kbar, for (rows, sizes) floors."""
        if self.kbar_least is None:
            return np.zeros(len(floors), dtype=np.int64)
        return source.top_k_rows(self._preferences(floors), noise_of("gumbel"), self._scale, 1)[
            :, 0
        ]

    def _beat(self, counts: Floats, threshold: float, source: Sampler) -> Integers:
        """Return places in the noisy order of (rows, ranks) counts, and -1 from the threshold on.

        The shape is (rows, k + 1), or fewer columns if there are fewer ranks.
        """
        contest = np.column_stack([counts, np.full(len(counts), threshold)])
        order = source.top_k_rows(
            contest, noise_of("gumbel"), self._scale, min(self.k + 1, contest.shape[1])
        )
        below = np.logical_or.accumulate(order == counts.shape[1], axis=1)
        return np.where(below, -1, order)


def _prefixes(positions: list[int], exponents: Floats, k: int) -> dict[tuple[int, ...], float]:
    """Return the distribution of a sequence drawn without replacement, with these log-weights.

    It stops at the last weight's draw, or after k.
    """
    law: dict[tuple[int, ...], float] = {}

    def extend(prefix: tuple[int, ...], probability: float) -> None:
        remaining = [i for i in range(len(exponents) - 1) if i not in prefix]
        if len(prefix) == k:
            law[tuple(positions[i] for i in prefix)] = probability
            return
        # anew, so that what follows an item far ahead is left
        weights = np.exp((rest := exponents[[*remaining, -1]]) - rest.max())
        *chances, stop = (weights / weights.sum()).tolist()
        law[tuple(positions[i] for i in prefix)] = probability * stop
        for i, chance in zip(remaining, chances, strict=True):
            extend((*prefix, i), probability * chance)

    extend((), 1.0)
    return law
