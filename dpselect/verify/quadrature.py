"""Exact outcome probabilities of noisy selections on small domains: the reference for tests.

They cover report-noisy-max, one-shot top-k and noisy thresholds.

The candidates' noisy scores are score_i + scale * Z_i with independent standard Z_i. Gumbel
outcomes have closed forms; others are integrals of log-concave integrands: composite Gauss-Legendre
on pieces between the noisy candidates' kinks, halved until two levels agree. Accuracy: 1e-13
absolute, and 1e-11 relative for every probability above 1e-290, both enforced between two
refinements (else `QuadratureError`); the error left in the finer one is rounding, of relative size
about 1e-15 * (10 + |log probability|). Probabilities below the smallest double come out as 0.

Everything is in units of the noise scale, and only differences of scores are used. A node is an
offset from one candidate's score (its anchor), never a position, so that node minus score keeps its
relative accuracy next to scores 1e3 units below the largest. The range is cut where the integrands
have fallen by a factor of about exp(-42) from their peak.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from accounting.numbers import Floats
from dpselect.errors import NoClosedForm
from dpselect.noise import Gumbel, InvalidNoiseArgument, Noise, QuadratureError

NODES: Final = 16
# Beyond this many units between neighbors in rank a swap has probability zero in doubles, for
# every member.
GAP_CAP: Final = 2000.0
_DECAY: Final = 42.0
_STEP: Final = 4.0  # noise units; halved at least once
_ORDER_STEP: Final = 1.0  # iterated integrals interpolate, which takes shorter pieces
_ROWS: Final = 32  # score vectors per array operation
_CLOSED_FORM_K: Final = 10  # the Gumbel set formula visits 2**k subsets
_OUTCOMES: Final = 100_000
_LARGEST_SCORE: Final = 1e300


def require_enumerable(outcomes: float, limit: float = 2e5) -> None:
    """Raise NoClosedForm if a distribution has more outcomes than can be listed."""
    if outcomes > limit:
        raise NoClosedForm(
            f"this distribution has more than {limit:.0f} outcomes. Ask for exact"
            " probabilities of a smaller domain"
        )


def mixture(laws: Iterable[tuple[float, Mapping[Any, float]]]) -> dict[Any, float]:
    """Return the mixture of distributions that come in pairs (probability, distribution)."""
    law = dict[Any, float]()
    for chance, part in laws:
        for outcome, share in part.items():
            law[outcome] = law.get(outcome, 0.0) + chance * share
    return law


@cache
def legendre() -> tuple[Floats, Floats]:
    """Return (NODES,) nodes in (-1, 1) and weights of the Gauss-Legendre rule.

    They are computed on the first use, which no release makes.
    """
    return np.polynomial.legendre.leggauss(NODES)


def argmax_probabilities(noise: Noise, scale: float, scores: ArrayLike) -> Floats:
    """Return the probability that each candidate has the largest noisy score.

    Scores have shape (m,) in score units, or (rows, m) for every row. Rows that are equal up to
    shift and order cost one.

    Raises:
        InvalidNoiseArgument: the scale is not positive, or scores are not finite.
        QuadratureError: the accuracy is not reached.
    """
    array = _check_scores(scores, scale, dimensions=(1, 2))
    matrix = np.atleast_2d(array)
    if isinstance(noise, Gumbel):
        return gumbel_softmax(array, scale)
    if matrix.shape[1] == 1 or not len(matrix):
        return np.ones_like(array)
    order = np.argsort(matrix, axis=1, kind="stable")
    ascending = np.take_along_axis(matrix, order, axis=1)
    _, first, row = np.unique(
        ascending - ascending[:, -1:], axis=0, return_index=True, return_inverse=True
    )
    chances, result = (
        _integrate(noise, scale, ascending[first], 1, _argmax_kernel, matrix.shape[1]),
        np.empty_like(matrix),
    )
    np.put_along_axis(result, order, chances.T[row.ravel()], axis=1)
    return result.reshape(array.shape)


def top_set_probabilities(
    noise: Noise, scale: float, scores: ArrayLike, k: int
) -> dict[frozenset[int], float]:
    """Return the probability of every possible set of the k largest noisy scores, shape (m,).

    Raises:
        InvalidNoiseArgument: more than 100000 sets, or k outside 1..m.
    """
    vector = _check_scores(scores, scale)
    _check_k(k, vector.size, math.comb(vector.size, max(k, 0)))
    if k == vector.size:
        return {frozenset(range(k)): 1.0}
    if isinstance(noise, Gumbel) and k <= _CLOSED_FORM_K:
        return _gumbel_top_sets(vector, scale, k)
    order = np.argsort(vector, kind="stable")
    sets = [
        frozenset(order[list(s)].tolist()) for s in itertools.combinations(range(vector.size), k)
    ]
    values = _integrate(noise, scale, vector[order][None], k, _all_sets_kernel(k), len(sets))[:, 0]
    chances = dict(zip(sets, values.tolist(), strict=True))
    return {s: chances[s] for s in map(frozenset, itertools.combinations(range(vector.size), k))}


def ordered_probabilities(
    noise: Noise, scale: float, scores: ArrayLike, k: int
) -> dict[tuple[int, ...], float]:
    """Return the probability of every sequence of the k largest noisy scores, largest first.

    Scores have shape (m,).

    Raises:
        InvalidNoiseArgument: more than 100000 sequences, or k outside 1..m.
    """
    vector = _check_scores(scores, scale)
    _check_k(k, vector.size, math.perm(vector.size, max(k, 0)))
    if k == 1:
        return {(i,): p for i, p in enumerate(argmax_probabilities(noise, scale, vector).tolist())}
    if isinstance(noise, Gumbel):
        return _gumbel_ordered(vector, scale, k)
    return _sequence_probabilities(noise, scale, vector, k)


def _sequence_probabilities(
    noise: Noise, scale: float, vector: Floats, k: int
) -> dict[tuple[int, ...], float]:
    order = np.argsort(vector, kind="stable")
    shift = _differences(vector[order][None], scale)[0]
    sequences = list(itertools.permutations(order.tolist(), k))

    def level(step: float, _: NDArray[np.intp]) -> Floats:
        chances = _sequences(noise, shift, k, step)
        return np.array([chances[s] for s in itertools.permutations(range(vector.size), k)])[
            :, None
        ]

    values = refine(level, 1, _ORDER_STEP)[:, 0]
    return dict(sorted(zip(sequences, values.tolist(), strict=True)))


def _integrate(
    noise: Noise, scale: float, scores: Floats, k: int, kernel: Kernel, outcomes: int
) -> Floats:
    """Return (outcomes, rows) probabilities of a kernel's outcomes.

    Scores are (rows, m), ascending.
    """

    def chunk(part: Floats) -> Floats:
        shift = _differences(part, scale)

        def level(step: float, rows: NDArray[np.intp]) -> Floats:
            return _outcome_integrals(noise, shift[rows], k, kernel, outcomes, step)

        return refine(level, len(part), _STEP)

    return np.concatenate(
        [chunk(scores[i : i + _ROWS]) for i in range(0, len(scores), _ROWS)], axis=1
    )


def _check_scores(scores: ArrayLike, scale: float, dimensions: tuple[int, ...] = (1,)) -> Floats:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim not in dimensions or array.shape[-1] == 0:
        sizes = " or ".join(map(str, dimensions))
        raise InvalidNoiseArgument(
            f"scores: shape {array.shape}, but a non-empty array of {sizes} dimension(s) is needed"
        )
    if not np.all(np.abs(array) <= _LARGEST_SCORE):
        raise InvalidNoiseArgument(
            f"scores: every score must be finite, of size at most {_LARGEST_SCORE:g}"
        )
    if not (math.isfinite(scale) and scale > 0.0):
        raise InvalidNoiseArgument(
            f"scale: {scale!r} must be a positive, finite number of score units"
        )
    return array


def _check_k(k: int, candidates: int, outcomes: int) -> None:
    if not 1 <= k <= candidates:
        raise InvalidNoiseArgument(f"k: {k!r} must lie in 1..{candidates}, the number of scores")
    if outcomes > _OUTCOMES:
        raise InvalidNoiseArgument(
            f"k: {k} of {candidates} scores has {outcomes} outcomes, more than the {_OUTCOMES}"
            " enumerated"
        )


# Closed forms for Gumbel noise: every pick is the exponential mechanism on the remaining candidates
# (Durfee-Rogers). Scores are subtracted from each other before the division by the scale, so that
# those far below the largest keep the accuracy of their own differences.


def gumbel_softmax(scores: Floats, scale: float) -> Floats:
    """Return the probability of each first pick, along the last axis."""
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / scale)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _log_pick(scores: Floats, scale: float, candidates: Collection[int]) -> dict[int, float]:
    """Return log probabilities of each next pick when `candidates` remain."""
    values = scores[list(candidates)].tolist()
    top = max(values)
    logs = [(value - top) / scale for value in values]
    total = math.log(math.fsum(map(math.exp, logs)))
    return {i: log - total for i, log in zip(candidates, logs, strict=True)}


def _gumbel_ordered(scores: Floats, scale: float, k: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every sequence of k picks without replacement."""
    items = frozenset(range(len(scores)))
    logs: dict[tuple[int, ...], float] = {(): 0.0}
    for _ in range(k):
        logs = {
            (*picked, i): log + pick
            for picked, log in logs.items()
            for i, pick in _log_pick(scores, scale, sorted(items.difference(picked))).items()
        }
    return {picked: math.exp(log) for picked, log in logs.items()}


