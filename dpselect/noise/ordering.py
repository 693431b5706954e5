"""Probabilities of the released order: iterated integrals from the highest candidate down.

Let G_1 be the first candidate's sf and G_r(t) the integral of f_r * G_(r-1) from t to infinity: the probability
that the first r candidates come in this order, all above t. The outcome's probability is then the integral of
f_k * G_(k-1) times the F of every candidate not released.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dpselect.noise.base import Noise
from dpselect.noise.grid import NODES, Extent, Grid, build, tail_integral_matrix
from dpselect.noise.numerics import FloatArray, as_floats

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
