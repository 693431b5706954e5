"""Exact outcome probabilities of report-noisy-max and one-shot top-k on small domains: the tests' oracle.

The candidates' noisy scores are score_i + scale * Z_i with independent standard Z_i. Gumbel outcomes have closed
forms; the others are integrals of log-concave integrands, which composite Gauss-Legendre resolves to rounding.
Accuracy: 1e-13 absolute, and 1e-11 relative for every probability above 1e-290, both enforced between two
refinements (else `QuadratureError`); the error left in the finer one is rounding, of relative size about
1e-15 * (10 + |log probability|). Probabilities below the smallest double come out as 0. Only differences of
scores matter, and they are all that is used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpselect.noise import softmax
from dpselect.noise.adaptive import Kernel, all_sets_kernel, argmax_kernel, outcome_integrals, refine, set_kernel
from dpselect.noise.base import Noise
from dpselect.noise.errors import InvalidNoiseArgument
from dpselect.noise.grid import NODES, Extent, Grid, build, differences, extent, tail_integral_matrix
from dpselect.noise.numerics import FloatArray, as_floats

_STEP: Final = 4.0  # noise units; halved at least once
_ORDER_STEP: Final = 1.0  # iterated integrals interpolate, which takes shorter pieces
_ROWS: Final = 32  # score vectors per array operation
_CLOSED_FORM_K: Final = 10  # the Gumbel set formula visits 2**k subsets
_OUTCOMES: Final = 100_000
_LARGEST_SCORE: Final = 1e300


def argmax_probabilities(noise: Noise, scale: float, scores: ArrayLike) -> FloatArray:
    """P[candidate i has the largest noisy score], shape (m,), for scores of shape (m,) in score units."""
    return as_floats(argmax_probabilities_many(noise, scale, _vector(scores)[None])[0])


def argmax_probabilities_many(noise: Noise, scale: float, matrix: ArrayLike) -> FloatArray:
    """`argmax_probabilities` of every row of a (rows, m) matrix; rows equal up to shift and order cost one.

    Raises `InvalidNoiseArgument` for a scale that is not positive or scores that are not finite,
    `QuadratureError` if the accuracy is not reached.
    """
    scores = _checked(matrix, 2)
    _check_scale(scale)
    if noise.name == "gumbel":
        return softmax.softmax(scores, scale)
    order = np.argsort(scores, axis=1, kind="stable")
    ascending = np.take_along_axis(scores, order, axis=1)
    _, first, row = np.unique(ascending - ascending[:, -1:], axis=0, return_index=True, return_inverse=True)
    result = np.empty_like(scores)
    np.put_along_axis(result, order, _argmax_ascending(noise, scale, ascending[first])[row.ravel()], axis=1)
    return result


def subset_probability(noise: Noise, scale: float, scores: ArrayLike, subset: Collection[int]) -> float:
    """P[the len(subset) largest noisy scores are exactly those of `subset`], for scores of shape (m,)."""
    vector, k = _vector(scores), len(subset)
    _check_scale(scale)
    _check_subset(subset, vector.size)
    if k in (0, vector.size):
        return 1.0
    if noise.name == "gumbel" and k <= _CLOSED_FORM_K:
        return softmax.top_sets(vector, scale, subset, k)[frozenset(subset)]
    order = np.argsort(vector, kind="stable")
    positions = np.flatnonzero(np.isin(order, list(subset))).tolist()
    return float(_integrate(noise, scale, vector[order][None], k, set_kernel(positions), 1)[0, 0])


def top_set_probabilities(noise: Noise, scale: float, scores: ArrayLike, k: int) -> dict[frozenset[int], float]:
    """Probability of every possible set of the k largest noisy scores, for scores of shape (m,).

    Raises `InvalidNoiseArgument` for more than 100000 sets, or k outside 1..m.
    """
    vector = _vector(scores)
    _check_scale(scale)
    _check_k(k, vector.size, math.comb(vector.size, max(k, 0)))
    if k == vector.size:
        return {frozenset(range(k)): 1.0}
    if noise.name == "gumbel" and k <= _CLOSED_FORM_K:
        return softmax.top_sets(vector, scale, range(vector.size), k)
    order = np.argsort(vector, kind="stable")
    sets = [frozenset(order[list(s)].tolist()) for s in itertools.combinations(range(vector.size), k)]
    values = _integrate(noise, scale, vector[order][None], k, all_sets_kernel(k), len(sets))[:, 0]
    found = dict(zip(sets, values.tolist(), strict=True))
    return {s: found[s] for s in map(frozenset, itertools.combinations(range(vector.size), k))}


def ordered_probabilities(noise: Noise, scale: float, scores: ArrayLike, k: int) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of the k largest noisy scores, largest first, for scores of shape (m,).

    Raises `InvalidNoiseArgument` for more than 100000 sequences, or k outside 1..m.
    """
    vector = _vector(scores)
    _check_scale(scale)
    _check_k(k, vector.size, math.perm(vector.size, max(k, 0)))
    if k == 1:
        return {(i,): p for i, p in enumerate(argmax_probabilities(noise, scale, vector).tolist())}
    if noise.name == "gumbel":
        return softmax.ordered(vector, scale, k)
    return _iterated(noise, scale, vector, k)