def _gumbel_top_sets(scores: Floats, scale: float, k: int) -> dict[frozenset[int], float]:
    """Return the probability that the first k picks are exactly S, for all k-sets S.

    These are sums over the last pick.
    """
    items = frozenset(range(len(scores)))
    logs = {frozenset[int](): 0.0}
    for size in range(1, k + 1):
        picks = {picked: _log_pick(scores, scale, sorted(items - picked)) for picked in logs}
        logs = {
            target: float(
                scipy.special.logsumexp(
                    [logs[target - {i}] + picks[target - {i}][i] for i in target]
                )
            )
            for target in map(frozenset, itertools.combinations(sorted(items), size))
        }
    return {target: math.exp(log) for target, log in logs.items()}


# Probabilities of the released order: iterated integrals from the highest candidate down.
#
# Let G_1 be the first candidate's sf and G_r(t) the integral of f_r * G_(r-1) from t to infinity:
# the probability that the first r candidates come in this order, all above t. The outcome's
# probability is then the integral of f_k * G_(k-1) times the F of every candidate not released.


def _sequences(noise: Noise, shift: Floats, k: int, step: float) -> dict[tuple[int, ...], float]:
    """Return the probability of every sequence of k positions, from (m, m) score differences.

    Common beginnings share their integrals.
    """
    anchor, offset, weight = _build(
        noise, np.diagonal(shift, offset=-1)[None], k, step, iterated=True
    )
    # pieces along the first of the two node axes
    z = (shift.T[:, anchor] + offset).reshape(len(shift), -1, NODES)
    pdf, sf, cdf, weight = noise.pdf(z), noise.sf(z), noise.cdf(z), weight.reshape(-1, NODES)
    length = weight.sum(axis=1)

    def remaining(picked: tuple[int, ...]) -> list[int]:
        return [i for i in range(len(shift)) if i not in picked]

    def later(g: Floats, item: int) -> Floats:
        integrand = pdf[item] * g
        return integrals_above(integrand, (integrand * weight).sum(axis=1), length)

    above: dict[tuple[int, ...], Floats] = {(i,): each for i, each in enumerate(sf)}
    for _ in range(k - 2):
        above = {
            (*picked, i): later(g, i) for picked, g in above.items() for i in remaining(picked)
        }
    return {
        (*picked, i): float(
            (pdf[i] * g * np.prod(cdf[remaining((*picked, i))], axis=0) * weight).sum()
        )
        for picked, g in above.items()
        for i in remaining(picked)
    }


