"""Adaptive Gauss-Legendre quadrature: pieces between the noisy candidates' kinks, halved until two levels agree.

Everything is in units of the noise scale. A node is an offset from one candidate's score (its anchor), never
a position, so that node minus score keeps its relative accuracy next to scores 1e3 units below the largest.

The range is cut where the log-concave integrands have fallen by a factor of about exp(-42) from their peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import FloatArray, Noise, QuadratureError

NODES: Final = 16
# Beyond this many units between neighbours in rank a swap has probability zero in doubles, for every member.
GAP_CAP: Final = 2000.0
_DECAY: Final = 42.0
_UNIT_NODES, _UNIT_WEIGHTS = np.polynomial.legendre.leggauss(NODES)
_FRACTIONS: Final = 0.5 + 0.5 * _UNIT_NODES
_SHARES: Final = 0.5 * _UNIT_WEIGHTS


class Extent(NamedTuple):
    """How far, in noise units, the nodes reach around the candidates, and from which rank on."""

    left: float
    """Reach below the lowest candidate; 0 where the support is bounded below."""
    right: float
    """Reach above the highest candidate."""
    window: float
    """Reach around every candidate within a wide gap; what lies between two windows is flat or negligible."""
    first: int
    """Ascending rank of the candidate below which no integrand has mass."""


class Span(NamedTuple):
    """An interval per row, cut into `pieces` equal pieces."""

    anchor: int
    start: FloatArray
    length: FloatArray
    pieces: int


class Grid(NamedTuple):
    """N nodes per row: anchor (N,), offset and weight (rows, N), ascending in position."""

    anchor: NDArray[np.intp]
    offset: FloatArray
    weight: FloatArray


def extent(noise: Noise, candidates: int, k: int, *, iterated: bool) -> Extent:
    """The extent that serves all top-k outcomes of that many candidates, or their iterated integrals."""
    reach = _DECAY + math.log(candidates)
    bounded = noise.lower > -math.inf
    # A set's integrand falls to the left at least as fast as pdf times cdf; an iterated one only as the pdf.
    depth = reach if iterated else 0.5 * reach
    left = 0.0 if bounded else -float(noise.log_quantile(-depth))
    # One-sided noise never moves the k-th largest noisy score below the k-th largest score.
    first = candidates - k if bounded else 0
    return Extent(left, float(noise.log_isf(-reach)), math.inf if iterated else reach, first)


def differences(scores: FloatArray, scale: float) -> FloatArray:
    """(score a - score j) / scale at [row, a, j], from (rows, m) ascending scores; wide gaps are capped.

    Differences that span no wide gap are those of the scores themselves, exact to one rounding each.
    """
    with np.errstate(over="ignore"):
        exact = (scores[:, :, None] - scores[:, None, :]) / scale
        gaps = np.diff(scores, axis=1) / scale
    cluster, position = np.zeros_like(scores), np.zeros_like(scores)
    np.cumsum(gaps > GAP_CAP, axis=1, out=cluster[:, 1:])
    np.cumsum(np.minimum(gaps, GAP_CAP), axis=1, out=position[:, 1:])
    together = cluster[:, :, None] == cluster[:, None, :]
    return np.where(together, exact, position[:, :, None] - position[:, None, :])


def build(gaps: FloatArray, reach: Extent, step: float) -> Grid:
    """The nodes for rows with these (rows, m-1) gaps between neighbours in rank; pieces of at most `step`."""
    rows, count = gaps.shape
    spans = [_tail(0, -reach.left, reach.left, rows, step)] if reach.left else []
    for rank in range(reach.first, count):
        spans += _gap_spans(rank, gaps[:, rank], reach.window, step)
    spans.append(_tail(count, 0.0, reach.right, rows, step))
    placed = [_place(span) for span in spans if span.pieces]
    anchor, offset, weight = zip(*placed, strict=True)
    return Grid(np.concatenate(anchor), np.concatenate(offset, axis=1), np.concatenate(weight, axis=1))


def _tail(anchor: int, start: float, length: float, rows: int, step: float) -> Span:
    return Span(anchor, np.full(rows, start), np.full(rows, length), math.ceil(length / step))


def _gap_spans(rank: int, gap: FloatArray, window: float, step: float) -> list[Span]:
    widest = float(gap.max())
    if widest <= 2.0 * window:
        return [Span(rank, np.zeros_like(gap), gap, math.ceil(widest / step))]
    near = np.minimum(window, 0.5 * gap)
    pieces = math.ceil(window / step)
    return [
        Span(rank, np.zeros_like(gap), near, pieces),
        Span(rank, near, gap - 2.0 * near, 1),
        Span(rank + 1, -near, near, pieces),
    ]


def _place(span: Span) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    fraction = ((np.arange(span.pieces)[:, None] + _FRACTIONS) / span.pieces).ravel()
    share = np.tile(_SHARES / span.pieces, span.pieces)
    offset = span.start[:, None] + span.length[:, None] * fraction
    return np.full(fraction.size, span.anchor, dtype=np.intp), offset, span.length[:, None] * share


def integrals_above(integrand: FloatArray, pieces: FloatArray, length: FloatArray) -> FloatArray:
    """(pieces, NODES) the integral from every node on, from the values there, the pieces' own integrals and their lengths."""
    later = np.append(np.cumsum(pieces[:0:-1])[::-1], 0.0)
    return np.asarray(length[:, None] * (integrand @ _TAILS.T) + later[:, None])


