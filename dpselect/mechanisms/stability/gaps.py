"""Gaps between neighbours in the ranking: what one user may do to them, and how they are read. Theorems S1 and S2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from accounting import Approximate, Curve, GaussianDP, LaplaceDP, Relation
from accounting.frozen import Count
from dpselect.errors import InvalidScores
from dpselect.mechanisms.base import Positions
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.stability.regularizer import Regularizer, added
from dpselect.noise import NoiseName, argmax_probabilities, by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import Sensitivity

Floats = NDArray[np.float64]

Rank = Annotated[Count, Field(le=10_000_000)]
"""How many of the highest counts are looked at. Observed domains are padded up to it, so it bounds time and memory."""

_LARGEST = 2**53  # beyond it a float64 is no longer every integer
_SUMMED = 2.0**32  # numbers up to it, on a grid of 2^-20, have sums that float64 holds exactly
_GRID = 2.0**20


class Top(NamedTuple):
    """The top of a ranking.

    Attributes:
        positions: of the highest candidates, highest first; fewer than gaps where an observed domain has fewer items.
        gaps: gaps[j - 1] is the j-th highest count minus the next one, the count of a candidate that is not there being 0.
    """

    positions: Positions
    gaps: Floats


def gap_shift(relation: Relation) -> float:
    """The most that one user moves any one gap, in counts. Theorem S1."""
    return 1.0 if relation == "add_remove" else 2.0


def gap_sensitivity(relation: Relation) -> Sensitivity:
    """The gap vector as scores of its own: gaps go up and down under either relation, so the range is twice the shift."""
    return Sensitivity(linf=gap_shift(relation), monotone=False, relation=relation)


def read_top(scores: Scores, kbar: int) -> Top:
    """The first kbar gaps, from the kbar + 1 highest counts and nothing else.

    A public domain of m candidates has min(kbar, m) gaps. An observed one always has kbar: how many items it lists is private.
    """
    positions, counts = read_counts(scores, kbar + 1)
    gaps = gaps_below(counts[None])[0, :kbar]
    if scores.domain == "observed":
        # Zeros that are never touched take no memory.
        found, gaps = gaps, np.zeros(kbar)
        gaps[: len(found)] = found
    return Top(positions[:kbar], gaps)


def read_counts(scores: Scores, count: int) -> tuple[Positions, Numbers]:
    """Positions and values of the `count` highest counts, highest first, without those that nobody touched if observed.

    Raises:
        InvalidScores: the scores are utilities, for which a candidate that is not there has no score.
    """
    if scores.kind != "counts":
        raise InvalidScores(
            f"kind={scores.kind!r} is refused: this mechanism takes a candidate that is not there as one with count 0, so it "
            "needs kind='counts'; for utilities use a mechanism for a public domain, Peeling for example"
        )
    positions, counts = scores.ranked(count)
    if scores.domain == "observed":
        # An item that nobody touched may or may not be listed: the two must not differ.
        return positions[counts > 0], counts[counts > 0]
    return positions, counts


def top_set(top: Top, size: int) -> Positions:
    """Positions of the top `size`; none if an observed domain has fewer items than that."""
    return top.positions[:size] if len(top.positions) >= size else top.positions[:0]


def gaps_below(descending: Numbers) -> Floats:
    """(rows, ranks) each count minus the next of its row, the last one minus 0; from (rows, ranks) descending counts >= 0."""
    below = np.zeros_like(descending)
    below[:, :-1] = descending[:, 1:]
    return heights(descending, below)


def heights(counts: Numbers, below: Numbers) -> Floats:
    """Counts minus counts below them, both >= 0, as float64 without any rounding of the difference. Theorem X11.

    Differences of integers are clamped to 2^53. Counts that are floats are clamped to 2^32 and rounded down to a multiple of
    2^-20 beforehand: neither stretches what a user does, where a rounded difference would move by more than the counts do.
    """
    if np.issubdtype(counts.dtype, np.floating):
        return _on_grid(counts) - _on_grid(below)
    return np.minimum(counts - below, _LARGEST).astype(np.float64)


def _on_grid(counts: Numbers) -> Floats:
    return np.asarray(np.floor(np.minimum(counts, _SUMMED) * _GRID) / _GRID)


def favoured(counts: Floats, public: Floats) -> Floats:
    """Differences of counts plus public numbers that break up their order, as float64 without any rounding of the sum.

    Both are clamped to 2^32 and the public ones are rounded to a multiple of 2^-20 beforehand: the sums then move as the counts
    do, where rounded sums would move by up to one count more.
    """
    return np.minimum(counts, _SUMMED) + np.round(np.clip(public, -_SUMMED, _SUMMED) * _GRID) / _GRID


# The rank of the largest noisy gap: shared by every mechanism that chooses how many items to release.


def pick_rows(
    gaps: Floats, regularizer: Regularizer | None, noise: NoiseName, scale: float, source: Sampler
) -> NDArray[np.int64]:
    """(rows,) ranks j, from 1, that maximise gap + regulariser + scale * noise in every row of (rows, ranks) gaps."""
    return source.top_k_rows(_preferred(gaps, regularizer), by_name(noise), scale, 1)[:, 0] + 1


def pick_law(gaps: Floats, regularizer: Regularizer | None, noise: NoiseName, scale: float) -> Floats:
    """(ranks,) probability of every rank."""
    return argmax_probabilities(by_name(noise), scale, _preferred(gaps, regularizer))


def _preferred(gaps: Floats, regularizer: Regularizer | None) -> Floats:
    """(..., ranks) gaps plus what the regulariser adds."""
    return gaps if regularizer is None else favoured(gaps, added(regularizer, gaps.shape[-1]))


def as_law(chances: Floats) -> dict[Any, float]:
    """The probabilities of ranks 1, 2, ... as a law of outcomes."""
    return dict(enumerate(chances.tolist(), start=1))


# Propose, test, release: the rule that lets the top j out only where the gap below it hides every user. Theorem S4.

GapNoise = Literal["gaussian", "laplace"]

NOT_PASSED = "stability test did not pass"


@final
@dataclass(frozen=True)
class StabilityRule:
    """Pass iff max(gap, g) + scale * noise exceeds g + scale * (the noise's upper failure_delta quantile), g = `gap_shift`.

    Attributes:
        noise: name of the noise on the gap.
        scale: of that noise, in counts.
        failure_delta: the chance that a gap of g or less passes.
        relation: decides g.
    """

    noise: GapNoise
    scale: float
    failure_delta: float
    relation: Relation

    @property
    def curve(self) -> Curve:
        """What one test costs, the release of a set that passes included."""
        step = ratio_up(gap_shift(self.relation), self.scale)
        core = GaussianDP(mu=step) if self.noise == "gaussian" else LaplaceDP(epsilon=step)
        return Approximate(curve=core, delta0=self.failure_delta)

    @property
    def threshold(self) -> float:
        """How far, in units of the scale, the noisy gap has to exceed g."""
        quantile = float(by_name(self.noise).isf(self.failure_delta))
        # A few ulps up, so that rounding cannot let an unstable set pass more often than failure_delta.
        return quantile + 1e-15 * (1 + abs(quantile))

    def pass_probability(self, gaps: ArrayLike) -> Floats:
        """The chance that each gap (counts) passes."""
        return by_name(self.noise).sf(self.threshold - self._excess(gaps))

    def fail_probability(self, gaps: ArrayLike) -> Floats:
        """One minus `pass_probability`, accurate where that is near 1."""
        return by_name(self.noise).cdf(self.threshold - self._excess(gaps))

    def least_gap(self, probability: float) -> float:
        """The smallest gap (counts) that passes with at least this probability."""
        needed = self.threshold - float(by_name(self.noise).isf(probability))
        return gap_shift(self.relation) + self.scale * needed if needed > 0 else 0.0

    def passes(self, gaps: Floats, source: Sampler) -> NDArray[np.bool_]:
        """Draw: which of the gaps pass, each with fresh noise."""
        excess = np.maximum(gaps - gap_shift(self.relation), 0.0)
        # The public level is rounded up, and the comparison itself is exact.
        return source.exceeds(excess, by_name(self.noise), self.scale, math.nextafter(self.scale * self.threshold, math.inf))

    def _excess(self, gaps: ArrayLike) -> Floats:
        return np.maximum(np.asarray(gaps, dtype=np.float64) - gap_shift(self.relation), 0.0) / self.scale
