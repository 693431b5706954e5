"""Comparisons with one noisy threshold, drawn: the sampling side of the sparse vector technique."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.base import Positions
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler
from dpselect.scores import Numbers

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LARGEST = 2.0**53  # beyond it a float64 is no longer every integer


def margins(scores: Numbers, threshold: float) -> Floats:
    """Scores minus the threshold in float64, for laws; scores are clamped to +-2^53, beyond which float64 skips integers."""
    return np.clip(scores, -_LARGEST, _LARGEST).astype(np.float64) - threshold


def passing(scores: Numbers, threshold: float, noise: Noise, scale: float, answer_scale: float, source: Sampler) -> Flags:
    """(rows, m) which scores pass, exactly: score + answer_scale * noise > threshold + scale * noise of the row's threshold."""
    return source.passing(scores, noise, scale, answer_scale, minus=[np.array([[threshold]])])


def first(flags: Flags, most: int) -> Positions:
    """(rows, min(most, m)) positions of the first `most` set flags of every row, -1 where there are fewer."""
    place = np.cumsum(flags, axis=1)
    row, column = np.nonzero(flags & (place <= most))
    indices = np.full((len(flags), min(most, flags.shape[1])), -1, dtype=np.int64)
    indices[row, place[row, column] - 1] = column
    return indices
