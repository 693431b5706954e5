"""Rank centrality: a random walk that moves from an item to those that beat it. Theorems K1 and K3."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpselect.ranking.comparisons import Comparisons

Floats = NDArray[np.float64]

_SETTLED = 1e-12  # the walk stops when its start weighs no more than this


def transition(comparisons: Comparisons, normaliser: float) -> Any:
    """(m, m) sparse row-stochastic P: from i to j != i with the share of comparisons that j won against i, over `normaliser`.

    The normaliser has to be at least `largest_degree`.
    """
    shares = _shares(comparisons.wins(), comparisons.graph())
    stay = 1 - np.asarray(shares.sum(axis=1)).ravel() / normaliser
    return scipy.sparse.csr_array(shares / normaliser + scipy.sparse.diags_array(np.maximum(stay, 0.0)))


def _shares(wins: Any, total: Any) -> Any:
    inverse = total.copy()
    inverse.data = 1 / inverse.data
    return scipy.sparse.csr_array(wins.multiply(inverse))


def walk(matrix: Any, steps: int) -> Floats:
    """(m,) where a walk of so many steps ends that starts anywhere with equal chance."""
    backwards = scipy.sparse.csr_array(matrix.T)
    place = np.full(matrix.shape[0], 1 / matrix.shape[0])
    for _ in range(steps):
        place = backwards @ place
        place /= place.sum()
    return place


def steps_for(ergodicity: float) -> int:
    """After how many steps the walk is within 1e-12 of its stationary distribution, in l1, if tau_1 <= ergodicity."""
    return 1 if ergodicity <= _SETTLED else math.ceil(math.log(_SETTLED / 2) / math.log(ergodicity))


def ergodicity_coefficient(matrix: Any) -> float:
    """tau_1(P): half the largest l1 distance between two rows."""
    rows, largest = matrix.toarray(), 0.0
    for i, row in enumerate(rows):
        largest = max(largest, 0.5 * float(np.abs(rows[i + 1 :] - row).sum(axis=1).max(initial=0.0)))
        if largest >= 1:
            break
    return min(1.0, largest)