# The integrands of the top-k probabilities at the nodes z[j] = node minus score j, of shape (m,
# rows, nodes).
#
# S is the top set when some i in S is its smallest, at t, the rest of S is above t and all others
# are below: pdf_i * prod sf * prod cdf, summed over i. All terms are non-negative, so nothing
# cancels.


def _argmax_kernel(noise: Noise, z: Floats) -> Floats:
    """Return pdf_i times the product of the other items' cdf, for every item i."""
    result, cdf = noise.pdf(z), noise.cdf(z)
    result[1:] *= np.cumprod(cdf[:-1], axis=0)
    result[:-1] *= np.cumprod(cdf[:0:-1], axis=0)[::-1]
    return result


def _all_sets_kernel(k: int) -> Kernel:
    """Return the kernel of all sets of k positions, in the order of `itertools.combinations`."""

    def kernel(noise: Noise, z: Floats) -> Floats:
        states: _States = {(): (np.ones_like(z[0]), np.zeros_like(z[0]))}
        for item, functions in enumerate(zip(noise.pdf(z), noise.sf(z), noise.cdf(z), strict=True)):
            states = _extend(states, item, k, len(z) - item, functions)
        return np.stack([states[members][1] for members in sorted(states)])

    return kernel


_States = dict[tuple[int, ...], tuple[Floats, Floats]]
"""Partial set -> (all its members above the node, one of them at the node and the rest above),
others below.
"""