def _iterated(noise: Noise, scale: float, vector: FloatArray, k: int) -> dict[tuple[int, ...], float]:
    order = np.argsort(vector, kind="stable")
    shift = differences(vector[order][None], scale)[0]
    reach = extent(noise, vector.size, k, iterated=True)
    sequences = list(itertools.permutations(order.tolist(), k))

    def level(step: float, _: NDArray[np.intp]) -> FloatArray:
        found = OrderIntegrator(noise, shift, reach, step).sequences(k)
        return np.array([found[s] for s in itertools.permutations(range(vector.size), k)])[:, None]

    values = refine(level, 1, _ORDER_STEP)[:, 0]
    return dict(sorted(zip(sequences, values.tolist(), strict=True)))


def _argmax_ascending(noise: Noise, scale: float, scores: FloatArray) -> FloatArray:
    if scores.shape[1] == 1 or not len(scores):
        return np.ones_like(scores)
    return as_floats(_integrate(noise, scale, scores, 1, argmax_kernel, scores.shape[1]).T)


def _integrate(noise: Noise, scale: float, scores: FloatArray, k: int, kernel: Kernel, outcomes: int) -> FloatArray:
    """Probabilities (outcomes, rows) of a kernel's outcomes, for (rows, m) ascending scores."""
    reach = extent(noise, scores.shape[1], k, iterated=False)

    def chunk(part: FloatArray) -> FloatArray:
        shift = differences(part, scale)

        def level(step: float, rows: NDArray[np.intp]) -> FloatArray:
            return outcome_integrals(noise, shift[rows], reach, kernel, outcomes, step)

        return refine(level, len(part), _STEP)

    return np.concatenate([chunk(scores[i : i + _ROWS]) for i in range(0, len(scores), _ROWS)], axis=1)


def _vector(scores: ArrayLike) -> FloatArray:
    return _checked(scores, 1)


def _checked(scores: ArrayLike, dimensions: int) -> FloatArray:
    array = as_floats(scores)
    if array.ndim != dimensions or array.shape[-1] == 0:
        raise InvalidNoiseArgument(f"scores: shape {array.shape}, but a non-empty array of {dimensions} dimension(s) is needed")
    if not np.all(np.abs(array) <= _LARGEST_SCORE):
        raise InvalidNoiseArgument(f"scores: every score must be finite, of size at most {_LARGEST_SCORE:g}")
    return array


def _check_scale(scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0.0):
        raise InvalidNoiseArgument(f"scale: {scale!r} must be a positive, finite number of score units")


def _check_k(k: int, candidates: int, outcomes: int) -> None:
    if not 1 <= k <= candidates:
        raise InvalidNoiseArgument(f"k: {k!r} must lie in 1..{candidates}, the number of scores")
    if outcomes > _OUTCOMES:
        raise InvalidNoiseArgument(
            f"k: {k} of {candidates} scores has {outcomes} outcomes, more than the {_OUTCOMES} enumerated; "
            "ask for one set with subset_probability"
        )


def _check_subset(subset: Collection[int], candidates: int) -> None:
    if len(set(subset)) != len(subset) or not all(0 <= i < candidates for i in subset):
        raise InvalidNoiseArgument(f"subset: indices must be distinct and lie in 0..{candidates - 1}")


# Probabilities of the released order: iterated integrals from the highest candidate down.
#
# Let G_1 be the first candidate's sf and G_r(t) the integral of f_r * G_(r-1) from t to infinity: the probability
# that the first r candidates come in this order, all above t. The outcome's probability is then the integral of
# f_k * G_(k-1) times the F of every candidate not released.

_TAILS: Final = tail_integral_matrix()


class OrderIntegrator:
    """The functions of one score vector on one grid, pieces along the first of the two node axes."""

    def __init__(self, noise: Noise, shift: FloatArray, reach: Extent, step: float) -> None:
        """Evaluate the (m, m) score differences' functions at pieces of at most `step`."""
        gaps = np.diagonal(shift, offset=-1)[None]
        grid = build(gaps, reach, step)
        z = (shift.T[:, grid.anchor] + grid.offset).reshape(len(shift), -1, NODES)
        self._pdf, self._sf, self._cdf = noise.pdf(z), noise.sf(z), noise.cdf(z)
        self._weight, self._length = _by_piece(grid)

    def sequences(self, k: int) -> dict[tuple[int, ...], float]:
        """Probability of every sequence of k positions, sharing the integrals of common beginnings."""
        above: dict[tuple[int, ...], FloatArray] = {(i,): sf for i, sf in enumerate(self._sf)}
        for _ in range(k - 2):
            above = {(*done, i): self._above(g, i) for done, g in above.items() for i in self._left(done)}
        return {(*done, i): self._last(done, g, i) for done, g in above.items() for i in self._left(done)}

    def _left(self, done: tuple[int, ...]) -> list[int]:
        return [i for i in range(len(self._sf)) if i not in done]

    def _above(self, g: FloatArray, item: int) -> FloatArray:
        """G_r at the nodes from G_(r-1): the rest of the node's own piece, and all later pieces."""
        integrand = self._pdf[item] * g
        pieces = (integrand * self._weight).sum(axis=1)
        later = np.append(np.cumsum(pieces[:0:-1])[::-1], 0.0)
        return as_floats(self._length[:, None] * (integrand @ _TAILS.T) + later[:, None])

    def _last(self, done: tuple[int, ...], g: FloatArray, item: int) -> float:
        others = [i for i in self._left(done) if i != item]
        below = np.prod(self._cdf[others], axis=0)
        return float((self._pdf[item] * g * below * self._weight).sum())


def _by_piece(grid: Grid) -> tuple[FloatArray, FloatArray]:
    weight = grid.weight.reshape(-1, NODES)
    return weight, weight.sum(axis=1)
