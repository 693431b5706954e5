"""A noisy histogram of the items that occur, without noise for any other item.

It releases values, order and any number of items at one cost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
from flint import arb
from pydantic import Field, model_validator

from accounting import Approximate, Curve
from accounting.frozen import Count, NonNegative, Positive, Probability
from accounting.numbers import Floats, next_up
from dpselect.errors import NoClosedForm
from dpselect.mechanisms.base import Mechanism, ShowsValues
from dpselect.mechanisms.gate import Between
from dpselect.mechanisms.noise_curves import vector
from dpselect.mechanisms.release import bars_of, expand, half_width, public_grid, release
from dpselect.mechanisms.traits import SCALE, Traits
from dpselect.noise import VECTOR_NORMS, Noise, NoiseName, VectorNoise, in_words, noise_of
from dpselect.sampling import Sampler
from dpselect.sampling.contest import precision
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import integrals_above, legendre, require_enumerable

# of the terms of the threshold: above the errors of the inverse and of their sum
_ROUNDING = 2.0**-44
_BITS = 160  # for a delta next to 1, whose complement has 53 bits of its own
# numbers of items that are tried one by one, and in steps of a thousandth
_ONE_BY_ONE, _GROWTH = 1024, 1.001
_REASON = "fewer items than requested exceeded the threshold"


@final
class SparseHistogram(Mechanism, ShowsValues):
    """The items whose noisy score exceeds a threshold, best first, with their noisy scores.

    Items whose true score is `floor` or less are treated as absent and never released. The domain
    may be unknown, because the threshold hides the items that one user alone lifts above the floor.
    The cost does not depend on k. Guarantee: Approximate(V, delta), with V the cost of a whole
    noisy vector: GaussianDP(l2/scale) for gaussian noise and the cost of Theorem H10 for laplace.
    Theorem H5. With scores clipped to an l2 norm of 1 and k=None it is weighted Gaussian discovery
    of a domain.

    Args:
        k: largest number of items, >= 1; None for all that exceed the threshold.
        delta: in (0, 1), probability that an item of one user alone exceeds the threshold.
        sensitivity: bounds on what one user may change. It must state `l0`, the most items of a
            user.
        floor: true score that an item has to exceed, score units, >= 0. The threshold rises by it.
            For example, floor=N-1 on counts of users means that no item of fewer than N users is
            ever shown, whatever the noise.

    Example:
        >>> import dpselect as dps
        >>> few = dps.Sensitivity.of_counts(items_per_user=3)
        >>> mechanism = dps.SparseHistogram(k=2, scale=8.0, delta=1e-6, sensitivity=few)
        >>> seen = dps.Scores(
        ...     [9000, 5000, 1], labels=["zoo", "park", "pier"], sensitivity=few, domain="observed"
        ... )
        >>> mechanism.select(seen).labels
        ('zoo', 'park')
    """

    kind: Literal["sparse_histogram"] = "sparse_histogram"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=SCALE,
        failure="delta",
        ordered=True,
        most="k",
        domain="unknown",
        values=True,
        groups=True,
        clips=VECTOR_NORMS,
    )
    k: Count | None = Field(default=None, description="an integer >= 1, or None for all")
    noise: VectorNoise = Field(default="gaussian", description=in_words(VectorNoise))
    scale: Positive = Field(description="a finite scale > 0, in score units")
    delta: Probability = Field(description="a delta in (0, 1)")
    sensitivity: Sensitivity = Field(description="a Sensitivity that states l0")
    floor: Annotated[NonNegative, Field(le=2.0**52)] = Field(
        default=0.0, description="a number from 0 to 2^52, in score units"
    )

    @model_validator(mode="after")
    def _has_a_threshold(self) -> Self:
        if not self.sensitivity.items_alone:
            raise ValueError(
                "sensitivity states no l0, so nothing can hide the items of a user with any"
                " number of them. Bound the items per user, generously if they are clipped"
            )
        if not math.isfinite(self.threshold):
            raise ValueError(f"scale={self.scale} puts the threshold beyond the floats. Lower it")
        return self

    @property
    def curve(self) -> Approximate:
        return Approximate(
            curve=vector(self.noise, self.scale, self.sensitivity, None), delta0=self.delta
        )

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve  # no more than the lone items of one user fail, in all groups together

    @property
    def threshold(self) -> float:
        """Noisy score that an item has to exceed, in score units, rounded up. Theorem H5."""
        most = self.sensitivity.items_alone or 1
        first, last = np.array(steps(most) if self.sensitivity.uniform else [(most, most)]).T
        hiding = float(self._hiding(first, last).max())
        return hiding if self.floor == 0 else next_up(self.floor + hiding)

    def _hiding(self, first: Numbers, last: Numbers) -> Floats:
        """Return the thresholds that hide lone items of one user, one threshold per run of numbers.

        From (n,) `first` and `last`: run i hides any number of items from first[i] to last[i],
        (n,).
        """
        share = self.sensitivity.alone(first)
        tails = np.array(_safe_heights(self.noise, self.delta, tuple(np.atleast_1d(last).tolist())))
        with np.errstate(over="ignore"):  # an infinite threshold is refused
            noise = self.scale * tails
            return share + noise + _ROUNDING * (share + np.abs(noise))

    @property
    def shows_what_chose(self) -> bool:
        return True

    def margin(self, confidence: float = 0.95, among: int = 1) -> float:
        return half_width(self.noise, self.scale, confidence, among)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        listed, groups, values = (
            np.flatnonzero(scores.values > self.floor),
            scores.multiplicities,
            dict[int, float](),
        )
        if len(listed):
            multiplicities = None if groups is None else groups[listed]
            passing = source.above(
                scores.values[listed],
                noise_of(self.noise),
                self.scale,
                self.threshold,
                self.k,
                multiplicities,
            )
            positions = expand(scores, listed[passing.index], passing.member)
            values = dict(
                zip(positions, passing.rounded(public_grid(self.scale)).tolist(), strict=True)
            )
        return release(
            scores, values, ordered=True, requested=self.k, reason=_REASON, values=values
        )

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        order = source.above_rows(
            matrix, noise_of(self.noise), self.scale, self.threshold, listed=matrix > self.floor
        )
        indices = order if self.k is None else order[:, : self.k]
        return Selections(indices, ordered=True, requested=self.k, reason=_REASON)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        return {order: chance for (order, _), chance in self.cell_probabilities(scores, ()).items()}

    def _cell_probabilities(
        self, scores: Scores, edges: Floats, between: Between
    ) -> dict[Any, float]:
        values, bars = scores.dense(), (bars_of(edges, self.scale) - self.threshold) / self.scale
        listed = np.flatnonzero(values > self.floor)
        most = len(listed) if self.k is None else min(self.k, len(listed))
        require_enumerable(
            sum(math.perm(len(listed), size) for size in range(most + 1)) * len(between) ** most,
            20_000,
        )
        with np.errstate(over="ignore"):
            heights = (values[listed].astype(np.float64) - self.threshold) / self.scale
        law = OrderLaw.of_noise(noise_of(self.noise), heights, bars)
        return {
            (tuple(listed[list(order)].tolist()), tuple(between[cell] for cell in seen)): chance
            for order, seen, chance in law.outcomes(most)
        }


@lru_cache(maxsize=64)
def _safe_heights(noise: NoiseName, delta: float, items: tuple[int, ...]) -> tuple[float, ...]:
    """Return heights that all of a number of draws stay below with probability 1 - delta.

    One height for each of these numbers of draws, in noise units.
    """
    with precision(_BITS):
        log_chance = (-arb(delta)).log1p()
        return tuple(
            float(noise_of(noise).isf_ball(-(log_chance / number).expm1()).upper())
            for number in items
        )


@lru_cache(maxsize=64)
def steps(most: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of items from 1 to `most`, as runs (first, last).

    A run is short compared with its first number, because a share falls with the number and the
    noise rises.
    """
    runs, first = [], 1
    while first <= most:
        last = min(most, first if first < _ONE_BY_ONE else int(first * _GROWTH))
        runs.append((first, last))
        first = last + 1
    return tuple(runs)


