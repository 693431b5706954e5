"""Bounds on half the noisy scores of sets; halves, because scores at both ends of float64 would overflow. Theorem M9."""

from __future__ import annotations

import numpy as np

from dpselect.sampling.heights import Floats

_ROUNDING = 2.0**-50  # of the terms of a sum: above its roundings and those that its terms have had
_TINY = 2.0**-1000  # more than any underflow

Bounds = tuple[Floats, Floats]


def half_scores(least: Floats, missing: Floats, gamma: float) -> Bounds:
    """Bounds on gamma * least - (1 - gamma) * missing, for heights <= 0 that have been rounded once."""
    middle = gamma * least - (1 - gamma) * missing
    slack = _ROUNDING * (gamma * np.abs(least) + (1 - gamma) * np.abs(missing)) + _TINY
    return middle - slack, middle + slack


def totals(scores: Bounds, noise: Bounds, scale: float) -> Bounds:
    """Bounds on half of score + scale * noise, from those on half scores and on the noise."""
    half = 0.5 * scale
    with np.errstate(over="ignore", invalid="ignore"):
        (low, high), (least, most) = scores, (half * noise[0], half * noise[1])
        least = low + least - _ROUNDING * (np.abs(low) + np.abs(least))
        most = high + most + _ROUNDING * (np.abs(high) + np.abs(most))
    # Beyond the floats nothing is bounded.
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