def _extend(
    states: _States, item: int, k: int, remaining: int, functions: tuple[Floats, ...]
) -> _States:
    """Return every partial set with and without one more item.

    Only sets that `remaining` items can complete.
    """
    pdf, sf, cdf = functions
    extended: _States = {}
    for members, (above, smallest) in states.items():
        if len(members) < k:
            extended[(*members, item)] = (above * sf, smallest * sf + above * pdf)
        if k - len(members) < remaining:
            extended[members] = (above * cdf, smallest * cdf)
    return extended


_Grid = tuple[NDArray[np.intp], Floats, Floats]
"""N nodes per row, ascending in position: anchor (N,), offset and weight (rows, N)."""


def _differences(scores: Floats, scale: float) -> Floats:
    """Return (score a - score j) / scale at [row, a, j], from (rows, m) ascending scores.

    Wide gaps are capped. Differences that span no wide gap are those of the scores themselves,
    exact to one rounding each.
    """
    with np.errstate(over="ignore"):
        exact = (scores[:, :, None] - scores[:, None, :]) / scale
        gaps = np.diff(scores, axis=1) / scale
    cluster, position = np.zeros_like(scores), np.zeros_like(scores)
    np.cumsum(gaps > GAP_CAP, axis=1, out=cluster[:, 1:])
    np.cumsum(np.minimum(gaps, GAP_CAP), axis=1, out=position[:, 1:])
    same_cluster = cluster[:, :, None] == cluster[:, None, :]
    return np.where(same_cluster, exact, position[:, :, None] - position[:, None, :])


def _build(noise: Noise, gaps: Floats, k: int, step: float, *, iterated: bool) -> _Grid:
    """Return the nodes for rows with these (rows, m-1) gaps between neighbors in rank.

    The pieces have at most length `step`. They serve all top-k outcomes, or their iterated
    integrals: a set's integrand falls to the left at least as fast as pdf times cdf, an iterated
    one only as the pdf. One-sided noise never moves the k-th largest noisy score below the k-th
    largest score.
    """
    rows, count = gaps.shape
    reach, first = _DECAY + math.log(count + 1), count + 1 - k
    # anchor, start and length (rows,), and the length that decides how many pieces
    spans: list[tuple[int, Any, Any, float]] = []
    if noise.lower == -math.inf:
        first, left = 0, -float(noise.log_quantile(-reach if iterated else -0.5 * reach))
        spans.append((0, -left, left, left))
    for rank in range(first, count):
        gap, widest = gaps[:, rank], float(gaps[:, rank].max())
        if iterated or widest <= 2.0 * reach:
            spans.append((rank, 0.0, gap, widest))
        else:  # between the reaches of two neighbors all is flat or negligible
            near = np.minimum(reach, 0.5 * gap)
            spans += [
                (rank, 0.0, near, reach),
                (rank, near, gap - 2.0 * near, step),
                (rank + 1, -near, near, reach),
            ]
    right = float(noise.log_isf(-reach))
    spans.append((count, 0.0, right, right))
    parts: list[_Grid] = []
    for anchor, start, length, longest in spans:
        pieces = math.ceil(longest / step)
        if pieces:
            fraction = ((np.arange(pieces)[:, None] + 0.5 + 0.5 * legendre()[0]) / pieces).ravel()
            begin, whole = (np.broadcast_to(end, rows)[:, None] for end in (start, length))
            weight = whole * np.tile(0.5 * legendre()[1] / pieces, pieces)
            parts.append(
                (np.full(fraction.size, anchor, dtype=np.intp), begin + whole * fraction, weight)
            )
    anchors, offsets, weights = zip(*parts, strict=True)
    return np.concatenate(anchors), np.concatenate(offsets, axis=1), np.concatenate(weights, axis=1)


