"""Noisy values of selected candidates, with noise of their own."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

from dpselect.noise import by_name
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection

_LARGEST = 2**53  # beyond it a float64 is no longer every integer
_LEAST_EXPONENT = -1074  # of the smallest float64
_STEPS_EXPONENT = 10  # 1024 grid points or more in one unit of scale


def with_values(selection: Selection, scores: Scores, scale: float, source: Sampler) -> Selection:
    """`selection` with the scores of its candidates plus fresh Laplace noise, in the order of its indices. Theorem M3.

    Values are clamped to +-2^53, which no sensitivity notices, and the noisy ones rounded to a public grid of at most
    scale/1024, exactly (Theorem X7): the low bits of a float64 sum would show the noise (Mironov 2012).
    """
    held = _held(scores, selection.indices).clip(-_LARGEST, _LARGEST)
    grid = 2.0 ** max(math.frexp(scale)[1] - 1 - _STEPS_EXPONENT, _LEAST_EXPONENT)
    noisy = source.rounded(held, by_name("laplace"), scale, grid)
    return selection.model_copy(update={"values": tuple(noisy.tolist())})


def _held(scores: Scores, positions: Sequence[int]) -> Numbers:
    """The scores at these positions; grouped ones are not expanded."""
    if scores.multiplicities is None:
        return scores.values[list(positions)]
    ends = list(itertools.accumulate(scores.multiplicities.tolist()))
    return scores.values[[bisect.bisect_right(ends, position) for position in positions]]
