"""Exact probability of one set under canonical top-k, from the classes; any number of candidates.

With Gumbel noise a set has probability exp(score / scale) over the sum of size * exp(score / scale) of all classes. For the other
noises it is the integral over z of the set's f/F at z times the product over classes of F^size.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import pairwise

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from dpselect.errors import NoClosedForm
from dpselect.mechanisms.canonical.classes import Classes, TopSet
from dpselect.noise.base import Noise

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = leggauss(16)
_MOST_CLASSES = 50_000
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
    if classes.rows * len(lowest) > _MOST_CLASSES:
        raise NoClosedForm(f"more than {_MOST_CLASSES} classes: with noise other than gumbel, simulate, or use fewer candidates")
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
    for low, high in pairwise(edges.tolist()):
        cuts = np.linspace(low, high, math.ceil((high - low) / step) + 1)
        half = np.diff(cuts) / 2
        z = ((cuts[1:] + cuts[:-1])[:, None] / 2 + half[:, None] * _NODES).ravel()
        own = noise.log_pdf(z - score) - np.maximum(noise.log_cdf(z - score), -700.0)
        values = np.exp(own + _log_all_below(scores, log_sizes, noise, z))
        total += float((values.reshape(-1, len(_NODES)) * _WEIGHTS).sum(axis=1) @ half)
    return total