def integrals_above(integrand: Floats, pieces: Floats, length: Floats) -> Floats:
    """Return (pieces, NODES) integrals from every node on.

    From the values there, the pieces' own integrals and their lengths.
    """
    later = np.append(np.cumsum(pieces[:0:-1])[::-1], 0.0)
    return np.asarray(length[:, None] * (integrand @ _tail_integral_matrix().T) + later[:, None])


@cache
def _tail_integral_matrix() -> Floats:
    """Return the (NODES, NODES) matrix from values at nodes to integrals from there to the end.

    Per unit length of a piece. Exact for the interpolating polynomial: with P_n the Legendre
    polynomials, P_n integrates from x to 1 to (P_(n-1)(x) - P_(n+1)(x)) / (2n + 1), and the rule
    itself yields the Legendre coefficients.
    """
    nodes, weights = legendre()
    values = np.polynomial.legendre.legvander(nodes, NODES)
    before = np.hstack([np.ones((NODES, 1)), values[:, : NODES - 1]])
    tails = before - values[:, 1:]
    return np.asarray(0.25 * tails @ (values[:, :NODES] * weights[:, None]).T)


# Refinement until two levels agree.

ABSOLUTE: Final = 1e-13
RELATIVE: Final = 1e-11
_NEGLIGIBLE: Final = 1e-290  # below this, doubles lose relative accuracy to underflow
_LEVELS: Final = 6
_BLOCK: Final = 1 << 17  # elements of one (candidates or outcomes, rows, nodes) array

Kernel = Callable[[Noise, Floats], Floats]
"""(noise, z) -> integrands of shape (outcomes, rows, nodes), at z[j] = node minus score j of shape
(m, rows, nodes).
"""
Level = Callable[[float, NDArray[np.intp]], Floats]
"""(step, rows) -> probabilities of shape (outcomes, rows)."""


def refine(level: Level, rows: int, step: float) -> Floats:
    """Halve the step, row by row, until two levels agree, and return the finer one.

    They agree to 1e-13 absolute and 1e-11 relative. Once the pieces resolve an integrand, a halving
    divides the error by 2**16 or more, so the returned level is far closer to the truth than to the
    coarser one.

    Raises:
        QuadratureError: six halvings do not suffice.
    """
    pending = np.arange(rows)
    coarse = level(step, pending)
    result = np.empty_like(coarse)
    for _ in range(_LEVELS):
        step *= 0.5
        fine = level(step, pending)
        gap = np.abs(fine - coarse)
        settled = ((gap <= ABSOLUTE) & (gap <= RELATIVE * fine + _NEGLIGIBLE)).all(axis=0)
        result[:, pending[settled]] = fine[:, settled]
        pending, coarse = pending[~settled], fine[:, ~settled]
        if not pending.size:
            return np.minimum(result, 1.0)
    raise QuadratureError(
        f"quadrature: {pending.size} of {rows} score vectors did not settle to {ABSOLUTE:g} within"
        f" {_LEVELS} halvings of the step. Use fewer candidates"
    )