# noise units above the highest score, and pieces of them, that the law is integrated over
_REACH, _PIECE = 45.0, 0.25
# from a score: densities are below the floats; above the threshold: heights are good to 1e-10
_FAR, _FARTHEST = 750.0, 2.0**20
Places = tuple[int, ...]


class OrderLaw:
    """Probabilities of every order of independent noisy scores above a level.

    Args:
        ends: (pieces + 1,) ends of the pieces of the axis, from the level on, of all integrals.
        pdf, cdf: (items, pieces, NODES) at the nodes of every piece.
        below: (items,) probability that an item lies below the level, or does not take part.
        bars: edges of cells of the scores.
    """

    def __init__(self, ends: Floats, pdf: Floats, cdf: Floats, below: Floats, bars: Floats) -> None:
        self._pdf, self._cdf, self._below, self._length = pdf, cdf, below, np.diff(ends)
        self._cell = np.searchsorted(bars, ends[:-1] + self._length / 2)

    @classmethod
    def of_noise(cls, noise: Noise, height: Floats, bars: Floats) -> Self:
        """Build the law of scores at these heights above the level, in noise units."""
        # Pieces end where a density has a kink.
        top = float(max(0.0, height.max(initial=0.0))) + _REACH
        if top > _FARTHEST:
            raise NoClosedForm(
                f"a score is more than {_FARTHEST:.0f} scales above the threshold, too far for"
                " exact probabilities"
            )
        seen = height[height > -_FAR].tolist()
        near = [
            np.arange(_PIECE * (max(0.0, h - _FAR) // _PIECE), min(h + _FAR, top), _PIECE)
            for h in seen
        ]
        ends = np.unique(np.clip([0.0, *np.concatenate([*near, height, bars]), top], 0.0, top))
        z = nodes_of(ends) - height[:, None, None]
        return cls(ends, noise.pdf(z), noise.cdf(z), noise.cdf(-height), bars)

    def outcomes(self, most: int, least: int = 0) -> Iterator[tuple[Places, Places, float]]:
        """Yield every order of `least` to `most` items, with cells of scores and probability.

        The cells never rise. All other items lie below the level, or below the last item if there
        are `most`.
        """
        items = range(len(self._below))
        for size in range(least, most + 1):
            for order in itertools.permutations(items, size):
                other_items = [item for item in items if item not in order]
                if size == 0:
                    yield order, (), 1.0 if most == 0 else float(np.prod(self._below))
                    continue
                full = size == most
                rest = (
                    np.prod(self._cdf[other_items], axis=0)
                    if full
                    else np.full_like(self._cdf[0], np.prod(self._below[other_items]))
                )
                for seen in itertools.combinations_with_replacement(
                    np.unique(self._cell)[::-1].tolist(), size
                ):
                    yield order, seen, self._chain(order, seen, rest)

    def _chain(self, order: Places, seen: Places, factors: Floats) -> float:
        above = np.ones_like(factors)
        density = [
            self._pdf[item] * (self._cell == cell)[:, None]
            for item, cell in zip(order, seen, strict=True)
        ]
        for part in density[:-1]:
            above = integrals_above(part * above, self._pieces(part * above), self._length)
        return float(self._pieces(density[-1] * above * factors).sum())

    def _pieces(self, integrand: Floats) -> Floats:
        return np.asarray(self._length * (integrand @ legendre()[1]) / 2)


def nodes_of(ends: Floats) -> Floats:
    """Return (pieces, NODES) points at which `OrderLaw` evaluates its densities."""
    return np.asarray(ends[:-1, None] + np.diff(ends)[:, None] * (0.5 + 0.5 * legendre()[0]))
