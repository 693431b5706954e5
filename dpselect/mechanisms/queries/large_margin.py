"""Large margin mechanism: the best candidate, at a price that does not grow with the number of those far behind."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting import ApproxDP, Approximate, BoundedRange, Curve, LaplaceDP, Relation, tighter
from accounting.frozen import Count, Positive, Probability
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.queries.above_threshold import Floats, NoisyComparisons, first, margins
from dpselect.mechanisms.ranks import blocks, ranked_rows
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import by_name
from dpselect.noise.gumbel import softmax
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity, fraction_up


@final
class LargeMargin(Mechanism):
    """One candidate, by the exponential mechanism on the top l, l found where the best leads by a margin (Chaudhuri et al. 2014).

    l is the first r with h_(1) - h_(r+1) + Exponential(3R/(2 s)) > Exponential(3R/s) + T(r), all candidates if there is none, R
    being the range: 1 for monotone scores, 2 for scores that any user moves by at most 1, up or down. Guarantee:
    ApproxDP(epsilon, delta) and at once, outside an event of probability delta, a Laplace guarantee of s = split * epsilon for
    the search and a bounded range of the rest for the choice; Theorem V7.

    Args:
        epsilon: nats, > 0.
        delta: in (0, 1).
        candidates: the public number of candidates at most; None for any number, on which the guarantee does not depend.
        relation: what a neighbour is.
        monotone: whether all scores move one way between neighbours, as counts do under add_remove: half the noise and margin.
        split: share of epsilon for the search, 0.01 to 0.99: 0.4 serves uses that compose, 0.55 has the least margin in one use.
    """

    kind: Literal["large_margin"] = "large_margin"
    traits: ClassVar[Traits] = Traits(
        answers="one_item",
        noise=EPSILON,
        failure="delta",
        ordered=True,
        most=1,
        domain="public",
        law="dpselect.planning.laws.stable:large_margin",
    )
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    delta: Probability = Field(description="a delta in (0, 1)")
    candidates: Count | None = Field(default=None, description="a public number of candidates, or None")
    neighbours: Relation = Field(default="add_remove", alias="relation", description="'add_remove' or 'replace_one'")
    monotone: bool = Field(default=False, strict=True, description="true or false; false under replace_one")
    split: Probability = Field(default=0.4, ge=0.01, le=0.99, description="a share from 0.01 to 0.99")

    @model_validator(mode="after")
    def _has_a_range(self) -> Self:
        if self.monotone and self.neighbours == "replace_one":
            raise ValueError("monotone=True cannot hold under relation='replace_one': leave monotone out")
        return self

    @property
    def covers(self) -> Sensitivity:
        return Sensitivity(monotone=self.monotone, relation=self.neighbours)

    @property
    def curve(self) -> Curve:
        return tighter(ApproxDP(epsilon=self.epsilon, delta=self.delta), Approximate(curve=self.core, delta0=self.delta))

    @property
    def core(self) -> Curve:
        """What search and choice cost unless a candidate is released that one user could push out of the top l."""
        threshold, comparison, choice = self._scales
        span = self.covers.range
        search = Fraction(span) / Fraction(threshold) + Fraction(span) / Fraction(comparison)
        return LaplaceDP(epsilon=fraction_up(search)) + BoundedRange(epsilon=ratio_up(span, choice))

    def margin(self, size: int) -> float:
        """T(size): how far the best has to lead the candidate of rank size + 1, in score units, for the top `size` to be tested.

        Raises:
            InvalidRequest: size is less than 1.
        """
        if size < 1:
            raise InvalidRequest(f"size={size!r} must be at least 1")
        return float(self._margins(np.array([size], dtype=np.float64))[0])

    def needed_lead(self, size: int, failure: float) -> float:
        """The lead over rank size + 1, in score units, that makes `error_bound` hold with this failure probability. Theorem V7.

        Raises:
            InvalidRequest: size is less than 1, or failure not in (0, 1).
        """
        return self.margin(size) + self._scales[0] * math.log(2 / _checked(failure))

    def error_bound(self, size: int, failure: float) -> float:
        """How far below the best score the released one can lie but for a chance of `failure`, in score units. Theorem V7.

        Holds if the best leads the candidate of rank size + 1 by at least `needed_lead(size, failure)`: an assumption, not read
        off the data.

        Raises:
            InvalidRequest: size is less than 1, or failure not in (0, 1).
        """
        if size < 1:
            raise InvalidRequest(f"size={size!r} must be at least 1")
        return self._scales[2] * math.log(2 * size / _checked(failure))

    @property
    def _scales(self) -> tuple[float, float, float]:
        """Scales of the noise on the threshold, every comparison, and the choice."""
        span, search = Fraction(self.covers.range), Fraction(repr(self.split))
        shares = (3 * span / search, 3 * span / (2 * search), span / (1 - search))
        threshold, comparison, choice = (ratio_up(fraction_up(over), self.epsilon) for over in shares)
        return threshold, comparison, choice

    def _margins(self, sizes: Floats) -> Floats:
        _, comparison, choice = self._scales
        noise = comparison * (np.log(2 / 3 * sizes) + np.log1p(sizes) - math.log(self.delta))
        ahead = self.covers.range + choice * (np.log(2 * sizes) - math.log(self.delta))
        # A few ulps up, so that rounding cannot let a margin pass too easily.
        return (noise + ahead) * (1 + 1e-14)

    def _leads(self, descending: Numbers) -> Floats:
        """(rows, m - 1) lead of the best over every lower rank, beyond T; in float64, for the law."""
        ordered = margins(descending, 0.0)
        return ordered[:, :1] - ordered[:, 1:] - self._margins(np.arange(1.0, ordered.shape[1]))

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        positions, ordered = scores.ranked(scores.size)
        place = self._rows(ordered[None], source)[0]
        return release(scores, positions[[place]], ordered=True, requested=1)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        chosen = [self._positions(block, source) for block in blocks(matrix)]
        return Selections(np.concatenate(chosen)[:, None], ordered=True, requested=1)

    def _positions(self, block: Numbers, source: Sampler) -> Indices:
        ranks = ranked_rows(block)
        ordered: Numbers = np.take_along_axis(block, ranks, axis=1)  # type: ignore[assignment]
        places = self._rows(ordered, source)
        return ranks[np.arange(len(block)), places]

    def _rows(self, descending: Numbers, source: Sampler) -> Indices:
        """(rows,) the rank that is chosen, from 0."""
        sizes = self._sizes(descending, source)
        places = np.empty(len(descending), dtype=np.int64)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            places[rows] = source.top_k_rows(descending[rows, :size], by_name("gumbel"), self._scales[2], 1)[:, 0]
        return places

    def _sizes(self, descending: Numbers, source: Sampler) -> Indices:
        """(rows,) how many of the best compete."""
        threshold, comparison, _ = self._scales
        ranks = descending.shape[1] - 1
        if ranks == 0:
            return np.ones(len(descending), dtype=np.int64)
        minus = [descending[:, 1:], self._margins(np.arange(1.0, ranks + 1))[None]]
        flags = source.passing(descending[:, :1], by_name("exponential"), threshold, comparison, minus=minus)
        found = first(flags, 1)[:, 0]
        return np.where(found >= 0, found + 1, ranks + 1)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        enumerable(scores.size, 1000)
        positions, ordered = scores.ranked(scores.size)
        chances = np.zeros(scores.size)
        for size, chance in enumerate(self._size_law(ordered).tolist(), start=1):
            chances[:size] += chance * softmax(margins(ordered[:size], 0.0), self._scales[2])
        return dict(sorted(zip(positions.tolist(), chances.tolist(), strict=True)))

    def _size_law(self, ordered: Numbers) -> Floats:
        """(m,) the probability that 1, ..., m candidates compete."""
        if len(ordered) == 1:
            return np.ones(1)
        threshold, comparison, _ = self._scales
        return NoisyComparisons(self._leads(ordered[None])[0], by_name("exponential"), threshold, comparison).first_passing()


def _checked(failure: float) -> float:
    if not 0 < failure < 1:
        raise InvalidRequest(f"failure={failure!r} must be a probability in (0, 1)")
    return failure