def _outcome_integrals(
    noise: Noise, shift: Floats, k: int, kernel: Kernel, outcomes: int, step: float
) -> Floats:
    """Return integrals (outcomes, rows) of a kernel, given the (rows, m, m) score differences."""
    grid = _build(noise, np.diagonal(shift, offset=-1, axis1=1, axis2=2), k, step, iterated=False)
    by_item = np.moveaxis(shift, 2, 0)
    rows, candidates, _ = shift.shape
    block = max(1, _BLOCK // (rows * max(candidates, outcomes)))
    parts = []
    for start in range(0, grid[0].size, block):
        anchor, offset, weight = (part[..., start : start + block] for part in grid)
        values = kernel(noise, by_item[:, :, anchor] + offset)
        parts.append(np.einsum("orn,rn->or", values, weight))
    return np.asarray(np.sum(parts, axis=0))


# Comparisons of noisy numbers with one noisy threshold.

# of the probability that the noise of the threshold lies beyond the integral
_LOG_LEFT_OUT: Final = -61.0
_MOST_STEPS: Final = 5e5  # to either side, however often they are halved
_MOST_AT_ONCE: Final = 1 << 20  # probabilities to fail that are held at a time


@final
@dataclass(frozen=True)
class NoisyComparisons:
    """The exact distribution of comparisons with one noisy threshold, in their fixed order.

    All share the noise Y of the threshold, and comparison i passes iff margin_i + answer_scale *
    Z_i > Y, with independent Z_i. Given Y they are independent, so one integral over Y remains, by
    composite Gauss-Legendre between the kinks.

    Attributes:
        margins: (m,) answers minus the threshold, score units.
        noise: the standard noise of the threshold and of all answers.
        scale, answer_scale: scales of the threshold's noise and of that on every answer, score
            units.
    """

    margins: Floats
    noise: Noise
    scale: float
    answer_scale: float

    def first_passing(self) -> Floats:
        """Return (m + 1,) probabilities that comparison i is the first that passes; last, none."""

        def outcomes(fail: Floats, passing: Floats) -> Floats:
            before = np.cumprod(np.vstack([np.ones_like(fail[:1]), fail]), axis=0)
            return np.vstack([before[:-1] * passing, before[-1:]])

        return self._integrate(outcomes)

    def passing_sets(self, most: int) -> dict[frozenset[int], float]:
        """Return the probability of every set that passes, if the run stops at the `most`-th."""
        sets = [frozenset[int]()]
        for i in range(len(self.margins)):
            sets += [s | {i} for s in sets if len(s) < most]

        def outcomes(fail: Floats, passing: Floats) -> Floats:
            chances = {frozenset[int](): np.ones(fail.shape[1])}
            for i, (failed, passed) in enumerate(zip(fail, passing, strict=True)):
                running = [s for s in chances if len(s) < most]
                chances |= {s | {i}: chances[s] * passed for s in running}
                chances |= {s: chances[s] * failed for s in running}
            return np.array([chances[s] for s in sets])

        return dict(zip(sets, self._integrate(outcomes).tolist(), strict=True))

    def _integrate(self, outcomes: Callable[[Floats, Floats], Floats]) -> Floats:
        """Return integrals of the threshold's density times `outcomes`.

        `outcomes` takes (m, nodes) probabilities to fail and to pass.
        """
        unit = min(self.scale, self.answer_scale)

        def level(step: float, _: NDArray[np.intp]) -> Floats:
            y, weight = self._nodes(step * unit)
            parts = np.arange(0, len(y), max(1, _MOST_AT_ONCE // len(self.margins)))[1:]
            columns = zip(np.split(y, parts), np.split(weight, parts), strict=True)
            total = np.zeros(1)
            for point, mass in columns:
                z = (point - self.margins[:, None]) / self.answer_scale
                density = self.noise.pdf(point / self.scale) / self.scale
                total = total + outcomes(self.noise.cdf(z), self.noise.sf(z)) @ (mass * density)
            return np.asarray(total)[:, None]

        return refine(level, 1, _STEP)[:, 0]

    def _nodes(self, step: float) -> tuple[Floats, Floats]:
        reach = float(self.noise.log_isf(_LOG_LEFT_OUT)) * self.scale
        if reach > _MOST_STEPS * step:
            raise NoClosedForm(
                f"scale={self.scale:g} and {self.answer_scale:g} of the answers' noise are too far"
                " apart for exact probabilities: simulate, or take scales within a factor of 1,000"
            )
        cuts = np.unique(np.clip(np.append(self.margins, (-reach, 0.0, reach)), -reach, reach))
        pieces = [
            np.linspace(a, b, math.ceil((b - a) / step), endpoint=False)
            for a, b in itertools.pairwise(cuts)
        ]
        edges = np.append(np.concatenate(pieces), reach)
        half = np.diff(edges)[:, None] / 2
        nodes, weights = legendre()
        return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
