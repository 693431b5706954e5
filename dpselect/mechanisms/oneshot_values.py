"""Noisy values of selected candidates, with noise of their own."""

from __future__ import annotations

import math

import numpy as np

from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Selection

_LARGEST = 2.0**53  # beyond it a float64 is no longer every integer
_STEPS = 1024  # grid points in one unit of scale


def with_values(selection: Selection, scores: Scores, scale: float, source: Sampler) -> Selection:
    """`selection` with the scores of its candidates plus fresh Laplace noise, in the order of its indices. Theorem M3.

    Values are clamped to +-2^53, which no sensitivity notices, and the noisy ones rounded to a public grid of at most
    scale/1024: the low bits of a float64 sum would show the noise (Mironov 2012).
    """
    exact = scores.dense()[list(selection.indices)].astype(np.float64).clip(-_LARGEST, _LARGEST)
    noisy = exact + scale * source.noise(by_name("laplace"), len(exact))
    grid = 2.0 ** math.floor(math.log2(scale / _STEPS))
    return selection.model_copy(update={"values": tuple((np.rint(noisy / grid) * grid).tolist())})
