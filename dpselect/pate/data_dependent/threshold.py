"""The confident test as a two-outcome release, with GNMax behind it. Theorem P22."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PAD, _ULPS = 1e-14, 1e-15  # on a logarithm of a sum near 1: absolute, and relative to the terms that were added up


def threshold_costs(order: float, threshold: float, sigma: float, teachers: int, behind: float) -> Floats:
    """(teachers + 1,) nats: a test of the largest count v = 0, 1, ... and, if it passes, a release that costs `behind`.

    The largest exact cost over counts within one vote of v, both ways round.

    Args:
        order: above 1.
        threshold: that the largest noisy count must reach.
        sigma: of the test's noise, in votes.
        behind: a bound of the release behind the test, both ways round, in nats.
    """
    above = (np.arange(teachers + 1) - threshold) / sigma
    here = scipy.special.log_ndtr(above), scipy.special.log_ndtr(-above)
    costs = []
    for step in (-1, 0, 1):
        there = np.roll(here[0], step), np.roll(here[1], step)
        costs.append(np.maximum(_divergence(order, here, there, behind), _divergence(order, there, here, behind)))
    costs[0][-1] = costs[2][0] = 0.0  # there is no count beyond the ends
    return np.maximum.reduce(costs)


def _divergence(order: float, p: tuple[Floats, Floats], q: tuple[Floats, Floats], behind: float) -> Floats:
    """From logarithms of the probabilities to pass and to fail, under P and under Q. Rounded up."""
    passed = order * p[0] + (1 - order) * q[0] + (order - 1) * behind
    failed = order * p[1] + (1 - order) * q[1]
    total = np.logaddexp(passed, failed)
    sizes = np.exp(passed - total) * (np.abs(order * p[0]) + np.abs(order * q[0]) + order * behind)
    sizes += np.exp(failed - total) * (np.abs(order * p[1]) + np.abs(order * q[1]))
    return np.maximum(total + _PAD + _ULPS * sizes, 0.0) / (order - 1) * (1 + 1e-14)
