"""Spectral ranking: the top k by rank centrality, and the constants of its random walk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
import scipy
from pydantic import Field, model_validator

from accounting import Curve
from accounting.frozen import Count, NonNegative, Positive, Real
from accounting.numbers import Floats
from dpselect.errors import InvalidComparisons
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.noise_curves import ratio_up, vector
from dpselect.mechanisms.ranks import center
from dpselect.mechanisms.release import largest, release
from dpselect.mechanisms.traits import EPSILON, Traits
from dpselect.noise import noise_of
from dpselect.ranking.comparisons import Comparisons
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.verify.quadrature import ordered_probabilities, require_enumerable

_ROUNDING = 1e-11  # more than float64 adds to one step of a walk among _MOST_ITEMS, in l1
_MOST_ITEMS = 10_000
_SETTLED = 1e-12  # the walk stops when its start weighs no more than this


@final
class SpectralTopK(Mechanism):
    """The k items with the largest rank centrality, in order, by Laplace noise on each.

    `scores(comparisons)` computes the centralities and `select` releases from them. Neighbors
    differ in the winner of at most `flips` comparisons. The pairs that were compared and their
    numbers of comparisons are public. Guarantee: LaplaceDP(epsilon), that of Laplace noise of scale
    l1/epsilon on scores whose changes add up to at most l1 = 2 flips/(normalizer * per_pair * (1 -
    ergodicity)), Theorems K2 and H2. It does not depend on k. After Qiao, Su and Zhang (2021),
    Algorithm 3.

    **Assumption.** Every input that could occur has an ergodicity coefficient of at most
    `ergodicity`, and the guarantee holds for such inputs. You have to justify it. It is never
    checked on the data, because a refusal would be a release. On a complete graph with a normalizer
    of at least the number of items, 1 - 1/normalizer needs no justification: Theorem K3.

    Args:
        normalizer: d, at least the largest number of others that an item is compared with.
        per_pair: L, at least 1: the least number of comparisons of a compared pair, or its total
            weight over its largest single weight.
        ergodicity: rho, in [0, 1): the assumed bound on the ergodicity coefficient.
        flips: comparisons whose winner one user may change, >= 1.
    """

    kind: Literal["spectral_top_k"] = "spectral_top_k"
    traits: ClassVar[Traits] = Traits(
        answers="comparisons",
        noise=EPSILON,
        ordered=True,
        most="k",
        domain="public",
        relations=("replace_one",),
    )
    k: Count = Field(description="an integer >= 1")
    epsilon: Positive = Field(description="a finite epsilon > 0, in nats")
    normalizer: Positive = Field(description="a finite number, at least the largest degree")
    per_pair: Annotated[Real, Field(ge=1)] = Field(description="a finite number >= 1")
    ergodicity: Annotated[NonNegative, Field(le=0.9999)] = Field(
        description="a number in [0, 0.9999]"
    )
    flips: Count = Field(default=1, description="an integer >= 1")
    candidates: Count | None = Field(
        default=None, description="a public number of items >= k, or None"
    )

    @model_validator(mode="after")
    def _can_fill_k(self) -> Self:
        if self.candidates is not None and self.candidates < self.k:
            raise ValueError(
                f"candidates={self.candidates} is less than k={self.k}. Ask for fewer items"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        step = ratio_up(self.flips, self.normalizer * self.per_pair) * (1 + 1e-15) + _ROUNDING
        linf = ratio_up(step, 1 - self.ergodicity) * (1 + 1e-15)
        return Sensitivity(linf=linf, l1=2 * linf, relation="replace_one")

    @property
    def curve(self) -> Curve:
        return vector("laplace", self.scale, self.sensitivity_bound, self.candidates)

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise, in units of probability."""
        return ratio_up(self.sensitivity_bound.l1_of(None), self.epsilon)

    @property
    def most_candidates(self) -> int:
        return _MOST_ITEMS if self.candidates is None else min(self.candidates, _MOST_ITEMS)

    def scores(self, comparisons: Comparisons) -> Scores:
        """Return the rank centrality of every item: private scores for `select`.

        A walk takes a fixed number of steps, which `ergodicity` alone decides, because a bound on
        its change needs no convergence. Only the graph, which is public, is checked.

        Raises:
            InvalidComparisons: the graph is not connected, an item has more neighbors than
                `normalizer`, or a pair fewer comparisons than `per_pair`.
        """
        if (parts := components(comparisons)) > 1:
            raise InvalidComparisons(
                f"the comparisons fall into {parts} parts with no comparison between them."
                " Rank each part by itself (Comparisons.restrict)"
            )
        if comparisons.largest_degree() > self.normalizer:
            raise InvalidComparisons(
                f"normalizer={self.normalizer} is less than the largest number of neighbors of an"
                " item"
            )
        if comparisons.least_per_pair() < self.per_pair * (1 - 1e-12):
            raise InvalidComparisons(
                f"a pair has fewer comparisons than per_pair={self.per_pair}. State fewer, or drop"
                " the pair"
            )
        place = walk(transition(comparisons, self.normalizer), steps_for(self.ergodicity))
        return Scores(
            place, sensitivity=self.sensitivity_bound, labels=comparisons.items, kind="utilities"
        )

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        best = largest(scores, noise_of("laplace"), self.scale, self.k, source)
        return release(scores, best, ordered=True, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        best = source.top_k_rows(matrix, noise_of("laplace"), self.scale, self.k)
        return Selections(best, ordered=True, requested=self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = center(scores.dense())
        require_enumerable(math.perm(len(values), self.k))
        return dict(ordered_probabilities(noise_of("laplace"), self.scale, values, self.k))


# -- rank centrality: a random walk from an item to those that beat it. Theorems K1 and K3 ---------


def components(comparisons: Comparisons) -> int:
    """Number of parts of the graph that have no comparison between them."""
    return int(scipy.sparse.csgraph.connected_components(comparisons.graph(), directed=False)[0])


def transition(comparisons: Comparisons, normalizer: float) -> Any:
    """Return the sparse (m, m) row-stochastic P of the random walk.

    A step from i to j != i has the share of comparisons that j won against i, over `normalizer`,
    which has to be at least `largest_degree`.
    """
    inverse = comparisons.graph()
    inverse.data = 1 / inverse.data
    shares = scipy.sparse.csr_array(comparisons.wins().multiply(inverse))
    stay = 1 - np.asarray(shares.sum(axis=1)).ravel() / normalizer
    return scipy.sparse.csr_array(
        shares / normalizer + scipy.sparse.diags_array(np.maximum(stay, 0.0))
    )


def walk(matrix: Any, steps: int) -> Floats:
    """Return (m,) probabilities of where a walk of `steps` steps from a uniform start ends."""
    backwards = scipy.sparse.csr_array(matrix.T)
    place = np.full(matrix.shape[0], 1 / matrix.shape[0])
    for _ in range(steps):
        place = backwards @ place
        place /= place.sum()
    return place


def steps_for(ergodicity: float) -> int:
    """Number of steps after which the walk is within 1e-12 of its stationary distribution.

    In l1, if tau_1 <= ergodicity.
    """
    return 1 if ergodicity <= _SETTLED else math.ceil(math.log(_SETTLED / 2) / math.log(ergodicity))


def ergodicity_coefficient(matrix: Any) -> float:
    """Return tau_1(P): half the largest l1 distance between two rows."""
    rows, largest = matrix.toarray(), 0.0
    for i, row in enumerate(rows):
        largest = max(
            largest, 0.5 * float(np.abs(rows[i + 1 :] - row).sum(axis=1).max(initial=0.0))
        )
        if largest >= 1:
            break
    return min(1.0, largest)


@final
@dataclass(frozen=True)
class Diagnosis:
    """Constants of one set of comparisons, from which to choose the assumptions of `SpectralTopK`.

    Attributes:
        components: number of connected parts of the graph of pairs; a ranking needs 1.
        complete: True if every pair was compared.
        largest_degree: the least admissible normalizer.
        least_per_pair: comparisons of the rarest pair, L.
        ergodicity: tau_1 of these outcomes at this `normalizer`, or 1 if two items have no neighbor
            in common.
    """

    items: int
    components: int
    complete: bool
    largest_degree: int
    least_per_pair: float
    normalizer: float
    ergodicity: float


def diagnose(comparisons: Comparisons, normalizer: float | None = None) -> Diagnosis:
    """Return the constants of *public* comparisons, for example of an earlier season.

    Never call it on private comparisons and act on the answer. `ergodicity` alone is computed from
    the outcomes, and configuring or refusing a release by it on private data is itself a release
    that nobody pays for. `normalizer` is the largest degree plus 1 if None.

    Raises:
        InvalidComparisons: the normalizer is below the largest degree.
    """
    degree = comparisons.largest_degree()
    d = float(degree + 1 if normalizer is None else normalizer)
    if not d >= degree:
        raise InvalidComparisons(f"normalizer={d!r} must be at least the largest degree, {degree}")
    return Diagnosis(
        items=comparisons.size,
        components=components(comparisons),
        complete=comparisons.graph().nnz == comparisons.size * (comparisons.size - 1),
        largest_degree=degree,
        least_per_pair=comparisons.least_per_pair(),
        normalizer=d,
        ergodicity=ergodicity_coefficient(transition(comparisons, d)),
    )