def _tail_integral_matrix() -> FloatArray:
    """(NODES, NODES): values at a piece's nodes -> integrals from each node to its end, per unit length.

    Exact for the interpolating polynomial: with P_n the Legendre polynomials, P_n integrates from x to 1 to
    (P_(n-1)(x) - P_(n+1)(x)) / (2n + 1), and the rule itself yields the Legendre coefficients.
    """
    legendre = np.polynomial.legendre.legvander(_UNIT_NODES, NODES)
    before = np.hstack([np.ones((NODES, 1)), legendre[:, : NODES - 1]])
    tails = before - legendre[:, 1:]
    return np.asarray(0.25 * tails @ (legendre[:, :NODES] * _UNIT_WEIGHTS[:, None]).T)


_TAILS: Final = _tail_integral_matrix()


# Refinement until two levels agree.

ABSOLUTE: Final = 1e-13
RELATIVE: Final = 1e-11
_NEGLIGIBLE: Final = 1e-290  # below this, doubles lose relative accuracy to underflow
_LEVELS: Final = 6
_BLOCK: Final = 1 << 17  # elements of one (candidates or outcomes, rows, nodes) array

Kernel = Callable[[Noise, FloatArray], FloatArray]
"""(noise, z) -> integrands of shape (outcomes, rows, nodes), at z[j] = node minus score j of shape (m, rows, nodes)."""
Level = Callable[[float, NDArray[np.intp]], FloatArray]
"""(step, rows) -> probabilities of shape (outcomes, rows)."""


def refine(level: Level, rows: int, step: float) -> FloatArray:
    """Halve the step, row by row, until two levels agree to 1e-13 absolute and 1e-11 relative; the finer counts.

    Once the pieces resolve an integrand, a halving divides the error by 2**16 or more, so the returned level
    is far closer to the truth than to the coarser one.
    Raises `QuadratureError` when six halvings do not suffice.
    """
    pending = np.arange(rows)
    coarse = level(step, pending)
    result = np.empty_like(coarse)
    for _ in range(_LEVELS):
        step *= 0.5
        fine = level(step, pending)
        settled = _agree(coarse, fine)
        result[:, pending[settled]] = fine[:, settled]
        pending, coarse = pending[~settled], fine[:, ~settled]
        if not pending.size:
            return np.minimum(result, 1.0)
    raise QuadratureError(
        f"quadrature: {pending.size} of {rows} score vectors did not settle to {ABSOLUTE:g} within {_LEVELS} "
        "halvings of the step; use fewer candidates"
    )


def _agree(coarse: FloatArray, fine: FloatArray) -> NDArray[np.bool_]:
    gap = np.abs(fine - coarse)
    return np.asarray(((gap <= ABSOLUTE) & (gap <= RELATIVE * fine + _NEGLIGIBLE)).all(axis=0))


def outcome_integrals(noise: Noise, shift: FloatArray, reach: Extent, kernel: Kernel, outcomes: int, step: float) -> FloatArray:
    """Integrals (outcomes, rows) of a kernel, given the (rows, m, m) score differences."""
    grid = build(np.diagonal(shift, offset=-1, axis1=1, axis2=2), reach, step)
    by_item = np.moveaxis(shift, 2, 0)
    rows, candidates, _ = shift.shape
    block = max(1, _BLOCK // (rows * max(candidates, outcomes)))
    parts = []
    for start in range(0, grid.anchor.size, block):
        anchor, offset, weight = (part[..., start : start + block] for part in grid)
        values = kernel(noise, by_item[:, :, anchor] + offset)
        parts.append(np.einsum("orn,rn->or", values, weight))
    return np.asarray(np.sum(parts, axis=0))
