"""Canonical Lipschitz top-k: the largest noisy score over all sets of k candidates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
import scipy
from pydantic import Field

from accounting import BoundedRange, Curve, LaplaceDP
from accounting.frozen import Count, Positive, Real
from accounting.numbers import Floats
from dpselect.errors import InvalidRequest, NoClosedForm
from dpselect.hazard_noise import AnyLipschitzNoise
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import epsilon_curve, ratio_up
from dpselect.mechanisms.ranks import center
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import LipschitzNoise, Noise, in_words, noise_of
from dpselect.sampling import Sampler
from dpselect.sampling.ranked import Ranked
from dpselect.sampling.set_classes import (
    Classes,
    RowClasses,
    TopSet,
    draw_class,
    draw_members,
    draw_rows,
)
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import argmax_probabilities, legendre, require_enumerable

_MOST_CLASSES = 4096  # per row of a matrix: more is slower than the draw of one row by blocks


@final
class CanonicalTopK(Mechanism):
    """The k-set S with the largest noisy score gamma * min of S - (1 - gamma) * max of the rest.

    It releases a set, at a cost that does not grow with k: BoundedRange(epsilon) for gumbel, and
    LaplaceDP(epsilon) for the others. Both add noise of scale range/epsilon to the score of a set,
    which changes by at most the range of the scores (Theorems M5 and N7). After Shekelyan and
    Loukides (2022).

    Args:
        gamma: in [1/2, 1]. 1/2 scores the gap between the set and the rest, and 1 only the set's
            least score (cheaper to draw).
        noise: name of the noise, or a `dpselect.hazard_noise.HazardNoise` of your own.
        top_set: score of the true top set: "tied" as in the paper, as if the best candidate left
            out were tied with the last one in; "gap" by the real gap, as all other sets are, which
            is more accurate at the same cost.
    """

    kind: Literal["canonical_top_k"] = "canonical_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k", noise=EPSILON, ordered=False, most="k", domain="public"
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    gamma: Annotated[Real, Field(ge=0.5, le=1)] = Field(
        default=0.5, description="a number from 1/2 to 1"
    )
    noise: AnyLipschitzNoise = Field(default="gumbel", description=in_words(LipschitzNoise))
    top_set: TopSet = Field(default="tied", description="'tied' or 'gap'")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def curve(self) -> BoundedRange | LaplaceDP:
        return epsilon_curve(self.noise, self.epsilon)

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @property
    def scale(self) -> float:
        """Scale of the noise on the score of a set, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    def set_probability(self, scores: Scores, subset: Collection[int]) -> float:
        """Return the exact probability that `subset`, k candidate positions, is released.

        It is private, like the scores.

        Raises:
            InvalidRequest: not k different positions. And as for `select`.
            NoClosedForm: more than 50,000 classes, for other noise than gumbel.
        """
        self.check(scores)
        if (
            len(set(subset)) != self.k
            or len(subset) != self.k
            or not all(0 <= i < scores.size for i in subset)
        ):
            raise InvalidRequest(f"subset must be k={self.k} different candidate positions")
        score = _set_score(center(scores.dense()), subset, self.gamma, self.top_set) / self.scale
        classes = Classes(Ranked(scores.dense()), self.k, self.gamma, self.top_set)
        if self.noise == "gumbel":
            lowest = np.arange(classes.first, classes.ranked.size + 1)
            sums = [classes.top / self.scale] if classes.separate_top else []
            for row in range(classes.rows):
                logs = classes.log_size(row, lowest) + classes.score(row, lowest) / self.scale
                sums.append(float(scipy.special.logsumexp(logs)))
            return math.exp(score - float(scipy.special.logsumexp(sums)))
        return _integrate(*_compress(classes, self.scale), noise_of(self.noise), score)

    def classes_of(self, candidates: int) -> int:
        """Number of classes of equally scored sets of one row with that many candidates.

        It counts the classes that are drawn by rows.
        """
        return (candidates - self.k) * (self.k if self.gamma < 1 else 1) + 1

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        ranked = Ranked(scores.dense())
        drawn_class = draw_class(
            Classes(ranked, self.k, self.gamma, self.top_set),
            noise_of(self.noise),
            self.scale,
            source,
        )
        positions = ranked.positions(draw_members(drawn_class, self.k, source))
        return release(scores, positions, ordered=False, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        candidates = matrix.shape[1]
        if self.classes_of(candidates) <= _MOST_CLASSES:
            layout = RowClasses(candidates, self.k, self.gamma, self.top_set)
            drawn = draw_rows(matrix, layout, noise_of(self.noise), self.scale, source)
            return Selections(drawn, ordered=False, requested=self.k)
        rows = [
            self._select(
                Scores(row, sensitivity=self.sensitivity_bound, kind="utilities"), source
            ).indices
            for row in matrix
        ]
        return Selections(np.array(rows, dtype=np.int64), ordered=False, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = center(scores.dense())
        sets = math.comb(len(values), self.k)
        require_enumerable(sets, 2e5 if self.noise == "gumbel" else 128)
        # Report-noisy-max over all sets one by one: knows nothing of classes.
        subsets = list(itertools.combinations(range(len(values)), self.k))
        utility = np.array(
            [_set_score(values, subset, self.gamma, self.top_set) for subset in subsets]
        )
        law = argmax_probabilities(noise_of(self.noise), self.scale, utility)
        return {frozenset(subset): p for subset, p in zip(subsets, law.tolist(), strict=True)}


# Exact probability of one set, from the classes; any number of candidates.
#
# With Gumbel noise a set has probability exp(score / scale) over the sum of size * exp(score /
# scale) of all classes. For the other noises it is the integral over z of the set's f/F at z times
# the product over classes of F^size.

_MOST_INTEGRATED = 50_000
_AGREE, _LEVELS = 1e-10, 7
_TAIL = 45.0  # exp(-45): mass left outside the window


def _set_score(values: Floats, subset: Collection[int], gamma: float, top_set: TopSet) -> float:
    """Return gamma times the least value of a set, less (1 - gamma) times the greatest left out.

    In score units, from (m,) values. If `top_set` is "tied", the greatest left out is at least the
    k-th greatest value, as if the best one left out were tied with it.
    """
    inside = np.zeros(len(values), dtype=bool)
    inside[list(subset)] = True
    best_outside = values[~inside].max() if not inside.all() else values.min()
    if top_set == "tied":
        best_outside = max(
            best_outside, np.partition(values, len(values) - len(subset))[len(values) - len(subset)]
        )
    return float(gamma * values[inside].min() - (1 - gamma) * best_outside)


def _compress(classes: Classes, scale: float) -> tuple[Floats, Floats]:
    """Return distinct class scores, ascending, in units of the scale, and ln of their set count."""
    lowest = np.arange(classes.first, classes.ranked.size + 1)
    if classes.rows * len(lowest) > _MOST_INTEGRATED:
        raise NoClosedForm(
            f"there are more than {_MOST_INTEGRATED} classes. With noise other than gumbel,"
            " simulate, or use fewer candidates"
        )
    row = np.repeat(np.arange(classes.rows), len(lowest))
    rank = np.tile(lowest, classes.rows)
    score, log_size = classes.score(row, rank), classes.log_size(row, rank)
    if classes.separate_top:
        score, log_size = np.append(score, classes.top), np.append(log_size, 0.0)
    distinct, place = np.unique(score / scale, return_inverse=True)
    total = np.full(len(distinct), -np.inf)
    np.logaddexp.at(total, place, log_size)
    return distinct, total


def _integrate(scores: Floats, log_sizes: Floats, noise: Noise, score: float) -> float:
    low, high = _window(scores, log_sizes, noise)
    inner = scores[(scores > low) & (scores < high)]
    edges = np.unique(
        np.concatenate(
            [[low, high], inner if len(inner) <= 512 else inner[:: len(inner) // 512 + 1]]
        )
    )
    coarse = -1.0
    for level in range(_LEVELS):
        fine = _composite(scores, log_sizes, noise, score, edges, 2.0**-level)
        if abs(fine - coarse) <= _AGREE * fine + 1e-300:
            return fine
        coarse = fine
    raise NoClosedForm("the quadrature did not converge. Simulate, or use fewer candidates")


def _window(scores: Floats, log_sizes: Floats, noise: Noise) -> tuple[float, float]:
    """Return an interval that holds the largest noisy score, up to exp(-45) on either side."""
    total = float(scipy.special.logsumexp(log_sizes))
    high = scores[-1] + float(noise.log_isf(np.array(-_TAIL - total)))
    low = scores[-1] + float(noise.log_quantile(np.array(-_TAIL)))
    while high - low > 1e-3:  # the log-probability that all are below is non-decreasing
        middle = (low + high) / 2
        if _log_all_below(scores, log_sizes, noise, np.array([middle]))[0] > -2 * _TAIL:
            break
        low = middle
    return low, high


def _log_all_below(scores: Floats, log_sizes: Floats, noise: Noise, z: Floats) -> Floats:
    """Return ln of the probability that no noisy score exceeds z.

    Scores are in units of the scale.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(-noise.log_cdf(z[None, :] - scores[:, None]))
    with np.errstate(over="ignore"):
        return np.asarray(-np.exp(logs + log_sizes[:, None]).sum(axis=0))


def _composite(
    scores: Floats, log_sizes: Floats, noise: Noise, score: float, edges: Floats, step: float
) -> float:
    total, (nodes, weights) = 0.0, legendre()
    for low, high in itertools.pairwise(edges.tolist()):
        cuts = np.linspace(low, high, math.ceil((high - low) / step) + 1)
        half = np.diff(cuts) / 2
        z = ((cuts[1:] + cuts[:-1])[:, None] / 2 + half[:, None] * nodes).ravel()
        own = noise.pdf(z - score) / np.maximum(noise.cdf(z - score), np.finfo(np.float64).tiny)
        values = own * np.exp(_log_all_below(scores, log_sizes, noise, z))
        total += float((values.reshape(-1, len(nodes)) * weights).sum(axis=1) @ half)
    return total
