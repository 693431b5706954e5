"""Canonical Lipschitz top-k: the whole set in one draw."""

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
from dpselect.errors import InvalidRequest, NoClosedForm
from dpselect.mechanisms.base import Mechanism, enumerable
from dpselect.mechanisms.canonical.draw import Classes, RowDraw, TopSet, draw_class, draw_members, draw_rows
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import Ranked, centred
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import Noise, argmax_probabilities, by_name
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Floats
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity

LipschitzNoise = Literal["gumbel", "exponential", "laplace", "logistic", "half_logistic"]

_MOST_CLASSES = 4096  # per row of a matrix: more is slower than the draw of one row by blocks


@final
class CanonicalTopK(Mechanism):
    """The k-set S with the largest noisy score gamma * min of S - (1 - gamma) * max of the rest (Shekelyan and Loukides 2022).

    Releases a set. Its price does not grow with k: BoundedRange(epsilon) for gumbel, LaplaceDP(epsilon) for the others, both with
    noise of scale range/epsilon on the score of a set, which changes by at most the range of the scores (Theorems M5 and N7).

    Args:
        k: how many candidates to release, >= 1.
        epsilon: nats, > 0.
        gamma: in [1/2, 1]; 1/2 scores the gap between the set and the rest, 1 the set's least score only (cheaper to draw).
        noise: gumbel, exponential, laplace, logistic or half_logistic.
        top_set: how the true top set is scored: "tied" as in the paper, as if the best candidate left out were tied with the last
            one in; "gap" by the real gap, as all other sets are, which is more accurate at the same price.
        sensitivity: what one user may change; its range scales the noise.
    """

    kind: Literal["canonical_top_k"] = "canonical_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="top_k",
        noise=EPSILON,
        ordered=False,
        most="k",
        domain="public",
        tried={"noise": ("gumbel", "exponential")},
        law="dpselect.planning.laws.canonical_top_k:canonical",
        variants="dpselect.planning.families:rules",
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    gamma: Annotated[Real, Field(ge=0.5, le=1)] = Field(default=0.5, description="a number from 1/2 to 1")
    noise: LipschitzNoise = Field(default="gumbel", description="gumbel, exponential, laplace, logistic or half_logistic")
    top_set: TopSet = Field(default="tied", description="'tied' or 'gap'")
    sensitivity: Sensitivity = Field(default=Sensitivity(), description="a Sensitivity")

    @property
    def covers(self) -> Sensitivity:
        return self.sensitivity

    @property
    def curve(self) -> BoundedRange | LaplaceDP:
        return BoundedRange(epsilon=self.epsilon) if self.noise == "gumbel" else LaplaceDP(epsilon=self.epsilon)

    @property
    def shared_group_curve(self) -> Curve | None:
        return self.curve

    @property
    def scale(self) -> float:
        """Scale of the noise on the score of a set, in score units, rounded up."""
        return ratio_up(self.sensitivity.range, self.epsilon)

    def set_probability(self, scores: Scores, subset: Collection[int]) -> float:
        """The exact probability that `subset`, k candidate positions, is released; private, like the scores.

        With gumbel noise in O(m k) for any m; with the others by quadrature, for at most 50,000 classes.

        Raises:
            InvalidRequest: not k different positions.
            NoClosedForm: too many classes for the quadrature.
            DpSelectError: as for `select`.
        """
        self.check(scores)
        if len(set(subset)) != self.k or len(subset) != self.k or not all(0 <= i < scores.size for i in subset):
            raise InvalidRequest(f"subset must be k={self.k} different candidate positions")
        score = set_score(centred(scores.dense()), subset, self.gamma, self.top_set)
        return set_probability(Classes(Ranked(scores), self.k, self.gamma, self.top_set), by_name(self.noise), self.scale, score)

    def _check_stated(self) -> None:
        _ = self.scale  # refused before a charge, not at the draw

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        ranked = Ranked(scores)
        chosen = draw_class(Classes(ranked, self.k, self.gamma, self.top_set), by_name(self.noise), self.scale, source)
        positions = ranked.positions(draw_members(chosen, self.k, source))
        return release(scores, positions, ordered=False, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        asked = RowDraw(self.k, self.gamma, self.top_set, by_name(self.noise), self.scale)
        if asked.classes(matrix.shape[1]) <= _MOST_CLASSES:
            return Selections(draw_rows(matrix, asked, source), ordered=False, requested=self.k)
        rows = [self._select(Scores(row, sensitivity=self.covers, kind="utilities"), source).indices for row in matrix]
        return Selections(np.array(rows, dtype=np.int64), ordered=False, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = centred(scores.dense())
        sets = math.comb(len(values), self.k)
        enumerable(sets, 2e5 if self.noise == "gumbel" else 128)
        # Report-noisy-max over all sets one by one: knows nothing of classes.
        subsets = list(itertools.combinations(range(len(values)), self.k))
        utility = np.array([set_score(values, subset, self.gamma, self.top_set) for subset in subsets])
        law = argmax_probabilities(by_name(self.noise), self.scale, utility)
        return {frozenset(subset): p for subset, p in zip(subsets, law.tolist(), strict=True)}


# Exact probability of one set under canonical top-k, from the classes; any number of candidates.
#
# With Gumbel noise a set has probability exp(score / scale) over the sum of size * exp(score / scale) of all classes. For the
# other noises it is the integral over z of the set's f/F at z times the product over classes of F^size.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_INTEGRATED = 50_000
_AGREE, _LEVELS = 1e-10, 7
_TAIL = 45.0  # exp(-45): mass left outside the window


def set_score(values: Floats, subset: Collection[int], gamma: float, top_set: TopSet) -> float:
    """gamma times the least value of a set, less (1 - gamma) times the greatest left out; score units, values (m,).

    "tied": the greatest left out is at least the k-th greatest value, as if the best one left out were tied with it.
    """
    inside = np.zeros(len(values), dtype=bool)
    inside[list(subset)] = True
    left = values[~inside].max() if not inside.all() else values.min()
    if top_set == "tied":
        left = max(left, np.partition(values, len(values) - len(subset))[len(values) - len(subset)])
    return float(gamma * values[inside].min() - (1 - gamma) * left)


def set_probability(classes: Classes, noise: Noise, scale: float, score: float) -> float:
    """Probability of one set with this score."""
    if noise.name == "gumbel":
        return math.exp(score / scale - _gumbel_normaliser(classes, scale))
    return _by_quadrature(*_compressed(classes, scale), noise, score / scale)


def _gumbel_normaliser(classes: Classes, scale: float) -> float:
    lowest = np.arange(classes.first, classes.ranked.size + 1)
    parts = [classes.top / scale] if classes.separate_top else []
    for row in range(classes.rows):
        parts.append(float(scipy.special.logsumexp(classes.log_size(row, lowest) + classes.score(row, lowest) / scale)))
    return float(scipy.special.logsumexp(parts))


def _compressed(classes: Classes, scale: float) -> tuple[Floats, Floats]:
    """Distinct class scores, ascending, in units of the scale, and ln of how many sets have each."""
    lowest = np.arange(classes.first, classes.ranked.size + 1)
    if classes.rows * len(lowest) > _MOST_INTEGRATED:
        raise NoClosedForm(
            f"more than {_MOST_INTEGRATED} classes: with noise other than gumbel, simulate, or use fewer candidates"
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


def _by_quadrature(scores: Floats, log_sizes: Floats, noise: Noise, score: float) -> float:
    low, high = _window(scores, log_sizes, noise)
    inner = scores[(scores > low) & (scores < high)]
    edges = np.unique(np.concatenate([[low, high], inner if len(inner) <= 512 else inner[:: len(inner) // 512 + 1]]))
    coarse = -1.0
    for level in range(_LEVELS):
        fine = _composite(scores, log_sizes, noise, score, edges, 2.0**-level)
        if abs(fine - coarse) <= _AGREE * fine + 1e-300:
            return fine
        coarse = fine
    raise NoClosedForm("the quadrature did not settle: simulate, or use fewer candidates")


def _window(scores: Floats, log_sizes: Floats, noise: Noise) -> tuple[float, float]:
    """Where the largest of all noisy scores lies, up to exp(-45) on either side."""
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
    """ln of the probability that no noisy score exceeds z, with scores in units of the scale."""
    with np.errstate(divide="ignore"):
        logs = np.log(-noise.log_cdf(z[None, :] - scores[:, None]))
    with np.errstate(over="ignore"):
        return np.asarray(-np.exp(logs + log_sizes[:, None]).sum(axis=0))


def _composite(scores: Floats, log_sizes: Floats, noise: Noise, score: float, edges: Floats, step: float) -> float:
    total = 0.0
    for low, high in itertools.pairwise(edges.tolist()):
        cuts = np.linspace(low, high, math.ceil((high - low) / step) + 1)
        half = np.diff(cuts) / 2
        z = ((cuts[1:] + cuts[:-1])[:, None] / 2 + half[:, None] * _NODES).ravel()
        own = noise.log_pdf(z - score) - np.maximum(noise.log_cdf(z - score), -700.0)
        values = np.exp(own + _log_all_below(scores, log_sizes, noise, z))
        total += float((values.reshape(-1, len(_NODES)) * _WEIGHTS).sum(axis=1) @ half)
    return total
